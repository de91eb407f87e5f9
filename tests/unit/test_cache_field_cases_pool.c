/* test_cache_field_cases_pool.c  Field cases of the area pool that need sequences: 22, 24, 25.
 * Case 23 is told of a second tier; what it says of claims stands with the recurrent layers. */
#include "seq_fixture.h"

static int64_t slot_of(const pkv_seq *seq, uint64_t position)
{
    int64_t slot;
    assert_ok(pkv_seq_slots(seq, 0, position, 1, 0, 1, &slot));
    return slot;
}

static pkv_cache *cache_of_blocks_of(uint64_t block_size, uint64_t n_blocks, uint64_t len)
{
    const pkv_spec layers[] = {full_of(block_size, 8)};
    const pkv_plan_params params = blocks_for(layers, 1, n_blocks, len);
    return cache_of(&params);
}

static void case_22_a_last_block_that_is_full_holds_all_its_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = cache_of_blocks_of(4, 20, 64);
    pkv_seq *eight = run_n(cache, 8), *five = run_tokens(cache, diverging(0), 5);
    assert_table(eight, 0, "1 2");
    assert_int_equal(slot_of(eight, 7), 2 * 4 + 3); /* four tokens in block 2, the last at 3 */
    assert_table(five, 0, "3 4");
    assert_int_equal(slot_of(five, 4), 4 * 4); /* one token in block 4, at 0 */
    assert_int_equal(pkv_seq_blocks_of(eight, 0, 8), 2);
    assert_int_equal(pkv_seq_blocks_of(five, 0, 5), 2);
    assert_int_equal(pkv_seq_blocks_of(five, 0, 0), 0);
    end_cache(cache);
}

static void case_24_what_a_window_has_let_go_is_not_released_again(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed_of(128, 256, 8)};
    const pkv_plan_params params = blocks_for(layers, 1, 10, 1024);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 640);
    append(seq, 1, 1);
    (void)take(seq, 1); /* 640 - 127 = 513 tokens are out of view: two blocks of 256 */
    assert_table(seq, 0, "0 0 3");
    close_seq(seq);
    assert_sound(cache);
    assert_int_equal(free_of(cache), 9);       /* each once */
    assert_int_equal(resend(cache, 640), 512); /* two whole blocks; the second is in view */
    seq = run_n(cache, 640);
    assert_table(seq, 0, "0 2 3");
    assert_int_equal(free_of(cache), 7);
    end_cache(cache);
}

static void case_25_a_step_takes_a_block_for_each_edge_that_is_crossed(void **state)
{
    (void)state;
    pkv_cache *cache = cache_of_blocks_of(8, 40, 64);
    pkv_seq *seqs[] = {run_n(cache, 8), run_tokens(cache, diverging(0), 16),
                       run_tokens(cache, diverging(1), 20)};
    const int32_t tokens[] = {1, 2, 3};
    const pkv_step decode[] = {{seqs[0], tokens, 1, PKV_STEP_KEEP},
                               {seqs[1], tokens, 1, PKV_STEP_KEEP},
                               {seqs[2], tokens, 1, PKV_STEP_KEEP}};
    pkv_allocate_result result;
    uint64_t done, free = free_of(cache);
    assert_ok(pkv_cache_advance(cache, decode, 3, 0, &result, &done));
    assert_int_equal((free - free_of(cache)) * 8, 16); /* (b) 8 and 16 were full, 20 was not */
    const pkv_step several[] = {{seqs[0], tokens, 3, PKV_STEP_KEEP},
                                {seqs[1], tokens, 3, PKV_STEP_KEEP}};
    free = free_of(cache);
    assert_ok(pkv_cache_advance(cache, several, 2, 0, &result, &done));
    assert_int_equal((free - free_of(cache)) * 8, 0); /* (c) 9 and 17 grow to 12 and 20 */
    append(seqs[2], 1, 4);
    (void)take(seqs[2], 4); /* (a) 21 to 25: one edge, at 24 */
    assert_int_equal((free - free_of(cache)) * 8, 8);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_22_a_last_block_that_is_full_holds_all_its_tokens),
        cmocka_unit_test(case_24_what_a_window_has_let_go_is_not_released_again),
        cmocka_unit_test(case_25_a_step_takes_a_block_for_each_edge_that_is_crossed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
