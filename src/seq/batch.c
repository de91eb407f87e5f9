/* batch.c  One call a step: all running sequences advance. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/fetch.h"
#include "base/tokens.h"
#include "seq/allocate.h"

enum { FETCHED = 64 }; /* sequences whose memory is on its way while one is looked at */

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

/* A step that needs no check but of its tokens, as nearly all. */
static bool is_plain(const pkv_step *step, uint64_t lookahead)
{
    return pkvi_is_quiet(step, lookahead) &&
           (!step->tokens || pkvi_first_negative(step->tokens, step->n_tokens) == step->n_tokens);
}

/* Checks all steps before any is done. A sequence twice in one batch would be checked against a
 * state that it no longer has. */
static pkv_status check_steps(pkv_cache *c, const pkv_step *steps, uint64_t n, uint64_t lookahead)
{
    c->marks++;
    for (uint64_t i = 0; i < n && i < FETCHED; i++) {
        pkvi_fetch_far(steps[i].seq);
    }
    for (uint64_t i = 0; i < n; i++) {
        pkv_seq *seq = steps[i].seq;
        if (i + FETCHED < n) {
            pkvi_fetch_far(steps[i + FETCHED].seq);
        }
        if (!seq || seq->cache != c || !is_plain(&steps[i], lookahead)) {
            pkvi_key_due(c);
            PKVI_RETURN_IF(check_step(c, &steps[i], i, lookahead));
            if (!pkvi_reserve_tokens(seq, seq->n_tokens + steps[i].n_tokens)) {
                return pkvi_fail(PKV_E_NOMEM, "pkv_cache_advance: step %" PRIu64 ": out of memory",
                                 i);
            }
        }
        if (seq->mark == c->marks) {
            return pkvi_fail(PKV_E_INVAL, "pkv_cache_advance: step %" PRIu64 ": the sequence twice",
                             i);
        }
        seq->mark = c->marks;
        if (seq->tokens) {
            pkvi_fetch_far(seq->tokens + seq->n_tokens);
        }
    }
    return PKV_OK;
}

static pkv_status advance(const pkv_step *step, uint64_t lookahead, pkv_allocate_result *out)
{
    pkv_seq *seq = step->seq;
    pkv_allocate_params p;
    pkvi_key_due(seq->cache);
    if (pkvi_is_usual(step, lookahead)) {
        return pkvi_advance_usually(step, lookahead, out);
    }
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
