/* runs_internal.h  The tree of runs in memory: what walks it, and what checks it. */
#ifndef PKVI_RUNS_INTERNAL_H
#define PKVI_RUNS_INTERNAL_H

#include "pool/runs.h"

/* The first half is all that a walk reads of a run, one line of the processor's cache. */
typedef struct pkvi_run {
    _Alignas(64) int32_t *tokens;    /* [n * unit] */
    pkv_block *first;                /* [n_groups, capacity] named first for the unit, or 0 */
    uint64_t hash;                   /* of its place and first unit */
    uint32_t n, capacity;            /* units */
    uint32_t parent, parent_at;      /* continues the first parent_at units of its parent */
    uint32_t n_children, last_child; /* last_child: the newest branch, 0 if it is gone: a hint */
    uint32_t next_in_bucket;         /* also the next free run */
    bool tagged;                     /* its first unit has a tag; no other one has */
    bool lent;                       /* a sequence has the tokens */
    uint32_t depth;                  /* units before its first one, over all runs above */

    uint32_t holders; /* named blocks, branches and cursors */
    uint32_t cursors;
    uint32_t last_child_at; /* no branch begins later; if there is one */
    size_t apart; /* of tokens in a piece of their own: for how many it has room; 0: lent, or in one
                     piece with the blocks, behind them, with room for `capacity` units */
    pkv_key tag;
} pkvi_run;

struct pkvi_runs {
    pkv_alloc alloc;
    uint64_t unit, n_blocks, seed;
    uint32_t n_groups;
    pkvi_block *blocks; /* [n_blocks] the pool's; only their names are looked at */
    pkvi_run *at;       /* [n_at]; 0 is the root, which has no units */
    size_t capacity;
    uint32_t n_at, n_used, free; /* free: a list of runs that are none */
    uint32_t *buckets;           /* [n_buckets] runs by place and first unit */
    uint64_t n_buckets;
    uint64_t n_named;
};

static inline uint32_t *pkvi_run_bucket(const pkvi_runs *runs, uint64_t hash)
{
    return &runs->buckets[hash & (runs->n_buckets - 1)];
}

/* [capacity] the blocks that a group has for its units. */
static inline pkv_block *pkvi_run_blocks(const pkvi_run *run, uint32_t group)
{
    return run->first + (size_t)group * run->capacity;
}

/* Whether no group has a block for the unit. */
static inline bool pkvi_run_is_bare(const pkvi_runs *runs, const pkvi_run *run, uint32_t at)
{
    uint32_t g = 0;
    while (g < runs->n_groups && pkvi_run_blocks(run, g)[at] == 0) {
        g++;
    }
    return g == runs->n_groups;
}

/* The run in which a unit before the cursor lies: `r` or one above it. */
static inline uint32_t pkvi_run_of_unit(const pkvi_runs *runs, uint32_t r, uint64_t unit)
{
    while (runs->at[r].depth > unit) {
        r = runs->at[r].parent;
    }
    return r;
}

/* ---- runs_store.c ---- */

/* The number of a new run with room for so many units, held by nobody. lent: its tokens are there,
 * or NULL. 0: no memory. */
uint32_t pkvi_run_new(pkvi_runs *runs, uint64_t n_units, int32_t *lent);
/* Room for so many more units; false: no memory. The run gets its own tokens, or: they go on where
 * they are. */
bool pkvi_run_reserve(pkvi_runs *runs, pkvi_run *run, uint64_t more);
bool pkvi_run_reserve_lent(pkvi_runs *runs, pkvi_run *run, uint64_t more);
/* The lent tokens, in a piece with room for so many, are the run's now. */
void pkvi_run_keep_lent(pkvi_runs *runs, pkvi_run *run, size_t capacity);
/* Takes away units at the end of a run that nobody needs; if nobody holds it, all of it, and its
 * parents then perhaps too. */
void pkvi_run_prune(pkvi_runs *runs, uint32_t run);

#endif
