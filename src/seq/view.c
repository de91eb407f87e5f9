/* view.c  What kernels and people read of a sequence: tables, rows, slots, figures. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "seq/cache_internal.h"

void pkv_seq_get_info(const pkv_seq *seq, pkv_seq_info *out)
{
    pkvi_look_at(seq);
    *out = (pkv_seq_info){.n_tokens = seq->n_tokens,
                          .n_prompt_tokens = seq->body->n_prompt,
                          .computed = seq->computed,
                          .keyed = pkvi_keyed_tokens(seq),
                          .n_preemptions = seq->body->n_preemptions,
                          .allocated = seq->body->live,
                          .waiting = seq->body->waiting};
}

const pkv_block *pkv_seq_table(const pkv_seq *seq, uint32_t group, uint64_t *n_out)
{
    if (group >= seq->cache->info.n_groups) {
        *n_out = 0;
        return NULL;
    }
    pkvi_catch_up(seq->cache);
    *n_out = seq->body->tables[group].n;
    return seq->body->tables[group].ids;
}

uint64_t pkv_seq_blocks_of(const pkv_seq *seq, uint32_t group, uint64_t tokens)
{
    if (group >= seq->cache->info.n_groups) {
        return 0;
    }
    const pkvi_rules *rules = seq->cache->managers[group].rules;
    if (rules->encoder || rules->recurrent) {
        return seq->body->tables[group].n;
    }
    return pkvi_min(pkvi_ceil_div(tokens, seq->cache->managers[group].spec.block_size),
                    seq->body->tables[group].n);
}

uint64_t pkv_seq_cached_tokens(const pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    pkvi_catch_up(seq->cache);
    uint64_t least = UINT64_MAX;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        uint64_t furthest = 0;
        for (size_t i = 0; i < seq->body->tables[g].n; i++) {
            furthest =
                pkvi_max(furthest, pkv_pool_block_tokens(c->pool, seq->body->tables[g].ids[i]));
        }
        if (c->managers[g].cacheable) {
            least = pkvi_min(least, furthest);
        }
    }
    return least == UINT64_MAX ? 0 : least;
}

/* Entries wholly below the window of the step's first position. Freed blocks may hold anything,
 * and masked kernels still load it. */
static uint64_t entries_below(const pkv_seq *seq, uint32_t group)
{
    const pkv_cache *c = seq->cache;
    const pkvi_manager *m = &c->managers[group];
    return c->dcp > 1 || m->rules->recurrent ? 0 : m->rules->skipped(m, seq->first) / m->span;
}

pkv_status pkv_seq_row(const pkv_seq *seq, uint32_t group, int32_t *row, uint64_t width,
                       uint64_t *from, uint64_t *to)
{
    if (!seq || !row || group >= seq->cache->info.n_groups) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_row: seq or row is NULL, or group %" PRIu32 " is none", group);
    }
    pkvi_look_at(seq);
    const pkvi_table *t = &seq->body->tables[group];
    if (t->n > width) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_row: width %" PRIu64 " is less than the table's %zu",
                         width, t->n);
    }
    const uint64_t below = pkvi_min(entries_below(seq, group), t->n);
    memset(row, 0, (size_t)width * sizeof *row);
    if (t->n > below) {
        memcpy(row + below, t->ids + below, (size_t)(t->n - below) * sizeof *row);
    }
    if (from) {
        const bool changed = seq->body->last_step == seq->cache->steps;
        *from = seq->body->last_step == PKVI_NEVER_SHOWN ? 0
                : changed                                ? pkvi_min(t->dirty_from, t->n)
                                                         : t->n;
    }
    if (to) {
        *to = t->n;
    }
    return PKV_OK;
}

/* The token's place among the tokens that a rank holds, or UINT64_MAX. */
static uint64_t local_place(uint64_t offset, uint32_t ranks, uint32_t rank, uint64_t interleave)
{
    if (offset / interleave % ranks != rank) {
        return UINT64_MAX;
    }
    return offset / (interleave * ranks) * interleave + offset % interleave;
}

pkv_status pkv_seq_slots(const pkv_seq *seq, uint32_t group, uint64_t first, uint64_t n,
                         uint32_t rank, uint64_t interleave, int64_t *slots)
{
    if (!seq || (n > 0 && !slots) || group >= seq->cache->info.n_groups) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_slots: seq or slots is NULL, or group %" PRIu32 " is none",
                         group);
    }
    pkvi_catch_up(seq->cache);
    const pkvi_manager *m = &seq->cache->managers[group];
    const pkvi_table *t = &seq->body->tables[group];
    const uint32_t ranks = (uint32_t)(m->span / m->spec.block_size);
    if (interleave == 0 || (ranks > 1 && m->spec.block_size % interleave != 0)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_slots: interleave %" PRIu64
                         " does not divide the block of %" PRIu64,
                         interleave, m->spec.block_size);
    }
    const uint64_t most = t->n * m->span;
    if (rank >= ranks || n > most || first > most - n) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_slots: positions %" PRIu64 " + %" PRIu64 " of %" PRIu64
                         " slots, rank %" PRIu32 " of %" PRIu32,
                         first, n, most, rank, ranks);
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = first + i;
        const uint64_t place =
            m->rules->recurrent ? UINT64_MAX : local_place(at % m->span, ranks, rank, interleave);
        const pkv_block block = t->ids[at / m->span];
        slots[i] = place == UINT64_MAX || block == PKV_BLOCK_NULL
                       ? -1
                       : (int64_t)(block * m->spec.block_size + place);
    }
    return PKV_OK;
}

pkv_status pkv_seq_zero(pkv_seq *seq, uint64_t tokens, const pkv_block **ids, uint64_t *n_out)
{
    if (!seq || !ids || !n_out || !seq->body->live ||
        tokens % seq->cache->info.scheduler_block_size != 0) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_zero: tokens %" PRIu64
                         ": an allocated sequence and whole blocks are needed",
                         tokens);
    }
    pkv_cache *c = seq->cache;
    pkvi_catch_up(c);
    size_t total = 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        total += seq->body->tables[g].n;
    }
    if (!pkvi_block_list_reserve(&c->alloc, &c->told_zero, total)) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_seq_zero: out of memory for %zu blocks", total);
    }
    c->told_zero.n = 0;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        const pkvi_table *t = &seq->body->tables[g];
        for (uint64_t i = tokens / c->managers[g].span; c->managers[g].zeroed && i < t->n; i++) {
            c->told_zero.at[c->told_zero.n++] = t->ids[i];
        }
    }
    *ids = c->told_zero.at;
    *n_out = c->told_zero.n;
    return PKV_OK;
}
