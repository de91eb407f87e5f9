/* bench_row_loops.c  The ceiling of transfers whose rows lie in another order on both sides: loops
 * that copy them row by row, tokens or heads outside. */
#include <string.h>

#include "bench_transfer.h"

static void rows_memcpy(const bench_move *moves, size_t n, const bench_rows *r)
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

enum { LINE = 64 };

#define STREAM_ROW(store)                                                \
    char *dst = moves[i].dst + t * r->dst_token + h * r->dst_head;       \
    const char *src = moves[i].src + t * r->src_token + h * r->src_head; \
    for (size_t at = 0; at < r->bytes; at += LINE) {                     \
        store;                                                           \
    }

#define LOOPS(by_tokens, by_heads, target, store)                                        \
    target static void by_tokens(const bench_move *moves, size_t n, const bench_rows *r) \
    {                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                 \
            for (size_t t = 0; t < r->tokens; t++) {                                     \
                for (size_t h = 0; h < r->heads; h++) {                                  \
                    STREAM_ROW(store)                                                    \
                }                                                                        \
            }                                                                            \
        }                                                                                \
        _mm_sfence();                                                                    \
    }                                                                                    \
    target static void by_heads(const bench_move *moves, size_t n, const bench_rows *r)  \
    {                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                 \
            for (size_t h = 0; h < r->heads; h++) {                                      \
                for (size_t t = 0; t < r->tokens; t++) {                                 \
                    STREAM_ROW(store)                                                    \
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

LOOPS(tokens_512, heads_512, WIDE, STORE_512)
LOOPS(tokens_128, heads_128, , STORE_128)

bench_row_loop *bench_row_loop_of(int which)
{
    const int wide = __builtin_cpu_supports("avx512f");
    switch (which) {
    case BENCH_MEMCPY: return rows_memcpy;
    case BENCH_STREAM: return wide ? tokens_512 : tokens_128;
    default: return wide ? heads_512 : heads_128;
    }
}
#else
bench_row_loop *bench_row_loop_of(int which)
{
    return which == BENCH_MEMCPY ? rows_memcpy : NULL;
}
#endif

const char *bench_row_loop_name(int which)
{
    static const char *const names[] = {"memcpy", "stream", "heads_stream"};
    return names[which];
}
