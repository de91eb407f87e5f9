/* test_seq_ranks.c  Context parallel ranks: one block id stands for a block on each. */
#include "seq_fixture.h"

/* Two ranks, 16 tokens per block and rank: 32 per block. */
static pkv_cache *two_ranks(event_log *log)
{
    const pkv_spec layers[] = {full()};
    pkv_plan_params params = blocks_for(layers, 1, 20, 320);
    params.dcp = 2;
    return watched_cache(&params, 0, log);
}

static void row_144_a_block_spans_all_ranks(void **state)
{
    (void)state;
    pkv_cache *cache = two_ranks(NULL);
    assert_int_equal(pkv_cache_group_at(cache, 0)->block_size, 16);
    assert_int_equal(pkv_cache_group_at(cache, 0)->span, 32);
    assert_int_equal(pkv_cache_get_info(cache)->unit, 32);
    pkv_seq *seq = run_n(cache, 100);
    assert_table(seq, 0, "1..4"); /* ceil(100 / 32) */
    close_seq(seq);
    assert_int_equal(resend(cache, 100), 96);
    end_cache(cache);
}

static void row_155_a_rank_has_slots_for_its_own_positions(void **state)
{
    (void)state;
    pkv_cache *cache = two_ranks(NULL);
    pkv_seq *seq = run_n(cache, 64);
    int64_t slots[64];
    assert_ok(pkv_seq_slots(seq, 0, 32, 4, 1, 1, slots));
    /* position 33: odd, rank 1; place 0 of block index 1, which is block 2 */
    const int64_t odd[] = {-1, 2 * 16 + 0, -1, 2 * 16 + 1};
    assert_memory_equal(slots, odd, sizeof odd);
    assert_ok(pkv_seq_slots(seq, 0, 32, 4, 0, 1, slots));
    const int64_t even[] = {32, -1, 33, -1};
    assert_memory_equal(slots, even, sizeof even);
    assert_status(pkv_seq_slots(seq, 0, 32, 4, 2, 1, slots), PKV_E_INVAL);
    assert_status(pkv_seq_slots(seq, 0, 32, 4, 0, 3, slots), PKV_E_INVAL); /* 16 % 3 */
    end_cache(cache);
}

static void every_position_has_one_slot_on_one_rank(void **state)
{
    (void)state;
    static const uint64_t interleaves[] = {1, 2, 4, 8, 16};
    pkv_cache *cache = two_ranks(NULL);
    pkv_seq *seq = run_n(cache, 96);
    for (size_t k = 0; k < COUNT(interleaves); k++) {
        int64_t slots[2][96];
        bool used[2][4 * 16] = {{false}};
        for (uint32_t rank = 0; rank < 2; rank++) {
            assert_ok(pkv_seq_slots(seq, 0, 0, 96, rank, interleaves[k], slots[rank]));
        }
        for (uint64_t p = 0; p < 96; p++) {
            const uint32_t rank = (uint32_t)(p / interleaves[k] % 2); /* dealt out in runs */
            assert_int_equal(slots[1 - rank][p], -1);
            const int64_t slot = slots[rank][p];
            assert_int_equal(slot / 16, (int64_t)(p / 32 + 1)); /* tables are 1, 2, 3 */
            assert_false(used[rank][slot]);
            used[rank][slot] = true;
        }
    }
    end_cache(cache);
}

static void rows_of_ranks_keep_what_lies_below_a_window(void **state)
{
    (void)state;
    pkv_spec layer = windowed(32);
    layer.dcp_sharded = 0; /* each rank holds all of it */
    const pkv_spec layers[] = {finished(layer)};
    pkv_plan_params params = blocks_for(layers, 1, 30, 256);
    params.dcp = 2;
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_group_at(cache, 0)->span, 16);
    pkv_seq *seq = run_n(cache, 160);
    append(seq, 1, 1);
    pkv_allocate_params step = new_tokens(1);
    step.in_flight_tokens = 160; /* nothing is released */
    (void)allocate(seq, step);
    int32_t row[16];
    assert_ok(pkv_seq_row(seq, 0, row, 16, NULL, NULL));
    assert_int_equal(row[0], 1); /* kv-core 5.6: replaced only without context parallelism */
    end_cache(cache);
}

static void case_95_external_tokens_fill_blocks_of_all_ranks(void **state)
{
    (void)state;
    pkv_cache *cache = two_ranks(NULL);
    pkv_seq *seq = open_n(cache, 40);
    pkv_allocate_params params = new_tokens(0);
    params.external_tokens = 32;
    params.delay_caching = 1;
    (void)allocate(seq, params);
    assert_table(seq, 0, "1"); /* ceil(32 / (16 x 2)) */
    end_cache(cache);
}

/* As vLLM clips tables: by the block of one rank (kv-core 5.5), so rather too many. */
static void tables_are_clipped_by_the_block_of_one_rank(void **state)
{
    (void)state;
    pkv_cache *cache = two_ranks(NULL);
    pkv_seq *seq = run_n(cache, 100);
    assert_int_equal(pkv_seq_blocks_of(seq, 0, 16), 1);
    assert_int_equal(pkv_seq_blocks_of(seq, 0, 32), 2);
    assert_int_equal(pkv_seq_blocks_of(seq, 0, 100), 4); /* the whole table */
    end_cache(cache);
}

static void case_93_events_tell_blocks_of_all_ranks(void **state)
{
    (void)state;
    static event_log log;
    log.n = 0;
    pkv_cache *cache = two_ranks(&log);
    (void)run_n(cache, 100);
    assert_stored(&log, 0, 0, 3, 0, 96);
    assert_int_equal(log.at[0].block_size, 32);
    assert_int_equal(log.at[0].positions[2], 64);
    end_cache(cache);
}

static void case_93_a_report_of_a_hit_tells_them_too(void **state)
{
    (void)state;
    static event_log log;
    log.n = 0;
    pkv_cache *cache = two_ranks(&log);
    warm(cache, 100);
    pkv_seq_params params = seq_params_of(counting(), 100);
    pkv_seq *seq;
    params.report_reused = 1;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    log.n = 0;
    (void)take(seq, 4);
    assert_stored(&log, 0, 0, 3, 0, 96);
    assert_int_equal(log.at[0].block_size, 32);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_144_a_block_spans_all_ranks),
        cmocka_unit_test(row_155_a_rank_has_slots_for_its_own_positions),
        cmocka_unit_test(every_position_has_one_slot_on_one_rank),
        cmocka_unit_test(rows_of_ranks_keep_what_lies_below_a_window),
        cmocka_unit_test(case_95_external_tokens_fill_blocks_of_all_ranks),
        cmocka_unit_test(tables_are_clipped_by_the_block_of_one_rank),
        cmocka_unit_test(case_93_events_tell_blocks_of_all_ranks),
        cmocka_unit_test(case_93_a_report_of_a_hit_tells_them_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
