/* engines.c  SGLang's lists, TensorRT-LLM's pool, ATOM's list. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/math.h"
#include "format/read.h"

static const pkv_view *tensor_of(const pkvi_reader *r, uint32_t entry, uint32_t k)
{
    return &r->p.layers[entry].tensors[k];
}

/* Blocks of tokens in a fused axis. */
static pkv_status check_divides(const pkvi_reader *r, uint32_t entry, const pkv_view *v)
{
    const uint64_t tokens = r->p.hints.tokens_per_block;
    if (v->shape[0] % tokens != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_reading_create: layers[%u]: %" PRIu64
                         " tokens are no multiple of tokens_per_block %" PRIu64,
                         entry, v->shape[0], tokens);
    }
    return PKV_OK;
}

/* ---- SGLang ---- */

/* A component of a unified list: latent, or K or V alone. */
static pkv_status read_unified(const pkvi_reader *r, uint32_t entry, pkvi_parts *parts)
{
    const pkv_view *given = tensor_of(r, entry, 0);
    if (r->seed || (given->rank != 3 && given->rank != 4)) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: rank %u in a unified list", entry,
                         given->rank);
    }
    if (given->rank == 4 && pkvi_wants_hnd(r)) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: no format has a unified list with heads "
                         "outside tokens",
                         entry);
    }
    parts->format = given->rank == 3 ? PKV_FORMAT_NL_X_NB_BS_HS : PKV_FORMAT_NL_X_NB_BS_NH_HS;
    return pkvi_recover_plain(r, entry, 0, &parts->view[0]);
}

pkv_status pkvi_read_sglang_entry(const pkvi_reader *r, uint32_t entry, pkv_layout *out)
{
    const pkv_view *given = tensor_of(r, entry, 0);
    pkvi_parts parts = {.n = 1, .tensor[0] = r->first_tensor[entry]};
    if (r->p.hints.list == PKV_LIST_UNIFIED) {
        PKVI_RETURN_IF(read_unified(r, entry, &parts));
        return pkvi_layout_build(r, entry, &parts, 0, out);
    }
    if (given->rank != 3 || given->shape[1] != 1) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: rank %u, %" PRIu64
                         " heads: a flat list without the hint list is read as latents "
                         "[tokens, 1, width] only",
                         entry, given->rank, given->rank >= 2 ? given->shape[1] : 1);
    }
    PKVI_RETURN_IF(pkvi_recover_plain(r, entry, 0, &parts.view[0]));
    if (parts.view[0].shape[1] != 1) { /* the seed sorts axes by their strides */
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: in memory order the second axis is "
                         "%" PRIu64 ": latents are [tokens, 1, width]",
                         entry, parts.view[0].shape[1]);
    }
    parts.format = PKV_FORMAT_NL_X_NBBS_ONE_HS;
    if (r->p.hints.tokens_per_block != 0) {
        PKVI_RETURN_IF(check_divides(r, entry, &parts.view[0]));
        parts.format = PKV_FORMAT_NL_X_NB_BS_HS;
        const pkv_view cut = pkvi_view_cut(&parts.view[0], 0, r->p.hints.tokens_per_block);
        parts.view[0] = pkvi_view_without(&cut, 2);
    }
    return pkvi_layout_build(r, entry, &parts, 0, out);
}

/* All but the last axis of K and V are equal. */
static pkv_status check_pair(uint32_t entry, const pkv_view *k, const pkv_view *v)
{
    for (uint32_t i = 0; i + 1 < k->rank; i++) {
        if (k->rank != v->rank || k->shape[i] != v->shape[i]) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_reading_create: layers[%u]: shape[%u] of K is %" PRIu64
                             ", of V %" PRIu64,
                             entry, i, k->shape[i], v->shape[i]);
        }
    }
    return PKV_OK;
}

/* What hints say of the middle axes of all K and V: whether each order agrees with them. */
static void orders_that_fit(const pkvi_reader *r, bool fits[2])
{
    const pkv_format_hints *h = &r->p.hints;
    fits[0] = fits[1] = true;
    for (uint32_t i = 0; i < r->p.n_layers; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            const uint64_t *shape = tensor_of(r, i, k)->shape;
            for (uint32_t hnd = 0; hnd < 2; hnd++) {
                const uint64_t tokens = shape[hnd ? 2 : 1], heads = shape[hnd ? 1 : 2];
                if ((h->tokens_per_block != 0 && h->tokens_per_block != tokens) ||
                    (h->num_kv_heads != 0 && h->num_kv_heads != heads)) {
                    fits[hnd] = false;
                }
            }
        }
    }
}

static pkv_status order_by_hints(const pkvi_reader *r, bool *hnd_out)
{
    bool fits[2];
    char text[2][160];
    const pkv_format_hints *h = &r->p.hints;
    const uint64_t *shape = tensor_of(r, 0, 0)->shape;
    orders_that_fit(r, fits);
    const bool told = h->tokens_per_block != 0 || h->num_kv_heads != 0;
    if (told && !fits[0] && !fits[1]) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_reading_create: [%" PRIu64 ", %" PRIu64 ", %" PRIu64
                         ", ...] has tokens_per_block %" PRIu64 " and num_kv_heads %" PRIu64
                         " in no order (0: not given)",
                         shape[0], shape[1], shape[2], h->tokens_per_block, h->num_kv_heads);
    }
    if (!told || (fits[0] && fits[1])) {
        for (int hnd = 0; hnd < 2; hnd++) {
            (void)snprintf(text[hnd], sizeof text[hnd],
                           "TWO_X_NL_X_NB_BS_NH_HS with %" PRIu64 " tokens, %" PRIu64
                           " heads, %s outside",
                           shape[hnd ? 2 : 1], shape[hnd ? 1 : 2], hnd ? "heads" : "tokens");
        }
        return pkvi_ambiguous(r, 0, "layout, num_kv_heads or tokens_per_block", text[0], text[1]);
    }
    *hnd_out = fits[1];
    return PKV_OK;
}

pkv_status pkvi_sglang_order(const pkvi_reader *r, bool *hnd_out)
{
    const uint32_t rank = tensor_of(r, 0, 0)->rank;
    *hnd_out = false;
    for (uint32_t i = 0; i < r->p.n_layers; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t is = tensor_of(r, i, k)->rank;
            if (is != rank || (is != 3 && is != 4)) {
                return pkvi_fail(PKV_E_UNSUPPORTED,
                                 "pkv_reading_create: layers[%u]: rank %u: lists of K and V hold "
                                 "[tokens, heads, size], or all [blocks, tokens, heads, size]",
                                 i, is);
            }
        }
    }
    if (rank == 4) {
        if (pkvi_wants_view(r)) {
            return pkvi_fail(PKV_E_UNSUPPORTED,
                             "pkv_reading_create: no list of SGLang has layout %s",
                             pkv_kv_layout_name(r->p.hints.layout));
        }
        if (r->p.hints.layout != PKV_LAYOUT_AUTO) {
            *hnd_out = pkvi_wants_hnd(r);
        } else {
            PKVI_RETURN_IF(order_by_hints(r, hnd_out));
        }
    }
    if (*hnd_out && r->seed) {
        return pkvi_fail(PKV_E_UNSUPPORTED, "pkv_reading_create: the seed has no list of K and V "
                                            "with heads outside tokens");
    }
    return PKV_OK;
}

pkv_status pkvi_read_sglang_pair(const pkvi_reader *r, uint32_t entry, bool hnd, pkv_layout *out)
{
    static const uint8_t tokens_outside[PKV_MAX_AXES] = {0, 2, 1, 3};
    pkvi_parts parts = {.n = 2};
    for (uint32_t k = 0; k < 2; k++) {
        PKVI_RETURN_IF(pkvi_recover_plain(r, entry, k, &parts.view[k]));
        parts.tensor[k] = r->first_tensor[entry] + k;
        if (hnd) {
            parts.view[k] = pkvi_view_permuted(&parts.view[k], tokens_outside);
        }
    }
    PKVI_RETURN_IF(check_pair(entry, &parts.view[0], &parts.view[1]));
    parts.format = parts.view[0].rank == 3 ? PKV_FORMAT_TWO_X_NL_X_NBBS_NH_HS
                                           : PKV_FORMAT_TWO_X_NL_X_NB_BS_NH_HS;
    return pkvi_layout_build(r, entry, &parts, 0, out);
}

pkv_status pkvi_read_sglang_halves(const pkvi_reader *r, uint32_t entry, pkv_layout *out)
{
    const uint32_t half = r->p.n_layers / 2;
    const uint64_t tokens = r->p.hints.tokens_per_block;
    pkvi_parts parts = {.n = 2, .format = PKV_FORMAT_TWO_X_NL_X_NBBS_NH_HS};
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t at = entry + k * half;
        PKVI_RETURN_IF(pkvi_recover_plain(r, at, 0, &parts.view[k]));
        r->odd_order[entry] |= r->odd_order[at];
        parts.tensor[k] = r->first_tensor[at];
        if (tokens != 0) {
            PKVI_RETURN_IF(check_divides(r, at, &parts.view[k]));
        }
    }
    PKVI_RETURN_IF(check_pair(entry, &parts.view[0], &parts.view[1]));
    if (tokens == 0) {
        return pkvi_layout_build(r, entry, &parts, 0, out);
    }
    parts.format = PKV_FORMAT_TWO_X_NL_X_NB_BS_NH_HS;
    for (uint32_t k = 0; k < 2; k++) {
        if (pkvi_view_padded(&parts.view[k])) {
            return pkvi_fail(PKV_E_UNSUPPORTED,
                             "pkv_reading_create: layers[%u]: holes between the tokens of a list "
                             "of K and V",
                             entry + k * half);
        }
        parts.view[k] = pkvi_view_cut(&parts.view[k], 0, tokens);
    }
    return pkvi_layout_build(r, entry, &parts, 0, out);
}

/* ---- TensorRT-LLM, ATOM ---- */

/* [NB, NL, 2, flat] as [NB, NL, 2, NH, BS, HS]. */
static pkv_status unfold(const pkvi_reader *r, pkv_view *v)
{
    const pkv_format_hints *h = &r->p.hints;
    uint64_t rows, product;
    if (h->num_kv_heads == 0 || h->tokens_per_block == 0 || h->head_dim == 0) {
        char whole[160];
        (void)snprintf(whole, sizeof whole,
                       "NB_NL_TWO_NH_BS_HS with heads * tokens * size = %" PRIu64, v->shape[3]);
        return pkvi_ambiguous(r, 0, "num_kv_heads, tokens_per_block and head_dim", whole,
                              "any factors of it");
    }
    if (!pkvi_mul(h->num_kv_heads, h->tokens_per_block, &rows) ||
        !pkvi_mul(rows, h->head_dim, &product) || product != v->shape[3]) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_reading_create: the last axis is %" PRIu64
                         ", not num_kv_heads %" PRIu64 " * tokens_per_block %" PRIu64
                         " * head_dim %" PRIu64,
                         v->shape[3], h->num_kv_heads, h->tokens_per_block, h->head_dim);
    }
    const pkv_view heads = pkvi_view_cut(v, 3, h->tokens_per_block * h->head_dim);
    *v = pkvi_view_cut(&heads, 4, h->head_dim);
    return PKV_OK;
}

pkv_status pkvi_read_trtllm(const pkvi_reader *r, pkvi_parts *out)
{
    const uint32_t rank = tensor_of(r, 0, 0)->rank;
    *out = (pkvi_parts){.format = PKV_FORMAT_NB_NL_TWO_NH_BS_HS, .n = 1};
    if (rank != 4 && rank != 6) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: TensorRT-LLM's pool has rank %u: 4 or 6 was expected",
                         rank);
    }
    PKVI_RETURN_IF(pkvi_recover_plain(r, 0, 0, &out->view[0]));
    return rank == 4 ? unfold(r, &out->view[0]) : PKV_OK;
}

pkv_status pkvi_read_atom_entry(const pkvi_reader *r, uint32_t entry, pkv_layout *out)
{
    pkvi_parts parts = {.n = 1, .format = PKV_FORMAT_NL_X_NB_BS_HS};
    parts.tensor[0] = r->first_tensor[entry];
    if (tensor_of(r, entry, 0)->rank != 3) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: layers[%u]: rank %u: ATOM's caches are [NB, BS, HS]",
                         entry, tensor_of(r, entry, 0)->rank);
    }
    PKVI_RETURN_IF(pkvi_recover_plain(r, entry, 0, &parts.view[0]));
    return pkvi_layout_build(r, entry, &parts, 0, out);
}
