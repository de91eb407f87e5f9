/* plan_question.c  Answers to documents that ask for less than a plan. */
#include <stdlib.h>

#include "plan.h"

/* Pointers to the document's specs, as the calls on several specs want them. */
static const pkv_spec **pointers(const pkv_plan_params *p)
{
    const pkv_spec **list = malloc(sizeof *list * (p->n_layers + 1u));
    for (uint32_t i = 0; list && i < p->n_layers; i++) {
        list[i] = &p->layers[i];
    }
    return list;
}

static json_t *refusal(pkv_status st, int *exit_code)
{
    *exit_code = cli_exit_code(st);
    return cli_error(st);
}

static json_t *answer_merge(const pkv_document *doc, int *exit_code)
{
    const pkv_plan_params *p = pkv_document_params(doc);
    const pkv_spec **specs = pointers(p);
    pkv_spec merged;
    const pkv_status st = specs ? pkv_specs_merge(specs, p->n_layers, &merged) : PKV_E_NOMEM;
    free((void *)specs);
    if (st != PKV_OK) {
        return refusal(st, exit_code);
    }
    json_t *answer = json_object();
    cli_set(answer, "spec", spec_json(&merged));
    return answer;
}

static json_t *truth(pkv_status st, bool value)
{
    return st == PKV_OK ? json_boolean(value) : cli_quantity(st, 0);
}

static json_t *answer_uniform(const pkv_document *doc, int *exit_code)
{
    const pkv_plan_params *p = pkv_document_params(doc);
    const pkv_spec **specs = pointers(p);
    const size_t n = p->n_layers;
    pkv_limits limits;
    bool mergeable = false, uniform = false;
    uint64_t value = 0;
    pkv_status st = specs ? pkv_plan_params_limits(p, &limits) : PKV_E_NOMEM;
    if (st != PKV_OK) {
        free((void *)specs);
        return refusal(st, exit_code);
    }
    json_t *answer = json_object();
    st = pkv_specs_mergeable(specs, n, &mergeable);
    cli_set(answer, "mergeable", truth(st, mergeable));
    st = pkv_specs_uniform_type(specs, n, &uniform);
    cli_set(answer, "uniform_type", truth(st, uniform));
    if (st == PKV_OK && uniform) {
        put_uniform_quantities(answer, specs, n, &limits);
        cli_set(answer, "spec_kind", json_string(pkv_uniform_kind_name(specs, n)));
        st = pkv_uniform_layers_per_page_size(specs, n, &value);
        cli_set(answer, "layers_per_page_size", cli_quantity(st, value));
        st = pkv_uniform_max_pages(specs, n, &limits, &value);
        cli_set(answer, "max_pages", cli_quantity(st, value));
    }
    free((void *)specs);
    return answer;
}

static json_t *answer_resize(const pkv_document *doc, int *exit_code)
{
    const pkv_plan_params *p = pkv_document_params(doc);
    pkv_limits limits;
    pkv_spec resized;
    pkv_status st =
        pkv_spec_resize(&p->layers[0], pkv_document_get_question(doc)->block_size, &resized);
    if (st == PKV_OK) {
        st = pkv_plan_params_limits(p, &limits);
    }
    if (st != PKV_OK) {
        return refusal(st, exit_code);
    }
    json_t *answer = json_object();
    cli_set(answer, "spec", spec_json(&resized));
    put_quantities(answer, &resized, &limits);
    return answer;
}

static json_t *answer_views(const pkv_document *doc, int *exit_code)
{
    const pkv_document_question *q = pkv_document_get_question(doc);
    const pkv_spec *spec = &pkv_document_params(doc)->layers[0];
    pkv_kv_view view;
    const pkv_status st = q->block_stride == 0
                              ? pkv_kv_view_dense(spec, q->layout, q->num_blocks, q->num_layers,
                                                  q->kernel_block_size, &view)
                              : pkv_kv_view_placed(spec, q->layout, q->num_blocks, q->num_layers,
                                                   q->kernel_block_size, q->layer_stride,
                                                   q->block_stride, q->offset, &view);
    if (st != PKV_OK) {
        return refusal(st, exit_code);
    }
    json_t *answer = json_object(), *shape = json_array(), *strides = json_array();
    for (int i = 0; i < 5; i++) {
        cli_push(shape, cli_int(view.shape[i]));
        cli_push(strides, cli_int(view.strides[i]));
    }
    cli_set(answer, "shape", shape);
    cli_set(answer, "strides", strides);
    cli_set(answer, "offset", cli_int(view.offset));
    return answer;
}

static json_t *answer_quant_mode(const pkv_document *doc, int *exit_code)
{
    uint32_t mode;
    const pkv_status st =
        pkv_quant_mode_of_cache_dtype(pkv_document_get_question(doc)->text, &mode);
    if (st != PKV_OK) {
        return refusal(st, exit_code);
    }
    json_t *answer = json_object();
    cli_set(answer, "mode", json_string(pkv_quant_mode_name(mode)));
    cli_set(answer, "quantized", json_boolean(mode != PKV_QUANT_NONE));
    cli_set(answer, "per_token_head", json_boolean(pkv_quant_mode_is_per_token_head(mode)));
    cli_set(answer, "nvfp4", json_boolean(mode == PKV_QUANT_NVFP4));
    cli_set(answer, "turboquant", json_boolean(pkv_quant_mode_is_turboquant(mode)));
    cli_set(answer, "ultraquant", json_boolean(mode == PKV_QUANT_ULTRAQUANT_4BIT));
    cli_set(answer, "octave", json_boolean(pkv_quant_mode_is_octave(mode)));
    return answer;
}

static json_t *answer_layout_of(const pkv_document *doc)
{
    const uint32_t layout = pkv_document_get_question(doc)->layout;
    const char *order = pkv_kv_layout_name(layout);
    char layer_order[8] = "";
    for (size_t i = 0, n = 0; order[i]; i++) {
        if (order[i] != 'L') {
            layer_order[n++] = order[i];
        }
    }
    json_t *answer = json_object();
    cli_set(answer, "order", json_string(order));
    cli_set(answer, "layer_order", json_string(layer_order));
    cli_set(answer, "layer_compact", json_boolean(pkv_kv_layout_is_layer_compact(layout)));
    cli_set(answer, "block_contiguous", json_boolean(pkv_kv_layout_is_block_contiguous(layout)));
    cli_set(answer, "block_compact", json_boolean(pkv_kv_layout_is_block_compact(layout)));
    cli_set(answer, "block_outermost", json_boolean(pkv_kv_layout_is_block_outermost(layout)));
    return answer;
}

json_t *answer_question(const pkv_document *doc, int *exit_code)
{
    *exit_code = EXIT_DONE;
    switch (pkv_document_get_kind(doc)) {
    case PKV_DOCUMENT_MERGE: return answer_merge(doc, exit_code);
    case PKV_DOCUMENT_UNIFORM: return answer_uniform(doc, exit_code);
    case PKV_DOCUMENT_RESIZE: return answer_resize(doc, exit_code);
    case PKV_DOCUMENT_VIEWS: return answer_views(doc, exit_code);
    case PKV_DOCUMENT_QUANT_MODE: return answer_quant_mode(doc, exit_code);
    default: return answer_layout_of(doc);
    }
}
