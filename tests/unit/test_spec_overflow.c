/* test_spec_overflow.c  Sizes at and beyond 2^63-1, and arguments that are missing. */
#include "plan_fixture.h"

/* 2^63-1 = 218934409 x 11777599 x 3577: heads x states x content of the largest page. */
static pkv_spec largest_page(uint32_t kind)
{
    pkv_spec spec = shaped(kind, 11777599, 218934409, 1, PKV_DTYPE_UINT8);
    spec.state_content_bytes = 3577;
    return spec;
}

/* Every number at its limit: (2^31-1)^2 x 2 x 8 x (2^31-1) bytes would be a page. */
static pkv_spec everything_at_its_limit(void)
{
    pkv_spec spec =
        shaped(PKV_KIND_FULL, PKV_SPEC_LIMIT, PKV_SPEC_LIMIT, PKV_SPEC_LIMIT, PKV_DTYPE_FLOAT64);
    spec.num_head_slots = PKV_SPEC_LIMIT;
    return finished(spec);
}

static void the_largest_page_is_2_to_63_minus_1(void **state)
{
    (void)state;
    pkv_spec spec = finished(largest_page(PKV_KIND_FULL));
    uint64_t bytes;
    assert_int_equal(page_of(&spec), SIZE_LIMIT);
    spec.state_content_bytes++;
    spec = finished(spec);
    assert_status(pkv_spec_page_bytes(&spec, &bytes), PKV_E_OVERFLOW);
    assert_error_text("pkv_spec_unpadded_page_bytes", "2^63-1");
}

static void a_page_of_limits_overflows_and_its_parts_do_not(void **state)
{
    (void)state;
    const pkv_spec spec = everything_at_its_limit();
    uint64_t value;
    assert_ok(pkv_spec_state_content_bytes(&spec, &value));
    assert_int_equal(value, 2 * 8 * PKV_SPEC_LIMIT);
    assert_ok(pkv_spec_num_states(&spec, &value));
    assert_int_equal(value, PKV_SPEC_LIMIT);
    assert_status(pkv_spec_unpadded_page_bytes(&spec, &value), PKV_E_OVERFLOW);
    assert_status(pkv_spec_page_bytes(&spec, &value), PKV_E_OVERFLOW);
}

static void a_rounded_page_overflows_only_beyond_the_limit(void **state)
{
    (void)state;
    pkv_spec spec = largest_page(PKV_KIND_MLA), odd = spec;
    spec.alignment = 7; /* divides 2^63-1 */
    assert_ok(pkv_spec_finish(&spec));
    assert_int_equal(page_of(&spec), SIZE_LIMIT);
    odd.alignment = 2;
    assert_status(pkv_spec_finish(&odd), PKV_E_OVERFLOW);
    assert_error_text("pkv_spec_finish", "alignment 2");
    assert_int_equal(odd.head_size_v, PKV_HEAD_SIZE_V_DEFAULT); /* unchanged */
}

static void states_beyond_the_limit_overflow(void **state)
{
    (void)state;
    uint64_t value;
    pkv_spec spec = shaped(PKV_KIND_FULL, PKV_SPEC_LIMIT, 1, 1, PKV_DTYPE_UINT8);
    spec.tokens_per_state = (pkv_ratio){1, UINT32_MAX};
    spec = finished(spec);
    assert_ok(pkv_spec_num_states(&spec, &value));
    assert_int_equal(value, PKV_SPEC_LIMIT * UINT32_MAX);
    assert_status(pkv_spec_kernel_states(&spec, SIZE_LIMIT, &value), PKV_E_OVERFLOW);
    assert_status(pkv_spec_kernel_states(&spec, UINT64_MAX, &value), PKV_E_OVERFLOW);
}

static void recurrent_states_beyond_the_limit_overflow(void **state)
{
    (void)state;
    pkv_state wide[2] = {{PKV_DTYPE_UINT8, 3, {218934409, 11777599, 3577}},
                         {PKV_DTYPE_UINT8, 0, {0}}};
    pkv_spec spec = recurrent(16);
    uint64_t bytes;
    spec.states = wide;
    spec.n_states = 1;
    spec = finished(spec);
    assert_int_equal(page_of(&spec), SIZE_LIMIT);
    spec.n_states = 2; /* one byte more */
    spec = finished(spec);
    assert_status(pkv_spec_page_bytes(&spec, &bytes), PKV_E_OVERFLOW);
    wide[0].dtype = PKV_DTYPE_FLOAT16;
    spec.n_states = 1;
    assert_status(pkv_spec_state_content_bytes(&spec, &bytes), PKV_E_OVERFLOW);
}

/* ---- what a request needs ---- */

static pkv_spec padded_to_the_limit(void)
{
    pkv_spec spec = full();
    spec.page_size_padded = SIZE_LIMIT;
    return finished(spec);
}

static void two_pages_of_the_largest_size_overflow(void **state)
{
    (void)state;
    const pkv_spec spec = padded_to_the_limit();
    pkv_limits limits = limits_of(16, 1);
    uint64_t bytes;
    assert_ok(pkv_spec_max_memory_bytes(&spec, &limits, &bytes));
    assert_int_equal(bytes, SIZE_LIMIT);
    limits.max_model_len = 17;
    assert_status(pkv_spec_max_memory_bytes(&spec, &limits, &bytes), PKV_E_OVERFLOW);
}

static void the_longest_lengths_do_not_wrap(void **state)
{
    (void)state;
    const pkv_spec window = windowed(PKV_SPEC_LIMIT), chunk = chunked(PKV_SPEC_LIMIT);
    const pkv_spec plain = full_of(1, 1);
    const pkv_limits limits = limits_of(SIZE_LIMIT, SIZE_LIMIT);
    uint64_t value;
    assert_ok(pkv_spec_max_blocks(&plain, &limits, SIZE_LIMIT, &value));
    assert_int_equal(value, SIZE_LIMIT);
    assert_status(pkv_spec_max_memory_bytes(&plain, &limits, &value), PKV_E_OVERFLOW);
    assert_status(pkv_spec_admission_cap(&window, &limits, &value), PKV_E_OVERFLOW);
    assert_status(pkv_spec_admission_cap(&chunk, &limits, &value), PKV_E_OVERFLOW);
    assert_ok(pkv_spec_retained_tokens(&window, &value));
    assert_int_equal(value, PKV_SPEC_LIMIT - 1);
}

static void the_sums_of_a_group_overflow_beyond_the_limit(void **state)
{
    (void)state;
    const pkv_spec large = padded_to_the_limit(), small = full();
    const pkv_spec *const pair[] = {&large, &small};
    const pkv_limits limits = limits_of(17, 1);
    uint64_t value;
    assert_ok(pkv_uniform_page_bytes(pair, 1, &value));
    assert_int_equal(value, SIZE_LIMIT);
    assert_status(pkv_uniform_page_bytes(pair, 2, &value), PKV_E_OVERFLOW);
    assert_status(pkv_uniform_max_memory_bytes(pair, 1, &limits, &value), PKV_E_OVERFLOW);
}

/* ---- content of quantised caches ---- */

static void quantised_content_at_the_limit_does_not_wrap(void **state)
{
    (void)state;
    static const char *const types[] = {
        "int8_per_token_head", "int4_per_token_head", "nvfp4", "turboquant_k8v4", "ultraquant_4bit",
        "octave_k3v4",         "octave_k3v3_compact", "fp8"};
    for (size_t i = 0; i < COUNT(types); i++) {
        pkv_spec spec = shaped(PKV_KIND_FULL, 16, 1, PKV_SPEC_LIMIT / 64 * 64, PKV_DTYPE_BFLOAT16);
        const pkv_status st = pkv_spec_set_cache_dtype(&spec, types[i], 0);
        if (st == PKV_OK) {
            assert_true(page_of(&spec) >= 16);
        } else {
            assert_status(st, PKV_E_INVAL); /* two slots of 2^31 bytes are beyond a field's limit */
        }
    }
}

/* A spec that was never checked: its numbers must be refused before they are added. */
static void quantising_refuses_numbers_out_of_range(void **state)
{
    (void)state;
    static const char *const types[] = {
        "int8_per_token_head", "int4_per_token_head", "nvfp4", "turboquant_k8v4", "ultraquant_4bit",
        "octave_k3v4",         "octave_k3v3_compact", "fp8"};
    for (size_t i = 0; i < COUNT(types); i++) {
        pkv_spec wide = shaped(PKV_KIND_FULL, 16, 1, UINT64_MAX / 64 * 64, PKV_DTYPE_BFLOAT16);
        pkv_spec many = shaped(PKV_KIND_FULL, 16, UINT64_MAX, 128, PKV_DTYPE_BFLOAT16);
        assert_status(pkv_spec_set_cache_dtype(&wide, types[i], 0), PKV_E_INVAL);
        assert_status(pkv_spec_set_cache_dtype(&many, types[i], 0), PKV_E_INVAL);
        assert_int_equal(wide.kv_quant_mode, PKV_QUANT_NONE); /* unchanged */
    }
    pkv_spec mla = shaped(PKV_KIND_MLA, 16, 1, UINT64_MAX, PKV_DTYPE_BFLOAT16);
    assert_status(pkv_spec_set_cache_dtype(&mla, "int8_per_token_head", 0), PKV_E_INVAL);
    pkv_spec rope = full();
    assert_status(pkv_spec_set_cache_dtype(&rope, "octave_k3v4", UINT64_MAX / 64 * 64),
                  PKV_E_VALUE);
    uint64_t k, v, slot;
    assert_status(pkv_turboquant_slot(PKV_QUANT_TURBOQUANT_K8V4, UINT64_MAX, &k, &v, &slot),
                  PKV_E_INVAL);
    assert_status(pkv_turboquant_slot(PKV_QUANT_TURBOQUANT_K8V4, 0, &k, &v, &slot), PKV_E_INVAL);
    assert_ok(pkv_turboquant_slot(PKV_QUANT_TURBOQUANT_K8V4, PKV_SPEC_LIMIT, &k, &v, &slot));
    assert_int_equal(k, PKV_SPEC_LIMIT);
    assert_int_equal(v, (PKV_SPEC_LIMIT + 1) / 2 + 4); /* ceil(4 D / 8) + 4 */
}

/* ---- resizing and views ---- */

static void block_sizes_are_resized_within_their_limit(void **state)
{
    (void)state;
    const pkv_spec spec = full();
    pkv_spec out;
    assert_ok(pkv_spec_resize(&spec, 1, &out));
    assert_ok(pkv_spec_resize(&spec, PKV_SPEC_LIMIT, &out));
    assert_status(pkv_spec_resize(&spec, 0, &out), PKV_E_INVAL);
    assert_status(pkv_spec_resize(&spec, PKV_SPEC_LIMIT + 1, &out), PKV_E_INVAL);
    assert_error_text("pkv_spec_resize", "2147483648");
    assert_int_equal(out.block_size, PKV_SPEC_LIMIT); /* unchanged */
}

static void views_beyond_the_limit_overflow(void **state)
{
    (void)state;
    const pkv_spec spec = full();
    pkv_kv_view view;
    assert_status(pkv_kv_view_dense(&spec, PKV_LAYOUT_LBNHC, SIZE_LIMIT, 1, 0, &view),
                  PKV_E_OVERFLOW);
    assert_status(pkv_kv_view_dense(&spec, PKV_LAYOUT_LBNHC, SIZE_LIMIT, 1, 1, &view),
                  PKV_E_OVERFLOW);
    assert_status(pkv_kv_view_dense(&spec, PKV_LAYOUT_LBNHC, 1, SIZE_LIMIT, 0, &view),
                  PKV_E_OVERFLOW);
    assert_status(pkv_kv_view_dense(&spec, PKV_LAYOUT_AUTO, 1, 1, 0, &view), PKV_E_INVAL);
    assert_status(pkv_kv_view_dense(&spec, PKV_N_LAYOUTS, 1, 1, 0, &view), PKV_E_INVAL);
    assert_status(pkv_kv_view_dense(&spec, PKV_LAYOUT_LBNHC, 0, 1, 0, &view), PKV_E_INVAL);
    assert_status(pkv_kv_view_placed(&spec, PKV_LAYOUT_LBNHC, 1, 1, 0, 0, 65536, 0, &view),
                  PKV_E_INVAL);
    assert_status(
        pkv_kv_view_placed(&spec, PKV_LAYOUT_LBNHC, 1, 1, 0, 65536, 65536, UINT64_MAX, &view),
        PKV_E_INVAL);
    assert_status(pkv_kv_view_placed(&spec, PKV_LAYOUT_LBNHC, 3, 1, 0, 65536, SIZE_LIMIT, 0, &view),
                  PKV_E_OVERFLOW);
}

static void hybrid_blocks_beyond_the_limit_overflow(void **state)
{
    (void)state;
    uint64_t block_size, page;
    assert_status(pkv_hybrid_block_size(0, 1, 1, 1, &block_size, &page), PKV_E_INVAL);
    assert_status(pkv_hybrid_block_size(1, 0, 1, 1, &block_size, &page), PKV_E_INVAL);
    assert_status(pkv_hybrid_block_size(1, 1, 0, 1, &block_size, &page), PKV_E_INVAL);
    assert_status(pkv_hybrid_block_size(1, 1, 1, 0, &block_size, &page), PKV_E_INVAL);
    assert_ok(pkv_hybrid_block_size(1, SIZE_LIMIT, 1, 1, &block_size, &page));
    assert_int_equal(block_size, SIZE_LIMIT);
    assert_status(pkv_hybrid_block_size(1, SIZE_LIMIT, 2, 1, &block_size, &page), PKV_E_OVERFLOW);
    assert_status(
        pkv_hybrid_block_size(UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, &block_size, &page),
        PKV_E_OVERFLOW);
    assert_status(pkv_hybrid_block_size(2, 1, 1, SIZE_LIMIT, &block_size, &page), PKV_E_OVERFLOW);
}

/* ---- missing arguments ---- */

static void missing_arguments_are_refused(void **state)
{
    (void)state;
    pkv_spec spec = full();
    const pkv_spec *const one[] = {&spec};
    pkv_kv_view view;
    uint64_t number;
    uint32_t narrow;
    bool flag;
    assert_status(pkv_spec_init(NULL, 0), PKV_E_INVAL);
    assert_status(pkv_spec_finish(NULL), PKV_E_INVAL);
    assert_status(pkv_spec_resize(NULL, 16, &spec), PKV_E_INVAL);
    assert_status(pkv_spec_resize(&spec, 16, NULL), PKV_E_INVAL);
    assert_status(pkv_specs_merge(NULL, 1, &spec), PKV_E_INVAL);
    assert_status(pkv_specs_merge(one, 0, &spec), PKV_E_INVAL);
    assert_status(pkv_specs_merge(one, 1, NULL), PKV_E_INVAL);
    assert_status(pkv_specs_mergeable(one, 0, &flag), PKV_E_INVAL);
    assert_status(pkv_specs_uniform_type(one, 0, &flag), PKV_E_INVAL);
    assert_status(pkv_specs_uniform_type(one, 1, NULL), PKV_E_INVAL);
    assert_status(pkv_spec_set_cache_dtype(NULL, "auto", 0), PKV_E_INVAL);
    assert_status(pkv_spec_set_cache_dtype(&spec, NULL, 0), PKV_E_INVAL);
    assert_status(pkv_turboquant_slot(PKV_QUANT_TURBOQUANT_K8V4, 1, NULL, &number, &number),
                  PKV_E_INVAL);
    assert_status(pkv_quant_mode_of_cache_dtype(NULL, &narrow), PKV_E_INVAL);
    assert_status(pkv_kind_from_name(NULL, &narrow), PKV_E_INVAL);
    assert_status(pkv_dtype_from_name("int8", NULL), PKV_E_INVAL);
    assert_status(pkv_quant_mode_from_name(NULL, &narrow), PKV_E_INVAL);
    assert_status(pkv_kv_layout_from_name(NULL, &narrow), PKV_E_INVAL);
    assert_status(pkv_kv_view_dense(NULL, PKV_LAYOUT_LBNHC, 1, 1, 0, &view), PKV_E_INVAL);
    assert_status(pkv_kv_view_dense(&spec, PKV_LAYOUT_LBNHC, 1, 1, 0, NULL), PKV_E_INVAL);
    assert_status(pkv_hybrid_block_size(1, 1, 1, 1, NULL, &number), PKV_E_INVAL);
    assert_status(pkv_approximate_gcd(NULL, 1, 0, &number), PKV_E_INVAL);
    assert_status(pkv_approximate_gcd(&number, 1, 0, NULL), PKV_E_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_page_is_2_to_63_minus_1),
        cmocka_unit_test(a_page_of_limits_overflows_and_its_parts_do_not),
        cmocka_unit_test(a_rounded_page_overflows_only_beyond_the_limit),
        cmocka_unit_test(states_beyond_the_limit_overflow),
        cmocka_unit_test(recurrent_states_beyond_the_limit_overflow),
        cmocka_unit_test(two_pages_of_the_largest_size_overflow),
        cmocka_unit_test(the_longest_lengths_do_not_wrap),
        cmocka_unit_test(the_sums_of_a_group_overflow_beyond_the_limit),
        cmocka_unit_test(quantised_content_at_the_limit_does_not_wrap),
        cmocka_unit_test(quantising_refuses_numbers_out_of_range),
        cmocka_unit_test(block_sizes_are_resized_within_their_limit),
        cmocka_unit_test(views_beyond_the_limit_overflow),
        cmocka_unit_test(hybrid_blocks_beyond_the_limit_overflow),
        cmocka_unit_test(missing_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
