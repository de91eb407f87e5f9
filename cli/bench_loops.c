/* bench_loops.c  The ceiling of transfers: loops that move the same pieces, or the rows of pieces
 * that both sides order differently, and know no more. */
#include <pthread.h>
#include <string.h>

#include "bench_transfer.h"

static void loop_memcpy(const bench_move *moves, size_t n, const bench_rows *r)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t t = 0; t < r->tokens; t++) {
            for (size_t h = 0; h < r->heads; h++) {
                memcpy(moves[i].dst + t * r->dst_token + h * r->dst_head,
                       moves[i].src + t * r->src_token + h * r->src_head, r->bytes);
            }
        }
    }
}

#ifdef __x86_64__
#include <immintrin.h>

enum { LINE = 64, AHEAD = 16 * LINE };

/* Pieces of one row. */
#define LOOP(name, target, prefetch, store)                                         \
    target static void name(const bench_move *moves, size_t n, const bench_rows *r) \
    {                                                                               \
        const size_t bytes = r->bytes;                                              \
        for (size_t i = 0; i < n; i++) {                                            \
            char *dst = moves[i].dst;                                               \
            const char *src = moves[i].src;                                         \
            size_t at = 0;                                                          \
            for (; at + LINE <= bytes; at += LINE) {                                \
                prefetch;                                                           \
                store;                                                              \
            }                                                                       \
            memcpy(dst + at, src + at, bytes - at);                                 \
        }                                                                           \
        _mm_sfence();                                                               \
    }

/* Rows of whole lines, in two loops in one order or the other. */
#define ROW_LOOP(name, target, outer, n_outer, inner, n_inner, store)                    \
    target static void name(const bench_move *moves, size_t n, const bench_rows *r)      \
    {                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                 \
            for (size_t outer = 0; outer < (n_outer); outer++) {                         \
                for (size_t inner = 0; inner < (n_inner); inner++) {                     \
                    char *dst = moves[i].dst + t * r->dst_token + h * r->dst_head;       \
                    const char *src = moves[i].src + t * r->src_token + h * r->src_head; \
                    for (size_t at = 0; at < r->bytes; at += LINE) {                     \
                        store;                                                           \
                    }                                                                    \
                }                                                                        \
            }                                                                            \
        }                                                                                \
        _mm_sfence();                                                                    \
    }

#define WIDE __attribute__((target("avx512f")))
#define STORE_512 _mm512_stream_si512((void *)(dst + at), _mm512_loadu_si512(src + at))
#define STORE_128                                                                      \
    for (size_t j = at; j < at + LINE; j += sizeof(__m128i)) {                         \
        _mm_stream_si128((void *)(dst + j), _mm_loadu_si128((const void *)(src + j))); \
    }
#define NO_PREFETCH (void)0
#define PREFETCH                                                                             \
    _mm_prefetch(at + AHEAD < bytes || i + 1 == n ? src + at + AHEAD                         \
                                                  : moves[i + 1].src + (at + AHEAD - bytes), \
                 _MM_HINT_T0)

LOOP(stream_512, WIDE, NO_PREFETCH, STORE_512)
LOOP(ahead_512, WIDE, PREFETCH, STORE_512)
LOOP(stream_128, , NO_PREFETCH, STORE_128)
LOOP(ahead_128, , PREFETCH, STORE_128)
ROW_LOOP(tokens_512, WIDE, t, r->tokens, h, r->heads, STORE_512)
ROW_LOOP(heads_512, WIDE, h, r->heads, t, r->tokens, STORE_512)
ROW_LOOP(tokens_128, , t, r->tokens, h, r->heads, STORE_128)
ROW_LOOP(heads_128, , h, r->heads, t, r->tokens, STORE_128)

bench_loop *bench_loop_of(int which, bool by_rows)
{
    const int wide = __builtin_cpu_supports("avx512f");
    switch (which) {
    case BENCH_MEMCPY: return loop_memcpy;
    case BENCH_STREAM:
        return by_rows ? (wide ? tokens_512 : tokens_128) : (wide ? stream_512 : stream_128);
    default: return by_rows ? (wide ? heads_512 : heads_128) : (wide ? ahead_512 : ahead_128);
    }
}
#else
bench_loop *bench_loop_of(int which, bool by_rows)
{
    (void)by_rows;
    return which == BENCH_MEMCPY ? loop_memcpy : NULL;
}
#endif

const char *bench_loop_name(int which, bool by_rows)
{
    static const char *const names[2][BENCH_LOOPS] = {{"memcpy", "stream", "stream_ahead"},
                                                      {"memcpy", "stream", "heads_stream"}};
    return names[by_rows][which];
}

/* ---- threads ---- */

typedef struct thread {
    bench_work *work;
    void *ctx;
    uint32_t worker, n_workers;
} thread;

static void *run(void *arg)
{
    const thread *t = arg;
    t->work(t->ctx, t->worker, t->n_workers);
    return NULL;
}

double bench_threads(bench_work *work, void *ctx, uint32_t n_workers)
{
    pthread_t ids[BENCH_MAX_THREADS];
    thread all[BENCH_MAX_THREADS];
    const double start = bench_now();
    for (uint32_t i = 1; i < n_workers; i++) {
        all[i] = (thread){work, ctx, i, n_workers};
        bench_need(pthread_create(&ids[i], NULL, run, &all[i]) == 0, "pthread_create");
    }
    work(ctx, 0, n_workers);
    for (uint32_t i = 1; i < n_workers; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    return (bench_now() - start) / 1e9;
}
