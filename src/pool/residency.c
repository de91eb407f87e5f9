/* residency.c  How long sampled blocks lived: from being handed out to being handed out again.
 *
 * A block is sampled when it is handed out, with the probability that the pool was created with.
 * Being released says nothing about its life, so it records nothing. */
#include <string.h>

#include "pool/pool_internal.h"

enum { KEPT_ACCESSES = 4 };

/* splitmix64: a fixed sequence per seed, so that a run can be repeated. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z;
    (void)__builtin_add_overflow(*state, UINT64_C(0x9e3779b97f4a7c15), state);
    z = *state;
    (void)__builtin_mul_overflow(z ^ (z >> 30), UINT64_C(0xbf58476d1ce4e5b9), &z);
    (void)__builtin_mul_overflow(z ^ (z >> 27), UINT64_C(0x94d049bb133111eb), &z);
    return z ^ (z >> 31);
}

void pkvi_residency_taken(pkv_pool *pool, pkv_block block)
{
    const double draw = (double)(next_random(&pool->random) >> 11) * 0x1p-53;
    if (draw >= pool->sample_rate) {
        return;
    }
    const uint64_t now = pool->clock_ns(pool->residency_ctx);
    pool->samples[block] = (pkvi_sample){.birth_ns = now, .last_ns = now, .live = 1};
}

void pkvi_residency_accessed(pkv_pool *pool, pkv_block block)
{
    pkvi_sample *sample = &pool->samples[block];
    if (!sample->live) {
        return;
    }
    sample->last_ns = pool->clock_ns(pool->residency_ctx);
    sample->access_ns[sample->n_access++ % KEPT_ACCESSES] = sample->last_ns;
}

void pkvi_residency_ended(pkv_pool *pool, pkv_block block)
{
    pkvi_sample *sample = &pool->samples[block];
    if (!sample->live) {
        return;
    }
    sample->live = 0;
    if (!pool->on_residency) {
        return;
    }
    const uint64_t now = pool->clock_ns(pool->residency_ctx);
    pkv_residency told = {.lifetime_ns = now - sample->birth_ns, .idle_ns = now - sample->last_ns};
    const uint32_t kept = sample->n_access < KEPT_ACCESSES ? sample->n_access : KEPT_ACCESSES;
    for (uint32_t i = 1; i < kept; i++) {
        const uint32_t at = sample->n_access - kept + i;
        told.gaps_ns[told.n_gaps++] =
            sample->access_ns[at % KEPT_ACCESSES] - sample->access_ns[(at - 1) % KEPT_ACCESSES];
    }
    pool->on_residency(pool->residency_ctx, &told);
}

void pkvi_residency_clear(pkv_pool *pool)
{
    memset(pool->samples, 0, (size_t)pool->n_blocks * sizeof *pool->samples);
}
