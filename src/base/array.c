/* array.c  Growing arrays. */
#include "base/array.h"

#include <stdint.h>
#include <string.h>

enum { ARRAY_ALIGN = 16, FIRST_ELEMENTS = 16 };

void *pkvi_array_resized(const pkv_alloc *hooks, void *items, size_t *capacity, size_t room,
                         size_t bytes)
{
    if (room > SIZE_MAX / bytes) {
        return NULL;
    }
    void *moved = hooks->alloc(hooks->ctx, room * bytes, ARRAY_ALIGN);
    if (!moved) {
        return NULL;
    }
    if (*capacity > 0) {
        memcpy(moved, items, *capacity * bytes);
        hooks->free(hooks->ctx, items, *capacity * bytes, ARRAY_ALIGN);
    }
    *capacity = room;
    return moved;
}

void *pkvi_array_grown(const pkv_alloc *hooks, void *items, size_t *capacity, size_t need,
                       size_t bytes)
{
    if (need <= *capacity) {
        return items;
    }
    size_t larger = *capacity ? *capacity : FIRST_ELEMENTS;
    while (larger < need) {
        if (larger > SIZE_MAX / 2 / bytes) {
            return NULL;
        }
        larger *= 2;
    }
    return pkvi_array_resized(hooks, items, capacity, larger, bytes);
}

void pkvi_array_free(const pkv_alloc *hooks, void *items, size_t capacity, size_t bytes)
{
    if (capacity > 0) {
        hooks->free(hooks->ctx, items, capacity * bytes, ARRAY_ALIGN);
    }
}
