/* test_format_errors.c  What pkv_reading_create() is given wrong, memory that runs out, and what a
 * reading does not hold. */
#include "countdown.h"
#include "format_fixture.h"

static problem p;

static void begin_flash(void)
{
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 3, BF16(2, 10, 16, 8, 128));
}

static void a_field_out_of_range_is_named(void **state)
{
    (void)state;
    const struct {
        uint32_t *field;
        const char *part;
    } fields[] = {
        {&p.params.engine, "engine is 77"},         {&p.params.structure, "structure is 77"},
        {&p.params.revision, "revision is 77"},     {&p.params.hints.layout, "hints.layout is 77"},
        {&p.params.hints.list, "hints.list is 77"}, {&p.params.hints.planes, "hints.planes is 77"},
        {&p.params.hints.kv_axis, "hints.kv_axis"},
    };
    for (size_t i = 0; i < COUNT(fields); i++) {
        begin_flash();
        *fields[i].field = 77;
        assert_refused(&p, PKV_E_INVAL, fields[i].part);
    }
    begin_flash();
    p.params.n_layers = 0;
    assert_refused(&p, PKV_E_INVAL, "n_layers is 0");
    begin_flash();
    p.params.n_layers = 65537;
    assert_refused(&p, PKV_E_INVAL, "n_layers is 65537");
    begin_flash();
    p.params.layers = NULL;
    assert_refused(&p, PKV_E_INVAL, "n_layers");
}

static void a_tensor_out_of_range_is_named_with_its_place(void **state)
{
    (void)state;
    begin_flash();
    p.views[1].shape[2] = 0;
    assert_refused(&p, PKV_E_INVAL, "layers[1]: tensor 0: shape[2] is 0");
    begin_flash();
    p.views[2].shape[1] = UINT64_C(1) << 60;
    assert_refused(&p, PKV_E_OVERFLOW, "layers[2]: tensor 0: shape[");
    begin_flash();
    p.views[0].dtype = 99;
    assert_refused(&p, PKV_E_INVAL, "dtype is 99");
    begin_flash();
    p.layers[1].n_tensors = 0;
    assert_refused(&p, PKV_E_INVAL, "layers[1]: 0 tensors");
    begin_flash();
    p.views[0].rank = 40;
    assert_refused(&p, PKV_E_UNSUPPORTED, "rank 40");
}

static void structures_have_their_number_of_tensors(void **state)
{
    (void)state;
    begin_flash();
    p.params.structure = PKV_STRUCTURE_CROSS_LAYER;
    assert_refused(&p, PKV_E_INVAL, "3 layers");
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.structure = PKV_STRUCTURE_K_LIST_V_LIST;
    put(&p, 1, BF16(64, 1, 128));
    assert_refused(&p, PKV_E_INVAL, "1 tensors, 2 were expected");
}

static void structures_that_an_engine_does_not_have_are_refused(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put_pairs(&p, 2, BF16(64, 8, 128), BF16(64, 8, 128));
    p.params.structure = PKV_STRUCTURE_K_LIST_V_LIST;
    assert_refused(&p, PKV_E_UNSUPPORTED, "vLLM");
    begin(&p, PKV_ENGINE_SGLANG);
    put_pairs(&p, 2, BF16(64, 8, 128), BF16(64, 8, 128));
    assert_refused(&p, PKV_E_UNSUPPORTED, "SGLang");
    begin(&p, PKV_ENGINE_ATOM);
    put(&p, 1, BF16(64, 8, 128));
    p.params.structure = PKV_STRUCTURE_PER_LAYER;
    assert_refused(&p, PKV_E_UNSUPPORTED, "ATOM");
    const pkv_view four[4] = {BF16(8, 4, 1, 8), BF16(8, 4, 1, 8), BF16(8, 4, 1, 8),
                              BF16(8, 4, 1, 8)};
    begin(&p, PKV_ENGINE_VLLM);
    put_planes(&p, 4, four);
    assert_refused(&p, PKV_E_UNSUPPORTED, "4 tensors");
}

static void planes_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put_pairs(&p, 2, BF16(64, 16, 8, 128), BF16(65, 16, 8, 128));
    assert_refused(&p, PKV_E_VALUE, "shape[0] of tensor 1 is 65");
    begin(&p, PKV_ENGINE_VLLM);
    put_pairs(&p, 2, BF16(64, 16, 8, 128), BYTES(64, 16, 8, 128));
    assert_refused(&p, PKV_E_VALUE, "K is bfloat16 and V is uint8");
    begin(&p, PKV_ENGINE_VLLM);
    put_pairs(&p, 2, BF16(64, 16, 8, 128),
              strided(BF16(64, 16, 8, 128), STRIDES(20000, 1024, 128, 1)));
    assert_refused(&p, PKV_E_UNSUPPORTED, "strides[0] is 20000");
}

static void groups_name_each_layer_once(void **state)
{
    (void)state;
    static const uint32_t size[] = {2}, twice[] = {1, 1}, none[] = {0, 3};
    begin_flash();
    p.params.n_groups = 1;
    p.params.group_sizes = size;
    p.params.group_layers = twice;
    assert_refused(&p, PKV_E_INVAL, "groups[0]: 1 is named twice");
    p.params.group_layers = none;
    assert_refused(&p, PKV_E_INVAL, "groups[0]: 3 is none of 3 layers");
    p.params.group_layers = NULL;
    assert_refused(&p, PKV_E_INVAL, "group_layers is NULL");
}

static void a_pool_of_too_many_layers_is_refused(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    p.params.structure = PKV_STRUCTURE_CROSS_LAYER;
    put(&p, 1, BF16(1, UINT64_C(1) << 40, 2, 1, 1, 1));
    assert_refused(&p, PKV_E_UNSUPPORTED, "1099511627776 layers");
}

static void a_reading_survives_any_failed_allocation(void **state)
{
    (void)state;
    uint64_t n = 0;
    pkv_status st = PKV_E_NOMEM;
    for (; st == PKV_E_NOMEM; n++) {
        countdown c = {.left = n};
        const pkv_alloc hooks = {&c, counted_alloc, counted_free};
        pkv_reading *reading = (pkv_reading *)(uintptr_t)1;
        begin_flash();
        put(&p, 100, BYTES(64, 16, 132)); /* more than the first chunk holds */
        p.params.alloc = &hooks;
        st = pkv_reading_create(&p.params, NULL, &reading);
        if (st != PKV_OK) {
            assert_null(reading);
            assert_error_text("pkv_reading_create", "out of memory for");
        }
        pkv_reading_destroy(reading);
        assert_int_equal(c.held, 0);
    }
    assert_ok(st);
    assert_true(n > 2);
}

static void what_a_reading_does_not_hold_is_told(void **state)
{
    (void)state;
    static const uint32_t beyond[] = {0, 3}, mixed[] = {0, 3}, one[] = {2};
    pkv_tensor_pointer out[6];
    uint32_t n;
    pkv_plane planes[PKV_LAYOUT_MAX_TENSORS];
    pkv_layer_pages pages;
    pkv_view_form form;
    begin_flash();
    (void)read_layers(&p);
    assert_null(pkv_reading_layer(p.reading, 3));
    assert_null(pkv_reading_group(p.reading, 1));
    assert_status(pkv_reading_pointers(p.reading, beyond, 2, out, &n), PKV_E_NOT_FOUND);
    assert_status(pkv_reading_pointers(p.reading, beyond, 0, out, &n), PKV_E_INVAL);
    put(&p, 1, BYTES(64, 16, 132));
    p.params.n_groups = 1;
    p.params.group_sizes = (const uint32_t[]){2};
    p.params.group_layers = mixed;
    (void)read_layers(&p);
    assert_status(pkv_reading_pointers(p.reading, mixed, 2, out, &n), PKV_E_VALUE);
    assert_status(pkv_reading_pointers(p.reading, one, 1, out, &n), PKV_E_NOT_FOUND);
    assert_status(pkv_layout_planes(layer(&p, 2), planes, &pages), PKV_E_VALUE);
    assert_status(pkv_layout_check(layer(&p, 2), &form), PKV_E_VALUE);
    assert_status(pkv_layout_planes(NULL, planes, &pages), PKV_E_INVAL);
    end(&p);
    pkv_reading_destroy(NULL);
}

static void older_and_newer_callers_are_told_apart(void **state)
{
    (void)state;
    struct {
        pkv_format_params params;
        uint64_t more;
    } newer;
    pkv_reading *reading;
    begin_flash();
    newer.params = p.params;
    newer.params.struct_size = sizeof newer;
    newer.more = 0;
    assert_ok(pkv_reading_create(&newer.params, NULL, &reading));
    pkv_reading_destroy(reading);
    newer.more = 1;
    assert_status(pkv_reading_create(&newer.params, NULL, &reading), PKV_E_VERSION);
    p.params.struct_size = 0;
    assert_refused(&p, PKV_E_INVAL, "struct_size");
    assert_status(pkv_reading_create(NULL, NULL, &reading), PKV_E_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_out_of_range_is_named),
        cmocka_unit_test(a_tensor_out_of_range_is_named_with_its_place),
        cmocka_unit_test(structures_have_their_number_of_tensors),
        cmocka_unit_test(structures_that_an_engine_does_not_have_are_refused),
        cmocka_unit_test(planes_that_contradict_each_other_are_refused),
        cmocka_unit_test(groups_name_each_layer_once),
        cmocka_unit_test(a_pool_of_too_many_layers_is_refused),
        cmocka_unit_test(a_reading_survives_any_failed_allocation),
        cmocka_unit_test(what_a_reading_does_not_hold_is_told),
        cmocka_unit_test(older_and_newer_callers_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
