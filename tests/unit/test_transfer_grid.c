/* test_transfer_grid.c  The arithmetic of the GPU's kernels, run for whole grids: every thread of
 * every pair of a plan, in any order, leaves what the processor's own run leaves. */
#include "transfer/grid.h"
#include "transfer/transfer.h"

#include "transfer_fixture.h"

enum {
    LAYERS = 2,
    BLOCKS = 5,
    SIZE = 4,
    HEADS = 3,
    MAX_BYTES = LAYERS * 2 * BLOCKS * SIZE * HEADS * 48
};

static pages src, dst;
static _Alignas(16) uint8_t a[MAX_BYTES + 64], b[MAX_BYTES + 64], wanted[MAX_BYTES + 64];

/* One thread. */
static void run_thread(const pkvi_grid *grid, uint64_t i)
{
    const pkvi_unit unit = pkvi_grid_unit(grid, i);
    assert_int_equal(unit.src % grid->unit, 0);
    assert_int_equal(unit.dst % grid->unit, 0);
    memcpy((void *)(uintptr_t)unit.dst, (const void *)(uintptr_t)unit.src, grid->unit);
}

/* All threads, the last one first. */
static void run_grids(const pkv_transfer_plan *plan, uint64_t unit)
{
    for (uint64_t p = 0; p < plan->n_pairs; p++) {
        const pkvi_run_group *group = &plan->groups[plan->pairs[p].group];
        pkvi_grid grid = {plan->pairs[p], group->runs, group->n_runs, group->n_tokens, 1};
        uint64_t bases = 0;
        for (uint64_t r = 0; r < group->n_runs; r++) {
            bases |= group->runs[r].src.base | group->runs[r].dst.base;
        }
        grid.unit = pkvi_grid_widest(&grid.pair, bases);
        assert_int_equal(grid.unit, unit);
        assert_int_equal(pkvi_grid_units(&grid) * unit,
                         group->n_tokens * grid.pair.heads * grid.pair.row_bytes);
        for (uint64_t i = pkvi_grid_units(&grid); i > 0; i--) {
            run_thread(&grid, i - 1);
        }
    }
}

static void assert_same(const pkv_transfer_params *params, uint64_t unit)
{
    pkv_transfer_plan *plan;
    fill(b, sizeof b, 2);
    assert_ok(pkv_transfer_plan_create(params, &plan, NULL));
    assert_ok(pkv_transfer_run(plan, 0, 1));
    memcpy(wanted, b, sizeof b);
    fill(b, sizeof b, 2);
    run_grids(plan, unit);
    assert_memory_equal(b, wanted, sizeof b);
    pkv_transfer_plan_destroy(plan);
}

/* Rows of `row` bytes, `shift` bytes into aligned memory: copies, gathers and scatters. */
static void assert_grids(uint64_t row, uint64_t shift, uint64_t unit)
{
    const int64_t slots[] = {7, 8, 9, -1, 0, 19, 18, 3}, to[] = {0, 1, 2, 3, 9, 8, -1, 19};
    const uint64_t bytes = pages_dense(&src, LAYERS, 2, BLOCKS, SIZE, HEADS, row);
    (void)pages_heads_first(&dst, LAYERS, 2, BLOCKS, SIZE, HEADS, row);
    pages_tie(&src, a + shift, bytes, LAYERS);
    pages_tie(&dst, b + shift, bytes, LAYERS);
    pkv_transfer_params params = params_of(PKV_TRANSFER_COPY);
    params.src = &src.side;
    params.dst = &dst.side;
    params.src_slots = slots;
    params.dst_slots = to;
    params.n_ids = COUNT(slots);
    assert_same(&params, unit);
    const pkv_transfer_buffer out = {b + shift, bytes}, in = {a + shift, bytes};
    for (uint32_t form = PKV_CHUNK_2LTD; form <= PKV_CHUNK_BLOCKS; form++) {
        const uint32_t one[] = {1};
        pkv_transfer_chunks chunks = {&out, 8, 0, 1, form};
        params = params_of(PKV_TRANSFER_GATHER);
        params.src = &src.side;
        params.chunks = &chunks;
        params.src_slots = slots;
        params.n_ids = COUNT(slots);
        if (form == PKV_CHUNK_2TD || form == PKV_CHUNK_T2D) {
            params.layers = one;
            params.n_layers = 1;
        }
        assert_same(&params, unit);
        chunks.chunks = &in;
        params.op = PKV_TRANSFER_SCATTER;
        params.src = NULL;
        params.dst = &dst.side;
        params.src_slots = NULL;
        params.dst_slots = to;
        assert_same(&params, unit);
    }
}

static void the_threads_of_a_grid_move_what_the_processor_moves(void **state)
{
    (void)state;
    fill(a, sizeof a, 1);
    assert_grids(48, 0, 16);
    assert_grids(16, 16, 16);
    assert_grids(24, 8, 8);
    assert_grids(4, 4, 4); /* scales */
    assert_grids(6, 2, 2);
    assert_grids(48, 1, 1);
    assert_grids(7, 0, 1);
}

static void a_token_is_found_in_its_run(void **state)
{
    (void)state;
    const uint64_t firsts[] = {0, 1, 5, 6, 1000, UINT64_C(1) << 40};
    pkvi_run runs[COUNT(firsts)];
    for (size_t i = 0; i < COUNT(firsts); i++) {
        runs[i] = (pkvi_run){.first_token = firsts[i]};
    }
    for (size_t i = 0; i < COUNT(firsts); i++) {
        assert_int_equal(pkvi_find_run(runs, COUNT(firsts), firsts[i]), i);
        if (i > 0) {
            assert_int_equal(pkvi_find_run(runs, COUNT(firsts), firsts[i] - 1), i - 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_threads_of_a_grid_move_what_the_processor_moves),
        cmocka_unit_test(a_token_is_found_in_its_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
