/* runs_check.c  The invariants of the tree of runs. */
#include "pool/runs_internal.h"

/* A run hangs on a place of its parent, and is reached by its hash. */
static const char *check_links(const pkvi_runs *runs, uint32_t r)
{
    const pkvi_run *run = &runs->at[r];
    if (run->n == 0 || run->n > run->capacity || run->parent >= runs->n_at ||
        run->parent_at > runs->at[run->parent].n || (run->parent_at < 1) != (run->parent == 0) ||
        run->depth != runs->at[run->parent].depth + run->parent_at) {
        return "a run continues no place";
    }
    uint32_t seen = 0;
    for (uint32_t at = runs->buckets[run->hash & (runs->n_buckets - 1)]; at != r;
         at = runs->at[at].next_in_bucket) {
        if (at == 0 || at >= runs->n_at || ++seen > runs->n_at) {
            return "a run cannot be found";
        }
    }
    return NULL;
}

/* Tokens lie behind the blocks, or in a piece of their own, or a sequence has them, from the first
 * on. */
static const char *check_tokens(const pkvi_runs *runs, uint32_t r)
{
    const pkvi_run *run = &runs->at[r];
    const bool fits = run->apart == 0 || run->n <= run->apart / runs->unit;
    return fits && (!run->lent || (run->apart == 0 && run->depth == 0))
               ? NULL
               : "a run reads tokens that are not there";
}

/* Names of a unit form a ring. Counts them. */
static const char *check_unit(const pkvi_runs *runs, uint32_t r, uint32_t group, uint32_t at,
                              uint64_t *n)
{
    const pkv_block first = pkvi_run_blocks(&runs->at[r], group)[at];
    pkv_block b = first;
    if (first == 0) {
        return NULL;
    }
    do {
        if (b == 0 || b >= runs->n_blocks || runs->blocks[b].name.run != r ||
            runs->blocks[b].name.at != at || runs->blocks[b].run_group != group ||
            runs->blocks[b].name.next >= runs->n_blocks ||
            runs->blocks[runs->blocks[b].name.next].name.prev != b || ++*n > runs->n_blocks) {
            return "blocks of one place are not linked";
        }
        b = runs->blocks[b].name.next;
    } while (b != first);
    return NULL;
}

static const char *check_run(const pkvi_runs *runs, uint32_t r, uint64_t *n_blocks,
                             uint64_t *n_named)
{
    const pkvi_run *run = &runs->at[r];
    const char *bad = check_links(runs, r);
    bad = bad ? bad : check_tokens(runs, r);
    uint64_t n = 0, children = 0;
    for (uint32_t g = 0; g < runs->n_groups; g++) {
        for (uint32_t at = 0; !bad && at < run->n; at++) {
            *n_named += pkvi_run_blocks(run, g)[at] != 0;
            bad = check_unit(runs, r, g, at, &n);
        }
    }
    for (uint32_t c = 1; c < runs->n_at && run->n_children > 0; c++) {
        children += runs->at[c].tokens && runs->at[c].parent == r;
    }
    *n_blocks += n;
    if (bad) {
        return bad;
    }
    if (children != run->n_children || run->holders != n + children + run->cursors) {
        return "a run is held by others than it knows";
    }
    if (run->last_child >= runs->n_at ||
        (run->last_child != 0 && runs->at[run->last_child].parent != r)) {
        return "a run takes another's branch for its own";
    }
    return run->holders > 0 ? NULL : "a run is held by nobody";
}

const char *pkvi_runs_check(const pkvi_runs *runs, bool (*is_named)(void *ctx, pkv_block block),
                            void *ctx)
{
    uint64_t n_blocks = 0, n_named = 0, n_placed = 0;
    for (uint32_t r = 1; r < runs->n_at; r++) {
        const char *bad = runs->at[r].tokens ? check_run(runs, r, &n_blocks, &n_named) : NULL;
        if (bad) {
            return bad;
        }
    }
    for (uint32_t b = 0; b < runs->n_blocks; b++) {
        if ((runs->blocks[b].name.run != 0) != is_named(ctx, b)) {
            return "a block has a key in one place only";
        }
        n_placed += runs->blocks[b].name.run != 0;
    }
    return n_placed == n_blocks && n_named == runs->n_named ? NULL
                                                            : "keys are missing from the tree";
}

uint64_t pkvi_runs_n_cursors(const pkvi_runs *runs)
{
    uint64_t n = 0;
    for (uint32_t r = 1; r < runs->n_at; r++) {
        n += runs->at[r].cursors;
    }
    return n;
}
