/* test_plan_hisparse.c  What HiSparse needs, and how its groups are packed (kv-core 7). Rows 76 and
 * 77 are in test_plan_rows_figures.c. */
#include "plan_fixture.h"

/* A sparse layer of 64 tokens of `bytes` bytes, and an indexer layer. */
static pkv_spec sparse_of(uint64_t bytes, bool leader)
{
    pkv_spec spec = shaped(PKV_KIND_MLA, 64, 1, 576, PKV_DTYPE_UINT8);
    spec.state_content_bytes = bytes;
    spec.is_index_group_leader = leader;
    return finished(spec);
}

static pkv_spec indexer_of(uint64_t bytes)
{
    pkv_spec spec = shaped(PKV_KIND_MLA, 64, 1, bytes, PKV_DTYPE_UINT8);
    spec.cache_role = PKV_ROLE_INDEXER;
    return finished(spec);
}

static pkv_plan_params sparse_params(const pkv_spec *layers, size_t n)
{
    pkv_plan_params params = params_of(layers, n, GIB, 1024);
    params.layout = PKV_LAYOUT_BLHNC;
    params.hisparse = 1;
    params.hisparse_host_bytes = (uint64_t)GIB;
    return params;
}

static void units_share_a_hot_group_up_to_the_indexers_page(void **state)
{
    (void)state;
    /* units of 100, 100 + 100, 100 bytes a token; the indexer has 300, then 299 */
    pkv_spec layers[] = {sparse_of(100, true), sparse_of(100, true), sparse_of(100, false),
                         sparse_of(100, true), indexer_of(300)};
    pkv_plan_params params = sparse_params(layers, 5);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1 2 3)(4)(0 1 2)(3)(0 1 2)(3)");
    pkv_plan_destroy(plan);
    layers[4] = indexer_of(299); /* a unit is never split */
    plan = plan_of(&params);
    assert_groups(plan, "(0 1 2 3)(4)(0)(1 2)(3)(0)(1 2)(3)");
    pkv_plan_destroy(plan);
}

static void the_first_layer_begins_a_unit_leader_or_not(void **state)
{
    (void)state;
    const pkv_spec layers[] = {sparse_of(100, false), sparse_of(100, false), indexer_of(50)};
    const pkv_plan_params params = sparse_params(layers, 3);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 1)(2)(0 1)(0 1)"); /* wider than the indexer, but one unit */
    pkv_plan_destroy(plan);
}

static void other_layers_are_grouped_as_ever_behind_them(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed_of(128, 64, 1), sparse_of(656, true), indexer_of(132)};
    const pkv_plan_params params = sparse_params(layers, 3);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(1)(2)(1)(1)(0)");
    assert_int_equal(pkv_plan_group_at(plan, 0, 4)->kind, PKV_KIND_SLIDING_WINDOW);
    pkv_plan_destroy(plan);
}

static void both_roles_and_a_version_that_can_are_needed(void **state)
{
    (void)state;
    pkv_spec layers[] = {sparse_of(656, true), indexer_of(132)};
    pkv_plan_params params = sparse_params(layers, 1);
    assert_no_plan(&params, PKV_E_VALUE, "hisparse");
    params.layers = layers + 1;
    assert_no_plan(&params, PKV_E_VALUE, "hisparse");
    params = sparse_params(layers, 2);
    layers[0].model_version = "deepseek_v4";
    assert_no_plan(&params, PKV_E_VALUE, "deepseek_v4");
    const pkv_spec plain = full();
    params = sparse_params(&plain, 1);
    assert_no_plan(&params, PKV_E_VALUE, "hisparse");
}

static void pages_of_one_hot_group_are_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {sparse_of(656, true), sparse_of(100, false), indexer_of(132)};
    const pkv_plan_params params = sparse_params(layers, 3);
    assert_no_plan(&params, PKV_E_VALUE, "hisparse");
}

static void rows_cover_the_queries_of_a_step_and_fit_16_bits(void **state)
{
    (void)state;
    const pkv_spec layers[] = {sparse_of(656, true), indexer_of(132)};
    pkv_plan_params params = sparse_params(layers, 2);
    params.draft_tokens = 2; /* 3 queries of top-k 2048: at least 6144 rows, 8192 by default */
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(group_spec(plan, 3)->blocks_per_request, 8192 / 64);
    pkv_plan_destroy(plan);
    params.hisparse_device_rows = 6144;
    plan = plan_of(&params);
    assert_int_equal(group_spec(plan, 3)->blocks_per_request, 6144 / 64);
    pkv_plan_destroy(plan);
    params.hisparse_device_rows = 6143;
    assert_no_plan(&params, PKV_E_VALUE, "6143");
    params.hisparse_device_rows = 32768;
    pkv_plan_destroy(plan_of(&params));
    params.hisparse_device_rows = 32769;
    assert_no_plan(&params, PKV_E_VALUE, "32769");
}

static void the_widest_top_k_of_the_layers_decides(void **state)
{
    (void)state;
    pkv_spec layers[] = {sparse_of(656, true), indexer_of(132)};
    pkv_plan_params params = sparse_params(layers, 2);
    layers[0].topk_buffer_width = 512;
    params.hisparse_index_topk = 4096; /* for layers that name none */
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(group_spec(plan, 3)->blocks_per_request, 2 * 512 / 64);
    pkv_plan_destroy(plan);
}

static void the_host_holds_a_request_the_null_block_and_a_copy(void **state)
{
    (void)state;
    const pkv_spec layers[] = {sparse_of(656, true), indexer_of(132)};
    pkv_plan_params params = sparse_params(layers, 2);
    const uint64_t page = 64 * 656;
    params.hisparse_host_bytes = (1024 / 64 + 2) * page;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->host_num_blocks, 18);
    pkv_plan_destroy(plan);
    params.hisparse_host_bytes--;
    assert_no_plan(&params, PKV_E_VALUE, "host_bytes");
    params.auto_fit = 1; /* a shorter length fits */
    plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->max_model_len, 15 * 64);
    pkv_plan_destroy(plan);
}

static void steady_requests_keep_two_resident_blocks(void **state)
{
    (void)state;
    const pkv_spec layers[] = {sparse_of(656, true), indexer_of(132)};
    pkv_plan_params params = sparse_params(layers, 2);
    params.num_blocks_override = 1000;
    pkv_plan *plan = plan_of(&params);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    /* 16 indexer, 16 resident, 64 hot; steady 16 + 2 + 64; the host has 25575 / 16 requests */
    assert_int_equal(s->blocks_per_request, 96);
    assert_near(s->max_concurrency, 1000.0 / 96, 1e-9);
    assert_near(s->steady_concurrency, 1 + (1000.0 - 96) / 82, 1e-9);
    pkv_plan_destroy(plan);
}

static void the_earlier_revision_keeps_the_whole_length_resident(void **state)
{
    (void)state;
    const pkv_spec layers[] = {sparse_of(656, true), indexer_of(132)};
    pkv_plan_params params = sparse_params(layers, 2);
    params.max_num_batched_tokens = 64; /* one block in flight */
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->blocks_per_request, 16 + 1 + 64);
    pkv_plan_destroy(plan);
    params.revision = PKV_REVISION_SEED;
    plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->blocks_per_request, 16 + 16 + 64);
    pkv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_share_a_hot_group_up_to_the_indexers_page),
        cmocka_unit_test(the_first_layer_begins_a_unit_leader_or_not),
        cmocka_unit_test(other_layers_are_grouped_as_ever_behind_them),
        cmocka_unit_test(both_roles_and_a_version_that_can_are_needed),
        cmocka_unit_test(pages_of_one_hot_group_are_equal),
        cmocka_unit_test(rows_cover_the_queries_of_a_step_and_fit_16_bits),
        cmocka_unit_test(the_widest_top_k_of_the_layers_decides),
        cmocka_unit_test(the_host_holds_a_request_the_null_block_and_a_copy),
        cmocka_unit_test(steady_requests_keep_two_resident_blocks),
        cmocka_unit_test(the_earlier_revision_keeps_the_whole_length_resident),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
