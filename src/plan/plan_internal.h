/* plan_internal.h  What the steps of planning share.
 *
 * While a plan is made, specs are interned: a layer carries a number into one table, equal specs
 * have one number, and a step that changes specs makes new entries and moves the layers over. So
 * every rule runs once per distinct spec, not once per layer. */
#ifndef PKVI_PLAN_INTERNAL_H
#define PKVI_PLAN_INTERNAL_H

#include <pkv/plan.h>

#include "base/arena.h"
#include "base/error.h"

/* ---- table.c: interned specs ---- */

typedef struct pkvi_entry {
    pkv_spec spec;
    uint64_t page;         /* bytes of a page */
    uint64_t stride_page;  /* page rounded up to the distance that blocks need */
    uint64_t stride_align; /* that distance's unit */
    uint64_t hash;
} pkvi_entry;

typedef struct pkvi_table {
    pkvi_arena *arena; /* lives as long as the plan */
    pkvi_entry **entries;
    uint32_t n, capacity;
    uint32_t *slots; /* [n_slots] entry + 1, open addressing */
    uint32_t n_slots;
} pkvi_table;

void pkvi_table_init(pkvi_table *table, pkvi_arena *arena);
/* Number of a spec; is_draft is dropped. Fails like pkv_spec_page_bytes(), or with NOMEM. */
pkv_status pkvi_table_intern(pkvi_table *table, const pkv_spec *spec, uint32_t *out);
/* The same for a caller's spec: checked, and copied with all that it points to. */
pkv_status pkvi_table_intern_input(pkvi_table *table, const pkv_spec *spec, uint32_t *out);

/* ---- plan.c: the state of one planning ---- */

/* Layers in the planner's order, each with the number of its spec. */
typedef struct pkvi_layers {
    uint32_t *layer; /* [n] index in params->layers */
    uint32_t *spec;  /* [n] */
    uint32_t n;
} pkvi_layers;

/* A group of the whole model. */
typedef struct pkvi_group {
    pkvi_layers layers; /* the spec of each layer as planned */
    uint32_t merged;    /* spec of the group; only if not uniform_type */
    bool uniform_type, eagle, host, transfer;
    uint32_t role;
} pkvi_group;

typedef struct pkvi_groups {
    pkvi_group *at;
    uint32_t n, capacity;
} pkvi_groups;

typedef struct pkvi_planner {
    const pkv_plan_params *params;
    pkvi_arena *keep;    /* the plan's own memory */
    pkvi_arena *scratch; /* gone when planning ends */
    pkvi_table table;
    struct {
        uint32_t *generation, *place; /* [capacity] by spec number */
        uint32_t current, capacity;
    } marks; /* of pkvi_distinct_of() */
    pkv_limits limits;
    uint32_t layout;
    uint64_t host_num_blocks, host_block_stride; /* HiSparse */
    bool repaired; /* a step planned what upstream asserts against by mistake */
} pkvi_planner;

#define pkvi_plan_no_memory() pkvi_fail(PKV_E_NOMEM, "pkv_plan_create: out of memory")
#define pkvi_plan_overflow(what) \
    pkvi_fail(PKV_E_OVERFLOW, "pkv_plan_create: %s: the size exceeds 2^63-1", what)

/* The refusal of a spec whose block holds no state. */
pkv_status pkvi_plan_empty_page(const pkvi_planner *p, const pkv_spec *spec);

/* ---- distinct.c: sets of specs ---- */

/* Distinct specs of some layers in order of first appearance. */
typedef struct pkvi_distinct {
    uint32_t *spec;           /* [n] numbers */
    const pkv_spec **pointer; /* [n] the same, for calls of the spec module */
    uint32_t *count;          /* [n] layers that have it */
    uint32_t n;
} pkvi_distinct;

pkv_status pkvi_distinct_of(pkvi_planner *p, const pkvi_layers *layers, pkvi_distinct *out);
/* Whether a layer's cells stay as they are when it takes over a merged spec. */
bool pkvi_cell_survives(const pkv_spec *spec, const pkv_spec *merged);
/* Merged spec of a set. *merges_out false: they do not merge (ASSERT); VALUE is passed on. */
pkv_status pkvi_try_merge(pkvi_planner *p, const pkvi_distinct *set, bool *merges_out,
                          uint32_t *merged_out);
/* A copy of layers with every spec s replaced by map[s]; map has an entry for each used number. */
pkv_status pkvi_remap(pkvi_planner *p, const pkvi_layers *layers, const uint32_t *map,
                      pkvi_layers *out);
/* Room for n layers. */
pkv_status pkvi_layers_reserve(pkvi_planner *p, uint32_t n, pkvi_layers *out);

/* choose_layout.c: p->layout for these layers; VALUE if the one asked for cannot hold them */
pkv_status pkvi_choose_layout(pkvi_planner *p, const pkvi_layers *layers);

/* ---- grouping ---- */

pkv_status pkvi_groups_add(pkvi_planner *p, pkvi_groups *groups, const pkvi_group *group);
/* One group with the merged spec of its layers; ASSERT if they do not merge. */
pkv_status pkvi_groups_add_merged(pkvi_planner *p, pkvi_groups *groups, const pkvi_layers *layers);
pkv_status pkvi_groups_add_uniform(pkvi_planner *p, pkvi_groups *groups, const pkvi_layers *layers);

/* group.c: layers of the whole model into groups */
pkv_status pkvi_make_groups(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *out);
/* promote.c: local kinds planned like full attention, when hybrid planning is off */
pkv_status pkvi_promote_hybrid(pkvi_planner *p, const pkvi_layers *layers, pkvi_layers *out);
/* promote.c: a latent model with windows whose pages do not fit each other: everything full.
 * *found false: not such a model. */
pkv_status pkvi_full_allocation(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *out,
                                bool *found);
/* unify.c: every page as large as the largest; NOTIMPL if that cannot be */
pkv_status pkvi_unify_pages(pkvi_planner *p, const pkvi_layers *layers, pkvi_layers *out);
/* unify.c: groups of hidden-state layers beside groups of one page size */
pkv_status pkvi_add_hidden(pkvi_planner *p, const pkvi_layers *hidden, pkvi_groups *groups);
/* pack.c: groups for block-outermost layouts, whose pages may differ */
pkv_status pkvi_pack(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *groups);
/* hisparse.c: *found false: no latent layer, plan normally */
pkv_status pkvi_hisparse_groups(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *out,
                                bool *found);
/* hisparse.c: blocks of the host pool for requests of `len` tokens; VALUE if it is too small */
pkv_status pkvi_hisparse_host(pkvi_planner *p, uint64_t source_page, uint64_t source_block_size,
                              uint64_t len);

/* ---- per worker ---- */

/* Groups as one worker sees them, ready for the plan. */
typedef struct pkvi_worker {
    pkv_worker_plan plan;
    pkv_group *groups;   /* [plan.n_groups] */
    pkv_tensor *tensors; /* [plan.n_tensors] */
    uint32_t n_layers;
    int64_t available; /* after an override */
} pkvi_worker;

/* place.c */
pkv_status pkvi_bytes_per_block(pkvi_planner *p, const pkvi_worker *w, uint64_t *out);
pkv_status pkvi_validate_layout(pkvi_planner *p, const pkvi_worker *w, bool host, uint32_t layout);
pkv_status pkvi_place_tensors(pkvi_planner *p, pkvi_worker *w, uint64_t num_blocks);

/* fit.c */
/* Blocks of the device pool that one request of `len` tokens takes. */
pkv_status pkvi_request_blocks(const pkvi_planner *p, const pkvi_worker *w, uint64_t len,
                               uint64_t *out);
/* Longest length up to `most` that fits a checked budget (what is left beside the null block). */
pkv_status pkvi_longest_fit(pkvi_planner *p, const pkvi_worker *w, int64_t check_bytes,
                            uint64_t most, uint64_t *out);
/* VALUE unless one request of max_model_len fits. */
pkv_status pkvi_admit(pkvi_planner *p, const pkvi_worker *w, uint32_t index, int64_t check_bytes);
/* Blocks that a group's layers need for one request. */
pkv_status pkvi_group_blocks(const pkv_group *group, const pkv_limits *limits, uint64_t *out);

/* units.c: scheduler block size, hash block size, hit alignment. A refusal is a status with its
 * text, and leaves the sizes 0. */
pkv_status pkvi_resolve_units(const pkvi_planner *p, const pkvi_worker *w, bool caching,
                              pkv_plan_summary *summary);
/* kv_layout.c: byte strides of [L, B, H, N, C]; fixed ones where not 0. shape_out may be NULL */
pkv_status pkvi_layout_strides(const pkv_spec *spec, uint32_t layout, uint64_t n_blocks,
                               uint64_t n_layers, uint64_t kernel_block_size,
                               const uint64_t fixed[5], uint64_t shape[5], uint64_t strides[5]);

#endif
