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

/* An option of the other benchmark ends it. */
static bool has_other(const cli_command *command, bool pool)
{
    static const char *const of_pool[] = {"--blocks", "--sequences", "--curve", NULL};
    static const char *const of_prefix[] = {"--prompts", NULL};
    for (const char *const *name = pool ? of_prefix : of_pool; *name; name++) {
        if (cli_has(command, *name)) {
            fprintf(stderr, "pagedkv: bench %s has no %s\n", command->operands[0], *name);
            return true;
        }
    }
    return false;
}

static int read_numbers(const cli_command *command, bool pool, bench_params *params)
{
    if (has_other(command, pool)) {
        return EXIT_INPUT;
    }
    params->curve = cli_has(command, "--curve");
    params->blocks = params->curve ? 10000000 : 100000;
    int done = cli_number(command, "--runs", 1, BENCH_MAX_RUNS, &params->runs);
    if (done < 0) {
        done = cli_number(command, "--blocks", 2, 100000000, &params->blocks);
    }
    if (done < 0) {
        done = cli_number(command, "--tokens", BENCH_UNIT, 1000000, &params->tokens);
    }
    if (done < 0) {
        done = cli_number(command, "--prompts", 1, 100000, &params->prompts);
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
        printf("pagedkv bench %s: %s; medians of %llu runs; ratio: ceiling / figure\ncold: %s\n\n",
               name, bench_cpu(cpu), (unsigned long long)params->runs, bench_chill_name());
        run(params, NULL);
        return EXIT_DONE;
    }
    json_t *answer = json_object();
    cli_set(answer, "bench", json_string(name));
    cli_set(answer, "cpu", json_string(bench_cpu(cpu)));
    cli_set(answer, "cold", json_string(bench_chill_name()));
    cli_set(answer, "runs", cli_int(params->runs));
    run(params, answer);
    cli_print_json(answer);
    json_decref(answer);
    return EXIT_DONE;
}

int cmd_bench(int argc, char **argv)
{
    cli_option options[] = {
        {"--blocks", "N", "pool: blocks of a large pool (100000), or of the last of a curve", NULL},
        {"--curve", NULL, "pool: what a block costs by the number of blocks, 1000 to 10000000",
         NULL},
        {"--sequences", "N", "pool: sequences that advance together (256)", NULL},
        {"--tokens", "N", "tokens of a prompt (32768)", NULL},
        {"--prompts", "N", "prefix: cached prompts beside the one that is looked up (1000)", NULL},
        {"--runs", "N", "samples of each figure (15; fewer of large pools in a curve)", NULL},
        {"--json", NULL, "all figures as JSON", NULL},
        {NULL, NULL, NULL, NULL},
    };
    const char *operands[1];
    cli_command command = {
        .usage = "pagedkv bench pool|prefix [OPTION...]",
        .summary =
            "What blocks, prompts, steps, keys and hits cost, hot and cold, beside what was\n"
            "demanded and beside ceilings that are measured in the same run: memory in\n"
            "random order, bytes compared, digests by the libraries alone.\n"
            "docs/benchmarks.md tells what they mean.",
        .options = options,
        .operands = operands,
        .max_operands = 1,
    };
    bench_params params = {.runs = 15, .sequences = 256, .tokens = 32768, .prompts = 1000};
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
