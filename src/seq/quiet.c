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

/* Behind a step that begins at `first`: up to how many tokens no step passes a block. The last one
 * may begin with as much computed as still looks at the block, and end behind it; the first that
 * passes it begins with as many tokens as are returned, or more. */
static uint64_t quiet_in_window(const pkv_seq *seq, const pkvi_manager *m, uint64_t first)
{
    const uint64_t passed = blocks_passed(m, first, seq->body->n_prompt);
    return m->rules->until(m, (passed + 1) * m->span) + 1;
}

/* The same for all that a recurrent group does in a step. */
static uint64_t quiet_in_state(const pkv_seq *seq, const pkvi_manager *m, const pkvi_table *t)
{
    const uint64_t scratch = m->spec.num_speculative_blocks;
    if (t->tail != PKVI_NO_TAIL || t->running.checkpoint != 0 || t->n <= scratch) {
        return 0;
    }
    return pkvi_min((t->n - scratch) * m->span, quiet_in_window(seq, m, seq->first));
}

void pkvi_end_quiet(pkv_seq *seq)
{
    seq->quiet_until = 0;
    seq->body->usual = false;
}

void pkvi_end_quiet_of_all(pkv_cache *cache)
{
    pkvi_lanes_stop_all(cache);
    for (pkv_seq *seq = cache->first; seq; seq = seq->body->next) {
        pkvi_end_quiet(seq);
    }
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

/* What ends, or puts off, the quiet steps of a sequence. */
typedef struct horizon {
    uint64_t end; /* they end here in any case */
    uint64_t due; /* the step that ends here has something to be done later; or UINT64_MAX */
    uint64_t key; /* with so many tokens a unit is whole; or 0: none that may be keyed later */
    uint64_t key_after; /* with more than these the next one is */
} horizon;

/* A unit that becomes whole. */
static void look_at_units(const pkv_seq *seq, bool late, horizon *h)
{
    const pkv_cache *c = seq->cache;
    const uint64_t unit = c->info.unit, whole = before_next_unit(seq->computed, unit, 0);
    if (c->keys_late && late) {
        h->key = whole + 1;
        h->key_after = whole + unit;
        h->due = h->key;
        return;
    }
    h->end = pkvi_min(h->end, pkvi_min(before_next_unit(seq->computed, unit, c->unfinished),
                                       before_next_unit(seq->computed, unit, c->hash_lookahead)));
    h->end = pkvi_min(h->end, whole);
}

/* Blocks that fall out of a window. */
static void look_at_group(const pkv_seq *seq, uint32_t g, bool late, horizon *h)
{
    const pkvi_manager *m = &seq->cache->managers[g];
    const pkvi_table *t = &seq->body->tables[g];
    if (m->rules->state) {
        h->end = pkvi_min(h->end, quiet_in_state(seq, m, t));
    } else if (!pkvi_has_slots(m) || !m->rules->until) {
        return;
    } else if (seq->cache->lets_go_late && late && t->n <= seq->cache->scratch.capacity) {
        h->due = pkvi_min(h->due, quiet_in_window(seq, m, seq->first) + 1);
    } else {
        h->end = pkvi_min(h->end, holds_gap(seq, m, t) ? 0 : quiet_in_window(seq, m, seq->first));
    }
}

/* Where the quiet steps behind the one that is due end: nothing else may be due. *exact: a block is
 * passed in it. Only the step that begins just behind the window passes it, and the end of a step
 * does not say where it began: so it must be a step of one token. Then quiet_until is due_at, and
 * pkvi_is_quiet() refuses longer ones that end there. */
static uint64_t quiet_after(const pkv_seq *seq, const horizon *h, bool *exact)
{
    const pkv_cache *c = seq->cache;
    uint64_t end = h->end;
    *exact = false;
    if (h->key != 0) {
        end = pkvi_min(end, h->key == h->due ? h->key_after : h->key - 1);
    }
    for (uint32_t g = 0; c->lets_go_late && g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        if (m->rules->until) {
            const uint64_t until = quiet_in_window(seq, m, seq->first);
            const bool passes = until + 1 == h->due;
            end = pkvi_min(end, passes ? quiet_in_window(seq, m, until) : until);
            *exact |= passes;
        }
    }
    return end;
}

void pkvi_note_quiet(pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    const uint64_t slots = slots_of(seq);
    const bool late = !seq->body->ready_keys && !pkvi_is_due(seq); /* one of a sequence */
    horizon h = {pkvi_min(c->info.max_model_len, PKV_SPEC_LIMIT), UINT64_MAX, 0, 0};
    if (seq->body->waiting || seq->body->forked || seq->body->in_flight > 0 ||
        seq->computed > seq->n_tokens) {
        return;
    }
    h.end = pkvi_min(h.end, slots);
    if (seq->tokens) {
        h.end = pkvi_min(h.end, seq->body->token_capacity);
    }
    if (c->info.caching) {
        look_at_units(seq, late, &h);
    }
    for (uint32_t g = 0; g < c->info.n_groups && h.end > seq->computed; g++) {
        look_at_group(seq, g, late, &h);
    }
    bool exact = false;
    uint64_t until = h.end, after = h.end;
    if (h.due <= h.end) {
        after = quiet_after(seq, &h, &exact);
        until = exact ? h.due : after;
        seq->due_at = (uint32_t)h.due;
    } else if (!pkvi_is_due(seq)) {
        seq->due_at = PKVI_NEVER_DUE;
    }
    seq->quiet_until = (uint32_t)until;
    seq->quiet_after = (uint32_t)after;
    seq->quiet_slots = (uint32_t)slots;
    seq->body->shown = seq->computed;
    seq->body->usual = !c->recurrent && !c->zeroes;
}
