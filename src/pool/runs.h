/* runs.h  Content by its tokens: a tree of runs.
 *
 * A run is a row of units whose tokens lie one after the other. It continues its parent from some
 * unit on, and shares with it all that comes before:
 *
 *     run 1   [ u0 u1 u2 u3 u4 u5 ]        the first request
 *     run 2          \ [ v2 v3 ]           one that shares two units with it: parent 1, from unit 2
 *
 * So a prefix is compared as fast as memory is read, with one search per branch, and needs no keys.
 * A place (run, unit) stands for one content, and all content has at most one place: equal tokens
 * after an equal prefix. Beside its tokens each unit has, for each cache group, the block that was
 * first keyed for it, 0 if none; equal blocks form a ring in the order in which they were keyed. A
 * unit without a block stays as long as something hangs on it: a later unit with a block, or a
 * sequence.
 *
 * A block of several units has its place at the last of them; before it is whole, perhaps at one
 * within, where no search looks: a prefix that ends inside of a block cannot be found this way.
 *
 * Where somebody wants keys, the "tokens" of a unit are the PKVI_KEY_WORDS words of its key: a key
 * names all before it, so equal keys are the same place. */
#ifndef PKVI_RUNS_H
#define PKVI_RUNS_H

#include <stdbool.h>

#include <pkv/pool.h>

#include "pool/block.h"

/* What a unit depends on beside its tokens and all before it, as a digest: a unit that has such a
 * tag is found only by the same tag. */
typedef struct pkvi_tag {
    uint64_t unit;
    pkv_key key;
} pkvi_tag;

/* The content of a request. */
typedef struct pkvi_content {
    int32_t *tokens;      /* not written, but become the run's if they are lent */
    const pkvi_tag *tags; /* [n_tags] ascending */
    size_t n_tags;
    bool lends; /* a run that it begins may read its tokens where they are; see below */
} pkvi_content;

/* Where a sequence stands: after `units` units of its content, `at` of them in `run`. Holds the run
 * until it leaves. All 0: at the root. */
typedef struct pkvi_cursor {
    uint32_t run, at;
    uint64_t units;
} pkvi_cursor;

/* A part of a path, units [from, to), that lies in one run. All 0: nothing. */
typedef struct pkvi_stretch {
    uint64_t from, to;
    uint32_t run;
} pkvi_stretch;

typedef struct pkvi_runs pkvi_runs;

enum { PKVI_KEY_WORDS = sizeof(pkv_key) / sizeof(int32_t) };

/* NULL: no memory. unit in tokens. Borrows the blocks, whose names are its own. */
pkvi_runs *pkvi_runs_create(const pkv_alloc *alloc, pkvi_block *blocks, uint64_t n_blocks,
                            uint64_t unit, uint32_t n_groups);
void pkvi_runs_destroy(pkvi_runs *runs);

/* Where the longest prefix of a content that has places ends, at most `most` units: a path, which
 * holds nothing. As fast as the tokens are compared. What pkvi_runs_row() of the group will read,
 * and write to ids, is fetched. */
void pkvi_runs_find(const pkvi_runs *runs, const pkvi_content *content, uint64_t most,
                    uint32_t group, const pkv_block *ids, pkvi_cursor *path);
/* The first blocks of a path, of so many units each, to the first that is missing, at most `most`;
 * returns how many. ids: [most] */
uint64_t pkvi_runs_row(const pkvi_runs *runs, const pkvi_cursor *path, uint32_t group,
                       uint64_t units, uint64_t most, pkv_block *ids);
/* The blocks before entry `end` of a table, from the last one back to one that is missing; the path
 * has as many. Returns how many, at most `most`; each is its entry of ids. stretch: any of this
 * path; who goes on along it, best to the left, hands it on, as in the next two. */
uint64_t pkvi_runs_row_back(const pkvi_runs *runs, const pkvi_cursor *path, uint32_t group,
                            uint64_t units, uint64_t end, uint64_t most, pkvi_stretch *stretch,
                            pkv_block *ids);
/* The end, at most this one, before which there is a block; 0: there is none. */
uint64_t pkvi_runs_last(const pkvi_runs *runs, const pkvi_cursor *path, uint32_t group,
                        uint64_t units, uint64_t end, pkvi_stretch *stretch);
/* The blocks of one unit of a path, of all these groups, as this entry of their tables; false: some
 * group has none, and nothing is written. */
bool pkvi_runs_find_unit(const pkvi_runs *runs, const pkvi_cursor *path, uint64_t unit,
                         const uint32_t *groups, uint32_t n_groups, pkvi_stretch *stretch,
                         pkv_block **tables, uint64_t entry);

/* Fetches what any search reads first. */
void pkvi_runs_fetch(const pkvi_runs *runs);

/* Leads a cursor to `units` units of its content, and makes places for those that have none yet.
 * False: no memory; the cursor has come as far as it could, which changes nothing else. */
bool pkvi_runs_lead(pkvi_runs *runs, pkvi_cursor *cursor, const pkvi_content *content,
                    uint64_t units);
/* The cursor goes back to the root. tokens: [capacity] of the sequence, which lends them, or NULL.
 * True: they belong to the tree from now on. */
bool pkvi_runs_leave(pkvi_runs *runs, pkvi_cursor *cursor, const int32_t *tokens, size_t capacity);
/* Fetches what leaving is going to need. */
void pkvi_runs_fetch_cursor(const pkvi_runs *runs, const pkvi_cursor *cursor);
/* Fetches what naming a block of the unit behind the cursor is going to need; its run is there. */
void pkvi_runs_fetch_behind(const pkvi_runs *runs, const pkvi_cursor *cursor, uint32_t group);
/* A second cursor at the same place. */
void pkvi_runs_join(pkvi_runs *runs, const pkvi_cursor *cursor, pkvi_cursor *out);

/* A request that shares nothing with others begins a run of its own, from its first unit on. It may
 * lend its tokens, if they lie in one piece of the tree's hooks and those of units that have places
 * do not change. Then the run reads them there instead of copying them, as long as nobody else adds
 * to it. When the cursor leaves they become the run's, if there still is one.
 *
 * The run that reads these tokens, or 0. */
uint32_t pkvi_runs_lent(const pkvi_runs *runs, const pkvi_cursor *cursor, const int32_t *tokens);
/* They have been moved. */
void pkvi_runs_moved(pkvi_runs *runs, uint32_t run, int32_t *tokens);

/* Blocks [from, to) of a group's table; with a mask only those whose byte is set. */
typedef struct pkvi_table_part {
    const pkv_block *ids; /* [to] */
    uint64_t from, to;
    const uint8_t *mask; /* [to - from] or NULL */
    uint32_t group;
    uint64_t units; /* of a block */
} pkvi_table_part;

/* Units before the end of entry i. */
static inline uint64_t pkvi_units_to(const pkvi_table_part *part, uint64_t i)
{
    return (i + 1) * part->units;
}

/* Whether entry i of it is a block that is meant. */
static inline bool pkvi_is_wanted(const pkvi_table_part *part, uint64_t i)
{
    return part->ids[i] != PKV_BLOCK_NULL && (!part->mask || part->mask[i - part->from] != 0);
}

/* Names blocks for the units before the cursor; those that have this very place already are passed
 * over. A block with another place loses it. Returns how many were named. */
uint64_t pkvi_runs_name(pkvi_runs *runs, const pkvi_cursor *cursor, const pkvi_table_part *part);
/* The same of one block, for one unit before the cursor, whose place it does not have yet. */
void pkvi_runs_name_unit(pkvi_runs *runs, const pkvi_cursor *cursor, uint64_t unit, uint32_t group,
                         pkv_block block);
/* Whether the block is named for this unit before the cursor, in this group. */
bool pkvi_runs_is_named(const pkvi_runs *runs, const pkvi_cursor *cursor, uint64_t unit,
                        uint32_t group, pkv_block block);
/* The tokens of the unit that the block is named for; it must have a name. */
const int32_t *pkvi_runs_tokens(const pkvi_runs *runs, pkv_block block);
/* A cursor behind the unit that the block is named for; it must have a name. */
void pkvi_runs_hold(pkvi_runs *runs, pkv_block block, pkvi_cursor *out);
/* Whether a cursor is just behind the unit that the block is named for; it must have a name. */
bool pkvi_runs_is_behind(const pkvi_runs *runs, const pkvi_cursor *cursor, pkv_block block);
/* The block has no name any more. It must have one. */
void pkvi_runs_forget(pkvi_runs *runs, pkv_block block);
/* Fetches what forgetting a block is going to need. */
void pkvi_runs_prefetch(const pkvi_runs *runs, pkv_block block);

/* Units that have a block, each as often as groups have one. */
uint64_t pkvi_runs_n_named(const pkvi_runs *runs);
/* Cursors that hold a run. */
uint64_t pkvi_runs_n_cursors(const pkvi_runs *runs);
/* NULL: sound; else what is broken. is_named: [n_blocks], by the pool's account. */
const char *pkvi_runs_check(const pkvi_runs *runs, bool (*is_named)(void *ctx, pkv_block block),
                            void *ctx);

#endif
