/* test_cache_states.c  Recurrent states as content: keys inside blocks, who goes on where, who may
 * read what in which step. Blocks of 64 tokens, keys of 16. */
#include "state_fixture.h"

static pkv_cache *fine_cache(uint64_t n_blocks)
{
    return state_cache((state_model){.block = 64, .unit = 16, .n_blocks = n_blocks, .len = 640});
}

/* The first 96 of 98 tokens, then a new step: full 1 and 2, and the state after 96 in 3. */
static pkv_seq *writer_at_96(pkv_cache *cache)
{
    pkv_seq *writer = open_n(cache, 98);
    (void)take(writer, 96);
    assert_table(writer, 0, "1 2");
    assert_table(writer, 1, "0 3");
    assert_keys(cache, writer, 1, "0 96");
    pkv_cache_step(cache);
    return writer;
}

static void a_producer_goes_on_in_its_block_and_the_key_moves(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = writer_at_96(cache);
    const uint64_t keys = keys_in(cache);
    const pkv_allocate_result result = take(writer, 2);
    assert_copies(&result, "3>4");
    assert_table(writer, 1, "0 3"); /* the worker knows block 3 */
    assert_new(writer, 1, "");
    assert_int_equal(key_of(cache, 3), 0);
    assert_int_equal(key_of(cache, 4), 96);
    assert_int_equal(keys_in(cache), keys);
    assert_int_equal(refs_of(cache, 3), 2); /* the table, and the copy that reads it */
    assert_int_equal(refs_of(cache, 4), 1); /* the copy that writes it */
    assert_int_equal(free_of(cache), 39 - 4);
    assert_sound(cache);
    pkv_cache_step(cache);
    assert_int_equal(refs_of(cache, 3), 1);
    assert_int_equal(refs_of(cache, 4), 0);
    assert_int_equal(key_of(cache, 4), 96);
    assert_free_list(cache, "5..39 4"); /* keyed: handed out last */
    assert_int_equal(resend(cache, 98), 96);
    assert_hit(cache, 1, "0 4");
    end_cache(cache);
}

static void the_state_at_the_end_of_the_block_is_keyed_where_it_was_written(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = writer_at_96(cache);
    (void)take(writer, 2);
    append(writer, 98, 1); /* any tokens: 98..127 are generated */
    append(writer, 7, 29);
    pkv_cache_step(cache);
    const pkv_allocate_result result = take(writer, 30); /* to 128 */
    assert_int_equal(result.n_copies, 0);                /* the key moved once */
    assert_table(writer, 1, "0 3");
    assert_keys(cache, writer, 1, "0 128");
    end_cache(cache);
}

static void a_newcomer_inside_a_block_gets_a_private_copy_in_both_groups(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = writer_at_96(cache);
    pkv_seq *reader = open_tokens(cache, diverging(98), 128);
    assert_int_equal(lookup(reader), 96);
    assert_hit(cache, 0, "1 2");
    assert_hit(cache, 1, "0 3");
    const pkv_allocate_result result = take(reader, 32);
    assert_copies(&result, "2>4 3>5");
    assert_blocks(result.zero, result.n_zero, "4"); /* and then copied; states are not zeroed */
    assert_table(reader, 0, "1 4");
    assert_table(reader, 1, "0 5");
    assert_new(reader, 0, "4");
    assert_new(reader, 1, "5");
    for (pkv_block b = 2; b <= 5; b++) {
        assert_int_equal(refs_of(cache, b), 2); /* its table, and the copy */
    }
    assert_int_equal(refs_of(cache, 1), 2); /* shared by both */
    assert_keys(cache, writer, 1, "0 96");
    assert_keys(cache, reader, 1, "0 128"); /* 128 tokens are computed in this step */
    assert_sound(cache);
    pkv_cache_step(cache);
    for (pkv_block b = 2; b <= 5; b++) {
        assert_int_equal(refs_of(cache, b), 1);
    }
    end_cache(cache);
}

static void a_source_is_copied_twice_before_its_owner_writes(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = writer_at_96(cache);
    pkv_seq *reader = open_tokens(cache, diverging(98), 128);
    pkv_allocate_result result = take(reader, 32);
    assert_copies(&result, "2>4 3>5");
    result = take(writer, 2);
    assert_copies(&result, "3>6");
    assert_int_equal(refs_of(cache, 3), 3); /* its table and two copies */
    assert_int_equal(key_of(cache, 6), 96);
    pkv_cache_step(cache);
    assert_int_equal(refs_of(cache, 3), 1);
    assert_free_list(cache, "7..39 6");
    end_cache(cache);
}

/* ---- not in the step that writes it ---- */

static void assert_waits_for_a_step(pkv_cache *cache, pkv_seq *reader)
{
    pkv_allocate_result result;
    const pkv_allocate_params params = new_tokens(32);
    const uint64_t n_free = free_of(cache), keys = keys_in(cache);
    assert_int_equal(lookup(reader), 96);
    assert_status(pkv_seq_allocate(reader, &params, &result), PKV_E_NO_BLOCKS);
    assert_true(result.needed > pkv_cache_get_info(cache)->n_blocks); /* whatever is freed */
    assert_int_equal(free_of(cache), n_free);
    assert_int_equal(keys_in(cache), keys);
    assert_sound(cache);
    pkv_cache_step(cache);
    (void)take(reader, 32);
    assert_int_equal(info_of(reader).computed, 128);
}

static void a_state_keyed_inside_a_block_waits_for_a_step(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = open_n(cache, 98);
    (void)take(writer, 96);
    assert_waits_for_a_step(cache, open_tokens(cache, diverging(98), 128));
    end_cache(cache);
}

static void a_copy_that_carries_the_key_now_waits_for_a_step(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = writer_at_96(cache);
    (void)take(writer, 2);
    assert_waits_for_a_step(cache, open_tokens(cache, diverging(98), 128));
    end_cache(cache);
}

static void the_admission_gate_waits_too(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = open_n(cache, 98);
    (void)take(writer, 96);
    pkv_seq *reader = open_tokens(cache, diverging(98), 128);
    pkv_allocate_params params = new_tokens(32);
    params.full_sequence_must_fit = 1;
    pkv_allocate_result result;
    assert_status(pkv_seq_allocate(reader, &params, &result), PKV_E_NO_BLOCKS);
    pkv_cache_step(cache);
    (void)allocate(reader, params);
    end_cache(cache);
}

static void another_state_can_be_read_in_the_same_step(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    (void)writer_at_96(cache); /* of the step before */
    (void)take(open_tokens(cache, diverging(0), 98), 96);
    pkv_seq *reader = open_tokens(cache, diverging(98), 128);
    assert_int_equal(take(reader, 32).cached_tokens, 96);
    end_cache(cache);
}

/* ---- ends ---- */

static void a_preempted_producer_comes_back_to_a_copy_of_its_state(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = writer_at_96(cache);
    assert_ok(pkv_seq_preempt(writer));
    assert_sound(cache);
    assert_int_equal(lookup(writer), 96);
    const pkv_allocate_result result = take(writer, 2);
    assert_int_equal(result.cached_tokens, 96);
    assert_copies(&result, "2>4 3>5"); /* a newcomer now: 1, 2 and 3 are what the cache holds */
    assert_table(writer, 0, "1 4");
    assert_table(writer, 1, "0 5");
    end_cache(cache);
}

static void a_producer_that_ends_leaves_the_key_where_it_is(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    close_seq(writer_at_96(cache));
    assert_int_equal(key_of(cache, 3), 96);
    assert_int_equal(refs_of(cache, 3), 0);
    assert_int_equal(resend(cache, 98), 96);
    assert_hit(cache, 1, "0 3");
    end_cache(cache);
}

static void a_key_that_was_dropped_does_not_come_back_with_the_copy(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = writer_at_96(cache);
    const pkv_block block = 3;
    assert_ok(pkv_cache_evict(cache, &block, 1));
    (void)take(writer, 2);
    assert_int_equal(key_of(cache, 3) + key_of(cache, 4), 0);
    assert_sound(cache);
    pkv_cache_step(cache);
    assert_int_equal(resend(cache, 98), 0);
    end_cache(cache);
}

/* ---- what a step is told to need ---- */

static void a_step_needs_one_state_whatever_its_length(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 16, .n_blocks = 60, .len = 640, .scratch = 2});
    pkv_seq *seq = open_n(cache, 640);
    pkv_allocate_params params = new_tokens(160);
    params.reserved_blocks = 59 - 12; /* of 59: 10 of full attention, 1 state and 2 of scratch */
    assert_refused(cache, seq, params, 13 + params.reserved_blocks, 59);
    params.reserved_blocks--;
    (void)allocate(seq, params);
    pkv_cache_step(cache);
    params.reserved_blocks = 46 - 10; /* now the scratch moves along: 10 and 1 */
    assert_refused(cache, seq, params, 11 + params.reserved_blocks, 46);
    params.reserved_blocks--;
    (void)allocate(seq, params);
    assert_int_equal(free_of(cache), 35);
    end_cache(cache);
}

static void a_checkpoint_needs_a_block(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 64,
                                                 .unit = 16,
                                                 .n_blocks = 40,
                                                 .len = 640,
                                                 .checkpoints = 1,
                                                 .checkpoint_alignment = 16});
    pkv_seq *seq = open_n(cache, 200);
    pkv_allocate_params params = new_tokens(200);
    params.reserved_blocks = 39 - 5; /* 4 of full attention, the state, and the one after 192 */
    assert_refused(cache, seq, params, 6 + params.reserved_blocks, 39);
    params.reserved_blocks--;
    (void)allocate(seq, params);
    assert_int_equal(free_of(cache), 33);
    end_cache(cache);
}

static void a_key_that_moves_needs_a_block_beside_the_new_state(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache(40);
    pkv_seq *writer = writer_at_96(cache);
    append(writer, 7, 222); /* 320 tokens: 5 blocks */
    pkv_allocate_params params = new_tokens(224);
    params.reserved_blocks = 36 - 4; /* 3 of full attention, a copy, the state after 320 */
    assert_refused(cache, writer, params, 5 + params.reserved_blocks, 36);
    params.reserved_blocks--;
    (void)allocate(writer, params);
    assert_table(writer, 1, "0 3 0 0 8");
    assert_int_equal(free_of(cache), 31);
    end_cache(cache);
}

static void a_copy_counts_when_blocks_are_short(void **state)
{
    (void)state;
    /* 13 usable blocks hold a request of 640: 10 of full attention, and up to 3 states */
    pkv_cache *cache = fine_cache(14);
    pkv_seq *writer = writer_at_96(cache);
    pkv_seq *other = open_tokens(cache, diverging(0), 640);
    (void)take(other, 9 * 64); /* 9 and 1 */
    assert_int_equal(free_of(cache), 0);
    assert_refused(cache, writer, new_tokens(2), 1, 0); /* nowhere for the key to move to */
    assert_keys(cache, writer, 1, "0 96");
    close_seq(other);
    (void)take(writer, 2);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_producer_goes_on_in_its_block_and_the_key_moves),
        cmocka_unit_test(the_state_at_the_end_of_the_block_is_keyed_where_it_was_written),
        cmocka_unit_test(a_newcomer_inside_a_block_gets_a_private_copy_in_both_groups),
        cmocka_unit_test(a_source_is_copied_twice_before_its_owner_writes),
        cmocka_unit_test(a_state_keyed_inside_a_block_waits_for_a_step),
        cmocka_unit_test(a_copy_that_carries_the_key_now_waits_for_a_step),
        cmocka_unit_test(the_admission_gate_waits_too),
        cmocka_unit_test(another_state_can_be_read_in_the_same_step),
        cmocka_unit_test(a_preempted_producer_comes_back_to_a_copy_of_its_state),
        cmocka_unit_test(a_producer_that_ends_leaves_the_key_where_it_is),
        cmocka_unit_test(a_key_that_was_dropped_does_not_come_back_with_the_copy),
        cmocka_unit_test(a_step_needs_one_state_whatever_its_length),
        cmocka_unit_test(a_checkpoint_needs_a_block),
        cmocka_unit_test(a_key_that_moves_needs_a_block_beside_the_new_state),
        cmocka_unit_test(a_copy_counts_when_blocks_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
