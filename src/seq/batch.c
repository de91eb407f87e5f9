/* batch.c  One call a step: all running sequences advance. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/fetch.h"
#include "base/math.h"
#include "base/tokens.h"
#include "pool/pool_internal.h"
#include "seq/allocate.h"

static pkv_status check_step(const pkv_cache *c, const pkv_step *step, uint64_t i,
                             uint64_t lookahead)
{
    const pkv_seq *seq = step->seq;
    if (!seq || seq->cache != c || !seq->body->live) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_cache_advance: step %" PRIu64 ": not an allocated sequence", i);
    }
    const bool keep = step->computed == PKV_STEP_KEEP;
    const uint64_t computed = keep ? seq->computed : step->computed;
    const uint64_t most = c->info.max_model_len;
    if (!keep) {
        pkvi_catch_up(seq->cache);
        PKVI_RETURN_IF(pkvi_check_rollback("pkv_cache_advance", seq, computed));
    }
    if (step->n_tokens > most || seq->n_tokens > most - step->n_tokens ||
        seq->n_tokens + step->n_tokens <= computed ||
        seq->n_tokens + step->n_tokens - computed > PKV_SPEC_LIMIT || lookahead > PKV_SPEC_LIMIT ||
        (step->n_tokens > 0 && !step->tokens && seq->body->has_tokens)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_cache_advance: step %" PRIu64 ": %" PRIu64 " tokens and %" PRIu64
                         " more, %" PRIu64 " computed: nothing to compute, or too many",
                         i, seq->n_tokens, step->n_tokens, computed);
    }
    const uint64_t bad =
        step->tokens ? pkvi_first_negative(step->tokens, step->n_tokens) : step->n_tokens;
    return bad == step->n_tokens
               ? PKV_OK
               : pkvi_fail(PKV_E_INVAL, "pkv_cache_advance: step %" PRIu64 ": token %" PRId32, i,
                           step->tokens[bad]);
}

/* A step that needs no check but of its tokens, as nearly all; mostly it is one. */
static inline bool is_plain(const pkv_step *step, uint64_t lookahead)
{
    if (!pkvi_is_quiet(step, lookahead)) {
        return false;
    }
    if (!step->tokens || (step->n_tokens == 1 && step->tokens[0] >= 0)) {
        return true;
    }
    return pkvi_first_negative(step->tokens, step->n_tokens) == step->n_tokens;
}

enum { GROUP = 64 }; /* steps whose memory is on its way at once */

/* Some of the steps that their lanes do not take, checked together. */
typedef struct group {
    const pkv_step *steps; /* of the batch, n_steps */
    size_t n_steps;
    uint32_t n, twice; /* twice: the first whose sequence was named before; GROUP: none */
    uint64_t busy;     /* bits: those that are not plain */
    uint64_t due; /* bits: plain ones of which the next busy one will do what is left to be done */
    size_t at[GROUP]; /* [n] where they stand */
} group;

static const pkv_step *step_of(const group *g, uint32_t k)
{
    return &g->steps[g->at[k]];
}

/* Asks for the sequences of the next steps, from *from on. */
static void fetch_sequences(const pkvi_lanes *l, const pkv_step *steps, size_t n, size_t *from)
{
    for (int i = 0; i < GROUP && (*from = pkvi_lanes_next_slow(l, *from, n)) < n; i++) {
        pkvi_fetch_far(steps[*from].seq);
        ++*from;
    }
}

/* Does what pkvi_lane_claim() would, if the lane does not run and the sequence stands nowhere. */
static inline bool claim_easily(pkvi_lanes *l, pkv_seq *seq, size_t i)
{
    const uint32_t old = seq->lane;
    if (l->until[i] != 0) {
        return false;
    }
    if (l->seqs[i] == seq) {
        return true;
    }
    if (old != PKVI_NO_LANE && l->seqs[old] == seq) {
        return false;
    }
    pkvi_lane_seat(l, seq, i);
    return true;
}

/* Asks for what a plain step writes, and for the body of another. */
static void look_at(pkv_cache *c, group *g, uint32_t k, uint64_t lookahead)
{
    const pkv_step *step = step_of(g, k);
    pkv_seq *seq = step->seq;
    if (!seq || seq->cache != c) {
        g->busy |= 1ULL << k;
        return;
    }
    const size_t i = g->at[k];
    if (!claim_easily(&c->lanes, seq, i) && !pkvi_lane_claim(c, g->steps, g->n_steps, i)) {
        g->twice = g->twice < k ? g->twice : k;
    }
    if (!is_plain(step, lookahead)) {
        g->busy |= 1ULL << k;
        pkvi_fetch_body(seq);
    } else if (seq->n_tokens + step->n_tokens >= seq->due_at) {
        g->due |= 1ULL << k;
    }
    if (seq->tokens) {
        pkvi_fetch_far(seq->tokens + seq->n_tokens);
    }
}

/* The next group, from *from on. A claim may find steps further on that belong to it. */
static void find_busy(pkv_cache *c, group *g, size_t *from, uint64_t lookahead)
{
    const size_t n = g->n_steps;
    g->n = 0;
    g->twice = GROUP;
    g->busy = g->due = 0;
    for (; g->n < GROUP && (*from = pkvi_lanes_next_slow(&c->lanes, *from, n)) < n; ++*from) {
        g->at[g->n] = *from;
        look_at(c, g, g->n++, lookahead);
    }
    g->due = g->busy != 0 ? g->due : 0;
    for (uint64_t left = g->due; left != 0; left &= left - 1) {
        pkvi_fetch_body(step_of(g, (uint32_t)__builtin_ctzll(left))->seq);
    }
}

static pkv_status check_group(pkv_cache *c, const group *g, uint64_t lookahead)
{
    for (uint64_t left = g->busy; left != 0; left &= left - 1) {
        const uint32_t k = (uint32_t)__builtin_ctzll(left);
        const pkv_step *step = step_of(g, k);
        if (k > g->twice) {
            break;
        }
        PKVI_RETURN_IF(check_step(c, step, g->at[k], lookahead));
        if (!pkvi_reserve_tokens(step->seq, step->seq->n_tokens + step->n_tokens)) {
            return pkvi_fail(PKV_E_NOMEM, "pkv_cache_advance: step %zu: out of memory", g->at[k]);
        }
    }
    return g->twice == GROUP
               ? PKV_OK
               : pkvi_fail(PKV_E_INVAL, "pkv_cache_advance: step %zu: the sequence twice",
                           g->at[g->twice]);
}

/* Asks for what busy steps are going to look at. n_before: those before this group. */
static void fetch_busy(const pkv_cache *c, const group *g, uint64_t n_before)
{
    const uint64_t n = (uint64_t)__builtin_popcountll(g->busy), n_groups = c->info.n_groups;
    for (uint64_t left = g->busy | g->due; left != 0; left &= left - 1) {
        pkvi_fetch_named(step_of(g, (uint32_t)__builtin_ctzll(left))->seq);
    }
    pkvi_list_fetch_front(&c->pool->list, n_before * n_groups, (n_before + n) * n_groups);
    for (uint64_t left = g->busy | g->due; left != 0; left &= left - 1) {
        pkvi_fetch_blocks(step_of(g, (uint32_t)__builtin_ctzll(left))->seq);
    }
}

/* The same for what steps that lanes take leave to be done. */
static void fetch_due(pkv_seq *const *due, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pkvi_fetch_named(due[i]);
    }
    for (size_t i = 0; i < n; i++) {
        pkvi_fetch_blocks(due[i]);
    }
}

/* Checks all steps that lanes do not take, before any is done. A sequence twice in one batch would
 * be checked against a state that it no longer has. */
static pkv_status check_steps(pkv_cache *c, const pkv_step *steps, size_t n, uint64_t lookahead)
{
    enum { AHEAD = 2 }; /* groups */
    uint64_t n_busy = 0;
    size_t from = 0, fetched = 0, n_due = 0;
    pkv_seq *due[PKVI_LANE_GROUP];
    group g;
    g.steps = steps;
    g.n_steps = n;
    for (int i = 0; i < AHEAD; i++) {
        fetch_sequences(&c->lanes, steps, n, &fetched);
    }
    if (c->lanes.n_running > 0) {
        pkvi_lanes_fetch_claims(&c->lanes, n);
        n_due = pkvi_lanes_fetch_due(c, n, due);
    }
    while (from < n) {
        find_busy(c, &g, &from, lookahead);
        fetch_sequences(&c->lanes, steps, n, &fetched);
        PKVI_RETURN_IF(check_group(c, &g, lookahead));
        fetch_busy(c, &g, n_busy);
        n_busy += (uint64_t)__builtin_popcountll(g.busy);
    }
    fetch_due(due, n_busy > 0 ? n_due : 0);
    return PKV_OK;
}

static pkv_status advance(const pkv_step *step, uint64_t lookahead, pkv_allocate_result *out)
{
    pkv_seq *seq = step->seq;
    pkv_allocate_params p;
    if (pkvi_is_usual(step, lookahead)) {
        return pkvi_advance_usually(step, lookahead, out);
    }
    pkvi_catch_up(seq->cache);
    if (step->computed != PKV_STEP_KEEP) {
        pkvi_roll_back(seq, step->computed);
    }
    if (step->n_tokens > 0) {
        PKVI_RETURN_IF(pkvi_append("pkv_cache_advance", seq, step->tokens, step->n_tokens));
    }
    pkv_allocate_params_init(&p);
    p.new_tokens = seq->n_tokens - seq->computed;
    p.lookahead = lookahead;
    return pkvi_allocate(seq, &p, out);
}

static inline bool is_one_token(const pkv_step *step)
{
    return step->n_tokens == 1 && step->computed == PKV_STEP_KEEP && step->tokens;
}

/* Does the steps that lanes do not take, in their order. *done_out: how many were done, if not
 * all. */
static pkv_status do_steps(pkv_cache *c, const pkv_step *steps, size_t n, uint64_t lookahead,
                           pkv_allocate_result *out, uint64_t *done_out)
{
    pkvi_lanes *l = &c->lanes;
    for (size_t i = 0; (i = pkvi_lanes_next_slow(l, i, n)) < n; i++) {
        l->reached = i;
        if (pkvi_is_quiet(&steps[i], lookahead)) {
            pkvi_advance_quietly(&steps[i]);
        } else {
            const pkv_status st = advance(&steps[i], lookahead, out);
            if (st != PKV_OK) {
                *done_out = i;
                return st;
            }
        }
        l->reached = i + 1;
        if (is_one_token(&steps[i])) { /* the next one may be such, too */
            pkvi_lane_run(c, steps[i].seq, i);
        }
    }
    return PKV_OK;
}

/* With more steps than sequences, one of the first of them, one more than there are sequences, is
 * wrong: there are lanes for these. */
pkv_status pkv_cache_advance(pkv_cache *cache, const pkv_step *steps, uint64_t n,
                             uint64_t lookahead, pkv_allocate_result *out, uint64_t *done_out)
{
    pkv_status st = PKV_OK;
    if (!cache || (n > 0 && !steps) || !out || !done_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_cache_advance: an argument is NULL");
    }
    pkvi_cache_check_thread(cache);
    pkvi_fetch(cache, sizeof *cache);
    *done_out = 0;
    memset(out, 0, sizeof *out);
    const size_t most = (size_t)pkvi_min(n, cache->n_open + 1);
    const bool all = pkvi_lanes_find(cache, steps, most, lookahead);
    if (!all) {
        PKVI_RETURN_IF(check_steps(cache, steps, most, lookahead));
    }
    pkvi_begin_result(cache);
    pkvi_lanes_begin(cache, most);
    *done_out = most;
    if (!all) {
        st = do_steps(cache, steps, most, lookahead, out, done_out);
    }
    if (st != PKV_OK && st != PKV_E_NO_BLOCKS) {
        pkvi_error_context("pkv_cache_advance", "step %" PRIu64, *done_out);
    }
    pkvi_lanes_end(cache, st != PKV_OK);
    pkvi_end_result(cache, out);
    return st;
}
