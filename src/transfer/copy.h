/* copy.h  How bytes are moved. */
#ifndef PKVI_TRANSFER_COPY_H
#define PKVI_TRANSFER_COPY_H

#include <stddef.h>
#include <stdint.h>

/* Transfers of at least so many bytes are written past the caches, unless the caller knows better:
 * below, whoever reads them next may find them in a cache. */
#define PKVI_STREAM_BYTES ((uint64_t)8 << 20)

/* Pieces of equal size: a grid of n_outer by n_inner of them. */
typedef struct pkvi_pieces {
    uint64_t src, dst; /* addresses of the first */
    uint64_t bytes;
    uint64_t n_inner, src_inner, dst_inner;
    uint64_t n_outer, src_outer, dst_outer;
} pkvi_pieces;

/* Copies past the caches. `next`: what will be read after them, or NULL. */
typedef struct pkvi_stream {
    void (*copy)(void *dst, const void *src, size_t n, const void *next);
    /* Pieces that are whole lines of the destination; the next ones are fetched as if they had the
     * same strides. */
    void (*rows)(const pkvi_pieces *rows, const void *next);
} pkvi_stream;

/* Those of this processor, the best one first; NULL beyond the last. */
const pkvi_stream *pkvi_stream_of_cpu(unsigned i);
/* Makes the bytes visible to whoever synchronises with this thread. */
void pkvi_stream_fence(void);

#endif
