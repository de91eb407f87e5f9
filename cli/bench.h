/* bench.h  Time, figures and ceilings of `pagedkv bench`.
 *
 * A figure is the time of one operation beside its ceiling: what this machine needs for the memory
 * that any implementation must touch, or the bytes that it must digest. Both are measured in turn,
 * once a run; medians and ratios are over the runs. */
#ifndef BENCH_H
#define BENCH_H

#include "cli.h"

enum { BENCH_MAX_RUNS = 1000, BENCH_MAX_ROWS = 12 };

/* Nanoseconds of a clock that never goes back. */
double bench_now(void);
/* What must not fail: a line on stderr and exit code 3. */
void bench_need(bool condition, const char *what);
void *bench_memory(size_t n, size_t bytes);
/* The next number of a generator with 64 bits of state. */
uint64_t bench_random(uint64_t *state);
/* The numbers first ... first + n - 1 in random order. */
void bench_shuffle(uint32_t *out, size_t n, uint32_t first, uint64_t *state);
/* Name of the CPU as the system tells it. */
const char *bench_cpu(char text[128]);

/* ---- figures ---- */

typedef struct bench_row {
    const char *name, *unit; /* "take_release", "block" */
    const char *ceiling;     /* what its ceiling is made of; NULL: the row has none */
    double *ns, *ceiling_ns; /* [runs] of one unit */
} bench_row;

typedef struct bench_table {
    bench_row rows[BENCH_MAX_ROWS];
    size_t n_rows, runs;
} bench_table;

/* `rows` with a NULL name at their end; their names and texts are borrowed. */
void bench_table_init(bench_table *table, const bench_row *rows, size_t runs);
void bench_table_free(bench_table *table);
void bench_add(bench_table *table, size_t run, size_t row, double ns, double ceiling_ns);
/* Median of a row, in nanoseconds. */
double bench_median(const bench_table *table, size_t row);
/* All rows, for people. */
void bench_print(const bench_table *table);
/* [{"name", "unit", "ns", "min_ns", "max_ns", "ceiling", "ceiling_ns", "ratio"}]; ratio: ceiling
 * over figure, the median over the runs; the last three are null where there is no ceiling. */
json_t *bench_json(const bench_table *table);

/* ---- memory that a library object takes ---- */

/* Hooks that count: *bytes is what was given out and not taken back. */
pkv_alloc bench_counting(size_t *bytes);

/* ---- ceilings ---- */

/* ns of a line of 64 bytes that is read in random order, of a step of a pointer chase, and of a
 * line that memcpy() copies. */
typedef struct bench_speed {
    double read_ns, chase_ns, copy_ns;
} bench_speed;

/* The same over memory of 4, of 16 and of 64 bytes for each block of a pool. */
typedef struct bench_memory_speeds {
    bench_speed by_4, by_16, by_64;
} bench_memory_speeds;

typedef struct bench_ground bench_ground;
extern const bench_row bench_memory_rows[];

bench_ground *bench_ground_new(uint64_t blocks);
void bench_ground_free(bench_ground *ground);
/* One run, kept in a table of bench_memory_rows, too. */
bench_memory_speeds bench_ground_run(bench_ground *ground, bench_table *table, size_t run);

/* Nanoseconds of one key's digest by the library alone, over a chain of messages of the lengths
 * that these tokens have. sha: SHA-256, else XXH3-128. */
double bench_digest(const int32_t *tokens, size_t n_keys, size_t unit, bool sha);

/* ---- caches ---- */

typedef struct bench_cache_params {
    uint32_t hash;
    uint64_t blocks, max_model_len;
    bool caching, window; /* window: a second group */
} bench_cache_params;

pkv_cache *bench_cache(const bench_cache_params *params);
pkv_seq *bench_open(pkv_cache *cache, const int32_t *tokens, uint64_t n, const pkv_key *keys,
                    uint64_t n_keys);
/* Slots for all that is not cached; returns the hit. */
uint64_t bench_allocate(pkv_seq *seq, uint64_t new_tokens);
void bench_tokens(int32_t *tokens, uint64_t n, uint64_t *state);

/* ---- the benchmarks ---- */

typedef struct bench_params {
    uint64_t runs;
    uint64_t size;      /* blocks of the pool, or tokens of the hit; 0: all that are usual */
    uint64_t sequences; /* that advance together */
    bool json;
} bench_params;

/* They print, or fill the answer. */
void bench_pool(const bench_params *params, json_t *answer);
void bench_prefix(const bench_params *params, json_t *answer);
void bench_steps(const bench_params *params, json_t *answer);

#endif
