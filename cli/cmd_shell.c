/* cmd_shell.c  pagedkv shell: a cache that is driven by one JSON object a line. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "shell.h"

enum { MAX_FIELDS = 12 };

/* An operation and the fields that it knows. */
typedef struct operation {
    const char *name;
    json_t *(*run)(shell *s, const json_t *op);
    const char *fields[MAX_FIELDS + 1];
} operation;

static json_t *no_host_pool(shell *s, const json_t *op)
{
    (void)s;
    return shell_error(PKV_E_INVAL, "%s: this cache has no host pool",
                       json_string_value(json_object_get(op, "op")));
}

/* clang-format off */
static const operation operations[] = {
    {"open", shell_open, {"id", "tokens", "salt", "lora", "mm", "skip_cache", "report", "session"}},
    {"lookup", shell_lookup, {"id", "connector"}},
    {"allocate", shell_allocate,
     {"id", "new_tokens", "use_cached", "lookahead", "external_tokens", "delay_caching",
      "in_flight_tokens", "full_sequence_must_fit", "reserved_blocks", "encoder_tokens",
      "others_scheduled", "skip_zero_groups"}},
    {"append", shell_append, {"id", "tokens"}},
    {"computed", shell_computed, {"id", "tokens"}},
    {"cache", shell_keep, {"id", "tokens"}},
    {"blocks", shell_blocks, {"id", "tokens"}},
    {"keys", shell_keys, {"id"}},
    {"cached", shell_cached, {"id"}},
    {"zero", shell_zero, {"id", "tokens"}},
    {"preempt", shell_preempt, {"id"}},
    {"free", shell_free, {"id", "defer"}},
    {"fork", shell_fork, {"id", "new_id"}},
    {"evict", shell_evict, {"blocks"}},
    {"reset", shell_reset, {NULL}},
    {"step", shell_step, {NULL}},
    {"steps", shell_steps, {"ids", "tokens", "lookahead"}},
    {"state", shell_state, {NULL}},
    {"stats", shell_stats, {NULL}},
    {"events", shell_take_events, {NULL}},
    {"check", shell_check, {NULL}},
    {"offloads", shell_offloads, {NULL}},
    {"finish", shell_finish, {"id"}},
    {"sparse", no_host_pool, {"requests"}},
    {"transferred", no_host_pool, {"ids", "copies"}},
    {"loaded", no_host_pool, {"id", "failed"}},
    {"batch", NULL, {"ops"}},     /* these two work on more than one cache or operation: */
    {"restart", NULL, {"specs"}}, /* answer() below */
};
/* clang-format on */

static const operation *find(const json_t *op, json_t **error)
{
    const char *name = json_string_value(json_object_get(op, "op"));
    if (!json_is_object(op)) {
        *error = shell_error(PKV_E_INVAL, "an object was expected");
        return NULL;
    }
    for (size_t i = 0; name && i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(name, operations[i].name) == 0) {
            return &operations[i];
        }
    }
    *error = shell_error(PKV_E_INVAL, "op: unknown operation \"%.60s\"", name ? name : "");
    return NULL;
}

static bool fields_known(const operation *o, json_t *op, json_t **error)
{
    const char *field;
    json_t *value;
    json_object_foreach(op, field, value)
    {
        size_t i = 0;
        while (o->fields[i] && strcmp(o->fields[i], field) != 0) {
            i++;
        }
        if (!o->fields[i] && strcmp(field, "op") != 0) {
            *error = shell_error(PKV_E_INVAL, "%s: unknown field \"%.60s\"", o->name, field);
            return false;
        }
    }
    return true;
}

/* A document that does not make a cache is a wrong argument, whatever is wrong with it. */
static json_t *restart(shell **s, const json_t *op)
{
    const json_t *specs = json_object_get(op, "specs");
    pkv_status st;
    const char *why;
    if (!json_is_object(specs)) {
        return shell_error(PKV_E_INVAL, "specs: a document was expected");
    }
    char *text = json_dumps(specs, JSON_COMPACT);
    if (!text) {
        return shell_error(PKV_E_NOMEM, "specs: out of memory");
    }
    shell *fresh = shell_of_text(text, strlen(text), &st, &why);
    free(text);
    if (!fresh) {
        const bool own = st == PKV_E_NOMEM || st == PKV_E_UNSUPPORTED;
        return shell_error(own ? st : PKV_E_INVAL, "specs: %s", why);
    }
    shell_destroy(*s);
    *s = fresh;
    json_t *answer = json_object();
    cli_set(answer, "ok", json_true());
    return answer;
}

static json_t *answer_one(shell *s, const operation *o, json_t *op)
{
    json_t *error;
    return fields_known(o, op, &error) ? o->run(s, op) : error;
}

static bool may_be_batched(const json_t *ops)
{
    size_t i;
    const json_t *op;
    if (!json_is_array(ops)) {
        return false;
    }
    json_array_foreach(ops, i, op)
    {
        const char *name = json_string_value(json_object_get(op, "op"));
        if (name && (strcmp(name, "batch") == 0 || strcmp(name, "restart") == 0)) {
            return false;
        }
    }
    return true;
}

static json_t *batch(shell *s, const json_t *op)
{
    const json_t *ops = json_object_get(op, "ops");
    size_t i;
    json_t *one;
    if (!may_be_batched(ops)) {
        return shell_error(PKV_E_INVAL,
                           "ops: a list of operations other than batch and restart was expected");
    }
    json_t *answers = json_array(), *answer = json_object();
    json_array_foreach(ops, i, one)
    {
        json_t *error;
        const operation *o = find(one, &error);
        cli_push(answers, o ? answer_one(s, o, one) : error);
    }
    cli_set(answer, "answers", answers);
    return answer;
}

static json_t *answer(shell **s, const char *line, size_t len)
{
    json_error_t parse;
    json_t *error = NULL;
    json_t *op = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &parse);
    if (!op) {
        return shell_error(PKV_E_INVAL, "not JSON: %.160s", parse.text);
    }
    const operation *o = find(op, &error);
    json_t *out = error;
    if (o && fields_known(o, op, &out)) {
        out = o->run                            ? o->run(*s, op)
              : strcmp(o->name, "restart") == 0 ? restart(s, op)
                                                : batch(*s, op);
    }
    json_decref(op);
    return out;
}

static void serve(shell **s)
{
    char *line = NULL;
    size_t room = 0, len = 0;
    while (cli_read_line(stdin, &line, &room, &len)) {
        json_t *out = answer(s, line, len);
        cli_print_json(out);
        json_decref(out);
    }
    free(line);
}

/* The text of the document that the command line names; NULL: *exit_code says why. */
static char *read_document(const cli_command *command, size_t *len, int *exit_code)
{
    const char *specs = cli_given(command, "--specs"), *model = cli_given(command, "--model");
    *exit_code = EXIT_INPUT;
    if ((specs != NULL) == (model != NULL)) {
        fprintf(stderr, "pagedkv: shell needs --specs FILE or --model MODEL, and not both\n");
        return NULL;
    }
    if (specs) {
        *exit_code = EXIT_ENVIRONMENT;
        return cli_read_file(specs, len);
    }
    if (!cli_has(command, "--memory")) {
        fprintf(stderr, "pagedkv: --model needs --memory\n");
        return NULL;
    }
    json_t *document = plan_model_document(command, model, exit_code);
    char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;
    json_decref(document);
    *len = text ? strlen(text) : 0;
    return text;
}

int cmd_shell(int argc, char **argv)
{
    cli_option options[] = {
        {"--specs", "FILE", "a plan document", NULL},
        {"--model", "MODEL", "a config.json or a folder holding one", NULL},
        {"--memory", "BYTES|GiB", "with --model: KV bytes per device", NULL},
        {"--block-size", "N", "with --model: tokens per block (16)", NULL},
        {"--kv-dtype", "NAME", "with --model: cache dtype", NULL},
        {"--max-model-len", "N|auto", "with --model: longest request; auto: what fits", NULL},
        {"--max-num-batched-tokens", "N", "with --model: tokens of one step (8192)", NULL},
        {"--tp", "N", "with --model: tensor-parallel ranks (1)", NULL},
        {"--no-prefix-caching", NULL, "with --model: nothing is found again", NULL},
        {NULL, NULL, NULL, NULL},
    };
    cli_command command = {"pagedkv shell --specs FILE\n"
                           "       pagedkv shell --model MODEL --memory BYTES [OPTION...]",
                           "Makes a cache and carries out one operation per line of stdin, with "
                           "one answer per\nline: docs/formats/shell.md.",
                           options,
                           NULL,
                           0,
                           0};
    pkv_status st;
    const char *why;
    int exit_code = cli_parse(&command, argc, argv);
    if (exit_code >= 0) {
        return exit_code;
    }
    size_t len;
    char *text = read_document(&command, &len, &exit_code);
    if (!text) {
        return exit_code;
    }
    shell *s = shell_of_text(text, len, &st, &why);
    free(text);
    if (!s) {
        fprintf(stderr, "pagedkv: %s\n", why);
        return st == PKV_E_UNSUPPORTED ? EXIT_NO : cli_exit_code(st);
    }
    serve(&s);
    shell_destroy(s);
    return EXIT_DONE;
}
