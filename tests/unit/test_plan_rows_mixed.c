/* test_plan_rows_mixed.c  Rows 60 to 64 and 73 to 75 of the reference's cases (kv-core 9.2): pages
 * of several sizes, promotion, and models of rings or of nothing. */
#include "plan_fixture.h"

/* ---- rows 60 to 63: pages of two sizes; a0,i0,a1,i1 ---- */

/* a: 65536 bytes. i: 1 head of 64: 16 x (64 + 64) x 2 = 4096 bytes. s: 131072 bytes. */
static void fill_mixed(pkv_spec layers[8])
{
    const pkv_spec a = full(), s = windowed_of(128, 32, 8);
    const pkv_spec i = finished(shaped(PKV_KIND_FULL, 16, 1, 64, PKV_DTYPE_BFLOAT16));
    const pkv_spec order[] = {a, i, a, i, s, s, s, s};
    memcpy(layers, order, sizeof order);
}

static void row_60_a_group_of_two_widths_lies_layer_by_layer(void **state)
{
    (void)state;
    pkv_spec layers[8];
    fill_mixed(layers);
    pkv_plan_params params = params_of(layers, 4, GIB, 1024);
    params.layout = PKV_LAYOUT_LBNHC;
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1 2 3)");
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 7710);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->n_tensors, 2);
    assert_tensor(plan, 0, 0, 505282560, 65536);
    assert_tensor(plan, 1, 1010565120, 31580160, 4096);
    pkv_plan_destroy(plan);
}

static void row_61_the_same_group_lies_block_by_block(void **state)
{
    (void)state;
    pkv_spec layers[8];
    fill_mixed(layers);
    pkv_plan_params params = params_of(layers, 4, GIB, 1024);
    params.layout = PKV_LAYOUT_BLHNC;
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1 2 3)");
    assert_tensor(plan, 0, 0, 65536, 139264);
    assert_tensor(plan, 1, 131072, 4096, 139264);
    pkv_plan_destroy(plan);
}

static void row_62_pages_of_other_types_are_packed_beside_them(void **state)
{
    (void)state;
    pkv_spec layers[8];
    fill_mixed(layers);
    pkv_plan_params params = params_of(layers, 8, GIB, 1024);
    params.layout = PKV_LAYOUT_BLHNC;
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1 2 3)(4 6)(5 7)"); /* (a0,i0,a1,i1)(s0,s2)(s1,s3) */
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 4096);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, 262144);
    pkv_plan_destroy(plan);
}

/* Where layers lie outermost the planner makes all pages alike before it makes a second group, so
 * only HiSparse comes to the check of the row itself. (Sharded beside whole attention is the other
 * rule that asks for the block outermost.) */
static void row_63_mixed_pages_in_two_groups_need_the_block_outermost(void **state)
{
    (void)state;
    pkv_spec sparse = latent(64, 576), indexer = shaped(PKV_KIND_MLA, 64, 1, 132, PKV_DTYPE_UINT8);
    indexer.cache_role = PKV_ROLE_INDEXER;
    const pkv_spec layers[] = {sparse, finished(indexer)};
    pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    params.hisparse = 1;
    params.hisparse_host_bytes = (uint64_t)GIB;
    params.layout = PKV_LAYOUT_LBNHC;
    assert_no_plan(&params, PKV_E_VALUE, "LBNHC");
    params.layout = PKV_LAYOUT_BLHNC;
    pkv_plan_destroy(plan_of(&params));

    pkv_spec whole = full_of(16, 4);
    whole.dcp_sharded = 0;
    const pkv_spec sharing[] = {full(), finished(whole)};
    params = params_of(sharing, 2, GIB, 1024);
    params.layout = PKV_LAYOUT_LBNHC;
    assert_no_plan(&params, PKV_E_VALUE, "LBNHC");
    params.layout = PKV_LAYOUT_AUTO;
    pkv_plan *plan = plan_of(&params);
    assert_true(pkv_kv_layout_is_block_outermost(pkv_plan_get_summary(plan)->layout));
    pkv_plan_destroy(plan);
}

/* ---- rows 64 and 73 to 75 ---- */

static void row_64_without_hybrid_planning_windows_are_planned_like_full_layers(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(128)};
    pkv_plan_params params = params_of(layers, 2, GIB, 8192);
    params.enable_hybrid = 0;
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1)");
    assert_int_equal(pkv_plan_group_at(plan, 0, 0)->kind, PKV_KIND_FULL);
    assert_int_equal(group_spec(plan, 0)->sliding_window, 128); /* what is computed stays */
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 8192);
    pkv_plan_destroy(plan);
}

static void row_73_a_model_without_a_cache_has_the_null_block(void **state)
{
    (void)state;
    const pkv_plan_params params = params_of(NULL, 0, 0, 1024);
    pkv_plan *plan = plan_of(&params);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    assert_int_equal(s->num_blocks, 1);
    assert_int_equal(s->tokens, 0);
    assert_near(s->max_concurrency, 0, 0);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->n_tensors, 0);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, 0);
    assert_int_equal(n_groups(plan), 0);
    pkv_plan_destroy(plan);
}

static void row_74_rings_of_one_page_share_the_blocks(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), full(), ring_of(16, 2048), ring_of(16, 2048)};
    const pkv_plan_params params = params_of(layers, 4, GIB, 8192);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1)(2 3)");
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 8192);
    assert_tensor(plan, 0, 0, 8192 * 65536, 65536);
    assert_tensor(plan, 1, 0, 8192 * 65536, 65536);
    pkv_plan_destroy(plan);
}

static void row_75_latent_and_windowed_pages_fall_back_to_one_full_group(void **state)
{
    (void)state;
    const pkv_spec layers[] = {latent(16, 576), windowed_of(128, 16, 3)};
    const pkv_plan_params params = params_of(layers, 2, GIB, 8192);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1)");
    assert_true(pkv_plan_group_at(plan, 0, 0)->uniform_type);
    assert_int_equal(pkv_plan_group_at(plan, 0, 0)->kind, PKV_KIND_FULL);
    assert_int_equal(pkv_plan_group_at(plan, 0, 0)->page_bytes, 18432 + 24576);
    pkv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_60_a_group_of_two_widths_lies_layer_by_layer),
        cmocka_unit_test(row_61_the_same_group_lies_block_by_block),
        cmocka_unit_test(row_62_pages_of_other_types_are_packed_beside_them),
        cmocka_unit_test(row_63_mixed_pages_in_two_groups_need_the_block_outermost),
        cmocka_unit_test(row_64_without_hybrid_planning_windows_are_planned_like_full_layers),
        cmocka_unit_test(row_73_a_model_without_a_cache_has_the_null_block),
        cmocka_unit_test(row_74_rings_of_one_page_share_the_blocks),
        cmocka_unit_test(row_75_latent_and_windowed_pages_fall_back_to_one_full_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
