/* grid.h  Which bytes one thread of a grid moves: for the kernels of a GPU, and for the tests that
 * run the same arithmetic on the processor.
 *
 * A pair of a plan is a box of units, [token][head][unit of a row]; threads take units in this
 * order, so that neighbours touch neighbouring bytes. A unit is the widest of 16, 8, 4, 2 and 1
 * bytes that divides the row, all strides and all addresses, so that no access is misaligned. */
#ifndef PKVI_TRANSFER_GRID_H
#define PKVI_TRANSFER_GRID_H

#include "transfer/index.h"

/* One pair with its runs, as a kernel takes it. */
typedef struct pkvi_grid {
    pkvi_pair pair;
    const pkvi_run *runs; /* [n_runs] */
    uint64_t n_runs, n_tokens;
    uint64_t unit; /* bytes */
} pkvi_grid;

/* Where one thread reads and writes. */
typedef struct pkvi_unit {
    uint64_t src, dst;
} pkvi_unit;

/* Units of the whole grid. */
static inline PKVI_DEVICE uint64_t pkvi_grid_units(const pkvi_grid *grid)
{
    return grid->n_tokens * grid->pair.heads * (grid->pair.row_bytes / grid->unit);
}

/* Unit i < pkvi_grid_units(). */
static inline PKVI_DEVICE pkvi_unit pkvi_grid_unit(const pkvi_grid *grid, uint64_t i)
{
    const uint64_t per_row = grid->pair.row_bytes / grid->unit;
    const uint64_t row = i / per_row, in = i % per_row * grid->unit;
    const uint64_t token = row / grid->pair.heads, head = row % grid->pair.heads;
    const pkvi_run *run = &grid->runs[pkvi_find_run(grid->runs, grid->n_runs, token)];
    const uint64_t t = token - run->first_token;
    pkvi_unit unit;
    unit.src = pkvi_row(&grid->pair.src, &run->src, t, head) + in;
    unit.dst = pkvi_row(&grid->pair.dst, &run->dst, t, head) + in;
    return unit;
}

/* The widest unit of a pair. `bases`: all chunk addresses of its runs, ored. */
static inline uint64_t pkvi_grid_widest(const pkvi_pair *pair, uint64_t bases)
{
    const pkvi_place *s = &pair->src, *d = &pair->dst;
    const uint64_t all = pair->row_bytes | bases | s->base | s->block_stride | s->token_stride |
                         s->head_stride | d->base | d->block_stride | d->token_stride |
                         d->head_stride;
    uint64_t unit = 16;
    while ((all & (unit - 1)) != 0) {
        unit /= 2;
    }
    return unit;
}

#endif
