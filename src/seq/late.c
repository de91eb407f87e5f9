/* late.c  What quiet steps have left to be done, and when it is done.
 *
 * One step of a quiet sequence may complete a unit, or be the first that does not look at some
 * block, or both. It is then put on a list; the unit is keyed and the block released before anybody
 * looks, in the order of the steps. Mostly that is when the sequence itself needs a block and is
 * not quiet anyway. */
#include <string.h>

#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/allocate.h"

/* That needs no memory. */
static void release_passed(pkvi_late *late)
{
    pkv_seq *seq = late->seq;
    if (late->released) {
        return;
    }
    late->released = true;
    pkvi_begin_rows(seq, late->step);
    pkvi_remove_skipped(seq, late->first);
    pkvi_mark_moved(seq, late->before, late->first); /* also what was gone before a rollback */
}

/* False: no memory, and nothing was keyed. What names the unit needs none: there is room for it. */
static bool key(const pkvi_late *late)
{
    pkv_seq *seq = late->seq;
    return !seq->cache->info.caching ||
           (pkvi_extend_content("pkv_cache_advance", seq) == PKV_OK &&
            pkvi_place_content(seq, late->tokens) &&
            pkvi_reserve_secondary(seq->cache->pool, seq->cache->n_inside) &&
            pkvi_key_blocks(seq, late->tokens, late->tokens) == PKV_OK);
}

void pkvi_roll_back_due(pkv_seq *seq, uint64_t tokens)
{
    pkvi_late_list *due = &seq->cache->due;
    for (size_t i = 0; pkvi_is_due(seq) && i < due->n; i++) {
        if (due->at[i].seq == seq) {
            due->at[i].tokens = (uint32_t)pkvi_min(due->at[i].tokens, tokens);
        }
    }
}

void pkvi_catch_up(const pkv_cache *cache)
{
    pkv_cache *c = (pkv_cache *)(uintptr_t)cache; /* no cache is made const */
    pkvi_late_list *due = &c->due;
    size_t done = 0;
    pkvi_lanes_note_due(c);
    for (; done < due->n; done++) {
        release_passed(&due->at[done]);
        if (!key(&due->at[done])) {
            break;
        }
        due->at[done].seq->due_at = PKVI_NEVER_DUE;
    }
    if (done > 0) {
        memmove(due->at, due->at + done, (due->n - done) * sizeof *due->at);
        due->n -= done;
    }
    for (size_t i = 0; i < due->n; i++) { /* they may be asked for their keys all the same */
        release_passed(&due->at[i]);
        (void)pkvi_extend_content("pkv_cache_advance", due->at[i].seq);
    }
}
