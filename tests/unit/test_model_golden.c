/* test_model_golden.c  Real models against what the engine itself takes as their cache. */
#include <jansson.h>

#include <pkv/document.h>

#include "model_fixture.h"

static const char *const golden_fields[] = {
    "kind",          "num_kv_heads",     "head_size",      "head_size_v",
    "dtype",         "kv_quant_mode",    "sliding_window", "attention_chunk_size",
    "rswa_window",   "tokens_per_state", "num_head_slots", "state_content_bytes",
    "cache_role",    "cache_dtype_str",  "model_version",  "is_index_group_leader",
    "shapes",        "dtypes",           "mamba_type",     "non_causal",
    "tp_replicated", "sink_len"};

static char *read_file(const char *path, size_t *len_out)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail_msg("%s is missing", path);
    }
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *len_out = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

/* null, false and 0 are the same as absent */
static bool is_nothing(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_integer(value) && json_integer_value(value) == 0);
}

static void compare_layer(const char *config, const pkv_model *model, uint32_t i,
                          const json_t *wanted)
{
    char text[2048];
    size_t len;
    assert_int_equal(pkv_spec_to_json(&pkv_model_specs(model)[i], text, sizeof text, &len), PKV_OK);
    json_t *got = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(got);
    for (size_t f = 0; f < sizeof golden_fields / sizeof *golden_fields; f++) {
        const json_t *a = json_object_get(got, golden_fields[f]);
        const json_t *b = json_object_get(wanted, golden_fields[f]);
        if (is_nothing(a) != is_nothing(b) || (!is_nothing(a) && !json_equal(a, b))) {
            fail_msg("%s: layer %u: %s of %s", config, (unsigned)i, golden_fields[f], text);
        }
    }
    json_decref(got);
}

static void compare_variant(const char *config, const pkv_model *model, const json_t *wanted)
{
    const json_t *specs = json_object_get(wanted, "specs");
    const json_t *runs = json_object_get(wanted, "layers");
    uint32_t layer = 0;
    for (size_t r = 0; r < json_array_size(runs); r++) {
        const json_t *run = json_array_get(runs, r);
        const json_int_t index = json_integer_value(json_array_get(run, 0));
        const json_int_t n = json_integer_value(json_array_get(run, 1));
        for (json_int_t i = 0; i < n; i++, layer++) {
            assert_true(layer < pkv_model_get_info(model)->n_layers);
            compare_layer(config, model, layer, json_array_get(specs, (size_t)index));
        }
    }
    assert_int_equal(layer, pkv_model_get_info(model)->n_layers);
}

static void compare_model(const json_t *golden)
{
    char path[256];
    size_t len, v;
    const json_t *variant;
    const char *config = json_string_value(json_object_get(golden, "config"));
    (void)snprintf(path, sizeof path, "tests/data/configs/%s", config);
    char *text = read_file(path, &len);
    json_array_foreach(json_object_get(golden, "variants"), v, variant)
    {
        pkv_model_params params;
        pkv_model *model;
        pkv_model_params_init(&params);
        params.tp = (uint32_t)json_integer_value(json_object_get(variant, "tp"));
        params.cache_dtype = json_string_value(json_object_get(variant, "kv_dtype"));
        const pkv_status st = pkv_model_read_config(text, len, &params, &model);
        if (json_object_get(variant, "refused")) {
            assert_int_equal(st, PKV_E_VALUE);
            continue;
        }
        if (st != PKV_OK) {
            fail_msg("%s: %s", config, pkv_last_error());
        }
        const pkv_model_info *info = pkv_model_get_info(model);
        assert_string_equal(pkv_dtype_name(info->dtype),
                            json_string_value(json_object_get(golden, "dtype")));
        assert_int_equal(info->max_model_len,
                         json_integer_value(json_object_get(golden, "max_model_len")));
        assert_int_equal(info->n_no_cache, json_integer_value(json_object_get(golden, "no_cache")));
        for (uint32_t i = 0; i < info->n_layers; i++) {
            assert_int_equal(pkv_model_layer_at(model, i)->certainty, PKV_EXACT);
        }
        compare_variant(config, model, variant);
        pkv_model_destroy(model);
    }
    free(text);
}

static void every_golden_model_is_equal_in_every_variant(void **state)
{
    (void)state;
    size_t i;
    const json_t *golden;
    json_t *all = json_load_file("tests/data/golden/models.json", 0, NULL);
    assert_non_null(all);
    assert_true(json_array_size(json_object_get(all, "models")) >= 49);
    json_array_foreach(json_object_get(all, "models"), i, golden)
    {
        compare_model(golden);
    }
    json_decref(all);
}

/* The published file leaves most of text_config to the config class; the same model, saved again
 * by the library of that class, has golden specs. */
static void a_published_file_with_gaps_reads_like_the_full_one(void **state)
{
    (void)state;
    size_t len[2];
    char *text[2] = {
        read_file("tests/data/configs/google--gemma-3-27b-it.json", &len[0]),
        read_file("tests/data/configs/google--gemma-3-27b-it.resaved-4.56.json", &len[1])};
    pkv_model *model[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pkv_model_read_config(text[i], len[i], NULL, &model[i]), PKV_OK);
        free(text[i]);
    }
    assert_int_equal(pkv_model_get_info(model[0])->max_model_len, 131072);
    assert_int_equal(pkv_model_get_info(model[0])->n_layers, 62);
    for (uint32_t i = 0; i < 62; i++) {
        assert_true(pkv_spec_equal(&pkv_model_specs(model[0])[i], &pkv_model_specs(model[1])[i]));
    }
    pkv_model_destroy(model[0]);
    pkv_model_destroy(model[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_model_is_equal_in_every_variant),
        cmocka_unit_test(a_published_file_with_gaps_reads_like_the_full_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
