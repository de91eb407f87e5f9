/* test_plan_field_cases.c  Failures that other projects had (reference/field-cases.md), as far as
 * they are about specs and plans.
 *
 *   1, 2, 5, 6, 9   test_model.c (from a config); 5 and 9 here once more, as plans
 *   3, 4, 7         models that are not read yet
 *   8               test_document.c: layers that share a cache stand beside the plan; configs that
 *                   have them are refused in test_model_config.c
 *   10              test_model_types.c
 *   11 to 18        here; 13's loss as people see it and 16 from a config: tests/cli/ */
#include "plan_fixture.h"

static uint64_t unpadded_of(const pkv_spec *spec)
{
    uint64_t bytes;
    assert_ok(pkv_spec_unpadded_page_bytes(spec, &bytes));
    return bytes;
}

/* A layer of so many heads, of one byte or two per element. */
static pkv_spec layer_of(uint32_t kind, uint64_t heads, uint64_t head_size, uint32_t dtype)
{
    pkv_spec spec = shaped(kind, 16, heads, head_size, dtype);
    spec.sliding_window = kind == PKV_KIND_SLIDING_WINDOW ? 128 : 0;
    return finished(spec);
}

/* Full layers and as many with a window of 128, in turn: 8 heads of 64 elements of two bytes. */
static void alternate(pkv_spec *layers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        layers[i] =
            layer_of(i % 2 ? PKV_KIND_SLIDING_WINDOW : PKV_KIND_FULL, 8, 64, PKV_DTYPE_BFLOAT16);
    }
}

/* ---- case 1 ---- */

static void case_1_eight_heads_of_256_cost_8192_bytes_a_token(void **state)
{
    (void)state;
    const pkv_spec spec = layer_of(PKV_KIND_FULL, 8, 256, PKV_DTYPE_BFLOAT16);
    assert_int_equal(page_of(&spec) / 16, 8192);
}

/* ---- case 5 ---- */

static void case_5_every_layer_costs_a_token_and_so_a_pool_holds_fewer(void **state)
{
    (void)state;
    pkv_spec layers[36];
    uint64_t token = 0;
    alternate(layers, 36);
    for (int i = 0; i < 36; i++) {
        token += page_of(&layers[i]) / 16;
    }
    assert_int_equal(token, 73728);
    /* 5.38 GiB of pool: about 78.4 thousand tokens, as the engine logged */
    pkv_plan_params params = params_of(layers, 36, INT64_C(5776731013), 8192);
    params.enable_hybrid = 0;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, 73728 * 16);
    assert_near((double)pkv_plan_get_summary(plan)->tokens, 78400, 100);
    pkv_plan_destroy(plan);
}

/* ---- case 9 ---- */

static void case_9_a_latent_is_kept_once_on_every_rank(void **state)
{
    (void)state;
    pkv_spec layers[61];
    for (int i = 0; i < 61; i++) {
        layers[i] = latent(16, 512 + 64);
        layers[i].max_tp_shards = 1;
    }
    pkv_plan_params params = params_of(layers, 61, GIB, 1024);
    params.tp = 8;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, 70272 * 16);
    assert_int_equal(pkv_plan_get_summary(plan)->tp_replicas, 8);
    pkv_plan_destroy(plan);
}

/* ---- case 11 ---- */

static void case_11_a_recurrent_page_is_padded_where_attention_gets_more_tokens(void **state)
{
    (void)state;
    pkv_state bytes;
    pkv_spec draft = full_of(16, 16); /* 2P = 131072 */
    draft.is_draft = 1;
    const pkv_spec layers[] = {full(), finished(recurrent_of(16, &bytes, 65536)), draft};
    const pkv_plan_params params = params_of(layers, 3, GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0)(1)(2)");
    for (uint32_t g = 0; g < 3; g++) {
        assert_int_equal(page_of(group_spec(plan, g)), 131072);
    }
    assert_int_equal(group_spec(plan, 0)->block_size, 32);
    assert_int_equal(group_spec(plan, 1)->block_size, 16);
    assert_int_equal(group_spec(plan, 1)->page_size_padded, 131072);
    assert_int_equal(group_spec(plan, 2)->block_size, 16);
    pkv_plan_destroy(plan);
}

/* ---- case 12 ---- */

static void assert_hybrid(uint64_t token_bytes, uint64_t state_bytes, uint64_t wanted)
{
    uint64_t block_size, page;
    assert_ok(pkv_hybrid_block_size(token_bytes, state_bytes, 32, 16, &block_size, &page));
    assert_int_equal(block_size, wanted);
    assert_int_equal(page, wanted * token_bytes);
    assert_true(page >= state_bytes);
}

static void case_12_the_block_of_a_hybrid_depends_on_the_ranks(void **state)
{
    (void)state;
    assert_hybrid(512, 2134016, 4192); /* TP 1: ceil(2134016 / 512) = 4168 */
    assert_hybrid(256, 1067008, 4192); /* TP 2: the same */
    assert_hybrid(256, 533504, 2112);  /* TP 4: 2084 */
}

static void case_12_a_larger_configured_block_stays(void **state)
{
    (void)state;
    uint64_t block_size, page;
    assert_ok(pkv_hybrid_block_size(512, 2134016, 32, 8192, &block_size, &page));
    assert_int_equal(block_size, 8192);
    assert_int_equal(page, 8192 * 512);
}

/* ---- case 13 ---- */

/* 25 windowed layers of 8 heads of 256 and 5 full ones of 2 heads of 512, one byte an element. */
static pkv_plan *plan_with_scales(bool scales)
{
    static pkv_spec layers[30];
    for (int i = 0; i < 30; i++) {
        const bool global = i % 6 == 5;
        layers[i] = layer_of(global ? PKV_KIND_FULL : PKV_KIND_SLIDING_WINDOW, global ? 2 : 8,
                             global ? 512 : 256, PKV_DTYPE_INT8);
        if (scales) {
            assert_ok(pkv_spec_set_cache_dtype(&layers[i], "int8_per_token_head", 0));
        }
    }
    const pkv_plan_params params = params_of(layers, 30, GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    assert_groups(plan, "(0 6 12 18 24)(1 7 13 19 25)(2 8 14 20 26)(3 9 15 21 27)"
                        "(4 10 16 22 28)(5 11 17 23 29)");
    return plan;
}

static void case_13_without_scales_the_smaller_page_divides_the_larger(void **state)
{
    (void)state;
    pkv_plan *plan = plan_with_scales(false);
    assert_int_equal(unpadded_of(group_spec(plan, 0)), 16 * 4096);
    assert_int_equal(group_spec(plan, 5)->block_size, 32);
    assert_int_equal(unpadded_of(group_spec(plan, 5)), 32 * 2048); /* nothing is lost */
    pkv_plan_destroy(plan);
}

static void case_13_scales_inside_the_page_cost_padding_that_the_plan_shows(void **state)
{
    (void)state;
    pkv_plan *plan = plan_with_scales(true);
    assert_int_equal(page_of(group_spec(plan, 0)), 16 * 4160);
    assert_int_equal(unpadded_of(group_spec(plan, 0)), 16 * 4160);
    assert_int_equal(group_spec(plan, 5)->block_size, 16);
    assert_int_equal(page_of(group_spec(plan, 5)), 16 * 4160);
    assert_int_equal(unpadded_of(group_spec(plan, 5)), 16 * 2064); /* the rest is padding */
    pkv_plan_destroy(plan);
}

/* ---- case 14 ---- */

/* A block of one of the 24 layers holds 16 tokens of 2048 bytes. */
static pkv_plan_params reserve(pkv_spec layers[24], bool hybrid, int64_t blocks)
{
    alternate(layers, 24);
    pkv_plan_params params = params_of(layers, 24, blocks * 16 * 2048 * (hybrid ? 12 : 24), 8192);
    params.enable_hybrid = hybrid;
    params.max_num_batched_tokens = 1; /* the case counts windows alone */
    return params;
}

static void case_14_promoted_windows_cost_like_full_layers(void **state)
{
    (void)state;
    pkv_spec layers[24];
    /* 24 x 8192 x 2048 x 32 bytes = 12 GiB hold 32 requests */
    const pkv_plan_params params = reserve(layers, false, 32 * 512);
    assert_int_equal(params.available_bytes, 12 * GIB);
    pkv_plan *plan = plan_of(&params);
    assert_near(pkv_plan_get_summary(plan)->max_concurrency, 32, 0);
    pkv_plan_destroy(plan);
}

static void case_14_windows_of_their_own_cost_128_tokens(void **state)
{
    (void)state;
    pkv_spec layers[24];
    /* (12 x 8192 + 12 x 128) x 2048 x 32 = 6.09 GiB; a window may begin inside a block, so one
     * block more for each request */
    const pkv_plan_params params = reserve(layers, true, 32 * (512 + 8 + 1));
    assert_near((double)(params.available_bytes - 32 * 16 * 2048 * 12) / (double)GIB, 6.09375, 0);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->blocks_per_request, 521);
    assert_near(pkv_plan_get_summary(plan)->max_concurrency, 32, 0);
    pkv_plan_destroy(plan);
}

static void case_14_the_check_uses_the_mode_of_the_allocation(void **state)
{
    (void)state;
    pkv_spec layers[24];
    pkv_plan_params params = reserve(layers, true, 521 + 1);
    pkv_plan_destroy(plan_of(&params));
    params.enable_hybrid = 0;                             /* 522 x 12 pages are 261 blocks of 24 */
    assert_no_plan(&params, PKV_E_VALUE, " 4160 tokens"); /* 260 x 16 */
    params = reserve(layers, false, 512 + 1);
    pkv_plan_destroy(plan_of(&params));
}

/* ---- case 15 ---- */

static void case_15_a_request_keeps_no_more_than_its_own_length(void **state)
{
    (void)state;
    const pkv_spec spec = windowed(1024);
    const pkv_limits endless = limits_of(1 << 20, 1), limits = limits_of(128, 8192);
    /* one eighth of the window's 64 blocks, and the one in which a window may begin */
    assert_int_equal(pages_held(&spec, &endless), 64 + 1);
    assert_int_equal(pages_held(&spec, &limits), 8 + 1);
}

/* ---- case 16 ---- */

static void case_16_blocks_are_counted_in_the_heads_of_a_rank(void **state)
{
    (void)state;
    const pkv_spec rank = full_of(16, 8 / 4), unsharded = full();
    pkv_plan_params params = params_of(&rank, 1, INT64_C(3258) * 16384, 1024);
    params.tp = 4;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 3258);
    pkv_plan_destroy(plan);
    params.layers = &unsharded; /* what the project did */
    plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 814);
    pkv_plan_destroy(plan);
}

/* ---- case 17 ---- */

/* Two ranks with the same full layer each, and their budgets. */
static void assert_ranks_refused(int64_t first, int64_t second, const char *rank,
                                 const char *budget)
{
    const pkv_spec layers[] = {full(), full()};
    static const uint32_t own[] = {0, 1};
    const pkv_plan_worker workers[] = {
        {.available_bytes = first, .layers = own, .n_layers = 1},
        {.available_bytes = second, .layers = own + 1, .n_layers = 1}};
    pkv_plan_params params = params_of(layers, 2, 0, 1024);
    params.workers = workers;
    params.n_workers = 2;
    assert_no_plan(&params, PKV_E_VALUE, rank);
    assert_non_null(strstr(pkv_last_error(), budget));
    assert_non_null(strstr(pkv_last_error(), "65536 bytes"));
}

static void case_17_a_negative_budget_is_refused_with_its_rank_and_numbers(void **state)
{
    (void)state;
    const int64_t negative = -INT64_C(4144643440), positive = INT64_C(10630044058);
    assert_ranks_refused(negative, positive, "worker 0", "-4144643440"); /* -3.86 and 9.90 GiB */
    assert_ranks_refused(positive, negative, "worker 1", "-4144643440");
    assert_ranks_refused(INT64_MIN, positive, "worker 0", "-9223372036854775808");
}

static void case_17_less_than_a_page_or_only_the_null_block_is_no_success(void **state)
{
    (void)state;
    const pkv_spec layer = full();
    static const struct {
        int64_t bytes;
        const char *text;
    } budgets[] = {{0, "available_bytes 0 "},
                   {1, "available_bytes 1 "},
                   {65535, "available_bytes 65535 "},
                   {65536, "available_bytes 65536 "}};
    for (size_t i = 0; i < COUNT(budgets); i++) {
        pkv_plan_params params = params_of(&layer, 1, budgets[i].bytes, 1);
        assert_no_plan(&params, PKV_E_VALUE, budgets[i].text);
        params.auto_fit = 1;
        assert_no_plan(&params, PKV_E_VALUE, budgets[i].text);
    }
    const pkv_plan_params two = params_of(&layer, 1, 2 * 65536, 1);
    pkv_plan *plan = plan_of(&two);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 2);
    pkv_plan_destroy(plan);
}

/* ---- case 18 ---- */

static void case_18_blocks_of_a_grown_page_are_divided_once(void **state)
{
    (void)state;
    /* 128 tokens of 4096 bytes grow beside pages of four times that */
    const pkv_spec layers[] = {full_of(128, 8), windowed_of(128, 128, 32)};
    pkv_plan_params params = params_of(layers, 2, INT64_C(76268) * 524288, 1024);
    assert_int_equal(page_of(&layers[0]), 524288);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, 2097152);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 19067);
    pkv_plan_destroy(plan);
    params.num_blocks_override = 19067; /* a number of real blocks is not divided again */
    plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 19067);
    pkv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_1_eight_heads_of_256_cost_8192_bytes_a_token),
        cmocka_unit_test(case_5_every_layer_costs_a_token_and_so_a_pool_holds_fewer),
        cmocka_unit_test(case_9_a_latent_is_kept_once_on_every_rank),
        cmocka_unit_test(case_11_a_recurrent_page_is_padded_where_attention_gets_more_tokens),
        cmocka_unit_test(case_12_the_block_of_a_hybrid_depends_on_the_ranks),
        cmocka_unit_test(case_12_a_larger_configured_block_stays),
        cmocka_unit_test(case_13_without_scales_the_smaller_page_divides_the_larger),
        cmocka_unit_test(case_13_scales_inside_the_page_cost_padding_that_the_plan_shows),
        cmocka_unit_test(case_14_promoted_windows_cost_like_full_layers),
        cmocka_unit_test(case_14_windows_of_their_own_cost_128_tokens),
        cmocka_unit_test(case_14_the_check_uses_the_mode_of_the_allocation),
        cmocka_unit_test(case_15_a_request_keeps_no_more_than_its_own_length),
        cmocka_unit_test(case_16_blocks_are_counted_in_the_heads_of_a_rank),
        cmocka_unit_test(case_17_a_negative_budget_is_refused_with_its_rank_and_numbers),
        cmocka_unit_test(case_17_less_than_a_page_or_only_the_null_block_is_no_success),
        cmocka_unit_test(case_18_blocks_of_a_grown_page_are_divided_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
