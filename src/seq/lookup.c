/* lookup.c  The longest prefix that every group still holds.
 *
 * Each kind of layer accepts a length or shortens it, and whoever shortens it makes the others look
 * again; lengths only fall, so this ends. Full attention goes first: it is the cheapest, bounds the
 * rest, and a hit of it stays one when it is cut. */
#include <string.h>

#include "base/math.h"
#include "seq/cache_internal.h"

static pkvi_match match_of(const pkv_seq *seq, const pkvi_lookup_group *lookup, bool drop)
{
    const pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < lookup->n_groups; g++) {
        c->hit_tables[g] = c->hit[lookup->groups[g]].at;
    }
    return (pkvi_match){.pool = c->pool,
                        .keys = seq->keys.at,
                        .n_keys = seq->keys.n,
                        .unit = c->info.unit,
                        .block_size = c->managers[lookup->groups[0]].span,
                        .alignment = c->info.hit_alignment,
                        .drop = drop,
                        .groups = lookup->groups,
                        .n_groups = lookup->n_groups,
                        .tables = c->hit_tables};
}

static void set_hit(pkv_cache *c, const pkvi_lookup_group *lookup, uint64_t n_blocks)
{
    for (uint32_t g = 0; g < lookup->n_groups; g++) {
        c->hit[lookup->groups[g]].n = (size_t)n_blocks;
    }
}

/* One kind's answer to a length that is tried. A drafter's group looks one block further and gives
 * it up, so that it lands on the length again; once per length. */
static uint64_t try_group(pkv_seq *seq, pkvi_lookup_group *lookup, uint64_t length)
{
    pkv_cache *c = seq->cache;
    const pkvi_manager *m = &c->managers[lookup->groups[0]];
    uint64_t n_blocks, limit = length;
    if (m->rules->full && lookup->known) {
        return pkvi_min(length, lookup->tokens);
    }
    const bool drop = lookup->drop && !lookup->verified;
    if (drop && c->hybrid) {
        limit = pkvi_min(length + m->span, seq->keys.n * c->info.unit);
    }
    const pkvi_match in = match_of(seq, lookup, drop);
    const uint64_t found = m->rules->match(m, &in, limit, &n_blocks);
    if (drop) {
        lookup->verified = true;
    } else if (found < length) {
        for (uint32_t i = 0; i < c->n_lookups; i++) {
            c->lookups[i].verified = false;
        }
    }
    set_hit(c, lookup, n_blocks);
    lookup->known = true;
    lookup->tokens = found;
    return found;
}

static void cut_full(pkv_cache *c, uint64_t hit)
{
    for (uint32_t i = 0; i < c->n_lookups; i++) {
        const pkvi_manager *m = &c->managers[c->lookups[i].groups[0]];
        if (m->rules->full) {
            set_hit(c, &c->lookups[i],
                    pkvi_min(c->hit[c->lookups[i].groups[0]].n, pkvi_ceil_div(hit, m->span)));
        }
    }
}

static void find_common(pkv_seq *seq, uint64_t limit, pkv_hit *out)
{
    pkv_cache *c = seq->cache;
    const bool simple = c->n_lookups == 2 && c->managers[c->lookups[0].groups[0]].rules->full;
    uint64_t hit = limit, longest = 0, current;
    for (uint32_t i = 0; i < c->n_lookups; i++) {
        c->lookups[i].known = c->lookups[i].verified = false;
    }
    for (;;) {
        current = hit;
        for (uint32_t i = 0; i < c->n_lookups; i++) {
            const bool again =
                c->lookups[i].known && c->managers[c->lookups[i].groups[0]].rules->full;
            current = try_group(seq, &c->lookups[i], current);
            longest = again ? longest : pkvi_max(longest, current);
        }
        if (current >= hit) {
            break;
        }
        hit = current;
        if (simple) {
            break;
        }
    }
    cut_full(c, hit);
    out->tokens = hit;
    out->shared_prefix = longest > hit ? longest : 0;
}

void pkvi_find_hit(pkv_seq *seq, pkv_hit *out)
{
    pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        c->hit[g].n = 0;
    }
    *out = (pkv_hit){0, 0};
    if (!c->info.caching || seq->skip_lookup) {
        return;
    }
    /* one token must be left to compute; and keys that look ahead end before the last tokens */
    uint64_t limit = seq->tokens.n - 1;
    if (c->hash_lookahead > 1 || seq->ready_keys) {
        limit = pkvi_min(limit, seq->keys.n * c->info.unit);
    }
    if (c->hybrid) {
        find_common(seq, limit, out);
    } else if (c->n_lookups == 1) {
        c->lookups[0].known = c->lookups[0].verified = false;
        out->tokens = try_group(seq, &c->lookups[0], limit);
    }
}

const pkv_block *pkv_cache_hit_blocks(const pkv_cache *cache, uint32_t group, uint64_t *n_out)
{
    if (group >= cache->info.n_groups) {
        *n_out = 0;
        return NULL;
    }
    *n_out = cache->hit[group].n;
    return cache->hit[group].at;
}
