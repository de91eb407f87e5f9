/* test_cache_content.c  What happens to content: evict, reset, reuse, and the events that tell. */
#include "seq_fixture.h"

static event_log log_;

static pkv_cache *told_cache(const pkv_spec *layers, size_t n, uint64_t n_blocks, uint64_t len)
{
    const pkv_plan_params params = blocks_for(layers, n, n_blocks, len);
    log_.n = 0;
    return watched_cache(&params, 0, &log_);
}

static void assert_removed(size_t i, uint32_t group, const pkv_key *key)
{
    assert_true(i < log_.n);
    assert_int_equal(log_.at[i].type, PKV_EVENT_REMOVED);
    assert_int_equal(log_.at[i].group, group);
    assert_int_equal(log_.at[i].n_keys, 1);
    assert_true(same_key(&log_.at[i].keys[0], key));
}

/* ---- stored ---- */

static void whole_blocks_are_told_with_their_parent(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_cache *cache = told_cache(layers, 1, 20, 160);
    pkv_seq *seq = run_n(cache, 40);
    uint64_t n;
    assert_int_equal(log_.n, 1);
    assert_stored(&log_, 0, 0, 2, 0, 32);
    assert_false(log_.at[0].has_parent);
    assert_int_equal(log_.at[0].block_size, 16);
    append(seq, 1, 24);
    (void)take(seq, 24);
    const pkv_key *keys = keys_of_seq(seq, &n);
    assert_int_equal(log_.n, 2);
    assert_stored(&log_, 1, 0, 2, 32, 32);
    assert_true(same_key(&log_.at[1].parent, &keys[1]));
    assert_true(same_key(&log_.at[1].keys[0], &keys[2]));
    assert_int_equal(log_.at[1].positions[0], 32);
    assert_int_equal(log_.at[1].positions[1], 48);
    end_cache(cache);
}

static void a_hit_is_told_only_to_who_asks_for_it(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_cache *cache = told_cache(layers, 1, 20, 160);
    warm(cache, 64);
    assert_int_equal(log_.n, 1);
    (void)take(open_n(cache, 64), 16);
    assert_int_equal(log_.n, 2); /* the fourth block, computed again */
    assert_stored(&log_, 1, 0, 1, 48, 16);
    pkv_seq_params params = seq_params_of(counting(), 65);
    pkv_seq *seq;
    params.report_reused = 1;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    assert_int_equal(lookup(seq), 64);
    assert_int_equal(log_.n, 2); /* looking tells nothing */
    (void)take(seq, 1);
    assert_int_equal(log_.n, 3);
    assert_stored(&log_, 2, 0, 4, 0, 64);
    assert_false(log_.at[2].has_parent);
    end_cache(cache);
}

static void a_reported_window_counts_its_null_blocks(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_cache *cache = told_cache(layers, 2, 60, 320);
    warm(cache, 160);
    pkv_seq_params params = seq_params_of(counting(), 160);
    pkv_seq *seq;
    params.report_reused = 1;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    log_.n = 0;
    (void)take(seq, 16);
    assert_stored(&log_, 0, 0, 9, 0, 144);
    assert_stored(&log_, 1, 1, 9, 0, 144);
    end_cache(cache);
}

static void row_105_a_key_that_looks_ahead_ends_a_hit_before_the_last_tokens(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    params.draft_method = PKV_DRAFT_EAGLE;
    params.draft_tokens = 1; /* looks one token ahead; nothing is dropped */
    log_.n = 0;
    pkv_cache *cache = watched_cache(&params, 0, &log_);
    (void)run_n(cache, 64);
    assert_stored(&log_, 0, 0, 3, 0, 48);
    assert_int_equal(log_.at[0].lookahead, 1);
    /* equal for 48 tokens; the third key covers token 48 too */
    pkv_seq *reader = open_tokens(cache, diverging(48), 64);
    assert_int_equal(lookup(reader), 32);
    end_cache(cache);
}

static void row_101_a_longer_block_is_named_by_its_last_unit(void **state)
{
    (void)state;
    /* units of 16; blocks of 48 in group 0: of 7 keys A to G the third and the sixth */
    const pkv_spec layers[] = {full_of(48, 8), windowed_of(48, 16, 8)};
    pkv_plan_params params = blocks_for(layers, 2, 60, 336);
    params.layout = PKV_LAYOUT_BLHNC;
    log_.n = 0;
    pkv_cache *cache = watched_cache(&params, 0, &log_);
    assert_int_equal(pkv_cache_get_info(cache)->unit, 16);
    pkv_seq *seq = run_n(cache, 112);
    uint64_t n;
    const pkv_key *keys = keys_of_seq(seq, &n);
    assert_int_equal(n, 7);
    assert_stored(&log_, 0, 0, 2, 0, 96);
    assert_true(same_key(&log_.at[0].keys[0], &keys[2]));
    assert_true(same_key(&log_.at[0].keys[1], &keys[5]));
    end_cache(cache);
}

static void an_event_tells_whose_request_it_was(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const pkv_extras extras = {.salt = "s"};
    pkv_cache *cache = told_cache(layers, 1, 20, 160);
    pkv_seq_params params = seq_params_of(counting(), 40);
    pkv_seq *seq, *child;
    params.extras = &extras;
    params.session = "t";
    params.has_lora_id = 1;
    params.lora_id = 7;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    (void)take(seq, 40);
    assert_ok(pkv_seq_fork(seq, &child)); /* a fork is the same request */
    append(child, 1, 8);
    (void)take(child, 8);
    assert_int_equal(log_.n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(log_.at[i].session, "t");
        assert_string_equal(log_.at[i].salt, "s");
        assert_int_equal(log_.at[i].lora_id, 7);
    }
    (void)run_n(cache, 40);
    assert_string_equal(log_.at[2].session, "");
    assert_string_equal(log_.at[2].salt, "");
    assert_int_equal(log_.at[2].lora_id, UINT64_MAX); /* none */
    end_cache(cache);
}

/* ---- removed ---- */

static void reuse_removes_the_least_recently_freed_tail_first(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_cache *cache = told_cache(layers, 1, 5, 64); /* 4 usable */
    pkv_key keys[4];
    uint64_t n;
    pkv_seq *seq = run_n(cache, 64);
    memcpy(keys, keys_of_seq(seq, &n), sizeof keys);
    close_seq(seq);
    assert_free_list(cache, "4..1");
    (void)run_tokens(cache, diverging(0), 20);
    assert_int_equal(log_.n, 4);
    assert_removed(1, 0, &keys[3]);
    assert_removed(2, 0, &keys[2]);
    assert_stored(&log_, 3, 0, 1, 0, 16);
    assert_int_equal(resend(cache, 64), 32);
    end_cache(cache);
}

static void evicting_tells_and_keeps_the_order_of_the_list(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_cache *cache = told_cache(layers, 1, 20, 160);
    pkv_key keys[4];
    uint64_t n;
    pkv_seq *seq = run_n(cache, 64);
    memcpy(keys, keys_of_seq(seq, &n), sizeof keys);
    close_seq(seq);
    const pkv_block blocks[] = {3, 0, 9, 2, 3}; /* null, unkeyed and twice: nothing */
    assert_ok(pkv_cache_evict(cache, blocks, 5));
    assert_int_equal(log_.n, 3);
    assert_removed(1, 0, &keys[2]);
    assert_removed(2, 0, &keys[1]);
    assert_free_list(cache, "5..19 4..1");
    assert_int_equal(resend(cache, 64), 16);
    end_cache(cache);
}

/* ---- reset ---- */

static void a_reset_forgets_all_content_and_keeps_the_list(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_cache *cache = told_cache(layers, 1, 12, 160);
    pkv_cache_stats stats;
    warm(cache, 64);
    pkv_seq *waiting = open_n(cache, 64); /* holds nothing */
    assert_ok(pkv_cache_reset(cache));
    assert_int_equal(log_.n, 2);
    assert_int_equal(log_.at[1].type, PKV_EVENT_CLEARED);
    assert_int_equal(keys_in(cache), 0);
    assert_free_list(cache, "5..11 4..1");
    assert_int_equal(lookup(waiting), 0);
    pkv_cache_take_stats(cache, &stats);
    assert_int_equal(stats.reset, 1);
    pkv_cache_take_stats(cache, &stats);
    assert_int_equal(stats.reset, 0);
    end_cache(cache);
}

static void a_reset_waits_for_whoever_holds_a_block(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_cache *cache = told_cache(layers, 1, 12, 160);
    pkv_cache_stats stats;
    pkv_seq *seq = run_n(cache, 40), *child;
    assert_status(pkv_cache_reset(cache), PKV_E_AGAIN);
    assert_ok(pkv_seq_fork(seq, &child));
    append(child, 1, 1);
    (void)take(child, 1);
    close_seq(child);
    close_seq(seq);
    assert_status(pkv_cache_reset(cache), PKV_E_AGAIN); /* the ends of the copy */
    pkv_cache_step(cache);
    assert_ok(pkv_seq_close(run_n(cache, 40), true));
    assert_status(pkv_cache_reset(cache), PKV_E_AGAIN); /* a deferred close */
    assert_int_equal(keys_in(cache), 2);
    pkv_cache_take_stats(cache, &stats);
    assert_int_equal(stats.reset, 0);
    for (size_t i = 0; i < log_.n; i++) {
        assert_int_not_equal(log_.at[i].type, PKV_EVENT_CLEARED);
    }
    pkv_cache_step(cache);
    assert_ok(pkv_cache_reset(cache));
    end_cache(cache);
}

/* Full blocks of 32 tokens over keys of 16: the last boundary inside a prompt is a second key. */
static pkv_cache *partial_cache(uint64_t n_blocks, uint64_t len)
{
    const pkv_spec layers[] = {full_of(32, 4), windowed_of(64, 16, 8)};
    return told_cache(layers, 2, n_blocks, len);
}

static void the_end_of_a_prompt_inside_a_block_is_a_second_key(void **state)
{
    (void)state;
    pkv_cache *cache = partial_cache(40, 128);
    pkv_seq *seq = run_n(cache, 50); /* floor(49 / 16) * 16 = 48 lies inside block 1 */
    append(seq, 1, 14);
    (void)take(seq, 14); /* 64 tokens: the block is whole */
    uint64_t n;
    const pkv_key *keys = keys_of_seq(seq, &n);
    size_t found = 0;
    for (size_t i = 0; i < log_.n; i++) {
        if (log_.at[i].group == 0 && log_.at[i].n_keys == 1 &&
            same_key(&log_.at[i].keys[0], &keys[2])) {
            assert_stored(&log_, i, 0, 1, 32, 16);
            assert_int_equal(log_.at[i].block_size, 16); /* one unit, behind the previous one */
            assert_true(same_key(&log_.at[i].parent, &keys[1]));
            found++;
        }
    }
    assert_int_equal(found, 1);
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), pkv_seq_table(seq, 0, &n)[1]),
                     64); /* the first key is the whole block's */
    end_cache(cache);
}

static void a_reset_that_must_wait_leaves_second_keys_to_be_removed(void **state)
{
    (void)state;
    pkv_cache *cache = partial_cache(21, 128);
    pkv_seq *seq = run_n(cache, 50);
    pkv_key keys[4];
    uint64_t n;
    append(seq, 1, 14);
    (void)take(seq, 14);
    memcpy(keys, keys_of_seq(seq, &n), sizeof keys);
    const pkv_block block = pkv_seq_table(seq, 0, &n)[1];
    assert_status(pkv_cache_reset(cache), PKV_E_AGAIN);
    close_seq(seq);
    const uint64_t stored = keys_in(cache);
    log_.n = 0;
    pkv_seq *all[4]; /* every block is handed out again */
    for (int i = 0; i < 4; i++) {
        int32_t tokens[48] = {5000 + i};
        all[i] = open_tokens(cache, tokens, 48);
        pkv_allocate_params params = new_tokens(48);
        params.delay_caching = 1;
        (void)allocate(all[i], params); /* 2 + 3 blocks of 20 */
    }
    assert_int_equal(free_of(cache), 0);
    assert_int_equal(pkv_pool_refs(pkv_cache_get_pool(cache), block), 1);
    assert_int_equal(keys_in(cache), 0);
    assert_int_equal(log_.n, stored);
    size_t whole = 0, second = 0;
    for (size_t i = 0; i < log_.n; i++) {
        assert_int_equal(log_.at[i].type, PKV_EVENT_REMOVED);
        if (log_.at[i].group == 0 && same_key(&log_.at[i].keys[0], &keys[3])) {
            whole = i + 1;
        }
        if (log_.at[i].group == 0 && same_key(&log_.at[i].keys[0], &keys[2])) {
            second = i + 1;
        }
    }
    assert_true(whole > 0);
    assert_int_equal(second, whole + 1); /* right after the key of the whole block */
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_blocks_are_told_with_their_parent),
        cmocka_unit_test(a_hit_is_told_only_to_who_asks_for_it),
        cmocka_unit_test(a_reported_window_counts_its_null_blocks),
        cmocka_unit_test(row_101_a_longer_block_is_named_by_its_last_unit),
        cmocka_unit_test(row_105_a_key_that_looks_ahead_ends_a_hit_before_the_last_tokens),
        cmocka_unit_test(an_event_tells_whose_request_it_was),
        cmocka_unit_test(reuse_removes_the_least_recently_freed_tail_first),
        cmocka_unit_test(evicting_tells_and_keeps_the_order_of_the_list),
        cmocka_unit_test(a_reset_forgets_all_content_and_keeps_the_list),
        cmocka_unit_test(a_reset_waits_for_whoever_holds_a_block),
        cmocka_unit_test(the_end_of_a_prompt_inside_a_block_is_a_second_key),
        cmocka_unit_test(a_reset_that_must_wait_leaves_second_keys_to_be_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
