/* check.c  All references of a cache, counted anew: tables, ends of copies, deferred closes. */
#include <inttypes.h>

#include "base/error.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

static uint32_t *count_references(const pkv_cache *c)
{
    const size_t bytes = (size_t)c->info.n_blocks * sizeof(uint32_t);
    uint32_t *refs = c->alloc.alloc(c->alloc.ctx, bytes, 16);
    if (!refs) {
        return NULL;
    }
    for (uint64_t b = 0; b < c->info.n_blocks; b++) {
        refs[b] = 0;
    }
    for (const pkv_seq *seq = c->first; seq; seq = seq->body->next) {
        for (uint32_t g = 0; g < c->info.n_groups; g++) {
            for (size_t i = 0; i < seq->body->tables[g].n; i++) {
                refs[seq->body->tables[g].ids[i]]++;
            }
        }
    }
    for (size_t i = 0; i < c->pins.n; i++) {
        refs[c->pins.at[i]]++;
    }
    for (size_t i = 0; i < c->deferred.n; i++) {
        refs[c->deferred.at[i]]++;
    }
    return refs;
}

pkv_status pkv_cache_check(const pkv_cache *cache)
{
    pkvi_catch_up(cache);
    PKVI_RETURN_IF(pkvi_lanes_check(cache));
    pkv_status st = pkv_pool_check(cache->pool);
    if (st != PKV_OK) {
        return st;
    }
    uint64_t n_cursors = 0;
    for (const pkv_seq *seq = cache->first; cache->by_runs && seq; seq = seq->body->next) {
        n_cursors += seq->body->cursor.run != 0;
    }
    for (uint32_t g = 0; cache->by_runs && g < cache->info.n_groups; g++) {
        n_cursors += cache->keyed_now[g].n;
    }
    if (cache->by_runs && pkvi_runs_n_cursors(cache->pool->runs) != n_cursors) {
        return pkvi_fail(PKV_E_CORRUPT, "pkv_cache_check: places are held by nobody");
    }
    uint32_t *refs = count_references(cache);
    if (!refs) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_cache_check: out of memory");
    }
    for (uint32_t b = 1; b < cache->info.n_blocks && st == PKV_OK; b++) {
        if (refs[b] != pkv_pool_refs(cache->pool, b)) {
            st = pkvi_fail(PKV_E_CORRUPT,
                           "pkv_cache_check: block %" PRIu32 " has %" PRIu32 " references, %" PRIu32
                           " were found",
                           b, pkv_pool_refs(cache->pool, b), refs[b]);
        }
    }
    cache->alloc.free(cache->alloc.ctx, refs, (size_t)cache->info.n_blocks * sizeof *refs, 16);
    return st;
}
