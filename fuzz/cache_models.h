/* cache_models.h  The models that fuzz_cache.c makes caches of. */
#ifndef CACHE_MODELS_H
#define CACHE_MODELS_H

#define LAYER(name, kind, more) \
    "{\"name\":\"" name "\",\"kind\":\"" kind "\",\"block_size\":4,\"dtype\":\"bfloat16\"," more "}"
#define FULL(name, more) LAYER(name, "full_attention", "\"num_kv_heads\":4,\"head_size\":64" more)
#define SLIDING(name, window, more) \
    LAYER(name, "sliding_window",   \
          "\"num_kv_heads\":4,\"head_size\":64,\"sliding_window\":" window more)
#define LATENT(kind, more) LAYER(kind, kind, "\"num_kv_heads\":1,\"head_size\":72" more)
#define STATE(name, size, mode, more)                                            \
    "{\"name\":\"" name "\",\"kind\":\"mamba\",\"block_size\":" size             \
    ",\"shapes\":[[4,64]],\"dtypes\":[\"float32\"],\"mamba_cache_mode\":\"" mode \
    "\",\"page_size_padded\":8192" more "}"
#define CHECKPOINTS ",\"num_prefill_checkpoint_blocks\":1,\"prefill_checkpoint_alignment\":1"
#define MODEL(blocks, options, more, layers)                                             \
    "{\"available_bytes\":1073741824,\"max_model_len\":48," more                         \
    "\"options\":{\"max_num_batched_tokens\":16,\"num_blocks_override\":" blocks options \
    "},\"layers\":[" layers "]}"
#define DENSE "\"retention_interval\":null,"
#define DRAFTER(method, ahead) \
    ",\"speculative\":{\"method\":\"" method "\",\"tokens\":2,\"lookahead_hashes\":" ahead "}"

static const char *const documents[] = {
    MODEL("16", "", DENSE, FULL("a", "")),
    MODEL("40", "", DENSE, FULL("a", "") "," SLIDING("b", "6", "") "," SLIDING("c", "9", "")),
    MODEL("20", "", DENSE, SLIDING("a", "5", "")),
    MODEL("40", "", DENSE,
          LATENT("mla_attention", "") "," LATENT("sliding_window_mla", ",\"sliding_window\":9")),
    MODEL("18", DRAFTER("eagle", "false"), DENSE,
          FULL("a", "") "," FULL("b", ",\"is_draft\":true")),
    MODEL("48", DRAFTER("mtp_multi", "true"), DENSE,
          FULL("a", "") "," SLIDING("b", "8", ",\"is_draft\":true")),
    MODEL("48", DRAFTER("eagle", "false"), "\"retention_interval\":8,",
          FULL("a", "") "," SLIDING("b", "8", ",\"is_draft\":true")),
    MODEL("40", "", "", FULL("a", "") "," SLIDING("b", "7", "")),
    MODEL("16", "", DENSE "\"caching\":false,", FULL("a", "")),
    MODEL("14", ",\"dcp\":2", DENSE, FULL("a", "")),
    MODEL("40", "", DENSE "\"prefix_match_unit\":2,", FULL("a", "") "," SLIDING("b", "6", "")),
};

/* The same for inputs that begin with a byte from 128 on: kinds that came later. */
static const char *const later_documents[] = {
    MODEL("40", "", DENSE, FULL("a", "") "," STATE("m", "4", "align", "")),
    MODEL("40", "", DENSE "\"prefix_match_unit\":2,",
          FULL("a", "") "," STATE("m", "8", "align", "")),
    MODEL("40", "", "\"retention_interval\":8,\"prefix_match_unit\":2,",
          FULL("a", "") "," STATE("m", "4", "align", CHECKPOINTS)),
    MODEL("48", DRAFTER("eagle", "false"), "\"prefix_match_unit\":2,",
          FULL("a", "") "," STATE("m", "4", "align", ",\"num_speculative_blocks\":2")),
    MODEL("40", DRAFTER("eagle", "false"), "\"prefix_match_unit\":1,\"retention_interval\":0,",
          FULL("a", "") "," STATE("m", "4", "align", CHECKPOINTS ",\"num_speculative_blocks\":1")),
    MODEL("20", "", DENSE, STATE("m", "4", "align", "")),
    MODEL("20", "", DENSE "\"caching\":false,",
          FULL("a", "") "," STATE("m", "48", "none", ",\"num_speculative_blocks\":1")),
    MODEL("20", "", DENSE,
          LAYER("c", "chunked_local_attention",
                "\"num_kv_heads\":4,\"head_size\":64,\"attention_chunk_size\":8")),
    MODEL("20", "", DENSE,
          LAYER("r", "rswa", "\"num_kv_heads\":4,\"head_size\":64,\"rswa_window\":6")),
    MODEL("30", "", DENSE,
          FULL("a", "") "," LAYER("t", "circular_buffer", "\"num_kv_heads\":4,\"head_size\":64")),
    MODEL("30", "", DENSE "\"caching\":false,",
          FULL("a", "") "," LAYER("x", "cross_attention", "\"num_kv_heads\":4,\"head_size\":64")),
};
enum {
    MODELS = sizeof documents / sizeof *documents,
    LATER_MODELS = sizeof later_documents / sizeof *later_documents
};

#endif
