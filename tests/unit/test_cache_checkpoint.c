/* test_cache_checkpoint.c  Checkpoints of recurrent layers whose step is keyed later. */
#include "seq_fixture.h"

/* Keys of 16 tokens, states of blocks of 32, and one checkpoint per step. */
static pkv_cache *checkpoint_cache(void)
{
    pkv_spec layers[] = {full(), recurrent(32)};
    layers[1].mamba_mode = PKV_MAMBA_ALIGN;
    layers[1].num_prefill_checkpoint_blocks = 1;
    layers[1].prefill_checkpoint_alignment = 16;
    layers[1] = finished(layers[1]);
    const pkv_plan_params params = blocks_for(layers, 2, 60, 160);
    return cache_of(&params);
}

/* The state of the first 112 of 120 tokens lies in entry 2; nothing is keyed. */
static pkv_seq *loading(pkv_cache *cache)
{
    pkv_seq *seq = open_n(cache, 120);
    pkv_allocate_params params = new_tokens(120);
    params.delay_caching = 1;
    (void)allocate(seq, params);
    return seq;
}

static uint64_t keyed_at(const pkv_cache *cache, const pkv_seq *seq, size_t entry)
{
    uint64_t n;
    const pkv_block *ids = pkv_seq_table(seq, 1, &n);
    assert_true(entry < n);
    return pkv_pool_block_tokens(pkv_cache_get_pool(cache), ids[entry]);
}

static void a_checkpoint_is_keyed_with_the_tokens_before_it(void **state)
{
    (void)state;
    pkv_cache *cache = checkpoint_cache();
    pkv_seq *seq = loading(cache);
    assert_ok(pkv_seq_cache(seq, 64));
    assert_int_equal(keyed_at(cache, seq, 2), 0);
    assert_ok(pkv_seq_cache(seq, 120));
    assert_int_equal(keyed_at(cache, seq, 2), 112);
    end_cache(cache);
}

static void a_checkpoint_beyond_a_rollback_is_forgotten(void **state)
{
    (void)state;
    pkv_cache *cache = checkpoint_cache();
    pkv_seq *seq = loading(cache);
    assert_ok(pkv_seq_set_computed(seq, 64)); /* the load failed there */
    assert_ok(pkv_seq_cache(seq, 64));
    assert_int_equal(keyed_at(cache, seq, 2), 0);
    (void)take(seq, 56);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_is_keyed_with_the_tokens_before_it),
        cmocka_unit_test(a_checkpoint_beyond_a_rollback_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
