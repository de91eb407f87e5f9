/* replay.h  What the environment says of random tests: where they begin, how long they are. */
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

#endif
