/* allocate.h  One allocate, alone or in a batch. */
#ifndef PKVI_ALLOCATE_H
#define PKVI_ALLOCATE_H

#include "seq/cache_internal.h"

/* What one allocate works with. */
typedef struct pkvi_slots_wanted {
    uint64_t local;   /* computed here, with the hit */
    uint64_t total;   /* and with external tokens */
    uint64_t main;    /* and with the new ones, but no lookahead */
    uint64_t encoder; /* tokens of the encoder, for cross attention */
    bool use_cached;
} pkvi_slots_wanted;

/* Whether the tokens of a group are rows of its blocks, more with each step. */
static inline bool pkvi_has_slots(const pkvi_manager *m)
{
    return !m->rules->one_block && !m->rules->encoder && !m->rules->state;
}

/* Lists of copies and zero-fills begin anew, and are handed out. */
void pkvi_begin_result(pkv_cache *cache);
void pkvi_end_result(const pkv_cache *cache, pkv_allocate_result *out);

/* ---- room.c ---- */

/* Tokens that need a slot in a group. */
uint64_t pkvi_slots_of(const pkv_seq *seq, uint32_t group, uint64_t tokens, uint64_t encoder);
/* Room for so many tokens in every list that an allocate may write; settles which tails have to be
 * copied since a fork shares them. False: no memory. */
bool pkvi_reserve_slots(pkv_seq *seq, uint64_t tokens, const pkvi_slots_wanted *wanted);
/* What is asked for in a group. */
pkvi_need pkvi_need_of(const pkv_seq *seq, uint32_t group, const pkvi_slots_wanted *wanted,
                       uint64_t tokens, bool admission);
/* Blocks that are asked for over all groups. What one group lends, counting less than nothing,
 * helps the rule but not the list: where it would not do, the larger number is the answer. The
 * gate takes nothing, so there the rule alone counts. */
uint64_t pkvi_count_needed(pkv_seq *seq, const pkvi_slots_wanted *wanted, uint64_t tokens,
                           bool admission, uint64_t left_for_others);

/* ---- late.c ---- */

/* Something is left to be done of the sequence's last step, which was one in this step of the
 * cache. before: where the one before began; released: of blocks nothing is left. */
static inline void pkvi_add_due(pkv_seq *seq, uint64_t step, uint32_t before, bool released)
{
    pkvi_late_list *due = &seq->cache->due; /* open made room for each once */
    due->at[due->n++] =
        (pkvi_late){seq, step, (uint32_t)seq->computed, seq->first, before, released};
    seq->due_at = PKVI_IS_DUE;
}

/* The same of the step that is being done, behind all that lanes have put off. */
static inline void pkvi_note_due(pkv_seq *seq, uint32_t before, bool released)
{
    pkvi_lanes_note_due(seq->cache);
    pkvi_add_due(seq, seq->cache->steps, before, released);
}

/* ---- quiet.c ---- */

/* Works out how far the next steps are quiet, after one that was not. */
void pkvi_note_quiet(pkv_seq *seq);

/* Whether a step changes nothing but numbers. Its sequence must be one of the cache. */
static inline bool pkvi_is_quiet(const pkv_step *step, uint64_t lookahead)
{
    const pkv_seq *seq = step->seq;
    if (step->n_tokens > seq->quiet_until || lookahead > seq->quiet_slots) {
        return false;
    }
    const uint64_t n = seq->n_tokens + step->n_tokens;
    if (n == seq->quiet_until && n == seq->due_at && n != seq->computed + 1) {
        return false; /* it may be one that must begin just behind a window: quiet.c */
    }
    return n <= seq->quiet_until && n > seq->computed && n + lookahead <= seq->quiet_slots &&
           step->computed == PKV_STEP_KEEP && (!seq->tokens || step->tokens);
}

static inline void pkvi_advance_quietly(const pkv_step *step)
{
    pkv_seq *seq = step->seq;
    if (seq->tokens) {
        for (uint64_t i = 0; i < step->n_tokens; i++) {
            seq->tokens[seq->n_tokens + i] = step->tokens[i];
        }
    }
    const uint32_t before = seq->first;
    seq->n_tokens += step->n_tokens;
    seq->first = (uint32_t)seq->computed; /* at most quiet_until */
    seq->computed = seq->n_tokens;
    if (seq->computed >= seq->due_at) {
        pkvi_note_due(seq, before, !seq->cache->lets_go_late);
        seq->quiet_until = seq->quiet_after;
    }
}

/* ---- usual.c ---- */

/* Whether a step is one of a sequence that just runs, and all lists that it writes have room. */
bool pkvi_is_usual(const pkv_step *step, uint64_t lookahead);
/* Does what pkvi_allocate() would, after the tokens are appended. */
pkv_status pkvi_advance_usually(const pkv_step *step, uint64_t lookahead, pkv_allocate_result *out);

/* ---- ahead.c ---- */

/* What the body of an allocated sequence names; and the blocks that this names. */
void pkvi_fetch_named(const pkv_seq *seq);
void pkvi_fetch_blocks(const pkv_seq *seq);

/* ---- allocate.c ---- */

/* NO_BLOCKS: so many are needed. */
pkv_status pkvi_no_blocks(const pkv_cache *cache, uint64_t needed, pkv_allocate_result *out);
/* pkv_seq_allocate() that adds to the lists. */
pkv_status pkvi_allocate(pkv_seq *seq, const pkv_allocate_params *params, pkv_allocate_result *out);

#endif
