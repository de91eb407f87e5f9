/* sliding.c  Sliding windows: only the last tokens stay, and only the blocks before a place where a
 * later request can resume are worth a key. */
#include <string.h>

#include "base/math.h"
#include "manager/manager.h"

/* Tokens before the one that is computed. */
static uint64_t kept(const pkvi_manager *m)
{
    return m->window - 1 + m->spec.extra_retained_tokens;
}

static uint64_t skipped(const pkvi_manager *m, uint64_t computed)
{
    return computed > kept(m) ? computed - kept(m) : 0;
}

static uint64_t until(const pkvi_manager *m, uint64_t end)
{
    return end + kept(m) - 1;
}

static uint64_t match(const pkvi_manager *m, const pkvi_match *in, uint64_t max_tokens,
                      uint64_t *n_blocks)
{
    return pkvi_match_window(in, m->window, max_tokens, n_blocks);
}

/* The tail of every segment of so many blocks. */
static void mark_segments(const pkvi_mask_in *in, uint64_t per_segment, uint64_t need,
                          uint64_t shift, uint8_t *out)
{
    for (uint64_t i = pkvi_max(in->from, shift); i < in->to; i++) {
        out[i - in->from] = (i - shift) % per_segment >= per_segment - need;
    }
}

/* A hit at a boundary reads the `need` blocks before it, and one after where a drafter drops it. */
static bool mask(const pkvi_manager *m, const pkvi_mask_in *in, uint8_t *out)
{
    const uint64_t need = pkvi_window_blocks(m->window, m->span, m->drop);
    const uint64_t shift = m->drop;
    if (in->alignment % m->span != 0) {
        return false; /* blocks cannot express it: keep all */
    }
    memset(out, 0, (size_t)(in->to - in->from));
    if (in->retention != 0) {
        const uint64_t segment = in->retention == PKV_RETAIN_DENSE ? in->alignment : in->retention;
        if (need >= segment / m->span) {
            return false;
        }
        mark_segments(in, segment / m->span, need, shift, out);
    }
    if (in->retention == PKV_RETAIN_DENSE) {
        return true;
    }
    for (uint32_t b = 0; b < in->n_boundaries; b++) {
        const uint64_t end = in->boundaries[b] / in->alignment * in->alignment / m->span + shift;
        const uint64_t begin = end > need ? end - need : 0;
        for (uint64_t i = pkvi_max(in->from, begin); i < pkvi_min(in->to, end); i++) {
            out[i - in->from] = 1;
        }
    }
    return true;
}

const pkvi_rules pkvi_sliding_rules = {
    .skipped = skipped, .until = until, .match = match, .mask = mask};
