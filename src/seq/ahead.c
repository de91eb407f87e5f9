/* ahead.c  Memory that steps are going to look at is asked for in time.
 *
 * A usual step goes from the sequence to its body, from there to the ends of its lists, and from
 * there to blocks: with all of it out of the caches, as after a step of a model, it waits some ten
 * times, each time 80 ns and more. A batch asks for one after the other, for many sequences at
 * once. */
#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/allocate.h"

/* The last block that the next step lets go, if it does; SIZE_MAX: it keeps all. */
static size_t passed_entry(const pkv_seq *seq, const pkvi_manager *m, const pkvi_table *t)
{
    const uint64_t end = m->rules->until ? m->rules->skipped(m, seq->computed) / m->span : 0;
    return end > 0 && end <= t->n ? (size_t)end - 1 : SIZE_MAX;
}

void pkvi_fetch_named(const pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    const pkvi_seq_body *body = seq->body;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_table *t = &body->tables[g];
        const size_t passed = passed_entry(seq, &c->managers[g], t);
        pkvi_fetch_far(t->ids + t->n);
        if (passed != SIZE_MAX) {
            pkvi_fetch_far(t->ids + passed);
        }
    }
    if (c->info.caching && seq->tokens) { /* of a unit that becomes whole */
        pkvi_fetch_far(seq->tokens + seq->n_tokens - pkvi_min(c->info.unit, seq->n_tokens));
    }
    if (c->by_runs) {
        pkvi_runs_fetch_cursor(c->pool->runs, &body->cursor);
    }
    if (body->keys.n > 0) {
        pkvi_fetch_far(body->keys.at + body->keys.n - 1);
        pkvi_fetch_far(body->keys.at + body->keys.n);
    }
}

void pkvi_fetch_blocks(const pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_table *t = &seq->body->tables[g];
        const size_t passed = passed_entry(seq, &c->managers[g], t);
        if (c->by_runs) {
            pkvi_runs_fetch_behind(c->pool->runs, &seq->body->cursor, g);
        }
        if (passed != SIZE_MAX) {
            pkvi_fetch_far(&c->pool->blocks[t->ids[passed]]);
        }
        if (c->info.caching && t->n_keyed < t->n) {
            pkvi_fetch_far(&c->pool->blocks[t->ids[t->n_keyed]]);
        }
    }
}
