/* summary.h  The figures of a finished plan. */
#ifndef PKVI_SUMMARY_H
#define PKVI_SUMMARY_H

#include "plan/plan_internal.h"

/* Fills all but num_blocks, layout, n_workers and caching, which are set before.
 * *sizes_error_out: why the block and hash sizes cannot be resolved, or "". */
pkv_status pkvi_summarize(pkvi_planner *p, const pkvi_worker *first, pkv_plan_summary *summary,
                          const char **sizes_error_out);

/* What a worker must know of the precision of its layers. */
void pkvi_note_precision(pkvi_worker *w);

#endif
