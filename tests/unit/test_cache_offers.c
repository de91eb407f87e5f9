/* test_cache_offers.c  What a connector is told: states to store, the hit to build on, and the tail
 * of a request that ends. Blocks of 64 tokens, keys of 16 where hits may end inside. */
#include "state_fixture.h"

static pkv_cache *coarse_cache(void)
{
    return state_cache((state_model){.block = 64, .n_blocks = 40, .len = 640});
}

static pkv_cache *fine_cache(void)
{
    return state_cache((state_model){.block = 64, .unit = 16, .n_blocks = 40, .len = 640});
}

/* Full attention in group 0, and two groups of states. */
static pkv_cache *two_states_cache(void)
{
    const state_model m = {.block = 64, .n_blocks = 60, .len = 640};
    const pkv_spec layers[] = {full_of(64, 8), states_of(&m), states_of(&m)};
    pkv_cache *cache = state_cache_of(&m, layers, COUNT(layers));
    assert_int_equal(pkv_cache_get_info(cache)->n_groups, 3);
    return cache;
}

/* "a1:3@64 b2:5@64": sequence, group, block, tokens; the first of `seqs` is a. */
static void assert_listed(const pkv_state_offer *offers, uint64_t n, pkv_seq *const *seqs,
                          const char *wanted)
{
    char got[256] = "";
    size_t len = 0;
    for (uint64_t i = 0; i < n && len < sizeof got; i++) {
        const char name = offers[i].seq == seqs[0] ? 'a' : offers[i].seq == seqs[1] ? 'b' : '?';
        len += (size_t)snprintf(got + len, sizeof got - len,
                                i ? " %c%" PRIu32 ":%" PRIu32 "@%" PRIu64
                                  : "%c%" PRIu32 ":%" PRIu32 "@%" PRIu64,
                                name, offers[i].group, offers[i].block, offers[i].tokens);
    }
    assert_string_equal(got, wanted);
}

/* What is offered since last asked. */
static void assert_offers(pkv_cache *cache, pkv_seq *a, pkv_seq *b, const char *wanted)
{
    pkv_seq *const seqs[] = {a, b};
    uint64_t n;
    const pkv_state_offer *offers = pkv_cache_take_offers(cache, &n);
    assert_listed(offers, n, seqs, wanted);
}

static void assert_finish(pkv_seq *seq, const char *wanted)
{
    pkv_seq *const seqs[] = {seq, NULL};
    const pkv_state_offer *offers;
    uint64_t n;
    assert_ok(pkv_seq_finish(seq, &offers, &n));
    assert_listed(offers, n, seqs, wanted);
}

/* ---- offers ---- */

static void states_are_offered_when_they_are_keyed(void **state)
{
    (void)state;
    pkv_cache *cache = coarse_cache();
    pkv_seq *seq = open_n(cache, 200);
    (void)take(seq, 64);
    assert_offers(cache, seq, NULL, "a1:2@64");
    assert_offers(cache, seq, NULL, ""); /* once */
    pkv_cache_step(cache);
    (void)take(seq, 128);
    assert_offers(cache, seq, NULL, "a1:5@192"); /* of 128 there is no state: a gap */
    pkv_cache_step(cache);
    (void)take(seq, 8); /* nothing is whole */
    assert_offers(cache, seq, NULL, "");
    end_cache(cache);
}

static void states_without_a_key_are_not_offered(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 64, .n_blocks = 40, .len = 640, .sparse = true});
    pkv_seq *seq = open_n(cache, 264); /* resumes at 256 */
    for (uint64_t done = 64; done <= 256; done += 64) {
        (void)take(seq, 64);
        uint64_t n;
        const pkv_state_offer *offers = pkv_cache_take_offers(cache, &n);
        assert_int_equal(n, done == 256);
        assert_true(n == 0 || offers[0].tokens == 256);
        pkv_cache_step(cache);
    }
    end_cache(cache);
}

static void offers_of_one_allocate_are_in_the_order_of_groups(void **state)
{
    (void)state;
    pkv_cache *cache = two_states_cache();
    pkv_seq *a = open_n(cache, 200), *b = open_tokens(cache, diverging(0), 200);
    (void)take(b, 64);
    (void)take(a, 64);
    assert_offers(cache, a, b, "b1:2@64 b2:3@64 a1:5@64 a2:6@64");
    end_cache(cache);
}

static void a_state_inside_a_block_is_offered_when_it_has_a_block_of_its_own(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache();
    pkv_seq *seq = open_n(cache, 98);
    (void)take(seq, 96);
    assert_offers(cache, seq, NULL, ""); /* 3 is about to be written over */
    pkv_cache_step(cache);
    const pkv_allocate_result result = take(seq, 2);
    assert_copies(&result, "3>4");
    assert_offers(cache, seq, NULL, "a1:4@96");
    assert_int_equal(refs_of(cache, 4), 1); /* pinned until the step */
    end_cache(cache);
}

static void a_moved_state_and_a_whole_one_are_sorted_by_group(void **state)
{
    (void)state;
    const state_model m = {.block = 64, .unit = 16, .n_blocks = 60, .len = 640};
    const pkv_spec layers[] = {full_of(64, 8), states_of(&m), states_of(&m)};
    pkv_cache *cache = state_cache_of(&m, layers, COUNT(layers));
    pkv_seq *seq = open_n(cache, 98);
    (void)take(seq, 96); /* full 1, 2; 3 and 4 */
    append(seq, 7, 30);
    pkv_cache_step(cache);
    (void)take(seq, 32); /* to 128: the keys of 96 move to 5 and 6, and 3 and 4 are whole */
    assert_offers(cache, seq, NULL, "a1:5@96 a1:3@128 a2:6@96 a2:4@128");
    end_cache(cache);
}

static void a_checkpoint_is_offered_for_its_position(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 64,
                                                 .unit = 16,
                                                 .n_blocks = 60,
                                                 .len = 640,
                                                 .checkpoints = 1,
                                                 .checkpoint_alignment = 16});
    pkv_seq *seq = run_n(cache, 220);
    assert_offers(cache, seq, NULL, "a1:5@208");
    end_cache(cache);
}

static void a_loaded_state_is_offered_when_it_is_keyed(void **state)
{
    (void)state;
    pkv_cache *cache = coarse_cache();
    pkv_seq *seq = open_n(cache, 200);
    pkv_allocate_params load = new_tokens(0);
    load.external_tokens = 128;
    load.delay_caching = 1;
    (void)allocate(seq, load);
    assert_offers(cache, seq, NULL, "");
    assert_ok(pkv_seq_cache(seq, 128));
    uint64_t n;
    const pkv_block last = pkv_seq_table(seq, 1, &n)[1];
    const pkv_state_offer *offers = pkv_cache_take_offers(cache, &n);
    assert_int_equal(n, 1);
    assert_int_equal(offers[0].block, last);
    assert_int_equal(offers[0].tokens, 128);
    end_cache(cache);
}

static void many_loads_may_end_in_one_step(void **state)
{
    (void)state;
    enum { LOADS = 100 };
    const state_model m = {.block = 64, .n_blocks = 4 * LOADS, .len = 640};
    const pkv_spec layers[] = {full_of(64, 8), states_of(&m), states_of(&m)};
    pkv_cache *cache = state_cache_of(&m, layers, COUNT(layers));
    pkv_seq *seqs[LOADS];
    pkv_allocate_params load = new_tokens(0);
    load.external_tokens = 64;
    load.delay_caching = 1;
    for (uint64_t i = 0; i < LOADS; i++) {
        const int32_t tokens[65] = {(int32_t)i};
        seqs[i] = open_tokens(cache, tokens, COUNT(tokens));
        (void)allocate(seqs[i], load);
    }
    for (uint64_t i = 0; i < LOADS; i++) {
        assert_ok(pkv_seq_cache(seqs[i], 64));
    }
    uint64_t n;
    const pkv_state_offer *offers = pkv_cache_take_offers(cache, &n);
    assert_int_equal(n, 2 * LOADS);
    for (uint64_t i = 0; i < n; i++) {
        assert_ptr_equal(offers[i].seq, seqs[i / 2]);
        assert_int_equal(offers[i].group, 1 + i % 2);
        assert_int_equal(offers[i].tokens, 64);
        assert_int_equal(key_of(cache, offers[i].block), 64);
    }
    end_cache(cache);
}

static void offers_end_with_the_step(void **state)
{
    (void)state;
    pkv_cache *cache = coarse_cache();
    pkv_seq *seq = open_n(cache, 200);
    (void)take(seq, 64);
    pkv_cache_step(cache);
    assert_offers(cache, seq, NULL, "");
    end_cache(cache);
}

static void a_request_that_leaves_takes_its_offers_along(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        pkv_cache *cache = two_states_cache();
        pkv_seq *a = open_n(cache, 200), *b = open_tokens(cache, diverging(0), 200);
        (void)take(a, 64);
        (void)take(b, 64);
        assert_ok(how == 0 ? pkv_seq_preempt(a) : pkv_seq_close(a, how == 1));
        assert_offers(cache, a, b, "b1:5@64 b2:6@64");
        end_cache(cache);
    }
}

static void without_states_nothing_is_offered(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *seq = run_n(cache, 64);
    assert_offers(cache, seq, NULL, "");
    assert_finish(seq, "");
    end_cache(cache);
}

/* ---- finish ---- */

static void the_end_of_a_request_tells_its_own_tail(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache();
    pkv_seq *seq = open_n(cache, 98);
    (void)take(seq, 96);
    pkv_cache_step(cache);
    assert_finish(seq, "a1:3@96");
    assert_finish(seq, ""); /* once */
    assert_sound(cache);
    close_seq(seq);
    assert_int_equal(resend(cache, 98), 96);
    end_cache(cache);
}

static void a_tail_that_was_written_over_is_not_told(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache();
    pkv_seq *seq = open_n(cache, 98);
    (void)take(seq, 96);
    pkv_cache_step(cache);
    (void)take(seq, 2);
    assert_finish(seq, "");
    end_cache(cache);
}

static void a_tail_that_a_running_step_may_still_write_is_not_told(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache();
    pkv_seq *seq = open_n(cache, 98);
    (void)take(seq, 64);
    pkv_cache_step(cache);
    pkv_allocate_params params = new_tokens(32);
    params.in_flight_tokens = 64;
    (void)allocate(seq, params);
    assert_finish(seq, "");
    end_cache(cache);
}

static void a_tail_beyond_a_rollback_is_not_told(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache();
    pkv_seq *seq = open_n(cache, 98);
    (void)take(seq, 96);
    pkv_cache_step(cache);
    assert_ok(pkv_seq_set_computed(seq, 80)); /* whole blocks are keyed up to 64 */
    assert_finish(seq, "");
    end_cache(cache);
}

static void a_whole_state_is_offered_and_not_told_again(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache();
    pkv_seq *seq = open_n(cache, 130);
    (void)take(seq, 128);
    assert_offers(cache, seq, NULL, "a1:3@128");
    pkv_cache_step(cache);
    assert_finish(seq, "");
    end_cache(cache);
}

static void a_hit_inside_a_block_is_nobodys_own_tail(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache();
    pkv_seq *seq = open_n(cache, 98);
    (void)take(seq, 96);
    close_seq(seq);
    pkv_cache_step(cache);
    pkv_seq *reader = open_n(cache, 98);
    (void)take(reader, 2);
    assert_finish(reader, "");
    end_cache(cache);
}

static void the_end_of_a_request_lets_go_what_lies_below_its_windows(void **state)
{
    (void)state;
    const state_model m = {.block = 16, .n_blocks = 60, .len = 320};
    const pkv_spec layers[] = {full(), states_of(&m), windowed(32)};
    pkv_cache *cache = state_cache_of(&m, layers, COUNT(layers));
    pkv_seq *seq = open_n(cache, 160);
    (void)take(seq, 80); /* full 1..5, state 6, window 7..11 */
    pkv_cache_step(cache);
    (void)take(seq, 80);
    assert_finish(seq, "");
    uint64_t n;
    const pkv_block *states = pkv_seq_table(seq, 1, &n), *window;
    for (uint64_t i = 0; i < 9; i++) {
        assert_int_equal(states[i], 0); /* 159 tokens are behind: 9 blocks */
    }
    assert_int_not_equal(states[9], 0);
    window = pkv_seq_table(seq, 2, &n);
    assert_int_equal(window[7], 0); /* (160 - 32 + 1) / 16 = 8 */
    assert_int_not_equal(window[8], 0);
    end_cache(cache);
}

static void only_who_holds_blocks_can_finish(void **state)
{
    (void)state;
    pkv_cache *cache = fine_cache();
    pkv_seq *seq = open_n(cache, 98);
    const pkv_state_offer *offers;
    uint64_t n;
    assert_status(pkv_seq_finish(seq, &offers, &n), PKV_E_INVAL);
    assert_error_text("pkv_seq_finish", "not allocated");
    (void)take(seq, 96);
    assert_status(pkv_seq_finish(NULL, &offers, &n), PKV_E_INVAL);
    assert_status(pkv_seq_finish(seq, NULL, &n), PKV_E_INVAL);
    assert_status(pkv_seq_finish(seq, &offers, NULL), PKV_E_INVAL);
    assert_ok(pkv_seq_preempt(seq));
    assert_status(pkv_seq_finish(seq, &offers, &n), PKV_E_INVAL);
    end_cache(cache);
}

/* ---- the hit that a connector is shown ---- */

static void assert_shown(pkv_seq *seq, uint64_t tokens, bool diverged)
{
    pkv_hit hit;
    bool told;
    assert_ok(pkv_seq_lookup_for_connector(seq, &hit, &told));
    assert_int_equal(hit.tokens, tokens);
    assert_int_equal(told, diverged);
}

static void a_connector_is_shown_what_full_attention_has(void **state)
{
    (void)state;
    pkv_cache *cache =
        state_cache((state_model){.block = 64, .n_blocks = 40, .len = 640, .sparse = true});
    pkv_seq *seq = open_n(cache, 264);
    run_in_chunks(cache, seq, 264, 64); /* the state after 256 is kept */
    pkv_seq *other = open_tokens(cache, diverging(200), 264);
    assert_shown(other, 192, true); /* three blocks of full attention, no state */
    assert_hit(cache, 0, "1 3 2");  /* 2 was the first state: it had no key and came back at once */
    assert_hit(cache, 1, "");
    pkv_hit hit;
    assert_ok(pkv_seq_lookup(other, &hit)); /* the connector brought nothing */
    assert_int_equal(hit.tokens, 0);
    assert_int_equal(hit.shared_prefix, 192);
    assert_shown(open_n(cache, 264), 256, false); /* here all agree */
    end_cache(cache);
}

static void without_the_tail_of_attention_the_common_hit_is_shown(void **state)
{
    (void)state;
    pkv_cache *cache = coarse_cache();
    pkv_seq *seq = open_n(cache, 264);
    run_in_chunks(cache, seq, 264, 64);
    uint64_t n;
    const pkv_block hole = pkv_seq_table(seq, 0, &n)[2];
    assert_ok(pkv_cache_evict(cache, &hole, 1));
    /* the states reach 256, further than the 128 of full attention: 128 is what all have */
    pkv_seq *again = open_n(cache, 264);
    assert_shown(again, 128, false);
    assert_int_equal(lookup(again), 128);
    end_cache(cache);
}

static void a_group_outside_of_prefixes_diverges_from_any_hit(void **state)
{
    (void)state;
    const state_model m = {.block = 16, .n_blocks = 60, .len = 320};
    const pkv_spec layers[] = {full(), states_of(&m), ring_of(16, 2048)};
    pkv_cache *cache = state_cache_of(&m, layers, COUNT(layers));
    pkv_seq *seq = open_n(cache, 64);
    run_in_chunks(cache, seq, 64, 16);
    assert_shown(open_n(cache, 65), 64, true);
    assert_shown(open_tokens(cache, diverging(0), 65), 0, false); /* nothing is hit */
    end_cache(cache);
}

static void without_states_a_connector_sees_the_common_hit(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 60, 320);
    (void)run_n(cache, 160);
    assert_shown(open_n(cache, 160), 144, false);
    end_cache(cache);
}

static void a_lookup_for_a_connector_takes_and_pins_nothing(void **state)
{
    (void)state;
    pkv_cache *cache = coarse_cache();
    pkv_seq *seq = open_n(cache, 264);
    run_in_chunks(cache, seq, 264, 64);
    pkv_seq *again = open_n(cache, 264);
    const uint64_t n_free = free_of(cache);
    for (int i = 0; i < 3; i++) {
        assert_shown(again, 256, false);
    }
    assert_int_equal(free_of(cache), n_free);
    (void)take(again, 8);
    pkv_hit hit;
    bool told;
    assert_status(pkv_seq_lookup_for_connector(again, &hit, &told), PKV_E_INVAL);
    assert_error_text("pkv_seq_lookup_for_connector", "is allocated");
    assert_status(pkv_seq_lookup_for_connector(NULL, &hit, &told), PKV_E_INVAL);
    assert_status(pkv_seq_lookup_for_connector(open_n(cache, 8), &hit, NULL), PKV_E_INVAL);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_offered_when_they_are_keyed),
        cmocka_unit_test(states_without_a_key_are_not_offered),
        cmocka_unit_test(offers_of_one_allocate_are_in_the_order_of_groups),
        cmocka_unit_test(a_state_inside_a_block_is_offered_when_it_has_a_block_of_its_own),
        cmocka_unit_test(a_moved_state_and_a_whole_one_are_sorted_by_group),
        cmocka_unit_test(a_checkpoint_is_offered_for_its_position),
        cmocka_unit_test(a_loaded_state_is_offered_when_it_is_keyed),
        cmocka_unit_test(many_loads_may_end_in_one_step),
        cmocka_unit_test(offers_end_with_the_step),
        cmocka_unit_test(a_request_that_leaves_takes_its_offers_along),
        cmocka_unit_test(without_states_nothing_is_offered),
        cmocka_unit_test(the_end_of_a_request_tells_its_own_tail),
        cmocka_unit_test(a_tail_that_was_written_over_is_not_told),
        cmocka_unit_test(a_tail_that_a_running_step_may_still_write_is_not_told),
        cmocka_unit_test(a_tail_beyond_a_rollback_is_not_told),
        cmocka_unit_test(a_whole_state_is_offered_and_not_told_again),
        cmocka_unit_test(a_hit_inside_a_block_is_nobodys_own_tail),
        cmocka_unit_test(the_end_of_a_request_lets_go_what_lies_below_its_windows),
        cmocka_unit_test(only_who_holds_blocks_can_finish),
        cmocka_unit_test(a_connector_is_shown_what_full_attention_has),
        cmocka_unit_test(without_the_tail_of_attention_the_common_hit_is_shown),
        cmocka_unit_test(a_group_outside_of_prefixes_diverges_from_any_hit),
        cmocka_unit_test(without_states_a_connector_sees_the_common_hit),
        cmocka_unit_test(a_lookup_for_a_connector_takes_and_pins_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
