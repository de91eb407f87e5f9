/* refs.c  Blocks are held: taken, shared, released.
 *
 * Those without a key are reused last in, first out: their bytes are warm, and the churn of a
 * window does not flush cached prefixes. Keyed blocks go to the back and leave in the order in
 * which they came. */
#include <inttypes.h>

#include "base/error.h"
#include "base/fetch.h"
#include "base/panic.h"
#include "pool/pool_internal.h"

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
    pkvi_list *list = &pool->list;
    pkvi_block *const blocks = pool->blocks;
    const uint64_t n = row->n;
    const bool rests = pkvi_list_rests(list, n);
    uint64_t place = pkvi_list_behind(list, list->first, list->span); /* of the next with a key */
    uint64_t keyed = 0, unkeyed = 0, done = 0;
    for (uint64_t i = 0; n > PKVI_AHEAD && i < AHEAD && i < n; i++) {
        pkvi_fetch_far(&blocks[row_at(row, i)]);
    }
    for (; done < n; done++) {
        const uint32_t b = row_at(row, done);
        pkvi_block *block = &blocks[b];
        if (done + AHEAD < n) {
            pkvi_fetch_far(&blocks[row_at(row, done + AHEAD)]);
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
        if (block->units == 0) {
            unkeyed++;
        } else if (rests) {
            pkvi_list_fetch_place(list, place);
            pkvi_list_set(list, b, place);
            place = pkvi_list_behind(list, place, 1);
            keyed++;
        } else {
            pkvi_list_put_last(list, b);
        }
    }
    pkvi_list_add_last(list, keyed);
    *done_out = done;
    return unkeyed;
}

/* Puts the blocks of a row that have no key, so many, before all others, in their order. */
static inline void put_unkeyed(pkv_pool *pool, const pkvi_row *row, uint64_t unkeyed)
{
    pkvi_list *list = &pool->list;
    const bool in_a_row = pkvi_list_rests(list, unkeyed) && pkvi_list_add_first(list, unkeyed);
    if (in_a_row && unkeyed == row->n) { /* then no block is there twice, and the null one is not */
        for (uint64_t i = 0; i < row->n; i++) {
            pkvi_list_set(list, row_at(row, i), list->first + i);
        }
        return;
    }
    for (uint64_t i = row->n; unkeyed > 0; i--) {
        const uint32_t b = row_at(row, i - 1);
        const pkvi_block *block = &pool->blocks[b];
        if (b == PKV_BLOCK_NULL || block->refs != 0 || block->place != PKVI_NO_PLACE) {
            continue;
        }
        unkeyed--;
        if (in_a_row) {
            pkvi_list_set(list, b, list->first + unkeyed);
        } else {
            pkvi_list_put_first(list, b);
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
