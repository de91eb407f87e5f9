/* bench_prompt.c  Slots for a prompt of fresh content, and giving them back.
 *
 * Hot: a pool that has hardly more blocks than the prompt, the same ones each time. Cold: a larger
 * pool. All blocks have been handed out before, in random turn, and nothing is cached, but for the
 * rows that evict: there all blocks have content that is still to be found. */
#include <stdlib.h>

#include "bench.h"

enum { ROUNDS = 5, SLACK = 64 };
enum { PLAIN, KEYED, INDEXED, HYBRID, STATES, SIZES, EVICTING, N_KINDS }; /* kinds of caches */
enum { OPEN_ALLOCATE, ALLOCATE, CLOSE, N_PARTS };

#define NODES "16 and 64 bytes a block"
#define COPY_NODES "tokens copied, " NODES
#define KEY_NODES "digests, " COPY_NODES

static const bench_row rows[] = {
    {"open_allocate", "us/prompt", COPY_NODES, "key chain + 40 us", NULL, false},
    {"allocate", "us/prompt", NODES, "40 us", NULL, false},
    {"close", "us/prompt", "16 bytes a block", "20 us", NULL, false},
    {"keys_open_allocate", "us/prompt", KEY_NODES, "key chain + 40 us", NULL, false},
    {"keys_allocate", "us/prompt", NODES, NULL, NULL, false},
    {"keys_close", "us/prompt", "16 bytes a block", "20 us", NULL, false},
    {"index_open_allocate", "us/prompt", KEY_NODES, "key chain + 40 us", NULL, false},
    {"index_allocate", "us/prompt", NODES, NULL, NULL, false},
    {"index_close", "us/prompt", "16 bytes a block", "20 us", NULL, false},
    {"hybrid_open_allocate", "us/prompt", COPY_NODES ", twice", NULL, NULL, false},
    {"hybrid_allocate", "us/prompt", NODES ", twice", NULL, NULL, false},
    {"hybrid_close", "us/prompt", "16 bytes a block, twice", NULL, NULL, false},
    {"states_open_allocate", "us/prompt", COPY_NODES, NULL, NULL, false},
    {"states_allocate", "us/prompt", NODES, NULL, NULL, false},
    {"states_close", "us/prompt", "16 bytes a block", NULL, NULL, false},
    {"sizes_open_allocate", "us/prompt", COPY_NODES ", 1.5 times", NULL, NULL, false},
    {"sizes_allocate", "us/prompt", NODES ", 1.5 times", NULL, NULL, false},
    {"sizes_close", "us/prompt", "16 bytes a block, 1.5 times", NULL, NULL, false},
    {"evict_open_allocate", "us/prompt", COPY_NODES, NULL, NULL, false},
    {"evict_allocate", "us/prompt", NODES, NULL, NULL, false},
    {"evict_close", "us/prompt", "16 bytes a block", NULL, NULL, false},
    {"key_chain", "us/prompt", NULL, NULL, NULL, false},
    {NULL, NULL, NULL, NULL, NULL, false},
};
enum { KEY_CHAIN = N_KINDS * N_PARTS };

typedef struct prompt_cache {
    pkv_cache *cache;
    bench_heap heap;
} prompt_cache;

typedef struct prompt_bench {
    prompt_cache caches[N_KINDS][N_SETS];
    int32_t *tokens; /* [n] */
    pkv_key *keys;
    bench_nodes *links[N_SETS], *entries[N_SETS]; /* of 16 bytes, of 64 */
    bench_twins twins;
    uint64_t n, blocks, state;
} prompt_bench;

static bench_layers layers_of(size_t kind)
{
    return kind == HYBRID   ? BENCH_WINDOW
           : kind == STATES ? BENCH_STATES
           : kind == SIZES  ? BENCH_SIZES
                            : BENCH_FULL;
}

static void cache_init(prompt_bench *b, size_t kind, bench_set set, uint64_t blocks)
{
    prompt_cache *c = &b->caches[kind][set];
    const uint64_t least = (kind == HYBRID || kind == SIZES ? 2 : 1) * b->blocks + SLACK + 1;
    c->cache =
        bench_cache(&(bench_cache_params){.blocks = set == HOT || blocks < least ? least : blocks,
                                          .max_model_len = b->n,
                                          .caching = true,
                                          .layers = layers_of(kind),
                                          .index = kind == KEYED     ? PKV_INDEX_CHAINS
                                                   : kind == INDEXED ? PKV_INDEX_KEYS
                                                                     : PKV_INDEX_AUTO,
                                          .heap = &c->heap});
    bench_scramble(c->cache, &b->state);
    if (kind == EVICTING) {
        const uint64_t all = pkv_cache_get_info(c->cache)->n_blocks;
        bench_fill(c->cache, b->n, 1 + all / b->blocks, &b->state);
    }
}

static void bench_init(prompt_bench *b, const bench_params *params)
{
    *b = (prompt_bench){.n = params->tokens, .state = 21};
    b->blocks = (b->n + BENCH_UNIT - 1) / BENCH_UNIT;
    b->tokens = bench_memory(b->n, sizeof *b->tokens);
    b->keys = bench_memory(b->blocks, sizeof *b->keys);
    for (bench_set set = HOT; set < N_SETS; set++) {
        const uint64_t blocks = set == HOT ? b->blocks + SLACK : params->blocks;
        b->links[set] = bench_nodes_new(blocks, 16);
        b->entries[set] = bench_nodes_new(blocks, 64);
    }
    bench_twins_init(&b->twins, b->n * sizeof *b->tokens, 1);
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        cache_init(b, kind, HOT, params->blocks);
        cache_init(b, kind, COLD, params->blocks);
    }
}

static void bench_end(prompt_bench *b)
{
    for (size_t i = 0; i < (size_t)N_KINDS * N_SETS; i++) {
        prompt_cache *c = &b->caches[i / N_SETS][i % N_SETS];
        pkv_cache_destroy(c->cache);
        bench_heap_free(&c->heap);
    }
    for (bench_set set = HOT; set < N_SETS; set++) {
        bench_nodes_free(b->links[set]);
        bench_nodes_free(b->entries[set]);
    }
    bench_twins_free(&b->twins);
    free(b->tokens);
    free(b->keys);
}

static void chill_if(const prompt_bench *b, const prompt_cache *c, bool cold)
{
    if (cold) {
        bench_chill_heap(&c->heap);
        bench_chill(b->tokens, b->n * sizeof *b->tokens);
        bench_chilled();
    }
}

/* One prompt's life. `between`: what is cold is made so once more between open and allocate. */
static void live(prompt_bench *b, prompt_cache *c, bench_set set, bool between, double ns[N_PARTS])
{
    bench_tokens(b->tokens, b->n, &b->state);
    chill_if(b, c, set == COLD);
    const double start = bench_now();
    pkv_seq *seq = bench_open(c->cache, b->tokens, b->n, NULL, 0);
    chill_if(b, c, set == COLD && between);
    const double opened = bench_now();
    const uint64_t hit = bench_allocate(seq, b->n);
    const double allocated = bench_now();
    bench_need(hit == 0, "a hit of fresh tokens");
    chill_if(b, c, set == COLD);
    const double closing = bench_now();
    bench_close(seq);
    ns[CLOSE] = bench_now() - closing;
    ns[ALLOCATE] = allocated - opened;
    ns[OPEN_ALLOCATE] = allocated - start;
}

static void lives(prompt_bench *b, size_t kind, bench_set set, double us[N_PARTS])
{
    double values[N_PARTS][ROUNDS];
    prompt_cache *c = &b->caches[kind][set];
    for (size_t i = 0; i < ROUNDS; i++) {
        double whole[N_PARTS], parts[N_PARTS];
        live(b, c, set, false, whole);
        bench_need(kind == EVICTING || pkv_cache_reset(c->cache) == PKV_OK, "reset");
        live(b, c, set, true, parts);
        bench_need(kind == EVICTING || pkv_cache_reset(c->cache) == PKV_OK, "reset");
        values[OPEN_ALLOCATE][i] = whole[OPEN_ALLOCATE];
        values[ALLOCATE][i] = parts[ALLOCATE];
        values[CLOSE][i] = parts[CLOSE];
    }
    for (size_t part = 0; part < N_PARTS; part++) {
        us[part] = bench_quantile(values[part], ROUNDS, 0.5) / BENCH_US;
    }
}

static double chain_us(prompt_bench *b, bench_set set)
{
    double values[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        bench_tokens(b->tokens, b->n, &b->state);
        if (set == COLD) {
            bench_chill(b->tokens, b->n * sizeof *b->tokens);
            bench_chilled();
        }
        values[i] = bench_key_chain(b->tokens, b->n, b->keys);
    }
    return bench_quantile(values, ROUNDS, 0.5) / BENCH_US;
}

static void run_once(prompt_bench *b, bench_table *table, size_t run, bench_set set)
{
    const double blocks = (double)b->blocks;
    const double links = blocks * bench_nodes_read(b->links[set], b->blocks, set) / BENCH_US;
    const double nodes =
        links + blocks * bench_nodes_read(b->entries[set], b->blocks, set) / BENCH_US;
    const double copy = bench_copy(&b->twins, set) / BENCH_US;
    const double digests =
        (double)(b->n / BENCH_UNIT) / BENCH_US *
        bench_digest(b->tokens, b->n / BENCH_UNIT, PKV_HASH_SHA256_CBOR, BENCH_ALONE, set);
    const double chain = chain_us(b, set);
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        double us[N_PARTS];
        lives(b, kind, set, us);
        const size_t row = kind * N_PARTS;
        const double groups = kind == HYBRID ? 2 : kind == SIZES ? 1.5 : 1;
        const double open =
            copy + groups * nodes + (kind == KEYED || kind == INDEXED ? digests : 0);
        bench_add(table, run, row + OPEN_ALLOCATE, set,
                  (bench_sample){us[OPEN_ALLOCATE], open, chain + 40});
        bench_add(table, run, row + ALLOCATE, set,
                  (bench_sample){us[ALLOCATE], groups * nodes, 40});
        bench_add(table, run, row + CLOSE, set, (bench_sample){us[CLOSE], groups * links, 20});
    }
    bench_add(table, run, KEY_CHAIN, set, (bench_sample){chain, 0, 0});
}

void bench_prompts(const bench_params *params, json_t *answer)
{
    char title[240];
    prompt_bench b;
    bench_table table;
    bench_init(&b, params);
    bench_table_init(&table, rows, params->runs);
    for (size_t run = 0; run < params->runs; run++) {
        run_once(&b, &table, run, HOT);
        run_once(&b, &table, run, COLD);
    }
    (void)snprintf(
        title, sizeof title,
        "a prompt of %llu fresh tokens, blocks of 16; keys_: a cache whose keys somebody "
        "wants; index_: and looks for one by one; hybrid_: two groups; states_: recurrent ones; "
        "sizes_: two block sizes; evict_: full",
        (unsigned long long)b.n);
    bench_tell(&table, answer, "prompts", title);
    bench_table_free(&table);
    bench_end(&b);
}
