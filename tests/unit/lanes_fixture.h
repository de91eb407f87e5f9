/* lanes_fixture.h  What the tests of batches that come again share.
 *
 * Blocks and units of 16 tokens. A sequence of 17 tokens that has advanced once needs its next
 * block with the token 33; until then its lane takes its steps. */
#ifndef LANES_FIXTURE_H
#define LANES_FIXTURE_H

#include "seq_fixture.h"

#include "seq/cache_internal.h"

enum { PROMPT = 17, LEN = 320, SHORT = 96, BLOCKS = 200, MANY = 100 };

/* The token that sequence i gets as its n-th, from 0 on. */
static inline int32_t token_of(size_t i, uint64_t n)
{
    return (int32_t)(i * 1000 + n);
}

/* A sequence of its own prompt that runs. */
static inline pkv_seq *run_number(pkv_cache *cache, size_t i)
{
    int32_t tokens[PROMPT];
    for (uint64_t n = 0; n < PROMPT; n++) {
        tokens[n] = token_of(i, n);
    }
    return run_tokens(cache, tokens, PROMPT);
}

/* n sequences: 0, 1, ... */
static inline void run_all(pkv_cache *cache, pkv_seq **seqs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        seqs[i] = run_number(cache, i);
    }
}

/* Its tokens, with those that wait. */
static inline uint64_t tokens_of(const pkv_seq *seq)
{
    const pkvi_lanes *l = &seq->cache->lanes;
    return seq->n_tokens + (pkvi_lane_waits(seq) ? l->batches - l->since[seq->lane] : 0);
}

/* The next token of each of the sequences `who`. */
static inline pkv_status advance(pkv_seq **seqs, const size_t *who, size_t n, uint64_t lookahead,
                                 uint64_t *done)
{
    pkv_step steps[MANY];
    int32_t tokens[MANY];
    pkv_allocate_result out;
    for (size_t k = 0; k < n; k++) {
        tokens[k] = token_of(who[k], tokens_of(seqs[who[k]]));
        steps[k] = (pkv_step){seqs[who[k]], &tokens[k], 1, PKV_STEP_KEEP};
    }
    return pkv_cache_advance(seqs[who[0]]->cache, steps, n, lookahead, &out, done);
}

static inline void advance_all(pkv_seq **seqs, size_t n, uint64_t times)
{
    size_t who[MANY];
    uint64_t done;
    for (size_t i = 0; i < n; i++) {
        who[i] = i;
    }
    for (; times > 0; times--) {
        assert_ok(advance(seqs, who, n, 0, &done));
        assert_int_equal(done, n);
    }
}

/* All of its tokens are those that it got, computed, and its units have the keys of these. */
static inline void assert_has(pkv_seq *seq, size_t i, uint64_t n)
{
    int32_t tokens[LEN];
    uint64_t n_keys;
    assert_int_equal(info_of(seq).n_tokens, n);
    assert_int_equal(info_of(seq).computed, n);
    for (uint64_t k = 0; k < n; k++) {
        tokens[k] = token_of(i, k);
    }
    assert_memory_equal(seq->tokens, tokens, (size_t)n * sizeof *tokens);
    const pkv_key *keys = keys_of_seq(seq, &n_keys);
    assert_int_equal(n_keys, n / 16);
    pkv_seq *other = open_tokens(seq->cache, tokens, n);
    assert_memory_equal(keys, keys_of_seq(other, &n_keys), (size_t)n_keys * sizeof *keys);
    close_seq(other);
}

#endif
