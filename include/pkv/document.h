/** @file document.h  Plan documents: layer specs and options as JSON.
 *
 *  The format is in docs/formats/plan-document.md. Part of the optional library pagedkv_model. */
#ifndef PKV_DOCUMENT_H
#define PKV_DOCUMENT_H

#include <pkv/alloc.h>
#include <pkv/plan.h>

PKV_BEGIN_DECLS

/** A document as read. @threads immutable after read */
typedef struct pkv_document pkv_document;

/** What a document asks for. */
typedef enum pkv_document_kind {
    PKV_DOCUMENT_PLAN = 0,
    PKV_DOCUMENT_MERGE = 1,      /**< layers: one merged spec */
    PKV_DOCUMENT_UNIFORM = 2,    /**< layers: do they share a block table */
    PKV_DOCUMENT_RESIZE = 3,     /**< layer 0 with another block size */
    PKV_DOCUMENT_VIEWS = 4,      /**< layer 0 as an array in memory */
    PKV_DOCUMENT_QUANT_MODE = 5, /**< text: mode of a cache dtype */
    PKV_DOCUMENT_LAYOUT_OF = 6   /**< layout: properties of an order of axes */
} pkv_document_kind;

/** The rest of a document that asks for less than a plan; 0 where it has no such field. */
typedef struct pkv_document_question {
    const char *text;           /**< quant_mode */
    uint64_t block_size;        /**< resize */
    uint64_t num_blocks;        /**< views */
    uint64_t num_layers;        /**< views */
    uint64_t kernel_block_size; /**< views; 0: the block itself */
    uint64_t layer_stride;      /**< views; with block_stride: of a placed tensor */
    uint64_t block_stride;      /**< views; 0: densely laid out */
    uint64_t offset;            /**< views */
    uint32_t layout;            /**< views, layout_of */
    uint32_t reserved;
} pkv_document_question;

/** Run-time settings beside the plan; a cache is made from them. */
typedef struct pkv_document_settings {
    const char *hash;      /**< name of the key function; "sha256_cbor" */
    const char *hash_seed; /**< NULL: the default seed */
    double watermark;      /**< share of the blocks kept free for running requests, [0, 1) */
    uint8_t events;        /**< 1 */
    uint8_t shared_prefix_checkpoint; /**< 0 */
    uint8_t reserved[6];
    uint64_t max_num_seqs; /**< 256 */
} pkv_document_settings;

/** Reads one document. INVAL: anything outside the format; the text says what, where and
 *  what was expected. VALUE, ASSERT: a layer that cannot be built. */
PKV_API PKV_NODISCARD pkv_status pkv_document_read(const char *json, size_t len,
                                                   const pkv_alloc *alloc, pkv_document **out);
PKV_API void pkv_document_destroy(pkv_document *doc); /**< NULL is allowed */

PKV_API uint32_t pkv_document_get_kind(const pkv_document *doc);
PKV_API const pkv_document_question *pkv_document_get_question(const pkv_document *doc);
/** Parameters ready for pkv_plan_create(); they borrow from the document. Documents that ask for
 *  less fill the layers and what their limits need. */
PKV_API const pkv_plan_params *pkv_document_params(const pkv_document *doc);
PKV_API const pkv_document_settings *pkv_document_get_settings(const pkv_document *doc);
/** Name of layer i < params->n_layers. */
PKV_API const char *pkv_document_layer_name(const pkv_document *doc, uint32_t i);

/** Writes a spec as one object of an input document: every field that is not absent, without
 *  `name` and `is_draft`. *len_out is the length without NUL, also when the text does not fit;
 *  `text` NULL with size 0 only asks for it. INVAL: size is too small, or a number in the spec has
 *  no name. @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_spec_to_json(const pkv_spec *spec, char *text, size_t size,
                                                  size_t *len_out);

PKV_END_DECLS
#endif
