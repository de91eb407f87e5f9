/* read.c  From an engine's tensors to a reading: checks, the engine's reader, hints, groups.
 *
 *     tensors -> pkvi_recover -> engine's reader -> pkvi_layout_build -> hints agree? -> groups
 *                (memory order)  (names the axes)   (bytes)
 *
 * vLLM's lists may be read twice: where no layout is given and strides or hints speak against the
 * default one, the other one is tried, and taken only if nothing speaks against it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/params.h"
#include "format/read.h"
#include "format/reading.h"

/* ---- the parameters ---- */

void pkv_format_params_init(pkv_format_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

static pkv_status check_range(const char *name, uint32_t is, uint32_t end)
{
    if (is >= end) {
        return pkvi_fail(PKV_E_INVAL, "pkv_reading_create: %s is %u, below %u was expected", name,
                         is, end);
    }
    return PKV_OK;
}

static pkv_status check_entries(const pkv_format_params *p)
{
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const pkv_engine_layer *e = &p->layers[i];
        const bool pair = p->structure == PKV_STRUCTURE_K_LIST_V_LIST;
        if (!e->tensors || e->n_tensors == 0 || e->n_tensors > PKVI_FORMAT_MAX_LAYERS ||
            (pair && e->n_tensors != 2)) {
            return pkvi_fail(PKV_E_INVAL, "pkv_reading_create: layers[%u]: %u tensors, %s expected",
                             i, e->n_tensors, pair ? "2 were" : "at least 1 was");
        }
        for (uint32_t k = 0; k < e->n_tensors; k++) {
            char place[64];
            (void)snprintf(place, sizeof place, "pkv_reading_create: layers[%u]: tensor %u", i, k);
            PKVI_RETURN_IF(pkvi_view_fields(place, &e->tensors[k], true));
        }
    }
    if (p->structure == PKV_STRUCTURE_CROSS_LAYER &&
        (p->n_layers != 1 || p->layers[0].n_tensors != 1)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_reading_create: %u layers, one tensor of all layers was expected",
                         p->n_layers);
    }
    return PKV_OK;
}

static pkv_status check_params(const pkv_format_params *p)
{
    PKVI_RETURN_IF(check_range("engine", p->engine, PKV_N_ENGINES));
    PKVI_RETURN_IF(check_range("structure", p->structure, PKV_N_STRUCTURES));
    PKVI_RETURN_IF(check_range("revision", p->revision, PKV_FORMAT_REVISION_SEED + 1));
    PKVI_RETURN_IF(check_range("hints.layout", p->hints.layout, PKV_N_LAYOUTS));
    PKVI_RETURN_IF(check_range("hints.list", p->hints.list, PKV_LIST_UNIFIED + 1));
    PKVI_RETURN_IF(check_range("hints.planes", p->hints.planes, PKV_PLANES_MLA + 1));
    PKVI_RETURN_IF(check_range("hints.kv_axis", p->hints.kv_axis, PKV_KV_AXIS_SECOND + 1));
    if (!p->layers || p->n_layers == 0 || p->n_layers > PKVI_FORMAT_MAX_LAYERS) {
        return pkvi_fail(PKV_E_INVAL, "pkv_reading_create: n_layers is %u, 1 to %u was expected",
                         p->n_layers, PKVI_FORMAT_MAX_LAYERS);
    }
    if (p->n_groups > 0 && (!p->group_sizes || !p->group_layers)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_reading_create: group_sizes or group_layers is NULL");
    }
    return check_entries(p);
}

/* ---- structures ---- */

static bool is_list(const pkv_format_params *p)
{
    return p->structure == PKV_STRUCTURE_LIST;
}

static bool all_single(const pkv_format_params *p)
{
    for (uint32_t i = 0; i < p->n_layers; i++) {
        if (p->layers[i].n_tensors != 1) {
            return false;
        }
    }
    return true;
}

static pkv_status no_structure(const pkvi_reader *r)
{
    static const char *const engines[] = {"vLLM", "SGLang", "TensorRT-LLM", "ATOM"};
    return pkvi_fail(PKV_E_UNSUPPORTED,
                     "pkv_reading_create: %s hands over no such structure (%u, %u entries)",
                     engines[r->p.engine], r->p.structure, r->p.n_layers);
}

/* How the layers of the model come out of the structure. */
typedef enum plan { PLAN_ENTRIES, PLAN_PAIRS, PLAN_HALVES, PLAN_CROSS } plan;

static pkv_status choose_plan(const pkvi_reader *r, plan *out, uint32_t *n_out)
{
    const pkv_format_params *p = &r->p;
    const bool single = is_list(p) && all_single(p);
    *n_out = p->n_layers;
    *out = PLAN_ENTRIES;
    switch (p->engine) {
    case PKV_ENGINE_VLLM:
        *out = p->structure == PKV_STRUCTURE_CROSS_LAYER ? PLAN_CROSS : PLAN_ENTRIES;
        return p->structure == PKV_STRUCTURE_K_LIST_V_LIST ? no_structure(r) : PKV_OK;
    case PKV_ENGINE_SGLANG:
        if (p->structure == PKV_STRUCTURE_K_LIST_V_LIST) {
            *out = PLAN_PAIRS;
            return PKV_OK;
        }
        if (!single) {
            return no_structure(r);
        }
        *out = p->hints.list == PKV_LIST_K_V ? PLAN_HALVES : PLAN_ENTRIES;
        *n_out = *out == PLAN_HALVES ? p->n_layers / 2 : p->n_layers;
        return PKV_OK;
    case PKV_ENGINE_TRTLLM:
        *out = PLAN_CROSS;
        return p->structure == PKV_STRUCTURE_CROSS_LAYER || (single && p->n_layers == 1)
                   ? PKV_OK
                   : no_structure(r);
    default: return single ? PKV_OK : no_structure(r);
    }
}

static pkv_status check_halves(const pkvi_reader *r)
{
    const pkv_format_hints *h = &r->p.hints;
    for (uint32_t i = 0; i < r->p.n_layers; i++) {
        const pkv_view *v = &r->p.layers[i].tensors[0];
        if (v->rank != 3) {
            return pkvi_fail(
                PKV_E_UNSUPPORTED,
                "pkv_reading_create: layers[%u]: rank %u: a flat list of K and V holds "
                "[tokens, heads, size]",
                i, v->rank);
        }
        if (h->tokens_per_block != 0 && v->shape[0] % h->tokens_per_block != 0) {
            return pkvi_fail(PKV_E_VALUE,
                             "pkv_reading_create: layers[%u]: %" PRIu64
                             " tokens are no multiple of tokens_per_block %" PRIu64,
                             i, v->shape[0], h->tokens_per_block);
        }
    }
    if (r->seed && h->tokens_per_block == 0) {
        return pkvi_ambiguous(r, 0, "tokens_per_block", "TWO_X_NL_X_NB_BS_NH_HS",
                              "TWO_X_NL_X_NBBS_NH_HS");
    }
    if (r->p.n_layers % 2 != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_reading_create: %u tensors: a list of K and V has an even number",
                         r->p.n_layers);
    }
    return PKV_OK;
}

static pkv_status read_entry(const pkvi_reader *r, uint32_t entry, bool hnd, pkv_layout *out)
{
    switch (r->p.engine) {
    case PKV_ENGINE_VLLM:
        if (is_list(&r->p) && r->p.layers[entry].n_tensors == 1) {
            return pkvi_read_vllm_entry(r, entry, hnd, out);
        }
        return pkvi_read_vllm_planes(r, entry, out);
    case PKV_ENGINE_SGLANG: return pkvi_read_sglang_entry(r, entry, out);
    default: return pkvi_read_atom_entry(r, entry, out);
    }
}

/* Layers that are in a group. */
static pkv_status read_entries(const pkvi_reader *r, pkv_reading *reading, bool hnd)
{
    for (uint32_t i = 0; i < reading->n_layers; i++) {
        pkv_layout *out = &reading->layers[i];
        const uint32_t group = out->engine_group;
        if (group == PKV_LAYOUT_NO_GROUP) {
            continue;
        }
        const pkv_status st = read_entry(r, i, hnd, out);
        out->engine_group = group; /* also after a failure: another order may be tried */
        PKVI_RETURN_IF(st);
    }
    return PKV_OK;
}

static pkv_status check_fits(const pkvi_reader *r, const pkv_reading *reading)
{
    char text[120];
    for (uint32_t i = 0; i < reading->n_layers; i++) {
        if (!pkvi_layout_fits(&reading->layers[i], &r->p.hints, text)) {
            return pkvi_fail(PKV_E_VALUE, "pkv_reading_create: layers[%u]: %s", i, text);
        }
    }
    return PKV_OK;
}

/* ---- vLLM's lists: which of NHD and HND ---- */

/* First entry whose strides exchange tokens and heads against the order; n_layers: none. */
static uint32_t first_against(const pkvi_reader *r, const pkv_reading *reading, bool hnd)
{
    uint32_t i = 0;
    for (; i < reading->n_layers; i++) {
        const pkv_engine_layer *e = &r->p.layers[i];
        const bool looked_at = reading->layers[i].engine_group != PKV_LAYOUT_NO_GROUP;
        if (looked_at && is_list(&r->p) && e->n_tensors == 1 && pkvi_exchanged(&e->tensors[0]) &&
            hnd != (e->tensors[0].rank == 5)) {
            break;
        }
    }
    return i;
}

/* Name of a format with heads outside of tokens, or the other way round. */
static const char *name_in_order(uint32_t format, bool hnd)
{
    static const uint32_t pairs[][2] = {
        {PKV_FORMAT_NL_X_TWO_NB_BS_NH_HS, PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS},
        {PKV_FORMAT_NL_X_NB_TWO_BS_NH_HS, PKV_FORMAT_NL_X_NB_TWO_NH_BS_HS},
        {PKV_FORMAT_NL_X_NB_BS_NH_CS, PKV_FORMAT_NL_X_NB_NH_BS_CS}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i][0] == format || pairs[i][1] == format) {
            format = pairs[i][hnd];
            break;
        }
    }
    return pkvi_format_row_of(format)->name;
}

/* format: of the entry in one of the orders */
static pkv_status two_orders(const pkvi_reader *r, uint32_t entry, uint32_t format)
{
    char text[2][160];
    const pkv_view *v = &r->p.layers[entry].tensors[0];
    const uint32_t i = v->rank - 3; /* in memory the two are exchanged */
    const uint64_t outer = v->shape[i + 1], inner = v->shape[i];
    (void)snprintf(text[0], sizeof text[0],
                   "%s with %" PRIu64 " tokens, %" PRIu64 " heads, tokens outside",
                   name_in_order(format, false), outer, inner);
    (void)snprintf(text[1], sizeof text[1],
                   "%s with %" PRIu64 " heads, %" PRIu64 " tokens, heads outside",
                   name_in_order(format, true), outer, inner);
    return pkvi_ambiguous(r, entry, "layout, num_kv_heads or tokens_per_block", text[0], text[1]);
}

static pkv_status against_strides(const pkvi_reader *r, uint32_t entry)
{
    return pkvi_fail(PKV_E_VALUE,
                     "pkv_reading_create: layers[%u]: strides put the %s outside, the layout "
                     "does not",
                     entry, r->p.layers[entry].tensors[0].rank == 4 ? "tokens" : "heads");
}

static pkv_status read_fitting(const pkvi_reader *r, pkv_reading *reading, bool hnd)
{
    PKVI_RETURN_IF(read_entries(r, reading, hnd));
    return check_fits(r, reading);
}

/* Without a layout: the default order, or the other one if hints say so. */
static pkv_status read_either(const pkvi_reader *r, pkv_reading *reading, bool first)
{
    const uint32_t against = first_against(r, reading, first);
    const bool contradicted = against < reading->n_layers;
    PKVI_RETURN_IF(read_entries(r, reading, first));
    const pkv_status st = check_fits(r, reading);
    if (st == PKV_OK && !contradicted) {
        return PKV_OK;
    }
    const uint32_t format = contradicted ? reading->layers[against].format : 0;
    if (r->seed) {
        return st == PKV_OK ? two_orders(r, against, format) : st;
    }
    const bool other_allowed = first_against(r, reading, !first) == reading->n_layers;
    const pkv_status other = other_allowed ? read_fitting(r, reading, !first) : PKV_E_VALUE;
    if (st != PKV_OK) {
        return other == PKV_OK ? PKV_OK : read_fitting(r, reading, first);
    }
    return other == PKV_OK || other == PKV_E_AMBIGUOUS ? two_orders(r, against, format)
                                                       : read_entries(r, reading, first);
}

static pkv_status read_vllm(const pkvi_reader *r, pkv_reading *reading)
{
    const bool hnd = pkvi_wants_hnd(r), told = r->p.hints.layout != PKV_LAYOUT_AUTO;
    if (pkvi_wants_view(r)) {
        return read_fitting(r, reading, true);
    }
    if (!told) {
        return read_either(r, reading, hnd);
    }
    PKVI_RETURN_IF(read_entries(r, reading, hnd));
    const uint32_t against = first_against(r, reading, hnd);
    if (against < reading->n_layers) {
        return against_strides(r, against);
    }
    return check_fits(r, reading);
}

/* ---- all layers ---- */

static pkv_status read_cross(const pkvi_reader *r, pkv_reading *reading)
{
    pkvi_parts parts;
    PKVI_RETURN_IF(r->p.engine == PKV_ENGINE_VLLM ? pkvi_read_vllm_cross(r, &parts)
                                                  : pkvi_read_trtllm(r, &parts));
    const uint64_t *shape = parts.view[0].shape;
    if (shape[2] != 2) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_reading_create: shape[2] is %" PRIu64 ", K and V were expected",
                         shape[2]);
    }
    if (shape[1] > PKVI_FORMAT_MAX_LAYERS) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_reading_create: %" PRIu64 " layers, at most %u were expected",
                         shape[1], PKVI_FORMAT_MAX_LAYERS);
    }
    reading->n_layers = (uint32_t)shape[1];
    reading->layers = pkvi_arena_get(&reading->memory, reading->n_layers, sizeof *reading->layers);
    if (!reading->layers) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_reading_create: out of memory for %u layers",
                         reading->n_layers);
    }
    for (uint32_t i = 0; i < reading->n_layers; i++) {
        PKVI_RETURN_IF(pkvi_layout_build(r, 0, &parts, i, &reading->layers[i]));
    }
    return check_fits(r, reading);
}

static pkv_status read_pairs(const pkvi_reader *r, pkv_reading *reading, bool halves)
{
    bool hnd = false;
    PKVI_RETURN_IF(halves ? check_halves(r) : pkvi_sglang_order(r, &hnd));
    for (uint32_t i = 0; i < reading->n_layers; i++) {
        pkv_layout *out = &reading->layers[i];
        PKVI_RETURN_IF(halves ? pkvi_read_sglang_halves(r, i, out)
                              : pkvi_read_sglang_pair(r, i, hnd, out));
    }
    return check_fits(r, reading);
}

/* Writes the engine group of each layer. INVAL: no such layer, or one twice. */
static pkv_status assign_groups(const pkv_format_params *p, pkv_reading *reading)
{
    const uint32_t *at = p->group_layers;
    for (uint32_t i = 0; i < reading->n_layers; i++) {
        reading->layers[i].engine_group = p->n_groups ? PKV_LAYOUT_NO_GROUP : 0;
    }
    for (uint32_t g = 0; g < p->n_groups; g++) {
        for (uint32_t i = 0; i < p->group_sizes[g]; i++, at++) {
            if (*at >= reading->n_layers ||
                reading->layers[*at].engine_group != PKV_LAYOUT_NO_GROUP) {
                return pkvi_fail(
                    PKV_E_INVAL, "pkv_reading_create: groups[%u]: %u is %s of %u layers", g, *at,
                    *at >= reading->n_layers ? "none" : "named twice", reading->n_layers);
            }
            reading->layers[*at].engine_group = g;
        }
    }
    return PKV_OK;
}

static pkv_status read_all(pkvi_reader *r, pkv_reading *reading)
{
    plan how;
    PKVI_RETURN_IF(choose_plan(r, &how, &reading->n_layers));
    if (how == PLAN_CROSS) {
        PKVI_RETURN_IF(read_cross(r, reading));
        return assign_groups(&r->p, reading);
    }
    reading->layers = pkvi_arena_get(&reading->memory, reading->n_layers, sizeof *reading->layers);
    if (!reading->layers) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_reading_create: out of memory for %u layers",
                         reading->n_layers);
    }
    if (how == PLAN_HALVES || how == PLAN_PAIRS) {
        PKVI_RETURN_IF(read_pairs(r, reading, how == PLAN_HALVES));
        return assign_groups(&r->p, reading);
    }
    PKVI_RETURN_IF(assign_groups(&r->p, reading));
    if (r->p.engine == PKV_ENGINE_VLLM) {
        PKVI_RETURN_IF(read_vllm(r, reading));
    } else {
        PKVI_RETURN_IF(read_entries(r, reading, false));
        PKVI_RETURN_IF(check_fits(r, reading));
    }
    for (uint32_t i = 0; i < reading->n_layers; i++) { /* not looked at: as the first that was */
        if (!reading->layers[i].known) {
            reading->layers[i] = (pkv_layout){
                .format = reading->layers[r->p.group_layers[0]].format,
                .group = PKV_LAYOUT_NO_GROUP,
                .engine_group = PKV_LAYOUT_NO_GROUP,
            };
        }
    }
    return PKV_OK;
}

/* ---- public ---- */

static pkv_status create_empty(const pkv_format_params *p, pkv_reading **out)
{
    pkvi_arena memory;
    pkvi_arena_init(&memory, p->alloc, 4096);
    *out = pkvi_arena_get(&memory, 1, sizeof **out);
    if (!*out) {
        pkvi_arena_free(&memory);
        return pkvi_fail(PKV_E_NOMEM, "pkv_reading_create: out of memory for a reading");
    }
    (*out)->memory = memory;
    (*out)->revision = p->revision;
    return PKV_OK;
}

static pkv_status count_tensors(pkvi_reader *r, pkv_reading *reading)
{
    uint32_t n = 0;
    r->first_tensor = pkvi_arena_get(&reading->memory, r->p.n_layers, sizeof *r->first_tensor);
    r->odd_order = pkvi_arena_get(&reading->memory, r->p.n_layers, sizeof *r->odd_order);
    if (!r->first_tensor || !r->odd_order) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_reading_create: out of memory for %u layers",
                         r->p.n_layers);
    }
    for (uint32_t i = 0; i < r->p.n_layers; i++) {
        r->first_tensor[i] = n;
        n += r->p.layers[i].n_tensors;
    }
    return PKV_OK;
}

pkv_status pkv_reading_create(const pkv_format_params *params, pkv_refusal *refusal,
                              pkv_reading **out)
{
    pkv_status st = PKV_OK;
    pkv_reading *reading = NULL;
    pkv_refusal unused;
    pkvi_reader r = {.refusal = refusal ? refusal : &unused};
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_reading_create: params or out is NULL");
    }
    *out = NULL;
    memset(r.refusal, 0, sizeof *r.refusal);
    pkv_format_params_init(&r.p);
    PKVI_RETURN_IF(pkvi_import_params("pkv_reading_create", params, &r.p, sizeof r.p));
    PKVI_RETURN_IF(check_params(&r.p));
    r.seed = r.p.revision == PKV_FORMAT_REVISION_SEED;
    PKVI_TRY(create_empty(&r.p, &reading));
    PKVI_TRY(count_tensors(&r, reading));
    PKVI_TRY(read_all(&r, reading));
    PKVI_TRY(pkvi_reading_group(reading));
    *out = reading;
    reading = NULL;
done:
    if (st != PKV_E_AMBIGUOUS) {
        r.refusal->n_readings = 0; /* of an order that was tried */
    }
    pkv_reading_destroy(reading);
    return st;
}

void pkv_reading_destroy(pkv_reading *reading)
{
    if (reading) {
        pkvi_arena memory = reading->memory; /* the reading lies in it */
        pkvi_arena_free(&memory);
    }
}
