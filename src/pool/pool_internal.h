/* pool_internal.h  A pool in memory.
 *
 * Blocks are numbers; what most operations need of one lies in half a line, by number: block.h. The
 * order in which they are handed out is a list of its own. The null block is never in it.
 *
 * A key has a number, too, and what it names a block for: its name. Number b < n_blocks is the
 * primary key of block b, whose name lies in the block; those after are secondary keys (a prefix
 * that ends inside a block which is keyed for more), taken from a free list and chained per block
 * in the order in which they were added. Names of equal key and group form a ring in the order in
 * which they were keyed, and the index finds the first.
 *
 * A pool of a cache may know content by a tree of runs instead: then it has no numbered keys. */
#ifndef PKVI_POOL_INTERNAL_H
#define PKVI_POOL_INTERNAL_H

#include <string.h>

#include <pkv/pool.h>

#include "base/arena.h"
#include "pool/list.h"
#include "pool/runs.h"

#define PKVI_NO_ENTRY UINT32_MAX
/* Largest unit and lookahead, in tokens: sums of positions cannot wrap. */
#define PKVI_MAX_UNIT UINT64_C(0x7fffffff)

typedef struct pkvi_secondary {
    pkvi_name name; /* next NO_ENTRY: not in the index */
    uint32_t link;  /* next secondary key of the block, or next free one */
} pkvi_secondary;

/* Residency sample of one block. */
typedef struct pkvi_sample {
    uint64_t birth_ns, last_ns;
    uint64_t access_ns[4]; /* the last four, a ring */
    uint32_t n_access;
    uint32_t live;
} pkvi_sample;

struct pkv_pool {
    pkvi_arena arena; /* holds this struct too */
    uint64_t n_blocks;
    pkvi_block *blocks; /* [n_blocks] */
    pkvi_list list;     /* those that nobody holds */
    uint8_t *watched;   /* [n_blocks] on_reuse is due */

    pkv_key *keys;             /* [n_entries] */
    pkvi_secondary *secondary; /* [n_entries - n_blocks] */
    uint32_t n_entries, free_entry, n_free_entries;
    uint64_t *slots; /* [n_slots] upper half of the digest, entry + 1; 0: empty */
    uint64_t n_slots, n_keys;
    uint32_t group;      /* of the keys in the index, if there are any */
    bool several_groups; /* or of some of them */
    pkvi_runs *runs;     /* or NULL: content is found by keys */
    uint64_t version;    /* counts changes of what can be found */

    uint64_t unit, lookahead;
    uint32_t key_bytes;
    bool caching;
    pkv_event_sink sink;
    const pkv_key **event_keys; /* [max_table] */
    uint64_t *event_positions;  /* [max_table] */
    uint64_t max_table;

    uint64_t n_evicted; /* keyed blocks that were handed out again */

    void *reuse_ctx;
    void (*on_reuse)(void *ctx, pkv_block block);
    pkvi_sample *samples; /* [n_blocks], or NULL */
    double sample_rate;
    uint64_t random;
    void *residency_ctx;
    uint64_t (*clock_ns)(void *ctx);
    void (*on_residency)(void *ctx, const pkv_residency *sample);
};

/* In turn i of a loop over n blocks: fetches one that comes later. */
static inline void pkvi_fetch_ahead(const pkv_pool *pool, const pkv_block *ids, uint64_t i,
                                    uint64_t n)
{
    if (i + PKVI_AHEAD < n) {
        pkvi_fetch_far(&pool->blocks[ids[i + PKVI_AHEAD]]);
    }
}

static inline pkvi_name *pkvi_name_of(const pkv_pool *pool, uint32_t entry)
{
    return entry < pool->n_blocks ? &pool->blocks[entry].name
                                  : &pool->secondary[entry - pool->n_blocks].name;
}

static inline uint32_t *pkvi_link_of(const pkv_pool *pool, uint32_t secondary)
{
    return &pool->secondary[secondary - pool->n_blocks].link;
}

/* ---- entries.c ---- */

/* Room for so many keys; false: no memory. */
bool pkvi_entries_create(pkv_pool *pool, uint64_t n_entries);
void pkvi_entries_destroy(pkv_pool *pool);
/* Room for so many more secondary keys; false: no memory, and nothing has changed. */
bool pkvi_reserve_secondary(pkv_pool *pool, uint32_t n);

/* ---- index.c ---- */

/* Whether that is the key and group of an entry in the index. Where all are of one group, only the
 * key is read. */
static inline bool pkvi_same_key(const pkv_pool *pool, uint32_t entry, const pkv_key *key,
                                 uint32_t group)
{
    return memcmp(&pool->keys[entry], key, sizeof *key) == 0 &&
           group == (pool->several_groups ? pkvi_name_of(pool, entry)->group : pool->group);
}

/* The block that a key names. */
static inline pkv_block pkvi_block_of(const pkv_pool *pool, uint32_t entry)
{
    return entry < pool->n_blocks ? entry : pkvi_name_of(pool, entry)->block;
}

/* First entry of a key and group, or PKVI_NO_ENTRY. */
uint32_t pkvi_index_find(const pkv_pool *pool, const pkv_key *key, uint32_t group);
/* First blocks of keys[0], keys[step], ...: returns how many of n were found in a row. ids: [n] */
uint64_t pkvi_index_find_run(const pkv_pool *pool, const pkv_key *keys, uint64_t step, uint64_t n,
                             uint32_t group, pkv_block *ids);
/* Fetches the memory that an add, or a remove, is going to need; returns the key's hash. */
uint64_t pkvi_index_prefetch_add(const pkv_pool *pool, const pkv_key *key, uint32_t group,
                                 uint32_t entry);
void pkvi_index_prefetch_remove(const pkv_pool *pool, uint32_t entry);
/* Adds a filled entry behind all of equal key. */
void pkvi_index_add(pkv_pool *pool, uint32_t entry);
/* The same of a key whose hash is known. */
void pkvi_index_add_hashed(pkv_pool *pool, uint32_t entry, uint64_t hash);
/* Moves a slot of a smaller index into this one; an empty one is passed over. */
void pkvi_index_put(pkv_pool *pool, uint64_t slot);
/* Takes an entry out; false: it was not in. */
bool pkvi_index_remove(pkv_pool *pool, uint32_t entry);

/* ---- pool.c ---- */

/* pkv_pool_create(). run_unit > 0: content of n_groups groups is found in a tree of runs, by so
 * many words a unit; the calls with keys then find and keep nothing. */
pkv_status pkvi_pool_create(const pkv_pool_params *params, uint64_t run_unit, uint32_t n_groups,
                            pkv_pool **out);

/* ---- refs.c ---- */

/* INVAL, in the name of `function`: an id beyond the pool. */
pkv_status pkvi_pool_check_ids(const pkv_pool *pool, const char *function, const pkv_block *ids,
                               uint64_t n);

/* The public calls for callers that have counted and checked before. */
void pkvi_pool_take(pkv_pool *pool, uint64_t n, pkv_block *ids);
void pkvi_pool_share(pkv_pool *pool, const pkv_block *ids, uint64_t n);
void pkvi_pool_release(pkv_pool *pool, const pkv_block *ids, uint64_t n);
void pkvi_pool_release_last_first(pkv_pool *pool, const pkv_block *ids, uint64_t n);

/* ---- content.c ---- */

/* The primary key of a block that has one. */
const pkv_key *pkvi_pool_key(const pkv_pool *pool, pkv_block block);

/* pkv_pool_cache_full() by runs, for the units before a cursor. chain: for the event, if there is a
 * sink; the runs are then of its keys. CORRUPT: a block has another name for as many units. */
pkv_status pkvi_pool_name(pkv_pool *pool, const pkvi_cursor *cursor, const pkv_chain *chain,
                          const pkvi_table_part *part);
/* pkv_pool_cache_partial() by runs, for so many units before a cursor. A block has one name only:
 * one for as many units or more stays, unless it is replaced, and then there is no second. */
void pkvi_pool_name_unit(pkv_pool *pool, const pkvi_cursor *cursor, const pkv_chain *chain,
                         pkv_block block, uint64_t units, uint32_t group, bool replace);
/* Drops all keys of a block, with an event each if `tell`. */
void pkvi_drop_keys(pkv_pool *pool, pkv_block block, bool tell);

/* pkv_pool_move_keys() onto a block that has none. */
void pkvi_pool_move_keys(pkv_pool *pool, pkv_block src, pkv_block dst);

/* Tells the first n blocks of a prefix as stored, though nothing changes. */
void pkvi_pool_report(pkv_pool *pool, const pkv_chain *chain, uint64_t n, uint64_t block_size,
                      uint32_t group);

/* ---- residency.c ---- */

void pkvi_residency_taken(pkv_pool *pool, pkv_block block);
void pkvi_residency_accessed(pkv_pool *pool, pkv_block block);
void pkvi_residency_ended(pkv_pool *pool, pkv_block block);
void pkvi_residency_clear(pkv_pool *pool);

#endif
