/* plan.c  A plan from its parameters, and what is in it. */
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/params.h"
#include "transfer/transfer.h"

void pkv_transfer_params_init(pkv_transfer_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->n_src = 1;
    params->n_dst = 1;
    params->tokens = PKV_ALL_TOKENS;
}

static pkv_status plan_job(pkvi_job *job)
{
    PKVI_RETURN_IF(pkvi_check_form(job));
    PKVI_RETURN_IF(pkvi_check_sides(job));
    PKVI_RETURN_IF(pkvi_check_ids(job));
    PKVI_RETURN_IF(pkvi_plan_runs(job));
    PKVI_RETURN_IF(pkvi_plan_pairs(job));
    return pkvi_check_overlap(job);
}

static pkv_transfer_plan *new_plan(const pkv_alloc *alloc)
{
    enum { FIRST_BYTES = 4096 };
    pkvi_arena arena;
    pkvi_arena_init(&arena, alloc, FIRST_BYTES);
    pkv_transfer_plan *plan = pkvi_arena_get(&arena, 1, sizeof *plan);
    if (plan) {
        plan->arena = arena;
    }
    return plan;
}

pkv_status pkv_transfer_plan_create(const pkv_transfer_params *params, pkv_transfer_plan **out,
                                    pkv_transfer_refusal *refusal)
{
    pkvi_job job = {.refusal = refusal};
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_transfer_plan_create: params or out is NULL");
    }
    *out = NULL;
    if (refusal) {
        memset(refusal, 0, sizeof *refusal);
    }
    pkv_transfer_params_init(&job.p);
    PKVI_RETURN_IF(pkvi_import_params("pkv_transfer_plan_create", params, &job.p, sizeof job.p));
    job.plan = new_plan(job.p.alloc);
    if (!job.plan) {
        return pkvi_transfer_no_memory();
    }
    const pkv_status st = plan_job(&job);
    if (st != PKV_OK) {
        pkv_transfer_plan_destroy(job.plan);
        return st;
    }
    job.plan->swap = job.p.op == PKV_TRANSFER_SWAP;
    job.plan->info.n_layers = job.p.n_layers;
    job.plan->info.streaming =
        job.p.stores == PKV_STORES_STREAMING ||
        (job.p.stores == PKV_STORES_AUTO && job.plan->info.bytes >= PKVI_STREAM_BYTES);
    *out = job.plan;
    return PKV_OK;
}

void pkv_transfer_plan_destroy(pkv_transfer_plan *plan)
{
    if (plan) {
        pkvi_arena arena = plan->arena; /* the plan lies in it */
        pkvi_arena_free(&arena);
    }
}

void pkv_transfer_plan_info(const pkv_transfer_plan *plan, pkv_transfer_info *out)
{
    *out = plan->info;
}

static uint64_t first_byte(const pkv_transfer_plan *plan, uint64_t pair)
{
    return pair < plan->n_pairs ? plan->pairs[pair].first_byte : plan->bytes;
}

uint64_t pkv_transfer_layer_bytes(const pkv_transfer_plan *plan, uint32_t step)
{
    if (step >= plan->info.n_layers) {
        return 0;
    }
    const uint64_t bytes =
        first_byte(plan, plan->step_pairs[step + 1]) - first_byte(plan, plan->step_pairs[step]);
    return plan->swap ? 2 * bytes : bytes;
}
