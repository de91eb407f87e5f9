/** @file alloc.h  Where the library's memory comes from. */
#ifndef PKV_ALLOC_H
#define PKV_ALLOC_H

#include <stddef.h>

#include <pkv/export.h>

PKV_BEGIN_DECLS

/** Memory hooks. They are copied when an object is created and used for all of its life; NULL
 *  where a pkv_alloc is asked for means libc, which is asked for huge pages for tables that fill
 *  two thirds of them (all of 4 MiB and more) where the system knows them. The hooks must accept
 *  concurrent calls. */
typedef struct pkv_alloc {
    void *ctx; /**< passed to both hooks */
    /** `bytes` bytes at a multiple of `align` (a power of two), or NULL. Never aborts. */
    void *(*alloc)(void *ctx, size_t bytes, size_t align);
    /** Takes back what alloc gave, with the same bytes and align. Never called with NULL. */
    void (*free)(void *ctx, void *ptr, size_t bytes, size_t align);
} pkv_alloc;

PKV_END_DECLS
#endif
