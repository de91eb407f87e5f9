/* list.h  Blocks that nobody holds, in the order in which they are handed out.
 *
 *     first                                         first + span
 *       | ids ... 0 ids ... ids | 0 0 0 ... 0 | ids ... ids |
 *                unswept             hole          swept
 *
 * Ids in a ring, not nodes that name each other: what comes next is known, so that the memory of
 * blocks to come can be fetched, and walking waits for nothing. A block knows its place. One that
 * is taken out from within leaves a gap, a 0. When gaps are many, each block that is put in moves a
 * few others, from the end on, over the gaps behind them, so that there is always room. Whoever
 * takes the block in front out steps over the gaps behind it, each once; so the first place always
 * has a block, and while a sweep is going on it is an unswept one. */
#ifndef PKVI_LIST_H
#define PKVI_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include <pkv/pool.h>

#include "base/fetch.h"
#include "pool/block.h"

#define PKVI_NO_PLACE UINT32_MAX

typedef struct pkvi_list {
    pkvi_block *blocks;   /* [n_blocks] */
    pkv_block *ids;       /* [room] 0: a gap; and PKVI_LIST_PADDING more */
    uint64_t room;        /* below PKVI_NO_PLACE */
    uint64_t n;           /* blocks in it */
    uint64_t first, span; /* places from the first to the last block */
    uint64_t most;        /* a sweep begins when span is larger */
    uint64_t hole, swept; /* places; 0 and 0 if no sweep is going on */
    bool sweeping;
} pkvi_list;

/* A loop over blocks asks for the memory of the one that it looks at so many turns later, and for
 * ids twice as far ahead. */
enum { PKVI_AHEAD = 64, PKVI_LIST_PADDING = 2 * PKVI_AHEAD };

/* Places for n blocks. A sweep begins at 7/5 n + 8. Each block that is put in then passes eight and
 * takes one, so it ends before 8/5 n + 11 are in use; what it leaves are gaps made meanwhile. */
static inline uint64_t pkvi_list_room(uint64_t n)
{
    return n + n / 4 * 3 + 64;
}

/* An empty list. ids: [room + PKVI_LIST_PADDING] zeros; both are borrowed. */
void pkvi_list_init(pkvi_list *list, pkvi_block *blocks, pkv_block *ids, uint64_t n_blocks);

/* Takes the first n out, of at least as many, and counts a reference of each. How many of them have
 * a key. */
uint64_t pkvi_list_take(pkvi_list *list, uint64_t n, pkv_block *ids);

void pkvi_list_sweep(pkvi_list *list);
/* Makes the first place that of the first block again; if it is behind the hole, the sweep ends. */
void pkvi_list_step_over(pkvi_list *list);

/* Place so many behind another, both at most room. */
static inline uint64_t pkvi_list_behind(const pkvi_list *list, uint64_t place, uint64_t n)
{
    return place + n < list->room ? place + n : place + n - list->room;
}

static inline void pkvi_list_set(pkvi_list *list, pkv_block block, uint64_t place)
{
    list->ids[place] = block;
    list->blocks[block].place = (uint32_t)place;
}

static inline void pkvi_list_put(pkvi_list *list, pkv_block block, uint64_t place)
{
    pkvi_list_set(list, block, place);
    list->n++;
    list->span++;
    if (list->sweeping || list->span > list->most) {
        pkvi_list_sweep(list);
    }
}

/* Blocks are being put last: places that come later are fetched. */
static inline void pkvi_list_fetch_place(const pkvi_list *list, uint64_t place)
{
    pkvi_fetch_far(&list->ids[place + PKVI_AHEAD]);
}

/* Puts a block that is not in the list before all others. */
static inline void pkvi_list_put_first(pkvi_list *list, pkv_block block)
{
    list->first = (list->first > 0 ? list->first : list->room) - 1;
    pkvi_list_put(list, block, list->first);
}

/* The same behind all others. */
static inline void pkvi_list_put_last(pkvi_list *list, pkv_block block)
{
    const uint64_t place = pkvi_list_behind(list, list->first, list->span);
    pkvi_list_fetch_place(list, place);
    list->swept += list->sweeping;
    pkvi_list_put(list, block, place);
}

/* Whether so many can be put in and no other one moves. Then their places are known beforehand, and
 * what the list counts can be written once: a number in memory to which each block adds one takes
 * as long as all the rest. */
static inline bool pkvi_list_rests(const pkvi_list *list, uint64_t n)
{
    return !list->sweeping && list->span + n <= list->most;
}

/* n blocks more in front of a list that rests: the caller then sets its first n places. False, and
 * nothing has changed: these places are not in a row. */
static inline bool pkvi_list_add_first(pkvi_list *list, uint64_t n)
{
    if (list->first < n) {
        return false;
    }
    list->first -= n;
    list->n += n;
    list->span += n;
    return true;
}

/* n blocks more at its end: the caller has set the places behind it before. */
static inline void pkvi_list_add_last(pkvi_list *list, uint64_t n)
{
    list->n += n;
    list->span += n;
}

/* Blocks [from, to) of those that are handed out next are fetched: taking one fetches others, but
 * not the first PKVI_AHEAD. */
static inline void pkvi_list_fetch_front(const pkvi_list *list, uint64_t from, uint64_t to)
{
    for (; from < to && from < PKVI_AHEAD; from++) {
        pkvi_fetch_far(&list->blocks[list->ids[list->first + from]]);
    }
}

/* Fetches what taking a block out is going to need, if it is in the list. */
static inline void pkvi_list_fetch(const pkvi_list *list, pkv_block block)
{
    const uint32_t place = list->blocks[block].place;
    if (place != PKVI_NO_PLACE) {
        pkvi_fetch_far(&list->ids[place]);
    }
}

/* Takes a block out from wherever it is. */
static inline void pkvi_list_remove(pkvi_list *list, pkv_block block)
{
    const uint64_t place = list->blocks[block].place;
    list->ids[place] = 0;
    list->blocks[block].place = PKVI_NO_PLACE;
    list->n--;
    if (place == list->first) {
        pkvi_list_step_over(list);
    }
}

#endif
