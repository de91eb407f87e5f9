/* project.h  The groups of the whole model as one worker sees them. */
#ifndef PKVI_PROJECT_H
#define PKVI_PROJECT_H

#include "plan/plan_internal.h"

/* owned: [params->n_layers] layers that the worker has */
pkv_status pkvi_project(pkvi_planner *p, const pkvi_groups *groups, const bool *owned,
                        pkvi_worker *out);

#endif
