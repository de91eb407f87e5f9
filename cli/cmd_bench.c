/* cmd_bench.c  pagedkv bench: what the cache costs, beside what this machine can do. */
#include <string.h>

#include "bench.h"

typedef void (*bench_run)(const bench_params *params, json_t *answer);

/* NULL with a line on stderr. */
static bench_run find_bench(const cli_command *command)
{
    const char *name = command->n_operands > 0 ? command->operands[0] : "";
    if (strcmp(name, "pool") == 0) {
        return bench_pool;
    }
    if (strcmp(name, "prefix") == 0) {
        return bench_prefix;
    }
    fprintf(stderr, "pagedkv: bench \"%.40s\": pool or prefix was expected\n", name);
    return NULL;
}

static int read_numbers(const cli_command *command, bool pool, bench_params *params)
{
    const char *other = pool ? "--tokens" : "--blocks";
    if (cli_has(command, other) || (pool && cli_has(command, "--sequences"))) {
        fprintf(stderr, "pagedkv: bench %s has no %s\n", command->operands[0],
                cli_has(command, other) ? other : "--sequences");
        return EXIT_INPUT;
    }
    int done = cli_number(command, "--runs", 1, BENCH_MAX_RUNS, &params->runs);
    if (done < 0) {
        done = pool ? cli_number(command, "--blocks", 2, 100000000, &params->size)
                    : cli_number(command, "--tokens", 16, 10000000, &params->size);
    }
    if (done < 0) {
        done = cli_number(command, "--sequences", 1, 10000, &params->sequences);
    }
    return done;
}

static int run_bench(const char *name, bench_run run, const bench_params *params)
{
    char cpu[128];
    if (!params->json) {
        printf("pagedkv bench %s: %s; %llu runs; nanoseconds, medians; ratio: ceiling / figure\n\n",
               name, bench_cpu(cpu), (unsigned long long)params->runs);
        run(params, NULL);
        return EXIT_DONE;
    }
    json_t *answer = json_object();
    cli_set(answer, "bench", json_string(name));
    cli_set(answer, "cpu", json_string(bench_cpu(cpu)));
    cli_set(answer, "runs", cli_int(params->runs));
    run(params, answer);
    cli_print_json(answer);
    json_decref(answer);
    return EXIT_DONE;
}

int cmd_bench(int argc, char **argv)
{
    cli_option options[] = {
        {"--blocks", "N", "pool: one pool of so many blocks (1000, 100000 and 1000000)", NULL},
        {"--tokens", "N", "prefix: hits of so many tokens (1024, 8192 and 65536)", NULL},
        {"--sequences", "N", "prefix: sequences that advance together (256)", NULL},
        {"--runs", "N", "samples of each figure (15)", NULL},
        {"--json", NULL, "all figures as JSON", NULL},
        {NULL, NULL, NULL, NULL},
    };
    const char *operands[1];
    cli_command command = {
        .usage = "pagedkv bench pool|prefix [OPTION...]",
        .summary = "What blocks, hits and steps cost, beside ceilings that are measured in the\n"
                   "same run: memory read in random order, a pointer chase, digests by the\n"
                   "libraries alone. docs/benchmarks.md tells what they mean.",
        .options = options,
        .operands = operands,
        .max_operands = 1,
    };
    bench_params params = {.runs = 15, .sequences = 256};
    int done = cli_parse(&command, argc, argv);
    if (done >= 0) {
        return done;
    }
    const bench_run run = find_bench(&command);
    if (!run) {
        return EXIT_INPUT;
    }
    done = read_numbers(&command, run == bench_pool, &params);
    if (done >= 0) {
        return done;
    }
    params.json = cli_has(&command, "--json");
    return run_bench(operands[0], run, &params);
}
