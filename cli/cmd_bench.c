/* cmd_bench.c  pagedkv bench: what the cache costs, beside what this machine can do. */
#include <string.h>

#include "bench.h"

typedef void (*bench_run)(const bench_params *params, json_t *answer);

/* A benchmark and the options that it has beside --runs and --json. */
typedef struct bench_entry {
    const char *name;
    bench_run run;
    uint64_t runs; /* unless they are given */
    const char *options[5];
} bench_entry;

static const bench_entry entries[] = {
    {"pool", bench_pool, 15, {"--blocks", "--sequences", "--curve", "--tokens", NULL}},
    {"prefix", bench_prefix, 15, {"--prompts", "--tokens", NULL}},
    {"transfer", bench_transfer, 3, {"--bytes", NULL}},
};

/* NULL with a line on stderr. */
static const bench_entry *find_bench(const cli_command *command)
{
    const char *name = command->n_operands > 0 ? command->operands[0] : "";
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(name, entries[i].name) == 0) {
            return &entries[i];
        }
    }
    fprintf(stderr, "pagedkv: bench \"%.40s\": pool or prefix or transfer was expected\n", name);
    return NULL;
}

static bool knows(const bench_entry *entry, const char *option)
{
    for (const char *const *name = entry->options; *name; name++) {
        if (strcmp(*name, option) == 0) {
            return true;
        }
    }
    return strcmp(option, "--runs") == 0 || strcmp(option, "--json") == 0;
}

/* An option of another benchmark ends it. */
static bool has_other(const cli_command *command, const bench_entry *entry)
{
    for (const cli_option *o = command->options; o->name; o++) {
        if (o->given && !knows(entry, o->name)) {
            fprintf(stderr, "pagedkv: bench %s has no %s\n", entry->name, o->name);
            return true;
        }
    }
    return false;
}

static int read_numbers(const cli_command *command, const bench_entry *entry, bench_params *params)
{
    if (has_other(command, entry)) {
        return EXIT_INPUT;
    }
    params->runs = entry->runs;
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
    if (done < 0) {
        done = cli_bytes(command, "--bytes", &params->bytes);
    }
    return done;
}

static int run_bench(const char *name, bench_run run, const bench_params *params)
{
    char cpu[128];
    if (!params->json) {
        printf("pagedkv bench %s: %s; medians of %llu runs; ratio: ceiling / figure\n", name,
               bench_cpu(cpu), (unsigned long long)params->runs);
        if (run != bench_transfer) { /* its memory is larger than any cache */
            printf("cold: %s\n", bench_chill_name());
        }
        printf("\n");
        run(params, NULL);
        return EXIT_DONE;
    }
    json_t *answer = json_object();
    cli_set(answer, "bench", json_string(name));
    cli_set(answer, "cpu", json_string(bench_cpu(cpu)));
    if (run != bench_transfer) {
        cli_set(answer, "cold", json_string(bench_chill_name()));
    }
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
        {"--bytes", "BYTES", "transfer: pages and chunks together (4.5GiB)", NULL},
        {"--runs", "N", "samples of each figure (15, transfer 3; fewer of large pools in a curve)",
         NULL},
        {"--json", NULL, "all figures as JSON", NULL},
        {NULL, NULL, NULL, NULL},
    };
    const char *operands[1];
    cli_command command = {
        .usage = "pagedkv bench pool|prefix|transfer [OPTION...]",
        .summary =
            "What blocks, prompts, steps, keys and hits cost, hot and cold, beside what was\n"
            "demanded and beside ceilings that are measured in the same run: memory in\n"
            "random order, bytes compared, digests by the libraries alone.\n"
            "docs/benchmarks.md tells what they mean.",
        .options = options,
        .operands = operands,
        .max_operands = 1,
    };
    bench_params params = {
        .sequences = 256, .tokens = 32768, .prompts = 1000, .bytes = (int64_t)9 << 29};
    int done = cli_parse(&command, argc, argv);
    if (done >= 0) {
        return done;
    }
    const bench_entry *entry = find_bench(&command);
    if (!entry) {
        return EXIT_INPUT;
    }
    done = read_numbers(&command, entry, &params);
    if (done >= 0) {
        return done;
    }
    params.json = cli_has(&command, "--json");
    return run_bench(entry->name, entry->run, &params);
}
