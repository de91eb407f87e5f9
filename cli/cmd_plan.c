/* cmd_plan.c  pagedkv plan: a model or a document of layer specs in, the cache's plan out. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static const char *document_layer_name(const void *ctx, uint32_t layer)
{
    return pkv_document_layer_name(ctx, layer);
}

static plan_source source_of(const pkv_document *doc)
{
    return (plan_source){pkv_document_params(doc), document_layer_name, doc,
                         pkv_document_get_settings(doc)->max_num_seqs};
}

/* The answer to a plan document, with derived quantities beside a plan or a refusal. */
static json_t *answer_plan(const pkv_document *doc, bool derived, int *exit_code)
{
    const plan_source source = source_of(doc);
    pkv_plan *plan;
    const pkv_status st = pkv_plan_create(source.params, &plan);
    json_t *answer = st == PKV_OK ? plan_answer(&source, plan) : cli_error(st);
    if (derived && (st == PKV_OK || cli_exit_code(st) == EXIT_NO)) {
        json_t *extra = plan_derived(&source, plan);
        if (extra) {
            cli_set(answer, "derived", extra);
        }
    }
    pkv_plan_destroy(plan);
    *exit_code = cli_exit_code(st);
    return answer;
}

static json_t *answer_text(const char *text, size_t len, bool derived, int *exit_code)
{
    pkv_document *doc;
    const pkv_status st = pkv_document_read(text, len, NULL, &doc);
    if (st != PKV_OK) {
        *exit_code = cli_exit_code(st);
        return cli_error(st);
    }
    json_t *answer = pkv_document_get_kind(doc) == PKV_DOCUMENT_PLAN
                         ? answer_plan(doc, derived, exit_code)
                         : answer_question(doc, exit_code);
    pkv_document_destroy(doc);
    return answer;
}

/* One document a line; an answer for each, errors included, until the end of input. */
static int plan_lines(bool derived)
{
    char *line = NULL;
    size_t room = 0, len = 0;
    while (cli_read_line(stdin, &line, &room, &len)) {
        int exit_code;
        json_t *answer = answer_text(line, len, derived, &exit_code);
        cli_print_json(answer);
        json_decref(answer);
    }
    free(line);
    return EXIT_DONE;
}

static int print_answer(json_t *answer, int exit_code)
{
    const json_t *error = json_object_get(answer, "error");
    if (error && exit_code != EXIT_NO) { /* not an answer: nothing on stdout */
        fprintf(stderr, "pagedkv: %s\n", json_string_value(error));
    } else {
        cli_print_json(answer);
    }
    json_decref(answer);
    return exit_code;
}

static int screen_of_document(const char *text, size_t len)
{
    pkv_document *doc;
    pkv_plan *plan = NULL;
    pkv_status st = pkv_document_read(text, len, NULL, &doc);
    if (st == PKV_OK) {
        const plan_source source = source_of(doc);
        st = pkv_plan_create(source.params, &plan);
        if (st == PKV_OK) {
            print_plan_screen(&source, NULL, plan, true, 1);
        }
    }
    if (st != PKV_OK) {
        fprintf(stderr, "pagedkv: %s\n", pkv_last_error());
    }
    pkv_plan_destroy(plan);
    pkv_document_destroy(doc);
    return cli_exit_code(st);
}

/* Documents that ask for less than a plan have no screen: they always answer JSON. */
static bool is_question(const char *text, size_t len)
{
    pkv_document *doc;
    if (pkv_document_read(text, len, NULL, &doc) != PKV_OK) {
        return false;
    }
    const bool question = pkv_document_get_kind(doc) != PKV_DOCUMENT_PLAN;
    pkv_document_destroy(doc);
    return question;
}

static int plan_specs(const char *path, bool json, bool derived)
{
    size_t len;
    int exit_code;
    if (strcmp(path, "-") == 0) {
        return plan_lines(derived);
    }
    char *text = cli_read_file(path, &len);
    if (!text) {
        return EXIT_ENVIRONMENT;
    }
    if (json || derived || is_question(text, len)) {
        json_t *answer = answer_text(text, len, derived, &exit_code);
        exit_code = print_answer(answer, exit_code);
    } else {
        exit_code = screen_of_document(text, len);
    }
    free(text);
    return exit_code;
}

/* Options that only make sense for a model: a document says these things itself. */
static const char *model_only(const cli_command *command)
{
    for (const cli_option *o = command->options; o->name; o++) {
        const bool shared = strcmp(o->name, "--specs") == 0 || strcmp(o->name, "--json") == 0 ||
                            strcmp(o->name, "--derived") == 0;
        if (o->given && !shared) {
            return o->name;
        }
    }
    return NULL;
}

int cmd_plan(int argc, char **argv)
{
    cli_option options[] = {
        {"--specs", "FILE|-", "a document of layer specs instead of a model; -: one a line", NULL},
        {"--json", NULL, "one JSON document on stdout", NULL},
        {"--derived", NULL, "add every derived quantity (implies --json)", NULL},
        {"--emit-specs", NULL, "print the document that the model stands for", NULL},
        {"--memory", "BYTES|GiB", "KV bytes per device; without it: what a token costs", NULL},
        {"--block-size", "N", "tokens per block (16)", NULL},
        {"--kv-dtype", "NAME", "cache dtype: auto, fp8, int8_per_token_head, ...", NULL},
        {"--max-model-len", "N|auto", "longest request (the model's); auto: what fits", NULL},
        {"--max-num-seqs", "N", "requests that run at once (256)", NULL},
        {"--max-num-batched-tokens", "N", "tokens of one step (8192)", NULL},
        {"--tp", "N", "tensor-parallel ranks (1)", NULL},
        {"--pp", "N", "pipeline stages (1)", NULL},
        {"--dp", "N", "data-parallel replicas (1)", NULL},
        {"--dcp", "N", "decode context-parallel ranks, within tp (1)", NULL},
        {"--pcp", "N", "prefill context-parallel ranks (1)", NULL},
        {"--layout", "NAME", "physical order of the axes: NHD, HND, LBNHC, BLHNC, ...", NULL},
        {"--no-prefix-caching", NULL, "plan without prefix caching", NULL},
        {NULL, NULL, NULL, NULL},
    };
    const char *operands[1];
    cli_command command = {
        "pagedkv plan MODEL [OPTION...]\n"
        "       pagedkv plan --specs FILE|- [--json] [--derived]",
        "Plans the KV cache of MODEL (a config.json or a folder holding one) or of a "
        "document of\nlayer specs: groups, pages, blocks, tokens, concurrency.",
        options,
        operands,
        0,
        1};
    const int done = cli_parse(&command, argc, argv);
    if (done >= 0) {
        return done;
    }
    const char *specs = cli_given(&command, "--specs");
    if ((specs != NULL) == (command.n_operands == 1)) {
        fprintf(stderr, "pagedkv: plan needs a MODEL or --specs FILE, and not both\n");
        return EXIT_INPUT;
    }
    if (!specs) {
        return plan_model(&command, operands[0]);
    }
    const char *stray = model_only(&command);
    if (stray) {
        fprintf(stderr, "pagedkv: %s is for a MODEL; with --specs the document says it\n", stray);
        return EXIT_INPUT;
    }
    return plan_specs(specs, cli_has(&command, "--json"), cli_has(&command, "--derived"));
}
