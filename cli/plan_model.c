/* plan_model.c  pagedkv plan MODEL: reads the model, and plans it or prints what it stands for. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plan.h"

#define MAX_TOKENS (UINT64_C(1) << 48)

/* Everything that the options of a model say. */
typedef struct model_options {
    pkv_model_params model;
    pkv_plan_params plan;
    uint64_t pp, dp, max_num_seqs;
    bool has_memory, json, derived, emit;
} model_options;

static const char *model_layer_name(const void *ctx, uint32_t layer)
{
    return pkv_model_layer_at(ctx, layer)->name;
}

static int read_length(const cli_command *command, pkv_plan_params *plan)
{
    const char *text = cli_given(command, "--max-model-len");
    if (text && strcmp(text, "auto") == 0) {
        plan->auto_fit = 1;
        return -1;
    }
    return cli_number(command, "--max-model-len", 1, MAX_TOKENS, &plan->max_model_len);
}

static int read_layout(const cli_command *command, pkv_plan_params *plan)
{
    const char *name = cli_given(command, "--layout");
    if (name && pkv_kv_layout_from_name(name, &plan->layout) != PKV_OK) {
        fprintf(stderr,
                "pagedkv: --layout \"%.40s\": NHD, HND, LBNHC, LBHNC, BLNHC, BLHNC, BHLNC or "
                "LHBNC was expected\n",
                name);
        return EXIT_INPUT;
    }
    return -1;
}

static int read_ranks(const cli_command *command, model_options *o)
{
    uint64_t tp = 1, dcp = 1, pcp = 1;
    const struct {
        const char *name;
        uint64_t *value;
    } ranks[] = {
        {"--tp", &tp}, {"--dcp", &dcp}, {"--pcp", &pcp}, {"--pp", &o->pp}, {"--dp", &o->dp}};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        const int bad = cli_number(command, ranks[i].name, 1, 65536, ranks[i].value);
        if (bad >= 0) {
            return bad;
        }
    }
    if (tp % dcp != 0) {
        fprintf(stderr, "pagedkv: --dcp %llu must divide --tp %llu\n", (unsigned long long)dcp,
                (unsigned long long)tp);
        return EXIT_INPUT;
    }
    o->plan.tp = o->model.tp = (uint32_t)tp;
    o->plan.dcp = (uint32_t)dcp;
    o->plan.pcp = (uint32_t)pcp;
    return -1;
}

static int read_options(const cli_command *command, model_options *o)
{
    int bad;
    memset(o, 0, sizeof *o);
    pkv_model_params_init(&o->model);
    pkv_plan_params_init(&o->plan);
    o->pp = o->dp = 1;
    o->max_num_seqs = 256;
    o->json = cli_has(command, "--json") || cli_has(command, "--derived");
    o->derived = cli_has(command, "--derived");
    o->emit = cli_has(command, "--emit-specs");
    o->has_memory = cli_has(command, "--memory");
    o->plan.caching = !cli_has(command, "--no-prefix-caching");
    if (cli_has(command, "--kv-dtype")) {
        o->model.cache_dtype = cli_given(command, "--kv-dtype");
    }
    if ((bad = read_ranks(command, o)) >= 0 || (bad = read_layout(command, &o->plan)) >= 0 ||
        (bad = read_length(command, &o->plan)) >= 0 ||
        (bad = cli_bytes(command, "--memory", &o->plan.available_bytes)) >= 0 ||
        (bad = cli_number(command, "--block-size", 1, PKV_SPEC_LIMIT, &o->model.block_size)) >= 0 ||
        (bad = cli_number(command, "--max-num-seqs", 1, PKV_SPEC_LIMIT, &o->max_num_seqs)) >= 0) {
        return bad;
    }
    bad = cli_number(command, "--max-num-batched-tokens", 1, MAX_TOKENS,
                     &o->plan.max_num_batched_tokens);
    if (bad < 0 && o->plan.auto_fit && !o->has_memory) {
        fprintf(stderr, "pagedkv: --max-model-len auto needs --memory\n");
        return EXIT_INPUT;
    }
    return bad;
}

/* First layer of stage s: equal shares, what is left over goes to the stages before the last, the
 * last of which first (vLLM's rule: the last stage also holds the output layer). */
static uint64_t stage_begin(uint64_t layers, uint64_t pp, uint64_t s)
{
    const uint64_t share = layers / pp, rest = layers % pp;
    uint64_t begin = 0;
    for (uint64_t i = 0; i < s; i++) {
        const bool extra = i + 1 < pp && i + 1 + rest >= pp;
        begin += share + extra;
    }
    return begin;
}

/* Pipeline stages over the decoder layers; layers without a cache take their place too. */
static pkv_plan_worker *stages_of(const model_options *o, const pkv_model *model, uint32_t *layers)
{
    const pkv_model_info *info = pkv_model_get_info(model);
    pkv_plan_worker *workers = calloc(o->pp, sizeof *workers);
    if (!workers) {
        return NULL;
    }
    for (uint32_t i = 0; i < info->n_layers; i++) {
        layers[i] = i;
    }
    uint32_t next = 0;
    for (uint64_t s = 0; s < o->pp; s++) {
        const uint64_t end = stage_begin(info->n_model_layers, o->pp, s + 1);
        workers[s].available_bytes = o->plan.available_bytes;
        workers[s].layers = layers + next;
        while (next < info->n_layers && pkv_model_layer_at(model, next)->index < end) {
            workers[s].n_layers++;
            next++;
        }
    }
    return workers;
}

static const char *certainty_name(uint32_t certainty)
{
    static const char *const names[] = {"exact", "derived", "assumed"};
    return certainty < sizeof names / sizeof *names ? names[certainty] : "assumed";
}

/* The stages as a document names them. */
static json_t *emitted_workers(const pkv_model *model, const pkv_plan_worker *workers, uint64_t n)
{
    json_t *list = json_array();
    for (uint64_t w = 0; w < n; w++) {
        json_t *worker = json_object(), *names = json_array();
        for (uint32_t i = 0; i < workers[w].n_layers; i++) {
            cli_push(names, json_string(model_layer_name(model, workers[w].layers[i])));
        }
        cli_set(worker, "available_bytes", json_integer(workers[w].available_bytes));
        cli_set(worker, "layers", names);
        cli_push(list, worker);
    }
    return list;
}

static json_t *emitted_options(const model_options *o, const pkv_model *model)
{
    json_t *options = json_object();
    cli_set(options, "tp", cli_int(o->plan.tp));
    cli_set(options, "dcp", cli_int(o->plan.dcp));
    cli_set(options, "pcp", cli_int(o->plan.pcp));
    cli_set(options, "max_num_batched_tokens", cli_int(o->plan.max_num_batched_tokens));
    cli_set(options, "max_num_seqs", cli_int(o->max_num_seqs));
    if (o->plan.auto_fit) {
        cli_set(options, "auto_fit", json_true());
    }
    if (o->plan.n_workers > 0) {
        cli_set(options, "workers", emitted_workers(model, o->plan.workers, o->plan.n_workers));
    }
    if (o->plan.layout != PKV_LAYOUT_AUTO) {
        cli_set(options, "layout", json_string(pkv_kv_layout_name(o->plan.layout)));
    }
    return options;
}

/* The document that stands for the model; it can be fed back to --specs. */
static json_t *document_of(const model_options *o, const pkv_model *model)
{
    const pkv_model_info *info = pkv_model_get_info(model);
    const pkv_spec *specs = pkv_model_specs(model);
    json_t *document = json_object(), *layers = json_array(), *sources = json_array();
    for (uint32_t i = 0; i < info->n_layers; i++) {
        const pkv_model_layer *layer = pkv_model_layer_at(model, i);
        json_t *spec = spec_json(&specs[i]), *source = json_object();
        cli_set(spec, "name", json_string(layer->name));
        cli_push(layers, spec);
        cli_set(source, "layer", json_string(layer->name));
        cli_set(source, "label", json_string(certainty_name(layer->certainty)));
        cli_set(source, "why", json_string(layer->why));
        cli_push(sources, source);
    }
    cli_set(document, "available_bytes", json_integer(o->plan.available_bytes));
    cli_set(document, "max_model_len", cli_int(o->plan.max_model_len));
    cli_set(document, "caching", json_boolean(o->plan.caching));
    cli_set(document, "options", emitted_options(o, model));
    cli_set(document, "layers", layers);
    cli_set(document, "sources", sources);
    if (info->n_no_cache > 0) {
        json_t *none = json_array();
        for (uint32_t i = 0; i < info->n_no_cache; i++) {
            cli_push(none, json_string(pkv_model_no_cache_at(model, i)));
        }
        cli_set(document, "no_cache", none);
    }
    if (info->n_sharing > 0) {
        json_t *sharing = json_object();
        for (uint32_t i = 0; i < info->n_sharing; i++) {
            const char *layer, *owner;
            pkv_model_sharing_at(model, i, &layer, &owner);
            cli_set(sharing, layer, json_string(owner));
        }
        cli_set(document, "kv_sharing", sharing);
    }
    return document;
}

/* Bytes that one token adds while every layer still grows. */
static double token_bytes(const pkv_model *model)
{
    double sum = 0;
    for (uint32_t i = 0; i < pkv_model_get_info(model)->n_layers; i++) {
        const pkv_spec *spec = &pkv_model_specs(model)[i];
        uint64_t page;
        if (spec->kind != PKV_KIND_MAMBA && pkv_spec_unpadded_page_bytes(spec, &page) == PKV_OK) {
            sum += (double)page / (double)spec->block_size;
        }
    }
    return sum;
}

static json_t *model_answer(const model_options *o, const plan_source *source,
                            const pkv_model *model, const pkv_plan *plan)
{
    const pkv_model_info *info = pkv_model_get_info(model);
    const pkv_plan_summary *s = pkv_plan_get_summary(plan);
    json_t *answer = plan_answer(source, plan);
    const pkv_worker_plan *first = pkv_plan_worker_at(plan, 0);
    cli_set(answer, "architecture", json_string(info->architecture));
    cli_set(answer, "kv_dtype", json_string(info->cache_dtype));
    cli_set(answer, "bytes_per_token", json_real(token_bytes(model)));
    cli_set(answer, "bytes_per_request", cli_int(s->blocks_per_request * first->bytes_per_block));
    if (!o->has_memory) { /* there is no budget to count blocks in */
        static const char *const of_budget[] = {"num_blocks", "tokens", "max_concurrency",
                                                "tensors", "workers"};
        for (size_t i = 0; i < sizeof of_budget / sizeof *of_budget; i++) {
            (void)json_object_del(answer, of_budget[i]);
        }
    } else {
        cli_set(answer, "dp", cli_int(o->dp));
        cli_set(answer, "tokens_all_replicas", cli_int(s->tokens * o->dp));
        cli_set(
            answer, "binds",
            json_string(s->max_concurrency > (double)o->max_num_seqs ? "max_num_seqs" : "memory"));
    }
    return answer;
}

/* Plans, and prints the plan or the refusal. */
static int print_plan(const model_options *o, const plan_source *source, const pkv_model *model)
{
    pkv_plan *plan;
    const pkv_status st = pkv_plan_create(source->params, &plan);
    const int exit_code = cli_exit_code(st);
    json_t *derived = o->derived ? plan_derived(source, plan) : NULL;
    if (o->json && (st == PKV_OK || exit_code == EXIT_NO)) {
        json_t *answer = st == PKV_OK ? model_answer(o, source, model, plan) : cli_error(st);
        if (derived) {
            cli_set(answer, "derived", json_incref(derived));
        }
        cli_print_json(answer);
        json_decref(answer);
    } else if (st == PKV_OK) {
        print_plan_screen(source, model, plan, o->has_memory, (uint32_t)o->dp);
    } else {
        fprintf(stderr, "pagedkv: %s\n", pkv_last_error());
    }
    json_decref(derived);
    pkv_plan_destroy(plan);
    return exit_code;
}

static int run(model_options *o, const pkv_model *model)
{
    const pkv_model_info *info = pkv_model_get_info(model);
    pkv_plan_worker *workers = NULL;
    if (o->pp > info->n_model_layers) {
        fprintf(stderr, "pagedkv: --pp %llu: the model has %u layers\n", (unsigned long long)o->pp,
                info->n_model_layers);
        return EXIT_INPUT;
    }
    uint32_t *layers = calloc(info->n_layers + 1u, sizeof *layers);
    o->plan.layers = pkv_model_specs(model);
    o->plan.n_layers = info->n_layers;
    if (!o->has_memory && !o->emit) {
        o->plan.available_bytes = INT64_MAX; /* for what things cost, everything fits */
    }
    if (layers && o->pp > 1) {
        workers = stages_of(o, model, layers);
    }
    if (!layers || (o->pp > 1 && !workers)) {
        free(layers);
        fprintf(stderr, "pagedkv: out of memory\n");
        return EXIT_ENVIRONMENT;
    }
    o->plan.workers = workers;
    o->plan.n_workers = workers ? (uint32_t)o->pp : 0;
    int exit_code = EXIT_DONE;
    if (o->emit) {
        json_t *document = document_of(o, model);
        cli_print_json(document);
        json_decref(document);
    } else {
        const plan_source source = {&o->plan, model_layer_name, model, o->max_num_seqs};
        exit_code = print_plan(o, &source, model);
    }
    free(workers);
    free(layers);
    return exit_code;
}

/* The config file of MODEL: the file itself, or the one in the folder. */
static char *read_config(const char *path, size_t *len)
{
    struct stat status;
    char file[4096];
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        if (snprintf(file, sizeof file, "%s/config.json", path) >= (int)sizeof file) {
            fprintf(stderr, "pagedkv: %.60s...: the path is too long\n", path);
            return NULL;
        }
        path = file;
    }
    return cli_read_file(path, len);
}

/* The options and the model that they and the path name; the exit code of what is wrong, or -1. */
static int read_model(const cli_command *command, const char *path, model_options *o,
                      pkv_model **model)
{
    size_t len;
    const int bad = read_options(command, o);
    if (bad >= 0) {
        return bad;
    }
    char *text = read_config(path, &len);
    if (!text) {
        return EXIT_ENVIRONMENT;
    }
    if (len >= 4 && memcmp(text, "GGUF", 4) == 0) {
        free(text);
        fprintf(stderr, "pagedkv: %s: GGUF files are not read yet; give the config.json\n", path);
        return EXIT_INPUT;
    }
    const pkv_status st = pkv_model_read_config(text, len, &o->model, model);
    free(text);
    if (st != PKV_OK) {
        const int exit_code = cli_exit_code(st);
        if (o->json && exit_code == EXIT_NO) {
            json_t *error = cli_error(st);
            cli_print_json(error);
            json_decref(error);
        } else {
            fprintf(stderr, "pagedkv: %s: %s\n", path, pkv_last_error());
        }
        return exit_code;
    }
    if (o->plan.max_model_len == 0) {
        o->plan.max_model_len = pkv_model_get_info(*model)->max_model_len;
    }
    if (o->plan.max_model_len == 0) {
        fprintf(stderr, "pagedkv: the config names no context length: give --max-model-len\n");
        pkv_model_destroy(*model);
        return EXIT_INPUT;
    }
    return -1;
}

int plan_model(const cli_command *command, const char *path)
{
    model_options o;
    pkv_model *model;
    int exit_code = read_model(command, path, &o, &model);
    if (exit_code < 0) {
        exit_code = run(&o, model);
        pkv_model_destroy(model);
    }
    return exit_code;
}

json_t *plan_model_document(const cli_command *command, const char *path, int *exit_code)
{
    model_options o;
    pkv_model *model;
    *exit_code = read_model(command, path, &o, &model);
    if (*exit_code >= 0) {
        return NULL;
    }
    json_t *document = document_of(&o, model);
    pkv_model_destroy(model);
    return document;
}
