/* cli.h  What the commands of the program share. The commands use public headers only. */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>
#include <pkv/pkv.h>

/* Exit codes; other people script against them. */
enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_INPUT = 2, EXIT_ENVIRONMENT = 3 };

/* ---- files.c ---- */

/* A whole file, or stdin for "-", as a text of malloc; NULL with a line on stderr. */
char *cli_read_file(const char *path, size_t *len_out);
/* The next line of a stream that is not blank, without its end, or NULL. *line and *room as in
 * getline(). */
char *cli_read_line(FILE *in, char **line, size_t *room, size_t *len_out);

/* ---- args.c ---- */

/* One option of a command. */
typedef struct cli_option {
    const char *name;  /* "--memory" */
    const char *value; /* what it takes, for --help; NULL: a switch */
    const char *help;
    const char *given; /* filled: the value, or "" for a switch that is on; NULL: not given */
} cli_option;

typedef struct cli_command {
    const char *usage;   /* lines after "usage: " */
    const char *summary; /* what it does */
    cli_option *options; /* ends with a NULL name */
    const char **operands;
    int n_operands, max_operands;
} cli_command;

/* Fills the command from the words after its name. Returns -1 to go on, or an exit code (--help
 * was printed, or a line on stderr says what is wrong). */
int cli_parse(cli_command *command, int argc, char **argv);
const char *cli_given(const cli_command *command, const char *name);
bool cli_has(const cli_command *command, const char *name);
/* A number option within [min, max]; `value` keeps its default when the option is not given. */
int cli_number(const cli_command *command, const char *name, uint64_t min, uint64_t max,
               uint64_t *value);
/* Bytes: a number, or one with KiB, MiB, GiB, TiB (or KB ... for powers of 1000). */
int cli_bytes(const cli_command *command, const char *name, int64_t *value);

/* ---- out.c ---- */

/* Adds a value and takes its reference; memory that ends here ends the program with 3. */
void cli_set(json_t *object, const char *name, json_t *value);
void cli_push(json_t *array, json_t *value);
json_t *cli_int(uint64_t value);
/* Ends the program with 3 if stdout cannot be written. */
void cli_flush(void);
/* One JSON document and a newline on stdout, flushed. */
void cli_print_json(const json_t *value);
/* Code of a status in answers: INPUT, VALUE, ASSERT, NOTIMPL, ...; and its exit code. */
const char *cli_code(pkv_status status);
int cli_exit_code(pkv_status status);
/* {"error": text, "code": code} with the library's last error. */
json_t *cli_error(pkv_status status);
/* The value, null where a kind has none, or the error kind of a refusal. */
json_t *cli_quantity(pkv_status status, uint64_t value);
/* "1.50 GiB" */
const char *cli_size(double bytes, char text[32]);

/* ---- content.c ---- */

/* Up to the bytes of a key and a group number, as hex. */
json_t *cli_hex(const uint8_t *bytes, size_t n);
/* What a key of the tokens [start, end) depends on beside them, as events tell it; or null. */
json_t *cli_unit_extras(const pkv_extras *extras, uint64_t start, uint64_t end, uint64_t lookahead);

/* ---- commands ---- */

int cmd_bench(int argc, char **argv);
int cmd_keys(int argc, char **argv);
int cmd_layout(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_transfer(int argc, char **argv);

#endif
