/* bench_ceilings.c  What the machine can do with memory: nodes in random order, bytes compared. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { LEAST_READS = 20000 };

/* Word 0 of a node names the next one of the chase, which visits all nodes once. */
struct bench_nodes {
    uint64_t *words; /* [n, width] */
    uint32_t *order; /* [n] */
    size_t n, width;
    volatile uint64_t sink;
};

bench_nodes *bench_nodes_new(size_t n, size_t bytes)
{
    enum { LINE = 64 };
    uint64_t state = 88172645463325252u;
    bench_nodes *b = bench_memory(1, sizeof *b);
    b->n = n > 0 ? n : 1;
    b->width = bytes / sizeof *b->words;
    const size_t whole = (b->n * bytes + LINE - 1) / LINE * LINE;
    b->words = bench_pages(whole, LINE);
    b->order = bench_memory(b->n, sizeof *b->order);
    bench_need(b->words != NULL, "out of memory");
    memset(b->words, 0, whole);
    bench_shuffle(b->order, b->n, 0, &state);
    for (size_t i = 0; i < b->n; i++) {
        b->words[b->order[i] * b->width] = b->order[(i + 1) % b->n];
    }
    return b;
}

void bench_nodes_free(bench_nodes *b)
{
    free(b->words);
    free(b->order);
    free(b);
}

/* How often n nodes are gone through: once if they are cold. */
static size_t prepare(const bench_nodes *b, size_t n, bench_set set)
{
    if (set == HOT) {
        return 1 + LEAST_READS / n;
    }
    bench_chill(b->words, b->n * b->width * sizeof *b->words);
    bench_chilled();
    return 1;
}

double bench_nodes_read(bench_nodes *b, size_t n, bench_set set)
{
    uint64_t sum = 0;
    n = n < b->n ? n : b->n;
    const size_t rounds = prepare(b, n, set);
    const double start = bench_now();
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < n; i++) {
            const uint64_t *node = b->words + b->order[i] * b->width;
            for (size_t w = 0; w < b->width; w++) {
                sum += node[w];
            }
        }
    }
    const double end = bench_now();
    b->sink = sum;
    return (end - start) / (double)(rounds * n);
}

double bench_nodes_chase(bench_nodes *b, size_t n, bench_set set)
{
    uint64_t at = b->order[0];
    n = n < b->n ? n : b->n;
    const size_t rounds = prepare(b, n, set);
    const double start = bench_now();
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < n; i++) {
            at = b->words[at * b->width];
        }
    }
    const double end = bench_now();
    b->sink = at;
    return (end - start) / (double)(rounds * n);
}

/* ---- bytes ---- */

/* The compiler must not see that the results are unused. */
static void *(*volatile copy_bytes)(void *to, const void *from, size_t n) = memcpy;
static int (*volatile compare_bytes)(const void *a, const void *b, size_t n) = memcmp;

void bench_twins_init(bench_twins *twins, size_t bytes, size_t n)
{
    *twins = (bench_twins){bench_memory(bytes, 1), bench_memory(n, bytes), bytes, n, 43};
    memset(twins->a, 7, bytes);
    memset(twins->b, 7, n * bytes);
}

void bench_twins_free(bench_twins *twins)
{
    free(twins->a);
    free(twins->b);
}

static int compare(void *a, const void *b, size_t bytes)
{
    return compare_bytes(a, b, bytes);
}

static int copy(void *a, const void *b, size_t bytes)
{
    return copy_bytes(a, b, bytes) == a ? 0 : -1;
}

static double time_twins(bench_twins *twins, bench_set set,
                         int (*run)(void *a, const void *b, size_t bytes))
{
    enum { ROUNDS = 9 };
    double values[ROUNDS];
    const uint8_t *b = twins->b;
    int differ = set == HOT ? run(twins->a, b, twins->bytes) : 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        if (set == COLD) {
            b = twins->b + bench_random(&twins->state) % twins->n * twins->bytes;
            bench_chill(twins->a, twins->bytes);
            bench_chill(twins->b, twins->n * twins->bytes);
            bench_chilled();
        }
        const double start = bench_now();
        differ |= run(twins->a, b, twins->bytes);
        values[i] = bench_now() - start;
    }
    bench_need(differ == 0, "twins");
    return bench_quantile(values, ROUNDS, 0.5);
}

double bench_compare(bench_twins *twins, bench_set set)
{
    return time_twins(twins, set, compare);
}

double bench_copy(bench_twins *twins, bench_set set)
{
    return time_twins(twins, set, copy);
}
