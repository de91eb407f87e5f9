/* plan.c  The walk from specs to a plan.
 *
 *     import -> intern -> layout -> groups -> per worker: project, measure, probe
 *            -> auto-fit -> admission -> blocks -> tensors -> figures */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/params.h"
#include "plan/plan_object.h"
#include "plan/project.h"
#include "plan/summary.h"
#include "spec/kind.h"
#include "spec/spec.h"

/* ---- layers ---- */

/* The workers: their layers as bitmaps, and all layers in first-seen order. */
typedef struct stages {
    uint32_t n;
    int64_t *available; /* [n] */
    bool **owned;       /* [n][params->n_layers] */
    uint32_t *n_owned;  /* [n] */
    pkvi_layers layers;
} stages;

static pkv_status intern_layer(pkvi_planner *p, uint32_t layer, uint32_t previous, uint32_t *out)
{
    const pkv_spec *specs = p->params->layers;
    if (previous != UINT32_MAX && memcmp(&specs[layer], &specs[previous], sizeof *specs) == 0) {
        return PKV_OK; /* *out still holds the neighbour's number */
    }
    pkv_status st = pkvi_table_intern_input(&p->table, &specs[layer], out);
    if (st != PKV_OK) {
        pkvi_error_context("pkv_plan_create", "layer %" PRIu32, layer);
    }
    return st;
}

static pkv_status own_layer(pkvi_planner *p, stages *s, uint32_t w, uint32_t layer, bool *seen,
                            uint32_t *spec)
{
    if (s->owned[w][layer]) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_plan_create: worker %" PRIu32 ": layer %" PRIu32 " twice", w, layer);
    }
    s->owned[w][layer] = true;
    s->n_owned[w]++;
    if (!seen[layer]) {
        const uint32_t n = s->layers.n;
        PKVI_RETURN_IF(intern_layer(p, layer, n > 0 ? s->layers.layer[n - 1] : UINT32_MAX, spec));
        seen[layer] = true;
        s->layers.layer[n] = layer;
        s->layers.spec[n] = *spec;
        s->layers.n++;
    }
    return PKV_OK;
}

static pkv_status collect_stages(pkvi_planner *p, stages *s)
{
    const pkv_plan_params *in = p->params;
    uint32_t spec = 0;
    s->n = in->n_workers > 0 ? in->n_workers : 1;
    s->available = pkvi_arena_get(p->scratch, s->n, sizeof *s->available);
    s->owned = pkvi_arena_get(p->scratch, s->n, sizeof *s->owned);
    s->n_owned = pkvi_arena_get(p->scratch, s->n, sizeof *s->n_owned);
    bool *seen = pkvi_arena_get(p->scratch, in->n_layers, sizeof *seen);
    if (!s->available || !s->owned || !s->n_owned || !seen) {
        return pkvi_plan_no_memory();
    }
    PKVI_RETURN_IF(pkvi_layers_reserve(p, in->n_layers, &s->layers));
    for (uint32_t w = 0; w < s->n; w++) {
        const pkv_plan_worker *worker = in->n_workers > 0 ? &in->workers[w] : NULL;
        const uint32_t n = worker ? worker->n_layers : in->n_layers;
        s->available[w] = worker ? worker->available_bytes : in->available_bytes;
        s->owned[w] = pkvi_arena_get(p->scratch, in->n_layers, sizeof **s->owned);
        if (!s->owned[w]) {
            return pkvi_plan_no_memory();
        }
        for (uint32_t i = 0; i < n; i++) {
            PKVI_RETURN_IF(own_layer(p, s, w, worker ? worker->layers[i] : i, seen, &spec));
        }
    }
    return PKV_OK;
}

/* ---- groups ---- */

static pkv_status check_layers(pkvi_planner *p, const pkvi_layers *layers)
{
    for (uint32_t i = 0; i < layers->n; i++) {
        const pkvi_entry *entry = p->table.entries[layers->spec[i]];
        if (pkvi_is(&entry->spec, PKVI_NOT_GROUPED)) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_plan_create: layer %" PRIu32 ": %s keeps nothing to plan",
                             layers->layer[i], pkv_kind_name(entry->spec.kind));
        }
    }
    return PKV_OK;
}

pkv_status pkvi_plan_empty_page(const pkvi_planner *p, const pkv_spec *spec)
{
    /* upstream asserts that a packed block has bytes, and elsewhere divides by zero */
    return pkvi_fail(pkv_kv_layout_is_block_outermost(p->layout) ? PKV_E_ASSERT : PKV_E_VALUE,
                     "pkv_plan_create: a %s page of 0 bytes: block_size %" PRIu64
                     " holds no state of tokens_per_state %" PRIu32 "/%" PRIu32,
                     pkv_kind_name(spec->kind), spec->block_size, spec->tokens_per_state.num,
                     spec->tokens_per_state.den);
}

/* The first grouped layer of which `bad` holds, or NULL. */
static const pkvi_entry *find_layer(const pkvi_planner *p, const pkvi_groups *groups,
                                    bool (*bad)(const pkvi_entry *entry), uint32_t *layer)
{
    for (uint32_t g = 0; g < groups->n; g++) {
        const pkvi_layers *layers = &groups->at[g].layers;
        for (uint32_t i = 0; i < layers->n; i++) {
            if (bad(p->table.entries[layers->spec[i]])) {
                *layer = layers->layer[i];
                return p->table.entries[layers->spec[i]];
            }
        }
    }
    return NULL;
}

static bool takes_no_bytes(const pkvi_entry *entry)
{
    return entry->page == 0;
}

static bool has_no_stride(const pkvi_entry *entry)
{
    return entry->stride_align == 0;
}

/* No group may hold a layer that takes no bytes: nothing could be divided by its page. Packed
 * blocks are refused when they are placed, after memory that does not suffice. */
static pkv_status check_pages(const pkvi_planner *p, const pkvi_groups *groups)
{
    uint32_t layer;
    const pkvi_entry *entry = find_layer(p, groups, takes_no_bytes, &layer);
    return entry ? pkvi_plan_empty_page(p, &entry->spec) : PKV_OK;
}

/* Kernel blocks that hold no state leave no distance that blocks could keep. */
static pkv_status check_strides(const pkvi_planner *p, const pkvi_groups *groups)
{
    uint32_t layer;
    const pkvi_entry *entry = find_layer(p, groups, has_no_stride, &layer);
    return entry ? pkvi_fail(PKV_E_VALUE,
                             "pkv_plan_create: layer %" PRIu32
                             ": block_stride_alignment: kernel blocks of up to %" PRIu64
                             " tokens hold no state",
                             layer, entry->spec.block_stride_alignment)
                 : PKV_OK;
}

/* HiSparse: each stage must be a whole sparse model of its own. */
static pkv_status check_stage_groups(pkvi_planner *p, const stages *s)
{
    for (uint32_t w = 0; p->params->hisparse && w < s->n; w++) {
        pkvi_groups groups = {0};
        pkvi_layers own;
        PKVI_RETURN_IF(pkvi_layers_reserve(p, s->layers.n, &own));
        for (uint32_t i = 0; i < s->layers.n; i++) {
            if (s->owned[w][s->layers.layer[i]]) {
                own.layer[own.n] = s->layers.layer[i];
                own.spec[own.n++] = s->layers.spec[i];
            }
        }
        PKVI_RETURN_IF(pkvi_make_groups(p, &own, &groups));
    }
    return PKV_OK;
}

static pkv_status retain_for_drafts(pkvi_planner *p, pkvi_layers *layers)
{
    const uint64_t extra = pkv_plan_params_extra_retained(p->params);
    const uint32_t n = p->table.n;
    uint32_t *map = pkvi_arena_get(p->scratch, n, sizeof *map);
    if (!map) {
        return pkvi_plan_no_memory();
    }
    for (uint32_t i = 0; i < n; i++) {
        pkv_spec spec = p->table.entries[i]->spec;
        map[i] = i;
        if (pkvi_is(&spec, PKVI_IS_SLIDING) && spec.extra_retained_tokens != extra) {
            spec.extra_retained_tokens = extra;
            PKVI_RETURN_IF(pkvi_table_intern(&p->table, &spec, &map[i]));
        }
    }
    return pkvi_remap(p, layers, map, layers);
}

static void flag_draft_groups(const pkvi_planner *p, pkvi_groups *groups)
{
    if (!pkvi_drops_draft_block(p->params)) {
        return;
    }
    for (uint32_t g = 0; g < groups->n; g++) {
        pkvi_group *group = &groups->at[g];
        if (!group->transfer) {
            continue; /* layers made from a source are nobody's drafts */
        }
        for (uint32_t i = 0; i < group->layers.n && !group->eagle; i++) {
            group->eagle = p->params->layers[group->layers.layer[i]].is_draft != 0;
        }
    }
}

static pkv_status global_groups(pkvi_planner *p, stages *s, pkvi_groups *groups)
{
    PKVI_RETURN_IF(pkvi_choose_layout(p, &s->layers));
    PKVI_RETURN_IF(check_layers(p, &s->layers));
    PKVI_RETURN_IF(check_stage_groups(p, s));
    PKVI_RETURN_IF(retain_for_drafts(p, &s->layers));
    PKVI_RETURN_IF(pkvi_make_groups(p, &s->layers, groups));
    if (p->params->hisparse && groups->n > 0 && groups->at[0].role != PKV_GROUP_HISPARSE_SOURCE) {
        return pkvi_fail(PKV_E_VALUE, "pkv_plan_create: hisparse: there is no sparse latent layer");
    }
    flag_draft_groups(p, groups);
    PKVI_RETURN_IF(check_strides(p, groups));
    return pkv_kv_layout_is_block_outermost(p->layout) ? PKV_OK : check_pages(p, groups);
}

/* ---- workers ---- */

/* What is left beside the null block. */
static int64_t check_bytes(const pkvi_worker *w)
{
    int64_t left;
    if (__builtin_sub_overflow(w->available, (int64_t)w->plan.bytes_per_block, &left)) {
        return INT64_MIN;
    }
    return left;
}

/* Groups of one worker and the size of its block. One block is placed as a probe: a layout that
 * cannot hold the pages must be refused before memory is. */
static pkv_status measure_worker(pkvi_planner *p, const pkvi_groups *groups, const stages *s,
                                 uint32_t index, pkvi_worker *w)
{
    w->available = s->available[index];
    w->n_layers = s->n_owned[index];
    PKVI_RETURN_IF(pkvi_project(p, groups, s->owned[index], w));
    if (groups->n == 0) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkvi_bytes_per_block(p, w, &w->plan.bytes_per_block));
    if (!p->params->hisparse) {
        PKVI_RETURN_IF(pkvi_place_tensors(p, w, 1));
    }
    if (p->params->num_blocks_override != PKV_NO_OVERRIDE) {
        uint64_t bytes;
        if (!pkvi_mul(p->params->num_blocks_override, w->plan.bytes_per_block, &bytes)) {
            return pkvi_plan_overflow("num_blocks_override blocks");
        }
        w->available = (int64_t)bytes;
    }
    return PKV_OK;
}

static pkv_status auto_fit(pkvi_planner *p, const pkvi_worker *workers, uint32_t n)
{
    uint64_t longest = p->limits.max_model_len;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t fit;
        PKVI_RETURN_IF(pkvi_longest_fit(p, &workers[i], check_bytes(&workers[i]),
                                        p->limits.max_model_len, &fit));
        longest = pkvi_min(longest, fit);
        if (fit == 0) {
            return pkvi_fail(
                PKV_E_VALUE,
                "pkv_plan_create: auto_fit: worker %" PRIu32 ": available_bytes %" PRId64
                " do not hold one token beside the null block; one block is %" PRIu64 " bytes",
                i, workers[i].available, workers[i].plan.bytes_per_block);
        }
    }
    p->limits.max_model_len = longest;
    return PKV_OK;
}

static pkv_status size_host(pkvi_planner *p, const pkvi_worker *w)
{
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        if (w->groups[g].host) {
            PKVI_RETURN_IF(pkvi_hisparse_host(p, w->groups[g].page_bytes, w->groups[g].block_size,
                                              p->limits.max_model_len));
        }
    }
    return PKV_OK;
}

/* The pool of every worker has as many blocks as the poorest one can hold. */
static pkv_status place_workers(pkvi_planner *p, pkvi_worker *workers, uint32_t n,
                                uint64_t *num_blocks)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        least = pkvi_min(least, (uint64_t)workers[i].available / workers[i].plan.bytes_per_block);
    }
    for (uint32_t i = 0; i < n; i++) {
        PKVI_RETURN_IF(size_host(p, &workers[i]));
        PKVI_RETURN_IF(pkvi_place_tensors(p, &workers[i], least));
        workers[i].plan.bytes = least * workers[i].plan.bytes_per_block;
    }
    *num_blocks = least;
    return PKV_OK;
}

/* The kind of a refusal is upstream's: where it asserts against what we can plan it never comes to
 * the later obstacle that stopped us. The text keeps the reason. */
static pkv_status refusal_kind(const pkvi_planner *p, pkv_status st)
{
    return p->repaired && (st == PKV_E_VALUE || st == PKV_E_NOTIMPL) ? PKV_E_ASSERT : st;
}

static pkv_status plan_workers(pkvi_planner *p, stages *s, pkvi_worker *workers,
                               uint64_t *num_blocks)
{
    pkvi_groups groups = {0};
    *num_blocks = 1; /* a model without a cache still has the null block */
    PKVI_RETURN_IF(global_groups(p, s, &groups));
    for (uint32_t i = 0; i < s->n; i++) {
        pkv_status st = measure_worker(p, &groups, s, i, &workers[i]);
        if (st != PKV_OK) {
            pkvi_error_context("pkv_plan_create", "worker %" PRIu32, i);
            return st;
        }
    }
    if (groups.n == 0) {
        return PKV_OK;
    }
    if (p->params->auto_fit) {
        PKVI_RETURN_IF(auto_fit(p, workers, s->n));
    }
    for (uint32_t i = 0; i < s->n; i++) {
        PKVI_RETURN_IF(pkvi_admit(p, &workers[i], i, check_bytes(&workers[i])));
    }
    PKVI_RETURN_IF(check_pages(p, &groups));
    return place_workers(p, workers, s->n, num_blocks);
}

/* ---- the object ---- */

static bool wants_caching(const pkv_plan_params *params)
{
    for (uint32_t i = 0; i < params->n_layers; i++) {
        if (params->layers[i].non_causal) {
            return false; /* later tokens change what earlier ones stored */
        }
    }
    return params->caching != 0;
}

static pkv_status make_plan(pkvi_planner *p, pkv_plan *plan)
{
    stages s = {0};
    PKVI_RETURN_IF(pkv_plan_params_limits(p->params, &p->limits));
    PKVI_RETURN_IF(collect_stages(p, &s));
    plan->workers = pkvi_arena_get(p->keep, s.n, sizeof *plan->workers);
    if (!plan->workers) {
        return pkvi_plan_no_memory();
    }
    const pkv_status st = plan_workers(p, &s, plan->workers, &plan->summary.num_blocks);
    if (st != PKV_OK) {
        return refusal_kind(p, st);
    }
    for (uint32_t w = 0; w < s.n; w++) {
        pkvi_note_precision(&plan->workers[w]);
    }
    plan->summary.n_workers = s.n;
    plan->summary.layout = p->layout;
    plan->summary.caching = wants_caching(p->params);
    plan->limits = p->limits;
    plan->retention_interval = p->params->retention_interval;
    return pkvi_summarize(p, &plan->workers[0], &plan->summary, &plan->sizes_error);
}

pkv_status pkv_plan_create(const pkv_plan_params *params, pkv_plan **out)
{
    pkv_plan_params in;
    pkvi_arena keep, scratch;
    pkvi_planner planner;
    if (out) {
        *out = NULL;
    }
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_plan_create: params or out is NULL");
    }
    PKVI_RETURN_IF(pkvi_params_import(params, &in));
    pkvi_arena_init(&keep, in.alloc, 16384);
    pkvi_arena_init(&scratch, in.alloc, 16384);
    memset(&planner, 0, sizeof planner);
    planner.params = &in;
    planner.keep = &keep;
    planner.scratch = &scratch;
    pkvi_table_init(&planner.table, &keep);

    pkv_plan *plan = pkvi_arena_get(&keep, 1, sizeof *plan);
    pkv_status st = plan ? make_plan(&planner, plan) : pkvi_plan_no_memory();
    pkvi_arena_free(&scratch);
    if (st != PKV_OK) {
        pkvi_arena_free(&keep);
        pkvi_error_rename("pkv_plan_create");
        return st;
    }
    plan->arena = keep;
    *out = plan;
    return PKV_OK;
}
