/* math.h  Size arithmetic that cannot wrap. Every function says whether the result exists, and no
 * result exceeds 2^63-1, so that each size can be written as a JSON integer. */
#ifndef PKVI_MATH_H
#define PKVI_MATH_H

#include <stdbool.h>
#include <stdint.h>

#define PKVI_SIZE_MAX ((uint64_t)INT64_MAX)

static inline bool pkvi_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out) && *out <= PKVI_SIZE_MAX;
}

static inline bool pkvi_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out) && *out <= PKVI_SIZE_MAX;
}

/* a / b, rounded up. b >= 1 */
static inline uint64_t pkvi_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* The smallest multiple of b that is not below a. b >= 1 */
static inline bool pkvi_round_up(uint64_t a, uint64_t b, uint64_t *out)
{
    return pkvi_mul(pkvi_ceil_div(a, b), b, out);
}

static inline uint64_t pkvi_gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Least common multiple of two numbers >= 1. */
static inline bool pkvi_lcm(uint64_t a, uint64_t b, uint64_t *out)
{
    return pkvi_mul(a / pkvi_gcd(a, b), b, out);
}

static inline uint64_t pkvi_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t pkvi_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
