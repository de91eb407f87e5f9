/* fields.h  The fields of a spec as data: which kinds have them, what they may hold, and the name
 * that documents give them. One table serves checking, reading and writing. */
#ifndef PKVI_FIELDS_H
#define PKVI_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <pkv/spec.h>

typedef enum pkvi_field_type {
    PKVI_FIELD_U64,
    PKVI_FIELD_U32,
    PKVI_FIELD_BOOL,   /* uint8_t */
    PKVI_FIELD_TEXT,   /* const char * */
    PKVI_FIELD_DTYPE,  /* uint32_t, pkv_dtype */
    PKVI_FIELD_QUANT,  /* uint32_t, pkv_quant_mode */
    PKVI_FIELD_ROLE,   /* uint32_t, pkv_cache_role */
    PKVI_FIELD_MODE,   /* uint32_t, pkv_mamba_mode */
    PKVI_FIELD_RATIO,  /* pkv_ratio */
    PKVI_FIELD_STRIDE, /* stride_rule at offset, block_stride_alignment beside it */
    PKVI_FIELD_SHAPES, /* states, n_states: the shapes */
    PKVI_FIELD_DTYPES  /* states, n_states: the dtypes */
} pkvi_field_type;

typedef struct pkvi_field {
    const char *name;
    pkvi_field_type type;
    uint32_t offset; /* into pkv_spec */
    uint32_t kinds;  /* bit k: kind k has the field */
    uint64_t min;    /* U64, U32: least value when present */
    bool optional;   /* 0 stands for "absent" */
} pkvi_field;

extern const pkvi_field pkvi_spec_fields[];
extern const size_t pkvi_n_spec_fields;

/* The field of that name that `kind` has, or NULL. *known_out: some kind has it. */
const pkvi_field *pkvi_spec_field(const char *name, uint32_t kind, bool *known_out);

#endif
