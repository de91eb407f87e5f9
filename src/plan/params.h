/* params.h  The caller's parameters, checked. */
#ifndef PKVI_PARAMS_H
#define PKVI_PARAMS_H

#include <stdbool.h>

#include <pkv/plan.h>

/* A copy of what this library knows of the caller's struct; INVAL, VERSION. */
pkv_status pkvi_params_import(const pkv_plan_params *given, pkv_plan_params *out);

/* Tokens after a block that its drafter's content depends on. */
uint64_t pkvi_prefill_lookahead(const pkv_plan_params *params);
/* Whether prefix hits of draft groups lose their last block. */
bool pkvi_drops_draft_block(const pkv_plan_params *params);

#endif
