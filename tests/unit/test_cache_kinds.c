/* test_cache_kinds.c  Chunks, reference windows, rings and cross attention at run time: rows of
 * kv-core 9.5. */
#include "seq_fixture.h"

/* A ring whose page is that of full(): 16 rows of 2048 two-byte elements are 64 KiB. */
static pkv_spec ring(void)
{
    return ring_of(16, 2048);
}

static void row_127_a_ring_is_one_block_for_life(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), ring()};
    const pkv_plan_params params = blocks_for(layers, 2, 20, 160);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 100);
    assert_table(seq, 0, "1..7");
    assert_table(seq, 1, "8");
    close_seq(seq);
    seq = open_n(cache, 100);
    assert_int_equal(lookup(seq), 96);
    (void)take(seq, 4);
    assert_table(seq, 0, "1..6 8"); /* 8 was freed last, 7 before it: both have no key */
    assert_table(seq, 1, "7");
    append(seq, 1, 1);
    (void)take(seq, 1);
    assert_new(seq, 1, "");
    end_cache(cache);
}

static void row_154_a_ring_has_a_table_of_one_entry(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), ring()};
    const pkv_plan_params params = blocks_for(layers, 2, 100, 1008);
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_group_at(cache, 0)->table_width, 64); /* 63 of 16 tokens */
    assert_int_equal(pkv_cache_group_at(cache, 1)->table_width, 1);
    end_cache(cache);
}

static void row_132_a_reference_window_keeps_the_prompt(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_RSWA, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.rswa_window = 32;
    const pkv_spec layers[] = {finished(spec)};
    const pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 40);
    append(seq, 1, 90);
    (void)take(seq, 90);
    pkv_cache_step(cache);
    append(seq, 1, 1);
    (void)take(seq, 1); /* 130 are computed: 98..129 are in view, block 6 on */
    assert_table(seq, 0, "1..3 0*3 7..9");
    int32_t row[10];
    uint64_t from;
    assert_ok(pkv_seq_row(seq, 0, row, 10, &from, NULL));
    assert_int_equal(from, 3); /* what was let go is told */
    assert_int_equal(row[2], 3);
    assert_int_equal(row[3], 0);
    end_cache(cache);
}

static void row_138_cross_attention_takes_blocks_for_the_encoder_once(void **state)
{
    (void)state;
    pkv_spec cross = finished(shaped(PKV_KIND_CROSS, 16, 8, 128, PKV_DTYPE_BFLOAT16));
    const pkv_spec layers[] = {full(), cross};
    pkv_plan_params params = blocks_for(layers, 2, 40, 160);
    params.max_encoder_tokens = 100;
    params.caching = 0;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = open_n(cache, 10);
    pkv_allocate_params first = new_tokens(10);
    first.encoder_tokens = 100;
    (void)allocate(seq, first);
    assert_table(seq, 1, "2..8"); /* 100 / 16, rounded up: 7 */
    append(seq, 1, 1);
    (void)take(seq, 1);
    assert_new(seq, 1, "");
    assert_int_equal(pkv_seq_blocks_of(seq, 1, 1), 7); /* the tokens are the encoder's */
    end_cache(cache);
}

/* Upstream's manager of it refuses to key blocks, and cannot look them up. */
static void cross_attention_allows_no_prefixes(void **state)
{
    (void)state;
    pkv_spec cross = finished(shaped(PKV_KIND_CROSS, 16, 8, 128, PKV_DTYPE_BFLOAT16));
    const pkv_spec layers[] = {full(), cross};
    pkv_plan_params plan_params = blocks_for(layers, 2, 40, 160);
    plan_params.max_encoder_tokens = 100;
    assert_no_cache_with(&plan_params, cache_params_of(NULL, NULL), PKV_E_UNSUPPORTED,
                         "caching must be off");
}

static void positions_have_32_bits(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(1 << 20, 1)};
    const pkv_plan_params most = blocks_for(layers, 1, 5000, UINT32_MAX);
    const pkv_plan_params more = blocks_for(layers, 1, 5000, UINT64_C(1) << 32);
    end_cache(cache_of(&most));
    assert_no_cache_with(&more, cache_params_of(NULL, NULL), PKV_E_INVAL,
                         "max_model_len 4294967296");
}

static void encoder_tokens_count_before_anything_is_taken(void **state)
{
    (void)state;
    pkv_spec cross = finished(shaped(PKV_KIND_CROSS, 16, 8, 128, PKV_DTYPE_BFLOAT16));
    const pkv_spec layers[] = {full(), cross};
    pkv_plan_params params = blocks_for(layers, 2, 18, 160); /* 10 and 7 for one request */
    params.max_encoder_tokens = 100;
    params.caching = 0;
    pkv_cache *cache = cache_of(&params);
    (void)run_n(cache, 160); /* without an encoder: 10 of 17 */
    pkv_allocate_params first = new_tokens(16);
    first.encoder_tokens = 112;
    assert_refused(cache, open_n(cache, 16), first, 8, 7);
    end_cache(cache);
}

static void row_146_a_chunk_keeps_itself_only(void **state)
{
    (void)state;
    const pkv_spec layers[] = {chunked(64)};
    const pkv_plan_params params = blocks_for(layers, 1, 40, 320);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = open_n(cache, 160);
    assert_int_equal(lookup(seq), 128); /* whole chunks before the last token's need no content */
    (void)take(seq, 32);
    assert_table(seq, 0, "0*8 1 2");
    close_seq(seq);
    seq = open_n(cache, 161);
    assert_int_equal(lookup(seq), 160); /* the chunk of token 160 begins at 128, in block 8 */
    assert_hit(cache, 0, "0*8 1 2");
    end_cache(cache);
}

static void chunks_and_a_drafter_that_drops_make_no_cache(void **state)
{
    (void)state;
    const pkv_spec layers[] = {chunked(64)};
    const pkv_plan_params params = with_drop(blocks_for(layers, 1, 40, 320));
    pkv_plan *plan = plan_of(&params);
    const pkv_cache_params cache_params = cache_params_of(plan, NULL);
    pkv_cache *cache;
    assert_status(pkv_cache_create(&cache_params, &cache), PKV_E_ASSERT);
    assert_error_text("pkv_cache_create", "chunked_local_attention");
    pkv_plan_destroy(plan);
}

static void a_ring_is_not_forked(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), ring()};
    const pkv_plan_params params = blocks_for(layers, 2, 20, 160);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 100), *child = seq;
    assert_status(pkv_seq_fork(seq, &child), PKV_E_UNSUPPORTED);
    assert_error_text("pkv_seq_fork", "circular_buffer");
    assert_null(child);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_127_a_ring_is_one_block_for_life),
        cmocka_unit_test(row_154_a_ring_has_a_table_of_one_entry),
        cmocka_unit_test(row_132_a_reference_window_keeps_the_prompt),
        cmocka_unit_test(row_138_cross_attention_takes_blocks_for_the_encoder_once),
        cmocka_unit_test(cross_attention_allows_no_prefixes),
        cmocka_unit_test(positions_have_32_bits),
        cmocka_unit_test(encoder_tokens_count_before_anything_is_taken),
        cmocka_unit_test(row_146_a_chunk_keeps_itself_only),
        cmocka_unit_test(chunks_and_a_drafter_that_drops_make_no_cache),
        cmocka_unit_test(a_ring_is_not_forked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
