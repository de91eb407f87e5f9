/* list.c  The list of blocks that nobody holds: handed out, and swept. */
#include "pool/list.h"

#include "base/math.h"

void pkvi_list_init(pkvi_list *list, pkvi_block *blocks, pkv_block *ids, uint64_t n_blocks)
{
    *list = (pkvi_list){.blocks = blocks,
                        .ids = ids,
                        .room = pkvi_list_room(n_blocks),
                        .most = n_blocks + n_blocks / 5 * 2 + 8};
}

/* So many places are in use, without a hole. */
static void set_span(pkvi_list *list, uint64_t span)
{
    list->span = span;
    list->hole = list->swept = 0;
    list->sweeping = false;
}

/* Nothing before the hole is left. */
static void end_sweep(pkvi_list *list)
{
    list->first = pkvi_list_behind(list, list->first, list->hole);
    set_span(list, list->swept);
}

void pkvi_list_step_over(pkvi_list *list)
{
    if (list->n == 0) { /* nothing but gaps */
        set_span(list, 0);
        return;
    }
    for (;;) {
        if (list->sweeping && list->span == list->swept + list->hole) {
            end_sweep(list);
        }
        if (list->ids[list->first] != 0) {
            return;
        }
        list->first = pkvi_list_behind(list, list->first, 1);
        list->span--;
    }
}

/* Passes a few more places, from the end on, and moves their blocks to the end of the hole. */
void pkvi_list_sweep(pkvi_list *list)
{
    enum { PASSED = 8 }; /* list.h counts with it */
    list->sweeping = true;
    for (int i = 0; i < PASSED; i++) {
        const uint64_t unswept = list->span - list->swept - list->hole;
        const uint64_t from = pkvi_list_behind(list, list->first, unswept - 1);
        const pkv_block b = list->ids[from];
        if (b == 0) { /* not the first place, which has a block */
            list->hole++;
            continue;
        }
        const uint64_t to = pkvi_list_behind(list, from, list->hole);
        list->ids[from] = 0;
        list->ids[to] = b;
        list->blocks[b].place = (uint32_t)to;
        list->swept++;
        if (unswept == 1) {
            pkvi_list_step_over(list);
            return;
        }
    }
}

/* The same out of places that lie in a row, all before the hole. */
static uint64_t take_row(pkvi_list *list, uint64_t n_places, uint64_t n, pkv_block *ids,
                         uint64_t *n_keyed)
{
    const pkv_block *from = list->ids + list->first, *end = from + n_places;
    uint64_t taken = 0, keyed = 0;
    for (; from < end && taken < n; from++) {
        pkvi_fetch_far(&list->blocks[from[PKVI_AHEAD]]);
        pkvi_fetch_far(from + PKVI_LIST_PADDING);
        pkvi_block *block = &list->blocks[*from];
        if (*from == 0) {
            continue;
        }
        keyed += block->units != 0;
        block->place = PKVI_NO_PLACE;
        block->refs = 1;
        ids[taken++] = *from;
    }
    const uint64_t passed = (uint64_t)(from - (list->ids + list->first));
    list->first = pkvi_list_behind(list, list->first, passed);
    list->span -= passed;
    *n_keyed += keyed;
    return taken;
}

uint64_t pkvi_list_take(pkvi_list *list, uint64_t n, pkv_block *ids)
{
    uint64_t n_keyed = 0;
    for (uint64_t i = 0; i < n;) {
        const uint64_t unswept = list->span - list->swept - list->hole;
        if (unswept == 0) {
            end_sweep(list);
            continue;
        }
        i += take_row(list, pkvi_min(unswept, list->room - list->first), n - i, ids + i, &n_keyed);
    }
    list->n -= n;
    pkvi_list_step_over(list);
    return n_keyed;
}
