/* test_plan_rows.c  Rows 46 to 59 of the reference's cases (kv-core 9.2): groups, blocks, budgets.
 * Rows 60 to 64 and 73 to 75 are in test_plan_rows_mixed.c, 65 to 72, 76 and 77 in
 * test_plan_rows_figures.c.
 *
 * Where a row names no budget or length, the test chooses one that fits. */
#include "plan_fixture.h"

#define BLOCK INT64_C(131072) /* two pages of 65536 bytes */

/* ---- row 46 ---- */

static void row_46_equal_layers_are_one_tensor_of_the_whole_budget(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), full(), full(), full()};
    const pkv_plan_params params = params_of(layers, 4, GIB, 8192);
    pkv_plan *plan = plan_of(&params);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    assert_int_equal(s->layout, PKV_LAYOUT_LBNHC);
    assert_int_equal(s->num_blocks, 4096);
    assert_groups(plan, "(0 1 2 3)");
    assert_int_equal(pkv_plan_worker_at(plan, 0)->n_tensors, 1);
    assert_int_equal(pkv_plan_tensor_at(plan, 0, 0)->size, GIB);
    assert_tensor(plan, 0, 0, 268435456, 65536);
    assert_null(pkv_plan_tensor_at(plan, 0, 1));
    pkv_plan_destroy(plan);
}

/* ---- rows 47 to 49: f0,s0,s1,f1,s2,s3 ---- */

static pkv_plan_params hybrid(pkv_spec layers[6], int64_t blocks)
{
    const pkv_spec f = full(), s = windowed(128);
    const pkv_spec order[] = {f, s, s, f, s, s};
    memcpy(layers, order, sizeof order);
    pkv_plan_params params = params_of(layers, 6, blocks * BLOCK, 1024);
    params.max_num_batched_tokens = 256;
    return params;
}

static void row_47_groups_of_a_hybrid_overlay_each_other(void **state)
{
    (void)state;
    pkv_spec layers[6];
    const pkv_plan_params params = hybrid(layers, 200);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 3)(1 4)(2 5)"); /* (f0,f1)(s0,s2)(s1,s3) */
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 200);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->n_tensors, 3);
    for (uint32_t t = 0; t < 3; t++) {
        assert_tensor(plan, t, 0, 13107200, 65536);
        assert_int_equal(pkv_plan_tensor_at(plan, 0, t)->size, 200 * BLOCK);
    }
    pkv_plan_destroy(plan);
}

static void row_48_concurrency_counts_what_each_group_holds(void **state)
{
    (void)state;
    pkv_spec layers[6];
    const pkv_plan_params params = hybrid(layers, 200);
    pkv_plan *plan = plan_of(&params);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    assert_int_equal(s->blocks_per_request, 64 + 25 + 25);
    assert_near(s->max_concurrency, 1.754386, 5e-7);
    assert_int_equal(s->tokens, 1796);
    pkv_plan_destroy(plan);
}

static void row_49_a_refusal_names_the_longest_length_that_fits(void **state)
{
    (void)state;
    pkv_spec layers[6];
    const pkv_plan_params params = hybrid(layers, 100);
    assert_no_plan(&params, PKV_E_VALUE, " 784 tokens"); /* 49 + 25 + 25 = 99 usable blocks */
    assert_non_null(strstr(pkv_last_error(), "worker 0"));
    assert_non_null(strstr(pkv_last_error(), "13107200"));
    assert_non_null(strstr(pkv_last_error(), "131072"));
}

/* ---- rows 50 and 51: how large groups are ---- */

/* The sizes of the groups of n_full full and then n_windowed windowed layers. */
static void assert_group_sizes(uint32_t n_full, uint32_t n_windowed, const uint32_t *sizes,
                               uint32_t n)
{
    pkv_spec layers[64];
    for (uint32_t i = 0; i < n_full + n_windowed; i++) {
        layers[i] = i < n_full ? full() : windowed(128);
    }
    const pkv_plan_params params = params_of(layers, n_full + n_windowed, 8 * GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(n_groups(plan), n);
    for (uint32_t g = 0; g < n; g++) {
        assert_int_equal(pkv_plan_group_at(plan, 0, g)->n_layers, sizes[g]);
    }
    pkv_plan_destroy(plan);
}

static void row_50_a_slightly_larger_bucket_is_not_split(void **state)
{
    (void)state;
    const uint32_t sizes[] = {13, 12};
    assert_group_sizes(13, 12, sizes, 2);
}

static void row_51_a_much_larger_bucket_is_split(void **state)
{
    (void)state;
    const uint32_t sizes[] = {20, 15, 15}; /* 30 is not below 20 x 1.5 */
    assert_group_sizes(20, 30, sizes, 3);
}

/* ---- row 52: pages of one size ---- */

/* A plan of a full layer and another one, which must have become a page of 65536 bytes. */
static pkv_plan *unified_with(const pkv_spec *other)
{
    const pkv_spec layers[] = {full(), *other};
    const pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0)(1)");
    assert_int_equal(page_of(group_spec(plan, 0)), 65536);
    assert_int_equal(page_of(group_spec(plan, 1)), 65536);
    return plan;
}

static void row_52_a_page_that_divides_the_largest_gets_more_tokens(void **state)
{
    (void)state;
    const pkv_spec half = windowed_of(128, 16, 4);
    pkv_plan *plan = unified_with(&half);
    assert_int_equal(group_spec(plan, 1)->block_size, 32);
    assert_int_equal(group_spec(plan, 1)->page_size_padded, 0);
    pkv_plan_destroy(plan);
}

static void row_52_another_attention_page_is_padded(void **state)
{
    (void)state;
    const pkv_spec three = windowed_of(128, 16, 3);
    pkv_plan *plan = unified_with(&three);
    assert_int_equal(group_spec(plan, 1)->block_size, 16);
    assert_int_equal(group_spec(plan, 1)->page_size_padded, 65536);
    pkv_plan_destroy(plan);
}

static void row_52_a_recurrent_page_is_padded(void **state)
{
    (void)state;
    const pkv_spec mamba = finished(recurrent(16));
    pkv_plan *plan = unified_with(&mamba);
    assert_int_equal(group_spec(plan, 1)->block_size, 16);
    assert_int_equal(group_spec(plan, 1)->page_size_padded, 65536);
    pkv_plan_destroy(plan);
}

/* Of two full kinds with equal blocks the planner makes one uniform-type group before it comes to
 * this. A chunked layer beside them, or another block size, leads there. */
static void row_52_a_latent_page_is_not_padded_to_a_foreign_size(void **state)
{
    (void)state;
    const pkv_spec chunk[] = {full(), latent(16, 575), chunked(256)};
    pkv_plan_params params = params_of(chunk, 3, GIB, 1024);
    assert_no_plan(&params, PKV_E_NOTIMPL, "18400"); /* 16 x 575 x 2 */
    const pkv_spec other[] = {full(), latent(32, 575)};
    params = params_of(other, 2, GIB, 1024);
    assert_no_plan(&params, PKV_E_NOTIMPL, "36800");
}

/* ---- rows 53 to 56: one full layer ---- */

static pkv_plan_params one_layer(const pkv_spec *layer, int64_t blocks, uint64_t len)
{
    return params_of(layer, 1, blocks * 65536, len);
}

static void row_53_auto_fit_leaves_the_null_block_out(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = one_layer(&layer, 11, 8192);
    params.auto_fit = 1;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->max_model_len, 160);
    assert_int_equal(pkv_plan_get_limits(plan)->max_model_len, 160);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 11);
    pkv_plan_destroy(plan);
}

static void row_54_too_small_budgets_are_refused_with_their_numbers(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = one_layer(&layer, 11, 8192);
    assert_no_plan(&params, PKV_E_VALUE, " 160 tokens");
    assert_non_null(strstr(pkv_last_error(), "worker 0"));
    assert_non_null(strstr(pkv_last_error(), "available_bytes 720896"));
    params = one_layer(&layer, 1, 8192);
    params.auto_fit = 1;
    assert_no_plan(&params, PKV_E_VALUE, "available_bytes 65536");
    assert_non_null(strstr(pkv_last_error(), "worker 0"));
    params = one_layer(&layer, 0, 8192);
    assert_no_plan(&params, PKV_E_VALUE, "available_bytes 0");
    assert_non_null(strstr(pkv_last_error(), "one block is 65536 bytes"));
}

static void row_55_a_request_of_512_blocks_needs_513(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = one_layer(&layer, 513, 8192);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 513);
    assert_near(pkv_plan_get_summary(plan)->max_concurrency, 513.0 / 512, 1e-12);
    pkv_plan_destroy(plan);
    params = one_layer(&layer, 512, 8192);
    assert_no_plan(&params, PKV_E_VALUE, " 8176 tokens"); /* 511 x 16 */
}

static void row_56_an_override_replaces_the_budget_and_is_checked_like_it(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    pkv_plan_params params = one_layer(&layer, 0, 8192);
    params.num_blocks_override = 600;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 600);
    pkv_plan_destroy(plan);
    params.available_bytes = 100 * GIB;
    params.num_blocks_override = 20;
    assert_no_plan(&params, PKV_E_VALUE, " 304 tokens"); /* 19 x 16 */
}

/* ---- rows 57 to 59 ---- */

static void row_57_every_stage_has_the_blocks_of_the_poorest(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), full(), full()};
    const uint32_t first[] = {0, 1}, second[] = {2};
    const pkv_plan_worker workers[] = {
        {.available_bytes = 1200 * 65536, .layers = first, .n_layers = 2},
        {.available_bytes = 700 * 65536, .layers = second, .n_layers = 1}};
    pkv_plan_params params = params_of(layers, 3, 0, 1024);
    params.workers = workers;
    params.n_workers = 2;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->n_workers, 2);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 600);
    assert_groups_on(plan, 0, "(0 1)");
    assert_groups_on(plan, 1, "(2)");
    assert_int_equal(pkv_plan_tensor_at(plan, 0, 0)->size, 78643200);
    assert_int_equal(pkv_plan_tensor_at(plan, 1, 0)->size, 39321600);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes, 78643200);
    assert_int_equal(pkv_plan_worker_at(plan, 1)->bytes, 39321600);
    assert_null(pkv_plan_worker_at(plan, 2));
    pkv_plan_destroy(plan);
}

static void row_58_the_estimate_adds_up_the_layers(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(1024)};
    const pkv_limits limits = limits_of(1 << 20, 8192);
    uint64_t len;
    assert_ok(pkv_estimate_max_model_len(layers, 2, &limits, 200 * 65536, &len));
    assert_int_equal(len, 1584); /* 99 + 99 + 1 pages */
}

static uint64_t approximate_gcd(uint64_t a, uint64_t b, uint64_t c, uint64_t floor)
{
    const uint64_t values[] = {a, b, c};
    uint64_t d;
    assert_ok(pkv_approximate_gcd(values, c ? 3 : 2, floor, &d));
    return d;
}

static void row_59_the_divisor_with_the_least_padding_is_found(void **state)
{
    (void)state;
    assert_int_equal(approximate_gcd(10, 20, 30, 0), 10);
    assert_int_equal(approximate_gcd(7, 22, 0, 0), 1);
    assert_int_equal(approximate_gcd(12, 13, 0, 0), 1);
    assert_int_equal(approximate_gcd(4, 6, 0, 5), 6);
    /* a floor above all values is the answer (kv-core 2.4) */
    assert_int_equal(approximate_gcd(4, 6, 0, 9), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_46_equal_layers_are_one_tensor_of_the_whole_budget),
        cmocka_unit_test(row_47_groups_of_a_hybrid_overlay_each_other),
        cmocka_unit_test(row_48_concurrency_counts_what_each_group_holds),
        cmocka_unit_test(row_49_a_refusal_names_the_longest_length_that_fits),
        cmocka_unit_test(row_50_a_slightly_larger_bucket_is_not_split),
        cmocka_unit_test(row_51_a_much_larger_bucket_is_split),
        cmocka_unit_test(row_52_a_page_that_divides_the_largest_gets_more_tokens),
        cmocka_unit_test(row_52_another_attention_page_is_padded),
        cmocka_unit_test(row_52_a_recurrent_page_is_padded),
        cmocka_unit_test(row_52_a_latent_page_is_not_padded_to_a_foreign_size),
        cmocka_unit_test(row_53_auto_fit_leaves_the_null_block_out),
        cmocka_unit_test(row_54_too_small_budgets_are_refused_with_their_numbers),
        cmocka_unit_test(row_55_a_request_of_512_blocks_needs_513),
        cmocka_unit_test(row_56_an_override_replaces_the_budget_and_is_checked_like_it),
        cmocka_unit_test(row_57_every_stage_has_the_blocks_of_the_poorest),
        cmocka_unit_test(row_58_the_estimate_adds_up_the_layers),
        cmocka_unit_test(row_59_the_divisor_with_the_least_padding_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
