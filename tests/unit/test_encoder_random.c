/* test_encoder_random.c  Random operations on small encoder caches, beside a naive model.
 *
 * The model keeps a table of items and counts everything anew when asked. After every operation
 * all that can be seen is compared. One run repeats a fixed seed, another takes a new one.
 * PKV_SEED=n replays one seed, PKV_RANDOM_OPS=n operations per run. */
#include "encoder_fixture.h"
#include "replay.h"

enum { DEFAULT_OPS = 100000, ITEMS = 12, REQUESTS = 6 };

typedef struct model_request {
    bool open;
    uint64_t n;
    uint32_t item[MOST_INPUTS];
    uint64_t embeds[MOST_INPUTS];
    bool held[MOST_INPUTS];
} model_request;

typedef struct world {
    uint64_t seed, random, op, n_ops;
    const char *what;
    pkv_encoder *e;
    pkv_encoder_request *real[REQUESTS];
    bool single;
    uint64_t capacity, now;
    model_request requests[REQUESTS];
    bool cached[ITEMS];
    uint64_t size[ITEMS];          /* of a cached item */
    uint64_t idle_since[ITEMS];    /* when its last holder let it go */
    uint64_t pending_since[ITEMS]; /* 0: not to be told */
    uint32_t last_step[ITEMS];     /* single: allocated before the last report */
    uint32_t n_last_step;
} world;

static const char *const ids[ITEMS] = {
    "a", "b", "c", "an id that is a bit longer", "", "e", "f", "g", "ab", "ba", "~", "\xc3\xa9"};

static void disagree(const world *w, const char *what)
{
    fail_msg("operation %" PRIu64 ", %s: not %s (%s); replay with PKV_SEED=%" PRIu64
             " PKV_RANDOM_OPS=%" PRIu64,
             w->op, w->what, what, pkv_last_error(), w->seed, w->n_ops);
}

#define agree(w, condition)          \
    do {                             \
        if (!(condition)) {          \
            disagree(w, #condition); \
        }                            \
    } while (0)

static uint64_t below(world *w, uint64_t n)
{
    return next_random(&w->random) % n;
}

/* ---- the model ---- */

static uint64_t holders(const world *w, uint32_t item)
{
    uint64_t n = 0;
    for (uint32_t r = 0; r < REQUESTS; r++) {
        for (uint64_t i = 0; w->requests[r].open && i < w->requests[r].n; i++) {
            n += w->requests[r].item[i] == item && w->requests[r].held[i];
        }
    }
    return n;
}

static bool is_idle(const world *w, uint32_t item)
{
    return w->cached[item] && holders(w, item) == 0;
}

static uint64_t model_free(const world *w)
{
    uint64_t used = 0;
    for (uint32_t k = 0; k < ITEMS; k++) {
        used += w->cached[k] ? w->size[k] : 0;
    }
    for (uint32_t r = 0; w->single && r < REQUESTS; r++) {
        for (uint64_t i = 0; w->requests[r].open && i < w->requests[r].n; i++) {
            used += w->requests[r].held[i] ? w->requests[r].embeds[i] : 0;
        }
    }
    return w->capacity - used;
}

static uint64_t model_freeable(const world *w)
{
    uint64_t n = model_free(w);
    for (uint32_t k = 0; k < ITEMS; k++) {
        n += is_idle(w, k) ? w->size[k] : 0;
    }
    return n;
}

/* The idle item that was let go first; ITEMS: there is none. */
static uint32_t oldest_idle(const world *w, uint64_t after)
{
    uint32_t oldest = ITEMS;
    for (uint32_t k = 0; k < ITEMS; k++) {
        if (is_idle(w, k) && w->idle_since[k] > after &&
            (oldest == ITEMS || w->idle_since[k] < w->idle_since[oldest])) {
            oldest = k;
        }
    }
    return oldest;
}

static void model_release(world *w, model_request *r, uint64_t i)
{
    r->held[i] = false;
    w->idle_since[r->item[i]] = ++w->now;
}

/* ---- comparing ---- */

static void compare(const world *w)
{
    const char *idle[ITEMS + 1];
    uint64_t n_cached = 0, after = 0, embeds;
    agree(w, pkv_encoder_check(w->e) == PKV_OK);
    agree(w, pkv_encoder_free_slots(w->e) == model_free(w));
    agree(w, pkv_encoder_freeable_slots(w->e) == model_freeable(w));
    const uint64_t n_idle = pkv_encoder_idle_items(w->e, idle, ITEMS + 1);
    for (uint64_t i = 0; i < n_idle; i++) {
        const uint32_t k = oldest_idle(w, after);
        agree(w, k < ITEMS && strcmp(idle[i], ids[k]) == 0);
        after = w->idle_since[k];
    }
    agree(w, oldest_idle(w, after) == ITEMS);
    for (uint32_t k = 0; k < ITEMS; k++) {
        const pkv_status st = pkv_encoder_find(w->e, ids[k], &embeds);
        agree(w, st == (w->cached[k] ? PKV_OK : PKV_E_NOT_FOUND));
        agree(w, st != PKV_OK || embeds == w->size[k]);
        n_cached += w->cached[k];
    }
    agree(w, pkv_encoder_n_items(w->e) == n_cached);
    for (uint32_t r = 0; r < REQUESTS; r++) {
        for (uint64_t i = 0; w->requests[r].open && i <= w->requests[r].n; i++) {
            const bool held = i < w->requests[r].n && w->requests[r].held[i];
            agree(w, pkv_encoder_holds(w->real[r], i) == held);
        }
    }
}

/* ---- operations ---- */

static void do_open(world *w, uint32_t r)
{
    model_request *m = &w->requests[r];
    pkv_encoder_input inputs[MOST_INPUTS];
    w->what = "open";
    *m = (model_request){.open = true, .n = below(w, below(w, 10) == 0 ? MOST_INPUTS : 6)};
    for (uint64_t i = 0; i < m->n; i++) {
        m->item[i] = (uint32_t)below(w, ITEMS);
        m->embeds[i] = m->item[i] % 5 + (below(w, 40) == 0); /* an id of two contents */
        inputs[i] = (pkv_encoder_input){ids[m->item[i]], m->embeds[i]};
    }
    agree(w, pkv_encoder_open(w->e, inputs, m->n, &w->real[r]) == PKV_OK);
}

static void do_lookup(world *w, uint32_t r, uint64_t i)
{
    model_request *m = &w->requests[r];
    const uint32_t k = m->item[i];
    pkv_status wanted = PKV_OK;
    w->what = "lookup";
    if (!w->cached[k]) {
        wanted = PKV_E_NOT_FOUND;
    } else if (w->size[k] != m->embeds[i]) {
        wanted = PKV_E_VALUE;
    } else {
        m->held[i] = true;
    }
    agree(w, pkv_encoder_lookup(w->real[r], i) == wanted);
}

static void do_make_room(world *w, uint32_t r, uint64_t i)
{
    const uint64_t embeds = w->requests[r].embeds[i], budget = below(w, 3) ? 100 : below(w, 6),
                   planned = below(w, 3) ? 0 : below(w, 8);
    pkv_status wanted = PKV_OK;
    w->what = "make_room";
    if (embeds > budget) {
        wanted = PKV_E_AGAIN;
    } else if (embeds + planned > model_freeable(w)) {
        wanted = PKV_E_NO_BLOCKS;
    }
    while (wanted == PKV_OK && embeds + planned > model_free(w)) {
        const uint32_t k = oldest_idle(w, 0);
        w->cached[k] = false;
        w->pending_since[k] = ++w->now;
    }
    agree(w, pkv_encoder_make_room(w->real[r], i, budget, planned) == wanted);
}

static void do_allocate(world *w, uint32_t r, uint64_t i)
{
    model_request *m = &w->requests[r];
    const uint32_t k = m->item[i];
    const bool ok = !w->cached[k] && !m->held[i] && m->embeds[i] <= model_free(w);
    w->what = "allocate";
    agree(w, pkv_encoder_allocate(w->real[r], i) == (ok ? PKV_OK : PKV_E_INVAL));
    if (!ok) {
        return;
    }
    m->held[i] = true;
    if (w->single) {
        w->pending_since[k] = w->pending_since[k] ? w->pending_since[k] : ++w->now;
    } else {
        w->cached[k] = true;
        w->size[k] = m->embeds[i];
        w->pending_since[k] = 0;
    }
}

static void do_release(world *w, uint32_t r, uint64_t i)
{
    model_request *m = &w->requests[r];
    w->what = "release";
    const bool held = m->held[i];
    if (held) {
        model_release(w, m, i);
    }
    agree(w, pkv_encoder_release(w->real[r], i) == (held ? PKV_OK : PKV_E_NOT_FOUND));
}

static void do_release_all(world *w, uint32_t r, bool and_close)
{
    model_request *m = &w->requests[r];
    w->what = and_close ? "close" : "release_all";
    for (uint64_t i = 0; i < m->n; i++) {
        if (m->held[i]) {
            model_release(w, m, i);
        }
    }
    if (and_close) {
        m->open = false;
        pkv_encoder_close(w->real[r]);
    } else {
        pkv_encoder_release_all(w->real[r]);
    }
}

/* Items to be told, in the order in which they came; they are then not to be told any more. */
static uint32_t model_told(world *w, uint32_t *told)
{
    uint32_t n = 0;
    for (uint64_t since = 1; since <= w->now; since++) {
        for (uint32_t k = 0; k < ITEMS; k++) {
            if (w->pending_since[k] == since) {
                told[n++] = k;
            }
        }
    }
    memset(w->pending_since, 0, sizeof w->pending_since);
    return n;
}

static void do_take_evicted(world *w)
{
    uint32_t told[ITEMS], n = model_told(w, told);
    uint64_t n_real;
    w->what = "take_evicted";
    if (w->single) { /* those of the step before */
        uint32_t swap[ITEMS];
        const uint32_t n_swap = w->n_last_step;
        memcpy(swap, w->last_step, sizeof swap);
        memcpy(w->last_step, told, n * sizeof *told);
        w->n_last_step = n;
        memcpy(told, swap, sizeof swap);
        n = n_swap;
    }
    const char *const *real = pkv_encoder_take_evicted(w->e, &n_real);
    agree(w, n_real == n);
    for (uint32_t i = 0; i < n; i++) {
        agree(w, strcmp(real[i], ids[told[i]]) == 0);
    }
}

static void do_reset(world *w)
{
    w->what = "reset";
    for (uint32_t r = 0; r < REQUESTS; r++) {
        memset(w->requests[r].held, 0, sizeof w->requests[r].held);
    }
    memset(w->cached, 0, sizeof w->cached);
    memset(w->pending_since, 0, sizeof w->pending_since);
    w->n_last_step = 0;
    pkv_encoder_reset(w->e);
}

static void do_anything(world *w)
{
    const uint32_t r = (uint32_t)below(w, REQUESTS);
    const uint64_t dice = below(w, 1000);
    if (!w->requests[r].open) {
        do_open(w, r);
        return;
    }
    const uint64_t i = w->requests[r].n > 0 ? below(w, w->requests[r].n) : 0;
    if (dice < 3) {
        do_reset(w);
    } else if (dice < 100) {
        do_take_evicted(w);
    } else if (dice < 130 || w->requests[r].n == 0) {
        do_release_all(w, r, dice < 115 || w->requests[r].n == 0);
    } else if (dice < 350) {
        do_lookup(w, r, i);
    } else if (dice < 550) {
        do_make_room(w, r, i);
    } else if (dice < 800) {
        do_allocate(w, r, i);
    } else {
        do_release(w, r, i);
    }
}

static void run(uint64_t seed, uint64_t n_ops)
{
    static world w;
    memset(&w, 0, sizeof w);
    w.seed = w.random = seed;
    w.n_ops = n_ops;
    print_message("PKV_SEED=%" PRIu64 " PKV_RANDOM_OPS=%" PRIu64 "\n", seed, n_ops);
    while (w.op < n_ops) {
        const world kept = w;
        memset(&w, 0, sizeof w);
        w.seed = kept.seed;
        w.random = kept.random;
        w.op = kept.op;
        w.n_ops = n_ops;
        w.single = below(&w, 4) == 0;
        w.capacity = below(&w, 20);
        w.e = open_encoder(w.capacity, w.single, NULL);
        for (uint64_t left = 50 + below(&w, 500); left > 0 && w.op < n_ops; left--) {
            w.op++;
            do_anything(&w);
            compare(&w);
        }
        pkv_encoder_destroy(w.e);
    }
}

static void a_cache_does_what_the_model_does(void **state)
{
    (void)state;
    run(number_from("PKV_SEED", 1), number_from("PKV_RANDOM_OPS", DEFAULT_OPS));
}

static void a_cache_does_what_the_model_does_with_a_new_seed(void **state)
{
    (void)state;
    run(new_seed(), number_from("PKV_RANDOM_OPS", DEFAULT_OPS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_does_what_the_model_does),
        cmocka_unit_test(a_cache_does_what_the_model_does_with_a_new_seed),
    };
    return cmocka_run_group_tests_name("encoder random", tests, NULL, NULL);
}
