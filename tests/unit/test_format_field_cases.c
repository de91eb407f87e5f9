/* test_format_field_cases.c  Layouts that were misread in the field. */
#include "format_fixture.h"

static problem p;

/* Two KV heads of 128, shown as [97871, 2, 16, 256]: axis 1 may as well be slots of K and V. */
static void two_heads_and_two_slots_have_the_same_shape_and_strides(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, strided(BF16(97871, 2, 16, 256), STRIDES(8192, 256, 512, 1)));
    assert_refused(&p, PKV_E_AMBIGUOUS, "num_kv_heads");
    assert_int_equal(p.refusal.n_readings, 2);
    p.params.hints.num_kv_heads = 2;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_NH_CS, 97871, 16, 2, 256);
    end(&p);
}

/* One head of a rank: both orders have the same bytes, so only sizes may differ. */
static void a_block_of_one_head_is_not_read_as_heads(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 2, BF16(1000, 1, 64, 256));
    p.params.hints.layout = PKV_LAYOUT_LBNHC; /* an old hint */
    p.params.hints.tokens_per_block = 64;
    assert_refused(&p, PKV_E_VALUE, "tokens_per_block 1, the hint says 64");
    p.params.hints.layout = PKV_LAYOUT_AUTO;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_NB_NH_BS_CS, 1000, 64, 1, 256);
    assert_int_equal(l->token_stride, 512);
    begin(&p, PKV_ENGINE_VLLM); /* the latent with a right label stays as it is */
    put(&p, 2, BF16(1000, 64, 1, 576));
    p.params.hints.layout = PKV_LAYOUT_LBNHC;
    p.params.hints.tokens_per_block = 64;
    assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_BS_NH_CS, 1000, 64, 1, 576);
    end(&p);
}

static void layers_of_other_head_sizes_are_described_by_themselves(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    for (uint32_t i = 0; i < 6; i++) { /* sliding, sliding, global */
        put(&p, 1, i % 3 == 2 ? BF16(500, 2, 16, 4, 512) : BF16(500, 2, 16, 8, 256));
    }
    (void)read_layers(&p);
    assert_int_equal(pkv_reading_n_groups(p.reading), 2);
    assert_int_equal(group_of(&p, 0)->desc.hs, 256);
    assert_int_equal(group_of(&p, 0)->desc.nl, 4);
    assert_int_equal(group_of(&p, 1)->desc.hs, 512);
    assert_int_equal(group_of(&p, 1)->layers[1], 5);
    end(&p);
}

/* [2, 7286, 64, 8, 128] whose strides say heads outside tokens. */
static void strides_tell_where_every_head_lies(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, strided(BF16(2, 7286, 64, 8, 128), STRIDES(477495296, 65536, 128, 8192, 1)));
    assert_refused(&p, PKV_E_AMBIGUOUS, "8 heads, 64 tokens");
    p.params.hints.tokens_per_block = 64;
    const pkv_layout *l = read_layers(&p);
    assert_geometry(l, PKV_FORMAT_NL_X_TWO_NB_NH_BS_HS, 7286, 64, 8, 128);
    assert_int_equal(l->head_stride, 2 * 8192); /* 64 x 128 elements */
    assert_int_equal(l->token_stride, 2 * 128);
    assert_int_equal(l->block_stride, 2 * 65536);
    assert_int_equal(l->kv_stride, UINT64_C(2) * 477495296); /* 7286 x 65536 elements */
    end(&p);
}

/* 16 tokens of 1024 one-byte scalars a side, 100 blocks: side 1, block 3, token 5. */
static void the_axis_of_k_and_v_decides_where_v_lies(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, BYTES(100, 2, 16, 8, 128));
    const pkv_layout *l = read_layers(&p);
    assert_int_equal(l->kv_stride + 3 * l->block_stride + 5 * l->token_stride, 119808);
    p.views[0] = BYTES(2, 100, 16, 8, 128);
    l = read_layers(&p);
    assert_int_equal(l->kv_stride + 3 * l->block_stride + 5 * l->token_stride, 1692672);
    end(&p);
}

/* Heads outside of 16 tokens: taking axis 1 for tokens passes with 8 heads and damages. */
static void the_number_of_tokens_is_read_by_the_layout(void **state)
{
    (void)state;
    static const uint64_t heads[] = {8, 6};
    for (size_t i = 0; i < COUNT(heads); i++) {
        begin(&p, PKV_ENGINE_VLLM);
        put(&p, 1, BYTES(100, heads[i], 16, 72));
        p.params.hints.layout = PKV_LAYOUT_LBHNC;
        p.params.hints.tokens_per_block = 16;
        assert_geometry(read_layers(&p), PKV_FORMAT_NL_X_NB_NH_BS_CS, 100, 16, heads[i], 72);
        p.params.hints.layout = PKV_LAYOUT_LBNHC;
        assert_refused(&p, PKV_E_VALUE, "tokens_per_block");
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_heads_and_two_slots_have_the_same_shape_and_strides),
        cmocka_unit_test(a_block_of_one_head_is_not_read_as_heads),
        cmocka_unit_test(layers_of_other_head_sizes_are_described_by_themselves),
        cmocka_unit_test(strides_tell_where_every_head_lies),
        cmocka_unit_test(the_axis_of_k_and_v_decides_where_v_lies),
        cmocka_unit_test(the_number_of_tokens_is_read_by_the_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
