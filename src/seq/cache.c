/* cache.c  A plan comes to life: pool, managers, lookup groups; and what concerns all sequences. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/panic.h"
#include "base/params.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"
#include "spec/kind.h"
#include "spec/spec.h"

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

/* ---- what can be managed ---- */

static pkv_status check_plan(const pkv_plan *plan)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, 0);
    if (s->num_blocks > PKV_POOL_MAX_BLOCKS) {
        return pkvi_fail(PKV_E_INVAL, "pkv_cache_create: num_blocks %" PRIu64 " is beyond %" PRIu64,
                         s->num_blocks, PKV_POOL_MAX_BLOCKS);
    }
    if (s->sizes_status != PKV_OK) {
        return pkvi_fail((pkv_status)s->sizes_status, "pkv_cache_create: %s",
                         pkv_plan_sizes_error(plan));
    }
    PKVI_RETURN_IF(pkv_plan_check_retention(plan));
    for (uint32_t g = 0; g < worker->n_groups; g++) {
        const pkv_group *group = pkv_plan_group_at(plan, 0, g);
        const pkv_spec *spec = group->classes[0].spec;
        if (group->role != PKV_GROUP_DEFAULT || !pkvi_rules_of(spec)) {
            return pkvi_fail(PKV_E_UNSUPPORTED,
                             "pkv_cache_create: group %" PRIu32 ": %s is not managed yet", g,
                             pkv_kind_name(spec->kind));
        }
        if (spec->kind == PKV_KIND_SINK_FULL &&
            (spec->sink_len == 0 || spec->sink_len % spec->block_size != 0)) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_cache_create: group %" PRIu32 ": sink_len %" PRIu64
                             " is not one or more blocks of %" PRIu64,
                             g, spec->sink_len, spec->block_size);
        }
    }
    return PKV_OK;
}

/* Rules that only a cache with prefixes has. */
static pkv_status check_caching(pkv_cache *c, const pkv_plan *plan)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    bool flagged = s->drops_draft_block;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        flagged |= pkv_plan_group_at(plan, 0, g)->is_eagle != 0;
        if (c->info.caching && m->rules->recurrent && !m->rules->state) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_cache_create: group %" PRIu32
                             ": prefix caching needs recurrent states that are kept (align)",
                             g);
        }
        if (c->info.caching && m->rules->aligned && (m->drop || m->span != c->info.hit_alignment)) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_cache_create: %s of blocks of %" PRIu64
                             ": hits are aligned to %" PRIu64 "%s",
                             pkv_kind_name(m->spec.kind), m->span, c->info.hit_alignment,
                             m->drop ? " and a drafter drops a block" : "");
        }
        if (c->info.caching && c->hybrid && c->dcp > 1 && !m->rules->full && m->spec.dcp_sharded) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_cache_create: %s cannot be sharded over dcp %" PRIu32,
                             pkv_kind_name(m->spec.kind), c->dcp);
        }
    }
    c->keys_junctions = c->shared_prefix_checkpoint && flagged && c->fine && c->unfinished == 0;
    if (c->info.caching && c->hybrid && c->n_lookups == 0) {
        return pkvi_fail(PKV_E_ASSERT, "pkv_cache_create: no group can be found by a prefix");
    }
    if (c->info.caching && flagged && s->scheduler_block_size < s->prefill_lookahead) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_cache_create: the scheduler block of %" PRIu64
                         " tokens is shorter than the drafter's lookahead of %" PRIu64,
                         s->scheduler_block_size, s->prefill_lookahead);
    }
    return PKV_OK;
}

/* ---- managers ---- */

/* What others read of a group. spec: the plan's. */
static pkv_status describe_group(const pkvi_manager *m, const pkv_spec *spec,
                                 const pkv_limits *limits, pkv_cache_group *out)
{
    uint64_t width, align;
    PKVI_RETURN_IF(pkv_spec_max_blocks(spec, limits, limits->max_model_len, &width));
    if (pkv_spec_table_alignment(spec, &align) == PKV_OK) {
        const uint64_t unit = align / pkvi_gcd(align, spec->block_size);
        width = pkvi_ceil_div(width, unit) * unit;
    }
    *out = (pkv_cache_group){.event_kind = pkv_spec_event_kind(spec),
                             .block_size = spec->block_size,
                             .span = m->span,
                             .window = pkvi_is(spec, PKVI_IS_SLIDING) ? m->window : 0,
                             .table_width = width,
                             .kind = spec->kind};
    return PKV_OK;
}

static pkv_status init_manager(pkv_cache *c, const pkv_plan *plan, uint32_t g)
{
    const pkv_limits *limits = pkv_plan_get_limits(plan);
    const pkv_spec *spec = pkv_plan_group_at(plan, 0, g)->classes[0].spec;
    pkvi_manager *m = &c->managers[g];
    m->spec = *spec;
    m->spec.cache_dtype = m->spec.model_version = m->spec.mamba_type = NULL; /* the plan's */
    m->spec.states = NULL;
    m->rules = pkvi_rules_of(&m->spec);
    m->window = m->spec.kind == PKV_KIND_CHUNKED_LOCAL ? m->spec.attention_chunk_size
                : m->spec.kind == PKV_KIND_RSWA        ? m->spec.rswa_window
                                                       : m->spec.sliding_window;
    m->cacheable = pkv_spec_prefix_cacheable(&m->spec);
    m->zeroed = pkv_plan_get_summary(plan)->zeroing && m->spec.kind != PKV_KIND_CIRCULAR_BUFFER &&
                !m->rules->recurrent;
    m->hit_alignment = c->info.hit_alignment;
    m->drop_checkpoint = pkv_plan_get_summary(plan)->drops_draft_block;
    if (!pkvi_mul(m->spec.block_size, m->spec.dcp_sharded ? limits->dcp : 1, &m->span)) {
        return pkvi_fail(PKV_E_OVERFLOW,
                         "pkv_cache_create: group %" PRIu32 ": its block over all ranks", g);
    }
    if (m->rules->recurrent && !m->rules->state &&
        !pkvi_mul(m->span, m->spec.num_speculative_blocks, &m->spare)) {
        return pkvi_fail(PKV_E_OVERFLOW, "pkv_cache_create: group %" PRIu32 ": scratch blocks", g);
    }
    c->recurrent |= m->rules->state;
    if (pkv_spec_admission_cap(spec, limits, &m->cap) != PKV_OK) {
        m->cap = 0;
    }
    return describe_group(m, spec, limits, &c->groups[g]);
}

/* Groups of one spec are looked up together, and the drop of one is the drop of all. */
static bool joins_lookup(const pkv_plan *plan, const pkvi_lookup_group *lookup, uint32_t g)
{
    return pkv_spec_equal(pkv_plan_group_at(plan, 0, lookup->groups[0])->classes[0].spec,
                          pkv_plan_group_at(plan, 0, g)->classes[0].spec);
}

static pkv_status init_lookups(pkv_cache *c, const pkv_plan *plan, const bool *drops)
{
    const uint32_t n = c->info.n_groups;
    c->lookups = pkvi_arena_get(&c->arena, n, sizeof *c->lookups);
    if (!c->lookups) {
        return no_memory();
    }
    for (int full = 1; full >= 0; full--) {
        for (uint32_t g = 0; g < n; g++) {
            uint32_t i = 0;
            if (!c->managers[g].cacheable || c->managers[g].rules->full != (full == 1)) {
                continue;
            }
            while (i < c->n_lookups && !joins_lookup(plan, &c->lookups[i], g)) {
                i++;
            }
            pkvi_lookup_group *lookup = &c->lookups[i];
            if (i == c->n_lookups) {
                c->n_lookups++;
                lookup->groups = pkvi_arena_get(&c->arena, n, sizeof *lookup->groups);
                if (!lookup->groups) {
                    return no_memory();
                }
            }
            lookup->groups[lookup->n_groups++] = g;
            lookup->drop |= drops[g];
        }
    }
    for (uint32_t i = 0; i < c->n_lookups; i++) {
        for (uint32_t k = 0; k < c->lookups[i].n_groups; k++) {
            c->managers[c->lookups[i].groups[k]].drop = c->lookups[i].drop;
        }
    }
    return PKV_OK;
}

static pkv_status init_groups(pkv_cache *c, const pkv_plan *plan)
{
    const uint32_t n = c->info.n_groups;
    const bool dropping = pkv_plan_get_summary(plan)->drops_draft_block;
    bool flagged = false;
    c->managers = pkvi_arena_get(&c->arena, n, sizeof *c->managers);
    c->groups = pkvi_arena_get(&c->arena, n, sizeof *c->groups);
    c->hit = pkvi_arena_get(&c->arena, n, sizeof *c->hit);
    c->zero = pkvi_arena_get(&c->arena, n, sizeof *c->zero);
    c->keyed_now = pkvi_arena_get(&c->arena, n, sizeof *c->keyed_now);
    c->hit_tables = pkvi_arena_get(&c->arena, n, sizeof *c->hit_tables);
    bool *drops = pkvi_arena_get(&c->arena, n, sizeof *drops);
    if (!c->managers || !c->groups || !c->hit || !c->zero || !c->keyed_now || !c->hit_tables ||
        !drops) {
        return no_memory();
    }
    for (uint32_t g = 0; g < n; g++) {
        PKVI_RETURN_IF(init_manager(c, plan, g));
        drops[g] = dropping && pkv_plan_group_at(plan, 0, g)->is_eagle;
        flagged |= drops[g];
    }
    for (uint32_t g = 0; dropping && !flagged && g < n; g++) {
        drops[g] = true; /* nobody says which group is the drafter's: all may be */
    }
    c->any_drop = dropping;
    c->fine = pkv_plan_get_summary(plan)->partial_hits;
    return init_lookups(c, plan, drops);
}

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
        const uint64_t units = c->managers[g].span / c->info.unit;
        if (c->managers[g].rules->full || c->managers[g].rules->state) {
            c->n_inside += units > 1;
            p.units_per_block = pkvi_max(p.units_per_block, pkvi_min(units, 2)); /* grows */
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
    const pkv_status st = pkvi_pool_create(&p, c->by_tokens, &c->pool);
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

/* Tokens alone can name content where one group of full attention is all that is looked up, and its
 * blocks are one unit each. */
static bool can_find_by_tokens(const pkv_cache *c)
{
    uint32_t n = 0;
    bool ok = c->info.caching && c->hash_lookahead == 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        n += m->cacheable;
        ok = ok && (!m->cacheable || (m->rules->full && m->span == c->info.unit));
    }
    return ok && n == 1;
}

static pkv_status choose_index(pkv_cache *c, const pkv_cache_params *p)
{
    const bool can = can_find_by_tokens(c) && !p->sink.event;
    if (p->index > PKV_INDEX_KEYS) {
        return pkvi_fail(PKV_E_INVAL, "pkv_cache_create: index %" PRIu32, p->index);
    }
    if (p->index == PKV_INDEX_TOKENS && !can) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_cache_create: index PKV_INDEX_TOKENS needs caching of one group of "
                         "full attention, without events or keys that look ahead");
    }
    c->by_tokens = can && p->index != PKV_INDEX_KEYS;
    c->defers = c->info.caching && !p->sink.event && !c->recurrent && c->unfinished == 0 &&
                c->hash_lookahead == 0;
    return PKV_OK;
}

static pkv_status fill_cache(pkv_cache *c, const pkv_cache_params *params)
{
    read_plan(c, params);
#ifndef NDEBUG
    c->owner = &this_thread;
#endif
    PKVI_RETURN_IF(init_groups(c, params->plan));
    PKVI_RETURN_IF(check_caching(c, params->plan));
    PKVI_RETURN_IF(choose_index(c, params));
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
    return check_plan(p->plan);
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
        pkvi_key_list_free(&cache->alloc, &cache->keyed_now[g]);
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
    pkvi_seq_list_free(&cache->alloc, &cache->due);
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
    pkvi_key_due(cache);
    return cache->pool;
}

void pkv_cache_step(pkv_cache *cache)
{
    pkvi_cache_check_thread(cache);
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
    pkvi_key_due(cache);
    PKVI_RETURN_IF(pkvi_pool_check_ids(cache->pool, "pkv_cache_evict", blocks, n));
    for (uint64_t i = 0; i < n; i++) {
        PKVI_RETURN_IF(pkv_pool_evict(cache->pool, blocks[i]));
    }
    for (pkv_seq *seq = cache->first; seq; seq = seq->next) {
        pkvi_end_quiet(seq); /* the next step keys the end of a prompt anew */
    }
    return PKV_OK;
}

pkv_status pkv_cache_reset(pkv_cache *cache)
{
    pkvi_cache_check_thread(cache);
    pkvi_key_due(cache);
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
