/* quant_mode.c  Quantisation modes: names, families, and the content bytes that they give a layer.
 *
 * Bytes per head and state, from the slot layouts in docs/internals/plan.md (D = head_size, V of
 * the same size unless said):
 *
 *     fp8 per tensor   D + Dv             scale outside the page
 *     int8/fp8 t.-head D + Dv + 8         two inline fp32 scales
 *     int4 t.-head     D/2 + Dv/2 + 8
 *     nvfp4            D/2 + D/16          twice the heads: K and V own slots
 *     turboquant       K + V, even        K: D, or ceil(D*bits/8) + 2; V: ceil(D*bits/8) + 4
 *     ultraquant       2 * (D/2 + D/32)
 *     octave           K rope/2 + 3(D-rope)/8, V bits*D/8, 2 bytes per scale, rounded up to 8
 *     octave compact   3D/4 + 4, rounded up to 4 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "spec/kind.h"
#include "spec/spec.h"

static const char *const mode_names[PKV_N_QUANT_MODES] = {
    [PKV_QUANT_NONE] = "none",
    [PKV_QUANT_FP8_PER_TENSOR] = "fp8_per_tensor",
    [PKV_QUANT_INT8_PER_TOKEN_HEAD] = "int8_per_token_head",
    [PKV_QUANT_FP8_PER_TOKEN_HEAD] = "fp8_per_token_head",
    [PKV_QUANT_INT4_PER_TOKEN_HEAD] = "int4_per_token_head",
    [PKV_QUANT_NVFP4] = "nvfp4",
    [PKV_QUANT_TURBOQUANT_K8V4] = "turboquant_k8v4",
    [PKV_QUANT_TURBOQUANT_4BIT_NC] = "turboquant_4bit_nc",
    [PKV_QUANT_TURBOQUANT_K3V4_NC] = "turboquant_k3v4_nc",
    [PKV_QUANT_TURBOQUANT_3BIT_NC] = "turboquant_3bit_nc",
    [PKV_QUANT_NVFP4_DS_MLA] = "nvfp4_ds_mla",
    [PKV_QUANT_ULTRAQUANT_4BIT] = "ultraquant_4bit",
    [PKV_QUANT_OCTAVE_K3V4] = "octave_k3v4",
    [PKV_QUANT_OCTAVE_K3V3] = "octave_k3v3",
    [PKV_QUANT_OCTAVE_K3V3_COMPACT] = "octave_k3v3_compact",
    [PKV_QUANT_CUSTOM] = "custom",
};

const char *pkv_quant_mode_name(uint32_t mode)
{
    return mode < PKV_N_QUANT_MODES ? mode_names[mode] : NULL;
}

pkv_status pkv_quant_mode_from_name(const char *name, uint32_t *mode_out)
{
    if (!name || !mode_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_quant_mode_from_name: name or mode_out is NULL");
    }
    for (uint32_t i = 0; i < PKV_N_QUANT_MODES; i++) {
        if (strcmp(mode_names[i], name) == 0) {
            *mode_out = i;
            return PKV_OK;
        }
    }
    return PKV_E_NOT_FOUND;
}

bool pkv_quant_mode_is_per_token_head(uint32_t mode)
{
    return mode >= PKV_QUANT_INT8_PER_TOKEN_HEAD && mode <= PKV_QUANT_INT4_PER_TOKEN_HEAD;
}

bool pkv_quant_mode_is_turboquant(uint32_t mode)
{
    return mode >= PKV_QUANT_TURBOQUANT_K8V4 && mode <= PKV_QUANT_TURBOQUANT_3BIT_NC;
}

bool pkv_quant_mode_is_octave(uint32_t mode)
{
    return mode >= PKV_QUANT_OCTAVE_K3V4 && mode <= PKV_QUANT_OCTAVE_K3V3_COMPACT;
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

pkv_status pkv_quant_mode_of_cache_dtype(const char *name, uint32_t *mode_out)
{
    uint32_t mode;
    if (!name || !mode_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_quant_mode_of_cache_dtype: name or mode_out is NULL");
    }
    const bool named = pkv_quant_mode_from_name(name, &mode) == PKV_OK;
    if (named && (pkv_quant_mode_is_per_token_head(mode) || mode == PKV_QUANT_NVFP4_DS_MLA)) {
        *mode_out = mode;
    } else if (begins_with(name, "nvfp4")) {
        *mode_out = PKV_QUANT_NVFP4;
    } else if (begins_with(name, "turboquant_") || begins_with(name, "octave_")) {
        if (!named) {
            return pkvi_fail(PKV_E_INVAL, "pkv_quant_mode_of_cache_dtype: \"%.60s\" is not a mode",
                             name);
        }
        *mode_out = mode;
    } else if (strcmp(name, "ultraquant_4bit") == 0) {
        *mode_out = PKV_QUANT_ULTRAQUANT_4BIT;
    } else {
        *mode_out = begins_with(name, "fp8") ? PKV_QUANT_FP8_PER_TENSOR : PKV_QUANT_NONE;
    }
    return PKV_OK;
}

pkv_status pkv_turboquant_slot(uint32_t mode, uint64_t head_size, uint64_t *k_out, uint64_t *v_out,
                               uint64_t *slot_out)
{
    static const struct {
        uint8_t key_bits, value_bits; /* 8: keys are fp8, without a norm */
    } bits[] = {{8, 4}, {4, 4}, {3, 4}, {3, 3}};
    if (!pkv_quant_mode_is_turboquant(mode) || !k_out || !v_out || !slot_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_turboquant_slot: mode %" PRIu32 " is not TurboQuant",
                         mode);
    }
    if (head_size == 0 || head_size > PKV_SPEC_LIMIT) {
        return pkvi_fail(PKV_E_INVAL, "pkv_turboquant_slot: head_size %" PRIu64 " is out of range",
                         head_size);
    }
    const uint32_t key_bits = bits[mode - PKV_QUANT_TURBOQUANT_K8V4].key_bits;
    const uint32_t value_bits = bits[mode - PKV_QUANT_TURBOQUANT_K8V4].value_bits;
    *k_out = key_bits == 8 ? head_size : pkvi_ceil_div(head_size * key_bits, 8) + 2;
    *v_out = pkvi_ceil_div(head_size * value_bits, 8) + 4;
    *slot_out = (*k_out + *v_out + 1) / 2 * 2;
    return PKV_OK;
}

static pkv_status cannot(const pkv_spec *spec, const char *name, const char *why)
{
    return pkvi_fail(PKV_E_VALUE,
                     "pkv_spec_set_cache_dtype: %s of head_size %" PRIu64 "/%" PRIu64
                     " cannot be kept as %s: %s",
                     pkv_kind_name(spec->kind), spec->head_size, spec->head_size_v, name, why);
}

static pkv_status octave_slot(const pkv_spec *spec, const char *name, uint32_t mode, uint64_t rope,
                              uint64_t *slot_out)
{
    const uint64_t d = spec->head_size;
    if (d % 64 != 0 || rope % 64 != 0 || rope > d) {
        return cannot(spec, name, "head size and rope must be multiples of 64");
    }
    if (mode == PKV_QUANT_OCTAVE_K3V3_COMPACT) {
        *slot_out = (3 * d / 4 + 4 + 3) / 4 * 4;
        return PKV_OK;
    }
    const uint64_t value_bits = mode == PKV_QUANT_OCTAVE_K3V4 ? 4 : 3;
    const uint64_t scales = 2 * (d / 64 + 1);
    const uint64_t bytes = rope / 2 + 3 * (d - rope) / 8 + value_bits * d / 8 + scales;
    *slot_out = (bytes + 7) / 8 * 8;
    return PKV_OK;
}

/* Content of one head slot and state of a layer with K and V. */
static pkv_status dense_content(const pkv_spec *spec, const char *name, uint32_t mode,
                                uint64_t rope, uint64_t *out)
{
    const uint64_t d = spec->head_size, dv = spec->head_size_v;
    uint64_t k, v;
    if (mode == PKV_QUANT_INT8_PER_TOKEN_HEAD || mode == PKV_QUANT_FP8_PER_TOKEN_HEAD) {
        *out = d + dv + 8;
        return PKV_OK;
    }
    if (mode == PKV_QUANT_INT4_PER_TOKEN_HEAD) {
        *out = d / 2 + dv / 2 + 8;
        return PKV_OK;
    }
    if (d != dv) {
        return cannot(spec, name, "K and V must be equally wide");
    }
    switch (mode) {
    case PKV_QUANT_NVFP4:
        if (d % 16 != 0) {
            return cannot(spec, name, "one scale covers 16 elements");
        }
        *out = d / 2 + d / 16;
        return PKV_OK;
    case PKV_QUANT_ULTRAQUANT_4BIT:
        if (d % 32 != 0) {
            return cannot(spec, name, "one scale covers 32 elements");
        }
        *out = 2 * (d / 2 + d / 32);
        return PKV_OK;
    default: break;
    }
    if (pkv_quant_mode_is_octave(mode)) {
        return octave_slot(spec, name, mode, rope, out);
    }
    return pkv_turboquant_slot(mode, d, &k, &v, out);
}

/* Records of latent layers: one slot holds everything. */
static pkv_status latent_content(pkv_spec *spec, const char *name, uint32_t mode, uint64_t *out)
{
    const bool v4 = spec->model_version && strcmp(spec->model_version, "deepseek_v4") == 0;
    if (strcmp(name, "fp8_ds_mla") == 0) {
        *out = v4 ? 584 : 656;
        spec->alignment = v4 ? 576 : spec->alignment;
        return PKV_OK;
    }
    if (mode == PKV_QUANT_NVFP4_DS_MLA) {
        *out = 352;
        return PKV_OK;
    }
    if (pkv_quant_mode_is_per_token_head(mode)) {
        const bool int4 = mode == PKV_QUANT_INT4_PER_TOKEN_HEAD;
        *out = spec->head_size / (int4 ? 2 : 1) + 8; /* still a pair of scales */
        return PKV_OK;
    }
    return cannot(spec, name, "no record of a latent layer has this form");
}

pkv_status pkv_spec_set_cache_dtype(pkv_spec *spec, const char *cache_dtype, uint64_t rope)
{
    uint32_t mode;
    if (!spec || !cache_dtype) {
        return pkvi_fail(PKV_E_INVAL, "pkv_spec_set_cache_dtype: spec or cache_dtype is NULL");
    }
    if (!pkvi_is(spec, PKVI_IS_ATTENTION)) {
        return cannot(spec, cache_dtype, "it has no K and V");
    }
    PKVI_RETURN_IF(pkv_quant_mode_of_cache_dtype(cache_dtype, &mode));
    if (spec->state_content_bytes != 0) {
        return PKV_OK;
    }
    if (spec->head_size > PKV_SPEC_LIMIT || spec->num_kv_heads > PKV_SPEC_LIMIT ||
        (spec->head_size_v > PKV_SPEC_LIMIT && spec->head_size_v != PKV_HEAD_SIZE_V_DEFAULT)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_spec_set_cache_dtype: head_size %" PRIu64 ", head_size_v %" PRIu64
                         " or num_kv_heads %" PRIu64 " exceeds 2^31-1",
                         spec->head_size, spec->head_size_v, spec->num_kv_heads);
    }
    pkv_spec done = *spec;
    const bool latent = pkvi_is(spec, PKVI_IS_LATENT);
    if (done.head_size_v == PKV_HEAD_SIZE_V_DEFAULT) {
        done.head_size_v = latent ? 0 : done.head_size;
    }
    if (latent) {
        done.cache_dtype = cache_dtype;
    }
    done.kv_quant_mode = mode;
    const bool ds_record = strcmp(cache_dtype, "fp8_ds_mla") == 0;
    if (mode != PKV_QUANT_NONE) {
        done.dtype = PKV_DTYPE_UINT8;
    }
    if (mode != PKV_QUANT_NONE && (mode != PKV_QUANT_FP8_PER_TENSOR || ds_record)) {
        if (latent) {
            PKVI_RETURN_IF(latent_content(&done, cache_dtype, mode, &done.state_content_bytes));
        } else if (ds_record || mode == PKV_QUANT_NVFP4_DS_MLA) {
            return cannot(spec, cache_dtype, "it is a record of latent layers");
        } else {
            PKVI_RETURN_IF(dense_content(&done, cache_dtype, mode, rope ? rope : 64,
                                         &done.state_content_bytes));
        }
        if (mode == PKV_QUANT_NVFP4) {
            done.num_head_slots = 2 * done.num_kv_heads;
        }
    }
    PKVI_RETURN_IF(pkv_spec_finish(&done));
    *spec = done;
    return PKV_OK;
}
