/* group.c  Layers that one descriptor can stand for, and the pointers that go with it. */
#include <string.h>

#include <pkv/spec.h>

#include "base/error.h"
#include "base/math.h"
#include "format/read.h"
#include "format/reading.h"

static bool is_cross(uint32_t format)
{
    return pkvi_format_row_of(format)->structure == PKV_FORMAT_CROSS_LAYER;
}

static bool is_kv_list(uint32_t format)
{
    return pkvi_format_row_of(format)->structure == PKV_FORMAT_KV_LIST;
}

/* Equal shape, dtype and strides; the stride of an axis of size 1 says nothing. */
static bool same_view(const pkv_view *a, const pkv_view *b)
{
    if (a->rank != b->rank || a->dtype != b->dtype) {
        return false;
    }
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->shape[i] != b->shape[i] || (a->shape[i] != 1 && a->strides[i] != b->strides[i])) {
            return false;
        }
    }
    return true;
}

static bool same_layout(const pkv_layout *a, const pkv_layout *b)
{
    if (a->engine_group != b->engine_group || a->format != b->format ||
        a->n_tensors != b->n_tensors) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        if (!same_view(&a->normalized[i], &b->normalized[i])) {
            return false;
        }
    }
    return true;
}

/* Whether kernels find the bytes by a descriptor: tight inside a block, K and V alike. */
static bool describable(const pkv_layout *l)
{
    if (l->num_blocks == 0 || (l->head_size_v != 0 && l->head_size_v != l->head_size)) {
        return false;
    }
    for (uint32_t i = 0; i < l->n_tensors; i++) {
        const pkv_view *v = &l->normalized[i];
        for (uint32_t axis = 1; axis < v->rank; axis++) {
            if (v->shape[axis] != 1 && v->strides[axis] != pkvi_view_inside(v, axis)) {
                return false;
            }
        }
    }
    return !l->own_v || same_view(&l->normalized[0], &l->normalized[1]);
}

static pkv_page_desc desc_of(uint32_t revision, const pkv_layout *l, uint32_t n_layers)
{
    const bool pads = pkvi_format_may_pad(revision, l->format);
    return (pkv_page_desc){
        .kv_size = l->kv_size,
        .nl = n_layers,
        .nb = l->num_blocks ? l->num_blocks : l->tokens,
        .bs = l->num_blocks ? l->block_size : 1,
        .nh = l->is_mla ? 1 : l->num_heads,
        .hs = l->head_size,
        .element_size = pkv_dtype_bytes(l->dtype),
        .block_stride_elems = pads ? l->normalized[0].strides[0] : 0,
    };
}

static pkv_tensor_pointer pointer_of(const pkv_layout *l, uint32_t i)
{
    const pkv_view *v = &l->normalized[i];
    return (pkv_tensor_pointer){l->tensor[i], v->offset * pkv_dtype_bytes(v->dtype)};
}

/* Room for PKV_LAYOUT_MAX_TENSORS * n; all of one format. */
static uint32_t collect(const pkv_layout *layers, const uint32_t *numbers, uint32_t n,
                        pkv_tensor_pointer *out)
{
    const pkv_layout *first = &layers[numbers[0]];
    uint32_t n_out = 0;
    if (is_cross(first->format)) {
        out[0] = pointer_of(first, 0);
        return 1;
    }
    if (is_kv_list(first->format)) {
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < n; i++) {
                out[n_out++] = pointer_of(&layers[numbers[i]], k);
            }
        }
        return n_out;
    }
    for (uint32_t i = 0; i < n; i++) {
        const pkv_layout *l = &layers[numbers[i]];
        for (uint32_t k = 0; k < l->n_tensors; k++) {
            out[n_out++] = pointer_of(l, k);
        }
    }
    return n_out;
}

/* Gives each layer the number of its group; returns how many there are. first[g]: of its layers. */
static uint32_t number_groups(pkv_reading *reading, uint32_t *first)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < reading->n_layers; i++) {
        pkv_layout *l = &reading->layers[i];
        if (!l->known || l->engine_group == PKV_LAYOUT_NO_GROUP) {
            continue;
        }
        uint32_t g = n; /* most often the layer before is alike */
        while (g > 0 && !same_layout(&reading->layers[first[g - 1]], l)) {
            g--;
        }
        if (g == 0) {
            first[n++] = i;
            g = n;
        }
        l->group = g - 1;
    }
    return n;
}

static pkv_status fill_group(pkv_reading *reading, uint32_t number, uint32_t first)
{
    pkv_layout_group *g = &reading->groups[number];
    const pkv_layout *l = &reading->layers[first];
    uint32_t n = 0;
    for (uint32_t i = first; i < reading->n_layers; i++) {
        n += reading->layers[i].group == number;
    }
    uint32_t *layers = pkvi_arena_get(&reading->memory, n, sizeof *layers);
    pkv_tensor_pointer *pointers =
        pkvi_arena_get(&reading->memory, (size_t)n * l->n_tensors, sizeof *pointers);
    if (!layers || !pointers) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_reading_create: out of memory for %u layers of a group",
                         n);
    }
    *g = (pkv_layout_group){.engine_group = l->engine_group,
                            .layers = layers,
                            .pointers = pointers,
                            .has_desc = describable(l),
                            .desc = desc_of(reading->revision, l, n)};
    for (uint32_t i = first; i < reading->n_layers; i++) {
        if (reading->layers[i].group == number) {
            layers[g->n_layers++] = i;
        }
    }
    g->n_pointers = collect(reading->layers, layers, n, pointers);
    return PKV_OK;
}

pkv_status pkvi_reading_group(pkv_reading *reading)
{
    uint32_t *first = pkvi_arena_get(&reading->memory, reading->n_layers, sizeof *first);
    if (!first) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_reading_create: out of memory for groups");
    }
    reading->n_groups = number_groups(reading, first);
    reading->groups = pkvi_arena_get(&reading->memory, reading->n_groups, sizeof *reading->groups);
    if (!reading->groups) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_reading_create: out of memory for groups");
    }
    for (uint32_t g = 0; g < reading->n_groups; g++) {
        PKVI_RETURN_IF(fill_group(reading, g, first[g]));
    }
    return PKV_OK;
}

/* ---- what a reading holds ---- */

uint32_t pkv_reading_n_layers(const pkv_reading *reading)
{
    return reading->n_layers;
}

const pkv_layout *pkv_reading_layer(const pkv_reading *reading, uint32_t layer)
{
    return layer < reading->n_layers ? &reading->layers[layer] : NULL;
}

uint32_t pkv_reading_n_groups(const pkv_reading *reading)
{
    return reading->n_groups;
}

const pkv_layout_group *pkv_reading_group(const pkv_reading *reading, uint32_t group)
{
    return group < reading->n_groups ? &reading->groups[group] : NULL;
}

pkv_status pkv_reading_pointers(const pkv_reading *reading, const uint32_t *layers, uint32_t n,
                                pkv_tensor_pointer *out, uint32_t *n_out)
{
    if (!reading || !layers || n == 0 || !out || !n_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_reading_pointers: n is %u, or an argument is NULL", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (layers[i] >= reading->n_layers || !reading->layers[layers[i]].known) {
            return PKV_E_NOT_FOUND;
        }
    }
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t first = reading->layers[layers[0]].format;
        const uint32_t here = reading->layers[layers[i]].format;
        if (here != first) {
            return pkvi_fail(PKV_E_VALUE, "pkv_reading_pointers: layer %u is %s, layer %u is %s",
                             layers[i], pkvi_format_row_of(here)->name, layers[0],
                             pkvi_format_row_of(first)->name);
        }
    }
    *n_out = collect(reading->layers, layers, n, out);
    return PKV_OK;
}
