/* test_format_packed.c  vLLM's newer pages: K and V in one row, the indexer, planes, states. */
#include "format_fixture.h"

static problem p;

static void k_and_v_in_one_row_are_one_plane(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 4, BF16(1024, 16, 8, 256));
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_BS_NH_CS, 1024, 16, 8, 256);
    assert_int_equal(l->hidden_dim, 2048);
    assert_int_equal(l->kv_size, 1);
    assert_int_equal(l->head_size_v, 0);
    assert_int_equal(group_of(&p, 0)->desc.block_stride_elems, 32768);
    p.params.revision = PKV_FORMAT_REVISION_SEED; /* which splits the row, heads outside */
    l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_NH_BS_TWO_HS, 1024, 8, 16, 128);
    assert_int_equal(l->kv_size, 2);
    assert_int_equal(l->kv_stride, 256);
    p.params.hints.layout = PKV_LAYOUT_LBNHC;
    assert_refused(&p, PKV_E_UNSUPPORTED, "heads outside");
    end(&p);
}

static void heads_may_lie_outside_of_packed_tokens(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 4, BF16(1024, 8, 16, 256));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_NH_BS_CS, 1024, 16, 8, 256);
    end(&p);
}

static void layers_side_by_side_in_a_block_have_its_stride(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    for (uint64_t i = 0; i < 4; i++) {
        put(&p, 1,
            at_offset(strided(BF16(1024, 16, 8, 256), STRIDES(131072, 2048, 256, 1)), i * 32768));
    }
    p.params.hints.layout = PKV_LAYOUT_BLNHC;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_NH_CS, 1024, 16, 8, 256);
    const pkv_layout_group *g = group_of(&p, 0);
    assert_int_equal(g->n_layers, 4);
    assert_int_equal(g->desc.block_stride_elems, 131072);
    assert_int_equal(g->pointers[3].tensor, 3);
    assert_int_equal(g->pointers[3].offset, 3 * 65536);
    end(&p);
}

static void one_head_is_placed_by_its_stride(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 4, strided(BF16(64, 1, 16, 256), STRIDES(16384, 256, 256, 1)));
    p.params.hints.layout = PKV_LAYOUT_BLNHC;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_BS_NH_CS, 64, 16, 1, 256);
    assert_shape(l, 0, SHAPE(64, 16, 1, 256));
    p.params.hints.layout = PKV_LAYOUT_BLHNC;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_NH_BS_CS, 64, 16, 1, 256);
    end(&p);
}

static void the_indexer_is_known_by_its_rows(void **state)
{
    (void)state;
    const pkv_view shapes[] = {BYTES(512, 64, 132), BYTES(512, 1, 64, 132), BYTES(512, 64, 1, 132)};
    const uint32_t layouts[] = {PKV_LAYOUT_AUTO, PKV_LAYOUT_LBHNC, PKV_LAYOUT_LBNHC};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        begin(&p, PKV_ENGINE_VLLM);
        put(&p, 4, shapes[i]);
        p.params.hints.layout = layouts[i];
        const pkv_layout *l = read_layers(&p);
        assert_geometry(l, PKV_FORMAT_NL_X_NB_BSV_BSS, 512, 64, 1, 132);
        assert_shape(l, 0, SHAPE(512, 64, 132));
        assert_int_equal(l->token_stride, 128);
        assert_int_equal(group_of(&p, 0)->desc.element_size, 1);
        end(&p);
    }
}

static void bytes_of_another_type_are_no_indexer(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, BYTES(64, 64, 132));
    put(&p, 1, BF16(64, 64, 132));
    (void)read_layers(&p);
    assert_int_equal(layer(&p, 0)->format, PKV_FORMAT_NL_X_NB_BSV_BSS);
    assert_int_equal(layer(&p, 1)->format, PKV_FORMAT_NL_X_NB_BS_HS);
    assert_int_equal(pkv_reading_n_groups(p.reading), 2);
    end(&p);
}

static void heads_outside_of_blocks_need_the_name_of_the_layout(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, strided(BF16(1024, 8, 16, 256), STRIDES(4096, 4194304, 256, 1)));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    assert_refused(&p, PKV_E_UNSUPPORTED, "no engine writes");
    p.params.hints.layout = PKV_LAYOUT_LHBNC;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_NH_BS_CS, 1024, 16, 8, 256);
    assert_int_equal(l->block_stride, 2 * 4096);
    assert_int_equal(l->head_stride, 2 * 4194304);
    assert_false(group_of(&p, 0)->has_desc); /* no block is one run */
    end(&p);
}

static void layers_between_heads_need_the_name_of_the_layout(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, strided(BF16(512, 8, 16, 256), STRIDES(131072, 16384, 256, 1)));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    assert_refused(&p, PKV_E_UNSUPPORTED, "holes");
    p.params.hints.layout = PKV_LAYOUT_BHLNC;
    assert_int_equal(read_layers(&p)->head_stride, 2 * 16384);
    p.params.hints.layout = PKV_LAYOUT_LHBNC; /* which these strides are not */
    assert_refused(&p, PKV_E_UNSUPPORTED, "LHBNC");
    end(&p);
}

static void two_heads_may_be_slots_of_k_and_v(void **state)
{
    (void)state;
    static const uint64_t heads[] = {1, 2, 3, 8};
    for (size_t i = 0; i < COUNT(heads); i++) {
        begin(&p, PKV_ENGINE_VLLM);
        put(&p, 2,
            strided(BF16(97871, heads[i], 16, 256),
                    STRIDES(heads[i] * 4096, 256, heads[i] * 256, 1)));
        p.params.hints.layout = PKV_LAYOUT_LBNHC;
        if (heads[i] == 2) {
            assert_refused(&p, PKV_E_AMBIGUOUS, "a slot of 256 for K and one for V");
            p.params.hints.num_kv_heads = 2;
        }
        assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_NH_CS, 97871, 16, heads[i], 256);
        end(&p);
    }
}

static void a_cpu_has_heads_outside_unless_told(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, BF16(1024, 8, 16, 256));
    p.params.on_cpu = 1;
    assert_int_equal(read_layers(&p)->format, PKV_FORMAT_NL_X_NB_NH_BS_CS);
    p.params.hints.layout = PKV_LAYOUT_LBNHC;
    assert_int_equal(read_layers(&p)->format, PKV_FORMAT_NL_X_NB_BS_NH_CS);
    p.params.revision = PKV_FORMAT_REVISION_SEED; /* which overrides the caller */
    assert_refused(&p, PKV_E_VALUE, "on a CPU");
    end(&p);
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, BF16(2, 1024, 8, 16, 256));
    p.params.on_cpu = 1;
    assert_int_equal(read_layers(&p)->format, PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS);
    end(&p);
}

static void a_latent_in_a_view_of_heads_is_one_packed_head(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 4, BF16(4096, 1, 64, 576));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_NH_BS_CS, 4096, 64, 1, 576);
    assert_int_equal(group_of(&p, 0)->desc.block_stride_elems, 36864);
    begin(&p, PKV_ENGINE_VLLM); /* a recurrent state is one token */
    put(&p, 2, BYTES(512, 1, 1, 8192));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_NH_BS_CS, 512, 1, 1, 8192);
    begin(&p, PKV_ENGINE_VLLM); /* kernel blocks of 8 of a block of 16 */
    put(&p, 2, BF16(2048, 8, 8, 256));
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_NH_BS_CS, 2048, 8, 8, 256);
    end(&p);
}

static void planes_of_one_head_need_to_be_told_apart(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put_pairs(&p, 4, BF16(256, 128, 1, 512), BF16(256, 128, 1, 64));
    assert_refused(&p, PKV_E_AMBIGUOUS, "NL_X_NP_X_NB_BS_ONE_HS");
    p.params.hints.planes = PKV_PLANES_MLA;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS, 256, 128, 1, 576);
    const uint32_t two[] = {1, 3};
    pkv_tensor_pointer out[2 * PKV_LAYOUT_MAX_TENSORS];
    uint32_t n;
    assert_ok(pkv_reading_pointers(p.reading, two, 2, out, &n));
    assert_int_equal(n, 4);
    assert_int_equal(out[0].tensor, 2);
    assert_int_equal(out[3].tensor, 7);
    p.params.hints.planes = PKV_PLANES_ATTENTION;
    l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_TWO_X_NB_BS_NH_HS, 256, 128, 1, 512);
    assert_int_equal(l->head_size_v, 64);
    end(&p);
}

static void planes_of_several_types_are_as_wide_as_their_bytes(void **state)
{
    (void)state;
    const pkv_view planes[3] = {tensor(PKV_DTYPE_INT8, SHAPE(256, 128, 1, 512), NULL),
                                BF16(256, 128, 1, 64),
                                tensor(PKV_DTYPE_FLOAT16, SHAPE(256, 128, 1, 1), NULL)};
    begin(&p, PKV_ENGINE_VLLM);
    put_planes(&p, 3, planes);
    const pkv_layout *l = read_layers(&p);
    assert_int_equal(l->format, PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS);
    assert_int_equal(l->hidden_dim, 512 + 128 + 2);
    assert_int_equal(group_of(&p, 0)->desc.element_size, 1);
    const pkv_view odd[2] = {BF16(256, 128, 1, 512), BYTES(256, 128, 1, 63)};
    begin(&p, PKV_ENGINE_VLLM);
    put_planes(&p, 2, odd);
    p.params.hints.planes = PKV_PLANES_MLA;
    assert_refused(&p, PKV_E_VALUE, "1087 bytes wide"); /* 1024 + 63 */
    end(&p);
}

static void k_and_v_of_different_widths_keep_both(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put_pairs(&p, 4, BF16(256, 128, 8, 192), BF16(256, 128, 8, 128));
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_TWO_X_NB_BS_NH_HS, 256, 128, 8, 192);
    assert_int_equal(l->head_size_v, 128);
    assert_int_equal(l->v.head_stride, 256);
    assert_false(group_of(&p, 0)->has_desc);
    end(&p);
}

static void mixed_layers_are_read_one_by_one(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 1}, numbers[] = {0, 1, 2};
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, BF16(2, 1024, 16, 8, 128));
    put(&p, 2, BYTES(1024, 64, 132));
    (void)read_layers(&p);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(layer(&p, i)->format,
                         i < 2 ? PKV_FORMAT_NL_X_TWO_NB_BS_NH_HS : PKV_FORMAT_NL_X_NB_BSV_BSS);
        assert_int_equal(layer(&p, i)->group, i / 2);
    }
    p.params.n_groups = 2; /* layer 3 is in none: it carries the first format */
    p.params.group_sizes = sizes;
    p.params.group_layers = numbers;
    (void)read_layers(&p);
    assert_int_equal(layer(&p, 3)->format, PKV_FORMAT_NL_X_TWO_NB_BS_NH_HS);
    assert_false(layer(&p, 3)->known);
    assert_int_equal(layer(&p, 2)->engine_group, 1);
    end(&p);
}

static void a_layer_of_planes_in_no_group_is_not_looked_at(void **state)
{
    (void)state;
    static const uint32_t size[] = {1}, number[] = {0};
    begin(&p, PKV_ENGINE_VLLM);
    p.params.structure = PKV_STRUCTURE_PER_LAYER;
    put(&p, 1, BF16(256, 128, 1, 576));
    put(&p, 1, BF16(7));
    p.params.n_groups = 1;
    p.params.group_sizes = size;
    p.params.group_layers = number;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS, 256, 128, 1, 576);
    assert_false(layer(&p, 1)->known);
    assert_int_equal(layer(&p, 1)->format, PKV_FORMAT_NL_X_NP_X_NB_BS_ONE_HS);
    end(&p);
}

static void a_tensor_with_heads_and_one_is_read_as_written(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 4, BF16(2, 128, 8, 1, 1024, 64));
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_TWO_NB_NH_ONE_BS_HS, 128, 1024, 8, 64);
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 4, BF16(2, 128, 8, 4, 1024, 64));
    assert_refused(&p, PKV_E_UNSUPPORTED, "rank 6");
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k_and_v_in_one_row_are_one_plane),
        cmocka_unit_test(heads_may_lie_outside_of_packed_tokens),
        cmocka_unit_test(layers_side_by_side_in_a_block_have_its_stride),
        cmocka_unit_test(one_head_is_placed_by_its_stride),
        cmocka_unit_test(the_indexer_is_known_by_its_rows),
        cmocka_unit_test(bytes_of_another_type_are_no_indexer),
        cmocka_unit_test(heads_outside_of_blocks_need_the_name_of_the_layout),
        cmocka_unit_test(layers_between_heads_need_the_name_of_the_layout),
        cmocka_unit_test(two_heads_may_be_slots_of_k_and_v),
        cmocka_unit_test(a_cpu_has_heads_outside_unless_told),
        cmocka_unit_test(a_latent_in_a_view_of_heads_is_one_packed_head),
        cmocka_unit_test(planes_of_one_head_need_to_be_told_apart),
        cmocka_unit_test(planes_of_several_types_are_as_wide_as_their_bytes),
        cmocka_unit_test(k_and_v_of_different_widths_keep_both),
        cmocka_unit_test(mixed_layers_are_read_one_by_one),
        cmocka_unit_test(a_layer_of_planes_in_no_group_is_not_looked_at),
        cmocka_unit_test(a_tensor_with_heads_and_one_is_read_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
