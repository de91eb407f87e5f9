/* bench.c  Time, random content and failures of `pagedkv bench`. */
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

void bench_tokens(int32_t *tokens, uint64_t n, uint64_t *state)
{
    enum { VOCABULARY = 128256 };
    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)(bench_random(state) % VOCABULARY);
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t n, double share)
{
    const size_t at = (size_t)((double)n * share);
    qsort(values, n, sizeof *values, by_size);
    return values[at < n ? at : n - 1];
}
