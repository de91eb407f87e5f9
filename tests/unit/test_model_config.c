/* test_model_config.c  What the reader of configs refuses, and its memory. */
#include "model_fixture.h"

/* ---- names ---- */

static void an_architecture_outside_the_table_is_refused_by_name(void **state)
{
    (void)state;
    char text[8192];
    FILE *file = fopen("tests/data/configs/microsoft--Phi-3-small-instruct.json", "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_refused(text, 1, "auto", PKV_E_UNSUPPORTED,
                   "architecture \"Phi3SmallForCausalLM\" is not supported");
    assert_non_null(strstr(pkv_last_error(), "Phi-3, gpt-oss, DeepSeek V2"));
    assert_refused(CONFIG("BertModel", ""), 1, "auto", PKV_E_UNSUPPORTED, "\"BertModel\"");
}

static void every_architecture_of_the_table_is_read(void **state)
{
    (void)state;
    const char *name;
    uint32_t n = 0;
    for (; (name = pkv_model_architecture_at(n)) != NULL; n++) {
        char json[512];
        pkv_model *model;
        (void)snprintf(json, sizeof json,
                       "{\"architectures\": [\"%s\"], \"num_hidden_layers\": 2, \"hidden_size\": "
                       "1024, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, "
                       "\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"dtype\": \"float16\"}",
                       name);
        model = read_model(json);
        assert_string_equal(pkv_model_get_info(model)->architecture, name);
        assert_int_equal(pkv_model_get_info(model)->n_layers, 2);
        pkv_model_destroy(model);
    }
    assert_true(n >= 17);
}

static void model_type_stands_in_for_absent_architectures(void **state)
{
    (void)state;
    static const char *const absent[] = {"", "\"architectures\": null, ",
                                         "\"architectures\": [], "};
    for (int i = 0; i < 3; i++) {
        char json[256];
        (void)snprintf(json, sizeof json,
                       "{%s\"model_type\": \"qwen3\", \"num_hidden_layers\": 1, \"head_dim\": 128, "
                       "\"num_attention_heads\": 8, \"dtype\": \"bfloat16\", "
                       "\"num_key_value_heads\": 2}",
                       absent[i]);
        pkv_model *model = read_model(json);
        assert_string_equal(pkv_model_get_info(model)->architecture, "Qwen3ForCausalLM");
        assert_int_equal(pkv_model_layer_at(model, 0)->certainty, PKV_DERIVED);
        assert_non_null(strstr(pkv_model_layer_at(model, 0)->why, "follows from model_type"));
        pkv_model_destroy(model);
    }
    assert_refused("{\"model_type\": \"t5\"}", 1, "auto", PKV_E_UNSUPPORTED, "model_type \"t5\"");
    assert_invalid("{}", "architectures is missing, expected the name of the model's class");
    assert_invalid("{\"architectures\": [7]}", "architectures[0] is 7, expected");
    assert_invalid("{\"architectures\": \"LlamaForCausalLM\"}", "expected an array");
}

static void a_wrapper_takes_only_text_models_of_its_family(void **state)
{
    (void)state;
    assert_refused("{\"architectures\": [\"Mistral3ForConditionalGeneration\"], "
                   "\"text_config\": {\"model_type\": \"mistral4\"}}",
                   1, "auto", PKV_E_UNSUPPORTED, "text_config: model_type \"mistral4\"");
    assert_invalid("{\"architectures\": [\"Llama4ForConditionalGeneration\"], "
                   "\"text_config\": {\"num_hidden_layers\": 1, \"num_attention_heads\": \"8\"}}",
                   "text_config: num_attention_heads is \"8\", expected an integer");
}

static void variants_with_another_cache_are_refused(void **state)
{
    (void)state;
    assert_refused(CONFIG("Gemma3ForCausalLM", ", \"num_kv_shared_layers\": 1"), 1, "auto",
                   PKV_E_UNSUPPORTED, "num_kv_shared_layers 1 is not supported");
    assert_refused(CONFIG("DeepseekV3ForCausalLM", ", \"index_topk\": 2048"), 1, "auto",
                   PKV_E_UNSUPPORTED, "index_topk 2048");
    pkv_model *model = read_model(CONFIG("Gemma3ForCausalLM", ", \"num_kv_shared_layers\": 0"));
    pkv_model_destroy(model);
}

/* ---- bad input ---- */

static void sizes_out_of_range_are_named(void **state)
{
    (void)state;
#define LLAMA(fields) "{\"architectures\": [\"LlamaForCausalLM\"], " fields "}"
    assert_invalid(LLAMA("\"hidden_size\": 1"), "num_hidden_layers is missing");
    assert_invalid(LLAMA("\"num_hidden_layers\": 0"), "num_hidden_layers is 0");
    assert_invalid(LLAMA("\"num_hidden_layers\": -1"), "num_hidden_layers is -1");
    assert_invalid(LLAMA("\"num_hidden_layers\": 100001"), "from 1 to 100000");
    assert_invalid(LLAMA("\"num_hidden_layers\": 1000000000000000000"),
                   "num_hidden_layers is 1000");
    assert_invalid(LLAMA("\"num_hidden_layers\": 1.0"), "the real number 1");
    assert_invalid(LLAMA("\"num_hidden_layers\": true"), "num_hidden_layers is true");
    assert_invalid(LLAMA("\"num_hidden_layers\": 1, \"num_attention_heads\": 2147483648"),
                   "from 1 to 2147483647");
    assert_invalid(LLAMA("\"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
                         "\"hidden_size\": 4"),
                   "hidden_size 4 is smaller than num_attention_heads 8");
    assert_invalid(CONFIG("LlamaForCausalLM", ", \"head_dim\": \"128\""), "head_dim is \"128\"");
    assert_invalid(CONFIG("LlamaForCausalLM", ", \"head_dim\": 2147483648"), "head_dim is 2147");
    assert_invalid(CONFIG("LlamaForCausalLM", ", \"sliding_window\": -5"), "sliding_window is -5");
    assert_invalid(CONFIG("LlamaForCausalLM", ", \"text_config\": []"), "text_config is an array");
    assert_invalid(CONFIG("LlamaForCausalLM", ", \"is_causal\": 1"), "expected true or false");
    assert_invalid(CONFIG("LlamaForCausalLM", ", \"dtype\": \"float7\""), "\"float7\"");
    assert_invalid(CONFIG("DeepseekV2ForCausalLM", ""), "kv_lora_rank is missing");
    assert_invalid(CONFIG("DeepseekV2ForCausalLM", ", \"kv_lora_rank\": 2147483647, "
                                                   "\"qk_rope_head_dim\": 2147483647"),
                   "exceeds 2^31-1");
}

static void the_largest_sizes_are_read(void **state)
{
    (void)state;
    pkv_model *model = read_model("{\"architectures\": [\"LlamaForCausalLM\"], "
                                  "\"num_hidden_layers\": 100000, \"hidden_size\": 2147483647, "
                                  "\"num_attention_heads\": 1, \"dtype\": \"float16\"}");
    assert_int_equal(pkv_model_get_info(model)->n_layers, 100000);
    assert_string_equal(pkv_model_layer_at(model, 99999)->name, "layers.99999");
    assert_int_equal(pkv_model_layer_at(model, 99999)->index, 99999);
    assert_null(pkv_model_layer_at(model, 100000));
    assert_int_equal(pkv_model_specs(model)[99999].head_size, 2147483647);
    pkv_model_destroy(model);
}

static void lists_per_layer_have_one_known_entry_per_layer(void **state)
{
    (void)state;
#define GEMMA(types) CONFIG("Gemma2ForCausalLM", ", \"layer_types\": " types)
    assert_invalid(GEMMA("[]"), "layer_types is an array of 0, expected num_hidden_layers = 1");
    assert_invalid(GEMMA("[\"full_attention\", \"full_attention\"]"), "an array of 2");
    assert_invalid(GEMMA("[\"linear_attention\"]"), "layer_types[0] is \"linear_attention\"");
    assert_invalid(GEMMA("[\"chunked_attention\"]"), "layer_types[0] is \"chunked_attention\"");
    assert_invalid(GEMMA("[null]"), "layer_types[0] is null");
    assert_invalid(GEMMA("[1]"), "layer_types[0] is 1");
    assert_invalid(GEMMA("\"full_attention\""), "expected an array");
    assert_invalid(CONFIG("Llama4ForCausalLM", ", \"no_rope_layers\": [2]"),
                   "no_rope_layers[0] is 2");
    assert_invalid(CONFIG("Llama4ForCausalLM", ", \"no_rope_layers\": [1, 1]"), "an array of 2");
    assert_invalid(CONFIG("LlamaForCausalLM", ", \"layer_types\": [\"sliding_attention\"]"),
                   "sliding_window is missing");
}

static void what_is_no_json_is_refused(void **state)
{
    (void)state;
    assert_invalid("", "line 1");
    assert_invalid("{\"a\": 1", "expected the rest of the document");
    assert_invalid("{\"a\": 1, \"a\": 2}", "every key of an object once");
    assert_invalid("{\"a\": NaN}", "NaN");
    assert_invalid("{\"a\": 9223372036854775808}", "integers up to 2^63-1");
    assert_invalid("[]", "expected a JSON object");
}

static void arguments_are_checked(void **state)
{
    (void)state;
    pkv_model *model = (pkv_model *)(uintptr_t)1;
    pkv_model_params params;
    pkv_model_params_init(&params);
    assert_int_equal(pkv_model_read_config("{}", 2, &params, NULL), PKV_E_INVAL);
    assert_int_equal(pkv_model_read_config(NULL, 0, &params, &model), PKV_E_INVAL);
    assert_null(model);
    params.tp = 0;
    assert_int_equal(pkv_model_read_config("{}", 2, &params, &model), PKV_E_INVAL);
    assert_non_null(strstr(pkv_last_error(), "tp 0 is not within"));
    pkv_model_params_init(&params);
    params.block_size = UINT64_C(1) << 31;
    assert_int_equal(pkv_model_read_config("{}", 2, &params, &model), PKV_E_INVAL);
    pkv_model_params_init(&params);
    params.struct_size = 0;
    assert_int_equal(pkv_model_read_config("{}", 2, &params, &model), PKV_E_INVAL);

    struct {
        pkv_model_params known;
        uint64_t unknown;
    } newer = {.unknown = 1};
    pkv_model_params_init(&newer.known);
    newer.known.struct_size = sizeof newer;
    assert_int_equal(pkv_model_read_config("{}", 2, &newer.known, &model), PKV_E_VERSION);
    pkv_model_destroy(NULL);
}

static void the_block_size_is_16_or_what_is_asked_for(void **state)
{
    (void)state;
    const char *json = CONFIG("LlamaForCausalLM", "");
    pkv_model *model = read_model(json);
    assert_int_equal(pkv_model_specs(model)[0].block_size, 16);
    pkv_model_destroy(model);
    pkv_model_params params;
    pkv_model_params_init(&params);
    params.block_size = 64;
    assert_int_equal(pkv_model_read_config(json, strlen(json), &params, &model), PKV_OK);
    assert_int_equal(pkv_model_specs(model)[0].block_size, 64);
    pkv_model_destroy(model);
}

/* ---- memory ---- */

typedef struct countdown {
    uint64_t left; /* allocations that still succeed */
    uint64_t held; /* bytes */
} countdown;

static void *counted_alloc(void *ctx, size_t bytes, size_t align)
{
    countdown *c = ctx;
    (void)align;
    if (c->left == 0) {
        return NULL;
    }
    c->left--;
    c->held += bytes;
    return malloc(bytes);
}

static void counted_free(void *ctx, void *ptr, size_t bytes, size_t align)
{
    countdown *c = ctx;
    (void)align;
    c->held -= bytes;
    free(ptr);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    const char *json = "{\"architectures\": [\"Gemma2ForCausalLM\"], \"num_hidden_layers\": 3000, "
                       "\"num_attention_heads\": 8, \"dtype\": \"bfloat16\"}";
    countdown c = {0, 0};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_model_params params;
    pkv_model *model = NULL;
    pkv_model_params_init(&params);
    params.alloc = &hooks;
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    for (; st == PKV_E_NOMEM; n++) {
        c.left = n;
        st = pkv_model_read_config(json, strlen(json), &params, &model);
        assert_true(st == PKV_OK || (st == PKV_E_NOMEM && !model && c.held == 0));
    }
    assert_int_equal(st, PKV_OK);
    assert_true(n > 3);
    pkv_model_destroy(model);
    assert_int_equal(c.held, 0);
}

static void a_failed_read_gives_its_memory_back(void **state)
{
    (void)state;
    countdown c = {1000, 0};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    const char *json = CONFIG("LlamaForCausalLM", ", \"quantization_config\": 1");
    pkv_model_params params;
    pkv_model *model;
    pkv_model_params_init(&params);
    params.alloc = &hooks;
    assert_int_equal(pkv_model_read_config(json, strlen(json), &params, &model), PKV_E_INVAL);
    assert_true(c.left < 1000);
    assert_int_equal(c.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_architecture_outside_the_table_is_refused_by_name),
        cmocka_unit_test(every_architecture_of_the_table_is_read),
        cmocka_unit_test(model_type_stands_in_for_absent_architectures),
        cmocka_unit_test(a_wrapper_takes_only_text_models_of_its_family),
        cmocka_unit_test(variants_with_another_cache_are_refused),
        cmocka_unit_test(sizes_out_of_range_are_named),
        cmocka_unit_test(the_largest_sizes_are_read),
        cmocka_unit_test(lists_per_layer_have_one_known_entry_per_layer),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(the_block_size_is_16_or_what_is_asked_for),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(a_failed_read_gives_its_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
