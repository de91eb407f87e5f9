/* spec_json.c  Reads layer specs as documents write them, over the table of fields. spec_write.c is
 * the way back. */
#include "model/spec_json.h"

#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "spec/fields.h"
#include "spec/kind.h"

enum { MAX_STATES = 64 };

const char *const pkvi_role_names[PKVI_N_ROLES] = {"sparse", "indexer"};
const char *const pkvi_mamba_mode_names[PKVI_N_MAMBA_MODES] = {"none", "align"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- reading ---- */

typedef struct reader {
    pkvi_json_at at;
    pkvi_arena *arena;
    pkv_spec *spec;
} reader;

static void *member_of(pkv_spec *spec, const pkvi_field *f)
{
    return (char *)spec + f->offset;
}

static pkv_status no_memory(const reader *r)
{
    return pkvi_fail(PKV_E_NOMEM, "%s: no memory for a layer", r->at.function);
}

static bool find_name(const char *const *names, size_t n, const char *text, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* An enumeration by its name. */
static pkv_status read_enum(const reader *r, const pkvi_field *f, const json_t *value)
{
    const char *text = json_string_value(value); /* NULL for anything else */
    const char *expected = "";
    uint32_t number = 0;
    bool found = false;
    switch (f->type) {
    case PKVI_FIELD_DTYPE:
        expected = "a dtype such as \"bfloat16\"";
        found = text && pkv_dtype_from_name(text, &number) == PKV_OK;
        break;
    case PKVI_FIELD_QUANT:
        expected = "a mode such as \"none\" or \"fp8_per_tensor\"";
        found = text && pkv_quant_mode_from_name(text, &number) == PKV_OK;
        break;
    case PKVI_FIELD_ROLE:
        expected = "\"sparse\" or \"indexer\"";
        found = text && find_name(pkvi_role_names, PKVI_N_ROLES, text, &number);
        break;
    default:
        expected = "\"none\" or \"align\"";
        found = text && find_name(pkvi_mamba_mode_names, PKVI_N_MAMBA_MODES, text, &number);
        break;
    }
    if (!found) {
        return pkvi_json_bad(&r->at, f->name, value, expected);
    }
    memcpy(member_of(r->spec, f), &number, sizeof number);
    return PKV_OK;
}

/* The text, without a copy where it is one that nearly every latent layer has. */
static pkv_status read_text(const reader *r, const pkvi_field *f, const json_t *value)
{
    static const char *const common[] = {"auto",     "fp8",          "fp8_e4m3",   "fp8_ds_mla",
                                         "bfloat16", "nvfp4_ds_mla", "deepseek_v4"};
    uint32_t i;
    const char *text = json_string_value(value);
    if (!text) {
        return pkvi_json_bad(&r->at, f->name, value, "a text");
    }
    text = find_name(common, COUNT(common), text, &i) ? common[i] : pkvi_arena_text(r->arena, text);
    if (!text) {
        return no_memory(r);
    }
    memcpy(member_of(r->spec, f), &text, sizeof text);
    return PKV_OK;
}

/* Decimal digits of a number from 1 to the limit of specs. */
static bool parse_part(const char **text, uint64_t *out)
{
    uint64_t n = 0;
    const char *at = *text;
    while (*at >= '0' && *at <= '9' && n <= PKV_SPEC_LIMIT) {
        n = 10 * n + (uint64_t)(*at++ - '0');
    }
    *text = at;
    *out = n;
    return n >= 1 && n <= PKV_SPEC_LIMIT;
}

/* 4 or "1/4", in lowest terms, so that equal ratios are equal specs. */
static pkv_status read_ratio(const reader *r, const pkvi_field *f, const json_t *value)
{
    uint64_t num = 0, den = 1;
    bool right;
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        right = parse_part(&text, &num) && *text++ == '/' && parse_part(&text, &den) && !*text;
    } else {
        const json_int_t n = json_integer_value(value);
        right = json_is_integer(value) && n >= 1 && n <= (json_int_t)PKV_SPEC_LIMIT;
        num = right ? (uint64_t)n : 0;
    }
    if (!right) {
        return pkvi_json_bad(&r->at, f->name, value,
                             "an integer from 1 to 2147483647 or a ratio such as \"1/4\"");
    }
    const uint64_t common = pkvi_gcd(num, den);
    const pkv_ratio ratio = {(uint32_t)(num / common), (uint32_t)(den / common)};
    memcpy(member_of(r->spec, f), &ratio, sizeof ratio);
    return PKV_OK;
}

/* Bytes, or {"multiple_of": tokens}. Bytes of 0 are for pkv_spec_finish() to refuse. */
static pkv_status read_stride(const reader *r, const pkvi_field *f, const json_t *value)
{
    static const char *const names[] = {"multiple_of"};
    if (json_is_object(value)) {
        const pkvi_json_at at = {r->at.function, f->name, value};
        PKVI_RETURN_IF(pkvi_json_check_names(&at, names, COUNT(names)));
        r->spec->stride_rule = PKV_STRIDE_KERNEL_BLOCKS;
        return pkvi_json_u64(&at, names[0], 1, PKV_SPEC_LIMIT, &r->spec->block_stride_alignment);
    }
    r->spec->stride_rule = PKV_STRIDE_BYTES;
    return pkvi_json_number(&r->at, f->name, value, 0, PKV_SPEC_LIMIT,
                            &r->spec->block_stride_alignment);
}

static pkv_status read_shape(const reader *r, const pkvi_field *f, const json_t *shape,
                             pkv_state *state)
{
    if (!json_is_array(shape) || json_array_size(shape) > PKV_STATE_MAX_RANK) {
        return pkvi_json_bad(&r->at, f->name, shape, "shapes of at most 6 dimensions");
    }
    state->rank = (uint32_t)json_array_size(shape);
    for (size_t d = 0; d < state->rank; d++) {
        PKVI_RETURN_IF(pkvi_json_number(&r->at, f->name, json_array_get(shape, d), 1,
                                        PKV_SPEC_LIMIT, &state->dims[d]));
    }
    return PKV_OK;
}

/* Shapes and dtypes are two lists of the document and one of the spec: the first that is read
 * makes it, the second must be as long. */
static pkv_status read_states(const reader *r, const pkvi_field *f, const json_t *value,
                              pkv_state **states)
{
    const size_t n = json_array_size(value); /* 0 for anything else */
    if (n < 1 || n > MAX_STATES) {
        return pkvi_json_bad(&r->at, f->name, value, "an array of 1 to 64");
    }
    if (!*states) {
        *states = pkvi_arena_get(r->arena, n, sizeof **states);
        r->spec->n_states = (uint32_t)n;
        r->spec->states = *states;
    }
    if (!*states) {
        return no_memory(r);
    }
    if (n != r->spec->n_states) {
        return pkvi_json_bad(&r->at, f->name, value, "as many shapes as dtypes");
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(value, i);
        if (f->type == PKVI_FIELD_SHAPES) {
            PKVI_RETURN_IF(read_shape(r, f, item, &(*states)[i]));
        } else if (!json_is_string(item) ||
                   pkv_dtype_from_name(json_string_value(item), &(*states)[i].dtype) != PKV_OK) {
            return pkvi_json_bad(&r->at, f->name, item, "dtypes such as \"bfloat16\"");
        }
    }
    return PKV_OK;
}

static pkv_status read_number(const reader *r, const pkvi_field *f, const json_t *value)
{
    const bool bytes = f->offset == offsetof(pkv_spec, page_size_padded) ||
                       f->offset == offsetof(pkv_spec, page_size);
    uint64_t number;
    PKVI_RETURN_IF(pkvi_json_number(&r->at, f->name, value, f->min,
                                    bytes ? PKVI_SIZE_MAX : PKV_SPEC_LIMIT, &number));
    if (f->type == PKVI_FIELD_U32) {
        const uint32_t narrow = (uint32_t)number;
        memcpy(member_of(r->spec, f), &narrow, sizeof narrow);
    } else {
        memcpy(member_of(r->spec, f), &number, sizeof number);
    }
    return PKV_OK;
}

static pkv_status read_field(const reader *r, const pkvi_field *f, const json_t *value,
                             pkv_state **states)
{
    switch (f->type) {
    case PKVI_FIELD_U64:
    case PKVI_FIELD_U32: return read_number(r, f, value);
    case PKVI_FIELD_BOOL:
        if (!json_is_boolean(value)) {
            return pkvi_json_bad(&r->at, f->name, value, "true or false");
        }
        *(uint8_t *)member_of(r->spec, f) = json_is_true(value);
        return PKV_OK;
    case PKVI_FIELD_TEXT: return read_text(r, f, value);
    case PKVI_FIELD_RATIO: return read_ratio(r, f, value);
    case PKVI_FIELD_STRIDE: return read_stride(r, f, value);
    case PKVI_FIELD_SHAPES:
    case PKVI_FIELD_DTYPES: return read_states(r, f, value, states);
    default: return read_enum(r, f, value);
    }
}

static pkv_status read_kind(const pkvi_json_at *at, uint32_t *kind_out)
{
    const char *text;
    PKVI_RETURN_IF(pkvi_json_text(at, "kind", &text));
    if (pkv_kind_from_name(text, kind_out) != PKV_OK ||
        pkvi_kind_bits(*kind_out) & PKVI_IS_DERIVED) {
        return pkvi_json_bad(at, "kind", json_object_get(at->json, "kind"),
                             "a kind of layer such as \"full_attention\"");
    }
    return PKV_OK;
}

/* Fields without which the layer has no size. */
static pkv_status check_present(const reader *r)
{
    for (size_t i = 0; i < pkvi_n_spec_fields; i++) {
        const pkvi_field *f = &pkvi_spec_fields[i];
        const bool defaulted = f->optional || f->min == 0 || f->type == PKVI_FIELD_RATIO;
        if ((f->kinds >> r->spec->kind & 1u) && !defaulted && !pkvi_json_get(&r->at, f->name)) {
            return pkvi_fail(PKV_E_INVAL, "%s: %s: %s is missing, but %s needs it", r->at.function,
                             r->at.place, f->name, pkv_kind_name(r->spec->kind));
        }
    }
    return PKV_OK;
}

static pkv_status read_fields(const reader *r)
{
    const char *key;
    json_t *value;
    pkvi_quoted quoted;
    pkv_state *states = NULL;
    /* the macro takes the object without const, though it only reads */
    json_object_foreach((json_t *)(uintptr_t)r->at.json, key, value)
    {
        bool known;
        if (strcmp(key, "kind") == 0 || strcmp(key, "name") == 0) {
            continue;
        }
        const pkvi_field *f = pkvi_spec_field(key, r->spec->kind, &known);
        if (!known) {
            return pkvi_fail(PKV_E_INVAL, "%s: %s: %s is not a field of layers", r->at.function,
                             r->at.place, pkvi_quote(key, &quoted));
        }
        if (json_is_null(value)) {
            continue;
        }
        if (!f) {
            return pkvi_fail(PKV_E_INVAL, "%s: %s: %s has no field \"%s\"", r->at.function,
                             r->at.place, pkv_kind_name(r->spec->kind), key);
        }
        PKVI_RETURN_IF(read_field(r, f, value, &states));
    }
    return check_present(r);
}

pkv_status pkvi_spec_from_json(const char *function, const char *place, const json_t *object,
                               pkvi_arena *arena, pkv_spec *out)
{
    const reader r = {{function, place, object}, arena, out};
    pkvi_quoted quoted;
    uint32_t kind;
    PKVI_RETURN_IF(pkvi_json_check_object(&r.at));
    PKVI_RETURN_IF(read_kind(&r.at, &kind));
    PKVI_RETURN_IF(pkv_spec_init(out, kind));
    PKVI_RETURN_IF(read_fields(&r));
    pkv_status st = pkv_spec_finish(out);
    if (st != PKV_OK) {
        const char *name = json_string_value(json_object_get(object, "name"));
        pkvi_error_context(function, "%s%s", name ? "layer " : "",
                           name ? pkvi_quote(name, &quoted) : place);
    }
    return st;
}
