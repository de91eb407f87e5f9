/* seq_fixture.h  What the tests of caches and sequences share.
 *
 * Lists of blocks are written as text: "1..3 0*7 9" is 1, 2, 3, seven null blocks, 9. */
#ifndef SEQ_FIXTURE_H
#define SEQ_FIXTURE_H

#include "plan_fixture.h"

#include <pkv/seq.h>

enum { MANY_TOKENS = 8192, MANY_BLOCKS = 1024 };

/* ---- lists of blocks ---- */

static inline uint64_t read_blocks(const char *text, pkv_block *out)
{
    uint64_t n = 0;
    char *at = (char *)(uintptr_t)text;
    while (*at) {
        const uint32_t first = (uint32_t)strtoul(at, &at, 10);
        if (*at == '*') {
            for (uint64_t left = strtoul(at + 1, &at, 10); left > 0; left--) {
                out[n++] = first;
            }
        } else {
            const bool run = strncmp(at, "..", 2) == 0;
            const uint32_t last = run ? (uint32_t)strtoul(at + 2, &at, 10) : first;
            const int step = last < first ? -1 : 1;
            for (int64_t b = first; b != (int64_t)last + step; b += step) {
                out[n++] = (pkv_block)b;
            }
        }
        at += strspn(at, " ");
        assert_true(n < MANY_BLOCKS / 2);
    }
    return n;
}

static inline void assert_blocks(const pkv_block *ids, uint64_t n, const char *wanted)
{
    pkv_block list[MANY_BLOCKS];
    const uint64_t n_wanted = read_blocks(wanted, list);
    bool same = n == n_wanted;
    char got[2048] = "";
    size_t len = 0;
    for (uint64_t i = 0; i < n; i++) {
        same = same && ids[i] == list[i];
        if (len < sizeof got) {
            len += (size_t)snprintf(got + len, sizeof got - len, " %" PRIu32, ids[i]);
        }
    }
    if (!same) {
        fail_msg("blocks are%s, not %s", got, wanted);
    }
}

static inline void assert_table(const pkv_seq *seq, uint32_t g, const char *wanted)
{
    uint64_t n;
    const pkv_block *ids = pkv_seq_table(seq, g, &n);
    assert_blocks(ids, n, wanted);
}

static inline void assert_new(const pkv_seq *seq, uint32_t g, const char *wanted)
{
    uint64_t n;
    const pkv_block *ids = pkv_seq_new_blocks(seq, g, &n);
    assert_blocks(ids, n, wanted);
}

static inline void assert_hit(const pkv_cache *cache, uint32_t g, const char *wanted)
{
    uint64_t n;
    const pkv_block *ids = pkv_cache_hit_blocks(cache, g, &n);
    assert_blocks(ids, n, wanted);
}

static inline void assert_free_list(const pkv_cache *cache, const char *wanted)
{
    pkv_block ids[MANY_BLOCKS];
    assert_blocks(ids, pkv_pool_free_list(pkv_cache_get_pool(cache), ids, MANY_BLOCKS), wanted);
}

static inline uint64_t free_of(const pkv_cache *cache)
{
    return pkv_pool_free_count(pkv_cache_get_pool(cache));
}

static inline uint64_t keys_in(const pkv_cache *cache)
{
    return pkv_pool_key_count(pkv_cache_get_pool(cache));
}

/* ---- events, by value ---- */

typedef struct told_event {
    uint32_t type, group, n_keys;
    bool has_parent;
    uint64_t first_token, n_tokens, block_size, lookahead;
    uint64_t lora_id;
    char session[16], salt[16];
    pkv_key parent, keys[32]; /* the first ones */
    uint64_t positions[32];
} told_event;

typedef struct event_log {
    size_t n;
    told_event at[256];
} event_log;

static inline void log_event(void *ctx, const pkv_event *event)
{
    event_log *log = ctx;
    assert_true(log->n < COUNT(log->at));
    told_event *to = &log->at[log->n++];
    *to = (told_event){.type = event->type,
                       .group = event->group,
                       .n_keys = event->n_keys,
                       .has_parent = event->parent != NULL,
                       .first_token = event->first_token,
                       .n_tokens = event->n_tokens,
                       .block_size = event->block_size,
                       .lookahead = event->lookahead};
    if (event->parent) {
        to->parent = *event->parent;
    }
    if (event->chain) {
        const pkv_extras *extras = event->chain->extras;
        const char *session = event->chain->session, *salt = extras ? extras->salt : NULL;
        to->lora_id = event->chain->has_lora_id ? event->chain->lora_id : UINT64_MAX;
        (void)snprintf(to->session, sizeof to->session, "%s", session ? session : "");
        (void)snprintf(to->salt, sizeof to->salt, "%s", salt ? salt : "");
    }
    for (uint32_t i = 0; i < event->n_keys && i < COUNT(to->keys); i++) {
        to->keys[i] = *event->keys[i];
        to->positions[i] = event->positions ? event->positions[i] : 0;
    }
}

static inline void assert_stored(const event_log *log, size_t i, uint32_t group, uint32_t n_keys,
                                 uint64_t first_token, uint64_t n_tokens)
{
    assert_true(i < log->n);
    assert_int_equal(log->at[i].type, PKV_EVENT_STORED);
    assert_int_equal(log->at[i].group, group);
    assert_int_equal(log->at[i].n_keys, n_keys);
    assert_int_equal(log->at[i].first_token, first_token);
    assert_int_equal(log->at[i].n_tokens, n_tokens);
}

static inline bool same_key(const pkv_key *a, const pkv_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- caches ---- */

/* A plan with that many blocks for requests of up to `len` tokens. The rows of 9.5 keep every block
 * of a window that is worth a key, unless they name a retention. */
static inline pkv_plan_params blocks_for(const pkv_spec *layers, size_t n, uint64_t n_blocks,
                                         uint64_t len)
{
    pkv_plan_params params = params_of(layers, n, GIB, len);
    params.num_blocks_override = n_blocks;
    params.retention_interval = PKV_RETAIN_DENSE;
    return params;
}

/* With a drafter that loses the last block of a hit. */
static inline pkv_plan_params with_drop(pkv_plan_params params)
{
    params.draft_method = PKV_DRAFT_EAGLE;
    params.draft_tokens = 1;
    params.draft_lookahead_hashes = 0;
    return params;
}

static inline const pkv_key *keys_of_seq(pkv_seq *seq, uint64_t *n_out)
{
    const pkv_key *keys;
    assert_ok(pkv_seq_keys(seq, &keys, n_out));
    return keys;
}

static inline pkv_cache_params cache_params_of(const pkv_plan *plan, event_log *log)
{
    pkv_cache_params params;
    pkv_cache_params_init(&params);
    params.plan = plan;
    if (log) {
        params.sink = (pkv_event_sink){log, log_event};
    }
    return params;
}

/* A cache for a plan; params: all but the plan. */
static inline pkv_cache *cache_with(const pkv_plan_params *plan_params, pkv_cache_params params)
{
    pkv_cache *cache;
    pkv_plan *plan = plan_of(plan_params);
    params.plan = plan;
    assert_ok(pkv_cache_create(&params, &cache));
    pkv_plan_destroy(plan); /* it was borrowed for the call */
    return cache;
}

/* The same is refused, and the text has this part. */
static inline void assert_no_cache_with(const pkv_plan_params *plan_params, pkv_cache_params params,
                                        pkv_status status, const char *part)
{
    pkv_cache *cache = (pkv_cache *)(uintptr_t)1;
    pkv_plan *plan = plan_of(plan_params);
    params.plan = plan;
    assert_status(pkv_cache_create(&params, &cache), status);
    assert_error_text("pkv_cache_create", part);
    assert_null(cache);
    pkv_plan_destroy(plan);
}

static inline pkv_cache *watched_cache(const pkv_plan_params *plan_params, double watermark,
                                       event_log *log)
{
    pkv_cache_params params = cache_params_of(NULL, log);
    params.watermark = watermark;
    return cache_with(plan_params, params);
}

static inline pkv_cache *cache_of(const pkv_plan_params *plan_params)
{
    return watched_cache(plan_params, 0, NULL);
}

/* One full group. */
static inline pkv_cache *full_cache_with(uint64_t n_blocks, uint64_t len, pkv_cache_params params)
{
    const pkv_spec layers[] = {full()};
    const pkv_plan_params plan_params = blocks_for(layers, 1, n_blocks, len);
    return cache_with(&plan_params, params);
}

static inline pkv_cache *indexed_cache(uint64_t n_blocks, uint64_t len, uint32_t index)
{
    pkv_cache_params params = cache_params_of(NULL, NULL);
    params.index = index;
    return full_cache_with(n_blocks, len, params);
}

static inline pkv_cache *full_cache(uint64_t n_blocks, uint64_t len)
{
    return indexed_cache(n_blocks, len, PKV_INDEX_AUTO);
}

/* One that sequences with ready keys may be opened in. */
static inline pkv_cache *keyed_cache(uint64_t n_blocks, uint64_t len)
{
    return indexed_cache(n_blocks, len, PKV_INDEX_KEYS);
}

/* One group behind a window. */
static inline pkv_cache *window_cache(uint64_t window, uint64_t n_blocks, uint64_t len)
{
    const pkv_spec layers[] = {windowed(window)};
    const pkv_plan_params params = blocks_for(layers, 1, n_blocks, len);
    return cache_of(&params);
}

/* Group 0 full, group 1 behind a window. */
static inline pkv_cache *hybrid_cache(uint64_t window, uint64_t n_blocks, uint64_t len)
{
    const pkv_spec layers[] = {full(), windowed(window)};
    const pkv_plan_params params = blocks_for(layers, 2, n_blocks, len);
    return cache_of(&params);
}

static inline void assert_sound(const pkv_cache *cache)
{
    assert_ok(pkv_cache_check(cache));
}

/* Nothing is held any more; then the end. */
static inline void end_cache(pkv_cache *cache)
{
    assert_sound(cache);
    pkv_cache_destroy(cache);
}

/* ---- sequences ---- */

/* 0, 1, 2, ... */
static inline const int32_t *counting(void)
{
    static int32_t tokens[MANY_TOKENS];
    for (int32_t i = 0; i < MANY_TOKENS; i++) {
        tokens[i] = i;
    }
    return tokens;
}

/* As counting, but for the tokens from `at` on. */
static inline const int32_t *diverging(uint64_t at)
{
    static int32_t tokens[MANY_TOKENS];
    for (int32_t i = 0; i < MANY_TOKENS; i++) {
        tokens[i] = (uint64_t)i < at ? i : i + 100000;
    }
    return tokens;
}

static inline pkv_seq_params seq_params_of(const int32_t *tokens, uint64_t n)
{
    pkv_seq_params params;
    pkv_seq_params_init(&params);
    params.tokens = tokens;
    params.n_tokens = n;
    return params;
}

static inline pkv_seq *open_tokens(pkv_cache *cache, const int32_t *tokens, uint64_t n)
{
    pkv_seq *seq;
    const pkv_seq_params params = seq_params_of(tokens, n);
    assert_ok(pkv_seq_open(cache, &params, &seq));
    return seq;
}

static inline pkv_seq *open_n(pkv_cache *cache, uint64_t n)
{
    return open_tokens(cache, counting(), n);
}

static inline uint64_t lookup(pkv_seq *seq)
{
    pkv_hit hit;
    assert_ok(pkv_seq_lookup(seq, &hit));
    return hit.tokens;
}

/* What a request of the first n counting tokens would find; nothing stays. */
static inline uint64_t resend(pkv_cache *cache, uint64_t n)
{
    pkv_seq *seq = open_n(cache, n);
    const uint64_t hit = lookup(seq);
    assert_ok(pkv_seq_close(seq, false));
    return hit;
}

static inline pkv_allocate_params new_tokens(uint64_t n)
{
    pkv_allocate_params params;
    pkv_allocate_params_init(&params);
    params.new_tokens = n;
    return params;
}

static inline pkv_allocate_result allocate(pkv_seq *seq, pkv_allocate_params params)
{
    pkv_allocate_result result;
    assert_ok(pkv_seq_allocate(seq, &params, &result));
    return result;
}

/* Slots for n more tokens. */
static inline pkv_allocate_result take(pkv_seq *seq, uint64_t n)
{
    return allocate(seq, new_tokens(n));
}

/* A request that runs: hit adopted, the rest of its n tokens computed in one step. */
static inline pkv_seq *run_tokens(pkv_cache *cache, const int32_t *tokens, uint64_t n)
{
    pkv_seq *seq = open_tokens(cache, tokens, n);
    (void)take(seq, n - lookup(seq));
    return seq;
}

static inline pkv_seq *run_n(pkv_cache *cache, uint64_t n)
{
    return run_tokens(cache, counting(), n);
}

static inline void close_seq(pkv_seq *seq)
{
    assert_ok(pkv_seq_close(seq, false));
}

/* A request that has come and gone. */
static inline void warm(pkv_cache *cache, uint64_t n)
{
    close_seq(run_n(cache, n));
}

static inline void append(pkv_seq *seq, int32_t token, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        assert_ok(pkv_seq_append(seq, &token, 1));
    }
}

static inline pkv_seq_info info_of(const pkv_seq *seq)
{
    pkv_seq_info info;
    pkv_seq_get_info(seq, &info);
    return info;
}

/* Refused, with the numbers; the free list is as before. */
static inline void assert_refused(pkv_cache *cache, pkv_seq *seq, pkv_allocate_params params,
                                  uint64_t needed, uint64_t free)
{
    pkv_block before[MANY_BLOCKS], after[MANY_BLOCKS];
    pkv_allocate_result result;
    const uint64_t n = pkv_pool_free_list(pkv_cache_get_pool(cache), before, MANY_BLOCKS);
    assert_status(pkv_seq_allocate(seq, &params, &result), PKV_E_NO_BLOCKS);
    assert_int_equal(result.needed, needed);
    assert_int_equal(result.free, free);
    assert_int_equal(result.n_copies + result.n_zero + result.cached_tokens, 0);
    assert_int_equal(pkv_pool_free_list(pkv_cache_get_pool(cache), after, MANY_BLOCKS), n);
    assert_memory_equal(before, after, (size_t)n * sizeof *before);
    assert_sound(cache);
}

#endif
