/* cache_internal.h  A cache and its sequences in memory.
 *
 * Everything that a step needs is there before it begins: an allocate first makes room in every
 * list that it may write, and only then changes anything, so that it cannot fail half way. */
#ifndef PKVI_CACHE_INTERNAL_H
#define PKVI_CACHE_INTERNAL_H

#include <pkv/seq.h>

#include "base/arena.h"
#include "base/array.h"
#include "manager/manager.h"
#include "pool/runs.h"
#include "seq/lanes.h"

PKVI_DEFINE_LIST(pkvi_block_list, pkv_block)
PKVI_DEFINE_LIST(pkvi_copy_list, pkv_block_copy)
PKVI_DEFINE_LIST(pkvi_byte_list, uint8_t)
PKVI_DEFINE_LIST(pkvi_key_list, pkv_key)
PKVI_DEFINE_LIST(pkvi_size_list, size_t)
PKVI_DEFINE_LIST(pkvi_offer_list, pkv_state_offer)
PKVI_DEFINE_LIST(pkvi_tag_list, pkvi_tag)

/* A quiet step of which something is left to be done. */
typedef struct pkvi_late {
    pkv_seq *seq;
    uint64_t step;   /* of the cache */
    uint32_t tokens; /* computed when it had ended; what comes later is not due */
    uint32_t first;  /* position that it computed first */
    uint32_t before; /* that the step before computed first */
    bool released;   /* what it passed is; its unit has to be keyed */
} pkvi_late;
PKVI_DEFINE_LIST(pkvi_late_list, pkvi_late)

/* Content whose state was keyed in this step. */
typedef union pkvi_keyed {
    pkv_key key;
    pkvi_cursor place; /* by runs: behind it, and held until the step has run */
} pkvi_keyed;
PKVI_DEFINE_LIST(pkvi_keyed_list, pkvi_keyed)

/* Cacheable groups of one spec, looked up together. */
typedef struct pkvi_lookup_group {
    uint32_t *groups; /* [n_groups] */
    uint32_t n_groups;
    bool drop;     /* hits lose their last block */
    bool verified; /* the drop holds for the length that is tried */
    bool known;    /* full attention: looked up, `tokens` long */
    uint64_t tokens;
} pkvi_lookup_group;

struct pkv_cache {
    pkvi_arena arena; /* what lives as long as the cache; holds this struct too */
    pkv_alloc alloc;
    pkv_pool *pool;
    pkv_hasher *hasher;
    pkv_cache_info info;
    pkv_cache_group *groups;    /* [n_groups] */
    pkvi_manager *managers;     /* [n_groups] */
    pkvi_lookup_group *lookups; /* [n_lookups] full attention first */
    uint32_t n_lookups;
    bool by_runs;   /* content is found in the pool's tree of runs: by tokens or, else, by keys */
    bool by_tokens; /* ... by tokens; keys are computed when they are asked for */
    bool hybrid;    /* several groups */
    bool any_drop;  /* some group's hits lose a block */
    uint32_t dcp;
    bool keys_late;                      /* units that a quiet step completes are keyed later */
    bool lets_go_late;                   /* blocks that a quiet step passes are released later */
    pkvi_late_list due;                  /* such steps in their order, one of a sequence */
    uint64_t n_open;                     /* sequences */
    uint32_t n_inside;                   /* groups that key ends of prompts inside their blocks */
    uint64_t hash_lookahead, unfinished; /* tokens at the end whose content may still change */
    bool draft_content;                  /* some content depends on tokens that come later */
    bool fine;                           /* hits may end inside a block */
    bool shared_prefix_checkpoint,
        keys_junctions; /* recurrent states are kept where a shared prefix ends */
    bool recurrent;     /* some group keeps states */
    bool zeroes;        /* new blocks of some group must be zeroed */
    bool has_mamba;     /* on any worker */
    uint64_t retention;
    uint64_t watermark; /* blocks */

    pkvi_cursor path;     /* by_runs: the places of the content that is looked up */
    pkvi_block_list *hit; /* [n_groups] tables of the last lookup; room for any prefix opened */
    struct {
        const pkv_seq *seq; /* whose lookup it was; NULL: none that can be used again */
        uint64_t version;   /* of the pool then */
        uint64_t n_tokens, n_units;
        pkv_hit found;
    } last;
    pkv_block **hit_tables; /* [n_groups] scratch: the tables of one lookup group */
    pkvi_trail *hit_trails; /* [n_groups] the same: how far they are searched */
    pkvi_block_list *zero;  /* [n_groups] new blocks to be zeroed */
    pkvi_block_list told_zero, scratch;
    pkvi_block_list pins;         /* ends of copies, until the next step */
    pkvi_block_list deferred;     /* blocks of deferred closes, in the order of their release */
    pkvi_size_list deferred_ends; /* end of each close in it: one release each */
    pkvi_copy_list copies;
    pkvi_byte_list mask;
    pkvi_keyed_list *keyed_now;  /* [n_groups] of recurrent groups, in this step */
    pkvi_offer_list offers;      /* recurrent states that were keyed in this step */
    pkvi_offer_list last_offers; /* of a request that has finished */

    pkv_seq *first; /* open sequences */
    pkv_seq *seats; /* room for more, by `next`; n_seats: taken or not */
    uint64_t n_seats;
    pkv_cache_stats stats;
    uint64_t evicted_told; /* of the pool's count */
    uint64_t steps;        /* begun */
    pkvi_lanes lanes;      /* of the batch that is advanced again and again */
#ifndef NDEBUG
    const void *owner; /* names the thread that made the cache */
#endif
};

/* All of a sequence that a quiet step does not look at. */
typedef struct pkvi_seq_body {
    pkv_seq *next, *prev;
    size_t token_capacity;
    uint64_t reserved; /* pkvi_reserve_tokens() has made room for fewer tokens than this */
    uint64_t shown;    /* tokens computed by the last step that was not quiet */
    bool has_tokens;
    bool ready_keys;    /* keys come from the caller */
    pkvi_key_list keys; /* by_tokens: those that were asked for; else a run may read them here */
    pkvi_tag_list tags; /* by_tokens: of the first n_tagged units */
    uint64_t n_tagged;  /* units */
    pkvi_cursor cursor; /* by_runs: behind the units whose content has a place */
    pkvi_table *tables; /* [n_groups] */
    pkv_extras *extras; /* with all that it points to, or NULL */
    const char *session;
    pkvi_arena arena; /* extras, session */
    uint64_t n_prompt;
    uint64_t shared_prefix, n_preemptions, lora_id;
    uint64_t in_flight; /* tokens of earlier steps that still ran, as the last allocate said */
    uint64_t last_step; /* of the cache, in which the tables last changed; or: */
#define PKVI_NEVER_SHOWN UINT64_MAX /* a fork whose rows nobody has seen */
    bool has_lora_id, skip_lookup, report_reused, live, waiting;
    bool usual;  /* it just runs, see usual.c; set and reset with quiet_until */
    bool forked; /* another sequence holds, or held, what this one computed */
} pkvi_seq_body;

/* All that a quiet step needs, one line of the processor's cache; quiet.c. */
struct pkv_seq {
    pkv_cache *cache;
    int32_t *tokens;   /* [n_tokens] or NULL: not known */
    uint64_t n_tokens; /* also if they are not known */
    uint64_t computed;
    uint32_t first;  /* position that the last step computes first: rows begin there */
    uint32_t due_at; /* computed tokens with which something is left to be done; or: */
#define PKVI_NEVER_DUE UINT32_MAX
#define PKVI_IS_DUE (UINT32_MAX - 1) /* it is in the cache's list; both are beyond any quiet step */
    uint32_t quiet_until, quiet_after; /* after: when it is due */
    uint32_t quiet_slots;
    uint32_t lane; /* its place in the last batch, or PKVI_NO_LANE */
    pkvi_seq_body *body;
};
_Static_assert(sizeof(pkv_seq) <= 64, "a quiet step looks at one line");

/* The sequence, which stands in no lane, stands in one that does not run. */
static inline void pkvi_lane_seat(pkvi_lanes *lanes, pkv_seq *seq, size_t i)
{
    lanes->seqs[i] = seq;
    lanes->since[i] = lanes->batches + 1;
    lanes->n = lanes->n > i ? lanes->n : i + 1;
    seq->lane = (uint32_t)i; /* sequences are fewer */
}

/* Debug builds: the calling thread is the cache's. */
#ifdef NDEBUG
#define pkvi_cache_check_thread(cache) ((void)(cache))
#else
void pkvi_cache_check_thread(const pkv_cache *cache);
#endif

/* ---- groups.c ---- */
/* Whether a cache can follow the plan; and, once its groups are there, whether with prefixes. */
pkv_status pkvi_check_plan(const pkv_plan *plan);
pkv_status pkvi_check_caching(pkv_cache *cache, const pkv_plan *plan);
/* Managers and lookup groups. */
pkv_status pkvi_init_groups(pkv_cache *cache, const pkv_plan *plan);

/* ---- allocate.c ---- */
/* Whether tokens beyond the computed ones may be written into a block of the sequence: after a fork
 * not if somebody else holds it (the ends of pending copies not counted), or if a key names more of
 * it than is computed. */
bool pkvi_may_write(const pkv_seq *seq, pkv_block block);
/* What changes from here on, in this step of the cache, is what a worker's rows lack. */
void pkvi_begin_rows(pkv_seq *seq, uint64_t step);
/* The same, and nothing was added yet. */
void pkvi_begin_changes(pkv_seq *seq);
/* Entries that a window sees no longer, or again, when a step begins at `to` and the one before at
 * `from`, change in the rows. */
void pkvi_mark_moved(pkv_seq *seq, uint64_t from, uint64_t to);
/* The step begins at this position. */
void pkvi_move_first(pkv_seq *seq, uint64_t first);

/* Releases in all groups what so many processed tokens never look at again. */
void pkvi_remove_skipped(pkv_seq *seq, uint64_t processed);

/* ---- lookup.c ---- */
/* A lookup goes from struct to struct, and each may be far away: what one of them names is fetched
 * as soon as it is there. */
void pkvi_fetch_for_lookup(const pkv_seq *seq);
/* Longest hit of a sequence; writes cache->hit. Never fails: open made room. */
void pkvi_find_hit(pkv_seq *seq, pkv_hit *out);
/* The hit that a connector is shown; whether it is that of full attention alone. */
bool pkvi_find_connector_hit(pkv_seq *seq, pkv_hit *out);

/* ---- keying.c ---- */
pkv_chain pkvi_chain_of(const pkv_seq *seq);
/* Keys what is whole among the first so many tokens; computed_before: tokens that were computed
 * before this step. */
pkv_status pkvi_key_blocks(pkv_seq *seq, uint64_t tokens, uint64_t computed_before);
/* Keys one block for the first so many tokens, as pkv_pool_cache_partial() does. */
pkv_status pkvi_key_prefix(pkv_seq *seq, uint32_t group, pkv_block block, uint64_t tokens,
                           bool replace);
/* Tells the blocks of the last hit as stored. */
void pkvi_report_hit(pkv_seq *seq);

/* ---- quiet.c ---- */
/* The next step of the sequence is an allocate: something that it looks at has changed. */
void pkvi_end_quiet(pkv_seq *seq);
void pkvi_end_quiet_of_all(pkv_cache *cache);

/* ---- late.c ---- */
/* Does what quiet steps have left to be done. Whoever looks at content, blocks or tables, or
 * changes them, calls it first; then nobody can tell that it was late, so it may be called on a
 * cache that is only read. Units that lack memory stay due. */
void pkvi_catch_up(const pkv_cache *cache);
static inline bool pkvi_is_due(const pkv_seq *seq)
{
    return seq->due_at == PKVI_IS_DUE;
}
/* A call looks at the sequence: all that was put off is done. */
static inline void pkvi_look_at(const pkv_seq *seq)
{
    pkvi_lane_settle(seq);
    pkvi_catch_up(seq->cache);
}
/* A call changes the sequence. */
static inline void pkvi_touch(pkv_seq *seq)
{
    pkvi_cache_check_thread(seq->cache);
    pkvi_lane_stop(seq);
    pkvi_catch_up(seq->cache);
}
/* The sequence is rolled back to so many tokens: what lacks memory of it ends there, too. */
void pkvi_roll_back_due(pkv_seq *seq, uint64_t tokens);

/* ---- states.c ---- */
/* Whether what the block is keyed for is written by the step that is being put together. */
bool pkvi_keyed_in_this_step(const pkv_cache *cache, uint32_t group, pkv_block block);
/* Room to note that so many blocks are keyed. */
bool pkvi_reserve_states(pkv_seq *seq, uint32_t group, size_t n_blocks);
/* The key of a tail has moved to its copy. */
void pkvi_note_moved_key(pkv_seq *seq, uint32_t group);
/* Keys a state inside a block, and offers those of whole blocks that were keyed since
 * keyed_before. */
pkv_status pkvi_key_states(pkv_seq *seq, uint32_t group, uint64_t tokens, uint64_t keyed_before,
                           uint64_t computed_before);
void pkvi_drop_offers(pkv_seq *seq);
/* Puts the offers from this one on in the order of groups. */
void pkvi_sort_offers(pkv_cache *cache, size_t from);
void pkvi_begin_state_step(pkv_cache *cache);

/* ---- content.c ---- */
/* Units whose content is known: those that have, or could have, a key. */
uint64_t pkvi_known_units(const pkv_seq *seq);
/* Keys of the units that have become whole, or what else will name them; there is room for it. */
pkv_status pkvi_extend_content(const char *function, pkv_seq *seq);
/* pkvi_array_grown() of what the sequence may have lent to the tree of runs, which may keep it when
 * the sequence is closed: so many items a unit; room for a unit more at first, for a fourth more
 * where they grow, and for no more than max_model_len needs. n: at least 1 */
void *pkvi_lent_grown(pkv_seq *seq, void *items, size_t *capacity, size_t n, size_t per_unit,
                      size_t bytes);
/* Room for what names the units of so many tokens; false: no memory. */
bool pkvi_reserve_content(pkv_seq *seq, uint64_t n_tokens);
pkvi_content pkvi_content_of(const pkv_seq *seq);
/* By runs: makes places for the whole units of the first so many tokens; false: no memory. */
bool pkvi_place_content(pkv_seq *seq, uint64_t tokens);

/* ---- seat.c ---- */
/* An empty sequence with its tables, all zeros; NULL: no memory. */
pkv_seq *pkvi_seat_take(pkv_cache *cache);
/* The sequence, which names nothing any more, is forgotten. */
void pkvi_seat_leave(pkv_seq *seq);
/* Asks for the memory of its body. */
void pkvi_fetch_body(const pkv_seq *seq);

/* ---- seq.c ---- */
/* Room for so many tokens, what names them, and lookups of so long a prefix; false: no memory. */
bool pkvi_reserve_tokens(pkv_seq *seq, uint64_t n);
/* Tokens whose blocks are keyed, over the groups the most. */
uint64_t pkvi_keyed_tokens(const pkv_seq *seq);
/* Whether so many tokens can be the computed ones from now on. */
pkv_status pkvi_check_rollback(const char *function, const pkv_seq *seq, uint64_t tokens);
/* pkv_seq_set_computed() and pkv_seq_append() of arguments that were checked. */
void pkvi_roll_back(pkv_seq *seq, uint64_t tokens);
pkv_status pkvi_append(const char *function, pkv_seq *seq, const int32_t *tokens, uint64_t n);
/* Appends the tokens, and leaves to whoever keys them what names them. */
pkv_status pkvi_append_tokens(const char *function, pkv_seq *seq, const int32_t *tokens,
                              uint64_t n);

/* ---- close.c ---- */
/* Releases the blocks of deferred closes, one close after the other. */
void pkvi_release_deferred(pkv_cache *cache);
/* Gives all blocks back and forgets the tables. */
void pkvi_release_tables(pkv_seq *seq);
/* Takes a sequence out of its cache and frees it. */
void pkvi_seq_free(pkv_seq *seq);

#endif
