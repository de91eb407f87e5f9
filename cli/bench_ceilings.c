/* bench_ceilings.c  What the machine can do: memory in lines of 64 bytes, and digests. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>
#include <xxhash.h>

#include "bench.h"

enum { WORDS = 8, MIN_LINES = 16, MIN_STEPS = 100000 };

/* Word 0 of a line names the next one of the chase, which visits all lines once. */
typedef struct lines {
    uint64_t (*lines)[WORDS]; /* [n] */
    uint64_t (*copy)[WORDS];  /* [n] */
    uint32_t *order;          /* [n] */
    size_t n;
    volatile uint64_t sink;
} lines;

static lines *lines_new(size_t bytes)
{
    uint64_t state = 88172645463325252u;
    lines *l = bench_memory(1, sizeof *l);
    l->n = bytes / 64 > MIN_LINES ? bytes / 64 : MIN_LINES;
    l->lines = aligned_alloc(64, l->n * sizeof *l->lines);
    l->copy = aligned_alloc(64, l->n * sizeof *l->copy);
    l->order = bench_memory(l->n, sizeof *l->order);
    bench_need(l->lines && l->copy, "out of memory");
    memset(l->lines, 0, l->n * sizeof *l->lines);
    memset(l->copy, 0, l->n * sizeof *l->copy);
    bench_shuffle(l->order, l->n, 0, &state);
    for (size_t i = 0; i < l->n; i++) {
        l->lines[l->order[i]][0] = l->order[(i + 1) % l->n];
    }
    bench_shuffle(l->order, l->n, 0, &state); /* reads go another way */
    return l;
}

static void lines_free(lines *l)
{
    free(l->lines);
    free(l->copy);
    free(l->order);
    free(l);
}

static double time_reads(lines *l, size_t rounds)
{
    uint64_t sum = 0;
    const double start = bench_now();
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < l->n; i++) {
            const uint64_t *line = l->lines[l->order[i]];
            for (size_t w = 0; w < WORDS; w++) {
                sum += line[w];
            }
        }
    }
    const double end = bench_now();
    l->sink = sum;
    return (end - start) / (double)(rounds * l->n);
}

static double time_chase(lines *l, size_t rounds)
{
    uint64_t at = 0;
    const double start = bench_now();
    for (size_t i = 0; i < rounds * l->n; i++) {
        at = l->lines[at][0];
    }
    const double end = bench_now();
    l->sink = at;
    return (end - start) / (double)(rounds * l->n);
}

/* The compiler must not see that all copies but the last are unused. */
static void *(*volatile copy_bytes)(void *to, const void *from, size_t n) = memcpy;

static bench_speed lines_run(lines *l)
{
    const size_t rounds = 1 + MIN_STEPS / l->n;
    bench_speed speed = {time_reads(l, rounds), time_chase(l, rounds), 0};
    const double start = bench_now();
    for (size_t r = 0; r < rounds; r++) {
        (void)copy_bytes(l->copy, l->lines, l->n * sizeof *l->lines);
    }
    speed.copy_ns = (bench_now() - start) / (double)(rounds * l->n);
    return speed;
}

struct bench_ground {
    lines *by_4, *by_16, *by_64;
};

bench_ground *bench_ground_new(uint64_t blocks)
{
    bench_ground *ground = bench_memory(1, sizeof *ground);
    ground->by_4 = lines_new(4 * blocks);
    ground->by_16 = lines_new(16 * blocks);
    ground->by_64 = lines_new(64 * blocks);
    return ground;
}

void bench_ground_free(bench_ground *ground)
{
    lines_free(ground->by_4);
    lines_free(ground->by_16);
    lines_free(ground->by_64);
    free(ground);
}

const bench_row bench_memory_rows[] = {
    {"read_4", "line", NULL, NULL, NULL},    {"chase_4", "line", NULL, NULL, NULL},
    {"read_16", "line", NULL, NULL, NULL},   {"chase_16", "line", NULL, NULL, NULL},
    {"read_64", "line", NULL, NULL, NULL},   {"chase_64", "line", NULL, NULL, NULL},
    {"memcpy_64", "line", NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL},
};

bench_memory_speeds bench_ground_run(bench_ground *ground, bench_table *table, size_t run)
{
    const bench_memory_speeds m = {lines_run(ground->by_4), lines_run(ground->by_16),
                                   lines_run(ground->by_64)};
    const double ns[] = {m.by_4.read_ns,  m.by_4.chase_ns,  m.by_16.read_ns, m.by_16.chase_ns,
                         m.by_64.read_ns, m.by_64.chase_ns, m.by_64.copy_ns};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++) {
        bench_add(table, run, i, ns[i], 0);
    }
    return m;
}

/* ---- digests ---- */

static size_t cbor_head(size_t n)
{
    return n < 24 ? 1 : n < 256 ? 2 : n < 65536 ? 3 : 5;
}

/* Bytes that a key of sha256_cbor (32) digests, or one of pkv_xxh3. docs/formats/keys.md */
static size_t message_bytes(const int32_t *tokens, size_t unit, bool sha)
{
    if (!sha) {
        return 16 + 16 + 4 * unit;
    }
    size_t bytes = 1 + cbor_head(32) + 32 + cbor_head(unit) + 1;
    for (size_t i = 0; i < unit; i++) {
        bytes += cbor_head((size_t)tokens[i]);
    }
    return bytes;
}

double bench_digest(const int32_t *tokens, size_t n_keys, size_t unit, bool sha)
{
    size_t *lengths = bench_memory(n_keys, sizeof *lengths);
    uint8_t *message = bench_memory(64 + 5 * unit, 1);
    for (size_t i = 0; i < n_keys; i++) {
        lengths[i] = message_bytes(tokens + i * unit, unit, sha);
    }
    const double start = bench_now();
    for (size_t i = 0; i < n_keys; i++) {
        if (sha) {
            SHA256_CTX ctx;
            (void)SHA256_Init(&ctx);
            (void)SHA256_Update(&ctx, message, lengths[i]);
            (void)SHA256_Final(message + 3, &ctx); /* the next message holds this digest */
        } else {
            XXH128_canonical_t digest;
            XXH128_canonicalFromHash(&digest, XXH3_128bits(message, lengths[i]));
            memcpy(message + 16, &digest, sizeof digest);
        }
    }
    const double ns = (bench_now() - start) / (double)n_keys;
    free(message);
    free(lengths);
    return ns;
}
