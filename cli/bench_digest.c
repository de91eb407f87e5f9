/* bench_digest.c  Digests alone, of messages as long as those of keys. Nothing is written into them
 * but, in a chain, the digest before; cold ones are read out of memory, as keys read their tokens.
 * SHA-256 is libcrypto's, by the calls that look nothing up by name. XXH3 is called in libxxhash,
 * or compiled in from its header, as the library does it: a call costs about as much as a short
 * digest. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>
#include <xxhash.h>

#include "bench.h"

static size_t cbor_head(size_t n)
{
    return n < 24 ? 1 : n < 256 ? 2 : n < 65536 ? 3 : 5;
}

/* Bytes that a key digests. docs/formats/keys.md */
static size_t message_bytes(const int32_t *tokens, uint32_t hash)
{
    const size_t digest = pkv_hash_key_bytes(hash);
    if (hash == PKV_HASH_PKV_XXH3) {
        return 16 + digest + 4 * BENCH_UNIT;
    }
    size_t bytes = 1 + cbor_head(digest) + digest + cbor_head(BENCH_UNIT) + 1;
    for (size_t i = 0; i < BENCH_UNIT; i++) {
        bytes += cbor_head((size_t)tokens[i]);
    }
    return bytes;
}

/* Where a message holds the digest before it. */
static size_t parent_at(uint32_t hash)
{
    return hash == PKV_HASH_PKV_XXH3 ? 8 : 1 + cbor_head(pkv_hash_key_bytes(hash));
}

static void sha256(const uint8_t *message, size_t n, uint8_t *to)
{
    SHA256_CTX ctx;
    (void)SHA256_Init(&ctx);
    (void)SHA256_Update(&ctx, message, n);
    (void)SHA256_Final(to, &ctx);
}

static void xxh3(const uint8_t *message, size_t n, uint8_t *to)
{
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(message, n));
    memcpy(to, &digest, sizeof digest);
}

static double digest_all(const bench_messages *m, uint32_t hash, bench_how how)
{
    const double start = bench_now();
    if (hash == PKV_HASH_SHA256_CBOR) {
        bench_digest_all(m, sha256);
    } else if (how == BENCH_CHAINED_INLINE) {
        bench_xxh3_inline(m);
    } else {
        bench_digest_all(m, xxh3);
    }
    return (bench_now() - start) / (double)m->n;
}

double bench_digest(const int32_t *tokens, size_t n_keys, uint32_t hash, bench_how how,
                    bench_set set)
{
    enum { LONGEST = 64 + 5 * BENCH_UNIT, OUT = 32 };
    const size_t apart = set == COLD, n_places = apart ? n_keys : 1;
    size_t *lengths = bench_memory(n_keys, sizeof *lengths);
    uint8_t *messages = bench_memory(n_places + 1, LONGEST); /* a chain ends in one more */
    uint8_t *out = bench_memory(n_places, OUT);
    for (size_t i = 0; i < n_keys; i++) {
        lengths[i] = message_bytes(tokens + i * BENCH_UNIT, hash);
    }
    if (set == COLD) {
        bench_chill(messages, (n_places + 1) * LONGEST);
        bench_chill(out, n_places * OUT);
        bench_chilled();
    }
    const bench_messages all = {.at = messages,
                                .lengths = lengths,
                                .n = n_keys,
                                .apart = apart,
                                .parent = parent_at(hash),
                                .out = how == BENCH_ALONE ? out : NULL};
    const double ns = digest_all(&all, hash, how);
    free(out);
    free(messages);
    free(lengths);
    return ns;
}
