/* test_spec_rows_sets.c  Rows 30 to 34 and 45 of the reference's cases (kv-core 9.1): layers that
 * share a spec or a block table. */
#include "plan_fixture.h"

static pkv_status merge2(const pkv_spec *a, const pkv_spec *b, pkv_spec *out)
{
    const pkv_spec *const pair[] = {a, b};
    return pkv_specs_merge(pair, 2, out);
}

static pkv_spec with_window(uint64_t window)
{
    pkv_spec spec = full();
    spec.sliding_window = window;
    return finished(spec);
}

/* ---- row 30 ---- */

static void row_30_one_window_and_layers_without_one_merge(void **state)
{
    (void)state;
    pkv_spec merged;
    const pkv_spec four = with_window(4), none = full();
    const pkv_spec *const specs[] = {&four, &four, &none};
    assert_ok(pkv_specs_merge(specs, 3, &merged));
    assert_int_equal(merged.sliding_window, 4);
}

static void row_30_two_windows_are_a_value_error(void **state)
{
    (void)state;
    pkv_spec merged;
    bool mergeable;
    const pkv_spec four = with_window(4), eight = with_window(8);
    const pkv_spec *const specs[] = {&four, &eight};
    assert_status(merge2(&four, &eight, &merged), PKV_E_VALUE);
    assert_status(pkv_specs_mergeable(specs, 2, &mergeable), PKV_E_VALUE); /* not just "no" */
}

static void row_30_a_window_and_a_chunk_assert(void **state)
{
    (void)state;
    pkv_spec merged, chunk = full();
    const pkv_spec window = with_window(4);
    chunk.attention_chunk_size = 8;
    chunk = finished(chunk);
    assert_status(merge2(&window, &chunk, &merged), PKV_E_ASSERT);
}

static void row_30_different_heads_assert(void **state)
{
    (void)state;
    pkv_spec merged;
    bool mergeable = true;
    const pkv_spec eight = full(), four = full_of(16, 4);
    const pkv_spec *const specs[] = {&eight, &four};
    assert_status(merge2(&eight, &four, &merged), PKV_E_ASSERT);
    assert_ok(pkv_specs_mergeable(specs, 2, &mergeable));
    assert_false(mergeable);
}

/* ---- row 31 ---- */

static void row_31_one_layer_that_is_not_causal_makes_the_group_so(void **state)
{
    (void)state;
    pkv_spec merged, other = full();
    const pkv_spec causal = full();
    other.non_causal = 1;
    other = finished(other);
    assert_ok(merge2(&causal, &other, &merged));
    assert_int_equal(merged.non_causal, 1);
}

static void row_31_a_draft_layer_equals_a_target_layer(void **state)
{
    (void)state;
    pkv_spec merged, draft = full();
    const pkv_spec target = full();
    draft.is_draft = 1;
    draft = finished(draft);
    assert_true(pkv_spec_equal(&draft, &target));
    assert_ok(merge2(&draft, &target, &merged));
    assert_int_equal(merged.is_draft, 0);
    const pkv_spec *const alone[] = {&draft};
    assert_ok(pkv_specs_merge(alone, 1, &merged));
    assert_int_equal(merged.is_draft, 0);
}

/* ---- row 32 ---- */

static void row_32_latent_layers_of_two_cache_types_assert(void **state)
{
    (void)state;
    pkv_spec a = latent(16, 576), b = latent(16, 576), merged;
    a.cache_dtype = "auto";
    b.cache_dtype = "fp8_ds_mla";
    assert_status(merge2(&a, &b, &merged), PKV_E_ASSERT);
    b.cache_dtype = NULL;
    assert_status(merge2(&a, &b, &merged), PKV_E_ASSERT);
}

static void row_32_latent_layers_do_not_merge_by_the_rule_of_full_ones(void **state)
{
    (void)state;
    pkv_spec merged;
    const pkv_spec first = full(), mla = latent(16, 576);
    const pkv_spec *const specs[] = {&first, &mla, &mla};
    assert_status(pkv_specs_merge(specs, 3, &merged), PKV_E_ASSERT);
    assert_ok(pkv_specs_merge(specs + 1, 2, &merged)); /* by their own they do */
}

static void row_32_two_generated_windows_assert(void **state)
{
    (void)state;
    pkv_spec merged, four = shaped(PKV_KIND_RSWA, 16, 8, 128, PKV_DTYPE_BFLOAT16), eight = four;
    four.rswa_window = 4;
    eight.rswa_window = 8;
    four = finished(four);
    eight = finished(eight);
    assert_status(merge2(&four, &eight, &merged), PKV_E_ASSERT);
    assert_ok(merge2(&four, &four, &merged));
    assert_int_equal(merged.rswa_window, 4);
}

static void row_32_two_sliding_windows_assert(void **state)
{
    (void)state;
    pkv_spec merged;
    const pkv_spec four = windowed(4), eight = windowed(8);
    assert_status(merge2(&four, &eight, &merged), PKV_E_ASSERT);
}

/* ---- row 33 ---- */

static bool one_type(const pkv_spec *a, const pkv_spec *b)
{
    const pkv_spec *const pair[] = {a, b};
    bool uniform;
    assert_ok(pkv_specs_uniform_type(pair, 2, &uniform));
    return uniform;
}

static void row_33_layers_of_one_type_need_equal_slots_not_equal_widths(void **state)
{
    (void)state;
    const pkv_spec eight = full(), four = full_of(16, 4), longer = full_of(32, 8);
    const pkv_spec mla = latent(16, 576);
    pkv_spec whole = full();
    whole.dcp_sharded = 0;
    whole = finished(whole);
    assert_true(one_type(&eight, &four));
    assert_false(one_type(&eight, &longer));
    assert_true(one_type(&eight, &mla));
    assert_false(one_type(&eight, &whole));
}

static void row_33_windows_are_of_one_type_only_among_equals(void **state)
{
    (void)state;
    const pkv_spec plain = full(), four = windowed(4), eight = windowed(8);
    assert_false(one_type(&four, &eight));
    assert_false(one_type(&plain, &four));
}

/* ---- row 34 ---- */

static void row_34_a_group_of_two_widths_has_the_sum_of_the_pages(void **state)
{
    (void)state;
    const pkv_spec eight = full(), four = full_of(16, 4);
    const pkv_spec *const specs[] = {&eight, &four};
    const pkv_limits limits = limits_of(1000, 8192);
    uint64_t value;
    assert_ok(pkv_uniform_page_bytes(specs, 2, &value));
    assert_int_equal(value, 98304);
    assert_ok(pkv_uniform_max_pages(specs, 2, &limits, &value));
    assert_int_equal(value, 63);
    assert_ok(pkv_uniform_max_memory_bytes(specs, 2, &limits, &value));
    assert_int_equal(value, 6193152);
    assert_ok(pkv_uniform_max_blocks(specs, 2, &limits, 1000, &value));
    assert_int_equal(value, 63);
    assert_string_equal(pkv_uniform_kind_name(specs, 2), "full_attention");
}

/* Upstream's wrapper knows fewer kinds: a mixed group of full subtypes is full, others unknown. */
static void row_34_the_kind_of_a_group_is_the_one_that_all_share(void **state)
{
    (void)state;
    const pkv_spec plain = full(), mla = latent(16, 576), ring = ring_of(16, 2048);
    const pkv_spec hidden = finished(shaped(PKV_KIND_HIDDEN_STATE, 16, 1, 576, PKV_DTYPE_BFLOAT16));
    const pkv_spec *const mixed[] = {&plain, &mla}, *const alike[] = {&mla, &mla};
    const pkv_spec *const rings[] = {&ring, &ring}, *const other[] = {&plain, &ring};
    const pkv_spec *const latents[] = {&hidden, &mla};
    assert_string_equal(pkv_uniform_event_kind(mixed, 2), "full_attention");
    assert_string_equal(pkv_uniform_event_kind(alike, 2), "mla_attention");
    assert_string_equal(pkv_uniform_event_kind(rings, 2), "unknown");
    assert_string_equal(pkv_uniform_event_kind(other, 2), "unknown");
    assert_string_equal(pkv_uniform_event_kind(latents, 2), "mla_attention");
}

/* ---- row 45 ---- */

/* Upstream's merge of latent windows loses both; ours equals its inputs. */
static void row_45_equal_latent_windows_merge_to_themselves(void **state)
{
    (void)state;
    pkv_spec merged, spec = shaped(PKV_KIND_SLIDING_WINDOW_MLA, 64, 1, 512, PKV_DTYPE_UINT8);
    spec.sliding_window = 128;
    spec.kv_quant_mode = PKV_QUANT_FP8_PER_TENSOR;
    spec.cache_dtype = "fp8_ds_mla";
    spec.model_version = "deepseek_v4";
    spec.state_content_bytes = 584;
    spec.alignment = 576;
    spec = finished(spec);
    assert_ok(merge2(&spec, &spec, &merged));
    assert_int_equal(merged.kv_quant_mode, PKV_QUANT_FP8_PER_TENSOR);
    assert_int_equal(merged.alignment, 576);
    assert_true(pkv_spec_equal(&merged, &spec));
}

static void row_45_a_merged_latent_layer_still_pads_when_its_block_changes(void **state)
{
    (void)state;
    pkv_spec merged, spec = shaped(PKV_KIND_MLA, 64, 1, 512, PKV_DTYPE_UINT8);
    spec.state_content_bytes = 584;
    spec.alignment = 576;
    spec = finished(spec);
    assert_ok(merge2(&spec, &spec, &merged));
    assert_true(pkv_spec_equal(&merged, &spec));
    assert_ok(pkv_spec_resize(&merged, 128, &merged));
    assert_int_equal(page_of(&merged), 74880); /* row 11 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_30_one_window_and_layers_without_one_merge),
        cmocka_unit_test(row_30_two_windows_are_a_value_error),
        cmocka_unit_test(row_30_a_window_and_a_chunk_assert),
        cmocka_unit_test(row_30_different_heads_assert),
        cmocka_unit_test(row_31_one_layer_that_is_not_causal_makes_the_group_so),
        cmocka_unit_test(row_31_a_draft_layer_equals_a_target_layer),
        cmocka_unit_test(row_32_latent_layers_of_two_cache_types_assert),
        cmocka_unit_test(row_32_latent_layers_do_not_merge_by_the_rule_of_full_ones),
        cmocka_unit_test(row_32_two_generated_windows_assert),
        cmocka_unit_test(row_32_two_sliding_windows_assert),
        cmocka_unit_test(row_33_layers_of_one_type_need_equal_slots_not_equal_widths),
        cmocka_unit_test(row_33_windows_are_of_one_type_only_among_equals),
        cmocka_unit_test(row_34_a_group_of_two_widths_has_the_sum_of_the_pages),
        cmocka_unit_test(row_34_the_kind_of_a_group_is_the_one_that_all_share),
        cmocka_unit_test(row_45_equal_latent_windows_merge_to_themselves),
        cmocka_unit_test(row_45_a_merged_latent_layer_still_pads_when_its_block_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
