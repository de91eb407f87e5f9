/** @file kv_layout.h  Physical order of the five axes of the cache, and the strides that follow.
 *
 *  The cache of layers that share a spec is the logical array [L, B, H, N, C]: layer, block, head
 *  slot, state, content byte. A layout is the order in which these axes lie in memory, outermost
 *  first. All functions are pure. @threads any */
#ifndef PKV_KV_LAYOUT_H
#define PKV_KV_LAYOUT_H

#include <pkv/spec.h>

PKV_BEGIN_DECLS

/** Numbers are frozen. AUTO: the planner's choice. */
typedef enum pkv_kv_layout {
    PKV_LAYOUT_AUTO = 0,
    PKV_LAYOUT_LBHNC = 1, /**< also called HND */
    PKV_LAYOUT_LBNHC = 2, /**< also called NHD; the default */
    PKV_LAYOUT_LHBNC = 3,
    PKV_LAYOUT_BLHNC = 4,
    PKV_LAYOUT_BLNHC = 5,
    PKV_LAYOUT_BHLNC = 6,
    PKV_N_LAYOUTS = 7
} pkv_kv_layout;

/** Logical axes. */
enum { PKV_AXIS_L = 0, PKV_AXIS_B = 1, PKV_AXIS_H = 2, PKV_AXIS_N = 3, PKV_AXIS_C = 4 };

/** "LBNHC"; NULL for AUTO and unknown numbers. Static text. */
PKV_API const char *pkv_kv_layout_name(uint32_t layout);
/** Accepts NHD and HND too. NOT_FOUND: unknown. */
PKV_API PKV_NODISCARD pkv_status pkv_kv_layout_from_name(const char *name, uint32_t *layout_out);
/** L is outermost: each layer is one region. */
PKV_API bool pkv_kv_layout_is_layer_compact(uint32_t layout);
/** The innermost axes are H, N, C in this order. */
PKV_API bool pkv_kv_layout_is_block_contiguous(uint32_t layout);
/** L and B are the two outermost: each page is one run of bytes. */
PKV_API bool pkv_kv_layout_is_block_compact(uint32_t layout);
/** B is outermost: a block holds the pages of all layers side by side. */
PKV_API bool pkv_kv_layout_is_block_outermost(uint32_t layout);

/** An array [L, B, H, N, C] in memory; strides in bytes, in this logical order. */
typedef struct pkv_kv_view {
    uint64_t shape[5];
    uint64_t strides[5];
    uint64_t offset; /**< bytes to element 0 */
} pkv_kv_view;

/** Shape and strides of `n_layers` layers of `n_blocks` blocks that lie densely in `layout`,
 *  seen as kernel blocks of `kernel_block_size` tokens (0: the block itself).
 *  ASSERT: the kernel block does not divide the block, a padded page would be split, or the layout
 *  has an axis outside the page other than L and B. */
PKV_API PKV_NODISCARD pkv_status pkv_kv_view_dense(const pkv_spec *spec, uint32_t layout,
                                                   uint64_t n_blocks, uint64_t n_layers,
                                                   uint64_t kernel_block_size, pkv_kv_view *out);

/** The same for a placed tensor, whose layer and block strides are given. Kernel blocks exist only
 *  where a block is one dense page (VALUE). */
PKV_API PKV_NODISCARD pkv_status pkv_kv_view_placed(const pkv_spec *spec, uint32_t layout,
                                                    uint64_t n_blocks, uint64_t n_layers,
                                                    uint64_t kernel_block_size,
                                                    uint64_t layer_stride, uint64_t block_stride,
                                                    uint64_t offset, pkv_kv_view *out);

PKV_END_DECLS
#endif
