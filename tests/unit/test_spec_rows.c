/* test_spec_rows.c  Rows 1 to 16 of the reference's cases (kv-core 9.1): pages. Rows 17 to 29 are
 * in test_spec_rows_requests.c, 30 to 34 and 45 in test_spec_rows_sets.c, 35 to 44 in
 * test_spec_rows_views.c. */
#include "plan_fixture.h"

static uint64_t states_of(const pkv_spec *spec)
{
    uint64_t n;
    assert_ok(pkv_spec_num_states(spec, &n));
    return n;
}

static uint64_t heads_of(const pkv_spec *spec)
{
    uint64_t n;
    assert_ok(pkv_spec_num_heads(spec, &n));
    return n;
}

static uint64_t content_of(const pkv_spec *spec)
{
    uint64_t bytes;
    assert_ok(pkv_spec_state_content_bytes(spec, &bytes));
    return bytes;
}

/* ---- rows 1 to 8: pages of dense and quantised content ---- */

static void row_1_a_full_page_has_65536_bytes_and_16_states(void **state)
{
    (void)state;
    const pkv_spec spec = full();
    assert_int_equal(page_of(&spec), 65536);
    assert_int_equal(states_of(&spec), 16);
    assert_int_equal(spec.head_size_v, 128); /* K's width by default */
}

static void row_2_a_narrower_v_makes_a_smaller_page(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_FULL, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.head_size_v = 64;
    spec = finished(spec);
    assert_int_equal(page_of(&spec), 49152);
}

static void row_3_one_byte_types_halve_the_page(void **state)
{
    (void)state;
    static const uint32_t types[] = {PKV_DTYPE_UINT8, PKV_DTYPE_INT8, PKV_DTYPE_FLOAT8_E4M3FN,
                                     PKV_DTYPE_FLOAT8_E5M2, PKV_DTYPE_FLOAT8_E4M3FNUZ};
    for (size_t i = 0; i < COUNT(types); i++) {
        const pkv_spec spec = finished(shaped(PKV_KIND_FULL, 16, 8, 128, types[i]));
        assert_int_equal(page_of(&spec), 32768);
    }
}

/* "full" in a quantised cache. */
static pkv_spec quantised(const char *cache_dtype)
{
    pkv_spec spec = full();
    assert_ok(pkv_spec_set_cache_dtype(&spec, cache_dtype, 0));
    return spec;
}

static void row_4_scales_per_token_and_head_lie_in_the_page(void **state)
{
    (void)state;
    const pkv_spec int8 = quantised("int8_per_token_head"), fp8 = quantised("fp8_per_token_head");
    const pkv_spec int4 = quantised("int4_per_token_head");
    assert_int_equal(content_of(&int8), 264);
    assert_int_equal(page_of(&int8), 33792);
    assert_int_equal(content_of(&fp8), 264);
    assert_int_equal(content_of(&int4), 136);
    assert_int_equal(page_of(&int4), 17408);
}

static void row_5_nvfp4_gives_k_and_v_slots_of_their_own(void **state)
{
    (void)state;
    const pkv_spec spec = quantised("nvfp4");
    assert_int_equal(heads_of(&spec), 16);
    assert_int_equal(content_of(&spec), 72);
    assert_int_equal(page_of(&spec), 18432);
}

static void assert_slot(uint32_t mode, uint64_t head_size, uint64_t k, uint64_t v, uint64_t slot)
{
    uint64_t got_k, got_v, got_slot;
    assert_ok(pkv_turboquant_slot(mode, head_size, &got_k, &got_v, &got_slot));
    assert_int_equal(got_k, k);
    assert_int_equal(got_v, v);
    assert_int_equal(got_slot, slot);
}

static void row_6_turboquant_slots_follow_their_bits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t k, v, slot, page;
    } rows[] = {{"turboquant_k8v4", 128, 68, 196, 25088},
                {"turboquant_4bit_nc", 66, 68, 134, 17152},
                {"turboquant_k3v4_nc", 50, 68, 118, 15104},
                {"turboquant_3bit_nc", 50, 52, 102, 13056}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const pkv_spec spec = quantised(rows[i].name);
        assert_string_equal(pkv_quant_mode_name(spec.kv_quant_mode), rows[i].name);
        assert_slot(spec.kv_quant_mode, 128, rows[i].k, rows[i].v, rows[i].slot);
        assert_int_equal(content_of(&spec), rows[i].slot);
        assert_int_equal(page_of(&spec), rows[i].page);
    }
}

static void row_7_an_odd_turboquant_head_needs_no_more_than_an_even_slot(void **state)
{
    (void)state;
    assert_slot(PKV_QUANT_TURBOQUANT_3BIT_NC, 67, 28, 30, 58);
    /* and an odd sum is rounded up: K 8 bits of 67 bytes, V ceil(67 x 4 / 8) + 4 = 38, 105 */
    assert_slot(PKV_QUANT_TURBOQUANT_K8V4, 67, 67, 38, 106);
}

static void row_8_latent_records_have_their_own_sizes(void **state)
{
    (void)state;
    pkv_spec spec = latent(64, 576);
    assert_int_equal(page_of(&spec), 73728);
    assert_ok(pkv_spec_set_cache_dtype(&spec, "fp8_ds_mla", 0));
    assert_int_equal(page_of(&spec), 41984);
    spec = latent(64, 576);
    assert_ok(pkv_spec_set_cache_dtype(&spec, "nvfp4_ds_mla", 0));
    assert_int_equal(page_of(&spec), 22528);
}

/* ---- rows 9 to 16: states that cover several tokens, pads, other block sizes ---- */

/* The record of DeepSeek V4: 584 bytes, pages rounded up to 576. */
static pkv_spec v4_record(uint64_t block_size, uint32_t tokens_per_state)
{
    pkv_spec spec = shaped(PKV_KIND_MLA, block_size, 1, 512, PKV_DTYPE_UINT8);
    spec.tokens_per_state = (pkv_ratio){tokens_per_state, 1};
    spec.state_content_bytes = 584;
    spec.alignment = 576;
    spec.model_version = "deepseek_v4";
    return finished(spec);
}

static void row_9_a_record_of_584_bytes_is_padded_to_576(void **state)
{
    (void)state;
    uint64_t unpadded;
    const pkv_spec spec = v4_record(256, 4);
    assert_int_equal(states_of(&spec), 64);
    assert_ok(pkv_spec_unpadded_page_bytes(&spec, &unpadded));
    assert_int_equal(unpadded, 37376);
    assert_int_equal(spec.page_size_padded, 37440);
    assert_int_equal(page_of(&spec), 37440);
}

static void row_9_the_cache_type_of_deepseek_v4_makes_that_record(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_MLA, 256, 1, 512, PKV_DTYPE_BFLOAT16);
    spec.tokens_per_state = (pkv_ratio){4, 1};
    spec.model_version = "deepseek_v4";
    assert_ok(pkv_spec_set_cache_dtype(&spec, "fp8_ds_mla", 0));
    assert_int_equal(spec.head_size, 512);
    assert_int_equal(content_of(&spec), 584);
    assert_int_equal(page_of(&spec), 37440);
}

static void row_10_two_states_of_128_tokens_fill_1728_bytes(void **state)
{
    (void)state;
    uint64_t unpadded;
    const pkv_spec spec = v4_record(256, 128);
    assert_int_equal(states_of(&spec), 2);
    assert_ok(pkv_spec_unpadded_page_bytes(&spec, &unpadded));
    assert_int_equal(unpadded, 1168);
    assert_int_equal(page_of(&spec), 1728);
}

static pkv_spec resized(const pkv_spec *spec, uint64_t block_size)
{
    pkv_spec out;
    assert_ok(pkv_spec_resize(spec, block_size, &out));
    assert_int_equal(out.block_size, block_size);
    return out;
}

static void row_11_another_block_size_has_another_pad(void **state)
{
    (void)state;
    const pkv_spec spec = v4_record(64, 1);
    assert_int_equal(page_of(&spec), 37440);
    const pkv_spec larger = resized(&spec, 128), smaller = resized(&spec, 32);
    assert_int_equal(larger.page_size_padded, 74880);
    assert_int_equal(page_of(&larger), 74880);
    assert_int_equal(smaller.page_size_padded, 19008);
    assert_int_equal(page_of(&smaller), 19008);
}

/* Upstream keeps the pad of the old block size here and then asserts. */
static void row_12_a_block_that_is_aligned_as_it_is_loses_its_old_pad(void **state)
{
    (void)state;
    const pkv_spec spec = v4_record(64, 1), aligned = resized(&spec, 72);
    assert_int_equal(page_of(&aligned), 42048); /* 72 x 584 = 73 x 576 */
    const pkv_spec back = resized(&aligned, 64);
    assert_true(pkv_spec_equal(&back, &spec));
}

static void row_13_four_states_a_token_make_a_page_of_262144_bytes(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_FULL, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.tokens_per_state = (pkv_ratio){1, 4};
    spec = finished(spec);
    assert_int_equal(states_of(&spec), 64);
    assert_int_equal(page_of(&spec), 262144);
}

static pkv_spec five_tokens_a_state(uint64_t block_size)
{
    pkv_spec spec = shaped(PKV_KIND_FULL, block_size, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.tokens_per_state = (pkv_ratio){5, 1};
    return finished(spec);
}

/* Upstream accepts the block without a state and then divides by its page of 0 bytes. */
static void row_14_states_are_whole_and_a_block_without_one_is_not_planned(void **state)
{
    (void)state;
    const pkv_spec three = five_tokens_a_state(16), none = five_tokens_a_state(4);
    assert_int_equal(states_of(&three), 3);
    assert_int_equal(states_of(&none), 0);
    assert_int_equal(page_of(&none), 0);
    const pkv_plan_params params = params_of(&none, 1, GIB, 1024);
    assert_no_plan(&params, PKV_E_VALUE, "page of 0 bytes");
}

static void row_15_a_pad_smaller_than_the_page_asserts(void **state)
{
    (void)state;
    uint64_t bytes;
    pkv_spec spec = shaped(PKV_KIND_FULL, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.page_size_padded = 100;
    spec = finished(spec);
    assert_status(pkv_spec_page_bytes(&spec, &bytes), PKV_E_ASSERT);
    assert_error_text("pkv_spec_page_bytes", "100");
}

static void row_16_an_explicit_pad_stays_when_the_block_grows(void **state)
{
    (void)state;
    uint64_t bytes;
    const pkv_spec spec = full(), twice = resized(&spec, 32);
    assert_int_equal(page_of(&twice), 131072);
    pkv_spec padded = spec;
    padded.page_size_padded = 70000;
    padded = finished(padded);
    assert_int_equal(page_of(&padded), 70000);
    padded = resized(&padded, 32);
    assert_int_equal(padded.page_size_padded, 70000);
    assert_status(pkv_spec_page_bytes(&padded, &bytes), PKV_E_ASSERT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_1_a_full_page_has_65536_bytes_and_16_states),
        cmocka_unit_test(row_2_a_narrower_v_makes_a_smaller_page),
        cmocka_unit_test(row_3_one_byte_types_halve_the_page),
        cmocka_unit_test(row_4_scales_per_token_and_head_lie_in_the_page),
        cmocka_unit_test(row_5_nvfp4_gives_k_and_v_slots_of_their_own),
        cmocka_unit_test(row_6_turboquant_slots_follow_their_bits),
        cmocka_unit_test(row_7_an_odd_turboquant_head_needs_no_more_than_an_even_slot),
        cmocka_unit_test(row_8_latent_records_have_their_own_sizes),
        cmocka_unit_test(row_9_a_record_of_584_bytes_is_padded_to_576),
        cmocka_unit_test(row_9_the_cache_type_of_deepseek_v4_makes_that_record),
        cmocka_unit_test(row_10_two_states_of_128_tokens_fill_1728_bytes),
        cmocka_unit_test(row_11_another_block_size_has_another_pad),
        cmocka_unit_test(row_12_a_block_that_is_aligned_as_it_is_loses_its_old_pad),
        cmocka_unit_test(row_13_four_states_a_token_make_a_page_of_262144_bytes),
        cmocka_unit_test(row_14_states_are_whole_and_a_block_without_one_is_not_planned),
        cmocka_unit_test(row_15_a_pad_smaller_than_the_page_asserts),
        cmocka_unit_test(row_16_an_explicit_pad_stays_when_the_block_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
