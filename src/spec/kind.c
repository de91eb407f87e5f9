/* kind.c  The table of kinds. */
#include "spec/kind.h"

#include <string.h>

#include "base/error.h"

#define ATTENTION PKVI_IS_ATTENTION
#define FULL (ATTENTION | PKVI_IS_FULL)
#define MLA (FULL | PKVI_IS_MLA | PKVI_IS_LATENT)
#define SLIDING (ATTENTION | PKVI_IS_SLIDING)

static const struct {
    const char *name;
    const char *event_name; /* what subscribers of cache events know */
    unsigned bits;
} kinds[PKV_N_KINDS] = {
    [PKV_KIND_FULL] = {"full_attention", "full_attention", FULL},
    [PKV_KIND_MLA] = {"mla_attention", "mla_attention", MLA},
    [PKV_KIND_HIDDEN_STATE] = {"hidden_state", "mla_attention", MLA},
    [PKV_KIND_RSWA] = {"rswa", "full_attention", FULL},
    [PKV_KIND_SINK_FULL] = {"sink_full_attention", "sink_full_attention", FULL},
    [PKV_KIND_SLIDING_WINDOW] = {"sliding_window", "sliding_window", SLIDING},
    [PKV_KIND_SLIDING_WINDOW_MLA] = {"sliding_window_mla", "sliding_window_mla",
                                     SLIDING | PKVI_IS_LATENT},
    [PKV_KIND_CHUNKED_LOCAL] = {"chunked_local_attention", "chunked_local_attention", ATTENTION},
    [PKV_KIND_CIRCULAR_BUFFER] = {"circular_buffer", "unknown",
                                  ATTENTION | PKVI_ONE_BLOCK | PKVI_NO_TABLE_PADDING},
    [PKV_KIND_KPOOL_TAIL] = {"kpool_tail", "sliding_window", SLIDING | PKVI_ONE_BLOCK},
    [PKV_KIND_MAMBA] = {"mamba", "mamba", PKVI_NO_TABLE_PADDING},
    [PKV_KIND_CROSS] = {"cross_attention", "cross_attention", ATTENTION},
    [PKV_KIND_ENCODER_ONLY] = {"encoder_only_attention", "encoder_only_attention",
                               ATTENTION | PKVI_NOT_GROUPED},
    [PKV_KIND_HISPARSE_HOT] = {"hisparse_hot", "unknown", PKVI_IS_DERIVED | PKVI_NO_TABLE_PADDING},
    [PKV_KIND_HISPARSE_RESIDENT] = {"hisparse_resident", "unknown", PKVI_IS_DERIVED},
};

unsigned pkvi_kind_bits(uint32_t kind)
{
    return kind < PKV_N_KINDS ? kinds[kind].bits : 0;
}

const char *pkv_kind_name(uint32_t kind)
{
    return kind < PKV_N_KINDS ? kinds[kind].name : NULL;
}

pkv_status pkv_kind_from_name(const char *name, uint32_t *kind_out)
{
    if (!name || !kind_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_kind_from_name: name or kind_out is NULL");
    }
    for (uint32_t i = 0; i < PKV_N_KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *kind_out = i;
            return PKV_OK;
        }
    }
    return PKV_E_NOT_FOUND;
}

const char *pkv_spec_event_kind(const pkv_spec *spec)
{
    return spec->kind < PKV_N_KINDS ? kinds[spec->kind].event_name : "unknown";
}

bool pkv_spec_prefix_cacheable(const pkv_spec *spec)
{
    return !pkvi_is(spec, PKVI_ONE_BLOCK | PKVI_IS_DERIVED) && !spec->bounded_replay;
}

uint64_t pkv_spec_prefix_replay_tokens(const pkv_spec *spec)
{
    return spec->bounded_replay ? spec->sliding_window : 0;
}

bool pkv_spec_has_layer_views(const pkv_spec *spec)
{
    return !pkvi_is(spec, PKVI_IS_DERIVED);
}

bool pkv_spec_uses_slot_mapping(const pkv_spec *spec)
{
    return spec->kind != PKV_KIND_CIRCULAR_BUFFER && spec->kind != PKV_KIND_HISPARSE_HOT;
}

pkv_status pkv_spec_table_alignment(const pkv_spec *spec, uint64_t *out)
{
    if (pkvi_is(spec, PKVI_NO_TABLE_PADDING)) {
        return PKV_E_NOT_FOUND;
    }
    *out = 128;
    return PKV_OK;
}
