/* encoder_internal.h  An encoder cache in memory.
 *
 * An item is one id. It exists while something names it: an input of an open request, the cache, a
 * report. So all that an operation touches is there since the request was opened, and an eviction
 * only moves an item from one list to another. */
#ifndef PKVI_ENCODER_INTERNAL_H
#define PKVI_ENCODER_INTERNAL_H

#include <pkv/encoder.h>

#include "base/array.h"

typedef enum pkvi_item_list {
    PKVI_IDLE,    /* cached, held by nobody; the first is evicted first */
    PKVI_PENDING, /* evicted (encoder-decoder: allocated) since the last report */
    PKVI_DUE,     /* to be told by the next report */
    PKVI_N_LISTS
} pkvi_item_list;

typedef struct pkvi_item pkvi_item;

typedef struct pkvi_item_link {
    pkvi_item *prev, *next;
    bool listed;
} pkvi_item_link;

struct pkvi_item {
    pkvi_item *next_in_bucket;
    pkvi_item_link links[PKVI_N_LISTS];
    uint64_t hash;
    uint64_t embeds; /* while cached */
    uint64_t users;  /* inputs of open requests, the cache, PENDING, DUE, the last report */
    uint64_t refs;   /* inputs that hold it */
    uint64_t users_seen, refs_seen; /* of pkv_encoder_check() */
    size_t bytes;                   /* of this struct and the id */
    bool cached;
    char id[];
};

typedef struct pkvi_item_ends {
    pkvi_item *first, *last;
    uint64_t n;
} pkvi_item_ends;

typedef struct pkvi_held_input {
    pkvi_item *item;
    uint64_t embeds;
    bool held;
} pkvi_held_input;

struct pkv_encoder_request {
    pkv_encoder *encoder;
    pkv_encoder_request *prev, *next;
    uint64_t n_inputs, n_held;
    pkvi_held_input inputs[];
};

PKVI_DEFINE_LIST(pkvi_item_array, pkvi_item *)
PKVI_DEFINE_LIST(pkvi_id_array, const char *)

struct pkv_encoder {
    pkv_alloc hooks;
    bool shared; /* not encoder_decoder */
    uint64_t capacity, free, freeable;
    pkv_encoder_request *first;
    pkvi_item_ends lists[PKVI_N_LISTS];
    pkvi_item **buckets; /* [n_buckets], a power of two */
    size_t n_buckets, n_items;
    uint64_t n_cached;
    pkvi_item_array told; /* the last report: it keeps its ids alive; room for every item */
    pkvi_id_array told_ids;
};

enum { PKVI_ENCODER_ALIGN = 16 };

/* The item with this id, or NULL. */
pkvi_item *pkvi_item_find(const pkv_encoder *e, const char *id);
/* The same, made if there is none, with one more user. NULL: no memory. */
pkvi_item *pkvi_item_use(pkv_encoder *e, const char *id);
/* One user less; nobody: the item is freed. */
void pkvi_item_unuse(pkv_encoder *e, pkvi_item *item);
/* Room for n more items in the index and in reports. false: no memory, nothing changed. */
bool pkvi_items_reserve(pkv_encoder *e, uint64_t n);

void pkvi_item_append(pkv_encoder *e, pkvi_item_list list, pkvi_item *item);
void pkvi_item_unlink(pkv_encoder *e, pkvi_item_list list, pkvi_item *item);

#endif
