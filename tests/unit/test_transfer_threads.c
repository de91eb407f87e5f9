/* test_transfer_threads.c  Workers of one run, each in a thread of its own. The tsan preset runs
 * it, too. */
#include "transfer_fixture.h"

#include <pthread.h>

enum { MAX_WORKERS = 7, LAYERS = 3, BLOCKS = 12, SIZE = 5, HEADS = 3, ROW = 24 };
enum { BYTES = LAYERS * 2 * BLOCKS * SIZE * HEADS * ROW };

static pages src, dst;
static uint8_t a[BYTES], b[BYTES], before[BYTES];

typedef struct worker {
    const pkv_transfer_plan *plan;
    uint32_t number, n_workers, step;
    bool layerwise;
    pkv_status status;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    w->status = w->layerwise ? pkv_transfer_run_layer(w->plan, w->step, w->number, w->n_workers)
                             : pkv_transfer_run(w->plan, w->number, w->n_workers);
    return NULL;
}

static void run_all(worker like)
{
    pthread_t threads[MAX_WORKERS];
    worker workers[MAX_WORKERS];
    for (uint32_t i = 0; i < like.n_workers; i++) {
        workers[i] = like;
        workers[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < like.n_workers; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_status(workers[i].status, PKV_OK);
    }
}

static void assert_threads_move(const pkv_transfer_params *params, const uint8_t *wanted)
{
    pkv_transfer_plan *plan;
    assert_ok(pkv_transfer_plan_create(params, &plan, NULL));
    for (uint32_t n = 1; n <= MAX_WORKERS; n++) {
        for (int layerwise = 0; layerwise < 2; layerwise++) {
            memcpy(b, before, sizeof b);
            for (uint32_t step = 0; step < (layerwise ? LAYERS : 1); step++) {
                run_all((worker){
                    .plan = plan, .n_workers = n, .step = step, .layerwise = layerwise != 0});
            }
            assert_memory_equal(b, wanted, sizeof b);
        }
    }
    pkv_transfer_plan_destroy(plan);
}

/* Every way to store bytes, and two ways to lay them out. */
static void workers_share_a_run_and_the_result_does_not_depend_on_them(void **state)
{
    (void)state;
    static uint8_t wanted[BYTES];
    const int64_t from[] = {3, 1, 7, 11, 0}, to[] = {9, 0, 4, 3, 11};
    pkv_transfer_params params = params_of(PKV_TRANSFER_COPY);
    pages_tie(&src, a, pages_dense(&src, LAYERS, 2, BLOCKS, SIZE, HEADS, ROW), LAYERS);
    fill(a, sizeof a, 1);
    fill(before, sizeof before, 2);
    params.src = &src.side;
    params.dst = &dst.side;
    params.src_blocks = from;
    params.dst_blocks = to;
    params.n_ids = 5;
    params.skip_tokens = 3;
    for (int heads_first = 0; heads_first < 2; heads_first++) {
        if (heads_first) {
            (void)pages_heads_first(&dst, LAYERS, 2, BLOCKS, SIZE, HEADS, ROW);
        } else {
            (void)pages_dense(&dst, LAYERS, 2, BLOCKS, SIZE, HEADS, ROW);
        }
        pages_tie(&dst, b, sizeof b, LAYERS);
        for (uint32_t stores = PKV_STORES_CACHED; stores <= PKV_STORES_STREAMING; stores++) {
            params.stores = stores;
            memcpy(b, before, sizeof b);
            transfer(&params, 1);
            memcpy(wanted, b, sizeof b);
            assert_threads_move(&params, wanted);
        }
    }
}

static void workers_share_a_swap(void **state)
{
    (void)state;
    static uint8_t wanted[BYTES];
    const int64_t from[] = {3, 1}, to[] = {9, 0};
    pkv_transfer_params params = params_of(PKV_TRANSFER_SWAP);
    pages_tie(&dst, b, pages_dense(&dst, LAYERS, 2, BLOCKS, SIZE, HEADS, ROW), LAYERS);
    fill(before, sizeof before, 3);
    params.src = &dst.side;
    params.src_blocks = from;
    params.dst_blocks = to;
    params.n_ids = 2;
    memcpy(b, before, sizeof b);
    transfer(&params, 1);
    memcpy(wanted, b, sizeof b);
    assert_threads_move(&params, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_share_a_run_and_the_result_does_not_depend_on_them),
        cmocka_unit_test(workers_share_a_swap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
