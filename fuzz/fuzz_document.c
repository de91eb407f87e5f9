/* fuzz_document.c  Any bytes as a plan document: read or refused with a text, and what was read is
 * answered or refused with a text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <pkv/document.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) abort();
}

static void check_status(pkv_status st)
{
    require(st == PKV_OK || st == PKV_E_NOT_FOUND || pkv_last_error()[0] != '\0');
}

/* Every entry of the tables can be reached, and tensors begin inside their buffers. */
static void walk(const pkv_plan *plan)
{
    const pkv_plan_summary *summary = pkv_plan_get_summary(plan);
    for (uint32_t w = 0; w < summary->n_workers; w++) {
        const pkv_worker_plan *worker = pkv_plan_worker_at(plan, w);
        for (uint32_t i = 0; i < worker->n_groups; i++) {
            require(pkv_plan_group_at(plan, w, i) != NULL);
        }
        for (uint32_t i = 0; i < worker->n_tensors; i++) {
            const pkv_tensor *tensor = pkv_plan_tensor_at(plan, w, i);
            require(tensor->offset <= tensor->size && tensor->group < worker->n_groups);
        }
    }
}

static void plan_layers(const pkv_document *doc)
{
    pkv_plan *plan;
    pkv_status st = pkv_plan_create(pkv_document_params(doc), &plan);
    require((st == PKV_OK) == (plan != NULL));
    check_status(st);
    if (plan) {
        walk(plan);
        check_status(pkv_plan_check_retention(plan));
    }
    pkv_plan_destroy(plan);
}

static void join_layers(const pkv_plan_params *params)
{
    const pkv_spec **specs = malloc(params->n_layers * sizeof *specs);
    pkv_spec merged;
    bool answer;
    uint64_t pages;
    require(specs != NULL);
    for (uint32_t i = 0; i < params->n_layers; i++) {
        specs[i] = &params->layers[i];
    }
    check_status(pkv_specs_merge(specs, params->n_layers, &merged));
    check_status(pkv_specs_uniform_type(specs, params->n_layers, &answer));
    check_status(pkv_uniform_page_bytes(specs, params->n_layers, &pages));
    free(specs);
}

/* What any reader of a spec may ask of it. */
static void ask_layer(const pkv_spec *spec, const pkv_document_question *question)
{
    char text[2048];
    size_t len;
    uint64_t bytes;
    pkv_spec resized;
    pkv_kv_view view;
    check_status(pkv_spec_to_json(spec, text, sizeof text, &len));
    check_status(pkv_spec_page_bytes(spec, &bytes));
    check_status(pkv_spec_resize(spec, question->block_size, &resized));
    check_status(pkv_kv_view_dense(spec, question->layout, question->num_blocks,
                                   question->num_layers, question->kernel_block_size, &view));
    check_status(pkv_kv_view_placed(spec, question->layout, question->num_blocks,
                                    question->num_layers, question->kernel_block_size,
                                    question->layer_stride, question->block_stride,
                                    question->offset, &view));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pkv_document *doc;
    pkv_status st = pkv_document_read((const char *)data, size, NULL, &doc);
    require((st == PKV_OK) == (doc != NULL));
    if (st != PKV_OK) {
        require(pkv_last_error()[0] != '\0');
        return 0;
    }
    const pkv_plan_params *params = pkv_document_params(doc);
    if (pkv_document_get_kind(doc) == PKV_DOCUMENT_PLAN) {
        plan_layers(doc);
    } else if (params->n_layers != 0) {
        join_layers(params);
    }
    for (uint32_t i = 0; i < params->n_layers; i++) {
        ask_layer(&params->layers[i], pkv_document_get_question(doc));
    }
    pkv_document_destroy(doc);
    return 0;
}
