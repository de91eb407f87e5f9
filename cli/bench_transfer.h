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

/* Loops over pieces: by memcpy, by stores past the caches, by those with the next lines asked for
 * ahead. NULL: not on this processor. */
typedef void bench_loop(const bench_move *moves, size_t n, size_t bytes);
enum { BENCH_MEMCPY, BENCH_STREAM, BENCH_STREAM_AHEAD, BENCH_LOOPS };
bench_loop *bench_loop_of(int which);
const char *bench_loop_name(int which);

/* The rows of a piece, of whole lines. */
typedef struct bench_rows {
    size_t tokens, heads, bytes;
    size_t src_token, src_head, dst_token, dst_head;
} bench_rows;

/* Loops over the rows of pieces: by memcpy, by stores past the caches token by token, and head by
 * head. */
typedef void bench_row_loop(const bench_move *moves, size_t n, const bench_rows *rows);
bench_row_loop *bench_row_loop_of(int which);
const char *bench_row_loop_name(int which);

/* What one thread does. */
typedef void bench_work(void *ctx, uint32_t worker, uint32_t n_workers);
/* Seconds until all workers are done; worker 0 is the caller. */
double bench_threads(bench_work *work, void *ctx, uint32_t n_workers);

#endif
