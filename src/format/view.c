/* view.c  Strides of one tensor. The stride of an axis of size 1 is never used as a distance. */
#include "format/view.h"

#include <inttypes.h>
#include <string.h>

#include <pkv/spec.h>

#include "base/error.h"
#include "base/math.h"

static pkv_status check_sizes(const char *function, const pkv_view *v, uint32_t element)
{
    uint64_t last = v->offset, elements = 1, bytes;
    for (uint32_t i = 0; i < v->rank; i++) {
        uint64_t reach;
        if (v->shape[i] == 0) {
            return pkvi_fail(PKV_E_INVAL, "%s: shape[%u] is 0, at least 1 was expected", function,
                             i);
        }
        if (!pkvi_mul(elements, v->shape[i], &elements) ||
            !pkvi_mul(v->shape[i] - 1, v->strides[i], &reach) || !pkvi_add(last, reach, &last)) {
            return pkvi_fail(PKV_E_OVERFLOW,
                             "%s: shape[%u] %" PRIu64 ", strides[%u] %" PRIu64
                             ": more than 2^63-1 elements",
                             function, i, v->shape[i], i, v->strides[i]);
        }
    }
    if (!pkvi_add(last, 1, &last) || !pkvi_mul(pkvi_max(last, elements), element, &bytes)) {
        return pkvi_fail(PKV_E_OVERFLOW,
                         "%s: the last of %" PRIu64 " elements ends beyond 2^63-1 bytes", function,
                         elements);
    }
    return PKV_OK;
}

pkv_status pkvi_view_fields(const char *function, const pkv_view *view, bool any_rank)
{
    if (!view) {
        return pkvi_fail(PKV_E_INVAL, "%s: view is NULL", function);
    }
    const uint32_t element = pkv_dtype_bytes(view->dtype);
    if (element == 0) {
        return pkvi_fail(PKV_E_INVAL, "%s: dtype is %u, a pkv_dtype was expected", function,
                         view->dtype);
    }
    if (view->rank == 0 || (view->rank > PKV_MAX_AXES && !any_rank)) {
        return pkvi_fail(PKV_E_INVAL, "%s: rank is %u, 1 to %d was expected", function, view->rank,
                         PKV_MAX_AXES);
    }
    return view->rank > PKV_MAX_AXES ? PKV_OK : check_sizes(function, view, element);
}

uint64_t pkvi_view_inside(const pkv_view *view, uint32_t axis)
{
    uint64_t n = 1;
    for (uint32_t i = axis + 1; i < view->rank; i++) {
        n *= view->shape[i];
    }
    return n;
}

uint64_t pkvi_view_elements(const pkv_view *view)
{
    return view->shape[0] * pkvi_view_inside(view, 0);
}

/* A stride that only an axis of size 1 can have may be as large as one likes. */
static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return pkvi_mul(a, b, &product) ? product : PKVI_SIZE_MAX;
}

pkv_view pkvi_view_natural(const pkv_view *view)
{
    pkv_view v = *view;
    for (uint32_t left = v.rank; left > 0; left--) {
        const uint32_t i = left - 1;
        if (v.shape[i] == 1) {
            v.strides[i] = i + 1 == v.rank ? 1 : saturating_mul(v.strides[i + 1], v.shape[i + 1]);
        }
    }
    return v;
}

bool pkvi_view_in_order(const pkv_view *view, const uint8_t *order)
{
    uint64_t before = UINT64_MAX;
    for (uint32_t i = 0; i < view->rank; i++) {
        const uint8_t axis = order[i];
        if (view->shape[axis] == 1) {
            continue;
        }
        if (view->strides[axis] > before) {
            return false;
        }
        before = view->strides[axis];
    }
    return true;
}

pkv_view pkvi_view_permuted(const pkv_view *view, const uint8_t *order)
{
    pkv_view v = *view;
    for (uint32_t i = 0; i < v.rank; i++) {
        v.shape[i] = view->shape[order[i]];
        v.strides[i] = view->strides[order[i]];
    }
    return v;
}

static bool lies_inside(const pkv_view *v, uint8_t a, uint8_t b)
{
    return v->strides[a] < v->strides[b] ||
           (v->strides[a] == v->strides[b] && v->shape[a] == 1 && v->shape[b] != 1);
}

pkv_view pkvi_view_sorted(const pkv_view *view)
{
    uint8_t order[PKV_MAX_AXES];
    for (uint8_t i = 0; i < view->rank; i++) {
        uint8_t at = i;
        for (; at > 0 && lies_inside(view, order[at - 1], i); at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    return pkvi_view_permuted(view, order);
}

bool pkvi_view_tight_inside(const pkv_view *view)
{
    for (uint32_t i = 1; i < view->rank; i++) {
        if (view->shape[i] != 1 && view->strides[i] != pkvi_view_inside(view, i)) {
            return false;
        }
    }
    return view->shape[0] == 1 || view->strides[0] >= pkvi_view_inside(view, 0);
}

bool pkvi_view_padded(const pkv_view *view)
{
    return view->shape[0] != 1 && view->strides[0] > pkvi_view_inside(view, 0);
}

bool pkvi_view_dense(const pkv_view *view)
{
    const pkv_view v = pkvi_view_sorted(view);
    uint64_t n = 1;
    for (uint32_t left = v.rank; left > 0; left--) {
        const uint32_t i = left - 1;
        if (v.shape[i] == 1) {
            continue;
        }
        if (v.strides[i] != n) {
            return false;
        }
        n *= v.shape[i];
    }
    return true;
}

bool pkvi_view_ones_fit(const pkv_view *view)
{
    for (uint32_t i = 0; i < view->rank; i++) {
        const uint64_t fit =
            i + 1 == view->rank ? 1 : saturating_mul(view->strides[i + 1], view->shape[i + 1]);
        if (view->shape[i] == 1 && view->strides[i] != fit) {
            return false;
        }
    }
    return true;
}

pkv_view pkvi_view_cut(const pkv_view *view, uint32_t axis, uint64_t inner)
{
    pkv_view v = *view;
    const uint32_t after = view->rank - axis - 1;
    memmove(&v.shape[axis + 2], &view->shape[axis + 1], after * sizeof *v.shape);
    memmove(&v.strides[axis + 2], &view->strides[axis + 1], after * sizeof *v.strides);
    v.shape[axis] = view->shape[axis] / inner;
    v.shape[axis + 1] = inner;
    v.strides[axis] = saturating_mul(view->strides[axis], inner);
    v.strides[axis + 1] = view->strides[axis];
    v.rank++;
    return v;
}

pkv_view pkvi_view_without(const pkv_view *view, uint32_t axis)
{
    pkv_view v = *view;
    v.rank--;
    for (uint32_t i = axis; i < v.rank; i++) {
        v.shape[i] = view->shape[i + 1];
        v.strides[i] = view->strides[i + 1];
    }
    v.shape[v.rank] = v.strides[v.rank] = 0;
    return v;
}

/* ---- public ---- */

pkv_status pkv_view_row_major(pkv_view *view)
{
    uint64_t n = 1;
    if (!view || view->rank == 0 || view->rank > PKV_MAX_AXES) {
        return pkvi_fail(PKV_E_INVAL, "pkv_view_row_major: rank is %u, 1 to %d was expected",
                         view ? view->rank : 0, PKV_MAX_AXES);
    }
    for (uint32_t left = view->rank; left > 0; left--) {
        const uint32_t i = left - 1;
        view->strides[i] = n;
        if (!pkvi_mul(n, view->shape[i], &n)) {
            return pkvi_fail(PKV_E_OVERFLOW,
                             "pkv_view_row_major: shape[%u] is %" PRIu64
                             ": more than 2^63-1 elements",
                             i, view->shape[i]);
        }
    }
    return PKV_OK;
}

pkv_status pkv_view_check(const pkv_view *view, pkv_view_form *form_out)
{
    PKVI_RETURN_IF(pkvi_view_fields("pkv_view_check", view, false));
    if (!form_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_view_check: form_out is NULL");
    }
    const pkv_view v = pkvi_view_sorted(view);
    uint64_t length = 1; /* from the first element of the inner axes to behind their last */
    bool holes = false;
    for (uint32_t left = v.rank; left > 0; left--) {
        const uint32_t i = left - 1;
        if (v.shape[i] == 1) {
            continue;
        }
        if (v.strides[i] < length) {
            *form_out = PKV_VIEW_OVERLAPPING;
            return PKV_OK;
        }
        holes = holes || v.strides[i] > length;
        length += (v.shape[i] - 1) * v.strides[i];
    }
    *form_out = holes ? PKV_VIEW_PADDED : PKV_VIEW_DENSE;
    return PKV_OK;
}

pkv_status pkv_view_check_contiguous(const pkv_view *view)
{
    PKVI_RETURN_IF(pkvi_view_fields("pkv_view_check_contiguous", view, false));
    if (view->offset != 0) {
        return pkvi_fail(PKV_E_VALUE, "pkv_view_check_contiguous: offset is %" PRIu64 ", not 0",
                         view->offset);
    }
    for (uint32_t i = 0; i < view->rank; i++) {
        const uint64_t tight = pkvi_view_inside(view, i);
        if (view->shape[i] != 1 && view->strides[i] != tight) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_view_check_contiguous: strides[%u] is %" PRIu64
                             ", a row-major tensor has %" PRIu64,
                             i, view->strides[i], tight);
        }
    }
    return PKV_OK;
}

/* Entries 0 and 1 of an axis of 2, without that axis. */
static void take_pair(const pkv_view *view, uint32_t axis, pkv_view out[2])
{
    const pkv_view from = *view;
    for (uint64_t i = 0; i < 2; i++) {
        out[i] = pkvi_view_without(&from, axis);
        out[i].offset = from.offset + i * from.strides[axis];
    }
}

pkv_status pkv_view_split(const pkv_view *view, pkv_view kv_out[2])
{
    PKVI_RETURN_IF(pkvi_view_fields("pkv_view_split", view, true));
    if (!kv_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_view_split: kv_out is NULL");
    }
    if (view->rank != 3 || (view->shape[0] != 2 && view->shape[1] != 2)) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_view_split: rank %u: [2, T, D] or [T, 2, D] was expected",
                         view->rank);
    }
    take_pair(view, view->shape[0] == 2 ? 0 : 1, kv_out);
    return PKV_OK;
}

/* [P, B, ...] as rows of tokens. */
static pkv_status rows_of(const pkv_view *v, pkv_token_rows *out)
{
    uint64_t n = 1;
    for (uint32_t i = v->rank; i-- > 2;) {
        if (v->shape[i] != 1 && v->strides[i] != n) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_view_token_rows: a token's row has holes: stride %" PRIu64
                             " where %" PRIu64 " is tight",
                             v->strides[i], n);
        }
        n *= v->shape[i];
    }
    *out = (pkv_token_rows){
        .tokens = v->shape[0] * v->shape[1],
        .row = n,
        .offset = v->offset,
        .block_size = v->shape[1],
        .token_pitch = v->strides[1],
        .block_pitch = v->strides[0],
        .flat = v->shape[0] == 1 || v->shape[1] == 1 ||
                v->strides[0] == saturating_mul(v->strides[1], v->shape[1]),
    };
    return PKV_OK;
}

/* The K/V axis of a tensor of rank 5. */
static pkv_status pair_axis(const pkv_view *v, uint64_t format, uint32_t *axis_out)
{
    if (v->rank != 5) {
        return pkvi_fail(PKV_E_VALUE, "pkv_view_token_rows: rank is %u, 5 was expected", v->rank);
    }
    switch (format) {
    case PKV_ANY_FORMAT: *axis_out = v->shape[0] == 2 ? 0 : 1; break;
    case PKV_FORMAT_NL_X_TWO_NB_BS_NH_HS: *axis_out = 0; break;
    case PKV_FORMAT_NL_X_NB_TWO_BS_NH_HS: *axis_out = 1; break;
    default:
        return pkvi_fail(PKV_E_NOTIMPL, "pkv_view_token_rows: format %" PRIu64 ": only 1 and 2",
                         format);
    }
    if (v->shape[*axis_out] != 2) {
        return pkvi_fail(PKV_E_VALUE, "pkv_view_token_rows: shape[%u] is %" PRIu64 ", not K and V",
                         *axis_out, v->shape[*axis_out]);
    }
    return PKV_OK;
}

pkv_status pkv_view_token_rows(const pkv_view *views, uint32_t n_views, bool mla, uint64_t format,
                               pkv_token_rows rows_out[2], uint32_t *n_rows_out)
{
    pkv_view kv[2];
    if (!views || n_views < 1 || n_views > 2 || !rows_out || !n_rows_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_view_token_rows: %u views, or an argument is NULL",
                         n_views);
    }
    for (uint32_t i = 0; i < n_views; i++) {
        PKVI_RETURN_IF(pkvi_view_fields("pkv_view_token_rows", &views[i], true));
        kv[i] = views[i];
    }
    if (mla) {
        if (n_views != 1 || views[0].rank != 3) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_view_token_rows: %u views of rank %u: one [P, B, HS] was "
                             "expected",
                             n_views, views[0].rank);
        }
        PKVI_RETURN_IF(rows_of(&views[0], &rows_out[0]));
        *n_rows_out = 1;
        return PKV_OK;
    }
    if (n_views == 2) {
        if (kv[0].rank != 4 || kv[1].rank != 4 ||
            memcmp(kv[0].shape, kv[1].shape, 4 * sizeof *kv[0].shape) != 0) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_view_token_rows: K and V of rank %u and %u: two of [P, B, NH, "
                             "HS] were expected",
                             kv[0].rank, kv[1].rank);
        }
    } else {
        uint32_t axis;
        PKVI_RETURN_IF(pair_axis(&views[0], format, &axis));
        take_pair(&views[0], axis, kv);
    }
    PKVI_RETURN_IF(rows_of(&kv[0], &rows_out[0]));
    PKVI_RETURN_IF(rows_of(&kv[1], &rows_out[1]));
    *n_rows_out = 2;
    return PKV_OK;
}
