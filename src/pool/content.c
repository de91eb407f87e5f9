/* content.c  Keying blocks, and telling the sink.
 *
 * A block has one primary key, for the longest prefix it was keyed for, and any number of secondary
 * ones, for prefixes that end inside it. They come and go together. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "pool/pool_internal.h"

const pkv_key *pkvi_pool_key(const pkv_pool *pool, pkv_block block)
{
    return &pool->keys[block];
}

static void tell_removed(pkv_pool *pool, const pkv_key *key, uint32_t group)
{
    const pkv_event event = {.type = PKV_EVENT_REMOVED,
                             .group = group,
                             .n_keys = 1,
                             .key_bytes = pool->key_bytes,
                             .keys = &key};
    pool->sink.event(pool->sink.ctx, &event);
}

static void drop_entry(pkv_pool *pool, uint32_t entry, bool tell)
{
    if (pkvi_index_remove(pool, entry) && tell && pool->sink.event) {
        tell_removed(pool, &pool->keys[entry], pkvi_name_of(pool, entry)->group);
    }
}

/* The runs are of keys if anybody listens. */
static void drop_name(pkv_pool *pool, pkv_block block, bool tell)
{
    const bool told = tell && pool->sink.event;
    pkv_key key;
    if (told) {
        memcpy(&key, pkvi_runs_tokens(pool->runs, block), sizeof key);
    }
    pkvi_runs_forget(pool->runs, block); /* which leaves its group */
    if (told) {
        tell_removed(pool, &key, pool->blocks[block].run_group);
    }
}

void pkvi_drop_keys(pkv_pool *pool, pkv_block block, bool tell)
{
    if (pool->blocks[block].units == 0) {
        return;
    }
    pool->blocks[block].units = 0;
    pool->version++;
    if (pool->runs) {
        drop_name(pool, block, tell);
        return;
    }
    drop_entry(pool, block, tell);
    uint32_t entry = pool->blocks[block].secondary;
    pool->blocks[block].secondary = PKVI_NO_ENTRY;
    while (entry != PKVI_NO_ENTRY) {
        const uint32_t next = *pkvi_link_of(pool, entry);
        drop_entry(pool, entry, tell);
        *pkvi_link_of(pool, entry) = pool->free_entry;
        pool->free_entry = entry;
        pool->n_free_entries++;
        entry = next;
    }
}

static void set_entry(pkv_pool *pool, uint32_t entry, const pkv_key *key, uint32_t group,
                      pkv_block block)
{
    pkvi_name *name = pkvi_name_of(pool, entry);
    if (pool->n_keys == 0) {
        pool->group = group;
        pool->several_groups = false;
    }
    pool->several_groups = pool->several_groups || group != pool->group;
    pool->keys[entry] = *key;
    name->group = group;
    name->block = block;
    pool->version++;
}

static void fill_entry(pkv_pool *pool, uint32_t entry, const pkv_key *key, uint32_t group,
                       pkv_block block)
{
    set_entry(pool, entry, key, group, block);
    pkvi_index_add(pool, entry);
}

/* A block whose every unit is keyed has no room for one more key; units_per_block says how many
 * there can be, so running out means that a caller keyed beyond a block. */
static pkv_status add_secondary(pkv_pool *pool, const pkv_key *key, uint32_t group, pkv_block block)
{
    const uint32_t entry = pool->free_entry;
    if (entry == PKVI_NO_ENTRY) {
        return pkvi_fail(PKV_E_CORRUPT,
                         "pkv_pool_cache_partial: block %" PRIu32 " has too many keys", block);
    }
    pool->free_entry = *pkvi_link_of(pool, entry);
    pool->n_free_entries--;
    uint32_t *link = &pool->blocks[block].secondary;
    while (*link != PKVI_NO_ENTRY) {
        link = pkvi_link_of(pool, *link);
    }
    *link = entry;
    *pkvi_link_of(pool, entry) = PKVI_NO_ENTRY;
    fill_entry(pool, entry, key, group, block);
    return PKV_OK;
}

/* ---- whole blocks ---- */

static pkv_status check_range(const pkv_pool *pool, const pkv_chain *chain, uint64_t from,
                              uint64_t to, uint64_t block_size)
{
    if (!pool->caching || pool->runs) {
        return pkvi_fail(PKV_E_INVAL, "pkv_pool_cache_full: the pool keeps no keys");
    }
    if (!chain || block_size == 0 || block_size % pool->unit != 0 || from > to ||
        to > chain->n_keys / (block_size / pool->unit) || chain->n_keys > UINT32_MAX) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_pool_cache_full: blocks [%" PRIu64 ", %" PRIu64 ") of %" PRIu64
                         " tokens are not covered by the keys",
                         from, to, block_size);
    }
    if (pool->sink.event && to - from > pool->max_table) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_pool_cache_full: %" PRIu64 " blocks at once, max_table is %" PRIu64,
                         to - from, pool->max_table);
    }
    return PKV_OK;
}

/* Whether this is the block's primary key already: two sequences of a fork key what they share. */
static bool is_keyed(const pkv_pool *pool, pkv_block block, const pkv_key *key, uint32_t group)
{
    return pool->blocks[block].units != 0 && pkvi_same_key(pool, block, key, group);
}

static pkv_status check_blocks(const pkv_pool *pool, const pkv_chain *chain, const pkv_block *table,
                               uint64_t from, uint64_t to, uint64_t block_size, uint32_t group,
                               const uint8_t *mask)
{
    if (from == to) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkvi_pool_check_ids(pool, "pkv_pool_cache_full", table + from, to - from));
    for (uint64_t i = from; i < to; i++) {
        const uint64_t units = (i + 1) * (block_size / pool->unit);
        if (table[i] != PKV_BLOCK_NULL && (!mask || mask[i - from]) &&
            pool->blocks[table[i]].units >= units &&
            !is_keyed(pool, table[i], &chain->keys[units - 1], group)) {
            return pkvi_fail(PKV_E_CORRUPT,
                             "pkv_pool_cache_full: block %" PRIu32 " is keyed for %" PRIu64
                             " tokens",
                             table[i], pkv_pool_block_tokens(pool, table[i]));
        }
    }
    return PKV_OK;
}

static void tell_stored(pkv_pool *pool, const pkv_chain *chain, uint64_t from, uint64_t to,
                        uint64_t block_size, uint32_t group, uint64_t n_keys)
{
    const uint64_t m = block_size / pool->unit;
    const pkv_event event = {.type = PKV_EVENT_STORED,
                             .group = group,
                             .n_keys = (uint32_t)n_keys,
                             .key_bytes = pool->key_bytes,
                             .keys = pool->event_keys,
                             .positions = pool->event_positions,
                             .parent = from > 0 ? &chain->keys[from * m - 1] : NULL,
                             .chain = chain,
                             .first_token = from * block_size,
                             .n_tokens = (to - from) * block_size,
                             .block_size = block_size,
                             .lookahead = pool->lookahead};
    pool->sink.event(pool->sink.ctx, &event);
}

/* The last of so many units is told as a block of its own. */
static void tell_unit(pkv_pool *pool, const pkv_chain *chain, uint64_t units, uint32_t group)
{
    if (pool->sink.event) {
        pool->event_keys[0] = &chain->keys[units - 1];
        pool->event_positions[0] = (units - 1) * pool->unit;
        tell_stored(pool, chain, units - 1, units, pool->unit, group, 1);
    }
}

/* Keys block i of a table; false: it is passed over. hash: of the key. */
static bool key_block(pkv_pool *pool, pkv_block b, const pkv_key *key, uint32_t group,
                      uint64_t units, uint64_t hash)
{
    if (b == PKV_BLOCK_NULL || is_keyed(pool, b, key, group)) {
        return false;
    }
    pkvi_drop_keys(pool, b, true); /* a partial key that is now a whole one */
    set_entry(pool, b, key, group, b);
    pkvi_index_add_hashed(pool, b, hash);
    pool->blocks[b].units = (uint32_t)units;
    return true;
}

pkv_status pkv_pool_cache_full(pkv_pool *pool, const pkv_chain *chain, const pkv_block *table,
                               uint64_t from, uint64_t to, uint64_t block_size, uint32_t group,
                               const uint8_t *mask)
{
    uint64_t hashes[PKVI_AHEAD], n_keys = 0;
    PKVI_RETURN_IF(check_range(pool, chain, from, to, block_size));
    PKVI_RETURN_IF(check_blocks(pool, chain, table, from, to, block_size, group, mask));
    const uint64_t m = block_size / pool->unit;
    if (from == to) {
        return PKV_OK;
    }
    const pkv_key *last = chain->keys + m - 1; /* of the units of block i: last[i * m] */
    for (uint64_t i = from; i < to && i < from + PKVI_AHEAD; i++) {
        hashes[i % PKVI_AHEAD] = pkvi_index_prefetch_add(pool, &last[i * m], group, table[i]);
    }
    for (uint64_t i = from; i < to; i++) {
        const pkv_key *key = &last[i * m];
        const bool wanted = !mask || mask[i - from];
        if (wanted && key_block(pool, table[i], key, group, (i + 1) * m, hashes[i % PKVI_AHEAD]) &&
            pool->sink.event) {
            pool->event_keys[n_keys] = key;
            pool->event_positions[n_keys++] = i * block_size;
        }
        if (i + PKVI_AHEAD < to) {
            hashes[i % PKVI_AHEAD] = pkvi_index_prefetch_add(pool, &last[(i + PKVI_AHEAD) * m],
                                                             group, table[i + PKVI_AHEAD]);
        }
    }
    if (n_keys > 0) {
        tell_stored(pool, chain, from, to, block_size, group, n_keys);
    }
    return PKV_OK;
}

void pkvi_pool_report(pkv_pool *pool, const pkv_chain *chain, uint64_t n, uint64_t block_size,
                      uint32_t group)
{
    const uint64_t m = block_size / pool->unit;
    if (!pool->sink.event || n == 0 || n > pool->max_table || n > chain->n_keys / m) {
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        pool->event_keys[i] = &chain->keys[(i + 1) * m - 1];
        pool->event_positions[i] = i * block_size;
    }
    tell_stored(pool, chain, 0, n, block_size, group, n);
}

/* Whether a block of a table has this place already. */
static bool is_placed(const pkv_pool *pool, const pkvi_cursor *cursor, const pkvi_table_part *part,
                      uint64_t i)
{
    const pkv_block b = part->ids[i];
    const uint64_t units = pkvi_units_to(part, i);
    return pool->blocks[b].units >= units &&
           pkvi_runs_is_named(pool->runs, cursor, units - 1, part->group, b);
}

/* Notes what is going to be stored; tells what blocks that have another name lose by it. */
static uint64_t note_stored(pkv_pool *pool, const pkvi_cursor *cursor, const pkv_chain *chain,
                            const pkvi_table_part *part)
{
    uint64_t n = 0;
    for (uint64_t i = part->from; i < part->to; i++) {
        if (!pkvi_is_wanted(part, i) || is_placed(pool, cursor, part, i)) {
            continue;
        }
        pkvi_drop_keys(pool, part->ids[i], true);
        pool->event_keys[n] = &chain->keys[pkvi_units_to(part, i) - 1];
        pool->event_positions[n++] = i * part->units * pool->unit;
    }
    return n;
}

pkv_status pkvi_pool_name(pkv_pool *pool, const pkvi_cursor *cursor, const pkv_chain *chain,
                          const pkvi_table_part *part)
{
    uint64_t n_told = 0;
    for (uint64_t i = part->from; i < part->to; i++) {
        const pkv_block b = part->ids[i];
        if (pool->blocks[b].units >= pkvi_units_to(part, i) && pkvi_is_wanted(part, i) &&
            !is_placed(pool, cursor, part, i)) {
            return pkvi_fail(PKV_E_CORRUPT,
                             "pkv_seq_allocate: block %" PRIu32 " is keyed for %" PRIu64 " tokens",
                             b, pkv_pool_block_tokens(pool, b));
        }
    }
    if (pool->sink.event) {
        n_told = note_stored(pool, cursor, chain, part);
    }
    pool->version += pkvi_runs_name(pool->runs, cursor, part);
    for (uint64_t i = part->from; i < part->to; i++) {
        if (pkvi_is_wanted(part, i)) {
            pool->blocks[part->ids[i]].units = (uint32_t)pkvi_units_to(part, i);
        }
    }
    if (n_told > 0) {
        tell_stored(pool, chain, part->from, part->to, part->units * pool->unit, part->group,
                    n_told);
    }
    return PKV_OK;
}

/* ---- partial blocks ---- */

static pkv_status check_partial(const pkv_pool *pool, const pkv_chain *chain, pkv_block block,
                                uint64_t tokens)
{
    if (!pool->caching || pool->runs || !chain || block >= pool->n_blocks || tokens == 0 ||
        tokens % pool->unit != 0 || tokens / pool->unit > chain->n_keys ||
        chain->n_keys > UINT32_MAX) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_pool_cache_partial: block %" PRIu32 ", tokens %" PRIu64
                         ": a multiple of the unit %" PRIu64 " with a key is needed",
                         block, tokens, pool->unit);
    }
    return PKV_OK;
}

/* Whether this is a key of the block. Only its own keys are looked at: equal blocks may be many. */
static bool has_key(const pkv_pool *pool, pkv_block block, const pkv_key *key, uint32_t group)
{
    uint32_t e = pool->blocks[block].secondary;
    if (is_keyed(pool, block, key, group)) {
        return true;
    }
    while (e != PKVI_NO_ENTRY && !pkvi_same_key(pool, e, key, group)) {
        e = *pkvi_link_of(pool, e);
    }
    return e != PKVI_NO_ENTRY;
}

pkv_status pkv_pool_cache_partial(pkv_pool *pool, const pkv_chain *chain, pkv_block block,
                                  uint64_t tokens, uint32_t group, bool replace)
{
    PKVI_RETURN_IF(check_partial(pool, chain, block, tokens));
    if (block == PKV_BLOCK_NULL) {
        return PKV_OK;
    }
    const uint64_t units = tokens / pool->unit;
    const pkv_key *key = &chain->keys[units - 1];
    if (replace) {
        pkvi_drop_keys(pool, block, true);
    } else if (has_key(pool, block, key, group)) {
        return PKV_OK;
    } else if (pool->blocks[block].units < units) {
        pkvi_drop_keys(pool, block, true);
    }
    if (pool->blocks[block].units == 0) {
        fill_entry(pool, block, key, group, block);
        pool->blocks[block].units = (uint32_t)units;
    } else {
        PKVI_RETURN_IF(add_secondary(pool, key, group, block));
    }
    tell_unit(pool, chain, units, group);
    return PKV_OK;
}

void pkvi_pool_name_unit(pkv_pool *pool, const pkvi_cursor *cursor, const pkv_chain *chain,
                         pkv_block block, uint64_t units, uint32_t group, bool replace)
{
    if (block == PKV_BLOCK_NULL || (!replace && pool->blocks[block].units >= units)) {
        return;
    }
    pkvi_drop_keys(pool, block, true);
    pkvi_runs_name_unit(pool->runs, cursor, units - 1, group, block);
    pool->blocks[block].units = (uint32_t)units;
    pool->version++;
    tell_unit(pool, chain, units, group);
}

/* ---- keys of a block ---- */

pkv_status pkv_pool_evict(pkv_pool *pool, pkv_block block)
{
    PKVI_RETURN_IF(pkvi_pool_check_ids(pool, "pkv_pool_evict", &block, 1));
    if (pool->samples && block != PKV_BLOCK_NULL) {
        pkvi_residency_ended(pool, block);
    }
    if (pool->caching) {
        pkvi_drop_keys(pool, block, true);
    }
    return PKV_OK;
}

pkv_status pkv_pool_move_keys(pkv_pool *pool, pkv_block src, pkv_block dst)
{
    PKVI_RETURN_IF(pkvi_pool_check_ids(pool, "pkv_pool_move_keys", &src, 1));
    PKVI_RETURN_IF(pkvi_pool_check_ids(pool, "pkv_pool_move_keys", &dst, 1));
    if (!pool->caching || pool->runs || dst == PKV_BLOCK_NULL || src == dst ||
        pool->blocks[dst].units != 0) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_pool_move_keys: block %" PRIu32 " cannot take the keys of %" PRIu32
                         ": it has some, or the pool does not cache",
                         dst, src);
    }
    pkvi_pool_move_keys(pool, src, dst);
    return PKV_OK;
}

void pkvi_pool_move_keys(pkv_pool *pool, pkv_block src, pkv_block dst)
{
    if (pool->blocks[src].units == 0) {
        return;
    }
    (void)pkvi_index_remove(pool, src);
    fill_entry(pool, dst, &pool->keys[src], pool->blocks[src].name.group, dst);
    pool->blocks[dst].units = pool->blocks[src].units;
    pool->blocks[src].units = 0;
    pool->blocks[dst].secondary = pool->blocks[src].secondary;
    pool->blocks[src].secondary = PKVI_NO_ENTRY;
    for (uint32_t e = pool->blocks[dst].secondary; e != PKVI_NO_ENTRY; e = *pkvi_link_of(pool, e)) {
        (void)pkvi_index_remove(pool, e); /* re-keyed behind equal content, as the primary is */
        pkvi_name_of(pool, e)->block = dst;
        pkvi_index_add(pool, e);
    }
}

pkv_status pkv_pool_reset(pkv_pool *pool)
{
    if (pool->list.n != pool->n_blocks - 1) {
        return PKV_E_AGAIN;
    }
    for (uint32_t b = 1; pool->caching && b < pool->n_blocks; b++) {
        pkvi_drop_keys(pool, b, false);
    }
    for (uint32_t b = 1; pool->watched && b < pool->n_blocks; b++) {
        if (pool->watched[b]) {
            pool->watched[b] = 0;
            pool->on_reuse(pool->reuse_ctx, b);
        }
    }
    if (pool->samples) {
        pkvi_residency_clear(pool);
    }
    if (pool->sink.event) {
        const pkv_event event = {.type = PKV_EVENT_CLEARED, .key_bytes = pool->key_bytes};
        pool->sink.event(pool->sink.ctx, &event);
    }
    return PKV_OK;
}

pkv_status pkv_pool_lookup(const pkv_pool *pool, const pkv_key *key, const uint32_t *groups,
                           uint32_t n_groups, pkv_block *ids)
{
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint32_t entry =
            pool->n_slots > 0 ? pkvi_index_find(pool, key, groups[g]) : PKVI_NO_ENTRY;
        if (entry == PKVI_NO_ENTRY) {
            return PKV_E_NOT_FOUND;
        }
        ids[g] = pkvi_block_of(pool, entry);
    }
    return PKV_OK;
}
