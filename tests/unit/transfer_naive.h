/* transfer_naive.h  Memory between guard pages, random structures, and a copy index by index. */
#ifndef TRANSFER_NAIVE_H
#define TRANSFER_NAIVE_H

#include "replay.h"
#include "transfer_fixture.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- numbers ---- */

/* low ... high */
static inline uint64_t pick(uint64_t *state, uint64_t low, uint64_t high)
{
    return low + next_random(state) % (high - low + 1);
}

static inline bool chance(uint64_t *state, uint64_t percent)
{
    return next_random(state) % 100 < percent;
}

/* ---- memory ---- */

/* Bytes right before, or right behind, a page that must not be touched. */
typedef struct guarded {
    uint8_t *map, *data;
    size_t map_bytes, bytes;
} guarded;

static inline guarded guarded_new(uint64_t bytes, bool at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t room = ((size_t)bytes + page - 1) / page * page;
    guarded g = {.map_bytes = room + 2 * page, .bytes = (size_t)bytes};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(g.map + page + room, page, PROT_NONE), 0);
    g.data = at_end ? g.map + page + room - bytes : g.map + page;
    return g;
}

static inline void guarded_free(guarded *g)
{
    assert_int_equal(munmap(g->map, g->map_bytes), 0);
}

/* ---- structures ---- */

typedef struct content {
    uint32_t n_layers, n_planes;
    uint64_t heads[MAX_PLANES], row_bytes[MAX_PLANES];
} content;

static inline uint64_t pad(uint64_t *state)
{
    return chance(state, 30) ? pick(state, 1, 70) : 0;
}

/* Axes in random order and with gaps, from byte `at`; returns the end. */
static inline uint64_t random_plane(uint64_t *state, pkv_plane *plane, uint64_t blocks,
                                    uint64_t size, uint64_t at)
{
    uint64_t *const strides[] = {&plane->head_stride, &plane->token_stride, &plane->block_stride};
    const uint64_t counts[] = {plane->heads, size, blocks};
    uint32_t order[] = {0, 1, 2};
    uint64_t extent = plane->row_bytes;
    if (chance(state, 50)) {
        order[0] = 1;
        order[1] = 0;
    }
    if (chance(state, 10)) { /* blocks inside of tokens */
        const uint32_t swapped = order[1];
        order[1] = order[2];
        order[2] = swapped;
    }
    for (size_t i = 0; i < 3; i++) {
        *strides[order[i]] = extent + pad(state);
        extent += (counts[order[i]] - 1) * *strides[order[i]];
    }
    plane->offset = at;
    return at + extent;
}

/* Fills all but the memory; returns the bytes that it takes. */
static inline uint64_t random_pages(uint64_t *state, const content *c, uint64_t blocks,
                                    uint64_t size, pages *out)
{
    uint64_t at = pad(state);
    memset(out, 0, sizeof *out);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        for (uint32_t p = 0; p < c->n_planes; p++) {
            out->planes[l][p].heads = c->heads[p];
            out->planes[l][p].row_bytes = c->row_bytes[p];
            at = random_plane(state, &out->planes[l][p], blocks, size, at) + pad(state);
        }
        out->layers[l] =
            (pkv_layer_pages){.n_planes = c->n_planes, .num_blocks = blocks, .block_size = size};
    }
    return at;
}

/* Planes side by side in each block: the blocks of all layers in one row, as pools have them. */
static inline uint64_t random_pool(uint64_t *state, const content *c, uint64_t blocks,
                                   uint64_t size, pages *out)
{
    uint64_t at = 0;
    (void)random_pages(state, c, blocks, size, out);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        for (uint32_t p = 0; p < c->n_planes; p++) {
            at = random_plane(state, &out->planes[l][p], 1, size, at) + pad(state);
        }
    }
    for (uint32_t l = 0; l < c->n_layers; l++) {
        for (uint32_t p = 0; p < c->n_planes; p++) {
            out->planes[l][p].block_stride = at;
        }
    }
    return at * blocks;
}

/* ---- the naive way ---- */

static inline uint64_t width_of(const content *c, uint32_t planes)
{
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < planes; p++) {
        bytes += c->heads[p] * c->row_bytes[p];
    }
    return bytes;
}

/* Bytes of a chunk of t tokens. */
static inline uint64_t naive_chunk_bytes(const content *c, uint32_t form, uint64_t t)
{
    const bool one = form == PKV_CHUNK_2TD || form == PKV_CHUNK_T2D;
    return t * width_of(c, c->n_planes) * (one ? 1 : c->n_layers);
}

/* Place of a row, straight from the axes: every form is a product of its axes. */
static inline uint64_t naive_chunk_row(const content *c, uint32_t form, uint64_t t, uint64_t size,
                                       uint32_t layer, uint32_t plane, uint64_t token,
                                       uint64_t head)
{
    const uint64_t own = c->heads[plane] * c->row_bytes[plane], in = head * c->row_bytes[plane];
    const uint64_t all = width_of(c, c->n_planes), before = width_of(c, plane);
    switch (form) {
    case PKV_CHUNK_2LTD: return c->n_layers * t * before + (layer * t + token) * own + in;
    case PKV_CHUNK_L2TD: return t * (layer * all + before) + token * own + in;
    case PKV_CHUNK_2TD: return t * before + token * own + in;
    case PKV_CHUNK_T2D: return token * all + before + in;
    case PKV_CHUNK_MLA: return (layer * t + token) * all + before + in;
    default: break;
    }
    return size * (token / size * c->n_layers * all + layer * all + before) + token % size * own +
           in;
}

#endif
