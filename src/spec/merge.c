/* merge.c  One spec for a group of layers.
 *
 * Each kind has its own rule, taken from the first layer: full kinds may differ in what does not
 * change a page (window, chunk, causality), latent kinds must agree in what a page means, all
 * others must be equal. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "spec/kind.h"
#include "spec/spec.h"

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Finished specs hold ratios in lowest terms. */
static bool same_ratio(pkv_ratio a, pkv_ratio b)
{
    return a.num == b.num && a.den == b.den;
}

static pkv_status refuse(const pkv_spec *first, const char *what)
{
    return pkvi_fail(PKV_E_ASSERT, "pkv_specs_merge: %s layers differ in %s",
                     pkv_kind_name(first->kind), what);
}

/* Fields of every attention spec that take part in equality. */
static const char *attention_difference(const pkv_spec *a, const pkv_spec *b)
{
    if (a->block_size != b->block_size) return "block_size";
    if (a->dcp_sharded != b->dcp_sharded) return "dcp_sharded";
    if (a->stride_rule != b->stride_rule || a->block_stride_alignment != b->block_stride_alignment)
        return "block_stride_alignment";
    if (a->max_tp_shards != b->max_tp_shards) return "max_tp_shards";
    if (a->num_kv_heads != b->num_kv_heads) return "num_kv_heads";
    if (a->head_size != b->head_size) return "head_size";
    if (a->head_size_v != b->head_size_v) return "head_size_v";
    if (a->dtype != b->dtype) return "dtype";
    if (a->kv_quant_mode != b->kv_quant_mode) return "kv_quant_mode";
    if (a->page_size_padded != b->page_size_padded) return "page_size_padded";
    if (a->num_head_slots != b->num_head_slots) return "num_head_slots";
    if (a->state_content_bytes != b->state_content_bytes) return "state_content_bytes";
    if (!same_ratio(a->tokens_per_state, b->tokens_per_state)) return "tokens_per_state";
    return NULL;
}

static pkv_status same_attention(const pkv_spec *const *specs, size_t n, const pkv_spec *merged)
{
    for (size_t i = 0; i < n; i++) {
        const char *what = attention_difference(specs[i], merged);
        if (what) {
            return refuse(specs[0], what);
        }
    }
    return PKV_OK;
}

static bool all_are(const pkv_spec *const *specs, size_t n, unsigned bits)
{
    for (size_t i = 0; i < n; i++) {
        if (!pkvi_is(specs[i], bits)) {
            return false;
        }
    }
    return true;
}

/* Joins a size that layers may leave open: two different ones cannot share a group. */
static pkv_status join_size(const char *what, uint64_t size, uint64_t *joined)
{
    if (size == 0 || size == *joined) {
        return PKV_OK;
    }
    if (*joined != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_specs_merge: %s %" PRIu64 " and %" PRIu64 " in one group", what,
                         *joined, size);
    }
    *joined = size;
    return PKV_OK;
}

static pkv_status merge_full(const pkv_spec *const *specs, size_t n, pkv_spec *out)
{
    if (!all_are(specs, n, PKVI_IS_FULL)) {
        return refuse(specs[0], "kind");
    }
    for (size_t i = 0; i < n; i++) {
        if (pkvi_is(specs[i], PKVI_IS_MLA)) {
            return refuse(specs[0], "kind (a latent layer among them)");
        }
    }
    pkv_spec merged = *specs[0];
    merged.is_draft = 0;
    if (merged.kind == PKV_KIND_SINK_FULL) {
        merged.tokens_per_state = (pkv_ratio){1, 1}; /* as upstream: other values do not merge */
    }
    /* windows before chunks, whatever the layer: the order in which upstream looks */
    for (size_t i = 0; i < n; i++) {
        PKVI_RETURN_IF(
            join_size("sliding_window", specs[i]->sliding_window, &merged.sliding_window));
    }
    for (size_t i = 0; i < n; i++) {
        PKVI_RETURN_IF(join_size("attention_chunk_size", specs[i]->attention_chunk_size,
                                 &merged.attention_chunk_size));
        merged.non_causal |= specs[i]->non_causal;
    }
    PKVI_RETURN_IF(same_attention(specs, n, &merged));
    if (merged.sliding_window != 0 && merged.attention_chunk_size != 0) {
        return refuse(specs[0], "window and chunk");
    }
    *out = merged;
    return PKV_OK;
}

static pkv_status merge_rswa(const pkv_spec *const *specs, size_t n, pkv_spec *out)
{
    for (size_t i = 0; i < n; i++) {
        if (specs[i]->kind != PKV_KIND_RSWA || specs[i]->rswa_window != specs[0]->rswa_window) {
            return refuse(specs[0], "rswa_window");
        }
    }
    return merge_full(specs, n, out);
}

/* Fields that mean the same page; for latent full and latent sliding layers alike. */
static const char *latent_difference(const pkv_spec *a, const pkv_spec *b)
{
    if (!same_text(a->cache_dtype, b->cache_dtype)) return "cache_dtype_str";
    if (!same_text(a->model_version, b->model_version)) return "model_version";
    if (a->stride_rule != b->stride_rule || a->block_stride_alignment != b->block_stride_alignment)
        return "block_stride_alignment";
    if (!same_ratio(a->tokens_per_state, b->tokens_per_state)) return "tokens_per_state";
    return NULL;
}

/* What survives of an alignment or a mode: only what all agree on. The pad then follows. */
static void keep_common(const pkv_spec *const *specs, size_t n, pkv_spec *merged)
{
    for (size_t i = 1; i < n; i++) {
        if (specs[i]->alignment != specs[0]->alignment) {
            merged->alignment = 0;
        }
        if (specs[i]->kv_quant_mode != specs[0]->kv_quant_mode) {
            merged->kv_quant_mode = PKV_QUANT_NONE;
        }
    }
}

static pkv_status merge_mla(const pkv_spec *const *specs, size_t n, pkv_spec *out)
{
    const pkv_spec *first = specs[0];
    if (!all_are(specs, n, PKVI_IS_MLA)) {
        return refuse(first, "kind");
    }
    pkv_spec merged = *first;
    merged.is_draft = 0;
    for (size_t i = 0; i < n; i++) {
        const char *what = latent_difference(first, specs[i]);
        if (what) return refuse(first, what);
        if (specs[i]->topk_buffer_width != first->topk_buffer_width)
            return refuse(first, "topk_buffer_width");
        if (specs[i]->cache_role != first->cache_role) return refuse(first, "cache_role");
        if (specs[i]->is_index_group_leader != first->is_index_group_leader)
            return refuse(first, "is_index_group_leader");
        if (specs[i]->storage_block_size != first->storage_block_size)
            return refuse(first, "storage_block_size");
        merged.non_causal_multi_token_decode |= specs[i]->non_causal_multi_token_decode;
    }
    merged.sliding_window = merged.attention_chunk_size = 0;
    merged.non_causal = 0;
    merged.head_size_v = 0; /* the merge begins without V, so layers with one do not merge */
    PKVI_RETURN_IF(same_attention(specs, n, &merged));
    keep_common(specs, n, &merged);
    PKVI_RETURN_IF(pkvi_spec_construct(&merged));
    *out = merged;
    return PKV_OK;
}

static pkv_status merge_sliding_mla(const pkv_spec *const *specs, size_t n, pkv_spec *out)
{
    const pkv_spec *first = specs[0];
    for (size_t i = 0; i < n; i++) {
        const pkv_spec *x = specs[i];
        if (x->kind != PKV_KIND_SLIDING_WINDOW_MLA) return refuse(first, "kind");
        const char *what = latent_difference(first, x);
        if (what) return refuse(first, what);
        if (x->sliding_window != first->sliding_window) return refuse(first, "sliding_window");
        if (x->extra_retained_tokens != first->extra_retained_tokens)
            return refuse(first, "extra_retained_tokens");
        if (x->bounded_replay != first->bounded_replay) return refuse(first, "bounded_replay");
        if (x->dcp_sharded != first->dcp_sharded) return refuse(first, "dcp_sharded");
        if (x->max_tp_shards != first->max_tp_shards) return refuse(first, "max_tp_shards");
    }
    pkv_spec merged = *first;
    merged.is_draft = 0;
    merged.head_size_v = 0; /* as in the latent merge, though nothing is compared here */
    keep_common(specs, n, &merged);
    PKVI_RETURN_IF(pkvi_spec_construct(&merged));
    *out = merged;
    return PKV_OK;
}

static pkv_status merge_equal(const pkv_spec *const *specs, size_t n, pkv_spec *out)
{
    for (size_t i = 1; i < n; i++) {
        if (!pkv_spec_equal(specs[0], specs[i])) {
            return refuse(specs[0], "a field, and this kind must be equal");
        }
    }
    *out = *specs[0];
    out->is_draft = 0;
    return PKV_OK;
}

pkv_status pkv_specs_merge(const pkv_spec *const *specs, size_t n, pkv_spec *out)
{
    if (!specs || n == 0 || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_specs_merge: at least one spec and an out are needed");
    }
    switch (specs[0]->kind) {
    case PKV_KIND_FULL:
    case PKV_KIND_SINK_FULL: return merge_full(specs, n, out);
    case PKV_KIND_RSWA: return merge_rswa(specs, n, out);
    case PKV_KIND_MLA:
    case PKV_KIND_HIDDEN_STATE: return merge_mla(specs, n, out);
    case PKV_KIND_SLIDING_WINDOW_MLA: return merge_sliding_mla(specs, n, out);
    default: return merge_equal(specs, n, out);
    }
}

pkv_status pkv_specs_mergeable(const pkv_spec *const *specs, size_t n, bool *out)
{
    pkv_spec merged;
    pkv_status st = pkv_specs_merge(specs, n, &merged);
    if (st != PKV_OK && st != PKV_E_ASSERT) {
        return st;
    }
    *out = st == PKV_OK;
    return PKV_OK;
}
