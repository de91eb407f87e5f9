/* chunked.c  Chunks: a token sees its own chunk only, and whatever lies in earlier ones counts as
 * computed, whether it is cached or not. */
#include "base/math.h"
#include "manager/manager.h"

static uint64_t skipped(const pkvi_manager *m, uint64_t computed)
{
    return computed / m->window * m->window;
}

static uint64_t until(const pkvi_manager *m, uint64_t end)
{
    return pkvi_ceil_div(end, m->window) * m->window - 1;
}

static uint64_t match(const pkvi_manager *m, const pkvi_match *in, uint64_t max_tokens,
                      uint64_t *n_blocks)
{
    return pkvi_match_chunk(in, skipped(m, max_tokens) / m->span, max_tokens, n_blocks);
}

const pkvi_rules pkvi_chunked_rules = {
    .skipped = skipped, .until = until, .match = match, .mask = pkvi_mask_nothing, .aligned = true};
