/* engine.h  Stands in for an engine: prints what a real one would run and hand to its kernels. */
#ifndef ENGINE_H
#define ENGINE_H

#include <pkv/pkv.h>

/* A call that fails has said why. */
#define OK(call) ((call) == PKV_OK ? (void)0 : give_up(#call))
_Noreturn void give_up(const char *call);

/* Before the kernels of a step: zero-fills, then copies. After it they count as done. */
void before_step(pkv_cache *cache, const pkv_allocate_result *todo);
/* What kernels read: per group the block table as a row, and the slot of token `at`. */
void show(const char *name, const pkv_cache *cache, const pkv_seq *seq, uint64_t at);

#endif
