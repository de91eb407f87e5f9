/* test_model.c  Families: their layers, heads and sizes, by field cases and config classes. */
#include "model_fixture.h"

/* ---- field case 1: explicit head_dim ---- */

static uint64_t head_size_of(const char *json)
{
    pkv_model *model = read_model(json);
    const uint64_t size = pkv_model_specs(model)[0].head_size;
    pkv_model_destroy(model);
    return size;
}

#define CASE_1(more)                                                                   \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 1, "           \
    "\"hidden_size\": 3584, \"num_attention_heads\": 16, \"num_key_value_heads\": 8, " \
    "\"torch_dtype\": \"bfloat16\"" more "}"

static void a_declared_head_dim_wins(void **state)
{
    (void)state;
    pkv_model *model = read_model(CASE_1(", \"head_dim\": 256"));
    assert_int_equal(token_bytes(model), 8192); /* K and V, 8 heads, 256 elements, 2 bytes */
    pkv_model_destroy(model);
}

static void head_dim_follows_from_hidden_size_otherwise(void **state)
{
    (void)state;
    assert_int_equal(head_size_of(CASE_1("")), 3584 / 16);
    assert_int_equal(head_size_of(CASE_1(", \"head_dim\": null")), 3584 / 16);
    assert_int_equal(head_size_of(CASE_1(", \"head_dim\": 0")), 3584 / 16);
    assert_int_equal(head_size_of(CASE_1(", \"head_dim\": -1")), 3584 / 16);
}

static void no_attention_heads_are_an_error(void **state)
{
    (void)state;
    assert_invalid("{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 1, "
                   "\"hidden_size\": 3584, \"num_attention_heads\": 0}",
                   "num_attention_heads is 0, expected an integer from 1");
    assert_invalid("{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 1, "
                   "\"hidden_size\": 3584}",
                   "num_attention_heads is missing");
}

/* ---- field case 2: null is absent, nested or not ---- */

static void assert_kv_heads(const char *json, uint64_t wanted)
{
    pkv_model *model = read_model(json);
    assert_int_equal(pkv_model_specs(model)[0].num_kv_heads, wanted);
    assert_int_equal(pkv_model_get_info(model)->n_kv_heads, wanted);
    pkv_model_destroy(model);
}

static void kv_heads_that_are_null_or_absent_are_the_attention_heads(void **state)
{
    (void)state;
    assert_kv_heads(CONFIG("LlamaForCausalLM", ""), 8);
    assert_kv_heads(CONFIG("LlamaForCausalLM", ", \"num_key_value_heads\": null"), 8);
    assert_kv_heads(CONFIG("LlamaForCausalLM", ", \"num_key_value_heads\": 2"), 2);
#define NESTED(more)                                                                             \
    "{\"architectures\": [\"Mistral3ForConditionalGeneration\"], \"torch_dtype\": \"float16\", " \
    "\"text_config\": {\"num_hidden_layers\": 1, \"hidden_size\": 1024, "                        \
    "\"num_attention_heads\": 8, \"sliding_window\": null" more "}}"
    assert_kv_heads(NESTED(""), 8);
    assert_kv_heads(NESTED(", \"num_key_value_heads\": null"), 8);
    assert_kv_heads(NESTED(", \"num_key_value_heads\": 2"), 2);
}

/* ---- field case 5: sliding layers count ---- */

static void sliding_layers_cost_tokens_too(void **state)
{
    (void)state;
    pkv_model *model = read_model("{\"architectures\": [\"GptOssForCausalLM\"], "
                                  "\"num_hidden_layers\": 36, \"num_attention_heads\": 64, "
                                  "\"num_key_value_heads\": 8, \"head_dim\": 64}");
    assert_int_equal(token_bytes(model), 73728); /* 36 layers x (K, V) x 8 heads x 64 x 2 bytes */
    pkv_model_destroy(model);
}

/* ---- field case 6: what makes a layer of Qwen windowed ---- */

#define QWEN(more)                                                                    \
    "{\"architectures\": [\"Qwen2ForCausalLM\"], \"num_hidden_layers\": 5, "          \
    "\"hidden_size\": 1024, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, " \
    "\"torch_dtype\": \"bfloat16\", \"sliding_window\": 2048" more "}"
#define TYPES                                                                             \
    ", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\", " \
    "\"full_attention\", \"sliding_attention\"]"

static void a_window_alone_makes_no_qwen_layer_windowed(void **state)
{
    (void)state;
    assert_layers(QWEN(""), "FFFFF");
    assert_layers(QWEN(", \"use_sliding_window\": null"), "FFFFF");
    assert_layers(QWEN(", \"use_sliding_window\": false, \"max_window_layers\": 2"), "FFFFF");
}

static void the_first_max_window_layers_layers_of_qwen_are_full(void **state)
{
    (void)state;
    assert_layers(QWEN(", \"use_sliding_window\": true"), "FFFFF"); /* 28 by default */
    assert_layers(QWEN(", \"use_sliding_window\": true, \"max_window_layers\": null"), "FFFFF");
    assert_layers(QWEN(", \"use_sliding_window\": true, \"max_window_layers\": 2"), "FFWWW");
    assert_layers(QWEN(", \"use_sliding_window\": true, \"max_window_layers\": 0"), "WWWWW");
}

static void explicit_layer_types_win(void **state)
{
    (void)state;
    assert_layers(QWEN(TYPES), "FWFFW");
    assert_layers(QWEN(", \"use_sliding_window\": false" TYPES), "FWFFW");
    assert_layers(QWEN(", \"use_sliding_window\": true, \"max_window_layers\": 0" TYPES), "FWFFW");
    assert_layers(QWEN(", \"use_sliding_window\": true, \"max_window_layers\": 0, "
                       "\"layer_types\": null"),
                  "WWWWW");
}

/* ---- windows and chunks of the other families ---- */

#define LAYERS(architecture, n, more)                                                 \
    "{\"architectures\": [\"" architecture "\"], \"num_hidden_layers\": " #n ", "     \
    "\"hidden_size\": 1024, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, " \
    "\"torch_dtype\": \"bfloat16\"" more "}"

static void mistral_has_one_window_for_all_layers(void **state)
{
    (void)state;
    assert_layers(LAYERS("MistralForCausalLM", 3, ", \"sliding_window\": 100"), "WWW");
    assert_layers(LAYERS("MistralForCausalLM", 3, ", \"sliding_window\": null"), "FFF");
    assert_layers(LAYERS("MistralForCausalLM", 3, ", \"sliding_window\": 0"), "FFF");
    /* absent: 4096 by the config class, and so assumed */
    pkv_model *model = read_model(LAYERS("MistralForCausalLM", 3, ""));
    assert_int_equal(pkv_model_specs(model)[0].sliding_window, 4096);
    assert_int_equal(pkv_model_layer_at(model, 0)->certainty, PKV_ASSUMED);
    assert_non_null(strstr(pkv_model_layer_at(model, 0)->why, "sliding_window is absent"));
    pkv_model_destroy(model);
    assert_layers(LAYERS("MixtralForCausalLM", 3, ""), "FFF");
    assert_layers(LAYERS("Phi3ForCausalLM", 3, ", \"sliding_window\": 2047"), "WWW");
}

static void gemma_2_and_gpt_oss_alternate(void **state)
{
    (void)state;
    assert_layers(LAYERS("Gemma2ForCausalLM", 4, ""), "WFWF");
    assert_layers(LAYERS("GptOssForCausalLM", 4, ""), "WFWF");
    assert_layers(LAYERS("Gemma2ForCausalLM", 4, ", \"sliding_window\": null"), "FFFF");
}

static void every_sixth_layer_of_gemma_3_is_full(void **state)
{
    (void)state;
    assert_layers(LAYERS("Gemma3ForCausalLM", 7, ""), "WWWWWFW");
    assert_layers(LAYERS("Gemma3ForCausalLM", 7, ", \"sliding_window_pattern\": null"), "WWWWWFW");
    assert_layers(LAYERS("Gemma3ForCausalLM", 7, ", \"sliding_window_pattern\": 3"), "WWFWWFW");
    assert_layers(LAYERS("Gemma3ForCausalLM", 7, ", \"sliding_window_pattern\": 1"), "FFFFFFF");
}

static void llama_4_layers_with_rope_are_chunked(void **state)
{
    (void)state;
    assert_layers(LAYERS("Llama4ForCausalLM", 5, ""), "CCCFC");
    assert_layers(LAYERS("Llama4ForCausalLM", 5, ", \"no_rope_layers\": []"), "CCCFC");
    assert_layers(LAYERS("Llama4ForCausalLM", 5, ", \"no_rope_layers\": [1, 0, 0, 1, 1]"), "CFFCC");
    assert_layers(LAYERS("Llama4ForCausalLM", 5, ", \"no_rope_layer_interval\": 2"), "CFCFC");
    assert_layers(LAYERS("Llama4ForCausalLM", 5, ", \"attention_chunk_size\": null"), "FFFFF");
    pkv_model *model = read_model(LAYERS("Llama4ForCausalLM", 5, ", \"attention_chunk_size\": 64"));
    assert_int_equal(pkv_model_specs(model)[0].attention_chunk_size, 64);
    pkv_model_destroy(model);
}

static void the_moe_models_of_qwen_follow_their_own_code(void **state)
{
    (void)state;
    /* one window or none; the first has no layer rule, the second alternates, so has none */
    assert_layers(LAYERS("Qwen3MoeForCausalLM", 3, ", \"use_sliding_window\": true"), "WWW");
    assert_layers(LAYERS("Qwen3MoeForCausalLM", 3, ", \"sliding_window\": 64"), "FFF");
    assert_layers(LAYERS("Qwen2MoeForCausalLM", 3, ", \"use_sliding_window\": true"), "FFF");
}

static void an_encoder_keeps_nothing(void **state)
{
    (void)state;
    pkv_model *model = read_model(LAYERS("Qwen2ForCausalLM", 2, ", \"is_causal\": false"));
    const pkv_model_info *info = pkv_model_get_info(model);
    assert_int_equal(info->n_layers, 0);
    assert_int_equal(info->n_no_cache, 2);
    assert_string_equal(pkv_model_no_cache_at(model, 1), "layers.1");
    assert_null(pkv_model_no_cache_at(model, 2));
    assert_null(pkv_model_layer_at(model, 0));
    pkv_model_destroy(model);
    assert_layers(LAYERS("Qwen2ForCausalLM", 2, ", \"is_causal\": null"), "FF");
    assert_layers(LAYERS("MixtralForCausalLM", 2, ", \"is_causal\": false"), "FF");
}

/* ---- field case 9: one latent, not two, and whole on every rank ---- */

#define DEEPSEEK                                                                          \
    "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"num_hidden_layers\": 61, "        \
    "\"num_attention_heads\": 128, \"num_key_value_heads\": 128, \"kv_lora_rank\": 512, " \
    "\"qk_rope_head_dim\": 64, \"torch_dtype\": \"bfloat16\"}"

static void a_latent_is_kept_once_and_whole_on_every_rank(void **state)
{
    (void)state;
    for (uint32_t tp = 1; tp <= 8; tp *= 2) {
        pkv_model *model;
        assert_int_equal(read_as(DEEPSEEK, tp, "auto", &model), PKV_OK);
        assert_int_equal(token_bytes(model), 70272); /* 61 x 576 x 2 */
        assert_int_equal(pkv_model_specs(model)[0].max_tp_shards, 1);
        assert_string_equal(pkv_model_specs(model)[0].cache_dtype, "auto");
        pkv_model_destroy(model);
    }
}

/* ---- tensor parallelism ---- */

#define HEADS(q, kv)                                                                        \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 1, "                \
    "\"hidden_size\": 4096, \"num_attention_heads\": " #q ", \"num_key_value_heads\": " #kv \
    ", \"torch_dtype\": \"bfloat16\"}"

static void kv_heads_are_split_or_repeated_over_ranks(void **state)
{
    (void)state;
    static const uint64_t wanted[] = {8, 4, 2, 1, 1, 1}; /* 1 .. 32 ranks */
    for (uint32_t i = 0; i < 6; i++) {
        pkv_model *model;
        assert_int_equal(read_as(HEADS(32, 8), 1u << i, "auto", &model), PKV_OK);
        assert_int_equal(pkv_model_specs(model)[0].num_kv_heads, wanted[i]);
        pkv_model_destroy(model);
    }
}

static void heads_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    assert_refused(HEADS(32, 8), 64, "auto", PKV_E_VALUE,
                   "num_attention_heads 32 does not divide over tp 64");
    assert_refused(HEADS(28, 4), 8, "auto", PKV_E_VALUE, "28 does not divide over tp 8");
    assert_refused(HEADS(48, 6), 4, "auto", PKV_E_VALUE,
                   "num_key_value_heads 6 and tp 4: neither divides the other");
    assert_refused(HEADS(32, 5), 1, "auto", PKV_E_VALUE, "no multiple of num_key_value_heads 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_declared_head_dim_wins),
        cmocka_unit_test(head_dim_follows_from_hidden_size_otherwise),
        cmocka_unit_test(no_attention_heads_are_an_error),
        cmocka_unit_test(kv_heads_that_are_null_or_absent_are_the_attention_heads),
        cmocka_unit_test(sliding_layers_cost_tokens_too),
        cmocka_unit_test(a_window_alone_makes_no_qwen_layer_windowed),
        cmocka_unit_test(the_first_max_window_layers_layers_of_qwen_are_full),
        cmocka_unit_test(explicit_layer_types_win),
        cmocka_unit_test(mistral_has_one_window_for_all_layers),
        cmocka_unit_test(gemma_2_and_gpt_oss_alternate),
        cmocka_unit_test(every_sixth_layer_of_gemma_3_is_full),
        cmocka_unit_test(llama_4_layers_with_rope_are_chunked),
        cmocka_unit_test(the_moe_models_of_qwen_follow_their_own_code),
        cmocka_unit_test(an_encoder_keeps_nothing),
        cmocka_unit_test(a_latent_is_kept_once_and_whole_on_every_rank),
        cmocka_unit_test(kv_heads_are_split_or_repeated_over_ranks),
        cmocka_unit_test(heads_that_do_not_divide_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
