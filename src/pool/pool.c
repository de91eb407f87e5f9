/* pool.c  Blocks: created, taken, shared, released.
 *
 * Blocks without a key are reused last in, first out: their bytes are warm, and the churn of a
 * window does not flush cached prefixes. Keyed blocks go to the back and leave in the order in
 * which they came. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/fetch.h"
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

/* ---- references ---- */

/* Keys are going to be dropped. What names a block is asked for FETCH_NAME turns before, and what
 * that names FETCH_PLACE turns. */
enum { FETCH_NAME = PKVI_AHEAD / 2, FETCH_PLACE = PKVI_AHEAD / 4 };

static void fetch_name(const pkv_pool *pool, pkv_block block)
{
    if (!pool->runs && pool->blocks[block].units != 0) {
        pkvi_fetch_far(&pool->keys[block]);
    }
}

static void fetch_place(const pkv_pool *pool, pkv_block block)
{
    if (pool->blocks[block].units == 0) {
        return;
    }
    if (pool->runs) {
        pkvi_runs_prefetch(pool->runs, block);
    } else {
        pkvi_index_prefetch_remove(pool, block);
    }
}

/* Blocks that are used again forget what they held. */
static void drop_all_keys(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    for (uint64_t i = 0; i < n && i < FETCH_NAME; i++) {
        fetch_name(pool, ids[i]);
    }
    for (uint64_t i = 0; i < n && i < FETCH_PLACE; i++) {
        fetch_place(pool, ids[i]);
    }
    for (uint64_t i = 0; i < n; i++) {
        if (i + FETCH_NAME < n) {
            fetch_name(pool, ids[i + FETCH_NAME]);
        }
        if (i + FETCH_PLACE < n) {
            fetch_place(pool, ids[i + FETCH_PLACE]);
        }
        if (pool->blocks[ids[i]].units != 0) {
            pkvi_drop_keys(pool, ids[i], true);
            pool->n_evicted++;
        }
    }
}

void pkvi_pool_take(pkv_pool *pool, uint64_t n, pkv_block *ids)
{
#ifndef NDEBUG
    if (n > pool->list.n) {
        pkvi_panic("more blocks are taken than were counted");
    }
#endif
    const uint64_t n_keyed = pkvi_list_take(&pool->list, n, ids);
    for (uint64_t i = 0; pool->watched && i < n; i++) {
        if (pool->watched[ids[i]]) {
            pool->watched[ids[i]] = 0;
            pool->on_reuse(pool->reuse_ctx, ids[i]);
        }
    }
    for (uint64_t i = 0; pool->samples && i < n; i++) {
        pkvi_residency_ended(pool, ids[i]);
        pkvi_residency_taken(pool, ids[i]);
    }
    if (n_keyed > 0) {
        drop_all_keys(pool, ids, n);
    }
}

pkv_status pkv_pool_take(pkv_pool *pool, uint64_t n, pkv_block *ids)
{
    if (n > pool->list.n) {
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
        if (n <= PKVI_AHEAD) { /* more are fetched ahead by whoever walks over them */
            __builtin_prefetch(&pool->blocks[ids[i]]);
        }
    }
    return PKV_OK;
}

void pkvi_pool_share(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t b = ids[i];
        pkvi_fetch_ahead(pool, ids, i, n);
        if (i + PKVI_AHEAD / 2 < n) {
            pkvi_list_fetch(&pool->list, ids[i + PKVI_AHEAD / 2]);
        }
        if (b == PKV_BLOCK_NULL) {
            continue;
        }
        if (pool->blocks[b].refs == 0) {
            pkvi_list_remove(&pool->list, b);
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

/* Undoes the release of the first n. */
static void hold_again(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    for (; n > 0; n--) {
        const uint32_t b = ids[n - 1];
        if (b == PKV_BLOCK_NULL) {
            continue;
        }
        if (pool->blocks[b].place != PKVI_NO_PLACE) {
            pkvi_list_remove(&pool->list, b);
        }
        pool->blocks[b].refs++;
    }
}

/* Blocks that are given back, in their order or from the last on. */
typedef struct pkvi_row {
    const pkv_block *ids; /* [n] */
    uint64_t n;
    bool backwards;
} pkvi_row;

static inline uint32_t row_at(const pkvi_row *row, uint64_t i)
{
    return row->ids[row->backwards ? row->n - 1 - i : i];
}

/* Drops a reference of each; returns how many of them nobody holds any longer and, having no key,
 * are not in the list yet. Stops at the first that is not held: *done_out < n.
 *
 * A table goes over the memory in one direction, if its blocks were handed out in turn. Its lines
 * then share channels and banks, and have to be asked for earlier than those at random places: with
 * 64 on their way 10 ns each, with 128 or more 7 to 9, at random 6 (measured). */
static inline uint64_t drop_references(pkv_pool *pool, const pkvi_row *row, uint64_t *done_out)
{
    enum { AHEAD = 2 * PKVI_AHEAD };
    const uint64_t n = row->n;
    uint64_t unkeyed = 0, done = 0;
    for (uint64_t i = 0; n > PKVI_AHEAD && i < AHEAD && i < n; i++) {
        pkvi_fetch_far(&pool->blocks[row_at(row, i)]);
    }
    for (; done < n; done++) {
        const uint32_t b = row_at(row, done);
        pkvi_block *block = &pool->blocks[b];
        if (done + AHEAD < n) {
            pkvi_fetch_far(&pool->blocks[row_at(row, done + AHEAD)]);
        }
        if (b == PKV_BLOCK_NULL) {
            continue;
        }
        if (block->refs == 0) {
            break;
        }
        if (--block->refs != 0) {
            continue;
        }
        if (block->units != 0) {
            pkvi_list_put_last(&pool->list, b);
        } else {
            unkeyed++;
        }
    }
    *done_out = done;
    return unkeyed;
}

/* Blocks without a key go to the front, the first of them first: put there from the last one on. */
static inline void put_unkeyed(pkv_pool *pool, const pkvi_row *row, uint64_t unkeyed)
{
    for (uint64_t i = row->n; unkeyed > 0; i--) {
        const uint32_t b = row_at(row, i - 1);
        const pkvi_block *block = &pool->blocks[b];
        if (b != PKV_BLOCK_NULL && block->refs == 0 && block->place == PKVI_NO_PLACE) {
            pkvi_list_put_first(&pool->list, b);
            unkeyed--;
        }
    }
}

static inline void release_row(pkv_pool *pool, const pkvi_row *row)
{
    uint64_t done;
    const uint64_t unkeyed = drop_references(pool, row, &done);
#ifndef NDEBUG
    if (done < row->n) {
        pkvi_panic("a block is released more often than it is held");
    }
#endif
    put_unkeyed(pool, row, unkeyed);
}

void pkvi_pool_release(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    release_row(pool, &(const pkvi_row){ids, n, false});
}

void pkvi_pool_release_last_first(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    release_row(pool, &(const pkvi_row){ids, n, true});
}

static pkv_status not_held(const char *function, pkv_block block)
{
    return pkvi_fail(PKV_E_INVAL, "%s: block %" PRIu32 " is released more often than it is held",
                     function, block);
}

pkv_status pkv_pool_release(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    uint64_t done;
    PKVI_RETURN_IF(pkvi_pool_check_ids(pool, "pkv_pool_release", ids, n));
    const pkvi_row row = {ids, n, false};
    const uint64_t unkeyed = drop_references(pool, &row, &done);
    if (done < n) {
        hold_again(pool, ids, done);
        return not_held("pkv_pool_release", ids[done]);
    }
    put_unkeyed(pool, &row, unkeyed);
    return PKV_OK;
}

pkv_status pkv_pool_unpin(pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    PKVI_RETURN_IF(pkvi_pool_check_ids(pool, "pkv_pool_unpin", ids, n));
    for (uint64_t i = 0; i < n; i++) {
        pkvi_block *block = &pool->blocks[ids[i]];
        if (ids[i] == PKV_BLOCK_NULL) {
            continue;
        }
        if (block->refs == 0) {
            hold_again(pool, ids, i);
            return not_held("pkv_pool_unpin", ids[i]);
        }
        if (--block->refs == 0) {
            pkvi_list_put_last(&pool->list, ids[i]);
        }
    }
    for (uint64_t i = 0; pool->watched && i < n; i++) {
        pool->watched[ids[i]] = ids[i] != PKV_BLOCK_NULL;
    }
    return PKV_OK;
}
