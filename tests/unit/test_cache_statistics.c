/* test_cache_statistics.c  What a cache tells about evictions and the life of blocks. */
#include "seq_fixture.h"

static uint64_t evicted_of(pkv_cache *cache)
{
    pkv_cache_stats stats;
    pkv_cache_take_stats(cache, &stats);
    return stats.evicted;
}

static void blocks_whose_content_is_given_up_are_counted_once(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(5, 64);      /* four blocks of 16 tokens */
    close_seq(run_n(cache, 32));               /* two of them keep their content */
    assert_int_equal(evicted_of(cache), 0);    /* nothing is lost by being idle */
    (void)run_tokens(cache, diverging(0), 64); /* takes all four */
    assert_int_equal(evicted_of(cache), 2);
    assert_int_equal(evicted_of(cache), 0); /* since last asked */
    end_cache(cache);
}

static void a_reset_evicts_nothing(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(5, 64);
    close_seq(run_n(cache, 32));
    assert_ok(pkv_cache_reset(cache));
    (void)run_tokens(cache, diverging(0), 64);
    assert_int_equal(evicted_of(cache), 0);
    end_cache(cache);
}

/* ---- residency ---- */

typedef struct life {
    uint64_t now, n, lifetime;
} life;

static uint64_t now_of(void *ctx)
{
    return ((life *)ctx)->now;
}

static void note_life(void *ctx, const pkv_residency *sample)
{
    life *l = ctx;
    l->n++;
    l->lifetime = sample->lifetime_ns;
}

static void a_cache_passes_residency_samples_on(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const pkv_plan_params params = blocks_for(layers, 1, 2, 16); /* one block */
    life l = {.now = 1000};
    pkv_plan *plan;
    pkv_cache *cache;
    pkv_cache_params p;
    assert_ok(pkv_plan_create(&params, &plan));
    pkv_cache_params_init(&p);
    p.plan = plan;
    p.sample_rate = 1;
    p.residency_ctx = &l;
    p.clock_ns = now_of;
    p.on_residency = note_life;
    assert_ok(pkv_cache_create(&p, &cache));
    pkv_plan_destroy(plan);
    close_seq(run_n(cache, 16));
    l.now = 1700;
    close_seq(run_tokens(cache, diverging(0), 16)); /* the block is handed out again */
    assert_int_equal(l.n, 1);
    assert_int_equal(l.lifetime, 700);
    end_cache(cache);
}

static void a_sample_rate_without_a_clock_is_refused(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const pkv_plan_params params = blocks_for(layers, 1, 2, 16);
    pkv_plan *plan;
    pkv_cache *cache;
    pkv_cache_params p;
    assert_ok(pkv_plan_create(&params, &plan));
    pkv_cache_params_init(&p);
    p.plan = plan;
    p.sample_rate = 0.5;
    assert_int_equal(pkv_cache_create(&p, &cache), PKV_E_INVAL);
    assert_error_text("pkv_cache_create", "clock");
    assert_null(cache);
    pkv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_whose_content_is_given_up_are_counted_once),
        cmocka_unit_test(a_reset_evicts_nothing),
        cmocka_unit_test(a_cache_passes_residency_samples_on),
        cmocka_unit_test(a_sample_rate_without_a_clock_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
