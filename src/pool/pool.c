/* pool.c  A pool of blocks: created, and what it has. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
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

static bool allocate_arrays(pkv_pool *pool, const pkv_pool_params *p, uint64_t run_unit,
                            uint32_t n_groups)
{
    const size_t n = (size_t)p->n_blocks;
    pool->blocks = pkvi_arena_lines(&pool->arena, n, sizeof *pool->blocks);
    pkv_block *ids =
        pkvi_arena_get(&pool->arena, (size_t)pkvi_list_room(n) + PKVI_LIST_PADDING, sizeof *ids);
    bool ok = pool->blocks && ids;
    pkvi_list_init(&pool->list, pool->blocks, ids, n);
    if (ok && p->on_reuse) {
        pool->watched = pkvi_arena_get(&pool->arena, n, sizeof *pool->watched);
        ok = pool->watched != NULL;
    }
    if (ok && p->sample_rate > 0) {
        pool->samples = pkvi_arena_get(&pool->arena, n, sizeof *pool->samples);
        ok = pool->samples != NULL;
    }
    if (!ok || !p->caching) {
        return ok;
    }
    if (run_unit > 0) {
        pool->runs =
            pkvi_runs_create(&pool->arena.hooks, pool->blocks, p->n_blocks, run_unit, n_groups);
        ok = pool->runs != NULL;
    } else {
        ok = pkvi_entries_create(pool, p->n_blocks * p->units_per_block);
    }
    if (ok && p->sink.event) {
        pool->event_keys =
            pkvi_arena_get(&pool->arena, (size_t)p->max_table + 1, sizeof *pool->event_keys);
        pool->event_positions =
            pkvi_arena_get(&pool->arena, (size_t)p->max_table + 1, sizeof *pool->event_positions);
        ok = pool->event_keys && pool->event_positions;
    }
    return ok;
}

static void list_all(pkv_pool *pool)
{
    const uint32_t n = (uint32_t)pool->n_blocks;
    for (uint32_t b = 0; b < n; b++) {
        pool->blocks[b].place = PKVI_NO_PLACE;
        pool->blocks[b].secondary = PKVI_NO_ENTRY;
        if (b > 0) {
            pkvi_list_put_last(&pool->list, b);
        }
    }
}

pkv_status pkv_pool_create(const pkv_pool_params *params, pkv_pool **out)
{
    return pkvi_pool_create(params, 0, 0, out);
}

pkv_status pkvi_pool_create(const pkv_pool_params *params, uint64_t run_unit, uint32_t n_groups,
                            pkv_pool **out)
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
    if (!allocate_arrays(pool, &p, run_unit, n_groups)) {
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
    list_all(pool);
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
    return pool->list.n;
}

double pkv_pool_usage(const pkv_pool *pool)
{
    const uint64_t total = pool->n_blocks - 1;
    return total == 0 ? 0 : 1.0 - (double)pool->list.n / (double)total;
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
    const pkvi_list *list = &pool->list;
    uint64_t count = 0;
    const uint64_t unswept = list->span - list->swept - list->hole;
    for (uint64_t i = 0; i < list->span && count < n; i += i + 1 == unswept ? 1 + list->hole : 1) {
        const pkv_block b = list->ids[pkvi_list_behind(list, list->first, i)];
        if (b != 0) {
            ids[count++] = b;
        }
    }
    return count;
}
