/* item.c  Items by id, and the lists that they are on.
 *
 * The index is chained: ids come from clients, so they have any length, and an item must not move
 * while inputs point to it. */
#include <string.h>

#include <xxhash.h>

#include "base/math.h"
#include "encoder/encoder_internal.h"

enum { FIRST_BUCKETS = 16 };

static pkvi_item **bucket_of(const pkv_encoder *e, uint64_t hash)
{
    return &e->buckets[(size_t)hash & (e->n_buckets - 1)];
}

static pkvi_item *find(const pkv_encoder *e, const char *id, uint64_t hash)
{
    pkvi_item *item = e->n_buckets > 0 ? *bucket_of(e, hash) : NULL;
    while (item && (item->hash != hash || strcmp(item->id, id) != 0)) {
        item = item->next_in_bucket;
    }
    return item;
}

pkvi_item *pkvi_item_find(const pkv_encoder *e, const char *id)
{
    return find(e, id, XXH3_64bits(id, strlen(id)));
}

pkvi_item *pkvi_item_use(pkv_encoder *e, const char *id)
{
    const size_t length = strlen(id), bytes = sizeof(pkvi_item) + length + 1;
    const uint64_t hash = XXH3_64bits(id, length);
    pkvi_item *item = find(e, id, hash);
    if (!item) {
        item = e->hooks.alloc(e->hooks.ctx, bytes, PKVI_ENCODER_ALIGN);
        if (!item) {
            return NULL;
        }
        memset(item, 0, sizeof *item);
        memcpy(item->id, id, length + 1);
        item->hash = hash;
        item->bytes = bytes;
        item->next_in_bucket = *bucket_of(e, hash);
        *bucket_of(e, hash) = item;
        e->n_items++;
    }
    item->users++;
    return item;
}

void pkvi_item_unuse(pkv_encoder *e, pkvi_item *item)
{
    if (--item->users > 0) {
        return;
    }
    pkvi_item **at = bucket_of(e, item->hash);
    while (*at != item) {
        at = &(*at)->next_in_bucket;
    }
    *at = item->next_in_bucket;
    e->n_items--;
    e->hooks.free(e->hooks.ctx, item, item->bytes, PKVI_ENCODER_ALIGN);
}

static bool grow_index(pkv_encoder *e, size_t need)
{
    size_t n = e->n_buckets > 0 ? e->n_buckets : FIRST_BUCKETS;
    while (n < need) {
        if (n > SIZE_MAX / 2 / sizeof(pkvi_item *)) {
            return false;
        }
        n *= 2;
    }
    if (n == e->n_buckets) {
        return true;
    }
    const size_t n_old = e->n_buckets;
    pkvi_item **old = e->buckets;
    pkvi_item **buckets = e->hooks.alloc(e->hooks.ctx, n * sizeof(pkvi_item *), PKVI_ENCODER_ALIGN);
    if (!buckets) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        buckets[i] = NULL;
    }
    e->buckets = buckets;
    e->n_buckets = n;
    for (size_t i = 0; i < n_old; i++) {
        for (pkvi_item *item = old[i], *next; item; item = next) {
            next = item->next_in_bucket;
            item->next_in_bucket = *bucket_of(e, item->hash);
            *bucket_of(e, item->hash) = item;
        }
    }
    if (old) {
        e->hooks.free(e->hooks.ctx, old, n_old * sizeof(pkvi_item *), PKVI_ENCODER_ALIGN);
    }
    return true;
}

bool pkvi_items_reserve(pkv_encoder *e, uint64_t n)
{
    uint64_t need;
    return pkvi_add(e->n_items, n, &need) && need <= SIZE_MAX && grow_index(e, (size_t)need) &&
           pkvi_item_array_reserve(&e->hooks, &e->told, (size_t)need) &&
           pkvi_id_array_reserve(&e->hooks, &e->told_ids, (size_t)need);
}

void pkvi_item_append(pkv_encoder *e, pkvi_item_list list, pkvi_item *item)
{
    pkvi_item_ends *ends = &e->lists[list];
    item->links[list] = (pkvi_item_link){.prev = ends->last, .listed = true};
    if (ends->last) {
        ends->last->links[list].next = item;
    } else {
        ends->first = item;
    }
    ends->last = item;
    ends->n++;
}

void pkvi_item_unlink(pkv_encoder *e, pkvi_item_list list, pkvi_item *item)
{
    pkvi_item_ends *ends = &e->lists[list];
    const pkvi_item_link link = item->links[list];
    if (link.prev) {
        link.prev->links[list].next = link.next;
    } else {
        ends->first = link.next;
    }
    if (link.next) {
        link.next->links[list].prev = link.prev;
    } else {
        ends->last = link.prev;
    }
    item->links[list] = (pkvi_item_link){0};
    ends->n--;
}
