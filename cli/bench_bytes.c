/* bench_bytes.c  Memory for each block, as hooks count it: of pools, and of caches that are full of
 * content that nobody uses, so that no sequence's own memory is in it. */
#include "bench.h"

enum { LEAST = 12, KEY = 32, TOKENS = 4 * BENCH_UNIT, BOUND = 64 };
enum row { POOL, POOL_KEYS, POOL_KEYS_ADD, CACHE, CACHE_FULL, CACHE_ADDS, CACHE_KEYS, KEYS_ADD };

#define NODE "two links and a count"

static const bench_row rows[] = {
    {"pool", "bytes/block", NODE, "64", NULL, true},
    {"pool_keys", "bytes/block", NODE ", a key", "64, and 32 of a key", NULL, true},
    {"pool_keys_add", "bytes/block", "a key", NULL, NULL, true},
    {"cache_not_caching", "bytes/block", NODE, "64", NULL, true},
    {"cache", "bytes/block", NODE ", tokens", "64, and 64 of tokens", NULL, true},
    {"cache_adds", "bytes/block", "tokens", NULL, NULL, true},
    {"cache_keys", "bytes/block", NODE ", a key", "64, and 32 of a key", NULL, true},
    {"cache_keys_add", "bytes/block", "a key", NULL, NULL, true},
    {NULL, NULL, NULL, NULL, NULL, true},
};

static double pool_bytes(const bench_params *params, bool caching)
{
    bench_heap heap = {0};
    const pkv_alloc hooks = bench_hooks(&heap);
    pkv_pool *pool;
    pkv_pool_params p;
    pkv_pool_params_init(&p);
    p.n_blocks = params->blocks;
    p.unit = BENCH_UNIT;
    p.caching = caching;
    p.alloc = &hooks;
    bench_need(pkv_pool_create(&p, &pool) == PKV_OK, "pool");
    const double bytes = (double)heap.bytes / (double)params->blocks;
    pkv_pool_destroy(pool);
    bench_heap_free(&heap);
    return bytes;
}

static double cache_bytes(const bench_params *params, bool caching, pkv_index index)
{
    uint64_t state = 31;
    bench_heap heap = {0};
    const uint64_t per_prompt = (params->tokens + BENCH_UNIT - 1) / BENCH_UNIT;
    const uint64_t least = per_prompt + 2;
    const uint64_t blocks = params->blocks < least ? least : params->blocks;
    pkv_cache *cache = bench_cache(&(bench_cache_params){.blocks = blocks,
                                                         .max_model_len = params->tokens,
                                                         .caching = caching,
                                                         .index = index,
                                                         .heap = &heap});
    bench_fill(cache, params->tokens, 1 + blocks / per_prompt, &state);
    const double bytes = (double)heap.bytes / (double)blocks;
    pkv_cache_destroy(cache);
    bench_heap_free(&heap);
    return bytes;
}

void bench_bytes(const bench_params *params, json_t *answer)
{
    bench_table table;
    const double pool = pool_bytes(params, false), pool_keys = pool_bytes(params, true);
    const double cache = cache_bytes(params, false, PKV_INDEX_AUTO);
    const double full = cache_bytes(params, true, PKV_INDEX_AUTO);
    const double keys = cache_bytes(params, true, PKV_INDEX_CHAINS);
    const bench_sample samples[] = {
        [POOL] = {pool, LEAST, BOUND},
        [POOL_KEYS] = {pool_keys, LEAST + KEY, BOUND + KEY},
        [POOL_KEYS_ADD] = {pool_keys - pool, KEY, 0},
        [CACHE] = {cache, LEAST, BOUND},
        [CACHE_FULL] = {full, LEAST + TOKENS, BOUND + TOKENS},
        [CACHE_ADDS] = {full - cache, TOKENS, 0},
        [CACHE_KEYS] = {keys, LEAST + KEY, BOUND + KEY},
        [KEYS_ADD] = {keys - cache, KEY, 0},
    };
    bench_table_init(&table, rows, 1);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        bench_add(&table, 0, i, HOT, samples[i]);
    }
    bench_tell(&table, answer, "bytes", "memory of the library, full of content that nobody uses");
    bench_table_free(&table);
}
