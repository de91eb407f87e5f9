/* tokens.h  Token ids. */
#ifndef PKVI_TOKENS_H
#define PKVI_TOKENS_H

#include <stdint.h>

/* Index of the first negative number; n: there is none. */
uint64_t pkvi_first_negative(const int32_t *tokens, uint64_t n);

/* The forms of it, the narrowest first; the processor can do this many of them. */
typedef uint64_t pkvi_find_negative(const int32_t *tokens, uint64_t n);
extern pkvi_find_negative *const pkvi_find_negative_forms[];
unsigned pkvi_find_negative_count(void);

#endif
