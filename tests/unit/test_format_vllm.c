/* test_format_vllm.c  vLLM's tensors: which format, which geometry, which refusal. */
#include "format_fixture.h"

static problem p;

static const uint64_t exchanged[] = {16777216, 16384, 128, 2048, 1, 0, 0, 0};

static void a_cache_with_k_and_v_outside_is_read(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 32, BF16(2, 1024, 16, 8, 128));
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_TWO_NB_BS_NH_HS, 1024, 16, 8, 128);
    assert_int_equal(pkv_reading_n_layers(p.reading), 32);
    assert_int_equal(l->hidden_dim, 1024);
    assert_int_equal(l->tokens, 16384);
    assert_int_equal(l->elements, 33554432); /* 2 x 1024 x 16 x 1024 */
    assert_int_equal(l->kv_size, 2);
    assert_int_equal(l->kv_stride, 33554432); /* 1024 x 32768 bytes */
    assert_int_equal(l->block_stride, 32768); /* 16 x 2048 */
    assert_int_equal(l->token_stride, 2048);
    assert_int_equal(l->head_stride, 256);
    const pkv_layout_group *g = group_of(&p, 0);
    assert_int_equal(g->n_layers, 32);
    assert_true(g->has_desc);
    assert_int_equal(g->desc.kv_size, 2);
    assert_int_equal(g->desc.nl, 32);
    assert_int_equal(g->desc.element_size, 2);
    assert_int_equal(g->desc.block_stride_elems, 0);
    end(&p);
}

static void strides_that_put_heads_outside_need_that_layout(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 32, strided(BF16(2, 1024, 16, 8, 128), exchanged));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS, 1024, 16, 8, 128);
    assert_shape(l, 0, SHAPE(2, 1024, 8, 16, 128));
    assert_int_equal(l->normalized[0].strides[2], 2048);
    assert_int_equal(l->normalized[0].strides[3], 128);
    assert_int_equal(l->head_stride, 4096); /* 2048 elements */
    end(&p);
}

static void strides_that_put_heads_outside_are_two_readings_without_a_layout(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, strided(BF16(2, 1024, 16, 8, 128), exchanged));
    assert_refused(&p, PKV_E_AMBIGUOUS, "8 tokens, 16 heads");
    assert_string_equal(p.refusal.readings[0],
                        "NL_X_TWO_NB_BS_NH_HS with 8 tokens, 16 heads, tokens outside");
    assert_string_equal(p.refusal.readings[1],
                        "NL_X_TWO_NB_NH_BS_HS with 8 heads, 16 tokens, heads outside");
    p.params.hints.num_kv_heads = 8; /* and this decides */
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS, 1024, 16, 8, 128);
    p.params.hints.layout = PKV_LAYOUT_LBNHC; /* a wrong one is found by the strides */
    assert_refused(&p, PKV_E_VALUE, "heads outside");
    end(&p);
}

static void a_wrong_layout_is_found_by_the_number_of_heads(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, BF16(2, 1024, 16, 8, 128));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS, 1024, 8, 16, 128);
    p.params.hints.num_kv_heads = 8;
    assert_refused(&p, PKV_E_VALUE, "num_kv_heads 16, the hint says 8");
    p.params.hints = (pkv_format_hints){.layout = PKV_LAYOUT_LBHNC, .tokens_per_block = 16};
    assert_refused(&p, PKV_E_VALUE, "tokens_per_block 8, the hint says 16");
    p.params.hints = (pkv_format_hints){.head_dim = 64};
    assert_refused(&p, PKV_E_VALUE, "head_dim 128, the hint says 64");
    end(&p);
}

static void without_a_layout_hints_choose_the_order(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, BF16(2, 1024, 16, 8, 128));
    p.params.hints.num_kv_heads = 16;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS, 1024, 8, 16, 128);
    p.params.hints.num_kv_heads = 4;
    assert_refused(&p, PKV_E_VALUE, "num_kv_heads 8, the hint says 4");
    end(&p);
}

static void an_order_that_was_tried_leaves_nothing_behind(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM); /* the first has 4 heads in the default order, the second in none */
    put(&p, 1, BF16(2, 64, 16, 4, 128));
    put(&p, 1, BF16(64, 16, 8, 2));
    p.params.hints.num_kv_heads = 4;
    assert_refused(&p, PKV_E_VALUE, "layers[1]: NL_X_NB_BS_NH_CS has num_kv_heads 8");
    p.views[1] = BF16(64, 2, 8, 2); /* two readings in the other order, which is only tried */
    assert_refused(&p, PKV_E_VALUE, "layers[1]: NL_X_NB_BS_NH_CS has num_kv_heads 8");
    end(&p);
}

static void blocks_outside_of_k_and_v_are_read_in_both_orders(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, BF16(1024, 2, 16, 8, 128));
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_TWO_BS_NH_HS, 1024, 16, 8, 128);
    assert_int_equal(l->kv_stride, 32768);
    assert_int_equal(l->block_stride, 65536);
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, strided(BF16(1024, 2, 16, 8, 128), STRIDES(32768, 16384, 128, 2048, 1)));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_TWO_NH_BS_HS, 1024, 16, 8, 128);
    assert_shape(l, 0, SHAPE(1024, 2, 8, 16, 128));
    end(&p);
}

static void memory_of_blocks_outside_shown_with_k_and_v_outside_is_recognised(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(2, 1024, 16, 8, 128), STRIDES(16384, 32768, 1024, 128, 1)));
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_TWO_BS_NH_HS, 1024, 16, 8, 128);
    assert_int_equal(l->kv_stride, 32768);
    end(&p);
}

static void two_blocks_may_be_k_and_v(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 4, BF16(2, 2, 16, 8, 128));
    assert_refused(&p, PKV_E_AMBIGUOUS, "NL_X_NB_TWO_BS_NH_HS");
    assert_non_null(strstr(p.refusal.readings[0], "NL_X_TWO_NB_BS_NH_HS"));
    p.params.hints.kv_axis = PKV_KV_AXIS_FIRST;
    const pkv_layout *l = read_layers(&p);
    assert_int_equal(l->format, PKV_FORMAT_NL_X_TWO_NB_BS_NH_HS);
    assert_int_equal(l->kv_stride, 65536); /* 2 blocks */
    p.params.hints.kv_axis = PKV_KV_AXIS_SECOND;
    l = read_layers(&p);
    assert_int_equal(l->format, PKV_FORMAT_NL_X_NB_TWO_BS_NH_HS);
    assert_int_equal(l->kv_stride, 32768);
    end(&p);
}

static void rank_5_without_an_axis_of_two_has_no_format(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 4, BF16(1024, 3, 16, 8, 128));
    assert_refused(&p, PKV_E_UNSUPPORTED, "[1024, 3, ...]");
}

static void a_latent_cache_tells_its_block_stride(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 61, BF16(4096, 64, 576));
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_BS_HS, 4096, 64, 1, 576);
    assert_true(l->is_mla);
    assert_int_equal(l->head_stride, 0);
    assert_int_equal(l->kv_stride, 0);
    assert_int_equal(group_of(&p, 0)->desc.block_stride_elems, 36864); /* 64 x 576, also tight */
    end(&p);
}

static void padding_between_latent_blocks_is_kept(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 61, at_offset(strided(BF16(4096, 64, 128), STRIDES(9216, 128, 1)), 1024));
    const pkv_layout *l = read_layers(&p);
    assert_int_equal(l->format, PKV_FORMAT_NL_X_NB_BS_HS);
    assert_false(l->dense);
    assert_int_equal(l->offset, 2048); /* 1024 elements of 2 bytes */
    const pkv_layout_group *g = group_of(&p, 0);
    assert_int_equal(g->desc.block_stride_elems, 9216); /* 8192 and 1024 of padding */
    assert_int_equal(g->pointers[0].offset, 2048);
    end(&p);
}

static void padding_is_refused_where_kernels_would_read_it(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(2, 1024, 16, 8, 128), STRIDES(16781312, 16384, 1024, 128, 1)));
    assert_refused(&p, PKV_E_UNSUPPORTED, "strides[0] is 16781312, tight is 16777216");
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(1024, 2, 16, 8, 128), STRIDES(33280, 16384, 1024, 128, 1)));
    assert_refused(&p, PKV_E_UNSUPPORTED, "strides[0] is 33280, tight is 32768");
}

static void holes_inside_and_overlaps_are_refused(void **state)
{
    (void)state;
    static const uint64_t strides[][PKV_MAX_AXES] = {
        {1024, 128, 1}, {4096, 256, 2}, {4096, 256, 1}, {0, 128, 1}};
    for (size_t i = 0; i < COUNT(strides); i++) {
        begin(&p, PKV_ENGINE_VLLM);
        put(&p, 1, strided(BF16(64, 16, 128), strides[i]));
        assert_refused(&p, PKV_E_UNSUPPORTED, "layers[0]: tensor 0");
    }
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(2, 1024, 16, 8, 128), STRIDES(20480000, 20000, 1024, 128, 1)));
    assert_refused(&p, PKV_E_UNSUPPORTED, "holes");
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(64), STRIDES(2)));
    assert_refused(&p, PKV_E_UNSUPPORTED, "rank 1");
}

static void the_stride_of_an_axis_of_one_says_nothing(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(1, 4, 8), STRIDES(999, 8, 1)));
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_HS, 1, 4, 1, 8);
    assert_true(layer(&p, 0)->dense);
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(4, 1, 8), STRIDES(8, 5, 1)));
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_HS, 4, 1, 1, 8);
    end(&p);
}

/* 16 tokens lie outside of 4 blocks: sorted by stride, they are taken for 16 blocks of 4 tokens. */
static void the_seed_marks_a_layer_that_lies_in_an_order_of_no_engine(void **state)
{
    pkv_plane planes[PKV_LAYOUT_MAX_TENSORS];
    pkv_layer_pages pages;
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(4, 16, 8), STRIDES(8, 32, 1)));
    put(&p, 1, BF16(4, 16, 8));
    assert_refused(&p, PKV_E_UNSUPPORTED, "order that no engine writes");
    p.params.revision = PKV_FORMAT_REVISION_SEED;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_HS, 16, 4, 1, 8);
    assert_int_equal(layer(&p, 0)->odd_order, 1);
    assert_int_equal(layer(&p, 1)->odd_order, 0);
    assert_status(pkv_layout_planes(layer(&p, 0), planes, &pages), PKV_E_UNSUPPORTED);
    assert_error_text("pkv_layout_planes", "odd_order is 1");
    assert_ok(pkv_layout_planes(layer(&p, 1), planes, &pages));
    end(&p);
}

static void the_seed_marks_a_layer_whose_v_alone_lies_in_such_an_order(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.revision = PKV_FORMAT_REVISION_SEED;
    p.params.hints.list = PKV_LIST_K_V;
    p.params.hints.tokens_per_block = 4;
    put(&p, 3, BF16(8, 8, 16));
    put(&p, 1, strided(BF16(8, 8, 16), STRIDES(16, 128, 1)));
    (void)read_layers(&p);
    assert_int_equal(pkv_reading_n_layers(p.reading), 2);
    assert_int_equal(layer(&p, 0)->odd_order, 0);
    assert_int_equal(layer(&p, 1)->odd_order, 1);
    end(&p);
}

static void one_tensor_of_all_layers_has_one_pointer(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    p.params.structure = PKV_STRUCTURE_CROSS_LAYER;
    put(&p, 1, BF16(512, 32, 2, 16, 8, 128));
    assert_geometry(read_layers(&p), PKV_FORMAT_NB_NL_TWO_BS_NH_HS, 512, 16, 8, 128);
    assert_int_equal(pkv_reading_n_layers(p.reading), 32);
    assert_int_equal(group_of(&p, 0)->n_pointers, 1);
    assert_int_equal(layer(&p, 3)->offset, 3 * 2 * 16 * 8 * 128 * 2);
    p.params.hints.layout = PKV_LAYOUT_LBHNC; /* the same memory, heads outside */
    assert_geometry(read_layers(&p), PKV_FORMAT_NB_NL_TWO_NH_BS_HS, 512, 8, 16, 128);
    begin(&p, PKV_ENGINE_VLLM);
    p.params.structure = PKV_STRUCTURE_CROSS_LAYER;
    put(&p, 1, BF16(512, 32, 16, 8, 256));
    assert_refused(&p, PKV_E_UNSUPPORTED, "rank 5");
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_with_k_and_v_outside_is_read),
        cmocka_unit_test(strides_that_put_heads_outside_need_that_layout),
        cmocka_unit_test(strides_that_put_heads_outside_are_two_readings_without_a_layout),
        cmocka_unit_test(a_wrong_layout_is_found_by_the_number_of_heads),
        cmocka_unit_test(without_a_layout_hints_choose_the_order),
        cmocka_unit_test(an_order_that_was_tried_leaves_nothing_behind),
        cmocka_unit_test(blocks_outside_of_k_and_v_are_read_in_both_orders),
        cmocka_unit_test(memory_of_blocks_outside_shown_with_k_and_v_outside_is_recognised),
        cmocka_unit_test(two_blocks_may_be_k_and_v),
        cmocka_unit_test(rank_5_without_an_axis_of_two_has_no_format),
        cmocka_unit_test(a_latent_cache_tells_its_block_stride),
        cmocka_unit_test(padding_between_latent_blocks_is_kept),
        cmocka_unit_test(padding_is_refused_where_kernels_would_read_it),
        cmocka_unit_test(holes_inside_and_overlaps_are_refused),
        cmocka_unit_test(the_stride_of_an_axis_of_one_says_nothing),
        cmocka_unit_test(the_seed_marks_a_layer_that_lies_in_an_order_of_no_engine),
        cmocka_unit_test(the_seed_marks_a_layer_whose_v_alone_lies_in_such_an_order),
        cmocka_unit_test(one_tensor_of_all_layers_has_one_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
