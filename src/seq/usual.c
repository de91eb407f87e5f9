/* usual.c  Usual steps: a running sequence needs a block, lets one go, or completes a unit.
 *
 * This is an allocate without all that the beginning of a sequence, a fork, a load or a recurrent
 * state add to it. It comes to the same: let go, take all that is lacking or nothing, key. */
#include "base/error.h"
#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/allocate.h"

/* Slots for which all groups must have blocks. */
static uint64_t slots_wanted(const pkv_step *step, uint64_t lookahead)
{
    const pkv_seq *seq = step->seq;
    return pkvi_min(seq->n_tokens + step->n_tokens + lookahead, seq->cache->info.max_model_len);
}

/* Whether the lists that are written have room. That for tokens was made when the step was
 * checked. */
static bool has_room(const pkv_seq *seq, uint64_t slots)
{
    const pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        const pkvi_table *t = &seq->body->tables[g];
        if (pkvi_has_slots(m) &&
            (t->capacity * m->span < slots + m->spare || t->n > c->scratch.capacity)) {
            return false;
        }
    }
    return pkvi_reserve_secondary(c->pool, c->n_inside);
}

bool pkvi_is_usual(const pkv_step *step, uint64_t lookahead)
{
    return step->seq->body->usual && step->computed == PKV_STEP_KEEP &&
           has_room(step->seq, slots_wanted(step, lookahead));
}

/* Blocks that a group lacks for so many slots. */
static uint64_t lacking(const pkvi_manager *m, const pkvi_table *t, uint64_t slots)
{
    return pkvi_has_slots(m) && t->n * m->span < slots + m->spare
               ? pkvi_ceil_div(slots + m->spare, m->span) - t->n
               : 0;
}

static uint64_t count_lacking(const pkv_seq *seq, uint64_t slots)
{
    const pkv_cache *c = seq->cache;
    uint64_t n = 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        n += lacking(&c->managers[g], &seq->body->tables[g], slots);
    }
    return n;
}

/* All groups, or none if there are too few blocks. */
static pkv_status grow(pkv_seq *seq, uint64_t slots, uint64_t needed, pkv_allocate_result *out)
{
    pkv_cache *c = seq->cache;
    if (needed > pkv_pool_free_count(c->pool)) {
        return pkvi_no_blocks(c, needed, out);
    }
    for (uint32_t g = 0; needed > 0 && g < c->info.n_groups; g++) {
        if (lacking(&c->managers[g], &seq->body->tables[g], slots) > 0) {
            pkvi_manager_grow(&c->managers[g], c->pool, &seq->body->tables[g],
                              slots + c->managers[g].spare);
        }
    }
    return PKV_OK;
}

/* Whether the step that begins here is the first that does not look at some block. */
static bool passes_block(const pkv_seq *seq, uint64_t before)
{
    const pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_manager *m = &c->managers[g];
        if (m->rules->until &&
            m->rules->skipped(m, seq->first) / m->span != m->rules->skipped(m, before) / m->span) {
            return true;
        }
    }
    return false;
}

/* Whether what the step completes may be keyed later, as in a quiet step, and what others have left
 * to be done may wait as well: this one takes no block, and releases none out of turn. */
static bool may_defer(const pkv_seq *seq, uint64_t before, uint64_t needed)
{
    const pkv_cache *c = seq->cache;
    return c->keys_late && needed == 0 && !seq->body->ready_keys && !pkvi_is_due(seq) &&
           !(c->lets_go_late && passes_block(seq, before));
}

static pkv_status append(const pkv_step *step, bool defer)
{
    if (step->n_tokens == 0) {
        return PKV_OK;
    }
    if (defer) {
        return pkvi_append_tokens("pkv_cache_advance", step->seq, step->tokens, step->n_tokens);
    }
    return pkvi_append("pkv_cache_advance", step->seq, step->tokens, step->n_tokens);
}

static void defer_keys(pkv_seq *seq, uint64_t before)
{
    const uint64_t unit = seq->cache->info.unit;
    if (before / unit != seq->computed / unit) {
        pkvi_note_due(seq, seq->first, true);
    }
}

pkv_status pkvi_advance_usually(const pkv_step *step, uint64_t lookahead, pkv_allocate_result *out)
{
    pkv_seq *seq = step->seq;
    const pkv_cache *c = seq->cache;
    const uint64_t before = seq->computed, slots = slots_wanted(step, lookahead);
    const uint64_t needed = count_lacking(seq, slots);
    const bool defer = may_defer(seq, before, needed);
    if (!defer) {
        pkvi_catch_up(c);
    }
    PKVI_RETURN_IF(append(step, defer));
    pkvi_begin_changes(seq);
    if (c->info.caching && !defer && !pkvi_place_content(seq, seq->n_tokens)) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_cache_advance: out of memory for content");
    }
    pkvi_remove_skipped(seq, before);
    PKVI_RETURN_IF(grow(seq, slots, needed, out));
    seq->computed = seq->n_tokens;
    pkvi_move_first(seq, before);
    if (defer) {
        defer_keys(seq, before);
    } else {
        PKVI_RETURN_IF(pkvi_key_blocks(seq, seq->n_tokens, before));
    }
    pkvi_note_quiet(seq);
    return PKV_OK;
}
