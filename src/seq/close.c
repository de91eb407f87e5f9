/* close.c  The end of a sequence: its blocks go back now, or when the running step has ended. */
#include <string.h>

#include "base/error.h"
#include "base/fetch.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

static void forget_table(pkvi_table *t)
{
    t->n = t->new_from = 0;
    t->n_keyed = 0;
    t->tracked = false;
    t->copied = t->copy_src = t->copy_dst = 0;
    t->dirty_from = 0;
    t->tail = PKVI_NO_TAIL;
    t->running = (pkvi_running){0};
}

/* It has no memory to be keyed, and will have no blocks. */
static void forget_due(pkv_seq *seq)
{
    pkvi_late_list *due = &seq->cache->due;
    size_t kept = 0;
    if (!pkvi_is_due(seq)) {
        return;
    }
    for (size_t i = 0; i < due->n; i++) {
        due->at[kept] = due->at[i];
        kept += due->at[i].seq != seq;
    }
    due->n = kept;
    seq->due_at = PKVI_NEVER_DUE;
}

void pkvi_release_tables(pkv_seq *seq)
{
    pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        pkvi_table *t = &seq->body->tables[g];
        /* The tail of a prefix is evicted before its head. Null blocks are passed over. */
        pkvi_pool_release_last_first(c->pool, t->ids, t->n);
        forget_table(t);
    }
    pkvi_drop_offers(seq);
    forget_due(seq);
    seq->body->live = seq->body->forked = false;
    pkvi_end_quiet(seq);
}

/* What a run reads of its content stays there, and is the run's. */
static void leave_runs(pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    pkvi_seq_body *body = seq->body;
    if (!c->by_runs) {
        return;
    }
    const size_t keys = body->keys.capacity * PKVI_KEY_WORDS;
    if (!pkvi_runs_leave(c->pool->runs, &body->cursor, pkvi_content_of(seq).tokens,
                         c->by_tokens ? body->token_capacity : keys)) {
        return;
    }
    if (c->by_tokens) {
        seq->tokens = NULL;
        body->token_capacity = 0;
    } else {
        body->keys = (pkvi_key_list){NULL, 0, 0};
    }
}

void pkvi_seq_free(pkv_seq *seq)
{
    pkv_cache *c = seq->cache;
    if (c->last.seq == seq) {
        c->last.seq = NULL;
    }
    c->n_open--;
    pkvi_lane_leave(seq);
    forget_due(seq);
    if (seq->body->prev) {
        seq->body->prev->body->next = seq->body->next;
    } else {
        c->first = seq->body->next;
    }
    if (seq->body->next) {
        seq->body->next->body->prev = seq->body->prev;
    }
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        pkvi_table *t = &seq->body->tables[g];
        pkvi_array_free(&c->alloc, t->ids, t->capacity, sizeof *t->ids);
        pkvi_array_free(&c->alloc, t->fresh, t->fresh_capacity, sizeof *t->fresh);
    }
    leave_runs(seq);
    pkvi_array_free(&c->alloc, seq->tokens, seq->body->token_capacity, sizeof *seq->tokens);
    pkvi_tag_list_free(&c->alloc, &seq->body->tags);
    pkvi_key_list_free(&c->alloc, &seq->body->keys);
    pkvi_arena_free(&seq->body->arena);
    pkvi_seat_leave(seq);
}

/* The tables of all groups one after the other, all in reverse. */
static pkv_status defer_tables(pkv_seq *seq)
{
    pkv_cache *c = seq->cache;
    size_t total = c->deferred.n + 1; /* never nothing: the list then has an address */
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        total += seq->body->tables[g].n;
    }
    if (!pkvi_block_list_reserve(&c->alloc, &c->deferred, total) ||
        !pkvi_size_list_reserve(&c->alloc, &c->deferred_ends, c->deferred_ends.n + 1)) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_seq_close: out of memory");
    }
    for (uint32_t g = c->info.n_groups; g > 0; g--) {
        const pkvi_table *t = &seq->body->tables[g - 1];
        for (size_t n = t->n; n > 0; n--) {
            c->deferred.at[c->deferred.n++] = t->ids[n - 1];
        }
    }
    c->deferred_ends.at[c->deferred_ends.n++] = c->deferred.n;
    pkvi_drop_offers(seq);
    return PKV_OK;
}

void pkvi_release_deferred(pkv_cache *c)
{
    size_t begin = 0;
    for (size_t i = 0; i < c->deferred_ends.n; i++) {
        pkvi_pool_release(c->pool, c->deferred.at + begin, c->deferred_ends.at[i] - begin);
        begin = c->deferred_ends.at[i];
    }
    c->deferred.n = c->deferred_ends.n = 0;
}

/* What giving back begins and ends with goes from struct to struct: it arrives meanwhile. */
static void fetch_for_close(const pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    const pkvi_seq_body *body = seq->body;
    pkvi_fetch(body, sizeof *body);
    pkvi_fetch(body->tables, sizeof *body->tables);
    pkvi_fetch(c, sizeof *c);
    pkvi_fetch(c->pool, sizeof *c->pool);
    if (c->by_runs) {
        pkvi_runs_fetch_cursor(c->pool->runs, &body->cursor);
    }
}

pkv_status pkv_seq_close(pkv_seq *seq, bool defer)
{
    if (!seq) {
        return PKV_OK;
    }
    fetch_for_close(seq);
    pkvi_touch(seq);
    if (defer && seq->body->live) {
        PKVI_RETURN_IF(defer_tables(seq));
    } else {
        pkvi_release_tables(seq);
    }
    pkvi_seq_free(seq);
    return PKV_OK;
}
