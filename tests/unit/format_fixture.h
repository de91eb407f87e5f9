/* format_fixture.h  Problems for pkv_reading_create(), written as shapes and strides. */
#ifndef FORMAT_FIXTURE_H
#define FORMAT_FIXTURE_H

#include "fixture.h"

#include <pkv/format.h>
#include <pkv/spec.h>

enum { MAX_VIEWS = 128 };

#define SHAPE(...) \
    (const uint64_t[PKV_MAX_AXES]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8
#define STRIDES(...)               \
    (const uint64_t[PKV_MAX_AXES]) \
    {                              \
        __VA_ARGS__                \
    }

/* A tensor; strides NULL: row-major. */
static inline pkv_view tensor(uint32_t dtype, const uint64_t *shape, size_t rank,
                              const uint64_t *strides)
{
    pkv_view v = {.dtype = dtype, .rank = (uint32_t)rank};
    memcpy(v.shape, shape, sizeof v.shape);
    if (strides) {
        memcpy(v.strides, strides, sizeof v.strides);
    } else {
        assert_ok(pkv_view_row_major(&v));
    }
    return v;
}

#define BF16(...) tensor(PKV_DTYPE_BFLOAT16, SHAPE(__VA_ARGS__), NULL)
#define BYTES(...) tensor(PKV_DTYPE_UINT8, SHAPE(__VA_ARGS__), NULL)

static inline pkv_view strided(pkv_view v, const uint64_t *strides)
{
    memcpy(v.strides, strides, sizeof v.strides);
    return v;
}

static inline pkv_view at_offset(pkv_view v, uint64_t offset)
{
    v.offset = offset;
    return v;
}

/* Static, and stays where it is: its layers point into it. */
typedef struct problem {
    pkv_format_params params;
    pkv_view views[MAX_VIEWS];
    pkv_engine_layer layers[MAX_VIEWS];
    uint32_t n_views;
    pkv_refusal refusal;
    pkv_reading *reading;
} problem;

static inline void begin(problem *p, uint32_t engine)
{
    pkv_reading_destroy(p->reading);
    memset(p, 0, sizeof *p);
    pkv_format_params_init(&p->params);
    p->params.engine = engine;
    p->params.layers = p->layers;
}

/* A layer of n tensors. */
static inline void put_planes(problem *p, uint32_t n, const pkv_view *views)
{
    assert_true(p->n_views + n <= MAX_VIEWS);
    p->layers[p->params.n_layers++] = (pkv_engine_layer){p->views + p->n_views, n, 0};
    memcpy(p->views + p->n_views, views, n * sizeof *views);
    p->n_views += n;
}

static inline void put(problem *p, uint32_t times, pkv_view view)
{
    for (uint32_t i = 0; i < times; i++) {
        put_planes(p, 1, &view);
    }
}

static inline void put_pairs(problem *p, uint32_t times, pkv_view k, pkv_view v)
{
    const pkv_view pair[2] = {k, v};
    for (uint32_t i = 0; i < times; i++) {
        put_planes(p, 2, pair);
    }
}

static inline const pkv_layout *layer(const problem *p, uint32_t i)
{
    const pkv_layout *l = pkv_reading_layer(p->reading, i);
    assert_non_null(l);
    return l;
}

/* Reads the problem; its first layer. */
static inline const pkv_layout *read_layers(problem *p)
{
    pkv_reading_destroy(p->reading);
    assert_ok(pkv_reading_create(&p->params, &p->refusal, &p->reading));
    assert_int_equal(p->refusal.n_readings, 0);
    return layer(p, 0);
}

static inline void assert_refused(problem *p, pkv_status wanted, const char *part)
{
    pkv_reading *reading = (pkv_reading *)(uintptr_t)1;
    const pkv_status st = pkv_reading_create(&p->params, &p->refusal, &reading);
    assert_status(st, wanted);
    assert_null(reading);
    assert_error_text("pkv_reading_create", part);
    assert_int_equal(p->refusal.n_readings >= 2, wanted == PKV_E_AMBIGUOUS);
}

static inline void end(problem *p)
{
    pkv_reading_destroy(p->reading);
    p->reading = NULL;
}

/* Format and sizes of a layer. */
static inline void assert_geometry(const pkv_layout *l, uint32_t format, uint64_t blocks,
                                   uint64_t tokens, uint64_t heads, uint64_t size)
{
    assert_int_equal(l->format, format);
    assert_int_equal(l->num_blocks, blocks);
    assert_int_equal(l->block_size, tokens);
    assert_int_equal(l->num_heads, heads);
    assert_int_equal(l->head_size, size);
}

static inline void assert_shape(const pkv_layout *l, uint32_t i, const uint64_t *shape, size_t rank)
{
    assert_true(i < l->n_tensors);
    assert_int_equal(l->normalized[i].rank, rank);
    for (size_t k = 0; k < rank; k++) {
        assert_int_equal(l->normalized[i].shape[k], shape[k]);
    }
}

static inline const pkv_layout_group *group_of(const problem *p, uint32_t i)
{
    const pkv_layout_group *g = pkv_reading_group(p->reading, i);
    assert_non_null(g);
    return g;
}

#endif
