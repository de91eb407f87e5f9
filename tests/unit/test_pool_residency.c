/* test_pool_residency.c  How long sampled blocks lived (kv-core section 3.3). */
#include "pool_fixture.h"

/* A pool of which every block handed out is sampled; the clock stands at 1000. */
static void open_sampled(fixture *f, uint64_t n_blocks)
{
    prepare(f, n_blocks, 4);
    f->params.sample_rate = 1;
    f->now = 1000;
    open_pool(f);
}

static void share_at(fixture *f, uint64_t now, pkv_block block)
{
    f->now = now;
    share(f, IDS(block));
    release(f, IDS(block));
}

/* The only sample since last asked; gaps up to `n_gaps` count. */
static void assert_sample(fixture *f, const pkv_residency *wanted)
{
    assert_int_equal(f->n_samples, 1);
    assert_memory_equal(&f->samples[0], wanted, sizeof *wanted);
    f->n_samples = 0;
}

static void a_life_ends_when_the_block_is_handed_out_again(void **state)
{
    (void)state;
    fixture f;
    open_sampled(&f, 2);
    take(&f, IDS(1));
    f.now = 1300;
    release(&f, IDS(1));
    assert_int_equal(f.n_samples, 0); /* being freed says nothing */
    f.now = 1700;
    take(&f, IDS(1));
    /* never hit: idle since it was handed out */
    assert_sample(&f, &(pkv_residency){.lifetime_ns = 700, .idle_ns = 700});
    close_pool(&f);
}

static void hits_are_accesses_and_their_distances_are_told(void **state)
{
    (void)state;
    fixture f;
    open_sampled(&f, 2);
    take(&f, IDS(1));
    key_table(&f, 'A', IDS(1));
    release(&f, IDS(1));
    share_at(&f, 1010, 1);
    share_at(&f, 1040, 1);
    share_at(&f, 1100, 1);
    f.now = 1500;
    take(&f, IDS(1));
    assert_sample(
        &f, &(pkv_residency){.lifetime_ns = 500, .idle_ns = 400, .gaps_ns = {30, 60}, .n_gaps = 2});
    close_pool(&f);
}

static void one_access_has_no_distance(void **state)
{
    (void)state;
    fixture f;
    open_sampled(&f, 2);
    take(&f, IDS(1));
    release(&f, IDS(1));
    share_at(&f, 1200, 1);
    f.now = 1250;
    take(&f, IDS(1));
    assert_sample(&f, &(pkv_residency){.lifetime_ns = 250, .idle_ns = 50});
    close_pool(&f);
}

static void the_last_four_accesses_are_kept(void **state)
{
    (void)state;
    fixture f;
    const uint64_t times[] = {1001, 1003, 1007, 1015, 1031, 1063, 1127};
    open_sampled(&f, 2);
    take(&f, IDS(1));
    release(&f, IDS(1));
    for (size_t i = 0; i < COUNT(times); i++) {
        share_at(&f, times[i], 1);
    }
    f.now = 2000;
    take(&f, IDS(1));
    /* of 1015, 1031, 1063, 1127 */
    assert_sample(
        &f, &(pkv_residency){
                .lifetime_ns = 1000, .idle_ns = 2000 - 1127, .gaps_ns = {16, 32, 64}, .n_gaps = 3});
    close_pool(&f);
}

static void every_reference_of_a_list_is_an_access(void **state)
{
    (void)state;
    fixture f;
    open_sampled(&f, 2);
    take(&f, IDS(1));
    f.now = 1020;
    share(&f, IDS(1, 0, 1)); /* the null block is skipped */
    release(&f, IDS(1, 1, 1));
    f.now = 1050;
    take(&f, IDS(1));
    assert_sample(&f, &(pkv_residency){.lifetime_ns = 50, .idle_ns = 30, .n_gaps = 1});
    close_pool(&f);
}

static void eviction_ends_a_life_and_the_next_begins_when_handed_out(void **state)
{
    (void)state;
    fixture f;
    open_sampled(&f, 2);
    take(&f, IDS(1));
    key_table(&f, 'A', IDS(1));
    release(&f, IDS(1));
    f.now = 1060;
    evict(&f, 1);
    assert_sample(&f, &(pkv_residency){.lifetime_ns = 60, .idle_ns = 60});
    share_at(&f, 1070, 1); /* of no sampled life */
    evict(&f, 1);
    evict(&f, 0);
    f.now = 1080;
    take(&f, IDS(1));
    assert_int_equal(f.n_samples, 0);
    release(&f, IDS(1));
    f.now = 1095;
    take(&f, IDS(1));
    assert_sample(&f, &(pkv_residency){.lifetime_ns = 15, .idle_ns = 15});
    close_pool(&f);
}

static void reset_forgets_all_samples(void **state)
{
    (void)state;
    fixture f;
    open_sampled(&f, 3);
    take(&f, IDS(1, 2));
    release(&f, IDS(1, 2));
    done(&f, pkv_pool_reset(f.pool));
    f.now = 5000;
    take(&f, IDS(1, 2));
    assert_int_equal(f.n_samples, 0);
    close_pool(&f);
}

static void a_refused_call_is_no_access(void **state)
{
    (void)state;
    fixture f;
    pkv_block ids[2];
    open_sampled(&f, 2);
    take(&f, IDS(1));
    release(&f, IDS(1));
    f.now = 1020;
    assert_refused(&f, pkv_pool_share(f.pool, IDS(1, 2)), PKV_E_INVAL);
    assert_refused(&f, pkv_pool_take(f.pool, 2, ids), PKV_E_NO_BLOCKS);
    f.now = 1030;
    take(&f, IDS(1));
    assert_sample(&f, &(pkv_residency){.lifetime_ns = 30, .idle_ns = 30});
    close_pool(&f);
}

static void without_a_rate_nothing_is_sampled(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 2, 4);
    f.params.clock_ns = NULL; /* not needed */
    open_pool(&f);
    take(&f, IDS(1));
    release(&f, IDS(1));
    share_at(&f, 1, 1);
    take(&f, IDS(1));
    evict(&f, 1);
    assert_int_equal(f.n_samples, 0);
    close_pool(&f);
}

static void samples_need_no_listener(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 2, 4);
    f.params.sample_rate = 1;
    f.params.on_residency = NULL;
    open_pool(&f);
    take(&f, IDS(1));
    release(&f, IDS(1));
    take(&f, IDS(1));
    evict(&f, 1);
    close_pool(&f);
}

/* Ended lives among 4000 with a rate and a seed; which of them is in `told`. */
static uint64_t count_samples(double rate, uint64_t seed, uint8_t told[4000])
{
    fixture f;
    uint64_t n = 0;
    prepare(&f, 2, 4);
    f.params.sample_rate = rate;
    f.params.sample_seed = seed;
    open_pool(&f);
    for (size_t i = 0; i < 4000; i++) {
        take(&f, IDS(1));
        release(&f, IDS(1));
        evict(&f, 1); /* ends the life, if it is sampled */
        told[i] = (uint8_t)f.n_samples;
        n += f.n_samples;
        f.n_samples = 0;
    }
    close_pool(&f);
    return n;
}

static void the_rate_is_the_share_of_sampled_lives(void **state)
{
    (void)state;
    uint8_t told[4000];
    /* 4000 x 0.25 = 1000, standard deviation sqrt(4000 x 0.25 x 0.75) = 27.4: six of them */
    assert_in_range(count_samples(0.25, 1, told), 1000 - 165, 1000 + 165);
    assert_in_range(count_samples(0.25, UINT64_MAX, told), 1000 - 165, 1000 + 165);
    /* 40 +- 6 x 6.3 */
    assert_in_range(count_samples(0.01, 1, told), 40 - 38, 40 + 38);
    assert_int_equal(count_samples(1, 1, told), 4000);
}

static void a_seed_repeats_the_choice(void **state)
{
    (void)state;
    static uint8_t a[4000], b[4000], c[4000];
    (void)count_samples(0.25, 7, a);
    (void)count_samples(0.25, 7, b);
    (void)count_samples(0.25, 8, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_ends_when_the_block_is_handed_out_again),
        cmocka_unit_test(hits_are_accesses_and_their_distances_are_told),
        cmocka_unit_test(one_access_has_no_distance),
        cmocka_unit_test(the_last_four_accesses_are_kept),
        cmocka_unit_test(every_reference_of_a_list_is_an_access),
        cmocka_unit_test(eviction_ends_a_life_and_the_next_begins_when_handed_out),
        cmocka_unit_test(reset_forgets_all_samples),
        cmocka_unit_test(a_refused_call_is_no_access),
        cmocka_unit_test(without_a_rate_nothing_is_sampled),
        cmocka_unit_test(samples_need_no_listener),
        cmocka_unit_test(the_rate_is_the_share_of_sampled_lives),
        cmocka_unit_test(a_seed_repeats_the_choice),
    };
    return cmocka_run_group_tests_name("pool residency", tests, NULL, NULL);
}
