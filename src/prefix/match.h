/* match.h  How much of a prefix is still cached, by the rule of one kind of layer.
 *
 * A match writes block tables: found blocks, with the null block where a kind needs none. */
#ifndef PKVI_MATCH_H
#define PKVI_MATCH_H

#include <stdbool.h>

#include <pkv/pool.h>

#include "pool/runs.h"

/* How far a search from the right has followed one group. */
typedef struct pkvi_trail {
    pkvi_stretch stretch; /* where it is */
    uint64_t from;        /* all blocks from this entry to the end that is tried are there */
} pkvi_trail;

/* Where to look, and for which groups: they are looked up together, since a block must be cached
 * for all of them. */
typedef struct pkvi_match {
    const pkv_pool *pool;
    const pkvi_cursor *path; /* for pools that find content by runs: how far its places go */
    pkvi_trail *trails;      /* for these, too: [n_groups] zeroed scratch */
    const pkv_key *keys;     /* for the others: [n_units] one per unit */
    uint64_t n_units, unit;  /* n_units: of the prefix that may be there */
    uint64_t block_size;     /* tokens; a multiple of the unit */
    uint64_t alignment;      /* tokens; a hit is a multiple of it */
    bool drop;               /* the last matched block is given up for a drafter */
    const uint32_t *groups;  /* [n_groups] */
    uint32_t n_groups;
    pkv_block **tables; /* [n_groups], each with room for every block of the prefix */
} pkvi_match;

/* Full attention: from the left, to the first block that is missing. */
uint64_t pkvi_match_full(const pkvi_match *m, uint64_t max_tokens, uint64_t *n_blocks);
/* Chunks: from the first block of the chunk on, to the first that is missing; blocks before count
 *  as found and are null. */
uint64_t pkvi_match_chunk(const pkvi_match *m, uint64_t first_block, uint64_t max_tokens,
                          uint64_t *n_blocks);
/* Sliding window: from the right, the last run of blocks that covers a window; a run that reaches
 * block 0 counts whatever its length. */
uint64_t pkvi_match_window(const pkvi_match *m, uint64_t window, uint64_t max_tokens,
                           uint64_t *n_blocks);

/* Recurrent states: from the right, the last one; one block is all that a hit needs. */
uint64_t pkvi_match_state(const pkvi_match *m, uint64_t max_tokens, uint64_t *n_blocks);

/* Blocks in a row that the token after a hit looks at. A hit needs one at least. */
uint64_t pkvi_window_blocks(uint64_t window, uint64_t block_size, bool drop);

#endif
