/* uniform.c  Layers of one type: the same token slots, whatever their widths.
 *
 * Such layers share a block table though their pages differ; the group's page is the sum. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "spec/kind.h"
#include "spec/spec.h"

static pkv_status same_mamba(const pkv_spec *a, const pkv_spec *b, bool *out)
{
    uint64_t page_a, page_b;
    *out = false;
    if (b->kind != PKV_KIND_MAMBA || a->num_speculative_blocks != b->num_speculative_blocks ||
        a->num_prefill_checkpoint_blocks != b->num_prefill_checkpoint_blocks ||
        a->prefill_checkpoint_alignment != b->prefill_checkpoint_alignment) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkv_spec_page_bytes(b, &page_b));
    PKVI_RETURN_IF(pkv_spec_page_bytes(a, &page_a));
    *out = page_a == page_b && a->tp_replicated == b->tp_replicated;
    return PKV_OK;
}

pkv_status pkvi_uniform_accepts(const pkv_spec *first, const pkv_spec *other, bool *out)
{
    *out = false;
    if (first->block_size != other->block_size || first->dcp_sharded != other->dcp_sharded) {
        return PKV_OK;
    }
    switch (first->kind) {
    case PKV_KIND_FULL:
    case PKV_KIND_MLA:
    case PKV_KIND_HIDDEN_STATE:
    case PKV_KIND_RSWA:
    case PKV_KIND_SINK_FULL: *out = pkvi_is(other, PKVI_IS_FULL); return PKV_OK;
    case PKV_KIND_SLIDING_WINDOW:
        *out = pkvi_is(other, PKVI_IS_SLIDING) && other->sliding_window == first->sliding_window;
        return PKV_OK;
    case PKV_KIND_SLIDING_WINDOW_MLA:
        *out = other->kind == first->kind && other->sliding_window == first->sliding_window &&
               other->bounded_replay == first->bounded_replay;
        return PKV_OK;
    case PKV_KIND_CHUNKED_LOCAL:
        *out = other->kind == first->kind &&
               other->attention_chunk_size == first->attention_chunk_size;
        return PKV_OK;
    case PKV_KIND_MAMBA: return same_mamba(first, other, out);
    case PKV_KIND_ENCODER_ONLY:
        return pkvi_fail(PKV_E_ASSERT, "pkv_specs_uniform_type: %s has no manager",
                         pkv_kind_name(first->kind));
    default: *out = other->kind == first->kind; return PKV_OK;
    }
}

pkv_status pkv_specs_uniform_type(const pkv_spec *const *specs, size_t n, bool *out)
{
    if (!specs || n == 0 || !out) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_specs_uniform_type: at least one spec and an out are needed");
    }
    for (size_t i = 1; i < n; i++) { /* before any kind is asked */
        if (specs[i]->block_size != specs[0]->block_size ||
            specs[i]->dcp_sharded != specs[0]->dcp_sharded) {
            *out = false;
            return PKV_OK;
        }
    }
    bool all = true;
    for (size_t i = 0; i < n && all; i++) {
        PKVI_RETURN_IF(pkvi_uniform_accepts(specs[0], specs[i], &all));
    }
    *out = all;
    return PKV_OK;
}

pkv_status pkv_uniform_page_bytes(const pkv_spec *const *specs, size_t n, uint64_t *out)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t page;
        PKVI_RETURN_IF(pkv_spec_page_bytes(specs[i], &page));
        if (!pkvi_add(sum, page, &sum)) {
            return pkvi_fail(PKV_E_OVERFLOW,
                             "pkv_uniform_page_bytes: the pages of %zu layers exceed 2^63-1 bytes",
                             n);
        }
    }
    *out = sum;
    return PKV_OK;
}

pkv_status pkv_uniform_max_pages(const pkv_spec *const *specs, size_t n, const pkv_limits *limits,
                                 uint64_t *out)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t blocks, page;
        PKVI_RETURN_IF(pkvi_spec_held_blocks(specs[i], limits, &blocks));
        PKVI_RETURN_IF(pkv_spec_page_bytes(specs[i], &page));
        if (page == 0) {
            return pkvi_fail(PKV_E_VALUE, "pkv_uniform_max_pages: layer %zu has a page of 0 bytes",
                             i);
        }
        most = pkvi_max(most, blocks);
    }
    *out = most;
    return PKV_OK;
}

pkv_status pkv_uniform_max_memory_bytes(const pkv_spec *const *specs, size_t n,
                                        const pkv_limits *limits, uint64_t *out)
{
    uint64_t pages, bytes;
    PKVI_RETURN_IF(pkv_uniform_max_pages(specs, n, limits, &pages));
    PKVI_RETURN_IF(pkv_uniform_page_bytes(specs, n, &bytes));
    if (!pkvi_mul(pages, bytes, out)) {
        return pkvi_fail(PKV_E_OVERFLOW,
                         "pkv_uniform_max_memory_bytes: %" PRIu64 " pages of %" PRIu64
                         " bytes exceed 2^63-1",
                         pages, bytes);
    }
    return PKV_OK;
}

pkv_status pkv_uniform_max_blocks(const pkv_spec *const *specs, size_t n, const pkv_limits *limits,
                                  uint64_t len, uint64_t *out)
{
    uint64_t width = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t w;
        PKVI_RETURN_IF(pkv_spec_max_blocks(specs[i], limits, len, &w));
        if (i > 0 && w != width) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_uniform_max_blocks: tables of %" PRIu64 " and %" PRIu64
                             " entries in one group",
                             width, w);
        }
        width = w;
    }
    *out = width;
    return PKV_OK;
}

pkv_status pkv_uniform_layers_per_page_size(const pkv_spec *const *specs, size_t n, uint64_t *out)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t page, count = 0;
        PKVI_RETURN_IF(pkv_spec_page_bytes(specs[i], &page));
        for (size_t j = 0; j < n; j++) {
            uint64_t other;
            PKVI_RETURN_IF(pkv_spec_page_bytes(specs[j], &other));
            count += other == page;
        }
        most = pkvi_max(most, count);
    }
    *out = most;
    return PKV_OK;
}

bool pkv_uniform_prefix_cacheable(const pkv_spec *const *specs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!pkv_spec_prefix_cacheable(specs[i])) {
            return false;
        }
    }
    return true;
}

uint64_t pkv_uniform_prefix_replay_tokens(const pkv_spec *const *specs, size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        most = pkvi_max(most, pkv_spec_prefix_replay_tokens(specs[i]));
    }
    return most;
}

static bool all_full(const pkv_spec *const *specs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!pkvi_is(specs[i], PKVI_IS_FULL)) {
            return false;
        }
    }
    return true;
}

const char *pkv_uniform_kind_name(const pkv_spec *const *specs, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (specs[i]->kind != specs[0]->kind) {
            return all_full(specs, n) ? "full_attention" : "unknown";
        }
    }
    return pkv_kind_name(specs[0]->kind);
}

const char *pkv_uniform_event_kind(const pkv_spec *const *specs, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        /* the names are literals of one table, but equal ones need not be one address */
        const char *a = pkv_spec_event_kind(specs[0]), *b = pkv_spec_event_kind(specs[i]);
        if (a != b && strcmp(a, b) != 0) {
            return all_full(specs, n) ? "full_attention" : "unknown";
        }
    }
    return pkv_spec_event_kind(specs[0]);
}

pkv_status pkv_uniform_event_window(const pkv_spec *const *specs, size_t n, uint64_t *out)
{
    uint64_t window = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t w;
        PKVI_RETURN_IF(pkv_spec_event_window(specs[i], &w));
        if (i > 0 && w != window) {
            return PKV_E_NOT_FOUND;
        }
        window = w;
    }
    *out = window;
    return PKV_OK;
}
