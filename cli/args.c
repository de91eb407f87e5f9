/* args.c  Options of a command: "--name value", "--name=value", switches, operands. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void print_usage(const cli_command *command, FILE *to)
{
    fprintf(to, "usage: %s\n\n%s\n\n", command->usage, command->summary);
    for (const cli_option *o = command->options; o->name; o++) {
        char left[48];
        (void)snprintf(left, sizeof left, "%s %s", o->name, o->value ? o->value : "");
        fprintf(to, "  %-30s %s\n", left, o->help);
    }
}

/* The option that a word names: the whole word, or the part before "=". */
static cli_option *find_option(cli_command *command, const char *word, const char **inline_value)
{
    const char *equals = strchr(word, '=');
    const size_t len = equals ? (size_t)(equals - word) : strlen(word);
    *inline_value = equals ? equals + 1 : NULL;
    for (cli_option *o = command->options; o->name; o++) {
        if (strlen(o->name) == len && strncmp(o->name, word, len) == 0) {
            return o;
        }
    }
    return NULL;
}

int cli_parse(cli_command *command, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *value;
        if (strcmp(word, "--help") == 0) {
            print_usage(command, stdout);
            return EXIT_DONE;
        }
        if (word[0] != '-' || strcmp(word, "-") == 0) {
            if (command->n_operands == command->max_operands) {
                fprintf(stderr, "pagedkv: unexpected \"%.60s\"\n", word);
                return EXIT_INPUT;
            }
            command->operands[command->n_operands++] = word;
            continue;
        }
        cli_option *o = find_option(command, word, &value);
        if (!o) {
            fprintf(stderr, "pagedkv: unknown option \"%.60s\"; --help lists them\n", word);
            return EXIT_INPUT;
        }
        if (!o->value && value) {
            fprintf(stderr, "pagedkv: %s takes no value\n", o->name);
            return EXIT_INPUT;
        }
        if (o->value && !value) {
            if (i + 1 == argc) {
                fprintf(stderr, "pagedkv: %s needs a value: %s\n", o->name, o->value);
                return EXIT_INPUT;
            }
            value = argv[++i];
        }
        if (o->given) {
            fprintf(stderr, "pagedkv: %s is given twice\n", o->name);
            return EXIT_INPUT;
        }
        o->given = value ? value : "";
    }
    return -1;
}

const char *cli_given(const cli_command *command, const char *name)
{
    for (const cli_option *o = command->options; o->name; o++) {
        if (strcmp(o->name, name) == 0) {
            return o->given;
        }
    }
    return NULL;
}

bool cli_has(const cli_command *command, const char *name)
{
    return cli_given(command, name) != NULL;
}

int cli_number(const cli_command *command, const char *name, uint64_t min, uint64_t max,
               uint64_t *value)
{
    const char *text = cli_given(command, name);
    if (!text) {
        return -1;
    }
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno == ERANGE || n < min || n > max) {
        fprintf(stderr, "pagedkv: %s \"%.40s\": a number from %llu to %llu was expected\n", name,
                text, (unsigned long long)min, (unsigned long long)max);
        return EXIT_INPUT;
    }
    *value = n;
    return -1;
}

/* Bytes of a unit's name, 0 if it is none. */
static double unit_bytes(const char *unit)
{
    static const char prefixes[] = "KMGT";
    if (*unit == '\0' || strcmp(unit, "B") == 0) {
        return 1;
    }
    const char *prefix = strchr(prefixes, unit[0]);
    const bool binary = strcmp(unit + 1, "iB") == 0;
    if (!prefix || (!binary && strcmp(unit + 1, "B") != 0)) {
        return 0;
    }
    return pow(binary ? 1024 : 1000, (double)(prefix - prefixes + 1));
}

int cli_bytes(const cli_command *command, const char *name, int64_t *value)
{
    const char *text = cli_given(command, name);
    if (!text) {
        return -1;
    }
    char *end;
    errno = 0;
    const long long whole = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0 && whole >= 0) {
        *value = whole; /* exact, which a double is not beyond 2^53 */
        return -1;
    }
    const double n = strtod(text, &end);
    const double bytes = n * unit_bytes(end);
    if (text[0] < '0' || text[0] > '9' || end == text || unit_bytes(end) == 0 ||
        !(bytes >= 0 && bytes < 9223372036854775807.0)) {
        fprintf(stderr, "pagedkv: %s \"%.40s\": bytes, or a number with GiB, were expected\n", name,
                text);
        return EXIT_INPUT;
    }
    *value = (int64_t)bytes;
    return -1;
}
