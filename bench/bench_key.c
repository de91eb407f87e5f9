/* bench_key.c  How long a key takes, beside the digest alone.
 *
 *  The ceiling, measured in the same run: a chain of digests of messages of the same lengths, each
 *  of which holds the digest before, by the same library; nothing is written into them but that.
 *  For SHA-256 that is the fastest way that libcrypto has; SHA256(), its documented one-shot call,
 *  stands beside it. Ratios are medians of many runs, ceilings and keys in turn.
 *
 *  Usage: bench_key [TOKENS] */
#define _POSIX_C_SOURCE 200809L
#define OPENSSL_SUPPRESS_DEPRECATED

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/sha.h>
#include <xxhash.h>

#include <pkv/key.h>

enum { RUNS = 41, MAX_MESSAGE = 65536 };

/* One size of units of one function. */
typedef struct subject {
    uint32_t hash;
    size_t unit, n_units;
    const int32_t *tokens;
    size_t *message_bytes; /* [n_units] */
    pkv_key *keys;
    pkv_hasher *hasher;
    uint8_t *message;
} subject;

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "bench_key: %s: %s\n", what, pkv_last_error());
        exit(1);
    }
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- what is timed ---- */

static void run_chain(subject *s)
{
    require(pkv_key_chain(s->hasher, NULL, s->tokens, s->unit * s->n_units, s->unit, 0, 0,
                          s->n_units, NULL, s->keys) == PKV_OK,
            "pkv_key_chain");
}

static void run_sha256(subject *s)
{
    for (size_t i = 0; i < s->n_units; i++) {
        SHA256_CTX ctx;
        (void)SHA256_Init(&ctx);
        (void)SHA256_Update(&ctx, s->message, s->message_bytes[i]);
        (void)SHA256_Final(s->message + 3, &ctx);
        memcpy(s->keys[i].bytes, s->message + 3, 32);
    }
}

static void run_sha256_one_shot(subject *s)
{
    for (size_t i = 0; i < s->n_units; i++) {
        (void)SHA256(s->message, s->message_bytes[i], s->message + 3);
        memcpy(s->keys[i].bytes, s->message + 3, 32);
    }
}

static void run_xxh3(subject *s)
{
    for (size_t i = 0; i < s->n_units; i++) {
        XXH128_canonical_t digest;
        XXH128_canonicalFromHash(&digest, XXH3_128bits(s->message, s->message_bytes[i]));
        memcpy(s->message + 8, &digest, 8); /* in halves, as they were stored */
        memcpy(s->message + 16, digest.digest + 8, 8);
        memcpy(s->keys[i].bytes, &digest, 16);
    }
}

/* ---- what a message takes ---- */

static size_t cbor_head(size_t n)
{
    return n < 24 ? 1 : n < 256 ? 2 : n < 65536 ? 3 : 5;
}

static size_t message_bytes(const subject *s, size_t unit)
{
    const size_t key = pkv_hash_key_bytes(s->hash);
    if (s->hash == PKV_HASH_PKV_SHA256 || s->hash == PKV_HASH_PKV_XXH3) {
        return 16 + key + 4 * s->unit;
    }
    size_t bytes = 1 + cbor_head(key) + key + cbor_head(s->unit) + 1;
    for (size_t i = 0; i < s->unit; i++) {
        bytes += cbor_head((size_t)s->tokens[unit * s->unit + i]);
    }
    return bytes;
}

/* ---- the table ---- */

static double time_of(subject *s, void (*run)(subject *))
{
    const double start = now_ns();
    run(s);
    return (now_ns() - start) / (double)s->n_units;
}

static double median(double *values)
{
    qsort(values, RUNS, sizeof *values, by_size);
    return values[RUNS / 2];
}

static void measure(subject *s)
{
    double chain[RUNS], ceiling[RUNS], one_shot[RUNS];
    const bool sha = pkv_hash_key_bytes(s->hash) == 32;
    for (size_t i = 0; i < s->n_units; i++) {
        s->message_bytes[i] = message_bytes(s, i);
        require(s->message_bytes[i] <= MAX_MESSAGE, "a message is too long");
    }
    for (int run = -2; run < RUNS; run++) { /* two to warm up */
        const int at = run < 0 ? 0 : run;
        chain[at] = time_of(s, run_chain);
        ceiling[at] = time_of(s, sha ? run_sha256 : run_xxh3);
        one_shot[at] = sha ? time_of(s, run_sha256_one_shot) : 0;
    }
    const double key = median(chain), digest = median(ceiling), slow = median(one_shot);
    printf("%-12s %5zu %8zu %9.1f %9.1f %6.0f%%", pkv_hash_name(s->hash), s->unit,
           s->message_bytes[0], key, digest, 100 * digest / key);
    if (sha) {
        printf(" %9.1f %6.0f%%", slow, 100 * slow / key);
    } else {
        printf(" %9s %7s", "", "");
    }
    printf(" %9.0f\n", (double)s->unit / key * 1e3);
}

int main(int argc, char **argv)
{
    static const size_t units[] = {16, 32, 64, 128, 256, 512};
    const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 131072;
    subject s = {0};
    int32_t *tokens = calloc(n + 1, sizeof *tokens);
    s.message_bytes = calloc(n + 1, sizeof *s.message_bytes);
    s.keys = calloc(n + 1, sizeof *s.keys);
    s.message = calloc(MAX_MESSAGE, 1);
    require(n >= 512 && tokens && s.message_bytes && s.keys && s.message, "memory, 512 tokens");
    uint64_t state = 1;
    for (size_t i = 0; i < n; i++) { /* ids of a vocabulary of 128256 */
        state = (state * 1664525 + 1013904223) & UINT32_MAX;
        tokens[i] = (int32_t)((state >> 8) % 128256);
    }
    s.tokens = tokens;
    printf("keys of %zu tokens; nanoseconds of one key and of one digest of its length\n\n", n);
    printf("%-12s %5s %8s %9s %9s %7s %9s %7s %9s\n", "function", "unit", "message", "key",
           "digest", "ratio", "SHA256()", "ratio", "Mtokens/s");
    for (s.hash = 0; s.hash < PKV_N_HASHES; s.hash++) {
        pkv_hasher_params params;
        pkv_hasher_params_init(&params);
        params.hash = s.hash;
        require(pkv_hasher_create(&params, &s.hasher) == PKV_OK, "pkv_hasher_create");
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
            s.unit = units[i];
            s.n_units = n / s.unit;
            measure(&s);
        }
        pkv_hasher_destroy(s.hasher);
    }
    free(s.message);
    free(s.keys);
    free(s.message_bytes);
    free(tokens);
    return 0;
}
