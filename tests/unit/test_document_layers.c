/* test_document_layers.c  Plan documents: every field of a layer, the smaller documents, and the
 * way back to text. */
#include "document_fixture.h"

/* ---- fields of layers ---- */

#define LAYER(kind, fields) \
    "{\"resize\": {\"kind\": \"" kind "\", \"block_size\": 16, " fields "}, \"block_size\": 16}"
#define SHAPE "\"num_kv_heads\": 2, \"head_size\": 64, \"dtype\": \"bfloat16\""
#define FULL(more) LAYER("full_attention", SHAPE more)
#define MLA(more) LAYER("mla_attention", SHAPE more)
#define WINDOW(more) LAYER("sliding_window", SHAPE ", \"sliding_window\": 128" more)
#define WINDOW_MLA(more) LAYER("sliding_window_mla", SHAPE ", \"sliding_window\": 128" more)
#define MAMBA(more) \
    LAYER("mamba", "\"shapes\": [[4, 64], []], \"dtypes\": [\"int8\", \"int64\"]" more)
#define FIELD(json, member, value)                                               \
    {                                                                            \
        json, offsetof(pkv_spec, member), sizeof(((pkv_spec *)0)->member), value \
    }

static const struct {
    const char *json;
    size_t offset, bytes;
    uint64_t value;
} fields[] = {
    FIELD(FULL(""), kind, PKV_KIND_FULL),
    FIELD(FULL(""), block_size, 16),
    FIELD(FULL(""), num_kv_heads, 2),
    FIELD(FULL(""), head_size, 64),
    FIELD(FULL(""), head_size_v, 64),
    FIELD(MLA(""), head_size_v, 0),
    FIELD(FULL(", \"head_size_v\": 32"), head_size_v, 32),
    FIELD(FULL(""), dtype, PKV_DTYPE_BFLOAT16),
    FIELD(FULL(""), dcp_sharded, 1),
    FIELD(MAMBA(""), dcp_sharded, 0),
    FIELD(FULL(", \"dcp_sharded\": false"), dcp_sharded, 0),
    FIELD(FULL(", \"is_draft\": true"), is_draft, 1),
    FIELD(FULL(", \"max_tp_shards\": 4"), max_tp_shards, 4),
    FIELD(FULL(", \"kv_quant_mode\": \"nvfp4\""), kv_quant_mode, PKV_QUANT_NVFP4),
    FIELD(FULL(", \"page_size_padded\": 9223372036854775807"), page_size_padded, SIZE_LIMIT),
    FIELD(FULL(", \"num_head_slots\": 3"), num_head_slots, 3),
    FIELD(FULL(", \"state_content_bytes\": 99"), state_content_bytes, 99),
    FIELD(FULL(", \"tokens_per_state\": 4"), tokens_per_state.num, 4),
    FIELD(FULL(", \"tokens_per_state\": \"2/8\""), tokens_per_state.den, 4),
    FIELD(FULL(", \"block_stride_alignment\": 512"), block_stride_alignment, 512),
    FIELD(FULL(", \"block_stride_alignment\": 512"), stride_rule, PKV_STRIDE_BYTES),
    FIELD(FULL(", \"block_stride_alignment\": {\"multiple_of\": 8}"), block_stride_alignment, 8),
    FIELD(FULL(", \"block_stride_alignment\": {\"multiple_of\": 8}"), stride_rule,
          PKV_STRIDE_KERNEL_BLOCKS),
    FIELD(FULL(", \"sliding_window\": 7"), sliding_window, 7),
    FIELD(WINDOW(""), sliding_window, 128),
    FIELD(WINDOW(", \"extra_retained_tokens\": 3"), extra_retained_tokens, 3),
    FIELD(FULL(", \"attention_chunk_size\": 9"), attention_chunk_size, 9),
    FIELD(LAYER("chunked_local_attention", SHAPE ", \"attention_chunk_size\": 9"),
          attention_chunk_size, 9),
    FIELD(FULL(", \"non_causal\": true"), non_causal, 1),
    FIELD(LAYER("rswa", SHAPE ", \"rswa_window\": 11"), rswa_window, 11),
    FIELD(LAYER("sink_full_attention", SHAPE ", \"sink_len\": 16"), sink_len, 16),
    FIELD(MLA(", \"topk_buffer_width\": 2048"), topk_buffer_width, 2048),
    FIELD(MLA(", \"alignment\": 576"), alignment, 576),
    FIELD(MLA(", \"alignment\": 576"), page_size_padded, 4608), /* 16 x 2 x 64 x 2 = 4096 */
    FIELD(MLA(", \"cache_role\": \"indexer\""), cache_role, PKV_ROLE_INDEXER),
    FIELD(MLA(", \"is_index_group_leader\": true"), is_index_group_leader, 1),
    FIELD(MLA(", \"non_causal_multi_token_decode\": true"), non_causal_multi_token_decode, 1),
    FIELD(MLA(", \"storage_block_size\": 32"), storage_block_size, 32),
    FIELD(WINDOW_MLA(", \"bounded_replay\": true"), bounded_replay, 1),
    FIELD(MAMBA(""), n_states, 2),
    FIELD(MAMBA(", \"mamba_cache_mode\": \"align\""), mamba_mode, PKV_MAMBA_ALIGN),
    FIELD(MAMBA(", \"num_speculative_blocks\": 2"), num_speculative_blocks, 2),
    FIELD(MAMBA(", \"num_prefill_checkpoint_blocks\": 1"), num_prefill_checkpoint_blocks, 1),
    FIELD(MAMBA(", \"prefill_checkpoint_alignment\": 16"), prefill_checkpoint_alignment, 16),
    FIELD(MAMBA(", \"tp_replicated\": true"), tp_replicated, 1),
    FIELD(MAMBA(", \"page_size_padded\": 4096"), page_size_padded, 4096),
};

static void every_field_of_a_layer_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(fields); i++) {
        pkv_document *doc = read_document(fields[i].json);
        const pkv_spec *spec = pkv_document_params(doc)->layers;
        const uint64_t got = number_at(spec, fields[i].offset, fields[i].bytes);
        if (got != fields[i].value) {
            fail_msg("%" PRIu64 " instead of %" PRIu64 ": %s", got, fields[i].value,
                     fields[i].json);
        }
        pkv_document_destroy(doc);
    }
}

static void texts_and_states_of_a_layer_are_read(void **state)
{
    (void)state;
    pkv_document *doc = read_document(
        WINDOW_MLA(", \"cache_dtype_str\": \"mine\", \"model_version\": \"deepseek_v4\""));
    assert_string_equal(pkv_document_params(doc)->layers->cache_dtype, "mine");
    assert_string_equal(pkv_document_params(doc)->layers->model_version, "deepseek_v4");
    pkv_document_destroy(doc);
    doc = read_document(MAMBA(", \"mamba_type\": \"gdn_attention\""));
    const pkv_spec *mamba = pkv_document_params(doc)->layers;
    assert_string_equal(mamba->mamba_type, "gdn_attention");
    assert_int_equal(mamba->states[0].rank, 2);
    assert_int_equal(mamba->states[0].dims[1], 64);
    assert_int_equal(mamba->states[1].rank, 0);
    assert_int_equal(mamba->states[1].dtype, PKV_DTYPE_INT64);
    assert_int_equal(page_of(mamba), 4 * 64 + 8);
    pkv_document_destroy(doc);
}

static void every_name_of_an_enumeration_is_read(void **state)
{
    (void)state;
    char json[512];
    for (uint32_t mode = 0; mode < PKV_N_QUANT_MODES; mode++) {
        (void)snprintf(json, sizeof json, FULL(", \"kv_quant_mode\": \"%s\""),
                       pkv_quant_mode_name(mode));
        pkv_document *doc = read_document(json);
        assert_int_equal(pkv_document_params(doc)->layers->kv_quant_mode, mode);
        pkv_document_destroy(doc);
    }
    for (uint32_t dtype = PKV_DTYPE_NONE + 1; dtype < PKV_N_DTYPES; dtype++) {
        (void)snprintf(
            json, sizeof json,
            LAYER("full_attention", "\"num_kv_heads\": 1, \"head_size\": 1, \"dtype\": \"%s\""),
            pkv_dtype_name(dtype));
        pkv_document *doc = read_document(json);
        assert_int_equal(pkv_document_params(doc)->layers->dtype, dtype);
        pkv_document_destroy(doc);
    }
}

/* ---- smaller documents ---- */

#define SPEC(kind, more) "{\"kind\": \"" kind "\", \"block_size\": 16, " SHAPE more "}"

static void lists_of_specs_need_no_names(void **state)
{
    (void)state;
    pkv_document *doc = read_document("{\"merge\": [" SPEC("full_attention", "") ", " SPEC(
        "full_attention", ", \"sliding_window\": 4, \"name\": \"a\"") "]}");
    assert_int_equal(pkv_document_get_kind(doc), PKV_DOCUMENT_MERGE);
    assert_int_equal(pkv_document_params(doc)->n_layers, 2);
    assert_int_equal(pkv_document_params(doc)->layers[1].sliding_window, 4);
    assert_int_equal(pkv_document_params(doc)->max_model_len, 1024); /* unless given */
    assert_null(pkv_document_layer_name(doc, 0));
    pkv_document_destroy(doc);
    doc = read_document("{\"uniform\": [" SPEC("cross_attention", "") "], \"max_model_len\": 99, "
                                                                      "\"options\": {\"dcp\": 2}}");
    assert_int_equal(pkv_document_get_kind(doc), PKV_DOCUMENT_UNIFORM);
    assert_int_equal(pkv_document_params(doc)->max_model_len, 99);
    assert_int_equal(pkv_document_params(doc)->dcp, 2);
    pkv_document_destroy(doc);
}

static void a_resize_has_a_spec_and_a_block_size(void **state)
{
    (void)state;
    pkv_document *doc =
        read_document("{\"resize\": " SPEC("full_attention", "") ", "
                                                                 "\"block_size\": 2147483647}");
    assert_int_equal(pkv_document_get_kind(doc), PKV_DOCUMENT_RESIZE);
    assert_int_equal(pkv_document_get_question(doc)->block_size, PKV_SPEC_LIMIT);
    assert_int_equal(pkv_document_params(doc)->layers->block_size, 16);
    pkv_document_destroy(doc);
}

static void views_have_a_layout_counts_and_strides(void **state)
{
    (void)state;
    pkv_document *doc = read_document("{\"views\": " SPEC(
        "full_attention", "") ", \"layout\": \"BLHNC\", \"num_blocks\": 10, "
                              "\"num_layers\": 3, \"kernel_block_size\": 8, \"layer_stride\": 100, "
                              "\"block_stride\": 200, \"offset\": 300}");
    const pkv_document_question *q = pkv_document_get_question(doc);
    assert_int_equal(pkv_document_get_kind(doc), PKV_DOCUMENT_VIEWS);
    assert_int_equal(q->layout, PKV_LAYOUT_BLHNC);
    assert_int_equal(q->num_blocks, 10);
    assert_int_equal(q->num_layers, 3);
    assert_int_equal(q->kernel_block_size, 8);
    assert_int_equal(q->layer_stride, 100);
    assert_int_equal(q->block_stride, 200);
    assert_int_equal(q->offset, 300);
    pkv_document_destroy(doc);
    doc = read_document("{\"views\": " SPEC(
        "full_attention", "") ", \"layout\": \"LBNHC\", "
                              "\"num_blocks\": 1, \"num_layers\": 1, \"kernel_block_size\": null, "
                              "\"layer_stride\": null, \"block_stride\": null}");
    assert_int_equal(pkv_document_get_question(doc)->kernel_block_size, 0);
    assert_int_equal(pkv_document_get_question(doc)->block_stride, 0);
    assert_int_equal(pkv_document_get_question(doc)->offset, 0);
    pkv_document_destroy(doc);
}

static void names_can_be_asked_about(void **state)
{
    (void)state;
    pkv_document *doc = read_document("{\"quant_mode\": \"fp8_ds_mla\"}");
    assert_int_equal(pkv_document_get_kind(doc), PKV_DOCUMENT_QUANT_MODE);
    assert_string_equal(pkv_document_get_question(doc)->text, "fp8_ds_mla");
    pkv_document_destroy(doc);
    doc = read_document("{\"layout_of\": \"BHLNC\"}");
    assert_int_equal(pkv_document_get_kind(doc), PKV_DOCUMENT_LAYOUT_OF);
    assert_int_equal(pkv_document_get_question(doc)->layout, PKV_LAYOUT_BHLNC);
    pkv_document_destroy(doc);
}

/* ---- the way back ---- */

/* Specs with every field that their kind has. */
static const char *const whole_specs[] = {
    SPEC("full_attention",
         ", \"sliding_window\": 4, \"attention_chunk_size\": 8, \"non_causal\": true, "
         "\"max_tp_shards\": 2, \"kv_quant_mode\": \"fp8_per_tensor\", \"page_size_padded\": "
         "100000, \"num_head_slots\": 4, \"state_content_bytes\": 72, \"tokens_per_state\": "
         "\"3/2\", \"block_stride_alignment\": 64, \"dcp_sharded\": false, \"head_size_v\": 0"),
    SPEC("mla_attention",
         ", \"cache_dtype_str\": \"\\u0001\\\"\\\\ \\u00e4\", \"topk_buffer_width\": 2048, "
         "\"alignment\": 576, \"model_version\": \"v\", \"cache_role\": \"indexer\", "
         "\"is_index_group_leader\": true, \"non_causal_multi_token_decode\": true, "
         "\"storage_block_size\": 64, \"block_stride_alignment\": {\"multiple_of\": 4}"),
    SPEC("hidden_state", ", \"storage_block_size\": 64"),
    SPEC("rswa", ", \"rswa_window\": 5, \"sliding_window\": 6"),
    SPEC("sink_full_attention", ", \"sink_len\": 16"),
    SPEC("sliding_window", ", \"sliding_window\": 4, \"extra_retained_tokens\": 2"),
    SPEC("sliding_window_mla", ", \"sliding_window\": 4, \"bounded_replay\": true, "
                               "\"model_version\": \"deepseek_v4\", \"alignment\": 7"),
    SPEC("chunked_local_attention", ", \"attention_chunk_size\": 4"),
    SPEC("circular_buffer", ", \"head_size_v\": 0"),
    SPEC("kpool_tail", ", \"sliding_window\": 4"),
    SPEC("cross_attention", ""),
    SPEC("encoder_only_attention", ""),
    "{\"kind\": \"mamba\", \"block_size\": 16, \"shapes\": [[4, 64], [], [1, 2, 3, 4, 5, 6]], "
    "\"dtypes\": [\"bfloat16\", \"float64\", \"bool\"], \"mamba_type\": \"gdn\", "
    "\"mamba_cache_mode\": \"align\", \"num_speculative_blocks\": 2, "
    "\"num_prefill_checkpoint_blocks\": 1, \"prefill_checkpoint_alignment\": 16, "
    "\"tp_replicated\": true, \"page_size_padded\": 9223372036854775807, \"dcp_sharded\": true}"};

static void every_kind_reads_back_as_it_was_written(void **state)
{
    (void)state;
    uint32_t kinds = 0;
    for (size_t i = 0; i < COUNT(whole_specs); i++) {
        char json[2048], written[1024];
        size_t len;
        (void)snprintf(json, sizeof json, "{\"merge\": [%s]}", whole_specs[i]);
        pkv_document *doc = read_document(json);
        const pkv_spec *spec = pkv_document_params(doc)->layers;
        assert_ok(pkv_spec_to_json(spec, written, sizeof written, &len));
        assert_int_equal(len, strlen(written));
        (void)snprintf(json, sizeof json, "{\"merge\": [%s]}", written);
        pkv_document *again = read_document(json);
        if (!pkv_spec_equal(pkv_document_params(again)->layers, spec)) {
            fail_msg("%s was written as %s", whole_specs[i], written);
        }
        kinds |= 1u << spec->kind;
        pkv_document_destroy(doc);
        pkv_document_destroy(again);
    }
    assert_int_equal(kinds, (1u << (PKV_KIND_ENCODER_ONLY + 1)) - 1); /* every kind of input */
}

/* Derived kinds cannot be read, but are shown: their own fields and nothing else. */
static void derived_specs_are_written_too(void **state)
{
    (void)state;
    pkv_spec spec;
    char text[256];
    size_t len;
    assert_ok(pkv_spec_init(&spec, PKV_KIND_HISPARSE_HOT));
    spec.block_size = 64;
    spec.page_size = 4096;
    spec.blocks_per_request = 3;
    assert_ok(pkv_spec_finish(&spec));
    assert_ok(pkv_spec_to_json(&spec, text, sizeof text, &len));
    assert_string_equal(text, "{\"kind\": \"hisparse_hot\", \"block_size\": 64, \"dcp_sharded\": "
                              "false, \"page_size\": 4096, \"blocks_per_request\": 3}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_a_layer_is_read),
        cmocka_unit_test(texts_and_states_of_a_layer_are_read),
        cmocka_unit_test(every_name_of_an_enumeration_is_read),
        cmocka_unit_test(lists_of_specs_need_no_names),
        cmocka_unit_test(a_resize_has_a_spec_and_a_block_size),
        cmocka_unit_test(views_have_a_layout_counts_and_strides),
        cmocka_unit_test(names_can_be_asked_about),
        cmocka_unit_test(every_kind_reads_back_as_it_was_written),
        cmocka_unit_test(derived_specs_are_written_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
