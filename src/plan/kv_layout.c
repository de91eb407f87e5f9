/* kv_layout.c  The six orders of the axes L, B, H, N, C, and byte strides in each of them.
 *
 * Strides are built from the innermost axis outwards; a padded page enters where the walk leaves
 * the page for the grid of pages:
 *
 *     LBNHC:  L [ B [ N [ H [ C ]]]]        the page is N, H, C; the grid is L, B
 *             |   |   `----page----'
 *             `---`-- grid: its inner axis steps by at least the pad */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"

static const struct {
    const char *name;
    uint8_t order[5]; /* axes from outermost to innermost */
} layouts[PKV_N_LAYOUTS] = {
    [PKV_LAYOUT_LBHNC] = {"LBHNC", {0, 1, 2, 3, 4}},
    [PKV_LAYOUT_LBNHC] = {"LBNHC", {0, 1, 3, 2, 4}},
    [PKV_LAYOUT_LHBNC] = {"LHBNC", {0, 2, 1, 3, 4}},
    [PKV_LAYOUT_BLHNC] = {"BLHNC", {1, 0, 2, 3, 4}},
    [PKV_LAYOUT_BLNHC] = {"BLNHC", {1, 0, 3, 2, 4}},
    [PKV_LAYOUT_BHLNC] = {"BHLNC", {1, 2, 0, 3, 4}},
};

static bool known(uint32_t layout)
{
    return layout > PKV_LAYOUT_AUTO && layout < PKV_N_LAYOUTS;
}

const char *pkv_kv_layout_name(uint32_t layout)
{
    return known(layout) ? layouts[layout].name : NULL;
}

pkv_status pkv_kv_layout_from_name(const char *name, uint32_t *layout_out)
{
    if (!name || !layout_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_kv_layout_from_name: name or layout_out is NULL");
    }
    if (strcmp(name, "NHD") == 0 || strcmp(name, "HND") == 0) {
        *layout_out = name[0] == 'N' ? PKV_LAYOUT_LBNHC : PKV_LAYOUT_LBHNC;
        return PKV_OK;
    }
    for (uint32_t i = PKV_LAYOUT_LBHNC; i < PKV_N_LAYOUTS; i++) {
        if (strcmp(layouts[i].name, name) == 0) {
            *layout_out = i;
            return PKV_OK;
        }
    }
    return PKV_E_NOT_FOUND;
}

bool pkv_kv_layout_is_layer_compact(uint32_t layout)
{
    return known(layout) && layouts[layout].order[0] == PKV_AXIS_L;
}

bool pkv_kv_layout_is_block_contiguous(uint32_t layout)
{
    return known(layout) && layouts[layout].order[2] == PKV_AXIS_H &&
           layouts[layout].order[3] == PKV_AXIS_N;
}

bool pkv_kv_layout_is_block_compact(uint32_t layout)
{
    return known(layout) && layouts[layout].order[0] <= PKV_AXIS_B &&
           layouts[layout].order[1] <= PKV_AXIS_B;
}

bool pkv_kv_layout_is_block_outermost(uint32_t layout)
{
    return known(layout) && layouts[layout].order[0] == PKV_AXIS_B;
}

static pkv_status view_overflow(void)
{
    return pkvi_fail(PKV_E_OVERFLOW, "pkv_kv_view: the array exceeds 2^63-1 bytes");
}

static pkv_status view_shape(const pkv_spec *spec, uint64_t n_blocks, uint64_t n_layers,
                             uint64_t kernel_block_size, uint64_t shape[5])
{
    const uint64_t kernel = kernel_block_size ? kernel_block_size : spec->block_size;
    if (spec->block_size % kernel != 0) {
        return pkvi_fail(PKV_E_ASSERT,
                         "pkv_kv_view: kernel_block_size %" PRIu64
                         " does not divide block_size %" PRIu64,
                         kernel, spec->block_size);
    }
    shape[PKV_AXIS_L] = n_layers;
    if (!pkvi_mul(n_blocks, spec->block_size / kernel, &shape[PKV_AXIS_B])) {
        return view_overflow();
    }
    PKVI_RETURN_IF(pkv_spec_num_heads(spec, &shape[PKV_AXIS_H]));
    PKVI_RETURN_IF(pkv_spec_kernel_states(spec, kernel, &shape[PKV_AXIS_N]));
    return pkv_spec_state_content_bytes(spec, &shape[PKV_AXIS_C]);
}

/* Index in the physical order of the innermost axis of the page grid. */
static int grid_end(const uint8_t order[5])
{
    int end = 0;
    for (int i = 0; i < 5; i++) {
        if (order[i] == PKV_AXIS_L || order[i] == PKV_AXIS_B) {
            end = i;
        }
    }
    return end;
}

/* A padded page is one run of bytes: only L, B and axes of size 1 may lie outside it. */
static pkv_status check_padded(const pkv_spec *spec, uint32_t layout, uint64_t kernel_block_size,
                               const uint64_t shape[5])
{
    if (kernel_block_size != 0 && kernel_block_size != spec->block_size) {
        return pkvi_fail(
            PKV_E_ASSERT,
            "pkv_kv_view: a padded page cannot be split into kernel blocks of %" PRIu64,
            kernel_block_size);
    }
    const int end = grid_end(layouts[layout].order);
    for (int i = 0; i <= end; i++) {
        const uint8_t axis = layouts[layout].order[i];
        if (axis > PKV_AXIS_B && shape[axis] != 1) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_kv_view: %s cannot hold padded pages of %" PRIu64 " heads",
                             layouts[layout].name, shape[PKV_AXIS_H]);
        }
    }
    return PKV_OK;
}

pkv_status pkvi_layout_strides(const pkv_spec *spec, uint32_t layout, uint64_t n_blocks,
                               uint64_t n_layers, uint64_t kernel_block_size,
                               const uint64_t fixed[5], uint64_t shape[5], uint64_t strides[5])
{
    const uint8_t *order = layouts[layout].order;
    const uint64_t pad = spec->page_size_padded;
    PKVI_RETURN_IF(view_shape(spec, n_blocks, n_layers, kernel_block_size, shape));
    if (pad != 0) {
        PKVI_RETURN_IF(check_padded(spec, layout, kernel_block_size, shape));
    }
    const int end = grid_end(order);
    uint64_t current = 1;
    for (int i = 4; i >= 0; i--) {
        const uint8_t axis = order[i];
        if (pad != 0 && i == end) {
            current = pkvi_max(current, pad);
            if (current % pad != 0) {
                return pkvi_fail(PKV_E_ASSERT,
                                 "pkv_kv_view: page of %" PRIu64 " bytes in a pad of %" PRIu64,
                                 current, pad);
            }
        }
        strides[axis] = fixed[axis] ? fixed[axis] : current;
        if (!pkvi_mul(strides[axis], shape[axis], &current)) {
            return view_overflow();
        }
    }
    return PKV_OK;
}

static pkv_status check_view(const pkv_spec *spec, uint32_t layout, uint64_t n_blocks,
                             uint64_t n_layers, const pkv_kv_view *out)
{
    if (!spec || !out || !known(layout) || n_blocks == 0 || n_layers == 0) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_kv_view: layout %" PRIu32 ", %" PRIu64 " blocks, %" PRIu64
                         " layers: a layout, and at least one of each, are needed",
                         layout, n_blocks, n_layers);
    }
    return PKV_OK;
}

pkv_status pkv_kv_view_dense(const pkv_spec *spec, uint32_t layout, uint64_t n_blocks,
                             uint64_t n_layers, uint64_t kernel_block_size, pkv_kv_view *out)
{
    static const uint64_t none[5];
    pkv_kv_view view = {.offset = 0};
    PKVI_RETURN_IF(check_view(spec, layout, n_blocks, n_layers, out));
    PKVI_RETURN_IF(pkvi_layout_strides(spec, layout, n_blocks, n_layers, kernel_block_size, none,
                                       view.shape, view.strides));
    *out = view;
    return PKV_OK;
}

/* Kernel blocks are a constant distance apart only where a block is one dense page. */
static pkv_status split_stride(const pkv_spec *spec, uint64_t ratio, uint64_t *block_stride)
{
    uint64_t whole[5], page;
    PKVI_RETURN_IF(view_shape(spec, 1, 1, 0, whole));
    if (!pkvi_mul(whole[PKV_AXIS_H], whole[PKV_AXIS_N], &page) ||
        !pkvi_mul(page, whole[PKV_AXIS_C], &page)) {
        return view_overflow();
    }
    if (*block_stride != page) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_kv_view: block_stride %" PRIu64 " is not the dense page of %" PRIu64
                         " bytes, so a block cannot be split into %" PRIu64 " kernel blocks",
                         *block_stride, page, ratio);
    }
    if (*block_stride % ratio != 0) {
        return pkvi_fail(PKV_E_ASSERT,
                         "pkv_kv_view: block_stride %" PRIu64 " in %" PRIu64 " kernel blocks",
                         *block_stride, ratio);
    }
    *block_stride /= ratio;
    return PKV_OK;
}

pkv_status pkv_kv_view_placed(const pkv_spec *spec, uint32_t layout, uint64_t n_blocks,
                              uint64_t n_layers, uint64_t kernel_block_size, uint64_t layer_stride,
                              uint64_t block_stride, uint64_t offset, pkv_kv_view *out)
{
    pkv_kv_view view = {.offset = offset};
    PKVI_RETURN_IF(check_view(spec, layout, n_blocks, n_layers, out));
    if (layer_stride == 0 || block_stride == 0 || layer_stride > PKVI_SIZE_MAX ||
        block_stride > PKVI_SIZE_MAX || offset > PKVI_SIZE_MAX) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_kv_view_placed: layer_stride %" PRIu64 ", block_stride %" PRIu64
                         ", offset %" PRIu64 ": out of range",
                         layer_stride, block_stride, offset);
    }
    PKVI_RETURN_IF(view_shape(spec, n_blocks, n_layers, kernel_block_size, view.shape));
    const uint64_t ratio = view.shape[PKV_AXIS_B] / n_blocks;
    if (ratio > 1) {
        PKVI_RETURN_IF(split_stride(spec, ratio, &block_stride));
    }
    const uint64_t fixed[5] = {layer_stride, block_stride, 0, 0, 0};
    PKVI_RETURN_IF(pkvi_layout_strides(spec, layout, n_blocks, n_layers, kernel_block_size, fixed,
                                       view.shape, view.strides));
    *out = view;
    return PKV_OK;
}
