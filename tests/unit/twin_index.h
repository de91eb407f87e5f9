/* twin_index.h  Twins of one plan that find content in different ways. */
#ifndef TWIN_INDEX_H
#define TWIN_INDEX_H

#include "twin_work.h"

enum { INDEX_OPS = 20000, USUAL_HITS = 50, FEW_HITS = 5 }; /* hits: with extras, at least */

/* Two caches of one plan, by this index and by the index of keys. */
static inline void run_against_keys(twin *t, const pkv_plan_params *params, uint32_t index,
                                    uint64_t hits)
{
    t->extras = true;
    begin_twin(t, params, (const uint32_t[]){index, PKV_INDEX_KEYS});
    run_twin(t, INDEX_OPS);
    assert_true(number_from("PKV_RANDOM_OPS", INDEX_OPS) < INDEX_OPS ||
                (t->tagged > hits && t->refusals > 0));
    end_twin(t);
}

static inline void run_index_twins(const pkv_plan_params *params, uint32_t index, bool events,
                                   bool ready, uint64_t hits)
{
    static twin t;
    memset(&t, 0, sizeof t);
    t.events = events;
    t.ready = ready;
    run_against_keys(&t, params, index, hits);
}

/* Blocks of several sizes are found by tokens only: with events, ends of prompts inside of blocks
 * are told. */
static inline void run_sizes(const pkv_plan_params *params)
{
    static twin t;
    memset(&t, 0, sizeof t);
    t.several_sizes = true;
    run_against_keys(&t, params, PKV_INDEX_TOKENS, FEW_HITS);
}

/* By every index but that of keys. */
static inline void run_indices_with(const pkv_plan_params *params, uint64_t hits)
{
    run_index_twins(params, PKV_INDEX_TOKENS, false, false, hits);
    run_index_twins(params, PKV_INDEX_CHAINS, false, true, hits);
    run_index_twins(params, PKV_INDEX_AUTO, true, true, hits);
}

static inline void run_indices(const pkv_plan_params *params)
{
    run_indices_with(params, USUAL_HITS);
}

/* A plan whose keys depend on tokens that come later. */
static inline void run_looking_ahead(pkv_plan_params params)
{
    params.draft_method = PKV_DRAFT_EAGLE;
    params.draft_tokens = 1;
    run_index_twins(&params, PKV_INDEX_CHAINS, true, true, USUAL_HITS);
    params.draft_method = PKV_DRAFT_MTP_MULTI;
    params.draft_tokens = 3;
    params.draft_lookahead_hashes = 1;
    run_index_twins(&params, PKV_INDEX_CHAINS, true, true, USUAL_HITS);
}

#endif
