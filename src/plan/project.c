/* project.c  The groups of the whole model as one worker sees them.
 *
 * A pipeline stage owns some layers of each group, perhaps none: the group then stays, with its
 * spec, so that group numbers mean the same everywhere. */
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "plan/project.h"
#include "spec/kind.h"

static uint32_t kind_of_set(const pkvi_distinct *set)
{
    bool same = true, full = true;
    for (uint32_t i = 0; i < set->n; i++) {
        same &= set->pointer[i]->kind == set->pointer[0]->kind;
        full &= pkvi_is(set->pointer[i], PKVI_IS_FULL);
    }
    return same ? set->pointer[0]->kind : full ? (uint32_t)PKV_KIND_FULL : (uint32_t)PKV_N_KINDS;
}

static uint32_t *keep_array(pkvi_planner *p, uint32_t n)
{
    return pkvi_arena_get(p->keep, n, sizeof(uint32_t));
}

/* Classes of a uniform-type group over its spec_layers. */
static pkv_status uniform_classes(pkvi_planner *p, const pkvi_layers *layers, pkv_group *out)
{
    pkvi_distinct set;
    PKVI_RETURN_IF(pkvi_distinct_of(p, layers, &set));
    pkv_group_class *classes = pkvi_arena_get(p->keep, set.n, sizeof *classes);
    uint32_t *members = keep_array(p, layers->n), *class_of = keep_array(p, layers->n);
    uint32_t **end = pkvi_arena_get(p->scratch, set.n, sizeof *end);
    if (!classes || !members || !class_of || !end) {
        return pkvi_plan_no_memory();
    }
    out->kind = kind_of_set(&set);
    out->block_size = set.pointer[0]->block_size;
    for (uint32_t c = 0, at = 0; c < set.n; c++) {
        uint64_t bytes;
        end[c] = members + at;
        classes[c] =
            (pkv_group_class){.spec = set.pointer[c], .layers = end[c], .n_layers = set.count[c]};
        at += set.count[c];
        if (!pkvi_mul(p->table.entries[set.spec[c]]->page, set.count[c], &bytes) ||
            !pkvi_add(out->page_bytes, bytes, &out->page_bytes)) {
            return pkvi_plan_overflow("the pages of a group");
        }
    }
    for (uint32_t i = 0; i < layers->n; i++) {
        class_of[i] = p->marks.place[layers->spec[i]]; /* of the set above */
        *end[class_of[i]]++ = layers->layer[i];
    }
    out->classes = classes;
    out->n_classes = set.n;
    out->class_of = class_of;
    return PKV_OK;
}

static pkv_status merged_class(pkvi_planner *p, const pkvi_group *group, pkv_group *out)
{
    const pkvi_entry *entry = p->table.entries[group->merged];
    pkv_group_class *one = pkvi_arena_get(p->keep, 1, sizeof *one);
    out->class_of = keep_array(p, out->n_spec_layers); /* all 0 */
    if (!one || !out->class_of) {
        return pkvi_plan_no_memory();
    }
    *one =
        (pkv_group_class){.spec = &entry->spec, .layers = out->layers, .n_layers = out->n_layers};
    out->classes = one;
    out->n_classes = 1;
    out->kind = entry->spec.kind;
    out->block_size = entry->spec.block_size;
    out->page_bytes = entry->page;
    return PKV_OK;
}

static pkv_status copy_layers(pkvi_planner *p, const pkvi_layers *from, const uint32_t **out)
{
    uint32_t *layers = keep_array(p, from->n);
    if (!layers) {
        return pkvi_plan_no_memory();
    }
    if (from->n > 0) {
        memcpy(layers, from->layer, from->n * sizeof *layers);
    }
    *out = layers;
    return PKV_OK;
}

/* The earlier revision flags what a worker's own group holds, drafter or not. */
static bool is_eagle(const pkvi_planner *p, const pkvi_group *group, const pkvi_layers *part)
{
    if (p->params->revision != PKV_REVISION_SEED) {
        return group->eagle;
    }
    for (uint32_t i = 0; group->transfer && i < part->n; i++) {
        if (p->params->layers[part->layer[i]].is_draft) {
            return true;
        }
    }
    return false;
}

static pkv_status project_group(pkvi_planner *p, const pkvi_group *group, const bool *owned,
                                pkv_group *out)
{
    pkvi_layers part;
    PKVI_RETURN_IF(pkvi_layers_reserve(p, group->layers.n, &part));
    for (uint32_t i = 0; i < group->layers.n; i++) {
        if (owned[group->layers.layer[i]]) {
            part.layer[part.n] = group->layers.layer[i];
            part.spec[part.n++] = group->layers.spec[i];
        }
    }
    *out = (pkv_group){.n_layers = part.n,
                       .role = group->role,
                       .is_eagle = is_eagle(p, group, &part),
                       .uniform_type = group->uniform_type,
                       .host = group->host,
                       .transfer = group->transfer};
    PKVI_RETURN_IF(copy_layers(p, &part, &out->layers));
    const pkvi_layers *described = group->uniform_type && part.n == 0 ? &group->layers : &part;
    out->n_spec_layers = described->n;
    out->spec_layers = out->layers;
    if (described != &part) {
        PKVI_RETURN_IF(copy_layers(p, described, &out->spec_layers));
    }
    return group->uniform_type ? uniform_classes(p, described, out) : merged_class(p, group, out);
}

pkv_status pkvi_project(pkvi_planner *p, const pkvi_groups *groups, const bool *owned,
                        pkvi_worker *out)
{
    out->plan.n_groups = groups->n;
    out->groups = pkvi_arena_get(p->keep, groups->n, sizeof *out->groups);
    if (!out->groups) {
        return pkvi_plan_no_memory();
    }
    uint32_t n_tensors = 0;
    for (uint32_t g = 0; g < groups->n; g++) {
        PKVI_RETURN_IF(project_group(p, &groups->at[g], owned, &out->groups[g]));
        n_tensors += out->groups[g].n_classes;
    }
    out->tensors = pkvi_arena_get(p->keep, n_tensors, sizeof *out->tensors);
    return out->tensors ? PKV_OK : pkvi_plan_no_memory();
}
