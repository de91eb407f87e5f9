/* transfer_fixture.h  Pages, chunks and plans of transfer tests, and copies row by row. */
#ifndef TRANSFER_FIXTURE_H
#define TRANSFER_FIXTURE_H

#include "fixture.h"

#include <stdbool.h>

#include <pkv/transfer.h>

enum { MAX_PLANES = 4, MAX_LAYERS = 4 };

/* A structure of pages in one buffer. */
typedef struct pages {
    uint8_t *data;
    uint64_t bytes;
    pkv_transfer_buffer buffer;
    pkv_plane planes[MAX_LAYERS][MAX_PLANES];
    pkv_layer_pages layers[MAX_LAYERS];
    pkv_transfer_pages side;
} pages;

static inline uint64_t row_offset(const pages *p, uint32_t layer, uint32_t plane, uint64_t slot,
                                  uint64_t head)
{
    const pkv_plane *at = &p->planes[layer][plane];
    const uint64_t size = p->layers[layer].block_size;
    return at->offset + slot / size * at->block_stride + slot % size * at->token_stride +
           head * at->head_stride;
}

/* Ties the parts together; the planes are filled, the memory is the caller's. */
static inline void pages_tie(pages *p, uint8_t *data, uint64_t bytes, uint32_t n_layers)
{
    p->data = data;
    p->bytes = bytes;
    p->buffer = (pkv_transfer_buffer){data, bytes};
    p->side = (pkv_transfer_pages){&p->buffer, p->layers, NULL, 1, n_layers};
    for (uint32_t l = 0; l < n_layers; l++) {
        p->layers[l].planes = p->planes[l];
    }
}

/* Dense pages, planes one after the other: [layer][plane][block][token][head]. */
static inline uint64_t pages_dense(pages *p, uint32_t n_layers, uint32_t n_planes, uint64_t blocks,
                                   uint64_t size, uint64_t heads, uint64_t row)
{
    uint64_t at = 0;
    memset(p, 0, sizeof *p);
    for (uint32_t l = 0; l < n_layers; l++) {
        for (uint32_t i = 0; i < n_planes; i++) {
            p->planes[l][i] = (pkv_plane){.offset = at,
                                          .block_stride = size * heads * row,
                                          .token_stride = heads * row,
                                          .head_stride = row,
                                          .heads = heads,
                                          .row_bytes = row};
            at += blocks * size * heads * row;
        }
        p->layers[l] =
            (pkv_layer_pages){.n_planes = n_planes, .num_blocks = blocks, .block_size = size};
    }
    return at;
}

/* The same with heads outside of tokens: [layer][plane][block][head][token]. */
static inline uint64_t pages_heads_first(pages *p, uint32_t n_layers, uint32_t n_planes,
                                         uint64_t blocks, uint64_t size, uint64_t heads,
                                         uint64_t row)
{
    const uint64_t bytes = pages_dense(p, n_layers, n_planes, blocks, size, heads, row);
    for (uint32_t l = 0; l < n_layers; l++) {
        for (uint32_t i = 0; i < n_planes; i++) {
            p->planes[l][i].token_stride = row;
            p->planes[l][i].head_stride = size * row;
        }
    }
    return bytes;
}

/* Bytes that differ from those of their neighbours, buffers and planes. */
static inline void fill(uint8_t *data, uint64_t bytes, uint32_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)((i * 131 + i / 251 * 17 + (uint64_t)seed * 89 + 5) & 0xff);
    }
}

static inline pkv_transfer_params params_of(uint32_t op)
{
    pkv_transfer_params params;
    pkv_transfer_params_init(&params);
    params.op = op;
    return params;
}

/* Plans and runs with so many workers, one after the other. */
static inline void transfer(const pkv_transfer_params *params, uint32_t n_workers)
{
    pkv_transfer_plan *plan;
    assert_ok(pkv_transfer_plan_create(params, &plan, NULL));
    for (uint32_t w = 0; w < n_workers; w++) {
        assert_ok(pkv_transfer_run(plan, n_workers - 1 - w, n_workers));
    }
    pkv_transfer_plan_destroy(plan);
}

static inline void assert_refused(const pkv_transfer_params *params, uint32_t rule,
                                  const char *field)
{
    pkv_transfer_plan *plan = (pkv_transfer_plan *)(uintptr_t)1;
    pkv_transfer_refusal refusal;
    assert_status(pkv_transfer_plan_create(params, &plan, &refusal), PKV_E_INVAL);
    assert_null(plan);
    assert_int_equal(refusal.rule, rule);
    assert_string_equal(refusal.field, field);
    assert_error_text("pkv_transfer_plan_create", field);
}

#endif
