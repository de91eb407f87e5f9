/* test_cache_state_rows.c  Rows 133-137 of kv-core 9.5, and how a table of states moves along: what
 * runs, what is scratch, what is let go and when. */
#include "state_fixture.h"

/* ---- 133-137 ---- */

static void row_133_of_each_chunk_the_last_state_stays_for_one_step(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 64, .n_blocks = 40, .len = 640});
    pkv_seq *seq = open_n(cache, 200);
    run_in_chunks(cache, seq, 200, 64); /* 64, 128, 192, 200: four chunks, a pair of blocks each */
    assert_table(seq, 0, "1 3 5 7");
    assert_table(seq, 1, "0 0 6 8");           /* 6 is read by the last chunk, 8 is written */
    assert_int_equal(resend(cache, 200), 192); /* 199 / 64 = 3 blocks */
    end_cache(cache);
}

static void row_134_the_chain_of_copies_runs_in_order(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 64, .unit = 16, .n_blocks = 40, .len = 640});
    pkv_seq *writer = open_n(cache, 98), *reader = open_tokens(cache, diverging(98), 128);
    (void)take(writer, 96); /* ceil(96 / 64) = 2 blocks: full 1 and 2, the state after 96 in 3 */
    assert_table(writer, 1, "0 3");
    pkv_cache_step(cache);
    pkv_allocate_result result = take(writer, 2); /* overwrites 3: its key moves to a copy */
    assert_copies(&result, "3>4");
    assert_int_equal(lookup(reader), 96); /* 98 / 16 * 16 */
    assert_hit(cache, 0, "1 2");
    assert_hit(cache, 1, "0 4");
    pkv_cache_step(cache); /* 4 has been filled */
    result = take(reader, 32);
    assert_copies(&result, "2>5 4>6"); /* 64..95 lie inside block 1 of both groups */
    assert_new(reader, 0, "5");
    assert_new(reader, 1, "6");
    assert_table(reader, 0, "1 5");
    assert_table(reader, 1, "0 6");
    end_cache(cache);
}

static void row_135_a_state_keyed_in_this_step_is_read_in_the_next(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 64, .n_blocks = 40, .len = 640});
    (void)run_n(cache, 64); /* full 1, state 2 */
    pkv_seq *sibling = open_n(cache, 128);
    assert_int_equal(lookup(sibling), 64);
    assert_hit(cache, 1, "2");
    /* 1 block of full attention; and for the states, pool size + 1: never in this step */
    assert_refused(cache, sibling, new_tokens(64), 1 + 41, 37);
    assert_int_equal(info_of(sibling).allocated, 0);
    pkv_cache_step(cache);
    (void)take(sibling, 64);
    assert_table(sibling, 0, "1 3");
    assert_table(sibling, 1, "2 4");
    end_cache(cache);
}

static void row_136_scratch_moves_to_the_new_end(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 64, .n_blocks = 40, .len = 640, .scratch = 2});
    pkv_seq *seq = open_n(cache, 256);
    (void)take(seq, 128);
    assert_table(seq, 1, "0 3 4 5"); /* state 3, scratch 4 and 5 */
    pkv_cache_step(cache);
    (void)take(seq, 128);
    assert_table(seq, 0, "1 2 6 7");
    assert_table(seq, 1, "0 3 0 5 4 8"); /* 5 is at the place of the state now, 4 and 8 scratch */
    end_cache(cache);
}

static pkv_plan_params running_plan(const pkv_spec *layers, size_t n, uint8_t caching)
{
    pkv_plan_params params = blocks_for(layers, n, 80, 1024);
    params.caching = caching;
    return params;
}

/* A state that is not kept: one for the whole request. */
static pkv_spec running_of(uint64_t block, uint32_t scratch)
{
    const pkv_spec like = full();
    pkv_spec spec = recurrent(block);
    spec.mamba_mode = PKV_MAMBA_NONE;
    spec.num_speculative_blocks = scratch;
    spec.page_size_padded = page_of(&like);
    return finished(spec);
}

static void row_137_a_state_that_is_not_kept_is_one_block_and_its_scratch(void **state)
{
    (void)state;
    const pkv_spec layers[] = {running_of(1024, 2)};
    const pkv_plan_params params = running_plan(layers, 1, 0);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 40); /* (40 + 2 x 1024) / 1024, rounded up: 3 */
    assert_table(seq, 0, "1..3");
    append(seq, 1, 100);
    for (int i = 0; i < 100; i++) {
        pkv_cache_step(cache);
        (void)take(seq, 1);
        assert_new(seq, 0, "");
    }
    assert_table(seq, 0, "1..3");
    close_seq(seq);
    assert_int_equal(free_of(cache), 79);
    end_cache(cache);
}

static void states_that_are_not_kept_and_prefix_caching_make_no_cache(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), running_of(1024, 0)};
    const pkv_plan_params plan_params = running_plan(layers, 2, 1);
    pkv_plan *plan = plan_of(&plan_params);
    const pkv_cache_params params = cache_params_of(plan, NULL);
    pkv_cache *cache = (pkv_cache *)(uintptr_t)1;
    assert_status(pkv_cache_create(&params, &cache), PKV_E_ASSERT);
    assert_error_text("pkv_cache_create", "align");
    assert_null(cache);
    pkv_plan_destroy(plan);
}

static void nothing_is_found_where_states_are_not_kept(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), running_of(1024, 0)};
    const pkv_plan_params params = running_plan(layers, 2, 0);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 40);
    assert_table(seq, 0, "1..3");
    assert_table(seq, 1, "4");
    assert_int_equal(keys_in(cache), 0);
    assert_int_equal(resend(cache, 40), 0);
    end_cache(cache);
}

/* ---- how a table moves ---- */

static void a_gap_is_null_and_takes_nothing(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 16, .n_blocks = 40, .len = 320});
    pkv_seq *seq = open_n(cache, 240);
    (void)take(seq, 96);
    assert_table(seq, 0, "1..6");
    assert_table(seq, 1, "0*5 7"); /* one state for six blocks of tokens */
    pkv_cache_step(cache);
    (void)take(seq, 112); /* to 208: 13 blocks */
    assert_table(seq, 0, "1..6 8..14");
    assert_table(seq, 1, "0*5 7 0*6 15");
    assert_int_equal(free_of(cache), 39 - 13 - 2);
    end_cache(cache);
}

static void the_state_two_steps_back_is_freed(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 16, .n_blocks = 40, .len = 320});
    pkv_seq *seq = open_n(cache, 240);
    (void)take(seq, 48); /* full 1..3, state 4 */
    pkv_cache_step(cache);
    (void)take(seq, 48); /* reads 4, full 5..7, state 8 */
    assert_int_equal(refs_of(cache, 4), 1);
    assert_table(seq, 1, "0 0 4 0 0 8");
    pkv_cache_step(cache);
    (void)take(seq, 48); /* reads 8: 4 is two steps back */
    assert_int_equal(refs_of(cache, 4), 0);
    assert_int_equal(refs_of(cache, 8), 1);
    assert_table(seq, 1, "0*5 8 0 0 12");
    assert_int_equal(key_of(cache, 4), 48); /* it can still be found */
    end_cache(cache);
}

static void a_state_that_a_running_step_reads_is_not_freed(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 16, .n_blocks = 40, .len = 320});
    pkv_seq *seq = open_n(cache, 240);
    (void)take(seq, 48);
    for (int i = 0; i < 2; i++) { /* the step before still runs */
        pkv_allocate_params params = new_tokens(48);
        params.in_flight_tokens = 48;
        pkv_cache_step(cache);
        (void)allocate(seq, params);
    }
    /* 96 are computed, of which 48 run: and what they read stays */
    assert_table(seq, 1, "0 0 4 0 0 8 0 0 12");
    assert_int_equal(refs_of(cache, 4), 1);
    end_cache(cache);
}

static void a_state_goes_on_in_its_block_until_the_block_is_full(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 16, .n_blocks = 40, .len = 320});
    pkv_seq *seq = run_n(cache, 10); /* full 1, state 2 */
    for (uint64_t n = 11; n <= 16; n++) {
        append(seq, 7, 1);
        pkv_cache_step(cache);
        (void)take(seq, 1);
        assert_table(seq, 1, "2");
        assert_new(seq, 1, "");
    }
    append(seq, 7, 1);
    pkv_cache_step(cache);
    (void)take(seq, 1); /* reads 2, writes 4 */
    assert_table(seq, 0, "1 3");
    assert_table(seq, 1, "2 4");
    append(seq, 7, 1);
    pkv_cache_step(cache);
    (void)take(seq, 1);
    assert_table(seq, 1, "0 4");
    end_cache(cache);
}

static void scratch_is_neither_keyed_nor_shared_as_it_moves(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 16, .n_blocks = 60, .len = 320, .scratch = 3});
    pkv_seq *seq = open_n(cache, 300);
    for (uint64_t done = 0; done < 288; done += 48) {
        (void)take(seq, 48);
        uint64_t n;
        const pkv_block *ids = pkv_seq_table(seq, 1, &n);
        assert_int_equal(n, (done + 48) / 16 + 3);
        for (uint64_t i = n - 3; i < n; i++) {
            assert_int_not_equal(ids[i], 0);
            assert_int_equal(refs_of(cache, ids[i]), 1);
            assert_int_equal(key_of(cache, ids[i]), 0);
        }
        assert_sound(cache);
        pkv_cache_step(cache);
    }
    end_cache(cache);
}

static void drafts_in_scratch_roll_back_to_nothing(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 16, .n_blocks = 40, .len = 320, .scratch = 2});
    pkv_seq *seq = run_n(cache, 30); /* full 1, 2; state 3, scratch 4, 5 */
    assert_table(seq, 1, "0 3 4 5");
    append(seq, 7, 1);
    pkv_cache_step(cache);
    (void)take(seq, 3); /* one token and two drafts: 33 slots, 3 blocks */
    assert_table(seq, 0, "1 2 6");
    assert_table(seq, 1, "0 3 4 5 7");
    assert_ok(pkv_seq_set_computed(seq, 31)); /* both are rejected */
    append(seq, 8, 1);
    pkv_cache_step(cache);
    (void)take(seq, 1);
    assert_table(seq, 1, "0 3 4 5 7"); /* the state of 31 tokens lies where it was */
    assert_new(seq, 1, "");
    end_cache(cache);
}

static void states_are_never_zeroed_and_have_rows_but_no_slots(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 16, .n_blocks = 40, .len = 320});
    pkv_seq *seq = open_n(cache, 40);
    const pkv_allocate_result result = take(seq, 40);
    assert_int_equal(result.n_zero, 3); /* of full attention, since pages are shared with states */
    assert_blocks(result.zero, result.n_zero, "1..3");
    int64_t slots[2];
    assert_ok(pkv_seq_slots(seq, 1, 38, 2, 0, 1, slots));
    assert_int_equal(slots[0], -1); /* no row per token */
    assert_int_equal(slots[1], -1);
    int32_t row[4];
    assert_ok(pkv_seq_row(seq, 1, row, COUNT(row), NULL, NULL));
    const int32_t wanted[] = {0, 0, 4, 0};
    assert_memory_equal(row, wanted, sizeof wanted);
    end_cache(cache);
}

static void recurrent_groups_are_not_forked(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), running_of(1024, 0)};
    const pkv_plan_params params = running_plan(layers, 2, 0);
    pkv_cache *caches[] = {state_cache((state_model){.block = 16, .n_blocks = 40, .len = 320}),
                           cache_of(&params)};
    for (size_t i = 0; i < COUNT(caches); i++) {
        pkv_seq *seq = run_n(caches[i], 40), *child = seq;
        assert_status(pkv_seq_fork(seq, &child), PKV_E_UNSUPPORTED);
        assert_error_text("pkv_seq_fork", "mamba");
        assert_null(child);
        end_cache(caches[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_133_of_each_chunk_the_last_state_stays_for_one_step),
        cmocka_unit_test(row_134_the_chain_of_copies_runs_in_order),
        cmocka_unit_test(row_135_a_state_keyed_in_this_step_is_read_in_the_next),
        cmocka_unit_test(row_136_scratch_moves_to_the_new_end),
        cmocka_unit_test(row_137_a_state_that_is_not_kept_is_one_block_and_its_scratch),
        cmocka_unit_test(states_that_are_not_kept_and_prefix_caching_make_no_cache),
        cmocka_unit_test(nothing_is_found_where_states_are_not_kept),
        cmocka_unit_test(a_gap_is_null_and_takes_nothing),
        cmocka_unit_test(the_state_two_steps_back_is_freed),
        cmocka_unit_test(a_state_that_a_running_step_reads_is_not_freed),
        cmocka_unit_test(a_state_goes_on_in_its_block_until_the_block_is_full),
        cmocka_unit_test(scratch_is_neither_keyed_nor_shared_as_it_moves),
        cmocka_unit_test(drafts_in_scratch_roll_back_to_nothing),
        cmocka_unit_test(states_are_never_zeroed_and_have_rows_but_no_slots),
        cmocka_unit_test(recurrent_groups_are_not_forked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
