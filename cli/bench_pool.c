/* bench_pool.c  pagedkv bench pool: what one block costs, from a thousand blocks to a million.
 *
 * Blocks are handed out, keyed, found and evicted in an order that has nothing to do with their
 * numbers, as in a pool that has been used for a while, 16 a call. Each figure is over all blocks,
 * so that nothing stays in a cache that the pool is larger than.
 *
 * The ceilings are those of any pool: a link or a count has 4 bytes for each block, all links of a
 * list with their count, or a slot of a hash table, some 16, a key with its block some 64. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { BATCH = 16, UNIT = 16, MIN_OPERATIONS = 100000 };

enum row {
    TAKE_RELEASE,
    SHARE_HELD,
    SHARE_IDLE,
    CACHE_FULL,
    LOOKUP_HIT,
    LOOKUP_MISS,
    TAKE_EVICTING,
    N_ROWS
};

static const bench_row rows[] = {
    {"take_release", "block", "chase_4 along the list, read_16 to put back", NULL, NULL},
    {"share_held", "block", "read_4: a count", NULL, NULL},
    {"share_idle", "block", "read_16: a node; its neighbours come next", NULL, NULL},
    {"cache_full", "block", "read_16, read_64: slot, entry", NULL, NULL},
    {"lookup_hit", "lookup", "read_16, read_64: slot, entry", NULL, NULL},
    {"lookup_miss", "lookup", "read_16: slot", NULL, NULL},
    {"take_evicting", "block", "chase_4, read_16, read_64: list, slot, entry", NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

typedef struct pool_bench {
    pkv_pool *pool;
    uint64_t n;       /* blocks but the null block */
    pkv_block *ids;   /* [n] as they were handed out */
    pkv_block *table; /* [n] all blocks, in random order */
    pkv_key *keys, *absent;
    pkv_chain chain;
    volatile uint64_t sink;
} pool_bench;

/* ---- one operation on all blocks ---- */

static uint64_t batch_at(const pool_bench *b, uint64_t i)
{
    return b->n - i < BATCH ? b->n - i : BATCH;
}

static void take_all(pool_bench *b)
{
    for (uint64_t i = 0; i < b->n; i += BATCH) {
        bench_need(pkv_pool_take(b->pool, batch_at(b, i), b->ids + i) == PKV_OK, "take");
    }
}

static void release_all(pool_bench *b)
{
    for (uint64_t i = 0; i < b->n; i += BATCH) {
        bench_need(pkv_pool_release(b->pool, b->table + i, batch_at(b, i)) == PKV_OK, "release");
    }
}

/* The same blocks twice in a row: a hit that ends at once. */
static void share_and_release(pool_bench *b)
{
    for (uint64_t i = 0; i < b->n; i += BATCH) {
        const uint64_t n = batch_at(b, i);
        bench_need(pkv_pool_share(b->pool, b->table + i, n) == PKV_OK, "share");
        bench_need(pkv_pool_release(b->pool, b->table + i, n) == PKV_OK, "release");
    }
}

static void key_all(pool_bench *b)
{
    for (uint64_t i = 0; i < b->n; i += BATCH) {
        bench_need(pkv_pool_cache_full(b->pool, &b->chain, b->table, i, i + batch_at(b, i), UNIT, 0,
                                       NULL) == PKV_OK,
                   "cache_full");
    }
}

static void look_up(pool_bench *b, const pkv_key *keys, pkv_status expected)
{
    const uint32_t group = 0;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        pkv_block id = 0;
        bench_need(pkv_pool_lookup(b->pool, &keys[i], &group, 1, &id) == expected, "lookup");
        sum += id;
    }
    b->sink = sum;
}

static void look_up_hits(pool_bench *b)
{
    look_up(b, b->keys, PKV_OK);
}

static void look_up_misses(pool_bench *b)
{
    look_up(b, b->absent, PKV_E_NOT_FOUND);
}

/* ---- a life of the pool ---- */

static double time_of(pool_bench *b, void (*run)(pool_bench *))
{
    const double start = bench_now();
    run(b);
    return bench_now() - start;
}

/* From all free and unknown to all free and unknown; adds nanoseconds of all blocks to ns[]. */
static void live(pool_bench *b, double ns[N_ROWS])
{
    ns[TAKE_RELEASE] += time_of(b, take_all) + time_of(b, release_all);
    take_all(b);
    ns[SHARE_HELD] += time_of(b, share_and_release);
    ns[CACHE_FULL] += time_of(b, key_all);
    ns[LOOKUP_HIT] += time_of(b, look_up_hits);
    ns[LOOKUP_MISS] += time_of(b, look_up_misses);
    release_all(b);
    ns[SHARE_IDLE] += time_of(b, share_and_release);
    ns[TAKE_EVICTING] += time_of(b, take_all);
    release_all(b);
}

static void add_run(bench_table *table, size_t run, const double ns[N_ROWS], double operations,
                    const bench_memory_speeds *m)
{
    const double slot_and_entry = m->by_16.read_ns + m->by_64.read_ns;
    const double ceilings[N_ROWS] = {
        [TAKE_RELEASE] = m->by_4.chase_ns + m->by_16.read_ns,
        [SHARE_HELD] = m->by_4.read_ns,
        [SHARE_IDLE] = m->by_16.read_ns,
        [CACHE_FULL] = slot_and_entry,
        [LOOKUP_HIT] = slot_and_entry,
        [LOOKUP_MISS] = m->by_16.read_ns,
        [TAKE_EVICTING] = m->by_4.chase_ns + slot_and_entry,
    };
    for (size_t i = 0; i < N_ROWS; i++) {
        bench_add(table, run, i, ns[i] / operations, ceilings[i]);
    }
}

static void fill_keys(pkv_key *keys, uint64_t n, uint64_t *state)
{
    for (uint64_t i = 0; i < n; i++) {
        for (size_t at = 0; at < sizeof keys->bytes; at += sizeof(uint64_t)) {
            const uint64_t word = bench_random(state);
            memcpy(keys[i].bytes + at, &word, sizeof word);
        }
    }
}

static void open_pool(pool_bench *b, uint64_t blocks, size_t *bytes)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    const pkv_alloc alloc = bench_counting(bytes);
    pkv_pool_params params;
    pkv_pool_params_init(&params);
    params.n_blocks = blocks;
    params.unit = UNIT;
    params.alloc = &alloc;
    bench_need(pkv_pool_create(&params, &b->pool) == PKV_OK, "pool");
    b->n = blocks - 1;
    b->ids = bench_memory(b->n, sizeof *b->ids);
    b->table = bench_memory(b->n, sizeof *b->table);
    b->keys = bench_memory(b->n, sizeof *b->keys);
    b->absent = bench_memory(b->n, sizeof *b->absent);
    bench_shuffle(b->table, b->n, 1, &state);
    fill_keys(b->keys, b->n, &state);
    fill_keys(b->absent, b->n, &state);
    b->chain = (pkv_chain){.keys = b->keys, .n_tokens = b->n * UNIT, .n_keys = b->n};
}

static void close_pool(pool_bench *b)
{
    pkv_pool_destroy(b->pool);
    free(b->ids);
    free(b->table);
    free(b->keys);
    free(b->absent);
}

static void tell_size(const bench_table *table, const bench_table *speeds, uint64_t blocks,
                      size_t bytes, json_t *answer)
{
    char size[32];
    if (!answer) {
        printf("pool of %llu blocks, %s; lines of 64 bytes out of 4, 16 and 64 bytes a block\n",
               (unsigned long long)blocks, cli_size((double)bytes, size));
        bench_print(speeds);
        bench_print(table);
        return;
    }
    json_t *one = json_object();
    cli_set(one, "blocks", cli_int(blocks));
    cli_set(one, "bytes", cli_int(bytes));
    cli_set(one, "memory", bench_json(speeds));
    cli_set(one, "figures", bench_json(table));
    cli_push(answer, one);
}

static void run_size(uint64_t blocks, size_t runs, json_t *answer)
{
    pool_bench b = {0};
    bench_table table, speeds;
    size_t bytes;
    open_pool(&b, blocks, &bytes);
    bench_ground *ground = bench_ground_new(blocks);
    bench_table_init(&table, rows, runs);
    bench_table_init(&speeds, bench_memory_rows, runs);
    const uint64_t rounds = 1 + MIN_OPERATIONS / blocks;
    double warm[N_ROWS] = {0};
    live(&b, warm);
    for (size_t run = 0; run < runs; run++) {
        double ns[N_ROWS] = {0};
        for (uint64_t r = 0; r < rounds; r++) {
            live(&b, ns);
        }
        const bench_memory_speeds m = bench_ground_run(ground, &speeds, run);
        add_run(&table, run, ns, (double)(rounds * b.n), &m);
    }
    tell_size(&table, &speeds, blocks, bytes, answer);
    bench_table_free(&speeds);
    bench_table_free(&table);
    bench_ground_free(ground);
    close_pool(&b);
}

void bench_pool(const bench_params *params, json_t *answer)
{
    static const uint64_t usual[] = {1000, 100000, 1000000};
    json_t *sizes = params->json ? json_array() : NULL;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (params->size == 0) {
            run_size(usual[i], params->runs, sizes);
        }
    }
    if (params->size != 0) {
        run_size(params->size, params->runs, sizes);
    }
    if (sizes) {
        cli_set(answer, "sizes", sizes);
    }
}
