/* test_pool_partial.c  Keys of prefixes that end inside a block. */
#include "pool_fixture.h"

static void a_partial_key_is_told_as_one_unit(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    done(&f, try_partial(&f, 'A', 1, 12, 2, false));
    /* unit 2: tokens 8 to 11, whatever the size of the block */
    assert_events(&f, "stored g2 A2@8 after A1, 8+4 by 4");
    assert_int_equal(found(&f, "A2", 2), 1);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 1), 12);
    close_pool(&f);
}

static void a_longer_key_replaces_all_shorter_ones(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    key_partial(&f, 'A', 1, 8);
    key_partial(&f, 'A', 1, 4);
    f.events[0] = '\0';
    key_partial(&f, 'A', 1, 12);
    assert_events(&f, "removed g0 A1; removed g0 A0; stored g0 A2@8 after A1, 8+4 by 4");
    assert_int_equal(pkv_pool_key_count(f.pool), 1);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 1), 12);
    close_pool(&f);
}

static void shorter_keys_are_added_and_the_longest_stays_the_first(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    key_partial(&f, 'A', 1, 12);
    key_partial(&f, 'A', 1, 4);
    key_partial(&f, 'A', 1, 8);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 1), 12);
    assert_int_equal(pkv_pool_key_count(f.pool), 3);
    assert_int_equal(found(&f, "A0", 0), 1);
    assert_int_equal(found(&f, "A1", 0), 1);
    assert_int_equal(found(&f, "A2", 0), 1);
    assert_false(pkv_pool_writable(f.pool, 1));
    close_pool(&f);
}

static void a_key_that_the_block_has_is_not_told_again(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    key_partial(&f, 'A', 1, 16);
    key_partial(&f, 'A', 1, 4);
    key_partial(&f, 'A', 1, 12);
    key_partial(&f, 'A', 1, 8);
    for (uint64_t tokens = 4; tokens <= 16; tokens += 4) {
        assert_refused(&f, try_partial(&f, 'A', 1, tokens, 0, false), PKV_OK);
    }
    close_pool(&f);
}

static void replacing_drops_the_keys_of_the_block_first(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    key_partial(&f, 'A', 1, 12);
    key_partial(&f, 'A', 1, 4);
    f.events[0] = '\0';
    done(&f, try_partial(&f, 'A', 1, 8, 0, true));
    assert_events(&f, "removed g0 A2; removed g0 A0; stored g0 A1@4 after A0, 4+4 by 4");
    assert_int_equal(pkv_pool_block_tokens(f.pool, 1), 8);
    assert_int_equal(pkv_pool_key_count(f.pool), 1);
    close_pool(&f);
}

static void replacing_a_key_by_itself_is_told_as_both(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_partial(&f, 'A', 1, 4);
    key_partial(&f, 'A', 2, 4);
    f.events[0] = '\0';
    done(&f, try_partial(&f, 'A', 1, 4, 0, true));
    assert_events(&f, "removed g0 A0; stored g0 A0@0, 0+4 by 4");
    assert_int_equal(found(&f, "A0", 0), 2); /* keyed before it now */
    close_pool(&f);
}

static void replacing_nothing_only_keys(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    done(&f, try_partial(&f, 'A', 1, 4, 0, true));
    assert_events(&f, "stored g0 A0@0, 0+4 by 4");
    close_pool(&f);
}

static void the_null_block_is_never_keyed(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    assert_refused(&f, try_partial(&f, 'A', 0, 4, 0, false), PKV_OK);
    assert_refused(&f, try_partial(&f, 'A', 0, 4, 0, true), PKV_OK);
    close_pool(&f);
}

static void tokens_are_whole_units_that_have_a_key(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 3);
    const uint64_t wrong[] = {0, 1, 3, 5, 11, 16, UINT64_MAX, UINT64_C(1) << 63};
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    key_partial(&f, 'A', 1, 4);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char text[40] = "";
        append(text, sizeof text, "tokens %" PRIu64, wrong[i]);
        for (int replace = 0; replace <= 1; replace++) {
            assert_refused(&f, pkv_pool_cache_partial(f.pool, &chain, 1, wrong[i], 0, replace),
                           PKV_E_INVAL);
            assert_error_text("pkv_pool_cache_partial", text);
        }
    }
    assert_refused(&f, pkv_pool_cache_partial(f.pool, &chain, 0, 3, 0, false), PKV_E_INVAL);
    assert_refused(&f, pkv_pool_cache_partial(f.pool, NULL, 1, 8, 0, false), PKV_E_INVAL);
    close_pool(&f);
}

static void a_block_beyond_the_pool_is_not_keyed(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    assert_refused(&f, try_partial(&f, 'A', 6, 4, 0, false), PKV_E_INVAL);
    assert_error_text("pkv_pool_cache_partial", "block 6");
    assert_refused(&f, try_partial(&f, 'A', UINT32_MAX, 4, 0, true), PKV_E_INVAL);
    close_pool(&f);
}

static void a_block_has_room_for_a_key_per_unit(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 6, 4);
    f.params.units_per_block = 4;
    open_pool(&f);
    take(&f, IDS(1, 2, 3, 4, 5));
    for (pkv_block b = 1; b <= 5; b++) { /* all blocks at once */
        for (uint64_t tokens = 16; tokens > 0; tokens -= 4) {
            key_partial(&f, (char)('A' + b), b, tokens);
        }
        f.events[0] = '\0';
    }
    assert_int_equal(pkv_pool_key_count(f.pool), 5 * 4);
    for (pkv_block b = 1; b <= 5; b++) { /* room comes back */
        evict(&f, b);
        for (uint64_t tokens = 16; tokens > 0; tokens -= 4) {
            key_partial(&f, (char)('A' + b), b, tokens);
        }
        f.events[0] = '\0';
    }
    close_pool(&f);
}

static void a_key_for_which_there_is_no_room_changes_nothing(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 2, 4);
    f.params.units_per_block = 2;
    open_pool(&f);
    take(&f, IDS(1));
    uint64_t tokens = 4 * N_UNITS, n_keys = 0;
    for (; n_keys < N_UNITS; n_keys++, tokens -= 4) {
        if (try_partial(&f, 'A', 1, tokens, 0, false) != PKV_OK) {
            break;
        }
        assert_ok(pkv_pool_check(f.pool));
    }
    assert_in_range(n_keys, 2, N_UNITS - 1); /* two units fit, and there is an end */
    assert_refused(&f, try_partial(&f, 'A', 1, tokens, 0, false), PKV_E_CORRUPT);
    assert_error_text("pkv_pool_cache_partial", "block 1 has too many keys");
    done(&f, try_partial(&f, 'A', 1, tokens, 0, true)); /* which makes room */
    assert_int_equal(pkv_pool_key_count(f.pool), 1);
    close_pool(&f);
}

static void a_secondary_key_is_found_behind_an_older_copy(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_partial(&f, 'A', 1, 8);
    key_table(&f, 'A', IDS(2)); /* A0, first keyed here */
    key_partial(&f, 'A', 1, 4); /* A0 as a secondary key */
    assert_int_equal(found(&f, "A0", 0), 2);
    assert_int_equal(pkv_pool_key_count(f.pool), 2);
    evict(&f, 2);
    assert_int_equal(found(&f, "A0", 0), 1);
    close_pool(&f);
}

static void a_taken_block_loses_its_secondary_keys_too(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 2, 4);
    take(&f, IDS(1));
    key_partial(&f, 'A', 1, 8);
    key_partial(&f, 'A', 1, 4);
    release(&f, IDS(1));
    f.events[0] = '\0';
    take(&f, IDS(1));
    assert_events(&f, "removed g0 A1; removed g0 A0");
    assert_int_equal(pkv_pool_key_count(f.pool), 0);
    close_pool(&f);
}

static void keys_that_hardly_differ_are_told_apart(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_partial(&f, 'a', 1, 12);
    key_partial(&f, 'b', 2, 12);
    key_partial(&f, 'a', 1, 4);
    key_partial(&f, 'b', 2, 4);
    key_partial(&f, 'a', 1, 8);
    evict(&f, 1);
    assert_int_equal(found(&f, "a0", 0) + found(&f, "a1", 0) + found(&f, "a2", 0), 0);
    assert_int_equal(found(&f, "b0", 0), 2);
    assert_int_equal(found(&f, "b2", 0), 2);
    close_pool(&f);
}

static void without_caching_nothing_is_ever_found(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 2);
    const pkv_block table[] = {1, 2};
    prepare(&f, 6, 4);
    f.params.caching = 0;
    open_pool(&f);
    take(&f, IDS(1, 2));
    (void)(try_full(&f, &chain, table, 0, 2, 4, 0, NULL) == PKV_OK);
    (void)(try_partial(&f, 'A', 1, 4, 0, false) == PKV_OK);
    (void)(pkv_pool_move_keys(f.pool, 1, 2) == PKV_OK);
    evict(&f, 1);
    assert_events(&f, "");
    assert_int_equal(found(&f, "A0", 0), 0);
    assert_int_equal(pkv_pool_key_count(f.pool), 0);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 1), 0);
    assert_true(pkv_pool_writable(f.pool, 1));
    unpin(&f, IDS(1));
    assert_free(&f, "3 4 5 1");
    close_pool(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partial_key_is_told_as_one_unit),
        cmocka_unit_test(a_longer_key_replaces_all_shorter_ones),
        cmocka_unit_test(shorter_keys_are_added_and_the_longest_stays_the_first),
        cmocka_unit_test(a_key_that_the_block_has_is_not_told_again),
        cmocka_unit_test(replacing_drops_the_keys_of_the_block_first),
        cmocka_unit_test(replacing_a_key_by_itself_is_told_as_both),
        cmocka_unit_test(replacing_nothing_only_keys),
        cmocka_unit_test(the_null_block_is_never_keyed),
        cmocka_unit_test(tokens_are_whole_units_that_have_a_key),
        cmocka_unit_test(a_block_beyond_the_pool_is_not_keyed),
        cmocka_unit_test(a_block_has_room_for_a_key_per_unit),
        cmocka_unit_test(a_key_for_which_there_is_no_room_changes_nothing),
        cmocka_unit_test(a_secondary_key_is_found_behind_an_older_copy),
        cmocka_unit_test(a_taken_block_loses_its_secondary_keys_too),
        cmocka_unit_test(keys_that_hardly_differ_are_told_apart),
        cmocka_unit_test(without_caching_nothing_is_ever_found),
    };
    return cmocka_run_group_tests_name("pool partial", tests, NULL, NULL);
}
