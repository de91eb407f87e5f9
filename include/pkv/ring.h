/** @file ring.h  Rings of raw rows inside of blocks: how many rows fit, and which row is whose.
 *
 *  Compressed attention folds a region of consecutive tokens into one summary. Until the last of
 *  them is there, the rows of the others must stay readable; they live in a ring, one block per
 *  request for all of its life. Position p is row p mod capacity, so what is written again after
 *  rejected drafts overwrites them, and a rollback needs no work:
 *
 *      block b |row 0|row 1| ... |row capacity-1|  (other layers)  | block b+1 ...
 *              ^ b * rows_per_block
 *
 *  Values only; nothing here has state. Rows are counted from the start of block 0, the null block,
 *  whose rows are never written. */
#ifndef PKV_RING_H
#define PKV_RING_H

#include <stdint.h>

#include <pkv/status.h>

PKV_BEGIN_DECLS

typedef struct pkv_ring_params {
    uint32_t struct_size; /**< set by init */
    uint32_t reserved;
    uint64_t page_bytes;   /**< of the layer whose page the ring fills */
    uint64_t block_size;   /**< tokens per block of that page's bf16 spec; 0: the page is taken
                                whole, else what is no multiple of 2 * block_size is lost */
    uint64_t row_bytes;    /**< 1024; of one token */
    uint64_t region;       /**< 8; tokens of one summary, >= 2 */
    uint64_t drafts;       /**< 0; most tokens of a step that may be rejected */
    uint64_t block_stride; /**< bytes from block to block; 0: page_bytes */
    uint64_t blocks;       /**< the null block included, >= 2 */
} pkv_ring_params;

/** A ring per block. A value: copy it freely. @threads immutable */
typedef struct pkv_ring {
    uint64_t required;       /**< rows that must fit: region - 1 + drafts */
    uint64_t capacity;       /**< rows that do */
    uint64_t rows_per_block; /**< rows from block to block */
    uint64_t rows;           /**< of all blocks, the last up to its capacity */
} pkv_ring;

PKV_API void pkv_ring_params_init(pkv_ring_params *params);
/** The rings of `blocks` blocks. With drafts, any row is stored before the region that it closes is
 *  read, and `required` rows are enough. Without, they are only if the closing row is not stored;
 *  who stores it needs one more. INVAL: page_bytes no multiple of row_bytes, fewer rows than
 *  required (both numbers are in the text), a stride below the page or no multiple of row_bytes, a
 *  field out of range; OVERFLOW: sizes beyond 2^63-1. O(1) @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_ring_geometry(const pkv_ring_params *params, pkv_ring *out);

/** First row of a block; -1: the null block, or one beyond the last. O(1) @threads any */
PKV_API int64_t pkv_ring_base(const pkv_ring *ring, uint32_t block);
/** Row of a position in a block; -1 where pkv_ring_base() is. O(1) @threads any */
PKV_API int64_t pkv_ring_row(const pkv_ring *ring, uint32_t block, uint64_t position);
/** Row where a step that ends at seq_len tokens stores a position; -1: nowhere, since no later step
 *  could read it and a later row of this very step has its place. O(1) @threads any */
PKV_API int64_t pkv_ring_store(const pkv_ring *ring, uint32_t block, uint64_t position,
                               uint64_t seq_len);

PKV_END_DECLS
#endif
