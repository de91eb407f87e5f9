/* fork.c  Two sequences over the same blocks.
 *
 * The child holds the blocks of the computed tokens, the last one perhaps half full. Whoever is
 * first to write into that one gets a private copy then (allocate.c); slots beyond the computed
 * tokens are not shared, since both would write them. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

static bool copy_table(pkv_seq *child, const pkv_seq *parent, uint32_t g)
{
    const pkv_cache *c = parent->cache;
    const pkvi_table *from = &parent->body->tables[g];
    pkvi_table *to = &child->body->tables[g];
    const uint64_t span = c->managers[g].span;
    const size_t n = (size_t)pkvi_min(pkvi_ceil_div(parent->computed, span), from->n);
    void *ids = pkvi_array_grown(&c->alloc, to->ids, &to->capacity, n + 1, sizeof *to->ids);
    if (!ids) {
        return false;
    }
    to->ids = ids;
    if (n > 0) {
        memcpy(to->ids, from->ids, n * sizeof *to->ids);
    }
    to->n = to->new_from = n;
    to->tracked = from->tracked;
    to->n_keyed = pkvi_min(from->n_keyed, parent->computed / span);
    return true;
}

static pkv_status open_child(pkv_seq *parent, pkv_seq **out)
{
    const pkv_cache *c = parent->cache;
    const bool keys =
        c->info.caching && !c->by_tokens && (parent->body->keys.n > 0 || parent->body->ready_keys);
    pkv_seq_params p;
    pkv_seq_params_init(&p);
    p.skip_lookup = parent->body->skip_lookup;
    p.report_reused = parent->body->report_reused;
    p.has_lora_id = parent->body->has_lora_id;
    p.lora_id = parent->body->lora_id;
    p.tokens = parent->body->has_tokens ? parent->tokens : NULL;
    p.n_tokens = parent->n_tokens;
    p.keys = keys ? parent->body->keys.at : NULL; /* they need not be computed again */
    p.n_keys = parent->body->keys.n;
    p.extras = parent->body->extras;
    p.session = parent->body->session;
    if (keys &&
        parent->body->keys.n != pkv_key_count(parent->n_tokens, c->info.unit, c->hash_lookahead)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_fork: the keys of the last tokens are missing");
    }
    return pkv_seq_open(parent->cache, &p, out);
}

pkv_status pkv_seq_fork(pkv_seq *seq, pkv_seq **out)
{
    pkv_seq *child;
    if (out) {
        *out = NULL;
    }
    if (!seq || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_fork: seq or out is NULL");
    }
    pkvi_touch(seq);
    if (!seq->body->live) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_fork: the sequence is not allocated");
    }
    if (seq->computed > seq->n_tokens) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_fork: %" PRIu64 " tokens are computed of %" PRIu64
                         ": drafts that "
                         "nobody has verified",
                         seq->computed, seq->n_tokens);
    }
    for (uint32_t g = 0; g < seq->cache->info.n_groups; g++) {
        const pkvi_manager *m = &seq->cache->managers[g];
        if (m->rules->one_block || m->rules->encoder ||
            m->rules->recurrent) { /* written all the time, or not by tokens */
            return pkvi_fail(PKV_E_UNSUPPORTED, "pkv_seq_fork: group %" PRIu32 " is of kind %s", g,
                             pkv_kind_name(m->spec.kind));
        }
    }
    if (seq->cache->draft_content) { /* both would write it for their own next token */
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_seq_fork: a drafter's content depends on later tokens");
    }
    const pkv_status st = open_child(seq, &child);
    if (st != PKV_OK) {
        pkvi_error_rename("pkv_seq_fork");
        return st;
    }
    for (uint32_t g = 0; g < seq->cache->info.n_groups; g++) {
        if (!copy_table(child, seq, g)) {
            pkvi_seq_free(child);
            return pkvi_fail(PKV_E_NOMEM, "pkv_seq_fork: out of memory for tables");
        }
    }
    for (uint32_t g = 0; g < seq->cache->info.n_groups; g++) {
        pkvi_pool_share(seq->cache->pool, child->body->tables[g].ids, child->body->tables[g].n);
    }
    if (seq->cache->by_runs) {
        pkvi_runs_join(seq->cache->pool->runs, &seq->body->cursor, &child->body->cursor);
    }
    child->body->ready_keys = seq->body->ready_keys;
    child->body->n_prompt = seq->body->n_prompt;
    child->computed = seq->computed;
    child->first = (uint32_t)seq->computed; /* at most max_model_len */
    child->body->last_step = PKVI_NEVER_SHOWN;
    child->body->shared_prefix = seq->body->shared_prefix;
    child->body->live = child->body->forked = seq->body->forked = true;
    pkvi_end_quiet(seq);
    child->body->waiting = false;
    *out = child;
    return PKV_OK;
}
