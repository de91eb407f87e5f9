/* tokens.c  Token ids, many at a time. */
#include "base/tokens.h"

#include <stddef.h>

enum { AT_ONCE = 64 };

static uint64_t first_from(const int32_t *tokens, uint64_t from, uint64_t n)
{
    while (from < n && tokens[from] >= 0) {
        from++;
    }
    return from;
}

uint64_t pkvi_first_negative_plain(const int32_t *tokens, uint64_t n)
{
    uint64_t i = 0;
    for (; n - i >= AT_ONCE; i += AT_ONCE) {
        int32_t any = 0;
        for (size_t at = 0; at < AT_ONCE; at++) {
            any |= tokens[i + at];
        }
        if (any < 0) {
            break;
        }
    }
    return first_from(tokens, i, n);
}

#ifdef __x86_64__
#include <immintrin.h>

/* As fast as the second cache gives what it holds, which the narrow form is not. */
__attribute__((target("avx2"))) static uint64_t first_avx2(const int32_t *tokens, uint64_t n)
{
    enum { LANES = 8 };
    uint64_t i = 0;
    for (; n - i >= AT_ONCE; i += AT_ONCE) {
        __m256i any = _mm256_setzero_si256();
        for (size_t at = 0; at < AT_ONCE; at += LANES) {
            const void *from = tokens + i + at;
            any = _mm256_or_si256(any, _mm256_loadu_si256((const __m256i *)from));
        }
        if (_mm256_movemask_ps(_mm256_castsi256_ps(any)) != 0) {
            break;
        }
    }
    return first_from(tokens, i, n);
}
#endif

uint64_t pkvi_first_negative(const int32_t *tokens, uint64_t n)
{
#ifdef __x86_64__
    if (n >= AT_ONCE && __builtin_cpu_supports("avx2")) {
        return first_avx2(tokens, n);
    }
#endif
    return pkvi_first_negative_plain(tokens, n);
}
