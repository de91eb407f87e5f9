/* test_cache_field_cases_more.c  Field cases 23 and 34 with recurrent layers, and 94 and 98: what a
 * connector may think is computed, or stored. */
#include "state_fixture.h"

static void case_23_what_is_matched_is_claimed_before_a_block_is_looked_for(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 64, .unit = 16, .n_blocks = 14, .len = 640});
    pkv_seq *first = open_n(cache, 98), *other = open_tokens(cache, diverging(0), 128);
    (void)take(first, 96);  /* full 1 and 2, the state after 96 in 3 */
    (void)take(other, 128); /* 4, 5; 6 */
    (void)take(open_tokens(cache, diverging(1), 384), 384); /* 7..12; 13: nothing is left */
    pkv_cache_step(cache);
    close_seq(first);
    close_seq(other);
    assert_free_list(cache, "2 1 3 5 4 6"); /* the match is at the front, other content behind */
    pkv_seq *again = open_tokens(cache, diverging(98), 128);
    const pkv_allocate_result result = take(again, 32);
    assert_copies(&result, "2>5 3>4"); /* not into the slot of the match itself */
    assert_table(again, 0, "1 5");
    assert_table(again, 1, "0 4");
    assert_int_equal(key_of(cache, 2), 96);
    assert_int_equal(key_of(cache, 3), 96);
    assert_sound(cache);
    pkv_cache_step(cache);
    assert_int_equal(resend(cache, 98), 96);
    assert_int_equal(lookup(open_tokens(cache, diverging(0), 128)), 0); /* 4 and 5 have gone */
    end_cache(cache);
}

static void case_23_with_nowhere_to_go_the_match_stays(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 64, .unit = 16, .n_blocks = 14, .len = 640});
    pkv_seq *first = open_n(cache, 98);
    (void)take(first, 96);
    (void)take(open_tokens(cache, diverging(0), 576), 576); /* 9 and 1: nothing is left */
    pkv_cache_step(cache);
    close_seq(first);
    assert_free_list(cache, "2 1 3");
    /* 1, 2 and 3 are adopted, and two more would be written */
    assert_refused(cache, open_tokens(cache, diverging(98), 128), new_tokens(32), 5, 3);
    assert_int_equal(resend(cache, 98), 96);
    end_cache(cache);
}

/* 88 layers of which 48 keep something: only these are planned, and a hit needs all their groups,
 * whatever the number of the model's layers. */
static void case_34_a_hit_is_whole_if_the_layers_that_cache_have_it(void **state)
{
    (void)state;
    const state_model m = {.block = 16, .n_blocks = 300, .len = 320};
    pkv_spec layers[48];
    for (size_t i = 0; i < COUNT(layers); i++) {
        layers[i] = i % 6 == 5 ? full() : states_of(&m); /* 8 and 40 */
    }
    const pkv_plan_params params = state_plan(&m, layers, COUNT(layers));
    pkv_plan *plan = plan_of(&params);
    uint32_t n_layers = 0;
    for (uint32_t g = 0; g < n_groups(plan); g++) {
        n_layers += pkv_plan_group_at(plan, 0, g)->n_layers;
    }
    assert_int_equal(n_layers, 48);
    assert_int_equal(n_groups(plan), 1 + 5); /* groups of 8 */
    pkv_plan_destroy(plan);
    pkv_cache *cache = state_cache_of(&m, layers, COUNT(layers));
    pkv_seq *seq = open_n(cache, 100);
    run_in_chunks(cache, seq, 100, 16);
    close_seq(seq);
    pkv_cache_step(cache);
    assert_int_equal(resend(cache, 100), 96);
    const pkv_block *ids;
    uint64_t n;
    (void)resend(cache, 100);
    ids = pkv_cache_hit_blocks(cache, 5, &n);
    const pkv_block state_of_one = ids[n - 1];
    assert_ok(pkv_cache_evict(cache, &state_of_one, 1));
    assert_int_equal(resend(cache, 100), 80); /* one group of eight layers lacks it */
    end_cache(cache);
}

/* A drafter's content depends on tokens that come later, so the last tokens are held back: those of
 * the whole prefix, and not again at the end of every chunk. */
static void case_94_chunks_of_a_prefill_leave_no_holes(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_plan_params params = blocks_for(layers, 1, 60, 640);
    params.draft_method = PKV_DRAFT_MTP_MULTI;
    params.draft_tokens = 4;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = open_n(cache, 600);
    for (uint64_t done = 64; done <= 576; done += 64) {
        (void)take(seq, 64);
        uint64_t n;
        const pkv_block *ids = pkv_seq_table(seq, 0, &n);
        const uint64_t keyed = info_of(seq).keyed / 16;
        assert_true(keyed >= done / 16 - 1); /* at most one block is held back */
        for (uint64_t i = 0; i < n; i++) {
            assert_int_equal(key_of(cache, ids[i]), i < keyed ? 16 * (i + 1) : 0);
        }
        pkv_cache_step(cache);
    }
    end_cache(cache);
}

static void case_98_lookahead_blocks_are_no_computed_tokens(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(1, 8)};
    const pkv_plan_params params = blocks_for(layers, 1, 40, 20);
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = open_n(cache, 10);
    const uint64_t chunks[] = {4, 4, 2}, computed[] = {4, 8, 10}, blocks[] = {7, 11, 13};
    for (size_t i = 0; i < COUNT(chunks); i++) {
        pkv_allocate_params step = new_tokens(chunks[i]);
        step.lookahead = 3;
        (void)allocate(seq, step);
        uint64_t n;
        (void)pkv_seq_table(seq, 0, &n);
        assert_int_equal(n, blocks[i]); /* 8 + 3 >= 10, and yet two tokens are missing */
        assert_int_equal(info_of(seq).computed, computed[i]);
        assert_int_equal(info_of(seq).computed >= info_of(seq).n_prompt_tokens, i == 2);
        assert_int_equal(pkv_seq_blocks_of(seq, 0, computed[i]), computed[i]);
        assert_int_equal(pkv_seq_cached_tokens(seq), computed[i]);
        pkv_cache_step(cache);
    }
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_23_what_is_matched_is_claimed_before_a_block_is_looked_for),
        cmocka_unit_test(case_23_with_nowhere_to_go_the_match_stays),
        cmocka_unit_test(case_34_a_hit_is_whole_if_the_layers_that_cache_have_it),
        cmocka_unit_test(case_94_chunks_of_a_prefill_leave_no_holes),
        cmocka_unit_test(case_98_lookahead_blocks_are_no_computed_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
