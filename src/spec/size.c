/* size.c  How large a page is, and how many of them one request needs.
 *
 * Formulas: vLLM 0.33 kv_cache_interface. A page is heads x states x content bytes; a request holds
 * as many blocks as its kind keeps alive at once. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "spec/kind.h"
#include "spec/spec.h"

static pkv_status overflow(const char *function, const pkv_spec *spec)
{
    return pkvi_fail(PKV_E_OVERFLOW, "%s: %s of block_size %" PRIu64 ": the size exceeds 2^63-1",
                     function, pkv_kind_name(spec->kind), spec->block_size);
}

pkv_status pkv_spec_num_heads(const pkv_spec *spec, uint64_t *out)
{
    if (spec->kind == PKV_KIND_MAMBA) {
        *out = 1;
        return PKV_OK;
    }
    if (!pkvi_is(spec, PKVI_IS_ATTENTION)) {
        return PKV_E_NOT_FOUND;
    }
    *out = spec->num_head_slots != 0 ? spec->num_head_slots : spec->num_kv_heads;
    return PKV_OK;
}

pkv_status pkv_spec_kernel_states(const pkv_spec *spec, uint64_t tokens, uint64_t *out)
{
    if (spec->kind == PKV_KIND_MAMBA) {
        *out = 1;
        return PKV_OK;
    }
    if (!pkvi_is(spec, PKVI_IS_ATTENTION)) {
        return PKV_E_NOT_FOUND;
    }
    uint64_t scaled;
    if (!pkvi_mul(tokens, spec->tokens_per_state.den, &scaled)) {
        return overflow("pkv_spec_kernel_states", spec);
    }
    *out = scaled / spec->tokens_per_state.num;
    return PKV_OK;
}

pkv_status pkv_spec_num_states(const pkv_spec *spec, uint64_t *out)
{
    return pkv_spec_kernel_states(spec, spec->block_size, out);
}

static pkv_status mamba_content(const pkv_spec *spec, uint64_t *out)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < spec->n_states; i++) {
        uint64_t bytes = pkv_dtype_bytes(spec->states[i].dtype);
        for (uint32_t d = 0; d < spec->states[i].rank; d++) {
            if (!pkvi_mul(bytes, spec->states[i].dims[d], &bytes)) {
                return overflow("pkv_spec_state_content_bytes", spec);
            }
        }
        if (!pkvi_add(sum, bytes, &sum)) {
            return overflow("pkv_spec_state_content_bytes", spec);
        }
    }
    *out = sum;
    return PKV_OK;
}

pkv_status pkv_spec_state_content_bytes(const pkv_spec *spec, uint64_t *out)
{
    if (spec->kind == PKV_KIND_MAMBA) {
        return mamba_content(spec, out);
    }
    if (!pkvi_is(spec, PKVI_IS_ATTENTION)) {
        return PKV_E_NOT_FOUND;
    }
    if (spec->state_content_bytes != 0) {
        *out = spec->state_content_bytes;
        return PKV_OK;
    }
    uint64_t elements;
    if (!pkvi_add(spec->head_size, spec->head_size_v, &elements) ||
        !pkvi_mul(elements, pkv_dtype_bytes(spec->dtype), out)) {
        return overflow("pkv_spec_state_content_bytes", spec);
    }
    return PKV_OK;
}

pkv_status pkv_spec_unpadded_page_bytes(const pkv_spec *spec, uint64_t *out)
{
    if (spec->kind == PKV_KIND_MAMBA) {
        return mamba_content(spec, out);
    }
    uint64_t heads, states, content;
    PKVI_RETURN_IF(pkv_spec_num_heads(spec, &heads));
    PKVI_RETURN_IF(pkv_spec_num_states(spec, &states));
    PKVI_RETURN_IF(pkv_spec_state_content_bytes(spec, &content));
    if (!pkvi_mul(heads, states, &heads) || !pkvi_mul(heads, content, out)) {
        return overflow("pkv_spec_unpadded_page_bytes", spec);
    }
    return PKV_OK;
}

pkv_status pkv_spec_page_bytes(const pkv_spec *spec, uint64_t *out)
{
    if (pkvi_is(spec, PKVI_IS_DERIVED)) {
        *out = spec->page_size;
        return PKV_OK;
    }
    uint64_t unpadded;
    PKVI_RETURN_IF(pkv_spec_unpadded_page_bytes(spec, &unpadded));
    if (spec->page_size_padded == 0) {
        *out = unpadded;
        return PKV_OK;
    }
    if (spec->page_size_padded < unpadded) {
        return pkvi_fail(PKV_E_ASSERT,
                         "pkv_spec_page_bytes: page_size_padded %" PRIu64
                         " is smaller than the page of %" PRIu64 " bytes",
                         spec->page_size_padded, unpadded);
    }
    *out = spec->page_size_padded;
    return PKV_OK;
}

pkv_status pkv_spec_block_stride_alignment(const pkv_spec *spec, uint64_t *out)
{
    if (spec->stride_rule != PKV_STRIDE_KERNEL_BLOCKS) {
        *out = spec->stride_rule == PKV_STRIDE_BYTES ? spec->block_stride_alignment : 1;
        return PKV_OK;
    }
    uint64_t kernel_block = pkvi_gcd(spec->block_stride_alignment, spec->block_size);
    if (kernel_block == spec->block_size) {
        *out = 1;
        return PKV_OK;
    }
    pkv_spec kernel;
    PKVI_RETURN_IF(pkvi_spec_resize(spec, kernel_block, &kernel));
    PKVI_RETURN_IF(pkv_spec_page_bytes(&kernel, out));
    if (*out == 0) { /* a kernel block without a state: only whole padded pages are left */
        *out = spec->page_size_padded;
    }
    return PKV_OK;
}

/* Tokens that one request keeps alive at once: those that later ones still look at, and those of
 * the batches under way; never more than its length. */
static pkv_status live_tokens(const pkv_spec *spec, const pkv_limits *limits, uint64_t below,
                              uint64_t *out)
{
    uint64_t tokens;
    if (!pkvi_add(below, limits->max_in_flight_tokens, &tokens)) {
        return overflow("pkv_spec_admission_cap", spec);
    }
    *out = pkvi_min(tokens, limits->max_model_len);
    return PKV_OK;
}

pkv_status pkv_spec_retained_tokens(const pkv_spec *spec, uint64_t *out)
{
    if (!pkvi_is(spec, PKVI_IS_SLIDING)) {
        return PKV_E_NOT_FOUND;
    }
    if (!pkvi_add(spec->sliding_window - 1, spec->extra_retained_tokens, out)) {
        return overflow("pkv_spec_retained_tokens", spec);
    }
    return PKV_OK;
}

pkv_status pkv_spec_admission_cap(const pkv_spec *spec, const pkv_limits *limits, uint64_t *out)
{
    uint64_t below, tokens;
    switch (spec->kind) {
    case PKV_KIND_KPOOL_TAIL: *out = 1; return PKV_OK;
    case PKV_KIND_SLIDING_WINDOW:
    case PKV_KIND_SLIDING_WINDOW_MLA:
        PKVI_RETURN_IF(pkv_spec_retained_tokens(spec, &below));
        PKVI_RETURN_IF(live_tokens(spec, limits, below, &tokens));
        /* + 1: the window may begin in the middle of a block */
        *out = pkvi_ceil_div(tokens, spec->block_size) + 1;
        return PKV_OK;
    case PKV_KIND_CHUNKED_LOCAL:
        PKVI_RETURN_IF(live_tokens(spec, limits, spec->attention_chunk_size, &tokens));
        *out = pkvi_ceil_div(tokens, spec->block_size);
        return PKV_OK;
    case PKV_KIND_HISPARSE_RESIDENT:
        PKVI_RETURN_IF(live_tokens(spec, limits, 0, &tokens));
        *out = pkvi_ceil_div(tokens, spec->block_size);
        return PKV_OK;
    default: return PKV_E_NOT_FOUND;
    }
}

static uint64_t mamba_blocks(const pkv_spec *spec, const pkv_limits *limits)
{
    uint64_t blocks = UINT64_C(1) + spec->num_speculative_blocks;
    if (limits->mamba_align) {
        blocks += UINT64_C(1) + spec->num_prefill_checkpoint_blocks;
    }
    return blocks;
}

pkv_status pkvi_spec_held_blocks(const pkv_spec *spec, const pkv_limits *limits, uint64_t *out)
{
    uint64_t len = limits->max_model_len;
    if (pkvi_is(spec, PKVI_IS_FULL)) {
        if (spec->dcp_sharded) {
            len = pkvi_ceil_div(len, limits->dcp);
        }
        *out = pkvi_ceil_div(len, spec->block_size);
        return PKV_OK;
    }
    if (pkvi_is(spec, PKVI_IS_SLIDING) && spec->dcp_sharded && limits->dcp > 1) {
        return pkvi_fail(PKV_E_ASSERT,
                         "pkv_spec_max_memory_bytes: %s cannot be sharded over dcp %" PRIu32,
                         pkv_kind_name(spec->kind), limits->dcp);
    }
    switch (spec->kind) {
    case PKV_KIND_CIRCULAR_BUFFER: *out = 1; return PKV_OK;
    case PKV_KIND_MAMBA: *out = mamba_blocks(spec, limits); return PKV_OK;
    case PKV_KIND_CROSS:
        *out = pkvi_ceil_div(limits->max_encoder_tokens, spec->block_size);
        return PKV_OK;
    case PKV_KIND_ENCODER_ONLY: *out = 0; return PKV_OK;
    case PKV_KIND_HISPARSE_HOT: *out = spec->blocks_per_request; return PKV_OK;
    case PKV_KIND_HISPARSE_RESIDENT:
        if (limits->resident_full_length) {
            *out = pkvi_ceil_div(len, spec->block_size);
            return PKV_OK;
        }
        break;
    default: break;
    }
    return pkv_spec_admission_cap(spec, limits, out);
}

pkv_status pkv_spec_max_memory_bytes(const pkv_spec *spec, const pkv_limits *limits, uint64_t *out)
{
    uint64_t blocks, page;
    PKVI_RETURN_IF(pkvi_spec_held_blocks(spec, limits, &blocks));
    if (spec->kind == PKV_KIND_ENCODER_ONLY) {
        *out = 0; /* whatever the page is */
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkv_spec_page_bytes(spec, &page));
    if (!pkvi_mul(blocks, page, out)) {
        return overflow("pkv_spec_max_memory_bytes", spec);
    }
    return PKV_OK;
}

pkv_status pkv_spec_max_blocks(const pkv_spec *spec, const pkv_limits *limits, uint64_t len,
                               uint64_t *out)
{
    uint64_t span = spec->block_size;
    switch (spec->kind) {
    case PKV_KIND_CIRCULAR_BUFFER:
    case PKV_KIND_KPOOL_TAIL: *out = 1; return PKV_OK;
    case PKV_KIND_HISPARSE_HOT: *out = spec->blocks_per_request; return PKV_OK;
    case PKV_KIND_HISPARSE_RESIDENT: *out = pkvi_ceil_div(len, span); return PKV_OK;
    case PKV_KIND_MAMBA:
        if (limits->mamba_align) { /* rows are indexed by position, though few states are alive */
            *out = pkvi_ceil_div(len, span) + spec->num_speculative_blocks;
            return PKV_OK;
        }
        *out = mamba_blocks(spec, limits);
        return pkv_spec_page_bytes(spec, &span); /* refuses where the state has no page */
    default: break;
    }
    if (spec->dcp_sharded && !pkvi_mul(span, limits->dcp, &span)) {
        return overflow("pkv_spec_max_blocks", spec);
    }
    *out = pkvi_ceil_div(len, span);
    return PKV_OK;
}

pkv_status pkv_spec_event_window(const pkv_spec *spec, uint64_t *out)
{
    if (!pkvi_is(spec, PKVI_IS_SLIDING)) {
        return PKV_E_NOT_FOUND;
    }
    *out = spec->sliding_window;
    return PKV_OK;
}
