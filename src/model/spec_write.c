/* spec_write.c  Writes layer specs as input documents have them, over the table of fields. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <pkv/document.h>

#include "base/error.h"
#include "model/spec_json.h"
#include "spec/fields.h"
#include "spec/kind.h"

/* Text of which only what fits is kept, while its whole length is counted. */
typedef struct writer {
    char *text;
    size_t size, len;
} writer;

static void put(writer *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(writer *w, const char *fmt, ...)
{
    va_list args;
    const bool room = w->len < w->size;
    va_start(args, fmt);
    const int n = vsnprintf(room ? w->text + w->len : NULL, room ? w->size - w->len : 0, fmt, args);
    va_end(args);
    w->len += n > 0 ? (size_t)n : 0;
}

static void put_text(writer *w, const char *text)
{
    put(w, "\"");
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20) {
            put(w, "\\u%04x", (unsigned)*c);
        } else {
            put(w, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        }
    }
    put(w, "\"");
}

static void put_states(writer *w, const pkv_spec *spec, pkvi_field_type type)
{
    for (uint32_t i = 0; i < spec->n_states; i++) {
        put(w, i ? ", " : "[");
        if (type == PKVI_FIELD_DTYPES) {
            put(w, "\"%s\"", pkv_dtype_name(spec->states[i].dtype));
            continue;
        }
        put(w, "[");
        for (uint32_t d = 0; d < spec->states[i].rank; d++) {
            put(w, "%s%" PRIu64, d ? ", " : "", spec->states[i].dims[d]);
        }
        put(w, "]");
    }
    put(w, "]");
}

/* The number of an integer or enumeration field. */
static uint64_t number_of(const pkv_spec *spec, const pkvi_field *f)
{
    const char *member = (const char *)spec + f->offset;
    uint64_t wide;
    uint32_t narrow;
    switch (f->type) {
    case PKVI_FIELD_BOOL: return *(const uint8_t *)member;
    case PKVI_FIELD_U64: memcpy(&wide, member, sizeof wide); return wide;
    default: memcpy(&narrow, member, sizeof narrow); return narrow;
    }
}

static const char *text_of(const pkv_spec *spec, const pkvi_field *f)
{
    const char *text;
    memcpy(&text, (const char *)spec + f->offset, sizeof text);
    return text;
}

/* Whether documents write the field of this spec at all. */
static bool is_written(const pkv_spec *spec, const pkvi_field *f)
{
    if (!(f->kinds >> spec->kind & 1u) || f->offset == offsetof(pkv_spec, is_draft)) {
        return false;
    }
    switch (f->type) {
    case PKVI_FIELD_TEXT: return text_of(spec, f) != NULL;
    case PKVI_FIELD_RATIO:
    case PKVI_FIELD_SHAPES:
    case PKVI_FIELD_DTYPES: return true;
    default: return !f->optional || number_of(spec, f) != 0;
    }
}

static void put_value(writer *w, const pkv_spec *spec, const pkvi_field *f)
{
    const pkv_ratio ratio = spec->tokens_per_state;
    switch (f->type) {
    case PKVI_FIELD_U64:
    case PKVI_FIELD_U32: put(w, "%" PRIu64, number_of(spec, f)); break;
    case PKVI_FIELD_BOOL: put(w, number_of(spec, f) ? "true" : "false"); break;
    case PKVI_FIELD_TEXT: put_text(w, text_of(spec, f)); break;
    case PKVI_FIELD_DTYPE: put(w, "\"%s\"", pkv_dtype_name(spec->dtype)); break;
    case PKVI_FIELD_QUANT: put(w, "\"%s\"", pkv_quant_mode_name(spec->kv_quant_mode)); break;
    case PKVI_FIELD_ROLE: put(w, "\"%s\"", pkvi_role_names[spec->cache_role]); break;
    case PKVI_FIELD_MODE: put(w, "\"%s\"", pkvi_mamba_mode_names[spec->mamba_mode]); break;
    case PKVI_FIELD_RATIO:
        if (ratio.den == 1) {
            put(w, "%" PRIu32, ratio.num);
        } else {
            put(w, "\"%" PRIu32 "/%" PRIu32 "\"", ratio.num, ratio.den);
        }
        break;
    case PKVI_FIELD_STRIDE:
        put(w,
            spec->stride_rule == PKV_STRIDE_BYTES ? "%" PRIu64 : "{\"multiple_of\": %" PRIu64 "}",
            spec->block_stride_alignment);
        break;
    case PKVI_FIELD_SHAPES:
    case PKVI_FIELD_DTYPES: put_states(w, spec, f->type); break;
    }
}

/* Only what would be written as a name must be known: sizes of planned specs may exceed the limits
 * of input. */
static bool has_names(const pkv_spec *spec)
{
    if (!pkv_kind_name(spec->kind)) {
        return false;
    }
    for (uint32_t i = 0; i < spec->n_states; i++) {
        if (pkv_dtype_bytes(spec->states[i].dtype) == 0 ||
            spec->states[i].rank > PKV_STATE_MAX_RANK) {
            return false;
        }
    }
    const bool typed = pkvi_is(spec, PKVI_IS_ATTENTION);
    return (!typed || pkv_dtype_bytes(spec->dtype) != 0) &&
           pkv_quant_mode_name(spec->kv_quant_mode) && spec->cache_role < PKVI_N_ROLES &&
           spec->mamba_mode < PKVI_N_MAMBA_MODES;
}

pkv_status pkv_spec_to_json(const pkv_spec *spec, char *text, size_t size, size_t *len_out)
{
    writer w = {text, size, 0};
    if (!spec || !len_out || (!text && size != 0)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_spec_to_json: spec, len_out or text is NULL");
    }
    if (!has_names(spec)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_spec_to_json: kind %" PRIu32 ", dtype %" PRIu32
                         ", kv_quant_mode %" PRIu32 " or a state of it is unknown",
                         spec->kind, spec->dtype, spec->kv_quant_mode);
    }
    put(&w, "{\"kind\": \"%s\"", pkv_kind_name(spec->kind));
    for (size_t i = 0; i < pkvi_n_spec_fields; i++) {
        const pkvi_field *f = &pkvi_spec_fields[i];
        if (is_written(spec, f)) {
            put(&w, ", \"%s\": ", f->name);
            put_value(&w, spec, f);
        }
    }
    put(&w, "}");
    *len_out = w.len;
    if (size != 0 && w.len >= size) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_spec_to_json: size %zu is too small for %zu bytes and NUL", size,
                         w.len);
    }
    return PKV_OK;
}
