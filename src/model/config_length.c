/* config_length.c  The longest context that a config allows, as the engine works it out: the least
 * of the fields that may hold it, times the rope scaling where that is not part of it already. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "model/config.h"

/* Far beyond any model, and exact in a double. */
#define MAX_TOKENS (UINT64_C(1) << 48)

static pkv_status read_positions(const pkvi_config *config, uint64_t *out)
{
    static const char *const fields[] = {
        "n_positions",          "max_seq_len",         "seq_length",     "model_max_length",
        "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"};
    uint64_t least = config->defaults->positions;
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(&config->text, "max_position_embeddings", 1, MAX_TOKENS, &least));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        uint64_t value = least;
        PKVI_RETURN_IF(pkvi_json_opt_u64(&config->text, fields[i], 1, MAX_TOKENS, &value));
        least = value < least ? value : least;
    }
    *out = least;
    /* this one alone may also raise it */
    return pkvi_json_opt_u64(&config->text, "model_max_length", 1, MAX_TOKENS, out);
}

static bool is_one_of(const char *text, const char *const *names)
{
    while (*names && strcmp(*names, text) != 0) {
        names++;
    }
    return *names != NULL;
}

/* One set of rope parameters: its factor, if positions do not hold it already. */
static pkv_status read_rope(const pkvi_config *config, const json_t *rope, double *factor,
                            bool *long_rope)
{
    static const char *const held[] = {
        "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", NULL};
    static const char *const longs[] = {"su", "longrope", NULL};
    static const char *const phi_longs[] = {"su", "longrope", "yarn", NULL};
    const pkvi_json_at at = {PKVI_READ_CONFIG, "rope_scaling", rope};
    const char *type = "default";
    PKVI_RETURN_IF(pkvi_json_opt_text(&at, "type", &type));
    PKVI_RETURN_IF(pkvi_json_opt_text(&at, "rope_type", &type));
    /* the class of Phi-3 reads all of its old names as longrope */
    if (is_one_of(type, config->defaults->rope_positions != 0 ? phi_longs : longs)) {
        *long_rope = true;
    }
    return is_one_of(type, held) ? PKV_OK : pkvi_json_opt_real(&at, "factor", 1e-3, 1e6, factor);
}

/* Whether the object has one set of parameters per kind of layer. */
static bool is_nested(const json_t *rope)
{
    static const char *const kinds[] = {"full_attention", "sliding_attention", "chunked_attention",
                                        NULL};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)rope, key, value)
    {
        if (!is_one_of(key, kinds) || !json_is_object(value)) {
            return false;
        }
    }
    return json_object_size(rope) > 0;
}

/* The engine looks at the top of the document only. */
static pkv_status read_scaling(const pkvi_config *config, double *factor, bool *long_rope)
{
    json_t *rope = NULL, *renamed = NULL;
    const char *key;
    json_t *value;
    PKVI_RETURN_IF(pkvi_json_opt_object(&config->top, "rope_scaling", &rope));
    PKVI_RETURN_IF(pkvi_json_opt_object(&config->top, "rope_parameters", &renamed));
    rope = json_object_size(rope) > 0 ? rope : renamed;
    if (json_object_size(rope) == 0) {
        return PKV_OK;
    }
    if (!is_nested(rope)) {
        return read_rope(config, rope, factor, long_rope);
    }
    json_object_foreach(rope, key, value)
    {
        PKVI_RETURN_IF(read_rope(config, value, factor, long_rope));
    }
    return PKV_OK;
}

pkv_status pkvi_config_read_length(pkvi_config *config)
{
    double factor = 1;
    bool long_rope = false;
    uint64_t positions, original;
    PKVI_RETURN_IF(read_positions(config, &positions));
    config->max_model_len = positions;
    if (config->family->scaled_length) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(read_scaling(config, &factor, &long_rope));
    const double scaled = (double)positions * factor;
    if (!(scaled >= 1 && scaled <= (double)MAX_TOKENS)) {
        return pkvi_fail(PKV_E_INVAL,
                         PKVI_READ_CONFIG ": rope_scaling: factor %g of %" PRIu64
                                          " positions is out of range",
                         factor, positions);
    }
    config->max_model_len = (uint64_t)scaled; /* the engine cuts, too */
    if (!long_rope) {
        return PKV_OK;
    }
    /* two sets of factors: short contexts would suffer from the long one */
    original = config->defaults->rope_positions;
    PKVI_RETURN_IF(pkvi_json_opt_u64(&config->top, "original_max_position_embeddings", 1,
                                     MAX_TOKENS, &original));
    config->max_model_len = original != 0 ? original : config->max_model_len;
    return PKV_OK;
}
