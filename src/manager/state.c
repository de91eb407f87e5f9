/* state.c  Recurrent layers that keep aligned states: of all that was computed one block is enough.
 *
 * The table has one entry per block of tokens, and nearly all are null: the state after the last
 * token runs in the last entry, drafts may spoil the k scratch entries behind it, and what a step
 * leaves behind is either a checkpoint that a later request can resume from, or let go:
 *
 *     step of 4 blocks, k = 2       [ S  d  d ]
 *     the next step of 4            [ S  -  -  -  R  d  d ]     S: read by this step, freed later
 *                                                               R: running; d: scratch, moved along
 *
 * The block that a step reads is let go two steps later, when nobody reads it any more. */
#include "base/math.h"
#include "manager/manager.h"
#include "pool/pool_internal.h"

static uint64_t skipped(const pkvi_manager *m, uint64_t computed)
{
    (void)m;
    return computed > 0 ? computed - 1 : 0;
}

static uint64_t until(const pkvi_manager *m, uint64_t end)
{
    (void)m;
    return end;
}

static uint64_t match(const pkvi_manager *m, const pkvi_match *in, uint64_t max_tokens,
                      uint64_t *n_blocks)
{
    (void)m;
    return pkvi_match_state(in, max_tokens, n_blocks);
}

/* The last state of each segment, and those at places where a later request can resume. */
static bool mask(const pkvi_manager *m, const pkvi_mask_in *in, uint8_t *out)
{
    if (in->retention == PKV_RETAIN_DENSE) {
        return false;
    }
    const uint64_t per_segment = in->retention / m->span;
    if (in->retention != 0 && per_segment <= 1) {
        return false;
    }
    for (uint64_t i = in->from; i < in->to; i++) {
        out[i - in->from] = in->retention != 0 && (i + 1) % per_segment == 0;
    }
    for (uint32_t b = 0; b < in->n_boundaries; b++) {
        const uint64_t end = in->boundaries[b] / in->alignment * in->alignment / m->span;
        if (end > in->from && end <= in->to) {
            out[end - 1 - in->from] = 1;
        }
    }
    return true;
}

/* ---- checkpoints ---- */

/* Whether a step of [start, end) leaves a state at `position` in a block of its own: one before the
 * last, if no state lies there yet that would be lost. */
static bool has_checkpoint(const pkvi_manager *m, const pkv_pool *pool, const pkvi_table *t,
                           const pkvi_need *in, uint64_t position)
{
    const uint64_t blocks = pkvi_ceil_div(in->main, m->span);
    if (m->spec.num_prefill_checkpoint_blocks == 0 || in->main < in->prefill_end || blocks < 2 ||
        !pkv_mamba_checkpoint_valid(&m->spec, in->total, in->main, position, pool->unit)) {
        return false;
    }
    const uint64_t at = blocks - 2;
    return at >= t->n || t->ids[at] == PKV_BLOCK_NULL ||
           (t->running.started && at + m->spec.num_speculative_blocks >= t->n);
}

uint64_t pkvi_state_checkpoint(const pkvi_manager *m, const pkv_pool *pool, uint64_t tokens,
                               uint64_t unit)
{
    return pkv_mamba_checkpoint_position(tokens, unit, m->drop_checkpoint, pool->lookahead);
}

void pkvi_state_plan_checkpoint(const pkvi_manager *m, const pkv_pool *pool, pkvi_table *t,
                                const pkvi_need *in)
{
    const uint64_t position = pkvi_state_checkpoint(m, pool, in->main, m->hit_alignment);
    const bool kept = has_checkpoint(m, pool, t, in, position);
    t->running.checkpoint = kept ? position : 0;
    t->running.checkpoint_at = kept ? pkvi_ceil_div(in->main, m->span) - 2 : 0;
}

/* ---- blocks ---- */

/* Over-estimates where drafts are rejected later; may be negative, where a table is longer than it
 * must be, and then lends to the other groups: as upstream counts. */
int64_t pkvi_state_need(const pkvi_manager *m, const pkv_pool *pool, const pkvi_table *t,
                        const pkvi_need *in)
{
    const int64_t k = m->spec.num_speculative_blocks;
    const bool partial = (in->n_hit > 0 && in->local % m->span != 0) || t->tail != PKVI_NO_TAIL;
    const uint64_t position = pkvi_state_checkpoint(m, pool, in->main, m->hit_alignment);
    int64_t fresh = (int64_t)pkvi_ceil_div(in->main, m->span) + k - (int64_t)(in->n_hit + t->n);
    if (partial) {
        fresh = (fresh > 0 ? fresh : 0) + 1;
    }
    if (fresh > 0) {
        int64_t most = 1 + partial + has_checkpoint(m, pool, t, in, position);
        most += t->running.started ? 0 : k;
        fresh = fresh < most ? fresh : most;
    }
    return fresh + (int64_t)pkvi_count_idle(pool, in->hit, in->n_hit);
}

/* Scratch that a step leaves behind goes to the new end: nobody else has seen it. In a step with a
 * checkpoint the one at its place stays, since the state is written there. */
static void move_scratch(const pkvi_manager *m, pkvi_table *t, uint64_t before, uint64_t end)
{
    const uint64_t k = m->spec.num_speculative_blocks;
    for (uint64_t i = before > k ? before - k : 0; i < before && i < end; i++) {
        t->dirty_from = pkvi_min(t->dirty_from, i);
        t->ids[t->n++] = t->ids[i];
        t->ids[i] = PKV_BLOCK_NULL;
    }
}

/* The shared state at the tail: a newcomer goes on in a private copy of it; a sequence that already
 * runs stays where it is, since the worker knows its block, and the key moves to the copy. */
static void copy_state(pkv_pool *pool, pkvi_table *t)
{
    if (!t->running.started) {
        pkvi_table_copy_tail(pool, t);
        return;
    }
    t->copy_src = t->ids[t->tail];
    pkvi_pool_take(pool, 1, &t->copy_dst);
    pkvi_pool_move_keys(pool, t->copy_src, t->copy_dst);
    pkvi_pool_share(pool, &t->copy_src, 1);
    t->key_moved = true;
    t->tail = PKVI_NO_TAIL;
}

void pkvi_state_grow(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t, uint64_t tokens)
{
    const uint64_t k = m->spec.num_speculative_blocks, before = t->n;
    const uint64_t required = pkvi_ceil_div(tokens, m->span) + k,
                   checkpoint = t->running.checkpoint != 0;
    const bool partial = t->tail != PKVI_NO_TAIL;
    t->new_from = before;
    if (required <= before && !partial && !checkpoint) {
        t->running.started = true;
        return;
    }
    const uint64_t gap_end = required - k - 1 > checkpoint ? required - k - 1 - checkpoint : 0;
    t->dirty_from = pkvi_min(t->dirty_from, before);
    while (t->n < gap_end) {
        t->ids[t->n++] = PKV_BLOCK_NULL;
    }
    if (t->running.started) {
        move_scratch(m, t, before, gap_end);
    }
    if (partial) {
        copy_state(pool, t);
    }
    if (required > t->n) {
        pkvi_pool_take(pool, required - t->n, t->ids + t->n);
        t->n = (size_t)required;
    }
    t->running.started = true;
}

void pkvi_state_remove_skipped(const pkvi_manager *m, pkv_pool *pool, pkvi_table *t,
                               uint64_t processed, pkv_block *scratch)
{
    const uint64_t end = pkvi_min(skipped(m, processed) / m->span, t->n);
    uint64_t n = 0;
    for (uint64_t i = end; i > t->running.retired; i--) {
        if (t->ids[i - 1] != PKV_BLOCK_NULL) { /* gaps lie between states */
            scratch[n++] = t->ids[i - 1];
            t->ids[i - 1] = PKV_BLOCK_NULL;
            t->dirty_from = pkvi_min(t->dirty_from, i - 1);
        }
    }
    if (t->tail != PKVI_NO_TAIL && t->tail < end) { /* keyed, but never copied: nobody kept it */
        t->tail = PKVI_NO_TAIL;
        t->running.produced = 0;
    }
    pkvi_pool_release(pool, scratch, n);
    t->running.retired = pkvi_max(t->running.retired, end);
}

const pkvi_rules pkvi_state_rules = {.skipped = skipped,
                                     .until = until,
                                     .match = match,
                                     .mask = mask,
                                     .recurrent = true,
                                     .state = true};

/* ---- states that are not kept: one runs, with scratch for drafts; no prefix is ever found ---- */

const pkvi_rules pkvi_running_rules = {.skipped = skipped, .until = until, .recurrent = true};
