/** @file spec.h  What one layer keeps in the cache, and how large that is.
 *
 *  A *block* is one allocation unit and one block id; a *page* is what one layer stores in one
 *  block; a *state* is one stored vector cell of a page. The page of an attention layer is always
 *  the logical array [heads, states, content bytes].
 *
 *  The kinds, fields and formulas are those of vLLM 0.33 (kv_cache_interface) together with what
 *  an earlier published revision of it had in addition; docs/internals/plan.md lists the
 *  differences. All sizes are bytes, all lengths tokens, and no result exceeds 2^63-1: a size that
 *  would is PKV_E_OVERFLOW.
 *
 *  Life of a spec: pkv_spec_init(), fill fields, pkv_spec_finish(). Everything below expects a
 *  finished spec. A spec is a value: copy it freely; the pointers in it are borrowed and must stay
 *  valid while the spec is used. All functions here are pure. @threads any */
#ifndef PKV_SPEC_H
#define PKV_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pkv/export.h>
#include <pkv/status.h>

PKV_BEGIN_DECLS

/** Kind of a layer: which rules size it and which manager owns its blocks. Numbers are frozen. */
typedef enum pkv_kind {
    PKV_KIND_FULL = 0,               /**< full_attention */
    PKV_KIND_MLA = 1,                /**< mla_attention: one latent vector per state, no V */
    PKV_KIND_HIDDEN_STATE = 2,       /**< hidden_state: MLA shaped, always its own group */
    PKV_KIND_RSWA = 3,               /**< rswa: prompt visible for ever, window over generated */
    PKV_KIND_SINK_FULL = 4,          /**< sink_full_attention */
    PKV_KIND_SLIDING_WINDOW = 5,     /**< sliding_window */
    PKV_KIND_SLIDING_WINDOW_MLA = 6, /**< sliding_window_mla */
    PKV_KIND_CHUNKED_LOCAL = 7,      /**< chunked_local_attention */
    PKV_KIND_CIRCULAR_BUFFER = 8,    /**< circular_buffer: one block for life */
    PKV_KIND_KPOOL_TAIL = 9,         /**< kpool_tail: a one-block window */
    PKV_KIND_MAMBA = 10,             /**< mamba: recurrent state, size independent of tokens */
    PKV_KIND_CROSS = 11,             /**< cross_attention: states of the encoder */
    PKV_KIND_ENCODER_ONLY = 12,      /**< encoder_only_attention: keeps nothing */
    PKV_KIND_HISPARSE_HOT = 13,      /**< derived by the planner: rows selected by top-k */
    PKV_KIND_HISPARSE_RESIDENT = 14, /**< derived by the planner: pages not yet on the host */
    PKV_N_KINDS = 15
} pkv_kind;

/** Element types; the names are torch's. Numbers are frozen. */
typedef enum pkv_dtype {
    PKV_DTYPE_NONE = 0,
    PKV_DTYPE_FLOAT64 = 1,
    PKV_DTYPE_FLOAT32 = 2,
    PKV_DTYPE_FLOAT16 = 3,
    PKV_DTYPE_BFLOAT16 = 4,
    PKV_DTYPE_INT64 = 5,
    PKV_DTYPE_INT32 = 6,
    PKV_DTYPE_INT16 = 7,
    PKV_DTYPE_INT8 = 8,
    PKV_DTYPE_UINT8 = 9,
    PKV_DTYPE_BOOL = 10,
    PKV_DTYPE_FLOAT8_E4M3FN = 11,
    PKV_DTYPE_FLOAT8_E5M2 = 12,
    PKV_DTYPE_FLOAT8_E4M3FNUZ = 13,
    PKV_DTYPE_UINT64 = 14,
    PKV_DTYPE_UINT16 = 15,
    PKV_DTYPE_FLOAT8_E5M2FNUZ = 16,
    PKV_N_DTYPES = 17
} pkv_dtype;

/** Quantisation of the stored content. 0..14 are vLLM's numbers; its CUSTOM clashes with 12 there
 *  and has its own number here. */
typedef enum pkv_quant_mode {
    PKV_QUANT_NONE = 0,
    PKV_QUANT_FP8_PER_TENSOR = 1,
    PKV_QUANT_INT8_PER_TOKEN_HEAD = 2,
    PKV_QUANT_FP8_PER_TOKEN_HEAD = 3,
    PKV_QUANT_INT4_PER_TOKEN_HEAD = 4,
    PKV_QUANT_NVFP4 = 5,
    PKV_QUANT_TURBOQUANT_K8V4 = 6,
    PKV_QUANT_TURBOQUANT_4BIT_NC = 7,
    PKV_QUANT_TURBOQUANT_K3V4_NC = 8,
    PKV_QUANT_TURBOQUANT_3BIT_NC = 9,
    PKV_QUANT_NVFP4_DS_MLA = 10,
    PKV_QUANT_ULTRAQUANT_4BIT = 11,
    PKV_QUANT_OCTAVE_K3V4 = 12,
    PKV_QUANT_OCTAVE_K3V3 = 13,
    PKV_QUANT_OCTAVE_K3V3_COMPACT = 14,
    PKV_QUANT_CUSTOM = 15,
    PKV_N_QUANT_MODES = 16
} pkv_quant_mode;

/** Part that a latent layer plays in sparse attention. */
typedef enum pkv_cache_role { PKV_ROLE_SPARSE = 0, PKV_ROLE_INDEXER = 1 } pkv_cache_role;

/** What the distance between two physical blocks must be a multiple of. */
typedef enum pkv_stride_rule {
    PKV_STRIDE_ANY = 0,          /**< no rule */
    PKV_STRIDE_BYTES = 1,        /**< block_stride_alignment bytes */
    PKV_STRIDE_KERNEL_BLOCKS = 2 /**< whole kernel blocks of up to that many tokens */
} pkv_stride_rule;

/** When a recurrent layer keeps states that prefix hits can use. */
typedef enum pkv_mamba_mode { PKV_MAMBA_NONE = 0, PKV_MAMBA_ALIGN = 1 } pkv_mamba_mode;

/** A positive rational number. */
typedef struct pkv_ratio {
    uint32_t num, den;
} pkv_ratio;

#define PKV_STATE_MAX_RANK 6

/** One tensor of a recurrent state. */
typedef struct pkv_state {
    uint32_t dtype;                    /**< pkv_dtype */
    uint32_t rank;                     /**< 0..PKV_STATE_MAX_RANK */
    uint64_t dims[PKV_STATE_MAX_RANK]; /**< [rank], each >= 1 */
} pkv_state;

/** head_size_v before pkv_spec_finish(): the kind's default, head_size (latent kinds: 0). */
#define PKV_HEAD_SIZE_V_DEFAULT UINT64_MAX
/** Largest block size, head count, head size or window that a spec may be given. */
#define PKV_SPEC_LIMIT UINT64_C(0x7fffffff)

/** What one layer keeps, on one rank (after the tensor-parallel split). 0 means absent wherever
 *  "0: none" stands. Fields that a kind does not have must be as pkv_spec_init() left them. */
typedef struct pkv_spec {
    uint32_t kind;                 /**< pkv_kind */
    uint32_t dtype;                /**< pkv_dtype of the content; NONE for mamba, hot, resident */
    uint32_t kv_quant_mode;        /**< pkv_quant_mode; changes no size by itself */
    uint32_t cache_role;           /**< pkv_cache_role; latent kinds */
    uint32_t stride_rule;          /**< pkv_stride_rule */
    uint32_t mamba_mode;           /**< pkv_mamba_mode */
    uint8_t dcp_sharded;           /**< decode context parallelism splits the tokens over ranks */
    uint8_t is_draft;              /**< owned by a draft model; no part of equality */
    uint8_t non_causal;            /**< full kinds */
    uint8_t is_index_group_leader; /**< latent full kinds */
    uint8_t non_causal_multi_token_decode; /**< latent full kinds */
    uint8_t bounded_replay;                /**< sliding_window_mla: replayed, never cached */
    uint8_t tp_replicated;                 /**< mamba: every TP rank holds the whole state */
    uint8_t reserved0;
    uint64_t block_size;             /**< tokens per block; circular_buffer: rows; >= 1 */
    uint64_t num_kv_heads;           /**< KV heads on this rank */
    uint64_t head_size;              /**< elements of K per head; latent: latent + rope */
    uint64_t head_size_v;            /**< elements of V per head, or PKV_HEAD_SIZE_V_DEFAULT */
    uint64_t num_head_slots;         /**< head axis of the page; 0: num_kv_heads */
    uint64_t state_content_bytes;    /**< bytes per head slot and state; 0: (K + V) * dtype */
    uint64_t page_size_padded;       /**< bytes of a page with its padding; 0: none */
    uint64_t max_tp_shards;          /**< distinct shards over TP; 0: unknown */
    uint64_t block_stride_alignment; /**< argument of stride_rule */
    pkv_ratio tokens_per_state;      /**< tokens that one state covers; 1/4 is four states each */
    uint64_t sliding_window;         /**< tokens; full kinds: informative, 0: none */
    uint64_t extra_retained_tokens;  /**< sliding kinds: kept below the window for drafters */
    uint64_t attention_chunk_size;   /**< tokens; full kinds: informative, 0: none */
    uint64_t rswa_window;            /**< rswa: generated tokens in view */
    uint64_t sink_len;               /**< sink_full_attention; 0: none */
    uint64_t alignment;              /**< latent kinds: page rounded up to this; 0: none */
    uint64_t topk_buffer_width;      /**< latent full kinds; 0: unknown */
    uint64_t storage_block_size;     /**< latent full kinds, earlier revision; 0: none */
    const char *cache_dtype;         /**< latent kinds: name of the cache type, or NULL */
    const char *model_version;       /**< latent kinds: "deepseek_v4", or NULL */
    const char *mamba_type;          /**< mamba: name of the recurrence, or NULL */
    const pkv_state *states;         /**< [n_states] mamba: tensors of the state */
    uint32_t n_states;               /**< mamba: >= 1 */
    uint32_t num_speculative_blocks; /**< mamba: blocks for draft tokens */
    uint32_t num_prefill_checkpoint_blocks; /**< mamba, align */
    uint32_t reserved1;
    uint64_t prefill_checkpoint_alignment; /**< mamba; tokens, 0: no checkpoints inside a query */
    uint64_t page_size;                    /**< hot, resident: bytes of a page */
    uint64_t blocks_per_request;           /**< hot */
    uint64_t reserved2[4];                 /**< 0 */
} pkv_spec;

/** What a serving configuration contributes to the size of one request. */
typedef struct pkv_limits {
    uint64_t max_model_len;        /**< tokens of the longest request */
    uint64_t max_in_flight_tokens; /**< concurrent batches x tokens per batch */
    uint64_t max_encoder_tokens;   /**< encoder tokens of one request */
    uint32_t dcp;                  /**< decode context parallel ranks, >= 1 */
    uint8_t mamba_align;           /**< recurrent layers keep aligned states */
    uint8_t resident_full_length;  /**< resident pages cover the whole length (earlier revision) */
    uint8_t reserved[2];
} pkv_limits;

/** Name of a kind, dtype, quant mode as documents write them; NULL for an unknown number. */
PKV_API const char *pkv_kind_name(uint32_t kind);
PKV_API const char *pkv_dtype_name(uint32_t dtype);
PKV_API const char *pkv_quant_mode_name(uint32_t mode);
/** The reverse. PKV_E_NOT_FOUND for an unknown name. */
PKV_API PKV_NODISCARD pkv_status pkv_kind_from_name(const char *name, uint32_t *kind_out);
PKV_API PKV_NODISCARD pkv_status pkv_dtype_from_name(const char *name, uint32_t *dtype_out);
PKV_API PKV_NODISCARD pkv_status pkv_quant_mode_from_name(const char *name, uint32_t *mode_out);
/** Bytes of one element; 0 for NONE and unknown numbers. */
PKV_API uint32_t pkv_dtype_bytes(uint32_t dtype);

/* ---- life ---- */

/** Sets every field to the default of `kind`. INVAL: unknown kind. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_init(pkv_spec *spec, uint32_t kind);

/** Completes and checks a filled spec: head_size_v, and the pad that `alignment` asks for. A page
 *  that is not aligned gets its pad anew; an aligned one keeps a larger page_size_padded and loses
 *  a smaller one (upstream keeps a stale one and then fails). May be called again.
 *  INVAL: a reserved field that is not 0, a field out of range, missing, or not one of this
 *  kind's; VALUE: a stride alignment of 0 bytes; ASSERT: a model version that sliding_window_mla
 *  does not know. On failure the spec is unchanged. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_finish(pkv_spec *spec);

/** All fields but is_draft, texts and states by content. */
PKV_API bool pkv_spec_equal(const pkv_spec *a, const pkv_spec *b);

/** The same layer with another block size. An alignment pad is worked out anew; an explicit pad
 *  stays, and the page then refuses if it is too small. `out` may be `spec`. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_resize(const pkv_spec *spec, uint64_t block_size,
                                                 pkv_spec *out);

/* ---- sizes of one layer ----
 * PKV_E_NOT_FOUND (no text): this kind has no such quantity. */

/** Head slots of the page: num_head_slots or num_kv_heads; mamba 1. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_num_heads(const pkv_spec *spec, uint64_t *out);
/** States of a page: floor(block_size / tokens_per_state); mamba 1. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_num_states(const pkv_spec *spec, uint64_t *out);
/** States of a kernel block of so many tokens. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_kernel_states(const pkv_spec *spec, uint64_t tokens,
                                                        uint64_t *out);
/** Bytes of one head slot of one state; mamba: of the whole state. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_state_content_bytes(const pkv_spec *spec, uint64_t *out);
/** heads x states x content. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_unpadded_page_bytes(const pkv_spec *spec, uint64_t *out);
/** The page as it lies in memory: the pad if there is one, which must not be smaller than the
 *  unpadded page (ASSERT). */
PKV_API PKV_NODISCARD pkv_status pkv_spec_page_bytes(const pkv_spec *spec, uint64_t *out);
/** Bytes that the distance of two physical blocks must be a multiple of; 1: none. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_block_stride_alignment(const pkv_spec *spec,
                                                                 uint64_t *out);
/** Tokens that a row of the worker's block table is rounded up to; NOT_FOUND: not rounded. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_table_alignment(const pkv_spec *spec, uint64_t *out);
/** Whether its blocks can be found again by a prefix. */
PKV_API bool pkv_spec_prefix_cacheable(const pkv_spec *spec);
/** Tokens that are computed again after a hit (bounded replay). */
PKV_API uint64_t pkv_spec_prefix_replay_tokens(const pkv_spec *spec);
/** Whether the generic allocator makes one [B, H, N, C] view per layer. */
PKV_API bool pkv_spec_has_layer_views(const pkv_spec *spec);
/** Whether the worker computes a slot per token. */
PKV_API bool pkv_spec_uses_slot_mapping(const pkv_spec *spec);
/** Blocks that one request holds at once at most, as bytes. ASSERT: a sharded sliding window under
 *  decode context parallelism. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_max_memory_bytes(const pkv_spec *spec,
                                                           const pkv_limits *limits, uint64_t *out);
/** Entries of a request's block table at `len` tokens. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_max_blocks(const pkv_spec *spec, const pkv_limits *limits,
                                                     uint64_t len, uint64_t *out);
/** Blocks that admission counts for one request, where a kind caps them. The planner and the
 *  run-time gate use this one function: two that differ would deadlock long prompts. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_admission_cap(const pkv_spec *spec,
                                                        const pkv_limits *limits, uint64_t *out);
/** Sliding kinds: tokens below a request's first scheduled position that must stay readable. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_retained_tokens(const pkv_spec *spec, uint64_t *out);
/** Kind as event subscribers know it ("full_attention", ..., "unknown"). Static text. */
PKV_API const char *pkv_spec_event_kind(const pkv_spec *spec);
/** Window that events carry; sliding kinds. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_event_window(const pkv_spec *spec, uint64_t *out);

/* ---- several layers; specs [n] of pointers, n >= 1 ---- */

/** One spec for a group of layers, by the first one's rule. `alignment` and `kv_quant_mode`
 *  survive where all agree (upstream loses them). is_draft of the result is 0.
 *  ASSERT: they do not belong together; VALUE: two windows or two chunk sizes.
 *  The result borrows the first one's pointers. O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_specs_merge(const pkv_spec *const *specs, size_t n,
                                                 pkv_spec *out);
/** Whether a merge succeeds: ASSERT means false, VALUE is returned as such. */
PKV_API PKV_NODISCARD pkv_status pkv_specs_mergeable(const pkv_spec *const *specs, size_t n,
                                                     bool *out);
/** Whether all need the same number of token slots and so can share one block table, whatever
 *  their widths: a *uniform-type* group. ASSERT: the first kind has no such notion. */
PKV_API PKV_NODISCARD pkv_status pkv_specs_uniform_type(const pkv_spec *const *specs, size_t n,
                                                        bool *out);

/* ---- a uniform-type group of layers; specs [n] as above ---- */

/** Sum of the pages. */
PKV_API PKV_NODISCARD pkv_status pkv_uniform_page_bytes(const pkv_spec *const *specs, size_t n,
                                                        uint64_t *out);
/** Largest number of pages that a request holds in any layer. VALUE: a layer without bytes. */
PKV_API PKV_NODISCARD pkv_status pkv_uniform_max_pages(const pkv_spec *const *specs, size_t n,
                                                       const pkv_limits *limits, uint64_t *out);
/** max_pages x page bytes. */
PKV_API PKV_NODISCARD pkv_status pkv_uniform_max_memory_bytes(const pkv_spec *const *specs,
                                                              size_t n, const pkv_limits *limits,
                                                              uint64_t *out);
/** Table entries at `len` tokens; ASSERT: the layers disagree. */
PKV_API PKV_NODISCARD pkv_status pkv_uniform_max_blocks(const pkv_spec *const *specs, size_t n,
                                                        const pkv_limits *limits, uint64_t len,
                                                        uint64_t *out);
/** How many layers share the commonest page size. */
PKV_API PKV_NODISCARD pkv_status pkv_uniform_layers_per_page_size(const pkv_spec *const *specs,
                                                                  size_t n, uint64_t *out);
/** AND over the layers; MAX over the layers. */
PKV_API bool pkv_uniform_prefix_cacheable(const pkv_spec *const *specs, size_t n);
PKV_API uint64_t pkv_uniform_prefix_replay_tokens(const pkv_spec *const *specs, size_t n);
/** The one kind of all layers; else "full_attention" if all are subtypes of it; else "unknown". */
PKV_API const char *pkv_uniform_kind_name(const pkv_spec *const *specs, size_t n);
/** The same over event kinds, which know fewer names. */
PKV_API const char *pkv_uniform_event_kind(const pkv_spec *const *specs, size_t n);
/** The window that all share. NOT_FOUND: none, or several. */
PKV_API PKV_NODISCARD pkv_status pkv_uniform_event_window(const pkv_spec *const *specs, size_t n,
                                                          uint64_t *out);

/* ---- quantised content ---- */

/** Mode that a cache dtype name selects, by vLLM's order of tests: the per-token-head names, then
 *  nvfp4_ds_mla, then the prefixes nvfp4, turboquant_, octave_, then ultraquant_4bit, then the
 *  prefix fp8; any other name is NONE. INVAL: an unknown turboquant_ or octave_ name. */
PKV_API PKV_NODISCARD pkv_status pkv_quant_mode_of_cache_dtype(const char *name,
                                                               uint32_t *mode_out);
PKV_API bool pkv_quant_mode_is_per_token_head(uint32_t mode);
PKV_API bool pkv_quant_mode_is_turboquant(uint32_t mode);
PKV_API bool pkv_quant_mode_is_octave(uint32_t mode);

/** Bytes of K and of V of one head and state in a TurboQuant slot, and of the slot (even).
 *  INVAL: not a TurboQuant mode. */
PKV_API PKV_NODISCARD pkv_status pkv_turboquant_slot(uint32_t mode, uint64_t head_size,
                                                     uint64_t *k_out, uint64_t *v_out,
                                                     uint64_t *slot_out);

/** Gives a dense, filled spec the content of a quantised cache, as an attention backend does once:
 *  kv_quant_mode, dtype, state_content_bytes, num_head_slots. `rope` is the number of leading K
 *  dimensions that Octave keeps at 4 bits (64 if 0). A spec whose state_content_bytes are set is
 *  left alone. `cache_dtype` fp8_ds_mla and nvfp4_ds_mla are for latent kinds; with model version
 *  "deepseek_v4" the former is the 584-byte record, padded to 576.
 *  INVAL: the name; VALUE: head sizes that the mode cannot store, or a mode of another kind. */
PKV_API PKV_NODISCARD pkv_status pkv_spec_set_cache_dtype(pkv_spec *spec, const char *cache_dtype,
                                                          uint64_t rope);

/* ---- recurrent checkpoints ---- */

/** Last position below the end of a prefill of n tokens at which a recurrent state can be found
 *  again, 0: none. `unit` tokens per hash, >= 1; with drop_eagle_block the last unit is given up,
 *  else at least one token (or the lookahead) is left to compute. */
PKV_API uint64_t pkv_mamba_checkpoint_position(uint64_t n, uint64_t unit, bool drop_eagle_block,
                                               uint64_t lookahead);
/** Whether a backend can export the state at `position` while it computes tokens
 *  [start, end) of a request with this mamba spec. */
PKV_API bool pkv_mamba_checkpoint_valid(const pkv_spec *spec, uint64_t start, uint64_t end,
                                        uint64_t position, uint64_t unit);

PKV_END_DECLS
#endif
