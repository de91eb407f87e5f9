/* hybrid.c  One block size for attention and recurrent states.
 *
 * A recurrent state is large and has no tokens, so the attention block grows until its page is at
 * least as large as the state; the state is then padded to it and both can share blocks. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"

pkv_status pkv_hybrid_block_size(uint64_t attention_token_bytes, uint64_t mamba_page_bytes,
                                 uint64_t kernel_block, uint64_t block_size,
                                 uint64_t *block_size_out, uint64_t *mamba_page_out)
{
    uint64_t step, blocks, page;
    if (attention_token_bytes == 0 || mamba_page_bytes == 0 || kernel_block == 0 ||
        block_size == 0 || !block_size_out || !mamba_page_out) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_hybrid_block_size: attention_token_bytes %" PRIu64
                         ", mamba_page_bytes %" PRIu64 ", kernel_block %" PRIu64
                         ", block_size %" PRIu64 ": none may be 0",
                         attention_token_bytes, mamba_page_bytes, kernel_block, block_size);
    }
    if (!pkvi_mul(kernel_block, attention_token_bytes, &step) ||
        !pkvi_mul(kernel_block, pkvi_ceil_div(mamba_page_bytes, step), &blocks)) {
        return pkvi_plan_overflow("a hybrid block");
    }
    blocks = pkvi_max(blocks, block_size);
    if (!pkvi_mul(blocks, attention_token_bytes, &page)) {
        return pkvi_plan_overflow("a hybrid block");
    }
    *block_size_out = blocks;
    *mamba_page_out = page;
    return PKV_OK;
}
