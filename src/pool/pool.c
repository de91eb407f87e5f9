/* pool.c  Blocks: created, taken, shared, released.
 *
 * Blocks without a key are reused last in, first out: their bytes are warm, and the churn of a
 * window does not flush cached prefixes. Keyed blocks go to the back and leave in the order in
 * which they came. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/panic.h"
#include "base/params.h"
#include "pool/pool_internal.h"

void pkv_pool_params_init(pkv_pool_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->key_bytes = 32;
    params->unit = 16;
    params->units_per_block = 1;
    params->caching = 1;
}

static pkv_status check_params(const pkv_pool_params *p)
{
    if (p->n_blocks == 0 || p->n_blocks > PKV_POOL_MAX_BLOCKS) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_pool_create: n_blocks %" PRIu64 " is not within 1 and %" PRIu64,
                         p->n_blocks, PKV_POOL_MAX_BLOCKS);
    }
    if (p->unit == 0 || p->unit > PKVI_MAX_UNIT || p->lookahead > PKVI_MAX_UNIT ||
        p->units_per_block == 0 || p->units_per_block > (UINT32_MAX - 2) / p->n_blocks) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_pool_create: unit %" PRIu64 ", units_per_block %" PRIu64
                         " for %" PRIu64 " blocks: out of range",
                         p->unit, p->units_per_block, p->n_blocks);
    }
    if ((p->key_bytes != 32 && p->key_bytes != 16) || p->max_table > PKV_POOL_MAX_BLOCKS) {
        return pkvi_fail(PKV_E_INVAL, "pkv_pool_create: key_bytes %" PRIu32 ", max_table %" PRIu64,
                         p->key_bytes, p->max_table);
    }
    if (!(p->sample_rate >= 0 && p->sample_rate <= 1) || (p->sample_rate > 0 && !p->clock_ns)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_pool_create: sample_rate %g needs [0, 1] and a clock",
                         p->sample_rate);
    }
    return PKV_OK;
}

static bool allocate_arrays(pkv_pool *pool, const pkv_pool_params *p, bool by_tokens)
{
    const size_t n = (size_t)p->n_blocks;
    pool->blocks = pkvi_arena_get(&pool->arena, n, sizeof *pool->blocks);
    bool ok = pool->blocks != NULL;
    if (ok && p->on_reuse) {
        pool->watched = pkvi_arena_get(&pool->arena, n, sizeof *pool->watched);
        ok = pool->watched != NULL;
    }
    if (ok && p->sample_rate > 0) {
        pool->samples = pkvi_arena_get(&pool->arena, n, sizeof *pool->samples);
        ok = pool->samples != NULL;
    }
    if (ok && p->caching && by_tokens) {
        pool->runs = pkvi_runs_create(&pool->arena.hooks, p->n_blocks, p->unit);
        return pool->runs != NULL;
    }
    if (!ok || !p->caching) {
        return ok;
    }
    ok = pkvi_entries_create(pool, p->n_blocks * p->units_per_block);
    if (ok && p->sink.event) {
        pool->event_keys =
            pkvi_arena_get(&pool->arena, (size_t)p->max_table + 1, sizeof *pool->event_keys);
        pool->event_positions =
            pkvi_arena_get(&pool->arena, (size_t)p->max_table + 1, sizeof *pool->event_positions);
        ok = pool->event_keys && pool->event_positions;
    }
    return ok;
}

static void link_all(pkv_pool *pool)
{
    const uint32_t n = (uint32_t)pool->n_blocks;
    for (uint32_t b = 0; b < n; b++) {
        pool->blocks[b].next = b + 1 < n ? b + 1 : 0;
        pool->blocks[b].prev = b > 0 ? b - 1 : n - 1;
        pool->blocks[b].ahead = b + PKVI_AHEAD < n ? b + PKVI_AHEAD : 0;
        pool->blocks[b].secondary = PKVI_NO_ENTRY;
    }
    pool->n_free = pool->n_blocks - 1;
}

pkv_status pkv_pool_create(const pkv_pool_params *params, pkv_pool **out)
{
    return pkvi_pool_create(params, false, out);
}

pkv_status pkvi_pool_create(const pkv_pool_params *params, bool by_tokens, pkv_pool **out)
{
    pkv_pool_params p;
    pkvi_arena arena;
    if (out) {
        *out = NULL;
    }
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_pool_create: params or out is NULL");
    }
    pkv_pool_params_init(&p);
    PKVI_RETURN_IF(pkvi_import_params("pkv_pool_create", params, &p, sizeof p));
    PKVI_RETURN_IF(check_params(&p));
    pkvi_arena_init(&arena, p.alloc, 4096);
    pkv_pool *pool = pkvi_arena_get(&arena, 1, sizeof *pool);
    if (!pool) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_pool_create: out of memory for a pool");
    }
    pool->arena = arena;
    pool->n_blocks = p.n_blocks;
    if (!allocate_arrays(pool, &p, by_tokens)) {
        pkv_pool_destroy(pool);
        return pkvi_fail(PKV_E_NOMEM, "pkv_pool_create: out of memory for %" PRIu64 " blocks",
                         p.n_blocks);
    }
    pool->unit = p.unit;
    pool->lookahead = p.lookahead;
    pool->key_bytes = p.key_bytes;
    pool->caching = p.caching;
    pool->max_table = p.max_table;
    pool->sink = p.sink;
    pool->reuse_ctx = p.reuse_ctx;
    pool->on_reuse = p.on_reuse;
    pool->sample_rate = p.sample_rate;
    pool->random = p.sample_seed;
    pool->residency_ctx = p.residency_ctx;
    pool->clock_ns = p.clock_ns;
    pool->on_residency = p.on_residency;
    link_all(pool);
    *out = pool;
    return PKV_OK;
}

void pkv_pool_destroy(pkv_pool *pool)
{
    if (pool) {
        pkvi_runs_destroy(pool->runs);
        pkvi_entries_destroy(pool);
        pkvi_arena arena = pool->arena; /* the pool lies in it */
        pkvi_arena_free(&arena);
    }
}

/* ---- counting ---- */

uint64_t pkv_pool_n_blocks(const pkv_pool *pool)
{
    return pool->n_blocks;
}

uint64_t pkv_pool_free_count(const pkv_pool *pool)
{
    return pool->n_free;
}

double pkv_pool_usage(const pkv_pool *pool)
{
    const uint64_t total = pool->n_blocks - 1;
    return total == 0 ? 0 : 1.0 - (double)pool->n_free / (double)total;
}

uint64_t pkv_pool_key_count(const pkv_pool *pool)
{
    return pool->runs ? pkvi_runs_n_named(pool->runs) : pool->n_keys;
}

uint64_t pkv_pool_evicted(const pkv_pool *pool)
{
    return pool->n_evicted;
}

uint32_t pkv_pool_refs(const pkv_pool *pool, pkv_block block)
{
    return block < pool->n_blocks ? pool->blocks[block].refs : 0;
}

uint64_t pkv_pool_block_tokens(const pkv_pool *pool, pkv_block block)
{
    return pool->caching && block < pool->n_blocks ? pool->blocks[block].units * pool->unit : 0;
}

bool pkv_pool_writable(const pkv_pool *pool, pkv_block block)
{
    return block != PKV_BLOCK_NULL && pkv_pool_refs(pool, block) == 1 &&
           pkv_pool_block_tokens(pool, block) == 0;
}

uint64_t pkv_pool_free_list(const pkv_pool *pool, pkv_block *ids, uint64_t n)
{
    uint64_t count = 0;
    for (uint32_t b = pool->blocks[0].next; b != 0 && count < n; b = pool->blocks[b].next) {
        ids[count++] = b;
    }
    return count;
}

/* ---- references ---- */

static void unlink_block(pkv_pool *pool, uint32_t b)
{
    pool->blocks[pool->blocks[b].prev].next = pool->blocks[b].next;
    pool->blocks[pool->blocks[b].next].prev = pool->blocks[b].prev;
    pool->n_free--;
}

static void link_after(pkv_pool *pool, uint32_t b, uint32_t before)
{
    const uint32_t after = pool->blocks[before].next;
    pool->blocks[before].next = b;
    pool->blocks[b].prev = before;
    pool->blocks[b].next = after;
    pool->blocks[after].prev = b;
    pool->n_free++;
}

/* The memory of keys that are going to be dropped. */
static void prefetch_keys(const pkv_pool *pool, const pkv_block *ids, uint64_t i, uint64_t n)
{
    if (i + 2 * PKVI_AHEAD < n && !pool->runs) {
        __builtin_prefetch(&pool->entries[ids[i + 2 * PKVI_AHEAD]]);
    }
    if (i + PKVI_AHEAD >= n || pool->blocks[ids[i + PKVI_AHEAD]].units == 0) {
        return;
    }
    if (pool->runs) {
        pkvi_runs_prefetch(pool->runs, ids[i + PKVI_AHEAD]);
    } else {
        pkvi_index_prefetch_remove(pool, ids[i + PKVI_AHEAD]);
    }
}

void pkvi_pool_take(pkv_pool *pool, uint64_t n, pkv_block *ids)
{
#ifndef NDEBUG
    if (n > pool->n_free) {
        pkvi_panic("more blocks are taken than were counted");
    }
#endif
    uint32_t b = pool->blocks[0].next;
    for (uint64_t i = 0; i < n; i++) {
        pkvi_block *block = &pool->blocks[b];
        __builtin_prefetch(&pool->blocks[block->ahead], 1);
        ids[i] = b;
        block->refs = 1;
        b = block->next;
    }
    pool->blocks[0].next = b;
    pool->blocks[b].prev = 0;
    pool->n_free -= n;
    for (uint64_t i = 0; pool->watched && i < n; i++) {
        if (pool->watched[ids[i]]) {
            pool->watched[ids[i]] = 0;
            pool->on_reuse(pool->reuse_ctx, ids[i]);
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        if (pool->caching) {
            prefetch_keys(pool, ids, i, n);
        }
        if (pool->samples) {
            pkvi_residency_ended(pool, ids[i]);
            pkvi_residency_taken(pool, ids[i]);
        }
        if (pool->caching && pool->blocks[ids[i]].units != 0) {
            pkvi_drop_keys(pool, ids[i], true);
            pool->n_evicted++;
        }
    }
}

pkv_status pkv_pool_take(pkv_pool *pool, uint64_t n, pkv_block *ids)
{
    if (n > pool->n_free) {
        return PKV_E_NO_BLOCKS;
    }
    pkvi_pool_take(pool, n, ids);
    return PKV_OK;
}

pkv_status pkvi_pool_check_ids(const pkv_pool *pool, const char *function, const pkv_block *ids,
                               uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (ids[i] >= pool->n_blocks) {
            return pkvi_fail(PKV_E_INVAL, "%s: block %" PRIu32 " of a pool of %" PRIu64, function,
                             ids[i], pool->n_blocks);
        }
    }
    return PKV_OK;
}

void pkvi_pool_share(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t b = ids[i];
        if (b == PKV_BLOCK_NULL) {
            continue;
        }
        if (pool->blocks[b].refs == 0) {
            unlink_block(pool, b);
        }
        pool->blocks[b].refs++;
        if (pool->samples) {
            pkvi_residency_accessed(pool, b);
        }
    }
}

pkv_status pkv_pool_share(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    PKVI_RETURN_IF(pkvi_pool_check_ids(pool, "pkv_pool_share", ids, n));
    pkvi_pool_share(pool, ids, n);
    return PKV_OK;
}

/* Whether every block is held as often as it is given; leaves the counts as they were. */
static pkv_status check_held(pkv_pool *pool, const char *function, const pkv_block *ids, uint64_t n)
{
    uint64_t done = 0;
    PKVI_RETURN_IF(pkvi_pool_check_ids(pool, function, ids, n));
    while (done < n && (ids[done] == PKV_BLOCK_NULL || pool->blocks[ids[done]].refs != 0)) {
        pool->blocks[ids[done]].refs -= ids[done] != PKV_BLOCK_NULL;
        done++;
    }
    for (uint64_t i = 0; i < done; i++) {
        pool->blocks[ids[i]].refs += ids[i] != PKV_BLOCK_NULL;
    }
    if (done < n) {
        return pkvi_fail(PKV_E_INVAL,
                         "%s: block %" PRIu32 " is released more often than it is held", function,
                         ids[done]);
    }
    return PKV_OK;
}

static void put_back(pkv_pool *pool, uint32_t b)
{
    uint32_t *old = &pool->recent[pool->n_recent++ % PKVI_AHEAD];
    pool->blocks[*old].ahead = b;
    *old = b;
    link_after(pool, b, pool->blocks[0].prev);
}

/* What comes after the last blocks that were put to the front is what was first before. */
static void hint_across(pkv_pool *pool, const pkv_block *ids, uint64_t n, uint32_t old_first)
{
    for (uint64_t i = n > PKVI_AHEAD ? n - PKVI_AHEAD : 0; i < n; i++) {
        pool->blocks[ids[i]].ahead = old_first;
        old_first = pool->blocks[old_first].next;
    }
}

void pkvi_pool_release(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    const uint32_t old_first = pool->blocks[0].next;
    uint32_t front = 0; /* the last block that this call put to the front */
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t b = ids[i];
        if (i + PKVI_AHEAD < n) {
            __builtin_prefetch(&pool->blocks[ids[i + PKVI_AHEAD]], 1);
        }
        if (b == PKV_BLOCK_NULL || --pool->blocks[b].refs != 0) {
            continue;
        }
        if (pool->caching && pool->blocks[b].units != 0) {
            put_back(pool, b);
        } else {
            link_after(pool, b, front);
            if (i >= PKVI_AHEAD) { /* most likely put to the front, too, and still there */
                pool->blocks[ids[i - PKVI_AHEAD]].ahead = b;
            }
            front = b;
        }
    }
    if (front != 0) {
        hint_across(pool, ids, n, old_first);
    }
}

pkv_status pkv_pool_release(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    PKVI_RETURN_IF(check_held(pool, "pkv_pool_release", ids, n));
    pkvi_pool_release(pool, ids, n);
    return PKV_OK;
}

pkv_status pkv_pool_unpin(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    PKVI_RETURN_IF(check_held(pool, "pkv_pool_unpin", ids, n));
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t b = ids[i];
        if (b == PKV_BLOCK_NULL) {
            continue;
        }
        if (pool->watched) {
            pool->watched[b] = 1;
        }
        if (--pool->blocks[b].refs == 0) {
            put_back(pool, b);
        }
    }
    return PKV_OK;
}
