/* test_pool_field_cases.c  Failures of other KV caches, as field-cases.md numbers them, as far as
 * a pool alone can show them. */
#include "pool_fixture.h"

/* Case 19: 5 free blocks, 2 of them cached and matched; 4 more are needed. */
static void case_19_hits_leave_the_free_count(void **state)
{
    (void)state;
    fixture f;
    pkv_block ids[4] = {77, 77, 77, 77};
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_table(&f, 'A', IDS(1, 2));
    release(&f, IDS(2, 1));
    assert_int_equal(pkv_pool_free_count(f.pool), 5);
    share(&f, IDS(1, 2));
    assert_int_equal(pkv_pool_free_count(f.pool), 5 - 2);
    assert_refused(&f, pkv_pool_take(f.pool, 4, ids), PKV_E_NO_BLOCKS);
    assert_int_equal(ids[0], 77);
    close_pool(&f);
}

/* Case 20: A and B are cached at the head of the list, C and D are empty. */
static void case_20_touched_blocks_are_not_handed_out(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 5, 4);
    take(&f, IDS(1, 2, 3, 4));
    key_table(&f, 'A', IDS(1, 2));
    release(&f, IDS(1, 2));
    unpin(&f, IDS(3, 4));
    assert_free(&f, "1 2 3 4");
    f.events[0] = '\0';
    share(&f, IDS(1, 2));
    take(&f, IDS(3, 4));
    assert_events(&f, "");
    assert_int_equal(found(&f, "A0", 0), 1);
    assert_int_equal(found(&f, "A1", 0), 2);
    close_pool(&f);
}

/* Case 21: block 3 is cached as A, freed, and reused for B. */
static void case_21_a_reused_block_is_not_found_by_its_old_key(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 4, 4);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(3));
    release(&f, IDS(3));
    take(&f, IDS(3));
    assert_int_equal(found(&f, "A0", 0), 0);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 3), 0);
    key_table(&f, 'B', IDS(3));
    assert_int_equal(found(&f, "A0", 0), 0);
    assert_int_equal(found(&f, "B0", 0), 3);
    close_pool(&f);
}

/* Case 26: whatever is done, used and free blocks are all blocks. */
static void case_26_used_and_free_are_all_after_every_operation(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 9, 4);
    const pkv_block table[] = {1, 2, 3, 4, 5, 6};
    take(&f, table, 6);
    key_table(&f, 'A', table, 6);
    for (unsigned round = 0; round < 6; round++) {
        share(&f, table, round); /* lock and unlock a part */
        evict(&f, table[round]);
        release(&f, table, round);
        uint64_t used = 0;
        for (pkv_block b = 1; b < 9; b++) {
            used += pkv_pool_refs(f.pool, b) > 0;
        }
        assert_int_equal(used, 6);
        assert_int_equal(pkv_pool_free_count(f.pool), 8 - used);
    }
    close_pool(&f);
}

/* Case 27: 7 is freed, reused and freed again; 8 was freed in between. */
static void case_27_an_older_stay_in_the_list_is_forgotten(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 9, 4);
    take(&f, IDS(1, 2, 3, 4, 5, 6, 7, 8));
    key_table(&f, 'A', IDS(7, 8));
    release(&f, IDS(7));
    release(&f, IDS(8));
    share(&f, IDS(7));
    release(&f, IDS(7));
    take(&f, IDS(8));
    close_pool(&f);
}

/* Case 89 asks for one removal with the last copy; vLLM tells every copy (kv-core 8.1), and so do
 * we: stored and removed are told per block, so that a listener can count copies. */
static void case_89_stored_and_removed_are_told_for_every_copy(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_table(&f, 'A', IDS(1));
    key_table(&f, 'A', IDS(2));
    assert_events(&f, "stored g0 A0@0, 0+4 by 4; stored g0 A0@0, 0+4 by 4");
    evict(&f, 1);
    assert_events(&f, "removed g0 A0");
    evict(&f, 2);
    assert_events(&f, "removed g0 A0");
    close_pool(&f);
}

/* Case 90: of h1 to h4, h2 and h3 are stored already. */
static void case_90_the_parent_is_given_by_position(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 4);
    const pkv_block table[] = {1, 2, 3, 4};
    open_plain(&f, 6, 4);
    take(&f, table, 4);
    done(&f, try_full(&f, &chain, table, 1, 3, 4, 0, NULL));
    assert_events(&f, "stored g0 A1@4 A2@8 after A0, 4+8 by 4");
    done(&f, try_full(&f, &chain, table, 3, 4, 4, 0, NULL));
    assert_events(&f, "stored g0 A3@12 after A2, 12+4 by 4");
    done(&f, try_full(&f, &chain, table, 0, 4, 4, 0, NULL));
    assert_events(&f, "stored g0 A0@0, 0+16 by 4");
    close_pool(&f);
}

/* Case 91: growth from 8 to 10 tokens; the shorter key is gone once the longer one is there. */
static void case_91_a_growing_tail_keeps_its_newest_key(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 4, 2);
    take(&f, IDS(1));
    key_partial(&f, 'A', 1, 8);
    key_partial(&f, 'A', 1, 10);
    assert_events(&f, "stored g0 A3@6 after A2, 6+2 by 2; "
                      "removed g0 A3; stored g0 A4@8 after A3, 8+2 by 2");
    assert_int_equal(found(&f, "A3", 0), 0);
    assert_int_equal(found(&f, "A4", 0), 1);
    close_pool(&f);
}

/* Case 93: blocks of 16 tokens on two ranks are blocks of 32 tokens, multiplied once. */
static void case_93_events_tell_the_size_that_was_given(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 4);
    open_plain(&f, 6, 16);
    take(&f, IDS(1, 2));
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 2, 32, 0, NULL));
    assert_events(&f, "stored g0 A1@0 A3@32, 0+64 by 32");
    close_pool(&f);
}

/* Row 105's pool part: the lookahead of the keys is told with them. */
static void stored_events_tell_the_lookahead(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 6, 16);
    f.params.lookahead = 1;
    f.params.key_bytes = 16;
    open_pool(&f);
    take(&f, IDS(1));
    key_table(&f, 'A', IDS(1)); /* the log compares lookahead and key_bytes with the parameters */
    key_partial(&f, 'A', 1, 32);
    assert_events(&f, "stored g0 A0@0, 0+16 by 16; "
                      "removed g0 A0; stored g0 A1@16 after A0, 16+16 by 16");
    close_pool(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_19_hits_leave_the_free_count),
        cmocka_unit_test(case_20_touched_blocks_are_not_handed_out),
        cmocka_unit_test(case_21_a_reused_block_is_not_found_by_its_old_key),
        cmocka_unit_test(case_26_used_and_free_are_all_after_every_operation),
        cmocka_unit_test(case_27_an_older_stay_in_the_list_is_forgotten),
        cmocka_unit_test(case_89_stored_and_removed_are_told_for_every_copy),
        cmocka_unit_test(case_90_the_parent_is_given_by_position),
        cmocka_unit_test(case_91_a_growing_tail_keeps_its_newest_key),
        cmocka_unit_test(case_93_events_tell_the_size_that_was_given),
        cmocka_unit_test(stored_events_tell_the_lookahead),
    };
    return cmocka_run_group_tests_name("pool field cases", tests, NULL, NULL);
}
