/* bench_table.c  Medians over the runs, beside ceilings and bounds. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

void bench_table_init(bench_table *table, const bench_row *rows, size_t runs)
{
    *table = (bench_table){.runs = runs};
    while (rows[table->n_rows].name) {
        const size_t row = table->n_rows++;
        bench_need(row < BENCH_MAX_ROWS, "rows");
        table->rows[row] = rows[row];
        table->samples[row][HOT] = bench_memory(runs, sizeof(bench_sample));
        table->samples[row][COLD] = bench_memory(runs, sizeof(bench_sample));
    }
}

void bench_table_free(bench_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        free(table->samples[i][HOT]);
        free(table->samples[i][COLD]);
    }
}

void bench_add(bench_table *table, size_t run, size_t row, bench_set set, bench_sample sample)
{
    table->samples[row][set][run] = sample;
}

typedef struct summary {
    const bench_row *row;
    const char *set, *bound; /* bound NULL: none */
    double value, least, most, ceiling, ratio, limit;
    bool met;
} summary;

static double share_of(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static summary summarize(const bench_table *table, size_t row, bench_set set)
{
    const bench_sample *samples = table->samples[row][set];
    const size_t n = table->runs;
    const bench_row *r = &table->rows[row];
    summary s = {.row = r, .bound = set == COLD && r->cold_bound ? r->cold_bound : r->bound};
    double *values[5];
    for (size_t i = 0; i < 5; i++) {
        values[i] = bench_memory(n, sizeof(double));
    }
    for (size_t i = 0; i < n; i++) {
        values[0][i] = samples[i].value;
        values[1][i] = samples[i].ceiling;
        values[2][i] = samples[i].bound;
        values[3][i] = share_of(samples[i].ceiling, samples[i].value);
        values[4][i] = share_of(samples[i].value, samples[i].bound);
    }
    s.set = r->one_set ? NULL : set == COLD ? "cold" : "hot";
    s.value = bench_quantile(values[0], n, 0.5);
    s.least = values[0][0];
    s.most = values[0][n - 1];
    s.ceiling = bench_quantile(values[1], n, 0.5);
    s.limit = bench_quantile(values[2], n, 0.5);
    s.ratio = bench_quantile(values[3], n, 0.5);
    s.met = bench_quantile(values[4], n, 0.5) <= 1;
    for (size_t i = 0; i < 5; i++) {
        free(values[i]);
    }
    return s;
}

double bench_median(const bench_table *table, size_t row, bench_set set)
{
    return summarize(table, row, set).value;
}

static void print_row(summary s)
{
    printf("  %-20s %-4s %-11s %9.2f %9.2f %9.2f", s.row->name, s.set ? s.set : "", s.row->unit,
           s.value, s.least, s.most);
    if (s.row->ceiling) {
        printf(" %9.2f %5.0f%%", s.ceiling, 100 * s.ratio);
    } else {
        printf(" %9s %6s", "", "");
    }
    if (s.bound) {
        printf(" %9.2f  %-3s", s.limit, s.met ? "yes" : "NO");
    } else {
        printf(" %9s  %-3s", "", "");
    }
    if (s.bound) {
        printf("  bound: %s", s.bound);
    }
    if (s.row->ceiling) {
        printf("%s  ceiling: %s", s.bound ? ";" : "", s.row->ceiling);
    }
    printf("\n");
}

void bench_print(const bench_table *table)
{
    printf("  %-20s %-4s %-11s %9s %9s %9s %9s %6s %9s  %s\n", "", "set", "unit", "median", "least",
           "most", "ceiling", "ratio", "bound", "met");
    for (size_t row = 0; row < table->n_rows; row++) {
        for (bench_set set = HOT; set < (table->rows[row].one_set ? COLD : N_SETS); set++) {
            print_row(summarize(table, row, set));
        }
    }
    printf("\n");
}

static json_t *row_json(summary s)
{
    json_t *one = json_object();
    cli_set(one, "name", json_string(s.row->name));
    cli_set(one, "set", s.set ? json_string(s.set) : json_null());
    cli_set(one, "unit", json_string(s.row->unit));
    cli_set(one, "value", json_real(s.value));
    cli_set(one, "least", json_real(s.least));
    cli_set(one, "most", json_real(s.most));
    cli_set(one, "ceiling", s.row->ceiling ? json_string(s.row->ceiling) : json_null());
    cli_set(one, "ceiling_value", s.row->ceiling ? json_real(s.ceiling) : json_null());
    cli_set(one, "ratio", s.row->ceiling ? json_real(s.ratio) : json_null());
    cli_set(one, "bound", s.bound ? json_string(s.bound) : json_null());
    cli_set(one, "bound_value", s.bound ? json_real(s.limit) : json_null());
    cli_set(one, "met", s.bound ? json_boolean(s.met) : json_null());
    return one;
}

json_t *bench_json(const bench_table *table)
{
    json_t *list = json_array();
    for (size_t row = 0; row < table->n_rows; row++) {
        for (bench_set set = HOT; set < (table->rows[row].one_set ? COLD : N_SETS); set++) {
            cli_push(list, row_json(summarize(table, row, set)));
        }
    }
    return list;
}

void bench_tell(const bench_table *table, json_t *answer, const char *name, const char *title)
{
    if (answer) {
        cli_set(answer, name, bench_json(table));
        return;
    }
    printf("%s\n", title);
    bench_print(table);
    cli_flush();
}
