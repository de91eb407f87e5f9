/* check.c  The invariants of an encoder cache, walked from end to end.
 *
 * Users and references are counted anew from whoever names an item, then compared item by item. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "encoder/encoder_internal.h"

static pkv_status broken(const char *what, uint64_t where)
{
    return pkvi_fail(PKV_E_CORRUPT, "pkv_encoder_check: %s (%" PRIu64 ")", what, where);
}

static pkv_status start_counts(const pkv_encoder *e)
{
    size_t n = 0;
    for (size_t b = 0; b < e->n_buckets; b++) {
        for (pkvi_item *item = e->buckets[b]; item; item = item->next_in_bucket) {
            if (((size_t)item->hash & (e->n_buckets - 1)) != b ||
                pkvi_item_find(e, item->id) != item) {
                return broken("an item cannot be found by its id", b);
            }
            if (++n > e->n_items) {
                return broken("there are more items than counted", n);
            }
            item->users_seen = item->cached;
            item->refs_seen = 0;
        }
    }
    return n == e->n_items ? PKV_OK : broken("there are fewer items than counted", n);
}

static pkv_status count_requests(const pkv_encoder *e, uint64_t *held_embeds)
{
    for (const pkv_encoder_request *r = e->first; r; r = r->next) {
        uint64_t n_held = 0;
        if (r->encoder != e || (r->next && r->next->prev != r) ||
            (r->prev == NULL) != (r == e->first)) {
            return broken("the requests are not a list", r->n_inputs);
        }
        for (uint64_t i = 0; i < r->n_inputs; i++) {
            const pkvi_held_input *in = &r->inputs[i];
            in->item->users_seen++;
            if (!in->held) {
                continue;
            }
            n_held++;
            in->item->refs_seen++;
            if (!pkvi_add(*held_embeds, in->embeds, held_embeds)) {
                return broken("more is held than there can be, by input", i);
            }
            if (e->shared && (!in->item->cached || in->item->embeds != in->embeds)) {
                return broken("an input holds what is not cached", i);
            }
        }
        if (n_held != r->n_held) {
            return broken("a request holds another number of inputs than it counts", n_held);
        }
    }
    return PKV_OK;
}

static pkv_status check_list(const pkv_encoder *e, pkvi_item_list list)
{
    const pkvi_item_ends *ends = &e->lists[list];
    const pkvi_item *before = NULL;
    uint64_t n = 0;
    for (pkvi_item *item = ends->first; item; item = item->links[list].next) {
        if (!item->links[list].listed || item->links[list].prev != before || ++n > ends->n) {
            return broken("a list of items is not a list", list);
        }
        if (list == PKVI_IDLE ? !item->cached || item->refs != 0 : item->cached) {
            return broken("an item is on a list where it does not belong", list);
        }
        item->users_seen += list != PKVI_IDLE;
        before = item;
    }
    return n == ends->n && before == ends->last ? PKV_OK : broken("a list ends elsewhere", list);
}

static pkv_status check_report(const pkv_encoder *e)
{
    if (e->told.n != e->told_ids.n || e->told.capacity < e->n_items ||
        e->told_ids.capacity < e->n_items) {
        return broken("the report has no room for all items", e->told.n);
    }
    for (size_t i = 0; i < e->told.n; i++) {
        e->told.at[i]->users_seen++;
        if (e->told_ids.at[i] != e->told.at[i]->id) {
            return broken("the report tells another id than its item has", i);
        }
    }
    return PKV_OK;
}

static pkv_status check_items(const pkv_encoder *e, uint64_t *cached, uint64_t *idle)
{
    uint64_t n_cached = 0, listed[PKVI_N_LISTS] = {0};
    for (size_t b = 0; b < e->n_buckets; b++) {
        for (const pkvi_item *item = e->buckets[b]; item; item = item->next_in_bucket) {
            if (item->users != item->users_seen || item->refs != item->refs_seen ||
                item->users == 0) {
                return broken("an item has other users than it counts", item->users_seen);
            }
            for (int list = 0; list < PKVI_N_LISTS; list++) {
                listed[list] += item->links[list].listed;
            }
            if (!item->cached) {
                continue;
            }
            n_cached++;
            if (!e->shared || item->links[PKVI_IDLE].listed != (item->refs == 0) ||
                !pkvi_add(*cached, item->embeds, cached)) {
                return broken("a cached item is neither held nor idle", item->refs);
            }
            *idle += item->refs == 0 ? item->embeds : 0;
        }
    }
    for (int list = 0; list < PKVI_N_LISTS; list++) {
        if (listed[list] != e->lists[list].n) {
            return broken("an item believes to be on a list", (uint64_t)list);
        }
    }
    return n_cached == e->n_cached ? PKV_OK
                                   : broken("other items are cached than counted", n_cached);
}

pkv_status pkv_encoder_check(const pkv_encoder *encoder)
{
    const pkv_encoder *e = encoder;
    uint64_t held = 0, cached = 0, idle = 0;
    PKVI_RETURN_IF(start_counts(e));
    PKVI_RETURN_IF(count_requests(e, &held));
    for (int list = 0; list < PKVI_N_LISTS; list++) {
        PKVI_RETURN_IF(check_list(e, (pkvi_item_list)list));
    }
    PKVI_RETURN_IF(check_report(e));
    PKVI_RETURN_IF(check_items(e, &cached, &idle));
    const uint64_t used = e->shared ? cached : held;
    if (used > e->capacity || e->free != e->capacity - used) {
        return broken("the free slots are not those that nothing uses", e->free);
    }
    if (e->freeable != e->free + idle) {
        return broken("the freeable slots are not the free and the idle ones", e->freeable);
    }
    return PKV_OK;
}
