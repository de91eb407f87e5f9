/* test_cache_batch.c  pkv_cache_advance: all running sequences in one call. */
#include "seq_fixture.h"

static pkv_step step_of(pkv_seq *seq, const int32_t *tokens, uint64_t n)
{
    return (pkv_step){.seq = seq, .tokens = tokens, .n_tokens = n, .computed = PKV_STEP_KEEP};
}

static const int32_t three[] = {7, 8, 9};

static void sequences_advance_in_order(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *a = run_n(cache, 16), *b = run_tokens(cache, diverging(0), 31);
    const pkv_step steps[] = {step_of(b, three, 2), step_of(a, three, 1)};
    pkv_allocate_result result;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, steps, 2, 0, &result, &done));
    assert_int_equal(done, 2);
    assert_new(b, 0, "4"); /* 33 tokens */
    assert_new(a, 0, "5");
    assert_int_equal(info_of(a).computed, 17);
    assert_int_equal(info_of(b).computed, 33);
    assert_int_equal(info_of(b).keyed, 32);
    end_cache(cache);
}

static void what_is_not_computed_is_allocated(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 100);
    (void)take(seq, 40); /* a chunk of the prompt */
    const pkv_step step = step_of(seq, NULL, 0);
    pkv_allocate_result result;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, &step, 1, 20, &result, &done));
    assert_int_equal(info_of(seq).computed, 100);
    assert_table(seq, 0, "1..8"); /* 120 slots with the lookahead */
    end_cache(cache);
}

static void a_step_rolls_back_before_it_appends(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 30);
    (void)take(seq, 5); /* drafts */
    pkv_step step = step_of(seq, three, 2);
    step.computed = 31; /* one draft was right, and one token more was sampled */
    pkv_allocate_result result;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, &step, 1, 0, &result, &done));
    assert_int_equal(info_of(seq).n_tokens, 32);
    assert_int_equal(info_of(seq).computed, 32);
    assert_table(seq, 0, "1..3");
    end_cache(cache);
}

static void a_batch_ends_at_the_first_refusal(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(6, 80);
    pkv_seq *seqs[3];
    pkv_step steps[3];
    for (int i = 0; i < 3; i++) {
        int32_t tokens[16] = {1000 + i};
        seqs[i] = run_tokens(cache, tokens, 16);
        steps[i] = step_of(seqs[i], three, 3);
    }
    pkv_allocate_result result;
    uint64_t done;
    pkv_seq *other = run_tokens(cache, diverging(0), 16);
    assert_int_equal(free_of(cache), 1);
    assert_status(pkv_cache_advance(cache, steps, 3, 0, &result, &done), PKV_E_NO_BLOCKS);
    assert_int_equal(done, 1);
    assert_int_equal(result.needed, 1);
    assert_int_equal(result.free, 0);
    assert_int_equal(info_of(seqs[0]).computed, 19);
    assert_int_equal(info_of(seqs[1]).n_tokens, 19); /* keeps its tokens */
    assert_int_equal(info_of(seqs[1]).computed, 16);
    assert_table(seqs[1], 0, "2");
    assert_int_equal(info_of(seqs[2]).n_tokens, 16); /* not reached */
    assert_sound(cache);
    close_seq(other);
    const pkv_step rest[] = {step_of(seqs[1], NULL, 0)};
    assert_ok(pkv_cache_advance(cache, rest, 1, 0, &result, &done));
    assert_int_equal(done, 1);
    assert_int_equal(info_of(seqs[1]).computed, 19);
    end_cache(cache);
}

static void copies_of_all_steps_are_told_together(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *a = run_n(cache, 20), *b = run_tokens(cache, diverging(0), 20), *c, *d;
    assert_ok(pkv_seq_fork(a, &c));
    assert_ok(pkv_seq_fork(b, &d));
    const pkv_step steps[] = {step_of(c, three, 1), step_of(d, three, 1), step_of(a, three, 1)};
    pkv_allocate_result result;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, steps, 3, 0, &result, &done));
    assert_int_equal(result.n_copies, 2);
    assert_int_equal(result.copies[0].src, 2);
    assert_int_equal(result.copies[0].dst, 5);
    assert_int_equal(result.copies[1].src, 4);
    assert_int_equal(result.copies[1].dst, 6);
    end_cache(cache);
}

static void zero_fills_of_all_steps_are_told_together(void **state)
{
    (void)state;
    pkv_spec window = shaped(PKV_KIND_SLIDING_WINDOW, 16, 8, 128, PKV_DTYPE_FLOAT8_E4M3FN);
    window.sliding_window = 32;
    const pkv_spec layers[] = {full(), finished(window)};
    pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    params.layout = PKV_LAYOUT_BLHNC;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *a = run_n(cache, 16), *b = run_tokens(cache, diverging(0), 16);
    const pkv_step steps[] = {step_of(a, three, 1), step_of(b, three, 1)};
    pkv_allocate_result result;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, steps, 2, 0, &result, &done));
    assert_blocks(result.zero, result.n_zero, "5..8");
    end_cache(cache);
}

static void an_empty_batch_does_nothing(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_allocate_result result;
    uint64_t done = 7;
    assert_ok(pkv_cache_advance(cache, NULL, 0, 0, &result, &done));
    assert_int_equal(done, 0);
    assert_int_equal(result.n_copies + result.n_zero, 0);
    end_cache(cache);
}

/* ---- all or nothing ---- */

/* A batch of a good step and `bad` is INVAL, and the good one has not moved. */
static void assert_nothing_done(pkv_cache *cache, pkv_seq *good, pkv_step bad, uint64_t lookahead)
{
    const pkv_seq_info before = info_of(good);
    const pkv_step steps[] = {step_of(good, three, 3), bad};
    pkv_allocate_result result;
    uint64_t done = 7;
    assert_status(pkv_cache_advance(cache, steps, 2, lookahead, &result, &done), PKV_E_INVAL);
    const pkv_seq_info after = info_of(good);
    assert_int_equal(done, 0);
    assert_int_equal(after.n_tokens, before.n_tokens);
    assert_int_equal(after.computed, before.computed);
    assert_table(good, 0, "1..3");
    assert_sound(cache);
}

static void a_mistake_in_any_step_means_that_nothing_is_done(void **state)
{
    (void)state;
    const int32_t negative[] = {1, -1};
    static int32_t many[161];
    pkv_cache *cache = full_cache(20, 160), *elsewhere = full_cache(20, 160);
    pkv_seq *good = run_n(cache, 46), *seq = run_tokens(cache, diverging(0), 20);
    pkv_seq *waiting = open_n(cache, 20), *stranger = run_n(elsewhere, 20);
    assert_nothing_done(cache, good, step_of(NULL, three, 1), 0);
    assert_nothing_done(cache, good, step_of(waiting, three, 1), 0);
    assert_nothing_done(cache, good, step_of(stranger, three, 1), 0);
    assert_nothing_done(cache, good, step_of(seq, NULL, 0), 0);   /* nothing to compute */
    assert_nothing_done(cache, good, step_of(seq, NULL, 1), 0);   /* which tokens? */
    assert_nothing_done(cache, good, step_of(seq, many, 141), 0); /* beyond max_model_len */
    assert_nothing_done(cache, good, step_of(seq, many, UINT64_MAX), 0);
    assert_nothing_done(cache, good, step_of(seq, negative, 2), 0);
    assert_nothing_done(cache, good, step_of(seq, negative + 1, 1), 0);
    assert_nothing_done(cache, good, step_of(good, three, 1), 0); /* twice */
    end_cache(elsewhere);
    end_cache(cache);
}

/* Of several mistakes the first is told. steps: [n]. */
static void assert_told(pkv_cache *cache, const pkv_step *steps, uint64_t n, const char *first)
{
    pkv_allocate_result result;
    uint64_t done;
    assert_status(pkv_cache_advance(cache, steps, n, 0, &result, &done), PKV_E_INVAL);
    assert_non_null(strstr(pkv_last_error(), first));
}

static void the_first_of_several_mistakes_is_told(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *a = run_n(cache, 46), *b = run_tokens(cache, diverging(0), 20);
    const pkv_step good = step_of(a, three, 1), bad = step_of(b, NULL, 0);
    const pkv_step before[] = {good, bad, good}, behind[] = {good, good, bad};
    const pkv_step thrice[] = {good, good, good};
    assert_told(cache, before, 3, "step 1: 20 tokens");
    assert_told(cache, behind, 3, "step 1: the sequence twice");
    assert_told(cache, thrice, 3, "step 1: the sequence twice");
    end_cache(cache);
}

/* Steps are looked at 64 at a time. */
static void a_sequence_twice_is_found_however_far_apart(void **state)
{
    (void)state;
    enum { N = 130 };
    pkv_cache *cache = full_cache(N + 1, 160);
    pkv_step steps[N + 1];
    for (int i = 0; i < N; i++) {
        steps[i] = step_of(run_tokens(cache, diverging(0), 10), three, 1);
    }
    steps[N] = steps[0];
    assert_told(cache, steps, N + 1, "step 130: the sequence twice");
    pkv_allocate_result result;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, steps, N, 0, &result, &done));
    assert_int_equal(done, N);
    assert_int_equal(info_of(steps[N - 1].seq).computed, 11);
    end_cache(cache);
}

static void a_rollback_that_cannot_be_means_that_nothing_is_done(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *good = run_n(cache, 46), *seq = run_tokens(cache, diverging(0), 20);
    pkv_step step = step_of(seq, three, 3);
    step.computed = 21; /* more than are computed */
    assert_nothing_done(cache, good, step, 0);
    step.computed = 15; /* 16 are keyed */
    assert_nothing_done(cache, good, step, 0);
    end_cache(cache);
}

static void a_lookahead_that_cannot_be_means_that_nothing_is_done(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *good = run_n(cache, 46), *seq = run_tokens(cache, diverging(0), 20);
    assert_nothing_done(cache, good, step_of(seq, three, 1), UINT64_MAX);
    end_cache(cache);
}

static void missing_arguments_are_refused(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_step step = step_of(run_n(cache, 20), three, 1);
    pkv_allocate_result result;
    uint64_t done;
    assert_status(pkv_cache_advance(NULL, &step, 1, 0, &result, &done), PKV_E_INVAL);
    assert_status(pkv_cache_advance(cache, NULL, 1, 0, &result, &done), PKV_E_INVAL);
    assert_status(pkv_cache_advance(cache, &step, 1, 0, NULL, &done), PKV_E_INVAL);
    assert_status(pkv_cache_advance(cache, &step, 1, 0, &result, NULL), PKV_E_INVAL);
    assert_error_text("pkv_cache_advance", "NULL");
    assert_int_equal(info_of(step.seq).computed, 20);
    end_cache(cache);
}

/* ---- steps in which little happens ---- */

static void advance(pkv_cache *cache, pkv_step step)
{
    pkv_allocate_result result;
    uint64_t done;
    pkv_cache_step(cache);
    assert_ok(pkv_cache_advance(cache, &step, 1, 0, &result, &done));
    assert_int_equal(done, 1);
}

static void a_row_shows_what_the_first_token_of_its_step_sees(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 20, 160);
    pkv_seq *seq = run_n(cache, 40);
    for (int32_t position = 40; position < 80; position++) {
        int32_t row[11];
        advance(cache, step_of(seq, three, 1));
        assert_ok(pkv_seq_row(seq, 0, row, COUNT(row), NULL, NULL));
        for (int32_t block = 0; block <= position / 16; block++) {
            if ((row[block] != 0) != (block * 16 + 15 > position - 32)) {
                fail_msg("position %" PRId32 ": block %" PRId32 " is %" PRId32, position, block,
                         row[block]);
            }
        }
    }
    end_cache(cache);
}

/* The block is still there: a step in flight may read it. */
static void a_rollback_brings_blocks_back_into_view(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(32)};
    pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    params.caching = 0;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 47);
    int32_t row[11];
    append(seq, 1, 1);
    pkv_allocate_params next = new_tokens(1);
    next.in_flight_tokens = 1;
    (void)allocate(seq, next);
    assert_ok(pkv_seq_row(seq, 0, row, COUNT(row), NULL, NULL));
    assert_int_equal(row[0], 0); /* position 47 sees 16 and what follows */
    assert_ok(pkv_seq_set_computed(seq, 46));
    assert_ok(pkv_seq_row(seq, 0, row, COUNT(row), NULL, NULL));
    assert_int_equal(row[0], 1);
    end_cache(cache);
}

/* The key of a unit that a step completes comes after so many more steps. */
static void assert_late(int steps)
{
    pkv_cache *cache = keyed_cache(20, 160);
    const pkv_key keys[] = {{{1}}, {{2}}, {{3}}};
    pkv_seq_params params = seq_params_of(NULL, 47);
    params.keys = keys;
    params.n_keys = 2;
    pkv_seq *seq;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    (void)take(seq, 47);
    advance(cache, step_of(seq, NULL, 1)); /* the third unit is whole */
    for (int i = 0; i < steps; i++) {
        advance(cache, step_of(seq, NULL, 1));
    }
    assert_ok(pkv_seq_append_keys(seq, keys + 2, 1)); /* before anybody looks */
    assert_int_equal(keys_in(cache), 2);
    advance(cache, step_of(seq, NULL, 1));
    assert_int_equal(keys_in(cache), 3);
    end_cache(cache);
}

static void keys_that_come_late_are_used_by_the_next_step(void **state)
{
    (void)state;
    for (int steps = 0; steps < 3; steps++) {
        assert_late(steps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_advance_in_order),
        cmocka_unit_test(what_is_not_computed_is_allocated),
        cmocka_unit_test(a_step_rolls_back_before_it_appends),
        cmocka_unit_test(a_batch_ends_at_the_first_refusal),
        cmocka_unit_test(copies_of_all_steps_are_told_together),
        cmocka_unit_test(zero_fills_of_all_steps_are_told_together),
        cmocka_unit_test(an_empty_batch_does_nothing),
        cmocka_unit_test(a_mistake_in_any_step_means_that_nothing_is_done),
        cmocka_unit_test(the_first_of_several_mistakes_is_told),
        cmocka_unit_test(a_sequence_twice_is_found_however_far_apart),
        cmocka_unit_test(a_rollback_that_cannot_be_means_that_nothing_is_done),
        cmocka_unit_test(a_lookahead_that_cannot_be_means_that_nothing_is_done),
        cmocka_unit_test(missing_arguments_are_refused),
        cmocka_unit_test(a_row_shows_what_the_first_token_of_its_step_sees),
        cmocka_unit_test(a_rollback_brings_blocks_back_into_view),
        cmocka_unit_test(keys_that_come_late_are_used_by_the_next_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
