/* test_pool_rows.c  Rows 78 to 94 of kv-core section 9.3, each with its number.
 *
 * A pool of 6 blocks, unit 4, with events; the request's tokens 0..11 are the units A0 A1 A2. The
 * rows 79 to 87 go on from one another: every test replays what leads to its row. */
#include "pool_fixture.h"

/* ---- one request: rows 78 to 87 ---- */

static void create(fixture *f)
{
    open_plain(f, 6, 4);
}

static void until_taken(fixture *f)
{
    create(f);
    take(f, IDS(1, 2, 3));
}

static void until_cached(fixture *f)
{
    until_taken(f);
    key_table(f, 'A', IDS(1, 2, 3));
}

static void until_freed(fixture *f)
{
    until_cached(f);
    release(f, IDS(3, 2, 1));
}

static void until_touched(fixture *f)
{
    until_freed(f);
    share(f, IDS(2));
    f->events[0] = '\0';
}

static void until_taken_again(fixture *f)
{
    until_touched(f);
    take(f, IDS(4, 5, 3));
}

static void row_78_a_new_pool_lists_all_blocks_but_the_null_block(void **state)
{
    (void)state;
    fixture f;
    create(&f);
    assert_free(&f, "1 2 3 4 5");
    assert_int_equal(pkv_pool_n_blocks(f.pool), 6);
    assert_int_equal(pkv_pool_free_count(f.pool), 5);
    assert_true(pkv_pool_usage(f.pool) == 0);
    close_pool(&f);
}

static void row_79_blocks_are_taken_from_the_front(void **state)
{
    (void)state;
    fixture f;
    until_taken(&f);
    assert_true(pkv_pool_usage(f.pool) == 1.0 - 2.0 / 5.0); /* 0.6 */
    assert_free(&f, "4 5");
    assert_events(&f, "");
    close_pool(&f);
}

static void row_80_caching_three_blocks_is_one_event(void **state)
{
    (void)state;
    fixture f;
    until_cached(&f);
    assert_events(&f, "stored g0 A0@0 A1@4 A2@8, 0+12 by 4");
    assert_int_equal(pkv_pool_key_count(f.pool), 3);
    close_pool(&f);
}

static void row_81_freed_cached_blocks_go_to_the_back(void **state)
{
    (void)state;
    fixture f;
    until_freed(&f);
    assert_free(&f, "4 5 3 2 1");
    close_pool(&f);
}

static void row_82_a_hit_takes_its_block_out_of_the_list(void **state)
{
    (void)state;
    fixture f;
    until_touched(&f);
    assert_free(&f, "4 5 3 1");
    assert_int_equal(pkv_pool_refs(f.pool, 2), 1);
    close_pool(&f);
}

static void row_83_a_cached_block_loses_its_key_when_it_is_taken(void **state)
{
    (void)state;
    fixture f;
    until_taken_again(&f);
    assert_events(&f, "removed g0 A2");
    assert_int_equal(found(&f, "A0", 0), 1);
    assert_int_equal(found(&f, "A1", 0), 2);
    assert_int_equal(found(&f, "A2", 0), 0);
    close_pool(&f);
}

static void row_84_more_than_are_free_cannot_be_taken(void **state)
{
    (void)state;
    fixture f;
    pkv_block ids[2] = {77, 77};
    until_taken_again(&f);
    assert_refused(&f, pkv_pool_take(f.pool, 2, ids), PKV_E_NO_BLOCKS);
    assert_int_equal(pkv_pool_free_count(f.pool), 1);
    assert_true(ids[0] == 77 && ids[1] == 77);
    close_pool(&f);
}

static void row_85_a_pool_in_use_is_not_reset(void **state)
{
    (void)state;
    fixture f;
    until_taken_again(&f);
    assert_refused(&f, pkv_pool_reset(f.pool), PKV_E_AGAIN);
    close_pool(&f);
}

static void row_86_unkeyed_blocks_go_to_the_front_and_keyed_ones_to_the_back(void **state)
{
    (void)state;
    fixture f;
    until_taken_again(&f);
    release(&f, IDS(4, 5, 3));
    release(&f, IDS(2));
    assert_free(&f, "4 5 3 1 2");
    close_pool(&f);
}

static void row_87_reset_forgets_all_content(void **state)
{
    (void)state;
    fixture f;
    until_taken_again(&f);
    release(&f, IDS(4, 5, 3));
    release(&f, IDS(2));
    f.events[0] = '\0';
    done(&f, pkv_pool_reset(f.pool));
    assert_events(&f, "cleared");
    assert_int_equal(pkv_pool_key_count(f.pool), 0);
    assert_int_equal(found(&f, "A0", 0), 0);
    assert_int_equal(found(&f, "A1", 0), 0);
    assert_free(&f, "4 5 3 1 2");
    close_pool(&f);
}

/* ---- rows that stand alone ---- */

static void row_88_copies_stay_apart_and_the_first_is_found(void **state)
{
    (void)state;
    fixture f;
    create(&f);
    take(&f, IDS(1, 2, 3, 4));
    key_table(&f, 'A', IDS(1, 2));
    key_table(&f, 'A', IDS(3, 4));
    assert_int_equal(found(&f, "A0", 0), 1);
    assert_int_equal(found(&f, "A1", 0), 2);
    assert_int_equal(pkv_pool_key_count(f.pool), 2);
    evict(&f, 1);
    assert_int_equal(found(&f, "A0", 0), 3);
    assert_int_equal(pkv_pool_refs(f.pool, 1), 1);
    assert_int_equal(pkv_pool_key_count(f.pool), 2);
    close_pool(&f);
}

static void row_89_a_lookup_needs_a_hit_in_every_group(void **state)
{
    (void)state;
    fixture f;
    pkv_block ids[2];
    const uint32_t groups[] = {0, 1};
    const pkv_key key = key_of('A', 0);
    until_cached(&f);
    assert_status(pkv_pool_lookup(f.pool, &key, groups, 2, ids), PKV_E_NOT_FOUND);
    assert_ok(pkv_pool_lookup(f.pool, &key, groups, 1, ids));
    assert_int_equal(ids[0], 1);
    close_pool(&f);
}

static void row_90_without_caching_all_blocks_go_to_the_front(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 5, 4); /* four usable blocks */
    f.params.caching = 0;
    open_pool(&f);
    take(&f, IDS(1, 2, 3));
    release(&f, IDS(3, 2, 1));
    assert_free(&f, "3 2 1 4");
    close_pool(&f);
}

/* A block of two units that was keyed for its first unit, and then for both. */
static void until_promoted(fixture *f)
{
    const pkv_chain chain = chain_of('A', 2);
    create(f);
    take(f, IDS(1));
    key_partial(f, 'A', 1, 4);
    assert_events(f, "stored g0 A0@0, 0+4 by 4");
    done(f, try_full(f, &chain, (pkv_block[]){1}, 0, 1, 8, 0, NULL));
}

static void row_91_a_whole_key_replaces_a_partial_one(void **state)
{
    (void)state;
    fixture f;
    until_promoted(&f);
    assert_events(&f, "removed g0 A0; stored g0 A1@0, 0+8 by 8");
    assert_int_equal(found(&f, "A0", 0), 0);
    assert_int_equal(found(&f, "A1", 0), 1);
    close_pool(&f);
}

static void row_92_a_shorter_key_is_added_to_a_longer_one(void **state)
{
    (void)state;
    fixture f;
    until_promoted(&f);
    f.events[0] = '\0';
    key_partial(&f, 'A', 1, 4);
    assert_events(&f, "stored g0 A0@0, 0+4 by 4");
    assert_int_equal(pkv_pool_block_tokens(f.pool, 1), 8);
    assert_int_equal(found(&f, "A0", 0), 1);
    assert_int_equal(found(&f, "A1", 0), 1);
    close_pool(&f);
}

static void until_moved(fixture *f)
{
    until_promoted(f);
    key_partial(f, 'A', 1, 4);
    take(f, IDS(2));
    f->events[0] = '\0';
    done(f, pkv_pool_move_keys(f->pool, 1, 2));
}

static void row_93_moved_keys_name_the_other_block(void **state)
{
    (void)state;
    fixture f;
    until_moved(&f);
    assert_events(&f, "");
    assert_int_equal(pkv_pool_block_tokens(f.pool, 1), 0);
    assert_int_equal(pkv_pool_block_tokens(f.pool, 2), 8);
    assert_int_equal(found(&f, "A0", 0), 2);
    assert_int_equal(found(&f, "A1", 0), 2);
    close_pool(&f);
}

static void row_94_an_unpinned_block_is_the_last_and_its_reuse_is_told_once(void **state)
{
    (void)state;
    fixture f;
    until_moved(&f);
    unpin(&f, IDS(1));
    assert_free(&f, "3 4 5 1");
    assert_reused(&f, "");
    take(&f, IDS(3, 4, 5, 1));
    assert_reused(&f, "1");
    release(&f, IDS(1));
    take(&f, IDS(1));
    assert_reused(&f, "");
    close_pool(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_78_a_new_pool_lists_all_blocks_but_the_null_block),
        cmocka_unit_test(row_79_blocks_are_taken_from_the_front),
        cmocka_unit_test(row_80_caching_three_blocks_is_one_event),
        cmocka_unit_test(row_81_freed_cached_blocks_go_to_the_back),
        cmocka_unit_test(row_82_a_hit_takes_its_block_out_of_the_list),
        cmocka_unit_test(row_83_a_cached_block_loses_its_key_when_it_is_taken),
        cmocka_unit_test(row_84_more_than_are_free_cannot_be_taken),
        cmocka_unit_test(row_85_a_pool_in_use_is_not_reset),
        cmocka_unit_test(row_86_unkeyed_blocks_go_to_the_front_and_keyed_ones_to_the_back),
        cmocka_unit_test(row_87_reset_forgets_all_content),
        cmocka_unit_test(row_88_copies_stay_apart_and_the_first_is_found),
        cmocka_unit_test(row_89_a_lookup_needs_a_hit_in_every_group),
        cmocka_unit_test(row_90_without_caching_all_blocks_go_to_the_front),
        cmocka_unit_test(row_91_a_whole_key_replaces_a_partial_one),
        cmocka_unit_test(row_92_a_shorter_key_is_added_to_a_longer_one),
        cmocka_unit_test(row_93_moved_keys_name_the_other_block),
        cmocka_unit_test(row_94_an_unpinned_block_is_the_last_and_its_reuse_is_told_once),
    };
    return cmocka_run_group_tests_name("pool rows", tests, NULL, NULL);
}
