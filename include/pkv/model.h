/** @file model.h  From the published config of a model to the specs of its layers.
 *
 *  Part of the optional library pagedkv_model, which needs jansson (its memory comes from libc). */
#ifndef PKV_MODEL_H
#define PKV_MODEL_H

#include <pkv/alloc.h>
#include <pkv/spec.h>

PKV_BEGIN_DECLS

/** A model as read. @threads immutable after read */
typedef struct pkv_model pkv_model;

/** How sure a layer's spec is. */
typedef enum pkv_certainty {
    PKV_EXACT = 0,   /**< equal to what the model's own code builds */
    PKV_DERIVED = 1, /**< follows from the config by a rule that was not executed */
    PKV_ASSUMED = 2  /**< a default stands in for something that the config does not say */
} pkv_certainty;

typedef struct pkv_model_params {
    uint32_t struct_size;    /**< set by init */
    uint32_t tp;             /**< 1; tensor-parallel ranks */
    const pkv_alloc *alloc;  /**< NULL: libc */
    uint64_t block_size;     /**< tokens; 0: 16, or what the family needs */
    const char *cache_dtype; /**< "auto": the model's own type, or what its checkpoint asks for */
} pkv_model_params;

/** One layer that owns a cache. */
typedef struct pkv_model_layer {
    const char *name; /**< "layers.0" */
    const char *why;  /**< where the spec comes from */
    uint32_t certainty;
    uint32_t index; /**< of the layer in the model */
} pkv_model_layer;

typedef struct pkv_model_info {
    const char *architecture; /**< as the config names it */
    const char *family;       /**< row of our table */
    const char *cache_dtype;  /**< as resolved */
    uint64_t max_model_len;   /**< longest context that the config allows; 0: not said */
    uint64_t n_attention_heads, n_kv_heads; /**< of the whole model */
    uint32_t n_model_layers;                /**< decoder layers of the model */
    uint32_t n_layers;                      /**< of them with a cache of their own */
    uint32_t n_no_cache;                    /**< layers that keep nothing */
    uint32_t n_sharing;                     /**< layers that read another one's cache */
    uint32_t dtype;                         /**< pkv_dtype of the weights' activations */
    uint32_t reserved;
} pkv_model_info;

PKV_API void pkv_model_params_init(pkv_model_params *params);

/** Reads a config.json of `len` bytes. INVAL: not JSON, or a field missing or out of range, named;
 *  UNSUPPORTED: an architecture that is not in the table, named; VALUE: heads that do not divide
 *  over tp, a cache dtype that the model cannot have, or two that contradict each other. */
PKV_API PKV_NODISCARD pkv_status pkv_model_read_config(const char *json, size_t len,
                                                       const pkv_model_params *params,
                                                       pkv_model **out);
PKV_API void pkv_model_destroy(pkv_model *model); /**< NULL is allowed */

PKV_API const pkv_model_info *pkv_model_get_info(const pkv_model *model);
/** Specs [n_layers] in model order; valid as long as the model. */
PKV_API const pkv_spec *pkv_model_specs(const pkv_model *model);
/** NULL beyond n_layers. */
PKV_API const pkv_model_layer *pkv_model_layer_at(const pkv_model *model, uint32_t i);
/** Name of the i-th layer that keeps nothing. */
PKV_API const char *pkv_model_no_cache_at(const pkv_model *model, uint32_t i);
/** The i-th sharing layer, and the layer whose cache it reads. */
PKV_API void pkv_model_sharing_at(const pkv_model *model, uint32_t i, const char **layer_out,
                                  const char **owner_out);
/** The table: architecture names that are read, NULL beyond the last. */
PKV_API const char *pkv_model_architecture_at(uint32_t i);

PKV_END_DECLS
#endif
