/* array.h  Lists that grow by doubling, from the hooks of the object that owns them. */
#ifndef PKVI_ARRAY_H
#define PKVI_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#include <pkv/alloc.h>

/* `items` with room for `need` >= 1 elements of `bytes` bytes, moved if it had to be; *capacity is
 * updated. NULL: no memory, and items is as it was. */
void *pkvi_array_grown(const pkv_alloc *hooks, void *items, size_t *capacity, size_t need,
                       size_t bytes);
/* The same with room for exactly so many, which are more. */
void *pkvi_array_resized(const pkv_alloc *hooks, void *items, size_t *capacity, size_t room,
                         size_t bytes);
void pkvi_array_free(const pkv_alloc *hooks, void *items, size_t capacity, size_t bytes);

/* A list type `name` with name_reserve() (false: no memory, nothing changed) and name_free(). */
#define PKVI_DEFINE_LIST(name, type)                                                       \
    typedef struct name {                                                                  \
        type *at;                                                                          \
        size_t n, capacity;                                                                \
    } name;                                                                                \
    static inline bool name##_reserve(const pkv_alloc *hooks, name *list, size_t need)     \
    {                                                                                      \
        if (need <= list->capacity) {                                                      \
            return true;                                                                   \
        }                                                                                  \
        void *at = pkvi_array_grown(hooks, list->at, &list->capacity, need, sizeof(type)); \
        list->at = at ? (type *)at : list->at;                                             \
        return at != NULL;                                                                 \
    }                                                                                      \
    static inline void name##_free(const pkv_alloc *hooks, name *list)                     \
    {                                                                                      \
        pkvi_array_free(hooks, list->at, list->capacity, sizeof(type));                    \
        list->at = NULL;                                                                   \
        list->n = list->capacity = 0;                                                      \
    }

#endif
