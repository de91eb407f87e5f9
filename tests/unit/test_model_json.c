/* test_model_json.c  Strict JSON, its messages, and layer specs as objects of a document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pkv/document.h>

#include "model/json.h"
#include "model/spec_json.h"

/* ---- whole documents ---- */

static void assert_not_loaded(const char *text, size_t len, const char *part)
{
    json_t *root = (json_t *)(uintptr_t)1;
    assert_int_equal(pkvi_json_load("pkv_f", text, len, &root), PKV_E_INVAL);
    assert_null(root);
    if (!strstr(pkv_last_error(), part) || strchr(pkv_last_error(), '\n')) {
        fail_msg("\"%s\" lacks \"%s\"", pkv_last_error(), part);
    }
}

static void refused_text_names_the_line_and_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "line 1"},
        {"{\n\"a\": }", "line 2"},
        {"{\"a\": 1}\n\n x", "line 3"},
        {"{\"a\": 1} {}", "expected the end of the text"},
        {"{\"a\": [1, 2", "expected the rest of the document"},
        {"{\"a\": 1, \"a\": 1}", "expected every key of an object once"},
        {"{\"a\": NaN}", "invalid token near 'NaN'"},
        {"{\"a\": Infinity}", "Infinity"},
        {"{\"a\": 1e999}", "finite numbers"},
        {"{\"a\": 9223372036854775808}", "integers up to 2^63-1"},
        {"{\"a\": \"\\u0000\"}", "expected text without NUL"},
        {"{\"\\u0000\": 1}", "expected text without NUL"},
        {"{\"a\": \"\xff\"}", "expected UTF-8"},
        {"{\"a\": \"\xed\xa0\x80\"}", "expected UTF-8"},
        {"\n\n[1]", "expected a JSON object"},
        {"7", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_not_loaded(cases[i].text, strlen(cases[i].text), cases[i].part);
    }
    assert_not_loaded("{\"a\": \"\0\"}", 10, "line 1");
    assert_not_loaded(NULL, 0, "json is NULL");
}

static void the_largest_integers_and_deepest_nesting_are_read(void **state)
{
    (void)state;
    json_t *root;
    char deep[256] = "";
    const char *text = "{\"a\": 9223372036854775807, \"b\": -9223372036854775808}";
    assert_int_equal(pkvi_json_load("pkv_f", text, strlen(text), &root), PKV_OK);
    json_decref(root);

    for (int levels = 64; levels <= 65; levels++) { /* the object is the first */
        size_t len = (size_t)snprintf(deep, sizeof deep, "{\"a\":");
        memset(deep + len, '[', (size_t)levels - 1);
        memset(deep + len + levels - 1, ']', (size_t)levels - 1);
        len += 2 * ((size_t)levels - 1);
        deep[len++] = '}';
        if (levels == 64) {
            assert_int_equal(pkvi_json_load("pkv_f", deep, len, &root), PKV_OK);
            json_decref(root);
        } else {
            assert_not_loaded(deep, len, "expected at most 64 levels");
        }
    }
    /* brackets within text are no levels */
    char flat[256] = "{\"a\": \"\\\"";
    memset(flat + 9, '[', 200);
    memcpy(flat + 209, "\"}", 3);
    assert_int_equal(pkvi_json_load("pkv_f", flat, 211, &root), PKV_OK);
    json_decref(root);
}

static void bombs_are_refused_before_they_are_built(void **state)
{
    (void)state;
    const size_t bytes = (64u << 20) + 1;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, ' ', bytes);
    assert_not_loaded(text, bytes, "expected at most 67108864");
    memset(text, '[', bytes);
    assert_not_loaded(text, bytes - 1, "64 levels");
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        memcpy(text + i, "1,", 2);
    }
    memcpy(text, "{\"a\":[", 6);
    assert_not_loaded(text, bytes - 1, "at most 4194304 values");
    free(text);
}

/* ---- quoting ---- */

static void user_text_is_cut_and_shown_without_control_characters(void **state)
{
    (void)state;
    pkvi_quoted quoted;
    assert_string_equal(pkvi_quote("plain \xc3\xa9", &quoted), "\"plain \xc3\xa9\"");
    assert_string_equal(pkvi_quote("a\nb\x1b[0m\x7f", &quoted), "\"a\\x0ab\\x1b[0m\\x7f\"");
    assert_string_equal(pkvi_quote("\xc2\x85\xe2\x80\xa8\xe2\x80\xae", &quoted),
                        "\"\\xc2\\x85\\xe2\\x80\\xa8\\xe2\\x80\\xae\"");
    assert_string_equal(pkvi_quote("\xff\xc0\x80\xe2\x82", &quoted),
                        "\"\\xff\\xc0\\x80\\xe2\\x82\"");
    char longer[201];
    memset(longer, 'x', 200);
    longer[200] = '\0';
    assert_int_equal(strlen(pkvi_quote(longer, &quoted)), 60 + 5); /* quotes and dots */
    memset(longer, '\n', 200);
    assert_int_equal(strlen(pkvi_quote(longer, &quoted)), 60 + 5);
    for (int i = 0; i < 100; i++) {
        memcpy(longer + 2 * i, "\xc3\xa9", 2);
    }
    assert_int_equal(strlen(pkvi_quote(longer, &quoted)), 60 + 5);
}

static void a_hostile_key_makes_one_short_line(void **state)
{
    (void)state;
    static char text[100000];
    json_t *root;
    memset(text, 'k', sizeof text);
    memcpy(text, "{\"\\n\\u0007", 10);
    memcpy(text + sizeof text - 5, "\": 1}", 5);
    assert_int_equal(pkvi_json_load("pkv_f", text, sizeof text, &root), PKV_OK);
    const pkvi_json_at at = {"pkv_f", "options", root};
    static const char *const names[] = {"tp"};
    assert_int_equal(pkvi_json_check_names(&at, names, 1), PKV_E_INVAL);
    assert_true(strlen(pkv_last_error()) < 512);
    assert_non_null(strstr(pkv_last_error(), "pkv_f: options: \"\\x0a\\x07kkk"));
    assert_non_null(strstr(pkv_last_error(), "...\" is not a known field"));
    json_decref(root);
}

/* ---- members ---- */

static void members_have_one_type_and_range(void **state)
{
    (void)state;
    const char *text = "{\"n\": 5, \"negative\": -1, \"real\": 5.0, \"yes\": true, \"none\": null, "
                       "\"text\": \"t\", \"list\": [1], \"object\": {}}";
    json_t *root, *child = NULL;
    uint64_t n = 9;
    bool flag = true;
    double real = 0;
    const char *word = "unchanged";
    assert_int_equal(pkvi_json_load("pkv_f", text, strlen(text), &root), PKV_OK);
    const pkvi_json_at at = {"pkv_f", "", root};

    assert_int_equal(pkvi_json_opt_u64(&at, "none", 1, 9, &n), PKV_OK);
    assert_int_equal(pkvi_json_opt_u64(&at, "absent", 1, 9, &n), PKV_OK);
    assert_int_equal(n, 9);
    assert_int_equal(pkvi_json_u64(&at, "n", 5, 5, &n), PKV_OK);
    assert_int_equal(n, 5);
    assert_int_equal(pkvi_json_u64(&at, "n", 6, 9, &n), PKV_E_INVAL);
    assert_string_equal(pkv_last_error(), "pkv_f: n is 5, expected an integer from 6 to 9");
    assert_int_equal(pkvi_json_u64(&at, "n", 1, 4, &n), PKV_E_INVAL);
    assert_int_equal(pkvi_json_u64(&at, "negative", 0, 9, &n), PKV_E_INVAL);
    assert_int_equal(pkvi_json_u64(&at, "real", 0, 9, &n), PKV_E_INVAL);
    assert_int_equal(pkvi_json_u64(&at, "yes", 0, 9, &n), PKV_E_INVAL);
    assert_int_equal(pkvi_json_u64(&at, "absent", 0, 9, &n), PKV_E_INVAL);
    assert_string_equal(pkv_last_error(),
                        "pkv_f: absent is missing, expected an integer from 0 to 9");

    assert_int_equal(pkvi_json_opt_bool(&at, "none", &flag), PKV_OK);
    assert_true(flag);
    assert_int_equal(pkvi_json_opt_bool(&at, "n", &flag), PKV_E_INVAL);
    assert_int_equal(pkvi_json_opt_text(&at, "absent", &word), PKV_OK);
    assert_string_equal(word, "unchanged");
    assert_int_equal(pkvi_json_opt_text(&at, "text", &word), PKV_OK);
    assert_string_equal(word, "t");
    assert_int_equal(pkvi_json_text(&at, "list", &word), PKV_E_INVAL);
    assert_string_equal(pkv_last_error(), "pkv_f: list is an array of 1, expected a text");
    assert_int_equal(pkvi_json_opt_real(&at, "n", 0, 9, &real), PKV_OK);
    assert_true(real == 5.0);
    assert_int_equal(pkvi_json_opt_real(&at, "n", 6, 9, &real), PKV_E_INVAL);
    assert_int_equal(pkvi_json_opt_real(&at, "yes", 0, 9, &real), PKV_E_INVAL);
    assert_int_equal(pkvi_json_opt_object(&at, "list", &child), PKV_E_INVAL);
    assert_int_equal(pkvi_json_opt_array(&at, "list", &child), PKV_OK);
    assert_int_equal(json_array_size(child), 1);
    json_decref(root);
}

/* ---- layer specs ---- */

/* Reads one layer; the arena is freed by the caller. */
static pkv_status read_spec(const char *text, pkvi_arena *arena, pkv_spec *spec)
{
    json_t *root = NULL;
    assert_int_equal(pkvi_json_load("pkv_f", text, strlen(text), &root), PKV_OK);
    pkvi_arena_init(arena, NULL, 256);
    const pkv_status st = pkvi_spec_from_json("pkv_f", "layers[3]", root, arena, spec);
    json_decref(root); /* nothing of the spec may lie in the document */
    return st;
}

#define FULL                                                                   \
    "{\"kind\": \"full_attention\", \"block_size\": 16, \"num_kv_heads\": 8, " \
    "\"head_size\": 128, \"dtype\": \"bfloat16\""

/* What is written reads back as an equal spec. */
static void assert_round_trip(const char *text, const char *written)
{
    pkvi_arena arena[2];
    pkv_spec spec, again;
    char out[2048];
    size_t len;
    if (read_spec(text, &arena[0], &spec) != PKV_OK) {
        fail_msg("%s", pkv_last_error());
    }
    assert_int_equal(pkv_spec_to_json(&spec, out, sizeof out, &len), PKV_OK);
    assert_int_equal(len, strlen(out));
    if (written) {
        assert_string_equal(out, written);
    }
    assert_int_equal(read_spec(out, &arena[1], &again), PKV_OK);
    assert_true(pkv_spec_equal(&spec, &again));
    pkvi_arena_free(&arena[0]);
    pkvi_arena_free(&arena[1]);
}

static void specs_are_written_as_documents_have_them(void **state)
{
    (void)state;
    assert_round_trip(FULL ", \"name\": \"a\", \"sliding_window\": null, \"is_draft\": true}",
                      "{\"kind\": \"full_attention\", \"block_size\": 16, \"dcp_sharded\": true, "
                      "\"num_kv_heads\": 8, \"head_size\": 128, \"dtype\": \"bfloat16\", "
                      "\"head_size_v\": 128, \"kv_quant_mode\": \"none\", \"tokens_per_state\": 1, "
                      "\"non_causal\": false}");
    assert_round_trip(
        FULL ", \"block_stride_alignment\": {\"multiple_of\": 16}, "
             "\"tokens_per_state\": \"2/8\", \"kv_quant_mode\": \"nvfp4\", "
             "\"page_size_padded\": 9223372036854775807, \"sliding_window\": 7}",
        "{\"kind\": \"full_attention\", \"block_size\": 16, \"dcp_sharded\": true, "
        "\"block_stride_alignment\": {\"multiple_of\": 16}, \"num_kv_heads\": 8, "
        "\"head_size\": 128, \"dtype\": \"bfloat16\", \"head_size_v\": 128, "
        "\"kv_quant_mode\": \"nvfp4\", \"page_size_padded\": 9223372036854775807, "
        "\"tokens_per_state\": \"1/4\", \"sliding_window\": 7, \"non_causal\": false}");
    assert_round_trip(FULL ", \"block_stride_alignment\": 512, \"tokens_per_state\": \"8/2\"}",
                      NULL);
}

static void every_kind_reads_back_as_it_was_written(void **state)
{
    (void)state;
    static const char *const more[PKV_N_KINDS] = {
        [PKV_KIND_MLA] = ", \"cache_dtype_str\": \"of \\\"mine\\\"\", \"cache_role\": \"indexer\"",
        [PKV_KIND_RSWA] = ", \"rswa_window\": 5",
        [PKV_KIND_SINK_FULL] = ", \"sink_len\": 4",
        [PKV_KIND_SLIDING_WINDOW] = ", \"sliding_window\": 9, \"extra_retained_tokens\": 3",
        [PKV_KIND_SLIDING_WINDOW_MLA] = ", \"sliding_window\": 9, \"bounded_replay\": true, "
                                        "\"model_version\": \"deepseek_v4\"",
        [PKV_KIND_CHUNKED_LOCAL] = ", \"attention_chunk_size\": 64",
        [PKV_KIND_KPOOL_TAIL] = ", \"sliding_window\": 9",
    };
    for (uint32_t kind = 0; kind <= PKV_KIND_ENCODER_ONLY; kind++) {
        char text[512];
        if (kind == PKV_KIND_MAMBA) {
            continue;
        }
        (void)snprintf(text, sizeof text,
                       "{\"kind\": \"%s\", \"block_size\": 16, \"num_kv_heads\": 1, \"head_size\": "
                       "64, \"dtype\": \"float16\"%s}",
                       pkv_kind_name(kind), more[kind] ? more[kind] : "");
        assert_round_trip(text, NULL);
    }
    assert_round_trip(
        "{\"kind\": \"mamba\", \"dtypes\": [\"bfloat16\", \"float32\"], \"block_size\": "
        "16, \"shapes\": [[4, 64], []], \"mamba_cache_mode\": \"align\", "
        "\"num_speculative_blocks\": 2, \"mamba_type\": \"gdn\"}",
        "{\"kind\": \"mamba\", \"block_size\": 16, \"dcp_sharded\": false, "
        "\"shapes\": [[4, 64], []], \"dtypes\": [\"bfloat16\", \"float32\"], "
        "\"mamba_type\": \"gdn\", \"mamba_cache_mode\": \"align\", "
        "\"num_speculative_blocks\": 2, \"num_prefill_checkpoint_blocks\": 0, "
        "\"tp_replicated\": false}");
}

static void assert_bad_spec(const char *text, pkv_status status, const char *part)
{
    pkvi_arena arena;
    pkv_spec spec;
    assert_int_equal(read_spec(text, &arena, &spec), status);
    if (!strstr(pkv_last_error(), part) || strncmp(pkv_last_error(), "pkv_f: ", 7) != 0) {
        fail_msg("\"%s\" lacks \"%s\"", pkv_last_error(), part);
    }
    pkvi_arena_free(&arena);
}

static void a_bad_layer_names_its_place_field_and_value(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{}", "layers[3]: kind is missing"},
        {"{\"kind\": null}", "layers[3]: kind is missing"},
        {"{\"kind\": \"nothing\"}", "kind is \"nothing\", expected a kind of layer"},
        {"{\"kind\": \"hisparse_hot\"}", "kind is \"hisparse_hot\""},
        {FULL ", \"sizes\": null}", "layers[3]: \"sizes\" is not a field of layers"},
        {FULL ", \"rswa_window\": 5}", "full_attention has no field \"rswa_window\""},
        {FULL ", \"rswa_window\": null, \"head_size_v\": -1}", "head_size_v is -1"},
        {FULL ", \"sliding_window\": 0}", "sliding_window is 0, expected an integer from 1"},
        {FULL ", \"non_causal\": 1}", "non_causal is 1, expected true or false"},
        {FULL ", \"kv_quant_mode\": \"FP8\"}", "kv_quant_mode is \"FP8\""},
        {FULL ", \"tokens_per_state\": 0}", "tokens_per_state is 0"},
        {FULL ", \"tokens_per_state\": \"1/0\"}", "tokens_per_state is \"1/0\""},
        {FULL ", \"tokens_per_state\": \"1/4x\"}", "tokens_per_state is \"1/4x\""},
        {FULL ", \"tokens_per_state\": \"1/99999999999999999999\"}", "tokens_per_state is"},
        {FULL ", \"block_stride_alignment\": {\"multiple\": 1}}", "\"multiple\" is not a known"},
        {FULL ", \"block_stride_alignment\": {\"multiple_of\": 0}}", "multiple_of is 0"},
        {FULL ", \"block_stride_alignment\": \"x\"}", "block_stride_alignment is \"x\""},
        {"{\"kind\": \"mla_attention\", \"block_size\": 16, \"num_kv_heads\": 1, \"dtype\": "
         "\"uint8\"}",
         "head_size is missing, but mla_attention needs it"},
        {"{\"kind\": \"mamba\", \"block_size\": 16, \"shapes\": [[1]]}", "dtypes is missing"},
        {"{\"kind\": \"mamba\", \"block_size\": 16, \"shapes\": [[1], [2]], \"dtypes\": "
         "[\"uint8\"]}",
         "expected as many shapes as dtypes"},
        {"{\"kind\": \"mamba\", \"block_size\": 16, \"shapes\": [[0]], \"dtypes\": [\"uint8\"]}",
         "shapes is 0"},
        {"{\"kind\": \"mamba\", \"block_size\": 16, \"shapes\": [[1,1,1,1,1,1,1]]}",
         "6 dimensions"},
        {"{\"kind\": \"mamba\", \"block_size\": 16, \"shapes\": []}", "an array of 0, expected"},
        {"{\"kind\": \"mamba\", \"block_size\": 16, \"dtypes\": [7]}", "dtypes is 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_bad_spec(cases[i].text, PKV_E_INVAL, cases[i].part);
    }
}

static void the_rules_of_specs_name_the_layer(void **state)
{
    (void)state;
    assert_bad_spec(FULL ", \"name\": \"a\", \"block_stride_alignment\": 0}", PKV_E_VALUE,
                    "layer \"a\": block_stride_alignment 0");
    assert_bad_spec(FULL ", \"block_stride_alignment\": 0}", PKV_E_VALUE,
                    "layers[3]: block_stride");
    assert_bad_spec("{\"kind\": \"sliding_window_mla\", \"block_size\": 16, \"num_kv_heads\": 1, "
                    "\"head_size\": 64, \"dtype\": \"uint8\", \"sliding_window\": 4, "
                    "\"model_version\": \"v9\", \"name\": \"b\"}",
                    PKV_E_ASSERT, "layer \"b\": model_version \"v9\"");
}

static void the_length_can_be_asked_for(void **state)
{
    (void)state;
    pkvi_arena arena;
    pkv_spec spec;
    size_t len, again;
    char out[1024];
    assert_int_equal(read_spec(FULL "}", &arena, &spec), PKV_OK);
    assert_int_equal(pkv_spec_to_json(&spec, NULL, 0, &len), PKV_OK);
    assert_int_equal(pkv_spec_to_json(&spec, out, len, &again), PKV_E_INVAL);
    assert_int_equal(again, len);
    assert_int_equal(pkv_spec_to_json(&spec, out, len + 1, &again), PKV_OK);
    assert_int_equal(strlen(out), len);
    assert_int_equal(pkv_spec_to_json(NULL, out, sizeof out, &len), PKV_E_INVAL);
    assert_int_equal(pkv_spec_to_json(&spec, NULL, 1, &len), PKV_E_INVAL);
    spec.kv_quant_mode = PKV_N_QUANT_MODES;
    assert_int_equal(pkv_spec_to_json(&spec, out, sizeof out, &len), PKV_E_INVAL);
    pkvi_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_text_names_the_line_and_what_was_expected),
        cmocka_unit_test(the_largest_integers_and_deepest_nesting_are_read),
        cmocka_unit_test(bombs_are_refused_before_they_are_built),
        cmocka_unit_test(user_text_is_cut_and_shown_without_control_characters),
        cmocka_unit_test(a_hostile_key_makes_one_short_line),
        cmocka_unit_test(members_have_one_type_and_range),
        cmocka_unit_test(specs_are_written_as_documents_have_them),
        cmocka_unit_test(every_kind_reads_back_as_it_was_written),
        cmocka_unit_test(a_bad_layer_names_its_place_field_and_value),
        cmocka_unit_test(the_rules_of_specs_name_the_layer),
        cmocka_unit_test(the_length_can_be_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
