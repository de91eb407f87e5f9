/* test_plan_layout.c  The six orders of the axes (kv-core 2.1). Strides in each of them are rows 36
 * to 42, in test_spec_rows_views.c. */
#include "plan_fixture.h"

/* The reference's table. */
static const struct {
    const char *name;
    uint32_t layout;
    bool layer_compact, block_contiguous, block_compact, block_outermost;
} table[] = {{"LBHNC", PKV_LAYOUT_LBHNC, true, true, true, false},
             {"LBNHC", PKV_LAYOUT_LBNHC, true, false, true, false},
             {"LHBNC", PKV_LAYOUT_LHBNC, true, false, false, false},
             {"BLHNC", PKV_LAYOUT_BLHNC, false, true, true, true},
             {"BLNHC", PKV_LAYOUT_BLNHC, false, false, true, true},
             {"BHLNC", PKV_LAYOUT_BHLNC, false, false, false, true}};

static void every_layout_has_its_properties(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        const uint32_t layout = table[i].layout;
        assert_string_equal(pkv_kv_layout_name(layout), table[i].name);
        assert_int_equal(pkv_kv_layout_is_layer_compact(layout), table[i].layer_compact);
        assert_int_equal(pkv_kv_layout_is_block_contiguous(layout), table[i].block_contiguous);
        assert_int_equal(pkv_kv_layout_is_block_compact(layout), table[i].block_compact);
        assert_int_equal(pkv_kv_layout_is_block_outermost(layout), table[i].block_outermost);
    }
}

static void numbers_without_a_layout_have_no_name_and_no_property(void **state)
{
    (void)state;
    static const uint32_t none[] = {PKV_LAYOUT_AUTO, PKV_N_LAYOUTS, UINT32_MAX};
    for (size_t i = 0; i < COUNT(none); i++) {
        assert_null(pkv_kv_layout_name(none[i]));
        assert_false(pkv_kv_layout_is_layer_compact(none[i]));
        assert_false(pkv_kv_layout_is_block_contiguous(none[i]));
        assert_false(pkv_kv_layout_is_block_compact(none[i]));
        assert_false(pkv_kv_layout_is_block_outermost(none[i]));
    }
}

static void layouts_are_found_by_name_and_alias(void **state)
{
    (void)state;
    uint32_t layout = 77;
    for (size_t i = 0; i < COUNT(table); i++) {
        assert_ok(pkv_kv_layout_from_name(table[i].name, &layout));
        assert_int_equal(layout, table[i].layout);
    }
    assert_ok(pkv_kv_layout_from_name("NHD", &layout));
    assert_int_equal(layout, PKV_LAYOUT_LBNHC);
    assert_ok(pkv_kv_layout_from_name("HND", &layout));
    assert_int_equal(layout, PKV_LAYOUT_LBHNC);
    static const char *const unknown[] = {"", "AUTO", "lbnhc", "LBNHC ", "NDH", "HBLNC"};
    for (size_t i = 0; i < COUNT(unknown); i++) {
        assert_status(pkv_kv_layout_from_name(unknown[i], &layout), PKV_E_NOT_FOUND);
        assert_int_equal(layout, PKV_LAYOUT_LBHNC); /* unchanged */
    }
}

/* The default order: LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC; the first that holds all specs. */
static void the_planner_takes_the_first_layout_of_its_order_that_can(void **state)
{
    (void)state;
    pkv_spec layers[] = {full(), full_of(16, 4)};
    const pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->layout, PKV_LAYOUT_LBNHC);
    pkv_plan_destroy(plan);
    layers[1].dcp_sharded = 0; /* sharded and whole attention of two page sizes: B outermost */
    plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->layout, PKV_LAYOUT_BLNHC);
    pkv_plan_destroy(plan);
    layers[1] = full();
    layers[1].dcp_sharded = 0; /* of one size: no need */
    plan = plan_of(&params);
    assert_int_equal(pkv_plan_get_summary(plan)->layout, PKV_LAYOUT_LBNHC);
    pkv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_has_its_properties),
        cmocka_unit_test(numbers_without_a_layout_have_no_name_and_no_property),
        cmocka_unit_test(layouts_are_found_by_name_and_alias),
        cmocka_unit_test(the_planner_takes_the_first_layout_of_its_order_that_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
