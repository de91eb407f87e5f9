/* test_plan_memory.c  Where a plan's memory comes from, and any allocation failing in turn. */
#include "countdown.h"
#include "plan_fixture.h"

/* The n-th allocation fails, for n = 0, 1, ...: NOMEM and nothing held each time, until there are
 * enough. `final` is then the status; what it holds is given back by the plan. */
static void assert_any_may_fail(pkv_plan_params params, pkv_status final)
{
    countdown c = {0};
    const pkv_alloc hooks = {&c, counted_alloc, counted_free};
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    params.alloc = &hooks;
    for (; st == PKV_E_NOMEM; n++) {
        pkv_plan *plan = (pkv_plan *)(uintptr_t)1;
        assert_true(n < 100000);
        c = (countdown){.left = n};
        st = pkv_plan_create(&params, &plan);
        if (st != PKV_OK) {
            assert_null(plan);
            assert_int_equal(c.held, 0);
        }
        if (st == PKV_E_NOMEM) {
            assert_int_equal(c.left, 0); /* it did run out */
            assert_error_text("pkv_plan_create", "out of memory");
        }
        pkv_plan_destroy(plan);
        assert_int_equal(c.held, 0);
    }
    assert_status(st, final);
    assert_true(n > 2); /* the plan itself, and its scratch */
}

/* ---- each way of planning ---- */

static void layers_of_one_kind_survive_any_failure(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), full()};
    assert_any_may_fail(params_of(layers, 2, GIB, 1024), PKV_OK);
    assert_any_may_fail(params_of(NULL, 0, GIB, 1024), PKV_OK);
}

static void a_hybrid_with_states_and_texts_survives_any_failure(void **state)
{
    (void)state;
    pkv_spec mamba = recurrent(64),
             sliding = shaped(PKV_KIND_SLIDING_WINDOW_MLA, 16, 1, 576, PKV_DTYPE_BFLOAT16);
    mamba.mamba_type = "gdn";
    mamba.mamba_mode = PKV_MAMBA_ALIGN;
    sliding.sliding_window = 128;
    sliding.cache_dtype = "auto";
    const pkv_spec layers[] = {full(), windowed(128), finished(mamba), full_of(32, 4),
                               finished(sliding)};
    pkv_plan_params params = params_of(layers, 5, GIB, 1024);
    params.auto_fit = 1;
    params.draft_method = PKV_DRAFT_MTP_MULTI;
    params.draft_tokens = 3;
    assert_any_may_fail(params, PKV_OK);
}

static void packing_survives_any_failure(void **state)
{
    (void)state;
    pkv_spec layers[32];
    for (uint32_t i = 0; i < COUNT(layers); i++) {
        layers[i] = i % 3 == 0   ? full_of(16, i + 1)
                    : i % 3 == 1 ? windowed_of(128, 16, 4)
                                 : ring_of(8, 1024);
    }
    pkv_plan_params params = params_of(layers, COUNT(layers), 2 * GIB, 1024);
    params.layout = PKV_LAYOUT_BLHNC;
    assert_any_may_fail(params, PKV_OK);
}

static void promotion_survives_any_failure(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(128), chunked(256), full_of(16, 4)};
    pkv_plan_params params = params_of(layers, 4, GIB, 1024);
    params.enable_hybrid = 0;
    assert_any_may_fail(params, PKV_OK);
    const pkv_spec last_resort[] = {latent(16, 576), windowed_of(128, 16, 3)};
    assert_any_may_fail(params_of(last_resort, 2, GIB, 1024), PKV_OK);
}

static void hidden_states_survive_any_failure(void **state)
{
    (void)state;
    const pkv_spec layers[] = {
        full(), windowed(128),
        finished(shaped(PKV_KIND_HIDDEN_STATE, 16, 4, 16384, PKV_DTYPE_BFLOAT16))};
    assert_any_may_fail(params_of(layers, 3, GIB, 1024), PKV_OK);
}

static void hisparse_survives_any_failure(void **state)
{
    (void)state;
    pkv_spec indexer = shaped(PKV_KIND_MLA, 64, 1, 132, PKV_DTYPE_UINT8);
    indexer.cache_role = PKV_ROLE_INDEXER;
    const pkv_spec layers[] = {latent(64, 576), finished(indexer), latent(64, 576),
                               windowed_of(128, 64, 1)};
    pkv_plan_params params = params_of(layers, 4, GIB, 1024);
    params.layout = PKV_LAYOUT_BLHNC;
    params.hisparse = 1;
    params.hisparse_host_bytes = (uint64_t)GIB;
    assert_any_may_fail(params, PKV_OK);
}

static void stages_survive_any_failure(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), full_of(16, 4), full(), full_of(16, 2)};
    static const uint32_t own[] = {0, 1, 2, 3};
    const pkv_plan_worker workers[] = {{.available_bytes = GIB, .layers = own, .n_layers = 1},
                                       {.available_bytes = GIB, .layers = own + 1, .n_layers = 3},
                                       {.available_bytes = GIB, .layers = own, .n_layers = 0}};
    pkv_plan_params params = params_of(layers, 4, 0, 1024);
    params.workers = workers;
    params.n_workers = 2;
    assert_any_may_fail(params, PKV_OK);
}

static void many_distinct_layers_survive_any_failure(void **state)
{
    (void)state;
    pkv_spec layers[100]; /* the tables of specs grow */
    for (uint32_t i = 0; i < COUNT(layers); i++) {
        layers[i] = windowed(i + 1);
    }
    assert_any_may_fail(params_of(layers, COUNT(layers), GIB, 16), PKV_OK);
}

static void a_refusal_survives_any_failure_and_holds_nothing(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full(), windowed(128)};
    assert_any_may_fail(params_of(layers, 2, 65536, 1024), PKV_E_VALUE);
    pkv_spec two[2] = {full_of(32, 3), windowed_of(128, 48, 2)};
    pkv_plan_params params = params_of(two, 2, GIB, 1024);
    params.prefix_match_unit = 32; /* planned, with a text about its sizes */
    assert_any_may_fail(params, PKV_OK);
}

/* ---- hooks ---- */

static void a_plan_keeps_the_hooks_that_made_it(void **state)
{
    (void)state;
    countdown c = {.left = UINT64_MAX};
    pkv_alloc hooks = {&c, counted_alloc, counted_free};
    const pkv_spec layers[] = {full(), windowed(128)};
    pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    params.alloc = &hooks;
    pkv_plan *plan = plan_of(&params);
    assert_true(c.held > 0);
    memset(&hooks, 0, sizeof hooks); /* they were copied */
    pkv_plan_destroy(plan);
    assert_int_equal(c.held, 0);
}

static void a_plan_owns_copies_of_all_that_its_specs_point_to(void **state)
{
    (void)state;
    char text[] = "gdn", type[] = "auto";
    pkv_state states[] = {{PKV_DTYPE_BFLOAT16, 1, {32768}}};
    pkv_spec layers[] = {recurrent(16), latent(32, 1024)}; /* 65536 bytes each */
    layers[0].mamba_type = text;
    layers[0].states = states;
    layers[0].n_states = 1;
    layers[1].cache_dtype = type;
    layers[0] = finished(layers[0]);
    const pkv_plan_params params = params_of(layers, 2, GIB, 1024);
    pkv_plan *plan = plan_of(&params);
    memset(text, 'x', 3);
    memset(type, 'x', 4);
    memset(states, 0xff, sizeof states);
    memset(layers, 0xff, sizeof layers);
    const pkv_spec *mamba = group_spec(plan, 0);
    assert_int_equal(mamba->kind, PKV_KIND_MAMBA);
    assert_string_equal(mamba->mamba_type, "gdn");
    assert_int_equal(mamba->states[0].dims[0], 32768);
    assert_string_equal(group_spec(plan, 1)->cache_dtype, "auto");
    pkv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_one_kind_survive_any_failure),
        cmocka_unit_test(a_hybrid_with_states_and_texts_survives_any_failure),
        cmocka_unit_test(packing_survives_any_failure),
        cmocka_unit_test(promotion_survives_any_failure),
        cmocka_unit_test(hidden_states_survive_any_failure),
        cmocka_unit_test(hisparse_survives_any_failure),
        cmocka_unit_test(stages_survive_any_failure),
        cmocka_unit_test(many_distinct_layers_survive_any_failure),
        cmocka_unit_test(a_refusal_survives_any_failure_and_holds_nothing),
        cmocka_unit_test(a_plan_keeps_the_hooks_that_made_it),
        cmocka_unit_test(a_plan_owns_copies_of_all_that_its_specs_point_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
