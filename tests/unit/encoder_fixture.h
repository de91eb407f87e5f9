/* encoder_fixture.h  An encoder cache and its requests, written as text: "A4 B5" are the inputs of
 * a request, item A of 4 embeddings and item B of 5. */
#ifndef ENCODER_FIXTURE_H
#define ENCODER_FIXTURE_H

#include "fixture.h"

#include <pkv/encoder.h>

enum { MOST_INPUTS = 16, MOST_IDS = 64 };

#define NO_LIMIT UINT64_MAX

static inline pkv_encoder *open_encoder(uint64_t capacity, uint8_t encoder_decoder,
                                        const pkv_alloc *hooks)
{
    pkv_encoder_params params;
    pkv_encoder *e = NULL;
    pkv_encoder_params_init(&params);
    params.capacity = capacity;
    params.encoder_decoder = encoder_decoder;
    params.alloc = hooks;
    assert_ok(pkv_encoder_create(&params, &e));
    assert_non_null(e);
    return e;
}

static inline pkv_encoder *shared_encoder(uint64_t capacity)
{
    return open_encoder(capacity, 0, NULL);
}

/* Whole walks of the cache, after every operation of a test. */
static inline void checked(const pkv_encoder *e)
{
    assert_ok(pkv_encoder_check(e));
}

static inline pkv_status try_open(pkv_encoder *e, const char *text, pkv_encoder_request **out)
{
    char ids[MOST_INPUTS][2] = {{0}};
    pkv_encoder_input inputs[MOST_INPUTS];
    uint64_t n = 0;
    while (*text) {
        char *end;
        assert_true(n < MOST_INPUTS);
        ids[n][0] = *text;
        inputs[n] = (pkv_encoder_input){ids[n], strtoull(text + 1, &end, 10)};
        n++;
        text = end + strspn(end, " ");
    }
    const pkv_status st = pkv_encoder_open(e, inputs, n, out);
    memset(ids, '?', sizeof ids); /* ids are copied */
    return st;
}

static inline pkv_encoder_request *request_of(pkv_encoder *e, const char *text)
{
    pkv_encoder_request *r = NULL;
    assert_ok(try_open(e, text, &r));
    assert_non_null(r);
    checked(e);
    return r;
}

/* Room for an input in a step of its own, and the allocation. */
static inline void put(pkv_encoder_request *r, uint64_t input)
{
    assert_status(pkv_encoder_make_room(r, input, NO_LIMIT, 0), PKV_OK);
    assert_ok(pkv_encoder_allocate(r, input));
}

/* A request that holds all of its inputs, each item computed. */
static inline pkv_encoder_request *holder_of(pkv_encoder *e, const char *text, uint64_t n)
{
    pkv_encoder_request *r = request_of(e, text);
    for (uint64_t i = 0; i < n; i++) {
        put(r, i);
    }
    checked(e);
    return r;
}

static inline void assert_slots(const pkv_encoder *e, uint64_t free, uint64_t freeable)
{
    checked(e);
    assert_int_equal(pkv_encoder_free_slots(e), free);
    assert_int_equal(pkv_encoder_freeable_slots(e), freeable);
}

static inline void join(char *out, size_t bytes, const char *const *ids, uint64_t n)
{
    out[0] = '\0';
    for (uint64_t i = 0; i < n; i++) {
        const size_t used = strlen(out);
        assert_true(used + strlen(ids[i]) + 2 < bytes);
        (void)snprintf(out + used, bytes - used, "%s%s", i > 0 ? " " : "", ids[i]);
    }
}

/* Items that nobody holds, the next to be evicted first. */
static inline void assert_idle(const pkv_encoder *e, const char *wanted)
{
    const char *ids[MOST_IDS];
    char text[256];
    join(text, sizeof text, ids, pkv_encoder_idle_items(e, ids, MOST_IDS));
    assert_string_equal(text, wanted);
}

/* What is told as evicted now. */
static inline void assert_evicted(pkv_encoder *e, const char *wanted)
{
    char text[256];
    uint64_t n = 77;
    const char *const *ids = pkv_encoder_take_evicted(e, &n);
    checked(e);
    join(text, sizeof text, ids, n);
    assert_string_equal(text, wanted);
}

/* Nothing that can be seen has changed since. */
typedef struct seen {
    uint64_t free, freeable, n_items, n_idle;
    const char *idle[MOST_IDS];
} seen;

static inline seen look(const pkv_encoder *e)
{
    seen s = {.free = pkv_encoder_free_slots(e),
              .freeable = pkv_encoder_freeable_slots(e),
              .n_items = pkv_encoder_n_items(e)};
    s.n_idle = pkv_encoder_idle_items(e, s.idle, MOST_IDS);
    checked(e);
    return s;
}

static inline void assert_unchanged(const pkv_encoder *e, const seen *before)
{
    const seen now = look(e);
    assert_memory_equal(&now, before, sizeof now);
}

#endif
