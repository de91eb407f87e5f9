/* check.c  The invariants of a pool, walked from end to end.
 *
 * free + in use + the null block = all; a block is in the list exactly if nobody holds it; every
 * key in the index names a block that has it, and the reverse. */
#include <inttypes.h>

#include "base/error.h"
#include "pool/pool_internal.h"

static pkv_status broken(const char *what, uint64_t where)
{
    return pkvi_fail(PKV_E_CORRUPT, "pkv_pool_check: %s (block or entry %" PRIu64 ")", what, where);
}

static pkv_status check_list(const pkv_pool *pool)
{
    const pkvi_list *list = &pool->list;
    uint64_t count = 0, unheld = 0;
    if (list->first >= list->room || list->span > list->room ||
        list->swept + list->hole > list->span ||
        (!list->sweeping && list->swept + list->hole > 0)) {
        return broken("the free list is longer than its room", list->span);
    }
    const uint64_t unswept = list->span - list->swept - list->hole;
    for (uint64_t i = 0; i < list->span; i++) {
        const uint64_t place = pkvi_list_behind(list, list->first, i);
        const pkv_block b = list->ids[place];
        if (b >= pool->n_blocks || (b != 0 && pool->blocks[b].place != place)) {
            return broken("a block does not know its place in the free list", b);
        }
        if (b != 0 && i >= unswept && i < unswept + list->hole) {
            return broken("a block is in the hole of the free list", b);
        }
        count += b != 0;
    }
    for (uint64_t b = 1; b < pool->n_blocks; b++) {
        const bool held = pool->blocks[b].refs != 0;
        if (held != (pool->blocks[b].place == PKVI_NO_PLACE)) {
            return broken(held ? "a held block is in the free list"
                               : "a block without a holder is missing from the free list",
                          b);
        }
        unheld += !held;
    }
    if (count != pool->list.n || unheld != count) {
        return broken("blocks without a holder are missing from the free list", count);
    }
    if (list->n > 0 && (unswept == 0 || list->ids[list->first] == 0)) {
        return broken("the free list begins with a gap", list->first);
    }
    return pool->blocks[0].refs == 0 ? PKV_OK : broken("the null block is held", 0);
}

static pkv_status check_entry(const pkv_pool *pool, uint32_t entry, pkv_block block)
{
    if (entry >= pool->n_entries) {
        return broken("a block has a key that is none", block);
    }
    const pkvi_name *name = pkvi_name_of(pool, entry);
    if (name->block != block || name->next >= pool->n_entries || name->prev >= pool->n_entries) {
        return broken("a key of a block is not in the index", entry);
    }
    if (!pool->several_groups && name->group != pool->group) {
        return broken("a key is of a group that no key is of", entry);
    }
    if (pkvi_name_of(pool, name->next)->prev != entry ||
        pkvi_name_of(pool, name->prev)->next != entry ||
        !pkvi_same_key(pool, name->next, &pool->keys[entry], name->group)) {
        return broken("blocks of one key are not linked", entry);
    }
    return PKV_OK;
}

static pkv_status check_keys(const pkv_pool *pool, uint64_t *n_entries)
{
    for (uint32_t b = 0; b < pool->n_blocks; b++) {
        if (pool->blocks[b].units == 0) {
            if (pool->blocks[b].secondary != PKVI_NO_ENTRY ||
                pool->blocks[b].name.next != PKVI_NO_ENTRY) {
                return broken("a block without a primary key has others", b);
            }
            continue;
        }
        if (b == 0) {
            return broken("the null block has a key", 0);
        }
        PKVI_RETURN_IF(check_entry(pool, b, b));
        ++*n_entries;
        for (uint32_t e = pool->blocks[b].secondary; e != PKVI_NO_ENTRY;
             e = *pkvi_link_of(pool, e)) {
            PKVI_RETURN_IF(check_entry(pool, e, b));
            if (++*n_entries > pool->n_entries) {
                return broken("the keys of a block have no end", b);
            }
        }
    }
    return PKV_OK;
}

static pkv_status check_index(const pkv_pool *pool)
{
    uint64_t n_entries = 0, n_keys = 0, reached = 0;
    PKVI_RETURN_IF(check_keys(pool, &n_entries));
    for (uint64_t s = 0; s < pool->n_slots; s++) {
        if (pool->slots[s] == 0) {
            continue;
        }
        const uint32_t first = (uint32_t)(pool->slots[s] & 0xffffffffu) - 1u;
        uint32_t e = first;
        if (first >= pool->n_entries ||
            pkvi_index_find(pool, &pool->keys[first], pkvi_name_of(pool, first)->group) != first) {
            return broken("a slot of the index cannot be found", s);
        }
        n_keys++;
        do {
            if (e >= pool->n_entries || pool->blocks[pkvi_name_of(pool, e)->block].units == 0 ||
                ++reached > n_entries) {
                return broken("the index names a key that no block has", e);
            }
            e = pkvi_name_of(pool, e)->next;
        } while (e != first);
    }
    if (reached != n_entries || n_keys != pool->n_keys) {
        return broken("keys are missing from the index", reached);
    }
    return PKV_OK;
}

static bool is_named(void *ctx, pkv_block block)
{
    const pkv_pool *pool = ctx;
    return pool->blocks[block].units != 0;
}

pkv_status pkv_pool_check(const pkv_pool *pool)
{
    PKVI_RETURN_IF(check_list(pool));
    if (pool->runs) {
        const char *what = pkvi_runs_check(pool->runs, is_named, (void *)(uintptr_t)pool);
        return what ? broken(what, 0) : PKV_OK;
    }
    return pool->caching ? check_index(pool) : PKV_OK;
}
