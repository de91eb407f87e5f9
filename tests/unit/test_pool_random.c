/* test_pool_random.c  Random operations on small pools, beside the naive model of pool_oracle.h.
 *
 * After every operation all that can be seen is compared: status, events, callbacks, samples, the
 * list, references, keys, and what every key of a small world finds. One run repeats a fixed seed,
 * another takes a new one. PKV_SEED=n replays one seed, PKV_RANDOM_OPS=n operations per run. */
#include "pool_oracle.h"
#include "replay.h"

enum { DEFAULT_OPS = 170000, MOST_IDS = 3 * MOST_BLOCKS + 8 };

typedef struct world {
    uint64_t seed, random, op, n_ops;
    const char *what; /* the operation that runs */
    pkv_pool_params params;
    pkv_pool *pool;
    const pkv_chain *chain; /* given to it */
    pkv_key keys[CHAINS * CHAIN_UNITS];
    told_log log;
    oracle o;
} world;

static void disagree(const world *w, const char *what, const char *wanted)
{
    fail_msg("operation %" PRIu64 ", %s: %s%s; replay with PKV_SEED=%" PRIu64
             " PKV_RANDOM_OPS=%" PRIu64,
             w->op, w->what, what, wanted, w->seed, w->n_ops);
}

#define agree(w, condition)                  \
    do {                                     \
        if (!(condition)) {                  \
            disagree(w, "not ", #condition); \
        }                                    \
    } while (0)

/* The status that the model says. */
static void answered(const world *w, pkv_status got, pkv_status wanted)
{
    if (got != wanted) {
        char text[80] = "";
        append(text, sizeof text, " instead of %s", pkv_status_name(wanted));
        disagree(w, pkv_status_name(got), text);
    }
}

/* ---- chance ---- */

static uint32_t below(world *w, uint64_t n)
{
    return (uint32_t)(next_random(&w->random) % n);
}

static bool chance(world *w, unsigned percent)
{
    return below(w, 100) < percent;
}

/* A block, now and then the null block or an id beyond the pool. */
static pkv_block any_block(world *w)
{
    if (chance(w, 2)) {
        return w->o.n_blocks + below(w, 3);
    }
    return chance(w, 1) ? UINT32_MAX : below(w, w->o.n_blocks);
}

/* ---- what the pool tells ---- */

static name name_of_key(const world *w, const pkv_key *key)
{
    const char *letter = strchr(chain_letters, key->bytes[8]);
    agree(w, letter != NULL && *letter);
    const name named = name_of((unsigned)(letter - chain_letters), key->bytes[9]);
    agree(w, memcmp(key, &w->keys[named], sizeof *key) == 0);
    return named;
}

static void hear_event(void *ctx, const pkv_event *e)
{
    world *w = ctx;
    told t = {.type = (uint8_t)e->type,
              .group = (uint8_t)e->group,
              .n_keys = (uint8_t)e->n_keys,
              .parent = e->parent ? name_of_key(w, e->parent) : NO_KEY,
              .first_token = (uint32_t)e->first_token,
              .n_tokens = (uint32_t)e->n_tokens,
              .block_size = (uint32_t)e->block_size};
    agree(w, e->n_keys <= CHAIN_UNITS && w->log.n_events < MOST_TOLD);
    agree(w, e->chain == (e->type == PKV_EVENT_STORED ? w->chain : NULL));
    agree(w, e->key_bytes == 32 && e->lookahead == 0);
    for (uint32_t i = 0; i < e->n_keys; i++) {
        t.keys[i] = name_of_key(w, e->keys[i]);
        if (e->type == PKV_EVENT_STORED) {
            agree(w, e->positions[i] % w->o.unit == 0);
            t.positions[i] = (uint8_t)(e->positions[i] / w->o.unit);
        }
    }
    w->log.events[w->log.n_events++] = t;
}

static void hear_reuse(void *ctx, pkv_block block)
{
    world *w = ctx;
    agree(w, w->log.n_reused < COUNT(w->log.reused));
    w->log.reused[w->log.n_reused++] = block;
}

static uint64_t tell_time(void *ctx)
{
    return ((world *)ctx)->o.now;
}

static void hear_sample(void *ctx, const pkv_residency *sample)
{
    world *w = ctx;
    agree(w, w->log.n_samples < COUNT(w->log.samples));
    w->log.samples[w->log.n_samples++] = *sample;
}

/* ---- comparing ---- */

static void compare_logs(world *w)
{
    const told_log *got = &w->log, *wanted = &w->o.log;
    agree(w, got->n_events == wanted->n_events);
    agree(w, got->n_reused == wanted->n_reused);
    agree(w, got->n_samples == wanted->n_samples);
    agree(w, memcmp(got->events, wanted->events, got->n_events * sizeof(told)) == 0);
    agree(w, memcmp(got->reused, wanted->reused, got->n_reused * sizeof(pkv_block)) == 0);
    agree(w, memcmp(got->samples, wanted->samples, got->n_samples * sizeof(pkv_residency)) == 0);
    w->log.n_events = w->log.n_reused = w->log.n_samples = 0;
    w->o.log.n_events = w->o.log.n_reused = w->o.log.n_samples = 0;
}

static void compare_lookups(world *w)
{
    pkv_block first[CHAINS * CHAIN_UNITS][GROUPS] = {{0}}, ids[GROUPS];
    const uint32_t groups[GROUPS] = {0, 1};
    uint64_t n = 0;
    for (uint32_t i = 0; i < w->o.n_keys; i++) {
        const keyed *k = &w->o.keys[i];
        if (first[k->key][k->group] == 0) {
            first[k->key][k->group] = k->block;
            n++;
        }
    }
    agree(w, pkv_pool_key_count(w->pool) == n);
    for (size_t k = 0; k < COUNT(w->keys); k++) {
        bool all = true;
        for (uint32_t g = 0; g < GROUPS; g++) {
            const bool hit = pkv_pool_lookup(w->pool, &w->keys[k], &g, 1, ids) == PKV_OK;
            agree(w, hit == (first[k][g] != 0));
            agree(w, !hit || ids[0] == first[k][g]);
            all = all && hit;
        }
        agree(w, (pkv_pool_lookup(w->pool, &w->keys[k], groups, GROUPS, ids) == PKV_OK) == all);
        agree(w, !all || memcmp(ids, first[k], sizeof ids) == 0);
    }
}

static void compare(world *w)
{
    const oracle *o = &w->o;
    pkv_block list[MOST_BLOCKS];
    uint64_t tokens[MOST_BLOCKS] = {0};
    compare_logs(w);
    if (pkv_pool_check(w->pool) != PKV_OK) {
        disagree(w, pkv_last_error(), "");
    }
    agree(w, pkv_pool_free_count(w->pool) == o->n_list);
    agree(w, pkv_pool_free_list(w->pool, list, MOST_BLOCKS) == o->n_list);
    agree(w, memcmp(list, o->list, o->n_list * sizeof *list) == 0);
    for (uint32_t i = o->n_keys; i > 0; i--) {
        tokens[o->keys[i - 1].block] = o->keys[i - 1].tokens; /* of the first */
    }
    for (pkv_block b = 0; b < o->n_blocks; b++) {
        agree(w, pkv_pool_refs(w->pool, b) == o->refs[b]);
        agree(w, pkv_pool_block_tokens(w->pool, b) == tokens[b]);
        agree(w, pkv_pool_writable(w->pool, b) == (o->refs[b] == 1 && tokens[b] == 0));
    }
    compare_lookups(w);
}

/* ---- operations on references ---- */

static void do_take(world *w)
{
    pkv_block ids[MOST_BLOCKS + 2], wanted[MOST_BLOCKS];
    const uint32_t n = chance(w, 80) ? below(w, w->o.n_list / 3 + 2) : below(w, w->o.n_list + 3);
    w->what = "take";
    memset(ids, 0xff, sizeof ids);
    if (n > w->o.n_list) {
        answered(w, pkv_pool_take(w->pool, n, ids), PKV_E_NO_BLOCKS);
        agree(w, ids[0] == UINT32_MAX);
        return;
    }
    answered(w, pkv_pool_take(w->pool, n, ids), PKV_OK);
    oracle_take(&w->o, n, wanted);
    agree(w, memcmp(ids, wanted, n * sizeof *ids) == 0);
}

static void do_share(world *w)
{
    pkv_block ids[8];
    uint32_t n = 0;
    w->what = "share";
    for (uint32_t i = below(w, 9); i > 0; i--) {
        const pkv_block b = any_block(w);
        if (b >= w->o.n_blocks || w->o.refs[b] < 2) { /* repeated here: a few more */
            ids[n++] = b;
        }
    }
    const bool ok = may_name(&w->o, ids, n);
    answered(w, pkv_pool_share(w->pool, ids, n), ok ? PKV_OK : PKV_E_INVAL);
    if (ok) {
        oracle_share(&w->o, ids, n);
    }
}

/* References that exist, in any order, each with this chance; rarely one more. */
static uint32_t pick_references(world *w, pkv_block *ids, unsigned percent)
{
    uint32_t n = 0;
    for (pkv_block b = 1; b < w->o.n_blocks; b++) {
        for (uint32_t r = 0; r < w->o.refs[b] && n < MOST_IDS - 2; r++) {
            if (chance(w, percent)) {
                ids[n++] = b;
            }
        }
    }
    if (percent < 100 && chance(w, 10)) {
        ids[n++] = any_block(w);
    }
    if (chance(w, 20)) {
        ids[n++] = PKV_BLOCK_NULL;
    }
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t j = below(w, i);
        const pkv_block other = ids[j];
        ids[j] = ids[i - 1];
        ids[i - 1] = other;
    }
    return n;
}

static void do_release(world *w, unsigned percent)
{
    pkv_block ids[MOST_IDS];
    const uint32_t n = pick_references(w, ids, percent);
    const bool ok = may_drop(&w->o, ids, n);
    w->what = "release";
    answered(w, pkv_pool_release(w->pool, ids, n), ok ? PKV_OK : PKV_E_INVAL);
    if (ok) {
        oracle_release(&w->o, ids, n);
    }
}

static void do_unpin(world *w)
{
    pkv_block ids[MOST_IDS];
    const uint32_t n = pick_references(w, ids, 15);
    const bool ok = may_drop(&w->o, ids, n);
    w->what = "unpin";
    answered(w, pkv_pool_unpin(w->pool, ids, n), ok ? PKV_OK : PKV_E_INVAL);
    if (ok) {
        oracle_unpin(&w->o, ids, n);
    }
}

/* ---- operations on content ---- */

static void do_evict(world *w)
{
    const pkv_block b = any_block(w);
    w->what = "evict";
    answered(w, pkv_pool_evict(w->pool, b), b < w->o.n_blocks ? PKV_OK : PKV_E_INVAL);
    if (b < w->o.n_blocks) {
        oracle_evict(&w->o, b);
    }
}

static void do_reset(world *w)
{
    const bool idle = w->o.n_list == w->o.n_blocks - 1;
    w->what = "reset";
    answered(w, pkv_pool_reset(w->pool), idle ? PKV_OK : PKV_E_AGAIN);
    if (idle) {
        oracle_reset(&w->o);
    }
}

/* Different blocks, most of them without a key, and null blocks. */
static void pick_table(world *w, range *r)
{
    memset(r->table, 0, sizeof r->table);
    for (unsigned i = 0; i < CHAIN_UNITS; i++) {
        const pkv_block b = chance(w, 90) ? below(w, w->o.n_blocks) : any_block(w);
        bool wanted = chance(w, 25) || tokens_of(&w->o, b) == 0;
        for (unsigned j = 0; j < i; j++) {
            wanted = wanted && r->table[j] != b;
        }
        r->table[i] = wanted ? b : PKV_BLOCK_NULL;
        r->mask[i] = chance(w, 80);
    }
}

static void do_cache_full(world *w)
{
    static const uint64_t sizes[] = {1, 1, 2, 4};
    range r = {.chain = below(w, CHAINS), .n_keys = below(w, CHAIN_UNITS + 1)};
    r.block_size = sizes[below(w, COUNT(sizes))] * w->o.unit + (chance(w, 2) ? 1 : 0);
    const uint64_t most = r.n_keys * w->o.unit / r.block_size;
    r.to = below(w, most + 1) + (most < CHAIN_UNITS && chance(w, 5) ? 1 : 0);
    r.from = chance(w, 5) ? below(w, CHAIN_UNITS) : below(w, r.to + 1);
    r.group = below(w, GROUPS);
    pick_table(w, &r);
    const bool masked = chance(w, 50);
    if (!masked) {
        memset(r.mask, 1, sizeof r.mask);
    }
    const pkv_chain chain = {.keys = &w->keys[name_of(r.chain, 0)], .n_keys = r.n_keys};
    const pkv_status wanted = may_key(&w->o, &r);
    w->what = "cache_full";
    w->chain = &chain;
    const pkv_status got = pkv_pool_cache_full(w->pool, &chain, r.table, r.from, r.to, r.block_size,
                                               r.group, masked ? r.mask : NULL);
    if (got != PKV_E_CORRUPT || wanted != PKV_E_INVAL || may_name(&w->o, r.table, CHAIN_UNITS)) {
        answered(w, got, wanted); /* else there are two faults, of which either may be told */
    }
    if (wanted == PKV_OK) {
        oracle_key_range(&w->o, &r);
    }
}

static void do_cache_partial(world *w)
{
    const oracle *o = &w->o;
    const keyed *known = o->n_keys > 0 && chance(w, 50) ? &o->keys[below(w, o->n_keys)] : NULL;
    const unsigned c = known ? known->key / CHAIN_UNITS : below(w, CHAINS);
    const pkv_block b = known ? known->block : any_block(w);
    const uint32_t group = known ? known->group : below(w, GROUPS);
    const bool replace = chance(w, 20), odd = chance(w, 3);
    const uint64_t n_keys = below(w, CHAIN_UNITS) + 1, units = below(w, n_keys + 2),
                   tokens = units * o->unit + (odd && o->unit > 1 ? 1 : 0);
    const pkv_chain chain = {.keys = &w->keys[name_of(c, 0)], .n_keys = n_keys};
    const bool ok = b < o->n_blocks && units > 0 && units <= n_keys && tokens % o->unit == 0;
    if (ok && b != 0 && !replace && tokens_of(o, b) >= tokens &&
        !has_key(o, b, name_of(c, units - 1), group) &&
        (tokens_of(o, b) == tokens || keys_of(o, b) >= w->params.units_per_block)) {
        return; /* other content of equal length, or more keys than units: nobody says what then */
    }
    w->what = "cache_partial";
    w->chain = &chain;
    answered(w, pkv_pool_cache_partial(w->pool, &chain, b, tokens, group, replace),
             ok ? PKV_OK : PKV_E_INVAL);
    if (ok) {
        oracle_key_partial(&w->o, c, b, tokens, group, replace);
    }
}

static void do_move_keys(world *w)
{
    const oracle *o = &w->o;
    pkv_block src = any_block(w), dst = any_block(w);
    if (o->n_keys > 0 && chance(w, 70)) {
        src = o->keys[below(w, o->n_keys)].block;
    }
    const bool named = src < o->n_blocks && dst < o->n_blocks;
    if (named && tokens_of(o, src) == 0 && (src == dst || dst == 0)) {
        return; /* nothing to a block that could not have it: nobody says what then */
    }
    const bool ok = named && dst != 0 && tokens_of(o, dst) == 0;
    w->what = "move_keys";
    answered(w, pkv_pool_move_keys(w->pool, src, dst), ok ? PKV_OK : PKV_E_INVAL);
    if (ok) {
        oracle_move_keys(&w->o, src, dst);
    }
}

/* ---- runs ---- */

static void do_anything(world *w)
{
    const uint32_t dice = below(w, w->o.caching ? 100 : 55);
    if (dice < 18) {
        do_take(w);
    } else if (dice < 28) {
        do_share(w);
    } else if (dice < 44) {
        do_release(w, chance(w, 5) ? 100 : 10 + below(w, 50));
    } else if (dice < 49) {
        do_unpin(w);
    } else if (dice < 51) {
        do_reset(w);
    } else if (dice < 55) {
        do_evict(w);
    } else if (dice < 77) {
        do_cache_full(w);
    } else if (dice < 94) {
        do_cache_partial(w);
    } else {
        do_move_keys(w);
    }
}

static void open_world(world *w)
{
    static const uint64_t units[] = {1, 4, 7, 16};
    pkv_pool_params *p = &w->params;
    pkv_pool_params_init(p);
    p->n_blocks = chance(w, 3) ? 1 + below(w, 3) : 4 + below(w, MOST_BLOCKS - 3);
    p->unit = units[below(w, COUNT(units))];
    p->units_per_block = 1 + below(w, MOST_KEYS);
    p->max_table = CHAIN_UNITS;
    p->caching = chance(w, 95);
    p->sink = (pkv_event_sink){w, chance(w, 90) ? hear_event : NULL};
    p->reuse_ctx = w;
    p->on_reuse = chance(w, 80) ? hear_reuse : NULL;
    p->sample_rate = chance(w, 30);
    p->residency_ctx = w;
    p->clock_ns = tell_time;
    p->on_residency = hear_sample;
    w->what = "create";
    answered(w, pkv_pool_create(p, &w->pool), PKV_OK);
    oracle_init(&w->o, p);
    compare(w);
}

static void run(uint64_t seed, uint64_t n_ops)
{
    static world w;
    memset(&w, 0, sizeof w);
    w.seed = w.random = seed;
    w.n_ops = n_ops;
    for (unsigned c = 0; c < CHAINS; c++) {
        for (uint64_t i = 0; i < CHAIN_UNITS; i++) {
            w.keys[name_of(c, i)] = key_of(chain_letters[c], i);
        }
    }
    print_message("PKV_SEED=%" PRIu64 " PKV_RANDOM_OPS=%" PRIu64 "\n", seed, n_ops);
    while (w.op < n_ops) {
        open_world(&w);
        for (uint32_t left = 50 + below(&w, 1000); left > 0 && w.op < n_ops; left--) {
            w.op++;
            w.o.now += below(&w, 100);
            do_anything(&w);
            compare(&w);
        }
        pkv_pool_destroy(w.pool);
    }
}

static void a_pool_does_what_the_model_does(void **state)
{
    (void)state;
    run(number_from("PKV_SEED", 1), number_from("PKV_RANDOM_OPS", DEFAULT_OPS));
}

static void a_pool_does_what_the_model_does_with_a_new_seed(void **state)
{
    (void)state;
    run(new_seed(), number_from("PKV_RANDOM_OPS", DEFAULT_OPS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_does_what_the_model_does),
        cmocka_unit_test(a_pool_does_what_the_model_does_with_a_new_seed),
    };
    return cmocka_run_group_tests_name("pool random", tests, NULL, NULL);
}
