/* config.c  Reads the sizes that a config.json gives.
 *
 * null is the same as absent. What is absent comes from the config class (with a note that says
 * so), follows from another field, or is missing. Text models nest their fields under text_config;
 * whichever object holds them is config->text. */
#include "model/config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

void pkvi_config_note(pkvi_config *config, uint32_t certainty, uint32_t layers, const char *fmt,
                      ...)
{
    va_list args;
    if (config->n_notes == PKVI_MAX_NOTES) {
        return; /* there are fewer places that make notes */
    }
    pkvi_note *note = &config->notes[config->n_notes++];
    note->certainty = certainty;
    note->layers = layers;
    va_start(args, fmt);
    (void)vsnprintf(note->text, sizeof note->text, fmt, args);
    va_end(args);
}

static pkv_status unsupported(const char *field, const char *value)
{
    char families[200] = "";
    size_t len = 0;
    const char *last = "";
    const pkvi_family *f;
    pkvi_quoted quoted;
    for (uint32_t i = 0; (f = pkvi_family_at(i)) != NULL && len < sizeof families - 32; i++) {
        if (strcmp(f->family, last) != 0) {
            len += (size_t)snprintf(families + len, sizeof families - len, "%s%s", len ? ", " : "",
                                    f->family);
            last = f->family;
        }
    }
    return pkvi_fail(PKV_E_UNSUPPORTED,
                     PKVI_READ_CONFIG ": %s %s is not supported, expected one of %s", field,
                     pkvi_quote(value, &quoted), families);
}

static pkv_status read_family(pkvi_config *config)
{
    json_t *names = NULL;
    const char *type = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_array(&config->top, "architectures", &names));
    PKVI_RETURN_IF(pkvi_json_opt_text(&config->top, "model_type", &type));
    if (json_array_size(names) > 0) {
        const json_t *name = json_array_get(names, 0);
        if (!json_is_string(name)) {
            return pkvi_json_bad(&config->top, "architectures[0]", name, "the name of a class");
        }
        config->family = pkvi_family_of_architecture(json_string_value(name));
        return config->family ? PKV_OK : unsupported("architecture", json_string_value(name));
    }
    if (!type) {
        return pkvi_json_bad(&config->top, "architectures", NULL,
                             "the name of the model's class (or model_type)");
    }
    config->family = pkvi_family_of_model_type(type);
    if (!config->family) {
        return unsupported("model_type", type);
    }
    pkvi_config_note(config, PKV_DERIVED, PKVI_NOTE_ALL,
                     "architectures is absent, the family follows from model_type");
    return PKV_OK;
}

/* Where the fields of the text model are, and the config class that reads them. A wrapper names
 * the text model by model_type alone, so that must be one of its own family. */
static pkv_status read_section(pkvi_config *config)
{
    json_t *inner = NULL;
    const char *type = NULL;
    pkvi_quoted quoted;
    PKVI_RETURN_IF(pkvi_json_opt_object(&config->top, "text_config", &inner));
    config->text = config->top;
    if (inner) {
        config->text = (pkvi_json_at){PKVI_READ_CONFIG, "text_config", inner};
    }
    PKVI_RETURN_IF(pkvi_json_opt_text(&config->text, "model_type", &type));
    const pkvi_family *defaults = type ? pkvi_family_of_model_type(type) : NULL;
    if (inner && type && (!defaults || strcmp(defaults->family, config->family->family) != 0)) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         PKVI_READ_CONFIG ": text_config: model_type %s is not supported within %s",
                         pkvi_quote(type, &quoted), config->family->architecture);
    }
    config->defaults = defaults ? defaults : config->family;
    return PKV_OK;
}

/* Fields that give layers another cache than the architecture's name promises. */
static pkv_status refuse_variants(const pkvi_config *config)
{
    static const char *const fields[] = {"num_kv_shared_layers", "index_topk"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        uint64_t value = 0;
        PKVI_RETURN_IF(pkvi_json_opt_u64(&config->text, fields[i], 0, PKV_SPEC_LIMIT, &value));
        if (value != 0) {
            return pkvi_fail(PKV_E_UNSUPPORTED,
                             PKVI_READ_CONFIG ": %s %" PRIu64 " is not supported with %s",
                             fields[i], value, config->family->architecture);
        }
    }
    return PKV_OK;
}

static pkv_status read_heads(pkvi_config *config)
{
    const pkvi_json_at *text = &config->text;
    const bool said = pkvi_json_get(text, "num_attention_heads") != NULL;
    if (!said && config->defaults->heads != 0) {
        config->n_heads = config->defaults->heads;
        pkvi_config_note(config, PKV_ASSUMED, PKVI_NOTE_ALL,
                         "num_attention_heads is absent, %" PRIu64 " by the config class",
                         config->n_heads);
    } else {
        PKVI_RETURN_IF(
            pkvi_json_u64(text, "num_attention_heads", 1, PKV_SPEC_LIMIT, &config->n_heads));
    }
    if (pkvi_json_get(text, "num_key_value_heads")) {
        return pkvi_json_u64(text, "num_key_value_heads", 1, PKV_SPEC_LIMIT, &config->n_kv_heads);
    }
    /* The default of a class belongs to the number of heads that the same class puts in. */
    config->n_kv_heads = said ? config->n_heads : config->defaults->kv_heads;
    if (config->defaults->kv_heads != 0) {
        pkvi_config_note(config, PKV_ASSUMED, PKVI_NOTE_ALL,
                         "num_key_value_heads is absent, %" PRIu64 " %s", config->n_kv_heads,
                         said ? "as attention heads" : "by the config class");
    }
    return PKV_OK;
}

/* A positive head_dim wins. Zero and negative numbers stand for "not said" in some files. */
static pkv_status read_head_size(pkvi_config *config)
{
    const pkvi_json_at *text = &config->text;
    const json_t *said = pkvi_json_get(text, "head_dim");
    const bool positive = json_is_integer(said) && json_integer_value(said) > 0;
    uint64_t hidden = 0;
    PKVI_RETURN_IF(pkvi_json_opt_u64(text, "hidden_size", 1, PKV_SPEC_LIMIT, &hidden));
    if (positive || (said && !json_is_integer(said))) {
        PKVI_RETURN_IF(pkvi_json_u64(text, "head_dim", 1, PKV_SPEC_LIMIT, &config->head_size));
        if (config->family->ignores_head_dim && hidden / config->n_heads != config->head_size) {
            pkvi_config_note(config, PKV_DERIVED, PKVI_NOTE_ALL,
                             "head_dim is given, but %s takes hidden_size / num_attention_heads",
                             config->family->code);
        }
        return PKV_OK;
    }
    if (config->defaults->head_dim != 0) {
        config->head_size = config->defaults->head_dim;
        pkvi_config_note(config, PKV_ASSUMED, PKVI_NOTE_ALL,
                         "head_dim is absent, %" PRIu64 " by the config class", config->head_size);
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkvi_json_u64(text, "hidden_size", 1, PKV_SPEC_LIMIT, &hidden));
    config->head_size = hidden / config->n_heads;
    if (config->head_size == 0) {
        return pkvi_fail(PKV_E_INVAL,
                         PKVI_READ_CONFIG ": hidden_size %" PRIu64
                                          " is smaller than num_attention_heads %" PRIu64,
                         hidden, config->n_heads);
    }
    return PKV_OK;
}

static pkv_status read_rope_dim(pkvi_config *config)
{
    double factor = 1;
    json_t *rope = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_object(&config->text, "rope_parameters", &rope));
    if (rope) {
        const pkvi_json_at at = {PKVI_READ_CONFIG, "rope_parameters", rope};
        PKVI_RETURN_IF(pkvi_json_opt_real(&at, "partial_rotary_factor", 0, 1, &factor));
    }
    PKVI_RETURN_IF(pkvi_json_opt_real(&config->text, "partial_rotary_factor", 0, 1, &factor));
    config->rope_dim = (uint64_t)((double)config->head_size * factor);
    return PKV_OK;
}

/* One latent vector and its rope part per token, the same on every rank. */
static pkv_status read_latent(pkvi_config *config)
{
    uint64_t latent, rope;
    PKVI_RETURN_IF(
        pkvi_json_u64(&config->text, "num_attention_heads", 1, PKV_SPEC_LIMIT, &config->n_heads));
    PKVI_RETURN_IF(pkvi_json_u64(&config->text, "kv_lora_rank", 1, PKV_SPEC_LIMIT, &latent));
    PKVI_RETURN_IF(pkvi_json_u64(&config->text, "qk_rope_head_dim", 1, PKV_SPEC_LIMIT, &rope));
    if (latent + rope > PKV_SPEC_LIMIT) {
        return pkvi_fail(PKV_E_INVAL,
                         PKVI_READ_CONFIG ": kv_lora_rank %" PRIu64 " + qk_rope_head_dim %" PRIu64
                                          " exceeds 2^31-1",
                         latent, rope);
    }
    config->n_kv_heads = 1;
    config->head_size = latent + rope;
    config->rope_dim = rope;
    return PKV_OK;
}

static pkv_status read_sizes(pkvi_config *config)
{
    PKVI_RETURN_IF(
        pkvi_json_u64(&config->text, "num_hidden_layers", 1, PKVI_MAX_LAYERS, &config->n_layers));
    if (config->family->full_kind == PKV_KIND_MLA) {
        return read_latent(config);
    }
    PKVI_RETURN_IF(read_heads(config));
    if (config->n_heads % config->n_kv_heads != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         PKVI_READ_CONFIG ": num_attention_heads %" PRIu64
                                          " is no multiple of num_key_value_heads %" PRIu64,
                         config->n_heads, config->n_kv_heads);
    }
    PKVI_RETURN_IF(read_head_size(config));
    return read_rope_dim(config);
}

/* The object's own dtype, under its new or its old name. */
static pkv_status dtype_of(const pkvi_json_at *at, const char **name, const json_t **value)
{
    static const char *const fields[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < 2 && !*name; i++) {
        *value = pkvi_json_get(at, fields[i]);
        PKVI_RETURN_IF(pkvi_json_opt_text(at, fields[i], name));
    }
    return PKV_OK;
}

/* Served are bfloat16 and float16. float32, other types and no type at all become bfloat16. */
static pkv_status read_dtype(pkvi_config *config)
{
    const char *name = NULL;
    const json_t *value = NULL;
    json_t *vision = NULL;
    uint32_t dtype = PKV_DTYPE_FLOAT32;
    PKVI_RETURN_IF(dtype_of(&config->top, &name, &value));
    PKVI_RETURN_IF(dtype_of(&config->text, &name, &value));
    PKVI_RETURN_IF(pkvi_json_opt_object(&config->top, "vision_config", &vision));
    if (vision) {
        const pkvi_json_at at = {PKVI_READ_CONFIG, "vision_config", vision};
        PKVI_RETURN_IF(dtype_of(&at, &name, &value));
    }
    if (name && pkv_dtype_from_name(name, &dtype) != PKV_OK) {
        return pkvi_json_bad(&config->top, "torch_dtype", value, "a dtype such as \"bfloat16\"");
    }
    if (!name && !config->family->unsaid_dtype) {
        pkvi_config_note(config, PKV_ASSUMED, PKVI_NOTE_ALL, "torch_dtype is absent, bfloat16");
    }
    const bool half = dtype == PKV_DTYPE_FLOAT16 && !config->family->no_float16;
    config->dtype = half ? PKV_DTYPE_FLOAT16 : PKV_DTYPE_BFLOAT16;
    return PKV_OK;
}

pkv_status pkvi_config_read(const json_t *root, pkvi_arena *arena, pkvi_config *out)
{
    memset(out, 0, sizeof *out);
    out->top = (pkvi_json_at){PKVI_READ_CONFIG, "", root};
    out->arena = arena;
    out->causal = true;
    PKVI_RETURN_IF(read_family(out));
    PKVI_RETURN_IF(read_section(out));
    PKVI_RETURN_IF(refuse_variants(out));
    PKVI_RETURN_IF(read_sizes(out));
    PKVI_RETURN_IF(read_dtype(out));
    PKVI_RETURN_IF(pkvi_json_opt_bool(&out->text, "is_causal", &out->causal));
    out->causal = out->causal || !out->family->can_encode;
    PKVI_RETURN_IF(pkvi_config_read_layers(out));
    PKVI_RETURN_IF(pkvi_config_read_length(out));
    return pkvi_config_read_scheme(out);
}
