/* layout_problem.c  A layout problem from JSON, strictly. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

bool layout_bad(layout_problem *problem, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem->error, sizeof problem->error, format, args);
    va_end(args);
    return false;
}

static void *get_memory(size_t n, size_t bytes)
{
    void *memory = calloc(n ? n : 1, bytes);
    if (!memory) {
        fprintf(stderr, "pagedkv: out of memory\n");
        exit(EXIT_ENVIRONMENT);
    }
    return memory;
}

static const json_t *member(const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    return json_is_null(value) ? NULL : value;
}

bool layout_check_names(layout_problem *problem, const char *place, const json_t *json,
                        const char *const *names)
{
    void *it = json_object_iter((json_t *)json);
    for (; it; it = json_object_iter_next((json_t *)json, it)) {
        const char *name = json_object_iter_key(it);
        size_t i = 0;
        while (names[i] && strcmp(names[i], name) != 0) {
            i++;
        }
        if (!names[i]) {
            return layout_bad(problem, "%s: unknown field \"%.60s\"", place, name);
        }
    }
    return true;
}

/* Index of a text in a list that ends with NULL; -1: it is none of them. */
static int index_of(const char *text, const char *const *names)
{
    for (int i = 0; text && names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

/* ---- tensors ---- */

static bool sizes_of(layout_problem *problem, const char *place, const char *name,
                     const json_t *list, json_int_t least, uint32_t rank, uint64_t *out)
{
    if (!json_is_array(list) || json_array_size(list) == 0 ||
        (rank && json_array_size(list) != rank)) {
        return layout_bad(problem, "%s: %s: a list of %s was expected", place, name,
                          rank ? "one number for each axis" : "at least one number");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_integer(value) || json_integer_value(value) < least) {
            return layout_bad(problem, "%s: %s[%zu]: an integer of at least %d was expected", place,
                              name, i, (int)least);
        }
        if (i < PKV_MAX_AXES) {
            out[i] = (uint64_t)json_integer_value(value);
        }
    }
    return true;
}

static bool dtype_of(layout_problem *problem, const char *place, const json_t *value, bool typed,
                     uint32_t *out)
{
    *out = PKV_DTYPE_BFLOAT16;
    if (!value && !typed) {
        return true;
    }
    if (!json_is_string(value) || pkv_dtype_from_name(json_string_value(value), out) != PKV_OK) {
        return layout_bad(problem,
                          "%s: dtype is %s%.40s, a torch dtype such as bfloat16 was "
                          "expected",
                          place, value ? "" : "missing",
                          json_is_string(value) ? json_string_value(value) : "");
    }
    return true;
}

bool layout_view_read(layout_problem *problem, const char *place, const json_t *json, bool typed,
                      pkv_view *out)
{
    static const char *const names[] = {"shape", "strides", "dtype", "offset", NULL};
    const json_t *strides = member(json, "strides"), *offset = member(json, "offset");
    pkv_view_form form;
    memset(out, 0, sizeof *out);
    if (!json_is_object(json)) {
        return layout_bad(problem, "%s: a tensor is an object", place);
    }
    if (!layout_check_names(problem, place, json, names) ||
        !dtype_of(problem, place, member(json, "dtype"), typed, &out->dtype) ||
        !sizes_of(problem, place, "shape", member(json, "shape"), 1, 0, out->shape)) {
        return false;
    }
    out->rank = (uint32_t)json_array_size(member(json, "shape"));
    if (offset && (!json_is_integer(offset) || json_integer_value(offset) < 0)) {
        return layout_bad(problem, "%s: offset: an integer of at least 0 was expected", place);
    }
    out->offset = (uint64_t)json_integer_value(offset);
    if (strides && !sizes_of(problem, place, "strides", strides, 0, out->rank, out->strides)) {
        return false;
    }
    if (out->rank > PKV_MAX_AXES) {
        return true; /* refused by whoever reads it */
    }
    if ((!strides && pkv_view_row_major(out) != PKV_OK) || pkv_view_check(out, &form) != PKV_OK) {
        return layout_bad(problem, "%s: %.180s", place, pkv_last_error());
    }
    return true;
}

/* ---- hints ---- */

bool layout_engine_read(layout_problem *problem, const char *name)
{
    static const char *const engines[] = {"vllm", "sglang", "trtllm", "atom", NULL};
    const int at = index_of(name, engines);
    if (at < 0) {
        return layout_bad(problem, "engine is %.40s: vllm, sglang, trtllm or atom was expected",
                          name ? name : "missing");
    }
    problem->params.engine = (uint32_t)at;
    return true;
}

static bool choice_hint(layout_problem *problem, const char *name, const json_t *value,
                        const char *const *choices, uint32_t *out)
{
    const int at = index_of(json_string_value(value), choices);
    if (at < 0) {
        return layout_bad(problem, "hints: %s: %s or %s was expected", name, choices[0],
                          choices[1]);
    }
    *out = (uint32_t)at + 1;
    return true;
}

bool layout_hint_read(layout_problem *problem, const char *name, const json_t *value)
{
    static const char *const lists[] = {"k_v", "unified", NULL};
    static const char *const kinds[] = {"attention", "mla", NULL};
    pkv_format_hints *h = &problem->params.hints;
    const struct {
        const char *name;
        uint64_t *out;
    } counts[] = {{"num_kv_heads", &h->num_kv_heads},
                  {"tokens_per_block", &h->tokens_per_block},
                  {"head_dim", &h->head_dim}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (strcmp(counts[i].name, name) == 0) {
            if (!json_is_integer(value) || json_integer_value(value) < 1) {
                return layout_bad(problem, "hints: %s: an integer of at least 1 was expected",
                                  name);
            }
            *counts[i].out = (uint64_t)json_integer_value(value);
            return true;
        }
    }
    if (strcmp(name, "list") == 0) {
        return choice_hint(problem, name, value, lists, &h->list);
    }
    if (strcmp(name, "kind") == 0) {
        return choice_hint(problem, name, value, kinds, &h->planes);
    }
    if (strcmp(name, "kv_axis") == 0) {
        if (!json_is_integer(value) || json_integer_value(value) < 0 ||
            json_integer_value(value) > 1) {
            return layout_bad(problem, "hints: kv_axis: 0 or 1 was expected");
        }
        h->kv_axis = (uint32_t)json_integer_value(value) + 1;
        return true;
    }
    if (strcmp(name, "layout") != 0) {
        return layout_bad(problem, "hints: unknown hint \"%.60s\"", name);
    }
    if (!json_is_string(value) ||
        pkv_kv_layout_from_name(json_string_value(value), &h->layout) != PKV_OK) {
        return layout_bad(problem, "hints: layout: NHD, HND, BLHNC, BLNHC, LBHNC, LBNHC, LHBNC or "
                                   "BHLNC was expected");
    }
    return true;
}

static bool read_hints(layout_problem *problem, const json_t *hints)
{
    if (hints && !json_is_object(hints)) {
        return layout_bad(problem, "hints: an object was expected");
    }
    void *it = json_object_iter((json_t *)hints);
    for (; it; it = json_object_iter_next((json_t *)hints, it)) {
        const json_t *value = json_object_iter_value(it);
        if (!json_is_null(value) && !layout_hint_read(problem, json_object_iter_key(it), value)) {
            return false;
        }
    }
    return true;
}

/* ---- layers, groups ---- */

static bool read_entry(layout_problem *problem, size_t i, const json_t *entry)
{
    static const char *const names[] = {"name", "tensors", NULL};
    const json_t *tensors = member(entry, "tensors"), *name = member(entry, "name"), *tensor;
    char place[64];
    size_t k;
    (void)snprintf(place, sizeof place, "layers[%zu]", i);
    if (!json_is_object(entry) || !json_is_array(tensors) || json_array_size(tensors) == 0) {
        return layout_bad(problem, "%s: an object with at least one of tensors was expected",
                          place);
    }
    if (!layout_check_names(problem, place, entry, names)) {
        return false;
    }
    if (name && !json_is_string(name)) {
        return layout_bad(problem, "%s: name: a text was expected", place);
    }
    problem->names[i] = json_string_value(name);
    problem->layers[i] = (pkv_engine_layer){.tensors = problem->views + problem->n_tensors,
                                            .n_tensors = (uint32_t)json_array_size(tensors)};
    json_array_foreach(tensors, k, tensor)
    {
        (void)snprintf(place, sizeof place, "layers[%zu]: tensors[%zu]", i, k);
        if (!layout_view_read(problem, place, tensor, true,
                              &problem->views[problem->n_tensors++])) {
            return false;
        }
    }
    return true;
}

static bool read_layers(layout_problem *problem, const json_t *layers)
{
    size_t i, tensors = 0;
    const json_t *entry;
    if (!json_is_array(layers) || json_array_size(layers) == 0) {
        return layout_bad(problem, "layers: a list of at least one layer was expected");
    }
    json_array_foreach(layers, i, entry)
    {
        tensors += json_array_size(member(entry, "tensors"));
    }
    problem->names = get_memory(json_array_size(layers), sizeof *problem->names);
    problem->layers = get_memory(json_array_size(layers), sizeof *problem->layers);
    problem->views = get_memory(tensors, sizeof *problem->views);
    problem->params.n_layers = (uint32_t)json_array_size(layers);
    problem->params.layers = problem->layers;
    json_array_foreach(layers, i, entry)
    {
        if (!read_entry(problem, i, entry)) {
            return false;
        }
    }
    return true;
}

static bool read_groups(layout_problem *problem, const json_t *groups)
{
    size_t g, i, n = 0;
    const json_t *group, *value;
    if (groups && !json_is_array(groups)) {
        return layout_bad(problem, "groups: a list was expected");
    }
    json_array_foreach(groups, g, group)
    {
        if (!json_is_array(group) || json_array_size(group) == 0) {
            return layout_bad(problem, "groups[%zu]: a list of numbers of layers was expected", g);
        }
        n += json_array_size(group);
    }
    problem->group_sizes = get_memory(json_array_size(groups), sizeof *problem->group_sizes);
    problem->group_layers = get_memory(n, sizeof *problem->group_layers);
    problem->params.n_groups = (uint32_t)json_array_size(groups);
    problem->params.group_sizes = problem->group_sizes;
    problem->params.group_layers = problem->group_layers;
    n = 0;
    json_array_foreach(groups, g, group)
    {
        problem->group_sizes[g] = (uint32_t)json_array_size(group);
        json_array_foreach(group, i, value)
        {
            if (!json_is_integer(value) || json_integer_value(value) < 0 ||
                json_integer_value(value) > INT32_MAX) {
                return layout_bad(problem, "groups[%zu][%zu]: the number of a layer was expected",
                                  g, i);
            }
            problem->group_layers[n++] = (uint32_t)json_integer_value(value);
        }
    }
    return true;
}

/* ---- the whole ---- */

static bool read_names(layout_problem *problem, const json_t *json)
{
    static const char *const structures[] = {"list", "per_layer", "k_list_v_list", "cross_layer",
                                             NULL};
    const json_t *engine = member(json, "engine"), *device = member(json, "device");
    const json_t *structure = member(json, "structure");
    if (engine && !json_is_string(engine)) {
        return layout_bad(problem, "engine: a text was expected");
    }
    if (device && !json_is_string(device)) {
        return layout_bad(problem, "device: a text was expected");
    }
    if (!layout_engine_read(problem, json_string_value(engine))) {
        return false;
    }
    problem->device = device ? json_string_value(device) : "cuda";
    problem->params.on_cpu = strcmp(problem->device, "cpu") == 0;
    if (structure) {
        const int at = index_of(json_string_value(structure), structures);
        if (at < 0) {
            return layout_bad(problem, "structure: list, per_layer, k_list_v_list or cross_layer "
                                       "was expected");
        }
        problem->params.structure = (uint32_t)at;
    }
    return true;
}

static bool read_revision(layout_problem *problem, const json_t *value)
{
    static const char *const revisions[] = {"0.5.6", "seed", NULL};
    const int at = value ? index_of(json_string_value(value), revisions) : 0;
    problem->params.revision = at == 1 ? PKV_FORMAT_REVISION_SEED : PKV_FORMAT_REVISION_0_5_6;
    return at >= 0 || layout_bad(problem, "revision: 0.5.6 or seed was expected");
}

bool layout_problem_read(const json_t *json, layout_problem *out)
{
    static const char *const names[] = {"engine", "device", "structure", "revision", "groups",
                                        "ask",    "hints",  "layers",    NULL};
    bool needs_layers = false;
    memset(out, 0, sizeof *out);
    pkv_format_params_init(&out->params);
    if (!json_is_object(json)) {
        return layout_bad(out, "a JSON object was expected");
    }
    out->ask = member(json, "ask");
    if (!layout_check_names(out, "the problem", json, names) ||
        !read_revision(out, member(json, "revision")) ||
        !layout_questions_check(out, &needs_layers)) {
        return false;
    }
    const bool only_questions = json_array_size(out->ask) > 0 && !needs_layers &&
                                !member(json, "engine") &&
                                json_array_size(member(json, "layers")) == 0;
    if (only_questions) {
        return json_array_size(member(json, "groups")) == 0 ||
               layout_bad(out, "groups: without layers there is nothing to group");
    }
    return read_names(out, json) && read_hints(out, member(json, "hints")) &&
           read_layers(out, member(json, "layers")) && read_groups(out, member(json, "groups"));
}

void layout_problem_free(layout_problem *problem)
{
    free(problem->names);
    free(problem->layers);
    free(problem->views);
    free(problem->group_sizes);
    free(problem->group_layers);
}
