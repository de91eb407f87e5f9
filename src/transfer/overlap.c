/* overlap.c  Whether a byte would be written twice, or both read and written.
 *
 * What decides is the bytes of the rows that move, whatever the buffers are called: all pieces are
 * listed by address, sorted, and neighbours are compared. That takes memory and time for each
 * piece, so that apart.c first tries to show from strides alone that no two rows can meet. */
#include <inttypes.h>

#include "base/error.h"
#include "transfer/apart.h"
#include "transfer/sort.h"
#include "transfer/transfer.h"

/* The pieces of one or both sides. The first walk counts them. */
typedef struct span_list {
    pkvi_span *at;
    uint64_t n;
    bool src, dst;
} span_list;

static void add(span_list *list, uint64_t start, uint64_t bytes)
{
    if (list->at) {
        list->at[list->n] = (pkvi_span){start, start + bytes};
    }
    list->n++;
}

static void list_pieces(void *ctx, const pkvi_pieces *p)
{
    span_list *list = ctx;
    for (uint64_t o = 0; o < p->n_outer; o++) {
        for (uint64_t i = 0; i < p->n_inner; i++) {
            if (list->src) {
                add(list, p->src + o * p->src_outer + i * p->src_inner, p->bytes);
            }
            if (list->dst) {
                add(list, p->dst + o * p->dst_outer + i * p->dst_inner, p->bytes);
            }
        }
    }
}

static bool list_side(const pkv_transfer_plan *plan, pkvi_arena *arena, span_list *list)
{
    pkvi_walk(plan, 0, plan->n_pairs, 0, plan->bytes, list_pieces, list);
    const uint64_t n = list->n;
    pkvi_span *room = pkvi_arena_get(arena, n, sizeof *room);
    list->at = pkvi_arena_get(arena, n, sizeof *list->at);
    if (!room || !list->at) {
        return false;
    }
    list->n = 0;
    pkvi_walk(plan, 0, plan->n_pairs, 0, plan->bytes, list_pieces, list);
    pkvi_sort_spans(list->at, room, list->n);
    return true;
}

/* The first byte that is in two spans of a list. */
static bool meets_itself(const span_list *list, uint64_t *at)
{
    for (uint64_t i = 1; i < list->n; i++) {
        if (list->at[i].start < list->at[i - 1].end) {
            *at = list->at[i].start;
            return true;
        }
    }
    return false;
}

/* The first byte of b, whose spans are disjoint, that is also in a, whose spans need not be. */
static bool meets(const span_list *a, const span_list *b, uint64_t *at)
{
    uint64_t j = 0;
    for (uint64_t i = 0; i < a->n; i++) {
        while (j < b->n && b->at[j].end <= a->at[i].start) {
            j++;
        }
        if (j < b->n && b->at[j].start < a->at[i].end) {
            *at = b->at[j].start > a->at[i].start ? b->at[j].start : a->at[i].start;
            return true;
        }
    }
    return false;
}

/* Name of the buffer that holds an address, and the byte of it. */
static pkvi_field name_byte(const pkv_transfer_pages *sides, uint32_t n, const char *side,
                            uint64_t at, uint64_t *byte)
{
    for (uint32_t r = 0; sides && r < n; r++) {
        for (uint32_t i = 0; i < sides[r].n_buffers; i++) {
            const uint64_t data = (uint64_t)(uintptr_t)sides[r].buffers[i].data;
            if (at >= data && at - data < sides[r].buffers[i].bytes) {
                *byte = at - data;
                return pkvi_field_of("%s[%u].buffers[%u]", side, r, i);
            }
        }
    }
    return pkvi_field_of("%s", "");
}

static pkv_status refuse(const pkvi_job *job, uint64_t at, const char *how)
{
    const pkv_transfer_params *p = &job->p;
    const char *field = p->op == PKV_TRANSFER_GATHER ? "chunks"
                        : p->dst_slots               ? "dst_slots"
                                                     : "dst_blocks";
    uint64_t byte = 0;
    pkvi_field where = name_byte(p->dst, p->n_dst, "dst", at, &byte);
    if (!where.text[0]) { /* of a gather and of a swap: all that moves is there */
        where = name_byte(p->src, p->n_src, "src", at, &byte);
    }
    if (!where.text[0]) {
        return pkvi_refuse(job, PKV_TRANSFER_OVERLAP, pkvi_field_of("%s", field),
                           "a byte of a chunk would be %s", how);
    }
    return pkvi_refuse(job, PKV_TRANSFER_OVERLAP, pkvi_field_of("%s", field),
                       "byte %" PRIu64 " of %s would be %s", byte, where.text, how);
}

static pkv_status compare(const pkvi_job *job, pkvi_arena *arena)
{
    const bool swap = job->p.op == PKV_TRANSFER_SWAP;
    span_list written = {.src = swap, .dst = true}, read = {.src = true};
    uint64_t at;
    if (!list_side(job->plan, arena, &written)) {
        return pkvi_transfer_no_memory();
    }
    if (meets_itself(&written, &at)) {
        return refuse(job, at, "written twice");
    }
    if (swap) {
        return PKV_OK;
    }
    if (!list_side(job->plan, arena, &read)) {
        return pkvi_transfer_no_memory();
    }
    return meets(&read, &written, &at) ? refuse(job, at, "read and written") : PKV_OK;
}

pkv_status pkvi_check_overlap(const pkvi_job *job)
{
    pkvi_arena arena;
    bool apart;
    pkvi_arena_init(&arena, &job->plan->arena.hooks, 4096);
    pkv_status st = pkvi_rows_apart(job, &arena, &apart);
    if (st == PKV_OK && !apart) {
        st = compare(job, &arena);
    }
    pkvi_arena_free(&arena);
    return st;
}
