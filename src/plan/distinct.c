/* distinct.c  The distinct specs of some layers, and the small steps on sets of layers. */
#include <string.h>

#include "base/error.h"
#include "plan/plan_internal.h"

pkv_status pkvi_layers_reserve(pkvi_planner *p, uint32_t n, pkvi_layers *out)
{
    out->layer = pkvi_arena_get(p->scratch, n, sizeof *out->layer);
    out->spec = pkvi_arena_get(p->scratch, n, sizeof *out->spec);
    out->n = 0;
    return out->layer && out->spec ? PKV_OK : pkvi_plan_no_memory();
}

/* Marks one entry per number of the table; a mark is valid only in its own generation, so that
 * nothing is cleared between two sets. */
static pkv_status ready_marks(pkvi_planner *p)
{
    if (p->marks.capacity < p->table.n) {
        const uint32_t capacity = p->table.capacity;
        p->marks.generation = pkvi_arena_get(p->scratch, capacity, sizeof *p->marks.generation);
        p->marks.place = pkvi_arena_get(p->scratch, capacity, sizeof *p->marks.place);
        if (!p->marks.generation || !p->marks.place) {
            p->marks.capacity = 0;
            return pkvi_plan_no_memory();
        }
        p->marks.capacity = capacity;
        p->marks.current = 0;
    }
    p->marks.current++;
    return PKV_OK;
}

pkv_status pkvi_distinct_of(pkvi_planner *p, const pkvi_layers *layers, pkvi_distinct *out)
{
    const uint32_t most = layers->n < p->table.n ? layers->n : p->table.n;
    PKVI_RETURN_IF(ready_marks(p));
    out->spec = pkvi_arena_get(p->scratch, most, sizeof *out->spec);
    out->count = pkvi_arena_get(p->scratch, most, sizeof *out->count);
    out->pointer = pkvi_arena_get(p->scratch, most, sizeof *out->pointer);
    out->n = 0;
    if (!out->spec || !out->count || !out->pointer) {
        return pkvi_plan_no_memory();
    }
    for (uint32_t i = 0; i < layers->n; i++) {
        const uint32_t spec = layers->spec[i];
        if (p->marks.generation[spec] != p->marks.current) {
            p->marks.generation[spec] = p->marks.current;
            p->marks.place[spec] = out->n;
            out->spec[out->n] = spec;
            out->pointer[out->n++] = &p->table.entries[spec]->spec;
        }
        out->count[p->marks.place[spec]]++;
    }
    return PKV_OK;
}

/* The merge rule of latent windows takes the first one's shape for all. A layer may take over
 * another block size or pad, but not another cell: it would write beyond its share of the page. */
bool pkvi_cell_survives(const pkv_spec *spec, const pkv_spec *merged)
{
    uint64_t heads[2], content[2];
    if (merged->kind != PKV_KIND_SLIDING_WINDOW_MLA) {
        return true; /* other rules compare what the cell depends on */
    }
    return pkv_spec_num_heads(spec, &heads[0]) == PKV_OK &&
           pkv_spec_num_heads(merged, &heads[1]) == PKV_OK && heads[0] == heads[1] &&
           pkv_spec_state_content_bytes(spec, &content[0]) == PKV_OK &&
           pkv_spec_state_content_bytes(merged, &content[1]) == PKV_OK && content[0] == content[1];
}

pkv_status pkvi_try_merge(pkvi_planner *p, const pkvi_distinct *set, bool *merges_out,
                          uint32_t *merged_out)
{
    pkv_spec merged;
    *merges_out = false;
    pkv_status st = pkv_specs_merge(set->pointer, set->n, &merged);
    if (st != PKV_OK) {
        return st == PKV_E_ASSERT ? PKV_OK : st;
    }
    for (uint32_t i = 0; i < set->n; i++) {
        if (!pkvi_cell_survives(set->pointer[i], &merged)) {
            return PKV_OK;
        }
    }
    PKVI_RETURN_IF(pkvi_table_intern(&p->table, &merged, merged_out));
    *merges_out = true;
    return PKV_OK;
}

pkv_status pkvi_remap(pkvi_planner *p, const pkvi_layers *layers, const uint32_t *map,
                      pkvi_layers *out)
{
    pkvi_layers moved;
    PKVI_RETURN_IF(pkvi_layers_reserve(p, layers->n, &moved));
    moved.n = layers->n;
    if (layers->n > 0) {
        memcpy(moved.layer, layers->layer, layers->n * sizeof *moved.layer);
    }
    for (uint32_t i = 0; i < layers->n; i++) {
        moved.spec[i] = map[layers->spec[i]];
    }
    *out = moved;
    return PKV_OK;
}

pkv_status pkvi_groups_add(pkvi_planner *p, pkvi_groups *groups, const pkvi_group *group)
{
    if (groups->n == groups->capacity) {
        const uint32_t capacity = groups->capacity ? groups->capacity * 2 : 8;
        pkvi_group *at = pkvi_arena_get(p->scratch, capacity, sizeof *at);
        if (!at) {
            return pkvi_plan_no_memory();
        }
        if (groups->n > 0) {
            memcpy(at, groups->at, groups->n * sizeof *at);
        }
        groups->at = at;
        groups->capacity = capacity;
    }
    groups->at[groups->n++] = *group;
    return PKV_OK;
}

pkv_status pkvi_groups_add_merged(pkvi_planner *p, pkvi_groups *groups, const pkvi_layers *layers)
{
    pkvi_group group = {.layers = *layers, .transfer = true};
    pkvi_distinct set;
    bool merges;
    PKVI_RETURN_IF(pkvi_distinct_of(p, layers, &set));
    PKVI_RETURN_IF(pkvi_try_merge(p, &set, &merges, &group.merged));
    if (!merges) {
        return pkvi_fail(PKV_E_ASSERT, "pkv_plan_create: the layers of a group do not merge");
    }
    return pkvi_groups_add(p, groups, &group);
}

pkv_status pkvi_groups_add_uniform(pkvi_planner *p, pkvi_groups *groups, const pkvi_layers *layers)
{
    const pkvi_group group = {.layers = *layers, .transfer = true, .uniform_type = true};
    return pkvi_groups_add(p, groups, &group);
}
