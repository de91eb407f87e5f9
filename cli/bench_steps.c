/* bench_steps.c  One pkv_cache_advance() of all running sequences, a token each, as in decoding,
 * and the pkv_cache_step() after it.
 *
 * `even`: all sequences are as long as each other, so that 15 of 16 steps take no block, and in the
 * 16th each sequence takes one (of each group). `uneven`: a 16th of them does in every step. Cold:
 * all memory of the cache, but not the steps and tokens that the caller has just written.
 *
 * A step within which the system gave the CPU to somebody else tells nothing about the cache: it is
 * counted, and left out of the quantiles. What else the machine does to a few steps of a thousand
 * is seen beside them, in work that takes about as long and looks at no cache: a virtual machine is
 * stopped for some microseconds a thousand times a second and more, each time in some step. All
 * runs take the same steps; so the median of each step over the runs, `repeated`, says what the
 * cache does to the slowest of them, and what the machine does to one and not to the others is not
 * in it. */
#define _DEFAULT_SOURCE

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"

enum { CONTEXT = 1024, WARM = 16, HOT_STEPS = 2048, COLD_STEPS = 128, GROUPS = 2, N_PLANS = 5 };
enum { EVEN_NO_BLOCK, EVEN_ALL, UNEVEN_ALL, N_CLASSES };
enum { BOUND = 20 };

#define NO_BLOCK "even, no block taken"

#define LOOP "a line of state and one of tokens each"

static const bench_row rows[] = {
    {"full_no_caching", "ns/sequence", LOOP, "20 ns", NULL, false},
    {"full_caching", "ns/sequence", LOOP, "20 ns", NULL, false},
    {"full_keys", "ns/sequence", LOOP, "20 ns", NULL, false},
    {"hybrid_no_caching", "ns/sequence", LOOP, "20 ns", NULL, false},
    {"hybrid_caching", "ns/sequence", LOOP, "20 ns", NULL, false},
    {NULL, NULL, NULL, NULL, NULL, false},
};

/* What the caches of the rows are. */
static const bench_cache_params plans[N_PLANS] = {
    {.caching = false},
    {.caching = true},
    {.caching = true, .index = PKV_INDEX_CHAINS},
    {.caching = false, .layers = BENCH_WINDOW},
    {.caching = true, .layers = BENCH_WINDOW},
};

static const char *const classes[] = {NO_BLOCK, "even, all steps", "uneven, all steps"};

/* ---- the loop ---- */

typedef struct loop {
    uint64_t (*states)[8]; /* [n] a line each */
    int32_t *tokens;       /* [n, most] */
    uint32_t *order;       /* [n] */
    uint64_t n, most;
} loop;

static void loop_init(loop *l, uint64_t n)
{
    uint64_t state = 5;
    *l = (loop){.n = n, .most = CONTEXT + HOT_STEPS + BENCH_UNIT};
    l->states = bench_memory(n, sizeof *l->states);
    l->tokens = bench_memory(n * l->most, sizeof *l->tokens);
    l->order = bench_memory(n, sizeof *l->order);
    bench_shuffle(l->order, n, 0, &state);
    memset(l->tokens, 1, n * l->most * sizeof *l->tokens); /* from now on its pages are there */
}

static void loop_free(loop *l)
{
    free(l->states);
    free(l->tokens);
    free(l->order);
}

static void loop_step(loop *l, int32_t step)
{
    for (uint64_t i = 0; i < l->n; i++) {
        uint64_t *state = l->states[l->order[i]];
        l->tokens[l->order[i] * l->most + CONTEXT + state[0]++ % HOT_STEPS] = step;
    }
}

static void loop_chill(const loop *l)
{
    bench_chill(l->states, l->n * sizeof *l->states);
    bench_chill(l->tokens, l->n * l->most * sizeof *l->tokens);
    bench_chilled();
}

static double loop_run(loop *l, bench_set set)
{
    enum { STEPS = 64 };
    double values[STEPS];
    memset(l->states, 0, l->n * sizeof *l->states);
    for (int32_t step = 0; step < STEPS; step++) {
        if (set == COLD) {
            loop_chill(l);
        }
        const double start = bench_now();
        loop_step(l, step);
        values[step] = (bench_now() - start) / (double)l->n;
    }
    return bench_quantile(values, STEPS, 0.5);
}

/* ---- the cache ---- */

/* ns of one sequence in each step of all runs. */
typedef struct samples {
    double *values;
    size_t n, preempted;
} samples;

/* ns of one sequence in steps that took no block, step by step. */
typedef struct repeats {
    double *values; /* [HOT_STEPS, runs] */
    size_t n[HOT_STEPS], runs;
} repeats;

typedef struct steps_bench {
    pkv_cache *caches[N_PLANS];
    bench_heap heaps[N_PLANS];
    samples all[N_PLANS][N_SETS][N_CLASSES];
    repeats repeated[N_PLANS][N_SETS];
    samples machine[N_SETS]; /* what looks at no cache */
    pkv_step *steps;         /* [n] */
    int32_t *tokens;         /* [n] */
    uint64_t n, state;
    loop loop;
} steps_bench;

static void steps_init(steps_bench *b, uint64_t n, size_t runs)
{
    const uint64_t most = CONTEXT + BENCH_UNIT + WARM + HOT_STEPS;
    *b = (steps_bench){.n = n, .state = 9};
    b->steps = bench_memory(n, sizeof *b->steps);
    b->tokens = bench_memory(n, sizeof *b->tokens);
    loop_init(&b->loop, n);
    for (bench_set set = HOT; set < N_SETS; set++) {
        b->machine[set].values = bench_memory(runs * N_PLANS * HOT_STEPS, sizeof(double));
    }
    for (size_t i = 0; i < N_PLANS; i++) {
        bench_cache_params params = plans[i];
        params.blocks = n * GROUPS * (most / BENCH_UNIT + 2) + 1;
        params.max_model_len = most;
        params.heap = &b->heaps[i];
        b->caches[i] = bench_cache(&params);
        for (size_t k = 0; k < (size_t)N_SETS * N_CLASSES; k++) {
            b->all[i][k / N_CLASSES][k % N_CLASSES].values =
                bench_memory(runs * HOT_STEPS, sizeof(double));
        }
        for (bench_set set = HOT; set < N_SETS; set++) {
            b->repeated[i][set].runs = runs;
            b->repeated[i][set].values = bench_memory(runs * HOT_STEPS, sizeof(double));
        }
    }
}

static void steps_free(steps_bench *b)
{
    for (size_t i = 0; i < N_PLANS; i++) {
        for (size_t k = 0; k < (size_t)N_SETS * N_CLASSES; k++) {
            free(b->all[i][k / N_CLASSES][k % N_CLASSES].values);
        }
        for (bench_set set = HOT; set < N_SETS; set++) {
            free(b->repeated[i][set].values);
        }
        pkv_cache_destroy(b->caches[i]);
        bench_heap_free(&b->heaps[i]);
    }
    for (bench_set set = HOT; set < N_SETS; set++) {
        free(b->machine[set].values);
    }
    free(b->steps);
    free(b->tokens);
    loop_free(&b->loop);
}

static void open_all(steps_bench *b, pkv_cache *cache, bool even)
{
    int32_t *prompt = bench_memory(CONTEXT + BENCH_UNIT, sizeof *prompt);
    for (uint64_t i = 0; i < b->n; i++) {
        const uint64_t tokens = CONTEXT + (even ? 0 : i % BENCH_UNIT);
        bench_tokens(prompt, tokens, &b->state);
        b->steps[i] =
            (pkv_step){bench_open(cache, prompt, tokens, NULL, 0), &b->tokens[i], 1, PKV_STEP_KEEP};
        (void)bench_allocate(b->steps[i].seq, tokens);
    }
    free(prompt);
}

static void close_all(steps_bench *b, pkv_cache *cache)
{
    for (uint64_t i = 0; i < b->n; i++) {
        bench_close(b->steps[i].seq);
    }
    bench_need(pkv_cache_reset(cache) == PKV_OK, "reset");
}

/* How often others got the CPU while this program could have gone on. */
static long preemptions(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* When a step began. */
typedef struct begun {
    long preempted;
    double at;
} begun;

static begun begin(steps_bench *b)
{
    bench_tokens(b->tokens, b->n, &b->state);
    const long preempted = preemptions();
    return (begun){preempted, bench_now()};
}

/* ns of one sequence since then; below 0: the program was preempted meanwhile. */
static double end(const steps_bench *b, begun from)
{
    const double ns = bench_now() - from.at;
    return preemptions() == from.preempted ? ns / (double)b->n : -1;
}

static double step_once(steps_bench *b, pkv_cache *cache, const bench_heap *cold)
{
    pkv_allocate_result result;
    uint64_t done;
    if (cold) {
        bench_chill_heap(cold);
        bench_chilled();
    }
    const begun from = begin(b);
    const pkv_status status = pkv_cache_advance(cache, b->steps, b->n, 0, &result, &done);
    pkv_cache_step(cache);
    const double ns = end(b, from);
    bench_need(status == PKV_OK && done == b->n, "advance");
    return ns;
}

/* Whether the last step took a block. */
static bool took(const steps_bench *b, uint32_t n_groups)
{
    uint64_t taken = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        for (uint32_t group = 0; group < n_groups; group++) {
            uint64_t n;
            (void)pkv_seq_new_blocks(b->steps[i].seq, group, &n);
            taken += n;
        }
    }
    return taken > 0;
}

static void keep(samples *s, double value)
{
    if (value < 0) {
        s->preempted++;
    } else {
        s->values[s->n++] = value;
    }
}

/* What takes about as long as a step, measured as steps are, and looks at no cache. Hot: random
 * numbers, one out of the other; nothing of it can be slower at one time than at another. Cold: the
 * loop. */
static void run_machine(steps_bench *b, bench_set set)
{
    const int32_t n_steps = set == HOT ? HOT_STEPS : COLD_STEPS;
    for (int32_t step = 0; step < n_steps; step++) {
        if (set == COLD) {
            loop_chill(&b->loop);
        }
        const begun from = begin(b);
        for (uint64_t i = 0; set == HOT && i < b->n; i++) {
            (void)bench_random(&b->state);
        }
        if (set == COLD) {
            loop_step(&b->loop, step);
        }
        keep(&b->machine[set], end(b, from));
    }
}

static void keep_step(repeats *r, size_t step, double value)
{
    if (value >= 0) {
        r->values[step * r->runs + r->n[step]++] = value;
    }
}

/* Median of the steps that took no block; of uneven ones none is asked for. */
static double run_steps(steps_bench *b, size_t plan, bench_set set, bool even)
{
    static double quiet[HOT_STEPS];
    size_t n_quiet = 0;
    pkv_cache *cache = b->caches[plan];
    samples *all = b->all[plan][set];
    const uint32_t n_groups = pkv_cache_get_info(cache)->n_groups;
    const bench_heap *cold = set == COLD ? &b->heaps[plan] : NULL;
    open_all(b, cache, even);
    for (size_t i = 0; i < WARM; i++) {
        (void)step_once(b, cache, NULL);
    }
    for (size_t i = 0; i < (set == HOT ? HOT_STEPS : COLD_STEPS); i++) {
        const double ns = step_once(b, cache, cold);
        keep(&all[even ? EVEN_ALL : UNEVEN_ALL], ns);
        if (even && !took(b, n_groups)) {
            keep(&all[EVEN_NO_BLOCK], ns);
            keep_step(&b->repeated[plan][set], i, ns);
            if (ns >= 0) {
                quiet[n_quiet++] = ns;
            }
        }
    }
    close_all(b, cache);
    return n_quiet > 0 ? bench_quantile(quiet, n_quiet, 0.5) : 0;
}

/* ---- figures ---- */

typedef struct spread {
    const char *plan, *set, *steps;
    size_t n, preempted;
    double mean, p50, p99, p99_9, most;
    bool bounded, met; /* met: by p99_9 */
} spread;

static spread spread_of(const samples *s, const char *plan, bench_set set, const char *steps,
                        bool bounded)
{
    spread d = {.plan = plan,
                .set = set == HOT ? "hot" : "cold",
                .steps = steps,
                .n = s->n,
                .preempted = s->preempted,
                .bounded = bounded};
    double sum = 0;
    bench_need(s->n > 0, "steps");
    for (size_t i = 0; i < s->n; i++) {
        sum += s->values[i];
    }
    d.mean = sum / (double)s->n;
    d.p50 = bench_quantile(s->values, s->n, 0.5);
    d.p99 = bench_quantile(s->values, s->n, 0.99);
    d.p99_9 = bench_quantile(s->values, s->n, 0.999);
    d.most = s->values[s->n - 1];
    d.met = d.p99_9 <= BOUND;
    return d;
}

/* Of each step's median over the runs. */
static spread repeated_spread(repeats *r, const char *plan, bench_set set)
{
    double medians[HOT_STEPS];
    samples s = {medians, 0, 0};
    for (size_t step = 0; step < HOT_STEPS; step++) {
        if (r->n[step] > 0) {
            keep(&s, bench_quantile(r->values + step * r->runs, r->n[step], 0.5));
        }
    }
    return spread_of(&s, plan, set, NO_BLOCK ", repeated", true);
}

static void print_spread(const spread *d)
{
    printf("  %-18s %-4s %-30s %7zu %9zu %9.2f %9.2f %9.2f %9.2f %9.2f", d->plan, d->set, d->steps,
           d->n, d->preempted, d->mean, d->p50, d->p99, d->p99_9, d->most);
    if (d->bounded) {
        printf(" %6d  %s", BOUND, d->met ? "yes" : "NO");
    }
    printf("\n");
}

static json_t *spread_json(const spread *d)
{
    json_t *one = json_object();
    cli_set(one, "name", json_string(d->plan));
    cli_set(one, "set", json_string(d->set));
    cli_set(one, "steps", json_string(d->steps));
    cli_set(one, "n_steps", cli_int(d->n));
    cli_set(one, "n_preempted", cli_int(d->preempted));
    cli_set(one, "unit", json_string("ns/sequence"));
    cli_set(one, "mean", json_real(d->mean));
    cli_set(one, "p50", json_real(d->p50));
    cli_set(one, "p99", json_real(d->p99));
    cli_set(one, "p99_9", json_real(d->p99_9));
    cli_set(one, "most", json_real(d->most));
    cli_set(one, "bound_value", d->bounded ? json_real(BOUND) : json_null());
    cli_set(one, "met", d->bounded ? json_boolean(d->met) : json_null());
    return one;
}

static void tell_spread(const spread *d, json_t *list)
{
    if (list) {
        cli_push(list, spread_json(d));
    } else {
        print_spread(d);
    }
}

static void tell_spreads(steps_bench *b, json_t *answer)
{
    json_t *list = answer ? json_array() : NULL;
    if (!list) {
        printf(
            "the same steps one by one, over all runs\n  %-18s %-4s %-30s %7s %9s %9s %9s %9s %9s "
            "%9s %6s  met by p99.9\n",
            "ns/sequence", "set", "which", "steps", "preempted", "mean", "p50", "p99", "p99.9",
            "most", "bound");
    }
    for (size_t i = 0; i < (size_t)N_PLANS * N_SETS * N_CLASSES; i++) {
        const size_t plan = i / N_CLASSES / N_SETS, class = i % N_CLASSES;
        const bench_set set = i / N_CLASSES % N_SETS;
        const spread d = spread_of(&b->all[plan][set][class], rows[plan].name, set, classes[class],
                                   class == EVEN_NO_BLOCK);
        tell_spread(&d, list);
        if (class == EVEN_NO_BLOCK) {
            const spread again = repeated_spread(&b->repeated[plan][set], rows[plan].name, set);
            tell_spread(&again, list);
        }
    }
    for (bench_set set = HOT; set < N_SETS; set++) {
        const spread machine =
            spread_of(&b->machine[set], "no cache", set, "as long as a step", false);
        tell_spread(&machine, list);
    }
    if (list) {
        cli_set(answer, "step_spreads", list);
    } else {
        printf("\n");
    }
}

void bench_steps(const bench_params *params, json_t *answer)
{
    char title[160];
    steps_bench *b = bench_memory(1, sizeof *b);
    bench_table table;
    steps_init(b, params->sequences, params->runs);
    bench_table_init(&table, rows, params->runs);
    for (size_t run = 0; run < params->runs; run++) {
        for (bench_set set = HOT; set < N_SETS; set++) {
            const double ceiling = loop_run(&b->loop, set);
            for (size_t plan = 0; plan < N_PLANS; plan++) {
                const double ns = run_steps(b, plan, set, true);
                (void)run_steps(b, plan, set, false);
                run_machine(b, set);
                bench_add(&table, run, plan, set, (bench_sample){ns, ceiling, BOUND});
            }
        }
    }
    (void)snprintf(title, sizeof title,
                   "a step of %llu sequences of %d tokens and more, a token each, in which none "
                   "needs a new block",
                   (unsigned long long)b->n, CONTEXT);
    bench_tell(&table, answer, "steps", title);
    tell_spreads(b, answer);
    bench_table_free(&table);
    steps_free(b);
    free(b);
}
