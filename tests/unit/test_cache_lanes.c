/* test_cache_lanes.c  A batch that comes again is counted, and nobody looks at its sequences: who
 * looks later finds all as if somebody had. */
#include "lanes_fixture.h"

#include "countdown.h"

/* ---- steps that are counted ---- */

static void the_same_batch_is_counted_and_its_tokens_wait(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[3];
    run_all(cache, seqs, 3);
    advance_all(seqs, 3, 5); /* the first two look at them */
    for (size_t i = 0; i < 3; i++) {
        assert_true(pkvi_lane_waits(seqs[i]));
        assert_int_equal(seqs[i]->n_tokens, PROMPT + 2);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_has(seqs[i], i, PROMPT + 5);
        assert_false(pkvi_lane_waits(seqs[i]));
    }
    end_cache(cache);
}

static void who_looked_does_not_keep_the_lane_from_the_next_steps(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[2];
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 3);
    assert_has(seqs[0], 0, PROMPT + 3);
    advance_all(seqs, 2, 1);
    assert_true(pkvi_lane_waits(seqs[0]));
    assert_has(seqs[0], 0, PROMPT + 4);
    end_cache(cache);
}

static void a_step_that_a_lane_took_has_no_new_blocks(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[1];
    run_all(cache, seqs, 1);
    assert_new(seqs[0], 0, "1 2");
    advance_all(seqs, 1, 3);
    assert_true(pkvi_lane_waits(seqs[0]));
    assert_new(seqs[0], 0, "");
    assert_true(pkvi_lane_waits(seqs[0])); /* nobody had to look at its tokens */
    end_cache(cache);
}

static void blocks_are_taken_and_keyed_where_they_would_be(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[2];
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 33 - PROMPT);
    assert_table(seqs[0], 0, "1 2 5");
    assert_table(seqs[1], 0, "3 4 6");
    assert_int_equal(keys_in(cache), 4);
    assert_has(seqs[1], 1, 33);
    end_cache(cache);
}

static void tokens_that_fill_all_columns_are_taken_over(void **state)
{
    (void)state;
    enum { STEPS = 3 * PKVI_COLUMNS };
    const pkv_spec layers[] = {full_of(256, 8)};
    const pkv_plan_params params = blocks_for(layers, 1, 20, LEN);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_number(cache, 0);
    uint64_t done;
    for (int i = 0; i < STEPS; i++) {
        const int32_t token = token_of(0, PROMPT + (uint64_t)i);
        const pkv_step step = {seq, &token, 1, PKV_STEP_KEEP};
        pkv_allocate_result out;
        assert_ok(pkv_cache_advance(cache, &step, 1, 0, &out, &done));
    }
    assert_true(pkvi_lane_waits(seq));
    assert_int_equal(info_of(seq).n_tokens, PROMPT + STEPS);
    for (uint64_t n = 0; n < PROMPT + STEPS; n++) {
        assert_int_equal(seq->tokens[n], token_of(0, n));
    }
    end_cache(cache);
}

/* ---- sequences that come, go and change ---- */

static void a_closed_sequence_stands_nowhere(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[2];
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 3);
    close_seq(seqs[0]);
    assert_null(cache->lanes.seqs[0]);
    assert_int_equal(cache->lanes.n_running, 1);
    assert_sound(cache);
    assert_has(seqs[1], 1, PROMPT + 3);
    end_cache(cache);
}

/* Its seat is taken by the next one, which is not taken for it. */
static void who_takes_the_seat_of_another_does_not_take_its_lane(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[2];
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 3);
    const pkv_seq *before = seqs[0];
    close_seq(seqs[0]);
    seqs[0] = run_number(cache, 0);
    assert_ptr_equal(seqs[0], before);
    advance_all(seqs, 2, 1);
    assert_has(seqs[0], 0, PROMPT + 1);
    assert_has(seqs[1], 1, PROMPT + 4);
    end_cache(cache);
}

static void lanes_grow_while_tokens_wait(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(2 * MANY + BLOCKS, LEN);
    static pkv_seq *seqs[MANY];
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 4);
    const size_t before = cache->lanes.capacity;
    for (size_t i = 2; i < MANY; i++) {
        seqs[i] = run_number(cache, i);
    }
    assert_true(cache->lanes.capacity > before);
    advance_all(seqs, MANY, 10);
    assert_has(seqs[0], 0, PROMPT + 14);
    assert_has(seqs[1], 1, PROMPT + 14);
    assert_has(seqs[MANY - 1], MANY - 1, PROMPT + 10);
    end_cache(cache);
}

static void lanes_that_lack_memory_to_grow_keep_their_tokens(void **state)
{
    (void)state;
    countdown memory = {.left = UINT64_MAX};
    const pkv_alloc hooks = {&memory, counted_alloc, counted_free};
    pkv_cache_params params = cache_params_of(NULL, NULL);
    params.alloc = &hooks;
    pkv_cache *cache = full_cache_with(2 * MANY + BLOCKS, LEN, params);
    static pkv_seq *seqs[MANY];
    size_t n = 2;
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 4);
    for (; n < cache->lanes.capacity - 1; n++) {
        seqs[n] = run_number(cache, n);
    }
    const int32_t token = 1;
    const pkv_seq_params one = seq_params_of(&token, 1);
    pkv_seq *seq;
    memory.left = 0;
    assert_status(pkv_seq_open(cache, &one, &seq), PKV_E_NOMEM);
    memory.left = UINT64_MAX;
    advance_all(seqs, 2, 1);
    assert_has(seqs[0], 0, PROMPT + 5);
    assert_sound(cache);
    pkv_cache_destroy(cache);
    assert_int_equal(memory.held, 0);
}

/* Each of these is the first to look. */
static void whoever_changes_a_sequence_finds_its_tokens(void **state)
{
    (void)state;
    enum { APPEND, ALLOCATE, ROLL_BACK, KEY, FORK, FINISH, PREEMPT, WAYS };
    for (int way = 0; way < WAYS; way++) {
        pkv_cache *cache = full_cache(BLOCKS, LEN);
        pkv_seq *seqs[2], *child;
        const pkv_state_offer *offers;
        uint64_t n;
        run_all(cache, seqs, 2);
        advance_all(seqs, 2, 4);
        assert_true(pkvi_lane_waits(seqs[1]));
        const int32_t next = token_of(1, PROMPT + 4);
        switch (way) {
        case APPEND: assert_ok(pkv_seq_append(seqs[1], &next, 1)); break;
        case ALLOCATE: (void)take(seqs[1], 1); break;
        case ROLL_BACK: assert_ok(pkv_seq_set_computed(seqs[1], PROMPT + 3)); break;
        case KEY: assert_ok(pkv_seq_cache(seqs[1], PROMPT + 4)); break;
        case FORK:
            assert_ok(pkv_seq_fork(seqs[1], &child));
            assert_has(child, 1, PROMPT + 4);
            break;
        case FINISH: assert_ok(pkv_seq_finish(seqs[1], &offers, &n)); break;
        default: assert_ok(pkv_seq_preempt(seqs[1])); break;
        }
        const pkv_seq_info info = info_of(seqs[1]);
        assert_int_equal(info.n_tokens, PROMPT + 4 + (way == APPEND));
        assert_int_equal(info.computed, way == PREEMPT     ? 0
                                        : way == ROLL_BACK ? PROMPT + 3
                                        : way == ALLOCATE  ? PROMPT + 5
                                                           : PROMPT + 4);
        advance_all(seqs, 1, 1);
        assert_has(seqs[0], 0, PROMPT + 5);
        end_cache(cache);
    }
}

static void a_row_begins_where_the_last_step_of_a_lane_began(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(16, BLOCKS, LEN);
    pkv_seq *seqs[1];
    int32_t row[8];
    uint64_t from, to;
    run_all(cache, seqs, 1);
    advance_all(seqs, 1, 14); /* the 31st token sees from 15 on; the 32nd from 16 on */
    assert_ok(pkv_seq_row(seqs[0], 0, row, 8, &from, &to));
    assert_int_equal(row[0], 1);
    advance_all(seqs, 1, 1);
    assert_ok(pkv_seq_row(seqs[0], 0, row, 8, &from, &to));
    assert_int_equal(row[0], PKV_BLOCK_NULL);
    assert_int_equal(row[1], 2);
    end_cache(cache);
}

/* ---- what the check finds ---- */

static void a_broken_lane_is_found(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(BLOCKS, LEN);
    pkv_seq *seqs[2];
    run_all(cache, seqs, 2);
    advance_all(seqs, 2, 3);
    pkvi_lanes *l = &cache->lanes;
    const uint32_t since = l->since[1];
    l->since[1] = l->batches + 1;
    assert_status(pkv_cache_check(cache), PKV_E_CORRUPT);
    assert_error_text("pkv_cache_check", "lane 1, since batch");
    l->since[1] = since;
    l->n_running++;
    assert_status(pkv_cache_check(cache), PKV_E_CORRUPT);
    assert_error_text("pkv_cache_check", "2 run of 3");
    l->n_running--;
    l->seqs[1] = seqs[0];
    assert_status(pkv_cache_check(cache), PKV_E_CORRUPT);
    l->seqs[1] = seqs[1];
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_batch_is_counted_and_its_tokens_wait),
        cmocka_unit_test(who_looked_does_not_keep_the_lane_from_the_next_steps),
        cmocka_unit_test(a_step_that_a_lane_took_has_no_new_blocks),
        cmocka_unit_test(blocks_are_taken_and_keyed_where_they_would_be),
        cmocka_unit_test(tokens_that_fill_all_columns_are_taken_over),
        cmocka_unit_test(a_closed_sequence_stands_nowhere),
        cmocka_unit_test(who_takes_the_seat_of_another_does_not_take_its_lane),
        cmocka_unit_test(lanes_grow_while_tokens_wait),
        cmocka_unit_test(lanes_that_lack_memory_to_grow_keep_their_tokens),
        cmocka_unit_test(whoever_changes_a_sequence_finds_its_tokens),
        cmocka_unit_test(a_row_begins_where_the_last_step_of_a_lane_began),
        cmocka_unit_test(a_broken_lane_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
