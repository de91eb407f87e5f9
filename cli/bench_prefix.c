/* bench_prefix.c  pagedkv bench prefix: keys of a prompt, and how long a cached one is looked for.
 *
 * Six caches hold many prompts: one whose keys nobody wants, three with a second group as well (a
 * window; recurrent states; a window beside longer blocks), one whose keys somebody does want,
 * found as chains, and one in which each key is looked for by itself, as where hits end inside
 * blocks.
 * Each prompt was one request; and there is one path that was built by 32 requests: request i has
 * the first i 32nds of it and then tokens of its own. What is looked up is a cached prompt and one
 * token more, so that the hit is the whole prompt. Each sample looks up once, in a sequence of its
 * own.
 *
 * Hot: the same prompt again and again. Cold: all memory of the cache and of the request, another
 * prompt each time. */
#include <stdlib.h>

#include "bench.h"

enum { BRANCHES = 32, HOT_ROUNDS = 15, USUAL_TOKENS = 32768 };

#define COMPARE "memcmp of the tokens"

static const bench_row rows[] = {
    {"one_run", "us/prompt", COMPARE, "4 us for 32,768 tokens", "1.5 memcmp", false},
    {"32_branches", "us/prompt", COMPARE, "8 us for 32,768 tokens", "1.5 memcmp", false},
    {"hybrid_one_run", "us/prompt", COMPARE, "4 us for 32,768 tokens", "1.5 memcmp", false},
    {"hybrid_32_branches", "us/prompt", COMPARE, "8 us for 32,768 tokens", "1.5 memcmp", false},
    {"states_one_run", "us/prompt", COMPARE, "4 us for 32,768 tokens", "1.5 memcmp", false},
    {"sizes_one_run", "us/prompt", COMPARE, "4 us for 32,768 tokens", "1.5 memcmp", false},
    {"open", "us/prompt", "tokens copied", NULL, NULL, false},
    {"open_keys", "us/prompt", "digests, memcmp of the keys", "key chain + 20 ns/block", NULL,
     false},
    {"ready_keys", "us/prompt", "memcmp of the keys", "20 ns/block", NULL, false},
    {"open_index", "us/prompt", "digests, 64 bytes a block", "key chain + 20 ns/block", NULL,
     false},
    {"ready_index", "us/prompt", "64 bytes a block", "20 ns/block", NULL, false},
    {"key_chain", "us/prompt", "digests", NULL, NULL, false},
    {NULL, NULL, NULL, NULL, NULL, false},
};
enum row {
    ONE_RUN,
    BRANCHED,
    HYBRID,
    HYBRID_BRANCHED,
    STATES,
    SIZES,
    OPEN,
    OPEN_KEYS,
    READY_KEYS,
    OPEN_INDEX,
    READY_INDEX,
    KEY_CHAIN
};

typedef struct filled {
    pkv_cache *cache;
    pkv_seq *other; /* a request for the first prompt */
    uint64_t hit;   /* of a prompt */
    bench_heap heap;
} filled;

typedef struct lookup_bench {
    filled plain, hybrid, states, sizes, keyed, indexed;
    int32_t *tokens; /* [n + 1] of the request */
    pkv_key *keys;   /* [blocks] */
    bench_nodes *entries;
    bench_twins twins, key_twins;
    uint64_t n, blocks, prompts, state; /* n: whole blocks */
} lookup_bench;

/* Nanoseconds of a request's parts. */
typedef struct parts {
    double open, lookup;
} parts;

/* ---- caches that are full ---- */

enum { PATH = 1 << 20 }; /* the number of the path of branches */

static void write_prompt(lookup_bench *b, uint64_t prompt)
{
    enum { MIXED = 32 };
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) ^ (prompt << 20);
    for (size_t i = 0; i < MIXED; i++) {
        (void)bench_random(&state);
    }
    bench_tokens(b->tokens, b->n + 1, &state);
}

/* A request that takes what is cached, computes the rest and ends. */
static void serve(filled *f, const int32_t *tokens, uint64_t n)
{
    pkv_hit hit;
    pkv_seq *seq = bench_open(f->cache, tokens, n, NULL, 0);
    bench_need(pkv_seq_lookup(seq, &hit) == PKV_OK, "lookup");
    (void)bench_allocate(seq, n - hit.tokens);
    bench_close(seq);
}

/* Each request goes on with the path where the one before has left it. */
static void fill_branches(lookup_bench *b, filled *f)
{
    const uint64_t branches = b->blocks < BRANCHES ? b->blocks : BRANCHES;
    const uint64_t part = b->blocks / branches * BENCH_UNIT;
    for (uint64_t i = 1; i <= branches; i++) {
        const uint64_t shared = i < branches ? i * part : b->n;
        write_prompt(b, PATH);
        bench_tokens(b->tokens + shared, part, &b->state);
        serve(f, b->tokens, shared + part);
    }
}

/* Half of the prompts, the path, the other half; and the other request's prompt, which is 0. No
 * path where states are, which are there when a step has run, and where hits are longer than units.
 */
static void fill(lookup_bench *b, filled *f, pkv_index index, bench_layers layers)
{
    const uint64_t longest = layers == BENCH_SIZES ? 2 * BENCH_UNIT : BENCH_UNIT;
    const bool two = layers != BENCH_FULL;
    f->cache = bench_cache(&(bench_cache_params){
        .blocks = (b->prompts + 4) * b->blocks * (two ? 2 : 1) + 1, /* a path has two prompts' */
        .max_model_len = 2 * b->n + BENCH_UNIT,
        .caching = true,
        .layers = layers,
        .dense = two,
        .index = index,
        .heap = &f->heap});
    f->hit = b->n / longest * longest;
    bench_scramble(f->cache, &b->state);
    for (uint64_t i = 0; i <= b->prompts; i++) {
        if (i == b->prompts / 2 && layers <= BENCH_WINDOW) {
            fill_branches(b, f);
        }
        write_prompt(b, i);
        serve(f, b->tokens, b->n);
    }
    write_prompt(b, 0);
    f->other = bench_open(f->cache, b->tokens, b->n + 1, NULL, 0);
}

static void lookup_init(lookup_bench *b, const bench_params *params)
{
    *b = (lookup_bench){.blocks = params->tokens / BENCH_UNIT, .prompts = params->prompts};
    b->n = b->blocks * BENCH_UNIT;
    b->state = 41;
    b->tokens = bench_memory(2 * b->n + BENCH_UNIT, sizeof *b->tokens);
    b->keys = bench_memory(b->blocks, sizeof *b->keys);
    b->entries = bench_nodes_new((b->prompts + 4) * b->blocks, 64);
    bench_twins_init(&b->twins, b->n * sizeof *b->tokens, b->prompts);
    bench_twins_init(&b->key_twins, b->blocks * sizeof *b->keys, b->prompts);
    fill(b, &b->plain, PKV_INDEX_AUTO, BENCH_FULL);
    fill(b, &b->hybrid, PKV_INDEX_AUTO, BENCH_WINDOW);
    fill(b, &b->states, PKV_INDEX_AUTO, BENCH_STATES);
    fill(b, &b->sizes, PKV_INDEX_AUTO, BENCH_SIZES);
    fill(b, &b->keyed, PKV_INDEX_CHAINS, BENCH_FULL);
    fill(b, &b->indexed, PKV_INDEX_KEYS, BENCH_FULL);
}

static void lookup_end(lookup_bench *b)
{
    filled *const all[] = {&b->plain, &b->hybrid, &b->states, &b->sizes, &b->keyed, &b->indexed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bench_close(all[i]->other);
        pkv_cache_destroy(all[i]->cache);
        bench_heap_free(&all[i]->heap);
    }
    bench_nodes_free(b->entries);
    bench_twins_free(&b->twins);
    bench_twins_free(&b->key_twins);
    free(b->tokens);
    free(b->keys);
}

/* ---- figures ---- */

static void chill_if(const lookup_bench *b, const filled *f, bool cold)
{
    if (cold) {
        bench_chill_heap(&f->heap);
        bench_chill(b->tokens, (b->n + 1) * sizeof *b->tokens);
        bench_chill(b->keys, b->blocks * sizeof *b->keys);
        bench_chilled();
    }
}

/* One request for the prompt in b->tokens. `between`: open is followed by flushing, too, and that
 * by another request's lookup, as if many had come one after the other: what all of them need is
 * warm again, and the prompt and its part of the index are as cold as they were. */
static parts request(lookup_bench *b, filled *f, bench_set set, const pkv_key *keys, bool between)
{
    pkv_hit hit;
    parts p;
    chill_if(b, f, set == COLD);
    const double start = bench_now();
    pkv_seq *seq = bench_open(f->cache, b->tokens, b->n + 1, keys, b->blocks);
    p.open = bench_now() - start;
    chill_if(b, f, set == COLD && between);
    if (set == COLD && between) {
        bench_need(pkv_seq_lookup(f->other, &hit) == PKV_OK, "lookup");
    }
    const double looking = bench_now();
    const pkv_status status = pkv_seq_lookup(seq, &hit);
    p.lookup = bench_now() - looking;
    bench_need(status == PKV_OK && hit.tokens == f->hit, "the hit is gone");
    bench_close(seq);
    return p;
}

/* The median of some requests; a cold one is for any of the prompts, or for the path. */
static parts requests(lookup_bench *b, filled *f, bench_set set, bool path, bool ready,
                      bool between)
{
    double opens[HOT_ROUNDS], lookups[HOT_ROUNDS];
    const size_t rounds = set == HOT ? HOT_ROUNDS : 1;
    write_prompt(b, path ? PATH : set == HOT ? 1 : 1 + bench_random(&b->state) % b->prompts);
    if (ready) {
        (void)bench_key_chain(b->tokens, b->n, b->keys);
    }
    if (set == HOT) {
        (void)request(b, f, set, ready ? b->keys : NULL, between);
    }
    for (size_t i = 0; i < rounds; i++) {
        const parts p = request(b, f, set, ready ? b->keys : NULL, between);
        opens[i] = p.open;
        lookups[i] = p.lookup;
    }
    return (parts){bench_quantile(opens, rounds, 0.5), bench_quantile(lookups, rounds, 0.5)};
}

static double chain(lookup_bench *b, bench_set set)
{
    write_prompt(b, 0);
    if (set == COLD) {
        bench_chill(b->tokens, b->n * sizeof *b->tokens);
        bench_chilled();
    } else {
        (void)bench_key_chain(b->tokens, b->n, b->keys);
    }
    return bench_key_chain(b->tokens, b->n, b->keys);
}

static void add_us(bench_table *table, size_t run, size_t row, bench_set set, bench_sample ns)
{
    bench_add(table, run, row, set,
              (bench_sample){ns.value / BENCH_US, ns.ceiling / BENCH_US, ns.bound / BENCH_US});
}

/* Where keys are wanted: a request that computes its own, the lookup of one that brings them. */
typedef struct wanted {
    double open, ready;
} wanted;

static wanted wanted_requests(lookup_bench *b, filled *f, bench_set set)
{
    const parts p = requests(b, f, set, false, false, false);
    return (wanted){p.open + p.lookup, requests(b, f, set, false, true, true).lookup};
}

static void run_once(lookup_bench *b, bench_table *table, size_t run, bench_set set)
{
    const double blocks = (double)b->blocks, usual = (double)b->n / USUAL_TOKENS * BENCH_US;
    const double memcmp_ns = bench_compare(&b->twins, set);
    const double key_memcmp = bench_compare(&b->key_twins, set);
    const double copy = bench_copy(&b->twins, set);
    const double entries = blocks * bench_nodes_read(b->entries, b->blocks, set);
    const parts one_run = requests(b, &b->plain, set, false, false, true);
    const parts branched = requests(b, &b->plain, set, true, false, true);
    const parts hybrid = requests(b, &b->hybrid, set, false, false, true);
    const parts hybrid_branched = requests(b, &b->hybrid, set, true, false, true);
    const parts states = requests(b, &b->states, set, false, false, true);
    const parts sizes = requests(b, &b->sizes, set, false, false, true);
    const wanted keyed = wanted_requests(b, &b->keyed, set);
    const wanted indexed = wanted_requests(b, &b->indexed, set);
    const double keys = chain(b, set);
    const double digests =
        blocks * bench_digest(b->tokens, b->blocks, PKV_HASH_SHA256_CBOR, BENCH_ALONE, set);
    const bool hot = set == HOT;
    const double run_bound = hot ? 4 * usual : 1.5 * memcmp_ns;
    const double path_bound = hot ? 8 * usual : 1.5 * memcmp_ns;
    add_us(table, run, ONE_RUN, set, (bench_sample){one_run.lookup, memcmp_ns, run_bound});
    add_us(table, run, BRANCHED, set, (bench_sample){branched.lookup, memcmp_ns, path_bound});
    add_us(table, run, HYBRID, set, (bench_sample){hybrid.lookup, memcmp_ns, run_bound});
    add_us(table, run, HYBRID_BRANCHED, set,
           (bench_sample){hybrid_branched.lookup, memcmp_ns, path_bound});
    add_us(table, run, STATES, set, (bench_sample){states.lookup, memcmp_ns, run_bound});
    add_us(table, run, SIZES, set, (bench_sample){sizes.lookup, memcmp_ns, run_bound});
    add_us(table, run, OPEN, set, (bench_sample){one_run.open, copy, 0});
    add_us(table, run, OPEN_KEYS, set,
           (bench_sample){keyed.open, digests + key_memcmp, keys + 20 * blocks});
    add_us(table, run, READY_KEYS, set, (bench_sample){keyed.ready, key_memcmp, 20 * blocks});
    add_us(table, run, OPEN_INDEX, set,
           (bench_sample){indexed.open, digests + entries, keys + 20 * blocks});
    add_us(table, run, READY_INDEX, set, (bench_sample){indexed.ready, entries, 20 * blocks});
    add_us(table, run, KEY_CHAIN, set, (bench_sample){keys, digests, 0});
}

static void bench_lookups(const bench_params *params, json_t *answer)
{
    char title[160];
    lookup_bench b;
    bench_table table;
    lookup_init(&b, params);
    bench_table_init(&table, rows, params->runs);
    for (size_t run = 0; run < params->runs; run++) {
        run_once(&b, &table, run, HOT);
        run_once(&b, &table, run, COLD);
    }
    (void)snprintf(title, sizeof title,
                   "lookups of a cached prompt of %llu tokens; %llu prompts and a path of %d "
                   "branches are cached, %.0f MB",
                   (unsigned long long)b.n, (unsigned long long)b.prompts, BRANCHES,
                   (double)b.plain.heap.bytes / 1e6);
    if (answer) {
        cli_set(answer, "index_bytes", cli_int(b.plain.heap.bytes));
    }
    bench_tell(&table, answer, "lookups", title);
    bench_table_free(&table);
    lookup_end(&b);
}

void bench_prefix(const bench_params *params, json_t *answer)
{
    bench_keys(params, answer);
    bench_lookups(params, answer);
}
