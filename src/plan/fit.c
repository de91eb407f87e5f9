/* fit.c  How long a request may be, and how many of them fit.
 *
 * Every group takes block ids from one pool, so a request costs the sum over the groups of the
 * blocks that it holds there. One block of the pool is the null block and serves nobody: checks
 * plan against the rest, while the reported figures count all blocks, as upstream does. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/spec.h"

pkv_status pkvi_group_blocks(const pkv_group *group, const pkv_limits *limits, uint64_t *out)
{
    uint64_t most = 0;
    for (uint32_t c = 0; c < group->n_classes; c++) {
        uint64_t blocks;
        PKVI_RETURN_IF(pkvi_spec_held_blocks(group->classes[c].spec, limits, &blocks));
        most = pkvi_max(most, blocks);
    }
    *out = most;
    return PKV_OK;
}

pkv_status pkvi_request_blocks(const pkvi_planner *p, const pkvi_worker *w, uint64_t len,
                               uint64_t *out)
{
    pkv_limits limits = p->limits;
    uint64_t sum = 0;
    limits.max_model_len = len;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        uint64_t blocks;
        if (w->groups[g].host) {
            continue;
        }
        PKVI_RETURN_IF(pkvi_group_blocks(&w->groups[g], &limits, &blocks));
        if (!pkvi_add(sum, blocks, &sum)) {
            return pkvi_plan_overflow("the blocks of one request");
        }
    }
    *out = sum;
    return PKV_OK;
}

/* HiSparse: the host pool must hold the request too. */
static bool host_fits(pkvi_planner *p, const pkvi_worker *w, uint64_t len)
{
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        if (w->groups[g].host && pkvi_hisparse_host(p, w->groups[g].page_bytes,
                                                    w->groups[g].block_size, len) != PKV_OK) {
            return false;
        }
    }
    return true;
}

static pkv_status fits(pkvi_planner *p, const pkvi_worker *w, uint64_t usable_blocks, uint64_t len,
                       bool *out)
{
    uint64_t need;
    *out = false;
    if (!host_fits(p, w, len)) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkvi_request_blocks(p, w, len, &need));
    *out = need <= usable_blocks;
    return PKV_OK;
}

static uint64_t usable(const pkvi_worker *w, int64_t check_bytes)
{
    return check_bytes <= 0 ? 0 : (uint64_t)check_bytes / w->plan.bytes_per_block;
}

pkv_status pkvi_longest_fit(pkvi_planner *p, const pkvi_worker *w, int64_t check_bytes,
                            uint64_t most, uint64_t *out)
{
    const uint64_t blocks = usable(w, check_bytes);
    uint64_t low = 1, high = most, best = 0;
    bool ok;
    PKVI_RETURN_IF(fits(p, w, blocks, low, &ok));
    if (!ok || check_bytes < 0) {
        *out = 0;
        return PKV_OK;
    }
    best = 1;
    while (low <= high) { /* a need never shrinks with the length */
        const uint64_t middle = low + (high - low) / 2;
        PKVI_RETURN_IF(fits(p, w, blocks, middle, &ok));
        if (ok) {
            best = middle;
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    *out = best;
    return PKV_OK;
}

pkv_status pkvi_admit(pkvi_planner *p, const pkvi_worker *w, uint32_t index, int64_t check_bytes)
{
    const uint64_t len = p->limits.max_model_len;
    uint64_t need, longest;
    if (check_bytes <= 0) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_plan_create: worker %" PRIu32 ": available_bytes %" PRId64
                         " leave nothing beside the null block; one block is %" PRIu64 " bytes",
                         index, w->available, w->plan.bytes_per_block);
    }
    PKVI_RETURN_IF(pkvi_request_blocks(p, w, len, &need));
    if (need <= usable(w, check_bytes)) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkvi_longest_fit(p, w, check_bytes, len, &longest));
    return pkvi_fail(
        PKV_E_VALUE,
        "pkv_plan_create: worker %" PRIu32 ": available_bytes %" PRId64 " hold %" PRIu64
        " blocks of %" PRIu64 " bytes beside the null block; one request of %" PRIu64
        " tokens needs %" PRIu64 "; the longest that fits has %" PRIu64 " tokens",
        index, w->available, usable(w, check_bytes), w->plan.bytes_per_block, len, need, longest);
}

static pkv_status layers_bytes(const pkv_spec *layers, size_t n, const pkv_limits *limits,
                               uint64_t len, bool *fits_out, int64_t available)
{
    pkv_limits at = *limits;
    uint64_t sum = 0;
    at.max_model_len = len;
    *fits_out = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes;
        PKVI_RETURN_IF(pkv_spec_max_memory_bytes(&layers[i], &at, &bytes));
        if (*fits_out && (!pkvi_add(sum, bytes, &sum) || (int64_t)sum > available)) {
            *fits_out = false; /* the rest may still refuse */
        }
    }
    return PKV_OK;
}

pkv_status pkv_estimate_max_model_len(const pkv_spec *layers, size_t n, const pkv_limits *limits,
                                      int64_t available_bytes, uint64_t *out)
{
    if ((n > 0 && !layers) || !limits || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_estimate_max_model_len: an argument is NULL");
    }
    uint64_t low = 1, high = limits->max_model_len, best = 0;
    bool ok = available_bytes >= 0;
    if (ok) {
        PKVI_RETURN_IF(layers_bytes(layers, n, limits, low, &ok, available_bytes));
    }
    if (!ok) {
        *out = 0;
        return PKV_OK;
    }
    best = 1;
    while (low <= high) {
        const uint64_t middle = low + (high - low) / 2;
        PKVI_RETURN_IF(layers_bytes(layers, n, limits, middle, &ok, available_bytes));
        if (ok) {
            best = middle;
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    *out = best;
    return PKV_OK;
}
