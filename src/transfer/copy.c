/* copy.c  Copies past the caches: non-temporal stores of whole lines.
 *
 * An ordinary store reads its line before it writes it, so that a copy moves three bytes for two;
 * memcpy avoids that only for pieces of megabytes. The source is asked for ahead, across the end
 * of the piece into the next one, which no hardware prefetcher can know. */
#include "transfer/copy.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>

enum { LINE = 64, AHEAD = 24 * LINE, ROWS_AHEAD = 1024 };

#define TARGET_512 __attribute__((target("avx512f")))

/* Bytes up to the next line of the destination, at most n. */
static size_t to_line(const void *dst, size_t n)
{
    const size_t head = (LINE - ((uintptr_t)dst & (LINE - 1))) & (LINE - 1);
    return head < n ? head : n;
}

#define STORE_512(to, from) \
    _mm512_stream_si512((void *)(to), _mm512_loadu_si512((const void *)(from)))
#define STORE_128(to, from)                                                                \
    for (size_t j = 0; j < LINE; j += sizeof(__m128i)) {                                   \
        _mm_stream_si128((void *)((to) + j), _mm_loadu_si128((const void *)((from) + j))); \
    }

/* The first whole line of a piece; what comes before it is copied. */
static size_t copy_head(char *dst, const char *src, size_t n)
{
    const size_t head = to_line(dst, n);
    if (head > 0) {
        memcpy(dst, src, head);
    }
    return head;
}

#define DEFINE_COPY(name, target, store)                                                      \
    target static void name(void *to, const void *from, size_t n, const void *next)           \
    {                                                                                         \
        const size_t head = copy_head(to, from, n), whole = (n - head) & ~(size_t)(LINE - 1); \
        const size_t ahead = whole < AHEAD ? whole : AHEAD;                                   \
        char *dst = (char *)to + head;                                                        \
        const char *src = (const char *)from + head;                                          \
        size_t i = 0;                                                                         \
        for (; i + ahead < whole; i += LINE) {                                                \
            _mm_prefetch(src + i + ahead, _MM_HINT_T0);                                       \
            store(dst + i, src + i);                                                          \
        }                                                                                     \
        const char *following = next ? (const char *)next : src;                              \
        for (size_t k = 0; i < whole; i += LINE, k += LINE) {                                 \
            _mm_prefetch(following + k, _MM_HINT_T0);                                         \
            store(dst + i, src + i);                                                          \
        }                                                                                     \
        if (n - head > whole) {                                                               \
            memcpy(dst + whole, src + whole, n - head - whole);                               \
        }                                                                                     \
    }

/* The row that is fetched while another one is copied. */
typedef struct row_ahead {
    uint64_t src, next; /* row 0 of its grid, and of the one after that */
    uint64_t inner, outer;
} row_ahead;

static inline void step_ahead(row_ahead *a, const pkvi_pieces *rows)
{
    if (++a->inner < rows->n_inner) {
        return;
    }
    a->inner = 0;
    if (++a->outer == rows->n_outer) {
        a->outer = 0;
        a->src = a->next;
    }
}

static row_ahead begin_ahead(const pkvi_pieces *rows, const void *next)
{
    row_ahead a = {rows->src, next ? (uint64_t)(uintptr_t)next : rows->src, 0, 0};
    for (uint64_t i = 0; i < 1 + ROWS_AHEAD / rows->bytes; i++) {
        step_ahead(&a, rows);
    }
    return a;
}

#define ADDRESS(first, o, r, outer, inner) ((uintptr_t)((first) + (o) * (outer) + (r) * (inner)))

/* Whole lines, so that a row is neither begun nor ended within one. */
#define DEFINE_ROWS(name, target, store)                                                     \
    target static void name(const pkvi_pieces *p, const void *next)                          \
    {                                                                                        \
        row_ahead a = begin_ahead(p, next);                                                  \
        for (uint64_t o = 0; o < p->n_outer; o++) {                                          \
            for (uint64_t r = 0; r < p->n_inner; r++) {                                      \
                char *dst = (char *)ADDRESS(p->dst, o, r, p->dst_outer, p->dst_inner);       \
                const char *src = (char *)ADDRESS(p->src, o, r, p->src_outer, p->src_inner); \
                const char *later =                                                          \
                    (char *)ADDRESS(a.src, a.outer, a.inner, p->src_outer, p->src_inner);    \
                for (size_t i = 0; i < p->bytes; i += LINE) {                                \
                    _mm_prefetch(later + i, _MM_HINT_T0);                                    \
                    store(dst + i, src + i);                                                 \
                }                                                                            \
                step_ahead(&a, p);                                                           \
            }                                                                                \
        }                                                                                    \
    }

DEFINE_COPY(copy_512, TARGET_512, STORE_512)
DEFINE_ROWS(rows_512, TARGET_512, STORE_512)
DEFINE_COPY(copy_128, , STORE_128)
DEFINE_ROWS(rows_128, , STORE_128)

static const pkvi_stream wide = {copy_512, rows_512}, narrow = {copy_128, rows_128};

const pkvi_stream *pkvi_stream_of_cpu(unsigned i)
{
    const pkvi_stream *const all[] = {&wide, &narrow, NULL, NULL};
    const unsigned first = __builtin_cpu_supports("avx512f") ? 0 : 1;
    return i < 2 ? all[first + i] : NULL;
}

void pkvi_stream_fence(void)
{
    _mm_sfence();
}

#else

const pkvi_stream *pkvi_stream_of_cpu(unsigned i)
{
    (void)i;
    return NULL;
}

void pkvi_stream_fence(void)
{
}

#endif
