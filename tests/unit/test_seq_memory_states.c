/* test_seq_memory_states.c  As test_seq_memory.c, for full attention and two groups of recurrent
 * layers, with scratch, checkpoints, hits inside blocks and offers. */
#include "memory_fixture.h"
#include "state_fixture.h"

static void make_plan(void)
{
    const state_model m = {.block = 64,
                           .unit = 16,
                           .n_blocks = 300,
                           .len = 4096,
                           .scratch = 2,
                           .checkpoints = 1,
                           .checkpoint_alignment = 16};
    const pkv_spec layers[] = {full_of(64, 8), states_of(&m), states_of(&m)};
    const pkv_plan_params params = state_plan(&m, layers, COUNT(layers));
    r.plan = plan_of(&params);
}

static void creating_a_cache_survives_any_failure(void **state)
{
    (void)state;
    assert_creating_may_fail(4);
}

/* ---- open, allocate ---- */

static void prepare_nothing(void)
{
}

static pkv_status open_call(void)
{
    const pkv_seq_params params = seq_params_of(counting(), 3200);
    return pkv_seq_open(r.cache, &params, &r.seq);
}

static void opening_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_nothing, open_call, "pkv_seq_open", 4);
}

static pkv_status allocate_n(uint64_t n)
{
    const pkv_allocate_params params = new_tokens(n);
    return pkv_seq_allocate(r.seq, &params, &r.result);
}

/* So many offers are there; they are those of the last call that succeeded. */
static void assert_n_offers(pkv_status st, uint64_t wanted)
{
    uint64_t n;
    (void)pkv_cache_take_offers(r.cache, &n);
    assert_int_equal(n, st == PKV_OK ? wanted : 0);
}

static void prepare_waiting(void)
{
    r.seq = open_n(r.cache, 3200);
}

static pkv_status first_call(void)
{
    const pkv_status st = allocate_n(3200); /* 50 blocks, and the states after 3184 and 3200 */
    assert_n_offers(st, 4);
    return st;
}

static void a_first_allocate_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_waiting, first_call, "pkv_seq_allocate", 6);
}

static void prepare_running(void)
{
    r.seq = open_n(r.cache, 640);
    (void)take(r.seq, 640);
    assert_ok(pkv_seq_append(r.seq, counting(), 2560));
    pkv_cache_step(r.cache);
}

static pkv_status grow_call(void)
{
    const pkv_status st = allocate_n(2560);
    assert_n_offers(st, 2); /* after 3200; 3184 ends neither a block nor the prompt */
    return st;
}

static void a_later_allocate_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_running, grow_call, "pkv_seq_allocate", 4);
}

/* ---- states inside a block ---- */

/* A request of 98 tokens of which 96 are computed: a state inside a block is keyed. */
static void prepare_producer(void)
{
    r.seq = open_n(r.cache, 98);
    (void)take(r.seq, 64);
    pkv_cache_step(r.cache);
    (void)take(r.seq, 32); /* in one block: the state that runs is the one to keep */
    assert_ok(pkv_seq_append(r.seq, counting(), 1000));
    pkv_cache_step(r.cache);
}

static pkv_status move_call(void)
{
    const pkv_status st = allocate_n(32);
    assert_int_equal(r.result.n_copies, st == PKV_OK ? 2 : 0);
    assert_n_offers(st, 4); /* in both groups: 96, in its copy, and 128 */
    return st;
}

static void a_key_that_moves_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_producer, move_call, "pkv_seq_allocate", 2);
}

static void prepare_reader(void)
{
    prepare_producer();
    r.other = r.seq;
    r.seq = open_tokens(r.cache, diverging(98), 3200);
}

static pkv_status copy_call(void)
{
    const pkv_status st = allocate_n(3104);
    assert_int_equal(r.result.n_copies, st == PKV_OK ? 3 : 0);
    assert_int_equal(r.result.cached_tokens, st == PKV_OK ? 96 : 0);
    return st;
}

static void private_copies_survive_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_reader, copy_call, "pkv_seq_allocate", 6);
}

/* ---- loads, finish, close ---- */

static pkv_status load_call(void)
{
    pkv_allocate_params params = new_tokens(0);
    params.external_tokens = 3136;
    params.delay_caching = 1;
    return pkv_seq_allocate(r.seq, &params, &r.result);
}

static void a_load_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_waiting, load_call, "pkv_seq_allocate", 6);
}

static void prepare_loaded(void)
{
    prepare_waiting();
    assert_ok(load_call());
    for (int32_t i = 1; i <= 24; i++) { /* others whose states are keyed in this step, too */
        pkv_seq *other;
        const int32_t *tokens = diverging((uint64_t)i);
        const pkv_seq_params params = seq_params_of(tokens, 64);
        assert_ok(pkv_seq_open(r.cache, &params, &other));
        (void)take(other, 64);
    }
}

static pkv_status cache_call(void)
{
    return pkv_seq_cache(r.seq, 3136);
}

static void keys_of_a_load_survive_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_loaded, cache_call, "pkv_seq_cache", 0);
}

static pkv_status finish_call(void)
{
    const pkv_state_offer *offers;
    uint64_t n;
    const pkv_status st = pkv_seq_finish(r.seq, &offers, &n);
    if (st == PKV_OK) {
        assert_int_equal(n, 2); /* a tail in both groups */
        assert_int_equal(offers[0].tokens, 96);
        assert_int_equal(offers[1].group, 2);
    }
    return st;
}

static void a_finish_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_producer, finish_call, "pkv_seq_finish", 1);
}

static pkv_status close_call(void)
{
    return pkv_seq_close(r.seq, true);
}

static void a_deferred_close_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_producer, close_call, "pkv_seq_close", 1);
}

static void a_batch_that_runs_out_of_memory_can_go_on(void **state)
{
    (void)state;
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    set_up();
    for (; st == PKV_E_NOMEM; n++) {
        assert_true(n < 1000);
        r.memory = (countdown){.left = UINT64_MAX};
        assert_ok(create());
        prepare_producer();
        const pkv_step step = {.seq = r.seq, .computed = PKV_STEP_KEEP};
        r.memory.left = n;
        st = pkv_cache_advance(r.cache, &step, 1, 0, &r.result, &r.done);
        r.memory.left = UINT64_MAX;
        assert_int_equal(r.done, st == PKV_OK);
        assert_sound(r.cache);
        if (st == PKV_E_NOMEM) {
            assert_int_equal(info_of(r.seq).computed, 96);
            assert_ok(pkv_cache_advance(r.cache, &step, 1, 0, &r.result, &r.done));
        }
        assert_int_equal(info_of(r.seq).computed, 1098);
        assert_int_equal(r.result.n_copies, 2); /* the keys moved once, in both groups */
        pkv_cache_destroy(r.cache);
        assert_int_equal(r.memory.held, 0);
    }
    assert_status(st, PKV_OK);
    assert_true(n > 2);
    pkv_plan_destroy(r.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creating_a_cache_survives_any_failure),
        cmocka_unit_test(opening_survives_any_failure),
        cmocka_unit_test(a_first_allocate_survives_any_failure),
        cmocka_unit_test(a_later_allocate_survives_any_failure),
        cmocka_unit_test(a_key_that_moves_survives_any_failure),
        cmocka_unit_test(private_copies_survive_any_failure),
        cmocka_unit_test(a_load_survives_any_failure),
        cmocka_unit_test(keys_of_a_load_survive_any_failure),
        cmocka_unit_test(a_finish_survives_any_failure),
        cmocka_unit_test(a_deferred_close_survives_any_failure),
        cmocka_unit_test(a_batch_that_runs_out_of_memory_can_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
