/** @file pool.h  Reference-counted block ids, and the keys by which their content can be found.
 *
 *  A pool holds no page bytes. A block is free, in use, or cached and idle: content that nobody
 *  uses but that can still be found. Free and idle blocks form one list in the order in which they
 *  will be handed out; docs/internals/cache.md says why the order is what it is.
 *
 *  Block 0 is the null block: never handed out, never keyed, legal in every list and skipped there.
 *
 *  After create nothing allocates, and nothing fails but by its arguments or a lack of blocks.
 *  Handles must not be NULL but in destroy. @threads one thread: all calls on a
 *  pool, and its events, happen on the scheduler's thread */
#ifndef PKV_POOL_H
#define PKV_POOL_H

#include <pkv/event.h>

PKV_BEGIN_DECLS

typedef uint32_t pkv_block; /**< id of a block, in [0, n_blocks) */
#define PKV_BLOCK_NULL ((pkv_block)0)
/** Largest number of blocks of a pool. */
#define PKV_POOL_MAX_BLOCKS UINT64_C(0x7fffffff)

typedef struct pkv_pool pkv_pool;

/** How one sampled block lived; times in nanoseconds of the caller's clock. */
typedef struct pkv_residency {
    uint64_t lifetime_ns; /**< from being handed out to being handed out again */
    uint64_t idle_ns;     /**< from the last access to the end */
    uint64_t gaps_ns[3];  /**< [n_gaps] between its last accesses, oldest first */
    uint32_t n_gaps;
    uint32_t reserved;
} pkv_residency;

typedef struct pkv_pool_params {
    uint32_t struct_size;     /**< set by init */
    uint32_t key_bytes;       /**< 32; length of the keys that events show */
    uint64_t n_blocks;        /**< the null block included; >= 1 */
    uint64_t unit;            /**< tokens per key, at most 2^31-1; 16 */
    uint64_t units_per_block; /**< 1; most units of a block of any group: bounds its keys. The first
                                   costs 44 to 56 bytes per block, each further one 64 to 76 */
    uint64_t lookahead;       /**< 0; tokens after a block that its key covers */
    uint64_t max_table;       /**< 0; longest table given to cache_full; events need room for it */
    const pkv_alloc *alloc;
    pkv_event_sink sink; /**< event NULL: no events */
    uint8_t caching;     /**< 1; 0: content is never found again */
    uint8_t reserved[7];
    void *reuse_ctx; /**< the block of pkv_pool_unpin() is handed out again */
    void (*on_reuse)(void *ctx, pkv_block block); /**< or NULL */
    double sample_rate; /**< 0; share of the blocks handed out whose residency is told, [0, 1] */
    uint64_t sample_seed;
    void *residency_ctx;
    uint64_t (*clock_ns)(void *ctx); /**< needed with a sample_rate */
    void (*on_residency)(void *ctx, const pkv_residency *sample);
} pkv_pool_params;

PKV_API void pkv_pool_params_init(pkv_pool_params *params);
/** INVAL: n_blocks 0 or beyond PKV_POOL_MAX_BLOCKS, a unit of 0, a rate without a clock; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_pool_create(const pkv_pool_params *params, pkv_pool **out);
PKV_API void pkv_pool_destroy(pkv_pool *pool); /**< NULL is allowed */

/* ---- counting ---- */

PKV_API uint64_t pkv_pool_n_blocks(const pkv_pool *pool);
/** Blocks that a take could get now. */
PKV_API uint64_t pkv_pool_free_count(const pkv_pool *pool);
/** 1 - free / (n_blocks - 1); 0 for a pool of the null block alone. */
PKV_API double pkv_pool_usage(const pkv_pool *pool);
/** Keys by which something can be found; copies of equal content count once. Where a cache finds
 *  content by tokens, ends of prompts inside of blocks do not count beside the whole block. */
PKV_API uint64_t pkv_pool_key_count(const pkv_pool *pool);
/** Blocks that were handed out again while their content could still be found, since create. */
PKV_API uint64_t pkv_pool_evicted(const pkv_pool *pool);
/** References of a block; 0 for the null block and ids beyond the pool. */
PKV_API uint32_t pkv_pool_refs(const pkv_pool *pool, pkv_block block);
/** Tokens of the prefix that the block's first key names; 0: it has none. */
PKV_API uint64_t pkv_pool_block_tokens(const pkv_pool *pool, pkv_block block);
/** Whether its sole owner may change it: one reference and no key. */
PKV_API bool pkv_pool_writable(const pkv_pool *pool, pkv_block block);
/** Up to n ids of the list in hand-out order; returns how many were written. */
PKV_API uint64_t pkv_pool_free_list(const pkv_pool *pool, pkv_block *ids, uint64_t n);

/* ---- references ---- */

/** Takes n blocks from the front of the list, each with one reference; cached ones lose their keys,
 *  and each lost key is told to the sink. NO_BLOCKS (no text): fewer are left, nothing changed.
 *  ids: [n], written. O(n), amortised over shares. */
PKV_API PKV_NODISCARD pkv_status pkv_pool_take(pkv_pool *pool, uint64_t n, pkv_block *ids);
/** One more reference for each: a hit. INVAL: an id beyond the pool. O(n) */
PKV_API PKV_NODISCARD pkv_status pkv_pool_share(pkv_pool *pool, const pkv_block *ids, uint64_t n);
/** Drops one reference of each, ids in eviction priority: the first will be reused first. Blocks
 *  that nobody uses any more go to the front of the list if they have no key (in the order given),
 *  else to the back. INVAL: an id beyond the pool, or more drops than references; nothing changed.
 *  */
PKV_API PKV_NODISCARD pkv_status pkv_pool_release(pkv_pool *pool, const pkv_block *ids, uint64_t n);
/** Drops one reference of each; at 0 a block goes to the back of the list even without a key, stays
 *  readable, and on_reuse is called when it is handed out or the pool is reset. INVAL as release.
 *  */
PKV_API PKV_NODISCARD pkv_status pkv_pool_unpin(pkv_pool *pool, const pkv_block *ids, uint64_t n);

/* ---- content ---- */

/** Drops all keys of a block, whatever its state. INVAL: an id beyond the pool. */
PKV_API PKV_NODISCARD pkv_status pkv_pool_evict(pkv_pool *pool, pkv_block block);
/** Drops all keys; the order of the list stays. AGAIN (no text): blocks are in use, nothing
 *  changed. */
PKV_API PKV_NODISCARD pkv_status pkv_pool_reset(pkv_pool *pool);

/** Keys the blocks [from, to) of a table for a group whose blocks are block_size tokens, a multiple
 *  of the unit. Null blocks, those whose mask byte is 0 and those that have this very key already
 *  are passed over. A block that was keyed for fewer tokens is keyed anew; another key for as many
 *  is CORRUPT. One stored event for the call; none if nothing was keyed. Equal content is not
 *  joined: tables only grow, so equal blocks stay apart and the first keyed is found first.
 *  table: [to]; mask: [to - from] or NULL. INVAL: a range or a size that the chain does not cover.
 *  */
PKV_API PKV_NODISCARD pkv_status pkv_pool_cache_full(pkv_pool *pool, const pkv_chain *chain,
                                                     const pkv_block *table, uint64_t from,
                                                     uint64_t to, uint64_t block_size,
                                                     uint32_t group, const uint8_t *mask);
/** Keys a block for the first `tokens` tokens of a prefix, which end inside it: a positive
 *  multiple of the unit. Its key for fewer tokens is dropped, one for as many or more stays and
 *  this one is added. With `replace` all its keys are dropped first. The null block is passed over.
 *  INVAL: tokens; CORRUPT: more keys than units_per_block allows over all blocks. */
PKV_API PKV_NODISCARD pkv_status pkv_pool_cache_partial(pkv_pool *pool, const pkv_chain *chain,
                                                        pkv_block block, uint64_t tokens,
                                                        uint32_t group, bool replace);
/** All keys of src name dst from now on; no event. INVAL: dst has a key, an id beyond the pool. */
PKV_API PKV_NODISCARD pkv_status pkv_pool_move_keys(pkv_pool *pool, pkv_block src, pkv_block dst);

/** The block first keyed so in each group. NOT_FOUND (no text): some group has none, and ids may be
 *  written in part. groups, ids: [n_groups]. O(n_groups) */
PKV_API PKV_NODISCARD pkv_status pkv_pool_lookup(const pkv_pool *pool, const pkv_key *key,
                                                 const uint32_t *groups, uint32_t n_groups,
                                                 pkv_block *ids);

/** Walks all of the pool and compares it with itself. CORRUPT: the text names what is broken. O(n)
 *  */
PKV_API PKV_NODISCARD pkv_status pkv_pool_check(const pkv_pool *pool);

PKV_END_DECLS
#endif
