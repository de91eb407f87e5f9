/* test_encoder_check.c  pkv_encoder_check() finds what is broken, and names it. */
#include "encoder_fixture.h"

#include "encoder/encoder_internal.h"

/* A is held twice by one request and once by another, B and C are idle, D is evicted and to be
 * told, E was told, F is named only. 16 slots: A 4, B 2, C 3. */
typedef struct used {
    pkv_encoder *e;
    pkv_encoder_request *r;
    pkvi_item *a, *b, *c, *d, *told, *f;
} used;

static used open_used(void)
{
    used u = {.e = shared_encoder(16)};
    uint64_t n;
    pkv_encoder_close(holder_of(u.e, "E16", 1));
    pkv_encoder_request *d = holder_of(u.e, "D7", 1);
    (void)pkv_encoder_take_evicted(u.e, &n);
    u.r = holder_of(u.e, "A4 A4 F1", 1);
    assert_ok(pkv_encoder_lookup(u.r, 1));
    assert_ok(pkv_encoder_lookup(request_of(u.e, "A4"), 0));
    pkv_encoder_close(d);
    pkv_encoder_close(holder_of(u.e, "B2 C3", 2));
    assert_status(pkv_encoder_make_room(request_of(u.e, "G7"), 0, NO_LIMIT, 0), PKV_OK);
    u.a = pkvi_item_find(u.e, "A");
    u.b = pkvi_item_find(u.e, "B");
    u.c = pkvi_item_find(u.e, "C");
    u.d = pkvi_item_find(u.e, "D");
    u.told = pkvi_item_find(u.e, "E");
    u.f = pkvi_item_find(u.e, "F");
    assert_slots(u.e, 7, 12);
    assert_idle(u.e, "B C");
    return u;
}

/* While the field has that value the cache is corrupt, and the text says so. */
#define assert_broken(u, field, value, part)                     \
    do {                                                         \
        __typeof__(field) kept_ = (field);                       \
        (field) = (value);                                       \
        assert_status(pkv_encoder_check((u)->e), PKV_E_CORRUPT); \
        assert_error_text("pkv_encoder_check", part);            \
        (field) = kept_;                                         \
        checked((u)->e);                                         \
    } while (0)

static void wrong_slots_are_found(void **state)
{
    (void)state;
    used u = open_used();
    assert_broken(&u, u.e->free, 8, "free slots");
    assert_broken(&u, u.e->capacity, 8, "free slots");
    assert_broken(&u, u.e->freeable, 7, "freeable slots");
    assert_broken(&u, u.c->embeds, 4, "free slots");
    pkv_encoder_destroy(u.e);
}

static void wrong_counts_are_found(void **state)
{
    (void)state;
    used u = open_used();
    assert_broken(&u, u.e->n_items, 6, "more items");
    assert_broken(&u, u.e->n_items, 8, "fewer items");
    assert_broken(&u, u.e->n_cached, 2, "cached than counted");
    assert_broken(&u, u.r->n_held, 1, "another number of inputs");
    pkv_encoder_destroy(u.e);
}

static void wrong_users_and_holders_are_found(void **state)
{
    (void)state;
    used u = open_used();
    assert_broken(&u, u.a->users, 3, "other users");
    assert_broken(&u, u.a->refs, 2, "other users");
    assert_broken(&u, u.b->users, 2, "other users");
    assert_broken(&u, u.d->users, 2, "other users");
    assert_broken(&u, u.told->users, 2, "other users");
    assert_broken(&u, u.f->users, 0, "other users");
    pkv_encoder_destroy(u.e);
}

static void an_input_that_holds_what_is_not_cached_is_found(void **state)
{
    (void)state;
    used u = open_used();
    assert_broken(&u, u.a->cached, false, "not cached");
    assert_broken(&u, u.r->inputs[0].embeds, 5, "not cached");
    assert_broken(&u, u.r->inputs[2].held, true, "not cached");
    assert_broken(&u, u.r->inputs[0].held, false, "another number of inputs");
    pkv_encoder_destroy(u.e);
}

static void a_broken_index_is_found(void **state)
{
    (void)state;
    used u = open_used();
    assert_broken(&u, u.a->hash, u.a->hash + 1, "by its id");
    assert_broken(&u, u.a->hash, ~u.a->hash, "by its id");
    assert_broken(&u, u.a->id[0], 'B', "by its id");
    pkv_encoder_destroy(u.e);
}

static void broken_lists_are_found(void **state)
{
    (void)state;
    used u = open_used();
    assert_broken(&u, u.c->links[PKVI_IDLE].prev, NULL, "not a list");
    assert_broken(&u, u.c->links[PKVI_IDLE].next, u.b, "not a list");
    assert_broken(&u, u.b->links[PKVI_IDLE].next, NULL, "ends elsewhere");
    assert_broken(&u, u.b->links[PKVI_IDLE].listed, false, "not a list");
    assert_broken(&u, u.f->links[PKVI_DUE].listed, true, "believes");
    assert_broken(&u, u.e->lists[PKVI_IDLE].last, u.b, "ends elsewhere");
    assert_broken(&u, u.e->lists[PKVI_IDLE].n, 1, "not a list");
    assert_broken(&u, u.e->lists[PKVI_PENDING].first, NULL, "ends elsewhere");
    assert_broken(&u, u.b->cached, false, "where it does not belong");
    assert_broken(&u, u.d->cached, true, "where it does not belong");
    pkv_encoder_destroy(u.e);
}

static void a_cached_item_that_is_neither_held_nor_idle_is_found(void **state)
{
    (void)state;
    used u = open_used();
    pkvi_item_ends *idle = &u.e->lists[PKVI_IDLE];
    const pkvi_item_ends kept = *idle;
    const pkvi_item_link links[] = {u.b->links[PKVI_IDLE], u.c->links[PKVI_IDLE]};
    pkvi_item_unlink(u.e, PKVI_IDLE, u.b);
    assert_status(pkv_encoder_check(u.e), PKV_E_CORRUPT);
    assert_error_text("pkv_encoder_check", "neither held nor idle");
    *idle = kept;
    u.b->links[PKVI_IDLE] = links[0];
    u.c->links[PKVI_IDLE] = links[1];
    checked(u.e);
    pkv_encoder_destroy(u.e);
}

static void a_broken_report_is_found(void **state)
{
    (void)state;
    used u = open_used();
    assert_broken(&u, u.e->told_ids.n, 0, "no room");
    assert_broken(&u, u.e->told.capacity, 6, "no room");
    assert_broken(&u, u.e->told_ids.at[0], "E", "another id");
    pkv_encoder_destroy(u.e);
}

static void broken_requests_are_found(void **state)
{
    (void)state;
    used u = open_used();
    assert_broken(&u, u.r->encoder, NULL, "requests are not a list");
    assert_broken(&u, u.r->prev, NULL, "requests are not a list");
    assert_broken(&u, u.e->first->prev, u.r, "requests are not a list");
    assert_broken(&u, u.e->first, u.r, "requests are not a list");
    pkv_encoder_destroy(u.e);
}

static void without_sharing_nothing_is_cached(void **state)
{
    (void)state;
    used u = {.e = open_encoder(16, 1, NULL)};
    u.r = holder_of(u.e, "A4 B2", 2);
    u.a = pkvi_item_find(u.e, "A");
    assert_broken(&u, u.r->inputs[0].embeds, 5, "free slots");
    assert_broken(&u, u.r->inputs[0].embeds, INT64_MAX, "more is held");
    assert_broken(&u, u.a->cached, true, "where it does not belong");
    pkv_encoder_destroy(u.e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_slots_are_found),
        cmocka_unit_test(wrong_counts_are_found),
        cmocka_unit_test(wrong_users_and_holders_are_found),
        cmocka_unit_test(an_input_that_holds_what_is_not_cached_is_found),
        cmocka_unit_test(a_broken_index_is_found),
        cmocka_unit_test(broken_lists_are_found),
        cmocka_unit_test(a_cached_item_that_is_neither_held_nor_idle_is_found),
        cmocka_unit_test(a_broken_report_is_found),
        cmocka_unit_test(broken_requests_are_found),
        cmocka_unit_test(without_sharing_nothing_is_cached),
    };
    return cmocka_run_group_tests_name("encoder check", tests, NULL, NULL);
}
