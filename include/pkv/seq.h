/** @file seq.h  The cache of a model at run time, and the sequences that live in it.
 *
 *  A plan becomes a cache; a request becomes a sequence. Before each step a scheduler asks for the
 *  slots that the step will write; the cache answers with block ids, the copies and zero-fills that
 *  the engine must run first, or a refusal that changes nothing but what lies below a window:
 *
 *      open -> (lookup) -> allocate -> [append -> allocate]... -> close
 *                             |  refused: preempt somebody, and try again
 *
 *  The decisions are vLLM 0.33's, block for block; docs/internals/cache.md walks through them.
 *  @threads one thread: a cache and all of its sequences belong to the thread that created it, the
 *  scheduler's; debug builds check it */
#ifndef PKV_SEQ_H
#define PKV_SEQ_H

#include <pkv/event.h>
#include <pkv/plan.h>
#include <pkv/pool.h>

PKV_BEGIN_DECLS

typedef struct pkv_cache pkv_cache;
/** One request. The cache must outlive it. */
typedef struct pkv_seq pkv_seq;

/** How a cache finds content again. The decisions are the same. */
typedef enum pkv_index {
    PKV_INDEX_AUTO = 0,   /**< by tokens where it can be; else by chains where it can be; else by
                               keys */
    PKV_INDEX_TOKENS = 1, /**< by comparing tokens: where a group keeps all of a prefix, or a
                               window of an eighth of the longest request and more, and hits and
                               recurrent states end where blocks do; without an event sink or keys
                               that look ahead. Keys are computed when they are asked for, and none
                               can be given */
    PKV_INDEX_KEYS = 2,   /**< by keys, which are computed as tokens come, or given */
    PKV_INDEX_CHAINS = 3  /**< by keys, each found behind the one before it, at the speed of memory:
                               as TOKENS, with event sinks and keys that look ahead as well, but if
                               all blocks are one unit long. A key that is given must name all that
                               is before it; pkv_pool_lookup() finds nothing */
} pkv_index;

typedef struct pkv_cache_params {
    uint32_t struct_size; /**< set by init */
    uint32_t hash;        /**< pkv_hash; SHA256_CBOR */
    const pkv_plan *plan; /**< borrowed for the call */
    const pkv_alloc *alloc;
    const char *hash_seed;       /**< as in pkv_hasher_params */
    const uint8_t *cluster_seed; /**< as in pkv_hasher_params */
    pkv_event_sink sink;         /**< event NULL: no events */
    double watermark;   /**< share of all blocks kept free when waiting requests come in, [0, 1) */
    double sample_rate; /**< this and the next four: residency samples, as in pkv_pool_params */
    uint64_t sample_seed;
    void *residency_ctx;
    uint64_t (*clock_ns)(void *ctx);
    void (*on_residency)(void *ctx, const pkv_residency *sample);
    uint8_t shared_prefix_checkpoint; /**< 0; 1: recurrent states are kept where a prefix that
                                           several requests share ends, for plans with a drafter and
                                           hits inside blocks; the scheduler ends a step there */
    uint8_t reserved[3];
    uint32_t index; /**< pkv_index; AUTO */
} pkv_cache_params;

/** What a cache is made of. */
typedef struct pkv_cache_info {
    uint64_t n_blocks;             /**< the null block included */
    uint64_t max_model_len;        /**< tokens */
    uint64_t scheduler_block_size; /**< tokens; every group's block divides it */
    uint64_t unit;                 /**< tokens per key */
    uint64_t hit_alignment;        /**< tokens; hits are multiples of it */
    uint32_t n_groups;
    uint32_t key_bytes;
    uint8_t caching;
    uint8_t reserved[7];
} pkv_cache_info;

/** One cache group at run time. */
typedef struct pkv_cache_group {
    const char *event_kind; /**< as events tell it; static */
    uint64_t block_size;    /**< tokens per block and rank */
    uint64_t span;          /**< tokens per block over all context-parallel ranks */
    uint64_t window;        /**< sliding kinds; 0: none */
    uint64_t table_width;   /**< entries of the longest block table, rounded up for the worker */
    uint32_t kind;          /**< pkv_kind */
    uint32_t reserved;
} pkv_cache_group;

PKV_API void pkv_cache_params_init(pkv_cache_params *params);
/** INVAL: a field, max_model_len beyond 2^32-1; VALUE, ASSERT, OVERFLOW: a plan that cannot be
 *  managed; UNSUPPORTED: a kind of layer that this version does not manage yet, named, caching of
 *  one that no prefix finds, or index TOKENS or CHAINS where it cannot be; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_cache_create(const pkv_cache_params *params, pkv_cache **out);
/** Closes all sequences too. NULL is allowed. */
PKV_API void pkv_cache_destroy(pkv_cache *cache);
PKV_API const pkv_cache_info *pkv_cache_get_info(const pkv_cache *cache);
PKV_API const pkv_cache_group *pkv_cache_group_at(const pkv_cache *cache, uint32_t group);
/** The pool, for its counts and its list; do not change it. What it says is true until the next
 *  call on the cache: ask for it again then, since steps leave things to be done. */
PKV_API const pkv_pool *pkv_cache_get_pool(const pkv_cache *cache);

/* ---- sequences ---- */

typedef struct pkv_seq_params {
    uint32_t struct_size;  /**< set by init */
    uint8_t skip_lookup;   /**< 1: never reuse cached content */
    uint8_t report_reused; /**< 1: an allocate that finds a hit tells its blocks as stored, too,
                                even if it is then refused (as vLLM does) */
    uint8_t has_lora_id;
    uint8_t reserved;
    const int32_t *tokens; /**< [n_tokens] the prompt, 0 .. 2^31-1; or NULL, with keys */
    uint64_t n_tokens;     /**< >= 1 */
    const pkv_key *keys;   /**< [n_keys] of the prompt's units, ready-made, for a cache that finds
                                content by keys; NULL: computed */
    uint64_t n_keys;
    const pkv_extras *extras; /**< copied; NULL: none */
    const char *session;      /**< copied; NULL: none */
    uint64_t lora_id;
} pkv_seq_params;

PKV_API void pkv_seq_params_init(pkv_seq_params *params);
/** A request that waits. Nothing is taken yet. INVAL: no tokens, more than max_model_len, a token
 *  below 0, extras out of order, keys of another number than the tokens have, keys in a cache that
 *  finds content by tokens; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_open(pkv_cache *cache, const pkv_seq_params *params,
                                              pkv_seq **out);
/** Gives back all blocks, last block first, at any time. `defer`: a step that may still write is
 *  running; they are released by the next pkv_cache_step(). NULL is allowed. NOMEM (defer only):
 *  the sequence is still open. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_close(pkv_seq *seq, bool defer);

/** What can be reused. */
typedef struct pkv_hit {
    uint64_t tokens;        /**< computed already: a multiple of the hit alignment */
    uint64_t shared_prefix; /**< end of a longer prefix that only some groups hold; 0: none */
} pkv_hit;

/** Looks for the longest prefix that every group still holds; at most all tokens but one, since
 *  something must be computed. Takes nothing and may be repeated until the sequence is allocated.
 *  INVAL: it is. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_lookup(pkv_seq *seq, pkv_hit *out);
/** The hit that a connector is shown: where a group of recurrent layers holds less than full
 *  attention, the latter's alone, and *diverged_out is true. Such a hit can be used only if the
 *  connector brings the state at its end: allocate with use_cached 3; else look up again. It pins
 *  no shared prefix. INVAL: the sequence is allocated. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_lookup_for_connector(pkv_seq *seq, pkv_hit *out,
                                                              bool *diverged_out);
/** Blocks of a group in the last lookup of this cache; valid until the next call on the cache. */
PKV_API const pkv_block *pkv_cache_hit_blocks(const pkv_cache *cache, uint32_t group,
                                              uint64_t *n_out);

typedef struct pkv_allocate_params {
    uint32_t struct_size;  /**< set by init */
    uint8_t use_cached;    /**< 2: yes, at the first allocation; 1: yes; 0: no; 3: the hit that
                                pkv_seq_lookup_for_connector() shows */
    uint8_t delay_caching; /**< 1: key nothing now; pkv_seq_cache() does it when a load has ended */
    uint8_t full_sequence_must_fit; /**< 1: refuse if the whole request could not fit */
    uint8_t others_scheduled;       /**< 1: other requests run, so the watermark applies */
    uint64_t new_tokens;            /**< computed in this step, drafts included, beyond the hit and
                                         the external tokens: look up first. With recurrent layers
                                         that are kept a step must end where their block ends, or
                                         leave the state of that place in it: what it leaves is
                                         keyed as that */
    uint64_t lookahead;             /**< slots beyond them that a drafter writes */
    uint64_t external_tokens;       /**< computed elsewhere, after the hit; they get blocks, too */
    uint64_t in_flight_tokens;      /**< of this request, in earlier steps that still run */
    uint64_t reserved_blocks;       /**< to be left for others */
    const uint32_t
        *skip_zero_groups; /**< [n_skip_zero_groups] whose loaded blocks are not zeroed */
    uint64_t n_skip_zero_groups;
    uint64_t encoder_tokens; /**< of this request's encoder, for groups of cross attention */
} pkv_allocate_params;

/** A block whose bytes must be copied before the step. */
typedef struct pkv_block_copy {
    pkv_block src, dst;
} pkv_block_copy;

/** What an allocate did. Arrays are valid until the next call on the cache. */
typedef struct pkv_allocate_result {
    uint64_t cached_tokens;       /**< the hit that was taken */
    const pkv_block_copy *copies; /**< [n_copies] to be done after the zero-fills and before the
                                       step, in this order; both ends stay pinned until
                                       pkv_cache_step() */
    uint64_t n_copies;
    const pkv_block *zero; /**< [n_zero] blocks to be zeroed before the step */
    uint64_t n_zero;
    uint64_t needed, free; /**< NO_BLOCKS: blocks that were needed, watermark and reserve
                                included, and those that were free */
} pkv_allocate_result;

PKV_API void pkv_allocate_params_init(pkv_allocate_params *params);
/** Slots for one step: adopts the hit, frees what fell out of windows, takes blocks, keys what is
 *  now whole. computed grows by hit, external and new tokens.
 *  NO_BLOCKS (no text): refused with the numbers; what was freed below a window stays freed, all
 *  else is as before. INVAL: nothing to allocate, beyond max_model_len, a hit or external tokens
 *  once allocated; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_allocate(pkv_seq *seq, const pkv_allocate_params *params,
                                                  pkv_allocate_result *out);
/** Blocks that the last allocate (or step of a batch) of this sequence added to a group's table;
 *  valid until the next call on the sequence. */
PKV_API const pkv_block *pkv_seq_new_blocks(const pkv_seq *seq, uint32_t group, uint64_t *n_out);

/** Generated tokens. tokens NULL, for a sequence of ready keys: only their number grows.
 *  INVAL: none, beyond max_model_len; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_append(pkv_seq *seq, const int32_t *tokens, uint64_t n);
/** More ready-made keys, for a sequence that was opened with such. INVAL: more than its tokens
 *  have. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_append_keys(pkv_seq *seq, const pkv_key *keys, uint64_t n);
/** How many tokens are computed now: fewer than before is a rollback of rejected drafts, or of a
 *  load that failed. The table stays, and later steps use the spare slots; only blocks that a fork
 *  holds too are given back. What a window has released does not come back: a sequence that would
 *  need it is better preempted. INVAL: more than computed, or fewer than keyed. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_set_computed(pkv_seq *seq, uint64_t tokens);
/** Keys the blocks of the first so many tokens, after a delayed load or accepted drafts. A
 *  recurrent state is keyed as that of `tokens`: say what has run when nothing later has. INVAL:
 *  not allocated, more than computed; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_cache(pkv_seq *seq, uint64_t tokens);
/** Gives all blocks back, keeps the tokens, and waits again. INVAL: it waits already. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_preempt(pkv_seq *seq);
/** A second sequence over the same computed blocks. Whoever first writes into a block that both
 *  hold gets a private copy of it then. Fork after the step that computed the blocks, not within
 *  it. INVAL: not allocated, drafts that nobody has verified (more computed than tokens), ready
 *  keys that do not reach the last tokens; UNSUPPORTED: a group of recurrent layers, rings or cross
 *  attention, which both would write, or a plan with a drafter whose content depends on later
 *  tokens (EAGLE, MTP): both would write it for their own next token; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_fork(pkv_seq *seq, pkv_seq **out);

/** A recurrent state at a place where a later request can resume: what a connector may store. It is
 *  certain to be there until the step that is being put together has run. */
typedef struct pkv_state_offer {
    pkv_seq *seq;
    uint64_t tokens; /**< of the prefix whose state it is */
    uint32_t group;
    pkv_block block;
} pkv_state_offer;

/** States that were keyed since last asked and in this step; those of a sequence that is closed or
 *  preempted are not offered any more. Valid until the next call on the cache. */
PKV_API const pkv_state_offer *pkv_cache_take_offers(pkv_cache *cache, uint64_t *n_out);
/** A request has ended and a connector is about to store it: lets go what lies below windows, and
 *  tells the states at its end that nobody has written over, *n_out of them, valid until the next
 *  call on the cache. Ask once, before close. INVAL: not allocated; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_finish(pkv_seq *seq, const pkv_state_offer **out,
                                                uint64_t *n_out);

/* ---- what a sequence is ---- */

typedef struct pkv_seq_info {
    uint64_t n_tokens, n_prompt_tokens;
    uint64_t computed; /**< tokens whose content lies in the blocks */
    uint64_t keyed;    /**< tokens whose blocks are keyed, over the groups the most */
    uint64_t n_preemptions;
    uint8_t allocated; /**< holds blocks */
    uint8_t waiting;   /**< counts as waiting for the watermark */
    uint8_t reserved[6];
} pkv_seq_info;

PKV_API void pkv_seq_get_info(const pkv_seq *seq, pkv_seq_info *out);
/** Keys of its units so far, valid until the next call on the sequence. A cache that finds content
 *  by tokens computes those that are missing now. NOMEM. O(new keys) */
PKV_API PKV_NODISCARD pkv_status pkv_seq_keys(pkv_seq *seq, const pkv_key **keys_out,
                                              uint64_t *n_out);
/** A group's block table; valid until the next call on the cache. */
PKV_API const pkv_block *pkv_seq_table(const pkv_seq *seq, uint32_t group, uint64_t *n_out);
/** Entries of the table that hold the first `tokens` tokens, at one rank's tokens a block (under
 *  context parallelism, as in vLLM, that is more than they need). */
PKV_API uint64_t pkv_seq_blocks_of(const pkv_seq *seq, uint32_t group, uint64_t tokens);
/** The least, over the groups, of the furthest keyed token. */
PKV_API uint64_t pkv_seq_cached_tokens(const pkv_seq *seq);

/** The table as a row for kernels: width entries, those beyond the table are the null block, and so
 *  are those wholly below the window of the first position that the last allocate computes. *from,
 *  *to: the entries that changed since the last pkv_cache_step() (NULL allowed); a fork's are all.
 *  INVAL: a table longer than the row. O(width) */
PKV_API PKV_NODISCARD pkv_status pkv_seq_row(const pkv_seq *seq, uint32_t group, int32_t *row,
                                             uint64_t width, uint64_t *from, uint64_t *to);
/** Slot numbers of the positions [first, first + n): block * block_size + offset; -1 where a
 *  window has let the block go. Under context parallelism a rank gets -1 for positions of others,
 *  which are dealt out in runs of `interleave`, which must divide the block size. slots: [n].
 *  INVAL: beyond the table. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_slots(const pkv_seq *seq, uint32_t group, uint64_t first,
                                               uint64_t n, uint32_t rank, uint64_t interleave,
                                               int64_t *slots);
/** Blocks from a token on that a failed load left unwritten and that must be zeroed, the null block
 *  perhaps among them: in *ids, valid until the next call on the cache. Shared content is not
 *  looked for: ask from the end of the hit on. INVAL: not allocated, tokens no multiple of the
 *  scheduler block; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_zero(pkv_seq *seq, uint64_t tokens, const pkv_block **ids,
                                              uint64_t *n_out);

/* ---- steps ---- */

#define PKV_STEP_KEEP UINT64_MAX
/** One sequence of a batch. */
typedef struct pkv_step {
    pkv_seq *seq;
    const int32_t *tokens; /**< [n_tokens] generated by the last step; may be none */
    uint64_t n_tokens;
    uint64_t computed; /**< PKV_STEP_KEEP, or what pkv_seq_set_computed() gets first */
} pkv_step;

/** Advances running sequences in order: rollback, append, then allocate all that is not computed.
 *  *done_out: how many were advanced; it ends at the first that is refused (NO_BLOCKS), which keeps
 *  its tokens. Copies and zero-fills of all are in *out. INVAL: a sequence is not allocated, stands
 *  there twice, has nothing to compute, goes back too far, or would grow beyond max_model_len;
 *  nothing is done then. NOMEM: nothing is done, or the steps before are done and the failing one
 *  keeps its tokens: *done_out and pkv_seq_get_info() tell. A step in which a sequence stays inside
 *  its blocks costs one line of memory: the unit that it completes is keyed, and the block that
 *  falls out of a window released, by the next call that looks at the cache, readers included, or
 *  takes blocks. Where it stands at the same place as in the two batches before, with one token, it
 *  costs not even that: the step is counted, and the sequence gets its token when somebody looks at
 *  it or it needs a block. So keep the order of a batch. O(n) */
PKV_API PKV_NODISCARD pkv_status pkv_cache_advance(pkv_cache *cache, const pkv_step *steps,
                                                   uint64_t n, uint64_t lookahead,
                                                   pkv_allocate_result *out, uint64_t *done_out);
/** The copies have run and a new engine step begins: releases the ends of copies, in the order in
 *  which they were told, and then the blocks of deferred closes. */
PKV_API void pkv_cache_step(pkv_cache *cache);
/** Drops the keys of blocks, in this order. INVAL: an id beyond the pool; NOMEM: some block must be
 *  keyed first, and there is no memory for it. Then nothing has changed. O(n + open sequences) */
PKV_API PKV_NODISCARD pkv_status pkv_cache_evict(pkv_cache *cache, const pkv_block *blocks,
                                                 uint64_t n);
/** Forgets all content. AGAIN (no text): blocks are in use. */
PKV_API PKV_NODISCARD pkv_status pkv_cache_reset(pkv_cache *cache);

/** Hit statistics, in tokens but for the requests; and what new content has cost. */
typedef struct pkv_cache_stats {
    uint64_t requests, queries, hits;
    uint64_t preempted_requests, preempted_queries, preempted_hits;
    uint64_t evicted; /**< blocks handed out again while their content could still be found */
    uint8_t reset;    /**< the cache was reset since */
    uint8_t reserved[7];
} pkv_cache_stats;

/** Since last asked. Counted when an allocate that looked up succeeds. */
PKV_API void pkv_cache_take_stats(pkv_cache *cache, pkv_cache_stats *out);

/** Walks the pool, all tables and pins, and compares them. CORRUPT: the text names what is broken;
 *  NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_cache_check(const pkv_cache *cache);

PKV_END_DECLS
#endif
