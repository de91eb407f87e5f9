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

/* ---- windows alone ---- */

/* Those that keep an eighth of the longest request or more. */
static void wide_windows_alone_find_the_same(void **state)
{
    (void)state;
    const pkv_spec one[] = {windowed(64)}, two[] = {windowed(16), windowed(100)},
                   chunk[] = {chunked(48), windowed(40)};
    run_groups(one, 1, 40);
    run_groups(two, 2, 80);
    run_groups(chunk, 2, 80);
}

static void wide_windows_with_a_drafter_find_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(48), windowed(72)};
    const pkv_plan_params params = with_drop(blocks_for(layers, 2, 160, LEN));
    run_indices(&params);
    run_looking_ahead(blocks_for(layers, 2, 160, LEN));
}

/* ---- blocks of several sizes ---- */

/* With a drafter that drops blocks, and without. */
static void run_both_sizes(const pkv_spec *layers, size_t n, uint64_t n_blocks)
{
    const pkv_plan_params params = blocks_for(layers, n, n_blocks, LEN), drop = with_drop(params);
    run_sizes(&params);
    run_sizes(&drop);
}

static void longer_blocks_of_a_window_find_the_same(void **state)
{
    (void)state;
    const pkv_spec two[] = {full_of(16, 8), windowed_of(64, 32, 4)},
                   three[] = {windowed_of(40, 16, 8), full_of(16, 8), windowed_of(130, 64, 2)};
    run_both_sizes(two, 2, 80);
    run_both_sizes(three, 3, 140);
}

static void longer_blocks_of_full_attention_find_the_same(void **state)
{
    (void)state;
    const pkv_spec two[] = {full_of(32, 4), windowed_of(64, 16, 8)},
                   three[] = {windowed_of(40, 16, 8), full_of(64, 2), windowed_of(100, 32, 4)};
    run_both_sizes(two, 2, 80);
    run_both_sizes(three, 3, 140);
}

static void sparse_windows_of_longer_blocks_find_the_same(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(32, 4), windowed_of(40, 16, 8)};
    pkv_plan_params params = blocks_for(layers, 2, 100, LEN);
    params.retention_interval = 0;
    run_sizes(&params);
    params.retention_interval = 64;
    run_sizes(&params);
}

/* ---- what it is not for ---- */

static void assert_no_index(const pkv_spec *layers, size_t n, uint32_t index, const char *text)
{
    pkv_cache_params params = cache_params_of(NULL, NULL);
    const pkv_plan_params plan = blocks_for(layers, n, 60, LEN);
    params.index = index;
    assert_no_cache_with(&plan, params, PKV_E_UNSUPPORTED, text);
    end_cache(cache_of(&plan));
}

/* A window that is left of a long prompt would keep all that names it; so would the one block of a
 * chunk that a hit may consist of. */
static void narrow_windows_and_chunks_alone_are_found_by_keys(void **state)
{
    (void)state;
    const pkv_spec one[] = {windowed(39)}, two[] = {windowed(16), windowed(32)},
                   chunk[] = {chunked(128)};
    for (uint32_t index = PKV_INDEX_TOKENS; index <= PKV_INDEX_CHAINS; index += 2) {
        assert_no_index(one, 1, index, "an eighth of the longest request");
        assert_no_index(two, 2, index, "an eighth of the longest request");
        assert_no_index(chunk, 1, index, "an eighth of the longest request");
    }
}

static void blocks_of_two_sizes_are_found_by_tokens_only(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(16, 8), windowed_of(64, 32, 4)};
    assert_no_index(layers, 2, PKV_INDEX_CHAINS, "blocks of one size");
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
        cmocka_unit_test(wide_windows_alone_find_the_same),
        cmocka_unit_test(wide_windows_with_a_drafter_find_the_same),
        cmocka_unit_test(longer_blocks_of_a_window_find_the_same),
        cmocka_unit_test(longer_blocks_of_full_attention_find_the_same),
        cmocka_unit_test(sparse_windows_of_longer_blocks_find_the_same),
        cmocka_unit_test(narrow_windows_and_chunks_alone_are_found_by_keys),
        cmocka_unit_test(blocks_of_two_sizes_are_found_by_tokens_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
