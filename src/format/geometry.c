/* geometry.c  From the parts of a layer to the bytes where its rows lie. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pkv/spec.h>

#include "base/error.h"
#include "base/math.h"
#include "format/read.h"

enum { INDEXER_VALUE_BYTES = 128, INDEXER_SCALE_BYTES = 4 };

static uint64_t size_along(uint32_t format, const pkv_view *view, pkvi_axis axis)
{
    const int at = pkvi_format_axis(format, axis);
    return at < 0 ? 0 : view->shape[at];
}

/* Bytes from entry to entry. Only an axis of size 1 can have a stride beyond 2^63-1 bytes. */
static uint64_t step_along(uint32_t format, const pkv_view *view, pkvi_axis axis)
{
    const int at = pkvi_format_axis(format, axis);
    uint64_t bytes;
    if (at < 0 || !pkvi_mul(view->strides[at], pkv_dtype_bytes(view->dtype), &bytes)) {
        return 0;
    }
    return bytes;
}

static uint64_t token_step(uint32_t format, const pkv_view *view)
{
    if (format == PKV_FORMAT_NL_X_NB_BSV_BSS) {
        return INDEXER_VALUE_BYTES;
    }
    const bool fused = pkvi_format_axis(format, PKVI_AXIS_NBBS) >= 0;
    return step_along(format, view, fused ? PKVI_AXIS_NBBS : PKVI_AXIS_BS);
}

static pkv_status check_parts(const pkvi_reader *r, uint32_t entry, const pkvi_parts *parts)
{
    const pkvi_format_row *row = pkvi_format_row_of(parts->format);
    for (uint32_t i = 0; i < parts->n; i++) {
        const pkv_view *v = &parts->view[i];
        if (pkvi_view_padded(v) && !pkvi_format_may_pad(r->p.revision, parts->format)) {
            return pkvi_fail(PKV_E_UNSUPPORTED,
                             "pkv_reading_create: layers[%u]: strides[0] is %" PRIu64
                             ", tight is %" PRIu64 ": %s allows no padding",
                             entry, v->strides[0], pkvi_view_inside(v, 0), row->name);
        }
        if (v->dtype != parts->view[0].dtype && parts->n == 2 &&
            parts->format != PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS) {
            return pkvi_fail(PKV_E_VALUE, "pkv_reading_create: layers[%u]: K is %s and V is %s",
                             entry, pkv_dtype_name(parts->view[0].dtype), pkv_dtype_name(v->dtype));
        }
    }
    return PKV_OK;
}

/* Width of all planes in elements of the first. */
static pkv_status planes_width(uint32_t entry, const pkvi_parts *parts, uint64_t *out)
{
    uint64_t sum = 0;
    const uint64_t element = pkv_dtype_bytes(parts->view[0].dtype);
    for (uint32_t i = 0; i < parts->n; i++) {
        const pkv_view *v = &parts->view[i];
        uint64_t bytes;
        if (!pkvi_mul(v->shape[3], pkv_dtype_bytes(v->dtype), &bytes) ||
            !pkvi_add(sum, bytes, &sum)) {
            return pkvi_fail(PKV_E_OVERFLOW, "pkv_reading_create: layers[%u]: width of the planes",
                             entry);
        }
    }
    if (sum % element != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_reading_create: layers[%u]: the planes are %" PRIu64
                         " bytes wide, not a multiple of the first one's elements of %" PRIu64,
                         entry, sum, element);
    }
    *out = sum / element;
    return PKV_OK;
}

static pkv_status fill_sizes(const pkvi_reader *r, uint32_t entry, const pkvi_parts *parts,
                             pkv_layout *out)
{
    const uint32_t f = parts->format;
    const pkv_view *k = &parts->view[0];
    const uint64_t layers = size_along(f, k, PKVI_AXIS_NL);
    const uint64_t heads = size_along(f, k, PKVI_AXIS_NH);
    out->kv_size = pkvi_format_kv_size(r->p.revision, f);
    out->num_blocks = size_along(f, k, PKVI_AXIS_NB);
    out->block_size = size_along(f, k, PKVI_AXIS_BS);
    out->tokens =
        out->num_blocks ? out->num_blocks * out->block_size : size_along(f, k, PKVI_AXIS_NBBS);
    out->num_heads = heads ? heads : 1;
    out->head_size = size_along(f, k, PKVI_AXIS_HS);
    if (f == PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS) {
        PKVI_RETURN_IF(planes_width(entry, parts, &out->head_size));
    }
    if (out->kv_size == 2) {
        out->head_size_v = size_along(f, &parts->view[parts->n - 1], PKVI_AXIS_HS);
    }
    out->hidden_dim = out->num_heads * out->head_size;
    for (uint32_t i = 0; i < parts->n; i++) {
        if (!pkvi_add(out->elements, pkvi_view_elements(&parts->view[i]), &out->elements)) {
            return pkvi_fail(PKV_E_OVERFLOW, "pkv_reading_create: layers[%u]: its elements", entry);
        }
    }
    out->elements /= layers ? layers : 1;
    return PKV_OK;
}

static void fill_places(const pkvi_parts *parts, uint64_t layer, pkv_layout *out)
{
    const uint32_t f = parts->format;
    const pkv_view *k = &parts->view[0];
    out->offset = k->offset * pkv_dtype_bytes(k->dtype);
    if (layer > 0) {
        out->offset += layer * step_along(f, k, PKVI_AXIS_NL);
    }
    out->block_stride = step_along(f, k, PKVI_AXIS_NB);
    out->token_stride = token_step(f, k);
    out->head_stride = step_along(f, k, PKVI_AXIS_NH);
    out->own_v = parts->n == 2 && f != PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS;
    if (out->own_v) {
        const pkv_view *v = &parts->view[1];
        out->v =
            (pkv_layout_v){v->offset * pkv_dtype_bytes(v->dtype), step_along(f, v, PKVI_AXIS_NB),
                           token_step(f, v), step_along(f, v, PKVI_AXIS_NH)};
    } else if (out->kv_size == 2) {
        out->kv_stride = step_along(f, k, PKVI_AXIS_TWO);
    }
}

pkv_status pkvi_layout_build(const pkvi_reader *r, uint32_t entry, const pkvi_parts *parts,
                             uint64_t layer, pkv_layout *out)
{
    PKVI_RETURN_IF(check_parts(r, entry, parts));
    *out = (pkv_layout){
        .format = parts->format,
        .group = PKV_LAYOUT_NO_GROUP,
        .engine_group = PKV_LAYOUT_NO_GROUP,
        .dtype = parts->view[0].dtype,
        .known = 1,
        .is_mla = pkvi_format_row_of(parts->format)->is_mla,
        .dense = 1,
        .n_tensors = parts->n,
        .odd_order = r->odd_order[entry],
    };
    for (uint32_t i = 0; i < parts->n; i++) {
        out->normalized[i] = parts->view[i];
        out->tensor[i] = parts->tensor[i];
        out->dense = out->dense && pkvi_view_dense(&parts->view[i]);
    }
    PKVI_RETURN_IF(fill_sizes(r, entry, parts, out));
    fill_places(parts, layer, out);
    return PKV_OK;
}

bool pkvi_layout_fits(const pkv_layout *layout, const pkv_format_hints *hints, char text[120])
{
    const char *name = "num_kv_heads";
    uint64_t is = layout->num_heads, want = hints->num_kv_heads;
    bool fits = want == 0 || want == is;
    if (!layout->known || pkvi_format_axis(layout->format, PKVI_AXIS_NH) < 0) {
        return true;
    }
    if (fits && hints->tokens_per_block != 0 && layout->block_size != 0) {
        name = "tokens_per_block";
        is = layout->block_size, want = hints->tokens_per_block;
        fits = is == want;
    }
    if (fits && hints->head_dim != 0) {
        const bool packed = pkvi_format_axis(layout->format, PKVI_AXIS_CS) >= 0;
        name = "head_dim";
        is = layout->head_size, want = hints->head_dim;
        fits = packed ? is >= want : is == want;
    }
    if (!fits) {
        (void)snprintf(text, 120, "%s has %s %" PRIu64 ", the hint says %" PRIu64,
                       pkvi_format_row_of(layout->format)->name, name, is, want);
    }
    return fits;
}

static pkv_status check_layout(const char *function, const pkv_layout *layout)
{
    if (!layout->known || layout->format >= PKV_N_FORMATS ||
        layout->n_tensors > PKV_LAYOUT_MAX_TENSORS) {
        return pkvi_fail(PKV_E_VALUE, "%s: the layer is in no group and was not looked at",
                         function);
    }
    return PKV_OK;
}

pkv_status pkv_layout_check(const pkv_layout *layout, pkv_view_form *form_out)
{
    pkv_view_form worst = PKV_VIEW_DENSE, form;
    if (!layout || !form_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_layout_check: an argument is NULL");
    }
    PKVI_RETURN_IF(check_layout("pkv_layout_check", layout));
    for (uint32_t i = 0; i < layout->n_tensors; i++) {
        PKVI_RETURN_IF(pkv_view_check(&layout->normalized[i], &form));
        worst = form > worst ? form : worst;
    }
    *form_out = worst;
    return PKV_OK;
}

/* ---- planes ---- */

static pkv_plane plane_of(const pkv_layout *l, uint32_t i, uint64_t row_bytes)
{
    return (pkv_plane){.offset = l->offset,
                       .block_stride = l->num_blocks ? l->block_stride : l->token_stride,
                       .token_stride = l->token_stride,
                       .head_stride = l->head_stride,
                       .heads = l->num_heads,
                       .row_bytes = row_bytes,
                       .buffer = l->tensor[i]};
}

/* Planes of a layer whose format has its own rule; false: it has none. */
static bool special_planes(const pkv_layout *l, pkv_plane *planes, uint32_t *n)
{
    if (l->format == PKV_FORMAT_NL_X_NB_BSV_BSS) {
        planes[0] = plane_of(l, 0, INDEXER_VALUE_BYTES);
        planes[1] = plane_of(l, 0, INDEXER_SCALE_BYTES);
        planes[1].offset += l->block_size * INDEXER_VALUE_BYTES;
        planes[1].token_stride = INDEXER_SCALE_BYTES;
        *n = 2;
        return true;
    }
    if (l->format != PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS) {
        return false;
    }
    for (uint32_t i = 0; i < l->n_tensors; i++) {
        const pkv_view *v = &l->normalized[i];
        const uint64_t element = pkv_dtype_bytes(v->dtype);
        planes[i] = plane_of(l, i, v->shape[3] * element);
        planes[i].offset = v->offset * element;
        planes[i].block_stride = step_along(l->format, v, PKVI_AXIS_NB);
        planes[i].token_stride = step_along(l->format, v, PKVI_AXIS_BS);
    }
    *n = l->n_tensors;
    return true;
}

pkv_status pkv_layout_planes(const pkv_layout *layout, pkv_plane planes[PKV_LAYOUT_MAX_TENSORS],
                             pkv_layer_pages *pages_out)
{
    if (!layout || !planes || !pages_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_layout_planes: an argument is NULL");
    }
    PKVI_RETURN_IF(check_layout("pkv_layout_planes", layout));
    if (layout->odd_order) {
        return pkvi_fail(
            PKV_E_UNSUPPORTED,
            "pkv_layout_planes: odd_order is 1: nothing is moved by names of axes that "
            "may be wrong");
    }
    uint32_t n = 1;
    const uint64_t element = pkv_dtype_bytes(layout->dtype);
    if (!special_planes(layout, planes, &n)) {
        planes[0] = plane_of(layout, 0, layout->head_size * element);
        if (layout->kv_size == 2) {
            planes[n] = plane_of(layout, layout->own_v, layout->head_size_v * element);
            planes[n].offset += layout->kv_stride;
            n++;
        }
        if (layout->own_v) {
            planes[1].offset = layout->v.offset;
            planes[1].block_stride =
                layout->num_blocks ? layout->v.block_stride : layout->v.token_stride;
            planes[1].token_stride = layout->v.token_stride;
            planes[1].head_stride = layout->v.head_stride;
        }
    }
    *pages_out = (pkv_layer_pages){
        .planes = planes,
        .n_planes = n,
        .num_blocks = layout->num_blocks ? layout->num_blocks : layout->tokens,
        .block_size = layout->num_blocks ? layout->block_size : 1,
    };
    return PKV_OK;
}
