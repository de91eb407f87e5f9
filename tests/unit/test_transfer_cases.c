/* test_transfer_cases.c  Transfers that went wrong elsewhere, and the numbers of the formats. */
#define _DEFAULT_SOURCE

#include "transfer_fixture.h"

#include <sys/mman.h>

static pages src, dst;

/* ---- chunks ---- */

/* Byte of a chunk of one 3-layer structure where an element comes out: found by gathering marks. */
static uint64_t place_in_chunk(uint32_t form, uint32_t layer, uint32_t plane, uint64_t token,
                               uint64_t element)
{
    enum { LAYERS = 3, T = 8, D = 16 };
    uint8_t data[LAYERS * 2 * T * D], chunk[sizeof data];
    const uint64_t bytes = pages_dense(&src, LAYERS, 2, 1, T, 2, D / 2);
    const int64_t blocks[] = {0};
    assert_int_equal(bytes, sizeof data);
    memset(data, 0, sizeof data);
    memset(chunk, 0, sizeof chunk);
    pages_tie(&src, data, bytes, LAYERS);
    data[row_offset(&src, layer, plane, token, element / (D / 2)) + element % (D / 2)] = 1;
    const pkv_transfer_buffer buffer = {chunk, sizeof chunk};
    const pkv_transfer_chunks chunks = {&buffer, T, 0, 1, form};
    pkv_transfer_params params = params_of(PKV_TRANSFER_GATHER);
    params.src = &src.side;
    params.chunks = &chunks;
    params.src_blocks = blocks;
    params.n_ids = 1;
    transfer(&params, 1);
    const uint8_t *mark = memchr(chunk, 1, sizeof chunk);
    assert_non_null(mark);
    return (uint64_t)(mark - chunk);
}

static void an_element_lies_in_a_chunk_where_the_format_says(void **state)
{
    (void)state;
    assert_int_equal(place_in_chunk(PKV_CHUNK_2LTD, 1, 1, 5, 13), 605);
    assert_int_equal(place_in_chunk(PKV_CHUNK_L2TD, 1, 1, 5, 13), 477);
    /* [layer][T][p][D] */
    assert_int_equal(place_in_chunk(PKV_CHUNK_MLA, 1, 1, 5, 13), 256 + (5 * 2 + 1) * 16 + 13);
}

static void a_negative_slot_leaves_its_row_and_its_slot_untouched(void **state)
{
    (void)state;
    uint8_t data[2 * 4 * 8], before[sizeof data], chunk[3 * 8];
    const int64_t slots[] = {5, -1, 0};
    pages_tie(&dst, data, pages_dense(&dst, 1, 1, 2, 4, 1, 8), 1);
    fill(data, sizeof data, 1);
    memcpy(before, data, sizeof data);
    fill(chunk, sizeof chunk, 2);
    const pkv_transfer_buffer buffer = {chunk, sizeof chunk};
    const pkv_transfer_chunks chunks = {&buffer, 3, 0, 1, PKV_CHUNK_MLA};
    pkv_transfer_params params = params_of(PKV_TRANSFER_SCATTER);
    params.dst = &dst.side;
    params.chunks = &chunks;
    params.dst_slots = slots;
    params.n_ids = 3;
    transfer(&params, 1);
    memcpy(before + 5 * 8, chunk, 8); /* token 0 -> block 1 offset 1 */
    memcpy(before, chunk + 16, 8);    /* token 2 -> block 0 offset 0 */
    assert_memory_equal(data, before, sizeof data);
}

static void a_skipped_prefix_does_not_move_the_rows_of_the_others(void **state)
{
    (void)state;
    uint8_t data[8 * 8], chunk[8 * 8], before[sizeof chunk];
    const int64_t slots[] = {7, 6, 5, 4, 3, 2, 1, 0};
    pages_tie(&src, data, pages_dense(&src, 1, 1, 2, 4, 1, 8), 1);
    fill(data, sizeof data, 1);
    fill(chunk, sizeof chunk, 2);
    memcpy(before, chunk, sizeof chunk);
    const pkv_transfer_buffer buffer = {chunk, sizeof chunk};
    const pkv_transfer_chunks chunks = {&buffer, 8, 0, 1, PKV_CHUNK_MLA};
    pkv_transfer_params params = params_of(PKV_TRANSFER_GATHER);
    params.src = &src.side;
    params.chunks = &chunks;
    params.src_slots = slots;
    params.n_ids = 8;
    params.skip_tokens = 3;
    transfer(&params, 1);
    for (uint64_t i = 3; i < 8; i++) {
        memcpy(before + 8 * i, data + 8 * (7 - i), 8);
    }
    assert_memory_equal(chunk, before, sizeof chunk);
}

static void scales_travel_with_their_block(void **state)
{
    (void)state;
    enum { BS = 4, BLOCK = BS * 132, BLOCKS = 10 };
    static uint8_t data[BLOCKS * BLOCK], store[BLOCK];
    const int64_t from[] = {3}, to[] = {9};
    memset(&src, 0, sizeof src);
    /* each page: 128-byte values of all tokens, then their 4-byte scales */
    src.planes[0][0] = (pkv_plane){0, BLOCK, 128, 128, 1, 128, 0, 0};
    src.planes[0][1] = (pkv_plane){BS * 128, BLOCK, 4, 4, 1, 4, 0, 0};
    src.layers[0] = (pkv_layer_pages){.n_planes = 2, .num_blocks = BLOCKS, .block_size = BS};
    pages_tie(&src, data, sizeof data, 1);
    fill(data, sizeof data, 3);
    const pkv_transfer_buffer buffer = {store, sizeof store};
    const pkv_transfer_chunks chunks = {&buffer, BS, 0, 1, PKV_CHUNK_MLA};
    uint8_t block[BLOCK];
    memcpy(block, data + 3 * BLOCK, BLOCK);
    pkv_transfer_params out = params_of(PKV_TRANSFER_GATHER), in = params_of(PKV_TRANSFER_SCATTER);
    out.src = in.dst = &src.side;
    out.chunks = in.chunks = &chunks;
    out.src_blocks = from;
    in.dst_blocks = to;
    out.n_ids = in.n_ids = 1;
    transfer(&out, 1);
    /* token 2: 128 values and its scale side by side */
    assert_memory_equal(store + 264, block + 256, 128);
    assert_memory_equal(store + 264 + 128, block + 512 + 8, 4);
    memset(data + 3 * BLOCK, 0, BLOCK); /* its next user */
    transfer(&in, 1);
    assert_memory_equal(data + 9 * BLOCK, block, BLOCK);
}

/* ---- addresses ---- */

/* Sparse memory: pages that nobody touches cost nothing. */
static uint8_t *sparse(uint64_t bytes)
{
    uint8_t *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

static void assert_block_is_moved(uint64_t block, uint64_t bytes)
{
    const pkv_plane *plane = &src.planes[0][0];
    const uint64_t size = src.layers[0].block_size, own = plane->heads * plane->row_bytes;
    uint8_t *chunk = malloc(size * own), *page = src.data + plane->offset;
    const int64_t ids[] = {(int64_t)block};
    assert_non_null(chunk);
    assert_true(block * plane->block_stride < bytes);
    for (uint64_t t = 0; t < size; t++) {
        fill(page + block * plane->block_stride + t * plane->token_stride, own, (uint32_t)t);
    }
    const pkv_transfer_buffer buffer = {chunk, size * own};
    const pkv_transfer_chunks chunks = {&buffer, size, 0, 1, PKV_CHUNK_MLA};
    pkv_transfer_params params = params_of(PKV_TRANSFER_GATHER);
    params.src = &src.side;
    params.chunks = &chunks;
    params.src_blocks = ids;
    params.n_ids = 1;
    transfer(&params, 1);
    for (uint64_t t = 0; t < size; t++) {
        assert_memory_equal(chunk + t * own,
                            page + block * plane->block_stride + t * plane->token_stride, own);
    }
    free(chunk);
}

static void page_numbers_times_strides_beyond_32_bits_are_right(void **state)
{
    (void)state;
    enum { STRIDE = 16384 * 2 }; /* 32 tokens x 512 of two bytes */
    const uint64_t bytes = UINT64_C(1048578) * STRIDE;
    uint8_t *data = sparse(bytes);
    if (!data) {
        skip();
    }
    memset(&src, 0, sizeof src);
    src.planes[0][0] = (pkv_plane){0, STRIDE, 1024, 1024, 1, 1024, 0, 0};
    src.layers[0] = (pkv_layer_pages){.n_planes = 1, .num_blocks = 1048578, .block_size = 32};
    pages_tie(&src, data, bytes, 1);
    const uint64_t blocks[] = {262144, 262145, 131072, 1048576, 1048577};
    for (size_t i = 0; i < COUNT(blocks); i++) {
        assert_block_is_moved(blocks[i], bytes);
    }
    (void)munmap(data, bytes);
}

static void interleaved_planes_are_right_around_element_2_to_the_31(void **state)
{
    (void)state;
    enum { PLANE = 16 * 8 * 128 * 2 };
    const uint64_t bytes = UINT64_C(65538) * 2 * PLANE;
    uint8_t *data = sparse(bytes);
    if (!data) {
        skip();
    }
    memset(&src, 0, sizeof src);
    src.layers[0] = (pkv_layer_pages){.n_planes = 1, .num_blocks = 65538, .block_size = 16};
    for (uint64_t k = 0; k < 2; k++) {
        src.planes[0][0] = (pkv_plane){k * PLANE, 2 * PLANE, 2048, 256, 8, 256, 0, 0};
        pages_tie(&src, data, bytes, 1);
        for (uint64_t block = 65535; block <= 65537; block++) {
            assert_block_is_moved(block, bytes);
        }
    }
    (void)munmap(data, bytes);
}

static void a_block_begins_at_the_stride_of_the_block_axis(void **state)
{
    (void)state;
    /* K and V interleaved: the stride between blocks is twice what their tokens fill */
    uint8_t data[4 * 8192], chunk[3 * 4096];
    const int64_t blocks[] = {3, 1, 2};
    memset(&src, 0, sizeof src);
    src.planes[0][0] = (pkv_plane){0, 8192, 256, 256, 1, 256, 0, 0};
    src.layers[0] = (pkv_layer_pages){.n_planes = 1, .num_blocks = 4, .block_size = 16};
    pages_tie(&src, data, sizeof data, 1);
    fill(data, sizeof data, 4);
    const pkv_transfer_buffer buffer = {chunk, sizeof chunk};
    const pkv_transfer_chunks chunks = {&buffer, 48, 0, 1, PKV_CHUNK_BLOCKS};
    pkv_transfer_params params = params_of(PKV_TRANSFER_GATHER);
    params.src = &src.side;
    params.chunks = &chunks;
    params.src_blocks = blocks;
    params.n_ids = 3;
    transfer(&params, 2);
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(chunk + i * 4096, data + blocks[i] * 8192, 4096);
    }
}

static void layers_that_share_one_backing_stay_within_its_blocks(void **state)
{
    (void)state;
    enum { PAGE = 64, LAYERS = 3, BLOCKS = 142 };
    static uint8_t data[PAGE * LAYERS * BLOCKS], other[sizeof data];
    memset(&src, 0, sizeof src);
    for (uint32_t l = 0; l < LAYERS; l++) {
        src.planes[l][0] = (pkv_plane){l * PAGE, PAGE * LAYERS, 16, 16, 1, 16, 0, 0};
        src.layers[l] = (pkv_layer_pages){.n_planes = 1, .num_blocks = BLOCKS, .block_size = 4};
    }
    dst = src;
    pages_tie(&src, data, sizeof data, LAYERS);
    pages_tie(&dst, other, sizeof other, LAYERS);
    fill(data, sizeof data, 5);
    const int64_t from[] = {0, 141}, to[] = {141, 7};
    pkv_transfer_params params = params_of(PKV_TRANSFER_COPY);
    params.src = &src.side;
    params.dst = &dst.side;
    params.src_blocks = from;
    params.dst_blocks = to;
    params.n_ids = 2;
    transfer(&params, 1);
    for (size_t i = 0; i < 2; i++) {
        assert_memory_equal(other + to[i] * PAGE * LAYERS, data + from[i] * PAGE * LAYERS,
                            PAGE * LAYERS);
    }
    for (uint32_t l = 0; l < LAYERS; l++) { /* each layer by its own page: far too many blocks */
        src.layers[l].num_blocks = BLOCKS * LAYERS;
    }
    assert_refused(&params, PKV_TRANSFER_BOUNDS, "src[0].layers[0].planes[0]");
}

/* ---- lists ---- */

static pkv_transfer_params copy_within(uint8_t *data, const int64_t *from, const int64_t *to,
                                       uint64_t n)
{
    pages_tie(&src, data, pages_dense(&src, 1, 2, 4, 4, 2, 8), 1);
    fill(data, src.bytes, 6);
    pkv_transfer_params params = params_of(PKV_TRANSFER_COPY);
    params.src = params.dst = &src.side;
    params.src_blocks = from;
    params.dst_blocks = to;
    params.n_ids = n;
    return params;
}

static void a_copy_list_that_reads_what_it_writes_is_refused(void **state)
{
    (void)state;
    uint8_t data[512], before[512];
    const int64_t from[] = {0, 1}, to[] = {1, 2}, same[] = {2, 2}, apart[] = {3, 2};
    pkv_transfer_params params = copy_within(data, from, to, 2);
    memcpy(before, data, sizeof data);
    assert_refused(&params, PKV_TRANSFER_OVERLAP, "dst_blocks");
    params.dst_blocks = same;
    assert_refused(&params, PKV_TRANSFER_OVERLAP, "dst_blocks");
    assert_memory_equal(data, before, sizeof data);
    params.dst_blocks = apart;
    transfer(&params, 1);
    memcpy(before + 3 * 64, before, 64);
    memcpy(before + 2 * 64, before + 64, 64);
    assert_memory_equal(data, before, 256);
}

static void blocks_are_exchanged_in_place(void **state)
{
    (void)state;
    uint8_t data[512], before[512];
    const int64_t a[] = {0, 3}, b[] = {2, 1};
    pkv_transfer_params params = copy_within(data, a, b, 2);
    params.op = PKV_TRANSFER_SWAP;
    params.dst = NULL;
    memcpy(before, data, sizeof data);
    transfer(&params, 3);
    for (size_t plane = 0; plane < 2; plane++) {
        for (size_t i = 0; i < 2; i++) {
            const size_t x = plane * 256 + (size_t)a[i] * 64, y = plane * 256 + (size_t)b[i] * 64;
            assert_memory_equal(data + x, before + y, 64);
            assert_memory_equal(data + y, before + x, 64);
        }
    }
    transfer(&params, 1);
    assert_memory_equal(data, before, sizeof data);
}

static void a_plan_owns_its_tables(void **state)
{
    (void)state;
    uint8_t data[512], wanted[512];
    int64_t from[] = {0, 1}, to[] = {2, 3};
    pkv_transfer_plan *plan;
    pkv_transfer_params params = copy_within(data, from, to, 2);
    memcpy(wanted, data, sizeof data);
    for (size_t plane = 0; plane < 2; plane++) {
        memcpy(wanted + plane * 256 + 128, wanted + plane * 256, 128);
    }
    assert_ok(pkv_transfer_plan_create(&params, &plan, NULL));
    from[0] = from[1] = to[0] = to[1] = 0; /* the queue is slow, the table is used again */
    memset(&src.planes, 0, sizeof src.planes);
    memset(&src.layers, 0, sizeof src.layers);
    assert_ok(pkv_transfer_run(plan, 0, 1));
    pkv_transfer_plan_destroy(plan);
    assert_memory_equal(data, wanted, sizeof data);
}

/* ---- conversions ---- */

/* Pages of one size and head order become pages of another: slots of both, in order. */
static void assert_converted(uint64_t src_size, uint64_t dst_size)
{
    enum { TOKENS = 32, HEADS = 3, ROW = 8 };
    static uint8_t a[TOKENS * HEADS * ROW], b[sizeof a];
    int64_t slots[TOKENS];
    pages_tie(&src, a, pages_dense(&src, 1, 1, TOKENS / src_size, src_size, HEADS, ROW), 1);
    pages_tie(&dst, b, pages_heads_first(&dst, 1, 1, TOKENS / dst_size, dst_size, HEADS, ROW), 1);
    fill(a, sizeof a, 7);
    memset(b, 0, sizeof b);
    for (int64_t i = 0; i < TOKENS; i++) {
        slots[i] = i;
    }
    pkv_transfer_params params = params_of(PKV_TRANSFER_COPY);
    params.src = &src.side;
    params.dst = &dst.side;
    params.src_slots = params.dst_slots = slots;
    params.n_ids = TOKENS;
    transfer(&params, 2);
    for (uint64_t t = 0; t < TOKENS; t++) {
        for (uint64_t h = 0; h < HEADS; h++) {
            assert_memory_equal(b + row_offset(&dst, 0, 0, t, h), a + row_offset(&src, 0, 0, t, h),
                                ROW);
        }
    }
}

static void pages_of_4_become_pages_of_16_in_another_head_order_and_back(void **state)
{
    (void)state;
    assert_converted(4, 16);
    assert_converted(16, 4);
    const int64_t ids[] = {0};
    pkv_transfer_params params = params_of(PKV_TRANSFER_COPY);
    params.src = &src.side;
    params.dst = &dst.side;
    params.src_blocks = params.dst_blocks = ids;
    params.n_ids = 1;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "dst[0].layers[0].block_size"); /* by blocks */
}

static void single_tokens_of_pages_with_their_own_record_order_keep_their_bytes(void **state)
{
    (void)state;
    enum { TOKENS = 64, RECORD = 16, PER_TOKEN = 128 / RECORD };
    static uint8_t a[2 * TOKENS * 128], chunk[3 * 128];
    const int64_t slots[] = {1, 65, 17};
    memset(&src, 0, sizeof src);
    /* a token's eight records of 16 bytes lie 64 tokens apart: token 1 begins at byte 16 */
    src.planes[0][0] =
        (pkv_plane){0, TOKENS * 128, RECORD, TOKENS * RECORD, PER_TOKEN, RECORD, 0, 0};
    src.layers[0] = (pkv_layer_pages){.n_planes = 1, .num_blocks = 2, .block_size = TOKENS};
    pages_tie(&src, a, sizeof a, 1);
    fill(a, sizeof a, 8);
    const pkv_transfer_buffer buffer = {chunk, sizeof chunk};
    const pkv_transfer_chunks chunks = {&buffer, 3, 0, 1, PKV_CHUNK_MLA};
    pkv_transfer_params params = params_of(PKV_TRANSFER_GATHER);
    params.src = &src.side;
    params.chunks = &chunks;
    params.src_slots = slots;
    params.n_ids = 3;
    transfer(&params, 1);
    for (size_t i = 0; i < 3; i++) {
        for (size_t r = 0; r < PER_TOKEN; r++) {
            const size_t page = (size_t)slots[i] / TOKENS, token = (size_t)slots[i] % TOKENS;
            assert_memory_equal(chunk + i * 128 + r * RECORD,
                                a + page * TOKENS * 128 + token * RECORD + r * TOKENS * RECORD,
                                RECORD);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_lies_in_a_chunk_where_the_format_says),
        cmocka_unit_test(a_negative_slot_leaves_its_row_and_its_slot_untouched),
        cmocka_unit_test(a_skipped_prefix_does_not_move_the_rows_of_the_others),
        cmocka_unit_test(scales_travel_with_their_block),
        cmocka_unit_test(page_numbers_times_strides_beyond_32_bits_are_right),
        cmocka_unit_test(interleaved_planes_are_right_around_element_2_to_the_31),
        cmocka_unit_test(a_block_begins_at_the_stride_of_the_block_axis),
        cmocka_unit_test(layers_that_share_one_backing_stay_within_its_blocks),
        cmocka_unit_test(a_copy_list_that_reads_what_it_writes_is_refused),
        cmocka_unit_test(blocks_are_exchanged_in_place),
        cmocka_unit_test(a_plan_owns_its_tables),
        cmocka_unit_test(pages_of_4_become_pages_of_16_in_another_head_order_and_back),
        cmocka_unit_test(single_tokens_of_pages_with_their_own_record_order_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
