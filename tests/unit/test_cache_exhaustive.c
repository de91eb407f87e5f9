/* test_cache_exhaustive.c  Small caches, and every sequence of operations on them up to a length:
 * after each, all answers and the whole state are those of small_cache.h.
 *
 * Sequences are walked breadth first. Those that end in a state that was seen before are not
 * continued, but the first few operations are continued in any case: the cache may know more than
 * the model. PKV_DEPTH: another length than the tests' own. */
#include <xxhash.h>

#include "replay.h"
#include "small_world.h"

enum { MAX_DEPTH = 14 };

/* The operations that lead to a state. */
typedef struct path {
    uint8_t n, moves[MAX_DEPTH + 1];
} path;

typedef struct path_list {
    path *at;
    size_t n, capacity;
} path_list;

/* The operations that run now, for a failure's text. */
static path now;

static int tell_path(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < now.n; i++) {
        const uint32_t m = now.moves[i];
        if (m >= MOVE_STEP) {
            print_message("  %s\n", small_global_names[m - MOVE_STEP]);
        } else {
            print_message("  %c: %s\n", "ABCF"[m / MOVES_OF_SEQ],
                          small_move_names[m % MOVES_OF_SEQ]);
        }
    }
    now.n = 0;
    return 0;
}

/* ---- all of a state ---- */

/* A comparison that costs a call only when it fails: they are made by the billion. */
#define same(a, b) ((a) == (b) ? (void)0 : assert_int_equal(a, b))

static void compare_pool(const small_world *w)
{
    pkv_block list[SMALL_BLOCKS];
    uint32_t refs[SMALL_BLOCKS] = {0};
    const pkv_pool *pool = pkv_cache_get_pool(w->cache);
    small_count_refs(&w->model, refs);
    same(pkv_pool_free_list(pool, list, SMALL_BLOCKS), w->model.free.n);
    same(pkv_pool_free_count(pool), w->model.free.n);
    for (uint32_t i = 0; i < w->model.free.n; i++) {
        same(list[i], w->model.free.at[i]);
        same(refs[list[i]], 0);
    }
    uint32_t in_use = 0;
    for (uint32_t b = 1; b < w->plan.n_blocks; b++) {
        same(pkv_pool_refs(pool, b), refs[b]);
        same(pkv_pool_block_tokens(pool, b), w->model.blocks[b].keyed);
        in_use += refs[b] > 0;
    }
    same(w->model.free.n + in_use + 1, w->plan.n_blocks); /* invariant 1 */
    same(pkv_pool_key_count(pool), small_key_count(&w->model));
}

/* Every key that a request has finds the block that was keyed first, or none. */
static void compare_keys(const small_world *w, uint32_t at)
{
    const small_seq *s = &w->model.seqs[at];
    uint64_t n;
    if (w->plan.index != PKV_INDEX_KEYS) {
        return; /* no key finds anything; the hits of all operations show what is found */
    }
    const pkv_key *keys = keys_of_seq(w->seqs[at], &n);
    same(n, s->n / w->plan.block);
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        for (uint32_t i = 0; i < n; i++) {
            pkv_block block = 0;
            const uint32_t wanted = small_find(&w->model, g, s->tokens, (i + 1) * w->plan.block);
            const pkv_status st =
                pkv_pool_lookup(pkv_cache_get_pool(w->cache), &keys[i], &g, 1, &block);
            same(st, wanted ? PKV_OK : PKV_E_NOT_FOUND);
            same(block, wanted);
        }
    }
}

static void compare_seq(const small_world *w, uint32_t at)
{
    const small_seq *s = &w->model.seqs[at];
    const pkv_seq_info info = info_of(w->seqs[at]);
    same(info.n_tokens, s->n);
    same(info.n_prompt_tokens, s->n_prompt);
    same(info.computed, s->computed);
    same(info.keyed, small_keyed(&w->plan, s));
    same(info.allocated, s->live);
    same(info.waiting, !s->live);
    same(info.n_preemptions > 0, s->preempted);
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        uint64_t n;
        const pkv_block *ids = pkv_seq_table(w->seqs[at], g, &n);
        same(n, s->table[g].n);
        for (uint32_t i = 0; i < n; i++) {
            same(ids[i], s->table[g].ids[i]);
        }
    }
    compare_keys(w, at);
}

/* Invariant 8, from the cache alone: who shares a block has all tokens before its end, or before
 * the last one that is computed, in common. */
static void assert_shared_prefixes(const small_world *w, uint32_t a, uint32_t b)
{
    const small_seq *s = &w->model.seqs[a], *t = &w->model.seqs[b];
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        uint64_t n_a, n_b;
        const pkv_block *in_a = pkv_seq_table(w->seqs[a], g, &n_a);
        const pkv_block *in_b = pkv_seq_table(w->seqs[b], g, &n_b);
        for (uint32_t i = 0; i < n_a && i < n_b; i++) {
            const uint32_t end =
                small_min((i + 1) * w->plan.block, small_min(s->computed, t->computed));
            if (in_a[i] != 0 && in_a[i] == in_b[i]) {
                assert_memory_equal(s->tokens, t->tokens, end);
            }
        }
    }
}

/* A block stands at one place: of one group, for one range of tokens. */
static void assert_places(const small_world *w)
{
    uint32_t places[SMALL_BLOCKS] = {0};
    for (uint32_t a = 0; a < SMALL_SEQS; a++) {
        for (uint32_t g = 0; w->seqs[a] && g < w->plan.n_groups; g++) {
            uint64_t n;
            const pkv_block *ids = pkv_seq_table(w->seqs[a], g, &n);
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t place = 1 + g * SMALL_TABLE + i;
                assert_true(ids[i] == 0 || places[ids[i]] == 0 || places[ids[i]] == place);
                places[ids[i]] = place;
            }
        }
    }
}

/* The lookup of every request that waits; they are the last thing that the cache is asked. */
static void compare_lookups(const small_world *w)
{
    for (uint32_t at = 0; at < SMALL_SEQS; at++) {
        const small_seq *s = &w->model.seqs[at];
        pkv_hit hit;
        if (!s->open || s->live) {
            continue;
        }
        const small_hit wanted = small_lookup(&w->plan, &w->model, s);
        assert_ok(pkv_seq_lookup(w->seqs[at], &hit));
        same(hit.tokens, wanted.tokens);
        same(hit.shared_prefix, wanted.junction);
        for (uint32_t g = 0; g < w->plan.n_groups; g++) {
            uint64_t n;
            const pkv_block *ids = pkv_cache_hit_blocks(w->cache, g, &n);
            same(n, wanted.ids[g].n);
            for (uint32_t i = 0; i < n; i++) {
                same(ids[i], wanted.ids[g].at[i]);
            }
        }
    }
}

static void compare(const small_world *w)
{
    assert_sound(w->cache);
    compare_pool(w);
    for (uint32_t a = 0; a < SMALL_SEQS; a++) {
        same(w->seqs[a] != NULL, w->model.seqs[a].open);
        for (uint32_t b = 0; b < a && w->seqs[a]; b++) {
            if (w->seqs[b]) {
                assert_shared_prefixes(w, a, b);
            }
        }
        if (w->seqs[a]) {
            compare_seq(w, a);
        }
    }
    assert_places(w);
    compare_lookups(w);
}

/* A refusal leaves all tables but for what fell below a window, and no less is free. */
typedef struct tables {
    uint64_t free, keys, computed[SMALL_SEQS];
    small_list ids[SMALL_SEQS][SMALL_GROUPS];
} tables;

static void read_tables(const small_world *w, tables *t)
{
    memset(t, 0, sizeof *t);
    t->free = free_of(w->cache);
    t->keys = keys_in(w->cache);
    for (uint32_t s = 0; s < SMALL_SEQS; s++) {
        for (uint32_t g = 0; w->seqs[s] && g < w->plan.n_groups; g++) {
            uint64_t n;
            const pkv_block *ids = pkv_seq_table(w->seqs[s], g, &n);
            for (uint32_t i = 0; i < n; i++) {
                small_push(&t->ids[s][g], ids[i]);
            }
            t->computed[s] = info_of(w->seqs[s]).computed;
        }
    }
}

static void assert_untouched(const small_world *w, const tables *before)
{
    tables after;
    uint64_t fallen = 0;
    read_tables(w, &after);
    same(after.keys, before->keys);
    assert_memory_equal(after.computed, before->computed, sizeof after.computed);
    for (uint32_t s = 0; s < SMALL_SEQS; s++) {
        for (uint32_t g = 0; g < w->plan.n_groups; g++) {
            same(after.ids[s][g].n, before->ids[s][g].n);
            for (uint32_t i = 0; i < after.ids[s][g].n; i++) {
                const uint8_t is = after.ids[s][g].at[i], was = before->ids[s][g].at[i];
                assert_true(is == was || (is == 0 && w->plan.kind[g] != SMALL_FULL));
                fallen += is != was;
            }
        }
    }
    assert_in_range(after.free, before->free, before->free + fallen);
}

/* ---- the search ---- */

typedef struct search {
    small_world world;
    small_memory memory;
    small_moment start, here;
    uint64_t *seen; /* fingerprints; 0: vacant */
    size_t n_seen, n_slots;
    uint64_t operations, refusals, hits, copies;
} search;

static void add_seen(uint64_t *slots, size_t n_slots, uint64_t print, bool *is_new)
{
    size_t at = print % n_slots;
    while (slots[at] != 0 && slots[at] != print) {
        at = at + 1 == n_slots ? 0 : at + 1;
    }
    *is_new = slots[at] == 0;
    slots[at] = print;
}

static bool is_new(search *f, const small_cache *model)
{
    bool fresh;
    const uint64_t print = XXH3_64bits(model, sizeof *model) | 1;
    if (2 * (f->n_seen + 1) > f->n_slots) {
        const size_t n = f->n_slots ? 4 * f->n_slots + 1 : 65537;
        uint64_t *grown = calloc(n, sizeof *grown);
        assert_non_null(grown);
        for (size_t i = 0; i < f->n_slots; i++) {
            if (f->seen[i] != 0) {
                add_seen(grown, n, f->seen[i], &fresh);
            }
        }
        free(f->seen);
        f->seen = grown;
        f->n_slots = n;
    }
    add_seen(f->seen, f->n_slots, print, &fresh);
    f->n_seen += fresh;
    return fresh;
}

static void push_path(path_list *list, const path *p)
{
    if (list->n == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 1024;
        list->at = realloc(list->at, list->capacity * sizeof *list->at);
        assert_non_null(list->at);
    }
    list->at[list->n++] = *p;
}

static void go_to(search *f, const path *p)
{
    small_return(&f->world, &f->start);
    now.n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        now.moves[now.n++] = p->moves[i];
        (void)small_do(&f->world, p->moves[i]);
    }
    small_remember(&f->world, &f->here);
}

static void try_move(search *f, uint32_t move)
{
    static tables before;
    if (small_may_refuse(move)) {
        read_tables(&f->world, &before);
    }
    const small_tally tally = small_do(&f->world, move);
    f->operations++;
    f->refusals += tally.refused;
    f->hits += tally.hit;
    f->copies += tally.copies;
    if (tally.refused) {
        assert_untouched(&f->world, &before);
    }
    compare(&f->world);
}

/* All that can follow a path. */
static void continue_path(search *f, const path *p, bool merge, path_list *next)
{
    uint32_t rest[SMALL_SEQS] = {0};
    go_to(f, p);
    for (uint32_t s = 0; s < SMALL_SEQS; s++) {
        rest[s] = f->world.seqs[s] ? small_rest(&f->world, &f->world.model.seqs[s]) : 0;
    }
    for (uint32_t move = 0; move < N_MOVES; move++) {
        if (small_may(&f->here.world, move, rest[move / MOVES_OF_SEQ % SMALL_SEQS])) {
            now = *p;
            now.moves[now.n++] = (uint8_t)move;
            try_move(f, move);
            if (is_new(f, &f->world.model) || !merge) {
                push_path(next, &now);
            }
            small_return(&f->world, &f->here);
        }
    }
}

static void walk_levels(search *f, uint32_t all, uint32_t depth)
{
    path_list level = {0};
    push_path(&level, &(path){0});
    for (uint32_t d = 1; d <= depth; d++) {
        path_list next = {0};
        for (size_t i = 0; i < level.n; i++) {
            continue_path(f, &level.at[i], d > all, &next);
        }
        free(level.at);
        level = next;
        print_message("%" PRIu32 ": %zu states after %" PRIu64 " operations\n", d, f->n_seen,
                      f->operations);
    }
    free(level.at);
}

/* Sequences of up to `all` operations are all continued, longer ones once per state. */
static void walk(const small_plan *plan, const pkv_plan_params *params, uint32_t all,
                 uint32_t depth)
{
    static search f;
    pkv_plan *real = plan_of(params);
    depth = small_min((uint32_t)number_from("PKV_DEPTH", depth), MAX_DEPTH);
    memset(&f, 0, sizeof f);
    small_begin(&f.world, plan, real, &f.memory);
    small_remember(&f.world, &f.start);
    walk_levels(&f, all, depth);
    print_message("%" PRIu64 " refusals, %" PRIu64 " hits, %" PRIu64 " copies\n", f.refusals,
                  f.hits, f.copies);
    assert_true(depth < 4 || (f.refusals > 0 && f.hits > 0));
    assert_true(depth < 4 || plan->drop || f.copies > 0);
    free(f.seen);
    small_return(&f.world, &f.start);
    pkv_cache_destroy(f.world.cache);
    pkv_plan_destroy(real);
    now.n = 0;
}

/* ---- plans ---- */

enum { BLOCK = 2 };

static pkv_plan_params params_for(const pkv_spec *layers, const small_plan *plan)
{
    pkv_plan_params params = blocks_for(layers, plan->n_groups, plan->n_blocks, SMALL_LEN);
    params.retention_interval = plan->sparse ? 0 : PKV_RETAIN_DENSE;
    return plan->drop ? with_drop(params) : params;
}

static void walk_full(uint32_t index)
{
    const pkv_spec layers[] = {full_of(BLOCK, 8)};
    const small_plan plan = {.n_groups = 1, .n_blocks = 7, .block = BLOCK, .index = index};
    const pkv_plan_params params = params_for(layers, &plan);
    walk(&plan, &params, 3, 6);
}

static void every_sequence_on_full_attention_agrees(void **state)
{
    (void)state;
    walk_full(PKV_INDEX_KEYS);
}

static void every_sequence_on_full_attention_agrees_by_tokens(void **state)
{
    (void)state;
    walk_full(PKV_INDEX_TOKENS);
}

static void every_sequence_on_full_attention_agrees_by_chains(void **state)
{
    (void)state;
    walk_full(PKV_INDEX_CHAINS);
}

static void every_sequence_on_chunks_agrees(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_CHUNKED_LOCAL, BLOCK, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.attention_chunk_size = 4;
    const pkv_spec layers[] = {finished(spec)};
    const small_plan plan = {.n_groups = 1,
                             .n_blocks = 7,
                             .block = BLOCK,
                             .kind = {SMALL_CHUNK},
                             .window = {4},
                             .index = PKV_INDEX_KEYS};
    const pkv_plan_params params = params_for(layers, &plan);
    walk(&plan, &params, 3, 6);
}

static void walk_hybrid(const small_plan *other, uint32_t index, uint32_t window, uint32_t depth)
{
    const pkv_spec layers[] = {full_of(BLOCK, 8), windowed_of(window, BLOCK, 8)};
    small_plan plan = *other;
    plan.n_groups = 2;
    plan.n_blocks = 11;
    plan.block = BLOCK;
    plan.index = index;
    plan.kind[1] = SMALL_WINDOW;
    plan.window[1] = window;
    const pkv_plan_params params = params_for(layers, &plan);
    walk(&plan, &params, 3, depth);
}

static void every_sequence_on_a_hybrid_agrees(void **state)
{
    (void)state;
    walk_hybrid(&(small_plan){0}, PKV_INDEX_KEYS, 4, 6); /* the next token sees two blocks */
}

static void every_sequence_on_a_hybrid_agrees_by_tokens(void **state)
{
    (void)state;
    walk_hybrid(&(small_plan){0}, PKV_INDEX_TOKENS, 4, 6);
}

static void every_sequence_on_a_hybrid_agrees_by_chains(void **state)
{
    (void)state;
    walk_hybrid(&(small_plan){0}, PKV_INDEX_CHAINS, 4, 5);
}

static void every_sequence_on_a_hybrid_that_keeps_few_blocks_agrees(void **state)
{
    (void)state;
    walk_hybrid(&(small_plan){.sparse = true}, PKV_INDEX_KEYS, 3, 5);
    walk_hybrid(&(small_plan){.sparse = true}, PKV_INDEX_TOKENS, 3, 5);
}

static void every_sequence_on_a_hybrid_with_a_dropping_drafter_agrees(void **state)
{
    (void)state;
    walk_hybrid(&(small_plan){.drop = true}, PKV_INDEX_KEYS, 3, 6);
    walk_hybrid(&(small_plan){.drop = true}, PKV_INDEX_TOKENS, 3, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_sequence_on_full_attention_agrees, tell_path),
        cmocka_unit_test_teardown(every_sequence_on_full_attention_agrees_by_tokens, tell_path),
        cmocka_unit_test_teardown(every_sequence_on_full_attention_agrees_by_chains, tell_path),
        cmocka_unit_test_teardown(every_sequence_on_chunks_agrees, tell_path),
        cmocka_unit_test_teardown(every_sequence_on_a_hybrid_agrees, tell_path),
        cmocka_unit_test_teardown(every_sequence_on_a_hybrid_agrees_by_tokens, tell_path),
        cmocka_unit_test_teardown(every_sequence_on_a_hybrid_agrees_by_chains, tell_path),
        cmocka_unit_test_teardown(every_sequence_on_a_hybrid_that_keeps_few_blocks_agrees,
                                  tell_path),
        cmocka_unit_test_teardown(every_sequence_on_a_hybrid_with_a_dropping_drafter_agrees,
                                  tell_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
