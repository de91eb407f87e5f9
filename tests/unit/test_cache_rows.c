/* test_cache_rows.c  Rows of kv-core 9.5 about full attention and windows of one group. */
#include "seq_fixture.h"

/* ---- full attention: 106, 107, 123-126, 131, 143, 145, 147 ---- */

static void row_106_a_resend_leaves_a_token_to_compute(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    warm(cache, 64);
    assert_int_equal(resend(cache, 64), 48);
    assert_int_equal(resend(cache, 65), 64);
    end_cache(cache);
}

static void row_107_a_drafter_gives_up_a_block(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const pkv_plan_params params = with_drop(blocks_for(layers, 1, 20, 160));
    pkv_cache *cache = cache_of(&params);
    warm(cache, 64);
    assert_int_equal(resend(cache, 64), 32);
    assert_int_equal(resend(cache, 65), 48);
    assert_int_equal(resend(cache, 15), 0);
    end_cache(cache);
}

static void row_123_a_refused_request_is_not_there(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(5, 64);
    pkv_seq *first = run_n(cache, 64), *second = open_tokens(cache, diverging(0), 20);
    assert_table(first, 0, "1..4");
    assert_int_equal(free_of(cache), 0);
    assert_refused(cache, second, new_tokens(20), 2, 0); /* ceil(20 / 16) */
    assert_table(second, 0, "");
    assert_int_equal(info_of(second).allocated, 0);
    assert_int_equal(info_of(second).computed, 0);
    end_cache(cache);
}

static void row_124_a_freed_request_is_found_and_its_tail_reused(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(5, 64);
    warm(cache, 64);
    pkv_seq *seq = open_n(cache, 32);
    assert_int_equal(lookup(seq), 16); /* at most 31 of 32 */
    (void)take(seq, 16);
    assert_new(seq, 0, "4");
    assert_table(seq, 0, "1 4");
    end_cache(cache);
}

static void row_125_spare_slots_are_used_before_new_blocks(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 30);
    assert_new(seq, 0, "1 2");
    append(seq, 30, 1);
    pkv_allocate_params params = new_tokens(1);
    params.lookahead = 4; /* 35 slots: 3 blocks */
    (void)allocate(seq, params);
    assert_new(seq, 0, "3");
    append(seq, 31, 1);
    (void)take(seq, 1);
    assert_new(seq, 0, "");
    assert_table(seq, 0, "1..3");
    end_cache(cache);
}

static void row_126_a_delayed_load_is_keyed_when_it_has_ended(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 40);
    pkv_allocate_params params = new_tokens(8);
    params.external_tokens = 32;
    params.delay_caching = 1;
    (void)allocate(seq, params);
    assert_new(seq, 0, "3"); /* blocks of external tokens are not among them */
    assert_table(seq, 0, "1..3");
    assert_int_equal(keys_in(cache), 0);
    assert_int_equal(info_of(seq).computed, 40);
    assert_ok(pkv_seq_cache(seq, 40));
    assert_int_equal(keys_in(cache), 2);
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), 1), 16);
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), 2), 32);
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), 3), 0);
    end_cache(cache);
}

static void row_131_zero_tokens_everywhere_is_a_mistake(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 40);
    pkv_allocate_params params = new_tokens(0);
    pkv_allocate_result result;
    assert_status(pkv_seq_allocate(seq, &params, &result), PKV_E_INVAL);
    assert_error_text("pkv_seq_allocate", "nothing to allocate");
    assert_int_equal(info_of(seq).allocated, 0);
    end_cache(cache);
}

static void row_143_a_preempted_request_comes_back_to_its_blocks(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(12, 160);
    pkv_seq *seq = run_n(cache, 96);
    assert_table(seq, 0, "1..6");
    assert_ok(pkv_seq_preempt(seq));
    assert_free_list(cache, "7..11 6..1"); /* keyed blocks behind, tail first */
    assert_int_equal(lookup(seq), 80);
    (void)take(seq, 16);
    assert_table(seq, 0, "1..5 7");
    end_cache(cache);
}

static void row_145_drafts_are_keyed_when_they_are_accepted(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    (void)take(seq, 5); /* five drafts behind 40 tokens */
    assert_int_equal(keys_in(cache), 2);
    assert_table(seq, 0, "1..3");
    append(seq, 7, 8);
    (void)take(seq, 3);
    assert_ok(pkv_seq_cache(seq, 48));
    assert_int_equal(keys_in(cache), 3);
    end_cache(cache);
}

static void row_147_an_evicted_block_ends_the_hits_of_others(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 64);
    const pkv_block second = 2;
    assert_ok(pkv_cache_evict(cache, &second, 1));
    assert_int_equal(resend(cache, 64), 16);
    assert_table(seq, 0, "1..4"); /* the request itself keeps it */
    end_cache(cache);
}

static void row_148_a_miss_counts_its_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_cache_stats stats;
    (void)run_n(cache, 64);
    pkv_cache_take_stats(cache, &stats);
    assert_int_equal(stats.requests, 1);
    assert_int_equal(stats.queries, 64);
    assert_int_equal(stats.hits, 0);
    end_cache(cache);
}

static void row_150_a_deferred_close_holds_its_blocks_until_the_step(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160); /* 19 usable */
    pkv_seq *seq = run_n(cache, 40);
    assert_ok(pkv_seq_close(seq, true));
    assert_int_equal(free_of(cache), 16);
    assert_sound(cache);
    pkv_cache_step(cache);
    assert_int_equal(free_of(cache), 19);
    assert_free_list(cache, "3..19 2 1"); /* the block without a key is handed out first */
    end_cache(cache);
}

/* ---- windows: 108, 109, 129 ---- */

static void row_108_blocks_below_the_window_are_freed(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 30, 320);
    pkv_seq *seq = run_n(cache, 160);
    assert_table(seq, 0, "1..10");
    append(seq, 160, 1);
    (void)take(seq, 1);
    assert_table(seq, 0, "0*8 9..11"); /* (160 - 32 + 1) / 16 = 8 */
    end_cache(cache);
}

static void row_109_steps_in_flight_still_read_them(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 30, 320);
    pkv_seq *seq = run_n(cache, 160);
    append(seq, 160, 1);
    pkv_allocate_params params = new_tokens(1);
    params.in_flight_tokens = 160;
    (void)allocate(seq, params);
    assert_table(seq, 0, "1..11");
    end_cache(cache);
}

static void a_window_of_one_token_keeps_one_block(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(1, 30, 320);
    pkv_seq *seq = run_n(cache, 32);
    append(seq, 32, 1);
    (void)take(seq, 1); /* skipped(32) = 32 - 1 + 1 = 32: both blocks */
    /* a hit needs no block (c = 0), so none is keyed: both go to the front; 2 was freed first */
    assert_table(seq, 0, "0 0 2");
    assert_free_list(cache, "1 3..29");
    end_cache(cache);
}

static void a_latent_window_is_a_window(void **state)
{
    (void)state;
    pkv_spec layer = shaped(PKV_KIND_SLIDING_WINDOW_MLA, 16, 1, 576, PKV_DTYPE_BFLOAT16);
    layer.sliding_window = 32;
    const pkv_spec layers[] = {finished(layer)};
    const pkv_plan_params params = blocks_for(layers, 1, 30, 320);
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_group_at(cache, 0)->window, 32);
    pkv_seq *seq = run_n(cache, 160);
    append(seq, 160, 1);
    (void)take(seq, 1);
    assert_table(seq, 0, "0*8 9..11");
    assert_ok(pkv_seq_preempt(seq));
    assert_int_equal(resend(cache, 160), 144);
    end_cache(cache);
}

static void latent_full_attention_is_full_attention(void **state)
{
    (void)state;
    const pkv_spec layers[] = {latent(64, 576)};
    const pkv_plan_params params = blocks_for(layers, 1, 20, 640);
    pkv_cache *cache = cache_of(&params);
    warm(cache, 256);
    assert_int_equal(resend(cache, 256), 192);
    assert_int_equal(resend(cache, 257), 256);
    end_cache(cache);
}

/* ---- 154, 155 ---- */

static void row_154_rows_are_as_wide_as_the_worker_rounds_them(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()}, wide[] = {full_of(96, 8)};
    pkv_plan_params params = blocks_for(layers, 1, 100, 1008); /* 63 blocks */
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_group_at(cache, 0)->table_width, 64);
    end_cache(cache);
    params = blocks_for(wide, 1, 100, 6048);
    cache = cache_of(&params);
    assert_int_equal(pkv_cache_group_at(cache, 0)->table_width, 64);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_106_a_resend_leaves_a_token_to_compute),
        cmocka_unit_test(row_107_a_drafter_gives_up_a_block),
        cmocka_unit_test(row_108_blocks_below_the_window_are_freed),
        cmocka_unit_test(row_109_steps_in_flight_still_read_them),
        cmocka_unit_test(row_123_a_refused_request_is_not_there),
        cmocka_unit_test(row_124_a_freed_request_is_found_and_its_tail_reused),
        cmocka_unit_test(row_125_spare_slots_are_used_before_new_blocks),
        cmocka_unit_test(row_126_a_delayed_load_is_keyed_when_it_has_ended),
        cmocka_unit_test(row_131_zero_tokens_everywhere_is_a_mistake),
        cmocka_unit_test(row_143_a_preempted_request_comes_back_to_its_blocks),
        cmocka_unit_test(row_145_drafts_are_keyed_when_they_are_accepted),
        cmocka_unit_test(row_147_an_evicted_block_ends_the_hits_of_others),
        cmocka_unit_test(row_148_a_miss_counts_its_tokens),
        cmocka_unit_test(row_150_a_deferred_close_holds_its_blocks_until_the_step),
        cmocka_unit_test(row_154_rows_are_as_wide_as_the_worker_rounds_them),
        cmocka_unit_test(a_window_of_one_token_keeps_one_block),
        cmocka_unit_test(a_latent_window_is_a_window),
        cmocka_unit_test(latent_full_attention_is_full_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
