/* test_format_table.c  The table of formats: names, texts, flags of both revisions. */
#include "format_fixture.h"

enum { NOW = PKV_FORMAT_REVISION_0_5_6, SEED = PKV_FORMAT_REVISION_SEED };

static pkv_format_info info_of(uint32_t revision, uint64_t id)
{
    pkv_format_info info;
    assert_ok(pkv_format_get(revision, id, &info));
    return info;
}

static void every_format_has_its_row(void **state)
{
    (void)state;
    uint32_t id;
    for (uint32_t i = 0; i < PKV_N_FORMATS; i++) {
        const pkv_format_info info = info_of(NOW, i);
        assert_int_equal(info.id, i);
        assert_true(strlen(info.name) > 0 && strlen(info.backend) > 0);
        assert_ok(pkv_format_from_name(NOW, info.name, &id));
        assert_int_equal(id, i);
    }
    assert_string_equal(info_of(NOW, 17).name, "NL_X_NP_X_NB_BS_ONE_HS");
}

static void unknown_formats_are_told_apart(void **state)
{
    (void)state;
    pkv_format_info info;
    uint32_t id;
    char text[160];
    assert_status(pkv_format_get(NOW, 19, &info), PKV_E_NOT_FOUND);
    assert_status(pkv_format_get(NOW, UINT64_MAX, &info), PKV_E_NOT_FOUND);
    assert_status(pkv_format_get(SEED, 11, &info), PKV_E_NOT_FOUND);
    assert_ok(pkv_format_get(SEED, 10, &info));
    assert_status(pkv_format_from_name(NOW, "NL_X_NB", &id), PKV_E_NOT_FOUND);
    assert_status(pkv_format_from_name(SEED, "NL_X_NB_NH_BS_CS", &id), PKV_E_NOT_FOUND);
    assert_status(pkv_format_text(SEED, 12, NULL, text, sizeof text), PKV_E_NOT_FOUND);
}

/* Bit i: format i. */
static uint32_t set_of(uint32_t revision, size_t offset)
{
    uint32_t set = 0;
    pkv_format_info info;
    for (uint32_t i = 0; pkv_format_get(revision, i, &info) == PKV_OK; i++) {
        set |= (uint32_t) * ((const uint8_t *)&info + offset) << i;
    }
    return set;
}

static uint32_t bits(size_t n, const uint8_t *ids)
{
    uint32_t set = 0;
    for (size_t i = 0; i < n; i++) {
        set |= UINT32_C(1) << ids[i];
    }
    return set;
}

#define SET(...) bits(sizeof((uint8_t[]){__VA_ARGS__}), (const uint8_t[]){__VA_ARGS__})

static void flags_are_those_of_the_lists(void **state)
{
    (void)state;
    assert_int_equal(set_of(NOW, offsetof(pkv_format_info, is_mla)), SET(3, 5, 14, 17));
    assert_int_equal(set_of(NOW, offsetof(pkv_format_info, is_hnd)), SET(6, 7, 8, 10, 12, 15));
    assert_int_equal(set_of(NOW, offsetof(pkv_format_info, block_axis)),
                     SET(3, 12, 13, 14, 17, 18));
    assert_int_equal(set_of(NOW, offsetof(pkv_format_info, flash)),
                     SET(1, 2, 6, 7, 10, 11, 12, 13));
    assert_int_equal(set_of(NOW, offsetof(pkv_format_info, mla_or_flash)), SET(1, 2, 3, 6, 7, 14));
    assert_int_equal(set_of(SEED, offsetof(pkv_format_info, is_mla)), SET(3, 5));
    assert_int_equal(set_of(SEED, offsetof(pkv_format_info, block_axis)), SET(3));
    assert_int_equal(set_of(SEED, offsetof(pkv_format_info, flash)), SET(1, 2, 6, 7, 10));
    assert_int_equal(set_of(SEED, offsetof(pkv_format_info, mla_or_flash)), SET(1, 2, 3, 6, 7));
    assert_int_equal(info_of(NOW, 10).kv_size, 1);
    assert_int_equal(info_of(SEED, 10).kv_size, 2);
    assert_int_equal(info_of(NOW, 4).structure, PKV_FORMAT_KV_LIST);
    assert_int_equal(info_of(NOW, 8).structure, PKV_FORMAT_CROSS_LAYER);
    assert_int_equal(info_of(NOW, 16).structure, PKV_FORMAT_LAYER_LIST);
}

static void assert_text(uint32_t revision, uint64_t id, const pkv_format_sizes *s, const char *want)
{
    char text[160];
    assert_ok(pkv_format_text(revision, id, s, text, sizeof text));
    assert_string_equal(text, want);
}

static void shapes_are_told_by_labels(void **state)
{
    (void)state;
    assert_text(NOW, 0, NULL, "[NB, NL, 2, BS, NH, HS]");
    assert_text(NOW, 4, NULL, "2 x NL x [PBS, NH, HS]");
    assert_text(NOW, 5, NULL, "NL x [PBS, 1, HS]");
    assert_text(NOW, 14, NULL, "NL x [NB, BSxVALS, BSxSCALES]");
    assert_text(NOW, 17, NULL, "NL x NP x [NB, BS, 1, HS]");
}

static void shapes_are_told_by_numbers(void **state)
{
    (void)state;
    const pkv_format_sizes s = {3, 100, 16, 8, 128};
    assert_text(NOW, 1, &s, "3 x [2, 100, 16, 8, 128]");
    assert_text(NOW, 4, &s, "2 x 3 x [1600, 8, 128]");
    assert_text(NOW, 5, &s, "3 x [1600, 1, 128]");
    assert_text(NOW, 8, &s, "[100, 3, 2, 8, 16, 128]");
    assert_text(NOW, 10, &s, "3 x [100, 8, 16, 2, 64]"); /* hs counts K and V */
    assert_text(SEED, 10, &s, "3 x [100, 8, 16, 2, 128]");
    assert_text(NOW, 12, &s, "3 x [100, 8, 16, 128]");
    assert_text(NOW, 14, &s, "3 x [100, 16, 16]");
    assert_text(NOW, 17, &s, "3 x NP x [100, 16, 1, 128]");
}

static void texts_of_the_largest_sizes_fit(void **state)
{
    (void)state;
    const uint64_t most = INT64_MAX;
    const pkv_format_sizes s = {most, most, 1, most, most}, wraps = {1, most, 2, 1, 1};
    char text[160];
    for (uint32_t id = 0; id < PKV_N_FORMATS; id++) {
        assert_ok(pkv_format_text(NOW, id, &s, text, sizeof text));
    }
    assert_status(pkv_format_text(NOW, 1, &s, text, 20), PKV_E_INVAL);
    assert_error_text("pkv_format_text", "room 20");
    assert_status(pkv_format_text(NOW, 4, &wraps, text, sizeof text), PKV_E_OVERFLOW);
    assert_status(pkv_format_text(NOW, 4, &s, NULL, 0), PKV_E_INVAL);
}

static void connectors_that_move_by_layer_are_known(void **state)
{
    (void)state;
    assert_true(pkv_format_connector_is_layerwise(NOW, "VLLMBufferLayerwiseXPUConnector"));
    assert_true(pkv_format_connector_is_layerwise(NOW, "SGLangLayerwiseMUSAConnector"));
    assert_false(pkv_format_connector_is_layerwise(SEED, "SGLangLayerwiseMUSAConnector"));
    assert_false(pkv_format_connector_is_layerwise(NOW, "SGLangGPUConnector"));
    assert_false(pkv_format_connector_is_layerwise(NOW, NULL));
    assert_true(pkv_format_needs_buffer(false));
    assert_false(pkv_format_needs_buffer(true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_has_its_row),
        cmocka_unit_test(unknown_formats_are_told_apart),
        cmocka_unit_test(flags_are_those_of_the_lists),
        cmocka_unit_test(shapes_are_told_by_labels),
        cmocka_unit_test(shapes_are_told_by_numbers),
        cmocka_unit_test(texts_of_the_largest_sizes_fit),
        cmocka_unit_test(connectors_that_move_by_layer_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
