/* test_format_engines.c  SGLang's lists, TensorRT-LLM's pool, ATOM's list. */
#include "format_fixture.h"

static problem p;

static void lists_of_k_and_v_without_blocks_have_a_page_buffer(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.structure = PKV_STRUCTURE_K_LIST_V_LIST;
    put_pairs(&p, 4, BF16(16384, 8, 128), BF16(16384, 8, 128));
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_TWO_X_NL_X_NBBS_NH_HS, 0, 0, 8, 128);
    assert_int_equal(l->tokens, 16384);
    assert_int_equal(l->block_stride, 0);
    assert_true(l->own_v);
    const pkv_layout_group *g = group_of(&p, 0);
    assert_false(g->has_desc);
    assert_int_equal(g->n_pointers, 8);
    for (uint32_t i = 0; i < 8; i++) { /* all K, then all V */
        assert_int_equal(g->pointers[i].tensor, i < 4 ? 2 * i : 2 * (i - 4) + 1);
    }
    end(&p);
}

static void k_and_v_of_different_sizes_keep_both(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.structure = PKV_STRUCTURE_K_LIST_V_LIST;
    put_pairs(&p, 4, BF16(16384, 8, 192), BF16(16384, 8, 128));
    const pkv_layout *l = read_layers(&p);
    assert_int_equal(l->format, PKV_FORMAT_TWO_X_NL_X_NBBS_NH_HS);
    assert_int_equal(l->head_size, 192);
    assert_int_equal(l->head_size_v, 128);
    assert_int_equal(l->v.token_stride, 8 * 128 * 2);
    end(&p);
}

static void a_flat_list_is_cut_into_k_and_v(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    put(&p, 8, BF16(16384, 8, 128));
    p.params.hints.list = PKV_LIST_K_V;
    p.params.hints.tokens_per_block = 64;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_TWO_X_NL_X_NB_BS_NH_HS, 256, 64, 8, 128);
    assert_int_equal(pkv_reading_n_layers(p.reading), 4);
    assert_int_equal(l->tensor[1], 4);
    char text[160];
    const pkv_format_sizes s = {4, 256, 64, 8, 128};
    assert_ok(pkv_format_text(0, l->format, &s, text, sizeof text));
    assert_string_equal(text, "2 x 4 x [256, 64, 8, 128]");
    p.params.hints.tokens_per_block = 0; /* then the halves have no blocks */
    assert_int_equal(read_layers(&p)->format, PKV_FORMAT_TWO_X_NL_X_NBBS_NH_HS);
    p.params.n_layers = 7;
    assert_refused(&p, PKV_E_VALUE, "7 tensors");
    end(&p);
}

static void a_flat_list_of_heads_is_no_latent(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    put(&p, 8, BF16(16384, 8, 128));
    assert_refused(&p, PKV_E_UNSUPPORTED, "8 heads");
    p.params.hints.tokens_per_block = 64;
    assert_refused(&p, PKV_E_UNSUPPORTED, "8 heads");
}

/* Found by the fuzzer: sorted by strides the tensor is [1, 72, 96], no list of latents. */
static void latents_whose_memory_order_is_another_are_refused(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.revision = PKV_FORMAT_REVISION_SEED;
    put(&p, 1, strided(BF16(96, 1, 72), STRIDES(1, 96, 96)));
    assert_refused(&p, PKV_E_UNSUPPORTED, "the second axis is 72");
}

static void tokens_must_fill_their_blocks(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    put(&p, 8, BF16(16385, 8, 128));
    p.params.hints.list = PKV_LIST_K_V;
    p.params.hints.tokens_per_block = 64;
    assert_refused(&p, PKV_E_VALUE, "16385 tokens");
    begin(&p, PKV_ENGINE_SGLANG);
    put(&p, 8, BF16(16385, 1, 576));
    p.params.hints.tokens_per_block = 64;
    assert_refused(&p, PKV_E_VALUE, "16385 tokens");
}

static void latents_may_be_cut_into_blocks(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    put(&p, 4, BF16(16384, 1, 576));
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NBBS_ONE_HS, 0, 0, 1, 576);
    assert_int_equal(l->token_stride, 1152);
    p.params.hints.tokens_per_block = 64;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_HS, 256, 64, 1, 576);
    end(&p);
}

static void a_unified_list_holds_components(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    put(&p, 2, BF16(256, 64, 576));
    put(&p, 2, BF16(256, 64, 8, 128));
    p.params.hints.list = PKV_LIST_UNIFIED;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_HS, 256, 64, 1, 576);
    assert_geometry(layer(&p, 3), PKV_FORMAT_NL_X_NB_BS_NH_HS, 256, 64, 8, 128);
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    assert_refused(&p, PKV_E_UNSUPPORTED, "heads outside");
    end(&p);
}

static void lists_with_blocks_need_something_that_tells_tokens_from_heads(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.structure = PKV_STRUCTURE_K_LIST_V_LIST;
    put_pairs(&p, 4, BF16(256, 8, 64, 128), BF16(256, 8, 64, 128));
    assert_refused(&p, PKV_E_AMBIGUOUS, "64 tokens, 8 heads");
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_TWO_X_NL_X_NB_BS_NH_HS, 256, 64, 8, 128);
    assert_int_equal(l->head_stride, 64 * 256); /* heads outside of 64 rows of 256 bytes */
    assert_int_equal(l->token_stride, 256);
    assert_false(group_of(&p, 0)->has_desc);
    p.params.hints = (pkv_format_hints){.num_kv_heads = 8};
    assert_int_equal(read_layers(&p)->head_stride, 64 * 256);
    p.params.hints = (pkv_format_hints){.tokens_per_block = 8};
    assert_geometry(read_layers(&p), PKV_FORMAT_TWO_X_NL_X_NB_BS_NH_HS, 256, 8, 64, 128);
    p.params.hints = (pkv_format_hints){.num_kv_heads = 3};
    assert_refused(&p, PKV_E_VALUE, "num_kv_heads 3");
    end(&p);
}

static void vectorised_lists_have_no_format(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.structure = PKV_STRUCTURE_K_LIST_V_LIST;
    put_pairs(&p, 4, BF16(256, 8, 8, 64, 16), BF16(256, 8, 4, 128, 16));
    assert_refused(&p, PKV_E_UNSUPPORTED, "rank 5");
}

static void a_flat_pool_needs_its_sizes(void **state)
{
    (void)state;
    const pkv_format_hints sizes = {.num_kv_heads = 8, .tokens_per_block = 32, .head_dim = 128};
    begin(&p, PKV_ENGINE_TRTLLM);
    put(&p, 1, BF16(512, 32, 2, 32768));
    p.params.hints = sizes;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NB_NL_TWO_NH_BS_HS, 512, 32, 8, 128);
    assert_shape(l, 0, SHAPE(512, 32, 2, 8, 32, 128));
    p.params.hints.tokens_per_block = 64;
    assert_refused(&p, PKV_E_VALUE,
                   "the last axis is 32768, not num_kv_heads 8 * "
                   "tokens_per_block 64");
    p.params.hints = sizes;
    p.params.hints.head_dim = 0;
    assert_refused(&p, PKV_E_AMBIGUOUS, "head_dim");
    end(&p);
}

static void a_pool_without_k_and_v_is_refused(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_TRTLLM);
    put(&p, 1, BF16(512, 32, 1, 18432));
    p.params.hints = (pkv_format_hints){.num_kv_heads = 1, .tokens_per_block = 32, .head_dim = 576};
    assert_refused(&p, PKV_E_VALUE, "shape[2] is 1");
    begin(&p, PKV_ENGINE_TRTLLM);
    put(&p, 2, BF16(512, 32, 2, 8, 32, 128));
    assert_refused(&p, PKV_E_UNSUPPORTED, "2 entries");
}

static void a_list_of_latents_is_what_atom_has(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_ATOM);
    put(&p, 4, BYTES(512, 64, 132));
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_HS, 512, 64, 1, 132);
    begin(&p, PKV_ENGINE_ATOM);
    put(&p, 4, BF16(2, 512, 64, 8, 128));
    assert_refused(&p, PKV_E_UNSUPPORTED, "rank 5");
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_k_and_v_without_blocks_have_a_page_buffer),
        cmocka_unit_test(k_and_v_of_different_sizes_keep_both),
        cmocka_unit_test(a_flat_list_is_cut_into_k_and_v),
        cmocka_unit_test(a_flat_list_of_heads_is_no_latent),
        cmocka_unit_test(latents_whose_memory_order_is_another_are_refused),
        cmocka_unit_test(tokens_must_fill_their_blocks),
        cmocka_unit_test(latents_may_be_cut_into_blocks),
        cmocka_unit_test(a_unified_list_holds_components),
        cmocka_unit_test(lists_with_blocks_need_something_that_tells_tokens_from_heads),
        cmocka_unit_test(vectorised_lists_have_no_format),
        cmocka_unit_test(a_flat_pool_needs_its_sizes),
        cmocka_unit_test(a_pool_without_k_and_v_is_refused),
        cmocka_unit_test(a_list_of_latents_is_what_atom_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
