/* runs_store.c  Where runs lie in memory: made, grown, pruned.
 *
 * Blocks and tokens of a run lie in one piece that grows by a quarter, so that a request that
 * generates seldom moves it, and shrinks when three quarters of it are unused. The blocks lie
 * before the tokens: most walks see only the beginning of a run with branches, and find all of it
 * near. Tokens that a sequence lends, or has left behind, are a piece of their own until the run
 * must move. */
#include <string.h>

#include "base/array.h"
#include "base/math.h"
#include "pool/runs_internal.h"

static size_t first_bytes(const pkvi_runs *runs, uint32_t capacity)
{
    enum { LINE = 64 };
    return ((size_t)capacity * runs->n_groups * sizeof(pkv_block) + LINE - 1) / LINE * LINE;
}

static size_t storage_bytes(const pkvi_runs *runs, uint32_t capacity)
{
    return first_bytes(runs, capacity) + (size_t)capacity * (size_t)runs->unit * sizeof(int32_t);
}

static void free_storage(const pkvi_runs *runs, const pkvi_run *run)
{
    const bool joint = !run->lent && run->apart == 0;
    runs->alloc.free(runs->alloc.ctx, run->first,
                     joint ? storage_bytes(runs, run->capacity) : first_bytes(runs, run->capacity),
                     64);
    pkvi_array_free(&runs->alloc, run->tokens, run->apart, sizeof *run->tokens);
}

static void copy_first(const pkvi_runs *runs, const pkvi_run *run, pkv_block *to, uint32_t capacity)
{
    for (uint32_t g = 0; g < runs->n_groups && run->n > 0; g++) {
        memcpy(to + (size_t)g * capacity, pkvi_run_blocks(run, g), run->n * sizeof *to);
    }
}

/* Moves the blocks of a run, whose tokens are elsewhere; false: no memory. */
static bool set_first_capacity(pkvi_runs *runs, pkvi_run *run, uint32_t capacity)
{
    pkv_block *first = runs->alloc.alloc(runs->alloc.ctx, first_bytes(runs, capacity), 64);
    if (!first) {
        return false;
    }
    if (run->first) {
        copy_first(runs, run, first, capacity);
        runs->alloc.free(runs->alloc.ctx, run->first, first_bytes(runs, run->capacity), 64);
    }
    run->first = first;
    run->capacity = capacity;
    return true;
}

/* Moves a run into one piece for so many units; false: no memory. */
static bool set_capacity(pkvi_runs *runs, pkvi_run *run, uint32_t capacity)
{
    const size_t units = (size_t)runs->unit;
    pkv_block *first = runs->alloc.alloc(runs->alloc.ctx, storage_bytes(runs, capacity), 64);
    if (!first) {
        return false;
    }
    int32_t *tokens = (int32_t *)(void *)((char *)first + first_bytes(runs, capacity));
    if (run->n > 0) {
        memcpy(tokens, run->tokens, run->n * units * sizeof *tokens);
        copy_first(runs, run, first, capacity);
    }
    if (run->first) {
        free_storage(runs, run);
    }
    run->tokens = tokens;
    run->first = first;
    run->capacity = capacity;
    run->lent = false;
    run->apart = 0;
    return true;
}

enum { SPARE = 4 }; /* units that a new run has room for beside its own */

static uint32_t with_spare(uint64_t n)
{
    return (uint32_t)pkvi_min(n + SPARE, UINT32_MAX);
}

bool pkvi_run_reserve(pkvi_runs *runs, pkvi_run *run, uint64_t more)
{
    const uint64_t need = run->n + more;
    const uint64_t room = run->apart > 0 ? run->apart / runs->unit : run->capacity;
    const bool fits = need <= run->capacity && need <= room && !run->lent;
    return fits || set_capacity(runs, run, with_spare(need + run->n / 4));
}

bool pkvi_run_reserve_lent(pkvi_runs *runs, pkvi_run *run, uint64_t more)
{
    const uint64_t need = run->n + more;
    return need <= run->capacity || set_first_capacity(runs, run, with_spare(need + run->n / 4));
}

void pkvi_run_keep_lent(pkvi_runs *runs, pkvi_run *run, size_t capacity)
{
    const uint64_t units = run->n + SPARE;
    run->lent = false;
    run->apart = capacity;
    if (capacity / runs->unit > units + units / 4) {
        (void)set_capacity(runs, run, with_spare(run->n)); /* if that fails, room is wasted */
    }
}

/* Twice the buckets, while there are few; false: no memory. */
static bool grow_buckets(pkvi_runs *runs)
{
    const uint64_t n = runs->n_buckets * 2;
    const size_t bytes = (size_t)n * sizeof *runs->buckets;
    uint32_t *old = runs->buckets, *buckets = runs->alloc.alloc(runs->alloc.ctx, bytes, 64);
    if (!buckets) {
        return false;
    }
    memset(buckets, 0, bytes);
    runs->alloc.free(runs->alloc.ctx, old, (size_t)runs->n_buckets * sizeof *old, 64);
    runs->buckets = buckets;
    runs->n_buckets = n;
    for (uint32_t r = 1; r < runs->n_at; r++) {
        if (runs->at[r].tokens) {
            uint32_t *bucket = pkvi_run_bucket(runs, runs->at[r].hash);
            runs->at[r].next_in_bucket = *bucket;
            *bucket = r;
        }
    }
    return true;
}

/* Moves all runs into a larger table; false: no memory. */
static bool grow_table(pkvi_runs *runs, size_t capacity)
{
    pkvi_run *at = runs->alloc.alloc(runs->alloc.ctx, capacity * sizeof *at, _Alignof(pkvi_run));
    if (!at) {
        return false;
    }
    if (runs->at) {
        memcpy(at, runs->at, runs->n_at * sizeof *at);
        runs->alloc.free(runs->alloc.ctx, runs->at, runs->capacity * sizeof *at,
                         _Alignof(pkvi_run));
    }
    runs->at = at;
    runs->capacity = capacity;
    return true;
}

uint32_t pkvi_run_new(pkvi_runs *runs, uint64_t n_units, int32_t *lent)
{
    if (runs->n_used + 1 > runs->n_buckets && !grow_buckets(runs)) {
        return 0;
    }
    uint32_t r = runs->free;
    if (r == 0) {
        if (runs->n_at == runs->capacity && !grow_table(runs, runs->capacity * 2)) {
            return 0;
        }
        r = runs->n_at++;
        memset(&runs->at[r], 0, sizeof runs->at[r]);
        runs->at[r].next_in_bucket = runs->free;
        runs->free = r;
    }
    pkvi_run fresh = {.tokens = lent, .lent = lent != NULL};
    const uint32_t units = with_spare(n_units);
    if (!(lent ? set_first_capacity(runs, &fresh, units) : set_capacity(runs, &fresh, units))) {
        return 0;
    }
    runs->free = runs->at[r].next_in_bucket;
    runs->at[r] = fresh;
    runs->n_used++;
    return r;
}

/* ---- pruning ---- */

static void drop_run(pkvi_runs *runs, uint32_t r)
{
    pkvi_run *run = &runs->at[r];
    uint32_t *link = pkvi_run_bucket(runs, run->hash);
    while (*link != r) {
        link = &runs->at[*link].next_in_bucket;
    }
    *link = run->next_in_bucket;
    free_storage(runs, run);
    memset(run, 0, sizeof *run);
    run->next_in_bucket = runs->free;
    runs->free = r;
    runs->n_used--;
}

void pkvi_run_prune(pkvi_runs *runs, uint32_t r)
{
    while (r != 0 && runs->at[r].holders == 0) {
        const uint32_t parent = runs->at[r].parent;
        drop_run(runs, r);
        runs->at[parent].holders--;
        runs->at[parent].n_children--;
        if (runs->at[parent].last_child == r) {
            runs->at[parent].last_child = 0;
        }
        r = parent;
    }
    pkvi_run *run = &runs->at[r];
    if (r == 0 || run->cursors > 0) {
        return;
    }
    const uint32_t least = run->n_children > 0 ? run->last_child_at : 0;
    while (run->n > least && run->n > 1 && pkvi_run_is_bare(runs, run, run->n - 1)) {
        run->n--;
    }
    if (run->n < run->capacity / 4 && !run->lent) {
        (void)set_capacity(runs, run, with_spare(run->n));
    }
}

/* ---- create ---- */

pkvi_runs *pkvi_runs_create(const pkv_alloc *alloc, pkvi_block *blocks, uint64_t n_blocks,
                            uint64_t unit, uint32_t n_groups)
{
    enum { FIRST_BUCKETS = 64, FIRST_RUNS = 16 };
    pkvi_runs *runs = alloc->alloc(alloc->ctx, sizeof *runs, 16);
    if (!runs) {
        return NULL;
    }
    memset(runs, 0, sizeof *runs);
    runs->alloc = *alloc;
    runs->unit = unit;
    runs->n_groups = n_groups;
    runs->blocks = blocks;
    runs->n_blocks = n_blocks;
    runs->n_buckets = FIRST_BUCKETS;
    runs->seed = (uint64_t)(uintptr_t)runs; /* differs from process to process; decides nothing */
    runs->buckets = alloc->alloc(alloc->ctx, FIRST_BUCKETS * sizeof *runs->buckets, 64);
    if (!runs->buckets || !grow_table(runs, FIRST_RUNS)) {
        pkvi_runs_destroy(runs);
        return NULL;
    }
    memset(runs->buckets, 0, FIRST_BUCKETS * sizeof *runs->buckets);
    memset(runs->at, 0, sizeof *runs->at);
    runs->n_at = 1; /* the root: before the first unit */
    return runs;
}

void pkvi_runs_destroy(pkvi_runs *runs)
{
    if (!runs) {
        return;
    }
    const pkv_alloc alloc = runs->alloc;
    for (uint32_t r = 1; r < runs->n_at; r++) {
        if (runs->at[r].first) {
            free_storage(runs, &runs->at[r]);
        }
    }
    if (runs->at) {
        alloc.free(alloc.ctx, runs->at, runs->capacity * sizeof *runs->at, _Alignof(pkvi_run));
    }
    if (runs->buckets) {
        alloc.free(alloc.ctx, runs->buckets, (size_t)runs->n_buckets * sizeof *runs->buckets, 64);
    }
    alloc.free(alloc.ctx, runs, sizeof *runs, 16);
}
