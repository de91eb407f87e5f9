/* mamba.c  Where a recurrent state can be found again.
 *
 * Rules of vLLM 0.33 (kv_cache_interface): a state is worth keeping at the last unit boundary that
 * leaves something to compute, and a backend can export it inside a query only in some places. */
#include "base/math.h"
#include "spec/spec.h"

uint64_t pkv_mamba_checkpoint_position(uint64_t n, uint64_t unit, bool drop_eagle_block,
                                       uint64_t lookahead)
{
    uint64_t keep = drop_eagle_block ? 0 : pkvi_max(1, lookahead);
    if (unit == 0 || n < keep) {
        return 0;
    }
    uint64_t position = (n - keep) / unit * unit;
    if (drop_eagle_block) {
        position = position >= unit ? position - unit : 0;
    }
    return position;
}

bool pkv_mamba_checkpoint_valid(const pkv_spec *spec, uint64_t start, uint64_t end,
                                uint64_t position, uint64_t unit)
{
    const uint64_t alignment = spec->prefill_checkpoint_alignment;
    if (alignment == 0 || unit == 0 || start % unit != 0) {
        return false;
    }
    /* columns of the block table, counted from 1 so that "before the first block" is 0 */
    const uint64_t initial = start == 0 ? 0 : (start - 1) / spec->block_size + 1;
    const uint64_t blocks = pkvi_ceil_div(end, spec->block_size);
    const bool column_free = blocks >= 1 && blocks - 1 > initial;
    return column_free && start < position && position < end && position - start >= unit &&
           (position - start) % alignment == 0;
}
