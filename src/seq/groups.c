/* groups.c  The groups of a plan as a cache manages them: what cannot be, managers, lookups. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "seq/cache_internal.h"
#include "spec/kind.h"
#include "spec/spec.h"

/* ---- what can be managed ---- */

pkv_status pkvi_check_plan(const pkv_plan *plan)
{
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, 0);
    if (s->num_blocks > PKV_POOL_MAX_BLOCKS) {
        return pkvi_fail(PKV_E_INVAL, "pkv_cache_create: num_blocks %" PRIu64 " is beyond %" PRIu64,
                         s->num_blocks, PKV_POOL_MAX_BLOCKS);
    }
    if (pkv_plan_get_limits(plan)->max_model_len > UINT32_MAX) { /* positions have 32 bits */
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_cache_create: max_model_len %" PRIu64 " is beyond %" PRIu32,
                         pkv_plan_get_limits(plan)->max_model_len, UINT32_MAX);
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
pkv_status pkvi_check_caching(pkv_cache *c, const pkv_plan *plan)
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
    for (uint32_t g = 0; c->info.caching && g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        if (m->cacheable && !m->rules->match) { /* upstream fails when it looks up, or keys */
            return pkvi_fail(PKV_E_UNSUPPORTED,
                             "pkv_cache_create: group %" PRIu32
                             ": %s is not found by prefixes: caching must be off",
                             g, pkv_kind_name(m->spec.kind));
        }
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
    m->units = m->span / c->info.unit;
    if (m->rules->recurrent && !m->rules->state &&
        !pkvi_mul(m->span, m->spec.num_speculative_blocks, &m->spare)) {
        return pkvi_fail(PKV_E_OVERFLOW, "pkv_cache_create: group %" PRIu32 ": scratch blocks", g);
    }
    c->recurrent |= m->rules->state;
    c->zeroes |= m->zeroed;
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
        return pkvi_fail(PKV_E_NOMEM, "pkv_cache_create: out of memory");
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
                    return pkvi_fail(PKV_E_NOMEM, "pkv_cache_create: out of memory");
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

pkv_status pkvi_init_groups(pkv_cache *c, const pkv_plan *plan)
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
    c->hit_trails = pkvi_arena_get(&c->arena, n, sizeof *c->hit_trails);
    bool *drops = pkvi_arena_get(&c->arena, n, sizeof *drops);
    if (!c->managers || !c->groups || !c->hit || !c->zero || !c->keyed_now || !c->hit_tables ||
        !c->hit_trails || !drops) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_cache_create: out of memory");
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
