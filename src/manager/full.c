/* full.c  Full attention, latent or not: everything stays, and every block is worth a key. And the
 * kinds that let nothing at the start go: reference windows, rings, cross attention. */
#include "base/math.h"
#include "manager/manager.h"

static uint64_t skipped(const pkvi_manager *m, uint64_t computed)
{
    (void)m;
    (void)computed;
    return 0;
}

static uint64_t match(const pkvi_manager *m, const pkvi_match *in, uint64_t max_tokens,
                      uint64_t *n_blocks)
{
    (void)m;
    return pkvi_match_full(in, max_tokens, n_blocks);
}

const pkvi_rules pkvi_full_rules = {
    .skipped = skipped, .match = match, .mask = pkvi_mask_nothing, .full = true};

/* Reference windows: the prompt stays, and of what was generated only the last tokens; the blocks
 * between are the gap. */
static void gap(const pkvi_manager *m, uint64_t computed, uint64_t n_prompt, uint64_t *from,
                uint64_t *to)
{
    const uint64_t start = computed > m->window ? computed - m->window : 0;
    *from = pkvi_ceil_div(n_prompt, m->span);
    *to = pkvi_max(start, n_prompt) / m->span;
}

static uint64_t gap_until(const pkvi_manager *m, uint64_t end)
{
    return end + m->window - 1;
}

const pkvi_rules pkvi_rswa_rules = {.skipped = skipped,
                                    .passed = gap,
                                    .until = gap_until,
                                    .match = match,
                                    .mask = pkvi_mask_nothing,
                                    .full = true};

/* ---- outside of prefixes ---- */

const pkvi_rules pkvi_ring_rules = {.skipped = skipped, .one_block = true};
const pkvi_rules pkvi_cross_rules = {.skipped = skipped, .encoder = true};
