/* test_cache_index_states.c  The tree of runs finds recurrent states as the index of keys does: two
 * caches of one plan get the same work. PKV_SEED, PKV_RANDOM_OPS: twin_cache.h. */
#include "state_fixture.h"
#include "twin_index.h"

enum { BLOCK = 16, LEN = 320 };

/* Full attention and states, in blocks of one size. */
static void run_states(state_model m)
{
    m.block = BLOCK;
    m.len = LEN;
    m.n_blocks = 90;
    const pkv_spec layers[] = {full_of(BLOCK, 8), states_of(&m)};
    const pkv_plan_params params = state_plan(&m, layers, 2);
    run_indices_with(&params, FEW_HITS);
}

static void states_find_the_same(void **state)
{
    (void)state;
    run_states((state_model){0});
}

static void states_that_are_kept_where_requests_end_find_the_same(void **state)
{
    (void)state;
    run_states((state_model){.sparse = true});
}

static void states_with_scratch_for_drafts_find_the_same(void **state)
{
    (void)state;
    run_states((state_model){.scratch = 2});
    run_states((state_model){.scratch = 1, .sparse = true});
}

static void checkpoints_within_a_step_find_the_same(void **state)
{
    (void)state;
    run_states((state_model){.checkpoints = 1, .checkpoint_alignment = BLOCK});
    run_states((state_model){.checkpoints = 1, .checkpoint_alignment = BLOCK, .sparse = true});
}

/* A drafter gives up the end of a hit: checkpoints then lie one block lower than their place in the
 * table says. */
static void checkpoints_with_a_drafter_find_the_same(void **state)
{
    (void)state;
    run_states((state_model){.drafter = true});
    run_states((state_model){.drafter = true, .checkpoints = 1, .checkpoint_alignment = BLOCK});
    run_states((state_model){
        .drafter = true, .checkpoints = 1, .checkpoint_alignment = BLOCK, .sparse = true});
}

static void states_beside_windows_find_the_same(void **state)
{
    (void)state;
    state_model m = {.block = BLOCK, .len = LEN, .n_blocks = 140};
    const pkv_spec layers[] = {windowed(40), states_of(&m), full_of(BLOCK, 8)};
    pkv_plan_params params = state_plan(&m, layers, 3);
    run_indices_with(&params, FEW_HITS);
    params.retention_interval = 64;
    run_indices_with(&params, FEW_HITS);
}

static void keys_that_look_ahead_find_the_same_states(void **state)
{
    (void)state;
    state_model m = {.block = BLOCK, .len = LEN, .n_blocks = 160, .scratch = 3};
    const pkv_spec layers[] = {full_of(BLOCK, 8), states_of(&m)};
    run_looking_ahead(state_plan(&m, layers, 2));
}

/* Attention is shared out over two ranks, so that its blocks are as long as those of the states. */
static void states_beside_attention_over_two_ranks_find_the_same(void **state)
{
    (void)state;
    state_model m = {.block = 2 * BLOCK, .len = LEN, .n_blocks = 60};
    const pkv_spec layers[] = {full_of(BLOCK, 16), states_of(&m)};
    pkv_plan_params params = state_plan(&m, layers, 2);
    params.dcp = 2;
    run_indices_with(&params, FEW_HITS);
}

/* ---- one by one ---- */

static pkv_cache *cache_by(uint32_t index)
{
    const state_model m = {.block = BLOCK, .len = LEN, .n_blocks = 60};
    const pkv_spec layers[] = {full_of(BLOCK, 8), states_of(&m)};
    const pkv_plan_params plan = state_plan(&m, layers, 2);
    pkv_cache_params params = cache_params_of(NULL, NULL);
    params.index = index;
    return cache_with(&plan, params);
}

/* What a request for 40 tokens is told that resumes from the first 32. */
static void assert_resumes(pkv_seq *seq, pkv_status status)
{
    const pkv_allocate_params params = new_tokens(8);
    pkv_allocate_result result;
    assert_int_equal(lookup(seq), 32);
    assert_status(pkv_seq_allocate(seq, &params, &result), status);
}

/* A state that is keyed in a step is there when the step has run. */
static void nobody_resumes_in_the_step_that_writes_the_state(void **state)
{
    (void)state;
    for (uint32_t index = PKV_INDEX_TOKENS; index <= PKV_INDEX_CHAINS; index++) {
        pkv_cache *cache = cache_by(index);
        pkv_seq *first = open_n(cache, 40), *second = open_n(cache, 40);
        pkv_cache_step(cache);
        (void)take(first, 32);
        assert_resumes(second, PKV_E_NO_BLOCKS);
        assert_sound(cache);
        pkv_cache_step(cache);
        assert_resumes(second, PKV_OK);
        close_seq(first);
        close_seq(second);
        end_cache(cache);
    }
}

/* So is one whose content was keyed in the step and lost again, and then keyed once more. */
static void nobody_resumes_from_what_was_lost_meanwhile(void **state)
{
    (void)state;
    for (uint32_t index = PKV_INDEX_TOKENS; index <= PKV_INDEX_CHAINS; index++) {
        pkv_cache *cache = cache_by(index);
        pkv_cache_step(cache);
        pkv_seq *first = open_n(cache, 40);
        (void)take(first, 32);
        close_seq(first);
        assert_ok(pkv_cache_reset(cache)); /* nothing can be found any more */
        assert_sound(cache);
        close_seq(run_tokens(cache, diverging(0), 40)); /* and takes no place of what was there */
        pkv_seq *second = open_n(cache, 40), *third = open_n(cache, 40);
        (void)take(second, 32);
        assert_resumes(third, PKV_E_NO_BLOCKS);
        pkv_cache_step(cache);
        assert_resumes(third, PKV_OK);
        close_seq(second);
        close_seq(third);
        end_cache(cache);
    }
}

/* ---- what it is not for ---- */

static void assert_keys_alone(pkv_plan_params plan)
{
    pkv_cache_params params = cache_params_of(NULL, NULL);
    for (uint32_t index = PKV_INDEX_TOKENS; index <= PKV_INDEX_CHAINS; index += 2) {
        params.index = index;
        assert_no_cache_with(&plan, params, PKV_E_UNSUPPORTED, "pkv_cache_create: index");
    }
    end_cache(cache_of(&plan));
}

static void hits_inside_blocks_are_found_by_keys(void **state)
{
    (void)state;
    const state_model m = {.block = 64, .unit = 16, .len = LEN, .n_blocks = 60};
    const pkv_spec layers[] = {full_of(64, 8), states_of(&m)};
    assert_keys_alone(state_plan(&m, layers, 2));
}

/* Attention over two ranks has blocks of two units here, and hits end inside of them. */
static void hits_inside_blocks_of_all_ranks_are_found_by_keys(void **state)
{
    (void)state;
    const state_model m = {.block = BLOCK, .len = LEN, .n_blocks = 60};
    const pkv_spec layers[] = {full_of(BLOCK, 8), states_of(&m)};
    pkv_plan_params params = state_plan(&m, layers, 2);
    params.dcp = 2;
    assert_keys_alone(params);
}

/* Blocks of a window that are longer than a unit rule out hits inside blocks, but states are keyed
 * there all the same. */
static void states_of_longer_blocks_are_found_by_keys(void **state)
{
    (void)state;
    const state_model m = {.block = 32, .len = LEN, .n_blocks = 60};
    const pkv_spec layers[] = {full_of(16, 16), states_of(&m), windowed_of(64, 32, 8)};
    assert_keys_alone(state_plan(&m, layers, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_find_the_same),
        cmocka_unit_test(states_that_are_kept_where_requests_end_find_the_same),
        cmocka_unit_test(states_with_scratch_for_drafts_find_the_same),
        cmocka_unit_test(checkpoints_within_a_step_find_the_same),
        cmocka_unit_test(checkpoints_with_a_drafter_find_the_same),
        cmocka_unit_test(states_beside_windows_find_the_same),
        cmocka_unit_test(keys_that_look_ahead_find_the_same_states),
        cmocka_unit_test(states_beside_attention_over_two_ranks_find_the_same),
        cmocka_unit_test(nobody_resumes_in_the_step_that_writes_the_state),
        cmocka_unit_test(nobody_resumes_from_what_was_lost_meanwhile),
        cmocka_unit_test(hits_inside_blocks_are_found_by_keys),
        cmocka_unit_test(hits_inside_blocks_of_all_ranks_are_found_by_keys),
        cmocka_unit_test(states_of_longer_blocks_are_found_by_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
