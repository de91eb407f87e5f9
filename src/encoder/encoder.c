/* encoder.c  The encoder cache: requests, what they hold, and what is evicted for them.
 *
 * Always: free = capacity - embeddings of cached items, and freeable = free + embeddings of those
 * that no input holds. Without sharing nothing is cached: free = freeable = capacity - embeddings
 * of the inputs that hold. */
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/math.h"
#include "base/params.h"
#include "encoder/encoder_internal.h"

void pkv_encoder_params_init(pkv_encoder_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

pkv_status pkv_encoder_create(const pkv_encoder_params *params, pkv_encoder **out)
{
    pkv_encoder_params p;
    if (out) {
        *out = NULL;
    }
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_encoder_create: params or out is NULL");
    }
    pkv_encoder_params_init(&p);
    PKVI_RETURN_IF(pkvi_import_params("pkv_encoder_create", params, &p, sizeof p));
    if (p.capacity > PKVI_SIZE_MAX || p.encoder_decoder > 1) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_encoder_create: capacity %" PRIu64 ", encoder_decoder %" PRIu8
                         ": out of range",
                         p.capacity, p.encoder_decoder);
    }
    const pkv_alloc hooks = p.alloc ? *p.alloc : pkvi_libc_alloc;
    pkv_encoder *e = hooks.alloc(hooks.ctx, sizeof *e, PKVI_ENCODER_ALIGN);
    if (!e) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_encoder_create: out of memory for an encoder cache");
    }
    memset(e, 0, sizeof *e);
    e->hooks = hooks;
    e->shared = !p.encoder_decoder;
    e->capacity = e->free = e->freeable = p.capacity;
    *out = e;
    return PKV_OK;
}

static void forget_report(pkv_encoder *e)
{
    for (size_t i = 0; i < e->told.n; i++) {
        pkvi_item_unuse(e, e->told.at[i]);
    }
    e->told.n = e->told_ids.n = 0;
}

void pkv_encoder_destroy(pkv_encoder *encoder)
{
    if (!encoder) {
        return;
    }
    const pkv_alloc hooks = encoder->hooks;
    pkv_encoder_reset(encoder);
    while (encoder->first) {
        pkv_encoder_close(encoder->first);
    }
    pkvi_item_array_free(&hooks, &encoder->told);
    pkvi_id_array_free(&hooks, &encoder->told_ids);
    if (encoder->buckets) {
        hooks.free(hooks.ctx, encoder->buckets, encoder->n_buckets * sizeof *encoder->buckets,
                   PKVI_ENCODER_ALIGN);
    }
    hooks.free(hooks.ctx, encoder, sizeof *encoder, PKVI_ENCODER_ALIGN);
}

/* ---- counting ---- */

uint64_t pkv_encoder_capacity(const pkv_encoder *encoder)
{
    return encoder->capacity;
}

uint64_t pkv_encoder_free_slots(const pkv_encoder *encoder)
{
    return encoder->free;
}

uint64_t pkv_encoder_freeable_slots(const pkv_encoder *encoder)
{
    return encoder->freeable;
}

uint64_t pkv_encoder_n_items(const pkv_encoder *encoder)
{
    return encoder->n_cached;
}

pkv_status pkv_encoder_find(const pkv_encoder *encoder, const char *id, uint64_t *embeds_out)
{
    if (!id || !embeds_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_encoder_find: id or embeds_out is NULL");
    }
    const pkvi_item *item = pkvi_item_find(encoder, id);
    if (!item || !item->cached) {
        return PKV_E_NOT_FOUND;
    }
    *embeds_out = item->embeds;
    return PKV_OK;
}

uint64_t pkv_encoder_idle_items(const pkv_encoder *encoder, const char **ids, uint64_t n)
{
    uint64_t count = 0;
    const pkvi_item *item = encoder->lists[PKVI_IDLE].first;
    for (; item && count < n; item = item->links[PKVI_IDLE].next) {
        ids[count++] = item->id;
    }
    return count;
}

/* ---- requests ---- */

static size_t request_bytes(uint64_t n_inputs)
{
    return sizeof(pkv_encoder_request) + (size_t)n_inputs * sizeof(pkvi_held_input);
}

static pkv_status check_inputs(const pkv_encoder_input *inputs, uint64_t n)
{
    if (n > 0 && !inputs) {
        return pkvi_fail(PKV_E_INVAL, "pkv_encoder_open: inputs is NULL");
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!inputs[i].id) {
            return pkvi_fail(PKV_E_INVAL, "pkv_encoder_open: input %" PRIu64 ": id is NULL", i);
        }
    }
    return PKV_OK;
}

/* A request that is not linked yet and names its items; NULL: no memory. */
static pkv_encoder_request *new_request(pkv_encoder *e, const pkv_encoder_input *inputs, uint64_t n)
{
    if (n > (SIZE_MAX - sizeof(pkv_encoder_request)) / sizeof(pkvi_held_input) ||
        !pkvi_items_reserve(e, n)) {
        return NULL;
    }
    pkv_encoder_request *r = e->hooks.alloc(e->hooks.ctx, request_bytes(n), PKVI_ENCODER_ALIGN);
    if (!r) {
        return NULL;
    }
    *r = (pkv_encoder_request){.encoder = e, .n_inputs = n};
    for (uint64_t i = 0; i < n; i++) {
        pkvi_item *item = pkvi_item_use(e, inputs[i].id);
        if (!item) {
            while (i > 0) {
                pkvi_item_unuse(e, r->inputs[--i].item);
            }
            e->hooks.free(e->hooks.ctx, r, request_bytes(n), PKVI_ENCODER_ALIGN);
            return NULL;
        }
        r->inputs[i] = (pkvi_held_input){.item = item, .embeds = inputs[i].embeds};
    }
    return r;
}

pkv_status pkv_encoder_open(pkv_encoder *encoder, const pkv_encoder_input *inputs, uint64_t n,
                            pkv_encoder_request **out)
{
    if (!out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_encoder_open: out is NULL");
    }
    *out = NULL;
    PKVI_RETURN_IF(check_inputs(inputs, n));
    pkv_encoder_request *r = new_request(encoder, inputs, n);
    if (!r) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_encoder_open: out of memory for %" PRIu64 " inputs", n);
    }
    r->next = encoder->first;
    if (r->next) {
        r->next->prev = r;
    }
    encoder->first = r;
    *out = r;
    return PKV_OK;
}

void pkv_encoder_close(pkv_encoder_request *request)
{
    if (!request) {
        return;
    }
    pkv_encoder *e = request->encoder;
    pkv_encoder_release_all(request);
    if (request->prev) {
        request->prev->next = request->next;
    } else {
        e->first = request->next;
    }
    if (request->next) {
        request->next->prev = request->prev;
    }
    for (uint64_t i = 0; i < request->n_inputs; i++) {
        pkvi_item_unuse(e, request->inputs[i].item);
    }
    e->hooks.free(e->hooks.ctx, request, request_bytes(request->n_inputs), PKVI_ENCODER_ALIGN);
}

bool pkv_encoder_holds(const pkv_encoder_request *request, uint64_t input)
{
    return input < request->n_inputs && request->inputs[input].held;
}

/* ---- holding ---- */

static pkv_status check_input(const char *function, const pkv_encoder_request *r, uint64_t input)
{
    if (input >= r->n_inputs) {
        return pkvi_fail(PKV_E_INVAL, "%s: input %" PRIu64 " of a request of %" PRIu64, function,
                         input, r->n_inputs);
    }
    return PKV_OK;
}

static void hold(pkv_encoder_request *r, pkvi_held_input *in)
{
    in->held = true;
    in->item->refs++;
    r->n_held++;
}

static void drop(pkv_encoder_request *r, pkvi_held_input *in)
{
    pkv_encoder *e = r->encoder;
    in->held = false;
    in->item->refs--;
    r->n_held--;
    if (!e->shared) {
        e->free += in->embeds;
        e->freeable += in->embeds;
    } else if (in->item->refs == 0) {
        pkvi_item_append(e, PKVI_IDLE, in->item);
        e->freeable += in->item->embeds;
    }
}

pkv_status pkv_encoder_lookup(pkv_encoder_request *request, uint64_t input)
{
    pkv_encoder *e = request->encoder;
    PKVI_RETURN_IF(check_input("pkv_encoder_lookup", request, input));
    pkvi_held_input *in = &request->inputs[input];
    pkvi_item *item = in->item;
    if (!item->cached) {
        return PKV_E_NOT_FOUND;
    }
    if (item->embeds != in->embeds) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_encoder_lookup: input %" PRIu64 " has %" PRIu64
                         " embeddings, but its item is cached with %" PRIu64,
                         input, in->embeds, item->embeds);
    }
    if (item->links[PKVI_IDLE].listed) {
        pkvi_item_unlink(e, PKVI_IDLE, item);
        e->freeable -= item->embeds;
    }
    if (!in->held) {
        hold(request, in);
    }
    return PKV_OK;
}

/* The item that was released longest ago. Its tensor may be in use until the step begins, so it is
 * told, not dropped. */
static void evict_one(pkv_encoder *e)
{
    pkvi_item *item = e->lists[PKVI_IDLE].first;
    pkvi_item_unlink(e, PKVI_IDLE, item);
    item->cached = false;
    e->n_cached--;
    e->free += item->embeds;
    pkvi_item_append(e, PKVI_PENDING, item); /* the cache's use of it goes over to the list */
}

pkv_status pkv_encoder_make_room(pkv_encoder_request *request, uint64_t input, uint64_t budget,
                                 uint64_t planned)
{
    pkv_encoder *e = request->encoder;
    uint64_t need;
    PKVI_RETURN_IF(check_input("pkv_encoder_make_room", request, input));
    if (request->inputs[input].embeds > budget) {
        return PKV_E_AGAIN;
    }
    if (!pkvi_add(request->inputs[input].embeds, planned, &need) || need > e->freeable) {
        return PKV_E_NO_BLOCKS;
    }
    while (need > e->free) {
        evict_one(e);
    }
    return PKV_OK;
}

static void cache_item(pkv_encoder *e, pkvi_item *item, uint64_t embeds)
{
    item->cached = true;
    item->embeds = embeds;
    e->n_cached++;
    if (item->links[PKVI_PENDING].listed) { /* evicted in this pass: its tensor is not dropped */
        pkvi_item_unlink(e, PKVI_PENDING, item);
    } else {
        item->users++;
    }
}

pkv_status pkv_encoder_allocate(pkv_encoder_request *request, uint64_t input)
{
    pkv_encoder *e = request->encoder;
    PKVI_RETURN_IF(check_input("pkv_encoder_allocate", request, input));
    pkvi_held_input *in = &request->inputs[input];
    if (in->item->cached || in->held) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_encoder_allocate: input %" PRIu64 ": its item is %s already", input,
                         in->held ? "held" : "cached");
    }
    if (in->embeds > e->free) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_encoder_allocate: input %" PRIu64 " has %" PRIu64
                         " embeddings, free are %" PRIu64 ": make room first",
                         input, in->embeds, e->free);
    }
    if (e->shared) {
        cache_item(e, in->item, in->embeds);
    } else if (!in->item->links[PKVI_PENDING].listed) {
        pkvi_item_append(e, PKVI_PENDING, in->item);
        in->item->users++;
    }
    hold(request, in);
    e->free -= in->embeds;
    e->freeable -= in->embeds;
    return PKV_OK;
}

pkv_status pkv_encoder_release(pkv_encoder_request *request, uint64_t input)
{
    PKVI_RETURN_IF(check_input("pkv_encoder_release", request, input));
    if (!request->inputs[input].held) {
        return PKV_E_NOT_FOUND;
    }
    drop(request, &request->inputs[input]);
    return PKV_OK;
}

void pkv_encoder_release_all(pkv_encoder_request *request)
{
    for (uint64_t i = 0; i < request->n_inputs && request->n_held > 0; i++) {
        if (request->inputs[i].held) {
            drop(request, &request->inputs[i]);
        }
    }
}

/* ---- steps ---- */

static void pending_is_due(pkv_encoder *e)
{
    for (pkvi_item *item; (item = e->lists[PKVI_PENDING].first) != NULL;) {
        pkvi_item_unlink(e, PKVI_PENDING, item);
        pkvi_item_append(e, PKVI_DUE, item);
    }
}

const char *const *pkv_encoder_take_evicted(pkv_encoder *encoder, uint64_t *n_out)
{
    pkv_encoder *e = encoder;
    forget_report(e);
    if (e->shared) {
        pending_is_due(e);
    }
    for (pkvi_item *item; (item = e->lists[PKVI_DUE].first) != NULL;) {
        pkvi_item_unlink(e, PKVI_DUE, item);
        e->told.at[e->told.n++] = item;
        e->told_ids.at[e->told_ids.n++] = item->id;
    }
    if (!e->shared) { /* the step that computed them has yet to run */
        pending_is_due(e);
    }
    *n_out = e->told_ids.n;
    return e->told_ids.at;
}

static void forget_list(pkv_encoder *e, pkvi_item_list list)
{
    for (pkvi_item *item; (item = e->lists[list].first) != NULL;) {
        pkvi_item_unlink(e, list, item);
        pkvi_item_unuse(e, item);
    }
}

void pkv_encoder_reset(pkv_encoder *encoder)
{
    for (pkv_encoder_request *r = encoder->first; r; r = r->next) {
        pkv_encoder_release_all(r);
    }
    for (pkvi_item *item = encoder->lists[PKVI_IDLE].first; item;
         item = item->links[PKVI_IDLE].next) {
        item->cached = false;
    }
    forget_list(encoder, PKVI_IDLE); /* all that was cached */
    forget_list(encoder, PKVI_PENDING);
    forget_list(encoder, PKVI_DUE);
    forget_report(encoder);
    encoder->n_cached = 0;
    encoder->free = encoder->freeable = encoder->capacity;
}
