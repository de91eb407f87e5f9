/* xxh3.h  XXH3, compiled in from libxxhash: a short digest costs not much more than the call. */
#ifndef PKVI_XXH3_H
#define PKVI_XXH3_H

#define XXH_INLINE_ALL
#ifdef __clang__ /* a hash wraps on purpose, which -fsanitize=integer would report */
#pragma clang attribute push(__attribute__((no_sanitize("integer"))), apply_to = function)
#include <xxhash.h>
#pragma clang attribute pop
#else
#include <xxhash.h>
#endif

#endif
