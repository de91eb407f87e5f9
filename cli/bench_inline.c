/* bench_inline.c  XXH3 without a call, compiled in from its header. */
#include <string.h>

#define XXH_INLINE_ALL
#ifdef __clang__ /* a hash wraps on purpose, which -fsanitize=integer would report */
#pragma clang attribute push(__attribute__((no_sanitize("integer"))), apply_to = function)
#include <xxhash.h>
#pragma clang attribute pop
#else
#include <xxhash.h>
#endif

#include "bench.h"

static void xxh3(const uint8_t *message, size_t n, uint8_t *to)
{
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(message, n));
    memcpy(to, &digest, sizeof digest);
}

void bench_xxh3_inline(const bench_messages *messages)
{
    bench_digest_all(messages, xxh3);
}
