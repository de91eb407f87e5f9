/* bench_prefix.c  pagedkv bench prefix: what a request costs that hits a long prefix.
 *
 * A cache of 131,072 blocks is full of other content, handed out to many sequences in turn. One
 * prompt is in it; requests for it come in: open (which computes its keys), look up, allocate
 * (which looks up once more, and takes the hit), close. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { UNIT = 16, MIN_TOKENS = 524288 };

enum row {
    OPEN_SHA256,
    OPEN_XXH3,
    LOOKUP,
    ALLOCATE,
    CLOSE,
    REQUEST_SHA256,
    REQUEST_XXH3,
    REQUEST_READY,
    N_ROWS
};

static const bench_row rows[] = {
    {"open_sha256_cbor", "key", "digests of the same bytes by libcrypto", NULL, NULL},
    {"open_pkv_xxh3", "key", "digests of the same bytes by libxxhash", NULL, NULL},
    {"lookup", "block", "read_16, read_64: slot, entry", NULL, NULL},
    {"allocate", "block", "2 read_16, read_64: lookup, node", NULL, NULL},
    {"close", "block", "read_16: node", NULL, NULL},
    {"request_sha256", "request", "digests, 2 read_16 and read_64 a block", NULL, NULL},
    {"request_xxh3", "request", "digests, 2 read_16 and read_64 a block", NULL, NULL},
    {"request_ready", "request", "keys are there: 2 read_16, read_64 a block", NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

typedef struct hit_bench {
    pkv_cache *sha, *xxh3;
    int32_t *tokens; /* [n] */
    pkv_key *keys;   /* [n_keys] by SHA-256 */
    uint64_t n, n_keys, hit;
} hit_bench;

/* Nanoseconds of the parts of one request. */
typedef struct parts {
    double open, lookup, allocate, close;
} parts;

static parts run_request(const hit_bench *b, pkv_cache *cache, const pkv_key *keys)
{
    pkv_hit hit;
    double at[5];
    at[0] = bench_now();
    pkv_seq *seq = bench_open(cache, b->tokens, b->n, keys, b->n_keys);
    at[1] = bench_now();
    bench_need(pkv_seq_lookup(seq, &hit) == PKV_OK && hit.tokens == b->hit, "lookup");
    at[2] = bench_now();
    bench_need(bench_allocate(seq, b->n - b->hit) == b->hit, "the hit is gone");
    at[3] = bench_now();
    bench_need(pkv_seq_close(seq, false) == PKV_OK, "close");
    at[4] = bench_now();
    return (parts){at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3]};
}

/* ---- a cache that is full ---- */

/* Sequences grow in turn, so that the blocks of each lie apart. `prompt`: that of the first one. */
static void fill_once(const hit_bench *b, pkv_cache *cache, uint64_t crowd, const int32_t *prompt,
                      uint64_t *state)
{
    int32_t *tokens = bench_memory(b->n, sizeof *tokens);
    pkv_seq **seqs = bench_memory(crowd, sizeof(pkv_seq *));
    for (uint64_t i = 0; i < crowd; i++) {
        bench_tokens(tokens, b->n, state);
        seqs[i] = bench_open(cache, i == 0 && prompt ? prompt : tokens, b->n, NULL, 0);
    }
    for (uint64_t k = 0; k < b->n; k += UNIT) {
        for (uint64_t i = 0; i < crowd; i++) {
            (void)bench_allocate(seqs[i], UNIT);
        }
    }
    for (uint64_t i = 0; i < crowd; i++) {
        bench_need(pkv_seq_close(seqs[i], false) == PKV_OK, "close");
    }
    free(seqs);
    free(tokens);
}

static pkv_cache *full_cache(const hit_bench *b, uint32_t hash, uint64_t blocks)
{
    enum { CROWD = 32 };
    const uint64_t most = blocks / 2 / (b->n / UNIT), crowd = most < CROWD ? most : CROWD;
    uint64_t state = 7;
    pkv_cache *cache = bench_cache(&(bench_cache_params){
        .hash = hash, .blocks = blocks, .max_model_len = b->n, .caching = true});
    for (uint64_t done = 0; done < blocks; done += crowd * (b->n / UNIT)) {
        fill_once(b, cache, crowd, NULL, &state);
    }
    fill_once(b, cache, crowd, b->tokens, &state);
    return cache;
}

static uint64_t blocks_for(uint64_t tokens)
{
    enum { USUAL = 131072 };
    return tokens / UNIT * 8 > USUAL ? tokens / UNIT * 8 : USUAL;
}

static void open_bench(hit_bench *b, uint64_t tokens)
{
    uint64_t state = 3, n_keys;
    *b = (hit_bench){.hit = tokens / UNIT * UNIT};
    b->n = b->hit + UNIT; /* the last block is always computed */
    b->n_keys = b->n / UNIT;
    b->tokens = bench_memory(b->n, sizeof *b->tokens);
    b->keys = bench_memory(b->n_keys, sizeof *b->keys);
    bench_tokens(b->tokens, b->n, &state);
    b->sha = full_cache(b, PKV_HASH_SHA256_CBOR, blocks_for(tokens));
    b->xxh3 = full_cache(b, PKV_HASH_PKV_XXH3, blocks_for(tokens));
    pkv_seq *seq = bench_open(b->sha, b->tokens, b->n, NULL, 0);
    const pkv_key *keys = pkv_seq_keys(seq, &n_keys);
    bench_need(n_keys == b->n_keys, "keys");
    memcpy(b->keys, keys, n_keys * sizeof *keys);
    bench_need(pkv_seq_close(seq, false) == PKV_OK, "close");
}

static void close_bench(hit_bench *b)
{
    pkv_cache_destroy(b->sha);
    pkv_cache_destroy(b->xxh3);
    free(b->tokens);
    free(b->keys);
}

/* ---- figures ---- */

static void add_parts(parts *sum, parts one)
{
    sum->open += one.open;
    sum->lookup += one.lookup;
    sum->allocate += one.allocate;
    sum->close += one.close;
}

static double whole(parts p)
{
    return p.open + p.lookup + p.allocate + p.close;
}

static void run_once(const hit_bench *b, bench_table *table, size_t run,
                     const bench_memory_speeds *m)
{
    const uint64_t rounds = 1 + MIN_TOKENS / b->n;
    const double n = (double)rounds, keys = n * (double)b->n_keys;
    parts sha = {0, 0, 0, 0}, xxh3 = sha, ready = sha;
    double digest_sha = 0, digest_xxh3 = 0;
    for (uint64_t r = 0; r < rounds; r++) {
        add_parts(&sha, run_request(b, b->sha, NULL));
        digest_sha += bench_digest(b->tokens, b->n_keys, UNIT, true) / n;
        add_parts(&xxh3, run_request(b, b->xxh3, NULL));
        digest_xxh3 += bench_digest(b->tokens, b->n_keys, UNIT, false) / n;
        add_parts(&ready, run_request(b, b->sha, b->keys));
    }
    const double lookup = m->by_16.read_ns + m->by_64.read_ns, adopt = lookup + m->by_16.read_ns;
    const double per_request = (double)b->n_keys;
    bench_add(table, run, OPEN_SHA256, sha.open / keys, digest_sha);
    bench_add(table, run, OPEN_XXH3, xxh3.open / keys, digest_xxh3);
    bench_add(table, run, LOOKUP, ready.lookup / keys, lookup);
    bench_add(table, run, ALLOCATE, ready.allocate / keys, adopt);
    bench_add(table, run, CLOSE, ready.close / keys, m->by_16.read_ns);
    bench_add(table, run, REQUEST_SHA256, whole(sha) / n, per_request * (digest_sha + adopt));
    bench_add(table, run, REQUEST_XXH3, whole(xxh3) / n, per_request * (digest_xxh3 + adopt));
    bench_add(table, run, REQUEST_READY, whole(ready) / n, per_request * adopt);
}

static void tell(const bench_table *table, const bench_table *speeds, uint64_t tokens,
                 uint64_t blocks, json_t *list)
{
    const double sha = 1e9 / bench_median(table, OPEN_SHA256);
    const double xxh3 = 1e9 / bench_median(table, OPEN_XXH3);
    const double looked_up = UNIT * 1e3 / bench_median(table, LOOKUP);
    if (!list) {
        printf("a hit of %llu tokens, blocks of 16, in a full cache of %llu blocks\n"
               "  keys a second: %.2f million by sha256_cbor, %.2f million by pkv_xxh3\n"
               "  tokens looked up with ready keys: %.0f a microsecond\n",
               (unsigned long long)tokens, (unsigned long long)blocks, sha / 1e6, xxh3 / 1e6,
               looked_up);
        bench_print(speeds);
        bench_print(table);
        return;
    }
    json_t *one = json_object();
    cli_set(one, "tokens", cli_int(tokens));
    cli_set(one, "blocks", cli_int(blocks));
    cli_set(one, "sha256_cbor_keys_per_second", json_real(sha));
    cli_set(one, "pkv_xxh3_keys_per_second", json_real(xxh3));
    cli_set(one, "lookup_tokens_per_us", json_real(looked_up));
    cli_set(one, "memory", bench_json(speeds));
    cli_set(one, "figures", bench_json(table));
    cli_push(list, one);
}

static void run_hits(uint64_t tokens, size_t runs, json_t *list)
{
    hit_bench b;
    bench_table table, speeds;
    open_bench(&b, tokens);
    bench_ground *ground = bench_ground_new(blocks_for(tokens));
    bench_table_init(&table, rows, runs);
    bench_table_init(&speeds, bench_memory_rows, runs);
    for (size_t run = 0; run < runs; run++) {
        const bench_memory_speeds m = bench_ground_run(ground, &speeds, run);
        run_once(&b, &table, run, &m);
    }
    tell(&table, &speeds, b.hit, blocks_for(tokens), list);
    bench_table_free(&speeds);
    bench_table_free(&table);
    bench_ground_free(ground);
    close_bench(&b);
}

void bench_prefix(const bench_params *params, json_t *answer)
{
    static const uint64_t usual[] = {1024, 8192, 65536};
    json_t *list = params->json ? json_array() : NULL;
    for (size_t i = 0; params->size == 0 && i < sizeof usual / sizeof *usual; i++) {
        run_hits(usual[i], params->runs, list);
    }
    if (params->size != 0) {
        run_hits(params->size, params->runs, list);
    }
    if (list) {
        cli_set(answer, "hits", list);
    }
    bench_steps(params, answer);
}
