/* test_encoder_errors.c  Who is refused by an encoder cache, and that a refusal changes nothing. */
#include "encoder_fixture.h"

/* ---- create ---- */

static pkv_encoder_params params_of(uint64_t capacity)
{
    pkv_encoder_params params;
    pkv_encoder_params_init(&params);
    params.capacity = capacity;
    return params;
}

static void assert_no_encoder(const pkv_encoder_params *params, pkv_status status, const char *part)
{
    pkv_encoder *e = (pkv_encoder *)(uintptr_t)1;
    assert_status(pkv_encoder_create(params, &e), status);
    assert_null(e);
    assert_error_text("pkv_encoder_create", part);
}

static void a_capacity_is_below_two_to_the_63(void **state)
{
    (void)state;
    pkv_encoder_params params = params_of(UINT64_C(1) << 63);
    assert_no_encoder(&params, PKV_E_INVAL, "capacity 9223372036854775808");
}

static void encoder_decoder_is_yes_or_no(void **state)
{
    (void)state;
    pkv_encoder_params params = params_of(10);
    params.encoder_decoder = 2;
    assert_no_encoder(&params, PKV_E_INVAL, "encoder_decoder 2");
}

static void params_and_out_are_needed(void **state)
{
    (void)state;
    const pkv_encoder_params params = params_of(10);
    assert_no_encoder(NULL, PKV_E_INVAL, "NULL");
    assert_status(pkv_encoder_create(&params, NULL), PKV_E_INVAL);
    assert_error_text("pkv_encoder_create", "NULL");
}

static void a_struct_without_its_size_is_refused(void **state)
{
    (void)state;
    pkv_encoder_params params = params_of(10);
    params.struct_size = 0;
    assert_no_encoder(&params, PKV_E_INVAL, "struct_size 0");
}

typedef struct newer_params {
    pkv_encoder_params known;
    uint64_t unknown;
} newer_params;

static void a_newer_struct_is_taken_if_its_new_fields_are_zero(void **state)
{
    (void)state;
    pkv_encoder *e;
    newer_params newer = {.known = params_of(10)};
    newer.known.struct_size = sizeof newer;
    assert_ok(pkv_encoder_create(&newer.known, &e));
    pkv_encoder_destroy(e);
    newer.unknown = 1;
    assert_no_encoder(&newer.known, PKV_E_VERSION, "struct_size");
}

static void destroying_and_closing_nothing_is_allowed(void **state)
{
    (void)state;
    pkv_encoder_destroy(NULL);
    pkv_encoder_close(NULL);
}

/* ---- open ---- */

static void every_input_has_an_id(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    const pkv_encoder_input inputs[] = {{"A", 1}, {NULL, 2}};
    pkv_encoder_request *r = (pkv_encoder_request *)(uintptr_t)1;
    const seen before = look(e);
    assert_status(pkv_encoder_open(e, inputs, 2, &r), PKV_E_INVAL);
    assert_error_text("pkv_encoder_open", "input 1: id is NULL");
    assert_null(r);
    assert_status(pkv_encoder_open(e, NULL, 1, &r), PKV_E_INVAL);
    assert_error_text("pkv_encoder_open", "inputs is NULL");
    assert_status(pkv_encoder_open(e, inputs, 1, NULL), PKV_E_INVAL);
    assert_error_text("pkv_encoder_open", "out is NULL");
    assert_unchanged(e, &before);
    pkv_encoder_destroy(e);
}

static void a_request_without_inputs_is_one(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r;
    assert_ok(pkv_encoder_open(e, NULL, 0, &r));
    assert_false(pkv_encoder_holds(r, 0));
    assert_status(pkv_encoder_lookup(r, 0), PKV_E_INVAL);
    pkv_encoder_release_all(r);
    pkv_encoder_close(r);
    checked(e);
    pkv_encoder_destroy(e);
}

static void an_id_to_be_found_is_needed(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    uint64_t embeds;
    assert_status(pkv_encoder_find(e, NULL, &embeds), PKV_E_INVAL);
    assert_error_text("pkv_encoder_find", "NULL");
    assert_status(pkv_encoder_find(e, "A", NULL), PKV_E_INVAL);
    assert_error_text("pkv_encoder_find", "NULL");
    pkv_encoder_destroy(e);
}

/* ---- inputs ---- */

static void inputs_beyond_the_request_are_refused(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = holder_of(e, "A4 B3", 1);
    const uint64_t beyond[] = {2, 3, UINT64_MAX};
    const seen before = look(e);
    for (size_t i = 0; i < COUNT(beyond); i++) {
        assert_status(pkv_encoder_lookup(r, beyond[i]), PKV_E_INVAL);
        assert_error_text("pkv_encoder_lookup", "of a request of 2");
        assert_status(pkv_encoder_make_room(r, beyond[i], NO_LIMIT, 0), PKV_E_INVAL);
        assert_error_text("pkv_encoder_make_room", "of a request of 2");
        assert_status(pkv_encoder_allocate(r, beyond[i]), PKV_E_INVAL);
        assert_error_text("pkv_encoder_allocate", "of a request of 2");
        assert_status(pkv_encoder_release(r, beyond[i]), PKV_E_INVAL);
        assert_error_text("pkv_encoder_release", "of a request of 2");
        assert_false(pkv_encoder_holds(r, beyond[i]));
    }
    assert_unchanged(e, &before);
    pkv_encoder_destroy(e);
}

static void an_id_of_two_contents_is_refused(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *a = holder_of(e, "A4", 1), *b = request_of(e, "A5");
    const seen before = look(e);
    assert_status(pkv_encoder_lookup(b, 0), PKV_E_VALUE);
    assert_error_text("pkv_encoder_lookup",
                      "input 0 has 5 embeddings, but its item is cached with 4");
    assert_false(pkv_encoder_holds(b, 0));
    assert_unchanged(e, &before);
    pkv_encoder_close(a); /* idle: the same */
    assert_status(pkv_encoder_lookup(b, 0), PKV_E_VALUE);
    assert_slots(e, 6, 10);
    pkv_encoder_close(holder_of(e, "C10", 1)); /* A goes */
    put(b, 0);
    assert_slots(e, 5, 5); /* and is what came next */
    pkv_encoder_destroy(e);
}

static void an_item_is_allocated_once(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = holder_of(e, "A4 A4", 1), *other = request_of(e, "A4");
    const seen before = look(e);
    assert_status(pkv_encoder_allocate(r, 0), PKV_E_INVAL);
    assert_error_text("pkv_encoder_allocate", "input 0: its item is held already");
    assert_status(pkv_encoder_allocate(r, 1), PKV_E_INVAL);
    assert_error_text("pkv_encoder_allocate", "input 1: its item is cached already");
    assert_status(pkv_encoder_allocate(other, 0), PKV_E_INVAL);
    assert_unchanged(e, &before);
    assert_ok(pkv_encoder_release(r, 0));
    assert_status(pkv_encoder_allocate(r, 0), PKV_E_INVAL); /* idle */
    assert_error_text("pkv_encoder_allocate", "cached already");
    assert_slots(e, 6, 10);
    pkv_encoder_destroy(e);
}

static void without_sharing_an_input_is_allocated_once(void **state)
{
    (void)state;
    pkv_encoder *e = open_encoder(10, 1, NULL);
    pkv_encoder_request *r = holder_of(e, "A4", 1);
    assert_status(pkv_encoder_allocate(r, 0), PKV_E_INVAL);
    assert_error_text("pkv_encoder_allocate", "held already");
    assert_slots(e, 6, 6);
    assert_ok(pkv_encoder_release(r, 0));
    assert_status(pkv_encoder_release(r, 0), PKV_E_NOT_FOUND); /* upstream would free it twice */
    assert_slots(e, 10, 10);
    pkv_encoder_destroy(e);
}

static void an_allocate_without_room_is_refused(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_close(holder_of(e, "A6", 1));
    pkv_encoder_request *r = request_of(e, "B5");
    const seen before = look(e);
    assert_status(pkv_encoder_allocate(r, 0), PKV_E_INVAL); /* 4 are free, 10 freeable */
    assert_error_text("pkv_encoder_allocate", "5 embeddings, free are 4: make room first");
    assert_unchanged(e, &before);
    put(r, 0);
    pkv_encoder_destroy(e);
}

static void releasing_what_is_not_held_changes_nothing(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    holder_of(e, "A4", 1);
    pkv_encoder_request *r = request_of(e, "A4 B3");
    const seen before = look(e);
    assert_status(pkv_encoder_release(r, 0), PKV_E_NOT_FOUND); /* another request holds it */
    assert_status(pkv_encoder_release(r, 1), PKV_E_NOT_FOUND); /* nobody does */
    pkv_encoder_release_all(r);
    assert_unchanged(e, &before);
    pkv_encoder_destroy(e);
}

static void ordinary_answers_leave_the_error_text_alone(void **state)
{
    (void)state;
    pkv_encoder *e = shared_encoder(10);
    pkv_encoder_request *r = request_of(e, "A11");
    uint64_t embeds;
    assert_status(pkv_encoder_lookup(r, 99), PKV_E_INVAL);
    assert_status(pkv_encoder_lookup(r, 0), PKV_E_NOT_FOUND);
    assert_status(pkv_encoder_make_room(r, 0, 5, 0), PKV_E_AGAIN);
    assert_status(pkv_encoder_make_room(r, 0, 11, 0), PKV_E_NO_BLOCKS);
    assert_status(pkv_encoder_release(r, 0), PKV_E_NOT_FOUND);
    assert_status(pkv_encoder_find(e, "A", &embeds), PKV_E_NOT_FOUND);
    assert_error_text("pkv_encoder_lookup", "input 99");
    pkv_encoder_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capacity_is_below_two_to_the_63),
        cmocka_unit_test(encoder_decoder_is_yes_or_no),
        cmocka_unit_test(params_and_out_are_needed),
        cmocka_unit_test(a_struct_without_its_size_is_refused),
        cmocka_unit_test(a_newer_struct_is_taken_if_its_new_fields_are_zero),
        cmocka_unit_test(destroying_and_closing_nothing_is_allowed),
        cmocka_unit_test(every_input_has_an_id),
        cmocka_unit_test(a_request_without_inputs_is_one),
        cmocka_unit_test(an_id_to_be_found_is_needed),
        cmocka_unit_test(inputs_beyond_the_request_are_refused),
        cmocka_unit_test(an_id_of_two_contents_is_refused),
        cmocka_unit_test(an_item_is_allocated_once),
        cmocka_unit_test(without_sharing_an_input_is_allocated_once),
        cmocka_unit_test(an_allocate_without_room_is_refused),
        cmocka_unit_test(releasing_what_is_not_held_changes_nothing),
        cmocka_unit_test(ordinary_answers_leave_the_error_text_alone),
    };
    return cmocka_run_group_tests_name("encoder errors", tests, NULL, NULL);
}
