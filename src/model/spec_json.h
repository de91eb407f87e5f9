/* spec_json.h  One layer spec as an object of a plan document. */
#ifndef PKVI_SPEC_JSON_H
#define PKVI_SPEC_JSON_H

#include <pkv/spec.h>

#include "base/arena.h"
#include "model/json.h"

enum { PKVI_N_ROLES = 2, PKVI_N_MAMBA_MODES = 2 };

/* Names of pkv_cache_role and pkv_mamba_mode in documents. */
extern const char *const pkvi_role_names[PKVI_N_ROLES];
extern const char *const pkvi_mamba_mode_names[PKVI_N_MAMBA_MODES];

/* Reads a layer object and finishes the spec. `place` says in messages where it stands
 * ("layers[3]"). INVAL: "kind" or a needed field is missing, a name that no kind has, a field that
 * this kind lacks, a wrong type or range; else what pkv_spec_finish() says. "name" is skipped.
 * Texts and states lie in the arena or are static. On failure *out is unspecified. */
pkv_status pkvi_spec_from_json(const char *function, const char *place, const json_t *object,
                               pkvi_arena *arena, pkv_spec *out);

#endif
