/* bench_cache.c  Caches of `pagedkv bench`: one full group, or one more with a window. */
#include <stdlib.h>

#include "bench.h"

enum { UNIT = 16, WINDOW = 512 };

static pkv_spec spec_of(uint32_t kind)
{
    pkv_spec spec;
    bench_need(pkv_spec_init(&spec, kind) == PKV_OK, "spec");
    spec.block_size = UNIT;
    spec.num_kv_heads = 1;
    spec.head_size = 8;
    spec.dtype = PKV_DTYPE_BFLOAT16;
    spec.sliding_window = kind == PKV_KIND_SLIDING_WINDOW ? WINDOW : 0;
    bench_need(pkv_spec_finish(&spec) == PKV_OK, "spec");
    return spec;
}

pkv_cache *bench_cache(const bench_cache_params *params)
{
    const pkv_spec layers[] = {spec_of(PKV_KIND_FULL), spec_of(PKV_KIND_SLIDING_WINDOW)};
    uint64_t page;
    pkv_plan_params plan_params;
    pkv_cache_params cache_params;
    pkv_plan *plan;
    pkv_cache *cache;
    bench_need(pkv_spec_page_bytes(&layers[0], &page) == PKV_OK, "page");
    pkv_plan_params_init(&plan_params);
    plan_params.layers = layers;
    plan_params.n_layers = params->window ? 2 : 1;
    plan_params.available_bytes = (int64_t)(params->blocks * page); /* a layer in each group */
    plan_params.max_model_len = params->max_model_len;
    plan_params.caching = params->caching;
    bench_need(pkv_plan_create(&plan_params, &plan) == PKV_OK, "plan");
    pkv_cache_params_init(&cache_params);
    cache_params.plan = plan;
    cache_params.hash = params->hash;
    bench_need(pkv_cache_create(&cache_params, &cache) == PKV_OK, "cache");
    pkv_plan_destroy(plan);
    return cache;
}

pkv_seq *bench_open(pkv_cache *cache, const int32_t *tokens, uint64_t n, const pkv_key *keys,
                    uint64_t n_keys)
{
    pkv_seq *seq;
    pkv_seq_params params;
    pkv_seq_params_init(&params);
    params.tokens = tokens;
    params.n_tokens = n;
    params.keys = keys;
    params.n_keys = keys ? n_keys : 0;
    bench_need(pkv_seq_open(cache, &params, &seq) == PKV_OK, "open");
    return seq;
}

uint64_t bench_allocate(pkv_seq *seq, uint64_t new_tokens)
{
    pkv_allocate_params params;
    pkv_allocate_result result;
    pkv_allocate_params_init(&params);
    params.new_tokens = new_tokens;
    bench_need(pkv_seq_allocate(seq, &params, &result) == PKV_OK, "allocate");
    return result.cached_tokens;
}

void bench_tokens(int32_t *tokens, uint64_t n, uint64_t *state)
{
    enum { VOCABULARY = 128256 };
    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)(bench_random(state) % VOCABULARY);
    }
}
