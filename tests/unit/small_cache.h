/* small_cache.h  A cache of a few blocks, told in full: unlike cache_oracle.h it foretells which
 * block is taken, so an operation depends on the state alone, and states can be counted.
 *
 * Written from seq.h, pool.h and sections 3 and 5 of kv-core.md. A state is bytes without pointers,
 * and what is unused is 0: equal states are equal bytes. References and hits are counted and
 * searched anew each time. Blocks of all groups are of one size, which is the unit of keys. */
#ifndef SMALL_CACHE_H
#define SMALL_CACHE_H

#include "seq_fixture.h"

enum {
    SMALL_GROUPS = 2,
    SMALL_SEQS = 4,
    SMALL_BLOCKS = 16,
    SMALL_LEN = 8,    /* tokens of a request */
    SMALL_TABLE = 12, /* entries; no less than tokens and lookahead */
    SMALL_LIST = 96
};

typedef enum small_kind { SMALL_FULL, SMALL_WINDOW, SMALL_CHUNK } small_kind;

typedef struct small_plan {
    uint32_t n_groups, n_blocks, block;
    small_kind kind[SMALL_GROUPS];
    uint32_t window[SMALL_GROUPS]; /* or chunk */
    bool drop;                     /* every group loses the last block of a hit */
    bool sparse;                   /* a window keys only what a resend can resume from */
    uint32_t index;                /* pkv_index */
} small_plan;

typedef struct small_table {
    uint8_t n, keyed, ids[SMALL_TABLE];
} small_table;

typedef struct small_seq {
    uint8_t open, live, preempted;
    uint8_t n, n_prompt, computed;
    uint8_t junction; /* end of a longer prefix that only some groups hold */
    uint8_t tokens[SMALL_LEN];
    small_table table[SMALL_GROUPS];
} small_seq;

typedef struct small_block {
    uint8_t keyed; /* tokens; 0: not */
    uint8_t group;
    uint8_t rank; /* blocks of equal content that were keyed before */
    uint8_t tokens[SMALL_LEN];
} small_block;

typedef struct small_list {
    uint8_t n, at[SMALL_LIST];
} small_list;

typedef struct small_cache {
    small_seq seqs[SMALL_SEQS];
    small_block blocks[SMALL_BLOCKS];
    small_list free, pins, deferred, ends; /* ends: of the deferred closes */
} small_cache;

/* What an allocate does, beside the state. */
typedef struct small_answer {
    bool granted;
    uint32_t hit, needed, free, n_copies;
    pkv_block_copy copies[SMALL_GROUPS];
    small_list fresh[SMALL_GROUPS]; /* pkv_seq_new_blocks */
    uint32_t evicted;
} small_answer;

typedef struct small_hit {
    uint32_t tokens, junction;
    small_list ids[SMALL_GROUPS];
} small_hit;

static inline uint32_t small_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t small_max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Blocks that hold so many tokens. */
static inline uint32_t small_blocks(const small_plan *p, uint32_t tokens)
{
    return (tokens + p->block - 1) / p->block;
}

static inline uint32_t small_down(uint32_t value, uint32_t step)
{
    return value / step * step;
}

/* ---- lists ---- */

static inline void small_insert(small_list *l, uint32_t at, uint32_t value)
{
    assert_true(l->n < SMALL_LIST && at <= l->n);
    memmove(&l->at[at + 1], &l->at[at], l->n - at);
    l->at[at] = (uint8_t)value;
    l->n++;
}

static inline void small_push(small_list *l, uint32_t value)
{
    small_insert(l, l->n, value);
}

static inline void small_take_out(small_list *l, uint32_t value)
{
    uint32_t at = 0;
    while (l->at[at] != value) {
        at++;
        assert_true(at < l->n);
    }
    l->n--;
    memmove(&l->at[at], &l->at[at + 1], (size_t)l->n - at);
    l->at[l->n] = 0;
}

/* ---- references ---- */

static inline uint32_t small_count(const small_list *l, uint32_t block)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        n += l->at[i] == block;
    }
    return n;
}

/* By those who may read or write it; a copy that has yet to run is not among them. */
static inline uint32_t small_users(const small_cache *c, uint32_t block)
{
    uint32_t n = small_count(&c->deferred, block);
    for (int s = 0; s < SMALL_SEQS; s++) {
        for (int g = 0; g < SMALL_GROUPS; g++) {
            for (uint32_t i = 0; i < c->seqs[s].table[g].n; i++) {
                n += c->seqs[s].table[g].ids[i] == block;
            }
        }
    }
    return n;
}

static inline uint32_t small_refs(const small_cache *c, uint32_t block)
{
    return small_users(c, block) + small_count(&c->pins, block);
}

/* Of all blocks. */
static inline void small_count_refs(const small_cache *c, uint32_t *refs)
{
    for (uint32_t i = 0; i < c->deferred.n; i++) {
        refs[c->deferred.at[i]] += c->deferred.at[i] != 0;
    }
    for (uint32_t i = 0; i < c->pins.n; i++) {
        refs[c->pins.at[i]]++;
    }
    for (int s = 0; s < SMALL_SEQS; s++) {
        for (int g = 0; g < SMALL_GROUPS; g++) {
            const small_table *t = &c->seqs[s].table[g];
            for (uint32_t i = 0; i < t->n; i++) {
                refs[t->ids[i]] += t->ids[i] != 0;
            }
        }
    }
}

/* ---- content ---- */

static inline bool small_holds(const small_block *b, uint32_t g, const uint8_t *tokens, uint32_t n)
{
    return b->keyed == n && b->group == g && memcmp(b->tokens, tokens, n) == 0;
}

/* The block that was keyed first for these tokens; 0: none. */
static inline uint32_t small_find(const small_cache *c, uint32_t g, const uint8_t *tokens,
                                  uint32_t n)
{
    for (uint32_t b = 1; b < SMALL_BLOCKS; b++) {
        if (c->blocks[b].rank == 0 && small_holds(&c->blocks[b], g, tokens, n)) {
            return b;
        }
    }
    return 0;
}

static inline void small_drop_key(small_cache *c, uint32_t block)
{
    const small_block gone = c->blocks[block];
    memset(&c->blocks[block], 0, sizeof gone);
    for (uint32_t b = 1; gone.keyed > 0 && b < SMALL_BLOCKS; b++) {
        small_block *other = &c->blocks[b];
        if (small_holds(other, gone.group, gone.tokens, gone.keyed) && other->rank > gone.rank) {
            other->rank--;
        }
    }
}

static inline void small_set_key(small_cache *c, uint32_t block, uint32_t g, const uint8_t *tokens,
                                 uint32_t n)
{
    small_block key = {.keyed = (uint8_t)n, .group = (uint8_t)g};
    assert_int_equal(c->blocks[block].keyed, 0);
    memcpy(key.tokens, tokens, n);
    for (uint32_t b = 1; b < SMALL_BLOCKS; b++) {
        key.rank += small_holds(&c->blocks[b], g, tokens, n);
    }
    c->blocks[block] = key;
}

static inline uint32_t small_key_count(const small_cache *c)
{
    uint32_t n = 0;
    for (uint32_t b = 1; b < SMALL_BLOCKS; b++) {
        n += c->blocks[b].keyed > 0 && c->blocks[b].rank == 0;
    }
    return n;
}

/* ---- the free list ---- */

static inline uint32_t small_take(small_cache *c, small_answer *a)
{
    const uint32_t block = c->free.at[0];
    assert_true(c->free.n > 0);
    small_take_out(&c->free, block);
    a->evicted += c->blocks[block].keyed > 0;
    small_drop_key(c, block);
    return block;
}

/* One call: blocks that nobody uses now, in the order in which they will be reused. Their
 * references are gone already. */
static inline void small_release(small_cache *c, const small_list *ids)
{
    uint32_t in_front = 0;
    for (uint32_t i = 0; i < ids->n; i++) {
        const uint32_t b = ids->at[i];
        if (b != 0 && small_refs(c, b) == 0 && small_count(&c->free, b) == 0) {
            small_insert(&c->free, c->blocks[b].keyed > 0 ? c->free.n : in_front++, b);
        }
    }
}

/* ---- kinds ---- */

/* Blocks at the start that a sequence of so many computed tokens never looks at again. */
static inline uint32_t small_skipped(const small_plan *p, uint32_t g, uint32_t computed)
{
    const uint32_t w = p->window[g];
    switch (p->kind[g]) {
    case SMALL_WINDOW: return computed < w ? 0 : (computed - w + 1) / p->block;
    case SMALL_CHUNK: return small_down(computed, w) / p->block;
    default: return 0;
    }
}

/* The first block that a request which resumes at `tokens` needs. */
static inline uint32_t small_first_needed(const small_plan *p, uint32_t g, uint32_t tokens)
{
    const uint32_t n = tokens / p->block;
    if (p->kind[g] == SMALL_WINDOW) {
        const uint32_t run = small_blocks(p, p->window[g] - 1);
        return n > run ? n - run : 0;
    }
    return p->kind[g] == SMALL_CHUNK ? small_down(tokens, p->window[g]) / p->block : 0;
}

/* ---- lookup ---- */

/* A drafter's group must hold one more block, which is given up. */
static inline bool small_resumes(const small_plan *p, const small_cache *c, const small_seq *s,
                                 uint32_t g, uint32_t tokens)
{
    const uint32_t most = p->n_groups > 1 ? s->n : s->n - 1;
    const uint32_t end = tokens / p->block + p->drop;
    if (end * p->block > most) {
        return false;
    }
    for (uint32_t i = small_first_needed(p, g, tokens); i < end; i++) {
        if (small_find(c, g, s->tokens, (i + 1) * p->block) == 0) {
            return false;
        }
    }
    return true;
}

/* The longest of the first so many groups. */
static inline uint32_t small_longest(const small_plan *p, const small_cache *c, const small_seq *s,
                                     uint32_t n_groups)
{
    for (uint32_t tokens = small_down(s->n - 1U, p->block); tokens > 0; tokens -= p->block) {
        uint32_t n = 0;
        while (n < n_groups && small_resumes(p, c, s, n, tokens)) {
            n++;
        }
        if (n == n_groups) {
            return tokens;
        }
    }
    return 0;
}

static inline small_hit small_lookup(const small_plan *p, const small_cache *c, const small_seq *s)
{
    small_hit hit = {.tokens = small_longest(p, c, s, p->n_groups)};
    const uint32_t longer = p->n_groups > 1 ? small_longest(p, c, s, 1) : 0;
    hit.junction = longer > hit.tokens ? longer : 0;
    for (uint32_t g = 0; g < p->n_groups; g++) {
        const uint32_t first = small_first_needed(p, g, hit.tokens);
        for (uint32_t i = 0; i < hit.tokens / p->block; i++) {
            const uint32_t end = (i + 1) * p->block;
            small_push(&hit.ids[g], i < first ? 0 : small_find(c, g, s->tokens, end));
        }
    }
    return hit;
}

/* ---- keys ---- */

/* Whether a later request can resume where it needs this block. */
static inline bool small_worth(const small_plan *p, const small_seq *s, uint32_t g, uint32_t block)
{
    const uint32_t b = p->block, n = s->n_prompt;
    uint32_t ends[4], n_ends = 0;
    if (!p->sparse || p->kind[g] != SMALL_WINDOW) {
        return true;
    }
    if (p->drop) {
        ends[n_ends++] = small_max(small_down(n - 1, b), b) - b;
        ends[n_ends++] = small_max(small_down(n, b), b) - b;
    } else {
        ends[n_ends++] = n - 1;
    }
    if (s->junction > 0) {
        ends[n_ends++] = s->junction;
        ends[n_ends] = small_max(s->junction, b) - b;
        n_ends += p->drop;
    }
    for (uint32_t i = 0; i < n_ends; i++) {
        const uint32_t end = ends[i] / b + p->drop;
        const uint32_t run = small_blocks(p, p->window[g] - 1) + p->drop;
        if (block < end && block + run >= end) {
            return true;
        }
    }
    return false;
}

static inline void small_key(const small_plan *p, small_cache *c, small_seq *s, uint32_t tokens)
{
    const uint32_t whole = small_min(tokens, s->n) / p->block;
    for (uint32_t g = 0; g < p->n_groups; g++) {
        small_table *t = &s->table[g];
        for (; t->keyed < whole; t->keyed++) {
            const uint32_t block = t->ids[t->keyed], end = (t->keyed + 1U) * p->block;
            if (block != 0 && small_worth(p, s, g, t->keyed) &&
                !small_holds(&c->blocks[block], g, s->tokens, end)) { /* a fork keyed it? */
                small_set_key(c, block, g, s->tokens, end);
            }
        }
    }
}

static inline uint32_t small_keyed(const small_plan *p, const small_seq *s)
{
    return small_max(s->table[0].keyed, s->table[1].keyed) * p->block;
}

/* ---- allocate ---- */

static inline void small_skip(const small_plan *p, small_cache *c, small_seq *s, uint32_t processed)
{
    for (uint32_t g = 0; g < p->n_groups; g++) {
        small_table *t = &s->table[g];
        small_list gone = {0};
        uint32_t i = small_min(small_skipped(p, g, processed), t->n);
        for (; i > 0 && t->ids[i - 1] != 0; i--) {
            small_push(&gone, t->ids[i - 1]);
            t->ids[i - 1] = 0;
        }
        small_release(c, &gone);
    }
}

/* Whether a sequence must not write into a block: others use it, or find more in it than the
 * sequence has computed. */
static inline bool small_closed(const small_cache *c, const small_seq *s, uint32_t block)
{
    return block != 0 && (small_users(c, block) > 1 || c->blocks[block].keyed > s->computed);
}

/* The entry that the next token goes into, if the sequence must not write there; or the end. */
static inline uint32_t small_tail(const small_plan *p, const small_cache *c, const small_seq *s,
                                  uint32_t g)
{
    const small_table *t = &s->table[g];
    const uint32_t at = s->computed / p->block;
    const bool inside = s->computed % p->block != 0 && at < t->n;
    return inside && small_closed(c, s, t->ids[at]) ? at : SMALL_TABLE;
}

static inline uint32_t small_need(const small_plan *p, const small_cache *c, const small_seq *s,
                                  const small_hit *hit, uint32_t g, uint32_t slots)
{
    const uint32_t wanted = small_blocks(p, slots);
    uint32_t have = s->table[g].n, n = small_tail(p, c, s, g) < SMALL_TABLE;
    if (!s->live) {
        have = hit->ids[g].n;
        for (uint32_t i = small_skipped(p, g, hit->tokens); i < have; i++) {
            n += hit->ids[g].at[i] != 0 && small_refs(c, hit->ids[g].at[i]) == 0;
        }
    }
    return n + (wanted > have ? wanted - have : 0);
}

static inline void small_adopt(const small_plan *p, small_cache *c, small_seq *s,
                               const small_hit *hit)
{
    for (uint32_t g = 0; g < p->n_groups; g++) {
        small_table *t = &s->table[g];
        t->n = t->keyed = hit->ids[g].n;
        for (uint32_t i = small_skipped(p, g, hit->tokens); i < t->n; i++) {
            const uint32_t b = hit->ids[g].at[i];
            t->ids[i] = (uint8_t)b;
            if (b != 0 && small_count(&c->free, b) > 0) {
                small_take_out(&c->free, b);
            }
        }
    }
}

static inline void small_grow(const small_plan *p, small_cache *c, small_seq *s, uint32_t g,
                              uint32_t slots, small_answer *a)
{
    small_table *t = &s->table[g];
    const uint32_t tail = small_tail(p, c, s, g);
    if (tail < SMALL_TABLE) {
        const uint32_t src = t->ids[tail];
        t->ids[tail] = (uint8_t)small_take(c, a);
        a->copies[a->n_copies++] = (pkv_block_copy){src, t->ids[tail]};
        small_push(&c->pins, src);
        small_push(&c->pins, t->ids[tail]);
        small_push(&a->fresh[g], t->ids[tail]);
    }
    while (t->n < small_blocks(p, slots)) {
        t->ids[t->n++] = (uint8_t)small_take(c, a);
        small_push(&a->fresh[g], t->ids[t->n - 1]);
    }
}

static inline small_answer small_allocate(const small_plan *p, small_cache *c, small_seq *s,
                                          uint32_t new_tokens, uint32_t lookahead,
                                          uint32_t in_flight)
{
    small_hit hit = {0};
    small_answer a = {0};
    if (!s->live) {
        hit = small_lookup(p, c, s);
        s->junction = (uint8_t)hit.junction;
    }
    const uint32_t total = s->computed + hit.tokens;
    const uint32_t slots = small_min(total + new_tokens + lookahead, SMALL_LEN);
    small_skip(p, c, s, total > in_flight ? total - in_flight : 0);
    for (uint32_t g = 0; g < p->n_groups; g++) {
        a.needed += small_need(p, c, s, &hit, g, slots);
    }
    a.free = c->free.n;
    a.granted = a.needed <= a.free;
    if (!a.granted) {
        return a;
    }
    a.hit = hit.tokens;
    if (hit.tokens > 0) {
        small_adopt(p, c, s, &hit);
    }
    for (uint32_t g = 0; g < p->n_groups; g++) {
        small_grow(p, c, s, g, slots, &a);
    }
    assert_int_equal(c->free.n, a.free - a.needed); /* the count was no guess */
    s->live = 1;
    s->computed = (uint8_t)(total + new_tokens);
    small_key(p, c, s, small_min(total + new_tokens, s->n));
    return a;
}

#endif
