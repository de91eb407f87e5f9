/* arena.c  Chunks and the libc hooks. */
#define _DEFAULT_SOURCE /* madvise */

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "base/poison.h"

enum { ARENA_ALIGN = 16 };

struct pkvi_chunk {
    struct pkvi_chunk *older;
    size_t bytes; /* of the whole chunk, this header included */
    size_t used;
    size_t pad; /* keeps the header a multiple of ARENA_ALIGN */
};

/* Tables that are read at random miss page addresses as often as lines: those that fill two thirds
 * of their huge pages, as all of 4 MiB and more do, ask for them, where the system gives them to
 * those who ask. */
enum { HUGE_PAGE = 2 << 20 };

static void *libc_alloc(void *ctx, size_t bytes, size_t align)
{
    (void)ctx;
    if (bytes > SIZE_MAX - HUGE_PAGE || bytes > SIZE_MAX - align) {
        return NULL;
    }
    const size_t pages = (bytes + HUGE_PAGE - 1) / HUGE_PAGE;
    const bool huge = bytes >= pages * HUGE_PAGE / 3 * 2 && align <= HUGE_PAGE;
    if (!huge && align <= _Alignof(max_align_t)) {
        return malloc(bytes);
    }
    align = huge ? HUGE_PAGE : align;
    const size_t whole = (bytes + align - 1) & ~(align - 1);
    void *memory = aligned_alloc(align, whole);
#ifdef MADV_HUGEPAGE
    if (memory && huge) {
        (void)madvise(memory, whole, MADV_HUGEPAGE); /* a wish */
    }
#endif
    return memory;
}

static void libc_free(void *ctx, void *ptr, size_t bytes, size_t align)
{
    (void)ctx;
    (void)bytes;
    (void)align;
    free(ptr);
}

const pkv_alloc pkvi_libc_alloc = {NULL, libc_alloc, libc_free};

void pkvi_arena_init(pkvi_arena *arena, const pkv_alloc *hooks, size_t first_bytes)
{
    arena->hooks = hooks ? *hooks : pkvi_libc_alloc;
    arena->newest = NULL;
    arena->next_bytes = first_bytes;
}

static struct pkvi_chunk *add_chunk(pkvi_arena *arena, size_t need)
{
    size_t bytes = arena->next_bytes;
    if (need > SIZE_MAX - sizeof(struct pkvi_chunk)) {
        return NULL;
    }
    if (bytes < need + sizeof(struct pkvi_chunk)) {
        bytes = need + sizeof(struct pkvi_chunk);
    }
    struct pkvi_chunk *chunk = arena->hooks.alloc(arena->hooks.ctx, bytes, ARENA_ALIGN);
    if (!chunk) {
        return NULL;
    }
    *chunk = (struct pkvi_chunk){arena->newest, bytes, sizeof *chunk, 0};
    arena->newest = chunk;
    if (arena->next_bytes < SIZE_MAX / 4) {
        arena->next_bytes *= 2;
    }
    return chunk;
}

void *pkvi_arena_get(pkvi_arena *arena, size_t n, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(n, bytes, &total) || total > SIZE_MAX - ARENA_ALIGN) {
        return NULL;
    }
    total = (total + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    struct pkvi_chunk *chunk = arena->newest;
    if (!chunk || chunk->bytes - chunk->used < total) {
        chunk = add_chunk(arena, total);
        if (!chunk) {
            return NULL;
        }
    }
    void *piece = (char *)chunk + chunk->used;
    chunk->used += total;
    memset(piece, 0, total);
    return piece;
}

void *pkvi_arena_lines(pkvi_arena *arena, size_t n, size_t bytes)
{
    enum { LINE = 64 };
    size_t total;
    if (__builtin_mul_overflow(n, bytes, &total) ||
        __builtin_add_overflow(total, (size_t)LINE - 1, &total)) {
        return NULL;
    }
    char *piece = pkvi_arena_get(arena, 1, total);
    return piece ? piece + (LINE - (uintptr_t)piece % LINE) % LINE : NULL;
}

char *pkvi_arena_text(pkvi_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = pkvi_arena_get(arena, 1, bytes);
    if (copy) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

void pkvi_arena_free(pkvi_arena *arena)
{
    struct pkvi_chunk *chunk = arena->newest;
    while (chunk) {
        struct pkvi_chunk *older = chunk->older;
        pkvi_unpoison(chunk, chunk->bytes); /* hooks may read what they get back */
        arena->hooks.free(arena->hooks.ctx, chunk, chunk->bytes, ARENA_ALIGN);
        chunk = older;
    }
    arena->newest = NULL;
}
