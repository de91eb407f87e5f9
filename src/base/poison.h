/* poison.h  Memory that an object keeps while nobody may look at it.
 *
 * In builds with AddressSanitizer whoever reads it is found, as in memory that was freed; in others
 * nothing happens. */
#ifndef PKVI_POISON_H
#define PKVI_POISON_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PKVI_HAS_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define PKVI_HAS_ASAN 1
#endif

#ifdef PKVI_HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

static inline void pkvi_poison(const void *from, size_t bytes)
{
#ifdef PKVI_HAS_ASAN
    __asan_poison_memory_region(from, bytes);
#else
    (void)from;
    (void)bytes;
#endif
}

static inline void pkvi_unpoison(const void *from, size_t bytes)
{
#ifdef PKVI_HAS_ASAN
    __asan_unpoison_memory_region(from, bytes);
#else
    (void)from;
    (void)bytes;
#endif
}

#endif
