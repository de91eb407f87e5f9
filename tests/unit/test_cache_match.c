/* test_cache_match.c  The searches, masks and counts of the kinds alone: rows 110-119
 * of kv-core 9.5. Blocks of two tokens; block i is keyed with id i + 1. */
#include "seq_fixture.h"

#include "manager/manager.h"
#include "prefix/match.h"

enum { N = 10 }; /* blocks */

static pkv_key keys[N];
static const uint32_t group = 0;

/* A pool in which the blocks of the mask ("0110...") can be found. */
static pkv_pool *pool_with(const char *mask)
{
    pkv_pool *pool;
    pkv_pool_params params;
    pkv_block ids[N];
    uint8_t bytes[N];
    for (uint8_t i = 0; i < N; i++) {
        keys[i] = (pkv_key){{(uint8_t)(i + 1)}};
        bytes[i] = mask[i] == '1';
    }
    pkv_pool_params_init(&params);
    params.n_blocks = N + 1;
    params.unit = 2;
    assert_ok(pkv_pool_create(&params, &pool));
    assert_ok(pkv_pool_take(pool, N, ids));
    const pkv_chain chain = {.keys = keys, .n_keys = N, .n_tokens = 2 * (uint64_t)N};
    assert_ok(pkv_pool_cache_full(pool, &chain, ids, 0, N, 2, group, bytes));
    return pool;
}

typedef struct question {
    const char *cached;
    uint64_t window; /* 0: full */
    uint64_t max, alignment;
    bool drop;
    uint64_t chunk; /* 0: none */
    bool state;     /* a recurrent layer */
} question;

static void assert_found(question q, uint64_t tokens, const char *table)
{
    pkv_block ids[N + 1], *tables[] = {ids};
    uint64_t n;
    pkv_pool *pool = pool_with(q.cached);
    const pkvi_match m = {.pool = pool,
                          .keys = keys,
                          .n_units = N,
                          .unit = 2,
                          .block_size = 2,
                          .alignment = q.alignment ? q.alignment : 2,
                          .drop = q.drop,
                          .groups = &group,
                          .n_groups = 1,
                          .tables = tables};
    const uint64_t found = q.window ? pkvi_match_window(&m, q.window, q.max, &n)
                           : q.chunk
                               ? pkvi_match_chunk(&m, q.max / q.chunk * q.chunk / 2, q.max, &n)
                           : q.state ? pkvi_match_state(&m, q.max, &n)
                                     : pkvi_match_full(&m, q.max, &n);
    assert_int_equal(found, tokens);
    assert_blocks(ids, n, table);
    pkv_pool_destroy(pool);
}

#define ALL "1111111111"

static void row_111_full_attention_is_found_from_the_left(void **state)
{
    (void)state;
    assert_found((question){ALL, 0, 20, 0, false, 0, false}, 20, "1..10");
    assert_found((question){ALL, 0, 19, 0, false, 0, false}, 18, "1..9");
    assert_found((question){ALL, 0, 18, 4, false, 0, false}, 16, "1..8");
    assert_found((question){ALL, 0, 20, 0, true, 0, false}, 18, "1..9");
}

static void row_112_a_window_is_found_from_the_right(void **state)
{
    (void)state;
    assert_found((question){ALL, 4, 20, 0, false, 0, false}, 20, "0*8 9 10");
    assert_found((question){ALL, 4, 20, 0, true, 0, false}, 18, "0*7 8 9");
}

static void row_113_the_last_run_that_covers_the_window_counts(void **state)
{
    (void)state;
    assert_found((question){"0011100010", 4, 20, 0, false, 0, false}, 10, "0*3 4 5");
    assert_found((question){"0011100010", 4, 20, 0, true, 0, false}, 8, "0 0 3 4");
}

static void row_114_a_run_from_the_start_counts_whatever_its_length(void **state)
{
    (void)state;
    assert_found((question){"1000000000", 4, 20, 0, false, 0, false}, 2, "1");
    assert_found((question){"0100000000", 4, 20, 0, false, 0, false}, 0, "");
}

static void row_115_what_lies_in_earlier_chunks_counts_as_found(void **state)
{
    (void)state;
    assert_found((question){"0000110000", 0, 15, 0, false, 8, false}, 12, "0*4 5 6");
    assert_found((question){"0000110000", 0, 16, 0, false, 8, false}, 16, "0*8");
    assert_found((question){"0000010000", 0, 15, 0, false, 8, false}, 8, "0*4");
}

static void row_116_full_attention_ends_at_the_first_miss(void **state)
{
    (void)state;
    assert_found((question){"1101000000", 0, 20, 0, false, 0, false}, 4, "1 2");
    assert_found((question){"0111111111", 0, 20, 0, false, 0, false}, 0, "");
}

static void row_117_one_state_is_enough(void **state)
{
    (void)state;
    /* blocks 2 and 5 are cached: the last one counts, and nothing before it is looked at */
    assert_found((question){"0010010000", 0, 20, 0, false, 0, true}, 12, "0*5 6");
    /* alignment 4: 12 is a multiple of it, and so it stays */
    assert_found((question){"0010010000", 0, 20, 4, false, 0, true}, 12, "0*5 6");
    /* 6 is none */
    assert_found((question){"0010000000", 0, 20, 4, false, 0, true}, 0, "");
    /* of at most 11 tokens block 5 is not one */
    assert_found((question){"0010010000", 0, 11, 0, false, 0, true}, 6, "0 0 3");
}

static void case_30_a_drafter_needs_one_block_more_in_a_row(void **state)
{
    (void)state;
    /* [-, -, A, B]: dropping B would leave one block of history where two are needed */
    assert_found((question){"0011000000", 4, 8, 0, true, 0, false}, 0, "");
    assert_found((question){"0011000000", 4, 8, 0, false, 0, false}, 8, "0 0 3 4");
    assert_found((question){"0111000000", 4, 8, 0, true, 0, false}, 6, "0 2 3");
    assert_found((question){"1101110000", 4, 12, 0, true, 0, false}, 10, "0 0 0 4 5");
}

static void a_run_ends_only_where_hits_may_end(void **state)
{
    (void)state;
    /* alignment 8 = 4 blocks: ends after blocks 4 and 8 */
    assert_found((question){ALL, 4, 20, 8, false, 0, false}, 16, "0*6 7 8");
    assert_found((question){"1111110000", 4, 20, 8, false, 0, false}, 8, "0 0 3 4");
    /* with a drop the run ends one block past the boundary */
    assert_found((question){ALL, 4, 20, 8, true, 0, false}, 16, "0*6 7 8");
    assert_found((question){"1111111100", 4, 20, 8, true, 0, false}, 8, "0 0 3 4");
}

static void a_run_from_the_start_is_cut_to_where_hits_may_end(void **state)
{
    (void)state;
    /* window 12: 6 blocks, 7 with a drop; alignment 8 = 4 blocks */
    assert_found((question){"1111000000", 12, 20, 8, false, 0, false}, 8, "1..4");
    /* 5 blocks are cut to 4, one is dropped, and 3 are cut to 0 */
    assert_found((question){"1111100000", 12, 20, 8, true, 0, false}, 0, "");
}

static void a_fine_hit_ends_inside_a_block(void **state)
{
    (void)state;
    pkv_pool *pool;
    pkv_pool_params params;
    pkv_block ids[2], out[3], *tables[] = {out};
    uint64_t n;
    for (uint8_t i = 0; i < N; i++) {
        keys[i] = (pkv_key){{(uint8_t)(i + 1)}};
    }
    pkv_pool_params_init(&params);
    params.n_blocks = 4;
    params.unit = 2;
    params.units_per_block = 4;
    assert_ok(pkv_pool_create(&params, &pool));
    assert_ok(pkv_pool_take(pool, 2, ids));
    const pkv_chain chain = {.keys = keys, .n_keys = N, .n_tokens = 2 * (uint64_t)N};
    assert_ok(pkv_pool_cache_full(pool, &chain, ids, 0, 1, 8, group, NULL));
    assert_ok(pkv_pool_cache_partial(pool, &chain, ids[1], 12, group, false));
    pkvi_match m = {.pool = pool,
                    .keys = keys,
                    .n_units = N,
                    .unit = 2,
                    .block_size = 8,
                    .alignment = 2,
                    .groups = &group,
                    .n_groups = 1,
                    .tables = tables};
    assert_int_equal(pkvi_match_full(&m, 15, &n), 12); /* 14 is not cached, 12 is */
    assert_blocks(out, n, "1 2");
    assert_int_equal(pkvi_match_full(&m, 11, &n), 8); /* neither is 10 */
    assert_blocks(out, n, "1");
    m.drop = true; /* gives up min(2, 8) tokens */
    assert_int_equal(pkvi_match_full(&m, 15, &n), 10);
    assert_blocks(out, n, "1 2");
    pkv_pool_destroy(pool);
}

static void a_window_of_one_token_ends_at_any_cached_block(void **state)
{
    (void)state;
    assert_found((question){"0000001000", 1, 20, 0, false, 0, false}, 14, "0*6 7");
}

/* ---- 118 ---- */

static pkvi_manager window_of(uint64_t window, bool drop)
{
    return (pkvi_manager){.rules = &pkvi_sliding_rules,
                          .spec = windowed_of(window, 2, 8),
                          .span = 2,
                          .window = window,
                          .cacheable = true,
                          .drop = drop};
}

static void assert_mask_of(const pkvi_manager *m, uint64_t alignment, uint64_t retention,
                           uint64_t boundary, const char *wanted)
{
    uint8_t bytes[8];
    char got[9] = "all";
    const pkvi_mask_in in = {0, 8, alignment, retention, &boundary, 1};
    if (m->rules->mask(m, &in, bytes)) {
        for (int i = 0; i < 8; i++) {
            got[i] = bytes[i] ? '1' : '0';
        }
        got[8] = '\0';
    }
    assert_string_equal(got, wanted);
}

static void assert_mask(bool drop, uint64_t alignment, uint64_t retention, uint64_t boundary,
                        const char *wanted)
{
    const pkvi_manager m = window_of(4, drop);
    assert_mask_of(&m, alignment, retention, boundary, wanted);
}

static void row_118_a_window_keys_what_a_hit_can_read(void **state)
{
    (void)state;
    assert_mask(false, 8, PKV_RETAIN_DENSE, 0, "00110011");
    assert_mask(true, 8, PKV_RETAIN_DENSE, 0, "00111011");
    assert_mask(false, 8, 0, 15, "00110000");
    assert_mask(false, 8, 16, 11, "00110011");
    assert_mask(false, 4, PKV_RETAIN_DENSE, 0, "all");
}

static void row_119_states_are_keyed_per_segment_and_where_a_replay_resumes(void **state)
{
    (void)state;
    const pkvi_manager m = {.rules = &pkvi_state_rules, .span = 2, .cacheable = true};
    assert_mask_of(&m, 2, PKV_RETAIN_DENSE, 0, "all");
    assert_mask_of(&m, 2, 0, 11, "00001000"); /* 11 / 2 = 5 blocks: the fifth */
    assert_mask_of(&m, 2, 8, 0, "00010001");  /* the last of each 8 / 2 = 4 */
    assert_mask_of(&m, 2, 8, 11, "00011001"); /* both */
    assert_mask_of(&m, 2, 2, 0, "all");       /* segments of one block */
    assert_mask_of(&m, 4, 0, 11, "00010000"); /* hits end on multiples of 4: 8 */
}

static void a_mask_of_a_part_is_that_part_of_the_mask(void **state)
{
    (void)state;
    uint8_t bytes[4];
    const pkvi_manager m = window_of(4, false);
    const uint64_t boundary = 15;
    const pkvi_mask_in in = {2, 6, 8, PKV_RETAIN_DENSE, &boundary, 1};
    assert_true(m.rules->mask(&m, &in, bytes));
    const uint8_t wanted[] = {1, 1, 0, 0}; /* of 00110011 */
    assert_memory_equal(bytes, wanted, sizeof wanted);
}

static void full_attention_keys_every_block(void **state)
{
    (void)state;
    const pkvi_manager m = {.rules = &pkvi_full_rules, .spec = full_of(16, 8), .span = 16};
    assert_false(m.rules->mask(&m, NULL, NULL));
    assert_int_equal(m.rules->skipped(&m, 1000), 0);
}

/* ---- 110 and section 5.2: what a window skips ---- */

static void row_110_a_hit_of_a_window_needs_so_many_blocks(void **state)
{
    (void)state;
    assert_int_equal(pkvi_window_blocks(4, 2, false), 2);
    assert_int_equal(pkvi_window_blocks(4, 2, true), 3);
    assert_int_equal(pkvi_window_blocks(1, 2, false), 0);
    assert_int_equal(pkvi_window_blocks(2048, 16, false), 128); /* ceil(2047 / 16) */
}

static void a_window_skips_all_but_what_the_next_token_sees(void **state)
{
    (void)state;
    const uint64_t wanted[] = {0, 0, 0, 0, 1, 2, 3, 4, 5};
    pkvi_manager m = window_of(4, false);
    for (uint64_t n = 0; n < COUNT(wanted); n++) {
        assert_int_equal(m.rules->skipped(&m, n), wanted[n]);
    }
    m.spec.extra_retained_tokens = 2; /* for a drafter */
    assert_int_equal(m.rules->skipped(&m, 5), 0);
    assert_int_equal(m.rules->skipped(&m, 8), 3);
}

/* ---- section 5.1: need ---- */

static int64_t need(const pkvi_manager *m, const pkv_pool *pool, const pkvi_table *t, pkvi_need in)
{
    return pkvi_manager_need(m, pool, t, &in);
}

static void need_counts_new_blocks_and_idle_ones_that_are_adopted(void **state)
{
    (void)state;
    const pkvi_manager m = {.rules = &pkvi_full_rules, .spec = full_of(2, 8), .span = 2};
    const pkvi_table none = {0};
    pkv_pool *pool = pool_with(ALL);
    const pkv_block idle[] = {1, 2};
    assert_ok(pkv_pool_release(pool, idle, 2));
    const pkv_block hit[] = {1, 2, 3};
    /* 5 blocks for 10 tokens, 3 of them found; 1 and 2 are idle, 3 is held */
    const pkvi_need in = {.tokens = 10, .total = 6, .local = 6, .hit = hit, .n_hit = 3};
    assert_int_equal(need(&m, pool, &none, in), 2 + 2);
    const pkvi_need cold = {.tokens = 10};
    assert_int_equal(need(&m, pool, &none, cold), 5);
    pkv_pool_destroy(pool);
}

static void need_of_a_running_table_is_what_it_lacks(void **state)
{
    (void)state;
    const pkvi_manager m = {.rules = &pkvi_full_rules, .spec = full_of(2, 8), .span = 2};
    pkvi_table t = {.n = 3, .tracked = true};
    pkv_pool *pool = pool_with(ALL);
    const pkvi_need more = {.tokens = 9}, less = {.tokens = 3};
    assert_int_equal(need(&m, pool, &t, more), 2); /* ceil(9 / 2) - 3 */
    assert_int_equal(need(&m, pool, &t, less), 0);
    pkv_pool_destroy(pool);
}

static void need_of_a_window_leaves_out_what_it_skips_and_admission_caps_it(void **state)
{
    (void)state;
    pkvi_manager m = window_of(4, false);
    const pkvi_table none = {0};
    pkv_pool *pool = pool_with(ALL);
    const pkv_block hit[] = {0, 0, 3, 4};
    /* 8 of 12 tokens are found; skipped(8) = 8 - 4 + 1 = 5: blocks 0, 1 */
    const pkvi_need in = {.tokens = 12, .total = 8, .local = 8, .hit = hit, .n_hit = 4};
    assert_int_equal(need(&m, pool, &none, in), 2);
    m.cap = 3;
    const pkvi_need whole = {.tokens = 20, .admission = true}, step = {.tokens = 20};
    assert_int_equal(need(&m, pool, &none, whole), 3);
    assert_int_equal(need(&m, pool, &none, step), 10);
    pkv_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_110_a_hit_of_a_window_needs_so_many_blocks),
        cmocka_unit_test(row_111_full_attention_is_found_from_the_left),
        cmocka_unit_test(row_112_a_window_is_found_from_the_right),
        cmocka_unit_test(row_113_the_last_run_that_covers_the_window_counts),
        cmocka_unit_test(row_114_a_run_from_the_start_counts_whatever_its_length),
        cmocka_unit_test(row_115_what_lies_in_earlier_chunks_counts_as_found),
        cmocka_unit_test(row_116_full_attention_ends_at_the_first_miss),
        cmocka_unit_test(row_117_one_state_is_enough),
        cmocka_unit_test(row_118_a_window_keys_what_a_hit_can_read),
        cmocka_unit_test(row_119_states_are_keyed_per_segment_and_where_a_replay_resumes),
        cmocka_unit_test(case_30_a_drafter_needs_one_block_more_in_a_row),
        cmocka_unit_test(a_run_ends_only_where_hits_may_end),
        cmocka_unit_test(a_run_from_the_start_is_cut_to_where_hits_may_end),
        cmocka_unit_test(a_fine_hit_ends_inside_a_block),
        cmocka_unit_test(a_window_of_one_token_ends_at_any_cached_block),
        cmocka_unit_test(a_mask_of_a_part_is_that_part_of_the_mask),
        cmocka_unit_test(full_attention_keys_every_block),
        cmocka_unit_test(a_window_skips_all_but_what_the_next_token_sees),
        cmocka_unit_test(need_counts_new_blocks_and_idle_ones_that_are_adopted),
        cmocka_unit_test(need_of_a_running_table_is_what_it_lacks),
        cmocka_unit_test(need_of_a_window_leaves_out_what_it_skips_and_admission_caps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
