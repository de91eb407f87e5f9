/* test_pool_content.c  Keying whole blocks, looking them up, dropping and moving their keys. */
#include "pool_fixture.h"

#include "pool/pool_internal.h"

/* ---- cache_full ---- */

static void a_block_of_several_units_has_the_key_of_its_last(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 6);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    /* blocks of 12 tokens: 3 units each, so the keys are those of the units 2 and 5 */
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 2, 12, 0, NULL));
    assert_events(&f, "stored g0 A2@0 A5@12, 0+24 by 12");
    assert_int_equal(found(&f, "A2", 0), 1);
    assert_int_equal(found(&f, "A5", 0), 2);
    assert_int_equal(found(&f, "A0", 0), 0);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 1), 12);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 2), 24);
    close_pool(&f);
}

static void a_later_range_names_its_parent_by_position(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 8);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3, 4));
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2, 3, 4}, 1, 3, 8, 2, NULL));
    assert_events(&f, "stored g2 A3@8 A5@16 after A1, 8+16 by 8");
    assert_int_equal(found(&f, "A1", 2), 0); /* before the range */
    assert_int_equal(found(&f, "A7", 2), 0); /* behind it */
    close_pool(&f);
}

static void null_and_masked_blocks_are_passed_over(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 5);
    const uint8_t mask[] = {0, 1, 0, 2};
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3, 4));
    /* of the blocks 1 to 4 of the table: masked, null, masked, keyed */
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2, 0, 3, 4}, 1, 5, 4, 0, mask));
    assert_events(&f, "stored g0 A4@16 after A0, 4+16 by 4"); /* the whole range is told */
    assert_int_equal(pkv_pool_key_count(f.pool), 1);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 4), 20);
    close_pool(&f);
}

static void nothing_keyed_is_no_event(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 2);
    const uint8_t none[] = {0, 0};
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    assert_refused(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 0, 4, 0, NULL), PKV_OK);
    assert_refused(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 2, 2, 4, 0, NULL), PKV_OK);
    assert_refused(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 2, 4, 0, none), PKV_OK);
    assert_refused(&f, try_full(&f, &chain, (pkv_block[]){0, 0}, 0, 2, 4, 0, NULL), PKV_OK);
    close_pool(&f);
}

static void a_block_that_has_this_key_already_is_passed_over(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 3);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 2, 4, 0, NULL));
    f.events[0] = '\0';
    assert_refused(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 2, 4, 0, NULL), PKV_OK);
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2, 3}, 0, 3, 4, 0, NULL));
    assert_events(&f, "stored g0 A2@8, 0+12 by 4");
    close_pool(&f);
}

static void a_block_keyed_for_fewer_tokens_is_keyed_anew(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 4);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_partial(&f, 'A', 2, 12);
    f.events[0] = '\0';
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 2, 8, 0, NULL));
    assert_events(&f, "removed g0 A2; stored g0 A1@0 A3@8, 0+16 by 8");
    assert_int_equal(pkv_pool_block_tokens(f.pool, 2), 16);
    close_pool(&f);
}

static void another_key_for_as_many_tokens_is_corrupt(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain a = chain_of('A', 3), b = chain_of('B', 3);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(0, 2)); /* A1, 8 tokens */
    /* 1 and 3 could be keyed, but 2 has other content, another group, or a key for more */
    assert_refused(&f, try_full(&f, &b, (pkv_block[]){1, 2, 3}, 0, 3, 4, 0, NULL), PKV_E_CORRUPT);
    assert_error_text("pkv_pool_cache_full", "block 2 is keyed for 8 tokens");
    assert_refused(&f, try_full(&f, &a, (pkv_block[]){1, 2, 3}, 0, 3, 4, 1, NULL), PKV_E_CORRUPT);
    assert_refused(&f, try_full(&f, &a, (pkv_block[]){2, 1, 3}, 0, 3, 4, 0, NULL), PKV_E_CORRUPT);
    done(&f, try_full(&f, &b, (pkv_block[]){1, 2, 3}, 0, 3, 4, 0, (uint8_t[]){1, 0, 1}));
    close_pool(&f);
}

static void a_range_beyond_the_keys_is_refused(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 3);
    const pkv_block table[] = {1, 2, 3, 4};
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3, 4));
    assert_refused(&f, try_full(&f, &chain, table, 0, 4, 4, 0, NULL), PKV_E_INVAL);
    assert_error_text("pkv_pool_cache_full", "[0, 4)");
    assert_refused(&f, try_full(&f, &chain, table, 0, 2, 8, 0, NULL), PKV_E_INVAL);
    assert_refused(&f, try_full(&f, &chain, table, 4, 4, 4, 0, NULL), PKV_E_INVAL);
    assert_refused(&f, try_full(&f, &chain, table, 2, 1, 4, 0, NULL), PKV_E_INVAL);
    assert_error_text("pkv_pool_cache_full", "[2, 1)");
    assert_refused(&f, try_full(&f, &chain, table, 0, UINT64_MAX, 4, 0, NULL), PKV_E_INVAL);
    assert_refused(&f, try_full(&f, &chain, table, 0, UINT64_C(1) << 63, 4, 0, NULL), PKV_E_INVAL);
    close_pool(&f);
}

static void a_block_is_a_whole_number_of_units(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 4);
    const uint64_t wrong[] = {0, 1, 3, 5, 6, UINT64_MAX, UINT64_C(1) << 63};
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_refused(&f, try_full(&f, &chain, (pkv_block[]){1}, 0, 1, wrong[i], 0, NULL),
                       PKV_E_INVAL);
        assert_error_text("pkv_pool_cache_full", "not covered");
    }
    assert_refused(&f, try_full(&f, NULL, (pkv_block[]){1}, 0, 1, 4, 0, NULL), PKV_E_INVAL);
    close_pool(&f);
}

static void a_table_with_an_id_beyond_the_pool_keys_nothing(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 3);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    assert_refused(&f, try_full(&f, &chain, (pkv_block[]){1, 2, 6}, 0, 3, 4, 0, NULL), PKV_E_INVAL);
    assert_error_text("pkv_pool_cache_full", "block 6");
    assert_refused(&f, try_full(&f, &chain, (pkv_block[]){1, 2, UINT32_MAX}, 0, 3, 4, 0, NULL),
                   PKV_E_INVAL);
    close_pool(&f);
}

static void a_call_is_no_longer_than_the_events_have_room(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 4);
    prepare(&f, 6, 4);
    f.params.max_table = 2;
    open_pool(&f);
    take(&f, IDS(1, 2, 3));
    assert_refused(&f, try_full(&f, &chain, (pkv_block[]){1, 2, 3}, 0, 3, 4, 0, NULL), PKV_E_INVAL);
    assert_error_text("pkv_pool_cache_full", "max_table is 2");
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 2, 4, 0, NULL));
    assert_events(&f, "stored g0 A0@0 A1@4, 0+8 by 4");
    close_pool(&f);
}

static void without_a_sink_tables_may_be_of_any_length(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 6, 4);
    f.params.max_table = 0;
    f.params.sink.event = NULL;
    open_pool(&f);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(1, 2, 3));
    evict(&f, 2);
    release(&f, IDS(1, 2, 3));
    done(&f, pkv_pool_reset(f.pool));
    assert_events(&f, "");
    close_pool(&f);
}

/* What a hit may be told as (kv-core 8.1): no parent, and all tokens from the first. */
static void a_report_tells_a_prefix_and_changes_nothing(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 4);
    open_plain(&f, 6, 4);
    f.chain = &chain;
    pkvi_pool_report(f.pool, &chain, 0, 8, 1);
    assert_events(&f, "");
    pkvi_pool_report(f.pool, &chain, 2, 8, 1);
    assert_events(&f, "stored g1 A1@0 A3@8, 0+16 by 8");
    assert_int_equal(pkv_pool_key_count(f.pool), 0);
    close_pool(&f);
}

/* ---- lookup ---- */

static void the_same_key_is_another_in_another_group(void **state)
{
    (void)state;
    fixture f;
    pkv_block ids[3];
    const pkv_key key = key_of('A', 0);
    const pkv_chain chain = chain_of('A', 1);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    done(&f, try_full(&f, &chain, (pkv_block[]){1}, 0, 1, 4, 0, NULL));
    done(&f, try_full(&f, &chain, (pkv_block[]){2}, 0, 1, 4, 1, NULL));
    assert_int_equal(pkv_pool_key_count(f.pool), 2);
    assert_ok(pkv_pool_lookup(f.pool, &key, (uint32_t[]){1, 0, 1}, 3, ids));
    assert_true(ids[0] == 2 && ids[1] == 1 && ids[2] == 2);
    assert_status(pkv_pool_lookup(f.pool, &key, (uint32_t[]){1, 0, 2}, 3, ids), PKV_E_NOT_FOUND);
    assert_ok(pkv_pool_lookup(f.pool, &key, NULL, 0, ids));
    close_pool(&f);
}

static void of_three_copies_the_first_that_is_left_is_found(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(3));
    key_table(&f, 'A', IDS(1));
    key_table(&f, 'A', IDS(2));
    assert_int_equal(pkv_pool_key_count(f.pool), 1);
    assert_int_equal(found(&f, "A0", 0), 3);
    evict(&f, 1); /* from the middle */
    assert_int_equal(found(&f, "A0", 0), 3);
    key_table(&f, 'A', IDS(1)); /* once more: the last */
    evict(&f, 3);
    assert_int_equal(found(&f, "A0", 0), 2);
    evict(&f, 2);
    assert_int_equal(found(&f, "A0", 0), 1);
    assert_int_equal(pkv_pool_key_count(f.pool), 1);
    evict(&f, 1);
    assert_int_equal(found(&f, "A0", 0), 0);
    assert_int_equal(pkv_pool_key_count(f.pool), 0);
    close_pool(&f);
}

/* ---- evict ---- */

static void evict_drops_all_keys_in_the_order_in_which_they_were_added(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 4);
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    done(&f, try_full(&f, &chain, (pkv_block[]){1}, 0, 1, 16, 0, NULL));
    key_partial(&f, 'A', 1, 12);
    key_partial(&f, 'A', 1, 4);
    key_partial(&f, 'A', 1, 8);
    f.events[0] = '\0';
    evict(&f, 1);
    assert_events(&f, "removed g0 A3; removed g0 A2; removed g0 A0; removed g0 A1");
    assert_int_equal(pkv_pool_refs(f.pool, 1), 1);
    evict(&f, 1);
    evict(&f, 0);
    assert_events(&f, "");
    close_pool(&f);
}

/* ---- move_keys ---- */

static void keys_do_not_move_to_a_keyed_block(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(1, 2));
    assert_refused(&f, pkv_pool_move_keys(f.pool, 1, 2), PKV_E_INVAL);
    assert_error_text("pkv_pool_move_keys", "block 2");
    assert_refused(&f, pkv_pool_move_keys(f.pool, 1, 1), PKV_E_INVAL);
    assert_refused(&f, pkv_pool_move_keys(f.pool, 3, 2), PKV_E_INVAL); /* even none */
    close_pool(&f);
}

static void keys_do_not_move_out_of_the_pool(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_table(&f, 'A', IDS(1));
    assert_refused(&f, pkv_pool_move_keys(f.pool, 1, 6), PKV_E_INVAL);
    assert_error_text("pkv_pool_move_keys", "block 6");
    assert_refused(&f, pkv_pool_move_keys(f.pool, 6, 2), PKV_E_INVAL);
    assert_refused(&f, pkv_pool_move_keys(f.pool, UINT32_MAX, 2), PKV_E_INVAL);
    assert_refused(&f, pkv_pool_move_keys(f.pool, 1, 0), PKV_E_INVAL); /* never keyed */
    close_pool(&f);
}

static void a_block_without_keys_moves_none(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    assert_refused(&f, pkv_pool_move_keys(f.pool, 1, 2), PKV_OK);
    assert_refused(&f, pkv_pool_move_keys(f.pool, 0, 2), PKV_OK);
    close_pool(&f);
}

static void moved_keys_are_found_after_older_copies(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(1));
    key_table(&f, 'A', IDS(2));
    done(&f, pkv_pool_move_keys(f.pool, 1, 3)); /* keyed anew, so behind block 2 */
    assert_int_equal(found(&f, "A0", 0), 2);
    evict(&f, 2);
    assert_int_equal(found(&f, "A0", 0), 3);
    assert_int_equal(pkv_pool_key_count(f.pool), 1);
    close_pool(&f);
}

static void moved_keys_are_dropped_with_their_new_block(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('A', 4);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    done(&f, try_full(&f, &chain, (pkv_block[]){1}, 0, 1, 16, 2, NULL));
    done(&f, try_partial(&f, 'A', 1, 8, 2, false));
    done(&f, try_partial(&f, 'A', 1, 4, 2, false));
    done(&f, pkv_pool_move_keys(f.pool, 1, 2));
    f.events[0] = '\0';
    evict(&f, 1);
    assert_events(&f, "");
    evict(&f, 2);
    assert_events(&f, "removed g2 A3; removed g2 A1; removed g2 A0");
    close_pool(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_of_several_units_has_the_key_of_its_last),
        cmocka_unit_test(a_later_range_names_its_parent_by_position),
        cmocka_unit_test(null_and_masked_blocks_are_passed_over),
        cmocka_unit_test(nothing_keyed_is_no_event),
        cmocka_unit_test(a_block_that_has_this_key_already_is_passed_over),
        cmocka_unit_test(a_block_keyed_for_fewer_tokens_is_keyed_anew),
        cmocka_unit_test(another_key_for_as_many_tokens_is_corrupt),
        cmocka_unit_test(a_range_beyond_the_keys_is_refused),
        cmocka_unit_test(a_block_is_a_whole_number_of_units),
        cmocka_unit_test(a_table_with_an_id_beyond_the_pool_keys_nothing),
        cmocka_unit_test(a_call_is_no_longer_than_the_events_have_room),
        cmocka_unit_test(without_a_sink_tables_may_be_of_any_length),
        cmocka_unit_test(a_report_tells_a_prefix_and_changes_nothing),
        cmocka_unit_test(the_same_key_is_another_in_another_group),
        cmocka_unit_test(of_three_copies_the_first_that_is_left_is_found),
        cmocka_unit_test(evict_drops_all_keys_in_the_order_in_which_they_were_added),
        cmocka_unit_test(keys_do_not_move_to_a_keyed_block),
        cmocka_unit_test(keys_do_not_move_out_of_the_pool),
        cmocka_unit_test(a_block_without_keys_moves_none),
        cmocka_unit_test(moved_keys_are_found_after_older_copies),
        cmocka_unit_test(moved_keys_are_dropped_with_their_new_block),
    };
    return cmocka_run_group_tests_name("pool content", tests, NULL, NULL);
}
