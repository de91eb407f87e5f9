/* test_document_memory.c  Documents while memory runs out: any allocation of the hooks fails in
 * turn. (The JSON parser's own memory comes from libc.) */
#include "countdown.h"
#include "document_fixture.h"

/* Reads with 0, 1, 2, ... allocations until there are enough; returns how many are. */
static uint64_t assert_any_may_fail(const char *json, pkv_status final)
{
    countdown c = {0};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    for (; st == PKV_E_NOMEM; n++) {
        pkv_document *doc = (pkv_document *)(uintptr_t)1;
        assert_true(n < 10000);
        c = (countdown){.left = n};
        st = pkv_document_read(json, strlen(json), &hooks, &doc);
        if (st != PKV_OK) {
            assert_null(doc);
            assert_int_equal(c.held, 0);
        }
        if (st == PKV_E_NOMEM) {
            assert_error_text("pkv_document_read", "memory");
        }
        pkv_document_destroy(doc);
        assert_int_equal(c.held, 0);
    }
    assert_status(st, final);
    return n - 1;
}

/* A document of so many layers with names, texts and states; the caller frees it. */
static char *large_document(int layers)
{
    const size_t room = (size_t)layers * 400 + 1000;
    char *text = malloc(room);
    assert_non_null(text);
    size_t len = (size_t)snprintf(text, room,
                                  "{\"max_model_len\": 16, \"hash_seed\": \"7\", "
                                  "\"layers\": [");
    for (int i = 0; i < layers; i++) {
        len += (size_t)snprintf(
            text + len, room - len,
            i % 2 ? "%s{\"name\": \"m%d\", \"kind\": \"mamba\", \"block_size\": 16, \"shapes\": "
                    "[[4, 64]], \"dtypes\": [\"int8\"], \"mamba_type\": \"a recurrence\"}"
                  : "%s{\"name\": \"l%d\", \"kind\": \"mla_attention\", \"block_size\": 16, "
                    "\"num_kv_heads\": 1, \"head_size\": 576, \"dtype\": \"bfloat16\", "
                    "\"cache_dtype_str\": \"a type of my own\"}",
            i ? ", " : "", i);
    }
    (void)snprintf(text + len, room - len,
                   "], \"options\": {\"workers\": [{\"available_bytes\": 1, \"layers\": "
                   "[\"l0\", \"m1\"]}]}}");
    return text;
}

static void a_plan_document_survives_any_failure(void **state)
{
    (void)state;
    char *text = large_document(2000);
    assert_true(assert_any_may_fail(text, PKV_OK) > 3);
    free(text);
}

static void small_documents_survive_any_failure(void **state)
{
    (void)state;
#define SMALL                                                                   \
    "{\"kind\": \"cross_attention\", \"block_size\": 16, \"num_kv_heads\": 1, " \
    "\"head_size\": 1, \"dtype\": \"int8\"}"
    assert_true(assert_any_may_fail("{\"max_model_len\": 1}", PKV_OK) > 0);
    assert_true(assert_any_may_fail("{\"merge\": [" SMALL "]}", PKV_OK) > 0);
    assert_true(assert_any_may_fail("{\"quant_mode\": \"fp8\"}", PKV_OK) > 0);
}

static void a_refused_document_holds_nothing(void **state)
{
    (void)state;
    assert_any_may_fail("{\"max_model_len\": 1, \"hash\": \"x\", \"layers\": [{\"name\": \"a\", "
                        "\"kind\": \"nothing\"}]}",
                        PKV_E_INVAL);
    char *text = large_document(500);
    char *name = strstr(text, "\"m1\"]");
    assert_non_null(name);
    name[1] = 'x'; /* a stage of an unknown layer: found at the very end */
    assert_any_may_fail(text, PKV_E_INVAL);
    free(text);
}

static void the_parameters_do_not_carry_the_documents_hooks(void **state)
{
    (void)state;
    countdown c = {.left = UINT64_MAX};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_document *doc;
    assert_ok(pkv_document_read(WITH(""), strlen(WITH("")), &hooks, &doc));
    const uint64_t held = c.held;
    pkv_plan *plan = plan_of(pkv_document_params(doc)); /* in libc's memory */
    assert_int_equal(c.held, held);
    pkv_plan_destroy(plan);
    pkv_document_destroy(doc);
    assert_int_equal(c.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_document_survives_any_failure),
        cmocka_unit_test(small_documents_survive_any_failure),
        cmocka_unit_test(a_refused_document_holds_nothing),
        cmocka_unit_test(the_parameters_do_not_carry_the_documents_hooks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
