/* test_encoder_memory.c  Where an encoder cache's memory comes from, and any allocation failing in
 * turn. */
#include "countdown.h"
#include "encoder_fixture.h"

static void a_cache_survives_a_failed_create(void **state)
{
    (void)state;
    countdown c = {.left = 0};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_encoder_params params;
    pkv_encoder *e = (pkv_encoder *)(uintptr_t)1;
    pkv_encoder_params_init(&params);
    params.alloc = &hooks;
    assert_status(pkv_encoder_create(&params, &e), PKV_E_NOMEM);
    assert_null(e);
    assert_error_text("pkv_encoder_create", "out of memory");
    c.left = 1;
    assert_ok(pkv_encoder_create(&params, &e));
    assert_int_equal(c.calls, 2);
    pkv_encoder_destroy(e);
    assert_int_equal(c.held, 0);
}

/* Opens a request in a cache of some items, with the n-th allocation failing, for n = 0, 1, ... */
static void assert_any_may_fail(const char *others, const char *inputs)
{
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    for (; st == PKV_E_NOMEM; n++) {
        countdown c = {.left = UINT64_MAX};
        const pkv_alloc hooks = {&c, counted_alloc, counted_free};
        pkv_encoder *e = open_encoder(20, 0, &hooks);
        pkv_encoder_request *r = (pkv_encoder_request *)(uintptr_t)1;
        assert_true(n < 100);
        holder_of(e, others, 2);
        pkv_encoder_close(holder_of(e, "Z18", 0));
        const seen before = look(e);
        c.left = n;
        st = try_open(e, inputs, &r);
        if (st != PKV_OK) {
            assert_null(r);
            assert_int_equal(c.left, 0); /* it did run out */
            assert_error_text("pkv_encoder_open", "out of memory for");
            assert_unchanged(e, &before);
        }
        c.left = UINT64_MAX; /* and it works on */
        pkv_encoder_close(request_of(e, inputs));
        pkv_encoder_destroy(e);
        assert_int_equal(c.held, 0);
    }
    assert_ok(st);
    assert_true(n > 1); /* it did fail */
}

static void a_request_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail("A2 B3", "C1 A2 D4 C1");
}

static void a_request_that_makes_the_index_grow_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail("A2 B3 C1 D1 E1 F1 G1 H1 I1 J1",
                        "K1 L1 M1 N1 O1 P1 Q1 R1 S1 T1 U1 V1 W1 X1");
}

/* Every operation once, on requests that are open. */
static void use_everything(pkv_encoder *e, pkv_encoder_request *a, pkv_encoder_request *b)
{
    uint64_t n;
    put(a, 0);
    put(a, 1);
    assert_ok(pkv_encoder_lookup(b, 0));
    assert_ok(pkv_encoder_release(a, 0));
    pkv_encoder_release_all(a);
    pkv_encoder_release_all(b);
    put(b, 1); /* evicts */
    (void)pkv_encoder_take_evicted(e, &n);
    assert_int_equal(n, 2);
    assert_status(pkv_encoder_allocate(a, 0), PKV_E_INVAL);
    pkv_encoder_reset(e);
    checked(e);
}

static void once_requests_are_open_nothing_allocates(void **state)
{
    (void)state;
    countdown c = {.left = 100};
    pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_encoder *e = open_encoder(10, 0, &hooks);
    memset(&hooks, 0, sizeof hooks); /* they were copied */
    pkv_encoder_request *a = request_of(e, "A4 B5"), *b = request_of(e, "A4 C10");
    const uint64_t calls = c.calls, held = c.held;
    c.left = 0;
    use_everything(e, a, b);
    use_everything(e, a, b);
    assert_int_equal(c.calls, calls);
    assert_int_equal(c.held, held);
    pkv_encoder_close(a);
    pkv_encoder_destroy(e);
    assert_int_equal(c.held, 0);
}

static void items_that_nobody_names_are_freed(void **state)
{
    (void)state;
    countdown c = {.left = UINT64_MAX};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_encoder *e = open_encoder(10, 0, &hooks);
    char ids[2][64];
    uint64_t held = 0;
    for (unsigned i = 0; i < 10000; i++) { /* a new image each time, of as many embeddings as fit */
        (void)snprintf(ids[0], sizeof ids[0], "image %u", i);
        (void)snprintf(ids[1], sizeof ids[1], "never computed %u", i);
        const pkv_encoder_input inputs[] = {{ids[0], 10}, {ids[1], 1}};
        pkv_encoder_request *r;
        uint64_t n;
        assert_ok(pkv_encoder_open(e, inputs, 2, &r));
        put(r, 0);
        pkv_encoder_close(r);
        (void)pkv_encoder_take_evicted(e, &n);
        assert_int_equal(n, i > 0);
        if (i == 100) {
            held = c.held;
        }
    }
    checked(e);
    assert_true(c.held <= held + 64); /* numbers have become longer */
    pkv_encoder_destroy(e);
    assert_int_equal(c.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_survives_a_failed_create),
        cmocka_unit_test(a_request_survives_any_failure),
        cmocka_unit_test(a_request_that_makes_the_index_grow_survives_any_failure),
        cmocka_unit_test(once_requests_are_open_nothing_allocates),
        cmocka_unit_test(items_that_nobody_names_are_freed),
    };
    return cmocka_run_group_tests_name("encoder memory", tests, NULL, NULL);
}
