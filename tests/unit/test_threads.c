/* test_threads.c  What several threads may do at once: each with objects of its own, over plans and
 * hooks that they share. The tsan preset runs it, too. */
#include "replay.h"
#include "seq_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_THREADS = 4, N_ROUNDS = 40 };

/* What a thread works with, and what it saw. */
typedef struct worker {
    const pkv_plan *plan; /* shared */
    uint32_t index;
    uint64_t seed, hits, steps;
    bool failed;
} worker;

/* cmocka's assertions belong to one thread. */
static bool ok(worker *w, pkv_status st)
{
    w->failed |= st != PKV_OK && st != PKV_E_NO_BLOCKS;
    return st == PKV_OK;
}

static pkv_seq *open_one(worker *w, pkv_cache *cache)
{
    int32_t tokens[80];
    const uint64_t n = 17 + next_random(&w->seed) % 60, kind = next_random(&w->seed) % 3;
    pkv_seq_params params = seq_params_of(tokens, n);
    pkv_seq *seq = NULL;
    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)(i < 32 ? kind : next_random(&w->seed) % 100);
    }
    (void)ok(w, pkv_seq_open(cache, &params, &seq));
    return seq;
}

static void run_one(worker *w, pkv_cache *cache, pkv_seq *seq)
{
    pkv_hit hit = {0, 0};
    pkv_seq_info info;
    pkv_allocate_params params;
    pkv_allocate_result result;
    uint64_t done, n_keys;
    const pkv_key *keys;
    const int32_t token = 1;
    (void)ok(w, pkv_seq_lookup(seq, &hit));
    w->hits += hit.tokens > 0;
    pkv_allocate_params_init(&params);
    pkv_seq_get_info(seq, &info);
    params.new_tokens = info.n_tokens - hit.tokens;
    if (!ok(w, pkv_seq_allocate(seq, &params, &result))) {
        return;
    }
    for (int i = 0; i < 20; i++) {
        const pkv_step step = {seq, &token, 1, PKV_STEP_KEEP};
        w->steps += ok(w, pkv_cache_advance(cache, &step, 1, 0, &result, &done));
        pkv_cache_step(cache);
    }
    (void)ok(w, pkv_seq_keys(seq, &keys, &n_keys));
}

static void *work(void *arg)
{
    worker *w = arg;
    pkv_cache *cache = NULL;
    pkv_cache_params params;
    pkv_cache_params_init(&params);
    params.plan = w->plan;
    params.index = w->index;
    if (!ok(w, pkv_cache_create(&params, &cache))) {
        return NULL;
    }
    for (int i = 0; i < N_ROUNDS && !w->failed; i++) {
        pkv_seq *seq = open_one(w, cache);
        if (seq) {
            run_one(w, cache, seq);
            w->failed |= pkv_seq_allocate(seq, NULL, NULL) != PKV_E_INVAL; /* writes an error */
            w->failed |= strstr(pkv_last_error(), "pkv_seq_allocate") == NULL;
            (void)ok(w, pkv_seq_close(seq, i % 2 == 0));
        }
        (void)ok(w, pkv_cache_check(cache));
    }
    pkv_cache_destroy(cache);
    return NULL;
}

static void caches_of_one_plan_work_in_several_threads_at_once(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const pkv_plan_params plan_params = blocks_for(layers, 1, 24, 160);
    pkv_plan *plan = plan_of(&plan_params);
    pthread_t threads[N_THREADS];
    worker workers[N_THREADS];
    for (uint32_t i = 0; i < N_THREADS; i++) {
        workers[i] = (worker){.plan = plan,
                              .index = i % 2 ? PKV_INDEX_KEYS : PKV_INDEX_TOKENS,
                              .seed = 0x9e3779b97f4a7c15u + i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(workers[i].failed);
        assert_true(workers[i].hits > 0 && workers[i].steps > 0);
    }
    pkv_plan_destroy(plan);
}

static void *touch(void *cache)
{
    pkv_cache_step(cache);
    return NULL;
}

/* In a process of its own, since it ends there. */
static void a_cache_that_two_threads_use_is_noticed_by_debug_builds(void **state)
{
    (void)state;
#ifdef NDEBUG
    skip(); /* release builds do not look */
#endif
    int status;
    const pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        (void)freopen("/dev/null", "w", stderr);
        pkv_cache *cache = full_cache(8, 64);
        _exit(pthread_create(&thread, NULL, touch, cache) || pthread_join(thread, NULL));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_of_one_plan_work_in_several_threads_at_once),
        cmocka_unit_test(a_cache_that_two_threads_use_is_noticed_by_debug_builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
