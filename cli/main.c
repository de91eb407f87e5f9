/* main.c  Finds the command. */
#include <string.h>

#include "cli.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"bench", cmd_bench, "what blocks, hits and steps cost, beside what this machine can do"},
    {"keys", cmd_keys, "the chain of block keys of token ids"},
    {"layout", cmd_layout, "what the tensors of an engine are, and where every row lies"},
    {"plan", cmd_plan, "what the KV cache of a model looks like, and what fits in a budget"},
    {"shell", cmd_shell, "a cache that is told what happens, one JSON object a line"},
    {"transfer", cmd_transfer, "moves rows between pages and chunks that lie in files"},
};

static void print_help(FILE *to)
{
    fprintf(to, "usage: pagedkv COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(to, "\n  pagedkv COMMAND --help   options of a command\n"
                "  pagedkv --version        version of the library\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_INPUT;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pagedkv %s\n", pkv_version());
        cli_flush();
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        cli_flush();
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            const int exit_code = commands[i].run(argc - 2, argv + 2);
            cli_flush();
            return exit_code;
        }
    }
    fprintf(stderr, "pagedkv: unknown command \"%.60s\"; pagedkv --help lists them\n", argv[1]);
    return EXIT_INPUT;
}
