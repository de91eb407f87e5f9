/* plan_object.h  A finished plan. */
#ifndef PKVI_PLAN_OBJECT_H
#define PKVI_PLAN_OBJECT_H

#include "plan/plan_internal.h"

struct pkv_plan {
    pkvi_arena arena; /* holds this struct too */
    pkv_plan_summary summary;
    pkv_limits limits;
    uint64_t retention_interval;
    const char *sizes_error;
    pkvi_worker *workers; /* [summary.n_workers] */
};

#endif
