/** @file pages.h  Where the rows of a cache lie in memory that somebody else owns.
 *
 *  A *row* is one head of one token; a *plane* is all rows of one kind of content in one layer (K,
 *  V, a latent, scales). Row (block, token, head) of a plane begins at
 *
 *      offset + block * block_stride + token * token_stride + head * head_stride
 *
 *  bytes from the start of its buffer, for token in [0, block_size), and is row_bytes long. Layouts
 *  (format.h) are turned into planes, and transfers move them. Values; nothing is owned. */
#ifndef PKV_PAGES_H
#define PKV_PAGES_H

#include <stdint.h>

#include <pkv/export.h>

PKV_BEGIN_DECLS

/** Strides and sizes in bytes. The stride of an axis of size 1 says nothing. */
typedef struct pkv_plane {
    uint64_t offset;
    uint64_t block_stride, token_stride, head_stride;
    uint64_t heads;     /**< >= 1 */
    uint64_t row_bytes; /**< >= 1 */
    uint32_t buffer;    /**< number of the buffer that it lies in */
    uint32_t reserved;
} pkv_plane;

/** The pages of one layer. Its planes have the same blocks and tokens. */
typedef struct pkv_layer_pages {
    const pkv_plane *planes; /**< [n_planes] borrowed */
    uint32_t n_planes;       /**< >= 1 */
    uint32_t reserved;
    uint64_t num_blocks; /**< >= 1 */
    uint64_t block_size; /**< tokens, >= 1; a layout without a block axis has blocks of one token */
} pkv_layer_pages;

PKV_END_DECLS
#endif
