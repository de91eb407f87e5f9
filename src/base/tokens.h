/* tokens.h  Token ids. */
#ifndef PKVI_TOKENS_H
#define PKVI_TOKENS_H

#include <stdint.h>

/* Index of the first negative number; n: there is none. */
uint64_t pkvi_first_negative(const int32_t *tokens, uint64_t n);
/* The same as every processor can do it. */
uint64_t pkvi_first_negative_plain(const int32_t *tokens, uint64_t n);

#endif
