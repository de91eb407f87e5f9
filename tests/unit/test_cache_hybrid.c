/* test_cache_hybrid.c  Rows of kv-core 9.5 about several groups, and what sparse groups keep. */
#include "seq_fixture.h"

static pkv_hit hit_of(pkv_seq *seq)
{
    pkv_hit hit;
    assert_ok(pkv_seq_lookup(seq, &hit));
    return hit;
}

/* Which blocks of a table have a key. */
static void assert_keyed(const pkv_cache *cache, const pkv_seq *seq, uint32_t g, const char *mask)
{
    uint64_t n;
    char got[128] = "";
    const pkv_block *ids = pkv_seq_table(seq, g, &n);
    for (uint64_t i = 0; i < n && i + 1 < sizeof got; i++) {
        got[i] = pkv_pool_block_tokens(pkv_cache_get_pool(cache), ids[i]) ? '1' : '0';
        got[i + 1] = '\0';
    }
    assert_string_equal(got, mask);
}

/* ---- 121, 122 ---- */

static void row_121_a_hit_is_what_all_groups_hold(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 60, 320);
    pkv_seq *first = run_n(cache, 160);
    assert_table(first, 0, "1..10");
    assert_table(first, 1, "11..20");
    pkv_seq *again = open_n(cache, 160);
    const pkv_hit hit = hit_of(again);
    assert_int_equal(hit.tokens, 144);
    assert_int_equal(hit.shared_prefix, 0);
    assert_hit(cache, 0, "1..9");
    assert_hit(cache, 1, "0*7 18 19");
    (void)take(again, 16);
    assert_table(again, 0, "1..9 21");
    assert_table(again, 1, "0*7 18 19 22");
    end_cache(cache);
}

static void row_122_a_hole_in_one_group_shortens_the_hit_of_all(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 60, 320);
    (void)run_n(cache, 160);
    const pkv_block block = 18; /* index 7 of the window's table */
    assert_ok(pkv_cache_evict(cache, &block, 1));
    pkv_seq *again = open_n(cache, 160);
    const pkv_hit hit = hit_of(again);
    assert_int_equal(hit.tokens, 112);
    assert_int_equal(hit.shared_prefix, 144);
    end_cache(cache);
}

/* ---- 139: retention ---- */

static void row_139_sparse_groups_keep_only_where_a_request_can_resume(void **state)
{
    (void)state;
    static event_log log;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    params.retention_interval = 0;
    log.n = 0;
    pkv_cache *cache = watched_cache(&params, 0, &log);
    pkv_seq *seq = run_n(cache, 160);
    assert_keyed(cache, seq, 1, "0000000110");
    assert_keyed(cache, seq, 0, "1111111111");
    assert_int_equal(log.n, 2);
    assert_stored(&log, 0, 0, 10, 0, 160);
    assert_stored(&log, 1, 1, 2, 0, 160); /* the range counts masked blocks too */
    assert_int_equal(log.at[1].positions[0], 112);
    assert_int_equal(log.at[1].positions[1], 128);
    assert_int_equal(resend(cache, 160), 144);
    end_cache(cache);
}

static void row_140_retention_fits_the_blocks_and_needs_a_sparse_group(void **state)
{
    (void)state;
    const pkv_spec both[] = {full(), windowed(32)};
    pkv_plan_params plan_params = blocks_for(both, 2, 60, 320);
    plan_params.retention_interval = 24;
    for (int i = 0; i < 2; i++) {
        pkv_cache *cache = (pkv_cache *)(uintptr_t)1;
        pkv_plan *plan = plan_of(&plan_params);
        const pkv_cache_params params = cache_params_of(plan, NULL);
        assert_status(pkv_cache_create(&params, &cache), PKV_E_VALUE);
        assert_null(cache);
        pkv_plan_destroy(plan);
        plan_params = blocks_for(both, 1, 60, 320); /* full only */
        plan_params.retention_interval = 16;
    }
}

static void an_interval_keeps_the_tail_of_each_segment(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    params.retention_interval = 64; /* 4 blocks, of which the last 2 cover a window */
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 160);
    /* 0011 0011 00, and the two before 144, where a resend resumes */
    assert_keyed(cache, seq, 1, "0011001110");
    end_cache(cache);
}

/* What row 120's boundaries keep of a window of 32: two blocks before each; with a drafter three,
 * of which one lies after the boundary. */
static void assert_kept(bool eagle, uint64_t n, const char *mask)
{
    pkv_spec layers[] = {full(), windowed(32)};
    layers[1].is_draft = eagle;
    pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    params.retention_interval = 0;
    params = eagle ? with_drop(params) : params;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, n);
    assert_keyed(cache, seq, 1, mask);
    end_cache(cache);
}

static void row_120_a_replay_resumes_at_these_boundaries(void **state)
{
    (void)state;
    assert_kept(false, 64, "0110"); /* (63) -> 48 = 3 blocks: 1, 2 */
    assert_kept(true, 64, "1111");  /* (32, 48): [0, 3) and [1, 4) */
    assert_kept(true, 65, "01110"); /* (48): [1, 4) */
    assert_kept(true, 10, "0");     /* (0): nothing is whole */
}

static void the_junction_of_a_shared_prefix_is_kept(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_plan_params params = blocks_for(layers, 2, 100, 320);
    params.retention_interval = 0;
    pkv_cache *cache = cache_of(&params);
    (void)run_n(cache, 160);
    /* full attention knows 96 tokens of it, the window nothing below 112 */
    pkv_seq *other = open_tokens(cache, diverging(100), 160);
    const pkv_hit hit = hit_of(other);
    assert_int_equal(hit.tokens, 0);
    assert_int_equal(hit.shared_prefix, 96);
    (void)take(other, 160);
    /* 96 = 6 blocks: 4 and 5; and the replay's own 7 and 8 */
    assert_keyed(cache, other, 1, "0000110110");
    pkv_seq *third = open_tokens(cache, diverging(100), 101);
    assert_int_equal(lookup(third), 96);
    end_cache(cache);
}

static void the_junction_of_a_drafter_is_kept_one_block_lower_too(void **state)
{
    (void)state;
    pkv_spec layers[] = {full(), windowed(32)};
    layers[1].is_draft = 1;
    pkv_plan_params params = with_drop(blocks_for(layers, 2, 100, 320));
    params.retention_interval = 0;
    pkv_cache *cache = cache_of(&params);
    (void)run_n(cache, 160);
    pkv_seq *other = open_tokens(cache, diverging(100), 160);
    const pkv_hit hit = hit_of(other);
    assert_int_equal(hit.tokens, 0);
    assert_int_equal(hit.shared_prefix, 96);
    (void)take(other, 160);
    /* runs of 3 that end one block past: 128: [6, 9), 144: [7, 10), 96: [4, 7), 80: [3, 6) */
    assert_keyed(cache, other, 1, "0001111111");
    end_cache(cache);
}

static void a_group_that_shortens_makes_the_others_look_again(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32), windowed(64)};
    const pkv_plan_params params = blocks_for(layers, 3, 90, 320);
    pkv_cache *cache = cache_of(&params);
    uint64_t n;
    pkv_seq *first = run_n(cache, 160);
    const pkv_block holes[] = {pkv_seq_table(first, 1, &n)[7], pkv_seq_table(first, 2, &n)[3]};
    const pkv_block in_short = pkv_seq_table(first, 1, &n)[1];
    assert_ok(pkv_cache_evict(cache, holes, 2));
    pkv_seq *again = open_n(cache, 160);
    /* 32: blocks 7, 8 fail; 5, 6 end at 112. 64: there 3 to 6 fail; 0 to 2 reach the start: 48 */
    const pkv_hit hit = hit_of(again);
    assert_int_equal(hit.tokens, 48);
    assert_int_equal(hit.shared_prefix, 144);
    assert_hit(cache, 0, "1..3");
    const pkv_block *ids = pkv_cache_hit_blocks(cache, 1, &n);
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], in_short);
    end_cache(cache);
}

static void many_groups_are_found_together(void **state)
{
    (void)state;
    pkv_spec layers[21];
    for (size_t i = 0; i < COUNT(layers); i++) {
        layers[i] = i == 0 ? full() : windowed(32);
    }
    const pkv_plan_params params = blocks_for(layers, COUNT(layers), 450, 320);
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_get_info(cache)->n_groups, 21);
    uint64_t n;
    pkv_seq *first = run_n(cache, 160);
    assert_int_equal(resend(cache, 160), 144);
    const pkv_block hole = pkv_seq_table(first, 20, &n)[7];
    assert_ok(pkv_cache_evict(cache, &hole, 1));
    assert_int_equal(resend(cache, 160), 112);
    assert_hit(cache, 0, "1..7");
    end_cache(cache);
}

/* ---- 141, 142 ---- */

static void row_141_blocks_of_two_sizes_meet_at_their_multiple(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(32, 8), windowed_of(64, 64, 4)};
    const pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_get_info(cache)->scheduler_block_size, 64);
    assert_int_equal(pkv_cache_get_info(cache)->unit, 32);
    warm(cache, 200);
    assert_int_equal(resend(cache, 200), 192);
    end_cache(cache);
}

static void row_142_a_hybrid_drafter_peeks_one_block_further(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    const pkv_plan_params params = with_drop(blocks_for(layers, 2, 60, 320));
    pkv_cache *cache = cache_of(&params);
    warm(cache, 160);
    assert_int_equal(resend(cache, 160), 144);
    assert_int_equal(resend(cache, 176), 144);
    end_cache(cache);
}

static void a_window_alone_finds_its_last_run(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 60, 320);
    warm(cache, 160);
    pkv_seq *again = open_n(cache, 160);
    assert_int_equal(lookup(again), 144);
    assert_hit(cache, 0, "0*7 8 9");
    end_cache(cache);
}

static void groups_of_one_window_are_found_together(void **state)
{
    (void)state;
    /* one full layer and two windows: three groups, two of one spec */
    const pkv_spec layers[] = {full(), windowed(32), windowed(32)};
    const pkv_plan_params params = blocks_for(layers, 3, 90, 320);
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_get_info(cache)->n_groups, 3);
    pkv_seq *first = run_n(cache, 160);
    assert_table(first, 1, "11..20");
    assert_table(first, 2, "21..30");
    assert_int_equal(resend(cache, 160), 144);
    const pkv_block block = 28; /* index 7 of the second window */
    assert_ok(pkv_cache_evict(cache, &block, 1));
    assert_int_equal(resend(cache, 160), 112);
    end_cache(cache);
}

static void a_hit_of_another_group_is_touched_before_anything_is_taken(void **state)
{
    (void)state;
    /* 10 + 10 blocks are cached and idle, and just as many as there are */
    pkv_cache *cache = hybrid_cache(32, 25, 160);
    warm(cache, 160);
    pkv_seq *again = open_n(cache, 160);
    assert_int_equal(lookup(again), 144);
    (void)take(again, 16);
    uint64_t n_full, n_window;
    const pkv_block *in_full = pkv_seq_table(again, 0, &n_full),
                    *window = pkv_seq_table(again, 1, &n_window);
    assert_int_equal(n_full, 10);
    assert_int_equal(n_window, 10);
    assert_blocks(in_full, 9, "1..9");
    assert_blocks(window, 9, "0*7 18 19");
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_120_a_replay_resumes_at_these_boundaries),
        cmocka_unit_test(row_121_a_hit_is_what_all_groups_hold),
        cmocka_unit_test(row_122_a_hole_in_one_group_shortens_the_hit_of_all),
        cmocka_unit_test(row_139_sparse_groups_keep_only_where_a_request_can_resume),
        cmocka_unit_test(row_140_retention_fits_the_blocks_and_needs_a_sparse_group),
        cmocka_unit_test(row_141_blocks_of_two_sizes_meet_at_their_multiple),
        cmocka_unit_test(row_142_a_hybrid_drafter_peeks_one_block_further),
        cmocka_unit_test(an_interval_keeps_the_tail_of_each_segment),
        cmocka_unit_test(the_junction_of_a_shared_prefix_is_kept),
        cmocka_unit_test(the_junction_of_a_drafter_is_kept_one_block_lower_too),
        cmocka_unit_test(a_group_that_shortens_makes_the_others_look_again),
        cmocka_unit_test(many_groups_are_found_together),
        cmocka_unit_test(a_window_alone_finds_its_last_run),
        cmocka_unit_test(groups_of_one_window_are_found_together),
        cmocka_unit_test(a_hit_of_another_group_is_touched_before_anything_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
