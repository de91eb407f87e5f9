/* transfer.h  A transfer while it is planned, and the plan.
 *
 *   params --check.c--> right --pairs.c, chunk.c--> pairs --runs.c--> runs --overlap.c--> plan
 *                                                                     walk.c, run.c: bytes move
 */
#ifndef PKVI_TRANSFER_H
#define PKVI_TRANSFER_H

#include <stdbool.h>

#include <pkv/transfer.h>

#include "base/arena.h"
#include "transfer/copy.h"
#include "transfer/index.h"

/* Layers whose blocks have the same numbers of tokens, so that they share their runs. */
typedef struct pkvi_run_group {
    uint64_t src_block_size, dst_block_size; /* tokens; of chunks: those of the pages */
    pkvi_run *runs;                          /* [n_runs] */
    uint64_t n_runs, n_tokens;
} pkvi_run_group;

struct pkv_transfer_plan {
    pkvi_arena arena; /* first: all that follows lies in it */
    pkvi_pair *pairs; /* [n_pairs] by steps */
    uint64_t n_pairs;
    uint64_t *step_pairs;   /* [n_layers + 1] first pair of each step */
    pkvi_run_group *groups; /* [n_layers] at most */
    uint32_t n_groups;
    uint64_t bytes; /* of all pairs on one side */
    bool swap;
    pkv_transfer_info info;
};

/* A transfer that is being planned. */
typedef struct pkvi_job {
    pkv_transfer_params p;
    pkv_transfer_refusal *refusal;
    pkv_transfer_plan *plan;
    bool by_blocks;
    uint64_t n_tokens;     /* that have a row, whether they move or not */
    uint64_t chunk_width;  /* bytes of one token of all layers that a chunk holds */
    uint64_t *chunk_first; /* [layers of the structure] bytes of a token in the layers before */
} pkvi_job;

/* ---- refusals ---- */

typedef struct pkvi_field {
    char text[60];
} pkvi_field;

pkvi_field pkvi_field_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Fills the refusal and the error text; returns INVAL. */
pkv_status pkvi_refuse(const pkvi_job *job, pkv_transfer_rule rule, pkvi_field field,
                       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
pkv_status pkvi_transfer_no_memory(void);

/* ---- what is planned ---- */

/* The one side of pages that chunks are made from or written to. */
static inline const pkv_transfer_pages *pkvi_paged_side(const pkv_transfer_params *p)
{
    return p->op == PKV_TRANSFER_SCATTER ? p->dst : p->src;
}

/* Number of the layer that moves in a step. */
static inline uint32_t pkvi_step_layer(const pkv_transfer_params *p, uint32_t step)
{
    return p->layers ? p->layers[step] : step;
}

/* MALFORMED, RANGE of layers. Fills n_layers. */
pkv_status pkvi_check_form(pkvi_job *job);
/* CONTENT and BOUNDS of pages and chunks. */
pkv_status pkvi_check_sides(pkvi_job *job);
/* Of chunks. The second fills what pkvi_chunk_place() needs. */
pkv_status pkvi_check_chunk_content(const pkvi_job *job);
pkv_status pkvi_check_chunk_bounds(pkvi_job *job);
/* RANGE of ids and tokens. Fills n_tokens. */
pkv_status pkvi_check_ids(pkvi_job *job);
/* Place of a plane in a chunk, from the start of the chunk. */
pkvi_place pkvi_chunk_place(const pkvi_job *job, uint32_t layer, uint32_t plane);
pkv_status pkvi_plan_runs(pkvi_job *job);
pkv_status pkvi_plan_pairs(pkvi_job *job);
pkv_status pkvi_check_overlap(const pkvi_job *job);

/* First of the heads that a rank holds. */
static inline uint64_t pkvi_first_head(uint64_t rank, uint64_t n_ranks, uint64_t heads_total)
{
    return rank * heads_total / n_ranks;
}

/* ---- running ---- */

typedef void pkvi_visit(void *ctx, const pkvi_pieces *pieces);

/* All that pairs [first, last) move of the bytes [from, to) of the whole transfer. */
void pkvi_walk(const pkv_transfer_plan *plan, uint64_t first, uint64_t last, uint64_t from,
               uint64_t to, pkvi_visit *visit, void *ctx);

#endif
