/* options.c  The options of a plan document. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "model/document.h"

#define MAX_TOKENS (UINT64_C(1) << 48)
#define MAX_RANKS 65536u

static pkv_status read_u32(const pkvi_json_at *at, const char *name, uint32_t min, uint32_t max,
                           uint32_t *out)
{
    uint64_t value = *out;
    PKVI_RETURN_IF(pkvi_json_opt_u64(at, name, min, max, &value));
    *out = (uint32_t)value;
    return PKV_OK;
}

static pkv_status read_flag(const pkvi_json_at *at, const char *name, uint8_t *out)
{
    bool value = *out;
    PKVI_RETURN_IF(pkvi_json_opt_bool(at, name, &value));
    *out = value;
    return PKV_OK;
}

static pkv_status read_layout(const pkvi_json_at *at, uint32_t *out)
{
    const char *name = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_text(at, "layout", &name));
    if (name && pkv_kv_layout_from_name(name, out) != PKV_OK) {
        pkvi_quoted quoted;
        return pkvi_fail(PKV_E_VALUE,
                         "%s: options: layout %s is not one of LBNHC, LBHNC, BLNHC, "
                         "BLHNC, BHLNC, LHBNC, NHD, HND",
                         at->function, pkvi_quote(name, &quoted));
    }
    return PKV_OK;
}

static pkv_status read_revision(const pkvi_json_at *at, uint32_t *out)
{
    const char *name = "0.33";
    PKVI_RETURN_IF(pkvi_json_opt_text(at, "revision", &name));
    if (strcmp(name, "0.33") != 0 && strcmp(name, "seed") != 0) {
        return pkvi_json_bad(at, "revision", pkvi_json_get(at, "revision"), "\"0.33\" or \"seed\"");
    }
    *out = strcmp(name, "seed") == 0 ? PKV_REVISION_SEED : PKV_REVISION_0_33;
    return PKV_OK;
}

static pkv_status read_speculative(pkv_document *doc, const pkvi_json_at *options)
{
    static const char *const names[] = {"method", "tokens", "block_drop", "lookahead_hashes"};
    static const char *const methods[] = {
        [PKV_DRAFT_EAGLE] = "eagle",         [PKV_DRAFT_MTP] = "mtp",
        [PKV_DRAFT_MTP_MULTI] = "mtp_multi", [PKV_DRAFT_DFLASH] = "dflash",
        [PKV_DRAFT_MODEL] = "draft_model",   [PKV_DRAFT_NGRAM] = "ngram"};
    pkv_plan_params *p = &doc->params;
    json_t *object = NULL;
    const char *method;
    uint64_t tokens;
    PKVI_RETURN_IF(pkvi_json_opt_object(options, "speculative", &object));
    if (!object) {
        return PKV_OK;
    }
    const pkvi_json_at at = {options->function, "options.speculative", object};
    PKVI_RETURN_IF(pkvi_json_check_names(&at, names, sizeof names / sizeof *names));
    PKVI_RETURN_IF(pkvi_json_text(&at, "method", &method));
    p->draft_method = PKV_DRAFT_NONE;
    for (uint32_t i = PKV_DRAFT_EAGLE; i <= PKV_DRAFT_NGRAM; i++) {
        if (strcmp(methods[i], method) == 0) {
            p->draft_method = i;
        }
    }
    if (p->draft_method == PKV_DRAFT_NONE) {
        return pkvi_json_bad(&at, "method", pkvi_json_get(&at, "method"),
                             "eagle, mtp, mtp_multi, dflash, draft_model or ngram");
    }
    PKVI_RETURN_IF(pkvi_json_u64(&at, "tokens", 0, 65536, &tokens));
    p->draft_tokens = (uint32_t)tokens;
    PKVI_RETURN_IF(read_flag(&at, "block_drop", &p->draft_block_drop));
    return read_flag(&at, "lookahead_hashes", &p->draft_lookahead_hashes);
}

static pkv_status read_hisparse(pkv_document *doc, const pkvi_json_at *options)
{
    static const char *const names[] = {"host_bytes", "device_buffer_rows", "index_topk"};
    pkv_plan_params *p = &doc->params;
    json_t *object = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_object(options, "hisparse", &object));
    if (!object) {
        return PKV_OK;
    }
    const pkvi_json_at at = {options->function, "options.hisparse", object};
    PKVI_RETURN_IF(pkvi_json_check_names(&at, names, sizeof names / sizeof *names));
    PKVI_RETURN_IF(pkvi_json_u64(&at, "host_bytes", 0, PKVI_SIZE_MAX, &p->hisparse_host_bytes));
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(&at, "device_buffer_rows", 1, PKV_SPEC_LIMIT, &p->hisparse_device_rows));
    p->hisparse = 1;
    return pkvi_json_opt_u64(&at, "index_topk", 1, PKV_SPEC_LIMIT, &p->hisparse_index_topk);
}

static pkv_status read_worker(pkv_document *doc, const pkvi_json_at *at, const json_t *index,
                              pkv_plan_worker *out)
{
    static const char *const names[] = {"available_bytes", "layers"};
    json_t *layers = NULL;
    PKVI_RETURN_IF(pkvi_json_check_object(at));
    PKVI_RETURN_IF(pkvi_json_check_names(at, names, sizeof names / sizeof *names));
    const json_t *budget = pkvi_json_get(at, "available_bytes");
    if (!json_is_integer(budget)) {
        return pkvi_json_bad(at, "available_bytes", budget, "an integer");
    }
    PKVI_RETURN_IF(pkvi_json_opt_array(at, "layers", &layers));
    const size_t n = layers ? json_array_size(layers) : 0;
    uint32_t *numbers = pkvi_arena_get(&doc->arena, n, sizeof *numbers);
    if (!numbers) {
        return pkvi_document_no_memory();
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(layers, i);
        const json_t *number =
            json_is_string(name) ? json_object_get(index, json_string_value(name)) : NULL;
        if (!number) {
            return pkvi_json_bad(at, "layers", name, "names of layers");
        }
        numbers[i] = (uint32_t)json_integer_value(number);
    }
    if (n > doc->params.n_layers) {
        return pkvi_json_bad(at, "layers", layers, "each layer once");
    }
    *out = (pkv_plan_worker){
        .available_bytes = json_integer_value(budget), .layers = numbers, .n_layers = (uint32_t)n};
    return PKV_OK;
}

static pkv_status read_workers(pkv_document *doc, const pkvi_json_at *options, const json_t *index)
{
    json_t *array = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_array(options, "workers", &array));
    const size_t n = array ? json_array_size(array) : 0;
    if (n == 0 || !index) {
        return PKV_OK;
    }
    if (n > MAX_RANKS) {
        return pkvi_json_bad(options, "workers", array, "at most 65536 stages");
    }
    pkv_plan_worker *workers = pkvi_arena_get(&doc->arena, n, sizeof *workers);
    if (!workers) {
        return pkvi_document_no_memory();
    }
    for (size_t i = 0; i < n; i++) {
        char where[64];
        (void)snprintf(where, sizeof where, "options.workers[%zu]", i);
        const pkvi_json_at at = {options->function, where, json_array_get(array, i)};
        PKVI_RETURN_IF(read_worker(doc, &at, index, &workers[i]));
    }
    doc->params.workers = workers;
    doc->params.n_workers = (uint32_t)n;
    return PKV_OK;
}

static pkv_status read_numbers(pkv_document *doc, const pkvi_json_at *at)
{
    pkv_plan_params *p = &doc->params;
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(at, "num_blocks_override", 0, PKVI_SIZE_MAX, &p->num_blocks_override));
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(at, "max_num_batched_tokens", 1, MAX_TOKENS, &p->max_num_batched_tokens));
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(at, "max_num_seqs", 1, PKV_SPEC_LIMIT, &doc->settings.max_num_seqs));
    PKVI_RETURN_IF(pkvi_json_opt_u64(at, "max_concurrent_batches", 1, PKV_SPEC_LIMIT,
                                     &p->max_concurrent_batches));
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(at, "max_encoder_tokens", 0, MAX_TOKENS, &p->max_encoder_tokens));
    PKVI_RETURN_IF(read_u32(at, "dcp", 1, MAX_RANKS, &p->dcp));
    PKVI_RETURN_IF(read_u32(at, "pcp", 1, MAX_RANKS, &p->pcp));
    return read_u32(at, "tp", 1, MAX_RANKS, &p->tp);
}

pkv_status pkvi_read_options(pkv_document *doc, const json_t *options, const json_t *names)
{
    static const char *const known[] = {"enable_hybrid",
                                        "layout",
                                        "num_blocks_override",
                                        "max_num_batched_tokens",
                                        "max_num_seqs",
                                        "max_concurrent_batches",
                                        "dcp",
                                        "pcp",
                                        "tp",
                                        "speculative",
                                        "auto_fit",
                                        "max_encoder_tokens",
                                        "hisparse",
                                        "workers",
                                        "revision"};
    const pkvi_json_at at = {PKVI_DOCUMENT_READ, "options", options};
    if (!options) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkvi_json_check_names(&at, known, sizeof known / sizeof *known));
    PKVI_RETURN_IF(read_revision(&at, &doc->params.revision));
    PKVI_RETURN_IF(read_numbers(doc, &at));
    PKVI_RETURN_IF(read_flag(&at, "enable_hybrid", &doc->params.enable_hybrid));
    PKVI_RETURN_IF(read_flag(&at, "auto_fit", &doc->params.auto_fit));
    PKVI_RETURN_IF(read_speculative(doc, &at));
    PKVI_RETURN_IF(read_hisparse(doc, &at));
    PKVI_RETURN_IF(read_workers(doc, &at, names));
    return read_layout(&at, &doc->params.layout);
}
