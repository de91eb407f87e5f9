/* recover.c  The order of a tensor's axes in memory, as far as an engine may have written it.
 *
 * Axes are sorted by stride, which undoes the permutation of a logical view. The stride of an axis
 * of size 1 says nothing and is replaced by the one that its place would give it, unless all of
 * them make sense in one of the orders. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "format/read.h"

bool pkvi_wants_hnd(const pkvi_reader *r)
{
    switch (r->p.hints.layout) {
    case PKV_LAYOUT_AUTO: return r->p.on_cpu != 0;
    case PKV_LAYOUT_LBHNC:
    case PKV_LAYOUT_BLHNC: return true;
    default: return r->seed && r->p.on_cpu != 0;
    }
}

bool pkvi_told_hnd(const pkvi_reader *r)
{
    const uint32_t layout = r->p.hints.layout;
    return layout == PKV_LAYOUT_AUTO || layout == PKV_LAYOUT_LBHNC || layout == PKV_LAYOUT_BLHNC;
}

bool pkvi_wants_view(const pkvi_reader *r)
{
    return r->p.hints.layout == PKV_LAYOUT_LHBNC || r->p.hints.layout == PKV_LAYOUT_BHLNC;
}

pkv_status pkvi_ambiguous(const pkvi_reader *r, uint32_t entry, const char *decides,
                          const char *first, const char *second)
{
    pkv_refusal *refusal = r->refusal;
    refusal->n_readings = 2;
    (void)snprintf(refusal->readings[0], sizeof refusal->readings[0], "%s", first);
    (void)snprintf(refusal->readings[1], sizeof refusal->readings[1], "%s", second);
    return pkvi_fail(PKV_E_AMBIGUOUS,
                     "pkv_reading_create: layers[%u]: two readings: %s; or %s; needed: hint %s",
                     entry, first, second, decides);
}

bool pkvi_exchanged(const pkv_view *view)
{
    if (view->rank != 4 && view->rank != 5) {
        return false;
    }
    const uint32_t i = view->rank - 3;
    return view->shape[i] > 1 && view->shape[i + 1] > 1 && view->strides[i] < view->strides[i + 1];
}

/* Whether an order puts the second of the two middle axes outside of the first. */
static bool exchanges(const uint8_t *order, uint32_t rank)
{
    return (rank == 4 || rank == 5) && order[rank - 3] == rank - 2;
}

/* Whether the tensor lies in this order and also the strides of its axes of size 1 are those of
 * their places. They alone may exchange tokens and heads, as in [NB, 1, BS, CS] of one head as
 * vLLM's NHD pages are shown, but not against the layout. */
static bool fits_order(const pkv_view *given, const uint8_t *order, bool hnd, pkv_view *out)
{
    const uint32_t rank = given->rank;
    *out = pkvi_view_permuted(given, order);
    if (!pkvi_view_in_order(given, order) || !pkvi_view_ones_fit(out) ||
        !pkvi_view_tight_inside(out)) {
        return false;
    }
    const bool by_one =
        exchanges(order, rank) && (given->shape[rank - 3] == 1 || given->shape[rank - 2] == 1);
    return !by_one || hnd == (rank == 5);
}

/* Whether only the stride of an axis of size 1 explains the holes, by moving that axis, and hints
 * say what the axes are: then the tensor contradicts itself rather than that no format has it. */
static bool contradicts(const pkvi_reader *r, const pkv_view *given)
{
    const pkv_format_hints *h = &r->p.hints;
    const pkv_view sorted = pkvi_view_sorted(given);
    return (h->num_kv_heads || h->tokens_per_block || h->head_dim) && !r->seed &&
           pkvi_view_tight_inside(&sorted);
}

pkv_status pkvi_recover(const pkvi_reader *r, uint32_t entry, uint32_t k,
                        const uint8_t (*orders)[PKV_MAX_AXES], uint32_t n_orders, bool hnd,
                        pkv_view *out)
{
    const pkv_view *given = &r->p.layers[entry].tensors[k];
    const pkv_view natural = pkvi_view_natural(given);
    bool known = false;
    for (uint32_t i = 0; i < n_orders; i++) {
        known = known || pkvi_view_in_order(&natural, orders[i]);
    }
    r->odd_order[entry] |= !known;
    if (!known && !r->seed) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: tensor %u: its axes lie in memory in an "
                         "order that no engine writes; strides [%" PRIu64 ", %" PRIu64 ", ...]",
                         entry, k, given->strides[0], given->strides[1]);
    }
    for (uint32_t i = 0; i < n_orders && !r->seed; i++) {
        if (fits_order(given, orders[i], hnd, out)) {
            return PKV_OK;
        }
    }
    *out = pkvi_view_sorted(&natural);
    if (!pkvi_view_tight_inside(out)) {
        return pkvi_fail(
            contradicts(r, given) ? PKV_E_VALUE : PKV_E_UNSUPPORTED,
            "pkv_reading_create: layers[%u]: tensor %u has holes inside of a block, or "
            "blocks over each other; strides [%" PRIu64 ", %" PRIu64
            ", ...] in memory order, the first at least %" PRIu64,
            entry, k, out->strides[0], out->strides[1], pkvi_view_inside(out, 0));
    }
    return PKV_OK;
}

pkv_status pkvi_recover_plain(const pkvi_reader *r, uint32_t entry, uint32_t k, pkv_view *out)
{
    static const uint8_t plain[1][PKV_MAX_AXES] = {{0, 1, 2, 3, 4, 5, 6, 7}};
    return pkvi_recover(r, entry, k, plain, 1, false, out);
}
