/* bench_curve.c  pagedkv bench pool --curve: what one block costs, from a thousand to ten million.
 *
 * Blocks are handed out, keyed, found and evicted in an order that has nothing to do with their
 * numbers, as in a pool that has been used for a while, 16 a call. Each figure is over all blocks,
 * so that nothing stays in a cache that the pool is larger than.
 *
 * The ceilings are nodes in random order, out of as many as the pool has blocks: of 16 bytes, such
 * as links and a count, and of 64, such as a key and its block. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { BATCH = 16, MIN_OPERATIONS = 100000, MAX_OPERATIONS = 30000000 };

enum row { TAKE_RELEASE, SHARE, CACHE_FULL, LOOKUP, TAKE_EVICTING, N_ROWS };

#define LINKS "16 bytes a block, random order"
#define ENTRIES "16 and 64 bytes a block, random order"

static const bench_row rows[] = {
    {"take_release", "ns/block", LINKS, NULL, NULL, true},
    {"share", "ns/block", LINKS, NULL, NULL, true},
    {"cache_full", "ns/block", ENTRIES, NULL, NULL, true},
    {"lookup", "ns/block", ENTRIES, NULL, NULL, true},
    {"take_evicting", "ns/block", ENTRIES, NULL, NULL, true},
    {"read_16", "ns/node", NULL, NULL, NULL, true},
    {"read_64", "ns/node", NULL, NULL, NULL, true},
    {"chase_16", "ns/node", NULL, NULL, NULL, true},
    {NULL, NULL, NULL, NULL, NULL, true},
};
enum { READ_16 = N_ROWS, READ_64, CHASE_16 };

typedef struct pool_bench {
    pkv_pool *pool;
    bench_heap heap;
    uint64_t n;       /* blocks but the null block */
    pkv_block *ids;   /* [n] as they were handed out */
    pkv_block *table; /* [n] all blocks, in random order */
    pkv_key *keys;
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
        bench_need(pkv_pool_cache_full(b->pool, &b->chain, b->table, i, i + batch_at(b, i),
                                       BENCH_UNIT, 0, NULL) == PKV_OK,
                   "cache_full");
    }
}

static void look_up(pool_bench *b)
{
    const uint32_t group = 0;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        pkv_block id = 0;
        bench_need(pkv_pool_lookup(b->pool, &b->keys[i], &group, 1, &id) == PKV_OK, "lookup");
        sum += id;
    }
    b->sink = sum;
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
    ns[CACHE_FULL] += time_of(b, key_all);
    ns[LOOKUP] += time_of(b, look_up);
    release_all(b);
    ns[SHARE] += time_of(b, share_and_release);
    ns[TAKE_EVICTING] += time_of(b, take_all);
    release_all(b);
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

static void open_pool(pool_bench *b, uint64_t blocks)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    *b = (pool_bench){.n = blocks - 1};
    const pkv_alloc alloc = bench_hooks(&b->heap);
    pkv_pool_params params;
    pkv_pool_params_init(&params);
    params.n_blocks = blocks;
    params.unit = BENCH_UNIT;
    params.alloc = &alloc;
    bench_need(pkv_pool_create(&params, &b->pool) == PKV_OK, "pool");
    b->ids = bench_memory(b->n, sizeof *b->ids);
    b->table = bench_memory(b->n, sizeof *b->table);
    b->keys = bench_memory(b->n, sizeof *b->keys);
    bench_shuffle(b->table, b->n, 1, &state);
    fill_keys(b->keys, b->n, &state);
    b->chain = (pkv_chain){.keys = b->keys, .n_tokens = b->n * BENCH_UNIT, .n_keys = b->n};
}

static void close_pool(pool_bench *b)
{
    pkv_pool_destroy(b->pool);
    bench_heap_free(&b->heap);
    free(b->ids);
    free(b->table);
    free(b->keys);
}

/* ---- figures ---- */

static void add_run(bench_table *table, size_t run, const double ns[N_ROWS], double operations,
                    bench_nodes *links, bench_nodes *entries)
{
    const double read_16 = bench_nodes_read(links, SIZE_MAX, HOT);
    const double read_64 = bench_nodes_read(entries, SIZE_MAX, HOT), both = read_16 + read_64;
    const double ceilings[N_ROWS] = {read_16, read_16, both, both, both};
    for (size_t i = 0; i < N_ROWS; i++) {
        bench_add(table, run, i, HOT, (bench_sample){ns[i] / operations, ceilings[i], 0});
    }
    bench_add(table, run, READ_16, HOT, (bench_sample){read_16, 0, 0});
    bench_add(table, run, READ_64, HOT, (bench_sample){read_64, 0, 0});
    bench_add(table, run, CHASE_16, HOT,
              (bench_sample){bench_nodes_chase(links, SIZE_MAX, HOT), 0, 0});
}

static void print_head(void)
{
    printf("ns a block by the number of blocks, beside nodes of 16 and 64 bytes a block\n  %10s "
           "%5s %6s",
           "blocks", "runs", "bytes");
    for (const bench_row *row = rows; row->name; row++) {
        printf(" %13s", row->name);
    }
    printf("\n");
}

static void tell_size(const bench_table *table, uint64_t blocks, double bytes, json_t *list)
{
    if (!list) {
        printf("  %10llu %5zu %6.1f", (unsigned long long)blocks, table->runs, bytes);
        for (size_t row = 0; row < table->n_rows; row++) {
            printf(" %13.1f", bench_median(table, row, HOT));
        }
        printf("\n");
        cli_flush();
        return;
    }
    json_t *one = json_object();
    cli_set(one, "blocks", cli_int(blocks));
    cli_set(one, "runs", cli_int(table->runs));
    cli_set(one, "bytes_per_block", json_real(bytes));
    cli_set(one, "figures", bench_json(table));
    cli_push(list, one);
}

/* Large pools have fewer runs: their operations are many. */
static size_t runs_of(uint64_t blocks, uint64_t runs)
{
    const uint64_t most = 1 + (MAX_OPERATIONS - 1) / blocks;
    return (size_t)(runs < most ? runs : most);
}

static void run_size(uint64_t blocks, size_t runs, json_t *list)
{
    pool_bench b;
    bench_table table;
    open_pool(&b, blocks);
    bench_nodes *links = bench_nodes_new(blocks, 16), *entries = bench_nodes_new(blocks, 64);
    bench_table_init(&table, rows, runs);
    const uint64_t rounds = 1 + MIN_OPERATIONS / blocks;
    double warm[N_ROWS] = {0};
    live(&b, warm);
    for (size_t run = 0; run < runs; run++) {
        double ns[N_ROWS] = {0};
        for (uint64_t r = 0; r < rounds; r++) {
            live(&b, ns);
        }
        add_run(&table, run, ns, (double)(rounds * b.n), links, entries);
    }
    tell_size(&table, blocks, (double)b.heap.bytes / (double)blocks, list);
    bench_table_free(&table);
    bench_nodes_free(links);
    bench_nodes_free(entries);
    close_pool(&b);
}

/* Up to params->blocks, from a thousand on. */
void bench_curve(const bench_params *params, json_t *answer)
{
    json_t *list = answer ? json_array() : NULL;
    if (!list) {
        print_head();
    }
    for (uint64_t blocks = params->blocks < 1000 ? params->blocks : 1000; blocks <= params->blocks;
         blocks *= 10) {
        run_size(blocks, runs_of(blocks, params->runs), list);
    }
    if (list) {
        cli_set(answer, "curve", list);
    }
}
