/* content.c  Whether two sides hold the same, and all of it lies in its memory. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "transfer/transfer.h"

/* Pages of one rank, and where they stand in the parameters. */
typedef struct side {
    const pkv_transfer_pages *pages;
    const char *name; /* "src" */
    uint32_t rank;
} side;

static pkvi_field layer_field(const side *s, uint32_t layer, const char *what)
{
    return pkvi_field_of("%s[%u].layers[%u]%s", s->name, s->rank, layer, what);
}

/* ---- bounds ---- */

static bool add_axis(uint64_t n, uint64_t stride, uint64_t *end)
{
    uint64_t bytes;
    return pkvi_mul(n - 1, stride, &bytes) && pkvi_add(*end, bytes, end);
}

static pkv_status check_plane(const pkvi_job *job, const side *s, uint32_t l, uint32_t p)
{
    const pkv_layer_pages *layer = &s->pages->layers[l];
    const pkv_plane *plane = &layer->planes[p];
    const pkv_transfer_buffer *buffer = &s->pages->buffers[plane->buffer];
    uint64_t end = plane->offset, address;
    const bool known = pkvi_add(end, plane->row_bytes, &end) &&
                       add_axis(layer->num_blocks, plane->block_stride, &end) &&
                       add_axis(layer->block_size, plane->token_stride, &end) &&
                       add_axis(plane->heads, plane->head_stride, &end);
    if (!known || end > buffer->bytes || !buffer->data ||
        !pkvi_add((uint64_t)(uintptr_t)buffer->data, end, &address)) {
        return pkvi_refuse(job, PKV_TRANSFER_BOUNDS,
                           pkvi_field_of("%s[%u].layers[%u].planes[%u]", s->name, s->rank, l, p),
                           "ends %s%" PRIu64 ", and buffer %u has %" PRIu64 " (offset %" PRIu64
                           ", block_stride %" PRIu64 ")",
                           known ? "at byte " : "beyond byte ", known ? end : PKVI_SIZE_MAX,
                           plane->buffer, buffer->bytes, plane->offset, plane->block_stride);
    }
    return PKV_OK;
}

static pkv_status check_bounds(const pkvi_job *job, const side *s)
{
    for (uint32_t l = 0; l < s->pages->n_layers; l++) {
        for (uint32_t p = 0; p < s->pages->layers[l].n_planes; p++) {
            PKVI_RETURN_IF(check_plane(job, s, l, p));
        }
    }
    return PKV_OK;
}

/* ---- content ---- */

static pkv_status same_planes(const pkvi_job *job, const side *a, const side *b, uint32_t l,
                              bool same_heads)
{
    const pkv_layer_pages *x = &a->pages->layers[l], *y = &b->pages->layers[l];
    if (x->n_planes != y->n_planes) {
        return pkvi_refuse(job, PKV_TRANSFER_CONTENT, layer_field(b, l, ".planes"),
                           "%u planes, and those of %s have %u", y->n_planes, a->name, x->n_planes);
    }
    for (uint32_t p = 0; p < x->n_planes; p++) {
        const pkv_plane *u = &x->planes[p], *v = &y->planes[p];
        if ((same_heads && u->heads != v->heads) || u->row_bytes != v->row_bytes) {
            return pkvi_refuse(
                job, PKV_TRANSFER_CONTENT,
                pkvi_field_of("%s[%u].layers[%u].planes[%u].%s", b->name, b->rank, l, p,
                              u->row_bytes != v->row_bytes ? "row_bytes" : "heads"),
                "%" PRIu64 " heads of %" PRIu64 " bytes, and %s has %" PRIu64 " of %" PRIu64,
                v->heads, v->row_bytes, a->name, u->heads, u->row_bytes);
        }
    }
    if (job->by_blocks && x->block_size != y->block_size) {
        return pkvi_refuse(job, PKV_TRANSFER_CONTENT, layer_field(b, l, ".block_size"),
                           "%" PRIu64 ", and that of %s is %" PRIu64, y->block_size, a->name,
                           x->block_size);
    }
    return PKV_OK;
}

static pkv_status same_content(const pkvi_job *job, const side *a, const side *b, bool same_heads)
{
    if (a->pages->n_layers != b->pages->n_layers) {
        return pkvi_refuse(
            job, PKV_TRANSFER_CONTENT, pkvi_field_of("%s[%u].layers", b->name, b->rank),
            "%u layers, and %s has %u", b->pages->n_layers, a->name, a->pages->n_layers);
    }
    for (uint32_t i = 0; i < job->p.n_layers; i++) {
        const uint32_t l = pkvi_step_layer(&job->p, i);
        const uint32_t x = a->pages->dtypes ? a->pages->dtypes[l] : 0;
        const uint32_t y = b->pages->dtypes ? b->pages->dtypes[l] : 0;
        if (x != 0 && y != 0 && x != y) {
            return pkvi_refuse(job, PKV_TRANSFER_CONTENT, layer_field(b, l, ".dtype"),
                               "dtype %u, and that of %s is %u", y, a->name, x);
        }
        PKVI_RETURN_IF(same_planes(job, a, b, l, same_heads));
    }
    return PKV_OK;
}

/* Tokens that blocks name in order need blocks of one size. */
static pkv_status one_block_size(const pkvi_job *job, const side *s)
{
    const uint32_t first = pkvi_step_layer(&job->p, 0);
    const uint64_t size = s->pages->layers[first].block_size;
    for (uint32_t i = 1; i < job->p.n_layers; i++) {
        const uint32_t l = pkvi_step_layer(&job->p, i);
        if (s->pages->layers[l].block_size != size) {
            return pkvi_refuse(job, PKV_TRANSFER_CONTENT, layer_field(s, l, ".block_size"),
                               "%" PRIu64 ", and that of layer %u is %" PRIu64,
                               s->pages->layers[l].block_size, first, size);
        }
    }
    return PKV_OK;
}

/* Every plane of a rank has its share of the heads. */
static pkv_status check_rank(const pkvi_job *job, const side *s, uint32_t n_ranks)
{
    const uint64_t total = job->p.heads_total;
    const uint64_t share = total < n_ranks ? 1 : total / n_ranks;
    uint64_t product;
    if ((total > n_ranks && total % n_ranks != 0) || !pkvi_mul(total, n_ranks, &product)) {
        return pkvi_refuse(job, PKV_TRANSFER_CONTENT, pkvi_field_of("heads_total"),
                           "%" PRIu64 " heads on %u ranks", total, n_ranks);
    }
    for (uint32_t i = 0; i < job->p.n_layers; i++) {
        const uint32_t l = pkvi_step_layer(&job->p, i);
        for (uint32_t p = 0; p < s->pages->layers[l].n_planes; p++) {
            const uint64_t heads = s->pages->layers[l].planes[p].heads;
            if (heads != share) {
                return pkvi_refuse(
                    job, PKV_TRANSFER_CONTENT,
                    pkvi_field_of("%s[%u].layers[%u].planes[%u].heads", s->name, s->rank, l, p),
                    "%" PRIu64 " heads, and a rank of %u of %" PRIu64 " heads has %" PRIu64, heads,
                    n_ranks, total, share);
            }
        }
    }
    return PKV_OK;
}

static pkv_status check_side(const pkvi_job *job, const side *first, const side *s,
                             uint32_t n_ranks)
{
    const bool ranks = job->p.op == PKV_TRANSFER_RESHARD;
    PKVI_RETURN_IF(same_content(job, first, s, !ranks));
    if (job->by_blocks && job->p.op != PKV_TRANSFER_SWAP) {
        PKVI_RETURN_IF(one_block_size(job, s));
    }
    return ranks ? check_rank(job, s, n_ranks) : PKV_OK;
}

pkv_status pkvi_check_sides(pkvi_job *job)
{
    const pkv_transfer_params *p = &job->p;
    const uint32_t n_src = p->src ? p->n_src : 0, n = n_src + (p->dst ? p->n_dst : 0);
    const side first = {pkvi_paged_side(p), n_src > 0 ? "src" : "dst", 0};
    for (uint32_t i = 0; i < n; i++) {
        const side s =
            i < n_src ? (side){&p->src[i], "src", i} : (side){&p->dst[i - n_src], "dst", i - n_src};
        PKVI_RETURN_IF(check_side(job, &first, &s, i < n_src ? p->n_src : p->n_dst));
    }
    if (p->chunks) {
        PKVI_RETURN_IF(pkvi_check_chunk_content(job));
    }
    for (uint32_t i = 0; i < n; i++) {
        const side s =
            i < n_src ? (side){&p->src[i], "src", i} : (side){&p->dst[i - n_src], "dst", i - n_src};
        PKVI_RETURN_IF(check_bounds(job, &s));
    }
    return p->chunks ? pkvi_check_chunk_bounds(job) : PKV_OK;
}
