/* fetch.h  Memory that is going to be read is asked for. */
#ifndef PKVI_FETCH_H
#define PKVI_FETCH_H

#include <stddef.h>
#include <stdint.h>

/* All lines of so many bytes; nothing need be there. */
static inline void pkvi_fetch(const void *from, size_t bytes)
{
    enum { LINE = 64 };
    for (size_t at = 0; at < bytes; at += LINE) {
        __builtin_prefetch((const void *)((uintptr_t)from + at));
    }
}

/* One line into the second-level cache, for what is used some tens of turns later. Of these, many
 * more can be on their way at once than of those into the first level: measured from DRAM, 6 ns a
 * line beside 8 to 12. */
static inline void pkvi_fetch_far(const void *line)
{
    __builtin_prefetch(line, 0, 2);
}

#endif
