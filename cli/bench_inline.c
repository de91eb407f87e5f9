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

void bench_xxh3_inline(const uint8_t *message, const size_t *lengths, size_t n, uint8_t *to)
{
    for (size_t i = 0; i < n; i++) {
        XXH128_canonical_t digest;
        XXH128_canonicalFromHash(&digest, XXH3_128bits(message, lengths[i]));
        memcpy(to, &digest, sizeof digest);
    }
}
