/* late.c  What quiet steps have left to be done, and when it is done.
 *
 * One unit may become whole while a sequence is quiet: the sequence is then put on a list, and keyed
 * before anybody looks. Mostly that is its own next step, which needs a block and is not quiet
 * anyway. */
#include <string.h>

#include "pool/pool_internal.h"
#include "seq/allocate.h"

void pkvi_note_due(pkv_seq *seq)
{
    seq->due_at = PKVI_NEVER_DUE;
    seq->body->is_due = true;
    seq->body->due_tokens = seq->computed;
    seq->cache->due.at[seq->cache->due.n++] = seq; /* open made room for each once */
}

/* False: no memory, and nothing was keyed. What names the unit needs none: there is room for it. */
static bool key_due(pkv_seq *seq)
{
    return pkvi_extend_content("pkv_cache_advance", seq) == PKV_OK &&
           pkvi_place_content(seq, seq->body->due_tokens) &&
           pkvi_reserve_secondary(seq->cache->pool, seq->cache->n_inside) &&
           pkvi_key_blocks(seq, seq->body->due_tokens, seq->body->due_tokens) == PKV_OK;
}

void pkvi_catch_up(const pkv_cache *cache)
{
    pkv_cache *c = (pkv_cache *)(uintptr_t)cache; /* no cache is made const */
    size_t done = 0;
    while (done < c->due.n && key_due(c->due.at[done])) {
        c->due.at[done++]->body->is_due = false;
    }
    if (done > 0) {
        memmove(c->due.at, c->due.at + done, (c->due.n - done) * sizeof(pkv_seq *));
        c->due.n -= done;
    }
    for (size_t i = 0; i < c->due.n; i++) { /* they may be asked for their keys all the same */
        (void)pkvi_extend_content("pkv_cache_advance", c->due.at[i]);
    }
}
