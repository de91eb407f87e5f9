/* test_format_view.c  One tensor: holes, overlaps, halves, rows of tokens. */
#include "format_fixture.h"

static pkv_view_form form_of(pkv_view v)
{
    pkv_view_form form;
    assert_ok(pkv_view_check(&v, &form));
    return form;
}

static void a_tensor_is_dense_in_any_order_of_its_axes(void **state)
{
    (void)state;
    assert_int_equal(form_of(BF16(4, 5, 6)), PKV_VIEW_DENSE);
    assert_int_equal(form_of(strided(BF16(4, 5, 6), STRIDES(1, 24, 4))), PKV_VIEW_DENSE);
    assert_int_equal(form_of(strided(BF16(4, 1, 6), STRIDES(6, 0, 1))), PKV_VIEW_DENSE);
    assert_int_equal(form_of(BF16(1)), PKV_VIEW_DENSE);
}

static void holes_are_padding_and_shared_bytes_overlap(void **state)
{
    (void)state;
    assert_int_equal(form_of(strided(BF16(4, 5, 6), STRIDES(31, 6, 1))), PKV_VIEW_PADDED);
    assert_int_equal(form_of(strided(BF16(4, 5, 6), STRIDES(30, 6, 2))), PKV_VIEW_OVERLAPPING);
    assert_int_equal(form_of(strided(BF16(4, 5, 6), STRIDES(29, 6, 1))), PKV_VIEW_OVERLAPPING);
    assert_int_equal(form_of(strided(BF16(4, 8), STRIDES(0, 1))), PKV_VIEW_OVERLAPPING);
    assert_int_equal(form_of(strided(BF16(4), STRIDES(2))), PKV_VIEW_PADDED);
}

static void fields_out_of_range_are_named(void **state)
{
    (void)state;
    pkv_view_form form;
    pkv_view v = BF16(4, 5);
    v.dtype = PKV_DTYPE_NONE;
    assert_status(pkv_view_check(&v, &form), PKV_E_INVAL);
    assert_error_text("pkv_view_check", "dtype is 0");
    v = BF16(4, 5);
    v.rank = 9;
    assert_status(pkv_view_check(&v, &form), PKV_E_INVAL);
    assert_error_text("pkv_view_check", "rank is 9");
    v.rank = 0;
    assert_status(pkv_view_check(&v, &form), PKV_E_INVAL);
    assert_status(pkv_view_row_major(&v), PKV_E_INVAL);
    v = BF16(4, 5);
    v.shape[1] = 0;
    assert_status(pkv_view_check(&v, &form), PKV_E_INVAL);
    assert_error_text("pkv_view_check", "shape[1] is 0");
    assert_status(pkv_view_check(NULL, &form), PKV_E_INVAL);
    v = BF16(4, 5);
    assert_status(pkv_view_check(&v, NULL), PKV_E_INVAL);
}

static void sizes_end_at_2_to_the_63_bytes(void **state)
{
    (void)state;
    pkv_view_form form;
    pkv_view v = BF16(4, 5);
    v.shape[0] = v.shape[1] = UINT64_C(1) << 32;
    assert_status(pkv_view_row_major(&v), PKV_E_OVERFLOW);
    assert_status(pkv_view_check(&v, &form), PKV_E_OVERFLOW);
    v = tensor(PKV_DTYPE_UINT8, SHAPE(INT64_MAX), NULL);
    assert_ok(pkv_view_check(&v, &form)); /* exactly 2^63 - 1 bytes */
    v.offset = 1;
    assert_status(pkv_view_check(&v, &form), PKV_E_OVERFLOW);
    v = strided(BF16(2, 2), STRIDES(UINT64_MAX, 1));
    assert_status(pkv_view_check(&v, &form), PKV_E_OVERFLOW);
    v = strided(BF16(1, 2), STRIDES(UINT64_MAX, 1)); /* says nothing */
    assert_ok(pkv_view_check(&v, &form));
}

static void shared_memory_must_be_row_major_from_its_start(void **state)
{
    (void)state;
    pkv_view v = BF16(4, 8);
    assert_ok(pkv_view_check_contiguous(&v));
    v = strided(BF16(4, 1, 8), STRIDES(8, 77, 1));
    assert_ok(pkv_view_check_contiguous(&v));
    v = at_offset(BF16(4, 8), 1);
    assert_status(pkv_view_check_contiguous(&v), PKV_E_VALUE);
    assert_error_text("pkv_view_check_contiguous", "offset is 1");
    v = strided(BF16(4, 8), STRIDES(9, 1));
    assert_status(pkv_view_check_contiguous(&v), PKV_E_VALUE);
    assert_error_text("pkv_view_check_contiguous", "strides[0] is 9");
    v = strided(BF16(8, 4), STRIDES(1, 8));
    assert_status(pkv_view_check_contiguous(&v), PKV_E_VALUE);
}

static void token_pairs_are_split_at_the_first_axis_of_two(void **state)
{
    (void)state;
    pkv_view kv[2], v = BF16(2, 100, 64);
    assert_ok(pkv_view_split(&v, kv));
    assert_int_equal(kv[1].rank, 2);
    assert_int_equal(kv[1].shape[0], 100);
    assert_int_equal(kv[1].offset, 6400);
    v = at_offset(BF16(100, 2, 64), 7);
    assert_ok(pkv_view_split(&v, kv));
    assert_int_equal(kv[0].strides[0], 128);
    assert_int_equal(kv[0].offset, 7);
    assert_int_equal(kv[1].offset, 71);
    v = BF16(2, 2, 64);
    assert_ok(pkv_view_split(&v, kv));
    assert_int_equal(kv[1].offset, 128); /* K and V outside */
    v = BF16(3, 3, 8);
    assert_status(pkv_view_split(&v, kv), PKV_E_VALUE);
    v = BF16(2, 64);
    assert_status(pkv_view_split(&v, kv), PKV_E_VALUE);
    v = BF16(2, 100, 64);
    assert_ok(pkv_view_split(&v, &kv[0]));
    kv[0] = BF16(2, 5, 8);
    assert_ok(pkv_view_split(&kv[0], kv)); /* in place */
    assert_int_equal(kv[1].offset, 40);
}

static void rows_of_tokens_have_pitches(void **state)
{
    (void)state;
    pkv_token_rows rows[2];
    uint32_t n;
    const pkv_view latent = BF16(10, 16, 576), fi = BF16(10, 2, 16, 8, 128);
    assert_ok(pkv_view_token_rows(&latent, 1, true, PKV_ANY_FORMAT, rows, &n));
    assert_int_equal(n, 1);
    assert_int_equal(rows[0].tokens, 160);
    assert_int_equal(rows[0].row, 576);
    assert_true(rows[0].flat);
    assert_ok(pkv_view_token_rows(&fi, 1, false, PKV_ANY_FORMAT, rows, &n));
    assert_int_equal(n, 2);
    assert_int_equal(rows[1].offset, 16384); /* V of block 0 */
    assert_int_equal(rows[1].token_pitch, 1024);
    assert_int_equal(rows[1].block_pitch, 32768);
    assert_false(rows[1].flat); /* which no flat view could say */
    const pkv_view pair[2] = {BF16(10, 16, 8, 128), BF16(10, 16, 8, 128)};
    assert_ok(pkv_view_token_rows(pair, 2, false, PKV_ANY_FORMAT, rows, &n));
    assert_int_equal(rows[1].row, 1024);
}

static void rows_of_other_shapes_are_refused(void **state)
{
    (void)state;
    pkv_token_rows rows[2];
    uint32_t n;
    const pkv_view fa = BF16(2, 10, 16, 8, 128), three = BF16(3, 10, 16, 8, 128);
    const pkv_view rank4 = BF16(10, 16, 8, 128);
    const pkv_view unequal[2] = {rank4, BF16(10, 16, 8, 64)};
    const pkv_view hnd = strided(BF16(2, 10, 16, 8, 128), STRIDES(163840, 16384, 128, 2048, 1));
    assert_status(pkv_view_token_rows(&rank4, 1, true, PKV_ANY_FORMAT, rows, &n), PKV_E_VALUE);
    assert_status(pkv_view_token_rows(unequal, 2, true, PKV_ANY_FORMAT, rows, &n), PKV_E_VALUE);
    assert_status(pkv_view_token_rows(unequal, 2, false, PKV_ANY_FORMAT, rows, &n), PKV_E_VALUE);
    assert_status(pkv_view_token_rows(&rank4, 1, false, PKV_ANY_FORMAT, rows, &n), PKV_E_VALUE);
    assert_status(pkv_view_token_rows(&three, 1, false, PKV_ANY_FORMAT, rows, &n), PKV_E_VALUE);
    assert_status(pkv_view_token_rows(&fa, 1, false, 2, rows, &n), PKV_E_VALUE);
    assert_status(pkv_view_token_rows(&fa, 1, false, 6, rows, &n), PKV_E_NOTIMPL);
    assert_status(pkv_view_token_rows(&hnd, 1, false, 1, rows, &n), PKV_E_VALUE);
    assert_error_text("pkv_view_token_rows", "holes");
    assert_status(pkv_view_token_rows(&fa, 3, false, 1, rows, &n), PKV_E_INVAL);
    assert_ok(pkv_view_token_rows(&fa, 1, false, 1, rows, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_dense_in_any_order_of_its_axes),
        cmocka_unit_test(holes_are_padding_and_shared_bytes_overlap),
        cmocka_unit_test(fields_out_of_range_are_named),
        cmocka_unit_test(sizes_end_at_2_to_the_63_bytes),
        cmocka_unit_test(shared_memory_must_be_row_major_from_its_start),
        cmocka_unit_test(token_pairs_are_split_at_the_first_axis_of_two),
        cmocka_unit_test(rows_of_tokens_have_pitches),
        cmocka_unit_test(rows_of_other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
