/* test_cache_quiet.c  Steps that only count, and what must not be passed over by them. */
#include "seq_fixture.h"

/* One token more, in a batch of one. */
static pkv_allocate_result advance(pkv_cache *cache, pkv_seq *seq)
{
    const int32_t token = 1;
    const pkv_step step = {seq, &token, 1, PKV_STEP_KEEP};
    pkv_allocate_result out;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, &step, 1, 0, &out, &done));
    assert_int_equal(done, 1);
    return out;
}

static void a_gap_that_a_hit_has_brought_goes_with_the_next_step(void **state)
{
    (void)state;
    pkv_spec spec = shaped(PKV_KIND_RSWA, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.rswa_window = 16;
    const pkv_spec layers[] = {finished(spec)};
    const pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    pkv_cache *cache = cache_of(&params);
    (void)run_n(cache, 66); /* its prompt is in use and stays */
    pkv_seq *seq = open_n(cache, 16);
    assert_ok(pkv_seq_append(seq, counting() + 16, 50));
    (void)take(seq, 2);
    assert_table(seq, 0, "1..4 6"); /* the hit is 64 tokens, of which 16..49 are out of view */
    (void)advance(cache, seq);
    assert_table(seq, 0, "1 0*2 4 6");
    end_cache(cache);
}

/* A full group and a recurrent one of blocks of that many tokens. */
static pkv_cache *state_cache(uint64_t full_block, uint64_t state_block, uint64_t unit)
{
    pkv_spec layers[] = {full_of(full_block, 8), recurrent(state_block)};
    layers[1].mamba_mode = PKV_MAMBA_ALIGN;
    layers[1] = finished(layers[1]);
    pkv_plan_params params = blocks_for(layers, 2, 60, 160);
    params.prefix_match_unit = unit;
    return cache_of(&params);
}

static void the_key_of_a_prompt_s_end_comes_back_after_an_eviction(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache(32, 32, 16);
    pkv_seq *seq = run_n(cache, 18);
    uint64_t n;
    assert_int_equal(keys_in(cache), 1); /* of 16 tokens, inside a block of 32 */
    assert_ok(pkv_cache_evict(cache, pkv_seq_table(seq, 0, &n), 1));
    assert_int_equal(keys_in(cache), 0);
    (void)advance(cache, seq);
    assert_int_equal(keys_in(cache), 1);
    end_cache(cache);
}

static void a_state_that_was_keyed_between_steps_is_copied(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache(16, 32, 0);
    pkv_seq *seq = run_n(cache, 20);
    assert_ok(pkv_seq_cache(seq, 16)); /* of the block that the next step writes into */
    assert_int_equal(advance(cache, seq).n_copies, 1);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_that_a_hit_has_brought_goes_with_the_next_step),
        cmocka_unit_test(the_key_of_a_prompt_s_end_comes_back_after_an_eviction),
        cmocka_unit_test(a_state_that_was_keyed_between_steps_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
