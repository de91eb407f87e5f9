/* access.c  Reading a finished plan. */
#include <inttypes.h>

#include "base/error.h"
#include "plan/plan_object.h"
#include "spec/kind.h"

void pkv_plan_destroy(pkv_plan *plan)
{
    if (plan) {
        pkvi_arena arena = plan->arena; /* the plan lies in it */
        pkvi_arena_free(&arena);
    }
}

const pkv_plan_summary *pkv_plan_get_summary(const pkv_plan *plan)
{
    return &plan->summary;
}

const char *pkv_plan_sizes_error(const pkv_plan *plan)
{
    return plan->sizes_error;
}

const pkv_limits *pkv_plan_get_limits(const pkv_plan *plan)
{
    return &plan->limits;
}

uint64_t pkv_plan_retention_interval(const pkv_plan *plan)
{
    return plan->retention_interval;
}

const pkv_worker_plan *pkv_plan_worker_at(const pkv_plan *plan, uint32_t w)
{
    return w < plan->summary.n_workers ? &plan->workers[w].plan : NULL;
}

const pkv_group *pkv_plan_group_at(const pkv_plan *plan, uint32_t w, uint32_t i)
{
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, w);
    return worker && i < worker->n_groups ? &plan->workers[w].groups[i] : NULL;
}

const pkv_tensor *pkv_plan_tensor_at(const pkv_plan *plan, uint32_t w, uint32_t i)
{
    const pkv_worker_plan *worker = pkv_plan_worker_at(plan, w);
    return worker && i < worker->n_tensors ? &plan->workers[w].tensors[i] : NULL;
}

pkv_status pkv_plan_group_blocks(const pkv_plan *plan, const pkv_group *group, uint64_t len,
                                 uint64_t *out)
{
    if (!plan || !group || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_plan_group_blocks: an argument is NULL");
    }
    pkv_limits limits = plan->limits;
    limits.max_model_len = len;
    return pkvi_group_blocks(group, &limits, out);
}

pkv_status pkv_plan_check_retention(const pkv_plan *plan)
{
    const uint64_t interval = plan->retention_interval;
    const uint64_t unit = plan->summary.scheduler_block_size;
    if (interval == 0) {
        return PKV_OK;
    }
    bool recycles = false;
    for (uint32_t g = 0; g < plan->workers[0].plan.n_groups; g++) {
        const pkv_group *group = &plan->workers[0].groups[g];
        for (uint32_t c = 0; c < group->n_classes; c++) {
            recycles |= group->classes[c].spec->kind == PKV_KIND_MAMBA ||
                        pkvi_is(group->classes[c].spec, PKVI_IS_SLIDING);
        }
    }
    if (interval == PKV_RETAIN_DENSE) {
        return PKV_OK;
    }
    if (!recycles) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_plan_check_retention: retention_interval %" PRIu64
                         ": no group of this model gives blocks up before the end",
                         interval);
    }
    if (unit == 0 || interval % unit != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_plan_check_retention: retention_interval %" PRIu64
                         " is no multiple of the scheduler block of %" PRIu64 " tokens",
                         interval, unit);
    }
    return PKV_OK;
}
