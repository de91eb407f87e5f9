/* test_spec_rows_views.c  Rows 35 to 44 of the reference's cases (kv-core 9.1): names of cache
 * types, arrays in memory, checkpoints of recurrent layers. */
#include "plan_fixture.h"

static void row_35_the_name_of_a_cache_type_selects_its_mode(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t mode;
    } rows[] = {{"auto", PKV_QUANT_NONE},
                {"fp8", PKV_QUANT_FP8_PER_TENSOR},
                {"fp8_ds_mla", PKV_QUANT_FP8_PER_TENSOR},
                {"nvfp4_4over6", PKV_QUANT_NVFP4},
                {"nvfp4_ds_mla", PKV_QUANT_NVFP4_DS_MLA}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t mode;
        assert_ok(pkv_quant_mode_of_cache_dtype(rows[i].name, &mode));
        assert_int_equal(mode, rows[i].mode);
    }
}

/* ---- rows 36 to 42 ---- */

static void assert_strides(const pkv_spec *spec, uint32_t layout, uint64_t l, uint64_t b,
                           uint64_t h, uint64_t n, uint64_t c)
{
    pkv_kv_view view;
    assert_ok(pkv_kv_view_dense(spec, layout, 10, 3, 0, &view));
    const uint64_t wanted[5] = {l, b, h, n, c};
    for (int axis = 0; axis < 5; axis++) {
        assert_int_equal(view.strides[axis], wanted[axis]);
    }
    assert_int_equal(view.shape[PKV_AXIS_L], 3);
    assert_int_equal(view.shape[PKV_AXIS_B], 10);
    assert_int_equal(view.shape[PKV_AXIS_H], 8);
    assert_int_equal(view.shape[PKV_AXIS_N], 16);
    assert_int_equal(view.shape[PKV_AXIS_C], 512);
}

static void row_36_to_40_strides_follow_the_order_of_the_axes(void **state)
{
    (void)state;
    const pkv_spec spec = full();
    assert_strides(&spec, PKV_LAYOUT_LBHNC, 655360, 65536, 8192, 512, 1); /* row 36 */
    assert_strides(&spec, PKV_LAYOUT_LBNHC, 655360, 65536, 512, 4096, 1); /* row 37 */
    assert_strides(&spec, PKV_LAYOUT_LHBNC, 655360, 8192, 81920, 512, 1); /* row 38 */
    assert_strides(&spec, PKV_LAYOUT_BLHNC, 65536, 196608, 8192, 512, 1); /* row 39 */
    assert_strides(&spec, PKV_LAYOUT_BLNHC, 65536, 196608, 512, 4096, 1); /* row 39 */
    assert_strides(&spec, PKV_LAYOUT_BHLNC, 8192, 196608, 24576, 512, 1); /* row 40 */
}

static void row_41_a_padded_page_is_one_run_of_bytes(void **state)
{
    (void)state;
    pkv_kv_view view;
    pkv_spec spec = full();
    spec.page_size_padded = 70000;
    spec = finished(spec);
    assert_strides(&spec, PKV_LAYOUT_LBNHC, 700000, 70000, 512, 4096, 1);
    assert_status(pkv_kv_view_dense(&spec, PKV_LAYOUT_LHBNC, 10, 3, 0, &view), PKV_E_ASSERT);
}

static void row_42_a_block_is_split_into_kernel_blocks_that_divide_it(void **state)
{
    (void)state;
    pkv_kv_view view;
    const pkv_spec long_block = full_of(64, 8), spec = full();
    assert_ok(pkv_kv_view_dense(&long_block, PKV_LAYOUT_LBNHC, 10, 1, 16, &view));
    assert_int_equal(view.shape[PKV_AXIS_B], 40);
    assert_int_equal(view.shape[PKV_AXIS_H], 8);
    assert_int_equal(view.shape[PKV_AXIS_N], 16);
    assert_int_equal(view.shape[PKV_AXIS_C], 512);
    assert_status(pkv_kv_view_dense(&spec, PKV_LAYOUT_LBNHC, 10, 1, 12, &view), PKV_E_ASSERT);
}

static void row_42_only_dense_pages_are_split(void **state)
{
    (void)state;
    pkv_kv_view view;
    const pkv_spec spec = full_of(64, 8); /* pages of 262144 bytes */
    assert_ok(pkv_kv_view_placed(&spec, PKV_LAYOUT_LBNHC, 10, 1, 16, 2621440, 262144, 5, &view));
    assert_int_equal(view.strides[PKV_AXIS_B], 65536);
    assert_int_equal(view.offset, 5);
    assert_status(pkv_kv_view_placed(&spec, PKV_LAYOUT_BLHNC, 10, 1, 16, 262144, 524288, 0, &view),
                  PKV_E_VALUE);
}

/* ---- rows 43 and 44 ---- */

static void row_43_a_checkpoint_leaves_something_to_compute(void **state)
{
    (void)state;
    assert_int_equal(pkv_mamba_checkpoint_position(64, 16, false, 0), 48);
    assert_int_equal(pkv_mamba_checkpoint_position(65, 16, false, 0), 64);
    assert_int_equal(pkv_mamba_checkpoint_position(64, 16, true, 0), 48);
    assert_int_equal(pkv_mamba_checkpoint_position(16, 16, true, 0), 0);
    assert_int_equal(pkv_mamba_checkpoint_position(15, 16, false, 0), 0);
}

static void row_43_a_lookahead_is_kept_instead_of_one_token(void **state)
{
    (void)state;
    /* 64 - 1 = 63 -> 48 and 66 - 3 = 63 -> 48, but 66 - 2 = 64 -> 64 */
    assert_int_equal(pkv_mamba_checkpoint_position(64, 16, false, 1), 48);
    assert_int_equal(pkv_mamba_checkpoint_position(66, 16, false, 3), 48);
    assert_int_equal(pkv_mamba_checkpoint_position(66, 16, false, 2), 64);
    assert_int_equal(pkv_mamba_checkpoint_position(2, 16, false, 3), 0);
}

static void row_44_a_checkpoint_needs_a_column_of_its_own(void **state)
{
    (void)state;
    pkv_spec spec = recurrent(512);
    spec.prefill_checkpoint_alignment = 16;
    spec = finished(spec);
    assert_true(pkv_mamba_checkpoint_valid(&spec, 0, 2000, 1968, 16));
    assert_true(pkv_mamba_checkpoint_valid(&spec, 0, 900, 880, 16));
    assert_false(pkv_mamba_checkpoint_valid(&spec, 0, 500, 496, 16));
    spec.prefill_checkpoint_alignment = 0;
    assert_false(pkv_mamba_checkpoint_valid(&spec, 0, 2000, 1968, 16));
}

static void row_44_a_checkpoint_lies_inside_and_on_the_alignment(void **state)
{
    (void)state;
    pkv_spec spec = recurrent(512);
    spec.prefill_checkpoint_alignment = 32;
    spec = finished(spec);
    assert_true(pkv_mamba_checkpoint_valid(&spec, 16, 2000, 1968, 16));  /* 1952 = 61 x 32 */
    assert_false(pkv_mamba_checkpoint_valid(&spec, 0, 2000, 1968, 16));  /* 1968 = 61.5 x 32 */
    assert_false(pkv_mamba_checkpoint_valid(&spec, 8, 2000, 1992, 16));  /* begins inside a unit */
    assert_false(pkv_mamba_checkpoint_valid(&spec, 16, 2000, 2000, 16)); /* at the end */
    assert_false(pkv_mamba_checkpoint_valid(&spec, 16, 2000, 16, 16));   /* at the start */
    spec.prefill_checkpoint_alignment = 8;
    spec = finished(spec);
    assert_true(pkv_mamba_checkpoint_valid(&spec, 16, 2000, 32, 16));
    assert_false(pkv_mamba_checkpoint_valid(&spec, 16, 2000, 24, 16)); /* less than a unit on */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_35_the_name_of_a_cache_type_selects_its_mode),
        cmocka_unit_test(row_36_to_40_strides_follow_the_order_of_the_axes),
        cmocka_unit_test(row_41_a_padded_page_is_one_run_of_bytes),
        cmocka_unit_test(row_42_a_block_is_split_into_kernel_blocks_that_divide_it),
        cmocka_unit_test(row_42_only_dense_pages_are_split),
        cmocka_unit_test(row_43_a_checkpoint_leaves_something_to_compute),
        cmocka_unit_test(row_43_a_lookahead_is_kept_instead_of_one_token),
        cmocka_unit_test(row_44_a_checkpoint_needs_a_column_of_its_own),
        cmocka_unit_test(row_44_a_checkpoint_lies_inside_and_on_the_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
