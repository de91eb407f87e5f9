/* manager.c  What all kinds have in common: need, adopt, grow, let go. */
#include "manager/manager.h"

#include <string.h>

#include "base/math.h"
#include "pool/pool_internal.h"

const pkvi_rules *pkvi_rules_of(const pkv_spec *spec)
{
    switch (spec->kind) {
    case PKV_KIND_FULL:
    case PKV_KIND_SINK_FULL:
    case PKV_KIND_MLA:
    case PKV_KIND_HIDDEN_STATE: return &pkvi_full_rules;
    case PKV_KIND_RSWA: return &pkvi_rswa_rules;
    case PKV_KIND_SLIDING_WINDOW:
    case PKV_KIND_SLIDING_WINDOW_MLA: return &pkvi_sliding_rules;
    case PKV_KIND_CHUNKED_LOCAL: return &pkvi_chunked_rules;
    case PKV_KIND_CIRCULAR_BUFFER:
    case PKV_KIND_KPOOL_TAIL: return &pkvi_ring_rules;
    case PKV_KIND_CROSS:
    case PKV_KIND_ENCODER_ONLY: return &pkvi_cross_rules;
    case PKV_KIND_MAMBA:
        return spec->mamba_mode == PKV_MAMBA_ALIGN ? &pkvi_state_rules : &pkvi_running_rules;
    default: return NULL;
    }
}

bool pkvi_mask_nothing(const pkvi_manager *m, const pkvi_mask_in *in, uint8_t *mask)
{
    (void)m;
    (void)in;
    (void)mask;
    return false;
}

uint64_t pkvi_count_idle(const pkv_pool *pool, const pkv_block *ids, uint64_t n)
{
    uint64_t idle = 0;
    for (uint64_t i = 0; i < n; i++) {
        pkvi_fetch_ahead(pool, ids, i, n);
        idle += ids[i] != PKV_BLOCK_NULL && pool->blocks[ids[i]].refs == 0;
    }
    return idle;
}

int64_t pkvi_manager_need(const pkvi_manager *m, const pkv_pool *pool, const pkvi_table *t,
                          const pkvi_need *in)
{
    if (m->rules->one_block) {
        return t->n == 0;
    }
    if (m->rules->state) {
        return pkvi_state_need(m, pool, t, in);
    }
    uint64_t required = pkvi_ceil_div(in->tokens, m->span);
    if (in->admission && m->cap != 0) {
        required = pkvi_min(required, m->cap);
    }
    if (t->tracked) {
        return required > t->n ? (int64_t)(required - t->n) : 0;
    }
    const uint64_t skipped = m->rules->skipped(m, in->total) / m->span;
    const uint64_t have = pkvi_max(skipped, in->n_hit + t->n);
    const uint64_t fresh = required > have ? required - have : 0;
    const uint64_t passed = pkvi_min(skipped > t->n ? skipped - t->n : 0, in->n_hit);
    const bool shared_tail = in->n_hit > 0 && in->local % m->span != 0;
    const pkv_block *kept = in->n_hit > passed ? in->hit + passed : NULL;
    return (int64_t)(fresh + pkvi_count_idle(pool, kept, in->n_hit - passed) + shared_tail);
}

void pkvi_manager_adopt(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t, const pkvi_need *in)
{
    if (m->rules->one_block || m->rules->encoder) {
        return;
    }
    const uint64_t skipped = m->rules->skipped(m, in->total) / m->span;
    const uint64_t passed = pkvi_min(skipped, in->n_hit);
    const uint64_t kept = in->n_hit - passed;
    memset(t->ids, 0, (size_t)skipped * sizeof *t->ids);
    if (kept > 0) {
        memcpy(t->ids + skipped, in->hit + passed, (size_t)kept * sizeof *t->ids);
        pkvi_pool_share(pool, t->ids + skipped, kept);
    }
    t->n = (size_t)(skipped + kept);
    t->n_keyed = t->n;
    t->tracked = true;
    t->dirty_from = 0;
    if (kept > 0 && in->local % m->span != 0) { /* the last block is not full: others hold it too */
        t->tail = (size_t)(in->local / m->span);
        t->n_keyed = t->tail;
    }
}

static void take_to(pkv_pool *pool, pkvi_table *t, uint64_t n)
{
    if (n > t->n) {
        pkvi_pool_take(pool, n - t->n, t->ids + t->n);
        t->dirty_from = pkvi_min(t->dirty_from, t->n);
        t->n = (size_t)n;
    }
}

uint64_t pkvi_manager_add_external(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t,
                                   const pkvi_need *in)
{
    const size_t before = t->n;
    if (m->rules->encoder) {
        return 0;
    }
    if (m->rules->one_block) {
        take_to(pool, t, 1);
        return t->n - before;
    }
    const uint64_t skipped = m->rules->skipped(m, in->total);
    if (in->total > skipped && in->total > in->local) {
        take_to(pool, t, pkvi_ceil_div(in->total, m->span));
    }
    return t->n - before;
}

void pkvi_table_copy_tail(pkv_pool *pool, pkvi_table *t)
{
    t->copy_src = t->ids[t->tail];
    pkvi_pool_take(pool, 1, &t->ids[t->tail]);
    pkvi_pool_share(pool, &t->ids[t->tail], 1); /* the copy itself holds both ends */
    t->copy_dst = t->copied = t->ids[t->tail];
    t->dirty_from = pkvi_min(t->dirty_from, t->tail);
    t->tail = PKVI_NO_TAIL;
}

void pkvi_manager_grow(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t, uint64_t tokens)
{
    if (m->rules->state) {
        pkvi_state_grow(m, pool, t, tokens);
        return;
    }
    if (t->tail != PKVI_NO_TAIL) {
        pkvi_table_copy_tail(pool, t);
    }
    t->new_from = t->n;
    take_to(pool, t, m->rules->one_block ? 1 : pkvi_ceil_div(tokens, m->span));
}

void pkvi_manager_remove_skipped(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t,
                                 uint64_t processed, uint64_t n_prompt, pkv_block *scratch)
{
    if (m->rules->state) {
        pkvi_state_remove_skipped(m, pool, t, processed, scratch);
        return;
    }
    if (!m->rules->until) {
        return;
    }
    uint64_t from = 0, end = m->rules->skipped(m, processed) / m->span, n = 0;
    if (m->rules->passed) {
        m->rules->passed(m, processed, n_prompt, &from, &end);
    }
    end = pkvi_min(end, t->n);
    while (end > from && t->ids[end - 1] != PKV_BLOCK_NULL) {
        end--;
        scratch[n++] = t->ids[end];
        t->ids[end] = PKV_BLOCK_NULL;
    }
    if (n > 0) {
        t->dirty_from = pkvi_min(t->dirty_from, end);
        pkvi_pool_release(pool, scratch, n);
    }
}
