/* test_cache_state_loads.c  External tokens and aligned states in pools of every small size, where
 * upstream counts less than it takes; ours refuses, or takes what there is. */
#include "state_fixture.h"

enum { BLOCK = 16, LEN = 160, MOST = 64 };

/* One combination: a pool, somebody else in it, content to be found, and a load. */
typedef struct trial {
    uint64_t n_blocks, others, warm, external, fresh;
    uint8_t delayed;
} trial;

typedef struct tally {
    uint64_t taken, refused, whole;
} tally;

typedef struct picture {
    uint64_t n, keys;
    pkv_block list[MOST];
} picture;

static picture look(const pkv_cache *cache)
{
    picture p = {.keys = keys_in(cache)};
    p.n = pkv_pool_free_list(pkv_cache_get_pool(cache), p.list, MOST);
    assert_true(p.n <= MOST);
    return p;
}

static void assert_unchanged(const pkv_cache *cache, const picture *before)
{
    const picture after = look(cache);
    assert_int_equal(after.n, before->n);
    assert_int_equal(after.keys, before->keys);
    assert_memory_equal(after.list, before->list, (size_t)after.n * sizeof *after.list);
}

/* One step; a refusal leaves all as it was, but for what lies below windows. */
static bool allocates(pkv_cache *cache, pkv_seq *seq, const pkv_allocate_params *params)
{
    const picture before = look(cache);
    const bool waits = !info_of(seq).allocated;
    pkv_allocate_result result;
    const pkv_status st = pkv_seq_allocate(seq, params, &result);
    assert_sound(cache);
    if (st == PKV_OK) {
        return true;
    }
    assert_status(st, PKV_E_NO_BLOCKS);
    assert_true(result.needed > result.free);
    if (waits) {
        assert_unchanged(cache, &before);
        assert_int_equal(info_of(seq).allocated, 0);
        assert_int_equal(info_of(seq).computed, 0);
    }
    return false;
}

/* The request goes on to its last token, as long as there are blocks. */
static bool runs_on(pkv_cache *cache, pkv_seq *seq)
{
    for (;;) {
        const pkv_seq_info info = info_of(seq);
        const uint64_t left = info.n_tokens - info.computed;
        const uint64_t room = BLOCK - info.computed % BLOCK; /* steps end with a block */
        if (left == 0) {
            return true;
        }
        const pkv_allocate_params params = new_tokens(left < room ? left : room);
        pkv_cache_step(cache);
        if (!allocates(cache, seq, &params)) {
            return false;
        }
    }
}

static void try_load(pkv_cache *cache, const trial *t, tally *seen)
{
    pkv_seq *other = NULL;
    if (t->warm > 0) { /* in steps of a block, so that every state is kept */
        pkv_seq *first = open_n(cache, t->warm);
        run_in_chunks(cache, first, t->warm, BLOCK);
        close_seq(first);
    }
    if (t->others > 0) {
        const pkv_allocate_params params = new_tokens(t->others);
        other = open_tokens(cache, diverging(0), t->others);
        assert_true(allocates(cache, other, &params));
    }
    pkv_cache_step(cache);
    pkv_seq *seq = open_n(cache, 120);
    const uint64_t hit = lookup(seq);
    pkv_allocate_params load = new_tokens(t->fresh);
    load.external_tokens = t->external;
    load.delay_caching = t->delayed;
    if (hit + t->external + t->fresh <= 120) {
        const bool taken = allocates(cache, seq, &load);
        seen->taken += taken;
        seen->refused += !taken;
        if (taken) {
            assert_int_equal(info_of(seq).computed, hit + t->external + t->fresh);
            assert_ok(pkv_seq_cache(seq, hit + t->external + t->fresh));
            assert_sound(cache);
            seen->whole += runs_on(cache, seq);
        }
    }
    close_seq(seq);
    assert_ok(pkv_seq_close(other, false));
    pkv_cache_step(cache);
    assert_int_equal(free_of(cache), t->n_blocks - 1);
    assert_sound(cache);
}

/* All loads into pools of `least` and more blocks. */
static void assert_loads(uint32_t scratch, size_t n_states, uint64_t least)
{
    tally seen = {0, 0, 0};
    trial t;
    for (t.n_blocks = least; t.n_blocks < least + 4; t.n_blocks++) {
        const state_model m = {
            .block = BLOCK, .n_blocks = t.n_blocks, .len = LEN, .scratch = scratch};
        const pkv_spec layers[] = {full(), states_of(&m), states_of(&m)};
        for (t.others = 0; t.others <= 8 * BLOCK; t.others += 2 * BLOCK) {
            for (t.warm = 0; t.warm <= 3 * BLOCK; t.warm += BLOCK + 8) {
                for (t.external = 1; t.external <= 100; t.external++) {
                    for (uint64_t how = 0; how < 3; how++) {
                        t.fresh = how == 2 ? 17 : how;
                        t.delayed = how == 0;
                        pkv_cache *cache = state_cache_of(&m, layers, 1 + n_states);
                        try_load(cache, &t, &seen);
                        pkv_cache_destroy(cache);
                    }
                }
            }
        }
    }
    assert_true(seen.taken > 500 && seen.refused > 100); /* both are tried */
    assert_true(seen.whole > 100 && seen.whole < seen.taken);
}

static void loads_take_no_more_than_there_is(void **state)
{
    (void)state;
    assert_loads(0, 1, 14); /* 10 of full attention, and up to 2 states and a copy */
}

static void loads_with_scratch_take_no_more_than_there_is(void **state)
{
    (void)state;
    assert_loads(2, 1, 16);
}

static void loads_into_several_groups_take_no_more_than_there_is(void **state)
{
    (void)state;
    assert_loads(1, 2, 18);
}

static void a_load_has_a_block_for_the_state_at_its_end(void **state)
{
    (void)state;
    pkv_cache *cache = state_cache((state_model){.block = 16, .n_blocks = 40, .len = 160});
    pkv_seq *seq = open_n(cache, 100);
    pkv_allocate_params load = new_tokens(20);
    load.external_tokens = 48; /* three blocks, of which the last state is brought */
    (void)allocate(seq, load);
    assert_table(seq, 0, "1..3 5 6");
    assert_table(seq, 1, "0 0 4 0 7");
    end_cache(cache);
}

static void a_load_that_would_take_one_too_many_is_refused(void **state)
{
    (void)state;
    /* the load takes 3 of full attention and 1 state; the step 2 and 1 */
    for (uint64_t others = 1; others <= 9; others++) {
        pkv_cache *cache = state_cache((state_model){.block = 16, .n_blocks = 14, .len = 160});
        pkv_seq *other = open_tokens(cache, diverging(0), 16 * others);
        (void)take(other, 16 * others); /* and one state */
        pkv_cache_step(cache);
        const uint64_t left = 13 - others - 1;
        assert_int_equal(free_of(cache), left);
        pkv_seq *seq = open_n(cache, 100);
        pkv_allocate_params load = new_tokens(20);
        load.external_tokens = 48;
        assert_int_equal(allocates(cache, seq, &load), left >= 7);
        end_cache(cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_has_a_block_for_the_state_at_its_end),
        cmocka_unit_test(a_load_that_would_take_one_too_many_is_refused),
        cmocka_unit_test(loads_take_no_more_than_there_is),
        cmocka_unit_test(loads_with_scratch_take_no_more_than_there_is),
        cmocka_unit_test(loads_into_several_groups_take_no_more_than_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
