/* state_fixture.h  What tests of recurrent layers share: full attention, and aligned states whose
 * pages are as large. Group 0 is full attention, group 1 the states. */
#ifndef STATE_FIXTURE_H
#define STATE_FIXTURE_H

#include "seq_fixture.h"

/* A model of these layers. 0 means: none, or no unit but the block. */
typedef struct state_model {
    uint64_t block, unit, n_blocks, len;
    uint32_t scratch;              /* blocks for drafts */
    uint32_t checkpoints;          /* blocks for checkpoints */
    uint64_t checkpoint_alignment; /* tokens */
    bool sparse;                   /* retention 0 instead of every block */
    bool drafter;                  /* gives up the end of a hit */
    bool shared_prefix_checkpoint;
} state_model;

/* A layer of aligned states, the page as large as that of full_of(block, 8). */
static inline pkv_spec states_of(const state_model *m)
{
    const pkv_spec like = full_of(m->block, 8);
    pkv_spec spec = recurrent(m->block);
    spec.mamba_mode = PKV_MAMBA_ALIGN;
    spec.num_speculative_blocks = m->scratch;
    spec.num_prefill_checkpoint_blocks = m->checkpoints;
    spec.prefill_checkpoint_alignment = m->checkpoint_alignment;
    spec.page_size_padded = page_of(&like);
    return finished(spec);
}

/* As blocks_for(), with what the model says. */
static inline pkv_plan_params state_plan(const state_model *m, const pkv_spec *layers, size_t n)
{
    pkv_plan_params params = blocks_for(layers, n, m->n_blocks, m->len);
    params.prefix_match_unit = m->unit;
    params.retention_interval = m->sparse ? 0 : PKV_RETAIN_DENSE;
    return m->drafter ? with_drop(params) : params;
}

static inline pkv_cache *state_cache_of(const state_model *m, const pkv_spec *layers, size_t n)
{
    const pkv_plan_params plan_params = state_plan(m, layers, n);
    pkv_cache_params params = cache_params_of(NULL, NULL);
    params.shared_prefix_checkpoint = m->shared_prefix_checkpoint;
    return cache_with(&plan_params, params);
}

static inline pkv_cache *state_cache(state_model m)
{
    const pkv_spec layers[] = {full_of(m.block, 8), states_of(&m)};
    return state_cache_of(&m, layers, 2);
}

/* Steps of so many tokens each, until all n are computed. */
static inline void run_in_chunks(pkv_cache *cache, pkv_seq *seq, uint64_t n, uint64_t chunk)
{
    for (uint64_t done = info_of(seq).computed; done < n; done += chunk) {
        pkv_cache_step(cache);
        (void)take(seq, n - done < chunk ? n - done : chunk);
        assert_sound(cache);
    }
}

static inline uint32_t refs_of(const pkv_cache *cache, pkv_block block)
{
    return pkv_pool_refs(pkv_cache_get_pool(cache), block);
}

/* Tokens that a block is keyed for; 0: none. */
static inline uint64_t key_of(const pkv_cache *cache, pkv_block block)
{
    return pkv_pool_block_tokens(pkv_cache_get_pool(cache), block);
}

/* What the blocks of a table are keyed for: "0 128 0 256". */
static inline void assert_keys(const pkv_cache *cache, const pkv_seq *seq, uint32_t g,
                               const char *wanted)
{
    uint64_t n;
    char got[256] = "";
    size_t len = 0;
    const pkv_block *ids = pkv_seq_table(seq, g, &n);
    for (uint64_t i = 0; i < n && len < sizeof got; i++) {
        len += (size_t)snprintf(got + len, sizeof got - len, i ? " %" PRIu64 : "%" PRIu64,
                                key_of(cache, ids[i]));
    }
    assert_string_equal(got, wanted);
}

/* "3>4 4>6": the copies that an allocate told. */
static inline void assert_copies(const pkv_allocate_result *result, const char *wanted)
{
    char got[256] = "";
    size_t len = 0;
    for (uint64_t i = 0; i < result->n_copies && len < sizeof got; i++) {
        len += (size_t)snprintf(got + len, sizeof got - len,
                                i ? " %" PRIu32 ">%" PRIu32 : "%" PRIu32 ">%" PRIu32,
                                result->copies[i].src, result->copies[i].dst);
    }
    assert_string_equal(got, wanted);
}

#endif
