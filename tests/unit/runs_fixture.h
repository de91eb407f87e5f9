/* runs_fixture.h  A tree of runs and contents as texts: a letter is a unit, a digit after it its
 * tag: "ab1c" is three units, the second one with tag 1. */
#ifndef RUNS_FIXTURE_H
#define RUNS_FIXTURE_H

#include "countdown.h"
#include "seq_fixture.h"

#include "pool/runs_internal.h"

enum { UNIT = 3, BLOCKS = 128, MAX_UNITS = 128 };

typedef struct tree {
    pkvi_runs *runs;
    pkvi_block blocks[BLOCKS];
    countdown memory;
    bool named[BLOCKS]; /* by our account */
} tree;

static inline pkv_alloc hooks_of(tree *t)
{
    return (pkv_alloc){.ctx = &t->memory, .alloc = counted_alloc, .free = counted_free};
}

static inline void begin_tree_of(tree *t, uint32_t n_groups)
{
    *t = (tree){.memory = {.left = UINT64_MAX}};
    const pkv_alloc hooks = hooks_of(t);
    t->runs = pkvi_runs_create(&hooks, t->blocks, BLOCKS, UNIT, n_groups);
    assert_non_null(t->runs);
}

static inline void begin_tree(tree *t)
{
    begin_tree_of(t, 1);
}

static inline bool is_named(void *ctx, pkv_block block)
{
    return ((const tree *)ctx)->named[block];
}

static inline const char *fault_of(tree *t)
{
    return pkvi_runs_check(t->runs, is_named, t);
}

static inline void assert_intact(tree *t)
{
    const char *fault = fault_of(t);
    if (fault) {
        fail_msg("%s", fault);
    }
}

/* Nothing of it stays. */
static inline void end_tree(tree *t)
{
    assert_intact(t);
    pkvi_runs_destroy(t->runs);
    assert_int_equal(t->memory.held, 0);
}

/* ---- contents ---- */

typedef struct text_content {
    int32_t tokens[MAX_UNITS * UNIT];
    pkvi_tag tags[MAX_UNITS];
    uint64_t units;
    pkvi_content content;
} text_content;

/* The tokens of two letters differ in the last one only. */
static inline void read_content(const char *text, text_content *out)
{
    memset(out, 0, sizeof *out);
    out->content = (pkvi_content){.tokens = out->tokens, .tags = out->tags};
    for (; *text; text++) {
        if (*text >= '0' && *text <= '9') {
            pkvi_tag *tag = &out->tags[out->content.n_tags++];
            tag->unit = out->units - 1;
            tag->key.bytes[31] = (uint8_t)*text;
        } else {
            assert_true(out->units < MAX_UNITS);
            out->tokens[out->units * UNIT + UNIT - 1] = *text;
            out->units++;
        }
    }
}

/* ---- what is done with them ---- */

/* A cursor behind all units of a text. */
static inline pkvi_cursor cursor_at(tree *t, const char *text)
{
    text_content c;
    pkvi_cursor cursor = {0, 0, 0};
    read_content(text, &c);
    assert_true(pkvi_runs_lead(t->runs, &cursor, &c.content, c.units));
    assert_int_equal(cursor.units, c.units);
    return cursor;
}

static inline void leave(tree *t, pkvi_cursor *cursor)
{
    assert_false(pkvi_runs_leave(t->runs, cursor, NULL, 0));
    assert_int_equal(cursor->run + cursor->at + cursor->units, 0);
    assert_intact(t);
}

/* Names blocks [from, to) of a table of group 0 for the units before a cursor. */
static inline uint64_t name_table(tree *t, const pkvi_cursor *cursor, const pkv_block *table,
                                  uint64_t from, uint64_t to)
{
    return pkvi_runs_name(t->runs, cursor, &(const pkvi_table_part){table, from, to, NULL, 0, 1});
}

/* Names the last blocks of a text's units; 0 is none. Returns how many were new. */
static inline uint64_t name_in(tree *t, uint32_t group, const char *text, const char *blocks)
{
    pkv_block ids[MANY_BLOCKS], table[MAX_UNITS] = {0};
    pkvi_cursor cursor = cursor_at(t, text);
    const uint64_t n = read_blocks(blocks, ids), from = cursor.units - n;
    memcpy(table + from, ids, (size_t)n * sizeof *ids);
    const pkvi_table_part part = {table, from, cursor.units, NULL, group, 1};
    const uint64_t named = pkvi_runs_name(t->runs, &cursor, &part);
    for (uint64_t i = 0; i < n; i++) {
        t->named[ids[i]] = ids[i] != 0;
        assert_true(ids[i] == 0 || pkvi_runs_is_named(t->runs, &cursor, from + i, group, ids[i]));
    }
    leave(t, &cursor);
    return named;
}

static inline uint64_t name(tree *t, const char *text, const char *blocks)
{
    return name_in(t, 0, text, blocks);
}

static inline void forget(tree *t, pkv_block block)
{
    assert_true(t->named[block]);
    pkvi_runs_forget(t->runs, block);
    t->named[block] = false;
    assert_intact(t);
}

static inline void forget_all(tree *t)
{
    for (pkv_block b = 1; b < BLOCKS; b++) {
        if (t->named[b]) {
            forget(t, b);
        }
    }
}

/* The blocks that a group has for the first units of a content. */
static inline uint64_t match_in(const tree *t, uint32_t group, const pkvi_content *content,
                                uint64_t most, pkv_block *ids)
{
    pkvi_cursor path;
    pkvi_runs_find(t->runs, content, most, group, ids, &path);
    return pkvi_runs_row(t->runs, &path, group, 1, most, ids);
}

static inline void assert_match_in(const tree *t, uint32_t group, const char *text,
                                   const char *wanted)
{
    text_content c;
    pkv_block ids[MAX_UNITS];
    read_content(text, &c);
    assert_blocks(ids, match_in(t, group, &c.content, c.units, ids), wanted);
}

static inline void assert_match(const tree *t, const char *text, const char *wanted)
{
    assert_match_in(t, 0, text, wanted);
}

/* Bytes of a tree that knows nothing, whatever its table of runs and its buckets have grown to. */
static inline uint64_t empty_bytes(const tree *t)
{
    return sizeof *t->runs + t->runs->n_buckets * sizeof *t->runs->buckets +
           t->runs->capacity * sizeof *t->runs->at;
}

#endif
