/* params.c  Reading the caller's parameters: struct sizes, ranges, the limits they stand for. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/params.h"
#include "plan/params.h"
#include "plan/plan_internal.h"

/* Longest request: far beyond any model, and four of them still fit all arithmetic. */
#define MAX_TOKENS (UINT64_C(1) << 48)
/* Ranks of one kind of parallelism. */
#define MAX_RANKS 65536u
/* Every stage has room for all layers of a group. */
#define MAX_STAGE_LAYERS (UINT64_C(1) << 24)

void pkv_plan_params_init(pkv_plan_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->max_num_batched_tokens = 8192;
    params->max_concurrent_batches = 1;
    params->num_blocks_override = PKV_NO_OVERRIDE;
    params->tp = params->dcp = params->pcp = 1;
    params->enable_hybrid = 1;
    params->caching = 1;
    params->draft_block_drop = 1;
    params->draft_lookahead_hashes = 1;
    params->hisparse_index_topk = 2048;
}

static pkv_status out_of_range(const char *field, uint64_t value, uint64_t min, uint64_t max)
{
    return pkvi_fail(PKV_E_INVAL,
                     "pkv_plan_create: %s %" PRIu64 " is not within %" PRIu64 " and %" PRIu64,
                     field, value, min, max);
}

static pkv_status check_ranges(const pkv_plan_params *p)
{
    const struct {
        const char *field;
        uint64_t value, min, max;
    } ranges[] = {
        {"max_model_len", p->max_model_len, 1, MAX_TOKENS},
        {"max_num_batched_tokens", p->max_num_batched_tokens, 1, MAX_TOKENS},
        {"max_concurrent_batches", p->max_concurrent_batches, 1, PKV_SPEC_LIMIT},
        {"max_encoder_tokens", p->max_encoder_tokens, 0, MAX_TOKENS},
        {"tp", p->tp, 1, MAX_RANKS},
        {"dcp", p->dcp, 1, MAX_RANKS},
        {"pcp", p->pcp, 1, MAX_RANKS},
        {"layout", p->layout, 0, PKV_N_LAYOUTS - 1},
        {"revision", p->revision, 0, PKV_REVISION_SEED},
        {"draft_method", p->draft_method, 0, PKV_DRAFT_NGRAM},
        {"draft_tokens", p->draft_tokens, 0, 65536},
        {"hisparse_host_bytes", p->hisparse_host_bytes, 0, PKVI_SIZE_MAX},
        {"hisparse_device_rows", p->hisparse_device_rows, 0, PKV_SPEC_LIMIT},
        {"hisparse_index_topk", p->hisparse_index_topk, 1, PKV_SPEC_LIMIT},
        {"prefix_match_unit", p->prefix_match_unit, 0, PKV_SPEC_LIMIT},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max) {
            return out_of_range(ranges[i].field, ranges[i].value, ranges[i].min, ranges[i].max);
        }
    }
    if (p->num_blocks_override != PKV_NO_OVERRIDE && p->num_blocks_override > PKVI_SIZE_MAX) {
        return out_of_range("num_blocks_override", p->num_blocks_override, 0, PKVI_SIZE_MAX);
    }
    if (p->retention_interval != PKV_RETAIN_DENSE && p->retention_interval > PKV_SPEC_LIMIT) {
        return out_of_range("retention_interval", p->retention_interval, 0, PKV_SPEC_LIMIT);
    }
    return PKV_OK;
}

static pkv_status check_workers(const pkv_plan_params *p)
{
    if ((p->n_layers > 0 && !p->layers) || (p->n_workers > 0 && !p->workers) ||
        p->n_layers > PKV_SPEC_LIMIT / 4 || p->n_workers > MAX_RANKS) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_plan_create: layers [%" PRIu32 "] or workers [%" PRIu32 "]",
                         p->n_layers, p->n_workers);
    }
    if ((uint64_t)p->n_workers * p->n_layers > MAX_STAGE_LAYERS) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_plan_create: %" PRIu32 " workers of %" PRIu32
                         " layers: more than 2^24 pairs",
                         p->n_workers, p->n_layers);
    }
    for (uint32_t w = 0; w < p->n_workers; w++) {
        const pkv_plan_worker *worker = &p->workers[w];
        if (worker->n_layers > p->n_layers || (worker->n_layers > 0 && !worker->layers)) {
            return pkvi_fail(PKV_E_INVAL,
                             "pkv_plan_create: worker %" PRIu32 ": layers [%" PRIu32 "]", w,
                             worker->n_layers);
        }
        for (uint32_t i = 0; i < worker->n_layers; i++) {
            if (worker->layers[i] >= p->n_layers) {
                return pkvi_fail(PKV_E_INVAL,
                                 "pkv_plan_create: worker %" PRIu32 ": layer %" PRIu32
                                 " of %" PRIu32,
                                 w, worker->layers[i], p->n_layers);
            }
        }
    }
    return PKV_OK;
}

pkv_status pkvi_params_import(const pkv_plan_params *given, pkv_plan_params *out)
{
    pkv_plan_params_init(out);
    PKVI_RETURN_IF(pkvi_import_params("pkv_plan_create", given, out, sizeof *out));
    PKVI_RETURN_IF(check_ranges(out));
    return check_workers(out);
}

/* Any layer that keeps aligned states makes the whole cache do so: it is one setting there. */
pkv_status pkv_plan_params_limits(const pkv_plan_params *params, pkv_limits *out)
{
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_plan_params_limits: params or out is NULL");
    }
    if (params->dcp == 0) {
        return pkvi_fail(PKV_E_INVAL, "pkv_plan_params_limits: dcp is 0");
    }
    pkv_limits limits = {
        .max_model_len = params->max_model_len,
        .max_encoder_tokens = params->max_encoder_tokens,
        .dcp = params->dcp,
        .resident_full_length = params->revision == PKV_REVISION_SEED,
    };
    if (!pkvi_mul(params->max_concurrent_batches, params->max_num_batched_tokens,
                  &limits.max_in_flight_tokens)) {
        return pkvi_fail(PKV_E_OVERFLOW,
                         "pkv_plan_params_limits: max_concurrent_batches %" PRIu64
                         " * max_num_batched_tokens %" PRIu64 " exceeds 2^63-1",
                         params->max_concurrent_batches, params->max_num_batched_tokens);
    }
    for (uint32_t i = 0; i < params->n_layers; i++) {
        const pkv_spec *spec = &params->layers[i];
        if (spec->kind == PKV_KIND_MAMBA && spec->mamba_mode == PKV_MAMBA_ALIGN) {
            limits.mamba_align = 1;
        }
    }
    *out = limits;
    return PKV_OK;
}

/* Tokens that a drafter needs of the step before it runs; only what it looks ahead. */
uint64_t pkvi_prefill_lookahead(const pkv_plan_params *params)
{
    switch (params->draft_method) {
    case PKV_DRAFT_EAGLE:
    case PKV_DRAFT_MTP:
    case PKV_DRAFT_DFLASH: return 1;
    case PKV_DRAFT_MTP_MULTI: return params->draft_tokens;
    default: return 0;
    }
}

bool pkvi_drops_draft_block(const pkv_plan_params *params)
{
    return params->draft_block_drop && params->draft_method >= PKV_DRAFT_EAGLE &&
           params->draft_method <= PKV_DRAFT_MTP_MULTI;
}

uint64_t pkv_plan_params_extra_retained(const pkv_plan_params *params)
{
    const uint64_t lookahead = pkvi_prefill_lookahead(params);
    return lookahead > 1 ? lookahead - 1 : 0;
}
