/* replay.h  Where random tests begin, how long they are, and what they draw. */
#ifndef REPLAY_H
#define REPLAY_H

#include <time.h>

#include "fixture.h"

/* The number in an environment variable, decimal or 0x...; `otherwise` where there is none. */
static inline uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* PKV_SEED, else one that no run had before. */
static inline uint64_t new_seed(void)
{
    struct timespec now;
    assert_int_equal(timespec_get(&now, TIME_UTC), TIME_UTC);
    return number_from("PKV_SEED", (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z;
    (void)__builtin_add_overflow(*state, UINT64_C(0x9e3779b97f4a7c15), state);
    z = *state;
    (void)__builtin_mul_overflow(z ^ (z >> 30), UINT64_C(0xbf58476d1ce4e5b9), &z);
    (void)__builtin_mul_overflow(z ^ (z >> 27), UINT64_C(0x94d049bb133111eb), &z);
    return z ^ (z >> 31);
}

#endif
