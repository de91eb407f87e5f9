/* twin_cache.h  Two caches of one plan that get the same random work, and must stay equal.
 *
 * What differs between them is said when they are made: how they find content, or whether the
 * second advances by separate calls. PKV_SEED: where to begin; PKV_RANDOM_OPS: how many operations
 * per plan. */
#ifndef TWIN_CACHE_H
#define TWIN_CACHE_H

#include "replay.h"
#include "seq_fixture.h"

#include <pkv/key.h>

enum { MAX_PAIRS = 6, MAX_LEN = 640, MAX_MEDIA = 2, MAX_TOLD = 1 << 16, EMBED_ROW = 2 };

/* One request in both caches. */
typedef struct pair {
    pkv_seq *seq[2]; /* NULL: none */
    int32_t tokens[MAX_LEN];
    uint64_t n;
    bool ready; /* its keys come from here, n_keys of them so far; without tokens, if bare */
    bool bare;
    uint64_t n_keys;
    pkv_extras extras;
    pkv_media media[MAX_MEDIA];
    bool has_extras;
} pair;

/* What the sink of one cache was told. */
typedef struct told {
    size_t n;
    unsigned char bytes[MAX_TOLD];
} told;

typedef struct twin {
    pkv_cache *cache[2];
    told told[2];
    pkv_hasher *hasher;
    bool separate;   /* the second advances by separate calls */
    uint64_t seldom; /* they are compared after one of so many operations; 0: after each */
    bool extras, ready, events, junctions, several_sizes; /* several_sizes: of blocks */
    uint32_t n_groups;
    double watermark;
    uint64_t len, n_blocks, lookahead, encoder; /* lookahead: tokens that keys look ahead */
    pair pairs[MAX_PAIRS];
    uint64_t hits, tagged, refusals, advanced, quiet; /* tagged: hits with extras */
    uint64_t counted;                                 /* steps that a lane took */
} twin;

/* ---- chance ---- */

static uint64_t random_state;

/* Two draws of a multiplicative generator (modulus 2^31 - 1): nothing wraps, so that sanitizers of
 * integers have nothing to say. */
static inline uint64_t random_below(uint64_t n)
{
    uint64_t value = 0;
    for (int i = 0; i < 2; i++) {
        random_state = random_state * 48271 % 2147483647;
        value = value * 2147483647 + random_state;
    }
    return value % n;
}

static inline uint64_t random_from(uint64_t low, uint64_t high)
{
    return low + random_below(high - low + 1);
}

static inline bool one_in(uint64_t n)
{
    return random_below(n) == 0;
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* live: 1, waiting: 0, any: -1. */
static inline pair *pick(twin *t, int live)
{
    pair *some[MAX_PAIRS];
    uint64_t n = 0;
    for (int i = 0; i < MAX_PAIRS; i++) {
        pair *p = &t->pairs[i];
        if (p->seq[0] && (live < 0 || info_of(p->seq[1]).allocated == live)) {
            some[n++] = p;
        }
    }
    return n > 0 ? some[random_below(n)] : NULL;
}

static inline pair *vacant(twin *t)
{
    for (int i = 0; i < MAX_PAIRS; i++) {
        if (!t->pairs[i].seq[0]) {
            return &t->pairs[i];
        }
    }
    return NULL;
}

/* ---- what is told ---- */

static inline void tell(told *to, const void *bytes, size_t n)
{
    assert_true(to->n + n <= sizeof to->bytes);
    memcpy(to->bytes + to->n, bytes, n);
    to->n += n;
}

static inline void tell_event(void *ctx, const pkv_event *event)
{
    const uint64_t head[] = {event->type,        event->group,    event->n_keys,
                             event->first_token, event->n_tokens, event->block_size,
                             event->lookahead};
    tell(ctx, head, sizeof head);
    for (uint32_t i = 0; i < event->n_keys; i++) {
        tell(ctx, event->keys[i], sizeof *event->keys[i]);
        tell(ctx, event->positions ? &event->positions[i] : &head[3], sizeof head[3]);
    }
    if (event->parent) {
        tell(ctx, event->parent, sizeof *event->parent);
    }
}

/* ---- equality ---- */

/* Both answered alike; whether well. */
static inline bool agreed(const pkv_status st[2])
{
    assert_string_equal(pkv_status_name(st[0]), pkv_status_name(st[1]));
    return st[0] == PKV_OK;
}

static inline void assert_same_blocks(const pkv_block *a, uint64_t n_a, const pkv_block *b,
                                      uint64_t n_b)
{
    assert_int_equal(n_a, n_b);
    if (n_a > 0) {
        assert_memory_equal(a, b, (size_t)n_a * sizeof *a);
    }
}

static inline void compare_group(const pair *p, uint32_t g)
{
    uint64_t n[2], from[2], to[2];
    const pkv_block *ids[2];
    int32_t row[2][MAX_LEN];
    const uint64_t width = MAX_LEN;
    for (int k = 0; k < 2; k++) {
        ids[k] = pkv_seq_table(p->seq[k], g, &n[k]);
        assert_ok(pkv_seq_row(p->seq[k], g, row[k], width, &from[k], &to[k]));
    }
    assert_same_blocks(ids[0], n[0], ids[1], n[1]);
    assert_memory_equal(row[0], row[1], sizeof row[0]);
    assert_int_equal(from[0], from[1]);
    assert_int_equal(to[0], to[1]);
    for (int k = 0; k < 2; k++) {
        ids[k] = pkv_seq_new_blocks(p->seq[k], g, &n[k]);
    }
    assert_same_blocks(ids[0], n[0], ids[1], n[1]);
    assert_int_equal(pkv_seq_blocks_of(p->seq[0], g, p->n), pkv_seq_blocks_of(p->seq[1], g, p->n));
}

static inline void compare_pools(const twin *t)
{
    static pkv_block ids[2][MANY_BLOCKS];
    uint64_t n[2];
    const pkv_pool *pool[] = {pkv_cache_get_pool(t->cache[0]), pkv_cache_get_pool(t->cache[1])};
    for (int k = 0; k < 2; k++) {
        n[k] = pkv_pool_free_list(pool[k], ids[k], MANY_BLOCKS);
    }
    assert_same_blocks(ids[0], n[0], ids[1], n[1]);
    if (!t->several_sizes) { /* a whole block is not named for an end inside as well */
        assert_int_equal(pkv_pool_key_count(pool[0]), pkv_pool_key_count(pool[1]));
    }
    for (pkv_block b = 0; b < t->n_blocks; b++) {
        assert_int_equal(pkv_pool_block_tokens(pool[0], b), pkv_pool_block_tokens(pool[1], b));
    }
}

static inline void compare(twin *t)
{
    for (int i = 0; i < MAX_PAIRS; i++) {
        const pair *p = &t->pairs[i];
        if (!p->seq[0]) {
            continue;
        }
        const pkv_seq_info a = info_of(p->seq[0]), b = info_of(p->seq[1]);
        assert_memory_equal(&a, &b, sizeof a);
        assert_int_equal(pkv_seq_cached_tokens(p->seq[0]), pkv_seq_cached_tokens(p->seq[1]));
        for (uint32_t g = 0; g < t->n_groups; g++) {
            compare_group(p, g);
        }
    }
    compare_pools(t);
    assert_int_equal(t->told[0].n, t->told[1].n);
    if (t->told[0].n > 0) {
        assert_memory_equal(t->told[0].bytes, t->told[1].bytes, t->told[0].n);
    }
    t->told[0].n = t->told[1].n = 0;
}

static inline void compare_results(const pkv_allocate_result out[2])
{
    assert_int_equal(out[0].cached_tokens, out[1].cached_tokens);
    assert_int_equal(out[0].needed, out[1].needed);
    assert_int_equal(out[0].free, out[1].free);
    assert_int_equal(out[0].n_copies, out[1].n_copies);
    assert_same_blocks(out[0].zero, out[0].n_zero, out[1].zero, out[1].n_zero);
    if (out[0].n_copies > 0) {
        assert_memory_equal(out[0].copies, out[1].copies,
                            (size_t)out[0].n_copies * sizeof *out[0].copies);
    }
}

/* ---- keys ---- */

static inline const pkv_extras *extras_of(const pair *p)
{
    return p->has_extras ? &p->extras : NULL;
}

/* All keys that the tokens of a request have; returns how many. keys: [MAX_LEN] */
static inline uint64_t chain_of(const twin *t, const pair *p, pkv_key *keys)
{
    const uint64_t unit = pkv_cache_get_info(t->cache[0])->unit;
    const uint64_t n = pkv_key_count(p->n, unit, t->lookahead);
    assert_ok(pkv_key_chain(t->hasher, extras_of(p), p->tokens, p->n, unit, t->lookahead, 0, n,
                            NULL, keys));
    return n;
}

/* Both know the keys that they should. */
static inline void compare_keys(const twin *t, const pair *p)
{
    static pkv_key wanted[MAX_LEN];
    uint64_t n;
    if (!pkv_cache_get_info(t->cache[0])->caching) {
        return;
    }
    const uint64_t n_wanted = p->ready ? p->n_keys : chain_of(t, p, wanted);
    (void)chain_of(t, p, wanted);
    for (int k = 0; k < 2; k++) {
        const pkv_key *keys = keys_of_seq(p->seq[k], &n);
        assert_int_equal(n, n_wanted);
        if (n > 0) {
            assert_memory_equal(keys, wanted, (size_t)n * sizeof *keys);
        }
    }
}

/* ---- begin, end ---- */

static inline void begin_twin(twin *t, const pkv_plan_params *plan_params, const uint32_t index[2])
{
    pkv_plan *plan = plan_of(plan_params);
    pkv_hasher_params hasher;
    pkv_hasher_params_init(&hasher);
    hasher.hash = PKV_HASH_PKV_XXH3;
    assert_ok(pkv_hasher_create(&hasher, &t->hasher));
    for (int k = 0; k < 2; k++) {
        pkv_cache_params params = cache_params_of(plan, NULL);
        params.hash = PKV_HASH_PKV_XXH3;
        params.index = index[k];
        params.watermark = t->watermark;
        params.shared_prefix_checkpoint = t->junctions;
        if (t->events) {
            params.sink = (pkv_event_sink){&t->told[k], tell_event};
        }
        assert_ok(pkv_cache_create(&params, &t->cache[k]));
    }
    t->n_groups = pkv_cache_get_info(t->cache[0])->n_groups;
    t->n_blocks = pkv_cache_get_info(t->cache[0])->n_blocks;
    t->len = pkv_cache_get_info(t->cache[0])->max_model_len;
    t->lookahead = pkv_plan_get_summary(plan)->hash_lookahead;
    t->encoder = plan_params->max_encoder_tokens;
    assert_true(t->len <= MAX_LEN && t->n_blocks <= MANY_BLOCKS / 2);
    pkv_plan_destroy(plan);
}

static inline void end_twin(twin *t)
{
    compare(t);
    for (int i = 0; i < MAX_PAIRS; i++) {
        if (t->pairs[i].seq[0]) {
            compare_keys(t, &t->pairs[i]);
        }
    }
    for (int k = 0; k < 2; k++) {
        end_cache(t->cache[k]);
    }
    pkv_hasher_destroy(t->hasher);
}

#endif
