/* test_cache_checkpoints.c  Which states are kept for later requests: checkpoints inside a step,
 * retention, and where a prefix that several requests share ends. */
#include "state_fixture.h"

/* ---- checkpoints inside a step ---- */

/* Blocks of 64 tokens, keys of 16, one block for a checkpoint at multiples of `alignment`. */
static pkv_cache *checkpoint_cache(uint64_t alignment, bool sparse)
{
    return state_cache((state_model){.block = 64,
                                     .unit = 16,
                                     .n_blocks = 60,
                                     .len = 640,
                                     .checkpoints = 1,
                                     .checkpoint_alignment = alignment,
                                     .sparse = sparse});
}

static void a_step_leaves_the_state_from_which_its_prompt_can_resume(void **state)
{
    (void)state;
    pkv_cache *cache = checkpoint_cache(16, false);
    pkv_seq *seq = run_n(cache, 200); /* the last unit that leaves a token: 199 / 16 x 16 = 192 */
    assert_table(seq, 0, "1..4");
    assert_table(seq, 1, "0 0 5 6"); /* the checkpoint in the last block but one */
    assert_keys(cache, seq, 1, "0 0 192 0");
    pkv_cache_step(cache);
    assert_int_equal(resend(cache, 200), 192);
    assert_hit(cache, 1, "0 0 5");
    end_cache(cache);
}

static void a_checkpoint_may_be_of_a_position_that_lies_in_the_next_block(void **state)
{
    (void)state;
    pkv_cache *cache = checkpoint_cache(16, false);
    pkv_seq *seq = run_n(cache, 220); /* 219 / 16 x 16 = 208, inside the fourth block */
    assert_table(seq, 1, "0 0 5 6");
    assert_keys(cache, seq, 1, "0 0 208 0"); /* not 192, where the block of the table ends */
    pkv_cache_step(cache);
    pkv_seq *again = open_n(cache, 220);
    assert_int_equal(lookup(again), 208);
    assert_hit(cache, 0, "1..4");
    assert_hit(cache, 1, "0*3 5"); /* now it stands where its tokens are */
    const pkv_allocate_result result = take(again, 12);
    assert_copies(&result, "4>7 5>8");
    end_cache(cache);
}

/* The table and the keys of the states after one step of n tokens of a longer prompt. */
static void assert_step(uint64_t unit, uint64_t alignment, uint64_t n, const char *table,
                        const char *keys)
{
    pkv_cache *cache = state_cache((state_model){.block = 64,
                                                 .unit = unit,
                                                 .n_blocks = 60,
                                                 .len = 640,
                                                 .checkpoints = 1,
                                                 .checkpoint_alignment = alignment});
    pkv_seq *seq = open_n(cache, 600);
    (void)take(seq, n);
    assert_table(seq, 1, table);
    assert_keys(cache, seq, 1, keys);
    end_cache(cache);
}

static void a_checkpoint_that_nobody_would_look_for_is_dropped(void **state)
{
    (void)state;
    /* 191 / 16 x 16 = 176 is neither a block's end nor the prompt's: its block has no key */
    assert_step(16, 16, 192, "0 4 5", "0 0 192");
    /* 127 / 16 x 16 = 112 neither; what was the end of its block, 64, lies there no longer */
    assert_step(16, 16, 128, "3 4", "0 128");
    /* 191 / 64 x 64 = 128 is the end of a block, which is kept */
    assert_step(0, 64, 192, "0 4 5", "0 128 192");
}

static void a_backend_that_cannot_export_there_leaves_no_checkpoint(void **state)
{
    (void)state;
    assert_step(16, 64, 192, "0 0 4", "0 0 192");   /* 176 is no multiple of 64 */
    assert_step(0, 0, 192, "0 0 4", "0 0 192");     /* none at all */
    assert_step(0, 128, 192, "0 4 5", "0 128 192"); /* 128 is one of 128 */
    assert_step(16, 16, 64, "2", "64");             /* a single block has no room for two states */
}

static void without_a_block_for_it_there_is_no_checkpoint(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){
        .block = 64, .unit = 16, .n_blocks = 60, .len = 640, .checkpoint_alignment = 16});
    pkv_seq *seq = run_n(cache, 200);
    assert_table(seq, 1, "0*3 5");
    assert_int_equal(resend(cache, 200), 0);
    end_cache(cache);
}

static void a_sparse_cache_leaves_a_checkpoint_only_at_the_end_of_the_prompt(void **state)
{
    (void)state;
    pkv_cache *cache = checkpoint_cache(16, true);
    pkv_seq *seq = open_n(cache, 400);
    (void)take(seq, 128);
    assert_table(seq, 1, "0 3");
    assert_keys(cache, seq, 1, "0 0");
    pkv_cache_step(cache);
    (void)take(seq, 272); /* 399 / 16 x 16 = 384 = 128 + 16 x 16, in the last of 7 but one */
    assert_table(seq, 1, "0 3 0*3 9 10");
    assert_keys(cache, seq, 1, "0 0 0 0 0 384 0");
    pkv_cache_step(cache);
    assert_int_equal(resend(cache, 400), 384);
    end_cache(cache);
}

static void a_resumed_request_has_its_checkpoint_at_the_end_of_all_its_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = checkpoint_cache(16, true);
    pkv_seq *seq = run_n(cache, 100);
    append(seq, 7, 200);
    pkv_block all[60];
    for (pkv_block b = 0; b < 60; b++) {
        all[b] = b;
    }
    assert_ok(pkv_seq_preempt(seq));
    assert_ok(pkv_cache_evict(cache, all, 60)); /* nothing can be found: it begins anew */
    pkv_cache_step(cache);
    (void)take(seq, 192); /* beyond the prompt, but of 299 tokens to be computed again */
    assert_keys(cache, seq, 1, "0 0 0");
    uint64_t n;
    assert_int_equal(pkv_seq_table(seq, 1, &n)[1], 0);
    pkv_cache_step(cache);
    (void)take(seq, 108); /* now it ends: a block for 299 / 16 x 16 = 288, but nobody's prompt */
    assert_int_equal(pkv_seq_table(seq, 1, &n)[3] != 0, 1);
    assert_keys(cache, seq, 1, "0 0 0 0 0");
    end_cache(cache);
}

static void a_drafter_resumes_a_unit_earlier(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 64,
                                                 .unit = 16,
                                                 .n_blocks = 60,
                                                 .len = 640,
                                                 .checkpoints = 1,
                                                 .checkpoint_alignment = 16,
                                                 .drafter = true});
    pkv_seq *seq = run_n(cache, 130); /* 130 / 16 x 16 - 16 = 112 */
    assert_table(seq, 1, "0 4 5");
    assert_keys(cache, seq, 1, "0 112 0"); /* not 128, though its block of the table ends there */
    pkv_cache_step(cache);
    assert_int_equal(resend(cache, 130), 112);
    assert_hit(cache, 1, "0 4");
    close_seq(seq);
    seq = run_tokens(cache, diverging(0), 176);
    assert_int_equal(key_of(cache, pkv_seq_table(seq, 0, &(uint64_t){0})[2]), 176);
    pkv_cache_step(cache);
    /* full attention knows 176 tokens and gives up 16; the state after 160 is there */
    assert_int_equal(lookup(open_tokens(cache, diverging(0), 177)), 160);
    end_cache(cache);
}

static void a_checkpoint_where_a_shared_prefix_ends_is_kept(void **state)
{
    (void)state;
    pkv_cache *cache = checkpoint_cache(16, false);
    (void)run_n(cache, 60); /* in one block: no state is left, but full attention has 48 */
    pkv_seq *first = run_tokens(cache, counting(), 150); /* 149 / 16 x 16 = 144 */
    uint64_t n;
    const pkv_block kept = pkv_seq_table(first, 1, &n)[1];
    assert_int_equal(key_of(cache, kept), 144);
    assert_ok(pkv_cache_evict(cache, &kept, 1)); /* only full attention has 144 now */
    pkv_cache_step(cache);
    pkv_seq *second = open_tokens(cache, diverging(150), 400);
    pkv_hit hit;
    assert_ok(pkv_seq_lookup(second, &hit));
    assert_int_equal(hit.tokens, 0);
    assert_int_equal(hit.shared_prefix, 144);
    (void)take(second, 160); /* 159 / 16 x 16 = 144: not the prompt's end, but the junction */
    assert_keys(cache, second, 1, "0 144 0");
    pkv_cache_step(cache);
    assert_int_equal(lookup(open_tokens(cache, diverging(150), 400)), 144);
    end_cache(cache);
}

/* ---- retention ---- */

/* How many keys a prompt of 264 tokens leaves, in steps of 64, if others came before it. */
static uint64_t keys_of_prompt(pkv_cache *cache, const int32_t *tokens)
{
    const uint64_t before = keys_in(cache);
    pkv_seq *seq = open_tokens(cache, tokens, 264);
    (void)take(seq, 64);
    run_in_chunks(cache, seq, 264, 64);
    pkv_cache_step(cache);
    return keys_in(cache) - before;
}

static void retention_0_keeps_states_of_prompts_and_junctions_only(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 64, .n_blocks = 60, .len = 640, .sparse = true});
    /* full attention 4; of the states the one from which the prompt resumes: 263 / 64 x 64 = 256 */
    assert_int_equal(keys_of_prompt(cache, counting()), 4 + 1);
    assert_int_equal(resend(cache, 264), 256);
    assert_int_equal(resend(cache, 200), 0);
    /* shares 130 tokens, of which full attention knows 128: the junction is kept beside 256 */
    assert_int_equal(keys_of_prompt(cache, diverging(130)), 2 + 2);
    pkv_seq *third = open_tokens(cache, diverging(130), 140);
    assert_int_equal(lookup(third), 128);
    end_cache(cache);
}

static void dense_retention_keeps_the_state_of_every_block_that_a_step_ends(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 64, .n_blocks = 60, .len = 640});
    assert_int_equal(keys_of_prompt(cache, counting()), 4 + 4);
    assert_int_equal(resend(cache, 200), 192);
    assert_int_equal(resend(cache, 192), 128);
    end_cache(cache);
}

static void an_interval_keeps_one_state_of_each_segment(void **state)
{
    (void)state;
    const state_model m = {.block = 64, .n_blocks = 60, .len = 640};
    const pkv_spec layers[] = {full_of(64, 8), states_of(&m)};
    pkv_plan_params params = state_plan(&m, layers, 2);
    params.retention_interval = 128;
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(keys_of_prompt(cache, counting()), 4 + 2); /* 128 and 256 */
    assert_int_equal(resend(cache, 200), 128);
    end_cache(cache);
}

static void case_29_a_prompt_is_found_if_a_step_ends_where_it_can_resume(void **state)
{
    (void)state;
    const uint64_t prompts[] = {32, 48, 31, 33}, reused[] = {16, 32, 16, 32};
    for (size_t i = 0; i < COUNT(prompts); i++) {
        const uint64_t n = prompts[i], stop = (n - 1) / 16 * 16;
        pkv_cache *cache = state_cache(
            (state_model){.block = 16, .n_blocks = 40, .len = 320, .sparse = i % 2 == 1});
        pkv_seq *seq = open_n(cache, n);
        (void)take(seq, stop); /* the scheduler's part: one stop at the last such boundary */
        run_in_chunks(cache, seq, n, n - stop);
        assert_int_equal(resend(cache, n), reused[i]);
        end_cache(cache);
    }
}

static void case_29_with_a_checkpoint_no_step_has_to_end_there(void **state)
{
    (void)state;
    const uint64_t prompts[] = {32, 48, 31, 33}, reused[] = {16, 32, 16, 32};
    for (size_t i = 0; i < COUNT(prompts); i++) {
        pkv_cache *cache = state_cache((state_model){
            .block = 16, .n_blocks = 40, .len = 320, .checkpoints = 1, .checkpoint_alignment = 16});
        (void)run_n(cache, prompts[i]);
        pkv_cache_step(cache);
        assert_int_equal(resend(cache, prompts[i]), reused[i]);
        end_cache(cache);
    }
}

/* ---- shared prefixes and a drafter ---- */

/* Full attention of a first request of 166 tokens is keyed up to 160, and a drafter gives up a unit
 * of it: 144 is shared by whoever diverges at 165. Whether a second request, whose step ends there,
 * leaves its state for a third. */
static uint64_t hit_of_the_third(bool checkpoint, bool drafter)
{
    pkv_cache *cache = state_cache((state_model){.block = 64,
                                                 .unit = 16,
                                                 .n_blocks = 60,
                                                 .len = 640,
                                                 .drafter = drafter,
                                                 .shared_prefix_checkpoint = checkpoint});
    (void)run_n(cache, 166);
    pkv_cache_step(cache);
    pkv_seq *second = open_tokens(cache, diverging(165), 300);
    pkv_hit hit;
    assert_ok(pkv_seq_lookup(second, &hit));
    assert_int_equal(hit.tokens, 0);
    assert_int_equal(hit.shared_prefix, drafter ? 144 : 160);
    (void)take(second, hit.shared_prefix);
    run_in_chunks(cache, second, 192, 192 - hit.shared_prefix); /* then to the end of the block */
    run_in_chunks(cache, second, 300, 108);
    pkv_cache_step(cache);
    const uint64_t found = lookup(open_tokens(cache, diverging(165), 180));
    end_cache(cache);
    return found;
}

static void a_shared_prefix_leaves_its_state_if_that_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(hit_of_the_third(true, true), 144);
    assert_int_equal(hit_of_the_third(false, true), 0);
    assert_int_equal(hit_of_the_third(true, false), 0); /* for drafters only */
}

static void a_junction_that_was_passed_is_not_keyed_afterwards(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 64,
                                                 .unit = 16,
                                                 .n_blocks = 60,
                                                 .len = 640,
                                                 .drafter = true,
                                                 .shared_prefix_checkpoint = true});
    (void)run_n(cache, 166);
    pkv_cache_step(cache);
    pkv_seq *second = open_tokens(cache, diverging(165), 300);
    (void)take(second, 160); /* beyond the junction at 144 */
    assert_ok(pkv_seq_cache(second, 144));
    assert_keys(cache, second, 1, "0 0 0"); /* its state has been written over */
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_leaves_the_state_from_which_its_prompt_can_resume),
        cmocka_unit_test(a_checkpoint_may_be_of_a_position_that_lies_in_the_next_block),
        cmocka_unit_test(a_checkpoint_that_nobody_would_look_for_is_dropped),
        cmocka_unit_test(a_backend_that_cannot_export_there_leaves_no_checkpoint),
        cmocka_unit_test(without_a_block_for_it_there_is_no_checkpoint),
        cmocka_unit_test(a_sparse_cache_leaves_a_checkpoint_only_at_the_end_of_the_prompt),
        cmocka_unit_test(a_resumed_request_has_its_checkpoint_at_the_end_of_all_its_tokens),
        cmocka_unit_test(a_drafter_resumes_a_unit_earlier),
        cmocka_unit_test(a_checkpoint_where_a_shared_prefix_ends_is_kept),
        cmocka_unit_test(retention_0_keeps_states_of_prompts_and_junctions_only),
        cmocka_unit_test(dense_retention_keeps_the_state_of_every_block_that_a_step_ends),
        cmocka_unit_test(an_interval_keeps_one_state_of_each_segment),
        cmocka_unit_test(case_29_a_prompt_is_found_if_a_step_ends_where_it_can_resume),
        cmocka_unit_test(case_29_with_a_checkpoint_no_step_has_to_end_there),
        cmocka_unit_test(a_shared_prefix_leaves_its_state_if_that_is_asked_for),
        cmocka_unit_test(a_junction_that_was_passed_is_not_keyed_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
