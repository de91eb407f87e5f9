/* test_model_types.c  In which type a model is cached, and how long its contexts may be. */
#include "model_fixture.h"

/* ---- cache types; field case 10 ---- */

#define SCHEME(scheme)                                                          \
    CONFIG("LlamaForCausalLM", ", \"quantization_config\": {\"quant_method\": " \
                               "\"compressed-tensors\", \"kv_cache_scheme\": " scheme "}")
#define FLOAT8(strategy) \
    "{\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"" strategy "\", \"dynamic\": false}"

static void assert_type(const char *json, const char *asked, uint32_t mode, uint32_t dtype)
{
    pkv_model *model;
    if (read_as(json, 1, asked, &model) != PKV_OK) {
        fail_msg("%s", pkv_last_error());
    }
    assert_int_equal(pkv_model_specs(model)[0].kv_quant_mode, mode);
    assert_int_equal(pkv_model_specs(model)[0].dtype, dtype);
    pkv_model_destroy(model);
}

static void a_checkpoint_without_a_scheme_is_not_quantised(void **state)
{
    (void)state;
    assert_type(SCHEME("null"), "auto", PKV_QUANT_NONE, PKV_DTYPE_BFLOAT16);
    assert_type(CONFIG("LlamaForCausalLM", ", \"quantization_config\": null"), "auto",
                PKV_QUANT_NONE, PKV_DTYPE_BFLOAT16);
    assert_type(CONFIG("LlamaForCausalLM", ", \"quantization_config\": {}"), "auto", PKV_QUANT_NONE,
                PKV_DTYPE_BFLOAT16);
}

static void eight_float_bits_with_one_scale_are_fp8(void **state)
{
    (void)state;
    assert_type(SCHEME(FLOAT8("tensor")), "auto", PKV_QUANT_FP8_PER_TENSOR, PKV_DTYPE_UINT8);
    assert_type(SCHEME(FLOAT8("tensor")), "fp8", PKV_QUANT_FP8_PER_TENSOR, PKV_DTYPE_UINT8);
    assert_type(SCHEME(FLOAT8("tensor")), "fp8_e4m3", PKV_QUANT_FP8_PER_TENSOR, PKV_DTYPE_UINT8);
}

static void integers_and_scales_per_head_are_never_taken_for_fp8(void **state)
{
    (void)state;
    assert_refused(SCHEME("{\"num_bits\": 8, \"type\": \"int\", \"strategy\": \"tensor\"}"), 1,
                   "auto", PKV_E_UNSUPPORTED, "kv_cache_scheme: type \"int\" is not supported");
    assert_refused(SCHEME(FLOAT8("attn_head")), 1, "auto", PKV_E_UNSUPPORTED,
                   "strategy \"attn_head\" is not supported");
    assert_refused(SCHEME("{\"num_bits\": 4, \"type\": \"float\"}"), 1, "auto", PKV_E_UNSUPPORTED,
                   "num_bits");
    assert_refused(SCHEME("{\"num_bits\": 8, \"type\": \"float\", \"symmetric\": false}"), 1,
                   "auto", PKV_E_UNSUPPORTED, "symmetric");
    assert_invalid(SCHEME("{\"num_bits\": 8}"), "kv_cache_scheme: type is missing");
    assert_invalid(SCHEME("{\"type\": \"float\"}"), "kv_cache_scheme: num_bits is missing");
    assert_invalid(SCHEME("8"), "kv_cache_scheme is 8");
}

static void a_request_that_contradicts_the_scheme_is_refused_with_both(void **state)
{
    (void)state;
    static const char *const others[] = {"bfloat16", "fp8_e5m2", "int8_per_token_head"};
    for (int i = 0; i < 3; i++) {
        assert_refused(SCHEME(FLOAT8("tensor")), 1, others[i], PKV_E_VALUE, others[i]);
        assert_non_null(strstr(pkv_last_error(), "asks for \"fp8\""));
    }
}

static void the_words_of_one_producer_are_read(void **state)
{
    (void)state;
#define MODELOPT(fields)       \
    CONFIG("LlamaForCausalLM", \
           ", \"quantization_config\": {\"quant_method\": \"modelopt\", " fields "}")
    assert_type(MODELOPT("\"kv_cache_quant_algo\": \"FP8\""), "auto", PKV_QUANT_FP8_PER_TENSOR,
                PKV_DTYPE_UINT8);
    assert_type(MODELOPT("\"quantization\": {\"kv_cache_quant_algo\": \"NVFP4\"}"), "auto",
                PKV_QUANT_NVFP4, PKV_DTYPE_UINT8);
    assert_type(MODELOPT("\"kv_cache_scheme\": {\"num_bits\": 8, \"type\": \"float\", "
                         "\"dynamic\": false}"),
                "auto", PKV_QUANT_FP8_PER_TENSOR, PKV_DTYPE_UINT8);
    assert_refused(MODELOPT("\"kv_cache_quant_algo\": \"INT8\""), 1, "auto", PKV_E_UNSUPPORTED,
                   "\"INT8\"");
    /* without the producer's method the engine does not look */
    assert_type(CONFIG("LlamaForCausalLM", ", \"quantization_config\": {\"kv_cache_scheme\": "
                                           "\"FP8\"}"),
                "auto", PKV_QUANT_NONE, PKV_DTYPE_BFLOAT16);
}

static void sixteen_bit_types_must_be_the_models(void **state)
{
    (void)state;
    const char *json = CONFIG("LlamaForCausalLM", "");
    assert_type(json, "bfloat16", PKV_QUANT_NONE, PKV_DTYPE_BFLOAT16);
    assert_type(json, NULL, PKV_QUANT_NONE, PKV_DTYPE_BFLOAT16);
    assert_refused(json, 1, "float16", PKV_E_VALUE,
                   "cache_dtype \"float16\" is not the model's \"bfloat16\"");
    assert_refused(json, 1, "int3", PKV_E_VALUE, "cache_dtype \"int3\" is unknown");
    assert_refused(json, 1, "", PKV_E_VALUE, "cache_dtype \"\" is unknown");
}

static void models_are_served_in_16_bits(void **state)
{
    (void)state;
#define TYPED(architecture, field)                                           \
    "{\"architectures\": [\"" architecture "\"], \"num_hidden_layers\": 1, " \
    "\"hidden_size\": 1024, \"num_attention_heads\": 8" field "}"
    assert_type(TYPED("LlamaForCausalLM", ", \"torch_dtype\": \"float32\""), "auto", PKV_QUANT_NONE,
                PKV_DTYPE_BFLOAT16);
    assert_type(TYPED("LlamaForCausalLM", ", \"torch_dtype\": \"float16\""), "auto", PKV_QUANT_NONE,
                PKV_DTYPE_FLOAT16);
    assert_type(TYPED("LlamaForCausalLM", ", \"dtype\": \"float16\", \"torch_dtype\": null"),
                "auto", PKV_QUANT_NONE, PKV_DTYPE_FLOAT16);
    /* Gemma is unstable in float16 */
    assert_type(TYPED("Gemma2ForCausalLM", ", \"torch_dtype\": \"float16\""), "auto",
                PKV_QUANT_NONE, PKV_DTYPE_BFLOAT16);
    pkv_model *model = read_model(TYPED("LlamaForCausalLM", ""));
    assert_int_equal(pkv_model_specs(model)[0].dtype, PKV_DTYPE_BFLOAT16);
    assert_int_equal(pkv_model_layer_at(model, 0)->certainty, PKV_ASSUMED);
    pkv_model_destroy(model);
}

static void packed_types_follow_their_slot_layout(void **state)
{
    (void)state;
    pkv_model *model;
    assert_int_equal(read_as(CONFIG("LlamaForCausalLM", ""), 1, "int8_per_token_head", &model),
                     PKV_OK);
    assert_int_equal(pkv_model_specs(model)[0].state_content_bytes, 128 + 128 + 8);
    assert_int_equal(pkv_model_layer_at(model, 0)->certainty, PKV_DERIVED);
    pkv_model_destroy(model);
    assert_refused(CONFIG("LlamaForCausalLM", ""), 1, "fp8_ds_mla", PKV_E_VALUE, "fp8_ds_mla");
}

static void turboquant_leaves_two_layers_at_each_end(void **state)
{
    (void)state;
    pkv_model *model;
    const char *json = "{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 6, "
                       "\"hidden_size\": 1024, \"num_attention_heads\": 8, \"dtype\": \"float16\"}";
    assert_int_equal(read_as(json, 1, "turboquant_k8v4", &model), PKV_OK);
    for (uint32_t i = 0; i < 6; i++) {
        const bool packed = i == 2 || i == 3;
        assert_int_equal(pkv_model_specs(model)[i].kv_quant_mode,
                         packed ? PKV_QUANT_TURBOQUANT_K8V4 : PKV_QUANT_NONE);
    }
    pkv_model_destroy(model);
}

/* ---- the longest context ---- */

static void assert_length(const char *json, uint64_t wanted)
{
    pkv_model *model = read_model(json);
    assert_int_equal(pkv_model_get_info(model)->max_model_len, wanted);
    pkv_model_destroy(model);
}

static void the_length_is_the_least_of_the_fields(void **state)
{
    (void)state;
    assert_length(CONFIG("LlamaForCausalLM", ""), 2048); /* of the config class */
    assert_length(CONFIG("LlamaForCausalLM", ", \"max_position_embeddings\": 4096"), 4096);
    assert_length(
        CONFIG("LlamaForCausalLM", ", \"max_position_embeddings\": 4096, \"seq_length\": 1000"),
        1000);
    assert_length(CONFIG("LlamaForCausalLM",
                         ", \"max_position_embeddings\": 4096, \"model_max_length\": 8192"),
                  8192);
}

static void rope_scaling_counts_where_positions_do_not_hold_it(void **state)
{
    (void)state;
#define ROPE(architecture, scaling) \
    CONFIG(architecture, ", \"max_position_embeddings\": 4096, \"rope_scaling\": " scaling)
    assert_length(ROPE("LlamaForCausalLM", "{\"type\": \"linear\", \"factor\": 2.5}"), 10240);
    assert_length(ROPE("LlamaForCausalLM", "{\"rope_type\": \"dynamic\", \"factor\": 2}"), 8192);
    assert_length(ROPE("LlamaForCausalLM", "{\"rope_type\": \"linear\", \"factor\": null}"), 4096);
    assert_length(ROPE("LlamaForCausalLM", "{\"rope_type\": \"llama3\", \"factor\": 8}"), 4096);
    assert_length(ROPE("LlamaForCausalLM", "{\"rope_type\": \"yarn\", \"factor\": 8}"), 4096);
    assert_length(ROPE("Gemma3ForCausalLM", "{\"rope_type\": \"linear\", \"factor\": 8}"), 4096);
    assert_length(ROPE("LlamaForCausalLM", "{}"), 4096);
    assert_invalid(ROPE("LlamaForCausalLM", "{\"type\": 1}"), "rope_scaling: type is 1");
    assert_invalid(ROPE("LlamaForCausalLM", "{\"type\": \"linear\", \"factor\": -1}"), "factor");
}

static void long_rope_falls_back_to_the_length_of_training(void **state)
{
    (void)state;
#define LONG(architecture, more)                                                     \
    CONFIG(architecture, ", \"max_position_embeddings\": 131072, \"rope_scaling\": " \
                         "{\"type\": \"longrope\"}" more)
    assert_length(LONG("Phi3ForCausalLM", ""), 4096);
    assert_length(LONG("Phi3ForCausalLM", ", \"original_max_position_embeddings\": 8192"), 8192);
    assert_length(LONG("LlamaForCausalLM", ""), 131072);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_without_a_scheme_is_not_quantised),
        cmocka_unit_test(eight_float_bits_with_one_scale_are_fp8),
        cmocka_unit_test(integers_and_scales_per_head_are_never_taken_for_fp8),
        cmocka_unit_test(a_request_that_contradicts_the_scheme_is_refused_with_both),
        cmocka_unit_test(the_words_of_one_producer_are_read),
        cmocka_unit_test(sixteen_bit_types_must_be_the_models),
        cmocka_unit_test(models_are_served_in_16_bits),
        cmocka_unit_test(packed_types_follow_their_slot_layout),
        cmocka_unit_test(turboquant_leaves_two_layers_at_each_end),
        cmocka_unit_test(the_length_is_the_least_of_the_fields),
        cmocka_unit_test(rope_scaling_counts_where_positions_do_not_hold_it),
        cmocka_unit_test(long_rope_falls_back_to_the_length_of_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
