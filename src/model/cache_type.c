/* cache_type.c  In which type the cache is kept: what the caller asks for, what the checkpoint was
 * calibrated for, and what the model computes in. */
#include <string.h>

#include "base/error.h"
#include "model/config.h"

static const char *const names[] = {
    "auto",
    "float16",
    "bfloat16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "fp8_ds_mla",
    "nvfp4_ds_mla",
    "turboquant_k8v4",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_3bit_nc",
    "octave_k3v4",
    "octave_k3v3",
    "octave_k3v3_compact",
    "ultraquant_4bit",
    "int8_per_token_head",
    "fp8_per_token_head",
    "int4_per_token_head",
    "nvfp4",
    "nvfp4_4over6",
};

static const char *known_name(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            return names[i];
        }
    }
    return NULL;
}

/* ---- what the checkpoint asks for ---- */

/* Whether `text` begins with `prefix`, which is in lower case. Without the locale of libc. */
static bool begins_with(const char *text, const char *prefix)
{
    while (*prefix && (*text | (*text >= 'A' && *text <= 'Z' ? 0x20 : 0)) == *prefix) {
        text++;
        prefix++;
    }
    return *prefix == '\0';
}

/* The quantisation section and how its producer names it. */
typedef struct section {
    pkvi_json_at at;    /* quantization_config */
    pkvi_json_at inner; /* its "quantization", or itself */
    bool modelopt;
} section;

static pkv_status read_modelopt(section *s)
{
    const char *method = NULL, *producer = NULL, *algo = NULL;
    json_t *quantization = NULL, *by = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_text(&s->at, "quant_method", &method));
    PKVI_RETURN_IF(pkvi_json_opt_object(&s->at, "quantization", &quantization));
    PKVI_RETURN_IF(pkvi_json_opt_object(&s->at, "producer", &by));
    s->inner = s->at;
    if (quantization) {
        s->inner = (pkvi_json_at){PKVI_READ_CONFIG, "quantization", quantization};
        PKVI_RETURN_IF(pkvi_json_opt_text(&s->inner, "quant_algo", &algo));
    }
    if (by) {
        const pkvi_json_at at = {PKVI_READ_CONFIG, "producer", by};
        PKVI_RETURN_IF(pkvi_json_opt_text(&at, "name", &producer));
    }
    /* older files say it by producer and algorithm alone */
    s->modelopt = (method && begins_with(method, "modelopt")) ||
                  (producer && strcmp(producer, "modelopt") == 0 && algo);
    return PKV_OK;
}

static pkv_status not_kept(const char *what, const char *value)
{
    pkvi_quoted quoted;
    return pkvi_fail(PKV_E_UNSUPPORTED,
                     PKVI_READ_CONFIG
                     ": quantization_config: kv_cache_scheme: %s %s is not "
                     "supported, expected 8 bits of type float, one scale per tensor",
                     what, pkvi_quote(value, &quoted));
}

/* Bits, type and strategy together say what a scale belongs to: 8 bits alone are not fp8, and
 * scales per head are not one scale. */
static pkv_status read_scheme_object(const section *s, const json_t *object, const char **out)
{
    const pkvi_json_at at = {PKVI_READ_CONFIG, "kv_cache_scheme", object};
    const char *type, *strategy = "tensor";
    bool dynamic = false, symmetric = true;
    uint64_t bits;
    PKVI_RETURN_IF(pkvi_json_u64(&at, "num_bits", 1, 64, &bits));
    PKVI_RETURN_IF(pkvi_json_text(&at, "type", &type));
    PKVI_RETURN_IF(pkvi_json_opt_text(&at, "strategy", &strategy));
    PKVI_RETURN_IF(pkvi_json_opt_bool(&at, "dynamic", &dynamic));
    PKVI_RETURN_IF(pkvi_json_opt_bool(&at, "symmetric", &symmetric));
    const bool is_float = strcmp(type, "float") == 0;
    if (!is_float) {
        return not_kept("type", type);
    }
    if (strcmp(strategy, "tensor") != 0) {
        return not_kept("strategy", strategy);
    }
    if (!symmetric) {
        return not_kept("symmetric", "false");
    }
    if (bits == 8 && s->modelopt) {
        *out = dynamic ? NULL : "fp8_e4m3"; /* that engine path takes static scales only */
    } else if (bits == 8) {
        *out = "fp8";
    } else if (bits == 4 && s->modelopt) {
        *out = "nvfp4";
    } else {
        return not_kept("num_bits", bits == 4 ? "4" : "other than 8");
    }
    return PKV_OK;
}

/* A single word. Only one producer's are read; elsewhere the engine keeps the model's type. */
static pkv_status read_scheme_word(const section *s, const char *word, const char **out)
{
    if (!s->modelopt) {
        return PKV_OK;
    }
    if (begins_with(word, "fp8") && !word[3]) {
        *out = "fp8_e4m3";
    } else if (begins_with(word, "nvfp4") && !word[5]) {
        *out = "nvfp4";
    } else {
        return not_kept("the algorithm", word);
    }
    return PKV_OK;
}

static pkv_status read_scheme_value(const section *s, const pkvi_json_at *at, const char *field,
                                    const char **out)
{
    const json_t *value = pkvi_json_get(at, field);
    if (json_is_object(value)) {
        return read_scheme_object(s, value, out);
    }
    if (json_is_string(value)) {
        return read_scheme_word(s, json_string_value(value), out);
    }
    return pkvi_json_bad(at, field, value, "an object or the name of an algorithm");
}

pkv_status pkvi_config_read_scheme(pkvi_config *config)
{
    static const char *const places[] = {"quantization_config", "compression_config"};
    static const char *const fields[] = {"kv_cache_scheme", "kv_cache_quant_algo"};
    json_t *object = NULL;
    section s;
    for (size_t i = 0; i < 2 && !object; i++) {
        PKVI_RETURN_IF(pkvi_json_opt_object(&config->top, places[i], &object));
    }
    for (size_t i = 0; i < 2 && !object; i++) {
        PKVI_RETURN_IF(pkvi_json_opt_object(&config->text, places[i], &object));
    }
    if (!object) {
        return PKV_OK;
    }
    s.at = (pkvi_json_at){PKVI_READ_CONFIG, "quantization_config", object};
    PKVI_RETURN_IF(read_modelopt(&s));
    for (size_t i = 0; i < 2; i++) {
        if (i == 1 && !s.modelopt) {
            break; /* the second field is that producer's */
        }
        if (pkvi_json_get(&s.inner, fields[i])) {
            return read_scheme_value(&s, &s.inner, fields[i], &config->scheme);
        }
        if (pkvi_json_get(&s.at, fields[i])) {
            return read_scheme_value(&s, &s.at, fields[i], &config->scheme);
        }
    }
    return PKV_OK;
}

/* ---- what is used ---- */

/* The names of one type: static fp8 scales are those of e4m3. */
static bool same_type(const char *a, const char *b)
{
    const bool a_e4m3 = strcmp(a, "fp8") == 0 || strcmp(a, "fp8_e4m3") == 0;
    const bool b_e4m3 = strcmp(b, "fp8") == 0 || strcmp(b, "fp8_e4m3") == 0;
    return strcmp(a, b) == 0 || (a_e4m3 && b_e4m3);
}

pkv_status pkvi_cache_type_resolve(const pkvi_config *config, const char *requested,
                                   const char **out)
{
    pkvi_quoted quoted;
    uint32_t dtype;
    const char *name = known_name(requested ? requested : "auto");
    if (!name) {
        return pkvi_fail(PKV_E_VALUE,
                         PKVI_READ_CONFIG ": cache_dtype %s is unknown, expected \"auto\", "
                                          "\"bfloat16\", \"fp8\" or another type of cache",
                         pkvi_quote(requested, &quoted));
    }
    if (strcmp(name, "auto") == 0) {
        *out = config->scheme ? config->scheme : name;
        return PKV_OK;
    }
    if (config->scheme && !same_type(config->scheme, name)) {
        return pkvi_fail(PKV_E_VALUE,
                         PKVI_READ_CONFIG ": cache_dtype \"%s\" contradicts kv_cache_scheme, which "
                                          "asks for \"%s\"",
                         name, config->scheme);
    }
    if (pkv_dtype_from_name(name, &dtype) == PKV_OK && dtype != config->dtype) {
        return pkvi_fail(PKV_E_VALUE,
                         PKVI_READ_CONFIG ": cache_dtype \"%s\" is not the model's \"%s\"", name,
                         pkv_dtype_name(config->dtype));
    }
    *out = name;
    return PKV_OK;
}
