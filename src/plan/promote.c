/* promote.c  Local kinds (windows, chunks) planned like full attention.
 *
 * This changes what is allocated, never what is computed: the window stays on the spec. It happens
 * when hybrid planning is off, and as the last resort for latent models beside plain windows. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/kind.h"
#include "spec/spec.h"

/* When local kinds are promoted. A kpool tail is a ring in all but name and stays when hybrid
 * planning is off; the last resort takes every subtype of a window, as upstream does. */
typedef enum occasion { HYBRID_OFF, LAST_RESORT } occasion;

/* Full kind that a local kind is promoted to; the kind itself if it stays. */
static uint32_t promoted_kind(uint32_t kind, occasion when)
{
    switch (kind) {
    case PKV_KIND_SLIDING_WINDOW:
    case PKV_KIND_CHUNKED_LOCAL: return PKV_KIND_FULL;
    case PKV_KIND_SLIDING_WINDOW_MLA: return PKV_KIND_MLA;
    case PKV_KIND_KPOOL_TAIL: return when == LAST_RESORT ? (uint32_t)PKV_KIND_FULL : kind;
    default: return kind;
    }
}

static pkv_status promote_spec(const pkv_spec *spec, uint32_t kind, uint64_t block_size,
                               pkv_spec *out)
{
    pkv_spec done = *spec;
    done.kind = kind;
    done.extra_retained_tokens = 0; /* nothing below the window is ever freed now */
    done.bounded_replay = 0;
    done.block_size = block_size;
    if (spec->page_size_padded != 0) {
        uint64_t unpadded, scaled;
        PKVI_RETURN_IF(pkv_spec_unpadded_page_bytes(spec, &unpadded));
        if (!pkvi_mul(unpadded, block_size, &scaled)) {
            return pkvi_plan_overflow("a promoted page");
        }
        done.page_size_padded = pkvi_max(spec->page_size_padded, scaled / spec->block_size);
    }
    PKVI_RETURN_IF(pkvi_spec_construct(&done));
    *out = done;
    return PKV_OK;
}

/* One block table for all: they merge, or are of one type. */
static pkv_status is_one_type(pkvi_planner *p, const pkvi_distinct *set, bool *out)
{
    uint32_t merged;
    PKVI_RETURN_IF(pkvi_try_merge(p, set, out, &merged));
    return *out ? PKV_OK : pkv_specs_uniform_type(set->pointer, set->n, out);
}

/* The block size of all full layers; 0 if they differ. */
static uint64_t full_block_size(const pkvi_distinct *set)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const pkv_spec *spec = set->pointer[i];
        if (pkvi_is(spec, PKVI_IS_FULL)) {
            if (size != 0 && size != spec->block_size) {
                return 0;
            }
            size = spec->block_size;
        }
    }
    return size;
}

static pkv_status promote_all(pkvi_planner *p, const pkvi_layers *layers, const pkvi_distinct *set,
                              occasion when, pkvi_layers *out)
{
    const uint64_t block_size = full_block_size(set);
    uint32_t *map = pkvi_arena_get(p->scratch, p->table.n, sizeof *map);
    if (!map) {
        return pkvi_plan_no_memory();
    }
    for (uint32_t i = 0; i < set->n; i++) {
        const pkv_spec *spec = set->pointer[i];
        map[set->spec[i]] = set->spec[i];
        const uint32_t kind = promoted_kind(spec->kind, when);
        if (kind != spec->kind) {
            pkv_spec promoted;
            PKVI_RETURN_IF(
                promote_spec(spec, kind, block_size ? block_size : spec->block_size, &promoted));
            PKVI_RETURN_IF(pkvi_table_intern(&p->table, &promoted, &map[set->spec[i]]));
        }
    }
    return pkvi_remap(p, layers, map, out);
}

/* Layers that end as one type; VALUE if they cannot. */
static pkv_status promote_local(pkvi_planner *p, const pkvi_layers *layers, occasion when,
                                pkvi_layers *out)
{
    pkvi_distinct set;
    bool one_type, has_full = false, has_local = false;
    PKVI_RETURN_IF(pkvi_distinct_of(p, layers, &set));
    PKVI_RETURN_IF(is_one_type(p, &set, &one_type));
    *out = *layers;
    if (one_type) {
        return PKV_OK;
    }
    for (uint32_t i = 0; i < set.n; i++) {
        has_full |= pkvi_is(set.pointer[i], PKVI_IS_FULL);
        has_local |= promoted_kind(set.pointer[i]->kind, when) != set.pointer[i]->kind;
    }
    if (has_full && has_local) {
        PKVI_RETURN_IF(promote_all(p, layers, &set, when, out));
        PKVI_RETURN_IF(pkvi_distinct_of(p, out, &set));
        PKVI_RETURN_IF(is_one_type(p, &set, &one_type));
    }
    if (!one_type) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_plan_create: enable_hybrid 0: the %" PRIu32
                         " kinds of layers cannot become one type",
                         set.n);
    }
    return PKV_OK;
}

/* Attention that decode context parallelism does not shard is promoted on its own. */
pkv_status pkvi_promote_hybrid(pkvi_planner *p, const pkvi_layers *layers, pkvi_layers *out)
{
    pkvi_layers parts[2], done = *layers;
    uint32_t *from[2];
    PKVI_RETURN_IF(pkvi_layers_reserve(p, layers->n, &done));
    done.n = layers->n;
    for (int r = 0; r < 2; r++) {
        PKVI_RETURN_IF(pkvi_layers_reserve(p, layers->n, &parts[r]));
        from[r] = pkvi_arena_get(p->scratch, layers->n, sizeof **from);
        if (!from[r]) {
            return pkvi_plan_no_memory();
        }
    }
    for (uint32_t i = 0; i < layers->n; i++) {
        const pkv_spec *spec = &p->table.entries[layers->spec[i]]->spec;
        const int r = pkvi_is(spec, PKVI_IS_ATTENTION) && !spec->dcp_sharded;
        from[r][parts[r].n] = i;
        parts[r].layer[parts[r].n] = layers->layer[i];
        parts[r].spec[parts[r].n++] = layers->spec[i];
    }
    for (int r = 0; r < 2; r++) {
        if (parts[r].n == 0) {
            continue;
        }
        PKVI_RETURN_IF(promote_local(p, &parts[r], HYBRID_OFF, &parts[r]));
        for (uint32_t i = 0; i < parts[r].n; i++) {
            done.layer[from[r][i]] = parts[r].layer[i];
            done.spec[from[r][i]] = parts[r].spec[i];
        }
    }
    *out = done;
    return PKV_OK;
}

pkv_status pkvi_full_allocation(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *out,
                                bool *found)
{
    pkvi_distinct set;
    pkvi_layers promoted;
    bool has_mla = false, has_window = false, one_type;
    *found = false;
    PKVI_RETURN_IF(pkvi_distinct_of(p, layers, &set));
    for (uint32_t i = 0; i < set.n; i++) {
        const uint32_t kind = set.pointer[i]->kind;
        if (kind == PKV_KIND_HIDDEN_STATE || kind == PKV_KIND_SLIDING_WINDOW_MLA ||
            kind == PKV_KIND_CHUNKED_LOCAL) {
            return PKV_OK;
        }
        has_mla |= kind == PKV_KIND_MLA;
        has_window |= pkvi_is(set.pointer[i], PKVI_IS_SLIDING);
    }
    if (!has_mla || !has_window) {
        return PKV_OK;
    }
    pkv_status st = promote_local(p, layers, LAST_RESORT, &promoted);
    if (st != PKV_OK) {
        return st == PKV_E_VALUE ? PKV_OK : st;
    }
    PKVI_RETURN_IF(pkvi_distinct_of(p, &promoted, &set));
    PKVI_RETURN_IF(pkv_specs_uniform_type(set.pointer, set.n, &one_type));
    if (!one_type) {
        return PKV_OK;
    }
    *found = true;
    return pkvi_groups_add_uniform(p, out, &promoted);
}
