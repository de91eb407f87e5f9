/* lookup.c  The longest prefix that every group still holds.
 *
 * Each kind of layer accepts a length or shortens it, and whoever shortens it makes the others look
 * again; lengths only fall, so this ends. Full attention goes first: it is the cheapest, bounds the
 * rest, and a hit of it stays one when it is cut. */
#include <string.h>

#include "base/error.h"
#include "base/fetch.h"
#include "base/math.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

void pkvi_fetch_for_lookup(const pkv_seq *seq)
{
    enum { FIRST = 512 }; /* bytes; the processor reads on by itself */
    pkvi_fetch(seq, sizeof *seq);
    const pkv_cache *c = seq->cache;
    pkvi_fetch(seq->body, sizeof *seq->body);
    pkvi_fetch(c->by_tokens ? (const void *)seq->tokens : seq->body->keys.at, FIRST);
    pkvi_fetch(c, offsetof(pkv_cache, zero));
    pkvi_fetch(c->pool, sizeof *c->pool);
    pkvi_fetch(c->managers, sizeof *c->managers);
    pkvi_fetch(c->lookups, sizeof *c->lookups);
    pkvi_fetch(c->hit, sizeof *c->hit);
    pkvi_fetch(c->hit_tables, sizeof *c->hit_tables);
    pkvi_fetch(c->hit_trails, sizeof *c->hit_trails);
    if (c->pool->runs) {
        pkvi_runs_fetch(c->pool->runs);
    }
}

static pkvi_match match_of(const pkv_seq *seq, const pkvi_lookup_group *lookup, bool drop)
{
    const pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < lookup->n_groups; g++) {
        c->hit_tables[g] = c->hit[lookup->groups[g]].at;
        c->hit_trails[g] = (pkvi_trail){{0, 0, 0}, 0};
    }
    return (pkvi_match){.pool = c->pool,
                        .path = &c->path,
                        .trails = c->hit_trails,
                        .keys = seq->body->keys.at,
                        .n_units = c->by_runs ? c->path.units : pkvi_known_units(seq),
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

/* Where a group that gives up its last unit looks, to land on `length` again: one unit further if
 * hits may end inside its blocks, else one block. Recurrent groups give up nothing. */
static uint64_t further(const pkv_seq *seq, const pkvi_manager *m, uint64_t length)
{
    const pkv_cache *c = seq->cache;
    if (m->rules->recurrent) {
        return length;
    }
    const bool inside = c->fine && m->rules->full && m->span > c->info.unit;
    const uint64_t margin = inside ? c->info.unit : m->span;
    return pkvi_min(length + margin, pkvi_known_units(seq) * c->info.unit);
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
        limit = further(seq, m, length);
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

/* Goes once over the content of a sequence; the groups are then looked up along its places. */
static void find_path(const pkv_seq *seq)
{
    pkv_cache *c = seq->cache;
    const pkvi_content content = pkvi_content_of(seq);
    const uint32_t first = c->lookups[0].groups[0];
    const pkv_block *ids = c->managers[first].units == 1 ? c->hit[first].at : NULL;
    pkvi_runs_find(c->pool->runs, &content, pkvi_known_units(seq), first, ids, &c->path);
}

/* Forgets the last hit; false: nothing may be looked up. */
static bool begin_lookup(pkv_seq *seq, pkv_hit *out)
{
    pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        c->hit[g].n = 0;
    }
    c->last.seq = NULL;
    *out = (pkv_hit){0, 0};
    if (!c->info.caching || seq->body->skip_lookup) {
        return false;
    }
    if (c->by_runs) {
        find_path(seq);
    }
    return true;
}

/* One token must be left to compute; and keys that look ahead end before the last tokens. */
static uint64_t most_tokens(const pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    const uint64_t most = seq->n_tokens - 1;
    return c->hash_lookahead > 1 || seq->body->ready_keys
               ? pkvi_min(most, seq->body->keys.n * c->info.unit)
               : most;
}

/* Whether the last lookup was that of the sequence, and would be the same now: a scheduler looks up
 * to decide, and then allocates. */
static bool is_known(const pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    return c->last.seq == seq && c->last.version == c->pool->version &&
           c->last.n_tokens == seq->n_tokens && c->last.n_units == pkvi_known_units(seq);
}

static void remember(pkv_seq *seq, const pkv_hit *found)
{
    pkv_cache *c = seq->cache;
    c->last.seq = seq;
    c->last.version = c->pool->version;
    c->last.n_tokens = seq->n_tokens;
    c->last.n_units = pkvi_known_units(seq);
    c->last.found = *found;
}

void pkvi_find_hit(pkv_seq *seq, pkv_hit *out)
{
    pkv_cache *c = seq->cache;
    if (is_known(seq)) {
        *out = c->last.found;
        return;
    }
    if (!begin_lookup(seq, out)) {
        return;
    }
    const uint64_t limit = most_tokens(seq);
    if (c->hybrid) {
        find_common(seq, limit, out);
    } else if (c->n_lookups == 1) {
        c->lookups[0].known = c->lookups[0].verified = false;
        out->tokens = try_group(seq, &c->lookups[0], limit);
    }
    remember(seq, out);
}

/* Each group on its own. Returns the longest hit; *least_out: the shortest, 0 for groups outside of
 * prefixes. */
static uint64_t find_apart(pkv_seq *seq, uint64_t limit, uint64_t *least_out)
{
    pkv_cache *c = seq->cache;
    uint64_t longest = 0, least = UINT64_MAX;
    uint32_t n_groups = 0;
    for (uint32_t i = 0; i < c->n_lookups; i++) {
        pkvi_lookup_group *lookup = &c->lookups[i];
        lookup->known = lookup->verified = false;
        const uint64_t found = try_group(seq, lookup, limit);
        longest = pkvi_max(longest, found);
        least = pkvi_min(least, found);
        n_groups += lookup->n_groups;
    }
    *least_out = n_groups < c->info.n_groups ? 0 : least;
    return longest;
}

bool pkvi_find_connector_hit(pkv_seq *seq, pkv_hit *out)
{
    const pkv_cache *c = seq->cache;
    uint64_t least;
    const bool full = c->n_lookups > 0 && c->managers[c->lookups[0].groups[0]].rules->full;
    if (c->has_mamba && c->hybrid && full && begin_lookup(seq, out)) {
        const uint64_t longest = find_apart(seq, most_tokens(seq), &least);
        if (longest == c->lookups[0].tokens) {
            out->tokens = longest;
            return least < longest;
        }
    }
    pkvi_find_hit(seq, out);
    return false;
}

pkv_status pkv_seq_lookup_for_connector(pkv_seq *seq, pkv_hit *out, bool *diverged_out)
{
    if (!seq || !out || !diverged_out || seq->body->live) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_lookup_for_connector: %s",
                         seq && seq->body->live ? "the sequence is allocated"
                                                : "an argument is NULL");
    }
    pkvi_fetch_for_lookup(seq);
    pkvi_cache_check_thread(seq->cache);
    pkvi_catch_up(seq->cache);
    *diverged_out = pkvi_find_connector_hit(seq, out);
    return PKV_OK;
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
