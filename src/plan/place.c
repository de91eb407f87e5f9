/* place.c  How large a block is, and where each tensor lies in the backing buffer.
 *
 * All groups overlay each other from byte 0, since a block id belongs to one group at a time.
 *
 *     block outermost   group 0: | blk 0 [ A | B  |pad] | blk 1 [ A | B  |pad] | ...
 *                       group 1: | blk 0 [  C  |   D  ] | blk 1 [  C  |   D  ] | ...
 *                                 `- bytes_per_block --'
 *     layer outermost   group 0: | A [ blk 0 | blk 1 | ... ] | B [ blk 0 | ... ] |
 *                       group 1: | C [ blk 0 | blk 1 | ... ] | D [ blk 0 | ... ] | */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/kind.h"

static pkv_status page_of(const pkv_spec *spec, uint64_t *page, uint64_t *stride_align,
                          uint64_t *stride_page)
{
    PKVI_RETURN_IF(pkv_spec_page_bytes(spec, page));
    PKVI_RETURN_IF(pkv_spec_block_stride_alignment(spec, stride_align));
    if (!pkvi_round_up(*page, *stride_align, stride_page)) {
        return pkvi_plan_overflow("a page with its stride alignment");
    }
    return PKV_OK;
}

/* Bytes of one block of one group, and the least common multiple of what its strides must be. */
static pkv_status group_bytes(const pkv_group *group, bool outermost, uint64_t *bytes_out,
                              uint64_t *unit)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < group->n_classes; c++) {
        const pkv_group_class *k = &group->classes[c];
        uint64_t page, align, stride_page, bytes;
        PKVI_RETURN_IF(page_of(k->spec, &page, &align, &stride_page));
        if (!pkvi_mul(outermost ? page : stride_page, k->n_layers, &bytes) ||
            !pkvi_add(sum, bytes, &sum) || !pkvi_lcm(*unit, align, unit)) {
            return pkvi_plan_overflow("one block");
        }
    }
    if (group->kind == PKV_KIND_HISPARSE_HOT && !pkvi_lcm(*unit, group->page_bytes, unit)) {
        return pkvi_plan_overflow("one block");
    }
    *bytes_out = sum;
    return PKV_OK;
}

static pkv_status pool_bytes_per_block(const pkvi_worker *w, bool host, uint32_t layout,
                                       uint64_t *out)
{
    const bool outermost = pkv_kv_layout_is_block_outermost(layout);
    uint64_t widest = 0, unit = 1;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        uint64_t bytes;
        if ((bool)w->groups[g].host == host && w->groups[g].n_layers > 0) {
            PKVI_RETURN_IF(group_bytes(&w->groups[g], outermost, &bytes, &unit));
            widest = pkvi_max(widest, bytes);
        }
    }
    if (outermost && !pkvi_round_up(widest, unit, &widest)) {
        return pkvi_plan_overflow("one block");
    }
    *out = widest;
    return PKV_OK;
}

pkv_status pkvi_validate_layout(pkvi_planner *p, const pkvi_worker *w, bool host, uint32_t layout)
{
    uint64_t first = 0, other = 0;
    uint32_t n_groups = 0;
    (void)p;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        const pkv_group *group = &w->groups[g];
        if ((bool)group->host != host) {
            continue;
        }
        n_groups++;
        for (uint32_t c = 0; group->n_layers > 0 && c < group->n_classes; c++) {
            uint64_t page;
            PKVI_RETURN_IF(pkv_spec_page_bytes(group->classes[c].spec, &page));
            first = first ? first : page;
            other = page != first ? page : other;
        }
    }
    if (other == 0) {
        return PKV_OK;
    }
    if (!pkv_kv_layout_is_block_compact(layout) ||
        (n_groups > 1 && pkv_kv_layout_is_layer_compact(layout))) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_plan_create: layout %s cannot hold pages of %" PRIu64 " and %" PRIu64
                         " bytes in %" PRIu32 " groups; one with the block outermost can (BLHNC)",
                         pkv_kv_layout_name(layout), first, other, n_groups);
    }
    return PKV_OK;
}

/* Strides of layers of one spec. A derived spec has no axes inside its page. */
static pkv_status class_strides(const pkvi_planner *p, const pkv_group_class *k, uint32_t layout,
                                uint64_t n_blocks, uint64_t bytes_per_block, uint64_t strides[5])
{
    uint64_t page, align, stride_page, shape[5];
    uint64_t fixed[5] = {0};
    const bool outermost = pkv_kv_layout_is_block_outermost(layout);
    PKVI_RETURN_IF(page_of(k->spec, &page, &align, &stride_page));
    if (!pkv_spec_has_layer_views(k->spec)) {
        if (!outermost) {
            return pkvi_fail(
                PKV_E_VALUE,
                "pkv_plan_create: hisparse needs a layout with the block outermost, not %s",
                pkv_kv_layout_name(layout));
        }
        strides[PKV_AXIS_L] = page;
        strides[PKV_AXIS_B] = bytes_per_block;
        return PKV_OK;
    }
    if (outermost) {
        fixed[PKV_AXIS_B] = bytes_per_block;
    } else if (stride_page != page && !p->params->hisparse) {
        if (!pkv_kv_layout_is_block_compact(layout)) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_plan_create: layout %s cannot pad blocks to %" PRIu64 " bytes",
                             pkv_kv_layout_name(layout), stride_page);
        }
        fixed[PKV_AXIS_B] = stride_page;
    }
    return pkvi_layout_strides(k->spec, layout, n_blocks, k->n_layers, 0, fixed, shape, strides);
}

static pkv_status place_group(pkvi_planner *p, pkvi_worker *w, uint32_t g, uint32_t layout,
                              uint64_t n_blocks, uint64_t bytes_per_block)
{
    const pkv_group *group = &w->groups[g];
    const bool outermost = pkv_kv_layout_is_block_outermost(layout);
    uint64_t offset = 0, size;
    if (!pkvi_mul(bytes_per_block, n_blocks, &size)) {
        return pkvi_plan_overflow("the backing buffer");
    }
    for (uint32_t c = 0; c < group->n_classes; c++) {
        const pkv_group_class *k = &group->classes[c];
        uint64_t strides[5] = {0}, page, step;
        if (k->n_layers == 0) {
            continue;
        }
        PKVI_RETURN_IF(class_strides(p, k, layout, n_blocks, bytes_per_block, strides));
        w->tensors[w->plan.n_tensors++] = (pkv_tensor){.size = size,
                                                       .offset = offset,
                                                       .layer_stride = strides[PKV_AXIS_L],
                                                       .block_stride = strides[PKV_AXIS_B],
                                                       .layers = k->layers,
                                                       .n_layers = k->n_layers,
                                                       .group = g,
                                                       .host = group->host};
        /* layers of a block lie side by side; layers outermost own regions */
        PKVI_RETURN_IF(pkv_spec_page_bytes(k->spec, &page));
        if (!pkvi_mul(outermost ? page : strides[PKV_AXIS_L], k->n_layers, &step) ||
            !pkvi_add(offset, step, &offset)) {
            return pkvi_plan_overflow("the backing buffer");
        }
    }
    return PKV_OK;
}

pkv_status pkvi_bytes_per_block(pkvi_planner *p, const pkvi_worker *w, uint64_t *out)
{
    PKVI_RETURN_IF(pool_bytes_per_block(w, false, p->layout, out));
    if (*out == 0) {
        return pkvi_fail(pkv_kv_layout_is_block_outermost(p->layout) ? PKV_E_ASSERT : PKV_E_VALUE,
                         "pkv_plan_create: no layer of the worker takes a byte");
    }
    return PKV_OK;
}

pkv_status pkvi_place_tensors(pkvi_planner *p, pkvi_worker *w, uint64_t num_blocks)
{
    uint64_t host_bytes;
    w->plan.n_tensors = 0;
    PKVI_RETURN_IF(pkvi_validate_layout(p, w, false, p->layout));
    if (p->params->hisparse) { /* the source's pages come first, dense and layer by layer */
        PKVI_RETURN_IF(pkvi_validate_layout(p, w, true, PKV_LAYOUT_LBNHC));
        PKVI_RETURN_IF(pool_bytes_per_block(w, true, PKV_LAYOUT_LBNHC, &host_bytes));
        for (uint32_t g = 0; g < w->plan.n_groups; g++) {
            if (w->groups[g].host) {
                PKVI_RETURN_IF(
                    place_group(p, w, g, PKV_LAYOUT_LBNHC, p->host_num_blocks, host_bytes));
            }
        }
    }
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        if (!w->groups[g].host) {
            PKVI_RETURN_IF(place_group(p, w, g, p->layout, num_blocks, w->plan.bytes_per_block));
        }
    }
    return PKV_OK;
}
