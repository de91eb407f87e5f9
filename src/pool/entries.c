/* entries.c  Room for keys: themselves, names of secondary ones, and the slots that find them.
 *
 * How many keys a block has depends on the requests that shared it, so a cache makes room before it
 * keys; then nothing can fail while it does. A pool alone keeps to what it was made for. */
#include <string.h>

#include "base/math.h"
#include "pool/pool_internal.h"

/* Room for every key, at most two thirds full. */
static uint64_t slots_for(uint64_t n_entries)
{
    uint64_t n = 16;
    while (n < n_entries + n_entries / 2) {
        n *= 2;
    }
    return n;
}

/* What a pool has of each, so that it can be moved. */
typedef struct room {
    pkv_key *keys;
    pkvi_secondary *secondary;
    uint64_t *slots;
    uint32_t n_entries;
    uint64_t n_slots;
} room;

static void *get(const pkv_pool *pool, size_t n, size_t bytes)
{
    const pkv_alloc *hooks = &pool->arena.hooks;
    return n > SIZE_MAX / bytes ? NULL : hooks->alloc(hooks->ctx, n * bytes, 64);
}

static void give(const pkv_pool *pool, void *memory, size_t n, size_t bytes)
{
    if (memory) {
        pool->arena.hooks.free(pool->arena.hooks.ctx, memory, n * bytes, 64);
    }
}

static void free_room(const pkv_pool *pool, const room *r)
{
    give(pool, r->keys, r->n_entries, sizeof *r->keys);
    give(pool, r->secondary, (size_t)(r->n_entries - pool->n_blocks) + 1, sizeof *r->secondary);
    give(pool, r->slots, (size_t)r->n_slots, sizeof *r->slots);
}

static bool get_room(const pkv_pool *pool, uint32_t n_entries, room *out)
{
    *out = (room){.n_entries = n_entries, .n_slots = slots_for(n_entries)};
    out->keys = get(pool, n_entries, sizeof *out->keys);
    out->secondary = get(pool, (size_t)(n_entries - pool->n_blocks) + 1, sizeof *out->secondary);
    out->slots = get(pool, (size_t)out->n_slots, sizeof *out->slots);
    if (!out->keys || !out->secondary || !out->slots) {
        free_room(pool, out);
        return false;
    }
    memset(out->slots, 0, (size_t)out->n_slots * sizeof *out->slots);
    return true;
}

static room room_of(const pkv_pool *pool)
{
    return (room){pool->keys, pool->secondary, pool->slots, pool->n_entries, pool->n_slots};
}

static void set_room(pkv_pool *pool, const room *r)
{
    pool->keys = r->keys;
    pool->secondary = r->secondary;
    pool->slots = r->slots;
    pool->n_entries = r->n_entries;
    pool->n_slots = r->n_slots;
}

/* Entries from `from` on have no key; those beyond the blocks are free. */
static void clear_entries(pkv_pool *pool, uint32_t from)
{
    const uint32_t n = (uint32_t)pool->n_blocks;
    for (uint32_t e = from; e < pool->n_entries; e++) {
        memset(&pool->keys[e], 0, sizeof pool->keys[e]);
        *pkvi_name_of(pool, e) =
            (pkvi_name){.block = e < n ? e : 0, .next = PKVI_NO_ENTRY, .prev = PKVI_NO_ENTRY};
        if (e >= n) {
            *pkvi_link_of(pool, e) = pool->free_entry;
            pool->free_entry = e;
            pool->n_free_entries++;
        }
    }
}

bool pkvi_entries_create(pkv_pool *pool, uint64_t n_entries)
{
    room r;
    if (!get_room(pool, (uint32_t)n_entries, &r)) {
        return false;
    }
    set_room(pool, &r);
    pool->free_entry = PKVI_NO_ENTRY;
    clear_entries(pool, 0);
    return true;
}

void pkvi_entries_destroy(pkv_pool *pool)
{
    if (pool->keys) {
        const room r = room_of(pool);
        free_room(pool, &r);
    }
}

bool pkvi_reserve_secondary(pkv_pool *pool, uint32_t n)
{
    room r;
    const room old = room_of(pool);
    if (!pool->keys || pool->n_free_entries >= n) {
        return true;
    }
    const uint64_t more = pkvi_max(n, pool->n_blocks / 2 + 1);
    if (old.n_entries + more > UINT32_MAX - 2 ||
        !get_room(pool, (uint32_t)(old.n_entries + more), &r)) {
        return false;
    }
    const size_t n_secondary = (size_t)(old.n_entries - pool->n_blocks);
    memcpy(r.keys, old.keys, old.n_entries * sizeof *r.keys);
    memcpy(r.secondary, old.secondary, n_secondary * sizeof *r.secondary);
    set_room(pool, &r);
    for (uint64_t s = 0; s < old.n_slots; s++) {
        pkvi_index_put(pool, old.slots[s]);
    }
    clear_entries(pool, old.n_entries);
    free_room(pool, &old);
    return true;
}
