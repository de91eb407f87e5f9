/* fields.c  The table of spec fields. */
#include "spec/fields.h"

#include <string.h>

#define KIND(k) (1u << PKV_KIND_##k)
#define LATENT_FULL (KIND(MLA) | KIND(HIDDEN_STATE))
#define FULL (LATENT_FULL | KIND(FULL) | KIND(RSWA) | KIND(SINK_FULL))
#define SLIDING (KIND(SLIDING_WINDOW) | KIND(SLIDING_WINDOW_MLA) | KIND(KPOOL_TAIL))
#define LATENT (LATENT_FULL | KIND(SLIDING_WINDOW_MLA))
#define DERIVED (KIND(HISPARSE_HOT) | KIND(HISPARSE_RESIDENT))
#define ATTENTION                                                                 \
    (FULL | SLIDING | KIND(CHUNKED_LOCAL) | KIND(CIRCULAR_BUFFER) | KIND(CROSS) | \
     KIND(ENCODER_ONLY))
#define ALL (ATTENTION | KIND(MAMBA) | DERIVED)

#define FIELD(name, type, member, kinds, min, optional)                           \
    {                                                                             \
        name, PKVI_FIELD_##type, offsetof(pkv_spec, member), kinds, min, optional \
    }

/* In the order in which documents are written. `optional`: 0 means absent. */
const pkvi_field pkvi_spec_fields[] = {
    FIELD("block_size", U64, block_size, ALL, 1, false),
    FIELD("dcp_sharded", BOOL, dcp_sharded, ALL, 0, false),
    FIELD("block_stride_alignment", STRIDE, stride_rule, ALL, 0, true),
    FIELD("is_draft", BOOL, is_draft, ALL & ~DERIVED, 0, false),
    FIELD("max_tp_shards", U64, max_tp_shards, ATTENTION, 1, true),
    FIELD("num_kv_heads", U64, num_kv_heads, ATTENTION, 1, false),
    FIELD("head_size", U64, head_size, ATTENTION, 1, false),
    FIELD("dtype", DTYPE, dtype, ATTENTION, 1, false),
    FIELD("head_size_v", U64, head_size_v, ATTENTION, 0, false),
    FIELD("kv_quant_mode", QUANT, kv_quant_mode, ATTENTION, 0, false),
    FIELD("page_size_padded", U64, page_size_padded, ATTENTION | KIND(MAMBA), 1, true),
    FIELD("num_head_slots", U64, num_head_slots, ATTENTION, 1, true),
    FIELD("state_content_bytes", U64, state_content_bytes, ATTENTION, 1, true),
    FIELD("tokens_per_state", RATIO, tokens_per_state, ATTENTION, 1, false),
    FIELD("sliding_window", U64, sliding_window, FULL, 1, true),
    FIELD("sliding_window", U64, sliding_window, SLIDING, 1, false),
    FIELD("extra_retained_tokens", U64, extra_retained_tokens, SLIDING, 0, false),
    FIELD("attention_chunk_size", U64, attention_chunk_size, FULL, 1, true),
    FIELD("attention_chunk_size", U64, attention_chunk_size, KIND(CHUNKED_LOCAL), 1, false),
    FIELD("non_causal", BOOL, non_causal, FULL, 0, false),
    FIELD("rswa_window", U64, rswa_window, KIND(RSWA), 1, false),
    FIELD("sink_len", U64, sink_len, KIND(SINK_FULL), 1, true),
    FIELD("cache_dtype_str", TEXT, cache_dtype, LATENT, 0, true),
    FIELD("topk_buffer_width", U64, topk_buffer_width, LATENT_FULL, 1, true),
    FIELD("alignment", U64, alignment, LATENT, 1, true),
    FIELD("model_version", TEXT, model_version, LATENT, 0, true),
    FIELD("cache_role", ROLE, cache_role, LATENT_FULL, 0, false),
    FIELD("is_index_group_leader", BOOL, is_index_group_leader, LATENT_FULL, 0, false),
    FIELD("non_causal_multi_token_decode", BOOL, non_causal_multi_token_decode, LATENT_FULL, 0,
          false),
    FIELD("storage_block_size", U64, storage_block_size, LATENT_FULL, 1, true),
    FIELD("bounded_replay", BOOL, bounded_replay, KIND(SLIDING_WINDOW_MLA), 0, false),
    FIELD("shapes", SHAPES, states, KIND(MAMBA), 1, false),
    FIELD("dtypes", DTYPES, states, KIND(MAMBA), 1, false),
    FIELD("mamba_type", TEXT, mamba_type, KIND(MAMBA), 0, true),
    FIELD("mamba_cache_mode", MODE, mamba_mode, KIND(MAMBA), 0, false),
    FIELD("num_speculative_blocks", U32, num_speculative_blocks, KIND(MAMBA), 0, false),
    FIELD("num_prefill_checkpoint_blocks", U32, num_prefill_checkpoint_blocks, KIND(MAMBA), 0,
          false),
    FIELD("prefill_checkpoint_alignment", U64, prefill_checkpoint_alignment, KIND(MAMBA), 1, true),
    FIELD("tp_replicated", BOOL, tp_replicated, KIND(MAMBA), 0, false),
    FIELD("page_size", U64, page_size, DERIVED, 1, false),
    FIELD("blocks_per_request", U64, blocks_per_request, KIND(HISPARSE_HOT), 1, false),
};

const size_t pkvi_n_spec_fields = sizeof pkvi_spec_fields / sizeof *pkvi_spec_fields;

const pkvi_field *pkvi_spec_field(const char *name, uint32_t kind, bool *known_out)
{
    *known_out = false;
    for (size_t i = 0; i < pkvi_n_spec_fields; i++) {
        if (strcmp(pkvi_spec_fields[i].name, name) == 0) {
            *known_out = true;
            if (pkvi_spec_fields[i].kinds >> kind & 1u) {
                return &pkvi_spec_fields[i];
            }
        }
    }
    return NULL;
}
