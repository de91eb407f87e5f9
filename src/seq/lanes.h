/* lanes.h  The same batch again: its steps are counted, and nobody looks at their sequences.
 *
 * Step by step a scheduler names the same sequences in the same order, each with one token. Every
 * place of the batch is a lane: it knows who stood there last, and up to which batch that sequence
 * needs nothing but its token. Whether a step is such a one, lane and step say without the
 * sequence; its token goes into a column, all of a batch side by side, and the batch is counted. A
 * sequence takes its tokens over, it settles, when somebody looks at it, when it needs more than
 * that, or when the columns are full.
 *
 * A lane runs, once the same sequence has stood there in two batches, while until > 0. Then, but
 * within a batch, since <= batches <= until, and less than PKVI_COLUMNS lie between. A sequence
 * whose lane does not run, or that has none, has settled. */
#ifndef PKVI_LANES_H
#define PKVI_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pkv/seq.h>

enum { PKVI_COLUMNS = 32, PKVI_LANE_GROUP = 64 };
#define PKVI_NO_LANE UINT32_MAX
#define PKVI_NO_BATCH ((uint32_t)INT32_MAX)

typedef struct pkvi_lanes pkvi_lanes;

/* lanes_find.c  Bits: those of n steps that the lanes from `lane` on do not take; tokens of the
 * others go into the column. n: at most PKVI_LANE_GROUP */
typedef uint64_t pkvi_lanes_find_slow(const pkvi_lanes *lanes, size_t lane, const pkv_step *steps,
                                      size_t n, int32_t *column);
/* The forms of it that the processor can do, the widest is number 0; NULL: there are no more. */
pkvi_lanes_find_slow *pkvi_lanes_find_of_cpu(unsigned i);

struct pkvi_lanes {
    pkv_seq **seqs;  /* [capacity] NULL: nobody */
    uint32_t *until; /* [capacity] the last batch whose token the lane takes; 0: it takes none */
    uint32_t *since; /* [capacity] the last batch whose token the sequence has; where the
                        lane does not run: the batch that the sequence came with, or an older one */
    uint32_t *due;   /* [capacity] the batch that leaves something to be done; PKVI_NO_BATCH */
    uint64_t *slow;  /* [capacity / PKVI_LANE_GROUP] bits: steps that their lanes do not take */
    int32_t *tokens; /* [PKVI_COLUMNS, pitch] */
    void *memory;    /* of these; bytes */
    size_t bytes;
    size_t capacity; /* more than sequences are open */
    size_t pitch;    /* tokens */
    size_t n;        /* lanes from here on are empty */
    size_t n_running;
    size_t reached;     /* within a batch: lanes before this one have had their step; else 0 */
    uint64_t lookahead; /* of the batches that are counted */
    uint32_t batches;   /* that have ended, less than 2^31 */
    uint32_t next_due;  /* no lane is due in an earlier batch, */
    size_t due_from;    /* nor one before this lane in that batch */
    uint64_t steps[PKVI_COLUMNS]; /* of the cache, of the batch in each column */
    pkvi_lanes_find_slow *find_slow;
};

void pkvi_lanes_init(pkvi_lanes *lanes);
/* More lanes than so many. False: no memory; what is there still holds. */
bool pkvi_lanes_reserve(pkv_cache *cache, size_t n);
void pkvi_lanes_free(pkv_cache *cache);

/* ---- whoever looks at a sequence ---- */

/* Whether it has tokens that it did not take over. */
bool pkvi_lane_waits(const pkv_seq *seq);
/* It has taken them over. Nobody can tell when, so it may be one that is only read. */
void pkvi_lane_settle(const pkv_seq *seq);
/* The same, and its next step looks at it: it is going to change. */
void pkvi_lane_stop(pkv_seq *seq);
void pkvi_lanes_stop_all(pkv_cache *cache);
/* The same, and it stands nowhere. */
void pkvi_lane_leave(pkv_seq *seq);

/* CORRUPT: the text names what is broken. */
pkv_status pkvi_lanes_check(const pkv_cache *cache);

/* Steps that lanes took and that have left something to be done are noted, in their order. */
void pkvi_lanes_note_due(pkv_cache *cache);

/* ---- a batch ---- */

/* Finds the steps that their lanes take; their tokens lie in a column that does not count yet.
 * n: at most the capacity. Whether all are such. */
bool pkvi_lanes_find(pkv_cache *cache, const pkv_step *steps, size_t n, uint64_t lookahead);
/* The first of the steps [from, n) that its lane does not take; n or more: none. */
size_t pkvi_lanes_later_slow(const pkvi_lanes *lanes, size_t from, size_t n);
static inline size_t pkvi_lanes_next_slow(const pkvi_lanes *lanes, size_t from, size_t n)
{
    if (from >= n || (lanes->slow[from / PKVI_LANE_GROUP] >> from % PKVI_LANE_GROUP & 1)) {
        return from; /* mostly, where no lanes run */
    }
    return pkvi_lanes_later_slow(lanes, from, n);
}
/* Asks for the tokens that wait for the sequences of the other steps, n in all. */
void pkvi_lanes_fetch_claims(const pkvi_lanes *lanes, size_t n);
/* Other steps will do what steps of this batch, which lanes take, leave to be done: asks for the
 * bodies of their sequences, as for those of a group. found: [PKVI_LANE_GROUP]; how many. */
size_t pkvi_lanes_fetch_due(pkv_cache *cache, size_t n, pkv_seq **found);
/* The lane of step i, which did not take it, is its sequence's. False: a step before names it. */
bool pkvi_lane_claim(pkv_cache *cache, const pkv_step *steps, size_t n, size_t i);
/* n steps are going to be done. */
void pkvi_lanes_begin(pkv_cache *cache, size_t n);
/* Step i, which its lane did not take, was done: perhaps it takes the next ones. */
void pkvi_lane_run(pkv_cache *cache, const pkv_seq *seq, size_t i);
/* All steps were done; refused: those before the one that was reached last. */
void pkvi_lanes_end(pkv_cache *cache, bool refused);

#endif
