/* quiet.c  Steps in which nothing happens but that numbers grow.
 *
 * Most steps of a running sequence stay inside a block that is there, complete no unit, and let
 * nothing fall out of a window. How far this goes is worked out once, after a step that did more:
 * up to quiet_until tokens, if the slots with the drafter's fit into quiet_slots. What can be left
 * for later on the way is done in late.c. */
#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/allocate.h"

/* The last number of tokens, n or more, at which no more units are whole than at n, the last `open`
 * tokens not counted. */
static uint64_t before_next_unit(uint64_t n, uint64_t unit, uint64_t open)
{
    const uint64_t whole = n > open ? (n - open) / unit : 0;
    return (whole + 1) * unit + open - 1;
}

/* The end of the blocks that a sequence of so many computed tokens does not look at again. */
static uint64_t blocks_passed(const pkvi_manager *m, uint64_t computed, uint64_t n_prompt)
{
    uint64_t from, to;
    if (m->rules->passed) {
        m->rules->passed(m, computed, n_prompt, &from, &to);
        return to;
    }
    return m->rules->skipped(m, computed) / m->span;
}

/* Whether a hit has brought blocks of a gap, which only the next step lets go. */
static bool holds_gap(const pkv_seq *seq, const pkvi_manager *m, const pkvi_table *t)
{
    uint64_t from, to;
    if (!m->rules->passed) {
        return false;
    }
    m->rules->passed(m, seq->first, seq->body->n_prompt, &from, &to);
    to = pkvi_min(to, t->n);
    return to > from && t->ids[to - 1] != PKV_BLOCK_NULL;
}

/* The largest number of tokens, at most `limit`, up to which no step passes a block. */
static uint64_t quiet_in_window(const pkv_seq *seq, const pkvi_manager *m, const pkvi_table *t,
                                uint64_t limit)
{
    if (!m->rules->until) {
        return limit;
    }
    const uint64_t passed = blocks_passed(m, seq->first, seq->body->n_prompt);
    const uint64_t until = m->rules->until(m, (passed + 1) * m->span);
    /* The last one may begin at `until`, with as much computed, and end behind it. */
    return holds_gap(seq, m, t) ? 0 : pkvi_min(limit, until + 1);
}

/* As quiet_in_window(), for all that a recurrent group does in a step. */
static uint64_t quiet_in_state(const pkv_seq *seq, const pkvi_manager *m, const pkvi_table *t,
                               uint64_t limit)
{
    const uint64_t scratch = m->spec.num_speculative_blocks;
    if (t->tail != PKVI_NO_TAIL || t->running.checkpoint != 0 || t->n <= scratch) {
        return 0;
    }
    return quiet_in_window(seq, m, t, pkvi_min(limit, (t->n - scratch) * m->span));
}

void pkvi_end_quiet(pkv_seq *seq)
{
    seq->quiet_until = 0;
    seq->body->usual = false;
}

/* The largest number of tokens up to which nothing has to be keyed, or may be keyed later. */
static uint64_t quiet_in_units(pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    const uint64_t unit = c->info.unit, whole = before_next_unit(seq->computed, unit, 0);
    seq->due_at = PKVI_NEVER_DUE;
    if (c->defers && !seq->body->ready_keys && !seq->body->is_due) { /* not due twice */
        seq->due_at = (uint32_t)pkvi_min(whole + 1, PKVI_NEVER_DUE);
        return whole + unit;
    }
    return pkvi_min(whole, pkvi_min(before_next_unit(seq->computed, unit, c->unfinished),
                                    before_next_unit(seq->computed, unit, c->hash_lookahead)));
}

/* Tokens for which all groups have slots, those of drafts that count like tokens not counted. */
static uint64_t slots_of(const pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    uint64_t slots = PKV_SPEC_LIMIT;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        if (pkvi_has_slots(m)) {
            const uint64_t room = seq->body->tables[g].n * m->span;
            slots = pkvi_min(slots, room > m->spare ? room - m->spare : 0);
        }
    }
    return slots;
}

void pkvi_note_quiet(pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    uint64_t limit = pkvi_min(c->info.max_model_len, PKV_SPEC_LIMIT);
    if (seq->body->waiting || seq->body->forked || seq->body->in_flight > 0 ||
        seq->computed > seq->n_tokens) {
        return;
    }
    seq->due_at = PKVI_NEVER_DUE;
    if (c->info.caching) {
        limit = pkvi_min(limit, quiet_in_units(seq));
    }
    if (seq->tokens) {
        limit = pkvi_min(limit, seq->body->token_capacity);
    }
    const uint64_t slots = slots_of(seq);
    limit = pkvi_min(limit, slots);
    for (uint32_t g = 0; g < c->info.n_groups && limit > seq->computed; g++) {
        const pkvi_manager *m = &c->managers[g];
        const pkvi_table *t = &seq->body->tables[g];
        if (m->rules->state) {
            limit = quiet_in_state(seq, m, t, limit);
        } else if (pkvi_has_slots(m)) {
            limit = quiet_in_window(seq, m, t, limit);
        }
    }
    seq->quiet_until = (uint32_t)limit;
    seq->quiet_slots = (uint32_t)slots;
    seq->body->shown = seq->computed;
    seq->body->usual = !c->recurrent && !c->zeroes;
}
