/* test_cache_late.c  Blocks that a quiet step passes: released late, and nobody can tell.
 *
 * A window of 32 tokens, blocks of 16: the step that computes token 48 begins with 47 tokens and is
 * the first that does not look at the first block. It also completes the third unit. */
#include "seq_fixture.h"

#include "countdown.h"
#include "seq/cache_internal.h"

enum { PASSING = 47, LEN = 80 };

/* Its tokens, those that wait in its lane among them; nothing is done by asking. */
static uint64_t tokens_of(const pkv_seq *seq)
{
    const pkvi_lanes *l = &seq->cache->lanes;
    return seq->n_tokens + (pkvi_lane_waits(seq) ? l->batches - l->since[seq->lane] : 0);
}

static bool is_due(const pkv_seq *seq)
{
    const pkvi_lanes *l = &seq->cache->lanes;
    return pkvi_is_due(seq) || (pkvi_lane_waits(seq) && l->due[seq->lane] <= l->batches);
}

static pkv_status advance(pkv_seq **seqs, uint64_t n, uint64_t n_tokens, pkv_allocate_result *out)
{
    pkv_step steps[4];
    uint64_t done;
    for (uint64_t i = 0; i < n; i++) {
        steps[i] = (pkv_step){seqs[i], counting() + tokens_of(seqs[i]), n_tokens, PKV_STEP_KEEP};
    }
    return pkv_cache_advance(seqs[0]->cache, steps, n, 0, out, &done);
}

/* So many steps of one token each; the last one is not ended. */
static void step(pkv_seq *seq, uint64_t n)
{
    pkv_allocate_result out;
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0) {
            pkv_cache_step(seq->cache);
        }
        assert_ok(advance(&seq, 1, 1, &out));
    }
}

/* A sequence that has just passed its first block, which is still to be released. */
static pkv_seq *passing(pkv_cache *cache)
{
    pkv_seq *seq = run_n(cache, PASSING - 1);
    pkv_cache_step(cache);
    step(seq, 2);
    assert_true(is_due(seq));
    return seq;
}

/* ---- whoever looks finds it done ---- */

static void a_table_has_no_block_that_was_passed(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 20, LEN);
    pkv_seq *seq = passing(cache);
    assert_table(seq, 1, "0 5 6");
    assert_table(seq, 0, "1..3");
    end_cache(cache);
}

static void a_row_tells_the_entry_that_changed(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 20, LEN);
    pkv_seq *seq = passing(cache);
    int32_t row[10];
    uint64_t from, to;
    assert_ok(pkv_seq_row(seq, 1, row, 10, &from, &to));
    assert_int_equal(row[0], 0);
    assert_int_equal(row[1], 5);
    assert_int_equal(from, 0);
    assert_int_equal(to, 3);
    assert_ok(pkv_seq_row(seq, 0, row, 10, &from, &to));
    assert_int_equal(from, 3); /* the other group's row is as it was */
    end_cache(cache);
}

/* An allocate that computes nothing begins where the next step begins: there a window has moved. */
static void a_unit_that_is_due_changes_no_row(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(16, 20, LEN);
    pkv_seq *seq = open_n(cache, 31);
    pkv_allocate_params params = new_tokens(0);
    int32_t row[10];
    uint64_t from, to;
    params.external_tokens = 31;
    (void)allocate(seq, params);
    pkv_cache_step(cache);
    step(seq, 1);
    assert_true(is_due(seq));
    assert_ok(pkv_seq_row(seq, 1, row, 10, &from, &to));
    assert_int_equal(row[0], 0);
    assert_int_equal(from, 2);
    assert_int_equal(to, 2);
    end_cache(cache);
}

/* Drafts had passed the block before they were rolled back: it is gone, but its entry was in sight
 * again. */
static void a_row_tells_an_entry_that_leaves_a_second_time(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 20, LEN);
    pkv_seq *seq = run_n(cache, PASSING - 1);
    int32_t row[10];
    uint64_t from, to;
    pkv_cache_step(cache);
    (void)take(seq, 1);
    (void)take(seq, 1);
    assert_table(seq, 1, "0 5 6");
    assert_ok(pkv_seq_set_computed(seq, PASSING - 1));
    pkv_cache_step(cache);
    step(seq, 2);
    assert_true(is_due(seq));
    assert_ok(pkv_seq_row(seq, 1, row, 10, &from, &to));
    assert_int_equal(from, 0);
    end_cache(cache);
}

/* Whoever looks a step later has missed the change, as if it had been made in time. */
static void a_row_of_the_next_step_is_not_changed(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 20, LEN);
    pkv_seq *seq = passing(cache);
    int32_t row[10];
    uint64_t from, to;
    pkv_cache_step(cache);
    assert_true(is_due(seq));
    assert_ok(pkv_seq_row(seq, 1, row, 10, &from, &to));
    assert_int_equal(row[0], 0);
    assert_int_equal(from, 3);
    end_cache(cache);
}

static void a_position_that_was_passed_has_no_slot(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 20, LEN);
    pkv_seq *seq = passing(cache);
    int64_t slots[2];
    assert_ok(pkv_seq_slots(seq, 1, 15, 2, 0, 1, slots));
    assert_int_equal(slots[0], -1);
    assert_int_equal(slots[1], 5 * 16);
    end_cache(cache);
}

static void the_pool_has_the_block_back(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 12, LEN);
    pkv_seq *seq = passing(cache);
    assert_free_list(cache, "7..11 4"); /* it is keyed: to the back */
    assert_false(is_due(seq));
    end_cache(cache);
}

static void without_caching_the_block_goes_to_the_front(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_plan_params params = blocks_for(layers, 2, 12, LEN);
    params.caching = 0;
    pkv_cache *cache = cache_of(&params);
    (void)passing(cache);
    assert_free_list(cache, "4 7..11");
    end_cache(cache);
}

/* ---- in the order of the steps ---- */

static void blocks_come_back_in_the_order_of_the_steps(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_plan_params params = blocks_for(layers, 2, 20, LEN);
    params.caching = 0;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *first = run_n(cache, PASSING), *second = run_n(cache, PASSING - 1);
    pkv_allocate_result out;
    assert_table(first, 1, "4..6");
    assert_table(second, 1, "10..12");
    assert_ok(advance((pkv_seq *[]){first, second}, 2, 1, &out)); /* first passes its block */
    pkv_cache_step(cache);
    assert_ok(advance((pkv_seq *[]){second}, 1, 1, &out)); /* then second */
    pkv_cache_step(cache);
    assert_true(is_due(first) && is_due(second));
    assert_free_list(cache, "10 4 13..19"); /* each to the front */
    end_cache(cache);
}

/* The blocks of a deferred close go back when the step has run, behind what the step let go. */
static void a_deferred_close_comes_after_what_its_step_passed(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 12, LEN);
    pkv_seq *other = run_tokens(cache, diverging(0), 16);
    pkv_seq *seq = run_n(cache, PASSING - 1);
    pkv_cache_step(cache);
    step(seq, 1);
    pkv_cache_step(cache);
    assert_ok(pkv_seq_close(other, true));
    step(seq, 1);
    assert_true(is_due(seq));
    pkv_cache_step(cache);
    assert_false(is_due(seq));
    assert_free_list(cache, "9..11 6 2 1");
    end_cache(cache);
}

/* A child has its own copy of the tail of a parent that is gone: what it copies from is held until
 * the step has run. */
static void the_end_of_a_copy_comes_after_what_its_step_passed(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_plan_params plan = blocks_for(layers, 2, 20, LEN);
    plan.caching = 0;
    pkv_cache *cache = cache_of(&plan);
    pkv_seq *parent = run_tokens(cache, diverging(0), 8), *child;
    pkv_seq *seq = run_n(cache, PASSING - 1);
    pkv_allocate_result out;
    pkv_cache_step(cache);
    step(seq, 1);
    pkv_cache_step(cache);
    assert_ok(pkv_seq_fork(parent, &child));
    assert_ok(advance((pkv_seq *[]){child}, 1, 1, &out));
    assert_int_equal(out.n_copies, 2);
    close_seq(parent); /* of 1 and 2 */
    step(seq, 1);
    assert_true(is_due(seq));
    pkv_cache_step(cache);
    assert_free_list(cache, "1 2 6 11..19"); /* each to the front */
    end_cache(cache);
}

static void a_block_that_was_passed_is_there_for_the_next_request(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 12, LEN);
    (void)run_tokens(cache, diverging(0), 32);
    pkv_seq *seq = passing(cache); /* 5..7 and 8..10: one block is left, and one was passed */
    pkv_seq *other = run_tokens(cache, diverging(1), 16);
    assert_table(other, 0, "11");
    assert_table(other, 1, "8");
    assert_table(seq, 1, "0 9 10");
    end_cache(cache);
}

/* The sequence itself takes it: first it lets go, then it grows. */
static void a_sequence_takes_what_it_has_passed(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 12, LEN);
    (void)run_tokens(cache, diverging(0), 32);
    pkv_seq *seq = passing(cache);
    step(seq, 1);
    assert_table(seq, 0, "5..7 11");
    assert_table(seq, 1, "0 9 10 8");
    end_cache(cache);
}

static void a_preempted_sequence_gives_all_back_in_order(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 12, LEN);
    pkv_seq *seq = passing(cache);
    assert_ok(pkv_seq_preempt(seq));
    assert_free_list(cache, "7..11 4 3 2 1 6 5");
    end_cache(cache);
}

/* ---- what is not put off ---- */

/* It ends with as many tokens, but begins where the window still sees the block. */
static void a_longer_step_does_not_pass_the_block(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 20, LEN);
    pkv_seq *seq = run_n(cache, PASSING - 1);
    pkv_allocate_result out;
    assert_ok(advance(&seq, 1, 2, &out)); /* 46 to 48 */
    assert_table(seq, 1, "4..6");
    pkv_cache_step(cache);
    step(seq, 1);
    assert_table(seq, 1, "0 5 6 8");
    end_cache(cache);
}

static void a_longer_step_over_two_blocks_lets_both_go(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 20, LEN);
    pkv_seq *seq = passing(cache);
    pkv_allocate_result out;
    pkv_cache_step(cache);
    assert_ok(advance(&seq, 1, 16, &out)); /* 48 to 64 */
    pkv_cache_step(cache);
    step(seq, 1); /* begins with 64: blocks 0 and 1 are passed */
    assert_table(seq, 1, "0 0 6 8 10");
    end_cache(cache);
}

/* There are slots ahead, so that the sequence needs no block when it passes the second one. */
static void a_second_block_is_let_go_by_a_step_of_its_own(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_plan_params plan = blocks_for(layers, 2, 20, LEN);
    plan.caching = 0;
    pkv_cache *cache = cache_of(&plan);
    pkv_seq *seq = open_n(cache, PASSING - 1);
    pkv_allocate_params params = new_tokens(PASSING - 1);
    params.lookahead = 30;
    (void)allocate(seq, params);
    step(seq, 18); /* the last one begins with 63 tokens */
    assert_table(seq, 1, "0 0 8 9 10");
    assert_free_list(cache, "7 6 11..19");
    end_cache(cache);
}

/* Keys that a caller brings between two steps are for the next one. */
static void ready_keys_are_not_put_off(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    const pkv_plan_params plan = blocks_for(layers, 2, 20, LEN);
    pkv_cache_params cache_params = cache_params_of(NULL, NULL);
    cache_params.index = PKV_INDEX_CHAINS;
    pkv_cache *cache = cache_with(&plan, cache_params);
    pkv_seq_params params = seq_params_of(counting(), PASSING - 1);
    pkv_seq *seq, *source = open_n(cache, 64);
    uint64_t n;
    params.keys = keys_of_seq(source, &n);
    params.n_keys = 2;
    params.skip_lookup = 1;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    (void)take(seq, PASSING - 1);
    step(seq, 2);
    assert_false(is_due(seq));
    assert_ok(pkv_seq_append_keys(seq, params.keys + 2, 1));
    assert_int_equal(info_of(seq).keyed, 32);
    assert_table(seq, 1, "0 5 6");
    end_cache(cache);
}

static void events_are_told_in_the_step(void **state)
{
    (void)state;
    event_log log = {0};
    const pkv_spec layers[] = {full(), windowed(32)};
    const pkv_plan_params params = blocks_for(layers, 2, 20, LEN);
    pkv_cache *cache = watched_cache(&params, 0, &log);
    pkv_seq *seq = run_n(cache, PASSING - 1);
    step(seq, 1);
    const size_t before = log.n;
    step(seq, 1);
    assert_false(is_due(seq));
    assert_int_equal(log.n, before + 2); /* the third unit, in both groups */
    end_cache(cache);
}

/* ---- without memory ---- */

/* The third unit branches off another request's, which takes memory; blocks go without any. */
static void blocks_are_let_go_though_a_unit_lacks_memory(void **state)
{
    (void)state;
    countdown memory = {.left = UINT64_MAX};
    const pkv_alloc hooks = {&memory, counted_alloc, counted_free};
    const pkv_spec layers[] = {full(), windowed(32)};
    const pkv_plan_params plan = blocks_for(layers, 2, 40, LEN);
    pkv_cache_params params = cache_params_of(NULL, NULL);
    params.alloc = &hooks;
    pkv_cache *cache = cache_with(&plan, params);
    close_seq(run_tokens(cache, diverging(40), 64));
    pkv_seq *first = run_n(cache, PASSING), *second = run_n(cache, PASSING);
    pkv_allocate_result out;
    const uint64_t before = free_of(cache);
    assert_ok(advance((pkv_seq *[]){first, second}, 2, 1, &out));
    memory.left = 0;
    assert_int_equal(free_of(cache), before + 1); /* one block, which both shared: a hit of 32 */
    assert_true(is_due(first) && is_due(second));
    assert_int_equal(info_of(first).keyed, 32);
    memory.left = UINT64_MAX;
    assert_int_equal(info_of(first).keyed, 48);
    assert_int_equal(info_of(second).keyed, 48);
    assert_int_equal(free_of(cache), before + 1);
    assert_sound(cache);
    pkv_cache_destroy(cache);
    assert_int_equal(memory.held, 0);
}

/* The list through which blocks go back has not grown with the table, which found its memory. */
static void a_chunk_that_the_list_has_no_room_for_is_let_go_at_once(void **state)
{
    (void)state;
    enum { CHUNK = 24 * 16, BLOCKS = 26 };
    countdown memory = {.left = UINT64_MAX};
    const pkv_alloc hooks = {&memory, counted_alloc, counted_free};
    const pkv_spec layers[] = {chunked(CHUNK)};
    pkv_plan_params plan = blocks_for(layers, 1, 200, 1000);
    pkv_cache_params params = cache_params_of(NULL, NULL);
    plan.caching = 0;
    params.alloc = &hooks;
    pkv_cache *cache = cache_with(&plan, params);
    pkv_seq *seq = open_n(cache, 200);
    pkv_allocate_params wanted = new_tokens(200);
    pkv_allocate_result out;
    wanted.lookahead = BLOCKS * 16 - 200;
    for (memory.left = 0; seq->body->tables[0].capacity <= BLOCKS; memory.left++) {
        const uint64_t left = memory.left;
        assert_status(pkv_seq_allocate(seq, &wanted, &out), PKV_E_NOMEM);
        memory.left = left;
    }
    assert_true(cache->scratch.capacity < BLOCKS);
    memory.left = UINT64_MAX;
    (void)take(seq, 200);
    const pkv_step rest = {seq, counting() + 200, CHUNK - 200, PKV_STEP_KEEP};
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, &rest, 1, BLOCKS * 16 - CHUNK, &out, &done));
    step(seq, 1); /* the first one of the next chunk */
    assert_false(is_due(seq));
    assert_table(seq, 0, "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 25 26");
    assert_sound(cache);
    pkv_cache_destroy(cache);
    assert_int_equal(memory.held, 0);
}

/* ---- numbers of batches ---- */

/* Tokens that wait are not lost, nor taken twice, when the numbers of batches begin anew. */
static void batches_are_counted_anew_at_the_end_of_their_numbers(void **state)
{
    (void)state;
    enum { STEPS = 12 };
    pkv_cache *cache = hybrid_cache(32, 20, LEN);
    pkv_seq *seq = run_n(cache, 8), *other = run_tokens(cache, diverging(0), 8);
    pkv_allocate_result out;
    cache->lanes.batches = PKVI_NO_BATCH - 2 * PKVI_COLUMNS - STEPS / 2;
    for (int i = 0; i < STEPS; i++) {
        assert_ok(advance((pkv_seq *[]){seq, other}, 2, 1, &out));
        assert_status(advance((pkv_seq *[]){seq, other, seq}, 3, 1, &out), PKV_E_INVAL);
        assert_error_text("pkv_cache_advance", "step 2: the sequence twice");
    }
    assert_int_equal(cache->lanes.batches, STEPS / 2);
    assert_int_equal(info_of(seq).n_tokens, 8 + STEPS);
    assert_int_equal(info_of(other).computed, 8 + STEPS);
    assert_sound(cache);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_no_block_that_was_passed),
        cmocka_unit_test(a_row_tells_the_entry_that_changed),
        cmocka_unit_test(a_unit_that_is_due_changes_no_row),
        cmocka_unit_test(a_row_tells_an_entry_that_leaves_a_second_time),
        cmocka_unit_test(a_row_of_the_next_step_is_not_changed),
        cmocka_unit_test(a_position_that_was_passed_has_no_slot),
        cmocka_unit_test(the_pool_has_the_block_back),
        cmocka_unit_test(without_caching_the_block_goes_to_the_front),
        cmocka_unit_test(blocks_come_back_in_the_order_of_the_steps),
        cmocka_unit_test(a_deferred_close_comes_after_what_its_step_passed),
        cmocka_unit_test(the_end_of_a_copy_comes_after_what_its_step_passed),
        cmocka_unit_test(a_block_that_was_passed_is_there_for_the_next_request),
        cmocka_unit_test(a_sequence_takes_what_it_has_passed),
        cmocka_unit_test(a_preempted_sequence_gives_all_back_in_order),
        cmocka_unit_test(a_longer_step_does_not_pass_the_block),
        cmocka_unit_test(a_longer_step_over_two_blocks_lets_both_go),
        cmocka_unit_test(a_second_block_is_let_go_by_a_step_of_its_own),
        cmocka_unit_test(ready_keys_are_not_put_off),
        cmocka_unit_test(events_are_told_in_the_step),
        cmocka_unit_test(blocks_are_let_go_though_a_unit_lacks_memory),
        cmocka_unit_test(a_chunk_that_the_list_has_no_room_for_is_let_go_at_once),
        cmocka_unit_test(batches_are_counted_anew_at_the_end_of_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
