/* kind.h  What the rules of specs ask about a kind.
 *
 * The kinds form a small tree of subtypes: hidden_state is an MLA, MLA, RSWA and sink are full
 * attention; sliding_window_mla and kpool_tail are sliding windows. Rules test the subtype. */
#ifndef PKVI_KIND_H
#define PKVI_KIND_H

#include <stdbool.h>

#include <pkv/spec.h>

/* Subtype bits of a kind. */
enum {
    PKVI_IS_ATTENTION = 1,       /* has heads and K/V content */
    PKVI_IS_FULL = 2,            /* one block per block_size tokens, for ever */
    PKVI_IS_MLA = 4,             /* full, one latent vector */
    PKVI_IS_SLIDING = 8,         /* only a window stays */
    PKVI_IS_LATENT = 16,         /* any kind whose V is part of K: alignment, cache_dtype */
    PKVI_ONE_BLOCK = 32,         /* a single block for life, never found by a prefix */
    PKVI_IS_DERIVED = 64,        /* made by the planner, raw pages without an attention module */
    PKVI_NO_TABLE_PADDING = 128, /* rows of the block table are not rounded up */
    PKVI_NOT_GROUPED = 256       /* no manager: the planner refuses it */
};

unsigned pkvi_kind_bits(uint32_t kind);

static inline bool pkvi_is(const pkv_spec *spec, unsigned bits)
{
    return (pkvi_kind_bits(spec->kind) & bits) != 0;
}

#endif
