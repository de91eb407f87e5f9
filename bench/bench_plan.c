/* bench_plan.c  How long pkv_plan_create() takes, from 10 to 10,000 layers.
 *
 *  Beside it, measured in the same run: copying the specs, and reading every word of them (no
 *  planner can be faster than that); and the readers of JSON that come before it.
 *
 *  Usage: bench_plan [CONFIG.json...] */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pkv/pkv.h>

#define TARGET_US 20.0 /* of 32 layers */
#define SECONDS 0.5    /* of samples for one figure */

enum { MAX_SAMPLES = 20000, MIN_SAMPLES = 50, WARM_UP = 20 };

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "bench_plan: %s: %s\n", what, pkv_last_error());
        exit(1);
    }
}

static void *get_memory(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    require(memory != NULL, "out of memory");
    return memory;
}

/* ---- time ---- */

typedef struct timing {
    double min, median, p99; /* microseconds of one call */
} timing;

/* One thing to time: `run` makes `inner` calls, `reset` undoes them outside the clock. */
typedef struct subject {
    void (*run)(struct subject *s);
    void (*reset)(struct subject *s);
    uint32_t inner;
    const pkv_plan_params *params;
    pkv_spec *copy;
    const char *text;
    size_t len;
    pkv_plan *plan;
    pkv_document *doc;
    pkv_model *model;
    volatile uint64_t sink;
} subject;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sample(subject *s)
{
    const double start = now();
    s->run(s);
    const double end = now();
    if (s->reset) {
        s->reset(s);
    }
    return (end - start) / s->inner;
}

static timing measure(subject *s)
{
    static double samples[MAX_SAMPLES];
    size_t n = 0;
    for (int i = 0; i < WARM_UP; i++) {
        (void)sample(s);
    }
    const double end = now() + SECONDS * 1e6;
    while (n < MAX_SAMPLES && (n < MIN_SAMPLES || now() < end)) {
        samples[n++] = sample(s);
    }
    qsort(samples, n, sizeof *samples, by_size);
    return (timing){samples[0], samples[n / 2], samples[n - 1 - n / 100]};
}

/* ---- what is timed ---- */

static void run_plan(subject *s)
{
    require(pkv_plan_create(s->params, &s->plan) == PKV_OK, "plan");
}

static void reset_plan(subject *s)
{
    pkv_plan_destroy(s->plan);
}

static void run_document(subject *s)
{
    require(pkv_document_read(s->text, s->len, NULL, &s->doc) == PKV_OK, "document");
}

static void reset_document(subject *s)
{
    pkv_document_destroy(s->doc);
}

static void run_config(subject *s)
{
    require(pkv_model_read_config(s->text, s->len, NULL, &s->model) == PKV_OK, "config");
}

static void reset_config(subject *s)
{
    pkv_model_destroy(s->model);
}

/* The compiler must not see that all copies but the last are unused. */
static void *(*volatile copy_bytes)(void *to, const void *from, size_t n) = memcpy;

static void run_copy(subject *s)
{
    for (uint32_t i = 0; i < s->inner; i++) {
        copy_bytes(s->copy, s->params->layers, s->params->n_layers * sizeof *s->copy);
    }
}

/* Every word of every spec once. */
static void run_touch(subject *s)
{
    const size_t n = s->params->n_layers * (sizeof *s->copy / sizeof(uint64_t));
    for (uint32_t r = 0; r < s->inner; r++) {
        const char *at = (const char *)s->params->layers;
        uint64_t sum = s->sink;
        for (size_t i = 0; i < n; i++) {
            uint64_t word;
            memcpy(&word, at + i * sizeof word, sizeof word);
            sum ^= word;
        }
        s->sink = sum;
    }
}

/* ---- layers ---- */

static pkv_spec spec_of(uint32_t kind, uint64_t block_size, uint64_t heads, uint64_t head_size,
                        uint32_t dtype)
{
    pkv_spec spec;
    require(pkv_spec_init(&spec, kind) == PKV_OK, "spec");
    spec.block_size = block_size;
    spec.num_kv_heads = heads;
    spec.head_size = head_size;
    spec.dtype = dtype;
    if (kind == PKV_KIND_SLIDING_WINDOW) {
        spec.sliding_window = 1024;
    }
    require(pkv_spec_finish(&spec) == PKV_OK, "spec");
    return spec;
}

typedef enum model_kind { ONE_KIND, HYBRID, SPARSE } model_kind;
static const char *const model_names[] = {"one kind", "full + window 1:5", "MLA + indexer"};

/* Specs of a model's layers; the sparse one has two caches a layer. */
static pkv_spec *make_specs(model_kind kind, uint32_t layers, uint32_t *n_out)
{
    const uint32_t each = kind == SPARSE ? 2 : 1;
    pkv_spec *specs = get_memory(layers * each, sizeof *specs);
    for (uint32_t i = 0; i < layers; i++) {
        if (kind == SPARSE) {
            specs[2 * i] = spec_of(PKV_KIND_MLA, 64, 1, 576, PKV_DTYPE_BFLOAT16);
            specs[2 * i + 1] = spec_of(PKV_KIND_MLA, 64, 1, 132, PKV_DTYPE_UINT8);
            specs[2 * i + 1].cache_role = PKV_ROLE_INDEXER;
        } else {
            const bool full = kind == ONE_KIND || i % 6 == 5;
            specs[i] = spec_of(full ? PKV_KIND_FULL : PKV_KIND_SLIDING_WINDOW, 16, 8, 128,
                               PKV_DTYPE_BFLOAT16);
        }
    }
    *n_out = layers * each;
    return specs;
}

/* The same as a document. */
static char *write_document(const pkv_plan_params *params, size_t *len_out)
{
    const size_t room = 256 + params->n_layers * (size_t)1024;
    char *text = get_memory(room, 1);
    size_t len = (size_t)snprintf(text, room,
                                  "{\"available_bytes\": %" PRId64 ", \"max_model_len\": %" PRIu64
                                  ", \"options\": {}, \"layers\": [",
                                  params->available_bytes, params->max_model_len);
    for (uint32_t i = 0; i < params->n_layers; i++) {
        size_t n;
        len += (size_t)snprintf(text + len, room - len, "%s{\"name\": \"layers.%" PRIu32 "\", ",
                                i > 0 ? ", " : "", i);
        require(pkv_spec_to_json(&params->layers[i], text + len, room - len, &n) == PKV_OK, "text");
        memmove(text + len, text + len + 1, n); /* its members go on after the name */
        len += n - 1;
    }
    len += (size_t)snprintf(text + len, room - len, "]}");
    *len_out = len;
    return text;
}

/* ---- figures ---- */

static timing time_one(subject s, uint32_t inner)
{
    s.inner = inner;
    return measure(&s);
}

/* One line of the table; returns the plan's median. */
static double compare(model_kind kind, uint32_t layers)
{
    pkv_plan_params params;
    subject s = {0};
    pkv_plan_params_init(&params);
    pkv_spec *specs = make_specs(kind, layers, &params.n_layers);
    params.layers = specs;
    params.max_model_len = 131072;
    params.available_bytes = INT64_C(1) << 50;
    s.params = &params;
    s.copy = get_memory(params.n_layers, sizeof *s.copy);
    char *text = write_document(&params, &s.len);
    s.text = text;

    const uint32_t inner = 1 + 20000 / layers; /* the clock itself takes some 20 ns */
    s.run = run_copy;
    const timing copy = time_one(s, inner);
    s.run = run_touch;
    const timing touch = time_one(s, inner);
    s.run = run_plan;
    s.reset = reset_plan;
    const timing plan = time_one(s, 1);
    s.run = run_document;
    s.reset = reset_document;
    const timing reader = time_one(s, 1);

    printf("%-18s %6" PRIu32 " %6" PRIu32
           " %9.2f %9.2f %9.2f %8.1f %8.2f %8.2f %6.1f %6.1f %10.1f\n",
           model_names[kind], layers, params.n_layers, plan.min, plan.median, plan.p99,
           1000 * plan.median / layers, copy.median, touch.median, plan.median / copy.median,
           plan.median / touch.median, reader.median);
    free(text);
    free(s.copy);
    free(specs);
    return plan.median;
}

static void print_head(void)
{
    printf("microseconds; a plan's time is pkv_plan_create() alone, the rest are medians\n\n"
           "%-18s %6s %6s %9s %9s %9s %8s %8s %8s %6s %6s %10s\n",
           "layers are", "layers", "caches", "plan min", "median", "p99", "ns/layer", "copy",
           "touch", "/copy", "/touch", "document");
}

static void time_config(const char *path)
{
    subject s = {0};
    FILE *in = fopen(path, "rb");
    require(in != NULL, path);
    char *text = get_memory(1 << 20, 1);
    s.len = fread(text, 1, 1 << 20, in);
    (void)fclose(in);
    s.text = text;
    s.run = run_config;
    s.reset = reset_config;
    const timing t = time_one(s, 1);
    printf("%9.2f %9.2f %9.2f  %s\n", t.min, t.median, t.p99, path);
    free(text);
}

int main(int argc, char **argv)
{
    double worst = 0;
    print_head();
    for (model_kind kind = ONE_KIND; kind <= SPARSE; kind++) {
        const double median = compare(kind, 32);
        worst = median > worst ? median : worst;
    }
    for (uint32_t layers = 10; layers <= 10000; layers *= 10) {
        (void)compare(HYBRID, layers);
    }
    printf("\na plan of 32 layers takes at most %.2f us; the target is %.0f us\n", worst,
           TARGET_US);
    for (int i = 1; i < argc; i++) {
        if (i == 1) {
            printf("\npkv_model_read_config: min, median, p99\n");
        }
        time_config(argv[i]);
    }
    return 0;
}
