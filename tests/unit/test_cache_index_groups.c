/* test_cache_index_groups.c  The tree of runs finds the content of several groups as the index of
 * keys does: two caches of one plan get the same work. PKV_SEED, PKV_RANDOM_OPS: twin_cache.h. */
#include "twin_index.h"

enum { LEN = 320 };

static void run_groups(const pkv_spec *layers, size_t n, uint64_t n_blocks)
{
    const pkv_plan_params params = blocks_for(layers, n, n_blocks, LEN);
    run_indices(&params);
}

static void a_window_beside_full_attention_finds_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(40)};
    run_groups(layers, 2, 80);
}

static void windows_before_full_attention_find_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(32), windowed(64), full()};
    run_groups(layers, 3, 120);
}

/* Five windows to a layer of full attention, as in many models: groups of one spec. */
static void groups_of_one_spec_find_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(32), windowed(32), full(), windowed(32), windowed(32)};
    const pkv_plan_params params = blocks_for(layers, 5, 160, LEN);
    pkv_plan *plan = plan_of(&params);
    assert_true(n_groups(plan) > 2);
    pkv_plan_destroy(plan);
    run_indices(&params);
}

static void chunks_beside_full_attention_find_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), chunked(48)};
    run_groups(layers, 2, 80);
}

static void all_kinds_together_find_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {chunked(32), windowed(20), full(), ring_of(16, 2048)};
    run_groups(layers, 4, 120);
}

static void latent_windows_find_the_same(void **state)
{
    (void)state;
    pkv_spec spec = latent(16, 576);
    spec.kind = PKV_KIND_SLIDING_WINDOW_MLA;
    spec.sliding_window = 48;
    const pkv_spec layers[] = {latent(16, 576), finished(spec)};
    run_groups(layers, 2, 80);
}

static void a_drafter_that_drops_blocks_finds_the_same(void **state)
{
    (void)state;
    const pkv_spec one[] = {full(), windowed(40)}, two[] = {windowed(20), full(), windowed(64)};
    const pkv_plan_params params = with_drop(blocks_for(one, 2, 160, LEN)),
                          more = with_drop(blocks_for(two, 3, 240, LEN));
    run_indices(&params);
    run_indices(&more);
}

static void keys_that_look_ahead_are_found_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(40)};
    run_looking_ahead(blocks_for(layers, 2, 160, LEN));
}

/* Blocks of a window that no request can resume from have no name, but their units have a place. */
static void sparse_windows_find_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(32), full()};
    pkv_plan_params params = blocks_for(layers, 2, 200, LEN);
    params.retention_interval = 0;
    run_indices(&params);
    params.retention_interval = 64;
    run_indices(&params);
}

/* ---- what it is not for ---- */

static void assert_keys_alone(const pkv_spec *layers, size_t n)
{
    pkv_cache_params params = cache_params_of(NULL, NULL);
    const pkv_plan_params plan = blocks_for(layers, n, 60, LEN);
    for (uint32_t index = PKV_INDEX_TOKENS; index <= PKV_INDEX_CHAINS; index += 2) {
        params.index = index;
        assert_no_cache_with(&plan, params, PKV_E_UNSUPPORTED, "caching in blocks of one size");
    }
    end_cache(cache_of(&plan));
}

/* A window that is left of a long prompt would keep all that names it. */
static void windows_alone_are_found_by_keys(void **state)
{
    (void)state;
    const pkv_spec window[] = {windowed(32)}, windows[] = {windowed(32), windowed(64)},
                   chunks[] = {chunked(64)};
    assert_keys_alone(window, 1);
    assert_keys_alone(windows, 2);
    assert_keys_alone(chunks, 1);
}

static void blocks_of_two_sizes_are_found_by_keys(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(16, 8), windowed_of(64, 32, 4)};
    assert_keys_alone(layers, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_beside_full_attention_finds_the_same),
        cmocka_unit_test(windows_before_full_attention_find_the_same),
        cmocka_unit_test(groups_of_one_spec_find_the_same),
        cmocka_unit_test(chunks_beside_full_attention_find_the_same),
        cmocka_unit_test(all_kinds_together_find_the_same),
        cmocka_unit_test(latent_windows_find_the_same),
        cmocka_unit_test(a_drafter_that_drops_blocks_finds_the_same),
        cmocka_unit_test(keys_that_look_ahead_are_found_the_same),
        cmocka_unit_test(sparse_windows_find_the_same),
        cmocka_unit_test(windows_alone_are_found_by_keys),
        cmocka_unit_test(blocks_of_two_sizes_are_found_by_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
