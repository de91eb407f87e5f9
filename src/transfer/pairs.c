/* pairs.c  Every plane of every layer that moves, with its place on both sides. */
#include "base/error.h"
#include "base/math.h"
#include "transfer/transfer.h"

static pkvi_place paged_place(const pkv_transfer_pages *pages, uint32_t l, uint32_t p)
{
    const pkv_plane *plane = &pages->layers[l].planes[p];
    const uint64_t data = (uint64_t)(uintptr_t)pages->buffers[plane->buffer].data;
    return (pkvi_place){data + plane->offset, plane->block_stride, plane->token_stride,
                        plane->head_stride};
}

/* The first call with room for no pairs only counts them. */
static void put(pkv_transfer_plan *plan, const pkvi_pair *pair)
{
    if (plan->pairs) {
        plan->pairs[plan->n_pairs] = *pair;
    }
    plan->n_pairs++;
}

/* Heads that a rank holds. */
typedef struct heads {
    uint64_t first, end;
} heads;

static heads heads_of(uint32_t rank, uint32_t n_ranks, uint64_t total)
{
    const uint64_t first = pkvi_first_head(rank, n_ranks, total);
    return (heads){first, first + (total < n_ranks ? 1 : total / n_ranks)};
}

/* The heads of one rank of the destination, each from the first rank that holds it. */
static void put_rank(const pkvi_job *job, uint32_t l, uint32_t plane, uint32_t rank,
                     const pkvi_pair *like)
{
    const pkv_transfer_params *p = &job->p;
    const heads to = heads_of(rank, p->n_dst, p->heads_total);
    for (uint32_t r = 0; r < p->n_src; r++) {
        const heads from = heads_of(r, p->n_src, p->heads_total);
        const uint64_t first = pkvi_max(from.first, to.first), end = pkvi_min(from.end, to.end);
        const bool again = r > 0 && heads_of(r - 1, p->n_src, p->heads_total).first == from.first;
        if (again || first >= end) {
            continue;
        }
        pkvi_pair pair = *like;
        pair.src = paged_place(&p->src[r], l, plane);
        pair.dst = paged_place(&p->dst[rank], l, plane);
        pair.src.base += (first - from.first) * pair.src.head_stride;
        pair.dst.base += (first - to.first) * pair.dst.head_stride;
        pair.heads = end - first;
        put(job->plan, &pair);
    }
}

static void put_plane(const pkvi_job *job, uint32_t l, uint32_t plane, uint32_t group)
{
    const pkv_transfer_params *p = &job->p;
    const pkv_plane *at = &pkvi_paged_side(p)->layers[l].planes[plane];
    pkvi_pair pair = {.heads = at->heads, .row_bytes = at->row_bytes, .group = group};
    if (p->op == PKV_TRANSFER_RESHARD) {
        for (uint32_t rank = 0; rank < p->n_dst; rank++) {
            put_rank(job, l, plane, rank, &pair);
        }
        return;
    }
    const bool swap = p->op == PKV_TRANSFER_SWAP;
    pair.src = p->src ? paged_place(p->src, l, plane) : pkvi_chunk_place(job, l, plane);
    pair.dst = p->dst ? paged_place(p->dst, l, plane)
               : swap ? pair.src
                      : pkvi_chunk_place(job, l, plane);
    put(job->plan, &pair);
}

static uint32_t group_of(const pkvi_job *job, uint32_t l)
{
    const pkv_transfer_params *p = &job->p;
    const uint64_t src = (p->src ? p->src : p->dst)->layers[l].block_size;
    const uint64_t dst = (p->dst ? p->dst : p->src)->layers[l].block_size;
    uint32_t g = 0;
    while (job->plan->groups[g].src_block_size != src ||
           job->plan->groups[g].dst_block_size != dst) {
        g++;
    }
    return g;
}

static void put_all(const pkvi_job *job)
{
    const pkv_transfer_params *p = &job->p;
    pkv_transfer_plan *plan = job->plan;
    plan->n_pairs = 0;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const uint32_t l = pkvi_step_layer(p, i), group = group_of(job, l);
        plan->step_pairs[i] = plan->n_pairs;
        for (uint32_t plane = 0; plane < pkvi_paged_side(p)->layers[l].n_planes; plane++) {
            put_plane(job, l, plane, group);
        }
    }
    plan->step_pairs[p->n_layers] = plan->n_pairs;
}

/* Memory has fewer bytes, so that some are written twice. */
static pkv_status too_many(const pkvi_job *job)
{
    return pkvi_refuse(job, PKV_TRANSFER_OVERLAP, pkvi_field_of("n_ids"),
                       "more than 2^63 bytes would be written");
}

pkv_status pkvi_plan_pairs(pkvi_job *job)
{
    pkv_transfer_plan *plan = job->plan;
    plan->step_pairs =
        pkvi_arena_get(&plan->arena, (size_t)job->p.n_layers + 1, sizeof *plan->step_pairs);
    if (!plan->step_pairs) {
        return pkvi_transfer_no_memory();
    }
    put_all(job);
    plan->pairs = pkvi_arena_get(&plan->arena, plan->n_pairs, sizeof *plan->pairs);
    if (!plan->pairs) {
        return pkvi_transfer_no_memory();
    }
    put_all(job);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < plan->n_pairs; i++) {
        pkvi_pair *pair = &plan->pairs[i];
        uint64_t own;
        pair->first_byte = bytes;
        if (!pkvi_mul(pair->heads, pair->row_bytes, &own) ||
            !pkvi_mul(own, plan->groups[pair->group].n_tokens, &own) ||
            !pkvi_add(bytes, own, &bytes)) {
            return too_many(job);
        }
    }
    plan->bytes = bytes;
    plan->info.bytes = bytes;
    if (job->p.op == PKV_TRANSFER_SWAP && !pkvi_mul(bytes, 2, &plan->info.bytes)) {
        return too_many(job);
    }
    return PKV_OK;
}
