/* digest.c  SHA-256 by libcrypto, XXH3 by libxxhash.
 *
 * A key chain is a row of short digests, each of which waits for the one before. There the one-shot
 * SHA256() of OpenSSL 3 takes three times as long as the digest itself, because it looks the
 * algorithm up by name, and a prepared EVP context still takes a fifth more. The functions below it
 * are marked as deprecated but have no successor of that speed. Messages are padded here, so that
 * one update call does all of the work. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "key/digest.h"

#include <string.h>

#include <openssl/sha.h>

#include "key/words.h"

void pkvi_sha256(const void *data, size_t bytes, uint8_t out[32])
{
    SHA256_CTX ctx;
    (void)SHA256_Init(&ctx);
    (void)SHA256_Update(&ctx, data, bytes);
    (void)SHA256_Final(out, &ctx);
}

void pkvi_sha256_padded(uint8_t *message, size_t bytes, uint8_t out[32], uint8_t *copy)
{
    enum { BLOCK = 64, LENGTH = 8 };
    const size_t padded = (bytes + LENGTH + BLOCK) / BLOCK * BLOCK;
    SHA256_CTX ctx;
    memset(message + bytes, 0, BLOCK + LENGTH); /* one size, so that it is a few stores */
    message[bytes] = 0x80;
    pkvi_put_be64(message + padded - LENGTH, (uint64_t)bytes * 8);
    (void)SHA256_Init(&ctx);
    (void)SHA256_Update(&ctx, message, padded); /* whole blocks: the state is the digest */
    for (size_t i = 0; i < 8; i++) {
        pkvi_put_be32(out + 4 * i, ctx.h[i]);
        pkvi_put_be32(copy + 4 * i, ctx.h[i]);
    }
}

XXH128_hash_t pkvi_xxh3(const uint8_t *message, size_t bytes)
{
    return XXH3_128bits(message, bytes);
}
