/* arena.h  Memory that lives as long as one object.
 *
 * A list of chunks from the object's hooks; pieces are cut from the newest one and given back
 * together. Chunks double, so that n bytes cost O(log n) calls of the hooks. */
#ifndef PKVI_ARENA_H
#define PKVI_ARENA_H

#include <stddef.h>

#include <pkv/alloc.h>

struct pkvi_chunk;

typedef struct pkvi_arena {
    pkv_alloc hooks;
    struct pkvi_chunk *newest;
    size_t next_bytes; /* size of the next chunk */
} pkvi_arena;

/* libc's memory behind the hooks. */
extern const pkv_alloc pkvi_libc_alloc;

/* hooks NULL: libc */
void pkvi_arena_init(pkvi_arena *arena, const pkv_alloc *hooks, size_t first_bytes);

/* n * bytes zeroed bytes, aligned for any object of up to 16 bytes alignment; NULL: no memory, or
 * the product is too large. A zero size gives a valid pointer. */
void *pkvi_arena_get(pkvi_arena *arena, size_t n, size_t bytes);

/* The same, from the beginning of a line of the processor's cache on. */
void *pkvi_arena_lines(pkvi_arena *arena, size_t n, size_t bytes);

/* A copy of a text; NULL: no memory. */
char *pkvi_arena_text(pkvi_arena *arena, const char *text);

void pkvi_arena_free(pkvi_arena *arena);

#endif
