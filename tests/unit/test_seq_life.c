/* test_seq_life.c  One sequence from open to close. */
#include "seq_fixture.h"

/* ---- open ---- */

static void opening_takes_nothing(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 40);
    const pkv_seq_info info = info_of(seq);
    assert_int_equal(info.n_tokens, 40);
    assert_int_equal(info.n_prompt_tokens, 40);
    assert_int_equal(info.computed + info.keyed + info.n_preemptions + info.allocated, 0);
    assert_int_equal(info.waiting, 1);
    assert_int_equal(free_of(cache), 19);
    assert_table(seq, 0, "");
    assert_new(seq, 0, "");
    end_cache(cache);
}

static void keys_of_a_sequence_are_those_of_its_units(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    uint64_t n;
    const pkv_key *keys = keys_of_seq(open_n(cache, 40), &n);
    assert_int_equal(n, 2);
    const uint8_t first[] = {0xdc, 0x91, 0x8a, 0x88, 0xb1, 0x39, 0xe5, 0xaf}; /* row 97 */
    const uint8_t second[] = {0xc3, 0x00, 0xec, 0x27, 0x5d, 0x7b, 0xf0, 0x8a};
    assert_memory_equal(keys[0].bytes, first, sizeof first);
    assert_memory_equal(keys[1].bytes, second, sizeof second);
    end_cache(cache);
}

static void keys_grow_with_the_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *whole = open_n(cache, 64), *grown = open_n(cache, 10);
    uint64_t n, n_grown;
    assert_ok(pkv_seq_append(grown, counting() + 10, 21));
    keys_of_seq(grown, &n);
    assert_int_equal(n, 1); /* of 31 tokens */
    assert_ok(pkv_seq_append(grown, counting() + 31, 33));
    const pkv_key *a = keys_of_seq(whole, &n), *b = keys_of_seq(grown, &n_grown);
    assert_int_equal(n, 4);
    assert_int_equal(n_grown, 4);
    assert_memory_equal(a, b, 4 * sizeof *a);
    end_cache(cache);
}

static void ready_keys_find_what_tokens_stored(void **state)
{
    (void)state;
    pkv_cache *cache = keyed_cache(20, 160);
    pkv_key keys[6];
    uint64_t n;
    pkv_seq *first = run_n(cache, 64);
    memcpy(keys, keys_of_seq(first, &n), 4 * sizeof *keys);
    pkv_seq_params params = seq_params_of(NULL, 64);
    params.keys = keys;
    params.n_keys = 4;
    pkv_seq *second;
    assert_ok(pkv_seq_open(cache, &params, &second));
    assert_int_equal(lookup(second), 48);
    (void)take(second, 16);
    assert_table(second, 0, "1..3 5");
    end_cache(cache);
}

static void ready_keys_are_appended_with_the_tokens_they_name(void **state)
{
    (void)state;
    pkv_cache *cache = keyed_cache(20, 160);
    pkv_key keys[3] = {{{1}}, {{2}}, {{3}}};
    pkv_seq_params params = seq_params_of(NULL, 40);
    params.keys = keys;
    params.n_keys = 2;
    pkv_seq *seq;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    (void)take(seq, 40);
    assert_int_equal(keys_in(cache), 2);
    assert_ok(pkv_seq_append(seq, NULL, 8)); /* 48 tokens: a third unit */
    assert_ok(pkv_seq_append_keys(seq, keys + 2, 1));
    (void)take(seq, 8);
    assert_int_equal(keys_in(cache), 3);
    assert_int_equal(pkv_pool_block_tokens(pkv_cache_get_pool(cache), 3), 48);
    end_cache(cache);
}

static void a_cache_without_caching_needs_neither(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_plan_params plan_params = blocks_for(layers, 1, 20, 160);
    plan_params.caching = 0;
    pkv_cache *cache = cache_of(&plan_params);
    assert_int_equal(pkv_cache_get_info(cache)->caching, 0);
    const pkv_seq_params params = seq_params_of(NULL, 40);
    pkv_seq *seq;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    assert_int_equal(lookup(seq), 0);
    (void)take(seq, 40);
    assert_table(seq, 0, "1..3");
    assert_ok(pkv_seq_append(seq, NULL, 9));
    (void)take(seq, 9);
    assert_table(seq, 0, "1..4");
    close_seq(seq);
    assert_free_list(cache, "4 3 2 1 5..19"); /* nothing is keyed: reversed, to the front */
    end_cache(cache);
}

static void what_is_lent_to_open_is_copied(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    int32_t tokens[32] = {1, 2, 3};
    char salt[] = "s", name[] = "n", path[] = "/p", id[] = "i", session[] = "t";
    pkv_media media[] = {{id, 2, 8}};
    uint8_t rows[32][2] = {{7}};
    pkv_extras extras = {.lora_name = name,
                         .lora_path = path,
                         .salt = salt,
                         .media = media,
                         .n_media = 1,
                         .embeds = rows[0],
                         .embed_row_bytes = 2,
                         .n_embed_rows = 32,
                         .has_embeds = 1};
    pkv_seq_params params = seq_params_of(tokens, 32);
    params.extras = &extras;
    params.session = session;
    pkv_seq *a, *b;
    uint64_t n;
    assert_ok(pkv_seq_open(cache, &params, &a));
    assert_ok(pkv_seq_open(cache, &params, &b));
    memset(tokens, 9, sizeof tokens);
    memset(rows, 9, sizeof rows);
    salt[0] = name[0] = path[0] = id[0] = session[0] = 'x';
    memset(media, 0, sizeof media);
    memset(&extras, 0, sizeof extras);
    const int32_t more[16] = {5};
    assert_ok(pkv_seq_append(a, more, 16));
    assert_ok(pkv_seq_append(b, more, 16));
    (void)take(a, 48);
    assert_int_equal(lookup(b), 32); /* the third unit would be all of it */
    assert_memory_equal(keys_of_seq(a, &n), keys_of_seq(b, &n), 3 * sizeof(pkv_key));
    end_cache(cache);
}

static void extras_without_media_are_allowed(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    const pkv_extras salted = {.salt = "s"};
    pkv_seq_params params = seq_params_of(counting(), 40);
    params.extras = &salted;
    pkv_seq *seq;
    uint64_t n;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    const pkv_key *a = keys_of_seq(seq, &n), *b = keys_of_seq(open_n(cache, 40), &n);
    assert_false(same_key(&a[0], &b[0])); /* row 98: both differ */
    assert_false(same_key(&a[1], &b[1]));
    end_cache(cache);
}

static void a_model_without_a_cache_has_sequences_without_blocks(void **state)
{
    (void)state;
    const pkv_plan_params plan_params = params_of(NULL, 0, GIB, 160);
    pkv_cache *cache = cache_of(&plan_params);
    assert_int_equal(pkv_cache_get_info(cache)->n_groups, 0);
    pkv_seq *seq = open_n(cache, 40);
    assert_int_equal(lookup(seq), 0);
    (void)take(seq, 40);
    assert_int_equal(info_of(seq).computed, 40);
    assert_int_equal(pkv_seq_cached_tokens(seq), 0);
    append(seq, 1, 9);
    (void)take(seq, 9);
    assert_ok(pkv_seq_preempt(seq));
    close_seq(seq);
    end_cache(cache);
}

/* ---- lookup and allocate ---- */

static void looking_takes_nothing_and_may_be_repeated(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    warm(cache, 64);
    pkv_seq *seq = open_n(cache, 64);
    assert_int_equal(lookup(seq), 48);
    assert_int_equal(lookup(seq), 48);
    assert_hit(cache, 0, "1..3");
    assert_int_equal(free_of(cache), 19);
    const pkv_block third = 3;
    assert_ok(pkv_cache_evict(cache, &third, 1));
    assert_int_equal(lookup(seq), 32);
    end_cache(cache);
}

static void an_allocate_looks_again_by_itself(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    warm(cache, 64);
    pkv_seq *seq = open_n(cache, 64);
    assert_int_equal(take(seq, 16).cached_tokens, 48);
    assert_int_equal(info_of(seq).computed, 64);
    assert_table(seq, 0, "1..3 5"); /* 4 is keyed: it is handed out last */
    assert_int_equal(pkv_pool_refs(pkv_cache_get_pool(cache), 1), 1);
    end_cache(cache);
}

static void a_hit_alone_may_be_taken(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    warm(cache, 64);
    pkv_seq *seq = open_n(cache, 64);
    assert_int_equal(take(seq, 0).cached_tokens, 48);
    assert_table(seq, 0, "1..3");
    assert_new(seq, 0, "");
    end_cache(cache);
}

static void a_sequence_may_decline_the_hit(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    warm(cache, 64);
    pkv_seq *seq = open_n(cache, 64);
    pkv_allocate_params params = new_tokens(64);
    params.use_cached = 0;
    assert_int_equal(allocate(seq, params).cached_tokens, 0);
    assert_table(seq, 0, "5..8");
    /* equal content is kept twice; the first keyed is found first */
    assert_int_equal(keys_in(cache), 4);
    assert_int_equal(resend(cache, 65), 64);
    assert_hit(cache, 0, "1..4");
    end_cache(cache);
}

static void a_prompt_may_be_computed_in_parts(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = open_n(cache, 100);
    (void)take(seq, 40);
    assert_int_equal(info_of(seq).computed, 40);
    assert_int_equal(info_of(seq).keyed, 32);
    assert_new(seq, 0, "1..3");
    (void)take(seq, 40);
    assert_int_equal(info_of(seq).keyed, 80);
    assert_new(seq, 0, "4 5");
    (void)take(seq, 20);
    assert_new(seq, 0, "6 7");
    assert_int_equal(pkv_seq_cached_tokens(seq), 96);
    end_cache(cache);
}

/* ---- rollback ---- */

static void a_rollback_keeps_the_table(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 30);
    (void)take(seq, 5); /* drafts: 35 slots */
    assert_table(seq, 0, "1..3");
    append(seq, 30, 1);
    assert_ok(pkv_seq_set_computed(seq, 31)); /* one was accepted */
    assert_table(seq, 0, "1..3");
    assert_int_equal(info_of(seq).computed, 31);
    append(seq, 31, 1);
    (void)take(seq, 1);
    assert_new(seq, 0, "");
    assert_int_equal(info_of(seq).keyed, 32);
    end_cache(cache);
}

static void what_a_window_has_released_does_not_come_back(void **state)
{
    (void)state;
    pkv_cache *cache = window_cache(32, 30, 256);
    pkv_seq *seq = open_n(cache, 200);
    pkv_allocate_params params = new_tokens(160);
    params.delay_caching = 1;
    (void)allocate(seq, params);
    params.new_tokens = 8;
    (void)allocate(seq, params);        /* (160 - 31) / 16 = 8 blocks are released, */
    assert_table(seq, 0, "0*8 9 10 8"); /* of which 8 is used again at once */
    assert_ok(pkv_seq_set_computed(seq, 100));
    assert_table(seq, 0, "0*8 9 10 8");
    assert_ok(pkv_seq_preempt(seq)); /* begins anew */
    (void)take(seq, 200);
    assert_int_equal(info_of(seq).computed, 200);
    end_cache(cache);
}

static void drafts_are_never_keyed(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 30);
    (void)take(seq, 20); /* 50 slots, 30 tokens are known */
    assert_int_equal(info_of(seq).keyed, 16);
    assert_int_equal(keys_in(cache), 1);
    assert_ok(pkv_seq_set_computed(seq, 30));
    assert_int_equal(info_of(seq).computed, 30);
    end_cache(cache);
}

/* ---- preempt, close ---- */

static void a_preempted_sequence_keeps_its_tokens_and_resumes_over_its_output(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 40);
    assert_ok(pkv_seq_append(seq, counting() + 40, 10));
    (void)take(seq, 10);
    assert_ok(pkv_seq_preempt(seq));
    const pkv_seq_info info = info_of(seq);
    assert_int_equal(info.n_tokens, 50);
    assert_int_equal(info.n_prompt_tokens, 40);
    assert_int_equal(info.computed + info.keyed + info.allocated, 0);
    assert_int_equal(info.waiting, 1);
    assert_int_equal(info.n_preemptions, 1);
    assert_table(seq, 0, "");
    assert_int_equal(free_of(cache), 19);
    assert_int_equal(lookup(seq), 48); /* the third block holds generated tokens, too */
    (void)take(seq, 2);
    assert_table(seq, 0, "1..3 4");
    end_cache(cache);
}

static void a_close_frees_the_tail_of_a_chain_before_its_head(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(12, 160);
    warm(cache, 40);
    assert_free_list(cache, "3..11 2 1");
    end_cache(cache);
}

static void nobody_and_a_waiting_sequence_may_be_closed(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(12, 160);
    assert_ok(pkv_seq_close(NULL, false));
    assert_ok(pkv_seq_close(NULL, true));
    assert_ok(pkv_seq_close(open_n(cache, 40), false));
    assert_ok(pkv_seq_close(open_n(cache, 40), true));
    pkv_cache_step(cache);
    assert_free_list(cache, "1..11");
    end_cache(cache);
}

static void a_cache_closes_its_sequences(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 60, 320);
    (void)open_n(cache, 40);
    (void)run_n(cache, 160);
    assert_ok(pkv_seq_close(run_n(cache, 40), true));
    pkv_cache_destroy(cache);
    pkv_cache_destroy(NULL);
}

static void deferred_closes_are_released_one_after_the_other(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 12, 64);
    pkv_seq *a = run_n(cache, 20), *b = run_tokens(cache, diverging(0), 20);
    assert_table(a, 0, "1 2");
    assert_table(a, 1, "3 4");
    assert_table(b, 0, "5 6");
    assert_table(b, 1, "7 8");
    assert_ok(pkv_seq_close(b, true));
    assert_ok(pkv_seq_close(a, true));
    assert_free_list(cache, "9..11");
    assert_sound(cache);
    pkv_cache_step(cache);
    /* each: all tables one after the other, in reverse. b: 8 7 6 5, of which 8 and 6 have no key;
     * then a: 4 3 2 1, whose 4 and 2 come before them */
    assert_free_list(cache, "4 2 8 6 9..11 7 5 3 1");
    end_cache(cache);
}

static void a_deferred_close_may_be_hit_before_the_step(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(12, 160);
    assert_ok(pkv_seq_close(run_n(cache, 64), true));
    pkv_seq *again = open_n(cache, 64);
    assert_int_equal(lookup(again), 48);
    (void)take(again, 16);
    assert_table(again, 0, "1..3 5");
    assert_sound(cache);
    pkv_cache_step(cache);
    assert_table(again, 0, "1..3 5");
    assert_int_equal(free_of(cache), 7);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_takes_nothing),
        cmocka_unit_test(keys_of_a_sequence_are_those_of_its_units),
        cmocka_unit_test(keys_grow_with_the_tokens),
        cmocka_unit_test(ready_keys_find_what_tokens_stored),
        cmocka_unit_test(ready_keys_are_appended_with_the_tokens_they_name),
        cmocka_unit_test(a_cache_without_caching_needs_neither),
        cmocka_unit_test(what_is_lent_to_open_is_copied),
        cmocka_unit_test(extras_without_media_are_allowed),
        cmocka_unit_test(a_model_without_a_cache_has_sequences_without_blocks),
        cmocka_unit_test(looking_takes_nothing_and_may_be_repeated),
        cmocka_unit_test(an_allocate_looks_again_by_itself),
        cmocka_unit_test(a_hit_alone_may_be_taken),
        cmocka_unit_test(a_sequence_may_decline_the_hit),
        cmocka_unit_test(a_prompt_may_be_computed_in_parts),
        cmocka_unit_test(a_rollback_keeps_the_table),
        cmocka_unit_test(what_a_window_has_released_does_not_come_back),
        cmocka_unit_test(drafts_are_never_keyed),
        cmocka_unit_test(a_preempted_sequence_keeps_its_tokens_and_resumes_over_its_output),
        cmocka_unit_test(a_close_frees_the_tail_of_a_chain_before_its_head),
        cmocka_unit_test(nobody_and_a_waiting_sequence_may_be_closed),
        cmocka_unit_test(a_cache_closes_its_sequences),
        cmocka_unit_test(deferred_closes_are_released_one_after_the_other),
        cmocka_unit_test(a_deferred_close_may_be_hit_before_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
