/* test_cache_random.c  Random operations on a cache and on cache_oracle.h; they must agree after
 * each. PKV_SEED: where to begin; PKV_RANDOM_OPS: how many operations per kind of cache;
 * PKV_RANDOM_EVERY: after how many the cache checks itself and all tables are compared (answers and
 * blocks are after each). */
#include "cache_oracle.h"
#include "replay.h"

static uint64_t random_state;

/* Two draws of a multiplicative generator (modulus 2^31 - 1): nothing wraps, so that sanitizers of
 * integers have nothing to say. */
static uint64_t random_below(uint64_t n)
{
    uint64_t value = 0;
    for (int i = 0; i < 2; i++) {
        random_state = random_state * 48271 % 2147483647;
        value = value * 2147483647 + random_state;
    }
    return value % n;
}

static uint64_t random_from(uint64_t low, uint64_t high)
{
    return low + random_below(high - low + 1);
}

static oracle_seq *pick(oracle *o, int live)
{
    oracle_seq *some[MAX_SEQS];
    uint64_t n = 0;
    for (int s = 0; s < MAX_SEQS; s++) {
        if (o->seqs[s].seq && (live < 0 || o->seqs[s].live == (live != 0))) {
            some[n++] = &o->seqs[s];
        }
    }
    return n > 0 ? some[random_below(n)] : NULL;
}

static oracle_seq *vacant(oracle *o)
{
    for (int s = 0; s < MAX_SEQS; s++) {
        if (!o->seqs[s].seq) {
            return &o->seqs[s];
        }
    }
    return NULL;
}

/* ---- open, append ---- */

/* A prefix of what some block holds, and tokens of a small alphabet behind it. */
static void random_tokens(const oracle *o, int32_t *tokens, uint64_t n)
{
    const oracle_block *block = &o->blocks[random_below(o->n_blocks)];
    const uint64_t same = least(n, block->keyed > 0 ? random_below(block->keyed + 1) : 0);
    memcpy(tokens, block->tokens, (size_t)same * sizeof *tokens);
    for (uint64_t i = same; i < n; i++) {
        tokens[i] = (int32_t)random_below(8) == 0;
    }
}

static void do_open(oracle *o)
{
    oracle_seq *s = vacant(o);
    if (!s) {
        return;
    }
    memset(s, 0, sizeof *s);
    s->n_tokens = random_from(1, MAX_LEN * 3 / 4);
    random_tokens(o, s->tokens, s->n_tokens);
    s->seq = open_tokens(o->cache, s->tokens, s->n_tokens);
}

static void do_append(oracle *o)
{
    oracle_seq *s = pick(o, -1);
    if (!s || s->n_tokens == MAX_LEN) {
        return;
    }
    const uint64_t n = random_from(1, least(20, MAX_LEN - s->n_tokens));
    for (uint64_t i = 0; i < n; i++) {
        s->tokens[s->n_tokens + i] = (int32_t)random_below(2);
    }
    assert_ok(pkv_seq_append(s->seq, s->tokens + s->n_tokens, n));
    s->n_tokens += n;
}

/* ---- lookup ---- */

static void do_lookup(oracle *o)
{
    const oracle_seq *s = pick(o, 0);
    if (s) {
        (void)check_lookup(o, s);
    }
}

/* ---- allocate ---- */

static void do_allocate(oracle *o)
{
    oracle_seq *s = pick(o, -1);
    expected e = {0};
    pkv_allocate_result out;
    uint64_t next_copy = 0;
    if (!s) {
        return;
    }
    if (!s->live) {
        e.f = check_lookup(o, s);
    }
    pkv_allocate_params p = new_tokens(0);
    const uint64_t known = s->computed + e.f.tokens;
    const uint64_t left = s->n_tokens > known ? s->n_tokens - known : 0;
    p.external_tokens = !s->live && random_below(4) == 0 ? random_below(left + 1) : 0;
    const uint64_t begin = known + p.external_tokens;
    const uint64_t rest = s->n_tokens > begin ? s->n_tokens - begin : 0;
    p.new_tokens = random_below(3) ? rest : random_below(rest + 1);
    p.new_tokens += random_below(4) == 0 ? random_below(4) : 0; /* drafts */
    p.new_tokens = least(p.new_tokens, MAX_LEN - begin);
    p.lookahead = random_below(3) == 0 ? random_below(6) : 0;
    p.in_flight_tokens = s->live && random_below(3) == 0 ? random_below(s->computed + 1) : 0;
    p.reserved_blocks = random_below(5) == 0 ? random_below(4) : 0;
    p.delay_caching = random_below(p.external_tokens > 0 ? 2 : 8) == 0;
    if (e.f.tokens + p.external_tokens + p.new_tokens == 0) {
        return;
    }
    const bool fits = expect(o, s, &p, &e);
    const pkv_status st = pkv_seq_allocate(s->seq, &p, &out);
    if (!fits) {
        assert_status(st, PKV_E_NO_BLOCKS);
        assert_int_equal(out.needed, e.needed);
        assert_int_equal(out.free, e.free);
        o->refusals++;
        return;
    }
    assert_ok(st);
    assert_int_equal(out.cached_tokens, e.f.tokens);
    follow(o, s, &p, &e, &out, &next_copy);
    assert_int_equal(next_copy, out.n_copies);
}

/* ---- advance ---- */

static void do_advance(oracle *o)
{
    pkv_step steps[3];
    oracle_seq *seqs[3];
    int32_t tokens[3];
    pkv_allocate_result out;
    uint64_t n = 0, done, next_copy = 0;
    const uint64_t lookahead = random_below(3);
    for (int i = 0; i < 3; i++) {
        oracle_seq *s = pick(o, 1);
        bool twice = false;
        for (uint64_t k = 0; k < n; k++) {
            twice = twice || seqs[k] == s;
        }
        if (s && !twice && s->n_tokens < MAX_LEN && s->computed <= s->n_tokens) {
            tokens[n] = (int32_t)random_below(2);
            steps[n] = (pkv_step){s->seq, &tokens[n], 1, PKV_STEP_KEEP};
            seqs[n++] = s;
        }
    }
    const pkv_status st = pkv_cache_advance(o->cache, steps, n, lookahead, &out, &done);
    for (uint64_t i = 0; i < n && i <= done; i++) {
        oracle_seq *s = seqs[i];
        expected e = {0};
        s->tokens[s->n_tokens++] = tokens[i];
        pkv_allocate_params p = new_tokens(s->n_tokens - s->computed);
        p.lookahead = lookahead;
        const bool fits = expect(o, s, &p, &e);
        assert_int_equal(fits, i < done);
        if (!fits) {
            assert_int_equal(out.needed, e.needed);
            assert_int_equal(out.free, e.free);
        } else {
            follow(o, s, &p, &e, &out, &next_copy);
        }
    }
    assert_status(st, done == n ? PKV_OK : PKV_E_NO_BLOCKS);
    assert_int_equal(next_copy, out.n_copies);
}

/* ---- the rest ---- */

static void do_rollback(oracle *o)
{
    oracle_seq *s = pick(o, 1);
    if (!s) {
        return;
    }
    uint64_t low = keyed_tokens(o, s);
    low = s->floor > low ? s->floor : low;
    if (low <= s->computed) {
        s->computed = random_below(2) ? random_from(low, s->computed)
                                      : s->computed - least(s->computed - low, random_below(4));
        assert_ok(pkv_seq_set_computed(s->seq, s->computed));
        drop_shared_slots(o, s);
    }
}

static void do_key(oracle *o)
{
    oracle_seq *s = pick(o, 1);
    if (s) {
        const uint64_t n = random_below(s->computed + 1);
        assert_ok(pkv_seq_cache(s->seq, n));
        key_blocks(o, s, n);
    }
}

static void do_preempt(oracle *o)
{
    oracle_seq *s = pick(o, 1);
    if (s) {
        assert_ok(pkv_seq_preempt(s->seq));
        forget_tables(s);
    }
}

static void do_fork(oracle *o)
{
    const oracle_seq *s = pick(o, 1);
    oracle_seq *child = vacant(o);
    if (!s || !child || s->computed > s->n_tokens) {
        return;
    }
    if (o->ring[0] || o->ring[1]) {
        pkv_seq *none;
        assert_status(pkv_seq_fork(s->seq, &none), PKV_E_UNSUPPORTED);
        return;
    }
    *child = *s;
    assert_ok(pkv_seq_fork(s->seq, &child->seq));
    for (uint32_t g = 0; g < o->n_groups; g++) {
        oracle_table *t = &child->table[g];
        t->n = least(t->n, ceil_div(s->computed, o->block_size[g]));
        t->n_keyed = least(t->n_keyed, s->computed / o->block_size[g]);
    }
}

static void do_close(oracle *o)
{
    oracle_seq *s = pick(o, -1);
    if (s) {
        const bool defer = random_below(3) == 0;
        if (defer) {
            defer_tables(o, s);
        }
        assert_ok(pkv_seq_close(s->seq, defer));
        memset(s, 0, sizeof *s);
    }
}

static void do_step(oracle *o)
{
    pkv_cache_step(o->cache);
    o->n_pins = o->n_deferred = 0;
}

static void do_evict(oracle *o)
{
    pkv_block ids[4];
    const uint64_t n = random_below(5);
    for (uint64_t i = 0; i < n; i++) {
        ids[i] = (pkv_block)random_below(o->n_blocks);
        o->blocks[ids[i]].keyed = 0;
    }
    assert_ok(pkv_cache_evict(o->cache, ids, n));
}

static void do_reset(oracle *o)
{
    const bool idle = free_blocks(o) == o->n_blocks - 1;
    assert_status(pkv_cache_reset(o->cache), idle ? PKV_OK : PKV_E_AGAIN);
    for (pkv_block b = 0; idle && b < o->n_blocks; b++) {
        o->blocks[b].keyed = 0;
    }
}

static void do_something(oracle *o)
{
    static void (*const often[])(oracle *) = {do_open,   do_open,     do_allocate, do_allocate,
                                              do_append, do_allocate, do_advance,  do_advance,
                                              do_close,  do_lookup,   do_step,     do_rollback};
    static void (*const seldom[])(oracle *) = {do_preempt, do_fork, do_fork,  do_key,
                                               do_evict,   do_step, do_close, do_reset};
    if (random_below(4) > 0) {
        often[random_below(COUNT(often))](o);
    } else {
        seldom[random_below(COUNT(seldom))](o);
    }
}

/* ---- runs ---- */

static void begin(oracle *o, const pkv_spec *layers, uint32_t n, uint64_t n_blocks, uint32_t index)
{
    pkv_plan_params params = blocks_for(layers, n, n_blocks, MAX_LEN);
    params.max_num_batched_tokens = 64;
    params.layout = PKV_LAYOUT_BLHNC;
    memset(o, 0, sizeof *o);
    pkv_cache_params cache_params = cache_params_of(NULL, NULL);
    cache_params.index = index;
    o->cache = cache_with(&params, cache_params);
    o->n_groups = n;
    o->n_blocks = n_blocks;
    o->align = pkv_cache_get_info(o->cache)->hit_alignment;
    assert_int_equal(pkv_cache_get_info(o->cache)->unit, UNIT);
    for (uint32_t g = 0; g < n; g++) { /* every spec is a group of its own, in this order */
        o->block_size[g] = pkv_cache_group_at(o->cache, g)->block_size;
        o->window[g] = pkv_cache_group_at(o->cache, g)->window;
        o->chunk[g] = layers[g].kind == PKV_KIND_CHUNKED_LOCAL ? layers[g].attention_chunk_size : 0;
        o->ring[g] = layers[g].kind == PKV_KIND_CIRCULAR_BUFFER;
        assert_int_equal(pkv_cache_group_at(o->cache, g)->kind, layers[g].kind);
    }
}

static void run_random(const pkv_spec *layers, uint32_t n, uint64_t n_blocks, uint32_t index)
{
    static oracle o;
    const uint64_t seed = number_from("PKV_SEED", 1), ops = number_from("PKV_RANDOM_OPS", 10000);
    const uint64_t every = number_from("PKV_RANDOM_EVERY", 1);
    begin(&o, layers, n, n_blocks, index);
    random_state = seed % 2147483645 + 1;
    print_message("PKV_SEED=%" PRIu64 " PKV_RANDOM_OPS=%" PRIu64 "\n", seed, ops);
    for (uint64_t i = 0; i < ops; i++) {
        do_something(&o);
        compare_blocks(&o);
        if (i % every == 0) {
            compare(&o);
        }
    }
    compare(&o);
    print_message("%" PRIu64 " hits of %" PRIu64 " tokens, %" PRIu64 " refusals, %" PRIu64
                  " copies\n",
                  o.hits, o.hit_tokens, o.refusals, o.copies);
    assert_true(ops < 1000 || (o.hits > 0 && o.refusals > 0));
    assert_true(ops < 1000 || o.copies > 0 || o.ring[1]);
    end_cache(o.cache);
}

static void full_attention_agrees_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    run_random(layers, 1, 24, PKV_INDEX_AUTO);
}

static void full_attention_by_chains_agrees_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    run_random(layers, 1, 24, PKV_INDEX_CHAINS);
}

static void a_window_agrees_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(40)};
    run_random(layers, 1, 24, PKV_INDEX_AUTO);
}

static void a_hybrid_agrees_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    run_random(layers, 2, 48, PKV_INDEX_AUTO);
}

static void a_hybrid_by_chains_agrees_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    run_random(layers, 2, 48, PKV_INDEX_CHAINS);
}

static void a_hybrid_by_keys_agrees_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    run_random(layers, 2, 48, PKV_INDEX_KEYS);
}

static void a_hybrid_of_two_block_sizes_agrees_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(32, 4), windowed_of(33, 16, 8)};
    run_random(layers, 2, 40, PKV_INDEX_AUTO);
}

static void chunks_agree_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {chunked(64)};
    run_random(layers, 1, 24, PKV_INDEX_AUTO);
}

static void full_attention_and_a_ring_agree_with_the_oracle(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), ring_of(16, 2048)};
    run_random(layers, 2, 30, PKV_INDEX_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_attention_agrees_with_the_oracle),
        cmocka_unit_test(full_attention_by_chains_agrees_with_the_oracle),
        cmocka_unit_test(a_window_agrees_with_the_oracle),
        cmocka_unit_test(a_hybrid_agrees_with_the_oracle),
        cmocka_unit_test(a_hybrid_by_chains_agrees_with_the_oracle),
        cmocka_unit_test(a_hybrid_by_keys_agrees_with_the_oracle),
        cmocka_unit_test(a_hybrid_of_two_block_sizes_agrees_with_the_oracle),
        cmocka_unit_test(chunks_agree_with_the_oracle),
        cmocka_unit_test(full_attention_and_a_ring_agree_with_the_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
