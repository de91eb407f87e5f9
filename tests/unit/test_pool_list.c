/* test_pool_list.c  The order in which blocks are handed out; unpinned blocks; reset. */
#include "pool_fixture.h"

/* ---- order ---- */

static void unkeyed_blocks_are_reused_last_in_first_out(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    release(&f, IDS(1));
    release(&f, IDS(2));
    release(&f, IDS(3));
    assert_free(&f, "3 2 1 4 5");
    take(&f, IDS(3));
    release(&f, IDS(3));
    assert_free(&f, "3 2 1 4 5");
    close_pool(&f);
}

static void blocks_released_together_are_reused_in_the_order_given(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3, 4, 5));
    release(&f, IDS(2, 5, 1));
    assert_free(&f, "2 5 1");
    release(&f, IDS(4, 3));
    assert_free(&f, "4 3 2 5 1");
    close_pool(&f);
}

static void keyed_blocks_leave_in_the_order_in_which_they_came(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(1, 2, 3));
    release(&f, IDS(2));
    release(&f, IDS(3));
    release(&f, IDS(1));
    assert_free(&f, "4 5 2 3 1");
    close_pool(&f);
}

static void one_release_sends_blocks_to_both_ends(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3, 4, 5));
    key_table(&f, 'A', IDS(2, 4));
    release(&f, IDS(5, 4, 3, 2, 1)); /* into an empty list */
    assert_free(&f, "5 3 1 4 2");
    close_pool(&f);
}

static void a_keyed_block_alone_stays_behind_unkeyed_ones(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 4, 4);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(1));
    release(&f, IDS(1, 2));
    assert_free(&f, "2 1");
    release(&f, IDS(3));
    assert_free(&f, "3 2 1");
    close_pool(&f);
}

static void only_the_last_reference_returns_a_block(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    share(&f, IDS(2));
    release(&f, IDS(2, 1, 2)); /* 1 falls to 0 first */
    assert_free(&f, "1 2 3 4 5");
    close_pool(&f);
}

static void a_hit_leaves_the_rest_of_the_list_as_it_was(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    share(&f, IDS(3)); /* from the middle, */
    assert_free(&f, "1 2 4 5");
    share(&f, IDS(1)); /* the front, */
    assert_free(&f, "2 4 5");
    share(&f, IDS(5)); /* and the back */
    assert_free(&f, "2 4");
    release(&f, IDS(3, 1, 5));
    assert_free(&f, "3 1 5 2 4");
    close_pool(&f);
}

static void the_whole_list_can_be_taken_and_given_back(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    for (int round = 0; round < 3; round++) {
        take(&f, IDS(1, 2, 3, 4, 5));
        assert_free(&f, "");
        release(&f, IDS(1, 2, 3, 4, 5));
        assert_free(&f, "1 2 3 4 5");
    }
    close_pool(&f);
}

static void a_lost_key_does_not_move_its_block(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_table(&f, 'A', IDS(1, 2));
    release(&f, IDS(2, 1));
    evict(&f, 1);
    assert_free(&f, "3 4 5 2 1");
    evict(&f, 4); /* free: nothing to lose */
    assert_free(&f, "3 4 5 2 1");
    share(&f, IDS(1));
    release(&f, IDS(1)); /* it has no key now */
    assert_free(&f, "1 3 4 5 2");
    close_pool(&f);
}

static void keys_that_move_do_not_move_blocks(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_table(&f, 'A', IDS(1));
    release(&f, IDS(1));
    done(&f, pkv_pool_move_keys(f.pool, 1, 4)); /* both are in the list */
    assert_free(&f, "3 4 5 1");
    take(&f, IDS(3, 4));
    assert_int_equal(found(&f, "A0", 0), 0);
    close_pool(&f);
}

/* ---- unpin ---- */

static void an_unpinned_block_goes_to_the_back_without_a_key(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    unpin(&f, IDS(3, 1));
    assert_free(&f, "4 5 3 1");
    close_pool(&f);
}

static void an_unpinned_block_that_others_hold_stays_out_of_the_list(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    share(&f, IDS(1));
    unpin(&f, IDS(1));
    assert_free(&f, "2 3 4 5");
    assert_int_equal(pkv_pool_refs(f.pool, 1), 1);
    assert_reused(&f, "");
    unpin(&f, IDS(1));
    assert_free(&f, "2 3 4 5 1");
    take(&f, IDS(2, 3, 4, 5, 1));
    assert_reused(&f, "1"); /* once, though unpinned twice */
    close_pool(&f);
}

static void reuse_is_told_in_the_order_of_the_blocks_handed_out(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3, 4, 5));
    unpin(&f, IDS(4, 2, 5));
    release(&f, IDS(1, 3));
    take(&f, IDS(1, 3, 4, 2));
    assert_reused(&f, "4 2");
    close_pool(&f);
}

static void a_hit_on_an_unpinned_block_is_not_its_reuse(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 3, 4);
    take(&f, IDS(1, 2));
    key_table(&f, 'A', IDS(1));
    unpin(&f, IDS(1));
    share(&f, IDS(1));
    assert_reused(&f, "");
    release(&f, IDS(1, 2));
    take(&f, IDS(2, 1)); /* handed out */
    assert_reused(&f, "1");
    close_pool(&f);
}

static void an_evicted_unpinned_block_is_told_when_it_is_handed_out(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 3, 4);
    take(&f, IDS(1));
    key_table(&f, 'A', IDS(1));
    unpin(&f, IDS(1));
    evict(&f, 1);
    assert_reused(&f, "");
    take(&f, IDS(2, 1));
    assert_reused(&f, "1");
    close_pool(&f);
}

static void without_on_reuse_unpinning_still_orders(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 4, 4);
    f.params.on_reuse = NULL;
    open_pool(&f);
    take(&f, IDS(1));
    unpin(&f, IDS(1));
    take(&f, IDS(2, 3, 1));
    close_pool(&f);
}

/* ---- reset ---- */

static void reset_tells_the_reuse_of_unpinned_blocks(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    unpin(&f, IDS(2));
    assert_refused(&f, pkv_pool_reset(f.pool), PKV_E_AGAIN);
    release(&f, IDS(1, 3));
    done(&f, pkv_pool_reset(f.pool));
    assert_reused(&f, "2");
    assert_free(&f, "1 3 4 5 2");
    take(&f, IDS(1, 3, 4, 5, 2));
    assert_reused(&f, "");
    close_pool(&f);
}

static void reset_drops_every_key_with_one_event(void **state)
{
    (void)state;
    fixture f;
    const pkv_chain chain = chain_of('B', 4);
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    key_table(&f, 'A', IDS(1));
    done(&f, try_full(&f, &chain, (pkv_block[]){2}, 0, 1, 16, 1, NULL));
    done(&f, try_partial(&f, 'B', 2, 4, 1, false));
    release(&f, IDS(3, 2, 1));
    f.events[0] = '\0';
    done(&f, pkv_pool_reset(f.pool));
    assert_events(&f, "cleared");
    assert_int_equal(pkv_pool_key_count(f.pool), 0);
    assert_int_equal(found(&f, "A0", 0), 0);
    assert_int_equal(found(&f, "B3", 1), 0);
    assert_int_equal(found(&f, "B0", 1), 0);
    for (pkv_block b = 0; b < 6; b++) {
        assert_int_equal(pkv_pool_block_tokens(f.pool, b), 0);
    }
    take(&f, IDS(3, 4, 5, 2, 1)); /* no key left to lose */
    assert_events(&f, "");
    close_pool(&f);
}

static void an_empty_pool_can_be_reset_over_and_over(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 4, 4);
    done(&f, pkv_pool_reset(f.pool));
    done(&f, pkv_pool_reset(f.pool));
    assert_events(&f, "cleared; cleared");
    assert_free(&f, "1 2 3");
    close_pool(&f);
}

static void content_can_be_cached_again_after_a_reset(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 4, 4);
    take(&f, IDS(1));
    key_table(&f, 'A', IDS(1));
    release(&f, IDS(1));
    done(&f, pkv_pool_reset(f.pool));
    f.events[0] = '\0';
    take(&f, IDS(2));
    key_table(&f, 'A', IDS(2));
    assert_events(&f, "stored g0 A0@0, 0+4 by 4");
    assert_int_equal(found(&f, "A0", 0), 2);
    close_pool(&f);
}

/* A pool without caching, found by random work: the sweep's last place was the last unswept one. */
static void a_gap_does_not_come_to_the_front_when_a_sweep_ends(void **state)
{
    (void)state;
    static const char work[] = "s6s3u3s2u6u2s5s3u5u3s6s3s7u7s5s7u6s2u7s7u2u3u7u5s1u1s4u4";
    pkv_pool_params params;
    pkv_pool *pool;
    pkv_pool_params_init(&params);
    params.n_blocks = 8;
    params.caching = 0;
    assert_ok(pkv_pool_create(&params, &pool));
    for (const char *at = work; *at; at += 2) { /* share, unpin */
        const pkv_block b = (pkv_block)(at[1] - '0');
        assert_ok(*at == 's' ? pkv_pool_share(pool, &b, 1) : pkv_pool_unpin(pool, &b, 1));
        assert_ok(pkv_pool_check(pool));
    }
    pkv_pool_destroy(pool);
}

/* The last 60 of 100 blocks are shared, so that the list ends with gaps, and come back to the
 * front. The sweep that this begins has a hole at the end, behind which nothing is listed. */
static void what_lies_behind_the_last_block_is_not_listed(void **state)
{
    (void)state;
    enum { N = 100, SHARED = 60, PASSES = 1000 };
    pkv_pool_params params;
    pkv_pool *pool;
    pkv_block ids[2 * N], b;
    pkv_pool_params_init(&params);
    params.n_blocks = N + 1;
    params.caching = 0;
    assert_ok(pkv_pool_create(&params, &pool));
    for (int i = 0; i < PASSES; i++) { /* all places have had blocks */
        assert_ok(pkv_pool_take(pool, 1, &b));
        assert_ok(pkv_pool_unpin(pool, &b, 1));
    }
    pkv_block shared[SHARED];
    assert_int_equal(pkv_pool_free_list(pool, ids, 2 * N), N);
    memcpy(shared, ids + N - SHARED, sizeof shared);
    for (size_t i = SHARED; i > 0; i--) {
        assert_ok(pkv_pool_share(pool, &shared[i - 1], 1));
    }
    for (uint64_t i = 0; i < SHARED; i++) {
        assert_ok(pkv_pool_release(pool, &shared[i], 1));
        assert_int_equal(pkv_pool_free_list(pool, ids, 2 * N), N - SHARED + i + 1);
        assert_int_equal(ids[0], shared[i]);
        assert_ok(pkv_pool_check(pool));
    }
    pkv_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unkeyed_blocks_are_reused_last_in_first_out),
        cmocka_unit_test(blocks_released_together_are_reused_in_the_order_given),
        cmocka_unit_test(keyed_blocks_leave_in_the_order_in_which_they_came),
        cmocka_unit_test(one_release_sends_blocks_to_both_ends),
        cmocka_unit_test(a_keyed_block_alone_stays_behind_unkeyed_ones),
        cmocka_unit_test(only_the_last_reference_returns_a_block),
        cmocka_unit_test(a_hit_leaves_the_rest_of_the_list_as_it_was),
        cmocka_unit_test(the_whole_list_can_be_taken_and_given_back),
        cmocka_unit_test(a_lost_key_does_not_move_its_block),
        cmocka_unit_test(keys_that_move_do_not_move_blocks),
        cmocka_unit_test(an_unpinned_block_goes_to_the_back_without_a_key),
        cmocka_unit_test(an_unpinned_block_that_others_hold_stays_out_of_the_list),
        cmocka_unit_test(reuse_is_told_in_the_order_of_the_blocks_handed_out),
        cmocka_unit_test(a_hit_on_an_unpinned_block_is_not_its_reuse),
        cmocka_unit_test(an_evicted_unpinned_block_is_told_when_it_is_handed_out),
        cmocka_unit_test(without_on_reuse_unpinning_still_orders),
        cmocka_unit_test(reset_tells_the_reuse_of_unpinned_blocks),
        cmocka_unit_test(reset_drops_every_key_with_one_event),
        cmocka_unit_test(an_empty_pool_can_be_reset_over_and_over),
        cmocka_unit_test(content_can_be_cached_again_after_a_reset),
        cmocka_unit_test(a_gap_does_not_come_to_the_front_when_a_sweep_ends),
        cmocka_unit_test(what_lies_behind_the_last_block_is_not_listed),
    };
    return cmocka_run_group_tests_name("pool list", tests, NULL, NULL);
}
