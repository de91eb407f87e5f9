/** @file transfer.h  Moves the rows of a cache: pages to chunks and back, pages to pages.
 *
 *  A *chunk* holds the rows of `tokens` tokens of all layers without gaps, as stores and networks
 *  want them; a row is one head of one token, and D_p is all rows of a token in plane p, heads in
 *  order. The bytes of a chunk never depend on how the pages are laid out:
 *
 *      2LTD    [p][layer][T][D_p]        2TD  [p][T][D_p]     MLA     [layer][T][p][D_p]
 *      L2TD    [layer][p][T][D_p]        T2D  [T][p][D_p]     BLOCKS  [block][layer][p][token][D_p]
 *
 *  A plan is made once, with all checks, and may then be run any number of times, whole or layer by
 *  layer, by any number of threads, without an allocation. It owns its tables: what they were made
 *  from may change after the call. The memory that it moves is borrowed until it is destroyed.
 *
 *  Nothing moves before everything is known to be right. A refusal says which of four rules was
 *  broken and by which field. Addresses are 64 bits wide throughout. */
#ifndef PKV_TRANSFER_H
#define PKV_TRANSFER_H

#include <stdint.h>

#include <pkv/alloc.h>
#include <pkv/pages.h>
#include <pkv/status.h>

PKV_BEGIN_DECLS

/** What moves. Numbers are frozen. */
typedef enum pkv_transfer_op {
    PKV_TRANSFER_GATHER = 1,  /**< pages -> chunks */
    PKV_TRANSFER_SCATTER = 2, /**< chunks -> pages */
    PKV_TRANSFER_COPY = 3,    /**< pages -> pages */
    PKV_TRANSFER_SWAP = 4,    /**< pairs of blocks of one structure are exchanged */
    PKV_TRANSFER_RESHARD = 5  /**< blocks of all ranks -> blocks of another number of ranks */
} pkv_transfer_op;

/** Order of the axes of a chunk; the drawing above. The first four hold two planes; T2D and 2TD
 *  hold one layer; but for BLOCKS all layers have equal D_p. */
typedef enum pkv_chunk_form {
    PKV_CHUNK_2LTD = 1,
    PKV_CHUNK_L2TD = 2,
    PKV_CHUNK_2TD = 3,
    PKV_CHUNK_T2D = 4,
    PKV_CHUNK_MLA = 5,   /**< any number of planes, side by side in each token */
    PKV_CHUNK_BLOCKS = 6 /**< whole blocks, each in one piece; T is a multiple of the block size */
} pkv_chunk_form;

/** How bytes are written. */
typedef enum pkv_transfer_stores {
    PKV_STORES_AUTO = 0,     /**< by the size of the transfer */
    PKV_STORES_CACHED = 1,   /**< through the caches: somebody reads them soon */
    PKV_STORES_STREAMING = 2 /**< past the caches, where the processor can */
} pkv_transfer_stores;

/** Which rule a refused transfer breaks. */
typedef enum pkv_transfer_rule {
    PKV_TRANSFER_MALFORMED = 0, /**< none of these: an argument outside its contract */
    PKV_TRANSFER_RANGE = 1,     /**< a slot, block, layer or number of tokens does not exist */
    PKV_TRANSFER_BOUNDS = 2,    /**< a row, or a chunk, ends beyond its memory */
    PKV_TRANSFER_OVERLAP = 3,   /**< a byte would be written twice, or both read and written */
    PKV_TRANSFER_CONTENT = 4 /**< the two sides do not hold the same, or a chunk cannot hold it */
} pkv_transfer_rule;

/** Why a plan was refused; pkv_last_error() has the text with the value. */
typedef struct pkv_transfer_refusal {
    uint32_t rule;  /**< pkv_transfer_rule */
    char field[60]; /**< what broke it, "src_slots[3]" or "src[0].layers[1].planes[0]"; or empty */
} pkv_transfer_refusal;

/** Memory that somebody else owns. Buffers may be the same memory or overlap. */
typedef struct pkv_transfer_buffer {
    void *data; /**< only read where it is a source */
    uint64_t bytes;
} pkv_transfer_buffer;

/** Pages of one rank. */
typedef struct pkv_transfer_pages {
    const pkv_transfer_buffer *buffers; /**< [n_buffers] that planes name by number */
    const pkv_layer_pages *layers;      /**< [n_layers] */
    const uint32_t *dtypes;             /**< [n_layers] pkv_dtype of a layer's rows, or NULL */
    uint32_t n_buffers;                 /**< >= 1 */
    uint32_t n_layers;                  /**< >= 1 */
} pkv_transfer_pages;

/** Chunks of one form. Token i is row i mod `tokens` of chunk i / `tokens`. */
typedef struct pkv_transfer_chunks {
    const pkv_transfer_buffer *chunks; /**< [n_chunks] one for each chunk */
    uint64_t tokens;                   /**< rows that a chunk has room for, >= 1 */
    uint64_t offset;                   /**< bytes before row 0 in each */
    uint32_t n_chunks;                 /**< >= 1 */
    uint32_t form;                     /**< pkv_chunk_form */
} pkv_transfer_chunks;

/** Tokens are named either by slots or by blocks; slot = block * block_size + offset in the block.
 *  A list has the length n_ids, and which ones are given depends on the operation:
 *
 *  | op      | slots                | or blocks               | moves                             |
 *  |---------|----------------------|-------------------------|-----------------------------------|
 *  | GATHER  | src_slots            | src_blocks              | src -> chunks                     |
 *  | SCATTER | dst_slots            | dst_blocks              | chunks -> dst                     |
 *  | COPY    | src_slots, dst_slots | src_blocks, dst_blocks  | src -> dst, i-th to i-th          |
 *  | SWAP    |                      | src_blocks, dst_blocks  | src, both ways                    |
 *  | RESHARD |                      | src_blocks, dst_blocks  | src[n_src] -> dst[n_dst]          |
 *
 *  A negative slot is skipped and so is its row of the chunk; negative blocks are refused. */
typedef struct pkv_transfer_params {
    uint32_t struct_size;              /**< set by init */
    uint32_t op;                       /**< pkv_transfer_op */
    uint32_t stores;                   /**< pkv_transfer_stores; AUTO */
    uint32_t n_src;                    /**< 1; with RESHARD ranks of the source */
    uint32_t n_dst;                    /**< 1; with RESHARD ranks of the destination */
    uint32_t n_layers;                 /**< length of layers; 0: all of them, in order */
    const pkv_transfer_pages *src;     /**< [n_src] or NULL */
    const pkv_transfer_pages *dst;     /**< [n_dst] or NULL */
    const pkv_transfer_chunks *chunks; /**< GATHER, SCATTER */
    const int64_t *src_slots;          /**< [n_ids] or NULL */
    const int64_t *dst_slots;          /**< [n_ids] or NULL */
    const int64_t *src_blocks;         /**< [n_ids] or NULL */
    const int64_t *dst_blocks;         /**< [n_ids] or NULL */
    uint64_t n_ids;                    /**< >= 1 */
    const uint32_t *layers;            /**< [n_layers] that move, each once, in this order */
    uint64_t tokens;      /**< with blocks: how many are valid, so that the last block is partial;
                               PKV_ALL_TOKENS: all */
    uint64_t skip_tokens; /**< 0; the first ones that do not move; the others keep their rows */
    uint64_t heads_total; /**< RESHARD: KV heads of the model, H. Rank r of R holds the heads from
                               rH/R up to (r+1)H/R, or if H < R head floor(rH/R) alone */
    const pkv_alloc *alloc;
} pkv_transfer_params;

#define PKV_ALL_TOKENS UINT64_MAX

/** What a run moves. */
typedef struct pkv_transfer_info {
    uint64_t tokens;    /**< that move; 0 with SWAP */
    uint64_t bytes;     /**< that are written */
    uint64_t runs;      /**< stretches of tokens that lie side by side on both sides */
    uint32_t n_layers;  /**< that move: the steps of pkv_transfer_run_layer() */
    uint32_t streaming; /**< 1: written past the caches */
} pkv_transfer_info;

/** All that is known of a transfer before it runs. @threads immutable after create; runs of one
 *  plan must not overlap in time unless they are the workers of one run */
typedef struct pkv_transfer_plan pkv_transfer_plan;

PKV_API void pkv_transfer_params_init(pkv_transfer_params *params);

/** Checks everything and keeps what runs need: about 100 bytes for each layer and plane, and 56 for
 *  each stretch of tokens. *out is NULL after a failure, and not a byte has moved.
 *  INVAL: refused; *refusal (or NULL) has the rule and the field of the first of: malformed, RANGE
 *  of layers, CONTENT, BOUNDS, the other RANGE, OVERLAP. NOMEM.
 *  O(ids + layers * planes), and O(n log n) for n pieces of memory where planes are so interleaved
 *  that only their bytes can tell whether they overlap. Caller destroys. */
PKV_API PKV_NODISCARD pkv_status pkv_transfer_plan_create(const pkv_transfer_params *params,
                                                          pkv_transfer_plan **out,
                                                          pkv_transfer_refusal *refusal);
PKV_API void pkv_transfer_plan_destroy(pkv_transfer_plan *plan); /**< NULL is allowed */

PKV_API void pkv_transfer_plan_info(const pkv_transfer_plan *plan, pkv_transfer_info *out);
/** Bytes written by step i < n_layers; 0 beyond. O(1) */
PKV_API uint64_t pkv_transfer_layer_bytes(const pkv_transfer_plan *plan, uint32_t step);

/** One worker's share of the whole transfer. It is done when all n_workers have returned, in any
 *  order or at once; shares have about equally many bytes, and the result never depends on their
 *  number. What was written is visible to whoever synchronises with the return.
 *  INVAL: worker >= n_workers, and nothing moves. No allocation, no lock. */
PKV_API PKV_NODISCARD pkv_status pkv_transfer_run(const pkv_transfer_plan *plan, uint32_t worker,
                                                  uint32_t n_workers);
/** The same for one layer, the step-th of those that move. INVAL: step >= n_layers, too. */
PKV_API PKV_NODISCARD pkv_status pkv_transfer_run_layer(const pkv_transfer_plan *plan,
                                                        uint32_t step, uint32_t worker,
                                                        uint32_t n_workers);

PKV_END_DECLS
#endif
