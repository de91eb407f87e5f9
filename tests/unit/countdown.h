/* countdown.h  Memory hooks that run out, count, and check what they are given back. */
#ifndef COUNTDOWN_H
#define COUNTDOWN_H

#include "fixture.h"

#include <pkv/alloc.h>

typedef struct countdown {
    uint64_t left;    /* allocations that still succeed */
    uint64_t calls;   /* allocations asked for */
    uint64_t held;    /* bytes */
    uint64_t largest; /* bytes that are still given at once; 0: any */
} countdown;

static inline void *counted_alloc(void *ctx, size_t bytes, size_t align)
{
    countdown *c = ctx;
    assert_true(bytes > 0 && align > 0 && (align & (align - 1)) == 0);
    c->calls++;
    if (c->left == 0 || (c->largest > 0 && bytes > c->largest)) {
        return NULL;
    }
    c->left--;
    c->held += bytes;
    void *memory = malloc(bytes);
    assert_non_null(memory);
    memset(memory, 0xa5, bytes); /* nothing may rely on zeroed memory */
    return memory;
}

static inline void counted_free(void *ctx, void *ptr, size_t bytes, size_t align)
{
    countdown *c = ctx;
    assert_non_null(ptr);
    assert_true(align > 0 && c->held >= bytes);
    c->held -= bytes;
    free(ptr);
}

#endif
