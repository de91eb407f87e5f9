/* test_cache_field_cases.c  Failures of other caches (field-cases.md, areas prefix, hash, manager),
 * as behaviour of ours. Cases 29, 30, 33, 93 and 95 stand beside what they are about, and so do
 * those of connectors and of models with states. */
#include "seq_fixture.h"

/* ---- prefix ---- */

static void case_28_a_full_hit_leaves_a_token(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    warm(cache, 32);
    pkv_seq *seq = open_n(cache, 32);
    assert_int_equal(take(seq, 16).cached_tokens, 16); /* 31 of 32 */
    assert_int_equal(resend(cache, 33), 32);
    uint64_t n;
    (void)keys_of_seq(seq, &n);
    assert_int_equal(n, 2); /* the chain is whole, too */
    end_cache(cache);
}

static void case_31_a_drafter_keeps_the_block_that_it_looks_at(void **state)
{
    (void)state;
    pkv_spec layers[] = {full_of(256, 2), windowed_of(128, 64, 8)};
    layers[1].is_draft = 1;
    pkv_plan_params params = with_drop(blocks_for(layers, 2, 60, 2048));
    params.layout = PKV_LAYOUT_BLHNC;
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_get_info(cache)->hit_alignment, 256);
    pkv_seq *first = run_n(cache, 1100);
    /* runs of 3 that end one block past a multiple of 4 blocks: (i - 1) % 4 >= 4 - 3 */
    uint64_t n;
    const pkv_block *table = pkv_seq_table(first, 1, &n);
    for (uint64_t i = 0; i < 17; i++) {
        const bool keyed = i > 0 && (i - 1) % 4 >= 1;
        assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), table[i]) != 0, keyed);
    }
    assert_int_equal(resend(cache, 1100), 1024); /* not 0 */
    end_cache(cache);
}

static void case_32_a_request_that_diverges_in_the_last_block_hits_below_it(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(32, 4), windowed_of(1024, 16, 8)};
    pkv_plan_params params = blocks_for(layers, 2, 900, 4608);
    pkv_cache *cache = cache_of(&params);
    (void)run_n(cache, 4100);
    pkv_seq *other = open_tokens(cache, diverging(4090), 4100);
    assert_int_equal(lookup(other), 4064);
    end_cache(cache);
}

/* ---- hash ---- */

static pkv_seq *open_with(pkv_cache *cache, const pkv_extras *extras, uint64_t n)
{
    pkv_seq *seq;
    pkv_seq_params params = seq_params_of(counting(), n);
    params.extras = extras;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    return seq;
}

/* Tokens of a request with extras b that a request with extras a has left behind. */
static uint64_t shared_by(const pkv_extras *a, const pkv_extras *b)
{
    pkv_cache *cache = full_cache(20, 160);
    (void)take(open_with(cache, a, 80), 80);
    const uint64_t hit = lookup(open_with(cache, b, 80));
    end_cache(cache);
    return hit;
}

static uint64_t shared_by_images(pkv_media a, pkv_media b)
{
    const pkv_extras x = {.media = &a, .n_media = 1}, y = {.media = &b, .n_media = 1};
    return shared_by(&x, &y);
}

static void case_35_digests_count_whole(void **state)
{
    (void)state;
    const pkv_media a = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaabeef", 20, 8},
                    b = {"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbeef", 20, 8};
    assert_int_equal(shared_by_images(a, b), 16);
    assert_int_equal(shared_by_images(a, a), 64);
}

static void case_36_an_image_that_touches_a_block_is_no_part_of_it(void **state)
{
    (void)state;
    const pkv_extras none = {.salt = NULL};
    const uint64_t first[] = {0, 0, 0, 31, 32}, length[] = {15, 16, 17, 4, 4};
    const uint64_t clean[] = {0, 0, 0, 16, 32}; /* tokens before the image's first block */
    for (size_t i = 0; i < COUNT(first); i++) {
        const pkv_media image = {"i", first[i], length[i]};
        const pkv_extras with = {.media = &image, .n_media = 1};
        assert_int_equal(shared_by(&none, &with), clean[i]);
    }
    /* an image over [0, 16) leaves block 1's extras empty: only the chain differs */
    pkv_unit_extras extras;
    const pkv_media image = {"i", 0, 16};
    const pkv_extras with = {.media = &image, .n_media = 1};
    assert_ok(pkv_key_unit_extras(&with, 16, 32, 0, &extras));
    assert_int_equal(extras.any, 0);
}

static void case_37_the_place_of_an_image_counts(void **state)
{
    (void)state;
    const pkv_media four = {"i", 4, 8}, six = {"i", 6, 8}, later = {"i", 36, 8};
    assert_int_equal(shared_by_images(four, six), 0);
    assert_int_equal(shared_by_images(later, (pkv_media){"i", 38, 8}), 32);
    assert_int_equal(shared_by_images(four, four), 64);
}

static void assert_same_keys(const char *seed_a, const char *seed_b, bool same)
{
    const pkv_spec layers[] = {full()};
    const pkv_plan_params plan_params = blocks_for(layers, 1, 20, 160);
    pkv_plan *plan = plan_of(&plan_params);
    pkv_cache_params params = cache_params_of(plan, NULL);
    pkv_cache *caches[2];
    const pkv_key *keys[2];
    uint64_t n;
    for (int i = 0; i < 2; i++) {
        params.hash_seed = i ? seed_b : seed_a;
        assert_ok(pkv_cache_create(&params, &caches[i]));
        keys[i] = keys_of_seq(open_n(caches[i], 40), &n);
    }
    assert_int_equal(same_key(&keys[0][0], &keys[1][0]), same);
    pkv_cache_destroy(caches[0]);
    pkv_cache_destroy(caches[1]);
    pkv_plan_destroy(plan);
}

static void case_38_two_caches_have_one_root(void **state)
{
    (void)state;
    assert_same_keys(NULL, NULL, true);
    assert_same_keys("123", "123", true);
    assert_same_keys(NULL, "123", false);
}

static void case_39_a_salt_separates_tenants_and_no_salt_is_one_too(void **state)
{
    (void)state;
    const pkv_extras a = {.salt = "a"}, b = {.salt = "b"};
    assert_int_equal(shared_by(&a, &b), 0);
    assert_int_equal(shared_by(&a, NULL), 0);
    assert_int_equal(shared_by(NULL, &a), 0);
    assert_int_equal(shared_by(&a, &a), 64);
}

static void case_40_another_adapter_is_another_namespace(void **state)
{
    (void)state;
    const pkv_extras zero = {.lora_name = "0@1.0", .lora_path = "/0"},
                     one = {.lora_name = "1@1.0", .lora_path = "/1"},
                     half = {.lora_name = "0@0.5", .lora_path = "/0"},
                     moved = {.lora_name = "0@1.0", .lora_path = "/0b"};
    assert_int_equal(shared_by(&zero, &one), 0);
    assert_int_equal(shared_by(&zero, &half), 0);
    assert_int_equal(shared_by(&zero, &moved), 0);
    assert_int_equal(shared_by(&zero, NULL), 0);
    assert_int_equal(shared_by(&zero, &zero), 64);
}

/* Names enter a key with their lengths, as they are: nothing is replaced, joined or cut. */
static void case_41_names_that_look_alike_when_flattened_are_two(void **state)
{
    (void)state;
    const pkv_extras a = {.lora_name = "a/b_c", .lora_path = "/x"},
                     b = {.lora_name = "a_b/c", .lora_path = "/x"},
                     left = {.lora_name = "ab", .lora_path = "c"},
                     right = {.lora_name = "a", .lora_path = "bc"}, salt_a = {.salt = "a/b_c"},
                     salt_b = {.salt = "a_b/c"};
    assert_int_equal(shared_by(&a, &b), 0);
    assert_int_equal(shared_by(&left, &right), 0);
    assert_int_equal(shared_by(&salt_a, &salt_b), 0);
    assert_int_equal(shared_by(&a, &a), 64);
    assert_int_equal(shared_by_images((pkv_media){"a/b_c", 4, 8}, (pkv_media){"a_b/c", 4, 8}), 0);
    assert_same_keys("a/b_c", "a_b/c", false); /* a model's name may be the seed */
}

/* Invariant 8 of section 11. */
static void nothing_is_shared_from_the_first_difference_on(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(100, 160);
    (void)run_n(cache, 160);
    for (uint64_t at = 0; at < 160; at++) {
        pkv_seq *seq = open_tokens(cache, diverging(at), 160);
        assert_int_equal(lookup(seq), at / 16 * 16);
        close_seq(seq);
    }
    end_cache(cache);
}

/* ---- manager ---- */

static void case_42_references_of_a_deferred_close_are_not_requests(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(60, 160);
    pkv_seq *seqs[3];
    for (int i = 0; i < 3; i++) {
        seqs[i] = run_n(cache, 40);
    }
    assert_int_equal(pkv_pool_refs(pkv_cache_get_pool(cache), 1), 3);
    assert_ok(pkv_seq_close(seqs[0], true));
    assert_ok(pkv_seq_close(seqs[1], true));
    assert_int_equal(pkv_pool_refs(pkv_cache_get_pool(cache), 1), 3);
    assert_sound(cache);
    pkv_cache_step(cache);
    assert_int_equal(pkv_pool_refs(pkv_cache_get_pool(cache), 1), 1);
    end_cache(cache);
}

static void case_43_an_aborted_request_is_freed_once(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(12, 160);
    assert_ok(pkv_seq_close(run_n(cache, 40), true)); /* held for a save; the handle is gone */
    pkv_cache_step(cache);
    pkv_cache_step(cache); /* a second completion frees nothing */
    for (pkv_block b = 0; b < 12; b++) {
        assert_int_equal(pkv_pool_refs(pkv_cache_get_pool(cache), b), 0);
    }
    assert_free_list(cache, "3..11 2 1");
    end_cache(cache);
}

static void case_44_blocks_that_a_load_writes_are_nobody_elses(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(6, 80);
    pkv_seq *seq = open_n(cache, 64);
    pkv_allocate_params params = new_tokens(0);
    params.external_tokens = 64;
    params.delay_caching = 1;
    (void)allocate(seq, params);
    assert_ok(pkv_seq_close(seq, true)); /* (a): the load still runs */
    assert_refused(cache, open_tokens(cache, diverging(0), 32), new_tokens(32), 2, 1);
    pkv_cache_step(cache); /* it has ended */
    assert_int_equal(free_of(cache), 5);
    assert_int_equal(keys_in(cache), 0); /* nothing of it is found */
    seq = open_n(cache, 64);
    (void)allocate(seq, params);
    close_seq(seq); /* (b): it had ended: free at once */
    assert_int_equal(free_of(cache), 5);
    end_cache(cache);
}

static void case_45_a_failed_load_is_cut_at_the_common_block(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(16, 8), full_of(64, 2)};
    pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    params.layout = PKV_LAYOUT_BLHNC;
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_get_info(cache)->n_groups, 2);
    pkv_seq *seq = open_n(cache, 160);
    pkv_allocate_params load = new_tokens(0);
    load.external_tokens = 128;
    load.delay_caching = 1;
    (void)allocate(seq, load);
    /* the sixth block of 16 is bad: 5 x 16 = 80 tokens are right, 64 in blocks of both */
    const uint64_t block = pkv_cache_get_info(cache)->scheduler_block_size;
    assert_int_equal(80 / block * block, 64);
    assert_ok(pkv_seq_set_computed(seq, 64));
    assert_ok(pkv_seq_cache(seq, 64));
    assert_int_equal(info_of(seq).keyed, 64);
    for (uint32_t g = 0; g < 2; g++) {
        const uint64_t size = pkv_cache_group_at(cache, g)->block_size;
        uint64_t n;
        const pkv_block *table = pkv_seq_table(seq, g, &n);
        assert_int_equal(n, 128 / size);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t end = (i + 1) * size;
            assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), table[i]),
                             end <= 64 ? end : 0); /* no key on what depends on it */
        }
    }
    (void)take(seq, 96); /* computed again from 64 on */
    assert_int_equal(info_of(seq).computed, 160);
    end_cache(cache);
}

static void case_46_a_promoted_window_frees_nothing_of_its_group(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(32)};
    pkv_plan_params params = blocks_for(layers, 2, 60, 320);
    params.enable_hybrid = 0; /* one group, full storage */
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_get_info(cache)->n_groups, 1);
    assert_int_equal(pkv_cache_group_at(cache, 0)->window, 0);
    pkv_seq *seq = run_n(cache, 160);
    append(seq, 1, 1);
    (void)take(seq, 1);
    assert_table(seq, 0, "1..11");
    int32_t row[16];
    assert_ok(pkv_seq_row(seq, 0, row, 16, NULL, NULL));
    assert_int_equal(row[0], 1);
    end_cache(cache);
}

static void case_47_drafts_end_with_the_table(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full_of(128, 1)};
    const pkv_plan_params params = blocks_for(layers, 1, 700, 80000);
    pkv_cache *cache = cache_of(&params);
    assert_int_equal(pkv_cache_group_at(cache, 0)->table_width, 625);
    int32_t *tokens = calloc(79996, sizeof *tokens);
    assert_non_null(tokens);
    pkv_seq *seq = open_tokens(cache, tokens, 79996);
    free(tokens);
    (void)take(seq, 79995);
    pkv_allocate_params step = new_tokens(4);
    step.lookahead = 2; /* up to 80001 */
    (void)allocate(seq, step);
    uint64_t n;
    int64_t slot;
    (void)pkv_seq_table(seq, 0, &n);
    assert_int_equal(n, 625);
    assert_ok(pkv_seq_slots(seq, 0, 79999, 1, 0, 1, &slot));
    assert_status(pkv_seq_slots(seq, 0, 80000, 1, 0, 1, &slot), PKV_E_INVAL);
    pkv_allocate_result result;
    const pkv_allocate_params beyond = new_tokens(2); /* 79999 + 2 */
    assert_status(pkv_seq_allocate(seq, &beyond, &result), PKV_E_INVAL);
    end_cache(cache);
}

static void case_48_slots_of_drafts_come_on_top(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 32);
    pkv_allocate_params params = new_tokens(32);
    params.lookahead = 2; /* the tokens fill two blocks; the drafts need a third */
    (void)allocate(seq, params);
    assert_table(seq, 0, "1..3");
    int64_t slots[2];
    assert_ok(pkv_seq_slots(seq, 0, 32, 2, 0, 1, slots));
    assert_int_equal(slots[1], 3 * 16 + 1);
    end_cache(cache);
}

/* ---- what users complain about: section 10, 6 ---- */

static void a_request_larger_than_the_pool_is_refused_with_its_numbers(void **state)
{
    (void)state;
    const pkv_spec layers[] = {windowed(32)};
    pkv_plan_params params = blocks_for(layers, 1, 12, 320);
    params.max_num_batched_tokens = 64;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = open_n(cache, 320);
    assert_refused(cache, seq, new_tokens(320), 20, 11); /* in one step it never fits */
    for (uint64_t left = 320; left > 0; left -= 64) {
        (void)take(seq, 64); /* in steps as planned it does */
    }
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_28_a_full_hit_leaves_a_token),
        cmocka_unit_test(case_31_a_drafter_keeps_the_block_that_it_looks_at),
        cmocka_unit_test(case_32_a_request_that_diverges_in_the_last_block_hits_below_it),
        cmocka_unit_test(case_35_digests_count_whole),
        cmocka_unit_test(case_36_an_image_that_touches_a_block_is_no_part_of_it),
        cmocka_unit_test(case_37_the_place_of_an_image_counts),
        cmocka_unit_test(case_38_two_caches_have_one_root),
        cmocka_unit_test(case_39_a_salt_separates_tenants_and_no_salt_is_one_too),
        cmocka_unit_test(case_40_another_adapter_is_another_namespace),
        cmocka_unit_test(case_41_names_that_look_alike_when_flattened_are_two),
        cmocka_unit_test(nothing_is_shared_from_the_first_difference_on),
        cmocka_unit_test(case_42_references_of_a_deferred_close_are_not_requests),
        cmocka_unit_test(case_43_an_aborted_request_is_freed_once),
        cmocka_unit_test(case_44_blocks_that_a_load_writes_are_nobody_elses),
        cmocka_unit_test(case_45_a_failed_load_is_cut_at_the_common_block),
        cmocka_unit_test(case_46_a_promoted_window_frees_nothing_of_its_group),
        cmocka_unit_test(case_47_drafts_end_with_the_table),
        cmocka_unit_test(case_48_slots_of_drafts_come_on_top),
        cmocka_unit_test(a_request_larger_than_the_pool_is_refused_with_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
