/* sort.h  Stretches of memory by their first byte. */
#ifndef PKVI_TRANSFER_SORT_H
#define PKVI_TRANSFER_SORT_H

#include <stddef.h>
#include <stdint.h>

typedef struct pkvi_span {
    uint64_t start, end; /* end: whatever goes with it */
} pkvi_span;

/* Sorts by start, equal ones in the order given. room: [n]. O(n) passes over what differs. */
void pkvi_sort_spans(pkvi_span *spans, pkvi_span *room, size_t n);

#endif
