/* test_cache_admission.c  Who may come in: watermark, reserve, the full-sequence gate, statistics.
 * Rows 128-130 and 148 of kv-core 9.5. */
#include "seq_fixture.h"

static pkv_cache *marked_cache(uint64_t n_blocks, uint64_t len, double watermark)
{
    const pkv_spec layers[] = {full()};
    const pkv_plan_params params = blocks_for(layers, 1, n_blocks, len);
    return watched_cache(&params, watermark, NULL);
}

/* ---- 128: the watermark ---- */

static void row_128_waiting_requests_leave_the_watermark_free(void **state)
{
    (void)state;
    pkv_cache *cache = marked_cache(20, 304, 0.2); /* 4 blocks of 19 */
    pkv_seq *running = open_tokens(cache, diverging(0), 240);
    pkv_allocate_params params = new_tokens(240);
    (void)allocate(running, params); /* 15 */
    pkv_seq *seq = open_n(cache, 16);
    assert_refused(cache, seq, new_tokens(16), 1 + 4, 4);
    params = new_tokens(16);
    params.others_scheduled = 0; /* alone, it may take the last block */
    (void)allocate(seq, params);
    end_cache(cache);
}

static void a_running_request_may_take_the_last_block(void **state)
{
    (void)state;
    pkv_cache *cache = marked_cache(11, 160, 0.5); /* 5 of 10 */
    pkv_seq *seq = run_n(cache, 80);               /* 5 + 5 of 10 */
    assert_int_equal(info_of(seq).waiting, 0);
    append(seq, 5, 80);
    (void)take(seq, 80);
    assert_int_equal(free_of(cache), 0);
    end_cache(cache);
}

static void a_preempted_request_waits_again(void **state)
{
    (void)state;
    pkv_cache *cache = marked_cache(11, 160, 0.5);
    pkv_seq *seq = run_n(cache, 80);
    append(seq, 5, 16);
    (void)take(seq, 16);
    assert_ok(pkv_seq_preempt(seq));
    assert_int_equal(info_of(seq).waiting, 1);
    assert_int_equal(lookup(seq), 80); /* 5 idle blocks and a new one, and 5 stay free */
    assert_refused(cache, seq, new_tokens(16), 6 + 5, 10);
    end_cache(cache);
}

static void a_request_whose_load_is_delayed_still_waits(void **state)
{
    (void)state;
    pkv_cache *cache = marked_cache(11, 160, 0.5);
    pkv_seq *seq = open_n(cache, 64);
    pkv_allocate_params params = new_tokens(0);
    params.external_tokens = 48;
    params.delay_caching = 1;
    (void)allocate(seq, params); /* 3 + 5 of 10 */
    assert_int_equal(info_of(seq).waiting, 1);
    (void)take(seq, 16); /* 1 + 5 of 7 */
    assert_int_equal(info_of(seq).waiting, 0);
    end_cache(cache);
}

static void a_watermark_is_a_share_below_one(void **state)
{
    (void)state;
    const double bad[] = {-0.1, 1.0, 2.0, 0.0 / 0.0};
    const pkv_spec layers[] = {full()};
    const pkv_plan_params plan_params = blocks_for(layers, 1, 20, 160);
    pkv_plan *plan = plan_of(&plan_params);
    pkv_cache_params params = cache_params_of(plan, NULL);
    for (size_t i = 0; i < COUNT(bad); i++) {
        pkv_cache *cache;
        params.watermark = bad[i];
        assert_status(pkv_cache_create(&params, &cache), PKV_E_INVAL);
        assert_null(cache);
    }
    pkv_plan_destroy(plan);
}

/* ---- the reserve ---- */

static void reserved_blocks_are_left_for_others(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(11, 160);
    pkv_seq *seq = open_n(cache, 64);
    pkv_allocate_params params = new_tokens(64);
    params.reserved_blocks = 7;
    assert_refused(cache, seq, params, 4 + 7, 10);
    params.reserved_blocks = 6;
    (void)allocate(seq, params);
    end_cache(cache);
}

/* ---- 129, 130: the gate ---- */

static void row_129_a_window_needs_its_cap_and_no_more(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(32)};
    pkv_plan_params params = blocks_for(layers, 1, 20, 320);
    params.max_num_batched_tokens = 32;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = open_n(cache, 320);
    /* 320 tokens are 20 blocks of 19; it holds ceil((31 + 32) / 16) + 1 = 5 at once */
    pkv_allocate_params gate = new_tokens(32);
    gate.full_sequence_must_fit = 1;
    (void)allocate(seq, gate);
    assert_table(seq, 0, "1 2");
    end_cache(cache);
}

static void the_gate_refuses_below_the_cap(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(32)};
    pkv_plan_params params = blocks_for(layers, 1, 20, 320);
    params.max_num_batched_tokens = 32;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *other = open_tokens(cache, diverging(0), 240);
    (void)take(other, 240); /* 15 of 19 */
    pkv_seq *seq = open_n(cache, 320);
    pkv_allocate_params gate = new_tokens(32);
    gate.full_sequence_must_fit = 1;
    assert_refused(cache, seq, gate, 5, 4);
    gate.full_sequence_must_fit = 0;
    (void)allocate(seq, gate); /* 2 for this step */
    end_cache(cache);
}

static void row_130_a_full_request_needs_its_whole_length(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(21, 320); /* a plan for 320 tokens has 20; one is held: 19 */
    pkv_seq *other = open_tokens(cache, diverging(0), 16);
    (void)take(other, 16);
    pkv_seq *seq = open_n(cache, 320);
    pkv_allocate_params gate = new_tokens(32);
    gate.full_sequence_must_fit = 1;
    assert_refused(cache, seq, gate, 20, 19);
    gate.full_sequence_must_fit = 0;
    (void)allocate(seq, gate);
    end_cache(cache);
}

static void the_gate_counts_the_watermark_but_not_the_reserve(void **state)
{
    (void)state;
    pkv_cache *cache = marked_cache(21, 320, 0.1); /* 2 blocks of 20 */
    pkv_seq *seq = open_n(cache, 304);             /* 19 blocks */
    pkv_allocate_params gate = new_tokens(16);
    gate.full_sequence_must_fit = 1;
    assert_refused(cache, seq, gate, 19 + 2, 20);
    gate.others_scheduled = 0;
    gate.reserved_blocks = 19;
    (void)allocate(seq, gate); /* 19 of 20 pass the gate; then 1 + 19 of 20 */
    end_cache(cache);
}

static void slots_end_at_the_longest_request(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(21, 60);
    pkv_seq *seq = open_n(cache, 60);
    pkv_allocate_params params = new_tokens(60);
    params.lookahead = 100; /* no slot beyond max_model_len: 4 blocks */
    (void)allocate(seq, params);
    assert_table(seq, 0, "1..4");
    end_cache(cache);
}

/* ---- refusals ---- */

static void a_refusal_keeps_what_was_freed_below_the_window(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(32)};
    pkv_plan_params plan_params = blocks_for(layers, 1, 21, 320);
    plan_params.max_num_batched_tokens = 160;
    pkv_cache *cache = cache_of(&plan_params);
    pkv_seq *seq = run_n(cache, 160);
    pkv_seq *other = open_tokens(cache, diverging(0), 160);
    (void)take(other, 160);
    assert_int_equal(free_of(cache), 0);
    append(seq, 1, 160);
    pkv_allocate_params params = new_tokens(160); /* 10 more blocks; 8 fall out of the window */
    pkv_allocate_result result;
    assert_status(pkv_seq_allocate(seq, &params, &result), PKV_E_NO_BLOCKS);
    assert_int_equal(result.needed, 10);
    assert_int_equal(result.free, 8);
    assert_table(seq, 0, "0*8 9 10");
    assert_int_equal(free_of(cache), 8);
    assert_int_equal(info_of(seq).computed, 160);
    assert_sound(cache);
    (void)take(seq, 128); /* and they serve it now */
    end_cache(cache);
}

static void a_refused_hit_is_not_adopted(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(11, 160);
    warm(cache, 64);
    pkv_seq *seq = open_n(cache, 160);
    assert_int_equal(lookup(seq), 64);
    pkv_seq *other = open_tokens(cache, diverging(0), 16);
    (void)take(other, 16);
    /* 4 idle blocks and 6 new ones of 9 */
    assert_refused(cache, seq, new_tokens(96), 10, 9);
    assert_int_equal(pkv_pool_refs(pkv_cache_get_pool(cache), 1), 0);
    assert_int_equal(lookup(seq), 64); /* it can be asked again */
    end_cache(cache);
}

/* ---- statistics ---- */

static void statistics_count_what_was_taken_once(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(30, 160);
    pkv_cache_stats stats;
    pkv_seq *first = run_n(cache, 64); /* a miss of 64 */
    pkv_seq *second = open_n(cache, 65);
    (void)lookup(second);
    (void)lookup(second); /* looking changes nothing */
    (void)take(second, 1);
    pkv_cache_take_stats(cache, &stats);
    assert_int_equal(stats.requests, 2);
    assert_int_equal(stats.queries, 64 + 65);
    assert_int_equal(stats.hits, 64);
    assert_int_equal(stats.preempted_requests + stats.reset, 0);
    assert_ok(pkv_seq_preempt(second));
    (void)take(second, 1);
    pkv_cache_take_stats(cache, &stats);
    assert_int_equal(stats.requests + stats.queries + stats.hits, 0);
    assert_int_equal(stats.preempted_requests, 1);
    assert_int_equal(stats.preempted_queries, 65);
    assert_int_equal(stats.preempted_hits, 64);
    (void)first;
    end_cache(cache);
}

static void statistics_leave_out_who_does_not_look(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(30, 160);
    pkv_cache_stats stats;
    warm(cache, 64);
    pkv_cache_take_stats(cache, &stats);
    pkv_seq_params params = seq_params_of(counting(), 65);
    pkv_seq *seq;
    params.skip_lookup = 1;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    assert_int_equal(lookup(seq), 0);
    (void)take(seq, 65);
    pkv_allocate_params none = new_tokens(65);
    none.use_cached = 0;
    pkv_seq *other = open_n(cache, 65);
    assert_int_equal(allocate(other, none).cached_tokens, 0);
    pkv_cache_take_stats(cache, &stats);
    assert_int_equal(stats.requests, 0);
    assert_int_equal(stats.queries, 0);
    end_cache(cache);
}

static void statistics_of_a_refusal_are_none(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(5, 64);
    pkv_cache_stats stats;
    pkv_seq *seq = open_n(cache, 64);
    pkv_allocate_params params = new_tokens(64);
    params.reserved_blocks = 1;
    assert_refused(cache, seq, params, 5, 4);
    pkv_cache_take_stats(cache, &stats);
    assert_int_equal(stats.requests, 0);
    end_cache(cache);
}

static void the_end_of_a_load_does_not_count_for_admission(void **state)
{
    (void)state;
    pkv_spec layers[] = {full(), recurrent(32)};
    layers[1].mamba_mode = PKV_MAMBA_ALIGN;
    layers[1] = finished(layers[1]);
    const pkv_plan_params params = blocks_for(layers, 2, 20, 160);
    pkv_cache *cache = cache_of(&params);
    (void)run_tokens(cache, diverging(0), 160); /* 10 blocks and a state */
    pkv_allocate_params load = new_tokens(0);
    load.external_tokens = 64;
    load.delay_caching = 1;
    load.full_sequence_must_fit = 1;
    pkv_seq *seq = open_n(cache, 100);
    (void)allocate(seq, load); /* 7 and a state of 8 in all; 4 and a state now */
    assert_int_equal(free_of(cache), 3);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_128_waiting_requests_leave_the_watermark_free),
        cmocka_unit_test(a_running_request_may_take_the_last_block),
        cmocka_unit_test(a_preempted_request_waits_again),
        cmocka_unit_test(a_request_whose_load_is_delayed_still_waits),
        cmocka_unit_test(a_watermark_is_a_share_below_one),
        cmocka_unit_test(reserved_blocks_are_left_for_others),
        cmocka_unit_test(row_129_a_window_needs_its_cap_and_no_more),
        cmocka_unit_test(the_gate_refuses_below_the_cap),
        cmocka_unit_test(row_130_a_full_request_needs_its_whole_length),
        cmocka_unit_test(the_gate_counts_the_watermark_but_not_the_reserve),
        cmocka_unit_test(slots_end_at_the_longest_request),
        cmocka_unit_test(a_refusal_keeps_what_was_freed_below_the_window),
        cmocka_unit_test(a_refused_hit_is_not_adopted),
        cmocka_unit_test(statistics_count_what_was_taken_once),
        cmocka_unit_test(statistics_leave_out_who_does_not_look),
        cmocka_unit_test(statistics_of_a_refusal_are_none),
        cmocka_unit_test(the_end_of_a_load_does_not_count_for_admission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
