/* bench_cache.c  Caches of `pagedkv bench`: one full group, or one more beside it. */
#include <stdlib.h>

#include "bench.h"

enum { WINDOW = 512, HASH = PKV_HASH_SHA256_CBOR };

static pkv_spec attention(uint32_t kind, uint64_t block_size, uint32_t heads)
{
    pkv_spec spec;
    bench_need(pkv_spec_init(&spec, kind) == PKV_OK, "spec");
    spec.block_size = block_size;
    spec.num_kv_heads = heads;
    spec.head_size = 8;
    spec.dtype = PKV_DTYPE_BFLOAT16;
    spec.sliding_window = kind == PKV_KIND_SLIDING_WINDOW ? WINDOW : 0;
    bench_need(pkv_spec_finish(&spec) == PKV_OK, "spec");
    return spec;
}

/* state: stays as long as the spec is used. */
static pkv_spec states(const pkv_state *state)
{
    pkv_spec spec;
    bench_need(pkv_spec_init(&spec, PKV_KIND_MAMBA) == PKV_OK, "spec");
    spec.block_size = BENCH_UNIT;
    spec.mamba_mode = PKV_MAMBA_ALIGN;
    spec.states = state;
    spec.n_states = 1;
    bench_need(pkv_spec_finish(&spec) == PKV_OK, "spec");
    return spec;
}

pkv_cache *bench_cache(const bench_cache_params *params)
{
    const bool sizes = params->layers == BENCH_SIZES;
    const pkv_spec full = attention(PKV_KIND_FULL, sizes ? 2 * BENCH_UNIT : BENCH_UNIT, 1);
    uint64_t page;
    bench_need(pkv_spec_page_bytes(&full, &page) == PKV_OK, "page");
    const pkv_state state = {PKV_DTYPE_UINT8, 1, {page}};
    const pkv_spec layers[] = {full,
                               params->layers == BENCH_STATES
                                   ? states(&state)
                                   : attention(PKV_KIND_SLIDING_WINDOW, BENCH_UNIT, sizes ? 2 : 1)};
    const pkv_alloc hooks = bench_hooks(params->heap);
    pkv_plan_params plan_params;
    pkv_cache_params cache_params;
    pkv_plan *plan;
    pkv_cache *cache;
    pkv_plan_params_init(&plan_params);
    plan_params.layers = layers;
    plan_params.n_layers = params->layers == BENCH_FULL ? 1 : 2;
    plan_params.available_bytes = (int64_t)(params->blocks * page); /* a layer in each group */
    plan_params.max_model_len = params->max_model_len;
    plan_params.caching = params->caching;
    plan_params.retention_interval = params->dense ? PKV_RETAIN_DENSE : 0;
    bench_need(pkv_plan_create(&plan_params, &plan) == PKV_OK, "plan");
    pkv_cache_params_init(&cache_params);
    cache_params.plan = plan;
    cache_params.hash = HASH;
    cache_params.alloc = &hooks;
    cache_params.index = params->index;
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

void bench_close(pkv_seq *seq)
{
    bench_need(pkv_seq_close(seq, false) == PKV_OK, "close");
}

void bench_fill(pkv_cache *cache, uint64_t n, uint64_t prompts, uint64_t *state)
{
    int32_t *tokens = bench_memory(n, sizeof *tokens);
    for (uint64_t i = 0; i < prompts; i++) {
        bench_tokens(tokens, n, state);
        pkv_seq *seq = bench_open(cache, tokens, n, NULL, 0);
        (void)bench_allocate(seq, n);
        bench_close(seq);
    }
    free(tokens);
}

/* `crowd` sequences grow by a block each time it is their turn, which is drawn. */
static void grow_in_turn(pkv_cache *cache, size_t crowd, uint64_t blocks, uint64_t *state)
{
    const uint64_t n = blocks * BENCH_UNIT;
    int32_t *tokens = bench_memory(n, sizeof *tokens);
    pkv_seq **seqs = bench_memory(crowd, sizeof(pkv_seq *));
    uint64_t *left = bench_memory(crowd, sizeof *left);
    for (size_t i = 0; i < crowd; i++) {
        bench_tokens(tokens, n, state);
        seqs[i] = bench_open(cache, tokens, n, NULL, 0);
        left[i] = blocks;
    }
    for (size_t growing = crowd; growing > 0;) {
        const size_t i = bench_random(state) % growing;
        (void)bench_allocate(seqs[i], BENCH_UNIT);
        if (--left[i] == 0) {
            pkv_seq *seq = seqs[i];
            seqs[i] = seqs[--growing];
            seqs[growing] = seq; /* that is done */
            left[i] = left[growing];
        }
    }
    for (size_t i = 0; i < crowd; i++) {
        bench_close(seqs[i]);
    }
    free(left);
    free(seqs);
    free(tokens);
}

void bench_scramble(pkv_cache *cache, uint64_t *state)
{
    enum { CROWD = 64 };
    const pkv_cache_info *info = pkv_cache_get_info(cache);
    const uint64_t most = info->max_model_len / BENCH_UNIT;
    for (uint64_t left = (info->n_blocks - 1) / info->n_groups; left > 0;) {
        const size_t crowd = left < CROWD ? (size_t)left : CROWD;
        const uint64_t blocks = left / crowd < most ? left / crowd : most;
        grow_in_turn(cache, crowd, blocks, state);
        left -= crowd * blocks;
    }
    bench_need(pkv_cache_reset(cache) == PKV_OK, "reset");
}

double bench_key_chain(const int32_t *tokens, uint64_t n, pkv_key *keys)
{
    pkv_hasher *hasher;
    pkv_hasher_params params;
    pkv_hasher_params_init(&params);
    params.hash = HASH;
    bench_need(pkv_hasher_create(&params, &hasher) == PKV_OK, "hasher");
    const double start = bench_now();
    bench_need(pkv_key_chain(hasher, NULL, tokens, n, BENCH_UNIT, 0, 0, n / BENCH_UNIT, NULL,
                             keys) == PKV_OK,
               "keys");
    const double ns = bench_now() - start;
    pkv_hasher_destroy(hasher);
    return ns;
}
