/* model.c  From a config.json to the specs of the layers.
 *
 * Layers of one model differ in two things only: whether they see everything, and whether they are
 * kept in the model's own type although the rest is packed. So at most four specs are built and
 * then copied. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pkv/model.h>

#include "base/error.h"
#include "base/params.h"
#include "model/config.h"

enum { DEFAULT_BLOCK_SIZE = 16, MAX_RANKS = 65536, FIRST_CHUNK = 16384, MAX_WHY = 640 };

struct pkv_model {
    pkvi_arena arena;
    pkv_model_info info;
    pkv_spec *specs;         /* [n_layers] */
    pkv_model_layer *layers; /* [n_layers] */
    const char **no_cache;   /* [n_no_cache] */
};

/* What the layers of a model have in common. */
typedef struct builder {
    const pkvi_config *config;
    const pkv_model_params *params;
    pkv_model *model;
    const char *cache_dtype;
    uint64_t n_kv_heads;  /* on one rank */
    uint64_t n_edges;     /* first and last layers that are not packed */
    pkv_spec specs[2][2]; /* [local][edge] */
    const char *why[2][2];
    uint32_t certainty[2][2];
} builder;

void pkv_model_params_init(pkv_model_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->tp = 1;
    params->cache_dtype = "auto";
}

static pkv_status import_params(const pkv_model_params *given, pkv_model_params *out)
{
    pkv_model_params_init(out);
    if (given) {
        PKVI_RETURN_IF(pkvi_import_params(PKVI_READ_CONFIG, given, out, sizeof *out));
    }
    if (out->tp < 1 || out->tp > MAX_RANKS) {
        return pkvi_fail(PKV_E_INVAL, PKVI_READ_CONFIG ": tp %" PRIu32 " is not within 1 and 65536",
                         out->tp);
    }
    if (out->block_size > PKV_SPEC_LIMIT) {
        return pkvi_fail(PKV_E_INVAL, PKVI_READ_CONFIG ": block_size %" PRIu64 " exceeds 2^31-1",
                         out->block_size);
    }
    out->block_size = out->block_size ? out->block_size : DEFAULT_BLOCK_SIZE;
    return PKV_OK;
}

/* ---- specs ---- */

/* KV heads of one rank: a share of them, or one that several ranks repeat. */
static pkv_status split_heads(builder *b)
{
    const uint64_t tp = b->params->tp, heads = b->config->n_kv_heads;
    if (b->config->n_heads % tp != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         PKVI_READ_CONFIG ": num_attention_heads %" PRIu64
                                          " does not divide over tp %" PRIu64,
                         b->config->n_heads, tp);
    }
    if (b->config->family->full_kind != PKV_KIND_MLA && heads % tp != 0 && tp % heads != 0) {
        return pkvi_fail(PKV_E_VALUE,
                         PKVI_READ_CONFIG ": num_key_value_heads %" PRIu64 " and tp %" PRIu64
                                          ": neither divides the other",
                         heads, tp);
    }
    b->n_kv_heads = heads > tp ? heads / tp : 1;
    return PKV_OK;
}

/* Packed types of few bits leave the first and the last two layers, at most half of each end, in
 * the model's type: quality falls off most there. */
static uint64_t unpacked_edges(const char *cache_dtype, uint64_t n_layers)
{
    uint32_t mode = PKV_QUANT_NONE;
    if (pkv_quant_mode_of_cache_dtype(cache_dtype, &mode) != PKV_OK) {
        return 0;
    }
    if (!pkv_quant_mode_is_turboquant(mode) && mode != PKV_QUANT_ULTRAQUANT_4BIT) {
        return 0;
    }
    return n_layers / 2 < 2 ? n_layers / 2 : 2;
}

static pkv_status build_spec(const builder *b, bool local, bool edge, pkv_spec *out)
{
    const pkvi_config *config = b->config;
    const pkvi_family *family = config->family;
    pkv_spec spec;
    PKVI_RETURN_IF(pkv_spec_init(&spec, local ? family->local_kind : family->full_kind));
    spec.block_size = b->params->block_size;
    spec.num_kv_heads = b->n_kv_heads;
    spec.head_size = config->head_size;
    spec.dtype = config->dtype;
    if (spec.kind == PKV_KIND_MLA) {
        spec.max_tp_shards = 1; /* every rank holds the same latent */
    } else if (local && spec.kind == PKV_KIND_CHUNKED_LOCAL) {
        spec.attention_chunk_size = config->window;
    } else if (local) {
        spec.sliding_window = config->window;
    }
    const pkv_status st =
        pkv_spec_set_cache_dtype(&spec, edge ? "auto" : b->cache_dtype, config->rope_dim);
    if (st != PKV_OK) {
        pkvi_error_context(PKVI_READ_CONFIG, "cache_dtype \"%s\"", b->cache_dtype);
        return st;
    }
    *out = spec;
    return PKV_OK;
}

/* ---- where they come from ---- */

/* Cache types whose specs were compared with the engine's, layer by layer. */
static bool was_executed(const char *cache_dtype)
{
    uint32_t mode = PKV_QUANT_NONE;
    return pkv_quant_mode_of_cache_dtype(cache_dtype, &mode) == PKV_OK &&
           (mode == PKV_QUANT_NONE ||
            (mode == PKV_QUANT_FP8_PER_TENSOR && strcmp(cache_dtype, "fp8_ds_mla") != 0));
}

static const char *kind_in_words(const builder *b, bool local)
{
    if (b->config->family->full_kind == PKV_KIND_MLA) {
        return "latent attention";
    }
    if (!local) {
        return "full attention";
    }
    return b->config->family->local_kind == PKV_KIND_SLIDING_WINDOW ? "sliding window"
                                                                    : "chunked attention";
}

static const char *layers_in_words(const builder *b, bool local)
{
    const pkvi_config *config = b->config;
    if (config->types_decide) {
        return "as layer_types says";
    }
    if (local) {
        return config->family->local_layers;
    }
    return memchr(config->local, 1, config->n_layers) ? "the other layers" : "every layer";
}

static pkv_status explain(builder *b, bool local, bool edge)
{
    static const char *const labels[] = {"exact", "derived", "assumed"};
    const pkvi_config *config = b->config;
    char text[MAX_WHY];
    uint32_t certainty = PKV_EXACT;
    int len =
        snprintf(text, sizeof text, "%s: %s, %s%s", kind_in_words(b, local), config->family->code,
                 layers_in_words(b, local), edge ? "; an end of the model, not packed" : "");
    for (uint32_t i = 0; i < config->n_notes; i++) {
        const pkvi_note *note = &config->notes[i];
        if (!(note->layers & (local ? PKVI_NOTE_LOCAL : PKVI_NOTE_FULL))) {
            continue;
        }
        certainty = note->certainty > certainty ? note->certainty : certainty;
        if (len > 0 && (size_t)len < sizeof text) {
            len += snprintf(text + len, sizeof text - (size_t)len, "; %s: %s",
                            labels[note->certainty], note->text);
        }
    }
    if (!was_executed(b->cache_dtype)) {
        certainty = certainty == PKV_EXACT ? PKV_DERIVED : certainty;
        if (len > 0 && (size_t)len < sizeof text) {
            (void)snprintf(text + len, sizeof text - (size_t)len,
                           "; derived: cache type %s by its slot layout", b->cache_dtype);
        }
    }
    b->certainty[local][edge] = certainty;
    b->why[local][edge] = pkvi_arena_text(&b->model->arena, text);
    return b->why[local][edge] ? PKV_OK
                               : pkvi_fail(PKV_E_NOMEM, PKVI_READ_CONFIG ": no memory for texts");
}

/* ---- layers ---- */

static const char *layer_name(pkv_model *model, uint64_t index)
{
    char text[32];
    (void)snprintf(text, sizeof text, "layers.%" PRIu64, index);
    return pkvi_arena_text(&model->arena, text);
}

static pkv_status no_memory(const builder *b)
{
    return pkvi_fail(PKV_E_NOMEM, PKVI_READ_CONFIG ": no memory for %" PRIu64 " layers",
                     b->config->n_layers);
}

static pkv_status fill_layers(builder *b)
{
    pkv_model *model = b->model;
    const uint64_t n = b->config->n_layers;
    model->specs = pkvi_arena_get(&model->arena, n, sizeof *model->specs);
    model->layers = pkvi_arena_get(&model->arena, n, sizeof *model->layers);
    if (!model->specs || !model->layers) {
        return no_memory(b);
    }
    for (uint64_t i = 0; i < n; i++) {
        const bool local = b->config->local[i];
        const bool edge = i < b->n_edges || n - i <= b->n_edges;
        if (!b->why[local][edge]) {
            PKVI_RETURN_IF(build_spec(b, local, edge, &b->specs[local][edge]));
            PKVI_RETURN_IF(explain(b, local, edge));
        }
        model->specs[i] = b->specs[local][edge];
        model->layers[i] = (pkv_model_layer){layer_name(model, i), b->why[local][edge],
                                             b->certainty[local][edge], (uint32_t)i};
        if (!model->layers[i].name) {
            return no_memory(b);
        }
    }
    model->info.n_layers = (uint32_t)n;
    return PKV_OK;
}

/* An encoder reads a whole prompt at once and keeps nothing. */
static pkv_status fill_no_cache(builder *b)
{
    pkv_model *model = b->model;
    model->no_cache = pkvi_arena_get(&model->arena, b->config->n_layers, sizeof *model->no_cache);
    if (!model->no_cache) {
        return no_memory(b);
    }
    for (uint64_t i = 0; i < b->config->n_layers; i++) {
        model->no_cache[i] = layer_name(model, i);
        if (!model->no_cache[i]) {
            return no_memory(b);
        }
    }
    model->info.n_no_cache = (uint32_t)b->config->n_layers;
    return PKV_OK;
}

static pkv_status build(pkv_model *model, const json_t *root, const pkv_model_params *params)
{
    pkvi_config config;
    PKVI_RETURN_IF(pkvi_config_read(root, &model->arena, &config));
    builder b = {.config = &config, .params = params, .model = model};
    PKVI_RETURN_IF(pkvi_cache_type_resolve(&config, params->cache_dtype, &b.cache_dtype));
    PKVI_RETURN_IF(split_heads(&b));
    b.n_edges = unpacked_edges(b.cache_dtype, config.n_layers);
    model->info = (pkv_model_info){
        .architecture = config.family->architecture,
        .family = config.family->family,
        .cache_dtype = b.cache_dtype,
        .max_model_len = config.max_model_len,
        .n_attention_heads = config.n_heads,
        .n_kv_heads = config.n_kv_heads,
        .n_model_layers = (uint32_t)config.n_layers,
        .dtype = config.dtype,
    };
    return config.causal ? fill_layers(&b) : fill_no_cache(&b);
}

pkv_status pkv_model_read_config(const char *json, size_t len, const pkv_model_params *params,
                                 pkv_model **out)
{
    pkv_status st = PKV_OK;
    pkv_model_params known;
    pkv_model *model = NULL;
    json_t *root = NULL;
    pkvi_arena arena;
    if (!out) {
        return pkvi_fail(PKV_E_INVAL, PKVI_READ_CONFIG ": out is NULL");
    }
    *out = NULL;
    PKVI_RETURN_IF(import_params(params, &known));
    pkvi_arena_init(&arena, known.alloc, FIRST_CHUNK);
    PKVI_TRY(pkvi_json_load(PKVI_READ_CONFIG, json, len, &root));
    model = pkvi_arena_get(&arena, 1, sizeof *model);
    if (!model) {
        st = pkvi_fail(PKV_E_NOMEM, PKVI_READ_CONFIG ": no memory for a model");
        goto done;
    }
    model->arena = arena;
    PKVI_TRY(build(model, root, &known));
    *out = model;
    model = NULL; /* handed over */
done:
    json_decref(root);
    pkv_model_destroy(model);
    return st;
}

void pkv_model_destroy(pkv_model *model)
{
    if (model) {
        pkvi_arena arena = model->arena; /* the model lies in it */
        pkvi_arena_free(&arena);
    }
}

/* ---- reading ---- */

const pkv_model_info *pkv_model_get_info(const pkv_model *model)
{
    return &model->info;
}

const pkv_spec *pkv_model_specs(const pkv_model *model)
{
    return model->specs;
}

const pkv_model_layer *pkv_model_layer_at(const pkv_model *model, uint32_t i)
{
    return i < model->info.n_layers ? &model->layers[i] : NULL;
}

const char *pkv_model_no_cache_at(const pkv_model *model, uint32_t i)
{
    return i < model->info.n_no_cache ? model->no_cache[i] : NULL;
}

void pkv_model_sharing_at(const pkv_model *model, uint32_t i, const char **layer_out,
                          const char **owner_out)
{
    (void)i; /* no family of the table shares */
    (void)model;
    *layer_out = NULL;
    *owner_out = NULL;
}
