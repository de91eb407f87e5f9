/* index.c  Keys to entries: open addressing with linear probing.
 *
 * A slot holds part of the key's digest beside the entry number, so that a probe touches an entry
 * only when it very likely is the one. Removal shifts later entries back instead of leaving marks,
 * so that probes stay short however long the cache lives. */
#include <string.h>

#include "base/fetch.h"
#include "pool/pool_internal.h"

/* Keys are digests, or numbers that a caller made up, so every word counts: multiplying by odd
 * numbers (of xxHash) spreads each, modulo 2^64. */
static uint64_t slot_hash(const pkv_key *key, uint32_t group)
{
    static const uint64_t odd[] = {UINT64_C(0x9e3779b185ebca87), UINT64_C(0xc2b2ae3d27d4eb4f),
                                   UINT64_C(0x165667b19e3779f9), UINT64_C(0x85ebca77c2b2ae63),
                                   UINT64_C(0x27d4eb2f165667c5)};
    uint64_t words[sizeof key->bytes / sizeof(uint64_t)], part, hash;
    memcpy(words, key->bytes, sizeof words);
    (void)__builtin_mul_overflow(group, odd[4], &hash);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        (void)__builtin_mul_overflow(words[i], odd[i], &part);
        hash ^= part;
    }
    return hash;
}

/* The upper half of the hash is in the slot: where an entry belongs is known without reading it. */
static uint64_t slot_value(uint64_t hash, uint32_t entry)
{
    return (hash & 0xffffffff00000000u) | (entry + 1u);
}

static uint64_t home_of(uint64_t slot_or_hash, uint64_t mask)
{
    return (slot_or_hash >> 32) & mask;
}

static uint32_t slot_entry(uint64_t slot)
{
    return (uint32_t)(slot & 0xffffffffu) - 1u;
}

/* From `at` on, the first slot of a key of that hash, as far as slots tell, or an empty one. */
static uint64_t find_hash(const pkv_pool *pool, uint64_t hash, uint64_t at)
{
    const uint64_t mask = pool->n_slots - 1;
    while (pool->slots[at] != 0 && (pool->slots[at] ^ hash) >> 32 != 0) {
        at = (at + 1) & mask;
    }
    return at;
}

/* The slot of a key of that hash, or the empty one where it would go. */
static uint64_t find_slot(const pkv_pool *pool, uint64_t hash, const pkv_key *key, uint32_t group)
{
    const uint64_t mask = pool->n_slots - 1;
    uint64_t at = find_hash(pool, hash, home_of(hash, mask));
    while (pool->slots[at] != 0 && !pkvi_same_key(pool, slot_entry(pool->slots[at]), key, group)) {
        at = find_hash(pool, hash, (at + 1) & mask);
    }
    return at;
}

uint32_t pkvi_index_find(const pkv_pool *pool, const pkv_key *key, uint32_t group)
{
    const uint64_t slot = pool->slots[find_slot(pool, slot_hash(key, group), key, group)];
    return slot == 0 ? PKVI_NO_ENTRY : slot_entry(slot);
}

/* ---- many keys: the memory of the next ones is on its way while one is looked at ---- */

static uint64_t begin_find(const pkv_pool *pool, const pkv_key *key, uint32_t group)
{
    const uint64_t hash = slot_hash(key, group);
    pkvi_fetch_far(&pool->slots[home_of(hash, pool->n_slots - 1)]);
    return hash;
}

static void begin_compare(const pkv_pool *pool, uint64_t hash)
{
    const uint64_t slot = pool->slots[find_hash(pool, hash, home_of(hash, pool->n_slots - 1))];
    if (slot != 0) {
        pkvi_fetch_far(&pool->keys[slot_entry(slot)]);
    }
}

uint64_t pkvi_index_find_run(const pkv_pool *pool, const pkv_key *keys, uint64_t step, uint64_t n,
                             uint32_t group, pkv_block *ids)
{
    uint64_t hashes[PKVI_AHEAD];
    for (uint64_t i = 0; i < n && i < PKVI_AHEAD; i++) {
        hashes[i] = begin_find(pool, &keys[i * step], group);
    }
    for (uint64_t i = 0; i < n; i++) {
        if (i + PKVI_AHEAD / 2 < n) {
            begin_compare(pool, hashes[(i + PKVI_AHEAD / 2) % PKVI_AHEAD]);
        }
        const uint64_t slot =
            pool->slots[find_slot(pool, hashes[i % PKVI_AHEAD], &keys[i * step], group)];
        if (slot == 0) {
            return i;
        }
        ids[i] = pkvi_block_of(pool, slot_entry(slot));
        if (i + 2 * PKVI_AHEAD < n) {
            pkvi_fetch_far(&keys[(i + 2 * PKVI_AHEAD) * step]);
            pkvi_fetch_far(&ids[i + 2 * PKVI_AHEAD]);
        }
        if (i + PKVI_AHEAD < n) {
            hashes[i % PKVI_AHEAD] = begin_find(pool, &keys[(i + PKVI_AHEAD) * step], group);
        }
    }
    return n;
}

uint64_t pkvi_index_prefetch_add(const pkv_pool *pool, const pkv_key *key, uint32_t group,
                                 uint32_t entry)
{
    pkvi_fetch_far(&pool->keys[entry]);
    pkvi_fetch_far(pkvi_name_of(pool, entry));
    return begin_find(pool, key, group);
}

void pkvi_index_prefetch_remove(const pkv_pool *pool, uint32_t entry)
{
    (void)begin_find(pool, &pool->keys[entry], pkvi_name_of(pool, entry)->group);
}

void pkvi_index_add(pkv_pool *pool, uint32_t entry)
{
    pkvi_index_add_hashed(pool, entry,
                          slot_hash(&pool->keys[entry], pkvi_name_of(pool, entry)->group));
}

void pkvi_index_add_hashed(pkv_pool *pool, uint32_t entry, uint64_t hash)
{
    pkvi_name *name = pkvi_name_of(pool, entry);
    const uint64_t at = find_slot(pool, hash, &pool->keys[entry], name->group);
    if (pool->slots[at] == 0) {
        pool->slots[at] = slot_value(hash, entry);
        name->next = name->prev = entry;
        pool->n_keys++;
        return;
    }
    const uint32_t first = slot_entry(pool->slots[at]);
    pkvi_name *first_name = pkvi_name_of(pool, first);
    const uint32_t last = first_name->prev;
    name->next = first;
    name->prev = last;
    pkvi_name_of(pool, last)->next = entry;
    first_name->prev = entry;
}

void pkvi_index_put(pkv_pool *pool, uint64_t slot)
{
    const uint64_t mask = pool->n_slots - 1;
    uint64_t at = home_of(slot, mask);
    while (slot != 0 && pool->slots[at] != 0) {
        at = (at + 1) & mask;
    }
    if (slot != 0) {
        pool->slots[at] = slot;
    }
}

/* Closes the gap at `at`: entries that a probe would no longer reach move back into it. */
static void shift_back(pkv_pool *pool, uint64_t at)
{
    const uint64_t mask = pool->n_slots - 1;
    uint64_t gap = at, look = at;
    for (;;) {
        look = (look + 1) & mask;
        if (pool->slots[look] == 0) {
            break;
        }
        const uint64_t home = home_of(pool->slots[look], mask);
        /* distances forward, modulo the table */
        if (((look + pool->n_slots - home) & mask) >= ((look + pool->n_slots - gap) & mask)) {
            pool->slots[gap] = pool->slots[look];
            gap = look;
        }
    }
    pool->slots[gap] = 0;
}

/* The slot that names the entry, found without reading any other entry; if another one of its ring
 * is named there, the slot of that one or an empty one. */
static uint64_t slot_of_entry(const pkv_pool *pool, uint64_t hash, uint32_t entry)
{
    const uint64_t mask = pool->n_slots - 1, wanted = slot_value(hash, entry);
    uint64_t at = home_of(hash, mask);
    while (pool->slots[at] != wanted && pool->slots[at] != 0) {
        at = (at + 1) & mask;
    }
    return at;
}

bool pkvi_index_remove(pkv_pool *pool, uint32_t entry)
{
    pkvi_name *name = pkvi_name_of(pool, entry);
    if (name->next == PKVI_NO_ENTRY) {
        return false;
    }
    const uint64_t hash = slot_hash(&pool->keys[entry], name->group);
    const uint64_t at = slot_of_entry(pool, hash, entry);
    if (name->next == entry) {
        shift_back(pool, at);
        pool->n_keys--;
    } else {
        if (pool->slots[at] == slot_value(hash, entry)) {
            pool->slots[at] = slot_value(hash, name->next);
        }
        pkvi_name_of(pool, name->prev)->next = name->next;
        pkvi_name_of(pool, name->next)->prev = name->prev;
    }
    name->next = name->prev = PKVI_NO_ENTRY;
    return true;
}
