/* manager.h  The rules of one cache group for the block tables of its sequences.
 *
 * A manager knows what a kind of layer keeps; a table is what one sequence holds in one group. The
 * rules never fail: whoever calls has counted the blocks and made room before. */
#ifndef PKVI_MANAGER_H
#define PKVI_MANAGER_H

#include <pkv/plan.h>
#include <pkv/pool.h>

#include "prefix/match.h"

/* What a recurrent group remembers of a sequence; see state.c. */
typedef struct pkvi_running {
    uint64_t retired;       /* entries below were let go */
    bool started;           /* it has blocks of its own: more than a hit */
    uint64_t checkpoint;    /* tokens of the state that this step leaves in an entry; 0: none */
    uint64_t checkpoint_at; /* that entry */
    uint64_t produced;      /* tokens that its last entry was keyed for inside a block; 0: none */
} pkvi_running;

/* Blocks of one sequence in one group, in order of position. Entries of what fell out of a window
 * are the null block. */
typedef struct pkvi_table {
    pkv_block *ids; /* [n] */
    size_t n, capacity;
    uint64_t n_keyed;  /* blocks that are keyed, or found keyed */
    bool tracked;      /* n_keyed is meant: the sequence has adopted, or keyed something */
    size_t new_from;   /* entries that the last allocate added begin here */
    size_t dirty_from; /* entries from here on changed since the last step */
    size_t tail;       /* entry that an allocate must copy since others hold it too, or: */
#define PKVI_NO_TAIL SIZE_MAX
    pkv_block copy_src, copy_dst; /* of the tail, made by the last allocate; 0: none */
    bool key_moved;               /* copy_dst has the key now, and is not in the table */
    pkv_block copied; /* private copy of a shared tail made by the last allocate, or 0 */
    pkv_block *fresh; /* [n_fresh] copied and the added ones, if there is a copy */
    size_t fresh_capacity;
    pkvi_running running;
} pkvi_table;

typedef struct pkvi_manager pkvi_manager;

/* Which of the blocks [from, to) are worth a key. */
typedef struct pkvi_mask_in {
    uint64_t from, to;
    uint64_t alignment;         /* of hits, in tokens */
    uint64_t retention;         /* as in pkv_plan_params */
    const uint64_t *boundaries; /* [n_boundaries] tokens at which a later request can resume */
    uint32_t n_boundaries;
} pkvi_mask_in;

/* What a kind of layer does differently. */
typedef struct pkvi_rules {
    /* Tokens at the start that a sequence of so many computed ones never looks at again. */
    uint64_t (*skipped)(const pkvi_manager *m, uint64_t computed);
    /* Blocks [*from, *to) that it never looks at again; NULL: those of the skipped tokens. */
    void (*passed)(const pkvi_manager *m, uint64_t computed, uint64_t n_prompt, uint64_t *from,
                   uint64_t *to);
    /* The most computed tokens with which a sequence still looks at the token before `end`; where
     * there is a gap, `end` is behind the prompt. NULL: it looks at all for good. */
    uint64_t (*until)(const pkvi_manager *m, uint64_t end);
    /* Longest hit up to max_tokens; writes tables. NULL outside of prefixes. */
    uint64_t (*match)(const pkvi_manager *m, const pkvi_match *in, uint64_t max_tokens,
                      uint64_t *n_blocks);
    /* Mask bytes [to - from]; false: all blocks. NULL outside of prefixes. */
    bool (*mask)(const pkvi_manager *m, const pkvi_mask_in *in, uint8_t *mask);
    bool full;      /* a hit stays one when it is cut */
    bool aligned;   /* hits are looked up in blocks of the alignment only, without a drafter */
    bool one_block; /* a ring: one block for life, whatever the tokens; outside of prefixes */
    bool encoder;   /* blocks for the encoder's tokens, once; outside of prefixes */
    bool recurrent; /* a state, not rows of tokens: no slots, never zeroed, no fork */
    bool state;     /* recurrent, with states that are kept: state.c counts and grows */
} pkvi_rules;

struct pkvi_manager {
    const pkvi_rules *rules;
    pkv_spec spec;
    uint64_t span;   /* tokens per block over all ranks */
    uint64_t units;  /* of a key, per block, where prefixes find it */
    uint64_t window; /* sliding kinds, chunks, and the generated tokens in view of rswa */
    uint64_t cap;    /* blocks that admission counts at most; 0: no cap */
    bool cacheable;
    bool drop;              /* prefix hits give up their last block */
    bool zeroed;            /* new blocks must be zeroed */
    uint64_t hit_alignment; /* tokens */
    uint64_t spare;         /* slots beyond the tokens that count like them: scratch for drafts */
    bool drop_checkpoint;   /* checkpoints end a unit earlier, as a drafter's hits do */
};

/* The mask of kinds of which every block is worth a key: false. */
bool pkvi_mask_nothing(const pkvi_manager *m, const pkvi_mask_in *in, uint8_t *mask);

/* The rules of a layer, or NULL: not managed. */
const pkvi_rules *pkvi_rules_of(const pkv_spec *spec);

extern const pkvi_rules pkvi_full_rules, pkvi_rswa_rules, pkvi_sliding_rules, pkvi_chunked_rules;
extern const pkvi_rules pkvi_ring_rules, pkvi_cross_rules, pkvi_state_rules, pkvi_running_rules;

/* What a sequence asks for in one group. */
typedef struct pkvi_need {
    uint64_t tokens;       /* that need a slot */
    uint64_t main;         /* without those of a drafter */
    uint64_t prefill_end;  /* checkpoints only in the step that reaches it; 0: in every one */
    uint64_t total, local; /* computed, with and without external ones */
    const pkv_block *hit;  /* [n_hit] found blocks, not adopted yet */
    uint64_t n_hit;
    bool admission; /* count what it holds at once, not its whole length */
} pkvi_need;

/* Idle ones of these blocks: they leave the list when they are adopted, so they count like new. */
uint64_t pkvi_count_idle(const pkv_pool *pool, const pkv_block *ids, uint64_t n);
/* Replaces the tail by a private block, to be filled from t->copy_src. */
void pkvi_table_copy_tail(pkv_pool *pool, pkvi_table *t);

/* Blocks that this takes from the list: new ones, and idle ones that are adopted. Recurrent groups
 * may count less than nothing. */
int64_t pkvi_manager_need(const pkvi_manager *m, const pkv_pool *pool, const pkvi_table *t,
                          const pkvi_need *in);
/* Makes found blocks the beginning of an empty table. */
void pkvi_manager_adopt(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t, const pkvi_need *in);
/* Blocks for tokens that are computed elsewhere; returns how many were added. */
uint64_t pkvi_manager_add_external(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t,
                                   const pkvi_need *in);
/* Grows the table to so many tokens. */
void pkvi_manager_grow(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t, uint64_t tokens);
/* Releases blocks that a sequence of so many processed tokens never looks at again.
 * scratch: [table.n] */
void pkvi_manager_remove_skipped(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t,
                                 uint64_t processed, uint64_t n_prompt, pkv_block *scratch);

/* ---- state.c: the same for recurrent groups, and their checkpoints ---- */

int64_t pkvi_state_need(const pkvi_manager *m, const pkv_pool *pool, const pkvi_table *t,
                        const pkvi_need *in);
void pkvi_state_grow(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t, uint64_t tokens);
void pkvi_state_remove_skipped(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t,
                               uint64_t processed, pkv_block *scratch);
/* Tokens of the last state of so many that a later request could resume from, in whole `unit`s. */
uint64_t pkvi_state_checkpoint(const pkvi_manager *m, const pkv_pool *pool, uint64_t tokens,
                               uint64_t unit);
/* Settles whether the step leaves a checkpoint. */
void pkvi_state_plan_checkpoint(const pkvi_manager *m, const pkv_pool *pool, pkvi_table *t,
                                const pkvi_need *in);

#endif
