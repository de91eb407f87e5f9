/* match.c  The searches. */
#include "prefix/match.h"

#include <string.h>

#include "base/math.h"
#include "pool/pool_internal.h"

/* Looks the content of the first `units` units up as entry `block` of all tables; false: some group
 * lacks it, and nothing is written. Keys chain, so the last one names the whole prefix. */
static bool match_units(const pkvi_match *m, uint64_t units, uint64_t block)
{
    enum { FEW = 16 };
    pkv_block ids[FEW];
    if (units > m->n_units) {
        return false;
    }
    if (m->pool->runs) {
        return pkvi_runs_find_unit(m->pool->runs, m->path, units - 1, m->groups, m->n_groups,
                                   &m->trails[0].stretch, m->tables, block);
    }
    const pkv_key *key = &m->keys[units - 1];
    if (m->n_groups <= FEW) {
        if (pkv_pool_lookup(m->pool, key, m->groups, m->n_groups, ids) != PKV_OK) {
            return false;
        }
        for (uint32_t g = 0; g < m->n_groups; g++) {
            m->tables[g][block] = ids[g];
        }
        return true;
    }
    for (int keep = 0; keep < 2; keep++) { /* many: first whether all have it, then to keep it */
        for (uint32_t g = 0; g < m->n_groups; g++) {
            if (pkv_pool_lookup(m->pool, key, m->groups + g, 1, ids) != PKV_OK) {
                return false;
            }
            if (keep) {
                m->tables[g][block] = ids[0];
            }
        }
    }
    return true;
}

static bool match_block(const pkvi_match *m, uint64_t block)
{
    return match_units(m, (block + 1) * (m->block_size / m->unit), block);
}

/* Blocks from the first on, to the first that is missing. */
static uint64_t match_run(const pkvi_match *m, uint64_t most)
{
    const uint64_t units = m->block_size / m->unit;
    uint64_t blocks = 0;
    if (m->pool->runs) {
        for (uint32_t g = 0; g < m->n_groups; g++) {
            most = pkvi_runs_row(m->pool->runs, m->path, m->groups[g], units, most, m->tables[g]);
        }
        return most;
    }
    if (m->n_groups == 1 && m->n_units >= units) {
        return pkvi_index_find_run(m->pool, m->keys + units - 1, units,
                                   pkvi_min(most, m->n_units / units), m->groups[0], m->tables[0]);
    }
    while (blocks < most && match_block(m, blocks)) {
        blocks++;
    }
    return blocks;
}

/* Whether hits may end inside a block; the alignment is then the unit. */
static bool is_fine(const pkvi_match *m)
{
    return m->alignment < m->block_size && m->block_size % m->alignment == 0;
}

/* The furthest boundary inside the block after `blocks` whole ones that is cached, in units of the
 * alignment; 0: none. */
static uint64_t match_inside(const pkvi_match *m, uint64_t blocks, uint64_t max_tokens)
{
    const uint64_t scale = m->block_size / m->alignment;
    const uint64_t first = blocks * scale;
    uint64_t at = pkvi_min(pkvi_min(first + scale - 1, max_tokens / m->alignment), m->n_units);
    while (at > first && !match_units(m, at, blocks)) {
        at--;
    }
    return at > first ? at : 0;
}

uint64_t pkvi_match_full(const pkvi_match *m, uint64_t max_tokens, uint64_t *n_blocks)
{
    const uint64_t blocks = match_run(m, max_tokens / m->block_size);
    uint64_t hit = blocks * m->block_size;
    if (is_fine(m)) {
        const uint64_t inside = match_inside(m, blocks, max_tokens);
        hit = inside > 0 ? inside * m->alignment : hit;
    }
    if (m->drop && hit > 0) {
        hit -= pkvi_min(m->alignment, m->block_size);
    }
    hit -= hit % m->alignment;
    *n_blocks = pkvi_ceil_div(hit, m->block_size);
    return hit;
}

uint64_t pkvi_match_chunk(const pkvi_match *m, uint64_t first_block, uint64_t max_tokens,
                          uint64_t *n_blocks)
{
    const uint64_t most = max_tokens / m->block_size;
    uint64_t blocks = first_block;
    for (uint32_t g = 0; g < m->n_groups; g++) {
        memset(m->tables[g], 0, (size_t)first_block * sizeof(pkv_block));
    }
    while (blocks < most && match_block(m, blocks)) {
        blocks++;
    }
    *n_blocks = blocks;
    return blocks * m->block_size;
}

uint64_t pkvi_match_state(const pkvi_match *m, uint64_t max_tokens, uint64_t *n_blocks)
{
    const uint64_t step = is_fine(m) ? m->alignment : m->block_size;
    for (uint64_t i = pkvi_min(max_tokens / step, m->n_units * m->unit / step); i > 0; i--) {
        const uint64_t tokens = i * step, block = pkvi_ceil_div(tokens, m->block_size) - 1;
        if ((!is_fine(m) && tokens % m->alignment != 0) ||
            !match_units(m, tokens / m->unit, block)) {
            continue;
        }
        for (uint32_t g = 0; g < m->n_groups; g++) {
            memset(m->tables[g], 0, (size_t)block * sizeof(pkv_block));
        }
        *n_blocks = block + 1;
        return tokens;
    }
    *n_blocks = 0;
    return 0;
}

uint64_t pkvi_window_blocks(uint64_t window, uint64_t block_size, bool drop)
{
    return pkvi_ceil_div(window - 1, block_size) + drop;
}

static uint64_t align_down(const pkvi_match *m, uint64_t blocks)
{
    while (blocks * m->block_size % m->alignment != 0) {
        blocks--;
    }
    return blocks;
}

/* Whether a run may end with this block. */
static bool may_end(const pkvi_match *m, uint64_t block)
{
    const uint64_t kept = m->drop ? block : block + 1;
    return m->block_size == m->alignment || kept * m->block_size % m->alignment == 0;
}

/* Blocks from the one before entry `end` back to one that is missing, at most so many. By runs each
 * group is followed from where it was left: ends fall, and no entry is read twice. */
static uint64_t match_back(const pkvi_match *m, uint64_t end, uint64_t most)
{
    uint64_t from = end - pkvi_min(most, end);
    if (!m->pool->runs) {
        uint64_t at = end;
        while (at > from && match_block(m, at - 1)) {
            at--;
        }
        return end - at;
    }
    for (uint32_t g = 0; g < m->n_groups; g++) {
        pkvi_trail *trail = &m->trails[g];
        trail->from = pkvi_min(trail->from, end);
        if (trail->from > from) {
            trail->from -=
                pkvi_runs_row_back(m->pool->runs, m->path, m->groups[g], m->block_size / m->unit,
                                   trail->from, trail->from - from, &trail->stretch, m->tables[g]);
        }
        from = trail->from; /* no group is followed further than the one before it */
    }
    return end - from;
}

/* The last entry, at most this one, before which a run may end; 0: none. By runs all groups have a
 * block there; where blocks are looked up one by one, that is seen when the run is followed. */
static uint64_t last_end(const pkvi_match *m, uint64_t end)
{
    uint64_t before;
    do {
        before = end;
        for (uint32_t g = 0; m->pool->runs && g < m->n_groups; g++) {
            pkvi_trail *trail = &m->trails[g];
            if (trail->from >= end) { /* else it is known to be there */
                end = pkvi_runs_last(m->pool->runs, m->path, m->groups[g], m->block_size / m->unit,
                                     end, &trail->stretch);
            }
        }
        while (end > 0 && !may_end(m, end - 1)) {
            end--;
        }
    } while (end < before);
    return end;
}

uint64_t pkvi_match_window(const pkvi_match *m, uint64_t window, uint64_t max_tokens,
                           uint64_t *n_blocks)
{
    const uint64_t need = pkvi_max(pkvi_window_blocks(window, m->block_size, m->drop), 1);
    uint64_t end = pkvi_min(max_tokens, m->n_units * m->unit) / m->block_size;
    uint64_t run = 0, blocks = 0;
    for (uint32_t g = 0; m->pool->runs && g < m->n_groups; g++) {
        m->trails[g].from = end;
    }
    for (end = last_end(m, end); end > 0; end = last_end(m, end - run - 1)) {
        run = match_back(m, end, need);
        if (run >= need || run == end) { /* one that begins with the prompt may be shorter */
            break;
        }
    }
    if (end > 0 && run >= need) {
        blocks = end;
        for (uint32_t g = 0; g < m->n_groups; g++) {
            memset(m->tables[g], 0, (size_t)(end - run) * sizeof(pkv_block));
        }
    } else {
        blocks = align_down(m, end);
    }
    if (m->drop && blocks > 0) {
        blocks = align_down(m, blocks - 1);
    }
    *n_blocks = blocks;
    return blocks * m->block_size;
}
