/* ring.c  Ring geometry and addresses.
 *
 * The capacity is counted once, from the bytes that a bound view of the page has, and serves the
 * check, the store and the replay alike. Upstream counts the page for some and the view for others,
 * which differ when the page is padded: its rows then lie at p mod 10 for one step and at p mod 9
 * for the next. */
#include <inttypes.h>
#include <string.h>

#include <pkv/ring.h>

#include "base/error.h"
#include "base/math.h"
#include "base/params.h"

void pkv_ring_params_init(pkv_ring_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->row_bytes = 1024;
    params->region = 8;
}

static pkv_status check_params(const pkv_ring_params *p)
{
    if (p->row_bytes == 0 || p->region < 2 || p->blocks < 2) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_ring_geometry: row_bytes %" PRIu64 ", region %" PRIu64
                         ", blocks %" PRIu64 ": at least 1, 2 and 2",
                         p->row_bytes, p->region, p->blocks);
    }
    if (p->page_bytes % p->row_bytes != 0) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_ring_geometry: page_bytes %" PRIu64
                         " is not a multiple of row_bytes %" PRIu64,
                         p->page_bytes, p->row_bytes);
    }
    return PKV_OK;
}

/* Bytes of the page as its spec of two-byte states will be bound. */
static uint64_t bound_bytes(const pkv_ring_params *p)
{
    uint64_t token_bytes;
    if (p->block_size == 0) {
        return p->page_bytes;
    }
    if (!pkvi_mul(p->block_size, 2, &token_bytes)) {
        return 0; /* larger than any page */
    }
    return p->page_bytes / token_bytes * token_bytes;
}

static pkv_status check_stride(const pkv_ring_params *p, uint64_t stride)
{
    if (stride < p->page_bytes || stride % p->row_bytes != 0) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_ring_geometry: block_stride %" PRIu64 " is below page_bytes %" PRIu64
                         " or not a multiple of row_bytes %" PRIu64,
                         stride, p->page_bytes, p->row_bytes);
    }
    return PKV_OK;
}

pkv_status pkv_ring_geometry(const pkv_ring_params *params, pkv_ring *out)
{
    pkv_ring_params p;
    pkv_ring ring = {0};
    uint64_t bytes;
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_ring_geometry: params or out is NULL");
    }
    pkv_ring_params_init(&p);
    PKVI_RETURN_IF(pkvi_import_params("pkv_ring_geometry", params, &p, sizeof p));
    PKVI_RETURN_IF(check_params(&p));
    const uint64_t stride = p.block_stride ? p.block_stride : p.page_bytes;
    if (!pkvi_add(p.region - 1, p.drafts, &ring.required)) {
        return pkvi_fail(PKV_E_OVERFLOW,
                         "pkv_ring_geometry: region %" PRIu64 " and %" PRIu64 " drafts", p.region,
                         p.drafts);
    }
    ring.capacity = bound_bytes(&p) / p.row_bytes;
    if (ring.capacity < ring.required) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_ring_geometry: a page of %" PRIu64 " bytes holds %" PRIu64
                         " rows of the %" PRIu64 " that are required: increase the block size",
                         p.page_bytes, ring.capacity, ring.required);
    }
    PKVI_RETURN_IF(check_stride(&p, stride));
    ring.rows_per_block = stride / p.row_bytes;
    if (!pkvi_mul(stride, p.blocks, &bytes)) { /* rows are fewer than bytes */
        return pkvi_fail(PKV_E_OVERFLOW,
                         "pkv_ring_geometry: %" PRIu64 " blocks of block_stride %" PRIu64, p.blocks,
                         stride);
    }
    ring.rows = (p.blocks - 1) * ring.rows_per_block + ring.capacity;
    *out = ring;
    return PKV_OK;
}

int64_t pkv_ring_base(const pkv_ring *ring, uint32_t block)
{
    uint64_t base, end;
    if (block == 0 || ring->capacity == 0 || !pkvi_mul(block, ring->rows_per_block, &base) ||
        !pkvi_add(base, ring->capacity, &end) || end > ring->rows) {
        return -1;
    }
    return (int64_t)base;
}

int64_t pkv_ring_row(const pkv_ring *ring, uint32_t block, uint64_t position)
{
    const int64_t base = pkv_ring_base(ring, block);
    return base < 0 ? -1 : base + (int64_t)(position % ring->capacity);
}

int64_t pkv_ring_store(const pkv_ring *ring, uint32_t block, uint64_t position, uint64_t seq_len)
{
    if (seq_len > ring->capacity && position < seq_len - ring->capacity) {
        return -1;
    }
    return pkv_ring_row(ring, block, position);
}
