/* layout_answer.c  A reading as JSON. */
#include <inttypes.h>
#include <string.h>

#include "layout.h"

int layout_exit_code(pkv_status st)
{
    switch (st) {
    case PKV_OK: return EXIT_DONE;
    case PKV_E_UNSUPPORTED:
    case PKV_E_VALUE:
    case PKV_E_AMBIGUOUS: return EXIT_NO;
    case PKV_E_NOMEM: return EXIT_ENVIRONMENT;
    default: return EXIT_INPUT;
    }
}

json_t *layout_refused(pkv_status st, const pkv_refusal *refusal)
{
    json_t *answer = json_object(), *readings = json_array();
    const char *code = st == PKV_E_AMBIGUOUS ? "ambiguous"
                       : st == PKV_E_VALUE   ? "inconsistent"
                                             : "unsupported";
    cli_set(answer, "error", json_string(pkv_last_error()));
    cli_set(answer, "code", json_string(code));
    for (uint32_t i = 0; i < refusal->n_readings; i++) {
        cli_push(readings, json_string(refusal->readings[i]));
    }
    cli_set(answer, "readings", readings);
    return answer;
}

json_t *layout_layer_name(const layout_problem *problem, uint32_t layer)
{
    const bool whole = problem->params.structure == PKV_STRUCTURE_CROSS_LAYER ||
                       problem->params.engine == PKV_ENGINE_TRTLLM;
    const char *name = problem->names[whole ? 0 : layer];
    if (whole) {
        return json_sprintf("%s[%" PRIu32 "]", name ? name : "0", layer);
    }
    return name ? json_string(name) : json_sprintf("%" PRIu32, layer);
}

static json_t *format_name(const layout_problem *problem, uint32_t format)
{
    pkv_format_info info = {.name = "?"};
    (void)!pkv_format_get(problem->params.revision, format, &info);
    return json_string(info.name);
}

/* 0 is null */
static json_t *or_null(uint64_t value)
{
    return value ? cli_int(value) : json_null();
}

static json_t *numbers_json(const uint64_t *numbers, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        cli_push(list, cli_int(numbers[i]));
    }
    return list;
}

static json_t *concrete_json(const layout_problem *problem, const pkv_layout_group *g,
                             uint32_t format)
{
    char text[160];
    const pkv_format_sizes sizes = {g->desc.nl, g->desc.nb, g->desc.bs, g->desc.nh, g->desc.hs};
    const pkv_status st =
        pkv_format_text(problem->params.revision, format, &sizes, text, sizeof text);
    return st == PKV_OK ? json_string(text) : json_null();
}

static void put_places(json_t *json, const pkv_layout *l)
{
    cli_set(json, "offset", cli_int(l->offset));
    cli_set(json, "block_stride", cli_int(l->block_stride));
    cli_set(json, "token_stride", cli_int(l->token_stride));
    cli_set(json, "head_stride", cli_int(l->head_stride));
    cli_set(json, "kv_stride", l->own_v ? json_null() : cli_int(l->kv_stride));
    if (!l->own_v) {
        cli_set(json, "v", json_null());
        return;
    }
    json_t *v = json_object();
    cli_set(v, "offset", cli_int(l->v.offset));
    cli_set(v, "block_stride", cli_int(l->v.block_stride));
    cli_set(v, "token_stride", cli_int(l->v.token_stride));
    cli_set(v, "head_stride", cli_int(l->v.head_stride));
    cli_set(json, "v", v);
}

static json_t *normalized_json(const pkv_layout *l)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < l->n_tensors; i++) {
        const pkv_view *v = &l->normalized[i];
        json_t *one = json_object();
        cli_set(one, "tensor", cli_int(l->tensor[i]));
        cli_set(one, "shape", numbers_json(v->shape, v->rank));
        cli_set(one, "strides", numbers_json(v->strides, v->rank));
        cli_push(list, one);
    }
    return list;
}

static json_t *layer_json(const layout_problem *problem, const pkv_reading *reading, uint32_t i)
{
    const pkv_layout *l = pkv_reading_layer(reading, i);
    const pkv_layout_group *g = pkv_reading_group(reading, l->group);
    pkv_format_info info;
    char shape[160];
    json_t *json = json_object();
    cli_set(json, "name", layout_layer_name(problem, i));
    cli_set(json, "format", format_name(problem, l->format));
    cli_set(json, "group", g ? cli_int(l->group) : json_null());
    cli_set(json, "concrete", g ? concrete_json(problem, g, l->format) : json_null());
    if (!l->known || pkv_format_get(problem->params.revision, l->format, &info) != PKV_OK ||
        pkv_format_text(problem->params.revision, l->format, NULL, shape, sizeof shape) != PKV_OK) {
        return json;
    }
    cli_set(json, "num_blocks", or_null(l->num_blocks));
    cli_set(json, "block_size", or_null(l->block_size));
    cli_set(json, "tokens", cli_int(l->tokens));
    cli_set(json, "num_heads", cli_int(l->num_heads));
    cli_set(json, "head_size", cli_int(l->head_size));
    cli_set(json, "head_size_v", cli_int(l->head_size_v));
    cli_set(json, "kv_size", cli_int(l->kv_size));
    put_places(json, l);
    cli_set(json, "dense", json_boolean(l->dense));
    cli_set(json, "dtype", json_string(pkv_dtype_name(l->dtype)));
    cli_set(json, "device", json_string(problem->device));
    cli_set(json, "is_mla", json_boolean(l->is_mla));
    cli_set(json, "hidden_dim", cli_int(l->hidden_dim));
    cli_set(json, "elements", cli_int(l->elements));
    cli_set(json, "backend", json_string(info.backend));
    cli_set(json, "shape", json_string(shape));
    cli_set(json, "normalized", normalized_json(l));
    return json;
}

json_t *layout_pointers(const pkv_tensor_pointer *pointers, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        json_t *pair = json_array();
        cli_push(pair, cli_int(pointers[i].tensor));
        cli_push(pair, cli_int(pointers[i].offset));
        cli_push(list, pair);
    }
    return list;
}

static json_t *desc_json(const pkv_page_desc *d)
{
    json_t *json = json_object();
    cli_set(json, "kv_size", cli_int(d->kv_size));
    cli_set(json, "nl", cli_int(d->nl));
    cli_set(json, "nb", cli_int(d->nb));
    cli_set(json, "bs", cli_int(d->bs));
    cli_set(json, "nh", cli_int(d->nh));
    cli_set(json, "hs", cli_int(d->hs));
    cli_set(json, "element_size", cli_int(d->element_size));
    cli_set(json, "block_stride_elems", cli_int(d->block_stride_elems));
    return json;
}

static json_t *group_json(const layout_problem *problem, const pkv_reading *reading, uint32_t i)
{
    const pkv_layout_group *g = pkv_reading_group(reading, i);
    const uint32_t format = pkv_reading_layer(reading, g->layers[0])->format;
    json_t *json = json_object(), *layers = json_array();
    for (uint32_t k = 0; k < g->n_layers; k++) {
        cli_push(layers, cli_int(g->layers[k]));
    }
    cli_set(json, "engine_group", cli_int(g->engine_group));
    cli_set(json, "layers", layers);
    cli_set(json, "format", format_name(problem, format));
    cli_set(json, "concrete", concrete_json(problem, g, format));
    cli_set(json, "data_ptrs", layout_pointers(g->pointers, g->n_pointers));
    cli_set(json, "desc", g->has_desc ? desc_json(&g->desc) : json_null());
    return json;
}

json_t *layout_warnings(const layout_problem *problem, const pkv_reading *reading)
{
    json_t *warnings = json_array();
    for (uint32_t i = 0; i < pkv_reading_n_layers(reading); i++) {
        if (pkv_reading_layer(reading, i)->odd_order) {
            json_t *name = layout_layer_name(problem, i);
            cli_push(warnings,
                     json_sprintf("%s: revision seed does not know this order of axes; they "
                                  "were named by stride alone, and the names may be wrong",
                                  json_string_value(name)));
            json_decref(name);
        }
    }
    return warnings;
}

json_t *layout_answer(const layout_problem *problem, const pkv_reading *reading)
{
    json_t *answer = json_object();
    if (reading) {
        json_t *layers = json_array(), *groups = json_array();
        for (uint32_t i = 0; i < pkv_reading_n_layers(reading); i++) {
            cli_push(layers, layer_json(problem, reading, i));
        }
        for (uint32_t i = 0; i < pkv_reading_n_groups(reading); i++) {
            cli_push(groups, group_json(problem, reading, i));
        }
        cli_set(answer, "layers", layers);
        cli_set(answer, "groups", groups);
        cli_set(answer, "num_layers", cli_int(pkv_reading_n_layers(reading)));
        json_t *warnings = layout_warnings(problem, reading);
        if (json_array_size(warnings) > 0) {
            cli_set(answer, "warnings", warnings);
        } else {
            json_decref(warnings);
        }
    }
    if (json_array_size(problem->ask) > 0) {
        cli_set(answer, "answers", layout_answers(problem, reading));
    }
    return answer;
}
