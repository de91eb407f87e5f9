/* pool_oracle.h  A pool as naive as can be: lists in arrays, and searches from end to end.
 *
 * Written from pool.h and section 3 of kv-core.md, never from src/pool. The caller judges the
 * arguments with the may_... functions; the operations themselves always succeed. */
#ifndef POOL_ORACLE_H
#define POOL_ORACLE_H

#include "pool_fixture.h"

enum {
    MOST_BLOCKS = 40,
    MOST_KEYS = 4, /* of a block */
    CHAIN_UNITS = 8,
    CHAINS = 4,
    GROUPS = 2,
    MOST_TOLD = 400,
    NO_KEY = 255
};
static const char chain_letters[] = "ABab";

/* A key by its name: chain and unit. */
typedef uint8_t name;

static inline name name_of(unsigned chain, uint64_t unit)
{
    return (name)(chain * CHAIN_UNITS + unit);
}

/* An event; zeros where its type has nothing to say. */
typedef struct told {
    uint8_t type, group, n_keys;
    name parent, keys[CHAIN_UNITS];
    uint8_t positions[CHAIN_UNITS]; /* in units */
    uint32_t first_token, n_tokens, block_size;
} told;

/* All that a pool told during one operation. */
typedef struct told_log {
    uint32_t n_events, n_reused, n_samples;
    told events[MOST_TOLD];
    pkv_block reused[MOST_BLOCKS];
    pkv_residency samples[2 * MOST_BLOCKS];
} told_log;

typedef struct keyed {
    name key;
    uint32_t group;
    pkv_block block;
    uint64_t tokens;
} keyed;

typedef struct life {
    bool live;
    uint64_t birth, last, n, at[4]; /* the last four accesses, oldest first */
} life;

typedef struct oracle {
    uint64_t unit, now;
    uint32_t n_blocks, n_list, n_keys;
    bool caching, events, reuse, samples;
    pkv_block list[MOST_BLOCKS];
    uint32_t refs[MOST_BLOCKS];
    bool watched[MOST_BLOCKS];
    life lives[MOST_BLOCKS];
    keyed keys[MOST_BLOCKS * MOST_KEYS]; /* in the order in which they were keyed */
    told_log log;
} oracle;

/* ---- keys ---- */

/* The first key of a block, which is the one for most tokens; NULL: none. */
static inline const keyed *first_key(const oracle *o, pkv_block block)
{
    for (uint32_t i = 0; i < o->n_keys; i++) {
        if (o->keys[i].block == block) {
            return &o->keys[i];
        }
    }
    return NULL;
}

static inline uint64_t tokens_of(const oracle *o, pkv_block block)
{
    const keyed *first = first_key(o, block);
    return first ? first->tokens : 0;
}

static inline uint32_t keys_of(const oracle *o, pkv_block block)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_keys; i++) {
        n += o->keys[i].block == block;
    }
    return n;
}

static inline bool has_key(const oracle *o, pkv_block block, name key, uint32_t group)
{
    for (uint32_t i = 0; i < o->n_keys; i++) {
        if (o->keys[i].block == block && o->keys[i].key == key && o->keys[i].group == group) {
            return true;
        }
    }
    return false;
}

static inline void tell(oracle *o, const told *event)
{
    if (o->events) {
        assert_true(o->log.n_events < MOST_TOLD);
        o->log.events[o->log.n_events++] = *event;
    }
}

static inline void add_key(oracle *o, keyed k)
{
    assert_true(o->n_keys < COUNT(o->keys));
    o->keys[o->n_keys++] = k;
}

static inline keyed remove_key(oracle *o, uint32_t at)
{
    const keyed k = o->keys[at];
    o->n_keys--;
    memmove(&o->keys[at], &o->keys[at + 1], (o->n_keys - at) * sizeof k);
    return k;
}

/* Drops all keys of a block, in the order in which they were added. */
static inline void drop_keys(oracle *o, pkv_block block, bool telling)
{
    for (uint32_t i = 0; i < o->n_keys;) {
        if (o->keys[i].block != block) {
            i++;
            continue;
        }
        const keyed k = remove_key(o, i);
        if (telling) {
            tell(o, &(told){.type = PKV_EVENT_REMOVED,
                            .group = (uint8_t)k.group,
                            .n_keys = 1,
                            .parent = NO_KEY,
                            .keys = {k.key}});
        }
    }
}

/* ---- lives ---- */

static inline void end_life(oracle *o, pkv_block block)
{
    life *l = &o->lives[block];
    if (!o->samples || !l->live) {
        return;
    }
    pkv_residency *r = &o->log.samples[o->log.n_samples++];
    *r = (pkv_residency){.lifetime_ns = o->now - l->birth, .idle_ns = o->now - l->last};
    for (uint64_t i = 1; i < l->n; i++) {
        r->gaps_ns[r->n_gaps++] = l->at[i] - l->at[i - 1];
    }
    l->live = false;
}

static inline void access_life(oracle *o, pkv_block block)
{
    life *l = &o->lives[block];
    l->last = o->now;
    if (l->n == COUNT(l->at)) {
        memmove(&l->at[0], &l->at[1], 3 * sizeof l->at[0]);
        l->n--;
    }
    l->at[l->n++] = o->now;
}

/* ---- the list ---- */

static inline void insert(oracle *o, uint32_t at, pkv_block block)
{
    memmove(&o->list[at + 1], &o->list[at], (o->n_list - at) * sizeof block);
    o->list[at] = block;
    o->n_list++;
}

static inline void take_out(oracle *o, pkv_block block)
{
    uint32_t at = 0;
    while (o->list[at] != block) {
        at++;
    }
    o->n_list--;
    memmove(&o->list[at], &o->list[at + 1], (o->n_list - at) * sizeof block);
}

static inline void tell_reuse(oracle *o, pkv_block block)
{
    if (o->watched[block]) {
        o->watched[block] = false;
        o->log.reused[o->log.n_reused++] = block;
    }
}

/* ---- operations ---- */

static inline void oracle_init(oracle *o, const pkv_pool_params *p)
{
    memset(o, 0, sizeof *o);
    o->n_blocks = (uint32_t)p->n_blocks;
    o->unit = p->unit;
    o->caching = p->caching;
    o->events = p->sink.event != NULL;
    o->reuse = p->on_reuse != NULL;
    o->samples = p->sample_rate > 0;
    for (pkv_block b = 1; b < o->n_blocks; b++) {
        o->list[o->n_list++] = b;
    }
}

static inline void oracle_take(oracle *o, uint32_t n, pkv_block *ids)
{
    for (uint32_t i = 0; i < n; i++) {
        const pkv_block b = o->list[0];
        take_out(o, b);
        o->refs[b] = 1;
        tell_reuse(o, b);
        end_life(o, b);
        o->lives[b] = (life){.live = o->samples, .birth = o->now, .last = o->now};
        drop_keys(o, b, true);
        ids[i] = b;
    }
}

static inline bool may_name(const oracle *o, const pkv_block *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= o->n_blocks) {
            return false;
        }
    }
    return true;
}

static inline void oracle_share(oracle *o, const pkv_block *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == 0) {
            continue;
        }
        if (o->refs[ids[i]]++ == 0) {
            take_out(o, ids[i]);
        }
        access_life(o, ids[i]);
    }
}

static inline bool may_drop(const oracle *o, const pkv_block *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t drops = 0;
        for (uint32_t j = 0; j < n; j++) {
            drops += ids[j] == ids[i];
        }
        if (ids[i] >= o->n_blocks || (ids[i] != 0 && drops > o->refs[ids[i]])) {
            return false;
        }
    }
    return true;
}

static inline void oracle_release(oracle *o, const pkv_block *ids, uint32_t n)
{
    uint32_t in_front = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == 0 || --o->refs[ids[i]] > 0) {
            continue;
        }
        insert(o, tokens_of(o, ids[i]) > 0 ? o->n_list : in_front++, ids[i]);
    }
}

static inline void oracle_unpin(oracle *o, const pkv_block *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == 0) {
            continue;
        }
        o->watched[ids[i]] = o->reuse;
        if (--o->refs[ids[i]] == 0) {
            insert(o, o->n_list, ids[i]);
        }
    }
}

static inline void oracle_evict(oracle *o, pkv_block block)
{
    if (block != 0) {
        end_life(o, block);
    }
    drop_keys(o, block, true);
}

static inline void oracle_reset(oracle *o)
{
    o->n_keys = 0;
    for (pkv_block b = 0; b < o->n_blocks; b++) {
        tell_reuse(o, b);
        o->lives[b].live = false;
    }
    tell(o, &(told){.type = PKV_EVENT_CLEARED, .parent = NO_KEY});
}

/* What a call of cache_full is about. */
typedef struct range {
    unsigned chain;
    uint64_t n_keys, from, to, block_size;
    uint32_t group;
    pkv_block table[CHAIN_UNITS];
    uint8_t mask[CHAIN_UNITS];
} range;

static inline bool is_passed_over(const oracle *o, const range *r, uint64_t i)
{
    const keyed *first = first_key(o, r->table[i]);
    const name key = name_of(r->chain, (i + 1) * r->block_size / o->unit - 1);
    return r->table[i] == 0 || !r->mask[i - r->from] ||
           (first && first->key == key && first->group == r->group);
}

static inline pkv_status may_key(const oracle *o, const range *r)
{
    if (r->block_size == 0 || r->block_size % o->unit != 0 || r->from > r->to ||
        r->to * r->block_size > r->n_keys * o->unit ||
        !may_name(o, r->table + r->from, (uint32_t)(r->to - r->from))) {
        return PKV_E_INVAL;
    }
    for (uint64_t i = r->from; i < r->to; i++) {
        if (!is_passed_over(o, r, i) && tokens_of(o, r->table[i]) >= (i + 1) * r->block_size) {
            return PKV_E_CORRUPT;
        }
    }
    return PKV_OK;
}

static inline void oracle_key_range(oracle *o, const range *r)
{
    const uint64_t m = r->block_size / o->unit;
    told event = {.type = PKV_EVENT_STORED,
                  .group = (uint8_t)r->group,
                  .parent = r->from > 0 ? name_of(r->chain, r->from * m - 1) : NO_KEY,
                  .first_token = (uint32_t)(r->from * r->block_size),
                  .n_tokens = (uint32_t)((r->to - r->from) * r->block_size),
                  .block_size = (uint32_t)r->block_size};
    for (uint64_t i = r->from; i < r->to; i++) {
        if (is_passed_over(o, r, i)) {
            continue;
        }
        const name key = name_of(r->chain, (i + 1) * m - 1);
        drop_keys(o, r->table[i], true);
        add_key(o, (keyed){key, r->group, r->table[i], (i + 1) * r->block_size});
        event.keys[event.n_keys] = key;
        event.positions[event.n_keys++] = (uint8_t)(i * m);
    }
    if (event.n_keys > 0) {
        tell(o, &event);
    }
}

static inline void oracle_key_partial(oracle *o, unsigned chain, pkv_block block, uint64_t tokens,
                                      uint32_t group, bool replace)
{
    const uint64_t unit = tokens / o->unit - 1;
    const name key = name_of(chain, unit);
    if (block == 0 || (!replace && has_key(o, block, key, group))) {
        return;
    }
    if (replace || tokens_of(o, block) < tokens) {
        drop_keys(o, block, true);
    }
    add_key(o, (keyed){key, group, block, tokens});
    tell(o, &(told){.type = PKV_EVENT_STORED,
                    .group = (uint8_t)group,
                    .n_keys = 1,
                    .parent = unit > 0 ? name_of(chain, unit - 1) : NO_KEY,
                    .keys = {key},
                    .positions = {(uint8_t)unit},
                    .first_token = (uint32_t)(unit * o->unit),
                    .n_tokens = (uint32_t)o->unit,
                    .block_size = (uint32_t)o->unit});
}

/* Each key is taken from src and keyed anew for dst: it is found after all of equal content. */
static inline void oracle_move_keys(oracle *o, pkv_block src, pkv_block dst)
{
    const uint32_t n = o->n_keys;
    for (uint32_t i = 0, seen = 0; seen < n; seen++) {
        if (o->keys[i].block != src) {
            i++;
            continue;
        }
        keyed k = remove_key(o, i);
        k.block = dst;
        add_key(o, k);
    }
}

#endif
