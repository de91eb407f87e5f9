/* states.c  Recurrent states as content: which are keyed, who may read them when, and what a
 * connector is offered.
 *
 * A state is overwritten by the next step, so a key inside a block is a promise that somebody else
 * keeps: before the next step writes, the key moves to a private copy (state.c). And what a step
 * keys is written only when it has run, so nobody else may resume from it in the same step. */
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

/* ---- keyed in this step ---- */

static void note_keyed(pkv_cache *c, uint32_t g, pkv_block block)
{
    pkvi_keyed_list *keyed = &c->keyed_now[g];
    if (block == PKV_BLOCK_NULL || pkv_pool_block_tokens(c->pool, block) == 0) {
        return;
    }
    pkvi_keyed *now = &keyed->at[keyed->n++];
    if (c->by_runs) {
        pkvi_runs_hold(c->pool->runs, block, &now->place);
    } else {
        now->key = *pkvi_pool_key(c->pool, block);
    }
}

static bool is_content(const pkv_cache *c, const pkvi_keyed *keyed, pkv_block block)
{
    return c->by_runs ? pkvi_runs_is_behind(c->pool->runs, &keyed->place, block)
                      : memcmp(&keyed->key, pkvi_pool_key(c->pool, block), sizeof keyed->key) == 0;
}

bool pkvi_keyed_in_this_step(const pkv_cache *c, uint32_t g, pkv_block block)
{
    const pkvi_keyed_list *keyed = &c->keyed_now[g];
    if (keyed->n == 0 || pkv_pool_block_tokens(c->pool, block) == 0) {
        return false;
    }
    for (size_t i = 0; i < keyed->n; i++) {
        if (is_content(c, &keyed->at[i], block)) {
            return true;
        }
    }
    return false;
}

void pkvi_begin_state_step(pkv_cache *c)
{
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        pkvi_keyed_list *keyed = &c->keyed_now[g];
        for (size_t i = 0; c->by_runs && i < keyed->n; i++) {
            (void)pkvi_runs_leave(c->pool->runs, &keyed->at[i].place, NULL, 0);
        }
        keyed->n = 0;
    }
    c->offers.n = 0;
}

/* ---- offers ---- */

static void offer(pkv_seq *seq, uint32_t g, pkv_block block, uint64_t tokens)
{
    pkv_cache *c = seq->cache;
    c->offers.at[c->offers.n++] =
        (pkv_state_offer){.seq = seq, .tokens = tokens, .group = g, .block = block};
}

void pkvi_sort_offers(pkv_cache *c, size_t from)
{
    for (size_t i = from + 1; i < c->offers.n; i++) {
        const pkv_state_offer moved = c->offers.at[i];
        size_t to = i;
        for (; to > from && c->offers.at[to - 1].group > moved.group; to--) {
            c->offers.at[to] = c->offers.at[to - 1];
        }
        c->offers.at[to] = moved;
    }
}

void pkvi_drop_offers(pkv_seq *seq)
{
    pkvi_offer_list *offers = &seq->cache->offers;
    size_t kept = 0;
    for (size_t i = 0; i < offers->n; i++) {
        offers->at[kept] = offers->at[i];
        kept += offers->at[i].seq != seq;
    }
    offers->n = kept;
}

const pkv_state_offer *pkv_cache_take_offers(pkv_cache *cache, uint64_t *n_out)
{
    pkvi_cache_check_thread(cache);
    *n_out = cache->offers.n;
    cache->offers.n = 0; /* the array stays until something is offered again */
    return cache->offers.at;
}

/* ---- room ---- */

bool pkvi_reserve_states(pkv_seq *seq, uint32_t g, size_t n_blocks)
{
    pkv_cache *c = seq->cache;
    return pkvi_keyed_list_reserve(&c->alloc, &c->keyed_now[g], c->keyed_now[g].n + n_blocks + 2) &&
           pkvi_offer_list_reserve(&c->alloc, &c->offers,
                                   c->offers.n + c->info.n_groups * (n_blocks + 2));
}

/* ---- keys ---- */

void pkvi_note_moved_key(pkv_seq *seq, uint32_t g)
{
    pkvi_table *t = &seq->body->tables[g];
    if (t->running.produced != 0) {
        offer(seq, g, t->copy_dst, t->running.produced);
        t->running.produced = 0;
    }
    note_keyed(seq->cache, g, t->copy_dst); /* filled by this step's copy */
}

/* Whether the policy keeps the whole block that ends at `tokens`, boundaries of requests aside. */
static bool is_retained(const pkv_cache *c, const pkvi_manager *m, uint64_t tokens)
{
    uint8_t keep;
    if (tokens % m->span != 0) {
        return false;
    }
    const uint64_t end = tokens / m->span;
    const pkvi_mask_in in = {end - 1, end, c->info.hit_alignment, c->retention, NULL, 0};
    return !m->rules->mask(m, &in, &keep) || keep;
}

static bool has_keys_for(const pkv_seq *seq, uint64_t tokens)
{
    return tokens > 0 && tokens / seq->cache->info.unit <= pkvi_known_units(seq);
}

static pkv_status key_at(pkv_seq *seq, uint32_t g, pkv_block block, uint64_t tokens, bool replace)
{
    PKVI_RETURN_IF(pkvi_key_prefix(seq, g, block, tokens, replace));
    note_keyed(seq->cache, g, block);
    return PKV_OK;
}

/* The block of a checkpoint holds the state of that position, not of its own end. It is not keyed
 * before the tokens that it comes after. */
static pkv_status key_checkpoint(pkv_seq *seq, uint32_t g, uint64_t tokens)
{
    pkv_cache *c = seq->cache;
    const pkvi_manager *m = &c->managers[g];
    const pkvi_table *t = &seq->body->tables[g];
    const uint64_t position = t->running.checkpoint;
    if (t->running.checkpoint_at >= t->n) {
        return PKV_OK;
    }
    const pkv_block block = t->ids[t->running.checkpoint_at];
    const bool ends_prompt =
        position == pkvi_state_checkpoint(m, c->pool, seq->body->n_prompt, c->info.hit_alignment);
    if (!ends_prompt && !is_retained(c, m, position) && position != seq->body->shared_prefix) {
        return pkv_pool_evict(c->pool, block); /* nobody would look for it */
    }
    if (block == PKV_BLOCK_NULL || position > tokens || !has_keys_for(seq, position) ||
        pkv_pool_block_tokens(c->pool, block) == position) {
        return PKV_OK;
    }
    return key_at(seq, g, block, position, true);
}

/* The running state, if the step ends where the prompt, or a prefix that others have too, can be
 * resumed. */
static pkv_status key_running(pkv_seq *seq, uint32_t g, uint64_t tokens, uint64_t computed_before)
{
    pkv_cache *c = seq->cache;
    const pkvi_manager *m = &c->managers[g];
    pkvi_table *t = &seq->body->tables[g];
    const bool ends_prompt =
        tokens == pkvi_state_checkpoint(m, c->pool, seq->body->n_prompt, c->info.unit);
    const bool ends_shared = c->keys_junctions && tokens == seq->body->shared_prefix &&
                             computed_before < tokens && tokens <= seq->body->n_prompt;
    if (tokens == 0 || tokens % c->info.unit != 0 || (!ends_prompt && !ends_shared)) {
        return PKV_OK;
    }
    const size_t at = (size_t)(pkvi_ceil_div(tokens, m->span) - 1);
    if (at >= t->n || t->ids[at] == PKV_BLOCK_NULL || !has_keys_for(seq, tokens) ||
        pkv_pool_block_tokens(c->pool, t->ids[at]) == tokens) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(key_at(seq, g, t->ids[at], tokens, false));
    if (tokens % m->span != 0) { /* the next step writes into it */
        t->tail = at;
        t->n_keyed = at;
        t->tracked = true;
        t->running.produced = tokens;
    }
    return PKV_OK;
}

pkv_status pkvi_key_states(pkv_seq *seq, uint32_t g, uint64_t tokens, uint64_t keyed_before,
                           uint64_t computed_before)
{
    pkv_cache *c = seq->cache;
    pkvi_table *t = &seq->body->tables[g];
    const uint64_t keyed = t->tracked ? t->n_keyed : 0;
    PKVI_RETURN_IF(t->running.checkpoint != 0 ? key_checkpoint(seq, g, tokens)
                                              : key_running(seq, g, tokens, computed_before));
    for (uint64_t i = keyed_before; i < keyed; i++) {
        const pkv_block block = t->ids[i];
        const uint64_t covered = pkv_pool_block_tokens(c->pool, block);
        if (block != PKV_BLOCK_NULL && covered > 0) {
            note_keyed(c, g, block);
            offer(seq, g, block, covered);
        }
    }
    return PKV_OK;
}

/* ---- the end of a request ---- */

pkv_status pkv_seq_finish(pkv_seq *seq, const pkv_state_offer **out, uint64_t *n_out)
{
    if (!seq || !out || !n_out || !seq->body->live) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_finish: the sequence is not allocated");
    }
    pkv_cache *c = seq->cache;
    pkvi_touch(seq);
    size_t longest = 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        longest = pkvi_max(longest, seq->body->tables[g].n);
    }
    if (!pkvi_offer_list_reserve(&c->alloc, &c->last_offers, c->info.n_groups + 1) ||
        !pkvi_block_list_reserve(&c->alloc, &c->scratch, longest + 1)) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_seq_finish: out of memory");
    }
    c->last_offers.n = 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        pkvi_table *t = &seq->body->tables[g];
        const uint64_t tokens = t->running.produced;
        t->running.produced = 0;
        if (tokens != 0 && seq->body->in_flight == 0 && seq->computed == tokens) {
            c->last_offers.at[c->last_offers.n++] = (pkv_state_offer){
                .seq = seq, .tokens = tokens, .group = g, .block = t->ids[t->tail]};
        }
    }
    pkvi_begin_changes(seq);
    pkvi_remove_skipped(
        seq, seq->computed > seq->body->in_flight ? seq->computed - seq->body->in_flight : 0);
    *out = c->last_offers.at;
    *n_out = c->last_offers.n;
    return PKV_OK;
}
