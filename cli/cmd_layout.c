/* cmd_layout.c  pagedkv layout: tensors of an engine in, formats and places of all rows out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

/* What became of one problem: a document to print, or a line for stderr. */
typedef struct outcome {
    int exit_code;
    json_t *answer; /* with exit codes 0 and 1 */
    char error[512];
} outcome;

static outcome malformed(int exit_code, const char *text)
{
    outcome out = {.exit_code = exit_code};
    (void)snprintf(out.error, sizeof out.error, "%s", text);
    return out;
}

/* Answers a problem. With `screen` what people read is printed instead of being answered. */
static outcome answer_problem(const json_t *json, bool screen)
{
    layout_problem problem;
    pkv_reading *reading = NULL;
    pkv_refusal refusal = {0};
    outcome out = {0};
    if (!layout_problem_read(json, &problem)) {
        out = malformed(EXIT_INPUT, problem.error);
        layout_problem_free(&problem);
        return out;
    }
    pkv_status st = PKV_OK;
    if (problem.params.n_layers > 0) {
        st = pkv_reading_create(&problem.params, &refusal, &reading);
    }
    out.exit_code = layout_exit_code(st);
    if (out.exit_code == EXIT_NO) {
        out = malformed(EXIT_NO, pkv_last_error());
        out.answer = layout_refused(st, &refusal);
    } else if (out.exit_code != EXIT_DONE) {
        out = malformed(out.exit_code, pkv_last_error());
    } else if (screen && reading) {
        layout_screen(&problem, reading);
    } else {
        out.answer = layout_answer(&problem, reading);
    }
    pkv_reading_destroy(reading);
    layout_problem_free(&problem);
    return out;
}

static outcome answer_text(const char *text, size_t len, bool screen)
{
    json_error_t parse;
    char line[256];
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &parse);
    if (!json) {
        (void)snprintf(line, sizeof line, "not JSON: line %d: %.120s", parse.line, parse.text);
        return malformed(EXIT_INPUT, line);
    }
    const outcome out = answer_problem(json, screen);
    json_decref(json);
    return out;
}

/* The outcome of a single problem; `screen`: a refusal is one line on stderr. */
static int finish(outcome out, bool screen)
{
    if (out.exit_code == EXIT_INPUT || out.exit_code == EXIT_ENVIRONMENT ||
        (screen && out.exit_code == EXIT_NO)) {
        fprintf(stderr, "pagedkv: layout: %s\n", out.error);
    } else if (out.answer) {
        cli_print_json(out.answer);
    }
    json_decref(out.answer);
    return out.exit_code;
}

/* One problem a line, one answer a line. */
static int layout_lines(void)
{
    char *line = NULL;
    size_t room = 0, len = 0;
    while (cli_read_line(stdin, &line, &room, &len)) {
        outcome out = answer_text(line, len, false);
        if (!out.answer) {
            out.answer = json_object();
            cli_set(out.answer, "error", json_string(out.error));
            cli_set(out.answer, "code",
                    json_string(out.exit_code == EXIT_INPUT ? "INPUT" : "NOMEM"));
        }
        cli_print_json(out.answer);
        json_decref(out.answer);
    }
    free(line);
    return EXIT_DONE;
}

static int layout_file(const char *path, bool json)
{
    size_t len;
    if (strcmp(path, "-") == 0) {
        return layout_lines();
    }
    char *text = cli_read_file(path, &len);
    if (!text) {
        return EXIT_ENVIRONMENT;
    }
    const outcome out = answer_text(text, len, !json);
    free(text);
    return finish(out, !json);
}

/* ---- one tensor by options ---- */

/* "2,1000,16" as a list; NULL: it is none. */
static json_t *numbers_of(const char *text)
{
    json_t *list = json_array();
    while (*text) {
        char *end;
        errno = 0;
        const long long n = strtoll(text, &end, 10);
        if (*text < '0' || *text > '9' || errno != 0 ||
            (*end != ',' && *end != 'x' && *end != '\0') || (*end != '\0' && end[1] == '\0')) {
            json_decref(list);
            return NULL;
        }
        cli_push(list, json_integer(n));
        text = *end ? end + 1 : end;
    }
    return list;
}

/* "layout=HND,num_kv_heads=8" as an object; NULL: it is none. */
static json_t *hints_of(const char *text)
{
    json_t *hints = json_object();
    while (*text) {
        char word[64], *end;
        const size_t n = strcspn(text, ",");
        if (n >= sizeof word) {
            break;
        }
        memcpy(word, text, n);
        word[n] = '\0';
        char *value = strchr(word, '=');
        if (!value) {
            break;
        }
        *value++ = '\0';
        const long long number = strtoll(value, &end, 10);
        const bool is_number = value[0] >= '0' && value[0] <= '9' && *end == '\0';
        json_t *json = is_number ? json_integer(number) : json_string(value);
        if (!json || json_object_get(hints, word)) {
            json_decref(json);
            break;
        }
        cli_set(hints, word, json);
        text += text[n] ? n + 1 : n;
    }
    if (*text) {
        json_decref(hints);
        return NULL;
    }
    return hints;
}

static int bad_option(const char *name, const char *given, const char *expected)
{
    fprintf(stderr, "pagedkv: %s \"%.60s\": %s expected\n", name, given, expected);
    return EXIT_INPUT;
}

/* Puts a text option into the problem if it is given. */
static bool put_text(const cli_command *command, const char *option, json_t *object,
                     const char *name)
{
    const char *given = cli_given(command, option);
    json_t *text = given ? json_string(given) : NULL;
    if (text) {
        cli_set(object, name, text);
    }
    return !given || text;
}

static int put_lists(const cli_command *command, json_t *tensor)
{
    const char *const options[2] = {"--shape", "--strides"};
    for (int i = 0; i < 2; i++) {
        const char *given = cli_given(command, options[i]);
        json_t *numbers = given ? numbers_of(given) : NULL;
        if (given && !numbers) {
            return bad_option(options[i], given, "numbers as in 2,1000,16,8,128 were");
        }
        if (numbers) {
            cli_set(tensor, options[i] + 2, numbers);
        }
    }
    return EXIT_DONE;
}

static int layout_tensor(const cli_command *command, bool json)
{
    json_t *problem = json_object(), *layer = json_object(), *tensor = json_object();
    json_t *layers = json_array(), *tensors = json_array();
    const char *hints = cli_given(command, "--hint");
    uint64_t offset = 0;
    int exit_code = cli_number(command, "--offset", 0, INT64_MAX, &offset);
    cli_set(tensor, "dtype", json_string("bfloat16"));
    cli_set(tensor, "offset", cli_int(offset));
    if (exit_code < 0) {
        exit_code = put_lists(command, tensor);
    }
    json_t *object = hints ? hints_of(hints) : NULL;
    if (exit_code == EXIT_DONE && hints && !object) {
        exit_code = bad_option("--hint", hints, "NAME=VALUE, each name once, was");
    }
    if (object) {
        cli_set(problem, "hints", object);
    }
    const bool texts = put_text(command, "--engine", problem, "engine") &&
                       put_text(command, "--device", problem, "device") &&
                       put_text(command, "--structure", problem, "structure") &&
                       put_text(command, "--dtype", tensor, "dtype");
    cli_push(tensors, tensor);
    cli_set(layer, "tensors", tensors);
    cli_set(layer, "name", json_string("tensor"));
    cli_push(layers, layer);
    cli_set(problem, "layers", layers);
    if (exit_code == EXIT_DONE && !texts) {
        exit_code = bad_option("an option", "", "UTF-8 was");
    } else if (exit_code == EXIT_DONE) {
        exit_code = finish(answer_problem(problem, !json), !json);
    }
    json_decref(problem);
    return exit_code;
}

/* Value of a --hint at word i, which may be the next word; NULL: it is another word. */
static const char *hint_at(int argc, char **argv, int i)
{
    if (strncmp(argv[i], "--hint=", 7) == 0) {
        return argv[i] + 7;
    }
    return strcmp(argv[i], "--hint") == 0 && i + 1 < argc ? argv[i + 1] : NULL;
}

/* --hint may be given several times: joins their values in the first one, which the caller frees,
 * and drops the others. Returns what is left of argc. */
static int join_hints(int argc, char **argv, char **joined_out)
{
    int n = 0;
    size_t room = 1, used = 0;
    for (int i = 0; i < argc; i++) {
        room += strlen(argv[i]) + sizeof "--hint=,";
    }
    char *joined = calloc(1, room);
    if (!joined) {
        fprintf(stderr, "pagedkv: out of memory\n");
        exit(EXIT_ENVIRONMENT);
    }
    for (int i = 0; i < argc; i++) {
        const char *value = hint_at(argc, argv, i);
        if (!value) {
            argv[n++] = argv[i];
            continue;
        }
        i += strcmp(argv[i], "--hint") == 0; /* its value is the next word */
        if (used == 0) {
            argv[n++] = joined;
        }
        used += (size_t)snprintf(joined + used, room - used, "%s%s", used ? "," : "--hint=", value);
    }
    *joined_out = joined;
    return n;
}

static int run_layout(int argc, char **argv)
{
    cli_option options[] = {
        {"--file", "FILE|-", "a JSON problem; -: one a line on stdin, one answer a line", NULL},
        {"--json", NULL, "one JSON document on stdout; without it a drawing", NULL},
        {"--engine", "NAME", "instead of a file: vllm, sglang, trtllm, atom, and one tensor", NULL},
        {"--shape", "N,N,...", "its shape", NULL},
        {"--strides", "N,N,...", "its strides in elements (row-major)", NULL},
        {"--offset", "N", "its first element (0)", NULL},
        {"--dtype", "NAME", "torch's name (bfloat16)", NULL},
        {"--hint", "NAME=VALUE,...",
         "several times too: layout, num_kv_heads, tokens_per_block, head_dim, ...", NULL},
        {"--structure", "NAME", "list, per_layer, cross_layer (list)", NULL},
        {"--device", "NAME", "cpu makes HND the default (cuda)", NULL},
        {NULL, NULL, NULL, NULL},
    };
    cli_command command = {
        .usage = "pagedkv layout --file FILE|- [--json]\n"
                 "       pagedkv layout --engine NAME --shape N,N,... [OPTION...]",
        .summary = "What the tensors of an engine are: the format, and where every key and value\n"
                   "lies. A shape that can be read in two ways is refused unless a hint decides.\n"
                   "The document is described in docs/formats/layout.md.",
        .options = options,
    };
    const int done = cli_parse(&command, argc, argv);
    if (done >= 0) {
        return done;
    }
    const char *path = cli_given(&command, "--file");
    for (const cli_option *o = options + 2; path && o->name; o++) {
        if (o->given) {
            fprintf(stderr, "pagedkv: %s does not go with --file\n", o->name);
            return EXIT_INPUT;
        }
    }
    if (path) {
        return layout_file(path, cli_has(&command, "--json"));
    }
    if (!cli_given(&command, "--engine") || !cli_given(&command, "--shape")) {
        fprintf(stderr, "pagedkv: layout needs --file FILE, or --engine and --shape\n");
        return EXIT_INPUT;
    }
    return layout_tensor(&command, cli_has(&command, "--json"));
}

int cmd_layout(int argc, char **argv)
{
    char *joined;
    const int left = join_hints(argc, argv, &joined);
    const int exit_code = run_layout(left, argv);
    free(joined);
    return exit_code;
}
