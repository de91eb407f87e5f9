/* test_plan_scale.c  10,000 layers, and sums of a plan that would exceed 2^63-1. */
#include "plan_fixture.h"

enum { MANY = 10000 };

static pkv_spec *many_layers(pkv_spec (*nth)(uint32_t i))
{
    pkv_spec *layers = calloc(MANY, sizeof *layers);
    assert_non_null(layers);
    for (uint32_t i = 0; i < MANY; i++) {
        layers[i] = nth(i);
    }
    return layers;
}

/* Plans so many layers; the caller destroys the plan. Every layer is in one group, once. */
static pkv_plan *plan_many(pkv_spec (*nth)(uint32_t i), int64_t bytes)
{
    pkv_spec *layers = many_layers(nth);
    const pkv_plan_params params = params_of(layers, MANY, bytes, 16);
    pkv_plan *plan = plan_of(&params);
    free(layers); /* the plan owns what it needs */
    uint8_t *seen = calloc(MANY, 1);
    assert_non_null(seen);
    for (uint32_t g = 0; g < n_groups(plan); g++) {
        const pkv_group *group = pkv_plan_group_at(plan, 0, g);
        for (uint32_t i = 0; i < group->n_layers; i++) {
            assert_true(group->layers[i] < MANY);
            assert_int_equal(seen[group->layers[i]]++, 0);
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(seen[i], 1);
    }
    free(seen);
    return plan;
}

static pkv_spec same(uint32_t i)
{
    (void)i;
    return full();
}

static void ten_thousand_equal_layers_are_one_group(void **state)
{
    (void)state;
    pkv_plan *plan = plan_many(same, INT64_C(10) * MANY * 65536);
    assert_int_equal(n_groups(plan), 1);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 10);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, INT64_C(65536) * MANY);
    pkv_plan_destroy(plan);
}

static pkv_spec alternating(uint32_t i)
{
    return i % 2 ? windowed(128) : full();
}

static void ten_thousand_alternating_layers_are_two_groups(void **state)
{
    (void)state;
    pkv_plan *plan = plan_many(alternating, INT64_C(5) * MANY * 65536);
    assert_int_equal(n_groups(plan), 2);
    assert_int_equal(pkv_plan_group_at(plan, 0, 0)->n_layers, MANY / 2);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 10);
    pkv_plan_destroy(plan);
}

static pkv_spec other_width(uint32_t i)
{
    return full_of(16, i + 1);
}

static void ten_thousand_widths_are_one_uniform_group(void **state)
{
    (void)state;
    /* 8192 x (1 + 2 + ... + 10000) */
    const int64_t block = INT64_C(8192) * MANY * (MANY + 1) / 2;
    pkv_plan *plan = plan_many(other_width, 10 * block);
    assert_int_equal(n_groups(plan), 1);
    assert_int_equal(pkv_plan_group_at(plan, 0, 0)->n_classes, MANY);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->n_tensors, MANY);
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, block);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 10);
    pkv_plan_destroy(plan);
}

static pkv_spec other_window(uint32_t i)
{
    return windowed(i + 1);
}

static void ten_thousand_windows_are_as_many_groups(void **state)
{
    (void)state;
    /* 16 tokens are in view of one block, or of two */
    pkv_plan *plan = plan_many(other_window, INT64_C(65536) * (2 * MANY + 1));
    assert_int_equal(n_groups(plan), MANY);
    assert_int_equal(pkv_plan_get_summary(plan)->blocks_per_request, 2 * MANY);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 2 * MANY + 1);
    pkv_plan_destroy(plan);
}

static void a_thousand_stages_of_one_layer_are_planned(void **state)
{
    (void)state;
    enum { STAGES = 1000 };
    static pkv_plan_worker workers[STAGES];
    static uint32_t own[STAGES];
    pkv_spec *layers = many_layers(same);
    for (uint32_t i = 0; i < STAGES; i++) {
        own[i] = i;
        workers[i] = (pkv_plan_worker){
            .available_bytes = 65536 * (INT64_C(20) + i), .layers = own + i, .n_layers = 1};
    }
    pkv_plan_params params = params_of(layers, STAGES, 0, 16);
    params.workers = workers;
    params.n_workers = STAGES;
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->n_workers, STAGES);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 20);
    assert_groups_on(plan, STAGES - 1, "(999)");
    pkv_plan_destroy(plan);
    free(layers);
}

/* ---- sums beyond the limit ---- */

static pkv_spec padded(pkv_spec spec, uint64_t bytes)
{
    spec.page_size_padded = bytes;
    return finished(spec);
}

static void the_pages_of_a_block_do_not_wrap(void **state)
{
    (void)state;
    pkv_spec layers[3], narrow = full_of(16, 4);
    for (int i = 0; i < 3; i++) {
        layers[i] = padded(full(), UINT64_C(1) << 62); /* three are 2^63 + 2^62 */
    }
    pkv_plan_params params = params_of(layers, 3, INT64_MAX, 16);
    assert_no_plan(&params, PKV_E_OVERFLOW, "2^63-1");
    layers[1] = padded(narrow, UINT64_C(1) << 62); /* of one type: summed elsewhere */
    assert_no_plan(&params, PKV_E_OVERFLOW, "2^63-1");
    params.layout = PKV_LAYOUT_BLHNC;
    assert_no_plan(&params, PKV_E_OVERFLOW, "2^63-1");
    params.n_layers = 1; /* one block, and it is the null block */
    assert_no_plan(&params, PKV_E_VALUE, "hold 0 blocks of 4611686018427387904 bytes");
}

static void a_page_with_its_stride_alignment_does_not_wrap(void **state)
{
    (void)state;
    pkv_spec layer = padded(full(), SIZE_LIMIT);
    layer.stride_rule = PKV_STRIDE_BYTES;
    layer.block_stride_alignment = 512;
    layer = finished(layer);
    const pkv_plan_params params = params_of(&layer, 1, INT64_MAX, 16);
    assert_no_plan(&params, PKV_E_OVERFLOW, "2^63-1");
}

static void a_unified_block_size_does_not_wrap(void **state)
{
    (void)state;
    /* one byte for 16 tokens grows to a page of 2^62 bytes: 2^66 tokens */
    pkv_spec byte = shaped(PKV_KIND_SLIDING_WINDOW, 16, 1, 1, PKV_DTYPE_UINT8);
    byte.head_size_v = 0;
    byte.tokens_per_state = (pkv_ratio){16, 1};
    byte.sliding_window = 128;
    const pkv_spec layers[] = {padded(full(), UINT64_C(1) << 62), finished(byte)};
    const pkv_plan_params params = params_of(layers, 2, INT64_MAX, 16);
    assert_no_plan(&params, PKV_E_OVERFLOW, "block size");
}

static void a_hidden_state_beyond_the_limit_does_not_wrap(void **state)
{
    (void)state;
    pkv_spec hidden =
        shaped(PKV_KIND_HIDDEN_STATE, 1, PKV_SPEC_LIMIT, PKV_SPEC_LIMIT, PKV_DTYPE_FLOAT64);
    hidden.state_content_bytes = 1; /* its page is small, one of its tokens would not be */
    const pkv_spec layers[] = {full(), windowed(128), finished(hidden)};
    const pkv_plan_params params = params_of(layers, 3, INT64_MAX, 16);
    assert_no_plan(&params, PKV_E_OVERFLOW, "hidden");
}

static void a_scheduler_block_beyond_the_limit_leaves_the_sizes_open(void **state)
{
    (void)state;
    /* 2^31-1, 2^31-2 and 2^31-3 have no common divisor: their multiple is about 2^93 */
    pkv_spec layers[3] = {
        shaped(PKV_KIND_FULL, PKV_SPEC_LIMIT, 1, 1, PKV_DTYPE_UINT8),
        shaped(PKV_KIND_SLIDING_WINDOW, PKV_SPEC_LIMIT - 1, 1, 1, PKV_DTYPE_UINT8),
        shaped(PKV_KIND_CHUNKED_LOCAL, PKV_SPEC_LIMIT - 2, 1, 1, PKV_DTYPE_UINT8)};
    layers[1].sliding_window = layers[2].attention_chunk_size = 16;
    for (int i = 0; i < 3; i++) {
        layers[i] = padded(layers[i], UINT64_C(1) << 33);
    }
    const pkv_plan_params params = params_of(layers, 3, INT64_C(1) << 40, 16);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 128);
    assert_int_equal(pkv_plan_get_summary(plan)->sizes_status, PKV_E_OVERFLOW);
    assert_int_equal(pkv_plan_get_summary(plan)->scheduler_block_size, 0);
    assert_non_null(strstr(pkv_plan_sizes_error(plan), "2^63-1"));
    pkv_plan_destroy(plan);
}

static void the_longest_requests_do_not_wrap(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(1, 1), windowed_of(PKV_SPEC_LIMIT, 1, 1)};
    pkv_plan_params params = params_of(layers, 2, INT64_MAX, UINT64_C(1) << 48);
    params.max_num_batched_tokens = UINT64_C(1) << 48;
    params.max_concurrent_batches = (1 << 14) - 1;
    /* 2^48 + 2^48 + 1 blocks of 512 bytes do not fit: 2^54-1 blocks do */
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->blocks_per_request, (UINT64_C(1) << 49) + 1);
    pkv_plan_destroy(plan);
    const pkv_limits limits = {.max_model_len = UINT64_C(1) << 48,
                               .max_in_flight_tokens = SIZE_LIMIT - PKV_SPEC_LIMIT,
                               .dcp = 1};
    uint64_t len;
    assert_ok(pkv_estimate_max_model_len(layers, 2, &limits, INT64_MAX, &len));
    assert_int_equal(len, UINT64_C(1) << 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_equal_layers_are_one_group),
        cmocka_unit_test(ten_thousand_alternating_layers_are_two_groups),
        cmocka_unit_test(ten_thousand_widths_are_one_uniform_group),
        cmocka_unit_test(ten_thousand_windows_are_as_many_groups),
        cmocka_unit_test(a_thousand_stages_of_one_layer_are_planned),
        cmocka_unit_test(the_pages_of_a_block_do_not_wrap),
        cmocka_unit_test(a_page_with_its_stride_alignment_does_not_wrap),
        cmocka_unit_test(a_unified_block_size_does_not_wrap),
        cmocka_unit_test(a_hidden_state_beyond_the_limit_does_not_wrap),
        cmocka_unit_test(a_scheduler_block_beyond_the_limit_leaves_the_sizes_open),
        cmocka_unit_test(the_longest_requests_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
