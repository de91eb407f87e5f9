/* config_layers.c  Which layers see only a window or a chunk.
 *
 * In falling order of right: no_rope_layers (its family's code asks nothing else), layer_types, the
 * rule of the family's row. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/config.h"

/* An element of a list with one entry per layer. */
static pkv_status bad_entry(const pkvi_json_at *at, const char *field, size_t i,
                            const json_t *value, const char *expected)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s[%zu]", field, i);
    return pkvi_json_bad(at, name, value, expected);
}

static pkv_status check_length(const pkvi_config *config, const char *field, const json_t *list)
{
    char expected[80];
    if (json_array_size(list) == config->n_layers) {
        return PKV_OK;
    }
    (void)snprintf(expected, sizeof expected, "num_hidden_layers = %" PRIu64 " entries",
                   config->n_layers);
    return pkvi_json_bad(&config->text, field, list, expected);
}

/* Absent is the class's default, null or 0 means that there is none. */
static pkv_status read_window(pkvi_config *config, bool *assumed_out)
{
    const char *field = config->family->window_field;
    *assumed_out = !json_object_get(config->text.json, field);
    config->window = *assumed_out ? config->defaults->window : 0;
    return pkvi_json_opt_u64(&config->text, field, 0, PKV_SPEC_LIMIT, &config->window);
}

static pkv_status read_rule_numbers(pkvi_config *config)
{
    config->first_local = 28; /* the default of all classes that have it */
    config->interval = config->family->interval;
    PKVI_RETURN_IF(pkvi_json_opt_bool(&config->text, "use_sliding_window", &config->use_window));
    PKVI_RETURN_IF(pkvi_json_opt_u64(&config->text, "max_window_layers", 0, PKV_SPEC_LIMIT,
                                     &config->first_local));
    if (!config->family->interval_field) {
        return PKV_OK;
    }
    return pkvi_json_opt_u64(&config->text, config->family->interval_field, 1, PKV_SPEC_LIMIT,
                             &config->interval);
}

static void apply_rule(const pkvi_config *config, uint8_t *local)
{
    for (uint64_t i = 0; i < config->n_layers; i++) {
        local[i] = config->family->is_local && config->family->is_local(config, i);
    }
}

static pkv_status apply_types(pkvi_config *config, const json_t *types, uint8_t *local)
{
    const bool chunked = config->family->local_kind == PKV_KIND_CHUNKED_LOCAL;
    const char *local_name = chunked ? "chunked_attention" : "sliding_attention";
    const char *expected =
        chunked ? "full_attention or chunked_attention" : "full_attention or sliding_attention";
    const bool latent = config->family->full_kind == PKV_KIND_MLA;
    bool differs = false;
    PKVI_RETURN_IF(check_length(config, "layer_types", types));
    for (size_t i = 0; i < config->n_layers; i++) {
        const json_t *entry = json_array_get(types, i);
        const char *text = json_string_value(entry);
        const bool is_local = text && !latent && strcmp(text, local_name) == 0;
        if (!is_local && (!text || strcmp(text, "full_attention") != 0)) {
            return bad_entry(&config->text, "layer_types", i, entry,
                             latent ? "full_attention" : expected);
        }
        differs = differs || local[i] != is_local;
        local[i] = is_local;
    }
    config->types_decide = differs;
    if (differs && !config->family->reads_types) {
        pkvi_config_note(config, PKV_DERIVED, PKVI_NOTE_ALL,
                         "layer_types are given, which %s does not ask", config->family->code);
    }
    return PKV_OK;
}

/* Llama 4: 1 is a layer with rope, which is chunked. An empty list is none at all. */
static pkv_status apply_rope_list(const pkvi_config *config, const json_t *list, uint8_t *local)
{
    PKVI_RETURN_IF(check_length(config, "no_rope_layers", list));
    for (size_t i = 0; i < config->n_layers; i++) {
        const json_t *entry = json_array_get(list, i);
        const json_int_t n = json_integer_value(entry);
        if (!json_is_integer(entry) || n < 0 || n > 1) {
            return bad_entry(&config->text, "no_rope_layers", i, entry, "0 or 1");
        }
        local[i] = n == 1;
    }
    return PKV_OK;
}

static void note_windows(pkvi_config *config, const uint8_t *local, bool assumed)
{
    const bool any = memchr(local, 1, config->n_layers) != NULL;
    const bool mixed = any && memchr(local, 0, config->n_layers) != NULL;
    if (any && assumed) {
        pkvi_config_note(config, PKV_ASSUMED, PKVI_NOTE_LOCAL,
                         "%s is absent, %" PRIu64 " by the config class",
                         config->family->window_field, config->window);
    }
    if (mixed && config->family->all_or_none && !config->types_decide) {
        pkvi_config_note(config, PKV_DERIVED, PKVI_NOTE_ALL,
                         "by the config class; %s has a window on all layers or on none",
                         config->family->code);
    }
}

pkv_status pkvi_config_read_layers(pkvi_config *config)
{
    bool assumed = false;
    json_t *types = NULL, *rope_list = NULL;
    const bool chunked = config->family->local_kind == PKV_KIND_CHUNKED_LOCAL;
    uint8_t *local = pkvi_arena_get(config->arena, config->n_layers, 1);
    if (!local) {
        return pkvi_fail(PKV_E_NOMEM, PKVI_READ_CONFIG ": no memory for %" PRIu64 " layers",
                         config->n_layers);
    }
    config->local = local;
    if (config->family->window_field) {
        PKVI_RETURN_IF(read_window(config, &assumed));
    }
    PKVI_RETURN_IF(read_rule_numbers(config));
    apply_rule(config, local);
    PKVI_RETURN_IF(pkvi_json_opt_array(&config->text, "layer_types", &types));
    if (chunked) {
        PKVI_RETURN_IF(pkvi_json_opt_array(&config->text, "no_rope_layers", &rope_list));
    }
    if (json_array_size(rope_list) > 0) {
        PKVI_RETURN_IF(apply_rope_list(config, rope_list, local));
    } else if (types) {
        PKVI_RETURN_IF(apply_types(config, types, local));
    }
    if (config->window == 0) {
        if (assumed && types && memchr(local, 1, config->n_layers)) {
            return pkvi_json_bad(&config->text, config->family->window_field, NULL,
                                 "the tokens that the sliding layers of layer_types see");
        }
        memset(local, 0, config->n_layers);
    }
    note_windows(config, local, assumed);
    return PKV_OK;
}
