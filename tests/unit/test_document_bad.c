/* test_document_bad.c  Plan documents that are refused: what the text is, what its fields are, and
 * memory that runs out while it is read. */
#include "document_fixture.h"

/* ---- the text as a whole ---- */

static void what_is_no_json_object_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",           " ",        "\n",      "null",        "[]",          "7",     "\"x\"",
        "{",          "}",        "{\"a\"}", "{\"a\": }",   "{}}",         "{} {}", "{'a': 1}",
        "// x",       "\xff\xfe", "{,}",     "{\"a\": 01}", "{\"a\": +1}", "nul",   "{\"\xff\": 1}",
        "{\"a\": 1,}"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_bad_input(texts[i], ": line ");
    }
}

static void numbers_that_json_lacks_are_refused(void **state)
{
    (void)state;
    assert_bad_input("{\"max_model_len\": NaN}", "NaN");
    assert_bad_input("{\"max_model_len\": Infinity}", "Infinity");
    assert_bad_input("{\"max_model_len\": -Infinity}", "line 1");
    assert_bad_input("{\"max_model_len\": 1e999}", "finite");
}

static void integers_beyond_2_to_63_minus_1_are_refused(void **state)
{
    (void)state;
    assert_bad_input("{\"max_model_len\": 9223372036854775808}", "2^63-1");
    assert_bad_input("{\"max_model_len\": 1, \"available_bytes\": 9223372036854775808}", "2^63-1");
    assert_bad_input("{\"max_model_len\": 1, \"available_bytes\": -9223372036854775809}", "line 1");
    assert_bad_input("{\"max_model_len\": 99999999999999999999999999}", "2^63-1");
    assert_bad_input(WITH_LAYERS("", FULL_LAYER("a", ", \"page_size_padded\": "
                                                     "9223372036854775808")),
                     "2^63-1");
}

static void a_key_stands_once(void **state)
{
    (void)state;
    assert_bad_input("{\"max_model_len\": 1, \"max_model_len\": 1}", "once");
    assert_bad_input(OPTIONS("\"tp\": 1, \"tp\": 2"), "once");
    assert_bad_input(WITH_LAYERS("", FULL_LAYER("a", ", \"block_size\": 16")), "once");
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    static const char *const brackets[] = {"[", "{\"a\":"};
    char *text = malloc(DEEP * 5 + 32);
    assert_non_null(text);
    for (size_t b = 0; b < COUNT(brackets); b++) {
        size_t len = (size_t)snprintf(text, 32, "{\"sources\": ");
        for (int i = 0; i < DEEP; i++) {
            len += (size_t)snprintf(text + len, 8, "%s", brackets[b]);
        }
        assert_bad_input(text, "64 levels");
    }
    free(text);
}

static void every_cut_of_a_document_is_refused(void **state)
{
    (void)state;
    const char *whole =
        WITH_LAYERS(", \"hash\": \"\\u00e4\", \"watermark\": 0.5, \"options\": {\"workers\": "
                    "[{\"available_bytes\": 1, \"layers\": [\"a\"]}]}",
                    FULL_LAYER("a", ", \"tokens_per_state\": \"1/4\""));
    const size_t len = strlen(whole);
    for (size_t cut = 0; cut < len; cut++) {
        pkv_document *doc = (pkv_document *)(uintptr_t)1;
        char *exact = malloc(cut + 1); /* so that reading beyond the end is seen */
        assert_non_null(exact);
        memcpy(exact, whole, cut);
        assert_status(pkv_document_read(exact, cut, NULL, &doc), PKV_E_INVAL);
        assert_null(doc);
        assert_error_text("pkv_document_read", "");
        free(exact);
    }
    pkv_document_destroy(read_document(whole));
}

static void missing_arguments_of_documents_are_refused(void **state)
{
    (void)state;
    pkv_document *doc = (pkv_document *)(uintptr_t)1;
    assert_status(pkv_document_read("{}", 2, NULL, NULL), PKV_E_INVAL);
    assert_error_text("pkv_document_read", "NULL");
    assert_status(pkv_document_read(NULL, 0, NULL, &doc), PKV_E_INVAL);
    assert_null(doc);
}

/* ---- fields ---- */

typedef struct bad {
    const char *json, *part;
} bad;

static void assert_all_bad(const bad *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_bad_input(cases[i].json, cases[i].part);
    }
}

static void unknown_fields_and_options_are_named(void **state)
{
    (void)state;
    static const bad cases[] = {
        {WITH(", \"max_len\": 1"), "\"max_len\""},
        {WITH(", \"max_len\": null"), "\"max_len\""},
        {OPTIONS("\"enable_hybrids\": true"), "\"enable_hybrids\""},
        {OPTIONS("\"speculative\": {\"method\": \"mtp\", \"tokens\": 1, \"k\": 1}"), "\"k\""},
        {OPTIONS("\"hisparse\": {\"host_bytes\": 1, \"top_k\": 1}"), "\"top_k\""},
        {OPTIONS("\"workers\": [{\"available_bytes\": 1, \"layers\": [\"a\"], \"rank\": 0}]"),
         "\"rank\""},
        {WITH_LAYERS("", FULL_LAYER("a", ", \"heads\": 1")), "\"heads\""},
        {WITH_LAYERS("", FULL_LAYER("a", ", \"heads\": null")), "\"heads\""},
        {"{\"merge\": [{\"kind\": \"rswa\"}], \"layers\": []}", "\"layers\""},
        {"{\"quant_mode\": \"fp8\", \"options\": {}}", "\"options\""},
        {"{\"layout_of\": \"BLHNC\", \"x\": 1}", "\"x\""},
    };
    assert_all_bad(cases, COUNT(cases));
}

static void wrong_types_are_named_with_what_was_expected(void **state)
{
    (void)state;
    static const bad cases[] = {
        {"{}", "max_model_len is missing"},
        {"{\"max_model_len\": null}", "max_model_len is missing"},
        {"{\"max_model_len\": 0}", "max_model_len is 0"},
        {"{\"max_model_len\": -1}", "max_model_len is -1"},
        {"{\"max_model_len\": 281474976710657}", "max_model_len is 281474976710657"},
        {"{\"max_model_len\": 1.0}", "max_model_len is the real number 1"},
        {"{\"max_model_len\": \"1\"}", "max_model_len is \"1\""},
        {"{\"max_model_len\": true}", "max_model_len is true"},
        {"{\"max_model_len\": [1]}", "max_model_len is an array of 1"},
        {"{\"max_model_len\": 1, \"available_bytes\": 1.5}", "available_bytes is the real"},
        {"{\"max_model_len\": 1, \"available_bytes\": \"8GiB\"}", "available_bytes is \"8GiB\""},
        {WITH(", \"caching\": 1"), "caching is 1, expected true or false"},
        {WITH(", \"events\": \"yes\""), "events is \"yes\""},
        {WITH(", \"watermark\": 1"), "watermark is 1"},
        {WITH(", \"watermark\": -0.5"), "watermark is the real number -0.5"},
        {WITH(", \"watermark\": \"0\""), "watermark is \"0\""},
        {WITH(", \"prefix_match_unit\": 0"), "prefix_match_unit is 0"},
        {WITH(", \"retention_interval\": -1"), "retention_interval is -1"},
        {WITH(", \"hash\": 7"), "hash is 7"},
        {WITH(", \"hash_seed\": 0"), "hash_seed is 0"},
        {WITH(", \"options\": []"), "options is an array of 0"},
        {OPTIONS("\"enable_hybrid\": 0"), "enable_hybrid is 0"},
        {OPTIONS("\"layout\": 1"), "layout is 1"},
        {OPTIONS("\"num_blocks_override\": -1"), "num_blocks_override is -1"},
        {OPTIONS("\"max_num_batched_tokens\": 0"), "max_num_batched_tokens is 0"},
        {OPTIONS("\"max_num_seqs\": 0"), "max_num_seqs is 0"},
        {OPTIONS("\"max_concurrent_batches\": 0"), "max_concurrent_batches is 0"},
        {OPTIONS("\"max_encoder_tokens\": -1"), "max_encoder_tokens is -1"},
        {OPTIONS("\"tp\": 0"), "tp is 0"},
        {OPTIONS("\"dcp\": 65537"), "dcp is 65537"},
        {OPTIONS("\"pcp\": \"2\""), "pcp is \"2\""},
        {OPTIONS("\"auto_fit\": \"auto\""), "auto_fit is \"auto\""},
        {OPTIONS("\"revision\": \"0.32\""), "revision is \"0.32\""},
        {OPTIONS("\"speculative\": \"eagle\""), "speculative is \"eagle\""},
        {OPTIONS("\"speculative\": {\"tokens\": 1}"), "method is missing"},
        {OPTIONS("\"speculative\": {\"method\": \"eagle3\", \"tokens\": 1}"), "\"eagle3\""},
        {OPTIONS("\"speculative\": {\"method\": \"mtp\"}"), "tokens is missing"},
        {OPTIONS("\"speculative\": {\"method\": \"mtp\", \"tokens\": -1}"), "tokens is -1"},
        {OPTIONS("\"hisparse\": {}"), "host_bytes is missing"},
        {OPTIONS("\"hisparse\": {\"host_bytes\": 1, \"index_topk\": 0}"), "index_topk is 0"},
        {OPTIONS("\"hisparse\": true"), "hisparse is true"},
        {WITH_LAYERS("", "7"), "layers[0] is 7, expected an object"},
        {"{\"max_model_len\": 1, \"layers\": {}}", "layers is an object"},
    };
    assert_all_bad(cases, COUNT(cases));
}

static void bad_layers_are_named_by_their_place(void **state)
{
    (void)state;
    static const bad cases[] = {
        {WITH_LAYERS("", FULL_LAYER("a", "") ", {\"kind\": \"full_attention\"}"),
         "layers[1]: name is missing"},
        {WITH_LAYERS("", FULL_LAYER("a", "") ", " FULL_LAYER("a", "")), "layers[1]: name is \"a\""},
        {WITH_LAYERS("", "{\"name\": \"a\"}"), "layers[0]: kind is missing"},
        {WITH_LAYERS("", "{\"name\": \"a\", \"kind\": \"flash_attention\"}"),
         "layers[0]: kind is \"flash_attention\""},
        {WITH_LAYERS("", "{\"name\": \"a\", \"kind\": \"hisparse_hot\"}"), "\"hisparse_hot\""},
        {WITH_LAYERS("", "{\"name\": \"a\", \"kind\": \"hisparse_resident\"}"),
         "\"hisparse_resident\""},
        {WITH_LAYERS("", "{\"name\": \"a\", \"kind\": \"rswa\", \"block_size\": 16, "
                         "\"num_kv_heads\": 1, \"head_size\": 1, \"dtype\": \"int8\"}"),
         "layers[0]: rswa_window is missing"},
        {WITH_LAYERS("", FULL_LAYER("a", ", \"rswa_window\": 5")),
         "layers[0]: full_attention has no field \"rswa_window\""},
        {WITH_LAYERS("", FULL_LAYER("a", ", \"dtypes\": []")), "no field \"dtypes\""},
        {WITH_LAYERS("", FULL_LAYER("a", ", \"page_size\": 1")), "no field \"page_size\""},
        {WITH_LAYERS("", "{\"name\": \"a\", \"kind\": \"mamba\", \"block_size\": 16, \"shapes\": "
                         "[[1]], \"dtypes\": [\"int8\"], \"num_kv_heads\": 1}"),
         "mamba has no field \"num_kv_heads\""},
        {"{\"resize\": {\"kind\": \"rswa\"}, \"block_size\": 16}", "resize: block_size is missing"},
        {"{\"merge\": [7]}", "merge[0] is 7"},
    };
    assert_all_bad(cases, COUNT(cases));
    /* null is left out, also where the kind lacks the field */
    pkv_document_destroy(
        read_document(WITH_LAYERS("", FULL_LAYER("a", ", \"rswa_window\": null"))));
}

static void layers_that_cannot_be_built_keep_their_error_kind(void **state)
{
    (void)state;
    assert_bad_document(WITH_LAYERS("", FULL_LAYER("a", ", \"block_stride_alignment\": 0")),
                        PKV_E_VALUE, "layer \"a\"");
    assert_bad_document(WITH_LAYERS("", "{\"name\": \"b\", \"kind\": \"sliding_window_mla\", "
                                        "\"block_size\": 16, \"num_kv_heads\": 1, \"head_size\": "
                                        "64, \"dtype\": \"int8\", \"sliding_window\": 4, "
                                        "\"model_version\": \"v\"}"),
                        PKV_E_ASSERT, "layer \"b\"");
    assert_bad_document(OPTIONS("\"layout\": \"HBLNC\""), PKV_E_VALUE, "layout \"HBLNC\"");
}

static void stages_of_unknown_layers_are_refused(void **state)
{
    (void)state;
#define STAGE(fields) OPTIONS("\"workers\": [" fields "]")
    static const bad cases[] = {
        {STAGE("{\"available_bytes\": 1, \"layers\": [\"b\"]}"),
         "options.workers[0]: layers is \"b\""},
        {STAGE("{\"available_bytes\": 1, \"layers\": [0]}"), "workers[0]: layers is 0"},
        {STAGE("{\"available_bytes\": 1, \"layers\": \"a\"}"), "layers is \"a\""},
        {STAGE("{\"available_bytes\": 1, \"layers\": [\"a\", \"a\"]}"), "each layer once"},
        {STAGE("{\"layers\": [\"a\"]}"), "available_bytes is missing"},
        {STAGE("{\"available_bytes\": 0.5, \"layers\": [\"a\"]}"), "available_bytes is the real"},
        {STAGE("1"), "options.workers[0] is 1"},
    };
    assert_all_bad(cases, COUNT(cases));
}

static void the_earlier_revision_has_no_word_for_sharding(void **state)
{
    (void)state;
#define SEED(layer) WITH_LAYERS(", \"options\": {\"revision\": \"seed\"}", layer)
    assert_bad_input(SEED(FULL_LAYER("a", ", \"dcp_sharded\": true")), "dcp_sharded");
    assert_bad_input(SEED(FULL_LAYER("a", ", \"dcp_sharded\": false")), "dcp_sharded");
    pkv_document_destroy(read_document(SEED(FULL_LAYER("a", ", \"dcp_sharded\": null"))));
    pkv_document *doc = read_document(
        SEED("{\"name\": \"m\", \"kind\": \"mamba\", \"block_size\": 16, \"shapes\": [[1]], "
             "\"dtypes\": [\"int8\"], \"dcp_sharded\": true}"));
    assert_int_equal(pkv_document_params(doc)->layers->dcp_sharded, 1);
    pkv_document_destroy(doc);
}

static void smaller_documents_need_their_fields(void **state)
{
    (void)state;
#define SMALL                                                                   \
    "{\"kind\": \"cross_attention\", \"block_size\": 16, \"num_kv_heads\": 1, " \
    "\"head_size\": 1, \"dtype\": \"int8\"}"
#define VIEWS(more) "{\"views\": " SMALL ", \"num_blocks\": 1, \"num_layers\": 1" more "}"
    static const bad cases[] = {
        {"{\"merge\": []}", "merge is an array of 0"},
        {"{\"merge\": null}", "merge is missing"},
        {"{\"uniform\": {}}", "uniform is an object"},
        {"{\"resize\": " SMALL "}", "block_size is missing"},
        {"{\"resize\": " SMALL ", \"block_size\": 0}", "block_size is 0"},
        {"{\"resize\": " SMALL ", \"block_size\": 2147483648}", "block_size is 2147483648"},
        {"{\"resize\": null, \"block_size\": 1}", "resize is missing"},
        {VIEWS(""), "layout is missing"},
        {VIEWS(", \"layout\": \"LBNCH\""), "layout is \"LBNCH\""},
        {VIEWS(", \"layout\": \"LBNHC\", \"kernel_block_size\": 0"), "kernel_block_size is 0"},
        {VIEWS(", \"layout\": \"LBNHC\", \"block_stride\": 4"), "layer_stride is missing"},
        {VIEWS(", \"layout\": \"LBNHC\", \"layer_stride\": 4"), "block_stride is missing"},
        {VIEWS(", \"layout\": \"LBNHC\", \"offset\": -1"), "offset is -1"},
        {"{\"views\": " SMALL ", \"layout\": \"LBNHC\", \"num_layers\": 1}", "num_blocks is"},
        {"{\"quant_mode\": 5}", "quant_mode is 5"},
        {"{\"layout_of\": \"AUTO\"}", "layout_of is \"AUTO\""},
        {"{\"layout_of\": null}", "layout_of is missing"},
    };
    assert_all_bad(cases, COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_json_object_is_refused),
        cmocka_unit_test(numbers_that_json_lacks_are_refused),
        cmocka_unit_test(integers_beyond_2_to_63_minus_1_are_refused),
        cmocka_unit_test(a_key_stands_once),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(every_cut_of_a_document_is_refused),
        cmocka_unit_test(missing_arguments_of_documents_are_refused),
        cmocka_unit_test(unknown_fields_and_options_are_named),
        cmocka_unit_test(wrong_types_are_named_with_what_was_expected),
        cmocka_unit_test(bad_layers_are_named_by_their_place),
        cmocka_unit_test(layers_that_cannot_be_built_keep_their_error_kind),
        cmocka_unit_test(stages_of_unknown_layers_are_refused),
        cmocka_unit_test(the_earlier_revision_has_no_word_for_sharding),
        cmocka_unit_test(smaller_documents_need_their_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
