/* test_format_planes.c  Where rows lie: planes of layouts against the strides of their tensors, and
 * the offsets that published kernels compute. */
#include "format_fixture.h"

static problem p;

/* Byte of element (plane, block, token, head, 0) of layer l, within its tensor. */
static uint64_t row_at(uint32_t l, uint32_t plane, uint64_t block, uint64_t token, uint64_t head)
{
    pkv_plane planes[PKV_LAYOUT_MAX_TENSORS];
    pkv_layer_pages pages;
    assert_ok(pkv_layout_planes(layer(&p, l), planes, &pages));
    assert_true(plane < pages.n_planes && block < pages.num_blocks && token < pages.block_size);
    const pkv_plane *x = &planes[plane];
    assert_true(head < x->heads);
    return x->offset + block * x->block_stride + token * x->token_stride + head * x->head_stride;
}

/* NL 3, NB 4, BS 4, NH 2, HS 8, one-byte elements: element 5 of a row of layer 1, V, block 2,
 * token 1, head 1. */
static void offsets_are_those_of_the_kernels(void **state)
{
    (void)state;
    enum { L = 1, V = 1, B = 2, T = 1, H = 1, D = 5 };
    begin(&p, PKV_ENGINE_VLLM);
    p.params.structure = PKV_STRUCTURE_CROSS_LAYER;
    put(&p, 1, BYTES(4, 3, 2, 4, 2, 8));
    (void)read_layers(&p);
    assert_int_equal(row_at(L, V, B, T, H) + D, 989); /* 64 + 128 + 2*384 + 16 + 8 + 5 */
    p.params.engine = PKV_ENGINE_TRTLLM;
    p.views[0] = BYTES(4, 3, 2, 2, 4, 8);
    (void)read_layers(&p);
    assert_int_equal(row_at(L, V, B, T, H) + D, 1005); /* 64 + 128 + 768 + 32 + 8 + 5 */
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 3, BYTES(2, 4, 4, 2, 8));
    (void)read_layers(&p);
    assert_int_equal(row_at(L, V, B, T, H) + D, 413); /* 256 + 128 + 16 + 8 + 5 */
    p.params.hints.layout = PKV_LAYOUT_LBHNC;
    p.views[0] = p.views[1] = p.views[2] = BYTES(2, 4, 2, 4, 8);
    (void)read_layers(&p);
    assert_int_equal(row_at(L, V, B, T, H) + D, 429); /* 256 + 128 + 32 + 8 + 5 */
    p.views[0] = p.views[1] = p.views[2] = BYTES(4, 2, 2, 4, 8);
    (void)read_layers(&p);
    assert_int_equal(row_at(L, V, B, T, H) + D, 365); /* 64 + 256 + 32 + 8 + 5 */
    p.params.hints.layout = PKV_LAYOUT_LBNHC;
    p.views[0] = p.views[1] = p.views[2] = BYTES(4, 2, 4, 2, 8);
    (void)read_layers(&p);
    assert_int_equal(row_at(L, V, B, T, H) + D, 349); /* 64 + 256 + 16 + 8 + 5 */
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.structure = PKV_STRUCTURE_K_LIST_V_LIST;
    p.params.hints.layout = PKV_LAYOUT_LBNHC;
    put_pairs(&p, 3, BYTES(4, 4, 2, 8), BYTES(4, 4, 2, 8));
    (void)read_layers(&p);
    assert_int_equal(row_at(L, V, B, T, H) + D, 157); /* 128 + 16 + 8 + 5, in pointer 3 + 1 */
    assert_int_equal(group_of(&p, 0)->pointers[4].tensor, 3);
    end(&p);
}

static void packed_rows_begin_where_kernels_look(void **state)
{
    (void)state;
    static const struct {
        uint32_t layout;
        uint64_t shape[PKV_MAX_AXES];
        uint64_t stride, want;
    } rows[] = {
        {PKV_LAYOUT_LBHNC, {4, 2, 4, 16}, 128, 345}, /* 256 + 64 + 16 + 9 */
        {PKV_LAYOUT_LBHNC, {4, 2, 4, 16}, 384, 857}, /* 768 + 64 + 16 + 9 */
        {PKV_LAYOUT_LBNHC, {4, 4, 2, 16}, 128, 313}, /* 256 + 32 + 16 + 9 */
        {PKV_LAYOUT_LBNHC, {4, 4, 2, 16}, 384, 825}, /* 768 + 32 + 16 + 9 */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        begin(&p, PKV_ENGINE_VLLM);
        put(&p, 1, tensor(PKV_DTYPE_UINT8, rows[i].shape, 4, NULL));
        p.views[0].strides[0] = rows[i].stride;
        p.params.hints.layout = rows[i].layout;
        p.params.hints.num_kv_heads = 2;
        (void)read_layers(&p);
        assert_int_equal(row_at(0, 0, 2, 1, 1) + 9, rows[i].want);
        end(&p);
    }
}

static void latent_rows_begin_where_kernels_look(void **state)
{
    (void)state;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, BYTES(4, 4, 16));
    (void)read_layers(&p);
    assert_int_equal(row_at(0, 0, 2, 1, 0) + 9, 153); /* 128 + 16 + 9 */
    p.views[0].strides[0] = 96;
    (void)read_layers(&p);
    assert_int_equal(row_at(0, 0, 2, 1, 0) + 9, 217); /* 192 + 16 + 9 */
    end(&p);
}

static void the_indexer_has_values_and_scales(void **state)
{
    (void)state;
    pkv_plane planes[PKV_LAYOUT_MAX_TENSORS];
    pkv_layer_pages pages;
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1, BYTES(8, 4, 132));
    assert_ok(pkv_layout_planes(read_layers(&p), planes, &pages));
    assert_int_equal(pages.n_planes, 2);
    assert_int_equal(planes[0].row_bytes, 128);
    assert_int_equal(planes[1].row_bytes, 4);
    assert_int_equal(row_at(0, 0, 3, 2, 0), 1840); /* 3 * 528 + 2 * 128 */
    assert_int_equal(row_at(0, 1, 3, 2, 0), 2104); /* 3 * 528 + 512 + 2 * 4 */
    end(&p);
}

static void a_format_without_blocks_has_blocks_of_one_token(void **state)
{
    (void)state;
    pkv_plane planes[PKV_LAYOUT_MAX_TENSORS];
    pkv_layer_pages pages;
    begin(&p, PKV_ENGINE_SGLANG);
    p.params.structure = PKV_STRUCTURE_K_LIST_V_LIST;
    put_pairs(&p, 2, BF16(100, 8, 192), at_offset(BF16(100, 8, 128), 7));
    (void)read_layers(&p);
    assert_ok(pkv_layout_planes(layer(&p, 1), planes, &pages));
    assert_int_equal(pages.num_blocks, 100);
    assert_int_equal(pages.block_size, 1);
    assert_int_equal(planes[0].buffer, 2);
    assert_int_equal(planes[0].block_stride, 8 * 192 * 2);
    assert_int_equal(planes[1].buffer, 3);
    assert_int_equal(planes[1].offset, 14);
    assert_int_equal(planes[1].row_bytes, 256);
    end(&p);
}

static void every_plane_has_its_own_width_and_stride(void **state)
{
    (void)state;
    pkv_plane planes[PKV_LAYOUT_MAX_TENSORS];
    pkv_layer_pages pages;
    const pkv_view three[3] = {BYTES(16, 8, 1, 512), BF16(16, 8, 1, 64),
                               strided(BF16(16, 8, 1, 3), STRIDES(40, 3, 3, 1))};
    begin(&p, PKV_ENGINE_VLLM);
    put_planes(&p, 3, three);
    assert_ok(pkv_layout_planes(read_layers(&p), planes, &pages));
    assert_int_equal(pages.n_planes, 3);
    assert_int_equal(planes[1].row_bytes, 128);
    assert_int_equal(planes[2].block_stride, 80);
    assert_int_equal(planes[2].token_stride, 6);
    pkv_view_form form;
    assert_ok(pkv_layout_check(layer(&p, 0), &form));
    assert_int_equal(form, PKV_VIEW_PADDED);
    end(&p);
}

/* Blocks of 2 MiB: block 4095 begins beyond 2^33 bytes. */
static void places_beyond_4_gib_are_exact(void **state)
{
    (void)state;
    const uint64_t page = UINT64_C(64) * 128 * 256; /* elements, packed */
    begin(&p, PKV_ENGINE_VLLM);
    put(&p, 1,
        at_offset(strided(BF16(4096, 64, 128, 256), STRIDES(4 * page, 32768, 256, 1)), 3 * page));
    (void)read_layers(&p);
    assert_int_equal(row_at(0, 0, 4095, 63, 127),
                     2 * (3 * page + 4095 * 4 * page + 63 * 32768 + 127 * 256));
    assert_true(row_at(0, 0, 4095, 63, 127) > UINT64_C(1) << 33);
    end(&p);
}

/* Random shapes and orders: a row begins where the tensor's own strides say. */
static void rows_of_random_tensors_follow_their_strides(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252;
    for (int round = 0; round < 2000; round++) {
        uint64_t x[8];
        for (int i = 0; i < 8; i++) {
            (void)__builtin_mul_overflow(seed, UINT64_C(6364136223846793005), &seed);
            (void)__builtin_add_overflow(seed, UINT64_C(1442695040888963407), &seed);
            x[i] = seed >> 33;
        }
        const uint64_t nb = 3 + x[0] % 9, bs = 2 + x[1] % 6, nh = 3 + x[2] % 4, hs = 1 + x[3] % 9;
        const bool blocks_first = x[4] & 1, hnd = x[4] & 2;
        pkv_view v = blocks_first ? BF16(nb, 2, bs, nh, hs) : BF16(2, nb, bs, nh, hs);
        if (hnd) { /* shown with tokens outside, as vLLM does */
            v.strides[2] = hs;
            v.strides[3] = bs * hs;
        }
        v.offset = x[5] % 1000;
        begin(&p, PKV_ENGINE_VLLM);
        put(&p, 1, v);
        p.params.hints.layout = hnd ? PKV_LAYOUT_LBHNC : PKV_LAYOUT_LBNHC;
        (void)read_layers(&p);
        const uint64_t b = x[6] % nb, t = x[6] / nb % bs, h = x[7] % nh, kv = x[7] / nh % 2;
        const uint64_t at = v.offset + kv * v.strides[blocks_first] + b * v.strides[!blocks_first] +
                            t * v.strides[2] + h * v.strides[3];
        assert_int_equal(row_at(0, (uint32_t)kv, b, t, h), 2 * at);
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_those_of_the_kernels),
        cmocka_unit_test(packed_rows_begin_where_kernels_look),
        cmocka_unit_test(latent_rows_begin_where_kernels_look),
        cmocka_unit_test(the_indexer_has_values_and_scales),
        cmocka_unit_test(a_format_without_blocks_has_blocks_of_one_token),
        cmocka_unit_test(every_plane_has_its_own_width_and_stride),
        cmocka_unit_test(places_beyond_4_gib_are_exact),
        cmocka_unit_test(rows_of_random_tensors_follow_their_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
