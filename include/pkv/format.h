/** @file format.h  What the tensors of an engine are: which format, and where every row lies.
 *
 *  An engine hands over tensors: shapes, strides, dtypes. A *format* names the axes that they have
 *  in memory; its name is the grammar: NL_X_TWO_NB_BS_NH_HS is one tensor for each layer, of shape
 *  [2, blocks, tokens of a block, heads, head size]. Reading tensors finds the format of each layer
 *  and says in bytes where K and V of a token begin:
 *
 *      pkv_format_params (shapes, strides, engine, hints)
 *        -> pkv_reading: a pkv_layout for each layer, a pkv_layout_group for layers alike
 *             -> planes (pages.h), which transfers move
 *
 *  Shapes can be read in two ways more often than it seems: heads and tokens exchanged, K/V axis
 *  and two blocks. Then reading is refused (AMBIGUOUS) unless a hint decides, and the refusal names
 *  the readings. Nothing here touches the memory that the tensors stand for, so addresses may lie
 *  on a device and beyond 2^32.
 *
 *  Letters: NL layers, NB blocks, BS tokens of a block, NH heads, HS head size, CS width of K and V
 *  together, PBS = NB * BS. docs/internals/format.md tells the rules. */
#ifndef PKV_FORMAT_H
#define PKV_FORMAT_H

#include <stddef.h>

#include <pkv/alloc.h>
#include <pkv/kv_layout.h>
#include <pkv/pages.h>
#include <pkv/status.h>

PKV_BEGIN_DECLS

/* ---- formats ---- */

/** Ids cross processes: frozen. */
typedef enum pkv_format {
    PKV_FORMAT_NB_NL_TWO_BS_NH_HS = 0,
    PKV_FORMAT_NL_X_TWO_NB_BS_NH_HS = 1,
    PKV_FORMAT_NL_X_NB_TWO_BS_NH_HS = 2,
    PKV_FORMAT_NL_X_NB_BS_HS = 3,
    PKV_FORMAT_TWO_X_NL_X_NBBS_NH_HS = 4,
    PKV_FORMAT_NL_X_NBBS_ONE_HS = 5,
    PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS = 6,
    PKV_FORMAT_NL_X_NB_TWO_NH_BS_HS = 7,
    PKV_FORMAT_NB_NL_TWO_NH_BS_HS = 8,
    PKV_FORMAT_TWO_X_NL_X_NB_BS_NH_HS = 9,
    PKV_FORMAT_NL_X_NB_NH_BS_TWO_HS = 10, /**< deprecated; revision SEED only */
    PKV_FORMAT_NL_X_NB_BS_NH_TWO_HS = 11, /**< deprecated */
    PKV_FORMAT_NL_X_NB_NH_BS_CS = 12,
    PKV_FORMAT_NL_X_NB_BS_NH_CS = 13,
    PKV_FORMAT_NL_X_NB_BSV_BSS = 14,
    PKV_FORMAT_NL_X_TWO_NB_NH_ONE_BS_HS = 15,
    PKV_FORMAT_NL_X_TWO_X_NB_BS_NH_HS = 16,
    PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS = 17,
    PKV_FORMAT_NL_X_NB_BS_NH_HS = 18,
    PKV_N_FORMATS = 19
} pkv_format;

/** How an engine's structure holds the layers. */
typedef enum pkv_format_structure {
    PKV_FORMAT_LAYER_LIST = 0, /**< an entry for each layer */
    PKV_FORMAT_KV_LIST = 1,    /**< a list of all K, a list of all V */
    PKV_FORMAT_CROSS_LAYER = 2 /**< one tensor */
} pkv_format_structure;

/** Whose rules: those of LMCache 0.5.6, or of the earlier revision with ids 0 to 10. */
typedef enum pkv_format_revision {
    PKV_FORMAT_REVISION_0_5_6 = 0,
    PKV_FORMAT_REVISION_SEED = 1
} pkv_format_revision;

/** A row of the table of formats. Texts are static. @threads immutable */
typedef struct pkv_format_info {
    const char *name;     /**< "NL_X_NB_BS_HS" */
    const char *backend;  /**< engine and backend that write it; for people */
    uint32_t id;          /**< pkv_format */
    uint32_t structure;   /**< pkv_format_structure */
    uint32_t kv_size;     /**< 2: K and V lie on an axis or in tensors of their own */
    uint8_t is_mla;       /**< latent: no heads */
    uint8_t is_hnd;       /**< heads outside tokens */
    uint8_t block_axis;   /**< padding between blocks is allowed */
    uint8_t flash;        /**< in the accept-list of flash attention */
    uint8_t mla_or_flash; /**< in that of latent or flash attention */
    uint8_t reserved[7];
} pkv_format_info;

/** Sizes that fill in a format's text. */
typedef struct pkv_format_sizes {
    uint64_t nl, nb, bs, nh, hs; /**< formats without blocks print nb * bs */
} pkv_format_sizes;

/** The row of an id. NOT_FOUND (no text): the revision does not know it. O(1) @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_format_get(uint32_t revision, uint64_t id,
                                                pkv_format_info *out);
/** Id of a name that the revision knows. NOT_FOUND (no text). @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_format_from_name(uint32_t revision, const char *name,
                                                      uint32_t *id_out);
/** Writes the shape as text: "NL x [2, NB, BS, NH, HS]", or with sizes "32 x [2, 100, 16, 8, 128]".
 *  For ids 10 and 11 of 0.5.6 `hs` counts K and V together. `room` bytes: 160 are always enough.
 *  NOT_FOUND (no text): unknown id; INVAL: too little room; OVERFLOW: nb * bs. @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_format_text(uint32_t revision, uint64_t id,
                                                 const pkv_format_sizes *sizes, char *text,
                                                 size_t room);
/** Whether LMCache's connector class of this name moves layer by layer. @threads any */
PKV_API bool pkv_format_connector_is_layerwise(uint32_t revision, const char *connector);
/** Whether its connectors want a buffer on the device: not if prefill and decode are on different
 *  machines. @threads any */
PKV_API bool pkv_format_needs_buffer(bool disaggregated);

/* ---- one tensor ---- */

#define PKV_MAX_AXES 8

/** A tensor as its engine sees it. Strides and offset in elements. A value. @threads immutable */
typedef struct pkv_view {
    uint32_t dtype;  /**< pkv_dtype */
    uint32_t rank;   /**< axes, >= 1. Beyond PKV_MAX_AXES the arrays are not looked at, and reading
                         is refused as UNSUPPORTED */
    uint64_t offset; /**< of element 0, from the start of its storage */
    uint64_t shape[PKV_MAX_AXES];   /**< >= 1 each */
    uint64_t strides[PKV_MAX_AXES]; /**< of an axis of size 1: says nothing */
} pkv_view;

typedef enum pkv_view_form {
    PKV_VIEW_DENSE = 0,  /**< no hole between elements; axes in any order */
    PKV_VIEW_PADDED = 1, /**< holes, and no byte belongs to two elements */
    PKV_VIEW_OVERLAPPING =
        2 /**< an axis steps less than what lies inside of it is long. Interleaved
                                  axes count as this, even where no element meets another */
} pkv_view_form;

/** Sets row-major strides. INVAL: rank; OVERFLOW: more than 2^63-1 bytes. @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_view_row_major(pkv_view *view);
/** Whether there are holes or overlaps. INVAL: a field, with its value; OVERFLOW: the last element
 *  ends beyond 2^63-1 bytes. @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_view_check(const pkv_view *view, pkv_view_form *form_out);
/** VALUE: not row-major and tight, or with an offset; as memory shared between processes must be.
 *  INVAL, OVERFLOW: as pkv_view_check(). @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_view_check_contiguous(const pkv_view *view);
/** K and V, each [T, D], of [2, T, D], else of [T, 2, D]. VALUE: neither. @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_view_split(const pkv_view *view, pkv_view kv_out[2]);

/** Tokens of K or V as rows: token t begins at offset + (t / block_size) * block_pitch +
 *  (t % block_size) * token_pitch. Elements. */
typedef struct pkv_token_rows {
    uint64_t tokens;     /**< blocks * block_size */
    uint64_t row;        /**< elements of one token, without holes */
    uint64_t offset;     /**< of token 0 */
    uint64_t block_size; /**< tokens of a block */
    uint64_t token_pitch, block_pitch;
    uint64_t flat; /**< 1: token_pitch reaches all tokens */
} pkv_token_rows;

#define PKV_ANY_FORMAT UINT64_MAX

/** Rows of the tokens of a layer: of one [P, B, HS] with `mla`; of K and V, each [P, B, NH, HS], if
 *  n_views is 2; of one [2, P, B, NH, HS] or [P, 2, B, NH, HS] else, where `format` decides (1 or
 *  2), or PKV_ANY_FORMAT takes the first axis of 2. Writes one or two rows and their number.
 *  VALUE: another shape, or holes inside of a token; NOTIMPL: another format. @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_view_token_rows(const pkv_view *views, uint32_t n_views,
                                                     bool mla, uint64_t format,
                                                     pkv_token_rows rows_out[2],
                                                     uint32_t *n_rows_out);

/* ---- the question ---- */

typedef enum pkv_engine {
    PKV_ENGINE_VLLM = 0,
    PKV_ENGINE_SGLANG = 1,
    PKV_ENGINE_TRTLLM = 2,
    PKV_ENGINE_ATOM = 3,
    PKV_N_ENGINES = 4
} pkv_engine;

/** How the engine hands its tensors over. */
typedef enum pkv_structure {
    PKV_STRUCTURE_LIST = 0,          /**< one tensor a layer, or a list of planes */
    PKV_STRUCTURE_PER_LAYER = 1,     /**< every layer is a list of planes, also of one */
    PKV_STRUCTURE_K_LIST_V_LIST = 2, /**< all K, all V; here: two tensors a layer */
    PKV_STRUCTURE_CROSS_LAYER = 3,   /**< one bare tensor */
    PKV_N_STRUCTURES = 4
} pkv_structure;

typedef enum pkv_list_hint {
    PKV_LIST_UNKNOWN = 0,
    PKV_LIST_K_V = 1,    /**< a flat list: the first half is K, the second V */
    PKV_LIST_UNIFIED = 2 /**< every entry is one component */
} pkv_list_hint;

typedef enum pkv_planes_hint {
    PKV_PLANES_UNKNOWN = 0,
    PKV_PLANES_ATTENTION = 1, /**< two planes are K and V */
    PKV_PLANES_MLA = 2        /**< planes are a latent and what belongs to it */
} pkv_planes_hint;

typedef enum pkv_kv_axis_hint {
    PKV_KV_AXIS_UNKNOWN = 0,
    PKV_KV_AXIS_FIRST = 1, /**< of the two outer axes of 2, the first in memory is K/V */
    PKV_KV_AXIS_SECOND = 2
} pkv_kv_axis_hint;

/** What the caller knows besides. 0 everywhere: nothing. */
typedef struct pkv_format_hints {
    uint32_t layout;           /**< pkv_kv_layout */
    uint32_t list;             /**< pkv_list_hint */
    uint32_t planes;           /**< pkv_planes_hint */
    uint32_t kv_axis;          /**< pkv_kv_axis_hint */
    uint64_t num_kv_heads;     /**< of these tensors; every layer with a head axis must agree, */
    uint64_t tokens_per_block; /**< and every layer that has blocks besides */
    uint64_t head_dim;         /**< a row of K and V together must be at least as wide */
} pkv_format_hints;

typedef struct pkv_engine_layer {
    const pkv_view *tensors; /**< [n_tensors] borrowed for the call */
    uint32_t n_tensors;      /**< >= 1 */
    uint32_t reserved;
} pkv_engine_layer;

typedef struct pkv_format_params {
    uint32_t struct_size;           /**< set by init */
    uint32_t engine;                /**< pkv_engine */
    uint32_t structure;             /**< pkv_structure */
    uint32_t revision;              /**< pkv_format_revision */
    uint32_t on_cpu;                /**< 1: HND is vLLM's order without a hint */
    uint32_t n_layers;              /**< entries, >= 1 */
    const pkv_engine_layer *layers; /**< [n_layers] borrowed for the call */
    pkv_format_hints hints;
    uint32_t n_groups; /**< 0: one group of all layers */
    uint32_t reserved;
    const uint32_t *group_sizes;  /**< [n_groups] layers of each, >= 1 */
    const uint32_t *group_layers; /**< [sum of group_sizes] numbers of layers, each once */
    const pkv_alloc *alloc;       /**< NULL: libc */
} pkv_format_params;

/* ---- the answer ---- */

#define PKV_LAYOUT_NO_GROUP UINT32_MAX
#define PKV_LAYOUT_MAX_TENSORS 3

/** Where V lies if it has a tensor of its own. Bytes. */
typedef struct pkv_layout_v {
    uint64_t offset, block_stride, token_stride, head_stride;
} pkv_layout_v;

/** Geometry of one layer. Strides and offset in bytes; an axis that the format lacks has stride 0.
 *  A value. @threads immutable */
typedef struct pkv_layout {
    uint32_t format;       /**< pkv_format */
    uint32_t group;        /**< number of its pkv_layout_group, or PKV_LAYOUT_NO_GROUP */
    uint32_t engine_group; /**< or PKV_LAYOUT_NO_GROUP */
    uint32_t dtype;        /**< pkv_dtype, of the first tensor */
    uint32_t kv_size;      /**< 1 or 2 */
    uint8_t known;         /**< 0: in no group and not looked at; only format is set */
    uint8_t is_mla;
    uint8_t dense;        /**< no hole in any of its tensors */
    uint8_t own_v;        /**< 1: V has its own tensor, see v; kv_stride is 0 */
    uint64_t num_blocks;  /**< 0: blocks and tokens are one axis */
    uint64_t block_size;  /**< tokens of a block; 0: as num_blocks */
    uint64_t tokens;      /**< that fit: the page buffer's size */
    uint64_t num_heads;   /**< 1 for a latent */
    uint64_t head_size;   /**< elements of one head's row in the tensor: K and V together for packed
                                formats, the latent's width; NL_X_NP_X_NB_BS_ONE_HS: bytes of all
                                planes in elements of the first */
    uint64_t head_size_v; /**< 0 if kv_size is 1 */
    uint64_t hidden_dim;  /**< num_heads * head_size */
    uint64_t elements;    /**< of its tensors; its share of a tensor of all layers */
    uint64_t offset;      /**< of K's first row, from the start of its tensor's storage */
    uint64_t block_stride;
    uint64_t token_stride; /**< NL_X_NB_BSV_BSS: of the value rows, 128 */
    uint64_t head_stride;
    uint64_t kv_stride; /**< from K to V */
    pkv_layout_v v;
    uint32_t n_tensors;                      /**< 1 to PKV_LAYOUT_MAX_TENSORS */
    uint32_t tensor[PKV_LAYOUT_MAX_TENSORS]; /**< numbers of the given tensors, counted in order */
    pkv_view normalized[PKV_LAYOUT_MAX_TENSORS]; /**< axes in the order that the format names */
    uint32_t odd_order; /**< 1: its axes lie in memory in an order that the revision does not know,
                             mostly one that no engine writes, and were named by stride alone:
                             names may be wrong. Only in revision SEED */
    uint32_t reserved;
} pkv_layout;

/** What a kernel of the LMCache family is told about a group. Elements; may exceed 2^31.
 *  block_stride_elems 0: blocks are tight. */
typedef struct pkv_page_desc {
    uint64_t kv_size, nl, nb, bs, nh, hs, element_size, block_stride_elems;
} pkv_page_desc;

/** Where a tensor begins. */
typedef struct pkv_tensor_pointer {
    uint64_t tensor; /**< its number */
    uint64_t offset; /**< bytes from the start of its storage */
} pkv_tensor_pointer;

/** Layers of one engine group with equal format, dtype, sizes and strides. */
typedef struct pkv_layout_group {
    uint32_t engine_group;
    uint32_t n_layers;
    const uint32_t *layers;             /**< [n_layers] ascending; owned by the reading */
    const pkv_tensor_pointer *pointers; /**< [n_pointers] in the order of the kernels; owned */
    uint32_t n_pointers;
    uint32_t has_desc;  /**< 0: a descriptor cannot say where the bytes are */
    pkv_page_desc desc; /**< filled anyway but for nb, bs of formats without blocks: PBS, 1 */
} pkv_layout_group;

#define PKV_REFUSAL_MAX_READINGS 4

/** Why reading was refused, beside the status and its text. */
typedef struct pkv_refusal {
    uint32_t n_readings; /**< >= 2 for AMBIGUOUS, else 0 */
    uint32_t reserved;
    char readings[PKV_REFUSAL_MAX_READINGS][160]; /**< "FORMAT with 16 tokens, 8 heads" */
} pkv_refusal;

/** What some tensors are. Owns its tables. @threads immutable */
typedef struct pkv_reading pkv_reading;

PKV_API void pkv_format_params_init(pkv_format_params *params);

/** Reads an engine's tensors. A list is read layer by layer, so mixed models are fine; layers in no
 *  group are not looked at. refusal may be NULL; it is filled for AMBIGUOUS.
 *
 *  UNSUPPORTED: no format has this structure, or this order, hole or overlap in memory.
 *  VALUE: shapes contradict each other or a hint. AMBIGUOUS: more than one reading fits, or the
 *  hint that would decide is missing. INVAL: a field outside its contract. OVERFLOW: bytes beyond
 *  2^63-1. NOMEM. O(tensors) + O(layers * groups) @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_reading_create(const pkv_format_params *params,
                                                    pkv_refusal *refusal, pkv_reading **out);
PKV_API void pkv_reading_destroy(pkv_reading *reading);

/** Layers of the model: a tensor of all layers has as many as its axis, a flat list of K and V half
 *  as many as it has tensors. */
PKV_API uint32_t pkv_reading_n_layers(const pkv_reading *reading);
/** Owned by the reading; NULL beyond the last. */
PKV_API const pkv_layout *pkv_reading_layer(const pkv_reading *reading, uint32_t layer);
PKV_API uint32_t pkv_reading_n_groups(const pkv_reading *reading);
PKV_API const pkv_layout_group *pkv_reading_group(const pkv_reading *reading, uint32_t group);

/** Pointers of these layers in this order, as kernels want them: one for each layer; all K, then
 *  all V (4, 9); K, V, K, V (16); every plane (17); one for all (0, 8). out: room for
 *  PKV_LAYOUT_MAX_TENSORS * n. NOT_FOUND (no text): no such layer, or not looked at; VALUE: layers
 *  of several formats; INVAL: n is 0. O(n) @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_reading_pointers(const pkv_reading *reading,
                                                      const uint32_t *layers, uint32_t n,
                                                      pkv_tensor_pointer *out, uint32_t *n_out);

/** Form of a layer: that of its tensor, or the worst of several. VALUE: a layer that was not looked
 *  at. O(1) @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_layout_check(const pkv_layout *layout,
                                                  pkv_view_form *form_out);
/** The planes of a layer, for transfers: K and V, or the packed or latent row, or the planes of
 *  NL_X_NP_X_NB_BS_ONE_HS, or values and scales of the indexer (rows of 128 and of 4 bytes); a
 *  format without blocks has blocks of one token. Plane buffers are numbers of tensors.
 *  pages_out->planes is `planes`. VALUE: a layer that was not looked at; UNSUPPORTED: one of an odd
 *  order. O(1) @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_layout_planes(const pkv_layout *layout,
                                                   pkv_plane planes[PKV_LAYOUT_MAX_TENSORS],
                                                   pkv_layer_pages *pages_out);

PKV_END_DECLS
#endif
