/* allocate.c  Slots for one step of one sequence.
 *
 *     look up -> check -> make room in every list -> gate -> free below windows -> count ->
 *     adopt hits in all groups -> blocks for external tokens -> blocks to compute into -> keys
 *
 * Hits of all groups are adopted before any group takes a block, so that one group cannot evict
 * what another is about to use. After the count nothing can fail. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/params.h"
#include "pool/pool_internal.h"
#include "seq/allocate.h"

/* Of use_cached. */
enum { USE_AT_FIRST = 2, USE_CONNECTOR_HIT = 3 };

void pkv_allocate_params_init(pkv_allocate_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->use_cached = USE_AT_FIRST;
    params->others_scheduled = 1;
}

static pkv_status invalid(const char *field, uint64_t value, const char *why)
{
    return pkvi_fail(PKV_E_INVAL, "pkv_seq_allocate: %s %" PRIu64 ": %s", field, value, why);
}

static pkv_status check_params(const pkv_seq *seq, const pkv_allocate_params *p, bool use_cached)
{
    const uint64_t most = PKV_SPEC_LIMIT;
    if (p->new_tokens > most || p->lookahead > most || p->external_tokens > most ||
        p->in_flight_tokens > most || p->reserved_blocks > most || p->encoder_tokens > most) {
        return invalid("new_tokens", p->new_tokens, "a number is beyond 2^31-1");
    }
    if (p->use_cached > USE_CONNECTOR_HIT) {
        return invalid("use_cached", p->use_cached, "0, 1, 2 or 3 was expected");
    }
    if (seq->body->live && (use_cached || p->external_tokens > 0)) {
        return invalid("external_tokens", p->external_tokens,
                       "a hit or external tokens only at the first allocation");
    }
    for (uint64_t i = 0; i < p->n_skip_zero_groups; i++) {
        if (!p->skip_zero_groups || p->skip_zero_groups[i] >= seq->cache->info.n_groups) {
            return invalid("skip_zero_groups", i, "no such group");
        }
    }
    return PKV_OK;
}

static pkv_status check_tokens(const pkv_seq *seq, const pkv_allocate_params *p, uint64_t hit)
{
    const uint64_t computed = seq->computed + hit + p->external_tokens;
    if (p->external_tokens > 0 && hit + p->external_tokens > seq->n_tokens) {
        return invalid("external_tokens", p->external_tokens, "more than the sequence has");
    }
    if (computed + p->new_tokens > seq->cache->info.max_model_len) {
        return invalid("new_tokens", p->new_tokens, "beyond max_model_len");
    }
    if (hit + p->external_tokens + p->new_tokens == 0) {
        return invalid("new_tokens", 0, "nothing to allocate");
    }
    return PKV_OK;
}

/* ---- private copies of shared tails ---- */

bool pkvi_may_write(const pkv_seq *seq, pkv_block block)
{
    const pkv_cache *c = seq->cache;
    if (!seq->body->forked) {
        return true;
    }
    uint32_t refs = c->pool->blocks[block].refs;
    for (size_t i = 0; refs > 1 && i < c->pins.n; i++) {
        refs -= c->pins.at[i] == block;
    }
    return refs <= 1 && pkv_pool_block_tokens(c->pool, block) <= seq->computed;
}

/* The copy of a tail is told, and its ends stay until it has run. */
static void tell_copy(pkv_cache *c, const pkvi_table *t)
{
    c->copies.at[c->copies.n++] = (pkv_block_copy){t->copy_src, t->copy_dst};
    c->pins.at[c->pins.n++] = t->copy_src;
    c->pins.at[c->pins.n++] = t->copy_dst;
}

/* ---- the change ---- */

static bool skips_zero(const pkv_allocate_params *p, uint32_t g)
{
    for (uint64_t i = 0; i < p->n_skip_zero_groups; i++) {
        if (p->skip_zero_groups[i] == g) {
            return true;
        }
    }
    return false;
}

static void note_zero(pkv_cache *c, uint32_t g, const pkv_block *ids, uint64_t n)
{
    if (c->managers[g].zeroed && n > 0) {
        memcpy(c->zero[g].at + c->zero[g].n, ids, (size_t)n * sizeof *ids);
        c->zero[g].n += (size_t)n;
    }
}

static void adopt(pkv_seq *seq, const pkv_allocate_params *p, const pkvi_slots_wanted *r)
{
    pkv_cache *c = seq->cache;
    bool any_hit = p->external_tokens > 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        if (seq->body->tables[g].tracked) {
            return; /* it runs: there is nothing to adopt */
        }
        any_hit |= r->use_cached && c->hit[g].n > 0;
    }
    if (!any_hit) {
        return;
    }
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_need in = pkvi_need_of(seq, g, r, 0, false);
        pkvi_manager_adopt(&c->managers[g], c->pool, &seq->body->tables[g], &in);
    }
    for (uint32_t g = 0; p->external_tokens > 0 && g < c->info.n_groups; g++) {
        pkvi_table *t = &seq->body->tables[g];
        const pkvi_need in = pkvi_need_of(seq, g, r, 0, false);
        const uint64_t n = pkvi_manager_add_external(&c->managers[g], c->pool, t, &in);
        if (!skips_zero(p, g)) {
            note_zero(c, g, t->ids + t->n - n, n);
        }
    }
}

static void grow(pkv_seq *seq, uint64_t tokens, uint64_t main, uint64_t encoder)
{
    pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        pkvi_table *t = &seq->body->tables[g];
        const bool state = c->managers[g].rules->state;
        pkvi_manager_grow(&c->managers[g], c->pool, t,
                          state ? main : pkvi_slots_of(seq, g, tokens, encoder));
        if (t->copy_dst != 0) {
            tell_copy(c, t);
        }
        if (t->key_moved) {
            pkvi_note_moved_key(seq, g);
        }
        if (t->copied != 0 && !state) {
            note_zero(c, g, &t->copied, 1);
        }
        note_zero(c, g, t->ids + t->new_from, t->n - t->new_from);
        if (t->copied != 0) {
            t->fresh[0] = t->copied;
            memcpy(t->fresh + 1, t->ids + t->new_from, (t->n - t->new_from) * sizeof *t->ids);
        }
    }
}

/* Hands the zero-fills of all groups over, group by group. */
static void tell_zero(pkv_cache *c)
{
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        if (c->zero[g].n > 0) {
            memcpy(c->told_zero.at + c->told_zero.n, c->zero[g].at,
                   c->zero[g].n * sizeof *c->zero[g].at);
            c->told_zero.n += c->zero[g].n;
            c->zero[g].n = 0;
        }
    }
}

static void count_lookup(pkv_seq *seq, uint64_t hit)
{
    pkv_cache_stats *s = &seq->cache->stats;
    if (!seq->cache->info.caching || seq->body->skip_lookup) {
        return;
    }
    const bool again = seq->body->n_preemptions > 0;
    *(again ? &s->preempted_requests : &s->requests) += 1;
    *(again ? &s->preempted_queries : &s->queries) += seq->n_tokens;
    *(again ? &s->preempted_hits : &s->hits) += hit;
}

/* ---- the walk ---- */

pkv_status pkvi_no_blocks(const pkv_cache *c, uint64_t needed, pkv_allocate_result *out)
{
    out->needed = needed;
    out->free = pkv_pool_free_count(c->pool);
    return PKV_E_NO_BLOCKS;
}

static pkv_status allocate(pkv_seq *seq, const pkv_allocate_params *p, const pkvi_slots_wanted *r,
                           pkv_allocate_result *out)
{
    pkv_cache *c = seq->cache;
    const uint64_t most = c->info.max_model_len, free = pkv_pool_free_count(c->pool);
    const uint64_t watermark = p->others_scheduled && seq->body->waiting ? c->watermark : 0;
    const uint64_t slots = pkvi_min(r->main + p->lookahead, most);
    if (!pkvi_reserve_tokens(seq, seq->n_tokens) || /* quiet steps may have used that room */
        !pkvi_reserve_slots(seq, pkvi_max(slots, seq->n_tokens), r) ||
        (c->info.caching && !p->delay_caching && !pkvi_place_content(seq, r->main))) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_seq_allocate: out of memory for tables");
    }
    if (p->full_sequence_must_fit) {
        pkvi_slots_wanted all = *r;
        all.main = pkvi_min(seq->n_tokens, most);
        const uint64_t whole = pkvi_count_needed(seq, &all, all.main, true, watermark);
        if (whole > free) {
            return pkvi_no_blocks(c, whole, out);
        }
    }
    pkvi_remove_skipped(seq, r->total > p->in_flight_tokens ? r->total - p->in_flight_tokens : 0);
    const uint64_t needed = pkvi_count_needed(seq, r, slots, false, watermark + p->reserved_blocks);
    if (needed > pkv_pool_free_count(c->pool)) {
        return pkvi_no_blocks(c, needed, out);
    }
    adopt(seq, p, r);
    grow(seq, slots, r->main, r->encoder);
    return PKV_OK;
}

void pkvi_remove_skipped(pkv_seq *seq, uint64_t processed)
{
    pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        pkvi_manager_remove_skipped(&c->managers[g], c->pool, &seq->body->tables[g], processed,
                                    seq->body->n_prompt, c->scratch.at);
    }
}

void pkvi_begin_rows(pkv_seq *seq, uint64_t step)
{
    if (seq->body->last_step == step) {
        return;
    }
    for (uint32_t g = 0; g < seq->cache->info.n_groups; g++) {
        pkvi_table *t = &seq->body->tables[g];
        t->dirty_from = seq->body->last_step == PKVI_NEVER_SHOWN ? 0 : t->n;
    }
    seq->body->last_step = step;
}

void pkvi_begin_changes(pkv_seq *seq)
{
    pkvi_begin_rows(seq, seq->cache->steps);
    for (uint32_t g = 0; g < seq->cache->info.n_groups; g++) {
        pkvi_table *t = &seq->body->tables[g];
        t->new_from = t->n;
        t->copied = t->copy_src = t->copy_dst = 0;
        t->key_moved = false;
    }
    pkvi_end_quiet(seq);
    seq->body->shown = PKVI_NEVER_SHOWN;
}

void pkvi_mark_moved(pkv_seq *seq, uint64_t from, uint64_t to)
{
    for (uint32_t g = 0; g < seq->cache->info.n_groups; g++) {
        const pkvi_manager *m = &seq->cache->managers[g];
        if (!m->rules->until) {
            continue;
        }
        const uint64_t before = m->rules->skipped(m, from) / m->span;
        const uint64_t after = m->rules->skipped(m, to) / m->span;
        if (before != after) {
            pkvi_table *t = &seq->body->tables[g];
            t->dirty_from = pkvi_min(t->dirty_from, pkvi_min(before, after));
        }
    }
}

void pkvi_move_first(pkv_seq *seq, uint64_t first)
{
    pkvi_mark_moved(seq, seq->first, first);
    seq->first = (uint32_t)first; /* at most max_model_len */
}

pkv_status pkvi_allocate(pkv_seq *seq, const pkv_allocate_params *p, pkv_allocate_result *out)
{
    pkv_cache *c = seq->cache;
    pkv_hit hit = {0, 0};
    const bool use_cached = p->use_cached == USE_AT_FIRST ? !seq->body->live : p->use_cached != 0;
    pkvi_catch_up(c);
    PKVI_RETURN_IF(check_params(seq, p, use_cached));
    if (p->use_cached == USE_CONNECTOR_HIT) {
        (void)pkvi_find_connector_hit(seq, &hit);
    } else if (use_cached) {
        pkvi_find_hit(seq, &hit);
    }
    PKVI_RETURN_IF(check_tokens(seq, p, hit.tokens));
    if (use_cached) {
        seq->body->shared_prefix = hit.shared_prefix;
        if (seq->body->report_reused && hit.tokens > 0) {
            pkvi_report_hit(seq);
        }
    }
    pkvi_slots_wanted r = {.local = seq->computed + hit.tokens,
                           .use_cached = use_cached,
                           .encoder = p->encoder_tokens};
    r.total = pkvi_min(r.local + p->external_tokens, c->info.max_model_len);
    r.main = r.total + p->new_tokens;
    const size_t offers = c->offers.n;
    seq->body->in_flight = p->in_flight_tokens;
    pkvi_begin_changes(seq);
    PKVI_RETURN_IF(allocate(seq, p, &r, out));
    if (use_cached) {
        count_lookup(seq, hit.tokens);
    }
    const uint64_t before = seq->computed;
    seq->body->live = true;
    seq->body->waiting = seq->body->waiting && p->delay_caching;
    seq->computed += hit.tokens + p->external_tokens + p->new_tokens;
    pkvi_move_first(seq, r.total);
    tell_zero(c);
    out->cached_tokens = hit.tokens;
    if (!p->delay_caching) {
        PKVI_RETURN_IF(pkvi_key_blocks(seq, pkvi_min(r.main, seq->n_tokens), before));
    }
    pkvi_sort_offers(c, offers);
    if (!p->delay_caching) {
        pkvi_note_quiet(seq);
    }
    return PKV_OK;
}

void pkvi_begin_result(pkv_cache *c)
{
    c->copies.n = 0;
    c->told_zero.n = 0;
}

void pkvi_end_result(const pkv_cache *c, pkv_allocate_result *out)
{
    out->copies = c->copies.at;
    out->n_copies = c->copies.n;
    out->zero = c->told_zero.at;
    out->n_zero = c->told_zero.n;
}

pkv_status pkv_seq_allocate(pkv_seq *seq, const pkv_allocate_params *params,
                            pkv_allocate_result *out)
{
    pkv_allocate_params p;
    if (!seq || !params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_allocate: seq, params or out is NULL");
    }
    pkvi_cache_check_thread(seq->cache);
    memset(out, 0, sizeof *out);
    pkv_allocate_params_init(&p);
    PKVI_RETURN_IF(pkvi_import_params("pkv_seq_allocate", params, &p, sizeof p));
    pkvi_lane_stop(seq);
    pkvi_begin_result(seq->cache);
    PKVI_RETURN_IF(pkvi_allocate(seq, &p, out));
    pkvi_end_result(seq->cache, out);
    return PKV_OK;
}

const pkv_block *pkv_seq_new_blocks(const pkv_seq *seq, uint32_t group, uint64_t *n_out)
{
    if (group >= seq->cache->info.n_groups) {
        *n_out = 0;
        return NULL;
    }
    const pkvi_table *t = &seq->body->tables[group];
    const bool quiet = pkvi_lane_waits(seq) ||
                       (seq->body->shown != PKVI_NEVER_SHOWN && seq->body->shown != seq->computed);
    *n_out = quiet ? 0 : t->n - t->new_from + (t->copied != 0);
    if (*n_out == 0) {
        return NULL;
    }
    return t->copied != 0 ? t->fresh : t->ids + t->new_from;
}
