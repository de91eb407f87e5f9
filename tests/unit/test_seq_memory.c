/* test_seq_memory.c  Any allocation failing in turn: NOMEM, nothing changed, nothing lost; and the
 * same call succeeds when there is memory again. */
#include "memory_fixture.h"

/* A full group, a window, zero-fills. */
static void make_plan(void)
{
    pkv_spec window = shaped(PKV_KIND_SLIDING_WINDOW, 16, 8, 128, PKV_DTYPE_FLOAT8_E4M3FN);
    window.sliding_window = 32;
    const pkv_spec layers[] = {full(), finished(window)};
    pkv_plan_params params = blocks_for(layers, 2, 400, 2048);
    params.layout = PKV_LAYOUT_BLHNC;
    r.plan = plan_of(&params);
}

/* ---- create ---- */

static void creating_a_cache_survives_any_failure(void **state)
{
    (void)state;
    assert_creating_may_fail(4); /* cache, hasher, pool and its index */
}

/* ---- open ---- */

static void prepare_nothing(void)
{
}

static pkv_status open_call(void)
{
    static char salt[1500], id[3000]; /* each too long for what is there */
    static const uint8_t rows[32 * 200] = {1};
    memset(salt, 's', sizeof salt - 1);
    memset(id, 'i', sizeof id - 1);
    const pkv_media media[] = {{"first", 10, 20}, {id, 40, 4}};
    const pkv_extras extras = {.lora_name = "name",
                               .lora_path = "/path",
                               .salt = salt,
                               .media = media,
                               .n_media = 2,
                               .embeds = rows,
                               .embed_row_bytes = 200,
                               .n_embed_rows = 32,
                               .has_embeds = 1};
    pkv_seq_params params = seq_params_of(counting(), 1600);
    params.extras = &extras;
    params.session = "session";
    return pkv_seq_open(r.cache, &params, &r.seq);
}

static void opening_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_nothing, open_call, "pkv_seq_open", 4);
}

/* ---- allocate ---- */

static void prepare_waiting(void)
{
    r.seq = open_n(r.cache, 1600);
}

static pkv_status allocate_call(void)
{
    const pkv_allocate_params params = new_tokens(1600 - lookup(r.seq));
    return pkv_seq_allocate(r.seq, &params, &r.result);
}

static void a_first_allocate_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_waiting, allocate_call, "pkv_seq_allocate", 4);
}

static void prepare_hit(void)
{
    warm(r.cache, 800);
    r.seq = open_n(r.cache, 1600);
}

static void an_allocate_with_a_hit_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_hit, allocate_call, "pkv_seq_allocate", 2);
}

static void prepare_running(void)
{
    r.seq = run_n(r.cache, 160);
    assert_ok(pkv_seq_append(r.seq, counting(), 1000));
}

static pkv_status grow_call(void)
{
    const pkv_allocate_params params = new_tokens(1000);
    return pkv_seq_allocate(r.seq, &params, &r.result);
}

static void a_later_allocate_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_running, grow_call, "pkv_seq_allocate", 2);
}

/* ---- append ---- */

static void prepare_short(void)
{
    r.seq = run_n(r.cache, 40);
}

static pkv_status append_call(void)
{
    const pkv_status st = pkv_seq_append(r.seq, counting(), 1000);
    assert_int_equal(info_of(r.seq).n_tokens, st == PKV_OK ? 1040 : 40);
    return st;
}

static void an_append_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_short, append_call, "pkv_seq_append", 2);
}

/* ---- fork ---- */

static void prepare_long(void)
{
    r.seq = run_n(r.cache, 1000);
}

static pkv_status fork_call(void)
{
    r.other = (pkv_seq *)(uintptr_t)1;
    const pkv_status st = pkv_seq_fork(r.seq, &r.other);
    assert_true((r.other == NULL) == (st != PKV_OK));
    return st;
}

static void a_fork_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_long, fork_call, "pkv_seq_fork", 3);
}

static void prepare_shared_tail(void)
{
    r.seq = run_n(r.cache, 1000);
    assert_ok(pkv_seq_fork(r.seq, &r.other));
    append(r.seq, 1, 600);
}

static pkv_status copy_call(void)
{
    const pkv_allocate_params params = new_tokens(600);
    const pkv_status st = pkv_seq_allocate(r.seq, &params, &r.result);
    assert_int_equal(r.result.n_copies, st == PKV_OK ? 2 : 0);
    return st;
}

static void a_private_copy_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_shared_tail, copy_call, "pkv_seq_allocate", 3);
}

/* ---- close ---- */

static pkv_status close_call(void)
{
    const pkv_status st = pkv_seq_close(r.seq, true);
    if (st != PKV_OK) {
        assert_int_equal(info_of(r.seq).computed, 1000); /* still open */
    }
    return st;
}

static void a_deferred_close_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_long, close_call, "pkv_seq_close", 1);
}

static void a_close_needs_no_memory(void **state)
{
    (void)state;
    set_up();
    r.memory = (countdown){.left = UINT64_MAX};
    assert_ok(create());
    prepare_long();
    assert_ok(pkv_seq_close(run_n(r.cache, 500), true));
    r.memory.left = 0;
    assert_ok(pkv_seq_preempt(r.seq));
    assert_ok(pkv_seq_close(r.seq, false));
    pkv_cache_step(r.cache);
    assert_ok(pkv_cache_reset(r.cache));
    assert_status(pkv_cache_check(r.cache), PKV_E_NOMEM);
    pkv_cache_destroy(r.cache);
    assert_int_equal(r.memory.held, 0);
    pkv_plan_destroy(r.plan);
}

static void a_destroy_frees_whatever_is_open(void **state)
{
    (void)state;
    set_up();
    r.memory = (countdown){.left = UINT64_MAX};
    assert_ok(create());
    prepare_shared_tail();
    assert_ok(copy_call());
    assert_ok(pkv_seq_close(run_n(r.cache, 500), true));
    (void)open_n(r.cache, 100);
    pkv_cache_destroy(r.cache);
    assert_int_equal(r.memory.held, 0);
    pkv_plan_destroy(r.plan);
}

/* ---- advance, zero ---- */

static void prepare_two(void)
{
    r.seq = run_n(r.cache, 160);
    r.other = run_tokens(r.cache, diverging(0), 160);
}

/* What a caller does after NOMEM: go on with the sequences that are not done, and do not append
 * tokens that were kept. */
static pkv_status advance_call(void)
{
    pkv_seq *const seqs[] = {r.seq, r.other};
    pkv_step steps[2];
    uint64_t n = 0;
    for (int i = 0; i < 2; i++) {
        const pkv_seq_info info = info_of(seqs[i]);
        assert_true(info.n_tokens == 160 || info.n_tokens == 1160);
        if (info.computed == 160) {
            steps[n++] = (pkv_step){.seq = seqs[i],
                                    .tokens = counting(),
                                    .n_tokens = 1160 - info.n_tokens,
                                    .computed = PKV_STEP_KEEP};
        }
    }
    const pkv_status st = pkv_cache_advance(r.cache, steps, n, 0, &r.result, &r.done);
    assert_int_equal(r.done == n, st == PKV_OK);
    return st;
}

static void a_batch_survives_any_failure(void **state)
{
    (void)state;
    pkv_status st = PKV_E_NOMEM;
    uint64_t n = 0;
    set_up();
    for (; st == PKV_E_NOMEM; n++) {
        r.memory = (countdown){.left = UINT64_MAX};
        assert_ok(create());
        prepare_two();
        r.memory.left = n;
        st = advance_call();
        if (st == PKV_E_NOMEM) {
            assert_error_text("pkv_cache_advance", "memory");
        }
        r.memory.left = UINT64_MAX;
        assert_sound(r.cache);
        if (st == PKV_E_NOMEM) {
            assert_ok(advance_call());
            assert_sound(r.cache);
        }
        assert_int_equal(info_of(r.seq).computed, 1160);
        assert_int_equal(info_of(r.other).computed, 1160);
        pkv_cache_destroy(r.cache);
        assert_int_equal(r.memory.held, 0);
    }
    assert_status(st, PKV_OK);
    assert_true(n > 4);
    pkv_plan_destroy(r.plan);
}

static void prepare_loaded(void)
{
    r.seq = open_n(r.cache, 1600);
    pkv_allocate_params params = new_tokens(0);
    const uint32_t skip[] = {0, 1};
    params.external_tokens = 1600;
    params.delay_caching = 1;
    params.skip_zero_groups = skip;
    params.n_skip_zero_groups = 2;
    assert_ok(pkv_seq_allocate(r.seq, &params, &r.result));
}

static pkv_status zero_call(void)
{
    const pkv_block *ids;
    uint64_t n;
    return pkv_seq_zero(r.seq, 0, &ids, &n);
}

static void a_list_of_zero_fills_survives_any_failure(void **state)
{
    (void)state;
    assert_any_may_fail(prepare_loaded, zero_call, "pkv_seq_zero", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creating_a_cache_survives_any_failure),
        cmocka_unit_test(opening_survives_any_failure),
        cmocka_unit_test(a_first_allocate_survives_any_failure),
        cmocka_unit_test(an_allocate_with_a_hit_survives_any_failure),
        cmocka_unit_test(a_later_allocate_survives_any_failure),
        cmocka_unit_test(an_append_survives_any_failure),
        cmocka_unit_test(a_fork_survives_any_failure),
        cmocka_unit_test(a_private_copy_survives_any_failure),
        cmocka_unit_test(a_deferred_close_survives_any_failure),
        cmocka_unit_test(a_close_needs_no_memory),
        cmocka_unit_test(a_destroy_frees_whatever_is_open),
        cmocka_unit_test(a_batch_survives_any_failure),
        cmocka_unit_test(a_list_of_zero_fills_survives_any_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
