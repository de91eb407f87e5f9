/* plan_fixture.h  What the tests of specs and plans share: small specs, and plans of them. */
#ifndef PLAN_FIXTURE_H
#define PLAN_FIXTURE_H

#include "fixture.h"

#include <pkv/plan.h>

#define GIB INT64_C(1073741824)
#define SIZE_LIMIT UINT64_C(0x7fffffffffffffff) /* 2^63-1: no size exceeds it */

/* ---- specs ---- */

/* A spec of a kind with the shape of its pages; the rest is the kind's default. */
static inline pkv_spec shaped(uint32_t kind, uint64_t block_size, uint64_t heads,
                              uint64_t head_size, uint32_t dtype)
{
    pkv_spec spec;
    assert_ok(pkv_spec_init(&spec, kind));
    spec.block_size = block_size;
    spec.num_kv_heads = heads;
    spec.head_size = head_size;
    spec.dtype = dtype;
    return spec;
}

static inline pkv_spec finished(pkv_spec spec)
{
    assert_ok(pkv_spec_finish(&spec));
    return spec;
}

/* The reference's "full": 16 tokens, 8 heads of 128, bfloat16: 16 x 8 x (128 + 128) x 2 = 65536
 * bytes a page. */
static inline pkv_spec full(void)
{
    return finished(shaped(PKV_KIND_FULL, 16, 8, 128, PKV_DTYPE_BFLOAT16));
}

/* A full layer of another shape. */
static inline pkv_spec full_of(uint64_t block_size, uint64_t heads)
{
    return finished(shaped(PKV_KIND_FULL, block_size, heads, 128, PKV_DTYPE_BFLOAT16));
}

/* "full" behind a window; "SW(w)". */
static inline pkv_spec windowed_of(uint64_t window, uint64_t block_size, uint64_t heads)
{
    pkv_spec spec = shaped(PKV_KIND_SLIDING_WINDOW, block_size, heads, 128, PKV_DTYPE_BFLOAT16);
    spec.sliding_window = window;
    return finished(spec);
}

static inline pkv_spec windowed(uint64_t window)
{
    return windowed_of(window, 16, 8);
}

static inline pkv_spec chunked(uint64_t chunk)
{
    pkv_spec spec = shaped(PKV_KIND_CHUNKED_LOCAL, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.attention_chunk_size = chunk;
    return finished(spec);
}

/* A latent layer: one head, no V. */
static inline pkv_spec latent(uint64_t block_size, uint64_t head_size)
{
    return finished(shaped(PKV_KIND_MLA, block_size, 1, head_size, PKV_DTYPE_BFLOAT16));
}

/* A ring of `rows` rows of `row` elements of two bytes. */
static inline pkv_spec ring_of(uint64_t rows, uint64_t row)
{
    pkv_spec spec = shaped(PKV_KIND_CIRCULAR_BUFFER, rows, 1, row, PKV_DTYPE_BFLOAT16);
    spec.head_size_v = 0;
    return finished(spec);
}

/* The states of row 23: 4 x 64 x 2 + 8 x 32 x 16 x 4 = 512 + 16384 = 16896 bytes. */
static const pkv_state two_states[] = {{PKV_DTYPE_BFLOAT16, 2, {4, 64}},
                                       {PKV_DTYPE_FLOAT32, 3, {8, 32, 16}}};

/* A recurrent layer, not finished. */
static inline pkv_spec recurrent(uint64_t block_size)
{
    pkv_spec spec;
    assert_ok(pkv_spec_init(&spec, PKV_KIND_MAMBA));
    spec.block_size = block_size;
    spec.states = two_states;
    spec.n_states = 2;
    return spec;
}

/* Two one-byte states of that many bytes in all. */
static inline pkv_spec recurrent_of(uint64_t block_size, pkv_state *state, uint64_t bytes)
{
    pkv_spec spec = recurrent(block_size);
    *state = (pkv_state){PKV_DTYPE_UINT8, 1, {bytes}};
    spec.states = state;
    spec.n_states = 1;
    return spec;
}

/* ---- quantities that must exist ---- */

static inline uint64_t page_of(const pkv_spec *spec)
{
    uint64_t bytes;
    assert_ok(pkv_spec_page_bytes(spec, &bytes));
    return bytes;
}

static inline pkv_limits limits_of(uint64_t len, uint64_t in_flight)
{
    return (pkv_limits){.max_model_len = len, .max_in_flight_tokens = in_flight, .dcp = 1};
}

/* Pages that one request holds at most. */
static inline uint64_t pages_held(const pkv_spec *spec, const pkv_limits *limits)
{
    uint64_t bytes;
    assert_ok(pkv_spec_max_memory_bytes(spec, limits, &bytes));
    assert_int_equal(bytes % page_of(spec), 0);
    return bytes / page_of(spec);
}

/* ---- plans ---- */

static inline pkv_plan_params params_of(const pkv_spec *layers, size_t n, int64_t bytes,
                                        uint64_t len)
{
    pkv_plan_params params;
    pkv_plan_params_init(&params);
    params.layers = layers;
    params.n_layers = (uint32_t)n;
    params.available_bytes = bytes;
    params.max_model_len = len;
    return params;
}

/* A plan that must exist. */
static inline pkv_plan *plan_of(const pkv_plan_params *params)
{
    pkv_plan *plan;
    assert_ok(pkv_plan_create(params, &plan));
    return plan;
}

/* Refused with that status and a text that holds `part`; nothing is returned. */
static inline void assert_no_plan(const pkv_plan_params *params, pkv_status status,
                                  const char *part)
{
    pkv_plan *plan = (pkv_plan *)(uintptr_t)1;
    const pkv_status st = pkv_plan_create(params, &plan);
    if (st != status) {
        fail_msg("%s instead of %s: %s", pkv_status_name(st), pkv_status_name(status),
                 st == PKV_OK ? "" : pkv_last_error());
    }
    assert_null(plan);
    assert_error_text("pkv_plan_create", part);
}

static inline uint32_t n_groups(const pkv_plan *plan)
{
    return pkv_plan_worker_at(plan, 0)->n_groups;
}

/* The spec of the first class of a group. */
static inline const pkv_spec *group_spec(const pkv_plan *plan, uint32_t g)
{
    return pkv_plan_group_at(plan, 0, g)->classes[0].spec;
}

/* The groups of a stage as lists of layer numbers: "(0 3)(1 4)(2 5)". */
static inline void assert_groups_on(const pkv_plan *plan, uint32_t w, const char *wanted)
{
    char text[512];
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t g = 0; g < pkv_plan_worker_at(plan, w)->n_groups; g++) {
        const pkv_group *group = pkv_plan_group_at(plan, w, g);
        for (uint32_t i = 0; i < group->n_layers && len < sizeof text; i++) {
            len += (size_t)snprintf(text + len, sizeof text - len, i ? " %" PRIu32 : "(%" PRIu32,
                                    group->layers[i]);
        }
        if (len < sizeof text) {
            len += (size_t)snprintf(text + len, sizeof text - len, group->n_layers ? ")" : "()");
        }
    }
    assert_string_equal(text, wanted);
}

static inline void assert_groups(const pkv_plan *plan, const char *wanted)
{
    assert_groups_on(plan, 0, wanted);
}

static inline void assert_tensor(const pkv_plan *plan, uint32_t t, uint64_t offset,
                                 uint64_t layer_stride, uint64_t block_stride)
{
    const pkv_tensor *tensor = pkv_plan_tensor_at(plan, 0, t);
    assert_non_null(tensor);
    assert_int_equal(tensor->offset, offset);
    assert_int_equal(tensor->layer_stride, layer_stride);
    assert_int_equal(tensor->block_stride, block_stride);
}

static inline void assert_near(double value, double wanted, double tolerance)
{
    if (!(value >= wanted - tolerance && value <= wanted + tolerance)) {
        fail_msg("%.9f is not %.9f", value, wanted);
    }
}

#endif
