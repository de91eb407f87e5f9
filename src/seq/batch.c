/* batch.c  One call a step: all running sequences advance. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/fetch.h"
#include "base/math.h"
#include "base/tokens.h"
#include "pool/pool_internal.h"
#include "seq/allocate.h"

enum { GROUP = 64 }; /* sequences whose memory is on its way at once */

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

/* A few steps that are checked together. */
typedef struct group {
    const pkv_step *steps; /* [n] */
    uint64_t first;        /* of the batch */
    uint32_t n;
    uint32_t twice; /* the first whose sequence was named before; n: none */
    uint64_t busy;  /* bits: those that are not plain */
    uint64_t due; /* bits: plain ones of which the next busy one will do what is left to be done */
} group;

/* Asks for what plain steps write, for the bodies of the others, and for the lines of n_behind
 * later sequences. */
static void find_busy(const pkv_cache *c, group *g, uint64_t n_behind, uint64_t lookahead)
{
    const pkv_step *steps = g->steps;
    const uint32_t mark = c->marks;
    const uint32_t n = g->n;
    uint32_t twice = n;
    uint64_t busy = 0, due = 0;
    for (uint32_t i = 0; i < n; i++) {
        pkv_seq *seq = steps[i].seq;
        if (i < n_behind) {
            pkvi_fetch_far(steps[i + GROUP].seq);
        }
        if (!seq || seq->cache != c) {
            busy |= 1ULL << i;
            continue;
        }
        if (!is_plain(&steps[i], lookahead)) {
            busy |= 1ULL << i;
            pkvi_fetch_body(seq);
        } else if (seq->n_tokens + steps[i].n_tokens >= seq->due_at) {
            due |= 1ULL << i;
        }
        if (seq->mark == mark) {
            twice = twice < i ? twice : i;
        }
        seq->mark = mark;
        if (seq->tokens) {
            pkvi_fetch_far(seq->tokens + seq->n_tokens);
        }
    }
    g->twice = twice;
    g->busy = busy;
    g->due = busy != 0 ? due : 0;
    for (uint64_t left = g->due; left != 0; left &= left - 1) {
        pkvi_fetch_body(steps[__builtin_ctzll(left)].seq);
    }
}

static pkv_status check_group(pkv_cache *c, const group *g, uint64_t lookahead)
{
    for (uint64_t left = g->busy; left != 0; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        pkv_seq *seq = g->steps[i].seq;
        if (i > g->twice) {
            break;
        }
        PKVI_RETURN_IF(check_step(c, &g->steps[i], g->first + i, lookahead));
        if (!pkvi_reserve_tokens(seq, seq->n_tokens + g->steps[i].n_tokens)) {
            return pkvi_fail(PKV_E_NOMEM, "pkv_cache_advance: step %" PRIu64 ": out of memory",
                             g->first + i);
        }
    }
    if (g->twice < g->n) {
        return pkvi_fail(PKV_E_INVAL, "pkv_cache_advance: step %" PRIu64 ": the sequence twice",
                         g->first + g->twice);
    }
    return PKV_OK;
}

/* Asks for what busy steps are going to look at. n_before: those before this group. */
static void fetch_busy(const pkv_cache *c, const group *g, uint64_t n_before)
{
    const uint64_t n = (uint64_t)__builtin_popcountll(g->busy), n_groups = c->info.n_groups;
    for (uint64_t left = g->busy | g->due; left != 0; left &= left - 1) {
        pkvi_fetch_named(g->steps[__builtin_ctzll(left)].seq);
    }
    pkvi_list_fetch_front(&c->pool->list, n_before * n_groups, (n_before + n) * n_groups);
    for (uint64_t left = g->busy | g->due; left != 0; left &= left - 1) {
        pkvi_fetch_blocks(g->steps[__builtin_ctzll(left)].seq);
    }
}

/* Marks are 32 bits: after 2^32 batches they begin anew. */
static void begin_marks(pkv_cache *c)
{
    if (c->marks < UINT32_MAX) {
        c->marks++;
        return;
    }
    for (pkv_seq *seq = c->first; seq; seq = seq->body->next) {
        seq->mark = 0;
    }
    c->marks = 1;
}

/* Checks all steps before any is done. A sequence twice in one batch would be checked against a
 * state that it no longer has. */
static pkv_status check_steps(pkv_cache *c, const pkv_step *steps, uint64_t n, uint64_t lookahead)
{
    uint64_t n_busy = 0;
    begin_marks(c);
    for (uint64_t i = 0; i < n && i < GROUP; i++) {
        pkvi_fetch_far(steps[i].seq);
    }
    for (uint64_t first = 0; first < n; first += GROUP) {
        const uint32_t length = (uint32_t)pkvi_min(n - first, GROUP);
        group g = {&steps[first], first, length, length, 0, 0};
        find_busy(c, &g, n - first - g.n, lookahead);
        PKVI_RETURN_IF(check_group(c, &g, lookahead));
        fetch_busy(c, &g, n_busy);
        n_busy += (uint64_t)__builtin_popcountll(g.busy);
    }
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
    PKVI_RETURN_IF(check_steps(cache, steps, n, lookahead));
    pkvi_begin_result(cache);
    for (uint64_t i = 0; i < n && st == PKV_OK; i++) {
        if (pkvi_is_quiet(&steps[i], lookahead)) {
            pkvi_advance_quietly(&steps[i]);
            ++*done_out;
            continue;
        }
        st = advance(&steps[i], lookahead, out);
        if (st != PKV_OK && st != PKV_E_NO_BLOCKS) {
            pkvi_error_context("pkv_cache_advance", "step %" PRIu64, i);
        }
        *done_out += st == PKV_OK;
    }
    pkvi_end_result(cache, out);
    return st;
}
