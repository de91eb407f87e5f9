/* memory_fixture.h  A cache whose memory hooks run out at any allocation in turn: NOMEM, nothing
 * changed, nothing lost; and the same call succeeds when there is memory again. */
#ifndef MEMORY_FIXTURE_H
#define MEMORY_FIXTURE_H

#include "countdown.h"
#include "seq_fixture.h"

typedef struct rig {
    countdown memory;
    pkv_alloc hooks;
    event_log log;
    pkv_plan *plan;
    pkv_cache *cache;
    pkv_seq *seq, *other;
    pkv_allocate_result result;
    uint64_t done;
} rig;

static rig r;

static inline pkv_status create(void)
{
    static const char seed[] = "a seed that is longer than any preimage of sixteen tokens, so that "
                               "the hasher needs room for it, whatever it has at first ........ "
                               "................................................................";
    pkv_cache_params params = cache_params_of(r.plan, &r.log);
    params.alloc = &r.hooks;
    params.hash_seed = seed;
    r.log.n = 0;
    return pkv_cache_create(&params, &r.cache);
}

/* The plan of the test; sets r.plan. */
static void make_plan(void);

static inline void set_up(void)
{
    make_plan();
    r.hooks = (pkv_alloc){&r.memory, counted_alloc, counted_free};
}

/* `prepare` brings a fresh cache to the moment before `call`, which then fails at its n-th
 * allocation, for n = 0, 1, ..., until it needs no more. */
static inline void assert_any_may_fail(void (*prepare)(void), pkv_status (*call)(void),
                                       const char *function, uint64_t least)
{
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    set_up();
    for (; st == PKV_E_NOMEM; n++) {
        pkv_block before[400], after[400];
        assert_true(n < 1000);
        r.memory = (countdown){.left = UINT64_MAX};
        assert_ok(create());
        prepare();
        const uint64_t n_free = pkv_pool_free_list(pkv_cache_get_pool(r.cache), before, 400);
        const uint64_t keys = keys_in(r.cache), events = r.log.n;
        r.memory.left = n;
        st = call();
        if (st == PKV_E_NOMEM) {
            assert_int_equal(r.memory.left, 0); /* it did run out */
            assert_error_text(function, "memory");
            r.memory.left = UINT64_MAX;
            assert_sound(r.cache);
            assert_int_equal(pkv_pool_free_list(pkv_cache_get_pool(r.cache), after, 400), n_free);
            assert_memory_equal(before, after, (size_t)n_free * sizeof *before);
            assert_int_equal(keys_in(r.cache), keys);
            assert_int_equal(r.log.n, events);
            assert_ok(call());
        } else {
            assert_status(st, PKV_OK);
            r.memory.left = UINT64_MAX;
        }
        assert_sound(r.cache);
        pkv_cache_destroy(r.cache);
        assert_int_equal(r.memory.held, 0);
    }
    assert_true(n > least);
    pkv_plan_destroy(r.plan);
}

/* pkv_cache_create() fails at any allocation in turn. */
static inline void assert_creating_may_fail(uint64_t least)
{
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    set_up();
    for (; st == PKV_E_NOMEM; n++) {
        assert_true(n < 1000);
        r.memory = (countdown){.left = n};
        r.cache = (pkv_cache *)(uintptr_t)1;
        st = create();
        if (st == PKV_E_NOMEM) {
            assert_null(r.cache);
            assert_int_equal(r.memory.left, 0);
            assert_error_text("pkv_cache_create", "memory");
            assert_int_equal(r.memory.held, 0);
        }
    }
    assert_status(st, PKV_OK);
    assert_true(n > least);
    r.memory.left = UINT64_MAX;
    assert_sound(r.cache);
    pkv_cache_destroy(r.cache);
    assert_int_equal(r.memory.held, 0);
    pkv_plan_destroy(r.plan);
}

#endif
