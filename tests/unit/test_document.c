/* test_document.c  Plan documents: what every field and option of the top says. Layers and smaller
 * documents are in test_document_layers.c, bad input in test_document_bad.c. */
#include "document_fixture.h"

/* ---- defaults ---- */

/* Equal in all but what the document itself owns. */
static void assert_same_params(const pkv_plan_params *a, const pkv_plan_params *b)
{
    pkv_plan_params x = *a, y = *b;
    x.layers = y.layers = NULL;
    x.workers = y.workers = NULL;
    x.alloc = y.alloc = NULL;
    assert_memory_equal(&x, &y, sizeof x);
}

static void what_is_left_out_has_the_defaults_of_the_library(void **state)
{
    (void)state;
    pkv_plan_params defaults;
    pkv_plan_params_init(&defaults);
    defaults.max_model_len = 7;
    pkv_document *doc = read_document("{\"max_model_len\": 7}");
    assert_int_equal(pkv_document_get_kind(doc), PKV_DOCUMENT_PLAN);
    assert_same_params(pkv_document_params(doc), &defaults);
    const pkv_document_settings *s = pkv_document_get_settings(doc);
    assert_string_equal(s->hash, "sha256_cbor");
    assert_null(s->hash_seed);
    assert_near(s->watermark, 0, 0);
    assert_int_equal(s->events, 1);
    assert_int_equal(s->shared_prefix_checkpoint, 0);
    assert_int_equal(s->max_num_seqs, 256);
    assert_null(pkv_document_layer_name(doc, 0));
    pkv_document_destroy(doc);
    pkv_document_destroy(NULL);
}

static void null_is_left_out(void **state)
{
    (void)state;
    pkv_document *plain = read_document(WITH(""));
    pkv_document *nulls = read_document(WITH(
        ", \"caching\": null, \"events\": null, \"watermark\": null, \"prefix_match_unit\": null, "
        "\"shared_prefix_checkpoint\": null, \"hash\": null, \"hash_seed\": null, \"options\": "
        "{\"enable_hybrid\": null, \"layout\": null, \"num_blocks_override\": null, "
        "\"max_num_batched_tokens\": null, \"max_num_seqs\": null, \"max_concurrent_batches\": "
        "null, \"dcp\": null, \"pcp\": null, \"tp\": null, \"speculative\": null, \"auto_fit\": "
        "null, \"max_encoder_tokens\": null, \"hisparse\": null, \"workers\": null, "
        "\"revision\": null}"));
    assert_same_params(pkv_document_params(plain), pkv_document_params(nulls));
    assert_string_equal(pkv_document_get_settings(nulls)->hash, "sha256_cbor");
    assert_null(pkv_document_get_settings(nulls)->hash_seed);
    assert_int_equal(pkv_document_get_settings(nulls)->events, 1);
    assert_int_equal(pkv_document_get_settings(nulls)->max_num_seqs, 256);
    pkv_document_destroy(plain);
    pkv_document_destroy(nulls);
    plain = read_document("{\"max_model_len\": 1, \"options\": null, \"layers\": null, "
                          "\"available_bytes\": null}");
    assert_int_equal(pkv_document_params(plain)->n_layers, 0);
    assert_int_equal(pkv_document_params(plain)->available_bytes, 0);
    pkv_document_destroy(plain);
}

/* ---- parameters, one by one ---- */

#define PARAM(json, member, value)                                                             \
    {                                                                                          \
        json, offsetof(pkv_plan_params, member), sizeof(((pkv_plan_params *)0)->member), value \
    }
#define SPECULATIVE(more) OPTIONS("\"speculative\": {\"method\": \"eagle\", \"tokens\": 3" more "}")
#define METHOD(name) OPTIONS("\"speculative\": {\"method\": \"" name "\", \"tokens\": 2}")
#define HISPARSE(more) OPTIONS("\"hisparse\": {\"host_bytes\": 4096" more "}")

static const struct {
    const char *json;
    size_t offset, bytes;
    uint64_t value;
} params[] = {
    PARAM(WITH(""), available_bytes, 1073741824),
    PARAM("{\"max_model_len\": 1, \"available_bytes\": -5}", available_bytes, UINT64_MAX - 4),
    PARAM("{\"max_model_len\": 1, \"available_bytes\": -9223372036854775808}", available_bytes,
          SIZE_LIMIT + 1),
    PARAM("{\"max_model_len\": 1, \"available_bytes\": 9223372036854775807}", available_bytes,
          SIZE_LIMIT),
    PARAM(WITH(""), max_model_len, 1024),
    PARAM("{\"max_model_len\": 281474976710656}", max_model_len, UINT64_C(1) << 48),
    PARAM(WITH(", \"caching\": false"), caching, 0),
    PARAM(WITH(", \"prefix_match_unit\": 32"), prefix_match_unit, 32),
    PARAM(WITH(", \"retention_interval\": 64"), retention_interval, 64),
    PARAM(OPTIONS("\"enable_hybrid\": false"), enable_hybrid, 0),
    PARAM(OPTIONS("\"layout\": \"BLHNC\""), layout, PKV_LAYOUT_BLHNC),
    PARAM(OPTIONS("\"layout\": \"NHD\""), layout, PKV_LAYOUT_LBNHC),
    PARAM(OPTIONS("\"layout\": \"HND\""), layout, PKV_LAYOUT_LBHNC),
    PARAM(OPTIONS("\"num_blocks_override\": 9"), num_blocks_override, 9),
    PARAM(OPTIONS("\"num_blocks_override\": 0"), num_blocks_override, 0),
    PARAM(OPTIONS("\"max_num_batched_tokens\": 512"), max_num_batched_tokens, 512),
    PARAM(OPTIONS("\"max_concurrent_batches\": 2"), max_concurrent_batches, 2),
    PARAM(OPTIONS("\"max_encoder_tokens\": 1500"), max_encoder_tokens, 1500),
    PARAM(OPTIONS("\"tp\": 2"), tp, 2),
    PARAM(OPTIONS("\"dcp\": 3"), dcp, 3),
    PARAM(OPTIONS("\"pcp\": 4"), pcp, 4),
    PARAM(OPTIONS("\"auto_fit\": true"), auto_fit, 1),
    PARAM(OPTIONS("\"revision\": \"seed\""), revision, PKV_REVISION_SEED),
    PARAM(OPTIONS("\"revision\": \"0.33\""), revision, PKV_REVISION_0_33),
    PARAM(METHOD("eagle"), draft_method, PKV_DRAFT_EAGLE),
    PARAM(METHOD("mtp"), draft_method, PKV_DRAFT_MTP),
    PARAM(METHOD("mtp_multi"), draft_method, PKV_DRAFT_MTP_MULTI),
    PARAM(METHOD("dflash"), draft_method, PKV_DRAFT_DFLASH),
    PARAM(METHOD("draft_model"), draft_method, PKV_DRAFT_MODEL),
    PARAM(METHOD("ngram"), draft_method, PKV_DRAFT_NGRAM),
    PARAM(SPECULATIVE(""), draft_tokens, 3),
    PARAM(SPECULATIVE(", \"block_drop\": false"), draft_block_drop, 0),
    PARAM(SPECULATIVE(""), draft_block_drop, 1),
    PARAM(SPECULATIVE(", \"lookahead_hashes\": false"), draft_lookahead_hashes, 0),
    PARAM(SPECULATIVE(""), draft_lookahead_hashes, 1),
    PARAM(HISPARSE(""), hisparse, 1),
    PARAM(HISPARSE(""), hisparse_host_bytes, 4096),
    PARAM(HISPARSE(", \"device_buffer_rows\": 4096"), hisparse_device_rows, 4096),
    PARAM(HISPARSE(", \"device_buffer_rows\": null"), hisparse_device_rows, 0),
    PARAM(HISPARSE(", \"index_topk\": 1024"), hisparse_index_topk, 1024),
    PARAM(HISPARSE(""), hisparse_index_topk, 2048),
};

static void every_parameter_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(params); i++) {
        pkv_document *doc = read_document(params[i].json);
        const uint64_t got = number_at(pkv_document_params(doc), params[i].offset, params[i].bytes);
        if (got != params[i].value) {
            fail_msg("%" PRIu64 " instead of %" PRIu64 ": %s", got, params[i].value,
                     params[i].json);
        }
        pkv_document_destroy(doc);
    }
}

/* Null is "every block" here, and not "left out". */
static void retention_is_dense_by_null_and_semantic_when_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t interval;
    } cases[] = {{WITH(""), 0},
                 {WITH(", \"retention_interval\": 0"), 0},
                 {WITH(", \"retention_interval\": null"), PKV_RETAIN_DENSE}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        pkv_document *doc = read_document(cases[i].json);
        assert_true(pkv_document_params(doc)->retention_interval == cases[i].interval);
        pkv_document_destroy(doc);
    }
}

/* ---- settings ---- */

static void every_setting_is_read(void **state)
{
    (void)state;
    pkv_document *doc = read_document(
        WITH(", \"hash\": \"xxhash_cbor\", \"hash_seed\": \"0\", \"watermark\": 0.25, "
             "\"events\": false, \"shared_prefix_checkpoint\": true, "
             "\"options\": {\"max_num_seqs\": 8}"));
    const pkv_document_settings *s = pkv_document_get_settings(doc);
    assert_string_equal(s->hash, "xxhash_cbor");
    assert_string_equal(s->hash_seed, "0");
    assert_near(s->watermark, 0.25, 0);
    assert_int_equal(s->events, 0);
    assert_int_equal(s->shared_prefix_checkpoint, 1);
    assert_int_equal(s->max_num_seqs, 8);
    pkv_document_destroy(doc);
}

/* ---- layers and stages ---- */

static void layers_keep_their_order_and_names(void **state)
{
    (void)state;
    pkv_document *doc = read_document(WITH_LAYERS(
        "", FULL_LAYER("z", "") ", " FULL_LAYER("\\u00e4 \\\"a\\\"", ", \"sliding_window\": 7")));
    assert_int_equal(pkv_document_params(doc)->n_layers, 2);
    assert_string_equal(pkv_document_layer_name(doc, 0), "z");
    assert_string_equal(pkv_document_layer_name(doc, 1), "\xc3\xa4 \"a\"");
    assert_null(pkv_document_layer_name(doc, 2));
    assert_int_equal(pkv_document_params(doc)->layers[1].sliding_window, 7);
    pkv_document_destroy(doc);
}

static void stages_name_their_layers(void **state)
{
    (void)state;
    pkv_document *doc = read_document(
        WITH_LAYERS(", \"options\": {\"workers\": [{\"available_bytes\": -1, \"layers\": [\"b\", "
                    "\"a\"]}, {\"available_bytes\": 5, \"layers\": []}]}",
                    FULL_LAYER("a", "") ", " FULL_LAYER("b", "")));
    const pkv_plan_params *p = pkv_document_params(doc);
    assert_int_equal(p->n_workers, 2);
    assert_true(p->workers[0].available_bytes == -1);
    assert_int_equal(p->workers[0].n_layers, 2);
    assert_int_equal(p->workers[0].layers[0], 1);
    assert_int_equal(p->workers[0].layers[1], 0);
    assert_true(p->workers[1].available_bytes == 5);
    assert_int_equal(p->workers[1].n_layers, 0);
    pkv_document_destroy(doc);
}

static void parameters_are_ready_for_a_plan(void **state)
{
    (void)state;
    pkv_document *doc = read_document(WITH(""));
    pkv_plan *plan = plan_of(pkv_document_params(doc));
    assert_int_equal(pkv_plan_get_summary(plan)->num_blocks, 16384); /* 2^30 / 65536 */
    pkv_document_destroy(doc);
    assert_int_equal(page_of(group_spec(plan, 0)), 65536); /* the plan needs no document */
    pkv_plan_destroy(plan);
}

/* What --emit-specs adds. Field case 8: layers that share a cache stand there and own no bytes. */
static void explanations_beside_the_layers_are_accepted(void **state)
{
    (void)state;
    pkv_document *doc = read_document(
        WITH(", \"sources\": [{\"layer\": \"a\", \"label\": \"exact\", \"why\": \"x\"}], "
             "\"no_cache\": [\"b\"], \"kv_sharing\": {\"c\": \"a\", \"d\": \"a\"}"));
    assert_int_equal(pkv_document_params(doc)->n_layers, 1);
    pkv_plan *plan = plan_of(pkv_document_params(doc));
    assert_int_equal(pkv_plan_worker_at(plan, 0)->bytes_per_block, 65536);
    pkv_plan_destroy(plan);
    pkv_document_destroy(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_has_the_defaults_of_the_library),
        cmocka_unit_test(null_is_left_out),
        cmocka_unit_test(every_parameter_is_read),
        cmocka_unit_test(retention_is_dense_by_null_and_semantic_when_left_out),
        cmocka_unit_test(every_setting_is_read),
        cmocka_unit_test(layers_keep_their_order_and_names),
        cmocka_unit_test(stages_name_their_layers),
        cmocka_unit_test(parameters_are_ready_for_a_plan),
        cmocka_unit_test(explanations_beside_the_layers_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
