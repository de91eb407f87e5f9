/* tokens.c  Token ids, many at a time. */
#include "base/tokens.h"

#include <stddef.h>

uint64_t pkvi_first_negative(const int32_t *tokens, uint64_t n)
{
    enum { AT_ONCE = 32 };
    uint64_t i = 0;
    for (; n - i >= AT_ONCE; i += AT_ONCE) {
        int32_t any = 0;
        for (size_t at = 0; at < AT_ONCE; at++) {
            any |= tokens[i + at];
        }
        if (any < 0) {
            break;
        }
    }
    while (i < n && tokens[i] >= 0) {
        i++;
    }
    return i;
}
