/** @file plan.h  What fits in this memory: layers into groups, groups into blocks.
 *
 *  A *group* is a set of layers that share one block table. All device groups draw their block ids
 *  from one pool, so a block is as large as the widest group needs, and the tensors of the groups
 *  overlay each other: a block id belongs to one group at a time.
 *
 *      specs of the layers -> layout -> groups -> bytes per block -> blocks -> tensors
 *
 *  The decisions are those of vLLM 0.33's planner; docs/internals/plan.md walks through them.
 *  Layers are named by their index in params->layers throughout. */
#ifndef PKV_PLAN_H
#define PKV_PLAN_H

#include <pkv/alloc.h>
#include <pkv/kv_layout.h>
#include <pkv/spec.h>

PKV_BEGIN_DECLS

/** A finished plan. Owns its tables and copies of all specs. @threads immutable after create */
typedef struct pkv_plan pkv_plan;

/** Which revision decides where two published ones differ (docs/internals/plan.md). */
typedef enum pkv_revision { PKV_REVISION_0_33 = 0, PKV_REVISION_SEED = 1 } pkv_revision;

/** How draft tokens are made. The first three lose the last block of a prefix hit in groups that
 *  hold a draft layer, unless keys that look ahead replace that. */
typedef enum pkv_draft_method {
    PKV_DRAFT_NONE = 0,
    PKV_DRAFT_EAGLE = 1,
    PKV_DRAFT_MTP = 2,
    PKV_DRAFT_MTP_MULTI = 3, /**< one module per draft token */
    PKV_DRAFT_DFLASH = 4,
    PKV_DRAFT_MODEL = 5,
    PKV_DRAFT_NGRAM = 6
} pkv_draft_method;

#define PKV_NO_OVERRIDE UINT64_MAX  /**< num_blocks_override: none */
#define PKV_RETAIN_DENSE UINT64_MAX /**< retention_interval: every block */

/** One pipeline stage: its memory and its layers. */
typedef struct pkv_plan_worker {
    int64_t available_bytes; /**< signed, since profilers report negative rests */
    const uint32_t *layers;  /**< [n_layers], layer indices, each once; borrowed for the call */
    uint32_t n_layers;
    uint32_t reserved;
} pkv_plan_worker;

/** Input of a plan. Fill with pkv_plan_params_init(), then set what differs. */
typedef struct pkv_plan_params {
    uint32_t struct_size;           /**< set by init */
    uint32_t n_layers;              /**< 0 is allowed: a model without a cache */
    const pkv_spec *layers;         /**< [n_layers] finished specs; borrowed for the call */
    const pkv_alloc *alloc;         /**< NULL: libc */
    int64_t available_bytes;        /**< KV bytes of the one worker, if n_workers is 0 */
    const pkv_plan_worker *workers; /**< [n_workers] pipeline stages; borrowed for the call */
    uint32_t n_workers;     /**< 0: one worker with all layers; n_workers * n_layers <= 2^24 */
    uint32_t layout;        /**< pkv_kv_layout; AUTO */
    uint64_t max_model_len; /**< tokens of the longest request, >= 1 */
    uint64_t max_num_batched_tokens; /**< 8192 */
    uint64_t max_concurrent_batches; /**< 1 */
    uint64_t max_encoder_tokens;     /**< 0 */
    uint64_t num_blocks_override;    /**< PKV_NO_OVERRIDE; checked like memory */
    uint32_t tp, dcp, pcp;           /**< 1; ranks of tensor and context parallelism */
    uint32_t revision;               /**< pkv_revision */
    uint8_t enable_hybrid;           /**< 1; 0: local layers are planned like full ones */
    uint8_t auto_fit;                /**< 0; 1: shorten max_model_len to what fits */
    uint8_t caching;                 /**< 1; prefix caching (block and hash sizes) */
    uint8_t draft_block_drop;        /**< 1 */
    uint8_t draft_lookahead_hashes;  /**< 1 */
    uint8_t hisparse;                /**< 0; 1: sparse latent layers live on the host */
    uint8_t reserved0[2];
    uint32_t draft_method; /**< pkv_draft_method */
    uint32_t draft_tokens; /**< draft tokens per step */
    uint64_t hisparse_host_bytes;
    uint64_t hisparse_device_rows; /**< rows of a request's hot region; 0: from top-k */
    uint64_t hisparse_index_topk;  /**< 2048: for layers without topk_buffer_width */
    uint64_t prefix_match_unit;    /**< tokens per hash; 0: from the groups */
    uint64_t retention_interval;   /**< 0: semantic boundaries only; n: one checkpoint per n tokens;
                                        PKV_RETAIN_DENSE */
} pkv_plan_params;

/** Part that a group plays in HiSparse. */
typedef enum pkv_group_role {
    PKV_GROUP_DEFAULT = 0,
    PKV_GROUP_HISPARSE_SOURCE = 1,
    PKV_GROUP_HISPARSE_INDEXER = 2
} pkv_group_role;

/** Layers of a group that have one spec, in the group's order. */
typedef struct pkv_group_class {
    const pkv_spec *spec;
    const uint32_t *layers; /**< [n_layers] */
    uint32_t n_layers;
    uint32_t reserved;
} pkv_group_class;

/** One group. In a group that is not uniform-type there is one class, whose spec is the merge of
 *  all layers. Layers of hot and resident groups are named by their source layer.
 *
 *  A pipeline stage may own no layer of a uniform-type group. Such a group still has a block table
 *  there, so it keeps the classes of the whole model's group: spec_layers are then those layers. */
typedef struct pkv_group {
    uint32_t kind;                  /**< pkv_kind of its layers as planned, or PKV_N_KINDS: mixed */
    uint32_t role;                  /**< pkv_group_role */
    uint64_t block_size;            /**< tokens */
    uint64_t page_bytes;            /**< one layer's page; uniform-type: the sum over spec_layers */
    const uint32_t *layers;         /**< [n_layers] that the worker owns */
    const uint32_t *spec_layers;    /**< [n_spec_layers] that the classes describe */
    const pkv_group_class *classes; /**< [n_classes], in order of first appearance */
    const uint32_t *class_of;       /**< [n_spec_layers] index into classes */
    uint32_t n_layers, n_spec_layers;
    uint32_t n_classes;
    uint8_t is_eagle;     /**< drops the last block of a hit */
    uint8_t uniform_type; /**< one table, layers of different widths */
    uint8_t host;         /**< its blocks lie in the host pool */
    uint8_t transfer;     /**< connectors move its blocks */
} pkv_group;

/** Where layers of one spec lie in the one backing buffer of their pool: the page of layer l of
 *  the list and block b starts at offset + l * layer_stride + b * block_stride. A group without
 *  layers on a worker has entries too (see pkv_group); their layers are another stage's, and the
 *  worker makes no use of them. */
typedef struct pkv_tensor {
    uint64_t size; /**< bytes of the whole backing buffer */
    uint64_t offset, layer_stride, block_stride;
    const uint32_t *layers; /**< [n_layers] in L order */
    uint32_t n_layers;
    uint32_t group; /**< index of its group */
    uint8_t host;   /**< in the host pool */
    uint8_t reserved[7];
} pkv_tensor;

/** What a worker (pipeline stage) allocates. */
typedef struct pkv_worker_plan {
    uint64_t bytes_per_block; /**< device pool */
    uint64_t bytes;           /**< of the device pool */
    uint32_t n_groups, n_tensors;
    uint8_t zeroing;         /**< new blocks must be zeroed before use */
    uint8_t mixed_precision; /**< device layers store more than one precision */
    uint8_t has_mamba;
    uint8_t reserved[5];
} pkv_worker_plan;

/** The plan's figures. */
typedef struct pkv_plan_summary {
    uint64_t num_blocks;         /**< of the device pool on every worker, the null block included */
    uint64_t max_model_len;      /**< tokens, after auto-fit */
    double max_concurrency;      /**< requests of max_model_len; 0: no layer needs a block */
    uint64_t tokens;             /**< floor of max_concurrency * max_model_len */
    uint64_t blocks_per_request; /**< of the device pool, at max_model_len */
    double steady_concurrency;   /**< HiSparse: once requests read from the host; else 0 */
    uint64_t host_num_blocks;    /**< HiSparse: host pool, null block included; else 0 */
    uint64_t host_block_stride;  /**< HiSparse: bytes; else 0 */
    uint64_t tp_replicas;        /**< consecutive TP ranks that hold identical content */
    uint64_t scheduler_block_size; /**< tokens; 0: the sizes cannot be resolved, see sizes_status */
    uint64_t hash_block_size;      /**< tokens per key */
    uint64_t hit_alignment;        /**< tokens; hits are multiples of it */
    uint64_t prefill_lookahead;    /**< tokens after a position that its draft content depends on */
    uint64_t hash_lookahead;       /**< tokens after a block that its key covers; 0: none */
    int32_t sizes_status;          /**< pkv_status of resolving the three above */
    uint32_t layout;               /**< pkv_kv_layout, resolved */
    uint32_t n_workers;
    uint8_t zeroing;           /**< new blocks must be zeroed, as a scheduler sees it: by the first
                                  layer of each group (pkv_worker_plan: by all layers) */
    uint8_t mixed_precision;   /**< device layers store more than one precision; likewise */
    uint8_t caching;           /**< prefix caching after the specs had their say */
    uint8_t drops_draft_block; /**< hits of draft groups lose their last block at run time */
    uint8_t partial_hits;      /**< hits may end inside a block: alignment is then the key's unit */
    uint8_t reserved[7];
} pkv_plan_summary;

/** Defaults of every field; max_model_len stays 0 and must be set. */
PKV_API void pkv_plan_params_init(pkv_plan_params *params);

/** Plans. On failure *out is NULL.
 *  INVAL: a field outside its contract; VALUE, ASSERT, NOTIMPL: no plan (the text says which
 *  worker, its budget, the bytes of one block, and the longest length that would fit);
 *  OVERFLOW, NOMEM. O(layers) for a bounded number of distinct specs. @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_plan_create(const pkv_plan_params *params, pkv_plan **out);
PKV_API void pkv_plan_destroy(pkv_plan *plan); /**< NULL is allowed */

/** Figures of the plan; valid as long as it. */
PKV_API const pkv_plan_summary *pkv_plan_get_summary(const pkv_plan *plan);
/** Text of why the block and hash sizes cannot be resolved; "" if they can. */
PKV_API const char *pkv_plan_sizes_error(const pkv_plan *plan);
/** The limits that the plan was made for, max_model_len after auto-fit. */
PKV_API const pkv_limits *pkv_plan_get_limits(const pkv_plan *plan);
/** Retention policy as given. */
PKV_API uint64_t pkv_plan_retention_interval(const pkv_plan *plan);
/** Whether a cache can follow that policy. VALUE: an interval without a sliding-window or
 *  recurrent group, or one that is no multiple of the scheduler block size. */
PKV_API PKV_NODISCARD pkv_status pkv_plan_check_retention(const pkv_plan *plan);
/** Worker w < n_workers; NULL beyond. Its groups and tensors in the planner's order; group i means
 *  the same on every worker, and may have no layer there. */
PKV_API const pkv_worker_plan *pkv_plan_worker_at(const pkv_plan *plan, uint32_t w);
PKV_API const pkv_group *pkv_plan_group_at(const pkv_plan *plan, uint32_t w, uint32_t i);
PKV_API const pkv_tensor *pkv_plan_tensor_at(const pkv_plan *plan, uint32_t w, uint32_t i);

/** Blocks of its pool that one request of max_model_len = `len` takes in a group of the plan. */
PKV_API PKV_NODISCARD pkv_status pkv_plan_group_blocks(const pkv_plan *plan, const pkv_group *group,
                                                       uint64_t len, uint64_t *out);

/** The longest length, up to limits->max_model_len, at which the max_memory_bytes of the layers
 *  [n], added up, fit; 0: none. A helper before grouping; ignores padding and the null block. */
PKV_API PKV_NODISCARD pkv_status pkv_estimate_max_model_len(const pkv_spec *layers, size_t n,
                                                            const pkv_limits *limits,
                                                            int64_t available_bytes, uint64_t *out);

/** The limits that params stand for, before auto-fit. INVAL, OVERFLOW. */
PKV_API PKV_NODISCARD pkv_status pkv_plan_params_limits(const pkv_plan_params *params,
                                                        pkv_limits *out);
/** Tokens kept below a window for drafters: prefill lookahead - 1, at least 0. The planner sets
 *  extra_retained_tokens of every sliding kind to it. */
PKV_API uint64_t pkv_plan_params_extra_retained(const pkv_plan_params *params);

/** Size d in [max(1, floor), max(values)] with the least total padding when every value is rounded
 *  up to a multiple of d; ties take the largest d. VALUE: no values, or one that is 0. */
PKV_API PKV_NODISCARD pkv_status pkv_approximate_gcd(const uint64_t *values, size_t n,
                                                     uint64_t floor, uint64_t *out);

/* ---- block size of models with recurrent layers ---- */

/** Block size and pad that make one page serve attention and a recurrent state.
 *  attention_token_bytes: of one token of one attention layer; kernel_block: smallest multiple of
 *  tokens that every backend accepts (the checkpoint alignment included); block_size: as
 *  configured. The result is at least block_size, and *mamba_page_out its bytes.
 *  INVAL: a zero argument; OVERFLOW. */
PKV_API PKV_NODISCARD pkv_status pkv_hybrid_block_size(uint64_t attention_token_bytes,
                                                       uint64_t mamba_page_bytes,
                                                       uint64_t kernel_block, uint64_t block_size,
                                                       uint64_t *block_size_out,
                                                       uint64_t *mamba_page_out);

PKV_END_DECLS
#endif
