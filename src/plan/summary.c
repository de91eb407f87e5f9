/* summary.c  The figures of a finished plan: concurrency, tokens, precision, replicas.
 *
 * A scheduler sees one spec per group, the first layer's; its figures are built on that. What a
 * worker must know (zeroing) looks at every layer. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/params.h"
#include "plan/summary.h"
#include "spec/kind.h"
#include "spec/spec.h"

/* Blocks of one request, as a scheduler counts them. */
typedef struct request_need {
    uint64_t device, steady, host;
} request_need;

/* Once a request reads from the host it pins only the tail of its resident pages. */
enum { STEADY_RESIDENT_BLOCKS = 2 };

static pkv_status sum_need(const pkvi_planner *p, const pkvi_worker *w, request_need *out)
{
    *out = (request_need){0, 0, 0};
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        const pkv_spec *spec = w->groups[g].classes[0].spec;
        uint64_t blocks;
        PKVI_RETURN_IF(pkvi_spec_held_blocks(spec, &p->limits, &blocks));
        if (w->groups[g].host) {
            out->host += blocks;
            continue;
        }
        out->device += blocks;
        out->steady += spec->kind == PKV_KIND_HISPARSE_RESIDENT
                           ? pkvi_min(blocks, STEADY_RESIDENT_BLOCKS)
                           : blocks;
    }
    return PKV_OK;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static void concurrency(const pkvi_planner *p, const request_need *need, pkv_plan_summary *s)
{
    const double blocks = (double)s->num_blocks;
    s->blocks_per_request = need->device;
    if (need->device == 0) {
        return; /* no layer needs a block: there is nothing to divide by */
    }
    s->max_concurrency = blocks / (double)need->device;
    if (need->host > 0) {
        const double host = (double)p->host_num_blocks / (double)need->host;
        s->steady_concurrency =
            s->num_blocks < need->device
                ? s->max_concurrency
                : 1.0 + (double)(s->num_blocks - need->device) / (double)need->steady;
        s->max_concurrency = lesser(s->max_concurrency, host);
        s->steady_concurrency = lesser(s->steady_concurrency, host);
    }
    const double tokens = s->max_concurrency * (double)s->max_model_len;
    s->tokens = tokens < (double)PKVI_SIZE_MAX ? (uint64_t)tokens : PKVI_SIZE_MAX;
}

/* Whether device layers store more than one precision: a block that changes owners would then be
 * decoded under another one. */
typedef struct precision {
    bool seen, mixed, mamba;
    uint32_t dtype, mode;
} precision;

static void look_at(precision *seen, const pkv_spec *spec, bool host)
{
    seen->mamba |= spec->kind == PKV_KIND_MAMBA;
    if (host || !pkvi_is(spec, PKVI_IS_ATTENTION)) {
        return;
    }
    seen->mixed |= seen->seen && (spec->dtype != seen->dtype || spec->kv_quant_mode != seen->mode);
    seen->seen = true;
    seen->dtype = spec->dtype;
    seen->mode = spec->kv_quant_mode;
}

static precision precision_of(const pkvi_worker *w, bool first_only)
{
    precision seen = {0};
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        const uint32_t n = first_only ? 1 : w->groups[g].n_classes;
        for (uint32_t c = 0; c < n; c++) {
            look_at(&seen, w->groups[g].classes[c].spec, w->groups[g].host);
        }
    }
    return seen;
}

/* Ranks beyond a layer's shards hold what others hold; the layers of a model agree on the greatest
 * common divisor. */
static uint64_t tp_replicas(const pkvi_planner *p, const pkvi_worker *w)
{
    uint64_t common = w->plan.n_groups > 0 ? p->params->tp : 1;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        for (uint32_t c = 0; c < w->groups[g].n_classes; c++) {
            const pkv_spec *spec = w->groups[g].classes[c].spec;
            const bool split = !pkvi_is(spec, PKVI_IS_ATTENTION) || spec->max_tp_shards == 0 ||
                               (spec->dcp_sharded && p->limits.dcp > 1);
            common = pkvi_gcd(common, split ? 1 : pkvi_max(1, p->params->tp / spec->max_tp_shards));
        }
    }
    return common;
}

/* Keys that look ahead make the drop of the last block needless; a host pool brings a connector,
 * which cannot follow such keys. */
static void draft_rules(const pkvi_planner *p, pkv_plan_summary *s)
{
    const bool drop = pkvi_drops_draft_block(p->params);
    const bool ahead =
        drop && p->params->draft_lookahead_hashes && s->caching && !p->params->hisparse;
    s->prefill_lookahead = pkvi_prefill_lookahead(p->params);
    s->hash_lookahead = ahead ? s->prefill_lookahead : 0;
    s->drops_draft_block = drop && s->hash_lookahead == 0;
}

void pkvi_note_precision(pkvi_worker *w)
{
    const precision whole = precision_of(w, false);
    w->plan.has_mamba = whole.mamba;
    w->plan.mixed_precision = whole.mixed;
    w->plan.zeroing = whole.mixed || whole.mamba;
}

pkv_status pkvi_summarize(pkvi_planner *p, const pkvi_worker *first, pkv_plan_summary *s,
                          const char **sizes_error_out)
{
    request_need need;
    s->max_model_len = p->limits.max_model_len;
    s->host_num_blocks = p->host_num_blocks;
    s->host_block_stride = p->host_block_stride;
    PKVI_RETURN_IF(sum_need(p, first, &need));
    concurrency(p, &need, s);

    const precision seen = precision_of(first, true);
    s->mixed_precision = seen.mixed;
    s->zeroing = seen.mixed || seen.mamba;
    s->tp_replicas = tp_replicas(p, first);
    draft_rules(p, s);

    *sizes_error_out = "";
    const pkv_status st = pkvi_resolve_units(p, first, s->caching, s);
    s->sizes_status = st;
    if (st != PKV_OK) {
        s->scheduler_block_size = s->hash_block_size = s->hit_alignment = 0;
        *sizes_error_out = pkvi_arena_text(p->keep, pkv_last_error());
        return *sizes_error_out ? PKV_OK : pkvi_plan_no_memory();
    }
    return PKV_OK;
}
