/* small_memory.h  Memory of one cache in one piece, so that the cache can be put back to where it
 * was: all that it knows lies here, as all of it came from the hooks. (A hasher holds memory of the
 * library that digests, but nothing stays in it from one key to the next.) */
#ifndef SMALL_MEMORY_H
#define SMALL_MEMORY_H

#include "fixture.h"

#include <pkv/alloc.h>

#include "base/poison.h"

enum { SMALL_MEMORY = 1 << 17 };

typedef struct small_memory {
    size_t used;
    _Alignas(64) unsigned char bytes[SMALL_MEMORY];
} small_memory;

static inline void *small_alloc(void *ctx, size_t bytes, size_t align)
{
    small_memory *m = ctx;
    const size_t begin = (m->used + align - 1) / align * align;
    assert_true(align <= 64 && bytes <= SMALL_MEMORY - begin);
    m->used = begin + bytes;
    memset(m->bytes + begin, 0xa5, bytes); /* nothing may rely on zeroed memory */
    return m->bytes + begin;
}

/* Nothing is handed out again: who reads it later finds rubbish. */
static inline void small_free(void *ctx, void *ptr, size_t bytes, size_t align)
{
    (void)ctx;
    (void)align;
    memset(ptr, 0xdd, bytes);
}

static inline void small_copy(small_memory *to, const small_memory *from)
{
    to->used = from->used;
    pkvi_unpoison(from->bytes, from->used); /* seats that nobody has are copied, too */
    pkvi_unpoison(to->bytes, SMALL_MEMORY);
    memcpy(to->bytes, from->bytes, from->used);
}

#endif
