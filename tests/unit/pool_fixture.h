/* pool_fixture.h  What the tests of the pool share: a pool that is checked after every operation,
 * keys with names, and a log of all that the pool tells.
 *
 * The key named "B3" is that of unit 3 of a content B. Keys of small letters differ only
 * where the others have their names, not in what looks like a digest. */
#ifndef POOL_FIXTURE_H
#define POOL_FIXTURE_H

#include "fixture.h"

#include <pkv/pool.h>

/* A list of blocks and its length, as two arguments. */
#define IDS(...) (const pkv_block[]){__VA_ARGS__}, COUNT(((const pkv_block[]){__VA_ARGS__}))

enum { KEPT = 64, N_UNITS = 16, N_GROUPS = 3 };
static const char letters[] = "ABCDabcd";

typedef struct fixture {
    pkv_pool *pool;
    pkv_pool_params params;
    const pkv_chain *chain; /* of the call that runs */
    char events[4096];
    char reused[256]; /* blocks told to on_reuse */
    uint64_t now;
    pkv_residency samples[KEPT];
    uint64_t n_samples;
} fixture;

/* ---- texts ---- */

static inline void append(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static inline void append(char *text, size_t size, const char *fmt, ...)
{
    va_list args;
    const size_t len = strlen(text);
    va_start(args, fmt);
    const int more = vsnprintf(text + len, size - len, fmt, args);
    va_end(args);
    assert_true(more >= 0 && (size_t)more < size - len);
}

static inline void append_ids(char *text, size_t size, const pkv_block *ids, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        append(text, size, *text ? " %" PRIu32 : "%" PRIu32, ids[i]);
    }
}

/* ---- keys ---- */

static inline pkv_key key_of(char letter, uint64_t unit)
{
    pkv_key key = {{0}};
    uint64_t mixed;
    (void)__builtin_mul_overflow((uint64_t)letter * 16 + unit + 1, UINT64_C(0x9e3779b97f4a7c15),
                                 &mixed);
    for (size_t i = 0; i < 8; i++) {
        key.bytes[i] = letter >= 'a' ? 0xff : (uint8_t)(mixed >> (8 * i) & 0xff);
    }
    key.bytes[8] = (uint8_t)letter;
    key.bytes[9] = (uint8_t)unit;
    return key;
}

/* The first n units of a content, of which only the keys are known. */
static inline pkv_chain chain_of(char letter, uint64_t n)
{
    static pkv_key keys[128][N_UNITS];
    assert_true(n <= N_UNITS);
    for (uint64_t i = 0; i < N_UNITS; i++) {
        keys[(int)letter][i] = key_of(letter, i);
    }
    return (pkv_chain){.keys = keys[(int)letter], .n_keys = n};
}

/* The block that is found by a key's name; 0: none. */
static inline pkv_block found(const fixture *f, const char *name, uint32_t group)
{
    pkv_block block = 0;
    const pkv_key key = key_of(name[0], strtoull(name + 1, NULL, 10));
    const pkv_status st = pkv_pool_lookup(f->pool, &key, &group, 1, &block);
    assert_true(st == PKV_OK || st == PKV_E_NOT_FOUND);
    assert_true((st == PKV_OK) == (block != 0));
    return block;
}

/* ---- what the pool tells ---- */

static inline void append_key(fixture *f, const pkv_key *key)
{
    const pkv_key wanted = key_of((char)key->bytes[8], key->bytes[9]);
    assert_memory_equal(key, &wanted, sizeof wanted);
    append(f->events, sizeof f->events, "%c%d", key->bytes[8], key->bytes[9]);
}

/* "stored g0 A1@4 A2@8 after A0, 4+8 by 4": keys, their positions, parent, range, block size. */
static inline void log_stored(fixture *f, const pkv_event *e)
{
    append(f->events, sizeof f->events, "stored g%" PRIu32, e->group);
    assert_true(e->n_keys > 0 && e->chain == f->chain);
    for (uint32_t i = 0; i < e->n_keys; i++) {
        append(f->events, sizeof f->events, " ");
        append_key(f, e->keys[i]);
        append(f->events, sizeof f->events, "@%" PRIu64, e->positions[i]);
    }
    if (e->parent) {
        append(f->events, sizeof f->events, " after ");
        append_key(f, e->parent);
    }
    append(f->events, sizeof f->events, ", %" PRIu64 "+%" PRIu64 " by %" PRIu64, e->first_token,
           e->n_tokens, e->block_size);
    assert_int_equal(e->lookahead, f->params.lookahead);
}

static inline void log_event(void *ctx, const pkv_event *e)
{
    fixture *f = ctx;
    assert_int_equal(e->key_bytes, f->params.key_bytes);
    append(f->events, sizeof f->events, f->events[0] ? "; " : "");
    if (e->type == PKV_EVENT_STORED) {
        log_stored(f, e);
        return;
    }
    if (e->type == PKV_EVENT_REMOVED) {
        append(f->events, sizeof f->events, "removed g%" PRIu32 " ", e->group);
        assert_int_equal(e->n_keys, 1);
        append_key(f, e->keys[0]);
    } else {
        assert_int_equal(e->type, PKV_EVENT_CLEARED);
        assert_true(e->group == 0 && e->n_keys == 0 && !e->keys);
        append(f->events, sizeof f->events, "cleared");
    }
    assert_true(!e->positions && !e->parent && !e->chain && e->first_token == 0 &&
                e->n_tokens == 0 && e->block_size == 0 && e->lookahead == 0);
}

static inline void log_reuse(void *ctx, pkv_block block)
{
    fixture *f = ctx;
    append_ids(f->reused, sizeof f->reused, &block, 1);
}

static inline uint64_t fixture_clock(void *ctx)
{
    return ((fixture *)ctx)->now;
}

static inline void log_sample(void *ctx, const pkv_residency *sample)
{
    fixture *f = ctx;
    assert_true(f->n_samples < KEPT);
    f->samples[f->n_samples++] = *sample;
}

/* What was told since last asked, in full. */
static inline void assert_events(fixture *f, const char *wanted)
{
    assert_string_equal(f->events, wanted);
    f->events[0] = '\0';
}

static inline void assert_reused(fixture *f, const char *wanted)
{
    assert_string_equal(f->reused, wanted);
    f->reused[0] = '\0';
}

/* ---- a pool ---- */

/* Parameters that log everything; to be changed before open_pool(). */
static inline void prepare(fixture *f, uint64_t n_blocks, uint64_t unit)
{
    memset(f, 0, sizeof *f);
    pkv_pool_params_init(&f->params);
    f->params.n_blocks = n_blocks;
    f->params.unit = unit;
    f->params.units_per_block = 4;
    f->params.max_table = 16;
    f->params.sink = (pkv_event_sink){f, log_event};
    f->params.reuse_ctx = f;
    f->params.on_reuse = log_reuse;
    f->params.residency_ctx = f;
    f->params.clock_ns = fixture_clock;
    f->params.on_residency = log_sample;
}

static inline void open_pool(fixture *f)
{
    assert_ok(pkv_pool_create(&f->params, &f->pool));
    assert_ok(pkv_pool_check(f->pool));
}

static inline void open_plain(fixture *f, uint64_t n_blocks, uint64_t unit)
{
    prepare(f, n_blocks, unit);
    open_pool(f);
}

static inline void close_pool(fixture *f)
{
    assert_ok(pkv_pool_check(f->pool));
    pkv_pool_destroy(f->pool);
}

static inline void assert_free(const fixture *f, const char *wanted)
{
    pkv_block ids[KEPT];
    char text[512] = "";
    const uint64_t n = pkv_pool_free_list(f->pool, ids, KEPT);
    append_ids(text, sizeof text, ids, n);
    assert_string_equal(text, wanted);
    assert_int_equal(pkv_pool_free_count(f->pool), n);
}

/* ---- operations that succeed ---- */

static inline void done(fixture *f, pkv_status st)
{
    assert_ok(st);
    assert_ok(pkv_pool_check(f->pool));
}

/* Takes as many blocks as are named, and gets these. */
static inline void take(fixture *f, const pkv_block *wanted, uint64_t n)
{
    pkv_block ids[KEPT];
    char got[512] = "", text[512] = "";
    assert_true(n <= KEPT);
    done(f, pkv_pool_take(f->pool, n, ids));
    append_ids(got, sizeof got, ids, n);
    append_ids(text, sizeof text, wanted, n);
    assert_string_equal(got, text);
}

static inline void share(fixture *f, const pkv_block *ids, uint64_t n)
{
    done(f, pkv_pool_share(f->pool, ids, n));
}

static inline void release(fixture *f, const pkv_block *ids, uint64_t n)
{
    done(f, pkv_pool_release(f->pool, ids, n));
}

static inline void unpin(fixture *f, const pkv_block *ids, uint64_t n)
{
    done(f, pkv_pool_unpin(f->pool, ids, n));
}

static inline void evict(fixture *f, pkv_block block)
{
    done(f, pkv_pool_evict(f->pool, block));
}

/* The status of keying the blocks [from, to) of a table. */
static inline pkv_status try_full(fixture *f, const pkv_chain *chain, const pkv_block *table,
                                  uint64_t from, uint64_t to, uint64_t block_size, uint32_t group,
                                  const uint8_t *mask)
{
    f->chain = chain;
    return pkv_pool_cache_full(f->pool, chain, table, from, to, block_size, group, mask);
}

/* Keys a whole table for blocks of one unit, in group 0. */
static inline void key_table(fixture *f, char letter, const pkv_block *table, uint64_t n)
{
    const pkv_chain chain = chain_of(letter, n);
    done(f, try_full(f, &chain, table, 0, n, f->params.unit, 0, NULL));
}

static inline pkv_status try_partial(fixture *f, char letter, pkv_block block, uint64_t tokens,
                                     uint32_t group, bool replace)
{
    const pkv_chain chain = chain_of(letter, N_UNITS);
    f->chain = &chain;
    return pkv_pool_cache_partial(f->pool, &chain, block, tokens, group, replace);
}

static inline void key_partial(fixture *f, char letter, pkv_block block, uint64_t tokens)
{
    done(f, try_partial(f, letter, block, tokens, 0, false));
}

/* ---- operations that fail ---- */

/* All that can be seen of a pool. */
typedef struct picture {
    uint64_t n_free, n_keys, n_list, n_samples;
    size_t events, reused;
    pkv_block list[KEPT];
    uint32_t refs[KEPT];
    uint64_t tokens[KEPT];
    pkv_block found[COUNT(letters) - 1][N_UNITS][N_GROUPS];
} picture;

static inline void look(const fixture *f, picture *p)
{
    memset(p, 0, sizeof *p);
    p->n_free = pkv_pool_free_count(f->pool);
    p->n_keys = pkv_pool_key_count(f->pool);
    p->n_list = pkv_pool_free_list(f->pool, p->list, KEPT);
    p->n_samples = f->n_samples;
    p->events = strlen(f->events);
    p->reused = strlen(f->reused);
    for (pkv_block b = 0; b < KEPT; b++) {
        p->refs[b] = pkv_pool_refs(f->pool, b);
        p->tokens[b] = pkv_pool_block_tokens(f->pool, b);
    }
    for (size_t l = 0; l < COUNT(letters) - 1; l++) {
        for (uint64_t unit = 0; unit < N_UNITS; unit++) {
            const pkv_key key = key_of(letters[l], unit);
            for (uint32_t g = 0; g < N_GROUPS; g++) {
                (void)(pkv_pool_lookup(f->pool, &key, &g, 1, &p->found[l][unit][g]) == PKV_OK);
            }
        }
    }
}

/* The call answers this status and changes nothing that can be seen. */
#define assert_refused(f, call, wanted)                         \
    do {                                                        \
        picture before_, after_;                                \
        look(f, &before_);                                      \
        assert_status(call, wanted);                            \
        assert_ok(pkv_pool_check((f)->pool));                   \
        look(f, &after_);                                       \
        assert_memory_equal(&after_, &before_, sizeof before_); \
    } while (0)

#endif
