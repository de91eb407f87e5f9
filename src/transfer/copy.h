/* copy.h  How bytes are moved. */
#ifndef PKVI_TRANSFER_COPY_H
#define PKVI_TRANSFER_COPY_H

#include <stddef.h>
#include <stdint.h>

/* Transfers of at least so many bytes are written past the caches, unless the caller knows better:
 * below, whoever reads them next may find them in a cache. */
#define PKVI_STREAM_BYTES ((uint64_t)8 << 20)

/* Rows of one size in two axes with one stride each on each side. */
typedef struct pkvi_rows {
    char *dst;
    const char *src;
    const char *next; /* what will be read after them, or NULL; it is fetched as if its rows had the
                         same strides */
    size_t dst_inner, src_inner, n_inner;
    size_t dst_outer, src_outer, n_outer;
    size_t bytes;
} pkvi_rows;

/* Copies past the caches. */
typedef struct pkvi_stream {
    /* n bytes; `next`: what will be read after them, or NULL. */
    void (*copy)(void *dst, const void *src, size_t n, const void *next);
    /* Rows that are whole lines of the destination. */
    void (*rows)(const pkvi_rows *rows);
} pkvi_stream;

/* Those of this processor, the best one first; NULL beyond the last. */
const pkvi_stream *pkvi_stream_of_cpu(unsigned i);
/* Makes the bytes visible to whoever synchronises with this thread. */
void pkvi_stream_fence(void);

#endif
