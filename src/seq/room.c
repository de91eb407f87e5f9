/* room.c  Before an allocate changes anything: room in every list that it may write, and how many
 * blocks it is going to take. */
#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/allocate.h"

uint64_t pkvi_slots_of(const pkv_seq *seq, uint32_t g, uint64_t tokens, uint64_t encoder)
{
    const pkvi_manager *m = &seq->cache->managers[g];
    if (m->rules->encoder) {
        return m->spec.kind == PKV_KIND_CROSS ? encoder : 0;
    }
    return tokens + m->spare;
}

/* The entry of a table that the next token will be written into, if it must not be; or
 * PKVI_NO_TAIL. Only a fork shares a block that is not full. */
static size_t shared_tail(const pkv_seq *seq, uint32_t g)
{
    const pkvi_table *t = &seq->body->tables[g];
    const uint64_t span = seq->cache->managers[g].span, at = seq->computed / span;
    if (!seq->body->forked || seq->computed % span == 0 || at >= t->n) {
        return PKVI_NO_TAIL;
    }
    return pkvi_may_write(seq, t->ids[at]) ? PKVI_NO_TAIL : (size_t)at;
}

static bool reserve_group(pkv_seq *seq, uint32_t g, uint64_t tokens, bool hit_inside)
{
    pkv_cache *c = seq->cache;
    pkvi_table *t = &seq->body->tables[g];
    const uint64_t scratch = c->managers[g].spec.num_speculative_blocks;
    const uint64_t blocks =
        pkvi_max(pkvi_ceil_div(tokens, c->managers[g].span) + scratch, t->n) + 1;
    void *ids = pkvi_array_grown(&c->alloc, t->ids, &t->capacity, (size_t)blocks, sizeof *t->ids);
    if (!ids) {
        return false;
    }
    t->ids = ids;
    const size_t added = (size_t)blocks - t->n + 1;
    if (c->managers[g].rules->state && !pkvi_reserve_states(seq, g, (size_t)blocks)) {
        return false;
    }
    if (!c->managers[g].rules->state) {
        t->tail = shared_tail(seq, g);
    }
    if (t->tail != PKVI_NO_TAIL || hit_inside) {
        void *fresh =
            pkvi_array_grown(&c->alloc, t->fresh, &t->fresh_capacity, added, sizeof *t->fresh);
        if (!fresh) {
            return false;
        }
        t->fresh = fresh;
    }
    return pkvi_block_list_reserve(&c->alloc, &c->zero[g], c->zero[g].n + added) &&
           pkvi_block_list_reserve(&c->alloc, &c->scratch, (size_t)blocks);
}

bool pkvi_reserve_slots(pkv_seq *seq, uint64_t tokens, const pkvi_slots_wanted *r)
{
    pkv_cache *c = seq->cache;
    size_t zero = c->told_zero.n;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const bool hit_inside = r->use_cached && r->local % c->managers[g].span != 0;
        if (!reserve_group(seq, g, pkvi_slots_of(seq, g, tokens, r->encoder), hit_inside)) {
            return false;
        }
        zero += c->zero[g].capacity;
    }
    const size_t groups = c->info.n_groups;
    return pkvi_reserve_secondary(c->pool, c->n_inside) &&
           pkvi_block_list_reserve(&c->alloc, &c->told_zero, zero) &&
           pkvi_copy_list_reserve(&c->alloc, &c->copies, c->copies.n + groups) &&
           pkvi_block_list_reserve(&c->alloc, &c->pins, c->pins.n + 2 * groups);
}

/* ---- counting ---- */

pkvi_need pkvi_need_of(const pkv_seq *seq, uint32_t g, const pkvi_slots_wanted *r, uint64_t tokens,
                       bool admission)
{
    const pkv_cache *c = seq->cache;
    const uint64_t resumed = pkvi_max(seq->body->n_prompt, seq->n_tokens - 1);
    return (pkvi_need){.tokens = pkvi_slots_of(seq, g, tokens, r->encoder),
                       .main = pkvi_min(r->main, tokens),
                       .prefill_end = c->retention == 0 ? resumed : 0,
                       .total = r->total,
                       .local = r->local,
                       .hit = r->use_cached ? c->hit[g].at : NULL,
                       .n_hit = r->use_cached ? c->hit[g].n : 0,
                       .admission = admission};
}

uint64_t pkvi_count_needed(pkv_seq *seq, const pkvi_slots_wanted *r, uint64_t tokens,
                           bool admission, uint64_t left_for_others)
{
    const pkv_cache *c = seq->cache;
    int64_t rule = 0, taken = 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        pkvi_table *t = &seq->body->tables[g];
        const pkvi_need in = pkvi_need_of(seq, g, r, tokens, admission);
        if (m->rules->state && in.n_hit > 0 &&
            pkvi_keyed_in_this_step(c, g, in.hit[in.n_hit - 1])) {
            rule += (int64_t)c->info.n_blocks + 1; /* not in this step */
            taken += (int64_t)c->info.n_blocks + 1;
            continue;
        }
        int64_t n = pkvi_manager_need(m, c->pool, t, &in);
        n += !m->rules->state && t->tail != PKVI_NO_TAIL;
        if (m->rules->state && !admission) {
            pkvi_state_plan_checkpoint(m, c->pool, t, &in);
        }
        rule += n;
        taken += n > 0 ? n : 0;
        taken += m->rules->state && r->total > r->local; /* the rule leaves out where a load ends */
    }
    rule += (int64_t)left_for_others;
    const uint64_t asked = rule > 0 ? (uint64_t)rule : 0;
    const bool lacking = !admission && (uint64_t)taken > pkv_pool_free_count(c->pool);
    return lacking ? pkvi_max(asked, (uint64_t)taken) : asked;
}
