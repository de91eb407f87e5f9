/* test_seq_views.c  What kernels read: rows, slots, zero-fills; and context parallel ranks. */
#include "seq_fixture.h"

enum { WIDTH = 16 };

static void assert_row(const pkv_seq *seq, uint32_t g, const char *wanted, uint64_t from,
                       uint64_t to)
{
    int32_t row[WIDTH];
    pkv_block ids[WIDTH];
    uint64_t got_from, got_to;
    memset(row, 0x55, sizeof row);
    assert_ok(pkv_seq_row(seq, g, row, WIDTH, &got_from, &got_to));
    for (size_t i = 0; i < WIDTH; i++) {
        ids[i] = (pkv_block)row[i];
    }
    assert_blocks(ids, WIDTH, wanted);
    assert_int_equal(got_from, from);
    assert_int_equal(got_to, to);
}

/* ---- rows ---- */

static void a_row_is_padded_with_the_null_block(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 40);
    assert_row(seq, 0, "0*16", 0, 0);
    (void)take(seq, 40);
    assert_row(seq, 0, "1..3 0*13", 0, 3);
    int32_t row[3];
    assert_ok(pkv_seq_row(seq, 0, row, 3, NULL, NULL)); /* as wide as the table */
    assert_int_equal(row[2], 3);
    end_cache(cache);
}

static void a_row_tells_what_changed_since_the_step(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    pkv_cache_step(cache);
    assert_row(seq, 0, "1..3 0*13", 3, 3); /* nothing */
    append(seq, 1, 8);
    (void)take(seq, 8); /* 48 tokens: no new block */
    assert_row(seq, 0, "1..3 0*13", 3, 3);
    append(seq, 1, 1);
    (void)take(seq, 1);
    assert_row(seq, 0, "1..4 0*12", 3, 4);
    append(seq, 1, 16);
    (void)take(seq, 16); /* two allocates in one step add up */
    assert_row(seq, 0, "1..5 0*11", 3, 5);
    pkv_cache_step(cache);
    assert_row(seq, 0, "1..5 0*11", 5, 5);
    assert_ok(pkv_seq_preempt(seq));
    (void)take(seq, 1);
    assert_row(seq, 0, "1..4 5 0*11", 0, 5);
    end_cache(cache);
}

static void a_row_tells_a_private_copy_as_a_change(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 40), *child;
    assert_ok(pkv_seq_fork(parent, &child));
    pkv_cache_step(cache);
    append(parent, 1, 9);
    (void)take(parent, 9);
    assert_row(parent, 0, "1 2 4 5 0*12", 2, 4);
    end_cache(cache);
}

static void a_row_of_a_window_names_no_block_below_it(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 30, 256);
    pkv_seq *seq = run_n(cache, 160);
    pkv_cache_step(cache);
    append(seq, 160, 1);
    (void)take(seq, 1); /* position 160 sees 129 to 160: blocks 8, 9, 10 */
    assert_row(seq, 0, "0*8 9..11 0*5", 0, 11);
    end_cache(cache);
}

/* kv-core 5.6: entries below max(first_pos - retained, 0) // block are 0, where first_pos is the
 * first position of the step that the row is for; the rest is read or written by it. */
static void a_row_names_every_block_that_the_step_itself_uses(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 30, 256);
    pkv_seq *seq = run_n(cache, 160); /* the step computes 0 to 159 */
    assert_row(seq, 0, "1..10 0*6", 0, 10);
    end_cache(cache);
}

static void a_row_keeps_what_steps_in_flight_read_in_the_table_only(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 30, 256);
    pkv_seq *seq = run_n(cache, 160);
    pkv_cache_step(cache);
    append(seq, 160, 1);
    pkv_allocate_params params = new_tokens(1);
    params.in_flight_tokens = 160;
    (void)allocate(seq, params);
    assert_table(seq, 0, "1..11");
    int32_t row[WIDTH];
    assert_ok(pkv_seq_row(seq, 0, row, WIDTH, NULL, NULL));
    assert_int_equal(row[7], 0); /* position 160 sees nothing of block 7 */
    assert_int_equal(row[8], 9);
    end_cache(cache);
}

static void a_row_tells_what_a_rollback_shows_again(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 30, 256);
    pkv_seq *seq = run_n(cache, 170);
    pkv_cache_step(cache);
    (void)take(seq, 5); /* drafts; (170 - 31) / 16 = 8 blocks are released */
    pkv_cache_step(cache);
    pkv_allocate_params params = new_tokens(3);
    params.in_flight_tokens = 5;
    (void)allocate(seq, params); /* begins at 175, which sees nothing of entry 8 */
    assert_row(seq, 0, "0*9 10..12 0*4", 8, 12);
    pkv_cache_step(cache);
    append(seq, 1, 2);
    assert_ok(pkv_seq_set_computed(seq, 171)); /* one draft was right: 171 sees 140 on */
    (void)take(seq, 1);
    assert_row(seq, 0, "0*8 9..12 0*4", 8, 12); /* the worker's row has 0 there */
    end_cache(cache);
}

static void rows_that_are_too_narrow_are_refused(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    int32_t row[2] = {7, 7};
    assert_status(pkv_seq_row(seq, 0, row, 2, NULL, NULL), PKV_E_INVAL);
    assert_error_text("pkv_seq_row", "width 2");
    assert_int_equal(row[0], 7);
    assert_status(pkv_seq_row(seq, 1, row, 2, NULL, NULL), PKV_E_INVAL);
    assert_status(pkv_seq_row(seq, 0, NULL, 2, NULL, NULL), PKV_E_INVAL);
    assert_status(pkv_seq_row(NULL, 0, row, 2, NULL, NULL), PKV_E_INVAL);
    end_cache(cache);
}

/* ---- tables by tokens ---- */

static void entries_of_the_first_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    assert_int_equal(pkv_seq_blocks_of(seq, 0, 0), 0);
    assert_int_equal(pkv_seq_blocks_of(seq, 0, 16), 1);
    assert_int_equal(pkv_seq_blocks_of(seq, 0, 17), 2);
    assert_int_equal(pkv_seq_blocks_of(seq, 0, 1000), 3);
    assert_int_equal(pkv_seq_blocks_of(seq, 1, 16), 0);
    uint64_t n = 1;
    assert_null(pkv_seq_table(seq, 1, &n));
    assert_int_equal(n, 0);
    n = 1;
    assert_null(pkv_seq_new_blocks(seq, 1, &n));
    assert_int_equal(n, 0);
    n = 1;
    assert_null(pkv_cache_hit_blocks(cache, 1, &n));
    assert_int_equal(n, 0);
    assert_null(pkv_cache_group_at(cache, 1));
    end_cache(cache);
}

static void cached_tokens_are_the_least_of_all_groups(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 60, 320);
    pkv_seq *seq = run_n(cache, 100);
    assert_int_equal(pkv_seq_cached_tokens(seq), 96);
    const pkv_block last[] = {13}; /* the window's sixth */
    uint64_t n;
    assert_int_equal(pkv_seq_table(seq, 1, &n)[5], last[0]);
    assert_ok(pkv_cache_evict(cache, last, 1));
    assert_int_equal(pkv_seq_cached_tokens(seq), 80);
    end_cache(cache);
}

/* ---- slots ---- */

static void a_slot_is_the_block_and_the_place_in_it(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *other = run_tokens(cache, diverging(0), 64), *seq = run_n(cache, 16);
    (void)take(other, 48); /* blocks 6, 7, 8 */
    append(seq, 1, 4);
    (void)take(seq, 4);
    assert_table(seq, 0, "5 9");
    int64_t slots[4];
    assert_ok(pkv_seq_slots(seq, 0, 14, 4, 0, 1, slots));
    /* row 155: [5, 9], position 17: 9 * 16 + 1 = 145 */
    const int64_t wanted[] = {5 * 16 + 14, 5 * 16 + 15, 144, 145};
    assert_memory_equal(slots, wanted, sizeof wanted);
    assert_ok(pkv_seq_slots(seq, 0, 32, 0, 0, 1, NULL));
    end_cache(cache);
}

static void case_33_slots_are_looked_up_one_by_one(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 15);
    (void)run_tokens(cache, diverging(0), 16);
    (void)take(seq, 3); /* drafts: positions 15 to 17 */
    assert_table(seq, 0, "1 3");
    int64_t slots[3];
    assert_ok(pkv_seq_slots(seq, 0, 15, 3, 0, 1, slots));
    const int64_t wanted[] = {31, 48, 49};
    assert_memory_equal(slots, wanted, sizeof wanted);
    end_cache(cache);
}

static void there_is_no_slot_in_what_a_window_let_go(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 30, 256);
    pkv_seq *seq = run_n(cache, 160);
    append(seq, 1, 1);
    (void)take(seq, 1);
    int64_t slots[2];
    assert_ok(pkv_seq_slots(seq, 0, 127, 2, 0, 1, slots));
    assert_int_equal(slots[0], -1); /* block index 7 */
    assert_int_equal(slots[1], 9 * 16);
    end_cache(cache);
}

static void slots_beyond_the_table_are_refused(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40); /* 48 slots */
    int64_t slots[64] = {7};
    assert_status(pkv_seq_slots(seq, 0, 48, 1, 0, 1, slots), PKV_E_INVAL);
    assert_status(pkv_seq_slots(seq, 0, 0, 49, 0, 1, slots), PKV_E_INVAL);
    assert_status(pkv_seq_slots(seq, 0, UINT64_MAX, 2, 0, 1, slots), PKV_E_INVAL);
    assert_status(pkv_seq_slots(seq, 0, 0, 1, 1, 1, slots), PKV_E_INVAL); /* one rank */
    assert_status(pkv_seq_slots(seq, 0, 0, 1, 0, 0, slots), PKV_E_INVAL);
    assert_status(pkv_seq_slots(seq, 1, 0, 1, 0, 1, slots), PKV_E_INVAL);
    assert_status(pkv_seq_slots(seq, 0, 0, 1, 0, 1, NULL), PKV_E_INVAL);
    assert_status(pkv_seq_slots(NULL, 0, 0, 1, 0, 1, slots), PKV_E_INVAL);
    assert_int_equal(slots[0], 7);
    assert_ok(pkv_seq_slots(seq, 0, 40, 8, 0, 1, slots)); /* spare slots are slots */
    end_cache(cache);
}

/* ---- zero-fills ---- */

/* Full in bfloat16, a window in fp8: mixed precision, so new blocks are zeroed. */
static pkv_cache *zeroing_cache(void)
{
    pkv_spec window = shaped(PKV_KIND_SLIDING_WINDOW, 16, 8, 128, PKV_DTYPE_FLOAT8_E4M3FN);
    window.sliding_window = 32;
    const pkv_spec layers[] = {full(), finished(window)};
    pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    params.layout = PKV_LAYOUT_BLHNC;
    return cache_of(&params);
}

static void new_blocks_are_zeroed_where_precisions_mix(void **state)
{
    (void)state;
    pkv_cache *cache = zeroing_cache();
    pkv_seq *seq = open_n(cache, 40);
    const pkv_allocate_result result = take(seq, 40);
    assert_blocks(result.zero, result.n_zero, "1..6"); /* group by group */
    append(seq, 1, 9);
    const pkv_allocate_result more = take(seq, 9);
    assert_blocks(more.zero, more.n_zero, "7 8");
    close_seq(seq);
    seq = open_n(cache, 40);
    assert_int_equal(lookup(seq), 32);
    const pkv_allocate_result hit = take(seq, 8); /* hits are not */
    uint64_t n;
    const pkv_block fresh[] = {pkv_seq_table(seq, 0, &n)[2], pkv_seq_table(seq, 1, &n)[2]};
    assert_int_equal(hit.n_zero, 2);
    assert_memory_equal(hit.zero, fresh, sizeof fresh);
    end_cache(cache);
}

static void loaded_blocks_may_be_left_alone(void **state)
{
    (void)state;
    pkv_cache *cache = zeroing_cache();
    const uint32_t skip[] = {0};
    pkv_allocate_params params = new_tokens(8);
    params.external_tokens = 32;
    const pkv_allocate_result all = allocate(open_n(cache, 40), params);
    assert_blocks(all.zero, all.n_zero, "1 2 5 3 4 6");
    params.skip_zero_groups = skip;
    params.n_skip_zero_groups = 1;
    pkv_seq *seq = open_tokens(cache, diverging(0), 40);
    const pkv_allocate_result rest = allocate(seq, params);
    assert_table(seq, 0, "7 8 11");
    assert_blocks(rest.zero, rest.n_zero, "11 9 10 12"); /* computed ones always */
    end_cache(cache);
}

static void what_a_failed_load_left_is_zeroed(void **state)
{
    (void)state;
    pkv_cache *cache = zeroing_cache();
    pkv_seq *seq = open_n(cache, 40);
    const pkv_block *ids;
    uint64_t n;
    assert_status(pkv_seq_zero(seq, 0, &ids, &n), PKV_E_INVAL); /* not allocated */
    pkv_allocate_params params = new_tokens(0);
    params.external_tokens = 40;
    params.delay_caching = 1;
    (void)allocate(seq, params);
    assert_ok(pkv_seq_zero(seq, 16, &ids, &n));
    assert_blocks(ids, n, "2 3 5 6");
    assert_ok(pkv_seq_zero(seq, 64, &ids, &n));
    assert_int_equal(n, 0);
    assert_status(pkv_seq_zero(seq, 8, &ids, &n), PKV_E_INVAL);
    assert_status(pkv_seq_zero(NULL, 0, &ids, &n), PKV_E_INVAL);
    assert_status(pkv_seq_zero(seq, 0, NULL, &n), PKV_E_INVAL);
    assert_status(pkv_seq_zero(seq, 0, &ids, NULL), PKV_E_INVAL);
    end_cache(cache);
}

/* As vLLM tells them: the table's entries from there on, null blocks of a window included. */
static void a_window_tells_its_null_blocks_too(void **state)
{
    (void)state;
    pkv_cache *cache = zeroing_cache();
    pkv_seq *seq = open_n(cache, 160);
    const pkv_block *ids;
    uint64_t n;
    pkv_allocate_params params = new_tokens(0);
    params.external_tokens = 160; /* (160 - 31) / 16 = 8 blocks lie below the window */
    params.delay_caching = 1;
    const pkv_allocate_result result = allocate(seq, params);
    assert_table(seq, 1, "0*8 11 12");
    assert_blocks(result.zero, result.n_zero, "1..12");
    assert_ok(pkv_seq_zero(seq, 112, &ids, &n));
    assert_blocks(ids, n, "8..10 0 11 12");
    end_cache(cache);
}

static void nothing_is_zeroed_where_precisions_agree(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 60, 320);
    pkv_seq *seq = open_n(cache, 40);
    assert_int_equal(take(seq, 40).n_zero, 0);
    const pkv_block *ids;
    uint64_t n;
    assert_ok(pkv_seq_zero(seq, 0, &ids, &n));
    assert_int_equal(n, 0);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_padded_with_the_null_block),
        cmocka_unit_test(a_row_tells_what_changed_since_the_step),
        cmocka_unit_test(a_row_tells_a_private_copy_as_a_change),
        cmocka_unit_test(a_row_of_a_window_names_no_block_below_it),
        cmocka_unit_test(a_row_names_every_block_that_the_step_itself_uses),
        cmocka_unit_test(a_row_keeps_what_steps_in_flight_read_in_the_table_only),
        cmocka_unit_test(a_row_tells_what_a_rollback_shows_again),
        cmocka_unit_test(rows_that_are_too_narrow_are_refused),
        cmocka_unit_test(entries_of_the_first_tokens),
        cmocka_unit_test(cached_tokens_are_the_least_of_all_groups),
        cmocka_unit_test(a_slot_is_the_block_and_the_place_in_it),
        cmocka_unit_test(case_33_slots_are_looked_up_one_by_one),
        cmocka_unit_test(there_is_no_slot_in_what_a_window_let_go),
        cmocka_unit_test(slots_beyond_the_table_are_refused),
        cmocka_unit_test(new_blocks_are_zeroed_where_precisions_mix),
        cmocka_unit_test(loaded_blocks_may_be_left_alone),
        cmocka_unit_test(what_a_failed_load_left_is_zeroed),
        cmocka_unit_test(a_window_tells_its_null_blocks_too),
        cmocka_unit_test(nothing_is_zeroed_where_precisions_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
