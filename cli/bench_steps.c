/* bench_steps.c  One pkv_cache_advance() of all running sequences, a token each, as in decoding.
 *
 * The ceiling is a loop that touches as much memory and does nothing else: per sequence four lines
 * of state and the token behind the others; for every 16th token a block id from a list, and a key
 * of 32 bytes with its slot. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { UNIT = 16, CONTEXT = 1024, STEPS = 64, GROUPS = 2 };

enum row { UNCACHED, XXH3, SHA256, SHA256_WINDOW, TOUCH_1, TOUCH_2, N_ROWS };

static const bench_row rows[] = {
    {"advance_uncached", "sequence", "a loop over the memory of one group", NULL, NULL},
    {"advance_pkv_xxh3", "sequence", "a loop over the memory of one group", NULL, NULL},
    {"advance_sha256", "sequence", "the loop, and 1/16 digest by libcrypto", NULL, NULL},
    {"advance_window", "sequence", "the loop over two groups, 1/16 digest", NULL, NULL},
    {"loop_one_group", "sequence", NULL, NULL, NULL},
    {"loop_two_groups", "sequence", NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- the loop ---- */

typedef struct touched {
    uint64_t state[32];
    int32_t *tokens;
    uint32_t *tables[GROUPS];
    pkv_key *keys;
    uint64_t n;
} touched;

typedef struct touch {
    touched **seqs; /* [n] in random order */
    uint64_t n, n_blocks;
    uint32_t *list; /* [n_blocks] each names the next */
    pkv_key *index; /* [n_blocks] */
    uint32_t at;
} touch;

static void touch_new(touch *t, uint64_t n, uint64_t most)
{
    uint64_t state = 5;
    uint32_t *order = bench_memory(n, sizeof *order);
    *t = (touch){.n = n, .n_blocks = n * GROUPS * (most / UNIT + 1)};
    t->seqs = bench_memory(n, sizeof(touched *));
    t->list = bench_memory(t->n_blocks, sizeof *t->list);
    t->index = bench_memory(t->n_blocks, sizeof *t->index);
    bench_shuffle(t->list, t->n_blocks, 0, &state);
    bench_shuffle(order, n, 0, &state);
    for (uint64_t i = 0; i < n; i++) {
        touched *s = bench_memory(1, sizeof *s);
        s->n = CONTEXT + i % UNIT;
        s->tokens = bench_memory(most, sizeof *s->tokens);
        s->keys = bench_memory(most / UNIT + 1, sizeof *s->keys);
        for (size_t g = 0; g < GROUPS; g++) {
            s->tables[g] = bench_memory(most / UNIT + 1, sizeof *s->tables[g]);
        }
        t->seqs[order[i]] = s;
    }
    free(order);
}

static void touch_free(touch *t)
{
    for (uint64_t i = 0; i < t->n; i++) {
        for (size_t g = 0; g < GROUPS; g++) {
            free(t->seqs[i]->tables[g]);
        }
        free(t->seqs[i]->tokens);
        free(t->seqs[i]->keys);
        free(t->seqs[i]);
    }
    free(t->seqs);
    free(t->list);
    free(t->index);
}

static void touch_one(touch *t, touched *s, size_t groups, int32_t token)
{
    for (size_t w = 0; w < sizeof s->state / sizeof *s->state; w += 8) {
        s->state[w]++;
    }
    s->tokens[s->n++] = token;
    if (s->n % UNIT == 0) {
        s->keys[s->n / UNIT].bytes[0] = (uint8_t)token;
        for (size_t g = 0; g < groups; g++) {
            t->at = t->list[t->at];
            s->tables[g][s->n / UNIT] = t->at;
            t->index[t->at] = s->keys[s->n / UNIT];
        }
    }
}

/* Nanoseconds of one sequence in one step. The sequences do not grow from run to run. */
static double touch_run(touch *t, size_t groups)
{
    const double start = bench_now();
    for (int32_t step = 0; step < STEPS; step++) {
        for (uint64_t i = 0; i < t->n; i++) {
            touch_one(t, t->seqs[i], groups, step);
        }
    }
    const double ns = (bench_now() - start) / (double)(STEPS * t->n);
    for (uint64_t i = 0; i < t->n; i++) {
        t->seqs[i]->n -= STEPS;
    }
    return ns;
}

/* ---- the cache ---- */

typedef struct running {
    pkv_cache *cache;
    pkv_step *steps; /* [n] */
    int32_t *tokens; /* [n] */
    uint64_t n;
} running;

static void running_new(running *r, uint64_t n, uint64_t most, bench_cache_params params)
{
    uint64_t state = 9;
    int32_t *prompt = bench_memory(CONTEXT + UNIT, sizeof *prompt);
    params.blocks = n * GROUPS * (most / UNIT + 2) + 1;
    params.max_model_len = most;
    *r = (running){.cache = bench_cache(&params), .n = n};
    r->steps = bench_memory(n, sizeof *r->steps);
    r->tokens = bench_memory(n, sizeof *r->tokens);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t tokens = CONTEXT + i % UNIT; /* some end their block in every step */
        bench_tokens(prompt, tokens, &state);
        r->steps[i] = (pkv_step){bench_open(r->cache, prompt, tokens, NULL, 0), &r->tokens[i], 1,
                                 PKV_STEP_KEEP};
        (void)bench_allocate(r->steps[i].seq, tokens);
    }
    free(prompt);
}

static void running_free(running *r)
{
    pkv_cache_destroy(r->cache);
    free(r->steps);
    free(r->tokens);
}

static double running_run(running *r, uint64_t *state)
{
    double ns = 0;
    for (int step = 0; step < STEPS; step++) {
        pkv_allocate_result result;
        uint64_t done;
        bench_tokens(r->tokens, r->n, state);
        const double start = bench_now();
        bench_need(pkv_cache_advance(r->cache, r->steps, r->n, 0, &result, &done) == PKV_OK,
                   "advance");
        pkv_cache_step(r->cache);
        ns += bench_now() - start;
    }
    return ns / (double)(STEPS * r->n);
}

/* ---- figures ---- */

static void run_once(running *caches, touch *t, bench_table *table, size_t run)
{
    uint64_t state = 11 + run;
    int32_t tokens[64 * UNIT];
    bench_tokens(tokens, 64 * UNIT, &state);
    const double one = touch_run(t, 1), two = touch_run(t, 2);
    const double digest = bench_digest(tokens, 64, UNIT, true) / UNIT;
    const double ceilings[] = {one, one, one + digest, two + digest};
    for (size_t i = UNCACHED; i <= SHA256_WINDOW; i++) {
        bench_add(table, run, i, running_run(&caches[i], &state), ceilings[i]);
    }
    bench_add(table, run, TOUCH_1, one, 0);
    bench_add(table, run, TOUCH_2, two, 0);
}

void bench_steps(const bench_params *params, json_t *answer)
{
    const uint64_t n = params->sequences, most = CONTEXT + UNIT + STEPS * (params->runs + 1);
    const bench_cache_params kinds[] = {
        [UNCACHED] = {.hash = PKV_HASH_SHA256_CBOR},
        [XXH3] = {.hash = PKV_HASH_PKV_XXH3, .caching = true},
        [SHA256] = {.hash = PKV_HASH_SHA256_CBOR, .caching = true},
        [SHA256_WINDOW] = {.hash = PKV_HASH_SHA256_CBOR, .caching = true, .window = true},
    };
    running caches[SHA256_WINDOW + 1];
    bench_table table;
    touch t;
    touch_new(&t, n, most);
    bench_table_init(&table, rows, params->runs);
    for (size_t i = UNCACHED; i <= SHA256_WINDOW; i++) {
        running_new(&caches[i], n, most, kinds[i]);
    }
    for (size_t run = 0; run < params->runs; run++) {
        run_once(caches, &t, &table, run);
    }
    if (answer) {
        json_t *advance = json_object();
        cli_set(advance, "sequences", cli_int(n));
        cli_set(advance, "context", cli_int(CONTEXT));
        cli_set(advance, "figures", bench_json(&table));
        cli_set(answer, "advance", advance);
    } else {
        printf("one pkv_cache_advance() of %llu sequences of %d tokens and more, a token each\n",
               (unsigned long long)n, CONTEXT);
        bench_print(&table);
    }
    for (size_t i = UNCACHED; i <= SHA256_WINDOW; i++) {
        running_free(&caches[i]);
    }
    bench_table_free(&table);
    touch_free(&t);
}
