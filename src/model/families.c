/* families.c  The table of model families and the rules that its rows name.
 *
 * Beside the rows, all families share: explicit `layer_types` win; a null or zero window is no
 * window; KV heads are split over tensor-parallel ranks and repeated when there are fewer. */
#include "model/families.h"

#include <string.h>

#include <pkv/model.h>

#include "model/config.h"

/* One window for the whole model: the attention layer takes the model's when it has none of its
 * own. */
static bool every_layer(const pkvi_config *config, uint64_t layer)
{
    (void)config;
    (void)layer;
    return true;
}

/* Qwen3MoeConfig drops sliding_window unless use_sliding_window, and has no layer_types. */
static bool every_layer_if_used(const pkvi_config *config, uint64_t layer)
{
    (void)layer;
    return config->use_window;
}

/* Qwen2Config, Qwen3Config: the first max_window_layers layers see everything. */
static bool from_max_window_layers(const pkvi_config *config, uint64_t layer)
{
    return config->use_window && layer >= config->first_local;
}

/* Gemma2Config, GptOssConfig: sliding, full, sliding, full, ... */
static bool even_layers(const pkvi_config *config, uint64_t layer)
{
    (void)config;
    return layer % 2 == 0;
}

/* Gemma3TextConfig, Llama4TextConfig: every interval-th layer sees everything. */
static bool all_but_interval(const pkvi_config *config, uint64_t layer)
{
    return (layer + 1) % config->interval != 0;
}

#define WINDOWED                                                       \
    .full_kind = PKV_KIND_FULL, .local_kind = PKV_KIND_SLIDING_WINDOW, \
    .window_field = "sliding_window"
#define CHUNKED                                                       \
    .full_kind = PKV_KIND_FULL, .local_kind = PKV_KIND_CHUNKED_LOCAL, \
    .window_field = "attention_chunk_size"
#define LATENT .full_kind = PKV_KIND_MLA, .local_kind = PKV_KIND_MLA

#define EVERY_LAYER .is_local = every_layer, .local_layers = "every layer"
#define QWEN_LAYERS \
    .is_local = from_max_window_layers, .local_layers = "layers from max_window_layers on"
#define EVEN_LAYERS .is_local = even_layers, .local_layers = "every other layer from the first"
#define GEMMA3_LAYERS                                                                              \
    .is_local = all_but_interval, .local_layers = "all but every sliding_window_pattern-th layer", \
    .interval_field = "sliding_window_pattern", .interval = 6
#define LLAMA4_LAYERS                                                 \
    .is_local = all_but_interval, .local_layers = "layers with rope", \
    .interval_field = "no_rope_layer_interval", .interval = 4

static const pkvi_family families[] = {
    {"LlamaForCausalLM", "llama", NULL, "Llama", "LlamaAttention", WINDOWED, EVERY_LAYER,
     .reads_types = true, .can_encode = true, .positions = 2048},
    {"MistralForCausalLM", "mistral", NULL, "Mistral", "LlamaAttention", WINDOWED, EVERY_LAYER,
     .reads_types = true, .can_encode = true, .window = 4096, .positions = 131072, .kv_heads = 8},
    {"Ministral3ForCausalLM", "ministral3", NULL, "Mistral", "LlamaAttention", WINDOWED,
     EVERY_LAYER, .reads_types = true, .can_encode = true, .head_dim = 128, .positions = 262144,
     .kv_heads = 8},
    {"Mistral3ForConditionalGeneration", "mistral3", NULL, "Mistral", "LlamaAttention", WINDOWED,
     EVERY_LAYER, .reads_types = true, .can_encode = true, .positions = 131072, .kv_heads = 8,
     .window = 4096},
    {"MixtralForCausalLM", "mixtral", NULL, "Mixtral", "MixtralAttention", WINDOWED, EVERY_LAYER,
     .all_or_none = true, .positions = 131072, .kv_heads = 8},
    {"Qwen2ForCausalLM", "qwen2", NULL, "Qwen 2", "Qwen2Attention", WINDOWED, QWEN_LAYERS,
     .all_or_none = true, .can_encode = true, .window = 4096, .positions = 32768, .kv_heads = 32,
     .ignores_head_dim = true},
    /* Its config class windows every other layer, so its attention code, which knows one window
     * for all layers or none, has none: full everywhere. */
    {"Qwen2MoeForCausalLM", "qwen2_moe", NULL, "Qwen 2 MoE", "Qwen2MoeAttention", WINDOWED,
     .is_local = NULL, .local_layers = "no layer", .all_or_none = true, .window = 4096,
     .positions = 32768, .kv_heads = 16, .ignores_head_dim = true},
    {"Qwen3ForCausalLM", "qwen3", NULL, "Qwen 3", "Qwen3Attention", WINDOWED, QWEN_LAYERS,
     .all_or_none = true, .can_encode = true, .window = 4096, .head_dim = 128, .positions = 32768,
     .kv_heads = 32},
    {"Qwen3MoeForCausalLM", "qwen3_moe", NULL, "Qwen 3 MoE", "Qwen3MoeAttention", WINDOWED,
     .is_local = every_layer_if_used, .local_layers = "every layer if use_sliding_window",
     .all_or_none = true, .window = 4096, .positions = 32768, .kv_heads = 4},
    {"Gemma2ForCausalLM", "gemma2", NULL, "Gemma 2", "Gemma2Attention", WINDOWED, EVEN_LAYERS,
     .reads_types = true, .no_float16 = true, .window = 4096, .head_dim = 256, .positions = 8192,
     .kv_heads = 4},
    /* Published text_config of these leave out heads, KV heads and head_dim. */
    {"Gemma3ForCausalLM", "gemma3_text", NULL, "Gemma 3", "Gemma3Attention", WINDOWED,
     GEMMA3_LAYERS, .reads_types = true, .can_encode = true, .no_float16 = true,
     .scaled_length = true, .window = 4096, .heads = 8, .kv_heads = 4, .head_dim = 256,
     .positions = 131072},
    {"Gemma3ForConditionalGeneration", "gemma3", NULL, "Gemma 3", "Gemma3Attention", WINDOWED,
     GEMMA3_LAYERS, .reads_types = true, .can_encode = true, .no_float16 = true,
     .scaled_length = true, .window = 4096, .heads = 8, .kv_heads = 4, .head_dim = 256,
     .positions = 131072},
    {"Phi3ForCausalLM", "phi3", NULL, "Phi-3", "LlamaAttention", WINDOWED, EVERY_LAYER,
     .reads_types = true, .can_encode = true, .positions = 4096, .rope_positions = 4096},
    {"GptOssForCausalLM", "gpt_oss", NULL, "gpt-oss", "OAIAttention", WINDOWED, EVEN_LAYERS,
     .unsaid_dtype = true, .window = 128, .head_dim = 64, .positions = 131072, .kv_heads = 8},
    {"DeepseekV2ForCausalLM", "deepseek_v2", NULL, "DeepSeek V2", "MLAAttention", LATENT,
     .can_encode = true, .positions = 2048},
    {"DeepseekV3ForCausalLM", "deepseek_v3", "kimi_k2", "DeepSeek V3", "MLAAttention", LATENT,
     .can_encode = true, .positions = 4096},
    {"Llama4ForConditionalGeneration", "llama4", NULL, "Llama 4", "Llama4Attention", CHUNKED,
     LLAMA4_LAYERS, .window = 8192, .head_dim = 128, .positions = 131072, .kv_heads = 8},
    {"Llama4ForCausalLM", "llama4_text", NULL, "Llama 4", "Llama4Attention", CHUNKED, LLAMA4_LAYERS,
     .window = 8192, .head_dim = 128, .positions = 131072, .kv_heads = 8},
};

const pkvi_family *pkvi_family_at(uint32_t i)
{
    return i < sizeof families / sizeof *families ? &families[i] : NULL;
}

const pkvi_family *pkvi_family_of_architecture(const char *name)
{
    const pkvi_family *f;
    for (uint32_t i = 0; (f = pkvi_family_at(i)) != NULL; i++) {
        if (strcmp(f->architecture, name) == 0) {
            return f;
        }
    }
    return NULL;
}

const pkvi_family *pkvi_family_of_model_type(const char *name)
{
    const pkvi_family *f;
    for (uint32_t i = 0; (f = pkvi_family_at(i)) != NULL; i++) {
        if (strcmp(f->model_type, name) == 0 ||
            (f->other_type && strcmp(f->other_type, name) == 0)) {
            return f;
        }
    }
    return NULL;
}

const char *pkv_model_architecture_at(uint32_t i)
{
    const pkvi_family *f = pkvi_family_at(i);
    return f ? f->architecture : NULL;
}
