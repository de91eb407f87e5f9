/* layout_ask.c  Questions about formats, layers and views. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

static const char *const whats[] = {"num_layers", "num_blocks", "block_size", "page_buffer_size",
                                    "tokens",     "num_heads",  "hidden_dim", "head_size",
                                    "elements",   "dtype",      "device",     "kv_size",
                                    "is_mla",     NULL};

static const json_t *member(const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    return json_is_null(value) ? NULL : value;
}

static bool is_count(const json_t *value, json_int_t least, json_int_t most)
{
    return json_is_integer(value) && json_integer_value(value) >= least &&
           json_integer_value(value) <= most;
}

static bool is_one_of(const char *text, const char *const *names)
{
    while (text && *names && strcmp(*names, text) != 0) {
        names++;
    }
    return text && *names;
}

/* ---- checks ---- */

static bool check_format(layout_problem *p, const json_t *q)
{
    const json_t *format = member(q, "format");
    return json_is_string(format) || is_count(format, 0, INT64_MAX) ||
           layout_bad(p, "ask: format: a name or a number was expected");
}

static bool check_text(layout_problem *p, const json_t *q)
{
    static const char *const names[] = {"nl", "nb", "bs", "nh", "hs", NULL};
    const json_t *desc = member(q, "desc");
    if (!check_format(p, q)) {
        return false;
    }
    if (!json_is_object(desc) || !layout_check_names(p, "ask: desc", desc, names)) {
        return layout_bad(p, "ask: desc: an object of nl, nb, bs, nh, hs was expected");
    }
    for (size_t i = 0; names[i]; i++) {
        if (!is_count(json_object_get(desc, names[i]), 1, INT32_MAX)) {
            return layout_bad(p, "ask: desc: %s: 1 to 2^31-1 was expected", names[i]);
        }
    }
    return true;
}

static bool check_get(layout_problem *p, const json_t *q)
{
    const json_t *layer = member(q, "layer");
    if (!is_one_of(json_string_value(member(q, "what")), whats)) {
        return layout_bad(p, "ask: what: num_layers, num_blocks, ... was expected");
    }
    return !layer || is_count(layer, 0, INT64_MAX) ||
           layout_bad(p, "ask: layer: the number of a layer was expected");
}

static bool check_ptrs(layout_problem *p, const json_t *q)
{
    const json_t *layers = member(q, "layers"), *value;
    size_t i;
    bool good = json_is_array(layers) && json_array_size(layers) > 0;
    json_array_foreach(layers, i, value)
    {
        good = good && is_count(value, 0, INT64_MAX);
    }
    return good || layout_bad(p, "ask: layers: a list of numbers of layers was expected");
}

static bool check_tensor(layout_problem *p, const json_t *q)
{
    pkv_view view;
    return layout_view_read(p, "ask: tensor", member(q, "tensor"), false, &view);
}

static bool check_views(layout_problem *p, const json_t *q)
{
    const json_t *tensors = member(q, "tensors"), *format = member(q, "format"), *tensor;
    pkv_view view;
    size_t i;
    if (!json_is_array(tensors) || json_array_size(tensors) < 1 || json_array_size(tensors) > 2) {
        return layout_bad(p, "ask: tensors: one or two tensors were expected");
    }
    json_array_foreach(tensors, i, tensor)
    {
        if (!layout_view_read(p, "ask: tensors", tensor, false, &view)) {
            return false;
        }
    }
    if (!json_is_boolean(member(q, "mla"))) {
        return layout_bad(p, "ask: mla: true or false was expected");
    }
    return !format || check_format(p, q);
}

static bool check_buffer(layout_problem *p, const json_t *q)
{
    return json_is_boolean(member(q, "enable_pd")) ||
           layout_bad(p, "ask: enable_pd: true or false was expected");
}

static bool check_connector(layout_problem *p, const json_t *q)
{
    return json_is_string(member(q, "connector")) ||
           layout_bad(p, "ask: connector: a text was expected");
}

/* ---- answers ---- */

static json_t *failed(const char *code, const char *text)
{
    json_t *answer = json_object();
    cli_set(answer, "error", json_string(text));
    cli_set(answer, "code", json_string(code));
    return answer;
}

static json_t *failed_status(pkv_status st)
{
    return failed(st == PKV_E_NOTIMPL ? "NOTIMPL" : "VALUE", pkv_last_error());
}

/* Id of a format that the revision knows; UINT64_MAX: it knows none of this name or number. */
static uint64_t format_of(const layout_problem *p, const json_t *format)
{
    uint32_t id;
    pkv_format_info info;
    if (json_is_string(format)) {
        const char *name = json_string_value(format);
        return pkv_format_from_name(p->params.revision, name, &id) == PKV_OK ? id : UINT64_MAX;
    }
    const uint64_t number = (uint64_t)json_integer_value(format);
    return pkv_format_get(p->params.revision, number, &info) == PKV_OK ? number : UINT64_MAX;
}

/* "Unknown (X)" */
static json_t *unknown(const json_t *format)
{
    if (json_is_string(format)) {
        return json_sprintf("Unknown (%s)", json_string_value(format));
    }
    return json_sprintf("Unknown (%" JSON_INTEGER_FORMAT ")", json_integer_value(format));
}

static json_t *answer_format(const layout_problem *p, const pkv_reading *reading, const json_t *q)
{
    static const char *const structures[] = {"layer_list", "kv_list", "cross_layer"};
    json_t *answer = json_object();
    pkv_format_info info;
    char text[160];
    (void)reading;
    const uint64_t id = format_of(p, member(q, "format"));
    const bool known = pkv_format_get(p->params.revision, id, &info) == PKV_OK &&
                       pkv_format_text(p->params.revision, id, NULL, text, sizeof text) == PKV_OK;
    cli_set(answer, "known", json_boolean(known));
    if (!known) {
        cli_set(answer, "shape", unknown(member(q, "format")));
        cli_set(answer, "backend", unknown(member(q, "format")));
        return answer;
    }
    cli_set(answer, "id", cli_int(id));
    cli_set(answer, "name", json_string(info.name));
    cli_set(answer, "shape", json_string(text));
    cli_set(answer, "backend", json_string(info.backend));
    cli_set(answer, "structure", json_string(structures[info.structure]));
    cli_set(answer, "is_mla", json_boolean(info.is_mla));
    cli_set(answer, "is_hnd", json_boolean(info.is_hnd));
    cli_set(answer, "kv_size", cli_int(info.kv_size));
    cli_set(answer, "block_axis", json_boolean(info.block_axis));
    cli_set(answer, "flash", json_boolean(info.flash));
    cli_set(answer, "mla_or_flash", json_boolean(info.mla_or_flash));
    return answer;
}

static uint64_t desc_member(const json_t *q, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(member(q, "desc"), name));
}

static json_t *answer_text(const layout_problem *p, const pkv_reading *reading, const json_t *q)
{
    char text[160];
    const pkv_format_sizes sizes = {desc_member(q, "nl"), desc_member(q, "nb"),
                                    desc_member(q, "bs"), desc_member(q, "nh"),
                                    desc_member(q, "hs")};
    (void)reading;
    const pkv_status st = pkv_format_text(p->params.revision, format_of(p, member(q, "format")),
                                          &sizes, text, sizeof text);
    json_t *answer = json_object();
    cli_set(answer, "text", st == PKV_OK ? json_string(text) : unknown(member(q, "format")));
    return answer;
}

static json_t *value_of(const layout_problem *p, const pkv_layout *l, const char *what)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"num_blocks", l->num_blocks},   {"block_size", l->block_size},
                   {"page_buffer_size", l->tokens}, {"tokens", l->tokens},
                   {"num_heads", l->num_heads},     {"hidden_dim", l->hidden_dim},
                   {"head_size", l->head_size},     {"elements", l->elements},
                   {"kv_size", l->kv_size}};
    if (strcmp(what, "dtype") == 0) {
        return json_string(pkv_dtype_name(l->dtype));
    }
    if (strcmp(what, "device") == 0) {
        return json_string(p->device);
    }
    if (strcmp(what, "is_mla") == 0) {
        return json_boolean(l->is_mla);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(numbers[i].name, what) == 0) {
            return numbers[i].value ? cli_int(numbers[i].value) : NULL;
        }
    }
    return NULL;
}

static json_t *answer_get(const layout_problem *p, const pkv_reading *reading, const json_t *q)
{
    const char *what = json_string_value(member(q, "what"));
    const uint64_t layer = (uint64_t)json_integer_value(member(q, "layer"));
    const pkv_layout *l = layer < UINT32_MAX ? pkv_reading_layer(reading, (uint32_t)layer) : NULL;
    json_t *answer, *value;
    if (strcmp(what, "num_layers") == 0) {
        value = cli_int(pkv_reading_n_layers(reading));
    } else if (!l || !l->known) {
        return failed("INDEX", "get: no such layer, or it is in no group");
    } else {
        value = value_of(p, l, what);
    }
    if (!value) {
        return failed("VALUE", "get: the format has no block axis");
    }
    answer = json_object();
    cli_set(answer, "value", value);
    return answer;
}

static json_t *answer_ptrs(const layout_problem *p, const pkv_reading *reading, const json_t *q)
{
    const json_t *layers = member(q, "layers");
    const size_t n = json_array_size(layers);
    uint32_t *numbers = malloc(n * sizeof *numbers), n_out = 0;
    pkv_tensor_pointer *pointers = malloc(n * PKV_LAYOUT_MAX_TENSORS * sizeof *pointers);
    json_t *answer = NULL;
    (void)p;
    if (!numbers || !pointers) {
        fprintf(stderr, "pagedkv: out of memory\n");
        exit(EXIT_ENVIRONMENT);
    }
    for (size_t i = 0; i < n; i++) {
        const json_int_t number = json_integer_value(json_array_get(layers, i));
        numbers[i] = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    }
    const pkv_status st = pkv_reading_pointers(reading, numbers, (uint32_t)n, pointers, &n_out);
    if (st == PKV_OK) {
        answer = json_object();
        cli_set(answer, "data_ptrs", layout_pointers(pointers, n_out));
    }
    free(numbers);
    free(pointers);
    if (st == PKV_E_NOT_FOUND) {
        return failed("INDEX", "ptrs: no such layer, or it is in no group");
    }
    return st == PKV_OK ? answer : failed_status(st);
}

static pkv_view view_of(const json_t *json)
{
    layout_problem unused; /* the tensor has been checked */
    pkv_view view;
    (void)layout_view_read(&unused, "ask", json, false, &view);
    return view;
}

static json_t *view_json(const pkv_view *v)
{
    json_t *json = json_object(), *shape = json_array(), *strides = json_array();
    for (uint32_t i = 0; i < v->rank; i++) {
        cli_push(shape, cli_int(v->shape[i]));
        cli_push(strides, cli_int(v->strides[i]));
    }
    cli_set(json, "shape", shape);
    cli_set(json, "strides", strides);
    cli_set(json, "offset", cli_int(v->offset));
    return json;
}

static json_t *answer_split(const layout_problem *p, const pkv_reading *reading, const json_t *q)
{
    const pkv_view view = view_of(member(q, "tensor"));
    pkv_view kv[2];
    (void)p, (void)reading;
    const pkv_status st = pkv_view_split(&view, kv);
    if (st != PKV_OK) {
        return failed_status(st);
    }
    json_t *answer = json_object();
    cli_set(answer, "k", view_json(&kv[0]));
    cli_set(answer, "v", view_json(&kv[1]));
    return answer;
}

static json_t *rows_json(const pkv_token_rows *r)
{
    json_t *json = json_object();
    cli_set(json, "tokens", cli_int(r->tokens));
    cli_set(json, "row", cli_int(r->row));
    cli_set(json, "offset", cli_int(r->offset));
    cli_set(json, "block_size", cli_int(r->block_size));
    cli_set(json, "token_pitch", cli_int(r->token_pitch));
    cli_set(json, "block_pitch", cli_int(r->block_pitch));
    cli_set(json, "flat", json_boolean(r->flat));
    return json;
}

static json_t *answer_rows(const layout_problem *p, const pkv_reading *reading, const json_t *q)
{
    const json_t *tensors = member(q, "tensors"), *format = member(q, "format");
    const uint32_t n_views = (uint32_t)json_array_size(tensors);
    pkv_view views[2];
    pkv_token_rows rows[2];
    uint32_t n;
    (void)reading;
    for (uint32_t i = 0; i < n_views; i++) {
        views[i] = view_of(json_array_get(tensors, i));
    }
    uint64_t id = format ? format_of(p, format) : PKV_ANY_FORMAT;
    if (format && id == UINT64_MAX) {
        id = PKV_N_FORMATS; /* unknown, not absent */
    }
    const pkv_status st =
        pkv_view_token_rows(views, n_views, json_is_true(member(q, "mla")), id, rows, &n);
    if (st != PKV_OK) {
        return failed_status(st);
    }
    json_t *answer = json_object(), *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        cli_push(list, rows_json(&rows[i]));
    }
    cli_set(answer, "views", list);
    return answer;
}

static json_t *yes(const char *name, bool value)
{
    json_t *answer = json_object();
    cli_set(answer, name, json_boolean(value));
    return answer;
}

static json_t *answer_contiguous(const layout_problem *p, const pkv_reading *reading,
                                 const json_t *q)
{
    const pkv_view view = view_of(member(q, "tensor"));
    (void)p, (void)reading;
    const pkv_status st = pkv_view_check_contiguous(&view);
    return st == PKV_OK ? yes("ok", true) : failed_status(st);
}

static json_t *answer_buffer(const layout_problem *p, const pkv_reading *reading, const json_t *q)
{
    (void)p, (void)reading;
    return yes("needed", pkv_format_needs_buffer(json_is_true(member(q, "enable_pd"))));
}

static json_t *answer_connector(const layout_problem *p, const pkv_reading *reading,
                                const json_t *q)
{
    (void)reading;
    return yes("ok", pkv_format_connector_is_layerwise(p->params.revision,
                                                       json_string_value(member(q, "connector"))));
}

static const struct {
    const char *name;
    const char *fields[5];
    bool (*check)(layout_problem *problem, const json_t *q);
    json_t *(*answer)(const layout_problem *problem, const pkv_reading *reading, const json_t *q);
    bool needs_layers;
} questions[] = {
    {"format", {"q", "format"}, check_format, answer_format, false},
    {"text", {"q", "format", "desc"}, check_text, answer_text, false},
    {"get", {"q", "what", "layer"}, check_get, answer_get, true},
    {"ptrs", {"q", "layers"}, check_ptrs, answer_ptrs, true},
    {"split", {"q", "tensor"}, check_tensor, answer_split, false},
    {"head_view", {"q", "tensors", "mla", "format"}, check_views, answer_rows, false},
    {"contiguous", {"q", "tensor"}, check_tensor, answer_contiguous, false},
    {"interm_buffer", {"q", "enable_pd"}, check_buffer, answer_buffer, false},
    {"layerwise", {"q", "connector"}, check_connector, answer_connector, false},
};

/* Index of a question's kind; COUNT: there is none of this name. */
static size_t kind_of(const json_t *q)
{
    const char *name = json_string_value(member(q, "q"));
    size_t i = 0;
    while (i < sizeof questions / sizeof *questions &&
           (!name || strcmp(questions[i].name, name) != 0)) {
        i++;
    }
    return i;
}

bool layout_questions_check(layout_problem *problem, bool *needs_layers_out)
{
    size_t i;
    const json_t *q;
    *needs_layers_out = false;
    if (problem->ask && !json_is_array(problem->ask)) {
        return layout_bad(problem, "ask: a list was expected");
    }
    json_array_foreach(problem->ask, i, q)
    {
        const size_t kind = kind_of(q);
        if (kind == sizeof questions / sizeof *questions) {
            return layout_bad(problem,
                              "ask[%zu]: q: format, text, get, ptrs, split, head_view, "
                              "contiguous, interm_buffer or layerwise was expected",
                              i);
        }
        if (!layout_check_names(problem, "ask", q, questions[kind].fields) ||
            !questions[kind].check(problem, q)) {
            return false;
        }
        *needs_layers_out = *needs_layers_out || questions[kind].needs_layers;
    }
    return true;
}

json_t *layout_answers(const layout_problem *problem, const pkv_reading *reading)
{
    json_t *answers = json_array();
    size_t i;
    const json_t *q;
    json_array_foreach(problem->ask, i, q)
    {
        cli_push(answers, questions[kind_of(q)].answer(problem, reading, q));
    }
    return answers;
}
