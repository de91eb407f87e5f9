/* test_spec_rows_requests.c  Rows 17 to 29 of the reference's cases (kv-core 9.1): what one request
 * keeps, and the kinds without a page per token. */
#include "plan_fixture.h"

static uint64_t states_of(const pkv_spec *spec)
{
    uint64_t n;
    assert_ok(pkv_spec_num_states(spec, &n));
    return n;
}

static uint64_t cap_of(const pkv_spec *spec, uint64_t len, uint64_t in_flight)
{
    const pkv_limits limits = limits_of(len, in_flight);
    uint64_t blocks;
    assert_ok(pkv_spec_admission_cap(spec, &limits, &blocks));
    return blocks;
}

static uint64_t row_of(const pkv_spec *spec, const pkv_limits *limits, uint64_t len)
{
    uint64_t entries;
    assert_ok(pkv_spec_max_blocks(spec, limits, len, &entries));
    return entries;
}

/* ---- rows 17 to 21: how much of a request is kept ---- */

static void row_17_ranks_of_context_parallelism_share_sharded_tokens(void **state)
{
    (void)state;
    pkv_limits limits = limits_of(1000, 8192);
    const pkv_spec sharded = full();
    pkv_spec whole = full();
    whole.dcp_sharded = 0;
    whole = finished(whole);
    assert_int_equal(pages_held(&sharded, &limits), 63);
    limits.dcp = 2;
    assert_int_equal(pages_held(&sharded, &limits), 32);
    assert_int_equal(pages_held(&whole, &limits), 63);
}

static void row_18_table_rows_shrink_with_context_parallelism(void **state)
{
    (void)state;
    pkv_limits limits = limits_of(1000, 8192);
    const pkv_spec spec = full();
    assert_int_equal(row_of(&spec, &limits, 1000), 63);
    limits.dcp = 4;
    assert_int_equal(row_of(&spec, &limits, 1000), 16);
}

static void row_19_a_window_caps_what_admission_counts(void **state)
{
    (void)state;
    pkv_spec spec = windowed(128);
    const pkv_limits limits = limits_of(4096, 512);
    assert_int_equal(cap_of(&spec, 4096, 512), 41);   /* ceil(min(127 + 512, 4096) / 16) + 1 */
    assert_int_equal(cap_of(&spec, 100, 512), 8);     /* ceil(100 / 16) + 1 */
    assert_int_equal(pages_held(&spec, &limits), 41); /* planning counts the same */
    spec.extra_retained_tokens = 3;
    spec = finished(spec);
    assert_int_equal(cap_of(&spec, 4096, 512), 42);
}

static void row_20_a_sharded_window_has_no_size_under_context_parallelism(void **state)
{
    (void)state;
    uint64_t bytes;
    pkv_limits limits = limits_of(4096, 512);
    pkv_spec spec = windowed(128);
    limits.dcp = 2;
    assert_status(pkv_spec_max_memory_bytes(&spec, &limits, &bytes), PKV_E_ASSERT);
    spec.dcp_sharded = 0;
    spec = finished(spec);
    assert_int_equal(pages_held(&spec, &limits), 41);
}

static void row_21_a_chunk_is_capped_like_a_window_without_the_extra_block(void **state)
{
    (void)state;
    const pkv_spec spec = chunked(256);
    assert_int_equal(cap_of(&spec, 4096, 512), 48);
    assert_int_equal(cap_of(&spec, 300, 512), 19);
}

/* ---- rows 22 to 29: the other kinds ---- */

static void row_22_a_ring_is_one_block_for_life(void **state)
{
    (void)state;
    uint64_t none;
    const pkv_spec spec = ring_of(16, 2048);
    const pkv_limits limits = limits_of(8192, 8192);
    assert_int_equal(page_of(&spec), 65536);
    assert_int_equal(pages_held(&spec, &limits), 1); /* 65536 bytes */
    assert_int_equal(row_of(&spec, &limits, 8192), 1);
    assert_status(pkv_spec_table_alignment(&spec, &none), PKV_E_NOT_FOUND);
    assert_false(pkv_spec_prefix_cacheable(&spec));
    assert_false(pkv_spec_uses_slot_mapping(&spec));
}

static void row_23_a_recurrent_state_is_the_sum_of_its_tensors(void **state)
{
    (void)state;
    const pkv_spec spec = finished(recurrent(16)), other = finished(recurrent(1024));
    assert_int_equal(page_of(&spec), 16896);
    assert_int_equal(states_of(&spec), 1);
    assert_int_equal(page_of(&other), 16896); /* whatever the block size */
}

static void row_24_speculative_and_checkpoint_states_take_pages_of_their_own(void **state)
{
    (void)state;
    pkv_limits limits = limits_of(8192, 8192);
    pkv_spec spec = recurrent(16);
    spec.num_speculative_blocks = 2;
    pkv_spec aligned = spec;
    spec = finished(spec);
    assert_int_equal(pages_held(&spec, &limits), 3);
    aligned.num_prefill_checkpoint_blocks = 1;
    aligned.mamba_mode = PKV_MAMBA_ALIGN;
    aligned = finished(aligned);
    limits.mamba_align = 1;
    assert_int_equal(pages_held(&aligned, &limits), 5);
}

static void row_25_aligned_states_are_indexed_by_position(void **state)
{
    (void)state;
    pkv_limits limits = limits_of(8192, 8192);
    pkv_spec spec = recurrent(1024);
    spec.num_speculative_blocks = 2;
    spec = finished(spec);
    assert_int_equal(row_of(&spec, &limits, 8192), 3);
    spec.mamba_mode = PKV_MAMBA_ALIGN;
    spec = finished(spec);
    limits.mamba_align = 1;
    assert_int_equal(row_of(&spec, &limits, 8192), 10);
}

static void row_26_cross_attention_keeps_the_encoders_tokens(void **state)
{
    (void)state;
    pkv_limits limits = limits_of(8192, 8192);
    const pkv_spec spec = finished(shaped(PKV_KIND_CROSS, 16, 8, 128, PKV_DTYPE_BFLOAT16));
    limits.max_encoder_tokens = 1500;
    assert_int_equal(pages_held(&spec, &limits), 94);
}

static void row_27_an_encoder_keeps_nothing(void **state)
{
    (void)state;
    uint64_t bytes;
    const pkv_limits limits = limits_of(8192, 8192);
    const pkv_spec spec = finished(shaped(PKV_KIND_ENCODER_ONLY, 16, 8, 128, PKV_DTYPE_BFLOAT16));
    assert_ok(pkv_spec_max_memory_bytes(&spec, &limits, &bytes));
    assert_int_equal(bytes, 0);
}

/* A spec that the planner derives for sparse latent layers. */
static pkv_spec derived(uint32_t kind)
{
    pkv_spec spec;
    assert_ok(pkv_spec_init(&spec, kind));
    spec.block_size = 64;
    spec.page_size = 4096;
    spec.blocks_per_request = kind == PKV_KIND_HISPARSE_HOT ? 3 : 0;
    return finished(spec);
}

static void row_28_hot_rows_are_blocks_of_a_request(void **state)
{
    (void)state;
    uint64_t bytes;
    const pkv_limits limits = limits_of(8192, 8192);
    const pkv_spec spec = derived(PKV_KIND_HISPARSE_HOT);
    assert_ok(pkv_spec_max_memory_bytes(&spec, &limits, &bytes));
    assert_int_equal(bytes, 12288);
    assert_int_equal(row_of(&spec, &limits, 8192), 3);
}

static void row_29_resident_pages_cover_what_is_in_flight(void **state)
{
    (void)state;
    uint64_t bytes;
    pkv_limits limits = limits_of(8192, 1000);
    const pkv_spec spec = derived(PKV_KIND_HISPARSE_RESIDENT);
    assert_int_equal(cap_of(&spec, 8192, 1000), 16);
    assert_ok(pkv_spec_max_memory_bytes(&spec, &limits, &bytes));
    assert_int_equal(bytes, 65536);
    limits.resident_full_length = 1; /* the earlier revision: the whole length */
    assert_int_equal(pages_held(&spec, &limits), 128);
    assert_ok(pkv_spec_admission_cap(&spec, &limits, &bytes));
    assert_int_equal(bytes, 16); /* whose cap is the same */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_17_ranks_of_context_parallelism_share_sharded_tokens),
        cmocka_unit_test(row_18_table_rows_shrink_with_context_parallelism),
        cmocka_unit_test(row_19_a_window_caps_what_admission_counts),
        cmocka_unit_test(row_20_a_sharded_window_has_no_size_under_context_parallelism),
        cmocka_unit_test(row_21_a_chunk_is_capped_like_a_window_without_the_extra_block),
        cmocka_unit_test(row_22_a_ring_is_one_block_for_life),
        cmocka_unit_test(row_23_a_recurrent_state_is_the_sum_of_its_tensors),
        cmocka_unit_test(row_24_speculative_and_checkpoint_states_take_pages_of_their_own),
        cmocka_unit_test(row_25_aligned_states_are_indexed_by_position),
        cmocka_unit_test(row_26_cross_attention_keeps_the_encoders_tokens),
        cmocka_unit_test(row_27_an_encoder_keeps_nothing),
        cmocka_unit_test(row_28_hot_rows_are_blocks_of_a_request),
        cmocka_unit_test(row_29_resident_pages_cover_what_is_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
