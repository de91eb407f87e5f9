/* apart.c  Rows that cannot meet, by strides and numbers alone.
 *
 * Three things together are enough. The rows of a plane are nested: heads in tokens or tokens in
 * heads, those in blocks, each axis with a stride that what is inside of it does not exceed. Two
 * planes lie apart, or have one block stride and lie apart in the window of one block:
 *
 *     |K....|V....|pad|K....|V....|pad|      K and V never meet, whatever the block
 *
 * And no slot is written twice, or read and written where both sides have a plane in common. */
#include "transfer/apart.h"

#include "base/math.h"
#include "transfer/sort.h"

/* Memory of one plane or chunk. */
typedef struct area {
    uint64_t start, end;    /* of all blocks */
    uint64_t first_end;     /* of block 0 */
    uint64_t block_stride;  /* 0: one block */
    const pkv_plane *plane; /* NULL: a chunk */
    const pkv_layer_pages *layer;
    bool written, read;
} area;

typedef struct area_list {
    area *at;
    pkvi_span *order, *room;
    uint64_t n;
    bool nested, shared; /* shared: a plane of both sides */
} area_list;

/* Adds an axis around `*extent` bytes. */
static bool nest(uint64_t n, uint64_t stride, uint64_t *extent)
{
    if (n == 1) {
        return true;
    }
    const bool fits = stride >= *extent;
    *extent += (n - 1) * stride;
    return fits;
}

static void add_plane(area_list *list, const pkv_transfer_pages *pages, uint32_t l, uint32_t p,
                      bool written, bool read)
{
    const pkv_layer_pages *layer = &pages->layers[l];
    const pkv_plane *plane = &layer->planes[p];
    area *a = &list->at[list->n++];
    const bool heads_inside = layer->block_size == 1 || plane->head_stride <= plane->token_stride;
    uint64_t extent = plane->row_bytes;
    if (heads_inside) {
        list->nested &= nest(plane->heads, plane->head_stride, &extent);
    }
    list->nested &= nest(layer->block_size, plane->token_stride, &extent);
    if (!heads_inside) {
        list->nested &= nest(plane->heads, plane->head_stride, &extent);
    }
    a->start = (uint64_t)(uintptr_t)pages->buffers[plane->buffer].data + plane->offset;
    a->first_end = a->start + extent;
    list->nested &= nest(layer->num_blocks, plane->block_stride, &extent);
    a->end = a->start + extent;
    a->block_stride = layer->num_blocks > 1 ? plane->block_stride : 0;
    a->plane = plane;
    a->layer = layer;
    a->written = written;
    a->read = read;
}

static void add_pages(area_list *list, const pkv_transfer_params *p,
                      const pkv_transfer_pages *pages, uint32_t n, bool written, bool read)
{
    for (uint32_t r = 0; pages && r < n; r++) {
        for (uint32_t i = 0; i < p->n_layers; i++) {
            const uint32_t l = pkvi_step_layer(p, i);
            for (uint32_t plane = 0; plane < pages[r].layers[l].n_planes; plane++) {
                add_plane(list, &pages[r], l, plane, written, read);
            }
        }
    }
}

static uint64_t count_areas(const pkv_transfer_params *p)
{
    uint64_t planes = 0;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        planes += pkvi_paged_side(p)->layers[pkvi_step_layer(p, i)].n_planes;
    }
    return planes * ((p->src ? p->n_src : 0) + (uint64_t)(p->dst ? p->n_dst : 0)) +
           (p->chunks ? p->chunks->n_chunks : 0);
}

static void fill(const pkvi_job *job, area_list *list)
{
    const pkv_transfer_params *p = &job->p;
    const bool swap = p->op == PKV_TRANSFER_SWAP;
    add_pages(list, p, p->src, p->n_src, swap, !swap);
    add_pages(list, p, p->dst, p->n_dst, true, false);
    for (uint32_t i = 0; p->chunks && i < p->chunks->n_chunks; i++) {
        const uint64_t start = (uint64_t)(uintptr_t)p->chunks->chunks[i].data + p->chunks->offset;
        const uint64_t end = start + p->chunks->tokens * job->chunk_width;
        const bool gather = p->op == PKV_TRANSFER_GATHER;
        list->at[list->n++] = (area){
            .start = start, .end = end, .first_end = end, .written = gather, .read = !gather};
    }
    for (uint64_t i = 0; i < list->n; i++) {
        list->order[i] = (pkvi_span){list->at[i].start, i};
    }
    pkvi_sort_spans(list->order, list->room, list->n);
}

/* Both are the same rows, once read and once written. */
static bool same_plane(const area *a, const area *b)
{
    if (!a->plane || !b->plane || a->start != b->start || (a->written && b->written) ||
        a->layer->num_blocks != b->layer->num_blocks ||
        a->layer->block_size != b->layer->block_size) {
        return false;
    }
    const pkv_plane *x = a->plane, *y = b->plane;
    return x->heads == y->heads && x->row_bytes == y->row_bytes &&
           (x->block_stride == y->block_stride || a->layer->num_blocks == 1) &&
           (x->token_stride == y->token_stride || a->layer->block_size == 1) &&
           (x->head_stride == y->head_stride || x->heads == 1);
}

/* Areas from order[from] on that lie across each other must share the window of one block. Returns
 * the first one beyond them, or `from` if they may meet. */
static uint64_t cluster_end(area_list *list, uint64_t from)
{
    const area *first = &list->at[list->order[from].end], *last = first;
    uint64_t end = first->end, i = from + 1;
    for (; i < list->n; i++) {
        const area *a = &list->at[list->order[i].end];
        if (a->start >= end) {
            break;
        }
        if (same_plane(last, a)) {
            list->shared |= last->written != a->written;
            last = a->written ? a : last;
            continue;
        }
        if (a->block_stride == 0 || a->block_stride != first->block_stride ||
            a->start < last->first_end || a->first_end - first->start > a->block_stride) {
            return from;
        }
        last = a;
        end = pkvi_max(end, a->end);
    }
    return i;
}

static bool planes_apart(area_list *list)
{
    for (uint64_t i = 0; i < list->n;) {
        const uint64_t next = cluster_end(list, i);
        if (next == i) {
            return false;
        }
        i = next;
    }
    return list->nested;
}

/* ---- slots ---- */

static void put_slots(pkvi_span *out, uint64_t *n, const pkvi_run_group *group, bool dst)
{
    const uint64_t size = dst ? group->dst_block_size : group->src_block_size;
    for (uint64_t r = 0; r < group->n_runs; r++) {
        const pkvi_run *run = &group->runs[r];
        const pkvi_spot *spot = dst ? &run->dst : &run->src;
        const uint64_t end = r + 1 < group->n_runs ? run[1].first_token : group->n_tokens;
        const uint64_t slot = spot->block * size + spot->token;
        out[(*n)++] = (pkvi_span){slot, slot + (end - run->first_token)};
    }
}

/* No slot twice: in the destination, or with a plane in common in both sides together. */
static pkv_status slots_apart(pkvi_arena *arena, const pkvi_run_group *group, bool src, bool dst,
                              bool *apart)
{
    uint64_t n = 0;
    pkvi_span *spans = pkvi_arena_get(arena, 2 * group->n_runs, sizeof *spans);
    pkvi_span *room = pkvi_arena_get(arena, 2 * group->n_runs, sizeof *room);
    if (!spans || !room) {
        return pkvi_transfer_no_memory();
    }
    if (src) {
        put_slots(spans, &n, group, false);
    }
    if (dst) {
        put_slots(spans, &n, group, true);
    }
    pkvi_sort_spans(spans, room, n);
    for (uint64_t i = 1; i < n; i++) {
        *apart &= spans[i].start >= spans[i - 1].end;
    }
    return PKV_OK;
}

pkv_status pkvi_rows_apart(const pkvi_job *job, pkvi_arena *arena, bool *apart)
{
    const pkv_transfer_params *p = &job->p;
    const pkv_transfer_plan *plan = job->plan;
    const uint64_t n = count_areas(p);
    area_list list = {.at = pkvi_arena_get(arena, n, sizeof *list.at),
                      .order = pkvi_arena_get(arena, n, sizeof *list.order),
                      .room = pkvi_arena_get(arena, n, sizeof *list.room),
                      .nested = true};
    *apart = false;
    if (!list.at || !list.order || !list.room) {
        return pkvi_transfer_no_memory();
    }
    fill(job, &list);
    if (!planes_apart(&list) || (list.shared && plan->n_groups > 1)) {
        return PKV_OK;
    }
    const bool swap = p->op == PKV_TRANSFER_SWAP;
    *apart = true;
    for (uint32_t g = 0; g < plan->n_groups && *apart; g++) {
        const pkv_status st = slots_apart(arena, &plan->groups[g], swap || list.shared,
                                          swap || p->op != PKV_TRANSFER_GATHER, apart);
        if (st != PKV_OK) {
            return st;
        }
    }
    return PKV_OK;
}
