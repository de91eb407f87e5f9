/* read.h  How the readers of the engines work together. All messages name pkv_reading_create. */
#ifndef PKVI_FORMAT_READ_H
#define PKVI_FORMAT_READ_H

#include <stdbool.h>
#include <stdint.h>

#include <pkv/format.h>

#include "format/table.h"
#include "format/view.h"

/* More than any model has; a K/V axis taken for layers ends here. */
#define PKVI_FORMAT_MAX_LAYERS 65536u

/* One call of pkv_reading_create(). */
typedef struct pkvi_reader {
    pkv_format_params p;
    pkv_refusal *refusal;   /* never NULL */
    uint32_t *first_tensor; /* [n_layers] number of the first tensor of each entry */
    uint8_t *odd_order;     /* [n_layers] a tensor lies in an order unknown to the reader */
    bool seed;
} pkvi_reader;

/* Tensors of one layer whose axes are those that a format names. */
typedef struct pkvi_parts {
    uint32_t format;
    uint32_t n;
    uint32_t tensor[PKV_LAYOUT_MAX_TENSORS];
    pkv_view view[PKV_LAYOUT_MAX_TENSORS];
} pkvi_parts;

/* ---- recover.c ---- */

/* Whether a layout hint, or without one the device, says that heads lie outside tokens. */
bool pkvi_wants_hnd(const pkvi_reader *r);
/* No layout hint, or one that says so. */
bool pkvi_told_hnd(const pkvi_reader *r);
/* LHBNC or BHLNC: layers that are no dense pages. */
bool pkvi_wants_view(const pkvi_reader *r);
/* AMBIGUOUS with its readings: place "layers[3]", and what would decide. */
pkv_status pkvi_ambiguous(const pkvi_reader *r, uint32_t entry, const char *decides,
                          const char *first, const char *second);
/* Tensor `k` of an entry with its axes in memory order; UNSUPPORTED where they lie in none of these
 * orders, with holes inside of axis 0, or over each other. The seed takes any order, but notes that
 * it is none of these. `hnd`: the order that strides of axes of size 1 may confirm. */
pkv_status pkvi_recover(const pkvi_reader *r, uint32_t entry, uint32_t k,
                        const uint8_t (*orders)[PKV_MAX_AXES], uint32_t n_orders, bool hnd,
                        pkv_view *out);
/* The same where only the tensor's own order will do. */
pkv_status pkvi_recover_plain(const pkvi_reader *r, uint32_t entry, uint32_t k, pkv_view *out);
/* The strides of a rank-4 or rank-5 tensor exchange tokens and heads. */
bool pkvi_exchanged(const pkv_view *view);

/* ---- geometry.c ---- */

/* Fills a layer from its parts. UNSUPPORTED: padding that the format does not allow. VALUE,
 * OVERFLOW: the sizes of its tensors. layer: place on the axis of layers, else 0. */
pkv_status pkvi_layout_build(const pkvi_reader *r, uint32_t entry, const pkvi_parts *parts,
                             uint64_t layer, pkv_layout *out);
/* Whether num_kv_heads, tokens_per_block and head_dim agree; text of the first that does not. */
bool pkvi_layout_fits(const pkv_layout *layout, const pkv_format_hints *hints, char text[120]);

/* ---- vllm.c, engines.c ---- */

pkv_status pkvi_read_vllm_entry(const pkvi_reader *r, uint32_t entry, bool hnd, pkv_layout *out);
pkv_status pkvi_read_vllm_planes(const pkvi_reader *r, uint32_t entry, pkv_layout *out);
/* The parts of a tensor of all layers, of vLLM or TensorRT-LLM. */
pkv_status pkvi_read_vllm_cross(const pkvi_reader *r, pkvi_parts *out);
pkv_status pkvi_read_trtllm(const pkvi_reader *r, pkvi_parts *out);
pkv_status pkvi_read_atom_entry(const pkvi_reader *r, uint32_t entry, pkv_layout *out);
/* SGLang: an entry of a list; K and V of layer i of two lists, or of a flat list of both. */
pkv_status pkvi_read_sglang_entry(const pkvi_reader *r, uint32_t entry, pkv_layout *out);
pkv_status pkvi_sglang_order(const pkvi_reader *r, bool *hnd_out);
pkv_status pkvi_read_sglang_pair(const pkvi_reader *r, uint32_t entry, bool hnd, pkv_layout *out);
pkv_status pkvi_read_sglang_halves(const pkvi_reader *r, uint32_t entry, pkv_layout *out);

#endif
