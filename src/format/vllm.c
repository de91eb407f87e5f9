/* vllm.c  vLLM's caches: one tensor a layer, planes, or one tensor for all layers.
 *
 * The engine shows logical shapes, [.., tokens, heads, size] up to 0.25 and [B, H, N, C] since, and
 * strides say how they lie. Read is the order in memory. Which of the two middle axes holds tokens
 * is the layout's to say, and nothing in the tensor contradicts a wrong one but strides that
 * exchange them, and hints. */
#include <inttypes.h>
#include <stdio.h>

#include <pkv/spec.h>

#include "base/error.h"
#include "format/read.h"

enum { INDEXER_BYTES = 132 };

static const uint8_t list_orders[][PKV_MAX_AXES] = {
    {0, 1, 2, 3, 4, 5, 6, 7},
    {0, 1, 3, 2, 4}, /* tokens and heads exchanged */
    {1, 0, 2, 3, 4}, /* blocks outside of K and V, shown the other way round */
    {1, 0, 3, 2, 4},
};
static const uint8_t packed_orders[][PKV_MAX_AXES] = {{0, 1, 2, 3}, {0, 2, 1, 3}};

static bool is_indexer(const pkv_view *v)
{
    return v->dtype == PKV_DTYPE_UINT8 && v->shape[v->rank - 1] == INDEXER_BYTES;
}

static pkvi_parts one_part(const pkvi_reader *r, uint32_t entry, uint32_t format,
                           const pkv_view *view)
{
    pkvi_parts parts = {.format = format, .n = 1, .view[0] = *view};
    parts.tensor[0] = r->first_tensor[entry];
    return parts;
}

/* The seed sees two readings only where the strides as given, those of axes of size 1 included, put
 * the axes of 2 there. */
static bool seed_sees(const pkvi_reader *r, uint32_t entry, uint32_t axis)
{
    return !r->seed || pkvi_view_sorted(&r->p.layers[entry].tensors[0]).shape[axis] == 2;
}

/* [NB, 2, ..] that may be two heads, or the slots of K and V. */
static pkv_status check_slots(const pkvi_reader *r, uint32_t entry, const pkv_view *v, bool hnd)
{
    char heads[160], slots[160];
    const uint64_t tokens = v->shape[hnd ? 2 : 1], width = v->shape[3];
    if (v->shape[hnd ? 1 : 2] != 2 || r->p.hints.num_kv_heads != 0 || !seed_sees(r, entry, 1)) {
        return PKV_OK;
    }
    (void)snprintf(
        heads, sizeof heads, "%s with %" PRIu64 " tokens, 2 heads, K and V of a head in %" PRIu64,
        pkvi_format_row_of(hnd ? PKV_FORMAT_NL_X_NB_NH_BS_CS : PKV_FORMAT_NL_X_NB_BS_NH_CS)->name,
        tokens, width);
    (void)snprintf(slots, sizeof slots,
                   "%" PRIu64 " tokens, a slot of %" PRIu64 " for K and one for V", tokens, width);
    return pkvi_ambiguous(r, entry, "num_kv_heads", heads, slots);
}

static pkv_status read_rank4(const pkvi_reader *r, uint32_t entry, bool hnd, pkvi_parts *out)
{
    pkv_view v;
    PKVI_RETURN_IF(pkvi_recover(r, entry, 0, packed_orders, 2, hnd, &v));
    if (v.shape[hnd ? 1 : 2] == 1 && is_indexer(&v)) {
        const pkv_view flat = pkvi_view_without(&v, hnd ? 1 : 2);
        *out = one_part(r, entry, PKV_FORMAT_NL_X_NB_BSV_BSS, &flat);
        return PKV_OK;
    }
    *out = one_part(r, entry, hnd ? PKV_FORMAT_NL_X_NB_NH_BS_CS : PKV_FORMAT_NL_X_NB_BS_NH_CS, &v);
    return check_slots(r, entry, &v, hnd);
}

/* Rank 4 before 0.26: K and V are halves of a row, heads outside tokens. */
static pkv_status read_rank4_seed(const pkvi_reader *r, uint32_t entry, pkvi_parts *out)
{
    pkv_view v;
    PKVI_RETURN_IF(pkvi_recover_plain(r, entry, 0, &v));
    if (v.shape[3] % 2 != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_reading_create: layers[%u]: a row of %" PRIu64
                         " cannot be split into K and V",
                         entry, v.shape[3]);
    }
    if (!pkvi_told_hnd(r) || pkvi_exchanged(&r->p.layers[entry].tensors[0])) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: the seed knows rank 4 with heads "
                         "outside tokens only",
                         entry);
    }
    PKVI_RETURN_IF(check_slots(r, entry, &v, true));
    v = pkvi_view_cut(&v, 3, v.shape[3] / 2);
    *out = one_part(r, entry, PKV_FORMAT_NL_X_NB_NH_BS_TWO_HS, &v);
    return PKV_OK;
}

/* Which axis of rank 5 is K/V: 0, 1, or 2 for neither. */
static pkv_status find_kv_axis(const pkvi_reader *r, uint32_t entry, const pkv_view *v, bool hnd,
                               uint32_t *axis_out)
{
    const uint32_t hint = r->p.hints.kv_axis;
    *axis_out = v->shape[0] == 2 ? 0 : v->shape[1] == 2 ? 1 : 2;
    if (v->shape[0] != 2 || v->shape[1] != 2 || !seed_sees(r, entry, 0) ||
        !seed_sees(r, entry, 1)) {
        return PKV_OK;
    }
    if (hint == PKV_KV_AXIS_UNKNOWN) {
        return pkvi_ambiguous(r, entry, "kv_axis",
                              hnd ? "NL_X_TWO_NB_NH_BS_HS: K and V outside, 2 blocks"
                                  : "NL_X_TWO_NB_BS_NH_HS: K and V outside, 2 blocks",
                              hnd ? "NL_X_NB_TWO_NH_BS_HS: 2 blocks outside, K and V in each"
                                  : "NL_X_NB_TWO_BS_NH_HS: 2 blocks outside, K and V in each");
    }
    if (r->seed && hint == PKV_KV_AXIS_SECOND) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: the seed takes the first axis of 2 for "
                         "K/V, kv_axis says the second",
                         entry);
    }
    *axis_out = hint == PKV_KV_AXIS_SECOND ? 1 : 0;
    return PKV_OK;
}

static pkv_status read_rank5(const pkvi_reader *r, uint32_t entry, bool hnd, pkvi_parts *out)
{
    static const uint32_t formats[2][2] = {
        {PKV_FORMAT_NL_X_TWO_NB_BS_NH_HS, PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS},
        {PKV_FORMAT_NL_X_NB_TWO_BS_NH_HS, PKV_FORMAT_NL_X_NB_TWO_NH_BS_HS}};
    const pkv_view *given = &r->p.layers[entry].tensors[0];
    const bool pair = given->shape[0] == 2 || given->shape[1] == 2;
    pkv_view v;
    uint32_t axis;
    PKVI_RETURN_IF(pkvi_recover(r, entry, 0, list_orders, pair ? 4 : 2, hnd, &v));
    PKVI_RETURN_IF(find_kv_axis(r, entry, &v, hnd, &axis));
    if (axis == 2) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: rank 5 with [%" PRIu64 ", %" PRIu64
                         ", ...] has no axis of K and V",
                         entry, v.shape[0], v.shape[1]);
    }
    *out = one_part(r, entry, formats[axis][hnd], &v);
    return PKV_OK;
}

static pkv_status read_rank3(const pkvi_reader *r, uint32_t entry, pkvi_parts *out)
{
    pkv_view v;
    PKVI_RETURN_IF(pkvi_recover_plain(r, entry, 0, &v));
    const bool indexer = !r->seed && is_indexer(&v);
    *out = one_part(r, entry, indexer ? PKV_FORMAT_NL_X_NB_BSV_BSS : PKV_FORMAT_NL_X_NB_BS_HS, &v);
    return PKV_OK;
}

static pkv_status read_rank6(const pkvi_reader *r, uint32_t entry, pkvi_parts *out)
{
    pkv_view v;
    PKVI_RETURN_IF(pkvi_recover_plain(r, entry, 0, &v));
    if (r->seed || v.shape[0] != 2 || v.shape[3] != 1) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: rank 6 is read as [2, NB, NH, 1, BS, HS] "
                         "only",
                         entry);
    }
    *out = one_part(r, entry, PKV_FORMAT_NL_X_TWO_NB_NH_ONE_BS_HS, &v);
    return PKV_OK;
}

/* [B, H, N, C] as its strides say, for layouts in which a layer is no run of pages. */
static pkv_status read_by_strides(const pkvi_reader *r, uint32_t entry, pkvi_parts *out)
{
    static const uint8_t orders[2][PKV_MAX_AXES] = {{1, 0, 2, 3}, {0, 1, 2, 3}};
    const bool heads_first = r->p.hints.layout == PKV_LAYOUT_LHBNC;
    const pkv_view *given = &r->p.layers[entry].tensors[0];
    pkv_view_form form;
    if (given->rank != 4 || r->seed) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: layout %s is read from [B, H, N, C] only",
                         entry, pkv_kv_layout_name(r->p.hints.layout));
    }
    PKVI_RETURN_IF(pkv_view_check(given, &form));
    const pkv_view v = pkvi_view_natural(given);
    const bool tight =
        (v.shape[3] == 1 || v.strides[3] == 1) && (v.shape[2] == 1 || v.strides[2] == v.shape[3]);
    if (form == PKV_VIEW_OVERLAPPING || !tight || !pkvi_view_in_order(&v, orders[!heads_first])) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: strides [%" PRIu64 ", %" PRIu64
                         ", %" PRIu64 ", %" PRIu64 "] are not those of layout %s",
                         entry, v.strides[0], v.strides[1], v.strides[2], v.strides[3],
                         pkv_kv_layout_name(r->p.hints.layout));
    }
    *out = one_part(r, entry, PKV_FORMAT_NL_X_NB_NH_BS_CS, &v);
    return check_slots(r, entry, &v, true);
}

pkv_status pkvi_read_vllm_entry(const pkvi_reader *r, uint32_t entry, bool hnd, pkv_layout *out)
{
    const uint32_t rank = r->p.layers[entry].tensors[0].rank;
    pkvi_parts parts;
    if (pkvi_wants_view(r)) {
        PKVI_RETURN_IF(read_by_strides(r, entry, &parts));
        return pkvi_layout_build(r, entry, &parts, 0, out);
    }
    if (r->seed && r->p.on_cpu && !pkvi_told_hnd(r) && (rank == 4 || rank == 5)) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_reading_create: layers[%u]: the seed has heads outside tokens on a "
                         "CPU, layout %s has not",
                         entry, pkv_kv_layout_name(r->p.hints.layout));
    }
    switch (rank) {
    case 3: PKVI_RETURN_IF(read_rank3(r, entry, &parts)); break;
    case 4:
        PKVI_RETURN_IF(r->seed ? read_rank4_seed(r, entry, &parts)
                               : read_rank4(r, entry, hnd, &parts));
        break;
    case 5: PKVI_RETURN_IF(read_rank5(r, entry, hnd, &parts)); break;
    case 6: PKVI_RETURN_IF(read_rank6(r, entry, &parts)); break;
    default:
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: vLLM has no cache of rank %u", entry,
                         rank);
    }
    return pkvi_layout_build(r, entry, &parts, 0, out);
}

/* ---- planes: one layer as several tensors ---- */

static pkv_status check_planes(uint32_t entry, const pkvi_parts *parts)
{
    for (uint32_t i = 1; i < parts->n; i++) {
        for (uint32_t axis = 0; axis < 3; axis++) {
            const uint64_t is = parts->view[i].shape[axis], want = parts->view[0].shape[axis];
            if (is != want) {
                return pkvi_fail(PKV_E_VALUE,
                                 "pkv_reading_create: layers[%u]: shape[%u] of tensor %u is "
                                 "%" PRIu64 ", the first one's is %" PRIu64,
                                 entry, axis, i, is, want);
            }
        }
    }
    return PKV_OK;
}

/* K and V, or a latent with what belongs to it. */
static pkv_status planes_format(const pkvi_reader *r, uint32_t entry, pkvi_parts *parts)
{
    const uint32_t kind = r->p.hints.planes;
    const bool one_head = parts->view[0].shape[2] == 1;
    if (one_head && parts->n == 2 && kind == PKV_PLANES_UNKNOWN) {
        char kv[160], latent[160];
        (void)snprintf(kv, sizeof kv,
                       "NL_X_TWO_X_NB_BS_NH_HS: K of %" PRIu64 " and V of %" PRIu64 ", one head",
                       parts->view[0].shape[3], parts->view[1].shape[3]);
        (void)snprintf(latent, sizeof latent,
                       "NL_X_NP_X_NB_BS_ONE_HS: latent of %" PRIu64 " and rope of %" PRIu64,
                       parts->view[0].shape[3], parts->view[1].shape[3]);
        return pkvi_ambiguous(r, entry, "kind", kv, latent);
    }
    if (one_head && (parts->n != 2 || kind == PKV_PLANES_MLA)) {
        parts->format = PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS;
    } else if (parts->n == 2) {
        parts->format = PKV_FORMAT_NL_X_TWO_X_NB_BS_NH_HS;
    } else {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: %u planes of %" PRIu64
                         " heads: two planes, or one head, were expected",
                         entry, parts->n, parts->view[0].shape[2]);
    }
    return PKV_OK;
}

pkv_status pkvi_read_vllm_planes(const pkvi_reader *r, uint32_t entry, pkv_layout *out)
{
    const pkv_engine_layer *e = &r->p.layers[entry];
    pkvi_parts parts = {.n = e->n_tensors};
    if (r->seed || pkvi_wants_view(r) || e->n_tensors > PKV_LAYOUT_MAX_TENSORS) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: %u tensors: no format has such a list",
                         entry, e->n_tensors);
    }
    for (uint32_t i = 0; i < parts.n; i++) {
        if (e->tensors[i].rank != 4) {
            return pkvi_fail(PKV_E_UNSUPPORTED,
                             "pkv_reading_create: layers[%u]: tensor %u has rank %u: planes are "
                             "[NB, BS, NH, HS]",
                             entry, i, e->tensors[i].rank);
        }
        PKVI_RETURN_IF(pkvi_recover_plain(r, entry, i, &parts.view[i]));
        parts.tensor[i] = r->first_tensor[entry] + i;
    }
    PKVI_RETURN_IF(check_planes(entry, &parts));
    PKVI_RETURN_IF(planes_format(r, entry, &parts));
    return pkvi_layout_build(r, entry, &parts, 0, out);
}

/* ---- one tensor for all layers ---- */

pkv_status pkvi_read_vllm_cross(const pkvi_reader *r, pkvi_parts *out)
{
    static const uint8_t orders[2][PKV_MAX_AXES] = {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 4, 3, 5}};
    const bool hnd = !r->seed && pkvi_wants_hnd(r);
    pkv_view v;
    if (r->p.layers[0].tensors[0].rank != 6 || pkvi_wants_view(r)) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: a tensor of all layers has rank %u: [NB, NL, 2, BS, "
                         "NH, HS] was expected",
                         r->p.layers[0].tensors[0].rank);
    }
    PKVI_RETURN_IF(pkvi_recover(r, 0, 0, orders, hnd ? 2 : 1, hnd, &v));
    *out = one_part(r, 0, hnd ? PKV_FORMAT_NB_NL_TWO_NH_BS_HS : PKV_FORMAT_NB_NL_TWO_BS_NH_HS, &v);
    return PKV_OK;
}
