/* index.h  Where the rows of a planned transfer lie: tables and arithmetic that the processor's
 * code and the kernels of a GPU share.
 *
 * A *pair* is one plane of one layer on both sides, a *run* a stretch of tokens that lie side by
 * side in one block on both sides. Every pair of a group moves all runs of the group. Addresses are
 * 64-bit numbers; those of chunks are split into the chunk (in the run) and the place in it (in the
 * pair). */
#ifndef PKVI_TRANSFER_INDEX_H
#define PKVI_TRANSFER_INDEX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PKVI_DEVICE __host__ __device__
#else
#define PKVI_DEVICE
#endif

/* One side of a pair. */
typedef struct pkvi_place {
    uint64_t base, block_stride, token_stride, head_stride;
} pkvi_place;

typedef struct pkvi_pair {
    pkvi_place src, dst;
    uint64_t heads, row_bytes;
    uint64_t first_byte; /* written by all pairs before it */
    uint32_t group, reserved;
} pkvi_pair;

/* One side of a run. */
typedef struct pkvi_spot {
    uint64_t base, block, token;
} pkvi_spot;

typedef struct pkvi_run {
    pkvi_spot src, dst;
    uint64_t first_token; /* of all that move before it */
} pkvi_run;

/* Row of token t of a run, head h. */
static inline PKVI_DEVICE uint64_t pkvi_row(const pkvi_place *place, const pkvi_spot *spot,
                                            uint64_t t, uint64_t h)
{
    return place->base + spot->base + spot->block * place->block_stride +
           (spot->token + t) * place->token_stride + h * place->head_stride;
}

/* The run that holds token t of all that move; runs are in order of tokens. */
static inline PKVI_DEVICE uint64_t pkvi_find_run(const pkvi_run *runs, uint64_t n_runs, uint64_t t)
{
    uint64_t low = 0, high = n_runs;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (runs[middle].first_token <= t) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

#endif
