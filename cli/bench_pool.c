/* bench_pool.c  pagedkv bench pool: what blocks, prompts and steps cost without a hit. */
#include <stdlib.h>

#include "bench.h"

enum { BATCH = 16, HOT_BLOCKS = 256, COLD_BLOCKS = 2048, ROUNDS = 64 };

static const bench_row rows[] = {
    {"take_release", "ns/block", "16 bytes a block, random order", "10 ns", NULL, false},
    {NULL, NULL, NULL, NULL, NULL, false},
};

typedef struct pool_bench {
    pkv_pool *pool;
    bench_heap heap;
    pkv_block *ids; /* [n] all blocks */
    uint64_t n;
} pool_bench;

static void pool_init(pool_bench *b, uint64_t blocks)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    pkv_pool_params params;
    *b = (pool_bench){.n = blocks - 1};
    const pkv_alloc hooks = bench_hooks(&b->heap);
    pkv_pool_params_init(&params);
    params.n_blocks = blocks;
    params.unit = BENCH_UNIT;
    params.alloc = &hooks;
    bench_need(pkv_pool_create(&params, &b->pool) == PKV_OK, "pool");
    b->ids = bench_memory(b->n, sizeof *b->ids);
    bench_need(pkv_pool_take(b->pool, b->n, b->ids) == PKV_OK, "take");
    bench_shuffle(b->ids, b->n, 1, &state); /* from now on the list is in random order */
    bench_need(pkv_pool_release(b->pool, b->ids, b->n) == PKV_OK, "release");
}

static void pool_free(pool_bench *b)
{
    pkv_pool_destroy(b->pool);
    bench_heap_free(&b->heap);
    free(b->ids);
}

/* ns of a block that is taken and released, 16 a call. */
static double take_release(pool_bench *b, bench_set set)
{
    const uint64_t most = set == HOT ? HOT_BLOCKS : COLD_BLOCKS, n = b->n < most ? b->n : most;
    if (set == COLD) {
        bench_chill_heap(&b->heap);
        bench_chilled();
    }
    const double start = bench_now();
    for (uint64_t i = 0; i < n; i += BATCH) {
        bench_need(pkv_pool_take(b->pool, n - i < BATCH ? n - i : BATCH, b->ids + i) == PKV_OK,
                   "take");
    }
    for (uint64_t i = 0; i < n; i += BATCH) {
        bench_need(pkv_pool_release(b->pool, b->ids + i, n - i < BATCH ? n - i : BATCH) == PKV_OK,
                   "release");
    }
    return (bench_now() - start) / (double)n;
}

static bench_sample sample(pool_bench *b, bench_nodes *nodes, bench_set set)
{
    double values[ROUNDS];
    const size_t rounds = set == HOT ? ROUNDS : 3;
    const uint64_t n = set == HOT ? HOT_BLOCKS : COLD_BLOCKS;
    (void)take_release(b, HOT);
    for (size_t i = 0; i < rounds; i++) {
        values[i] = take_release(b, set);
    }
    return (bench_sample){bench_quantile(values, rounds, 0.5), bench_nodes_read(nodes, n, set), 10};
}

static void bench_blocks(const bench_params *params, json_t *answer)
{
    char title[128];
    pool_bench b;
    bench_table table;
    pool_init(&b, params->blocks);
    bench_nodes *few = bench_nodes_new(HOT_BLOCKS, 16), *all = bench_nodes_new(params->blocks, 16);
    bench_table_init(&table, rows, params->runs);
    for (size_t run = 0; run < params->runs; run++) {
        bench_add(&table, run, 0, HOT, sample(&b, few, HOT));
        bench_add(&table, run, 0, COLD, sample(&b, all, COLD));
    }
    (void)snprintf(title, sizeof title, "blocks of a pool of %llu, taken and released, 16 a call",
                   (unsigned long long)params->blocks);
    bench_tell(&table, answer, "blocks", title);
    bench_table_free(&table);
    bench_nodes_free(few);
    bench_nodes_free(all);
    pool_free(&b);
}

void bench_pool(const bench_params *params, json_t *answer)
{
    if (params->curve) {
        bench_curve(params, answer);
        return;
    }
    bench_blocks(params, answer);
    bench_prompts(params, answer);
    bench_steps(params, answer);
    bench_bytes(params, answer);
}
