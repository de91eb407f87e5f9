/* test_cache_lanes_batches.c  Batches that are counted, and then another one: of other sequences,
 * in another order, with a mistake, or refused in the midst. */
#include "lanes_fixture.h"

static void who_is_not_named_any_more_has_its_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[3];
    uint64_t done;
    run_all(cache, seqs, 3);
    advance_all(seqs, 3, 4);
    assert_ok(advance(seqs, (size_t[]){0, 2}, 2, 0, &done)); /* 2 moves up */
    assert_ok(advance(seqs, (size_t[]){0, 2}, 2, 0, &done));
    assert_ok(advance(seqs, (size_t[]){0, 2, 1}, 3, 0, &done)); /* 1 comes back behind it */
    assert_ok(advance(seqs, (size_t[]){0, 2, 1}, 3, 0, &done));
    assert_sound(cache);
    assert_has(seqs[0], 0, PROMPT + 8);
    assert_has(seqs[1], 1, PROMPT + 6);
    assert_has(seqs[2], 2, PROMPT + 8);
    end_cache(cache);
}

static void sequences_may_change_places(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[3];
    uint64_t done;
    run_all(cache, seqs, 3);
    advance_all(seqs, 3, 3);
    for (int i = 0; i < 3; i++) {
        assert_ok(advance(seqs, (size_t[]){2, 0, 1}, 3, 0, &done));
        assert_sound(cache);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_true(pkvi_lane_waits(seqs[i]));
        assert_has(seqs[i], i, PROMPT + 6);
    }
    end_cache(cache);
}

/* As of a pipeline: what would begin to run is looked at by the next batch. */
static void batches_that_take_turns_do_not_run(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[2];
    uint64_t done;
    run_all(cache, seqs, 2);
    for (int i = 0; i < 4; i++) {
        for (size_t who = 0; who < 2; who++) {
            assert_ok(advance(seqs, &who, 1, 0, &done));
            assert_int_equal(cache->lanes.n_running, 0);
        }
    }
    assert_sound(cache);
    assert_has(seqs[0], 0, PROMPT + 4);
    assert_has(seqs[1], 1, PROMPT + 4);
    end_cache(cache);
}

static void a_sequence_twice_is_refused_wherever_its_lane_is(void **state)
{
    (void)state;
    static const size_t batches[][3] = {{0, 1, 1}, {1, 1, 2}, {2, 1, 2}, {0, 1, 0}, {1, 0, 1}};
    static const int wrong[] = {2, 1, 2, 2, 2};
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[3];
    uint64_t done, n = PROMPT;
    run_all(cache, seqs, 3);
    for (size_t i = 0; i < COUNT(batches); i++) {
        char text[64];
        advance_all(seqs, 3, 2);
        n += 2;
        (void)snprintf(text, sizeof text, "step %d: the sequence twice", wrong[i]);
        assert_status(advance(seqs, batches[i], 3, 0, &done), PKV_E_INVAL);
        assert_error_text("pkv_cache_advance", text);
        assert_int_equal(done, 0);
        assert_sound(cache);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_has(seqs[i], i, n);
    }
    end_cache(cache);
}

static void a_step_of_a_cache_that_never_had_a_sequence_is_refused(void **state)
{
    (void)state;
    const pkv_step steps[] = {{NULL, NULL, 1, PKV_STEP_KEEP}, {NULL, NULL, 0, 0}};
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_allocate_result out;
    uint64_t done;
    assert_status(pkv_cache_advance(cache, steps, 2, 0, &out, &done), PKV_E_INVAL);
    assert_error_text("pkv_cache_advance", "step 0: not an allocated sequence");
    assert_ok(pkv_cache_advance(cache, steps, 0, 0, &out, &done));
    end_cache(cache);
}

static void a_mistake_of_a_sequence_twice_is_told_with_its_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[1];
    pkv_seq *other;
    run_all(cache, seqs, 1);
    other = run_number(cache, 1);
    advance_all(seqs, 1, 3);
    const int32_t token = 7;
    const pkv_step steps[] = {{seqs[0], &token, 1, PKV_STEP_KEEP},
                              {other, &token, 1, PKV_STEP_KEEP},
                              {seqs[0], NULL, 0, PKV_STEP_KEEP}};
    pkv_allocate_result out;
    uint64_t done;
    assert_true(pkvi_lane_waits(seqs[0]));
    assert_status(pkv_cache_advance(cache, steps, 3, 0, &out, &done), PKV_E_INVAL);
    assert_error_text("pkv_cache_advance", "step 2: 20 tokens and 0 more, 20 computed");
    end_cache(cache);
}

static void more_steps_than_sequences_are_refused(void **state)
{
    (void)state;
    static size_t who[MANY];
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[2];
    uint64_t done;
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 2);
    who[1] = 1; /* 0, 1, 0, 0, ... */
    assert_status(advance(seqs, who, MANY, 0, &done), PKV_E_INVAL);
    assert_error_text("pkv_cache_advance", "step 2: the sequence twice");
    assert_has(seqs[0], 0, PROMPT + 2);
    end_cache(cache);
}

static void a_mistake_in_one_step_keeps_all_others_from_being_counted(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[2];
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 3);
    const int32_t tokens[] = {7, -1};
    const pkv_step steps[] = {{seqs[0], &tokens[0], 1, PKV_STEP_KEEP},
                              {seqs[1], &tokens[1], 1, PKV_STEP_KEEP}};
    pkv_allocate_result out;
    uint64_t done;
    assert_status(pkv_cache_advance(cache, steps, 2, 0, &out, &done), PKV_E_INVAL);
    assert_error_text("pkv_cache_advance", "step 1: token -1");
    assert_true(pkvi_lane_waits(seqs[0]));
    advance_all(seqs, 2, 1);
    assert_has(seqs[0], 0, PROMPT + 4);
    assert_has(seqs[1], 1, PROMPT + 4);
    end_cache(cache);
}

/* One block is left: the first of three gets it, and the third has not had its step. */
static void a_lane_behind_a_refusal_has_not_had_its_step(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(8, SHORT);
    pkv_seq *seqs[3];
    uint64_t done;
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 29 - PROMPT);
    seqs[2] = run_number(cache, 2);
    advance_all(seqs, 3, 3);
    assert_true(pkvi_lane_waits(seqs[2])); /* it runs since the second of these */
    assert_int_equal(free_of(cache), 1);
    assert_status(advance(seqs, (size_t[]){0, 1, 2}, 3, 0, &done), PKV_E_NO_BLOCKS);
    assert_int_equal(done, 1);
    assert_has(seqs[0], 0, 33);
    assert_int_equal(info_of(seqs[1]).n_tokens, 33); /* keeps its token */
    assert_int_equal(info_of(seqs[1]).computed, 32);
    assert_has(seqs[2], 2, PROMPT + 3);
    end_cache(cache);
}

static void a_lane_before_a_refusal_has_had_its_step(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(7, SHORT);
    pkv_seq *seqs[3];
    uint64_t done;
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 30 - PROMPT);
    seqs[2] = run_number(cache, 2);
    for (uint64_t n = 30; n < 32; n++) {
        assert_ok(advance(seqs, (size_t[]){2, 0, 1}, 3, 0, &done)); /* 19 tokens, 32, 32 */
    }
    assert_int_equal(free_of(cache), 0);
    assert_status(advance(seqs, (size_t[]){2, 0, 1}, 3, 0, &done), PKV_E_NO_BLOCKS);
    assert_int_equal(done, 1);
    assert_has(seqs[2], 2, PROMPT + 3);
    assert_ok(pkv_seq_preempt(seqs[1]));
    assert_ok(pkv_seq_set_computed(seqs[0], 32));
    assert_ok(advance(seqs, (size_t[]){2}, 1, 0, &done));
    assert_has(seqs[2], 2, PROMPT + 4);
    end_cache(cache);
}

static void slots_for_more_drafts_are_looked_at(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[1];
    uint64_t done, n;
    run_all(cache, seqs, 1);
    advance_all(seqs, 1, 2);
    assert_ok(advance(seqs, (size_t[]){0}, 1, 16, &done)); /* 20 tokens and 16 slots */
    (void)pkv_seq_table(seqs[0], 0, &n);
    assert_int_equal(n, 3);
    assert_has(seqs[0], 0, PROMPT + 3);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_not_named_any_more_has_its_tokens),
        cmocka_unit_test(sequences_may_change_places),
        cmocka_unit_test(batches_that_take_turns_do_not_run),
        cmocka_unit_test(a_sequence_twice_is_refused_wherever_its_lane_is),
        cmocka_unit_test(a_step_of_a_cache_that_never_had_a_sequence_is_refused),
        cmocka_unit_test(a_mistake_of_a_sequence_twice_is_told_with_its_tokens),
        cmocka_unit_test(more_steps_than_sequences_are_refused),
        cmocka_unit_test(a_mistake_in_one_step_keeps_all_others_from_being_counted),
        cmocka_unit_test(a_lane_behind_a_refusal_has_not_had_its_step),
        cmocka_unit_test(a_lane_before_a_refusal_has_had_its_step),
        cmocka_unit_test(slots_for_more_drafts_are_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
