/* serve.c  What a scheduler does with the cache, in miniature: a plan becomes a cache, two requests
 *  share a system prompt, drafts are rejected, a sequence forks, and all advance in one call. The
 *  cache deals in block ids; the bytes are the engine's own (engine.c prints what it would do). */
#include <inttypes.h>
#include <stdio.h>

#include <pkv/pkv.h>

#include "engine.h"

enum { LAYERS = 4 };

/* Odd layers see everything; even ones see 32 tokens, stored in 8 bits. A page of either holds 16
 * tokens of 128 numbers (K and V of 64), in 2 heads of 2 bytes or 4 heads of 1: 8 KiB. */
static pkv_cache *make_cache(void)
{
    pkv_spec layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        const bool full = i % 2 == 1;
        OK(pkv_spec_init(&layers[i], full ? PKV_KIND_FULL : PKV_KIND_SLIDING_WINDOW));
        layers[i].block_size = 16;
        layers[i].head_size = 64;
        layers[i].num_kv_heads = full ? 2 : 4;
        layers[i].dtype = full ? PKV_DTYPE_BFLOAT16 : PKV_DTYPE_FLOAT8_E4M3FN;
        layers[i].sliding_window = full ? 0 : 32;
        OK(pkv_spec_finish(&layers[i]));
    }

    pkv_plan *plan; /* it also says which tensors an engine allocates */
    pkv_plan_params plan_params;
    pkv_plan_params_init(&plan_params);
    plan_params.layers = layers;
    plan_params.n_layers = LAYERS;
    plan_params.available_bytes = 512 << 10;
    plan_params.max_model_len = 128;
    OK(pkv_plan_create(&plan_params, &plan));

    pkv_cache *cache;
    pkv_cache_params cache_params;
    pkv_cache_params_init(&cache_params);
    cache_params.plan = plan;
    OK(pkv_cache_create(&cache_params, &cache));
    printf("cache: %" PRIu64 " blocks of %" PRIu64 " bytes, %" PRIu32 " groups\n",
           pkv_cache_get_info(cache)->n_blocks, pkv_plan_worker_at(plan, 0)->bytes_per_block,
           pkv_cache_get_info(cache)->n_groups);
    pkv_plan_destroy(plan); /* the cache has taken what it needs */
    return cache;
}

/* Slots for tokens that the next step computes. */
static void allocate(pkv_cache *cache, pkv_seq *seq, uint64_t new_tokens)
{
    pkv_allocate_params params;
    pkv_allocate_result todo;
    pkv_allocate_params_init(&params);
    params.new_tokens = new_tokens;
    OK(pkv_seq_allocate(seq, &params, &todo)); /* PKV_E_NO_BLOCKS: preempt one, and try again */
    before_step(cache, &todo);
}

/* A request comes in: what is cached is taken, the rest is computed. */
static pkv_seq *admit(pkv_cache *cache, const char *name, const int32_t *prompt, uint64_t n)
{
    pkv_seq *seq;
    pkv_hit hit;
    pkv_seq_params params;
    pkv_seq_params_init(&params);
    params.tokens = prompt;
    params.n_tokens = n;
    OK(pkv_seq_open(cache, &params, &seq));
    OK(pkv_seq_lookup(seq, &hit));
    printf("%s: %" PRIu64 " of %" PRIu64 " prompt tokens are cached\n", name, hit.tokens, n);
    allocate(cache, seq, n - hit.tokens);
    show(name, cache, seq, n - 1);
    return seq;
}

int main(void)
{
    pkv_cache *cache = make_cache();
    int32_t prompt[60];
    for (int32_t i = 0; i < 60; i++) {
        prompt[i] = i;
    }
    pkv_seq *a = admit(cache, "a", prompt, 60), *b, *c;
    prompt[48] = 1000; /* the same system prompt of 48 tokens, another question */
    b = admit(cache, "b", prompt, 58);
    OK(pkv_seq_fork(b, &c)); /* a second answer to it */

    const int32_t next[] = {7, 8, 9};
    OK(pkv_seq_append(a, next, 1));
    printf("a: token 60 and four drafts behind it\n");
    allocate(cache, a, 1 + 4);
    show("a", cache, a, 64);

    /* One draft was right: 62 tokens stay computed; it is appended, with the token after it. */
    const pkv_step steps[] = {
        {a, next + 1, 2, 62}, {b, next, 1, PKV_STEP_KEEP}, {c, next + 2, 1, PKV_STEP_KEEP}};
    pkv_allocate_result todo;
    uint64_t done;
    OK(pkv_cache_advance(cache, steps, 3, 0, &todo, &done));
    printf("a back to 62 tokens; a, b, c: the next step\n");
    before_step(cache, &todo);
    show("a", cache, a, 62);
    show("b", cache, b, 58);
    show("c", cache, c, 58);

    pkv_cache_stats stats;
    pkv_cache_take_stats(cache, &stats);
    printf("%" PRIu64 " requests: %" PRIu64 " of %" PRIu64 " tokens hit\n", stats.requests,
           stats.hits, stats.queries);
    pkv_cache_destroy(cache); /* closes its sequences, too */
    return 0;
}
