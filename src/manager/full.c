/* full.c  Full attention, latent or not: everything stays, and every block is worth a key. */
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

static bool mask(const pkvi_manager *m, const pkvi_mask_in *in, uint8_t *out)
{
    (void)m;
    (void)in;
    (void)out;
    return false;
}

const pkvi_rules pkvi_full_rules = {skipped, match, mask, true};
