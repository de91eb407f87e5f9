/* test_transfer_plan.c  What a plan refuses, what it tells, and what it does without memory. */
#include "countdown.h"
#include "transfer_fixture.h"

#include <pkv/spec.h>

enum { LAYERS = 2, PLANES = 2, BLOCKS = 4, SIZE = 4, HEADS = 2, ROW = 8, TOKEN = HEADS * ROW };

static pages src, dst;
static uint8_t a[LAYERS * PLANES * BLOCKS * SIZE * TOKEN], b[sizeof a], c[sizeof a];
static pkv_transfer_buffer chunk_buffer;
static pkv_transfer_chunks chunks;
static const int64_t ids[] = {1, 2, 0};
static const int64_t other_ids[] = {3, 0, 1};

static int set_up(void **state)
{
    (void)state;
    pages_tie(&src, a, pages_dense(&src, LAYERS, PLANES, BLOCKS, SIZE, HEADS, ROW), LAYERS);
    pages_tie(&dst, b, pages_dense(&dst, LAYERS, PLANES, BLOCKS, SIZE, HEADS, ROW), LAYERS);
    fill(a, sizeof a, 1);
    fill(b, sizeof b, 2);
    chunk_buffer = (pkv_transfer_buffer){c, sizeof c};
    chunks = (pkv_transfer_chunks){&chunk_buffer, BLOCKS * SIZE, 0, 1, PKV_CHUNK_2LTD};
    return 0;
}

static pkv_transfer_params gathering(void)
{
    pkv_transfer_params params = params_of(PKV_TRANSFER_GATHER);
    params.src = &src.side;
    params.chunks = &chunks;
    params.src_slots = ids;
    params.n_ids = 3;
    return params;
}

static pkv_transfer_params copying(void)
{
    pkv_transfer_params params = params_of(PKV_TRANSFER_COPY);
    params.src = &src.side;
    params.dst = &dst.side;
    params.src_blocks = ids;
    params.dst_blocks = other_ids;
    params.n_ids = 3;
    return params;
}

static pkv_transfer_params resharding(uint64_t heads_total)
{
    pkv_transfer_params params = copying();
    params.op = PKV_TRANSFER_RESHARD;
    params.heads_total = heads_total;
    return params;
}

/* ---- malformed ---- */

static void assert_malformed(const pkv_transfer_params *params, const char *field)
{
    assert_refused(params, PKV_TRANSFER_MALFORMED, field);
}

static void operations_take_their_own_lists_and_sides(void **state)
{
    pkv_transfer_params params = gathering();
    params.op = 0;
    assert_malformed(&params, "op");
    params.op = 6;
    assert_malformed(&params, "op");
    params = gathering();
    params.src_blocks = ids;
    assert_malformed(&params, "op");
    params = gathering();
    params.dst_slots = ids;
    assert_malformed(&params, "op");
    params = gathering();
    params.dst = &dst.side;
    assert_malformed(&params, "op");
    params = gathering();
    params.chunks = NULL;
    assert_malformed(&params, "op");
    params = gathering();
    params.src_slots = NULL;
    assert_malformed(&params, "op");
    params = gathering();
    params.n_ids = 0;
    assert_malformed(&params, "n_ids");
    params = gathering();
    params.tokens = 3;
    assert_malformed(&params, "tokens");
    params = gathering();
    params.stores = 3;
    assert_malformed(&params, "op");
    params = resharding(0);
    assert_malformed(&params, "heads_total");
    params = copying();
    params.op = PKV_TRANSFER_SWAP;
    params.dst = NULL;
    params.skip_tokens = 1;
    assert_malformed(&params, "skip_tokens");
    params.op = PKV_TRANSFER_RESHARD;
    (void)set_up(state);
}

static void structures_have_at_least_one_of_everything(void **state)
{
    (void)state;
    const pkv_transfer_params params = copying();
    dst.layers[1].num_blocks = 0;
    assert_malformed(&params, "dst[0].layers[1]");
    dst.layers[1].num_blocks = BLOCKS;
    dst.layers[1].block_size = 0;
    assert_malformed(&params, "dst[0].layers[1]");
    dst.layers[1].block_size = SIZE;
    dst.layers[1].planes = NULL;
    assert_malformed(&params, "dst[0].layers[1]");
    dst.layers[1].planes = dst.planes[1];
    dst.planes[1][0].heads = 0;
    assert_malformed(&params, "dst[0].layers[1].planes[0]");
    dst.planes[1][0].heads = HEADS;
    dst.planes[1][0].row_bytes = 0;
    assert_malformed(&params, "dst[0].layers[1].planes[0]");
    dst.planes[1][0].row_bytes = ROW;
    dst.planes[1][0].buffer = 1;
    assert_malformed(&params, "dst[0].layers[1].planes[0]");
    dst.planes[1][0].buffer = 0;
    dst.side.n_layers = 0;
    assert_malformed(&params, "dst[0]");
}

static void chunks_have_a_form_and_rows(void **state)
{
    (void)state;
    const pkv_transfer_params params = gathering();
    chunks.form = 7;
    assert_malformed(&params, "chunks.form");
    chunks.form = PKV_CHUNK_2LTD;
    chunks.tokens = 0;
    assert_malformed(&params, "chunks");
    chunks.tokens = 1;
    chunks.n_chunks = 0;
    assert_malformed(&params, "chunks");
}

static void a_layer_moves_once(void **state)
{
    (void)state;
    const uint32_t twice[] = {1, 0, 1}, beyond[] = {0, 2};
    pkv_transfer_params params = copying();
    params.layers = twice;
    params.n_layers = 3;
    assert_malformed(&params, "layers[2]");
    params.layers = beyond;
    params.n_layers = 2;
    assert_refused(&params, PKV_TRANSFER_RANGE, "layers[1]");
    params.n_layers = 0;
    assert_malformed(&params, "layers");
    params.layers = NULL;
    params.n_layers = 1;
    assert_malformed(&params, "n_layers");
}

static void null_is_refused(void **state)
{
    (void)state;
    pkv_transfer_plan *plan;
    const pkv_transfer_params params = copying();
    assert_status(pkv_transfer_plan_create(NULL, &plan, NULL), PKV_E_INVAL);
    assert_status(pkv_transfer_plan_create(&params, NULL, NULL), PKV_E_INVAL);
    pkv_transfer_plan_destroy(NULL);
}

static void a_newer_caller_is_told_so(void **state)
{
    (void)state;
    struct {
        pkv_transfer_params known;
        uint64_t unknown;
    } params = {copying(), 1};
    pkv_transfer_plan *plan;
    params.known.struct_size = sizeof params;
    assert_status(pkv_transfer_plan_create(&params.known, &plan, NULL), PKV_E_VERSION);
    assert_null(plan);
}

/* ---- range, bounds, content, overlap ---- */

static void numbers_must_fit_the_smallest_layer_that_moves(void **state)
{
    (void)state;
    const int64_t slots[] = {0, 12, 1};
    const uint32_t large[] = {0};
    pkv_transfer_params params = gathering();
    params.src_slots = slots;
    src.layers[1].num_blocks = 3;
    assert_refused(&params, PKV_TRANSFER_RANGE, "src_slots[1]");
    params.layers = large;
    params.n_layers = 1;
    transfer(&params, 1);
}

static void tokens_end_in_the_last_block(void **state)
{
    (void)state;
    pkv_transfer_params params = copying();
    for (uint64_t tokens = 0; tokens < 20; tokens++) {
        params.tokens = tokens;
        if (tokens > 8 && tokens <= 12) {
            transfer(&params, 1);
        } else {
            assert_refused(&params, PKV_TRANSFER_RANGE, "tokens");
        }
    }
    params.tokens = 9;
    params.skip_tokens = 9;
    transfer(&params, 1);
    params.skip_tokens = 10;
    assert_refused(&params, PKV_TRANSFER_RANGE, "skip_tokens");
}

static void strides_that_leave_the_buffer_are_refused(void **state)
{
    (void)state;
    const pkv_transfer_params params = copying();
    uint64_t *const fields[] = {&dst.planes[1][1].offset, &dst.planes[1][1].block_stride,
                                &dst.planes[1][1].token_stride, &dst.planes[1][1].head_stride,
                                &dst.layers[1].num_blocks};
    const uint64_t values[] = {1, (uint64_t)1 << 32, (uint64_t)1 << 62, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < COUNT(fields); i++) {
        const uint64_t right = *fields[i];
        for (size_t v = 0; v < COUNT(values); v++) {
            *fields[i] = v == 0 ? right + 1 : values[v];
            const bool other = i == 4; /* blocks of both planes: the first one is named */
            assert_refused(&params, PKV_TRANSFER_BOUNDS,
                           other && v > 0 ? "dst[0].layers[1].planes[0]"
                                          : "dst[0].layers[1].planes[1]");
        }
        *fields[i] = right;
    }
}

static void a_chunk_that_is_too_small_is_refused(void **state)
{
    (void)state;
    const pkv_transfer_params params = gathering();
    chunk_buffer.bytes--;
    assert_refused(&params, PKV_TRANSFER_BOUNDS, "chunks.chunks[0]");
    chunk_buffer.bytes++;
    chunks.tokens = (uint64_t)1 << 62;
    assert_refused(&params, PKV_TRANSFER_BOUNDS, "chunks.chunks[0]");
    chunks.tokens = BLOCKS * SIZE;
    chunks.offset = UINT64_MAX;
    assert_refused(&params, PKV_TRANSFER_BOUNDS, "chunks.chunks[0]");
    chunks.offset = 0;
    chunks.tokens = 2;
    assert_refused(&params, PKV_TRANSFER_RANGE, "chunks.chunks");
}

static void rows_of_endless_heads_do_not_wrap(void **state)
{
    (void)state;
    const pkv_transfer_params params = gathering();
    for (uint32_t l = 0; l < LAYERS; l++) {
        for (uint32_t p = 0; p < PLANES; p++) { /* all heads in one place, which may be read */
            src.planes[l][p].heads = (uint64_t)1 << 62;
            src.planes[l][p].head_stride = 0;
        }
    }
    assert_refused(&params, PKV_TRANSFER_BOUNDS, "chunks");
}

static void both_sides_hold_the_same(void **state)
{
    (void)state;
    const uint32_t bf16[] = {PKV_DTYPE_BFLOAT16, PKV_DTYPE_BFLOAT16};
    const uint32_t mixed[] = {PKV_DTYPE_BFLOAT16, PKV_DTYPE_INT8};
    pkv_transfer_params params = copying();
    dst.planes[0][1].row_bytes = 4;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "dst[0].layers[0].planes[1].row_bytes");
    dst.planes[0][1].row_bytes = ROW;
    dst.planes[1][0].heads = 1;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "dst[0].layers[1].planes[0].heads");
    dst.planes[1][0].heads = HEADS;
    dst.layers[0].n_planes = 1;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "dst[0].layers[0].planes");
    dst.layers[0].n_planes = PLANES;
    dst.side.n_layers = 1;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "dst[0].layers");
    dst.side.n_layers = LAYERS;
    dst.layers[1].block_size = 2;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "dst[0].layers[1].block_size");
    dst.layers[1].block_size = SIZE;
    src.side.dtypes = bf16;
    transfer(&params, 1); /* only one side names its types */
    dst.side.dtypes = mixed;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "dst[0].layers[1].dtype");
}

static void a_chunk_must_be_able_to_hold_the_layers(void **state)
{
    (void)state;
    const pkv_transfer_params params = gathering();
    chunks.form = PKV_CHUNK_T2D;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "chunks.form");
    chunks.form = PKV_CHUNK_L2TD;
    src.planes[1][1].row_bytes = 4;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "chunks.form");
    chunks.form = PKV_CHUNK_BLOCKS; /* the only one that may */
    transfer(&params, 1);
    chunks.tokens = 10;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "chunks.tokens");
    chunks.form = PKV_CHUNK_2LTD;
    src.layers[0].n_planes = src.layers[1].n_planes = 1;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "chunks.form");
}

static void every_rank_has_its_share_of_the_heads(void **state)
{
    (void)state;
    pkv_transfer_params params = resharding(4);
    assert_refused(&params, PKV_TRANSFER_CONTENT, "src[0].layers[0].planes[0].heads");
    const pkv_transfer_pages ranks[] = {src.side, src.side, src.side};
    params = resharding(4);
    params.src = ranks;
    params.n_src = 3;
    assert_refused(&params, PKV_TRANSFER_CONTENT, "heads_total");
    params = resharding(2);
    transfer(&params, 1);
}

static void interleaved_rows_that_do_not_meet_are_allowed(void **state)
{
    (void)state;
    /* two structures of one head each, in one buffer: heads 0 and 1 of each token */
    for (uint32_t l = 0; l < LAYERS; l++) {
        for (uint32_t p = 0; p < PLANES; p++) {
            src.planes[l][p].heads = 1;
            dst.planes[l][p] = src.planes[l][p];
            dst.planes[l][p].offset += ROW;
        }
    }
    pages_tie(&dst, a, sizeof a, LAYERS);
    const pkv_transfer_params params = copying();
    transfer(&params, 2);
    dst.planes[1][1].offset--; /* the last byte of a row that is read */
    assert_refused(&params, PKV_TRANSFER_OVERLAP, "dst_blocks");
}

static void buffers_of_the_same_memory_are_noticed(void **state)
{
    (void)state;
    const pkv_transfer_params params = gathering();
    chunk_buffer = (pkv_transfer_buffer){a, sizeof a};
    assert_refused(&params, PKV_TRANSFER_OVERLAP, "chunks");
    chunk_buffer = (pkv_transfer_buffer){c, sizeof c};
    transfer(&params, 1);
}

static void a_destination_without_a_stride_is_written_twice(void **state)
{
    (void)state;
    const pkv_transfer_params params = copying();
    src.planes[0][0].token_stride = 0; /* a source may repeat itself */
    transfer(&params, 1);
    dst.planes[0][0].token_stride = 0;
    assert_refused(&params, PKV_TRANSFER_OVERLAP, "dst_blocks");
}

/* ---- what it tells ---- */

static void a_plan_tells_tokens_bytes_and_steps(void **state)
{
    (void)state;
    pkv_transfer_plan *plan;
    pkv_transfer_info info;
    pkv_transfer_params params = copying();
    params.tokens = 9;
    params.skip_tokens = 2;
    assert_ok(pkv_transfer_plan_create(&params, &plan, NULL));
    pkv_transfer_plan_info(plan, &info);
    assert_int_equal(info.tokens, 7);
    assert_int_equal(info.bytes, 7 * TOKEN * PLANES * LAYERS);
    assert_int_equal(info.n_layers, LAYERS);
    assert_int_equal(info.streaming, 0);
    assert_int_equal(pkv_transfer_layer_bytes(plan, 1), 7 * TOKEN * PLANES);
    assert_int_equal(pkv_transfer_layer_bytes(plan, 2), 0);
    assert_status(pkv_transfer_run(plan, 1, 1), PKV_E_INVAL);
    assert_error_text("pkv_transfer_run", "worker 1 of 1");
    assert_status(pkv_transfer_run(plan, 0, 0), PKV_E_INVAL);
    assert_status(pkv_transfer_run_layer(plan, 2, 0, 1), PKV_E_INVAL);
    assert_error_text("pkv_transfer_run_layer", "step 2 of 2");
    pkv_transfer_plan_destroy(plan);
}

static void consecutive_slots_are_one_run(void **state)
{
    (void)state;
    const int64_t slots[] = {4, 5, 6, 7, 8, -1, 9, 1};
    pkv_transfer_plan *plan;
    pkv_transfer_info info;
    pkv_transfer_params params = gathering();
    params.src_slots = slots;
    params.n_ids = COUNT(slots);
    assert_ok(pkv_transfer_plan_create(&params, &plan, NULL));
    pkv_transfer_plan_info(plan, &info);
    assert_int_equal(info.runs, 4); /* 4-7, 8 of the next block, 9, 1 */
    assert_int_equal(info.tokens, 7);
    pkv_transfer_plan_destroy(plan);
}

/* ---- memory ---- */

static void planning_survives_any_allocation_that_fails(void **state)
{
    (void)state;
    static int64_t many[2000];
    countdown memory;
    const pkv_alloc hooks = {&memory, counted_alloc, counted_free};
    pkv_transfer_plan *plan;
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    for (size_t i = 0; i < COUNT(many); i++) {
        many[i] = (int64_t)(i * 7 % 16);
    }
    dst.planes[0][0].block_stride = 1; /* only a comparison of bytes can tell */
    dst.planes[0][0].token_stride = ROW * BLOCKS * SIZE;
    chunks.tokens = 2000;
    src.planes[0][0].token_stride = 1;
    pkv_transfer_params params = gathering();
    static uint8_t large[2000 * TOKEN * PLANES * LAYERS];
    chunk_buffer = (pkv_transfer_buffer){large, sizeof large};
    params.src_slots = many;
    params.n_ids = COUNT(many);
    params.alloc = &hooks;
    for (; st == PKV_E_NOMEM; n++) {
        assert_true(n < 100);
        memory = (countdown){.left = n};
        plan = (pkv_transfer_plan *)(uintptr_t)1;
        st = pkv_transfer_plan_create(&params, &plan, NULL);
        if (st == PKV_E_NOMEM) {
            assert_null(plan);
            assert_error_text("pkv_transfer_plan_create", "memory");
            assert_int_equal(memory.held, 0);
        }
    }
    assert_status(st, PKV_OK);
    assert_true(n > 4);
    const uint64_t calls = memory.calls;
    memory.left = 0;
    assert_ok(pkv_transfer_run(plan, 0, 1)); /* runs need none */
    assert_ok(pkv_transfer_run_layer(plan, 1, 0, 2));
    assert_int_equal(memory.calls, calls);
    pkv_transfer_plan_destroy(plan);
    assert_int_equal(memory.held, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(operations_take_their_own_lists_and_sides),
        TEST(structures_have_at_least_one_of_everything),
        TEST(chunks_have_a_form_and_rows),
        TEST(a_layer_moves_once),
        TEST(null_is_refused),
        TEST(a_newer_caller_is_told_so),
        TEST(numbers_must_fit_the_smallest_layer_that_moves),
        TEST(tokens_end_in_the_last_block),
        TEST(strides_that_leave_the_buffer_are_refused),
        TEST(a_chunk_that_is_too_small_is_refused),
        TEST(rows_of_endless_heads_do_not_wrap),
        TEST(both_sides_hold_the_same),
        TEST(a_chunk_must_be_able_to_hold_the_layers),
        TEST(every_rank_has_its_share_of_the_heads),
        TEST(interleaved_rows_that_do_not_meet_are_allowed),
        TEST(buffers_of_the_same_memory_are_noticed),
        TEST(a_destination_without_a_stride_is_written_twice),
        TEST(a_plan_tells_tokens_bytes_and_steps),
        TEST(consecutive_slots_are_one_run),
        TEST(planning_survives_any_allocation_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
