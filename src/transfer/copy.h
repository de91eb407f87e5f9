/* copy.h  How bytes are moved. */
#ifndef PKVI_TRANSFER_COPY_H
#define PKVI_TRANSFER_COPY_H

#include <stddef.h>
#include <stdint.h>

/* Transfers of at least so many bytes are written past the caches, unless the caller knows better:
 * below, whoever reads them next may find them in a cache. */
#define PKVI_STREAM_BYTES ((uint64_t)8 << 20)

/* Copies n bytes past the caches; `next`: what will be read after them, or NULL. */
typedef void pkvi_stream_copy(void *dst, const void *src, size_t n, const void *next);

/* The best one for this processor. NULL: it has no such stores. */
pkvi_stream_copy *pkvi_stream_copy_of_cpu(void);
/* Makes the bytes visible to whoever synchronises with this thread. */
void pkvi_stream_fence(void);

#endif
