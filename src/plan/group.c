/* group.c  Layers of the whole model into groups.
 *
 * From simple to hard: all layers alike; all of one type; pages packed side by side; pages of one
 * size. The last is the common case of hybrids:
 *
 *     f s s f s s f s s      buckets of mergeable layers: f f f | s s s s s s
 *     group size 3           (f0 f1 f2) (s0 s2 s4) (s1 s3 s5)
 *
 * Layers of a bucket are dealt out in turn, so that every pipeline stage has a share of each. */
#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/kind.h"
#include "spec/spec.h"

/* Layers whose specs merge, in the order in which they were met. */
typedef struct bucket {
    pkvi_layers layers;
    pkv_spec merged;
    uint64_t signature;
    uint32_t next; /* bucket + 1 of the same signature */
} bucket;

typedef struct buckets {
    bucket *at;
    uint32_t n;
    uint32_t *first; /* [n_slots] bucket + 1, by signature */
    uint32_t n_slots;
} buckets;

/* Specs of different signatures never merge. Full kinds may differ in window, chunk and causality,
 * so these stay out; so does whatever a merge only compares for latent kinds. */
static uint64_t merge_signature(const pkv_spec *spec)
{
    if (!pkvi_is(spec, PKVI_IS_FULL | PKVI_IS_LATENT)) {
        return pkvi_spec_hash(spec);
    }
    const uint64_t family = pkvi_is(spec, PKVI_IS_MLA) ? 1 : pkvi_is(spec, PKVI_IS_FULL) ? 2 : 3;
    const uint64_t parts[] = {
        family,
        spec->dcp_sharded,
        spec->stride_rule,
        spec->block_stride_alignment,
        spec->max_tp_shards,
        spec->tokens_per_state.num,
        spec->tokens_per_state.den,
        family == 3 ? spec->sliding_window : spec->num_kv_heads,
        family == 3 ? 0 : spec->head_size,
        family == 3 ? 0 : spec->state_content_bytes,
        family == 3 ? 0 : spec->block_size,
    };
    return XXH3_64bits(parts, sizeof parts);
}

/* Whether `spec` joins the bucket. Neither a broken contract nor two windows is an error here: the
 * layer then begins a bucket of its own. */
static bool joins(bucket *b, const pkv_spec *spec)
{
    const pkv_spec *pair[2] = {&b->merged, spec};
    pkv_spec merged;
    if (pkv_specs_merge(pair, 2, &merged) != PKV_OK || !pkvi_cell_survives(&b->merged, &merged) ||
        !pkvi_cell_survives(spec, &merged)) {
        return false;
    }
    b->merged = merged;
    return true;
}

static uint32_t find_bucket(buckets *all, const pkv_spec *spec)
{
    const uint64_t signature = merge_signature(spec);
    uint32_t *link = &all->first[signature & (all->n_slots - 1)];
    while (*link != 0) {
        bucket *b = &all->at[*link - 1];
        if (b->signature == signature && joins(b, spec)) {
            return *link - 1;
        }
        link = &b->next;
    }
    bucket *b = &all->at[all->n];
    b->merged = *spec;
    b->signature = signature;
    *link = ++all->n;
    return all->n - 1;
}

/* Distinct specs join buckets in the order in which they were met, each with all of its layers at
 * once: upstream first collects equal specs, then merges the collections. */
static pkv_status fill_buckets(pkvi_planner *p, const pkvi_layers *layers, buckets *all)
{
    pkvi_distinct set;
    PKVI_RETURN_IF(pkvi_distinct_of(p, layers, &set));
    all->n_slots = 16;
    while (all->n_slots < set.n * 2) {
        all->n_slots *= 2;
    }
    all->at = pkvi_arena_get(p->scratch, set.n, sizeof *all->at);
    all->first = pkvi_arena_get(p->scratch, all->n_slots, sizeof *all->first);
    uint32_t *bucket_of = pkvi_arena_get(p->scratch, set.n, sizeof *bucket_of);
    uint32_t *place = pkvi_arena_get(p->scratch, p->table.n, sizeof *place);
    uint32_t *base = pkvi_arena_get(p->scratch, set.n, sizeof *base);
    if (!all->at || !all->first || !bucket_of || !place || !base) {
        return pkvi_plan_no_memory();
    }
    uint32_t *size = pkvi_arena_get(p->scratch, set.n, sizeof *size);
    if (!size) {
        return pkvi_plan_no_memory();
    }
    for (uint32_t i = 0; i < set.n; i++) {
        bucket_of[i] = find_bucket(all, set.pointer[i]);
        place[set.spec[i]] = i;
        base[i] = size[bucket_of[i]];
        size[bucket_of[i]] += set.count[i];
    }
    for (uint32_t b = 0; b < all->n; b++) {
        PKVI_RETURN_IF(pkvi_layers_reserve(p, size[b], &all->at[b].layers));
        all->at[b].layers.n = size[b];
    }
    for (uint32_t i = 0; i < layers->n; i++) {
        const uint32_t d = place[layers->spec[i]];
        pkvi_layers *to = &all->at[bucket_of[d]].layers;
        to->layer[base[d]] = layers->layer[i];
        to->spec[base[d]++] = layers->spec[i];
    }
    return PKV_OK;
}

/* The smallest bucket sets the size of groups, unless the largest is only a little larger: then
 * padding the small ones wastes less than splitting the large ones. */
static uint32_t group_size(const buckets *all)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t b = 0; b < all->n; b++) {
        least = all->at[b].layers.n < least ? all->at[b].layers.n : least;
        most = all->at[b].layers.n > most ? all->at[b].layers.n : most;
    }
    return (uint64_t)most * 2 < (uint64_t)least * 3 ? most : least;
}

static pkv_status deal(pkvi_planner *p, const pkvi_layers *layers, uint32_t n_groups,
                       pkvi_groups *groups)
{
    for (uint32_t g = 0; g < n_groups; g++) {
        pkvi_layers part;
        PKVI_RETURN_IF(pkvi_layers_reserve(p, layers->n / n_groups + 1, &part));
        for (uint32_t i = g; i < layers->n; i += n_groups) {
            part.layer[part.n] = layers->layer[i];
            part.spec[part.n++] = layers->spec[i];
        }
        PKVI_RETURN_IF(pkvi_groups_add_merged(p, groups, &part));
    }
    return PKV_OK;
}

static pkv_status group_by_bucket(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *groups)
{
    buckets all = {0};
    PKVI_RETURN_IF(fill_buckets(p, layers, &all));
    if (all.n == 0) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_plan_create: only hidden-state layers of different shapes");
    }
    const uint32_t size = group_size(&all);
    for (uint32_t b = 0; b < all.n; b++) {
        const uint32_t n_groups = (uint32_t)pkvi_ceil_div(all.at[b].layers.n, size);
        PKVI_RETURN_IF(deal(p, &all.at[b].layers, n_groups, groups));
    }
    return PKV_OK;
}

static bool pages_differ(const pkvi_planner *p, const pkvi_layers *layers)
{
    for (uint32_t i = 1; i < layers->n; i++) {
        if (p->table.entries[layers->spec[i]]->page != p->table.entries[layers->spec[0]]->page) {
            return true;
        }
    }
    return false;
}

static pkv_status split_hidden(pkvi_planner *p, const pkvi_layers *layers, pkvi_layers *hidden,
                               pkvi_layers *rest)
{
    PKVI_RETURN_IF(pkvi_layers_reserve(p, layers->n, hidden));
    PKVI_RETURN_IF(pkvi_layers_reserve(p, layers->n, rest));
    for (uint32_t i = 0; i < layers->n; i++) {
        const bool is_hidden =
            p->table.entries[layers->spec[i]]->spec.kind == PKV_KIND_HIDDEN_STATE;
        pkvi_layers *to = is_hidden ? hidden : rest;
        to->layer[to->n] = layers->layer[i];
        to->spec[to->n++] = layers->spec[i];
    }
    return PKV_OK;
}

/* Layers that are neither alike nor of one type. */
static pkv_status group_mixed(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *out)
{
    pkvi_layers hidden, rest, unified;
    PKVI_RETURN_IF(split_hidden(p, layers, &hidden, &rest));
    if (pkv_kv_layout_is_block_outermost(p->layout) && pages_differ(p, &rest)) {
        PKVI_RETURN_IF(pkvi_pack(p, &rest, out));
        for (uint32_t i = 0; i < hidden.n; i++) {
            const pkvi_group own = {.layers = {hidden.layer + i, hidden.spec + i, 1},
                                    .merged = hidden.spec[i],
                                    .transfer = true};
            PKVI_RETURN_IF(pkvi_groups_add(p, out, &own));
        }
        return PKV_OK;
    }
    const pkv_status st = pkvi_unify_pages(p, &rest, &unified);
    if (st == PKV_E_NOTIMPL) {
        bool found;
        PKVI_RETURN_IF(pkvi_full_allocation(p, layers, out, &found));
        /* once more, so that the text is the refusal's and not that of a failed attempt */
        return found ? PKV_OK : pkvi_unify_pages(p, &rest, &unified);
    }
    if (st != PKV_OK) {
        return st;
    }
    PKVI_RETURN_IF(group_by_bucket(p, &unified, out));
    return pkvi_add_hidden(p, &hidden, out);
}

pkv_status pkvi_make_groups(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *out)
{
    pkvi_layers planned = *layers;
    pkvi_distinct set;
    bool found = false;
    uint32_t merged;
    if (!p->params->enable_hybrid) {
        PKVI_RETURN_IF(pkvi_promote_hybrid(p, &planned, &planned));
    }
    if (planned.n == 0) {
        return PKV_OK;
    }
    if (p->params->hisparse) {
        PKVI_RETURN_IF(pkvi_hisparse_groups(p, &planned, out, &found));
        if (found) {
            return PKV_OK;
        }
    }
    PKVI_RETURN_IF(pkvi_distinct_of(p, &planned, &set));
    PKVI_RETURN_IF(pkvi_try_merge(p, &set, &found, &merged));
    if (found) {
        const pkvi_group group = {.layers = planned, .merged = merged, .transfer = true};
        return pkvi_groups_add(p, out, &group);
    }
    PKVI_RETURN_IF(pkv_specs_uniform_type(set.pointer, set.n, &found));
    if (found) {
        return pkvi_groups_add_uniform(p, out, &planned);
    }
    return group_mixed(p, &planned, out);
}
