/* cache_oracle.h  A cache as simply as it can be told, to compare the real one with.
 *
 * Tables are lists; the content of a block is the token prefix for which it is keyed; references
 * are counted anew each time; a hit is searched by trying every length. Which free block is taken
 * is not foretold: the oracle reads it from the cache and checks that nobody held it.
 *
 * Blocks of every window are worth a key here (dense retention, windows of at least one hit
 * alignment), and units are 16 tokens. */
#ifndef CACHE_ORACLE_H
#define CACHE_ORACLE_H

#include "seq_fixture.h"

enum { MAX_LEN = 256, MAX_TABLE = 32, MAX_SEQS = 8, MAX_POOL = 64, MAX_LIST = 1024, UNIT = 16 };

typedef struct oracle_table {
    pkv_block ids[MAX_TABLE];
    uint64_t n, n_keyed;
} oracle_table;

typedef struct oracle_seq {
    pkv_seq *seq; /* NULL: no sequence */
    int32_t tokens[MAX_LEN];
    uint64_t n_tokens, computed;
    uint64_t floor; /* a rollback below it would need what was freed below a window */
    bool live;
    oracle_table table[2];
} oracle_seq;

typedef struct oracle_block {
    uint64_t keyed; /* tokens; 0: not */
    uint64_t found; /* as the cache says after each operation: the end of a prompt counts, too */
    uint32_t group;
    int32_t tokens[MAX_LEN];
} oracle_block;

typedef struct oracle {
    pkv_cache *cache;
    uint32_t n_groups;
    uint64_t block_size[2], window[2]; /* window 0: full */
    uint64_t chunk[2];                 /* 0: no chunks */
    bool ring[2];                      /* one block for life, never found */
    uint64_t align, n_blocks;
    oracle_seq seqs[MAX_SEQS];
    oracle_block blocks[MAX_POOL];
    pkv_block pins[MAX_LIST], deferred[MAX_LIST];
    uint64_t n_pins, n_deferred;
    uint64_t hits, refusals, copies, hit_tokens; /* so that a run can tell that it did something */
} oracle;

static inline uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Blocks that a sequence of so many computed tokens never looks at again. */
static inline uint64_t skipped_blocks(const oracle *o, uint32_t g, uint64_t computed)
{
    const uint64_t w = o->window[g], c = o->chunk[g];
    if (c > 0) {
        return computed / c * c / o->block_size[g];
    }
    return w == 0 || computed + 1 <= w ? 0 : (computed - w + 1) / o->block_size[g];
}

/* ---- references ---- */

static inline uint32_t in_tables(const oracle *o, pkv_block b)
{
    uint32_t n = 0;
    for (int s = 0; s < MAX_SEQS; s++) {
        for (uint32_t g = 0; o->seqs[s].seq && g < o->n_groups; g++) {
            for (uint64_t i = 0; i < o->seqs[s].table[g].n; i++) {
                n += o->seqs[s].table[g].ids[i] == b;
            }
        }
    }
    return n;
}

static inline uint32_t refs_of(const oracle *o, pkv_block b)
{
    uint32_t n = in_tables(o, b);
    for (uint64_t i = 0; i < o->n_pins; i++) {
        n += o->pins[i] == b;
    }
    for (uint64_t i = 0; i < o->n_deferred; i++) {
        n += o->deferred[i] == b;
    }
    return n;
}

/* Of all blocks at once; the null block's mean nothing. */
static inline void count_refs(const oracle *o, uint32_t *refs)
{
    memset(refs, 0, MAX_POOL * sizeof *refs);
    for (uint64_t i = 0; i < o->n_pins; i++) {
        refs[o->pins[i]]++;
    }
    for (uint64_t i = 0; i < o->n_deferred; i++) {
        refs[o->deferred[i]]++;
    }
    for (int s = 0; s < MAX_SEQS; s++) {
        for (uint32_t g = 0; o->seqs[s].seq && g < o->n_groups; g++) {
            for (uint64_t i = 0; i < o->seqs[s].table[g].n; i++) {
                refs[o->seqs[s].table[g].ids[i]]++;
            }
        }
    }
}

static inline uint64_t free_blocks(const oracle *o)
{
    uint32_t refs[MAX_POOL];
    uint64_t n = 0;
    count_refs(o, refs);
    for (pkv_block b = 1; b < o->n_blocks; b++) {
        n += refs[b] == 0;
    }
    return n;
}

/* ---- content ---- */

static inline bool holds(const oracle_block *block, uint32_t g, const int32_t *tokens, uint64_t n)
{
    return block->keyed == n && block->group == g &&
           memcmp(block->tokens, tokens, (size_t)n * sizeof *tokens) == 0;
}

static inline bool is_cached(const oracle *o, uint32_t g, const int32_t *tokens, uint64_t n)
{
    for (pkv_block b = 1; b < o->n_blocks; b++) {
        if (holds(&o->blocks[b], g, tokens, n)) {
            return true;
        }
    }
    return false;
}

/* Whether a group still has what a request that resumes at `length` looks at. */
static inline bool can_resume(const oracle *o, uint32_t g, const int32_t *tokens, uint64_t length)
{
    const uint64_t bs = o->block_size[g], w = o->window[g], end = length / bs;
    const uint64_t run = w == 0 ? end : least(end, ceil_div(w - 1, bs));
    if (o->ring[g]) {
        return true;
    }
    for (uint64_t i = o->chunk[g] > 0 ? skipped_blocks(o, g, length) : end - run; i < end; i++) {
        if (!is_cached(o, g, tokens, (i + 1) * bs)) {
            return false;
        }
    }
    return true;
}

static inline uint64_t longest_hit(const oracle *o, const oracle_seq *s)
{
    for (uint64_t length = (s->n_tokens - 1) / o->align * o->align; length > 0;
         length -= o->align) {
        bool all = true;
        for (uint32_t g = 0; g < o->n_groups; g++) {
            all = all && can_resume(o, g, s->tokens, length);
        }
        if (all) {
            return length;
        }
    }
    return 0;
}

/* Of the first so many tokens; drafts have no keys, though they count for the alignment. */
static inline void key_blocks(oracle *o, oracle_seq *s, uint64_t tokens)
{
    const uint64_t aligned = o->n_groups > 1 ? tokens / o->align * o->align : tokens;
    const uint64_t known = least(aligned, s->n_tokens / UNIT * UNIT);
    for (uint32_t g = 0; g < o->n_groups; g++) {
        const uint64_t bs = o->block_size[g];
        const uint64_t whole = known / bs;
        oracle_table *t = &s->table[g];
        if (o->ring[g]) {
            continue;
        }
        for (uint64_t i = t->n_keyed; i < whole; i++) {
            oracle_block *block = &o->blocks[t->ids[i]];
            const uint64_t n = (i + 1) * bs;
            if (t->ids[i] == 0 || holds(block, g, s->tokens, n)) {
                continue; /* a fork keyed it already */
            }
            assert_int_equal(block->keyed, 0);
            block->keyed = n;
            block->group = g;
            memcpy(block->tokens, s->tokens, (size_t)n * sizeof *s->tokens);
        }
        t->n_keyed = whole > t->n_keyed ? whole : t->n_keyed;
    }
}

static inline uint64_t keyed_tokens(const oracle *o, const oracle_seq *s)
{
    uint64_t most = 0;
    for (uint32_t g = 0; g < o->n_groups; g++) {
        const uint64_t n = s->table[g].n_keyed * o->block_size[g];
        most = n > most ? n : most;
    }
    return most;
}

/* ---- sequences ---- */

static inline void forget_tables(oracle_seq *s)
{
    memset(s->table, 0, sizeof s->table);
    s->live = false;
    s->computed = s->floor = 0;
}

static inline void defer_tables(oracle *o, const oracle_seq *s)
{
    for (uint32_t g = 0; g < o->n_groups; g++) {
        for (uint64_t i = 0; i < s->table[g].n; i++) {
            if (s->table[g].ids[i] != 0) {
                assert_true(o->n_deferred < MAX_LIST);
                o->deferred[o->n_deferred++] = s->table[g].ids[i];
            }
        }
    }
}

/* Whether a sequence must not write into a block of its table: somebody else may read it, or still
 * write it, or find more in it than the sequence has computed. */
static inline bool is_closed(const oracle *o, const oracle_seq *s, pkv_block b)
{
    uint32_t deferred = 0;
    for (uint64_t i = 0; i < o->n_deferred; i++) {
        deferred += o->deferred[i] == b;
    }
    return b != 0 && (in_tables(o, b) + deferred > 1 || o->blocks[b].found > s->computed);
}

/* After a rollback a table ends where a block would begin that it must not write. */
static inline void drop_shared_slots(oracle *o, oracle_seq *s)
{
    for (uint32_t g = 0; g < o->n_groups; g++) {
        oracle_table *t = &s->table[g];
        for (uint64_t i = ceil_div(s->computed, o->block_size[g]); i < t->n; i++) {
            if (is_closed(o, s, t->ids[i])) {
                memset(t->ids + i, 0, (size_t)(t->n - i) * sizeof *t->ids);
                t->n = i;
            }
        }
    }
}

/* ---- lookup ---- */

typedef struct found {
    uint64_t tokens, n[2];
    pkv_block ids[2][MAX_TABLE];
} found;

/* The hit is as long as a search through all content says, and every block of it is the request's
 * own prefix. */
static inline found check_lookup(oracle *o, const oracle_seq *s)
{
    found f = {.tokens = lookup(s->seq)};
    assert_int_equal(f.tokens, longest_hit(o, s));
    for (uint32_t g = 0; g < o->n_groups; g++) {
        const uint64_t bs = o->block_size[g];
        const pkv_block *ids = pkv_cache_hit_blocks(o->cache, g, &f.n[g]);
        assert_int_equal(f.n[g], o->ring[g] ? 0 : f.tokens / bs);
        for (uint64_t i = 0; i < f.n[g]; i++) {
            f.ids[g][i] = ids[i];
            if (ids[i] == 0) {
                assert_true(i < skipped_blocks(o, g, f.tokens)); /* nobody looks at it */
            } else {
                assert_true(holds(&o->blocks[ids[i]], g, s->tokens, (i + 1) * bs));
            }
        }
    }
    return f;
}

/* ---- allocate ---- */

static inline void skip_below_window(oracle *o, oracle_seq *s, uint64_t processed)
{
    for (uint32_t g = 0; g < o->n_groups; g++) {
        oracle_table *t = &s->table[g];
        const uint64_t end = least(skipped_blocks(o, g, processed), t->n);
        for (uint64_t i = 0; i < end; i++) {
            t->ids[i] = 0;
        }
    }
    s->floor = processed > s->floor ? processed : s->floor;
}

/* The table's entries before anything is taken: what it has, or what it adopts. */
static inline oracle_table adopted(const oracle *o, const oracle_seq *s, uint32_t g, const found *f,
                                   uint64_t total, bool adopts)
{
    oracle_table t = s->table[g];
    const uint64_t skipped = skipped_blocks(o, g, total);
    if (adopts && !o->ring[g]) {
        t.n = skipped > f->n[g] ? skipped : f->n[g];
        for (uint64_t i = 0; i < t.n; i++) {
            t.ids[i] = i < skipped ? 0 : f->ids[g][i];
        }
        t.n_keyed = t.n;
    }
    return t;
}

/* Entries that a table needs for so many tokens. */
static inline uint64_t entries_for(const oracle *o, uint32_t g, uint64_t tokens)
{
    return o->ring[g] ? 1 : ceil_div(tokens, o->block_size[g]);
}

/* Blocks that leave the free list: idle ones of the hit, private ones instead of shared ones, and
 * new ones. */
static inline uint64_t blocks_needed(const oracle *o, const oracle_seq *s, uint32_t g,
                                     const oracle_table *t, uint64_t slots)
{
    const uint64_t bs = o->block_size[g], wanted = entries_for(o, g, slots);
    uint64_t n = wanted > t->n ? wanted - t->n : 0;
    for (uint64_t i = 0; !s->live && i < t->n; i++) {
        n += t->ids[i] != 0 && refs_of(o, t->ids[i]) == 0;
    }
    for (uint64_t i = s->computed / bs; s->live && i < least(t->n, wanted); i++) {
        n += is_closed(o, s, s->table[g].ids[i]);
    }
    return n;
}

/* What the cache made of the table: entries that stay, private ones, and new ones; a block that is
 * taken was nobody's. */
static inline void follow_table(oracle *o, oracle_seq *s, uint32_t g, oracle_table t,
                                uint64_t slots)
{
    const uint64_t bs = o->block_size[g], wanted = entries_for(o, g, slots);
    bool replaced[MAX_TABLE] = {false};
    uint64_t n;
    const pkv_block *ids = pkv_seq_table(s->seq, g, &n);
    assert_int_equal(n, wanted > t.n ? wanted : t.n);
    for (uint64_t i = s->computed / bs; s->live && i < least(t.n, wanted); i++) {
        replaced[i] = is_closed(o, s, s->table[g].ids[i]);
    }
    s->table[g] = t;
    for (uint64_t i = 0; i < n; i++) {
        if (i < t.n && !replaced[i]) {
            assert_int_equal(ids[i], t.ids[i]);
            continue;
        }
        assert_int_not_equal(ids[i], 0);
        assert_int_equal(refs_of(o, ids[i]), 0);
        o->blocks[ids[i]].keyed = 0;
        s->table[g].ids[i] = ids[i];
        s->table[g].n = i >= t.n ? i + 1 : s->table[g].n;
    }
}

/* The next copies of a batch: from the block that the table held into the one that it holds now,
 * where the step begins inside a block. Both ends are pinned. */
static inline void follow_copies(oracle *o, const oracle_seq *before, const oracle_seq *s,
                                 const pkv_allocate_result *out, uint64_t *next)
{
    for (uint32_t g = 0; before->live && g < o->n_groups; g++) {
        const uint64_t at = before->computed / o->block_size[g];
        if (at < before->table[g].n && before->table[g].ids[at] != s->table[g].ids[at]) {
            assert_true(*next < out->n_copies && o->n_pins + 2 <= MAX_LIST);
            assert_int_equal(out->copies[*next].src, before->table[g].ids[at]);
            assert_int_equal(out->copies[*next].dst, s->table[g].ids[at]);
            o->pins[o->n_pins++] = out->copies[*next].src;
            o->pins[o->n_pins++] = out->copies[(*next)++].dst;
            o->copies++;
        }
    }
}

/* An allocate as the oracle sees it, up to the decision; true: it must be granted. */
typedef struct expected {
    found f;
    oracle_table tables[2];
    uint64_t total, slots, needed, free;
} expected;

static inline bool expect(oracle *o, oracle_seq *s, const pkv_allocate_params *p, expected *e)
{
    const bool adopts = !s->live && e->f.tokens + p->external_tokens > 0;
    e->total = s->computed + e->f.tokens + p->external_tokens;
    e->slots = least(e->total + p->new_tokens + p->lookahead, MAX_LEN);
    e->needed = p->reserved_blocks;
    skip_below_window(o, s, e->total > p->in_flight_tokens ? e->total - p->in_flight_tokens : 0);
    for (uint32_t g = 0; g < o->n_groups; g++) {
        e->tables[g] = adopted(o, s, g, &e->f, e->total, adopts);
        e->needed += blocks_needed(o, s, g, &e->tables[g], e->slots);
    }
    e->free = free_blocks(o);
    return e->needed <= e->free;
}

static inline void follow(oracle *o, oracle_seq *s, const pkv_allocate_params *p, const expected *e,
                          const pkv_allocate_result *out, uint64_t *next_copy)
{
    const oracle_seq before = *s;
    for (uint32_t g = 0; !before.live && g < o->n_groups; g++) {
        s->table[g] = e->tables[g]; /* the hits of all groups are held before any takes */
    }
    for (uint32_t g = 0; g < o->n_groups; g++) {
        follow_table(o, s, g, e->tables[g], e->slots);
    }
    follow_copies(o, &before, s, out, next_copy);
    s->live = true;
    s->computed = e->total + p->new_tokens;
    if (!p->delay_caching) {
        key_blocks(o, s, least(e->total + p->new_tokens, s->n_tokens));
    }
    o->hits += e->f.tokens > 0;
    o->hit_tokens += e->f.tokens;
}

/* ---- everything at once ---- */

static inline void compare_tables(const oracle *o)
{
    for (int s = 0; s < MAX_SEQS; s++) {
        const oracle_seq *q = &o->seqs[s];
        if (!q->seq) {
            continue;
        }
        const pkv_seq_info info = info_of(q->seq);
        assert_int_equal(info.n_tokens, q->n_tokens);
        assert_int_equal(info.computed, q->computed);
        assert_int_equal(info.allocated, q->live);
        assert_int_equal(info.keyed, keyed_tokens(o, q));
        for (uint32_t g = 0; g < o->n_groups; g++) {
            uint64_t n;
            const pkv_block *ids = pkv_seq_table(q->seq, g, &n);
            assert_int_equal(n, q->table[g].n);
            if (n > 0) {
                assert_memory_equal(ids, q->table[g].ids, (size_t)n * sizeof *ids);
            }
        }
    }
}

/* What the pool says of its blocks; after every operation. */
static inline void compare_blocks(oracle *o)
{
    const pkv_pool *pool = pkv_cache_get_pool(o->cache);
    uint32_t refs[MAX_POOL];
    uint64_t n_free = 0;
    count_refs(o, refs);
    for (pkv_block b = 1; b < o->n_blocks; b++) {
        oracle_block *block = &o->blocks[b];
        const uint64_t tokens = pkv_pool_block_tokens(pool, b);
        if (pkv_pool_refs(pool, b) != refs[b]) {
            fail_msg("block %" PRIu32 ": %" PRIu32 " references, not %" PRIu32, b,
                     pkv_pool_refs(pool, b), refs[b]);
        }
        if (tokens != block->keyed &&
            (tokens % UNIT != 0 || block->keyed != 0 || tokens % o->align == 0)) {
            assert_int_equal(tokens, block->keyed); /* else the end of a prompt inside a block */
        }
        block->found = tokens;
        n_free += refs[b] == 0;
    }
    assert_int_equal(pkv_pool_free_count(pool), n_free);
}

static inline void compare(oracle *o)
{
    assert_sound(o->cache);
    compare_tables(o);
}

#endif
