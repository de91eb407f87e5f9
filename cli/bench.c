/* bench.c  Samples, medians and tables of `pagedkv bench`. */
#define _POSIX_C_SOURCE 200809L

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void bench_need(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "pagedkv: bench: %s: %s\n", what, pkv_last_error());
        exit(EXIT_ENVIRONMENT);
    }
}

void *bench_memory(size_t n, size_t bytes)
{
    void *memory = calloc(n + 1, bytes);
    bench_need(memory != NULL, "out of memory");
    return memory;
}

/* Xorshift; bits are cut off before they are shifted out, which sanitizers take for a mistake. */
uint64_t bench_random(uint64_t *state)
{
    *state ^= (*state & (UINT64_MAX >> 13)) << 13;
    *state ^= *state >> 7;
    *state ^= (*state & (UINT64_MAX >> 17)) << 17;
    return *state;
}

void bench_shuffle(uint32_t *out, size_t n, uint32_t first, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        const size_t j = bench_random(state) % (i + 1);
        out[i] = out[j];
        out[j] = first + (uint32_t)i;
    }
}

const char *bench_cpu(char text[128])
{
    static const char name[] = "model name";
    FILE *in = fopen("/proc/cpuinfo", "r");
    char line[256];
    (void)snprintf(text, 128, "unknown CPU");
    while (in && fgets(line, sizeof line, in)) {
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, name, sizeof name - 1) == 0) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(text, 128, "%.120s", colon + 1 + strspn(colon + 1, " \t"));
            break;
        }
    }
    if (in) {
        (void)fclose(in);
    }
    return text;
}

/* ---- memory that a library object takes ---- */

static void *count_alloc(void *ctx, size_t bytes, size_t align)
{
    void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);
    *(size_t *)ctx += memory ? bytes : 0;
    return memory;
}

static void count_free(void *ctx, void *memory, size_t bytes, size_t align)
{
    (void)align;
    *(size_t *)ctx -= bytes;
    free(memory);
}

pkv_alloc bench_counting(size_t *bytes)
{
    *bytes = 0;
    return (pkv_alloc){bytes, count_alloc, count_free};
}

/* ---- figures ---- */

void bench_table_init(bench_table *table, const bench_row *rows, size_t runs)
{
    *table = (bench_table){.runs = runs};
    while (rows[table->n_rows].name) {
        bench_row *row = &table->rows[table->n_rows];
        *row = rows[table->n_rows++];
        row->ns = bench_memory(runs, sizeof *row->ns);
        row->ceiling_ns = bench_memory(runs, sizeof *row->ceiling_ns);
    }
}

void bench_table_free(bench_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        free(table->rows[i].ns);
        free(table->rows[i].ceiling_ns);
    }
}

void bench_add(bench_table *table, size_t run, size_t row, double ns, double ceiling_ns)
{
    table->rows[row].ns[run] = ns;
    table->rows[row].ceiling_ns[run] = ceiling_ns;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct summary {
    double ns, min, max, ceiling_ns, ratio;
} summary;

static double median(double *sorted, const double *values, size_t n)
{
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    return sorted[n / 2];
}

static summary summarize(const bench_row *row, size_t n)
{
    double *sorted = bench_memory(n, sizeof *sorted), *ratios = bench_memory(n, sizeof *ratios);
    summary s;
    for (size_t i = 0; i < n; i++) {
        ratios[i] = row->ns[i] > 0 ? row->ceiling_ns[i] / row->ns[i] : 0;
    }
    s.ratio = median(sorted, ratios, n);
    s.ceiling_ns = median(sorted, row->ceiling_ns, n);
    s.ns = median(sorted, row->ns, n);
    s.min = sorted[0];
    s.max = sorted[n - 1];
    free(ratios);
    free(sorted);
    return s;
}

double bench_median(const bench_table *table, size_t row)
{
    return summarize(&table->rows[row], table->runs).ns;
}

void bench_print(const bench_table *table)
{
    printf("  %-16s %-9s %11s %11s %11s %11s  %5s  %s\n", "ns", "per", "median", "least", "most",
           "ceiling", "ratio", "the ceiling is");
    for (size_t i = 0; i < table->n_rows; i++) {
        const bench_row *row = &table->rows[i];
        const summary s = summarize(row, table->runs);
        printf("  %-16s %-9s %11.1f %11.1f %11.1f", row->name, row->unit, s.ns, s.min, s.max);
        if (row->ceiling) {
            printf(" %11.1f  %4.0f%%  %s", s.ceiling_ns, 100 * s.ratio, row->ceiling);
        }
        printf("\n");
    }
    printf("\n");
}

json_t *bench_json(const bench_table *table)
{
    json_t *list = json_array();
    for (size_t i = 0; i < table->n_rows; i++) {
        const bench_row *row = &table->rows[i];
        const summary s = summarize(row, table->runs);
        json_t *one = json_object();
        cli_set(one, "name", json_string(row->name));
        cli_set(one, "unit", json_string(row->unit));
        cli_set(one, "ns", json_real(s.ns));
        cli_set(one, "min_ns", json_real(s.min));
        cli_set(one, "max_ns", json_real(s.max));
        cli_set(one, "ceiling", row->ceiling ? json_string(row->ceiling) : json_null());
        cli_set(one, "ceiling_ns", row->ceiling ? json_real(s.ceiling_ns) : json_null());
        cli_set(one, "ratio", row->ceiling ? json_real(s.ratio) : json_null());
        cli_push(list, one);
    }
    return list;
}
