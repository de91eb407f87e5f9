/* copy.c  Copies past the caches: non-temporal stores of whole lines.
 *
 * An ordinary store reads its line before it writes it, so that a copy moves three bytes for two;
 * memcpy avoids that only for pieces of megabytes. The source is asked for ahead, across the end
 * of the piece into the next one, which no hardware prefetcher can know. */
#include "transfer/copy.h"

#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>

enum { LINE = 64, AHEAD = 24 * LINE };

#define TARGET_512 __attribute__((target("avx512f")))

/* Bytes up to the next line of the destination, at most n. */
static size_t to_line(const void *dst, size_t n)
{
    const size_t head = (LINE - ((uintptr_t)dst & (LINE - 1))) & (LINE - 1);
    return head < n ? head : n;
}

/* Where to prefetch from while `at` of n bytes are done. */
static inline const char *ahead(const char *src, size_t at, size_t n, const char *next)
{
    return at + AHEAD < n || !next ? src + at + AHEAD : next + (at + AHEAD - n);
}

TARGET_512 static void stream_512(void *dst, const void *src, size_t n, const void *next)
{
    char *d = dst;
    const char *s = src;
    const size_t head = to_line(dst, n);
    if (head > 0) {
        memcpy(d, s, head);
        d += head;
        s += head;
        n -= head;
    }
    const size_t whole = n & ~(size_t)(LINE - 1);
    for (size_t i = 0; i < whole; i += LINE) {
        _mm_prefetch(ahead(s, i, n, next), _MM_HINT_T0);
        _mm512_stream_si512((void *)(d + i), _mm512_loadu_si512((const void *)(s + i)));
    }
    if (n > whole) {
        memcpy(d + whole, s + whole, n - whole);
    }
}

static void stream_128(void *dst, const void *src, size_t n, const void *next)
{
    char *d = dst;
    const char *s = src;
    const size_t head = to_line(dst, n);
    if (head > 0) {
        memcpy(d, s, head);
        d += head;
        s += head;
        n -= head;
    }
    const size_t whole = n & ~(size_t)(LINE - 1);
    for (size_t i = 0; i < whole; i += LINE) {
        _mm_prefetch(ahead(s, i, n, next), _MM_HINT_T0);
        for (size_t j = i; j < i + LINE; j += sizeof(__m128i)) {
            _mm_stream_si128((void *)(d + j), _mm_loadu_si128((const void *)(s + j)));
        }
    }
    if (n > whole) {
        memcpy(d + whole, s + whole, n - whole);
    }
}

pkvi_stream_copy *pkvi_stream_copy_of_cpu(void)
{
    return __builtin_cpu_supports("avx512f") ? stream_512 : stream_128;
}

void pkvi_stream_fence(void)
{
    _mm_sfence();
}

#else

pkvi_stream_copy *pkvi_stream_copy_of_cpu(void)
{
    return NULL;
}

void pkvi_stream_fence(void)
{
}

#endif
