/* cmd_transfer.c  pagedkv transfer: moves rows between pages and chunks that lie in files. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "transfer.h"

static json_t *error_answer(const transfer_job *job)
{
    json_t *answer = json_object();
    cli_set(answer, "error", json_string(job->text));
    switch (job->end) {
    case TRANSFER_MALFORMED: cli_set(answer, "code", json_string("INPUT")); break;
    case TRANSFER_NO_FILE: cli_set(answer, "code", json_string("IO")); break;
    default:
        cli_set(answer, "code", json_string(job->code));
        cli_set(answer, "field", json_string(job->field));
    }
    return answer;
}

/* Does one job. The answer, or NULL: job->end says why. */
static json_t *do_job(transfer_job *job, const char *text, size_t len)
{
    json_error_t error;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        (void)transfer_malformed(job, "not JSON: line %d: %s", error.line, error.text);
        return NULL;
    }
    return transfer_read(job, root) && transfer_open_files(job) ? transfer_move(job) : NULL;
}

static int transfer_lines(bool dry_run)
{
    char *line = NULL;
    size_t room = 0, len = 0;
    while (cli_read_line(stdin, &line, &room, &len)) {
        transfer_job job = {.folder = "", .dry_run = dry_run};
        json_t *answer = do_job(&job, line, len);
        if (!answer) {
            answer = error_answer(&job);
        }
        cli_print_json(answer);
        json_decref(answer);
        transfer_free(&job);
    }
    free(line);
    return EXIT_DONE;
}

/* Without --json: one line for people. */
static void print_answer(const json_t *answer, bool dry_run)
{
    char size[32];
    const json_int_t tokens = json_integer_value(json_object_get(answer, "tokens"));
    const json_int_t bytes = json_integer_value(json_object_get(answer, "bytes"));
    printf("%s %" JSON_INTEGER_FORMAT " tokens, %" JSON_INTEGER_FORMAT " bytes (%s)\n",
           dry_run ? "would move" : "moved", tokens, bytes, cli_size((double)bytes, size));
    cli_flush();
}

static int finish(const transfer_job *job, const json_t *answer, bool json)
{
    if (answer) {
        if (json) {
            cli_print_json(answer);
        } else {
            print_answer(answer, job->dry_run);
        }
        return EXIT_DONE;
    }
    if (job->end == TRANSFER_REFUSED && json) {
        json_t *error = error_answer(job);
        cli_print_json(error);
        json_decref(error);
    } else {
        fprintf(stderr, "pagedkv: transfer: %s%s%s\n",
                job->end == TRANSFER_REFUSED ? job->code : "",
                job->end == TRANSFER_REFUSED ? ": " : "", job->text);
    }
    return job->end == TRANSFER_REFUSED     ? EXIT_NO
           : job->end == TRANSFER_MALFORMED ? EXIT_INPUT
                                            : EXIT_ENVIRONMENT;
}

static int transfer_file_job(const char *path, bool dry_run, bool json)
{
    size_t len;
    char *text = cli_read_file(path, &len);
    if (!text) {
        return EXIT_ENVIRONMENT;
    }
    const char *slash = strrchr(path, '/');
    const size_t folder_len = slash ? (size_t)(slash - path) + 1 : 0;
    char *folder = calloc(folder_len + 1, 1);
    if (!folder) {
        fprintf(stderr, "pagedkv: out of memory\n");
        exit(EXIT_ENVIRONMENT);
    }
    memcpy(folder, path, folder_len);
    transfer_job job = {.folder = folder, .dry_run = dry_run};
    json_t *answer = do_job(&job, text, len);
    const int done = finish(&job, answer, json);
    json_decref(answer);
    transfer_free(&job);
    free(folder);
    free(text);
    return done;
}

int cmd_transfer(int argc, char **argv)
{
    cli_option options[] = {
        {"--file", "JOB.json|-", "the job; -: one a line on stdin, one answer a line", NULL},
        {"--dry-run", NULL, "checks and answers, and writes nothing", NULL},
        {"--json", NULL, "the answer as JSON", NULL},
        {NULL, NULL, NULL, NULL},
    };
    cli_command command = {
        .usage = "pagedkv transfer --file JOB.json|- [--dry-run] [--json]",
        .summary = "Moves rows between pages and chunks that lie in files: gather, scatter, copy,\n"
                   "swap and reshard, by slots or by blocks. Everything is checked before a byte\n"
                   "is written. The job is described in docs/formats/transfer.md.",
        .options = options,
    };
    const int done = cli_parse(&command, argc, argv);
    if (done >= 0) {
        return done;
    }
    const char *path = cli_given(&command, "--file");
    if (!path) {
        fprintf(stderr, "pagedkv: transfer needs --file JOB.json; --help shows what it does\n");
        return EXIT_INPUT;
    }
    const bool dry_run = cli_has(&command, "--dry-run");
    return strcmp(path, "-") == 0 ? transfer_lines(dry_run)
                                  : transfer_file_job(path, dry_run, cli_has(&command, "--json"));
}
