/* out.c  JSON answers and sizes for people. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Answers are small; without memory for one there is nothing left to say. */
static void must(int failed)
{
    if (failed) {
        fprintf(stderr, "pagedkv: out of memory\n");
        exit(EXIT_ENVIRONMENT);
    }
}

void cli_flush(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "pagedkv: cannot write: %s\n", strerror(errno));
        exit(EXIT_ENVIRONMENT);
    }
}

void cli_set(json_t *object, const char *name, json_t *value)
{
    must(!value || json_object_set_new(object, name, value) != 0);
}

void cli_push(json_t *array, json_t *value)
{
    must(!value || json_array_append_new(array, value) != 0);
}

json_t *cli_int(uint64_t value)
{
    return json_integer((json_int_t)value);
}

void cli_print_json(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
    must(!text);
    (void)fputs(text, stdout);
    (void)fputc('\n', stdout);
    free(text);
    cli_flush();
}

const char *cli_code(pkv_status status)
{
    switch (status) {
    case PKV_E_VALUE:
    case PKV_E_OVERFLOW: return "VALUE";
    case PKV_E_ASSERT: return "ASSERT";
    case PKV_E_NOTIMPL: return "NOTIMPL";
    case PKV_E_NOMEM: return "NOMEM";
    case PKV_E_IO: return "IO";
    case PKV_E_UNSUPPORTED: return "UNSUPPORTED";
    default: return "INPUT";
    }
}

int cli_exit_code(pkv_status status)
{
    switch (status) {
    case PKV_OK: return EXIT_DONE;
    case PKV_E_VALUE:
    case PKV_E_OVERFLOW:
    case PKV_E_ASSERT:
    case PKV_E_NOTIMPL: return EXIT_NO;
    case PKV_E_NOMEM:
    case PKV_E_IO: return EXIT_ENVIRONMENT;
    default: return EXIT_INPUT;
    }
}

json_t *cli_error(pkv_status status)
{
    json_t *answer = json_object();
    cli_set(answer, "error", json_string(pkv_last_error()));
    cli_set(answer, "code", json_string(cli_code(status)));
    return answer;
}

json_t *cli_quantity(pkv_status status, uint64_t value)
{
    if (status == PKV_OK) {
        return cli_int(value);
    }
    return status == PKV_E_NOT_FOUND ? json_null() : json_string(cli_code(status));
}

const char *cli_size(double bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
    return text;
}
