/* bench_keys.c  Keys of a prompt, beside the digests alone of messages of the same lengths. */
#include <stdlib.h>

#include "bench.h"

enum { ROUNDS = 7 };

typedef struct kind {
    uint32_t hash;
    bench_how how;
    double share; /* of the digests that is demanded */
} kind;

#define ALONE "one-shot digests"
#define CHAINED "one-shot digests, each of the one before"
#define INLINE "the same, XXH3 compiled in"

static const bench_row rows[] = {
    {"sha256_cbor", "ns/key", ALONE, "digests / 0.9", NULL, false},
    {"sha256_cbor_chain", "ns/key", CHAINED, "digests / 0.9", NULL, false},
    {"xxhash_cbor", "ns/key", ALONE, "digests / 0.9", NULL, false},
    {"xxhash_cbor_chain", "ns/key", CHAINED, "digests / 0.9", NULL, false},
    {"xxhash_cbor_inline", "ns/key", INLINE, "digests / 0.9", NULL, false},
    {"pkv_xxh3_chain", "ns/key", CHAINED, "digests / 0.8", NULL, false},
    {"pkv_xxh3_inline", "ns/key", INLINE, "digests / 0.8", NULL, false},
    {NULL, NULL, NULL, NULL, NULL, false},
};

static const kind kinds[] = {
    {PKV_HASH_SHA256_CBOR, BENCH_ALONE, 0.9},          {PKV_HASH_SHA256_CBOR, BENCH_CHAINED, 0.9},
    {PKV_HASH_XXHASH_CBOR, BENCH_ALONE, 0.9},          {PKV_HASH_XXHASH_CBOR, BENCH_CHAINED, 0.9},
    {PKV_HASH_XXHASH_CBOR, BENCH_CHAINED_INLINE, 0.9}, {PKV_HASH_PKV_XXH3, BENCH_CHAINED, 0.8},
    {PKV_HASH_PKV_XXH3, BENCH_CHAINED_INLINE, 0.8},
};

typedef struct keys_bench {
    int32_t *tokens; /* [n] */
    pkv_key *keys;   /* [n_keys] */
    uint64_t n, n_keys;
} keys_bench;

static double chain(const keys_bench *b, pkv_hasher *hasher, bench_set set)
{
    if (set == COLD) {
        bench_chill(b->tokens, b->n * sizeof *b->tokens);
        bench_chill(b->keys, b->n_keys * sizeof *b->keys);
        bench_chilled();
    }
    const double start = bench_now();
    bench_need(pkv_key_chain(hasher, NULL, b->tokens, b->n, BENCH_UNIT, 0, 0, b->n_keys, NULL,
                             b->keys) == PKV_OK,
               "keys");
    return (bench_now() - start) / (double)b->n_keys;
}

static bench_sample sample(const keys_bench *b, const kind *k, bench_set set)
{
    double values[ROUNDS], digests[ROUNDS];
    pkv_hasher *hasher;
    pkv_hasher_params params;
    pkv_hasher_params_init(&params);
    params.hash = k->hash;
    bench_need(pkv_hasher_create(&params, &hasher) == PKV_OK, "hasher");
    for (size_t i = 0; i < ROUNDS; i++) {
        values[i] = chain(b, hasher, set);
        digests[i] = bench_digest(b->tokens, b->n_keys, k->hash, k->how, set);
    }
    pkv_hasher_destroy(hasher);
    const double digest = bench_quantile(digests, ROUNDS, 0.5);
    return (bench_sample){bench_quantile(values, ROUNDS, 0.5), digest, digest / k->share};
}

void bench_keys(const bench_params *params, json_t *answer)
{
    uint64_t state = 13;
    keys_bench b = {.n = params->tokens, .n_keys = params->tokens / BENCH_UNIT};
    bench_table table;
    b.tokens = bench_memory(b.n, sizeof *b.tokens);
    b.keys = bench_memory(b.n_keys, sizeof *b.keys);
    bench_tokens(b.tokens, b.n, &state);
    bench_table_init(&table, rows, params->runs);
    for (size_t run = 0; run < params->runs; run++) {
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            bench_add(&table, run, i, HOT, sample(&b, &kinds[i], HOT));
            bench_add(&table, run, i, COLD, sample(&b, &kinds[i], COLD));
        }
    }
    bench_tell(&table, answer, "keys",
               "keys of a prompt: pkv_key_chain() beside libcrypto and libxxhash alone");
    bench_table_free(&table);
    free(b.tokens);
    free(b.keys);
}
