/* test_transfer_limits.c  Limits that GPU launches have elsewhere, and that do not hold here. */
#include "transfer_fixture.h"

#include <stdlib.h>

enum { BS = 16, CHUNK = 256, HEADS = 33, ROW = 3, TOKEN = HEADS * ROW, MAX_CHUNKS = 5 };
enum { MAX_BLOCKS = MAX_CHUNKS * CHUNK / BS };

static pages src;
static uint8_t data[MAX_BLOCKS * BS * TOKEN], store[MAX_CHUNKS][CHUNK * TOKEN];
static int64_t ids[MAX_BLOCKS];
static pkv_transfer_buffer buffers[MAX_CHUNKS];
static pkv_transfer_chunks chunks;

/* 33 heads of 3 bytes; all blocks, last one first. */
static pkv_transfer_params gather_of(uint64_t n_blocks, uint32_t n_chunks)
{
    pages_tie(&src, data, pages_dense(&src, 1, 1, MAX_BLOCKS, BS, HEADS, ROW), 1);
    fill(data, sizeof data, 1);
    memset(store, 0, sizeof store);
    for (uint32_t i = 0; i < MAX_BLOCKS; i++) {
        ids[i] = MAX_BLOCKS - 1 - i;
    }
    for (uint32_t i = 0; i < MAX_CHUNKS; i++) {
        buffers[i] = (pkv_transfer_buffer){store[i], sizeof store[i]};
    }
    chunks = (pkv_transfer_chunks){buffers, CHUNK, 0, n_chunks, PKV_CHUNK_MLA};
    pkv_transfer_params params = params_of(PKV_TRANSFER_GATHER);
    params.src = &src.side;
    params.chunks = &chunks;
    params.src_blocks = ids;
    params.n_ids = n_blocks;
    return params;
}

/* Elsewhere: 1 to 4 objects a launch, at most 32 heads, an even number of bytes each. */
static void five_chunks_of_33_heads_of_3_bytes_move(void **state)
{
    (void)state;
    const pkv_transfer_params params = gather_of(MAX_BLOCKS, MAX_CHUNKS);
    transfer(&params, 2);
    for (uint32_t i = 0; i < MAX_BLOCKS; i++) { /* 16 blocks of 16 tokens in each chunk */
        assert_memory_equal(store[i / 16] + i % 16 * (BS * TOKEN),
                            data + (uint64_t)ids[i] * (BS * TOKEN), BS * TOKEN);
    }
}

/* Elsewhere the number of blocks has to be one of whole chunks. */
static void blocks_may_fill_a_part_of_the_last_chunk_but_no_more_than_all(void **state)
{
    (void)state;
    pkv_transfer_params params = gather_of(31, 2);
    transfer(&params, 1);
    assert_memory_equal(store[1] + 14 * BS * TOKEN, data + (uint64_t)ids[30] * BS * TOKEN,
                        BS * TOKEN);
    for (uint32_t i = 15 * BS * TOKEN; i < sizeof store[1]; i++) { /* the place of a 32nd */
        assert_int_equal(store[1][i], 0);
    }
    params = gather_of(32, 2);
    transfer(&params, 1);
    params = gather_of(33, 2);
    assert_refused(&params, PKV_TRANSFER_RANGE, "chunks.chunks");
}

/* Elsewhere a host copy of 10 MiB from 3 MiB on is cut at each 4 MiB, where memory was registered:
 * 1, 4, 4 and 1 MiB. Nothing is registered here, and an odd offset is as good. */
static void chunks_begin_anywhere_in_their_memory(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, BYTES = 10 * MIB, WIDTH = 1024, SIZE = BYTES / WIDTH / 8 };
    const uint64_t offsets[] = {3 * MIB, 3 * MIB + 1};
    const int64_t blocks[] = {5, 2, 7, 1, 0, 6, 3, 4};
    uint8_t *pool = malloc(BYTES), *host = malloc(14 * MIB);
    assert_non_null(pool);
    assert_non_null(host);
    pages_tie(&src, pool, pages_dense(&src, 1, 1, 8, SIZE, 1, WIDTH), 1);
    fill(pool, BYTES, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const pkv_transfer_buffer buffer = {host, 14 * MIB};
        const pkv_transfer_chunks one = {&buffer, 8 * SIZE, offsets[i], 1, PKV_CHUNK_MLA};
        pkv_transfer_params params = params_of(PKV_TRANSFER_GATHER);
        params.src = &src.side;
        params.chunks = &one;
        params.src_blocks = blocks;
        params.n_ids = 8;
        memset(host, 0xee, 14 * MIB);
        transfer(&params, 3);
        for (uint32_t k = 0; k < 8; k++) {
            assert_memory_equal(host + offsets[i] + (uint64_t)k * SIZE * WIDTH,
                                pool + (uint64_t)blocks[k] * SIZE * WIDTH, SIZE * WIDTH);
        }
        assert_int_equal(host[offsets[i] - 1], 0xee);
        assert_int_equal(host[offsets[i] + BYTES], 0xee);
    }
    free(pool);
    free(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_chunks_of_33_heads_of_3_bytes_move),
        cmocka_unit_test(blocks_may_fill_a_part_of_the_last_chunk_but_no_more_than_all),
        cmocka_unit_test(chunks_begin_anywhere_in_their_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
