/* tokens.h  Token ids. */
#ifndef PKVI_TOKENS_H
#define PKVI_TOKENS_H

#include <stdint.h>

/* Index of the first negative number; n: there is none. */
uint64_t pkvi_first_negative(const int32_t *tokens, uint64_t n);

/* The forms of it that the processor can do, the widest is number 0; NULL: there are no more. */
typedef uint64_t pkvi_find_negative(const int32_t *tokens, uint64_t n);
pkvi_find_negative *pkvi_find_negative_of_cpu(unsigned i);

#endif
