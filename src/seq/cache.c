/* cache.c  A plan comes to life; and what concerns all sequences. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/panic.h"
#include "base/params.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

void pkv_cache_params_init(pkv_cache_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

static pkv_status no_memory(void)
{
    return pkvi_fail(PKV_E_NOMEM, "pkv_cache_create: out of memory");
}

#ifndef NDEBUG
/* Its address differs per thread. */
static _Thread_local char this_thread;

void pkvi_cache_check_thread(const pkv_cache *cache)
{
    if (cache->owner != &this_thread) {
        pkvi_panic("a cache is used by two threads");
    }
}
#endif

/* ---- create ---- */

static uint64_t longest_table(const pkv_cache *c)
{
    uint64_t most = 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        most = pkvi_max(most, pkvi_ceil_div(c->info.max_model_len, c->managers[g].span) + 1);
    }
    return most;
}

static pkv_status create_pool(pkv_cache *c, const pkv_cache_params *params)
{
    pkv_pool_params p;
    pkv_pool_params_init(&p);
    p.key_bytes = c->info.key_bytes;
    p.n_blocks = c->info.n_blocks;
    p.unit = c->info.unit;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        if (m->rules->full || m->rules->state) {
            c->n_inside += m->units > 1;
            p.units_per_block = pkvi_max(p.units_per_block, pkvi_min(m->units, 2)); /* grows */
        }
    }
    p.lookahead = c->hash_lookahead;
    p.max_table = params->sink.event ? longest_table(c) : 0;
    p.alloc = &c->alloc;
    p.sink = params->sink;
    p.caching = c->info.caching;
    p.sample_rate = params->sample_rate;
    p.sample_seed = params->sample_seed;
    p.residency_ctx = params->residency_ctx;
    p.clock_ns = params->clock_ns;
    p.on_residency = params->on_residency;
    const uint64_t words = c->by_tokens ? c->info.unit : PKVI_KEY_WORDS;
    const pkv_status st = pkvi_pool_create(&p, c->by_runs ? words : 0, c->info.n_groups, &c->pool);
    if (st != PKV_OK) {
        pkvi_error_rename("pkv_cache_create");
    }
    return st;
}

static pkv_status create_hasher(pkv_cache *c, const pkv_cache_params *params)
{
    pkv_hasher_params p;
    pkv_hasher_params_init(&p);
    p.hash = params->hash;
    p.alloc = &c->alloc;
    p.seed = params->hash_seed;
    p.cluster_seed = params->cluster_seed;
    const pkv_status st = pkv_hasher_create(&p, &c->hasher);
    if (st != PKV_OK) {
        pkvi_error_rename("pkv_cache_create");
    }
    return st;
}

static void read_plan(pkv_cache *c, const pkv_cache_params *params)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(params->plan);
    const pkv_limits *limits = pkv_plan_get_limits(params->plan);
    c->info = (pkv_cache_info){.n_blocks = s->num_blocks,
                               .max_model_len = limits->max_model_len,
                               .scheduler_block_size = s->scheduler_block_size,
                               .unit = s->hash_block_size,
                               .hit_alignment = s->hit_alignment,
                               .n_groups = pkv_plan_worker_at(params->plan, 0)->n_groups,
                               .key_bytes = pkv_hash_key_bytes(params->hash),
                               .caching = s->caching};
    c->hybrid = c->info.n_groups > 1;
    c->dcp = limits->dcp;
    c->hash_lookahead = s->hash_lookahead;
    c->draft_content = s->prefill_lookahead > 0;
    c->unfinished = s->prefill_lookahead > 1 ? s->prefill_lookahead - 1 : 0;
    c->retention = pkv_plan_retention_interval(params->plan);
    c->has_mamba = pkv_plan_worker_at(params->plan, 0)->has_mamba;
    c->shared_prefix_checkpoint = params->shared_prefix_checkpoint;
    c->watermark = (uint64_t)(params->watermark * (double)s->num_blocks);
}

/* Whether a hit in this group needs an eighth of the longest request in blocks, or all. Chunks need
 * none before the last one, of which one block may be there. */
static bool keeps_much(const pkv_cache *c, const pkvi_manager *m)
{
    const bool wide = !m->rules->aligned && m->window >= pkvi_ceil_div(c->info.max_model_len, 8);
    return m->cacheable && (m->rules->full || wide);
}

/* The tree of runs keeps what names a unit as long as any later block of its run: where some group
 * keeps much of a prefix, that is worth it; without one, a window, or a single state, may be all
 * that is left of a long one. And it cannot find what ends inside of a block: hits that may, and
 * states of several units, which are keyed there whether hits may or not. *one_size: no block is
 * longer than a unit. */
static bool can_walk_runs(const pkv_cache *c, bool *one_size)
{
    bool keeps = false, inside = c->fine;
    *one_size = true;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        const bool longer = m->cacheable && m->units > 1;
        keeps |= keeps_much(c, m);
        inside |= longer && m->rules->state;
        *one_size &= !longer;
    }
    return c->info.caching && c->n_lookups > 0 && keeps && (*one_size || !inside);
}

static pkv_status choose_index(pkv_cache *c, const pkv_cache_params *p)
{
    bool one_size;
    const bool runs = can_walk_runs(c, &one_size), any = p->index == PKV_INDEX_AUTO;
    const bool tokens = runs && c->hash_lookahead == 0 && !p->sink.event;
    const bool chains = runs && one_size;
    if (p->index > PKV_INDEX_CHAINS) {
        return pkvi_fail(PKV_E_INVAL, "pkv_cache_create: index %" PRIu32, p->index);
    }
    if (p->index == PKV_INDEX_TOKENS && !tokens) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_cache_create: index PKV_INDEX_TOKENS needs caching, full attention "
                         "or a window of an eighth of the longest request, hits and states at ends "
                         "of blocks, no events, and no keys that look ahead");
    }
    if (p->index == PKV_INDEX_CHAINS && !chains) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_cache_create: index PKV_INDEX_CHAINS needs caching, full attention "
                         "or a window of an eighth of the longest request, and blocks of one size");
    }
    c->by_tokens = p->index == PKV_INDEX_TOKENS || (any && tokens);
    c->by_runs = c->by_tokens || (chains && p->index != PKV_INDEX_KEYS);
    return PKV_OK;
}

/* What may be done later than in the step itself: an event is told at once, recurrent states change
 * in every step, and a gap has two ends. */
static void choose_late(pkv_cache *c, const pkv_cache_params *p)
{
    bool windows = false, others = false;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_rules *rules = c->managers[g].rules;
        windows |= rules->until != NULL;
        others |= rules->passed || rules->recurrent;
    }
    c->keys_late = c->info.caching && !p->sink.event && !c->recurrent && c->unfinished == 0 &&
                   c->hash_lookahead == 0;
    c->lets_go_late = windows && !others && (c->keys_late || !c->info.caching);
}

static pkv_status fill_cache(pkv_cache *c, const pkv_cache_params *params)
{
    read_plan(c, params);
#ifndef NDEBUG
    c->owner = &this_thread;
#endif
    PKVI_RETURN_IF(pkvi_init_groups(c, params->plan));
    PKVI_RETURN_IF(pkvi_check_caching(c, params->plan));
    PKVI_RETURN_IF(choose_index(c, params));
    choose_late(c, params);
    if (!pkvi_lanes_reserve(c, 0)) {
        return no_memory();
    }
    PKVI_RETURN_IF(create_hasher(c, params));
    return create_pool(c, params);
}

static pkv_status check_params(const pkv_cache_params *p)
{
    if (!p->plan || !(p->watermark >= 0 && p->watermark < 1)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_cache_create: plan is NULL, or watermark %g is not in [0, 1)",
                         p->watermark);
    }
    return pkvi_check_plan(p->plan);
}

pkv_status pkv_cache_create(const pkv_cache_params *params, pkv_cache **out)
{
    pkv_cache_params p;
    pkvi_arena arena;
    if (out) {
        *out = NULL;
    }
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_cache_create: params or out is NULL");
    }
    pkv_cache_params_init(&p);
    PKVI_RETURN_IF(pkvi_import_params("pkv_cache_create", params, &p, sizeof p));
    PKVI_RETURN_IF(check_params(&p));
    pkvi_arena_init(&arena, p.alloc, 4096);
    pkv_cache *c = pkvi_arena_get(&arena, 1, sizeof *c);
    if (!c) {
        return no_memory();
    }
    c->arena = arena;
    c->alloc = arena.hooks;
    pkvi_lanes_init(&c->lanes);
    const pkv_status st = fill_cache(c, &p);
    if (st != PKV_OK) {
        pkv_cache_destroy(c);
        return st;
    }
    *out = c;
    return PKV_OK;
}

void pkv_cache_destroy(pkv_cache *cache)
{
    if (!cache) {
        return;
    }
    while (cache->first) {
        pkvi_seq_free(cache->first);
    }
    for (uint32_t g = 0; cache->hit && cache->zero && cache->keyed_now && g < cache->info.n_groups;
         g++) {
        pkvi_keyed_list_free(&cache->alloc, &cache->keyed_now[g]);
        pkvi_block_list_free(&cache->alloc, &cache->hit[g]);
        pkvi_block_list_free(&cache->alloc, &cache->zero[g]);
    }
    pkvi_block_list_free(&cache->alloc, &cache->told_zero);
    pkvi_block_list_free(&cache->alloc, &cache->scratch);
    pkvi_block_list_free(&cache->alloc, &cache->pins);
    pkvi_block_list_free(&cache->alloc, &cache->deferred);
    pkvi_size_list_free(&cache->alloc, &cache->deferred_ends);
    pkvi_copy_list_free(&cache->alloc, &cache->copies);
    pkvi_byte_list_free(&cache->alloc, &cache->mask);
    pkvi_offer_list_free(&cache->alloc, &cache->offers);
    pkvi_late_list_free(&cache->alloc, &cache->due);
    pkvi_lanes_free(cache);
    pkvi_offer_list_free(&cache->alloc, &cache->last_offers);
    pkv_pool_destroy(cache->pool);
    pkv_hasher_destroy(cache->hasher);
    pkvi_arena arena = cache->arena; /* the cache lies in it */
    pkvi_arena_free(&arena);
}

/* ---- reading and stepping ---- */

const pkv_cache_info *pkv_cache_get_info(const pkv_cache *cache)
{
    return &cache->info;
}

const pkv_cache_group *pkv_cache_group_at(const pkv_cache *cache, uint32_t group)
{
    return group < cache->info.n_groups ? &cache->groups[group] : NULL;
}

const pkv_pool *pkv_cache_get_pool(const pkv_cache *cache)
{
    pkvi_catch_up(cache);
    return cache->pool;
}

void pkv_cache_step(pkv_cache *cache)
{
    pkvi_cache_check_thread(cache);
    if (cache->pins.n > 0 || cache->deferred_ends.n > 0) { /* else no block goes back now */
        pkvi_catch_up(cache);
    }
    pkvi_pool_release(cache->pool, cache->pins.at, cache->pins.n);
    cache->pins.n = 0;
    pkvi_release_deferred(cache);
    pkvi_begin_state_step(cache);
    cache->steps++;
}

pkv_status pkv_cache_evict(pkv_cache *cache, const pkv_block *blocks, uint64_t n)
{
    if (!cache || (n > 0 && !blocks)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_cache_evict: cache or blocks is NULL");
    }
    pkvi_cache_check_thread(cache);
    pkvi_catch_up(cache);
    PKVI_RETURN_IF(pkvi_pool_check_ids(cache->pool, "pkv_cache_evict", blocks, n));
    if (cache->due.n > 0) { /* else what is due would get its key afterwards */
        return pkvi_fail(PKV_E_NOMEM, "pkv_cache_evict: out of memory for the content of blocks");
    }
    for (uint64_t i = 0; i < n; i++) {
        PKVI_RETURN_IF(pkv_pool_evict(cache->pool, blocks[i]));
    }
    pkvi_end_quiet_of_all(cache); /* their next steps key the ends of prompts anew */
    return PKV_OK;
}

pkv_status pkv_cache_reset(pkv_cache *cache)
{
    pkvi_cache_check_thread(cache);
    pkvi_catch_up(cache);
    PKVI_RETURN_IF(pkv_pool_reset(cache->pool));
    cache->stats.reset = 1;
    return PKV_OK;
}

void pkv_cache_take_stats(pkv_cache *cache, pkv_cache_stats *out)
{
    pkvi_cache_check_thread(cache);
    const uint64_t evicted = pkv_pool_evicted(cache->pool);
    *out = cache->stats;
    out->evicted = evicted - cache->evicted_told;
    memset(&cache->stats, 0, sizeof cache->stats);
    cache->evicted_told = evicted;
}
