/* spec.c  The life of a spec: defaults, checks, construction, equality, another block size. */
#include "spec/spec.h"

#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/math.h"
#include "spec/fields.h"
#include "spec/kind.h"

static pkv_spec defaults_of(uint32_t kind)
{
    pkv_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.kind = kind;
    if (pkvi_kind_bits(kind) & PKVI_IS_ATTENTION) {
        spec.dcp_sharded = 1;
        spec.head_size_v = PKV_HEAD_SIZE_V_DEFAULT;
        spec.tokens_per_state = (pkv_ratio){1, 1};
    }
    return spec;
}

pkv_status pkv_spec_init(pkv_spec *spec, uint32_t kind)
{
    if (!spec) {
        return pkvi_fail(PKV_E_INVAL, "pkv_spec_init: spec is NULL");
    }
    if (kind >= PKV_N_KINDS) {
        return pkvi_fail(PKV_E_INVAL, "pkv_spec_init: kind %" PRIu32 " is unknown", kind);
    }
    *spec = defaults_of(kind);
    return PKV_OK;
}

static size_t field_bytes(pkvi_field_type type)
{
    switch (type) {
    case PKVI_FIELD_BOOL: return 1;
    case PKVI_FIELD_U32:
    case PKVI_FIELD_DTYPE:
    case PKVI_FIELD_QUANT:
    case PKVI_FIELD_ROLE:
    case PKVI_FIELD_MODE:
    case PKVI_FIELD_STRIDE: return 4;
    default: return 8;
    }
}

static pkv_status bad_field(const pkv_spec *spec, const pkvi_field *f, uint64_t value)
{
    return pkvi_fail(PKV_E_INVAL, "pkv_spec_finish: %s: %s %" PRIu64 " is out of range",
                     pkv_kind_name(spec->kind), f->name, value);
}

static pkv_status check_number(const pkv_spec *spec, const pkvi_field *f)
{
    uint64_t value;
    uint64_t limit = PKV_SPEC_LIMIT;
    if (f->type == PKVI_FIELD_U64) {
        memcpy(&value, (const char *)spec + f->offset, sizeof value);
    } else {
        uint32_t narrow;
        memcpy(&narrow, (const char *)spec + f->offset, sizeof narrow);
        value = narrow;
    }
    switch (f->type) {
    case PKVI_FIELD_DTYPE: limit = PKV_N_DTYPES - 1; break;
    case PKVI_FIELD_QUANT: limit = PKV_N_QUANT_MODES - 1; break;
    case PKVI_FIELD_ROLE: limit = PKV_ROLE_INDEXER; break;
    case PKVI_FIELD_MODE: limit = PKV_MAMBA_ALIGN; break;
    default: break;
    }
    if (f->offset == offsetof(pkv_spec, page_size_padded) ||
        f->offset == offsetof(pkv_spec, page_size)) {
        limit = PKVI_SIZE_MAX;
    }
    if (f->offset == offsetof(pkv_spec, head_size_v) && value == PKV_HEAD_SIZE_V_DEFAULT) {
        return PKV_OK;
    }
    if (value == 0 && f->optional) {
        return PKV_OK;
    }
    return value < f->min || value > limit ? bad_field(spec, f, value) : PKV_OK;
}

static pkv_status check_states(const pkv_spec *spec)
{
    if (!spec->states || spec->n_states == 0 || spec->n_states > 64) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_spec_finish: mamba: 1 to 64 states are needed, not %" PRIu32,
                         spec->states ? spec->n_states : 0);
    }
    for (uint32_t i = 0; i < spec->n_states; i++) {
        const pkv_state *state = &spec->states[i];
        if (pkv_dtype_bytes(state->dtype) == 0 || state->rank > PKV_STATE_MAX_RANK) {
            return pkvi_fail(PKV_E_INVAL,
                             "pkv_spec_finish: mamba: state %" PRIu32 " has dtype %" PRIu32
                             " and rank %" PRIu32,
                             i, state->dtype, state->rank);
        }
        for (uint32_t d = 0; d < state->rank; d++) {
            if (state->dims[d] == 0 || state->dims[d] > PKV_SPEC_LIMIT) {
                return pkvi_fail(PKV_E_INVAL,
                                 "pkv_spec_finish: mamba: state %" PRIu32
                                 " has a dimension of %" PRIu64,
                                 i, state->dims[d]);
            }
        }
    }
    return PKV_OK;
}

static pkv_status check_stride(const pkv_spec *spec)
{
    uint64_t value = spec->block_stride_alignment;
    const bool empty = spec->stride_rule == PKV_STRIDE_BYTES && value == 0; /* refused later */
    const bool wanted = spec->stride_rule != PKV_STRIDE_ANY;
    if (spec->stride_rule > PKV_STRIDE_KERNEL_BLOCKS || (wanted != (value != 0) && !empty) ||
        value > PKV_SPEC_LIMIT) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_spec_finish: block_stride_alignment %" PRIu64
                         " with stride_rule %" PRIu32,
                         value, spec->stride_rule);
    }
    return PKV_OK;
}

static pkv_status check_field(const pkv_spec *spec, const pkvi_field *f)
{
    switch (f->type) {
    case PKVI_FIELD_TEXT: return PKV_OK;
    case PKVI_FIELD_STRIDE: return check_stride(spec);
    case PKVI_FIELD_SHAPES: return check_states(spec);
    case PKVI_FIELD_DTYPES: return PKV_OK; /* with the shapes */
    case PKVI_FIELD_RATIO:
        if (spec->tokens_per_state.num == 0 || spec->tokens_per_state.den == 0) {
            return bad_field(spec, f, 0);
        }
        return PKV_OK;
    case PKVI_FIELD_BOOL: {
        uint8_t value = *((const uint8_t *)spec + f->offset);
        return value > 1 ? bad_field(spec, f, value) : PKV_OK;
    }
    default: return check_number(spec, f);
    }
}

/* Fields of this kind are in range; all others are as init left them. */
static pkv_status check_fields(const pkv_spec *spec)
{
    const pkv_spec fresh = defaults_of(spec->kind);
    for (size_t i = 0; i < pkvi_n_spec_fields; i++) {
        const pkvi_field *f = &pkvi_spec_fields[i];
        bool known;
        if (f->kinds >> spec->kind & 1u) {
            PKVI_RETURN_IF(check_field(spec, f));
        } else if (memcmp((const char *)spec + f->offset, (const char *)&fresh + f->offset,
                          field_bytes(f->type)) != 0 &&
                   !pkvi_spec_field(f->name, spec->kind, &known)) {
            return pkvi_fail(PKV_E_INVAL, "pkv_spec_finish: %s has no %s",
                             pkv_kind_name(spec->kind), f->name);
        }
    }
    return PKV_OK;
}

/* They may mean something one day, and they take part in equality. */
static pkv_status check_reserved(const pkv_spec *spec)
{
    uint64_t bits = spec->reserved0 | spec->reserved1;
    for (size_t i = 0; i < sizeof spec->reserved2 / sizeof *spec->reserved2; i++) {
        bits |= spec->reserved2[i];
    }
    return bits == 0 ? PKV_OK
                     : pkvi_fail(PKV_E_INVAL, "pkv_spec_finish: a reserved field is not 0");
}

/* A pad belongs to one block size, so it is worked out from the unpadded page whenever that is not
 * aligned, and one that is smaller than the page is dropped: upstream keeps it, and the page then
 * refuses. */
pkv_status pkvi_spec_construct(pkv_spec *spec)
{
    if (spec->alignment == 0) {
        return PKV_OK;
    }
    uint64_t unpadded, padded;
    PKVI_RETURN_IF(pkv_spec_unpadded_page_bytes(spec, &unpadded));
    if (!pkvi_round_up(unpadded, spec->alignment, &padded)) {
        return pkvi_fail(PKV_E_OVERFLOW,
                         "pkv_spec_finish: alignment %" PRIu64 ": the page exceeds 2^63-1",
                         spec->alignment);
    }
    if (padded != unpadded) {
        spec->page_size_padded = padded;
    } else if (spec->page_size_padded < unpadded) {
        spec->page_size_padded = 0;
    }
    return PKV_OK;
}

pkv_status pkv_spec_finish(pkv_spec *spec)
{
    if (!spec) {
        return pkvi_fail(PKV_E_INVAL, "pkv_spec_finish: spec is NULL");
    }
    if (spec->kind >= PKV_N_KINDS) {
        return pkvi_fail(PKV_E_INVAL, "pkv_spec_finish: kind %" PRIu32 " is unknown", spec->kind);
    }
    PKVI_RETURN_IF(check_fields(spec));
    PKVI_RETURN_IF(check_reserved(spec));
    if (spec->kind == PKV_KIND_SLIDING_WINDOW_MLA && spec->model_version &&
        strcmp(spec->model_version, "deepseek_v4") != 0) {
        return pkvi_fail(PKV_E_ASSERT,
                         "pkv_spec_finish: model_version \"%.40s\" is not deepseek_v4",
                         spec->model_version);
    }
    if (spec->stride_rule == PKV_STRIDE_BYTES && spec->block_stride_alignment == 0) {
        return pkvi_fail(PKV_E_VALUE, "pkv_spec_finish: block_stride_alignment 0 is not positive");
    }
    pkv_spec done = *spec;
    if (done.head_size_v == PKV_HEAD_SIZE_V_DEFAULT) {
        done.head_size_v = pkvi_is(spec, PKVI_IS_LATENT) ? 0 : spec->head_size;
    }
    if (pkvi_is(spec, PKVI_IS_ATTENTION)) { /* lowest terms: equality compares bytes */
        const uint32_t g = (uint32_t)pkvi_gcd(done.tokens_per_state.num, done.tokens_per_state.den);
        done.tokens_per_state.num /= g;
        done.tokens_per_state.den /= g;
    }
    PKVI_RETURN_IF(pkvi_spec_construct(&done));
    *spec = done;
    return PKV_OK;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* A spec that was not checked may claim any rank. */
static size_t dims_bytes(const pkv_state *state)
{
    return pkvi_min(state->rank, PKV_STATE_MAX_RANK) * sizeof *state->dims;
}

static bool same_states(const pkv_spec *a, const pkv_spec *b)
{
    if (a->states == b->states || !a->states || !b->states) {
        return a->states == b->states && a->n_states == b->n_states;
    }
    if (a->n_states != b->n_states) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_states; i++) {
        const pkv_state *x = &a->states[i], *y = &b->states[i];
        if (x->dtype != y->dtype || x->rank != y->rank ||
            memcmp(x->dims, y->dims, dims_bytes(x)) != 0) {
            return false;
        }
    }
    return true;
}

/* The part that is compared as bytes: pkv_spec has no padding. */
static pkv_spec plain_part(const pkv_spec *spec)
{
    pkv_spec plain = *spec;
    plain.is_draft = 0;
    plain.cache_dtype = plain.model_version = plain.mamba_type = NULL;
    plain.states = NULL;
    return plain;
}

bool pkv_spec_equal(const pkv_spec *a, const pkv_spec *b)
{
    const pkv_spec x = plain_part(a), y = plain_part(b);
    return memcmp(&x, &y, sizeof x) == 0 && same_text(a->cache_dtype, b->cache_dtype) &&
           same_text(a->model_version, b->model_version) &&
           same_text(a->mamba_type, b->mamba_type) && same_states(a, b);
}

uint64_t pkvi_spec_hash(const pkv_spec *spec)
{
    const pkv_spec plain = plain_part(spec);
    uint64_t hash = XXH3_64bits(&plain, sizeof plain);
    if (spec->cache_dtype) {
        hash = XXH3_64bits_withSeed(spec->cache_dtype, strlen(spec->cache_dtype), hash);
    }
    for (uint32_t i = 0; spec->states && i < spec->n_states; i++) {
        hash = XXH3_64bits_withSeed(spec->states[i].dims, dims_bytes(&spec->states[i]), hash);
    }
    return hash;
}

pkv_status pkvi_spec_resize(const pkv_spec *spec, uint64_t block_size, pkv_spec *out)
{
    pkv_spec resized = *spec;
    resized.block_size = block_size;
    if (resized.alignment != 0) {
        resized.page_size_padded = 0;
    }
    PKVI_RETURN_IF(pkvi_spec_construct(&resized));
    *out = resized;
    return PKV_OK;
}

pkv_status pkv_spec_resize(const pkv_spec *spec, uint64_t block_size, pkv_spec *out)
{
    if (!spec || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_spec_resize: spec or out is NULL");
    }
    if (block_size == 0 || block_size > PKV_SPEC_LIMIT) {
        return pkvi_fail(PKV_E_INVAL, "pkv_spec_resize: block_size %" PRIu64 " is out of range",
                         block_size);
    }
    return pkvi_spec_resize(spec, block_size, out);
}
