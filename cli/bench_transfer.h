/* bench_transfer.h  The pieces that a transfer moves, and the loops that could move them, too. */
#ifndef BENCH_TRANSFER_H
#define BENCH_TRANSFER_H

#include "bench.h"

enum { BENCH_LAYERS = 16, BENCH_CHUNK_TOKENS = 256, BENCH_MAX_THREADS = 2 };

/* One plane of one block of one layer, to where it goes. */
typedef struct bench_move {
    char *dst;
    const char *src;
} bench_move;

/* The rows of a piece; one of all its bytes, if both sides order it alike. */
typedef struct bench_rows {
    size_t tokens, heads, bytes;
    size_t src_token, src_head, dst_token, dst_head;
} bench_rows;

/* Loops over pieces: by memcpy, by stores past the caches, by those with the next lines asked for
 * ahead. by_rows: over rows of whole lines, by memcpy, by stores past the caches token by token,
 * and head by head. NULL: not on this processor. */
typedef void bench_loop(const bench_move *moves, size_t n, const bench_rows *rows);
enum { BENCH_MEMCPY, BENCH_STREAM, BENCH_STREAM_AHEAD, BENCH_LOOPS };
bench_loop *bench_loop_of(int which, bool by_rows);
const char *bench_loop_name(int which, bool by_rows);

/* What one thread does. */
typedef void bench_work(void *ctx, uint32_t worker, uint32_t n_workers);
/* Seconds until all workers are done; worker 0 is the caller. */
double bench_threads(bench_work *work, void *ctx, uint32_t n_workers);

#endif
