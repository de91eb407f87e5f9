/* test_cache_connector.c  What a connector's hit is good for, and keys without number. */
#include "state_fixture.h"

static pkv_block last_state(const pkv_seq *seq)
{
    uint64_t n;
    const pkv_block *ids = pkv_seq_table(seq, 1, &n);
    assert_true(n > 0);
    return ids[n - 1];
}

/* 96 tokens are cached in full attention, but their state is lost. */
static pkv_cache *cache_without_the_state(void)
{
    pkv_cache *cache = state_cache((state_model){.block = 32, .n_blocks = 40, .len = 200});
    pkv_seq *seq = open_n(cache, 97);
    (void)take(seq, 96);
    const pkv_block state = last_state(seq);
    close_seq(seq);
    pkv_cache_step(cache);
    assert_ok(pkv_cache_evict(cache, &state, 1));
    return cache;
}

static void a_diverged_hit_is_taken_with_the_state_that_is_loaded(void **state)
{
    (void)state;
    pkv_cache *cache = cache_without_the_state();
    pkv_seq *seq = open_n(cache, 129);
    pkv_allocate_params params = new_tokens(0);
    pkv_allocate_result result;
    pkv_hit hit;
    bool diverged;
    assert_ok(pkv_seq_lookup_for_connector(seq, &hit, &diverged));
    assert_true(hit.tokens == 96 && diverged);
    params.use_cached = 3;
    params.external_tokens = 32; /* 96 + 32 = 128: four blocks of full attention, three found */
    params.delay_caching = 1;
    assert_ok(pkv_seq_allocate(seq, &params, &result));
    assert_int_equal(result.cached_tokens, 96);
    assert_int_equal(info_of(seq).computed, 128);
    uint64_t n;
    (void)pkv_seq_table(seq, 0, &n);
    assert_int_equal(n, 4);
    (void)pkv_seq_table(seq, 1, &n);
    assert_int_equal(n, 4); /* null, null, null, the state at 128 */
    assert_true(last_state(seq) != PKV_BLOCK_NULL);
    assert_sound(cache);
    end_cache(cache);
}

static void without_a_connector_the_same_request_hits_nothing(void **state)
{
    (void)state;
    pkv_cache *cache = cache_without_the_state();
    pkv_seq *seq = open_n(cache, 129);
    assert_int_equal(lookup(seq), 0);
    (void)take(seq, 129);
    assert_int_equal(info_of(seq).computed, 129);
    end_cache(cache);
}

/* Blocks of 128 tokens and keys of 2: prompts of 63 lengths end inside the block that all share. */
static void a_block_has_a_key_for_every_prompt_that_ended_in_it(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 128, .unit = 2, .n_blocks = 10, .len = 200});
    pkv_seq *first = open_n(cache, 128);
    (void)take(first, 128);
    close_seq(first);
    pkv_cache_step(cache);
    for (uint64_t prompt = 3; prompt < 129; prompt += 2) {
        pkv_seq *seq = open_n(cache, prompt);
        assert_ok(pkv_seq_append(seq, counting() + prompt, 129 - prompt));
        const uint64_t hit = lookup(seq);
        (void)take(seq, 129 - hit);
        close_seq(seq);
        pkv_cache_step(cache);
        assert_sound(cache);
    }
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diverged_hit_is_taken_with_the_state_that_is_loaded),
        cmocka_unit_test(without_a_connector_the_same_request_hits_nothing),
        cmocka_unit_test(a_block_has_a_key_for_every_prompt_that_ended_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
