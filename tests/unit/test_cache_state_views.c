/* test_cache_state_views.c  Rows of recurrent groups: as wide as the group says, and what a worker
 * that copies the changed entries only has is the table. */
#include "state_fixture.h"

enum { WIDTH = 64, GROUPS = 2 };

/* What a worker has of a sequence. */
typedef struct worker {
    int32_t row[GROUPS][WIDTH];
    uint64_t n[GROUPS];
} worker;

/* The worker takes over what the row says has changed; then it must have the table. */
static void update(const pkv_cache *cache, const pkv_seq *seq, worker *w)
{
    for (uint32_t g = 0; g < GROUPS; g++) {
        int32_t row[WIDTH];
        uint64_t from, to, n;
        const uint64_t width = pkv_cache_group_at(cache, g)->table_width;
        assert_true(width <= WIDTH);
        assert_ok(pkv_seq_row(seq, g, row, width, &from, &to));
        const pkv_block *ids = pkv_seq_table(seq, g, &n);
        assert_true(from <= to && to == n);
        for (uint64_t i = from; i < to; i++) {
            w->row[g][i] = row[i];
        }
        w->n[g] = n;
        for (uint64_t i = 0; i < n; i++) {
            assert_int_equal(w->row[g][i], row[i]);
            assert_true(g == 0 || row[i] == (int32_t)ids[i]);
        }
        for (uint64_t i = n; i < width; i++) {
            assert_int_equal(row[i], 0);
        }
    }
}

static uint64_t next(uint64_t *state)
{
    uint64_t mixed;
    (void)__builtin_mul_overflow(*state, UINT64_C(6364136223846793005), &mixed);
    (void)__builtin_add_overflow(mixed, UINT64_C(1442695040888963407), state);
    return *state >> 33;
}

/* A request from its first to its last token, in chunks, then one by one with drafts. */
static void live(pkv_cache *cache, uint64_t *dice, uint32_t scratch)
{
    const uint64_t len = pkv_cache_get_info(cache)->max_model_len,
                   block = pkv_cache_group_at(cache, 1)->block_size;
    uint64_t n = 1 + next(dice) % (len - 1);
    worker w = {.n = {0, 0}};
    pkv_seq *seq = open_tokens(cache, diverging(next(dice) % n), n);
    while (info_of(seq).computed < len) {
        const pkv_seq_info info = info_of(seq);
        const uint64_t done = info.allocated ? info.computed : lookup(seq);
        uint64_t now = n - done;
        pkv_cache_step(cache);
        if (done + block < n) { /* prefill: to the end of a block */
            now = (1 + next(dice) % 3) * block - done % block;
            now = now < n - done ? now : n - done;
        } else if (now == 1 && scratch > 0 && done + 1 + scratch < len) {
            now += next(dice) % (scratch + 1);
        }
        (void)take(seq, now);
        assert_sound(cache);
        update(cache, seq, &w);
        if (done + now >= n && n < len) { /* some drafts are accepted, and a token is sampled */
            const uint64_t accepted = next(dice) % (done + now - n + 1);
            assert_ok(pkv_seq_set_computed(seq, n + accepted));
            append(seq, (int32_t)(next(dice) % 7), accepted + 1);
            n += accepted + 1;
        }
        if (next(dice) % 40 == 0) {
            assert_ok(pkv_seq_preempt(seq));
        }
    }
    close_seq(seq);
}

static void a_worker_that_copies_what_changed_has_the_table(void **state)
{
    (void)state;
    uint64_t dice = 1;
    for (uint32_t scratch = 0; scratch <= 3; scratch++) {
        for (uint64_t unit = 4; unit <= 16; unit *= 4) {
            pkv_cache *cache = state_cache((state_model){
                .block = 16, .unit = unit, .n_blocks = 60, .len = 320, .scratch = scratch});
            for (int i = 0; i < 20; i++) {
                live(cache, &dice, scratch);
            }
            pkv_cache_step(cache);
            assert_int_equal(free_of(cache), 59);
            end_cache(cache);
        }
    }
}

static void a_row_has_room_for_scratch_at_the_longest_request(void **state)
{
    (void)state;
    for (uint32_t scratch = 0; scratch <= 3; scratch++) {
        pkv_cache *cache =
            state_cache((state_model){.block = 16, .n_blocks = 60, .len = 320, .scratch = scratch});
        pkv_seq *seq = run_n(cache, 320);
        int32_t row[WIDTH];
        uint64_t n;
        (void)pkv_seq_table(seq, 1, &n);
        assert_int_equal(n, 20 + scratch);
        assert_ok(pkv_seq_row(seq, 1, row, pkv_cache_group_at(cache, 1)->table_width, NULL, NULL));
        end_cache(cache);
    }
}

static void a_row_has_room_for_a_state_that_is_not_kept(void **state)
{
    (void)state;
    pkv_spec spec = recurrent(320);
    spec.mamba_mode = PKV_MAMBA_NONE;
    spec.num_speculative_blocks = 2;
    const pkv_spec layers[] = {finished(spec)};
    pkv_plan_params params = blocks_for(layers, 1, 20, 320);
    params.caching = 0;
    pkv_cache *cache = cache_of(&params);
    pkv_seq *seq = run_n(cache, 320);
    int32_t row[WIDTH];
    assert_table(seq, 0, "1..3");
    assert_ok(pkv_seq_row(seq, 0, row, pkv_cache_group_at(cache, 0)->table_width, NULL, NULL));
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_copies_what_changed_has_the_table),
        cmocka_unit_test(a_row_has_room_for_scratch_at_the_longest_request),
        cmocka_unit_test(a_row_has_room_for_a_state_that_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
