/* test_pool_memory.c  Where a pool's memory comes from, and any allocation failing in turn. */
#include "countdown.h"
#include "pool_fixture.h"

/* Creates and destroys a pool of which the n-th allocation fails, for n = 0, 1, ... */
static void assert_any_may_fail(pkv_pool_params params)
{
    countdown c = {0};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    params.alloc = &hooks;
    for (; st == PKV_E_NOMEM; n++) {
        pkv_pool *pool = (pkv_pool *)(uintptr_t)1;
        assert_true(n < 100);
        c = (countdown){.left = n};
        st = pkv_pool_create(&params, &pool);
        if (st != PKV_OK) {
            assert_null(pool);
            assert_int_equal(c.held, 0);
            assert_int_equal(c.left, 0); /* it did run out */
            assert_error_text("pkv_pool_create", "out of memory");
            continue;
        }
        assert_ok(pkv_pool_check(pool));
        assert_true(c.held > 0);
        pkv_pool_destroy(pool);
        assert_int_equal(c.held, 0);
    }
    assert_ok(st);
    assert_true(n > 1); /* it did fail */
}

static void a_small_pool_survives_any_failure(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 4, 4);
    f.params.sample_rate = 1;
    assert_any_may_fail(f.params);
    f.params.caching = 0;
    assert_any_may_fail(f.params);
}

static void a_pool_with_many_arrays_survives_any_failure(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 5000, 4);
    f.params.max_table = 50000;
    assert_any_may_fail(f.params);
    f.params.sample_rate = 1;
    assert_any_may_fail(f.params);
    f.params.on_reuse = NULL;
    f.params.sink.event = NULL;
    assert_any_may_fail(f.params);
    f.params.caching = 0;
    assert_any_may_fail(f.params);
}

static void the_largest_pool_asks_for_what_it_needs(void **state)
{
    (void)state;
    fixture f;
    countdown c = {.left = UINT64_MAX, .largest = 1 << 20};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_pool *pool = (pkv_pool *)(uintptr_t)1;
    prepare(&f, PKV_POOL_MAX_BLOCKS, 1);
    f.params.alloc = &hooks;
    f.params.units_per_block = 1;
    f.params.max_table = PKV_POOL_MAX_BLOCKS;
    f.params.sample_rate = 1;
    assert_status(pkv_pool_create(&f.params, &pool), PKV_E_NOMEM);
    assert_null(pool);
    assert_error_text("pkv_pool_create", "2147483647 blocks");
    assert_int_equal(c.held, 0);
}

static void parameters_are_judged_before_memory_is_asked_for(void **state)
{
    (void)state;
    fixture f;
    countdown c = {.left = UINT64_MAX};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_pool *pool;
    prepare(&f, PKV_POOL_MAX_BLOCKS + 1, 4);
    f.params.alloc = &hooks;
    assert_status(pkv_pool_create(&f.params, &pool), PKV_E_INVAL);
    assert_int_equal(c.calls, 0);
}

/* Every operation once, on blocks 1 to 4 that are free before and after. */
static void use_everything(fixture *f)
{
    pkv_block ids[8];
    take(f, IDS(1, 2, 3, 4));
    key_table(f, 'A', IDS(1, 2));
    key_partial(f, 'B', 3, 12);
    key_partial(f, 'B', 3, 4);
    done(f, pkv_pool_move_keys(f->pool, 3, 4));
    share(f, IDS(1, 2));
    evict(f, 1);
    assert_int_equal(found(f, "A1", 0), 2);
    assert_status(pkv_pool_take(f->pool, 8, ids), PKV_E_NO_BLOCKS);
    assert_status(pkv_pool_reset(f->pool), PKV_E_AGAIN);
    assert_status(pkv_pool_evict(f->pool, 99), PKV_E_INVAL);
    unpin(f, IDS(1, 2, 4));
    release(f, IDS(1, 2, 3));
    done(f, pkv_pool_reset(f->pool));
    f->events[0] = f->reused[0] = '\0';
    f->n_samples = 0;
}

static void after_create_nothing_allocates(void **state)
{
    (void)state;
    fixture f;
    countdown c = {.left = 100};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    prepare(&f, 5, 4);
    f.params.alloc = &hooks;
    f.params.sample_rate = 1;
    open_pool(&f);
    const countdown created = c;
    c.left = 0;
    use_everything(&f);
    assert_int_equal(c.calls, created.calls);
    assert_int_equal(c.held, created.held);
    close_pool(&f);
    assert_int_equal(c.held, 0);
}

static void the_hooks_are_copied_at_create(void **state)
{
    (void)state;
    fixture f;
    countdown c = {.left = 100};
    pkv_alloc hooks = {&c, counted_alloc, counted_free};
    prepare(&f, 5, 4);
    f.params.alloc = &hooks;
    open_pool(&f);
    memset(&hooks, 0, sizeof hooks);
    use_everything(&f);
    close_pool(&f);
    assert_int_equal(c.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_pool_survives_any_failure),
        cmocka_unit_test(a_pool_with_many_arrays_survives_any_failure),
        cmocka_unit_test(the_largest_pool_asks_for_what_it_needs),
        cmocka_unit_test(parameters_are_judged_before_memory_is_asked_for),
        cmocka_unit_test(after_create_nothing_allocates),
        cmocka_unit_test(the_hooks_are_copied_at_create),
    };
    return cmocka_run_group_tests_name("pool memory", tests, NULL, NULL);
}
