/* chunk.c  Chunks as places: a chunk is a block of T tokens whose planes lie in a fixed order, or,
 * in the form BLOCKS, a row of such blocks. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "transfer/transfer.h"

static bool one_layer(uint32_t form)
{
    return form == PKV_CHUNK_2TD || form == PKV_CHUNK_T2D;
}

static bool two_planes(uint32_t form)
{
    return form <= PKV_CHUNK_T2D;
}

/* Bytes of a token in the planes before `plane`. */
static bool planes_before(const pkv_layer_pages *layer, uint32_t plane, uint64_t *out)
{
    uint64_t bytes;
    *out = 0;
    for (uint32_t p = 0; p < plane; p++) {
        if (!pkvi_mul(layer->planes[p].heads, layer->planes[p].row_bytes, &bytes) ||
            !pkvi_add(*out, bytes, out)) {
            return false;
        }
    }
    return true;
}

/* All heads of a token; the most there is if they are too many. */
static uint64_t token_bytes(const pkv_plane *plane)
{
    uint64_t bytes;
    return pkvi_mul(plane->heads, plane->row_bytes, &bytes) ? bytes : PKVI_SIZE_MAX;
}

/* ---- checks ---- */

static pkv_status unholdable(const pkvi_job *job, uint32_t layer, const char *why)
{
    return pkvi_refuse(job, PKV_TRANSFER_CONTENT, pkvi_field_of("chunks.form"),
                       "form %u cannot hold layer %u: %s", job->p.chunks->form, layer, why);
}

static pkv_status check_layer(const pkvi_job *job, uint32_t l, uint32_t like)
{
    const pkv_transfer_chunks *c = job->p.chunks;
    const pkv_layer_pages *layers = pkvi_paged_side(&job->p)->layers;
    if (two_planes(c->form) && layers[l].n_planes != 2) {
        return unholdable(job, l, "it has not two planes");
    }
    if (c->form == PKV_CHUNK_BLOCKS) {
        return layers[l].block_size == layers[like].block_size
                   ? PKV_OK
                   : unholdable(job, l, "its blocks have another size");
    }
    if (layers[l].n_planes != layers[like].n_planes) {
        return unholdable(job, l, "it has another number of planes");
    }
    for (uint32_t p = 0; p < layers[l].n_planes; p++) {
        if (token_bytes(&layers[l].planes[p]) != token_bytes(&layers[like].planes[p])) {
            return unholdable(job, l, "a token has another number of bytes");
        }
    }
    return PKV_OK;
}

pkv_status pkvi_check_chunk_content(const pkvi_job *job)
{
    const pkv_transfer_params *p = &job->p;
    const pkv_transfer_pages *pages = pkvi_paged_side(p);
    const uint32_t first = pkvi_step_layer(p, 0);
    if (one_layer(p->chunks->form)) {
        if (p->n_layers != 1) {
            return pkvi_refuse(job, PKV_TRANSFER_CONTENT, pkvi_field_of("chunks.form"),
                               "form %u holds one layer, and %u move", p->chunks->form,
                               p->n_layers);
        }
        return check_layer(job, first, first);
    }
    for (uint32_t l = 0; l < pages->n_layers; l++) {
        PKVI_RETURN_IF(check_layer(job, l, 0));
    }
    if (p->chunks->form == PKV_CHUNK_BLOCKS &&
        p->chunks->tokens % pages->layers[0].block_size != 0) {
        return pkvi_refuse(job, PKV_TRANSFER_CONTENT, pkvi_field_of("chunks.tokens"),
                           "%" PRIu64 " is no multiple of the block size %" PRIu64,
                           p->chunks->tokens, pages->layers[0].block_size);
    }
    return PKV_OK;
}

/* Fills chunk_first and chunk_width. */
static pkv_status measure(pkvi_job *job)
{
    const pkv_transfer_pages *pages = pkvi_paged_side(&job->p);
    const bool one = one_layer(job->p.chunks->form);
    const uint32_t chosen = pkvi_step_layer(&job->p, 0);
    job->chunk_first = pkvi_arena_get(&job->plan->arena, pages->n_layers, sizeof(uint64_t));
    if (!job->chunk_first) {
        return pkvi_transfer_no_memory();
    }
    for (uint32_t l = 0; l < pages->n_layers; l++) {
        uint64_t bytes;
        job->chunk_first[l] = job->chunk_width;
        if (!planes_before(&pages->layers[l], pages->layers[l].n_planes, &bytes) ||
            (!one && !pkvi_add(job->chunk_width, bytes, &job->chunk_width))) {
            return pkvi_refuse(job, PKV_TRANSFER_BOUNDS, pkvi_field_of("chunks"),
                               "a token of layer %u has more than 2^63 bytes", l);
        }
        if (one && l == chosen) {
            job->chunk_width = bytes;
        }
    }
    return PKV_OK;
}

pkv_status pkvi_check_chunk_bounds(pkvi_job *job)
{
    const pkv_transfer_chunks *c = job->p.chunks;
    uint64_t end = 0, address;
    PKVI_RETURN_IF(measure(job));
    const bool known =
        pkvi_mul(c->tokens, job->chunk_width, &end) && pkvi_add(end, c->offset, &end);
    for (uint32_t i = 0; i < c->n_chunks; i++) {
        const pkv_transfer_buffer *chunk = &c->chunks[i];
        if (!known || end > chunk->bytes || !chunk->data ||
            !pkvi_add((uint64_t)(uintptr_t)chunk->data, end, &address)) {
            return pkvi_refuse(job, PKV_TRANSFER_BOUNDS, pkvi_field_of("chunks.chunks[%u]", i),
                               "%" PRIu64 " tokens of %" PRIu64 " bytes from offset %" PRIu64
                               " end beyond its %" PRIu64 " bytes",
                               c->tokens, job->chunk_width, c->offset, chunk->bytes);
        }
    }
    return PKV_OK;
}

/* ---- places ---- */

/* No number here exceeds the size of a chunk, which is known. */
pkvi_place pkvi_chunk_place(const pkvi_job *job, uint32_t l, uint32_t p)
{
    const pkv_transfer_chunks *c = job->p.chunks;
    const pkv_transfer_pages *pages = pkvi_paged_side(&job->p);
    const pkv_layer_pages *layer = &pages->layers[l];
    const uint64_t own = token_bytes(&layer->planes[p]), t = c->tokens;
    uint64_t before, all;
    (void)planes_before(layer, p, &before);
    (void)planes_before(layer, layer->n_planes, &all);
    pkvi_place place = {c->offset, 0, own, layer->planes[p].row_bytes};
    switch (c->form) {
    case PKV_CHUNK_2LTD: place.base += pages->n_layers * t * before + l * t * own; break;
    case PKV_CHUNK_L2TD: place.base += l * t * all + t * before; break;
    case PKV_CHUNK_2TD: place.base += t * before; break;
    case PKV_CHUNK_T2D:
        place.base += before;
        place.token_stride = all;
        break;
    case PKV_CHUNK_MLA:
        place.base += l * t * all + before;
        place.token_stride = all;
        break;
    default: /* BLOCKS */
        place.base += layer->block_size * (job->chunk_first[l] + before);
        place.block_stride = layer->block_size * job->chunk_width;
    }
    return place;
}
