/* units.c  The token sizes that a scheduler works in.
 *
 * scheduler block size: computed tokens are rounded to it; every group's block divides it.
 * hash block size:      tokens per key; it divides every block that a prefix can find again.
 * hit alignment:        prefix hits end on multiples of it. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/kind.h"

/* The scheduler sees the first layer of a uniform-type group. */
static const pkv_spec *group_spec(const pkvi_worker *w, uint32_t g)
{
    return w->groups[g].classes[0].spec;
}

/* Tokens that one block of the group covers over all context-parallel ranks. */
static pkv_status block_span(const pkvi_planner *p, const pkv_spec *spec, uint64_t *out)
{
    *out = spec->block_size;
    if (spec->dcp_sharded && !pkvi_mul(*out, p->limits.dcp, out)) {
        return pkvi_plan_overflow("a block over all dcp ranks");
    }
    return PKV_OK;
}

static pkv_status one_group(const pkvi_planner *p, const pkvi_worker *w, bool hashing,
                            pkv_plan_summary *s)
{
    uint64_t span = 16; /* a model without a cache: the configured default */
    if (w->plan.n_groups == 1) {
        PKVI_RETURN_IF(block_span(p, group_spec(w, 0), &span));
        const uint64_t unit = p->params->prefix_match_unit;
        if (hashing && unit != 0 && unit != span) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_plan_create: prefix_match_unit %" PRIu64
                             ": with one group hits end on its block of %" PRIu64 " tokens",
                             unit, span);
        }
    } else if (!pkvi_mul(span, p->limits.dcp, &span)) {
        return pkvi_plan_overflow("a block over all dcp ranks");
    }
    s->scheduler_block_size = s->hash_block_size = s->hit_alignment = span;
    return PKV_OK;
}

/* Recurrent states can be found inside a block, if they are kept aligned and some block is longer
 * than a key's unit. */
static bool has_partial_states(const pkvi_planner *p, const pkvi_worker *w, uint64_t unit)
{
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        const pkv_spec *spec = group_spec(w, g);
        const bool longer = p->limits.dcp == 1 ? spec->block_size > unit : spec->block_size >= unit;
        if (spec->kind == PKV_KIND_MAMBA && spec->mamba_mode == PKV_MAMBA_ALIGN && longer) {
            return true;
        }
    }
    return false;
}

/* Only full attention and recurrent layers can be looked up inside a block; one other group whose
 * block is longer than the unit rules it out for all. */
static pkv_status all_support_partial(const pkvi_planner *p, const pkvi_worker *w, uint64_t unit,
                                      bool *out)
{
    *out = true;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        const pkv_spec *spec = group_spec(w, g);
        uint64_t span;
        PKVI_RETURN_IF(block_span(p, spec, &span));
        const bool fine = pkvi_is(spec, PKVI_IS_FULL) || spec->kind == PKV_KIND_MAMBA;
        if (pkv_spec_prefix_cacheable(spec) && !fine && span != unit) {
            *out = false;
        }
    }
    return PKV_OK;
}

static bool has_unaligned_states(const pkvi_worker *w)
{
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        const pkv_spec *spec = group_spec(w, g);
        if (spec->kind == PKV_KIND_MAMBA && spec->mamba_mode != PKV_MAMBA_ALIGN) {
            return true;
        }
    }
    return false;
}

/* Greatest common divisor of the blocks that prefixes can find again; of all, if none can. */
static pkv_status common_unit(const pkvi_planner *p, const pkvi_worker *w, uint64_t *unit_out)
{
    uint64_t cacheable = 0, all = 0;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        uint64_t span;
        PKVI_RETURN_IF(block_span(p, group_spec(w, g), &span));
        all = pkvi_gcd(all, span);
        if (pkv_spec_prefix_cacheable(group_spec(w, g))) {
            cacheable = pkvi_gcd(cacheable, span);
        }
    }
    *unit_out = cacheable ? cacheable : all;
    return PKV_OK;
}

/* A state that covers several tokens cannot be cut by a hit. */
static pkv_status check_states(const pkvi_planner *p, const pkvi_worker *w, uint64_t unit,
                               uint64_t scheduler)
{
    const uint64_t alignment = has_partial_states(p, w, unit) ? unit : scheduler;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        const pkv_spec *spec = group_spec(w, g);
        const pkv_ratio tokens = spec->tokens_per_state;
        if (pkv_spec_prefix_cacheable(spec) && tokens.den == 1 && tokens.num > 1 &&
            alignment % tokens.num != 0) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_plan_create: prefix_match_unit %" PRIu64
                             ": hits at multiples of %" PRIu64 " would cut states of %" PRIu32
                             " tokens",
                             unit, alignment, tokens.num);
        }
    }
    return PKV_OK;
}

static pkv_status several_groups(const pkvi_planner *p, const pkvi_worker *w, bool caching,
                                 bool hashing, pkv_plan_summary *s)
{
    uint64_t scheduler = 1, unit;
    bool partial;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        uint64_t span;
        PKVI_RETURN_IF(block_span(p, group_spec(w, g), &span));
        if (!pkvi_lcm(scheduler, span, &scheduler)) {
            return pkvi_plan_overflow("the scheduler block size");
        }
    }
    if (!hashing || has_unaligned_states(w)) {
        unit = scheduler;
    } else {
        PKVI_RETURN_IF(common_unit(p, w, &unit));
        const uint64_t wanted = p->params->prefix_match_unit;
        if (wanted != 0 && unit % wanted != 0) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_plan_create: prefix_match_unit %" PRIu64
                             " does not divide the blocks, whose common divisor is %" PRIu64
                             " tokens",
                             wanted, unit);
        }
        unit = wanted ? wanted : unit;
        PKVI_RETURN_IF(check_states(p, w, unit, scheduler));
    }
    PKVI_RETURN_IF(all_support_partial(p, w, unit, &partial));
    partial = partial && caching && has_partial_states(p, w, unit);
    s->scheduler_block_size = scheduler;
    s->hash_block_size = unit;
    s->hit_alignment = partial ? unit : scheduler;
    s->partial_hits = partial;
    return PKV_OK;
}

pkv_status pkvi_resolve_units(const pkvi_planner *p, const pkvi_worker *w, bool caching,
                              pkv_plan_summary *summary)
{
    /* HiSparse brings its own connector, and connectors need keys */
    const bool hashing = caching || p->params->hisparse;
    return w->plan.n_groups <= 1 ? one_group(p, w, hashing, summary)
                                 : several_groups(p, w, caching, hashing, summary);
}
