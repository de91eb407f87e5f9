/* test_cache_quiet.c  A batch skips what a step would not change: one cache advances by batches,
 * its twin by separate calls, which skip nothing. All that can be seen of them stays equal.
 * PKV_SEED, PKV_RANDOM_OPS: twin_cache.h. */
#include "twin_work.h"

static const uint32_t by_any[] = {PKV_INDEX_AUTO, PKV_INDEX_AUTO};
static const uint32_t by_keys[] = {PKV_INDEX_KEYS, PKV_INDEX_KEYS};

static void run_once(const pkv_plan_params *params, const uint32_t index[2], bool events,
                     uint64_t seldom)
{
    static twin t;
    memset(&t, 0, sizeof t);
    t.separate = true;
    t.seldom = seldom;
    t.events = events;
    t.watermark = events ? 0.1 : 0;
    t.junctions = params->draft_method == PKV_DRAFT_MTP;
    t.ready = params->caching && (events || index == by_keys);
    begin_twin(&t, params, index);
    const uint64_t ops = params->caching ? 6000 : 3000;
    run_twin(&t, ops);
    assert_true(number_from("PKV_RANDOM_OPS", ops) < 1000 ||
                (t.quiet > 50 && t.counted > 50 && t.refusals > 0));
    end_twin(&t);
}

/* Whoever looks sees to it that nothing is left to be done: so once it is done seldom, and what the
 * work depends on is asked of the twin. */
static void run_plan(const pkv_plan_params *params, const uint32_t index[2], bool events)
{
    run_once(params, index, events, 0);
    run_once(params, index, events, 16);
}

/* Found by whatever the cache likes, and with events and keys; and without caching. */
static void run_all(const pkv_spec *layers, uint32_t n, uint64_t n_blocks, uint64_t len)
{
    pkv_plan_params params = blocks_for(layers, n, n_blocks, len);
    params.max_num_batched_tokens = 64;
    params.layout = PKV_LAYOUT_BLHNC;
    run_plan(&params, by_any, false);
    run_plan(&params, by_keys, true);
    params.retention_interval = 0;
    run_plan(&params, by_keys, false);
    if (layers[n - 1].kind == PKV_KIND_SLIDING_WINDOW) {
        params.retention_interval = 128;
        run_plan(&params, by_keys, true);
    }
    params.caching = 0;
    run_plan(&params, by_any, false);
}

static void full_attention_stays_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    run_all(layers, 1, 30, 320);
}

static void full_attention_over_two_ranks_stays_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_plan_params params = blocks_for(layers, 1, 20, 320);
    params.dcp = 2;
    run_plan(&params, by_any, false);
    run_plan(&params, by_keys, true);
}

static void a_window_stays_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(40)};
    run_all(layers, 1, 30, 320);
}

static void a_hybrid_of_two_block_sizes_stays_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(32, 4), windowed_of(33, 16, 8)};
    run_all(layers, 2, 50, 320);
}

static void chunks_stay_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {chunked(64)};
    run_all(layers, 1, 30, 320);
}

static void a_reference_window_stays_equal(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_RSWA, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.rswa_window = 32;
    const pkv_spec layers[] = {finished(spec)};
    run_all(layers, 1, 50, 640);
}

static void a_ring_stays_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), ring_of(16, 2048)};
    run_all(layers, 2, 40, 320);
}

static void a_pooled_tail_stays_equal(void **state)
{
    (void)state;
    pkv_spec tail = shaped(PKV_KIND_KPOOL_TAIL, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    tail.sliding_window = 16;
    const pkv_spec layers[] = {full(), finished(tail)};
    run_all(layers, 2, 40, 320);
}

static void cross_attention_stays_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(),
                               finished(shaped(PKV_KIND_CROSS, 16, 8, 128, PKV_DTYPE_BFLOAT16))};
    pkv_plan_params params = blocks_for(layers, 2, 50, 320);
    params.max_encoder_tokens = 100;
    params.caching = 0;
    run_plan(&params, by_any, false);
}

/* Units of 16 tokens, states of 64; k blocks for drafts, and states that a step leaves inside of
 * what it computes. */
static pkv_plan_params states(pkv_spec layers[2], uint32_t k, uint64_t checkpoint)
{
    static pkv_state state;
    pkv_spec spec = recurrent_of(64, &state, 65536);
    spec.mamba_type = "gdn";
    spec.mamba_mode = PKV_MAMBA_ALIGN;
    spec.num_speculative_blocks = k;
    spec.num_prefill_checkpoint_blocks = checkpoint > 0;
    spec.prefill_checkpoint_alignment = checkpoint;
    layers[0] = full_of(64, 2);
    layers[1] = finished(spec);
    pkv_plan_params params = blocks_for(layers, 2, 40, 640);
    params.prefix_match_unit = 16;
    params.layout = PKV_LAYOUT_BLHNC;
    return params;
}

static void aligned_states_stay_equal(void **state)
{
    (void)state;
    pkv_spec layers[2];
    pkv_plan_params params = states(layers, 0, 0);
    run_plan(&params, by_any, false);
    run_plan(&params, by_any, true);
    params.caching = 0;
    params.prefix_match_unit = 0;
    run_plan(&params, by_any, false);
}

static void aligned_states_with_checkpoints_stay_equal(void **state)
{
    (void)state;
    pkv_spec layers[2];
    pkv_plan_params params = states(layers, 0, 16);
    run_plan(&params, by_keys, false);
    params.retention_interval = 0;
    run_plan(&params, by_any, true);
    params.retention_interval = 128;
    run_plan(&params, by_any, true);
}

static void aligned_states_with_drafts_stay_equal(void **state)
{
    (void)state;
    pkv_spec layers[2];
    pkv_plan_params params = states(layers, 2, 16);
    params.draft_method = PKV_DRAFT_MTP;
    params.draft_tokens = 2;
    params.draft_lookahead_hashes = 0;
    run_plan(&params, by_any, true);
    run_plan(&params, by_keys, false);
}

static void running_states_stay_equal(void **state)
{
    (void)state;
    static pkv_state one;
    pkv_spec spec = recurrent_of(64, &one, 65536);
    spec.num_speculative_blocks = 1;
    const pkv_spec layers[] = {full_of(128, 1), finished(spec)};
    pkv_plan_params params = blocks_for(layers, 2, 40, 640);
    params.caching = 0;
    run_plan(&params, by_any, false);
}

/* Without attention, whose blocks would have to be zeroed. */
static void states_alone_stay_equal(void **state)
{
    (void)state;
    static pkv_state one;
    pkv_spec running = recurrent_of(64, &one, 65536);
    running.num_speculative_blocks = 1;
    pkv_spec kept = running;
    kept.mamba_type = "gdn";
    kept.mamba_mode = PKV_MAMBA_ALIGN;
    kept.num_speculative_blocks = 0;
    for (int k = 0; k < 2; k++) {
        const pkv_spec layers[] = {finished(k == 0 ? running : kept)};
        pkv_plan_params params = blocks_for(layers, 1, 40, 640);
        params.caching = 0;
        run_plan(&params, by_any, false);
    }
}

static void a_drafter_that_drops_stays_equal(void **state)
{
    (void)state;
    const pkv_spec one[] = {full()}, two[] = {full_of(32, 4), windowed_of(33, 16, 8)};
    pkv_plan_params params = with_drop(blocks_for(one, 1, 30, 320));
    run_plan(&params, by_any, false);
    params = with_drop(blocks_for(two, 2, 50, 320));
    params.layout = PKV_LAYOUT_BLHNC;
    run_plan(&params, by_keys, true);
}

static void keys_that_look_ahead_stay_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(40)};
    for (uint32_t n = 1; n <= 2; n++) {
        pkv_plan_params params = blocks_for(layers, n, 50, 320);
        params.draft_method = PKV_DRAFT_EAGLE;
        params.draft_tokens = 1;
        run_plan(&params, by_keys, true);
    }
}

static void several_modules_stay_equal(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(40)};
    for (uint32_t n = 1; n <= 2; n++) {
        pkv_plan_params params = blocks_for(layers, n, 60, 320);
        params.draft_method = PKV_DRAFT_MTP_MULTI;
        params.draft_tokens = 3;
        params.draft_lookahead_hashes = 0;
        run_plan(&params, by_any, false);
        params.draft_lookahead_hashes = 1;
        run_plan(&params, by_keys, true);
    }
}

/* ---- what else ends a quiet time ---- */

/* One token more, in a batch. */
static pkv_status advance_one(pkv_cache *cache, pkv_seq *seq, uint64_t lookahead,
                              pkv_allocate_result *out)
{
    static const int32_t token = 1;
    const pkv_step step = {seq, &token, 1, PKV_STEP_KEEP};
    uint64_t done;
    return pkv_cache_advance(cache, &step, 1, lookahead, out, &done);
}

static void a_gap_that_a_hit_brought_is_let_go(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_RSWA, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.rswa_window = 32;
    const pkv_spec layers[] = {finished(spec)};
    const pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 16);
    pkv_allocate_result out;
    append(seq, 1, 100);
    (void)take(seq, 100);
    assert_ok(pkv_seq_preempt(seq));
    assert_int_equal(lookup(seq), 112);
    (void)take(seq, 4);
    assert_table(seq, 0, "1..8");
    assert_ok(advance_one(cache, seq, 0, &out)); /* 84..115 are in view, block 5 on */
    assert_table(seq, 0, "1 0*4 6..8");
    end_cache(cache);
}

static void evict_and_advance(uint64_t steps_before)
{
    pkv_spec layers[2];
    const pkv_plan_params params = states(layers, 0, 0);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 36); /* a resend looks at 32, inside of a block */
    pkv_allocate_result out;
    uint64_t n;
    for (uint64_t i = 0; i < steps_before; i++) {
        assert_ok(advance_one(cache, seq, 0, &out));
    }
    assert_int_equal(cache->lanes.n_running, steps_before > 1);
    const pkv_block *ids = pkv_seq_table(seq, 0, &n);
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), ids[0]), 32);
    assert_ok(pkv_cache_evict(cache, ids, 1));
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), ids[0]), 0);
    assert_ok(advance_one(cache, seq, 0, &out));
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), ids[0]), 32);
    end_cache(cache);
}

static void the_end_of_a_prompt_that_was_evicted_is_keyed_again(void **state)
{
    (void)state;
    evict_and_advance(0);
}

static void the_end_of_a_prompt_that_was_evicted_is_keyed_again_out_of_a_lane(void **state)
{
    (void)state;
    evict_and_advance(3);
}

/* A sequence with tokens 0, 1, 2 ... that has been preempted. */
static pkv_seq *run_and_preempt(pkv_cache *cache, uint64_t n_prompt, uint64_t n)
{
    pkv_seq *seq = run_n(cache, n_prompt);
    assert_ok(pkv_seq_append(seq, counting() + n_prompt, n - n_prompt));
    (void)take(seq, n - n_prompt);
    pkv_cache_step(cache);
    assert_ok(pkv_seq_preempt(seq));
    return seq;
}

/* Two prompts end inside a block that both share since they were preempted. When it was evicted,
 * each keys its own end anew; the longer one takes the key of the shorter one away, whose next step
 * keys it once more. */
static void the_end_of_a_prompt_that_another_one_replaced_is_keyed_again(void **state)
{
    (void)state;
    pkv_spec layers[2];
    const pkv_plan_params params = states(layers, 0, 0);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *shorter = run_and_preempt(cache, 36, 130), *longer = run_and_preempt(cache, 60, 130);
    pkv_allocate_result out;
    uint64_t n;
    (void)take(shorter, 130 - lookup(shorter));
    (void)take(longer, 130 - lookup(longer));
    const pkv_block shared = pkv_seq_table(shorter, 0, &n)[0];
    pkv_block found;
    assert_int_equal(pkv_seq_table(longer, 0, &n)[0], shared);
    assert_ok(pkv_cache_evict(cache, &shared, 1));
    for (int i = 0; i < 2; i++) {
        assert_ok(advance_one(cache, shorter, 0, &out));
        assert_ok(advance_one(cache, longer, 0, &out));
        pkv_cache_step(cache);
    }
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), shared), 48);
    for (uint64_t unit = 2; unit <= 3; unit++) { /* with 32 tokens, and with 48 */
        const pkv_key *keys = keys_of_seq(shorter, &n);
        const uint32_t group = 0;
        assert_ok(pkv_pool_lookup(pkv_cache_get_pool(cache), &keys[unit - 1], &group, 1, &found));
    }
    end_cache(cache);
}

static void a_state_that_is_keyed_by_hand_is_copied_by_the_next_step(void **state)
{
    (void)state;
    pkv_spec layers[2];
    const pkv_plan_params params = states(layers, 0, 0);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 36); /* a resend could begin at 32 */
    pkv_allocate_result out;
    assert_ok(pkv_seq_cache(seq, 32));
    assert_ok(advance_one(cache, seq, 0, &out));
    assert_int_equal(out.n_copies, 1);
    end_cache(cache);
}

static void a_preempted_sequence_does_not_advance(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 20);
    pkv_allocate_result out;
    assert_ok(pkv_seq_preempt(seq));
    assert_status(advance_one(cache, seq, 0, &out), PKV_E_INVAL);
    assert_int_equal(info_of(seq).n_tokens, 20);
    end_cache(cache);
}

static void slots_beyond_all_limits_are_refused_by_every_step(void **state)
{
    (void)state;
    const pkv_spec layers[] = {ring_of(16, 2048)};
    pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 10);
    pkv_allocate_result out;
    assert_status(advance_one(cache, seq, PKV_SPEC_LIMIT + 1, &out), PKV_E_INVAL);
    assert_ok(advance_one(cache, seq, PKV_SPEC_LIMIT, &out));
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_attention_stays_equal),
        cmocka_unit_test(full_attention_over_two_ranks_stays_equal),
        cmocka_unit_test(a_window_stays_equal),
        cmocka_unit_test(a_hybrid_of_two_block_sizes_stays_equal),
        cmocka_unit_test(chunks_stay_equal),
        cmocka_unit_test(a_reference_window_stays_equal),
        cmocka_unit_test(a_ring_stays_equal),
        cmocka_unit_test(a_pooled_tail_stays_equal),
        cmocka_unit_test(cross_attention_stays_equal),
        cmocka_unit_test(aligned_states_stay_equal),
        cmocka_unit_test(aligned_states_with_checkpoints_stay_equal),
        cmocka_unit_test(aligned_states_with_drafts_stay_equal),
        cmocka_unit_test(running_states_stay_equal),
        cmocka_unit_test(states_alone_stay_equal),
        cmocka_unit_test(a_drafter_that_drops_stays_equal),
        cmocka_unit_test(keys_that_look_ahead_stay_equal),
        cmocka_unit_test(several_modules_stay_equal),
        cmocka_unit_test(a_gap_that_a_hit_brought_is_let_go),
        cmocka_unit_test(the_end_of_a_prompt_that_was_evicted_is_keyed_again),
        cmocka_unit_test(the_end_of_a_prompt_that_was_evicted_is_keyed_again_out_of_a_lane),
        cmocka_unit_test(the_end_of_a_prompt_that_another_one_replaced_is_keyed_again),
        cmocka_unit_test(a_state_that_is_keyed_by_hand_is_copied_by_the_next_step),
        cmocka_unit_test(a_preempted_sequence_does_not_advance),
        cmocka_unit_test(slots_beyond_all_limits_are_refused_by_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
