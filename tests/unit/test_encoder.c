/* test_encoder.c  The encoder cache: its parameters, what is held, found and evicted. */
#include "encoder_fixture.h"

/* ---- parameters ---- */

static void init_sets_the_documented_values(void **state)
{
    (void)state;
    pkv_encoder_params params, zeros;
    memset(&params, 0xa5, sizeof params);
    memset(&zeros, 0, sizeof zeros);
    pkv_encoder_params_init(&params);
    assert_int_equal(params.struct_size, sizeof params);
    params.struct_size = 0;
    assert_memory_equal(&params, &zeros, sizeof params);
}

static void a_new_cache_is_empty(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    assert_int_equal(pkv_encoder_capacity(e), 10);
    assert_int_equal(pkv_encoder_n_items(e), 0);
    assert_slots(e, 10, 10);
    assert_idle(e, "");
    assert_evicted(e, "");
    pkv_encoder_destroy(e);
}

static void a_cache_without_room_takes_nothing(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(0);
    pkv_encoder_request *r = request_of(e, "A1 B0");
    assert_status(pkv_encoder_make_room(r, 0, NO_LIMIT, 0), PKV_E_NO_BLOCKS);
    put(r, 1); /* of no embeddings */
    assert_slots(e, 0, 0);
    pkv_encoder_destroy(e);
}

/* ---- row 149 of the reference: 10 slots, A 4, B 5, then C 6 ---- */

static void a_full_cache_has_no_room_while_all_is_held(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    holder_of(e, "A4 B5", 2);
    assert_slots(e, 1, 1);
    pkv_encoder_request *c = request_of(e, "C6");
    const seen before = look(e);
    assert_status(pkv_encoder_make_room(c, 0, NO_LIMIT, 0), PKV_E_NO_BLOCKS);
    assert_unchanged(e, &before);
    pkv_encoder_destroy(e);
}

static void nothing_is_evicted_if_that_is_not_enough(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *ab = holder_of(e, "A4 B5", 2), *c = request_of(e, "C6");
    assert_ok(pkv_encoder_release(ab, 0));
    assert_slots(e, 1, 5); /* 1 + A */
    assert_status(pkv_encoder_make_room(c, 0, NO_LIMIT, 0), PKV_E_NO_BLOCKS);
    assert_slots(e, 1, 5);
    assert_idle(e, "A");
    assert_evicted(e, "");
    pkv_encoder_destroy(e);
}

static void the_oldest_are_evicted_until_it_fits(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *ab = holder_of(e, "A4 B5", 2), *c = request_of(e, "C6");
    assert_ok(pkv_encoder_release(ab, 0));
    assert_ok(pkv_encoder_release(ab, 1));
    assert_slots(e, 1, 10);
    put(c, 0); /* 1 + 4 < 6 <= 1 + 4 + 5 */
    assert_slots(e, 4, 4);
    assert_evicted(e, "A B");
    pkv_encoder_destroy(e);
}

static void no_more_is_evicted_than_is_needed(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *ab = holder_of(e, "A4 B5", 2), *c = request_of(e, "C5");
    pkv_encoder_release_all(ab);
    put(c, 0); /* 1 + 4 = 5 */
    assert_idle(e, "B");
    assert_slots(e, 0, 5);
    assert_evicted(e, "A");
    pkv_encoder_destroy(e);
}

/* ---- found and held ---- */

static void an_item_is_found_by_every_request_that_names_it(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    holder_of(e, "A4", 1);
    pkv_encoder_request *other = request_of(e, "B3 A4");
    assert_status(pkv_encoder_lookup(other, 0), PKV_E_NOT_FOUND);
    assert_false(pkv_encoder_holds(other, 1));
    assert_ok(pkv_encoder_lookup(other, 1));
    assert_true(pkv_encoder_holds(other, 1));
    assert_slots(e, 6, 6); /* kept once */
    pkv_encoder_destroy(e);
}

static void an_item_that_is_found_cannot_be_evicted(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *a = holder_of(e, "A4", 1), *again = request_of(e, "A4");
    pkv_encoder_close(a);
    assert_slots(e, 6, 10);
    assert_idle(e, "A");
    assert_ok(pkv_encoder_lookup(again, 0));
    assert_slots(e, 6, 6);
    assert_idle(e, "");
    pkv_encoder_destroy(e);
}

static void an_item_stays_until_the_last_request_releases_it(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *a = holder_of(e, "A4", 1), *b = request_of(e, "A4");
    assert_ok(pkv_encoder_lookup(b, 0));
    assert_ok(pkv_encoder_release(a, 0));
    assert_slots(e, 6, 6);
    assert_ok(pkv_encoder_release(b, 0));
    assert_slots(e, 6, 10);
    pkv_encoder_destroy(e);
}

static void an_item_stays_until_its_last_place_in_a_request_is_released(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = request_of(e, "A4 B2 A4");
    put(r, 0);
    assert_ok(pkv_encoder_lookup(r, 2));
    assert_ok(pkv_encoder_release(r, 0));
    assert_slots(e, 6, 6);
    assert_idle(e, "");
    assert_ok(pkv_encoder_release(r, 2));
    assert_slots(e, 6, 10);
    assert_idle(e, "A");
    pkv_encoder_destroy(e);
}

static void an_input_holds_its_item_once_however_often_it_is_found(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = holder_of(e, "A4", 1);
    assert_ok(pkv_encoder_lookup(r, 0));
    assert_ok(pkv_encoder_lookup(r, 0));
    assert_ok(pkv_encoder_release(r, 0));
    assert_slots(e, 6, 10);
    assert_status(pkv_encoder_release(r, 0), PKV_E_NOT_FOUND);
    pkv_encoder_destroy(e);
}

static void what_is_released_first_is_evicted_first(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = holder_of(e, "A2 B2 C2", 3);
    assert_ok(pkv_encoder_release(r, 1));
    assert_ok(pkv_encoder_release(r, 2));
    assert_ok(pkv_encoder_release(r, 0));
    assert_idle(e, "B C A");
    assert_ok(pkv_encoder_lookup(r, 1)); /* found again: it becomes the youngest */
    assert_ok(pkv_encoder_release(r, 1));
    assert_idle(e, "C A B");
    pkv_encoder_destroy(e);
}

static void a_request_releases_its_first_input_first(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = request_of(e, "A2 B2 C2");
    put(r, 2);
    put(r, 0);
    put(r, 1);
    pkv_encoder_release_all(r);
    assert_idle(e, "A B C");
    assert_false(pkv_encoder_holds(r, 0));
    pkv_encoder_release_all(r); /* nothing is held */
    assert_slots(e, 4, 10);
    pkv_encoder_destroy(e);
}

static void the_size_of_an_item_can_be_asked(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = holder_of(e, "A4 B3", 1);
    uint64_t embeds = 77;
    assert_ok(pkv_encoder_find(e, "A", &embeds));
    assert_int_equal(embeds, 4);
    assert_status(pkv_encoder_find(e, "B", &embeds), PKV_E_NOT_FOUND); /* named only */
    assert_status(pkv_encoder_find(e, "", &embeds), PKV_E_NOT_FOUND);
    assert_int_equal(embeds, 4);
    pkv_encoder_close(r);
    assert_ok(pkv_encoder_find(e, "A", &embeds)); /* idle */
    pkv_encoder_destroy(e);
}

static void ids_are_compared_whole(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    const pkv_encoder_input inputs[] = {{"", 1}, {"a", 2}, {"a ", 3}, {"\xc3\xa4", 4}};
    pkv_encoder_request *r;
    uint64_t embeds;
    assert_ok(pkv_encoder_open(e, inputs, COUNT(inputs), &r));
    for (uint64_t i = 0; i < COUNT(inputs); i++) {
        put(r, i);
        assert_ok(pkv_encoder_find(e, inputs[i].id, &embeds));
        assert_int_equal(embeds, i + 1);
    }
    assert_int_equal(pkv_encoder_n_items(e), 4);
    assert_slots(e, 0, 0);
    pkv_encoder_destroy(e);
}

/* ---- room ---- */

static void an_item_beyond_the_budget_of_the_step_waits(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = request_of(e, "A4");
    assert_status(pkv_encoder_make_room(r, 0, 3, 0), PKV_E_AGAIN);
    assert_status(pkv_encoder_make_room(r, 0, 4, 0), PKV_OK);
    pkv_encoder_destroy(e);
}

static void the_budget_is_asked_before_the_room(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = request_of(e, "A11");
    assert_status(pkv_encoder_make_room(r, 0, 10, 0), PKV_E_AGAIN);
    assert_status(pkv_encoder_make_room(r, 0, 11, 0), PKV_E_NO_BLOCKS);
    pkv_encoder_destroy(e);
}

static void what_is_planned_needs_room_but_no_budget(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = request_of(e, "A4");
    assert_status(pkv_encoder_make_room(r, 0, 4, 6), PKV_OK); /* 4 + 6 = 10 */
    assert_status(pkv_encoder_make_room(r, 0, 4, 7), PKV_E_NO_BLOCKS);
    pkv_encoder_destroy(e);
}

static void items_are_evicted_for_what_is_planned_too(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_close(holder_of(e, "A3 B3 C3", 3));
    pkv_encoder_request *r = request_of(e, "D2 E4");
    assert_status(pkv_encoder_make_room(r, 0, NO_LIMIT, 0), PKV_OK); /* 1 + 3 >= 2 */
    assert_status(pkv_encoder_make_room(r, 1, NO_LIMIT, 2), PKV_OK); /* 4 + 3 >= 2 + 4 */
    assert_slots(e, 7, 10);
    assert_ok(pkv_encoder_allocate(r, 0));
    assert_ok(pkv_encoder_allocate(r, 1));
    assert_slots(e, 1, 4);
    assert_evicted(e, "A B");
    pkv_encoder_destroy(e);
}

static void room_beyond_all_numbers_is_refused(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(INT64_MAX);
    const pkv_encoder_input input = {"A", UINT64_MAX};
    pkv_encoder_request *r, *b = request_of(e, "B1");
    assert_ok(pkv_encoder_open(e, &input, 1, &r));
    assert_status(pkv_encoder_make_room(r, 0, NO_LIMIT, 0), PKV_E_NO_BLOCKS);
    assert_status(pkv_encoder_make_room(r, 0, NO_LIMIT, 1), PKV_E_NO_BLOCKS);
    assert_status(pkv_encoder_make_room(b, 0, NO_LIMIT, UINT64_MAX), PKV_E_NO_BLOCKS);
    pkv_encoder_destroy(e);
}

static void the_largest_cache_can_be_filled(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(INT64_MAX);
    pkv_encoder_request *r = holder_of(e, "A9223372036854775807", 1);
    assert_slots(e, 0, 0);
    pkv_encoder_close(r);
    assert_slots(e, 0, INT64_MAX);
    pkv_encoder_destroy(e);
}

/* ---- what is told ---- */

static void an_evicted_item_is_told_once(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(4);
    pkv_encoder_close(holder_of(e, "A4", 1));
    holder_of(e, "B4", 1);
    assert_evicted(e, "A");
    assert_evicted(e, "");
    pkv_encoder_destroy(e);
}

static void an_item_that_comes_back_in_the_same_pass_is_not_told(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(8);
    pkv_encoder_close(holder_of(e, "A4 B4", 2));
    pkv_encoder_request *r = request_of(e, "C8 A4");
    assert_status(pkv_encoder_make_room(r, 0, NO_LIMIT, 0), PKV_OK); /* but it is not allocated */
    assert_slots(e, 8, 8);
    put(r, 1);
    assert_evicted(e, "B");
    assert_evicted(e, "");
    pkv_encoder_destroy(e);
}

static void an_item_that_is_evicted_twice_in_a_pass_is_told_once(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(4);
    pkv_encoder_close(holder_of(e, "A4", 1));
    pkv_encoder_close(holder_of(e, "B4", 1)); /* A goes */
    pkv_encoder_close(holder_of(e, "A4", 1)); /* B goes, A comes */
    holder_of(e, "C4", 1);                    /* A goes again */
    assert_evicted(e, "B A");
    pkv_encoder_destroy(e);
}

static void ids_that_were_told_outlive_their_requests(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(4);
    uint64_t n;
    pkv_encoder_close(holder_of(e, "A4", 1));
    pkv_encoder_request *b = holder_of(e, "B4", 1);
    const char *const *ids = pkv_encoder_take_evicted(e, &n);
    assert_int_equal(n, 1);
    assert_string_equal(ids[0], "A");
    pkv_encoder_close(b);
    pkv_encoder_request *a = request_of(e, "A4"); /* the name is known, the content is not */
    assert_status(pkv_encoder_lookup(a, 0), PKV_E_NOT_FOUND);
    pkv_encoder_destroy(e);
}

static void a_reset_forgets_everything_but_the_requests(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_close(holder_of(e, "A6", 1));
    pkv_encoder_close(holder_of(e, "B5", 1)); /* A goes and is to be told */
    pkv_encoder_request *r = holder_of(e, "C3", 1);
    pkv_encoder_reset(e);
    assert_slots(e, 10, 10);
    assert_int_equal(pkv_encoder_n_items(e), 0);
    assert_idle(e, "");
    assert_evicted(e, "");
    assert_false(pkv_encoder_holds(r, 0));
    assert_status(pkv_encoder_release(r, 0), PKV_E_NOT_FOUND);
    assert_status(pkv_encoder_lookup(r, 0), PKV_E_NOT_FOUND);
    put(r, 0);
    assert_slots(e, 7, 7);
    pkv_encoder_destroy(e);
}

/* ---- encoder-decoder ---- */

static void without_sharing_every_input_takes_its_own_room(void **state)
{
    (void)state;
    pkv_encoder *e = open_encoder(10, 1, NULL);
    uint64_t embeds;
    pkv_encoder_request *a = holder_of(e, "A4", 1), *b = request_of(e, "A4 C3");
    assert_status(pkv_encoder_lookup(b, 0), PKV_E_NOT_FOUND);
    assert_status(pkv_encoder_lookup(a, 0), PKV_E_NOT_FOUND);
    assert_status(pkv_encoder_find(e, "A", &embeds), PKV_E_NOT_FOUND);
    put(b, 0);
    assert_slots(e, 2, 2);
    assert_int_equal(pkv_encoder_n_items(e), 0);
    assert_status(pkv_encoder_make_room(b, 1, NO_LIMIT, 0), PKV_E_NO_BLOCKS);
    assert_status(pkv_encoder_make_room(b, 1, 2, 0), PKV_E_AGAIN);
    assert_ok(pkv_encoder_release(a, 0)); /* free at once, and nothing to evict */
    assert_slots(e, 6, 6);
    assert_idle(e, "");
    put(b, 1);
    assert_slots(e, 3, 3);
    pkv_encoder_destroy(e);
}

static void without_sharing_items_are_told_one_step_later(void **state)
{
    (void)state;
    pkv_encoder *e = open_encoder(10, 1, NULL);
    pkv_encoder_close(holder_of(e, "A4 B5", 2));
    assert_evicted(e, ""); /* the step that computes them runs now */
    holder_of(e, "C6", 1);
    assert_evicted(e, "A B");
    assert_evicted(e, "C");
    assert_evicted(e, "");
    pkv_encoder_destroy(e);
}

static void without_sharing_an_item_of_two_steps_is_told_after_each(void **state)
{
    (void)state;
    pkv_encoder *e = open_encoder(10, 1, NULL);
    holder_of(e, "A2 A2", 2);
    assert_evicted(e, "");
    holder_of(e, "A2", 1);
    assert_evicted(e, "A"); /* of the first step, once */
    assert_evicted(e, "A");
    assert_evicted(e, "");
    pkv_encoder_destroy(e);
}

static void without_sharing_a_reset_forgets_what_was_to_be_told(void **state)
{
    (void)state;
    pkv_encoder *e = open_encoder(10, 1, NULL);
    holder_of(e, "A2", 1);
    assert_evicted(e, "");
    holder_of(e, "B2", 1);
    pkv_encoder_reset(e);
    assert_slots(e, 10, 10);
    assert_evicted(e, "");
    assert_evicted(e, "");
    pkv_encoder_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_sets_the_documented_values),
        cmocka_unit_test(a_new_cache_is_empty),
        cmocka_unit_test(a_cache_without_room_takes_nothing),
        cmocka_unit_test(a_full_cache_has_no_room_while_all_is_held),
        cmocka_unit_test(nothing_is_evicted_if_that_is_not_enough),
        cmocka_unit_test(the_oldest_are_evicted_until_it_fits),
        cmocka_unit_test(no_more_is_evicted_than_is_needed),
        cmocka_unit_test(an_item_is_found_by_every_request_that_names_it),
        cmocka_unit_test(an_item_that_is_found_cannot_be_evicted),
        cmocka_unit_test(an_item_stays_until_the_last_request_releases_it),
        cmocka_unit_test(an_item_stays_until_its_last_place_in_a_request_is_released),
        cmocka_unit_test(an_input_holds_its_item_once_however_often_it_is_found),
        cmocka_unit_test(what_is_released_first_is_evicted_first),
        cmocka_unit_test(a_request_releases_its_first_input_first),
        cmocka_unit_test(the_size_of_an_item_can_be_asked),
        cmocka_unit_test(ids_are_compared_whole),
        cmocka_unit_test(an_item_beyond_the_budget_of_the_step_waits),
        cmocka_unit_test(the_budget_is_asked_before_the_room),
        cmocka_unit_test(what_is_planned_needs_room_but_no_budget),
        cmocka_unit_test(items_are_evicted_for_what_is_planned_too),
        cmocka_unit_test(room_beyond_all_numbers_is_refused),
        cmocka_unit_test(the_largest_cache_can_be_filled),
        cmocka_unit_test(an_evicted_item_is_told_once),
        cmocka_unit_test(an_item_that_comes_back_in_the_same_pass_is_not_told),
        cmocka_unit_test(an_item_that_is_evicted_twice_in_a_pass_is_told_once),
        cmocka_unit_test(ids_that_were_told_outlive_their_requests),
        cmocka_unit_test(a_reset_forgets_everything_but_the_requests),
        cmocka_unit_test(without_sharing_every_input_takes_its_own_room),
        cmocka_unit_test(without_sharing_items_are_told_one_step_later),
        cmocka_unit_test(without_sharing_an_item_of_two_steps_is_told_after_each),
        cmocka_unit_test(without_sharing_a_reset_forgets_what_was_to_be_told),
    };
    return cmocka_run_group_tests_name("encoder", tests, NULL, NULL);
}
