/* test_transfer_reshard.c  Heads from so many ranks to so many others. */
#include "transfer_fixture.h"

enum { PLANES = 2, BLOCKS = 4, SIZE = 4, ROW = 8, HEADS_TOTAL = 8, MAX_RANKS = 8 };

/* Pages of all ranks; every row says which head, token and plane it is. */
static pages ranks[2][MAX_RANKS];
static uint8_t rank_memory[2][MAX_RANKS][PLANES * BLOCKS * SIZE * HEADS_TOTAL * ROW];
static pkv_transfer_pages rank_sides[2][MAX_RANKS];

static uint64_t heads_per_rank(uint32_t n_ranks, uint64_t total)
{
    return total < n_ranks ? 1 : total / n_ranks;
}

static void mark(uint8_t *row, uint64_t head, uint64_t slot, uint32_t plane)
{
    memset(row, 0, ROW);
    row[0] = (uint8_t)(head + 1);
    row[1] = (uint8_t)slot;
    row[2] = (uint8_t)plane;
}

static void make_ranks(int side, uint32_t n, uint64_t total, bool filled)
{
    for (uint32_t r = 0; r < n; r++) {
        pages *p = &ranks[side][r];
        const uint64_t heads = heads_per_rank(n, total);
        const uint64_t bytes = side ? pages_dense(p, 1, PLANES, BLOCKS, SIZE, heads, ROW)
                                    : pages_heads_first(p, 1, PLANES, BLOCKS, SIZE, heads, ROW);
        memset(rank_memory[side][r], 0, bytes);
        pages_tie(p, rank_memory[side][r], bytes, 1);
        rank_sides[side][r] = p->side;
        for (uint64_t i = 0; filled && i < PLANES * BLOCKS * SIZE * heads; i++) {
            const uint64_t head = i % heads, slot = i / heads % (BLOCKS * SIZE);
            const uint32_t plane = (uint32_t)(i / heads / (BLOCKS * SIZE));
            mark(p->data + row_offset(p, 0, plane, slot, head), r * total / n + head, slot, plane);
        }
    }
}

static void assert_resharded(uint32_t from, uint32_t to, uint64_t total)
{
    const int64_t src_blocks[] = {3, 0}, dst_blocks[] = {1, 2};
    pkv_transfer_params params = params_of(PKV_TRANSFER_RESHARD);
    make_ranks(0, from, total, true);
    make_ranks(1, to, total, false);
    params.src = rank_sides[0];
    params.dst = rank_sides[1];
    params.n_src = from;
    params.n_dst = to;
    params.heads_total = total;
    params.src_blocks = src_blocks;
    params.dst_blocks = dst_blocks;
    params.n_ids = 2;
    params.tokens = 7;
    transfer(&params, 3);
    for (uint32_t r = 0; r < to; r++) {
        const pages *p = &ranks[1][r];
        for (uint64_t slot = 0; slot < BLOCKS * SIZE; slot++) {
            const bool moved = slot >= 4 && slot < 11;
            const uint64_t source = slot < 8 ? slot + 8 : slot - 8;
            for (uint32_t plane = 0; plane < PLANES; plane++) {
                for (uint64_t h = 0; h < heads_per_rank(to, total); h++) {
                    uint8_t wanted[ROW] = {0};
                    if (moved) {
                        mark(wanted, r * total / to + h, source, plane);
                    }
                    assert_memory_equal(p->data + row_offset(p, 0, plane, slot, h), wanted, ROW);
                }
            }
        }
    }
}

static void heads_find_their_rank_from_1_2_4_8_to_1_2_4_8(void **state)
{
    (void)state;
    for (uint32_t from = 1; from <= MAX_RANKS; from *= 2) {
        for (uint32_t to = 1; to <= MAX_RANKS; to *= 2) {
            assert_resharded(from, to, HEADS_TOTAL);
            assert_resharded(from, to, 2); /* heads that several ranks hold */
            assert_resharded(from, to, 1); /* a latent */
        }
    }
    assert_resharded(3, 1, 6);
    assert_resharded(2, 3, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_find_their_rank_from_1_2_4_8_to_1_2_4_8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
