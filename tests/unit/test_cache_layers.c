/* test_cache_layers.c  Kinds of layers that add little to another: sinks, encoder-only attention,
 * windows that are replayed. */
#include "seq_fixture.h"

/* ---- sinks ---- */

static pkv_spec sink_of(uint64_t sink_len)
{
    pkv_spec spec = shaped(PKV_KIND_SINK_FULL, 16, 8, 128, PKV_DTYPE_BFLOAT16);
    spec.sink_len = sink_len;
    return finished(spec);
}

static void a_sink_is_whole_blocks(void **state)
{
    (void)state;
    const uint64_t bad[] = {8, 24, 0};
    for (size_t i = 0; i < COUNT(bad); i++) {
        const pkv_spec layers[] = {sink_of(bad[i])};
        const pkv_plan_params plan_params = blocks_for(layers, 1, 20, 160);
        pkv_plan *plan = plan_of(&plan_params);
        const pkv_cache_params params = cache_params_of(plan, NULL);
        pkv_cache *cache = (pkv_cache *)(uintptr_t)1;
        assert_status(pkv_cache_create(&params, &cache), PKV_E_ASSERT);
        assert_error_text("pkv_cache_create", "sink_len");
        assert_null(cache);
        pkv_plan_destroy(plan);
    }
}

static void a_layer_with_a_sink_is_full_attention(void **state)
{
    (void)state;
    const pkv_spec layers[] = {sink_of(32)};
    const pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    pkv_cache *cache = cache_of(&params);
    assert_string_equal(pkv_cache_group_at(cache, 0)->event_kind, "sink_full_attention");
    pkv_seq *seq = run_n(cache, 64), *child;
    assert_table(seq, 0, "1..4"); /* rows 106 and 107, and a fork */
    assert_int_equal(resend(cache, 64), 48);
    assert_int_equal(resend(cache, 65), 64);
    assert_ok(pkv_seq_fork(seq, &child));
    assert_table(child, 0, "1..4");
    end_cache(cache);
}

/* ---- encoder-only attention ---- */

static void encoder_only_attention_keeps_nothing_and_has_no_group(void **state)
{
    (void)state;
    const pkv_spec layers[] = {
        full(), finished(shaped(PKV_KIND_ENCODER_ONLY, 16, 8, 128, PKV_DTYPE_BFLOAT16))};
    pkv_plan_params params = blocks_for(layers, 2, 20, 160);
    assert_no_plan(&params, PKV_E_VALUE, "encoder_only_attention"); /* no plan, so no cache */
    assert_int_equal(page_of(&layers[1]), page_of(&layers[0]));     /* though it has a shape */
    const pkv_limits limits = limits_of(160, 160);
    assert_int_equal(pages_held(&layers[1], &limits), 0);
}

/* ---- windows that are replayed ---- */

/* Latent attention, and a latent window of 32 that is computed again after a hit. */
static pkv_cache *replay_cache(uint8_t replayed)
{
    pkv_spec window = shaped(PKV_KIND_SLIDING_WINDOW_MLA, 16, 1, 576, PKV_DTYPE_BFLOAT16);
    window.sliding_window = 32;
    window.bounded_replay = replayed;
    const pkv_spec layers[] = {latent(16, 576), finished(window)};
    const pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_get_info(cache)->n_groups, 2);
    return cache;
}

static void a_replayed_window_is_never_keyed(void **state)
{
    (void)state;
    pkv_cache *cache = replay_cache(1);
    pkv_seq *seq = run_n(cache, 160);
    assert_table(seq, 0, "1..10");
    assert_table(seq, 1, "11..20");
    assert_int_equal(keys_in(cache), 10);
    for (pkv_block b = 1; b <= 20; b++) {
        const uint64_t tokens = pkv_pool_block_tokens(pkv_cache_get_pool(cache), b);
        assert_int_equal(tokens, b <= 10 ? 16 * (uint64_t)b : 0);
    }
    end_cache(cache);
}

static void a_replayed_window_shortens_no_hit_and_is_not_part_of_it(void **state)
{
    (void)state;
    pkv_cache *cache = replay_cache(1);
    (void)run_n(cache, 160);
    pkv_seq *again = open_n(cache, 160);
    assert_int_equal(lookup(again), 144);
    assert_hit(cache, 0, "1..9");
    assert_hit(cache, 1, "");
    (void)take(again, 16);
    assert_table(again, 0, "1..9 21");
    /* what lies below its window of the hit is null, the rest is its own to be replayed */
    assert_table(again, 1, "0*7 22..24");
    assert_sound(cache);
    close_seq(again);
    end_cache(cache);
}

static void a_replayed_window_frees_what_lies_below_it(void **state)
{
    (void)state;
    pkv_cache *caches[] = {replay_cache(0), replay_cache(1)};
    for (size_t i = 0; i < COUNT(caches); i++) {
        pkv_seq *seq = run_n(caches[i], 160);
        append(seq, 160, 1);
        (void)take(seq, 1); /* (160 - 32 + 1) / 16 = 8 */
        uint64_t n;
        const pkv_block *ids = pkv_seq_table(seq, 1, &n);
        assert_int_equal(n, 11);
        assert_int_equal(ids[7], 0);
        assert_int_equal(ids[8], 19);
        end_cache(caches[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sink_is_whole_blocks),
        cmocka_unit_test(a_layer_with_a_sink_is_full_attention),
        cmocka_unit_test(encoder_only_attention_keeps_nothing_and_has_no_group),
        cmocka_unit_test(a_replayed_window_is_never_keyed),
        cmocka_unit_test(a_replayed_window_shortens_no_hit_and_is_not_part_of_it),
        cmocka_unit_test(a_replayed_window_frees_what_lies_below_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
