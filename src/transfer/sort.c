/* sort.c  A radix sort: libc's may allocate behind the hooks. */
#include "transfer/sort.h"

#include <string.h>

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

/* One pass by eight bits; 0 and nothing moved if all are equal there. */
static int pass(const pkvi_span *from, pkvi_span *to, size_t n, unsigned shift)
{
    size_t count[DIGITS] = {0}, at = 0;
    for (size_t i = 0; i < n; i++) {
        count[from[i].start >> shift & (DIGITS - 1)]++;
    }
    if (count[from[0].start >> shift & (DIGITS - 1)] == n) {
        return 0;
    }
    for (size_t d = 0; d < DIGITS; d++) {
        const size_t own = count[d];
        count[d] = at;
        at += own;
    }
    for (size_t i = 0; i < n; i++) {
        to[count[from[i].start >> shift & (DIGITS - 1)]++] = from[i];
    }
    return 1;
}

void pkvi_sort_spans(pkvi_span *spans, pkvi_span *room, size_t n)
{
    pkvi_span *from = spans, *to = room;
    for (unsigned shift = 0; n > 0 && shift < 64; shift += DIGIT_BITS) {
        if (pass(from, to, n, shift)) {
            pkvi_span *last = from;
            from = to;
            to = last;
        }
    }
    if (from != spans) {
        memcpy(spans, from, n * sizeof *spans);
    }
}
