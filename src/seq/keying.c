/* keying.c  Which blocks get a key, and when.
 *
 * A block is keyed when all of its tokens are final. Kinds that recycle blocks key only those from
 * which a later request can resume; a full group whose blocks are longer than a key's unit also
 * keys the last boundary inside the prompt, where a resend will look. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

enum { MAX_BOUNDARIES = 4 };

pkv_chain pkvi_chain_of(const pkv_seq *seq)
{
    return (pkv_chain){.tokens = seq->body->has_tokens ? seq->tokens : NULL,
                       .keys = seq->body->keys.at,
                       .n_tokens = seq->n_tokens,
                       .n_keys = seq->body->keys.n,
                       .extras = seq->body->extras,
                       .session = seq->body->session,
                       .lora_id = seq->body->lora_id,
                       .has_lora_id = seq->body->has_lora_id};
}

/* Positions at which a later request that replays this prompt can resume: one token is always left
 * to compute; where a drafter gives up a block, one lower, for the same and for a longer prompt. */
static uint32_t replay_boundaries(const pkv_seq *seq, uint64_t out[MAX_BOUNDARIES])
{
    const uint64_t block = seq->cache->info.scheduler_block_size, n = seq->body->n_prompt;
    if (!seq->cache->any_drop) {
        out[0] = n - 1;
        return 1;
    }
    const uint64_t resend = (n - 1) / block * block, longer = n / block * block;
    out[0] = resend > block ? resend - block : 0;
    out[1] = longer > block ? longer - block : 0;
    return 2;
}

/* Tokens whose blocks may be keyed in a group. Hits of several groups end on scheduler blocks, so
 * nothing beyond the last one could be found; a group that drops a block is matched one further. */
static uint64_t cacheable_tokens(const pkv_cache *c, const pkvi_manager *m, uint64_t tokens)
{
    const uint64_t block = c->info.scheduler_block_size;
    const uint64_t final = tokens > c->unfinished ? tokens - c->unfinished : 0;
    if (!c->hybrid) {
        return final;
    }
    const uint64_t aligned = c->fine ? tokens : tokens / block * block;
    if (m->drop && aligned > 0) {
        const uint64_t end = c->fine ? final : final / block * block;
        return pkvi_min(final, end + m->span);
    }
    return aligned;
}

static pkv_status key_whole(pkv_seq *seq, uint32_t g, uint64_t tokens)
{
    pkv_cache *c = seq->cache;
    const pkvi_manager *m = &c->managers[g];
    pkvi_table *t = &seq->body->tables[g];
    uint64_t boundaries[MAX_BOUNDARIES];
    const uint64_t keyed = t->tracked ? t->n_keyed : 0;
    const uint64_t whole = pkvi_min(tokens, pkvi_known_units(seq) * c->info.unit) / m->span;
    if (keyed >= whole) {
        return PKV_OK;
    }
    uint32_t n = replay_boundaries(seq, boundaries);
    if (seq->body->shared_prefix != 0) {
        boundaries[n++] = seq->body->shared_prefix;
        if (m->drop && seq->body->shared_prefix >= m->span) {
            boundaries[n++] = seq->body->shared_prefix - m->span;
        }
    }
    const pkvi_mask_in in = {keyed, whole, c->info.hit_alignment, c->retention, boundaries, n};
    const uint8_t *mask = m->rules->mask(m, &in, c->mask.at) ? c->mask.at : NULL;
    const pkv_chain chain = pkvi_chain_of(seq);
    const pkvi_table_part part = {t->ids, keyed, whole, mask, g, m->units};
    PKVI_RETURN_IF(
        c->by_runs ? pkvi_pool_name(c->pool, &seq->body->cursor, &chain, &part)
                   : pkv_pool_cache_full(c->pool, &chain, t->ids, keyed, whole, m->span, g, mask));
    t->n_keyed = whole;
    t->tracked = true;
    return PKV_OK;
}

pkv_status pkvi_key_prefix(pkv_seq *seq, uint32_t g, pkv_block block, uint64_t tokens, bool replace)
{
    const pkv_cache *c = seq->cache;
    const pkv_chain chain = pkvi_chain_of(seq);
    if (!c->by_runs) {
        return pkv_pool_cache_partial(c->pool, &chain, block, tokens, g, replace);
    }
    pkvi_pool_name_unit(c->pool, &seq->body->cursor, &chain, block, tokens / c->info.unit, g,
                        replace);
    return PKV_OK;
}

/* A longer prefix takes the keys of a block away: others whose prompts end inside it, too, key them
 * anew by their next step. That is after an eviction only: else a block that is shared is keyed for
 * all of it. */
static void end_quiet_if_replaced(pkv_cache *c, pkv_block block, uint64_t boundary)
{
    const pkvi_block *b = &c->pool->blocks[block];
    if (b->refs > 1 && b->units != 0 && b->units < boundary / c->info.unit) {
        pkvi_end_quiet_of_all(c);
    }
}

/* A resend matches at most all tokens but one; a drafter's lookup reads the whole prompt first. */
static pkv_status key_prompt_tail(pkv_seq *seq, uint32_t g, uint64_t tokens)
{
    pkv_cache *c = seq->cache;
    const pkvi_manager *m = &c->managers[g];
    const pkvi_table *t = &seq->body->tables[g];
    const uint64_t limit = m->drop ? seq->body->n_prompt : seq->body->n_prompt - 1;
    const uint64_t boundary = pkvi_min(limit / c->info.unit, pkvi_known_units(seq)) * c->info.unit;
    if (!m->rules->full || m->span == c->info.unit || boundary == 0 || boundary > tokens ||
        boundary % m->span == 0 || boundary / m->span >= t->n) {
        return PKV_OK;
    }
    const pkv_block block = t->ids[boundary / m->span];
    end_quiet_if_replaced(c, block, boundary);
    return pkvi_key_prefix(seq, g, block, boundary, false);
}

static pkv_status key_group(pkv_seq *seq, uint32_t g, uint64_t tokens, uint64_t computed_before)
{
    const pkvi_manager *m = &seq->cache->managers[g];
    const pkvi_table *t = &seq->body->tables[g];
    const uint64_t keyed_before = t->tracked ? t->n_keyed : 0;
    PKVI_RETURN_IF(key_whole(seq, g, tokens));
    return m->rules->state ? pkvi_key_states(seq, g, tokens, keyed_before, computed_before)
                           : key_prompt_tail(seq, g, tokens);
}

pkv_status pkvi_key_blocks(pkv_seq *seq, uint64_t tokens, uint64_t computed_before)
{
    const pkv_cache *c = seq->cache;
    for (uint32_t g = 0; c->info.caching && g < c->info.n_groups; g++) {
        if (c->managers[g].cacheable) {
            const uint64_t cacheable = cacheable_tokens(c, &c->managers[g], tokens);
            PKVI_RETURN_IF(key_group(seq, g, cacheable, computed_before));
        }
    }
    return PKV_OK;
}

/* The event counts null blocks of a window as if they were there, as subscribers expect. */
void pkvi_report_hit(pkv_seq *seq)
{
    pkv_cache *c = seq->cache;
    const pkv_chain chain = pkvi_chain_of(seq);
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        pkvi_pool_report(c->pool, &chain, c->hit[g].n, c->managers[g].span, g);
    }
}
