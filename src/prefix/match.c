/* match.c  The three searches. */
#include "prefix/match.h"

#include <string.h>

#include "base/math.h"

/* The key of a block is that of its last unit: keys chain, so it names the whole prefix. */
static bool find_block(const pkvi_match *m, uint64_t block, pkv_block ids[])
{
    const uint64_t units = m->block_size / m->unit;
    const uint64_t key = (block + 1) * units - 1;
    return key < m->n_keys &&
           pkv_pool_lookup(m->pool, &m->keys[key], m->groups, m->n_groups, ids) == PKV_OK;
}

/* Looks a block up into all tables; false: some group lacks it, and nothing is written. */
static bool match_block(const pkvi_match *m, uint64_t block)
{
    enum { FEW = 16 };
    pkv_block ids[FEW];
    if (m->n_groups <= FEW) {
        if (!find_block(m, block, ids)) {
            return false;
        }
        for (uint32_t g = 0; g < m->n_groups; g++) {
            m->tables[g][block] = ids[g];
        }
        return true;
    }
    pkvi_match one = *m; /* many groups: first whether all have it, then again to keep it */
    one.n_groups = 1;
    for (int keep = 0; keep < 2; keep++) {
        for (uint32_t g = 0; g < m->n_groups; g++) {
            one.groups = m->groups + g;
            if (!find_block(&one, block, ids)) {
                return false;
            }
            if (keep) {
                m->tables[g][block] = ids[0];
            }
        }
    }
    return true;
}

/* The finest boundary inside the block after `blocks` whole ones that is cached, in units of the
 * alignment; only where hits may end inside a block. */
static uint64_t match_inside(const pkvi_match *m, uint64_t blocks, uint64_t max_tokens)
{
    const uint64_t scale = m->block_size / m->alignment;
    const uint64_t first = blocks * scale;
    uint64_t at = pkvi_min(pkvi_min(first + scale - 1, max_tokens / m->alignment), m->n_keys);
    for (; at > first; at--) {
        pkvi_match fine = *m;
        bool all = true;
        for (uint32_t g = 0; g < m->n_groups && all; g++) {
            all = pkv_pool_lookup(m->pool, &m->keys[at - 1], m->groups + g, 1,
                                  &fine.tables[g][blocks]) == PKV_OK;
        }
        if (all) {
            return at;
        }
    }
    return 0;
}

uint64_t pkvi_match_full(const pkvi_match *m, uint64_t max_tokens, uint64_t *n_blocks)
{
    const uint64_t most = max_tokens / m->block_size;
    uint64_t blocks = 0;
    while (blocks < most && match_block(m, blocks)) {
        blocks++;
    }
    uint64_t hit = blocks * m->block_size;
    if (m->alignment < m->block_size && m->block_size % m->alignment == 0) {
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

uint64_t pkvi_match_window(const pkvi_match *m, uint64_t window, uint64_t max_tokens,
                           uint64_t *n_blocks)
{
    const uint64_t need = pkvi_window_blocks(window, m->block_size, m->drop);
    uint64_t run = 0, blocks = 0, i = max_tokens / m->block_size;
    bool found = false;
    while (i > 0 && !found) {
        i--;
        if (!match_block(m, i)) {
            run = 0;
        } else if (run > 0 || may_end(m, i)) {
            run++;
            found = run >= need;
        }
    }
    if (found) {
        blocks = i + run;
        for (uint32_t g = 0; g < m->n_groups; g++) {
            memset(m->tables[g], 0, (size_t)i * sizeof(pkv_block));
        }
    } else {
        blocks = align_down(m, run);
    }
    if (m->drop && blocks > 0) {
        blocks = align_down(m, blocks - 1);
    }
    *n_blocks = blocks;
    return blocks * m->block_size;
}
