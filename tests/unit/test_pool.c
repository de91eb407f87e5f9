/* test_pool.c  A pool's parameters, its counters, and references; who is refused. */
#include <math.h>

#include "pool_fixture.h"

/* ---- parameters ---- */

/* No pool, and a text that holds `part`. */
static void assert_no_pool(const pkv_pool_params *params, pkv_status status, const char *part)
{
    pkv_pool *pool = (pkv_pool *)(uintptr_t)1;
    assert_status(pkv_pool_create(params, &pool), status);
    assert_null(pool);
    assert_error_text("pkv_pool_create", part);
}

static pkv_pool_params params_of(uint64_t n_blocks)
{
    pkv_pool_params params;
    pkv_pool_params_init(&params);
    params.n_blocks = n_blocks;
    return params;
}

static void init_sets_the_documented_values(void **state)
{
    (void)state;
    pkv_pool_params params, zeros;
    memset(&params, 0xa5, sizeof params);
    memset(&zeros, 0, sizeof zeros);
    pkv_pool_params_init(&params);
    assert_int_equal(params.struct_size, sizeof params);
    assert_int_equal(params.key_bytes, 32);
    assert_int_equal(params.unit, 16);
    assert_int_equal(params.units_per_block, 1);
    assert_int_equal(params.caching, 1);
    params.struct_size = params.key_bytes = 0;
    params.unit = params.units_per_block = 0;
    params.caching = 0;
    assert_memory_equal(&params, &zeros, sizeof params);
}

static void a_pool_has_one_block_at_least(void **state)
{
    (void)state;
    pkv_pool_params params = params_of(0);
    assert_no_pool(&params, PKV_E_INVAL, "n_blocks 0");
}

static void a_pool_has_fewer_than_two_to_the_31_blocks(void **state)
{
    (void)state;
    const uint64_t beyond[] = {UINT64_C(1) << 31, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 4,
                               UINT64_MAX};
    assert_true(PKV_POOL_MAX_BLOCKS == (UINT64_C(1) << 31) - 1);
    for (size_t i = 0; i < COUNT(beyond); i++) {
        char text[40] = "";
        pkv_pool_params params = params_of(beyond[i]);
        append(text, sizeof text, "n_blocks %" PRIu64, beyond[i]);
        assert_no_pool(&params, PKV_E_INVAL, text);
    }
}

static void a_unit_has_tokens(void **state)
{
    (void)state;
    pkv_pool_params params = params_of(4);
    params.unit = 0;
    assert_no_pool(&params, PKV_E_INVAL, "unit 0");
}

static void the_keys_of_all_blocks_can_be_counted(void **state)
{
    (void)state;
    pkv_pool_params params = params_of(4);
    params.units_per_block = 0;
    assert_no_pool(&params, PKV_E_INVAL, "units_per_block 0");
    params.units_per_block = UINT64_MAX; /* times 4 wraps */
    assert_no_pool(&params, PKV_E_INVAL, "units_per_block 18446744073709551615");
    params.units_per_block = UINT64_C(1) << 30; /* 2^32 keys */
    assert_no_pool(&params, PKV_E_INVAL, "units_per_block 1073741824");
}

static void keys_have_32_or_16_bytes(void **state)
{
    (void)state;
    const uint32_t wrong[] = {0, 8, 15, 17, 31, 33, UINT32_MAX};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        pkv_pool_params params = params_of(4);
        params.key_bytes = wrong[i];
        assert_no_pool(&params, PKV_E_INVAL, "key_bytes");
    }
}

static void a_table_is_no_longer_than_the_largest_pool(void **state)
{
    (void)state;
    pkv_pool_params params = params_of(4);
    params.max_table = UINT64_MAX;
    assert_no_pool(&params, PKV_E_INVAL, "max_table");
}

static void a_sample_rate_is_a_share(void **state)
{
    (void)state;
    const double wrong[] = {-0.001, 1.001, 1e300, -1e300, (double)NAN};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        pkv_pool_params params = params_of(4);
        params.clock_ns = fixture_clock;
        params.sample_rate = wrong[i];
        assert_no_pool(&params, PKV_E_INVAL, "sample_rate");
    }
}

static void a_sample_rate_needs_a_clock(void **state)
{
    (void)state;
    pkv_pool_params params = params_of(4);
    params.sample_rate = 0.01;
    assert_no_pool(&params, PKV_E_INVAL, "clock");
}

static void params_and_out_are_needed(void **state)
{
    (void)state;
    const pkv_pool_params params = params_of(4);
    assert_no_pool(NULL, PKV_E_INVAL, "NULL");
    assert_status(pkv_pool_create(&params, NULL), PKV_E_INVAL);
    assert_error_text("pkv_pool_create", "NULL");
}

static void an_older_struct_ends_where_it_ended(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 6, 4);
    f.params.struct_size = offsetof(pkv_pool_params, on_reuse); /* what follows is unknown to it */
    f.params.sample_rate = 7;
    open_pool(&f);
    take(&f, IDS(1));
    unpin(&f, IDS(1));
    take(&f, IDS(2, 3, 4, 5, 1));
    assert_reused(&f, "");
    key_table(&f, 'A', IDS(2));
    assert_events(&f, "stored g0 A0@0, 0+4 by 4"); /* the sink lies before */
    close_pool(&f);
}

static void a_struct_without_its_size_is_refused(void **state)
{
    (void)state;
    pkv_pool_params params = params_of(4);
    params.struct_size = 0;
    assert_no_pool(&params, PKV_E_INVAL, "struct_size 0");
}

typedef struct newer_params {
    pkv_pool_params known;
    uint64_t unknown;
} newer_params;

static void a_newer_struct_is_taken_if_its_new_fields_are_zero(void **state)
{
    (void)state;
    pkv_pool *pool;
    newer_params newer = {.known = params_of(4)};
    newer.known.struct_size = sizeof newer;
    assert_ok(pkv_pool_create(&newer.known, &pool));
    assert_int_equal(pkv_pool_free_count(pool), 3);
    pkv_pool_destroy(pool);
    newer.unknown = UINT64_C(1) << 56;
    assert_no_pool(&newer.known, PKV_E_VERSION, "struct_size");
}

static void destroying_nothing_is_allowed(void **state)
{
    (void)state;
    pkv_pool_destroy(NULL);
}

/* ---- counting ---- */

static void a_pool_of_the_null_block_alone_has_nothing_to_give(void **state)
{
    (void)state;
    fixture f;
    pkv_block id = 77;
    open_plain(&f, 1, 4);
    assert_free(&f, "");
    assert_int_equal(pkv_pool_n_blocks(f.pool), 1);
    assert_true(pkv_pool_usage(f.pool) == 0);
    assert_refused(&f, pkv_pool_take(f.pool, 1, &id), PKV_E_NO_BLOCKS);
    assert_int_equal(id, 77);
    take(&f, NULL, 0);
    done(&f, pkv_pool_reset(f.pool));
    assert_events(&f, "cleared");
    close_pool(&f);
}

static void three_of_ten_blocks_in_use_are_thirty_percent(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 11, 4);
    take(&f, IDS(1, 2, 3));
    assert_true(pkv_pool_usage(f.pool) > 0.3 - 1e-12 && pkv_pool_usage(f.pool) < 0.3 + 1e-12);
    take(&f, IDS(4, 5, 6, 7, 8, 9, 10));
    assert_true(pkv_pool_usage(f.pool) == 1);
    close_pool(&f);
}

static void idle_blocks_count_as_free(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    key_table(&f, 'A', IDS(1, 2));
    release(&f, IDS(2, 1));
    assert_int_equal(pkv_pool_free_count(f.pool), 5);
    assert_int_equal(pkv_pool_key_count(f.pool), 2);
    close_pool(&f);
}

static void what_is_not_a_block_has_no_state(void **state)
{
    (void)state;
    fixture f;
    const pkv_block none[] = {0, 6, 7, UINT32_MAX};
    open_plain(&f, 6, 4);
    for (size_t i = 0; i < COUNT(none); i++) {
        assert_int_equal(pkv_pool_refs(f.pool, none[i]), 0);
        assert_int_equal(pkv_pool_block_tokens(f.pool, none[i]), 0);
        assert_false(pkv_pool_writable(f.pool, none[i]));
    }
    close_pool(&f);
}

static void a_block_is_writable_for_its_sole_owner_until_it_is_keyed(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    assert_false(pkv_pool_writable(f.pool, 1)); /* free */
    take(&f, IDS(1));
    assert_true(pkv_pool_writable(f.pool, 1));
    share(&f, IDS(1));
    assert_false(pkv_pool_writable(f.pool, 1)); /* two owners */
    release(&f, IDS(1));
    assert_true(pkv_pool_writable(f.pool, 1));
    key_table(&f, 'A', IDS(1));
    assert_false(pkv_pool_writable(f.pool, 1)); /* keyed */
    evict(&f, 1);
    assert_true(pkv_pool_writable(f.pool, 1));
    close_pool(&f);
}

static void the_list_is_written_as_far_as_asked(void **state)
{
    (void)state;
    fixture f;
    pkv_block ids[8] = {77, 77, 77, 77, 77, 77, 77, 77};
    open_plain(&f, 6, 4);
    assert_int_equal(pkv_pool_free_list(f.pool, ids, 0), 0);
    assert_int_equal(ids[0], 77);
    assert_int_equal(pkv_pool_free_list(f.pool, ids, 2), 2);
    assert_true(ids[0] == 1 && ids[1] == 2 && ids[2] == 77);
    assert_int_equal(pkv_pool_free_list(f.pool, ids, 8), 5);
    assert_true(ids[4] == 5 && ids[5] == 77);
    close_pool(&f);
}

/* ---- references ---- */

static void every_share_needs_a_release(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    share(&f, IDS(1, 1));
    assert_int_equal(pkv_pool_refs(f.pool, 1), 3);
    release(&f, IDS(1));
    release(&f, IDS(1));
    assert_int_equal(pkv_pool_refs(f.pool, 1), 1);
    assert_free(&f, "2 3 4 5");
    release(&f, IDS(1));
    assert_free(&f, "1 2 3 4 5");
    close_pool(&f);
}

static void the_null_block_is_skipped_in_every_list(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    share(&f, IDS(0, 1, 0));
    assert_int_equal(pkv_pool_refs(f.pool, 0), 0);
    assert_int_equal(pkv_pool_refs(f.pool, 1), 1);
    share(&f, IDS(1));
    release(&f, IDS(0, 1, 0));
    unpin(&f, IDS(0, 0, 1));
    assert_free(&f, "2 3 4 5 1");
    close_pool(&f);
}

static void empty_lists_change_nothing(void **state)
{
    (void)state;
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1));
    assert_refused(&f, pkv_pool_take(f.pool, 0, NULL), PKV_OK);
    assert_refused(&f, pkv_pool_share(f.pool, NULL, 0), PKV_OK);
    assert_refused(&f, pkv_pool_release(f.pool, NULL, 0), PKV_OK);
    assert_refused(&f, pkv_pool_unpin(f.pool, NULL, 0), PKV_OK);
    close_pool(&f);
}

static void ids_beyond_the_pool_are_refused_as_a_whole(void **state)
{
    (void)state;
    fixture f;
    const pkv_block beyond[] = {6, 7, UINT32_C(1) << 31, UINT32_MAX};
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2));
    for (size_t i = 0; i < COUNT(beyond); i++) {
        const pkv_block ids[] = {1, 0, 2, beyond[i]};
        assert_refused(&f, pkv_pool_share(f.pool, ids, 4), PKV_E_INVAL);
        assert_error_text("pkv_pool_share", "of a pool of 6");
        assert_refused(&f, pkv_pool_release(f.pool, ids, 4), PKV_E_INVAL);
        assert_error_text("pkv_pool_release", "of a pool of 6");
        assert_refused(&f, pkv_pool_unpin(f.pool, ids, 4), PKV_E_INVAL);
        assert_error_text("pkv_pool_unpin", "of a pool of 6");
        assert_refused(&f, pkv_pool_evict(f.pool, beyond[i]), PKV_E_INVAL);
        assert_error_text("pkv_pool_evict", "of a pool of 6");
    }
    close_pool(&f);
}

/* A call that drops references, by its name. */
typedef pkv_status drop(pkv_pool *pool, const pkv_block *ids, uint64_t n);

static void assert_drops_are_counted(drop *call, const char *name)
{
    fixture f;
    open_plain(&f, 6, 4);
    take(&f, IDS(1, 2, 3));
    share(&f, IDS(2));
    key_table(&f, 'A', IDS(3));
    assert_refused(&f, call(f.pool, IDS(4)), PKV_E_INVAL); /* free */
    assert_error_text(name, "block 4");
    assert_refused(&f, call(f.pool, IDS(3, 1, 1)), PKV_E_INVAL); /* twice in one call */
    assert_error_text(name, "block 1");
    assert_refused(&f, call(f.pool, IDS(2, 3, 2, 0, 2)), PKV_E_INVAL); /* held twice */
    assert_error_text(name, "block 2");
    done(&f, call(f.pool, IDS(2, 3, 2)));
    assert_refused(&f, call(f.pool, IDS(2)), PKV_E_INVAL);    /* once more */
    assert_refused(&f, call(f.pool, IDS(1, 3)), PKV_E_INVAL); /* idle, but keyed */
    assert_error_text(name, "block 3");
    close_pool(&f);
}

static void a_block_is_not_released_more_often_than_it_is_held(void **state)
{
    (void)state;
    assert_drops_are_counted(pkv_pool_release, "pkv_pool_release");
}

static void a_block_is_not_unpinned_more_often_than_it_is_held(void **state)
{
    (void)state;
    assert_drops_are_counted(pkv_pool_unpin, "pkv_pool_unpin");
}

static void ordinary_answers_leave_the_error_text_alone(void **state)
{
    (void)state;
    fixture f;
    pkv_block id;
    const uint32_t group = 0;
    const pkv_key key = key_of('A', 0);
    open_plain(&f, 2, 4);
    take(&f, IDS(1));
    assert_status(pkv_pool_evict(f.pool, 99), PKV_E_INVAL);
    assert_refused(&f, pkv_pool_take(f.pool, 1, &id), PKV_E_NO_BLOCKS);
    assert_refused(&f, pkv_pool_reset(f.pool), PKV_E_AGAIN);
    assert_refused(&f, pkv_pool_lookup(f.pool, &key, &group, 1, &id), PKV_E_NOT_FOUND);
    assert_error_text("pkv_pool_evict", "block 99");
    close_pool(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_sets_the_documented_values),
        cmocka_unit_test(a_pool_has_one_block_at_least),
        cmocka_unit_test(a_pool_has_fewer_than_two_to_the_31_blocks),
        cmocka_unit_test(a_unit_has_tokens),
        cmocka_unit_test(the_keys_of_all_blocks_can_be_counted),
        cmocka_unit_test(keys_have_32_or_16_bytes),
        cmocka_unit_test(a_table_is_no_longer_than_the_largest_pool),
        cmocka_unit_test(a_sample_rate_is_a_share),
        cmocka_unit_test(a_sample_rate_needs_a_clock),
        cmocka_unit_test(params_and_out_are_needed),
        cmocka_unit_test(an_older_struct_ends_where_it_ended),
        cmocka_unit_test(a_struct_without_its_size_is_refused),
        cmocka_unit_test(a_newer_struct_is_taken_if_its_new_fields_are_zero),
        cmocka_unit_test(destroying_nothing_is_allowed),
        cmocka_unit_test(a_pool_of_the_null_block_alone_has_nothing_to_give),
        cmocka_unit_test(three_of_ten_blocks_in_use_are_thirty_percent),
        cmocka_unit_test(idle_blocks_count_as_free),
        cmocka_unit_test(what_is_not_a_block_has_no_state),
        cmocka_unit_test(a_block_is_writable_for_its_sole_owner_until_it_is_keyed),
        cmocka_unit_test(the_list_is_written_as_far_as_asked),
        cmocka_unit_test(every_share_needs_a_release),
        cmocka_unit_test(the_null_block_is_skipped_in_every_list),
        cmocka_unit_test(empty_lists_change_nothing),
        cmocka_unit_test(ids_beyond_the_pool_are_refused_as_a_whole),
        cmocka_unit_test(a_block_is_not_released_more_often_than_it_is_held),
        cmocka_unit_test(a_block_is_not_unpinned_more_often_than_it_is_held),
        cmocka_unit_test(ordinary_answers_leave_the_error_text_alone),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
