/* test_cache_due.c  Units that quiet steps complete: keyed late, and nobody can tell. */
#include "seq_fixture.h"

#include "countdown.h"
#include "seq/cache_internal.h"

/* One step of several sequences, a token each: the next number of counting(). */
static void step_all(pkv_cache *cache, pkv_seq **seqs, uint64_t n)
{
    int32_t tokens[4];
    pkv_step steps[4];
    pkv_allocate_result result;
    uint64_t done;
    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = counting()[info_of(seqs[i]).n_tokens];
        steps[i] = (pkv_step){seqs[i], &tokens[i], 1, PKV_STEP_KEEP};
    }
    assert_ok(pkv_cache_advance(cache, steps, n, 0, &result, &done));
    assert_int_equal(done, n);
    pkv_cache_step(cache);
}

static void step_one(pkv_cache *cache, pkv_seq *seq)
{
    step_all(cache, &seq, 1);
}

static pkv_seq *run_apart(pkv_cache *cache, uint64_t n)
{
    pkv_seq *seq;
    pkv_seq_params params = seq_params_of(counting(), n);
    params.skip_lookup = 1;
    assert_ok(pkv_seq_open(cache, &params, &seq));
    (void)take(seq, n);
    return seq;
}

static void what_a_quiet_step_completes_is_found(void **state)
{
    for (uint32_t index = PKV_INDEX_TOKENS; index <= PKV_INDEX_CHAINS; index++) {
        (void)state;
        pkv_cache *cache = indexed_cache(20, 160, index);
        pkv_seq *seq = run_n(cache, 30);
        step_one(cache, seq);
        step_one(cache, seq); /* 32 tokens: the second unit is whole */
        assert_int_equal(resend(cache, 33), 32);
        assert_int_equal(info_of(seq).keyed, 32);
        end_cache(cache);
    }
}

static void equal_content_is_found_in_the_order_in_which_it_became_whole(void **state)
{
    for (uint32_t index = PKV_INDEX_TOKENS; index <= PKV_INDEX_CHAINS; index++) {
        (void)state;
        pkv_cache *cache = indexed_cache(20, 160, index);
        pkv_seq *first = run_apart(cache, 31), *second = run_apart(cache, 31);
        assert_table(first, 0, "1 2");
        assert_table(second, 0, "3 4");
        step_all(cache, (pkv_seq *[]){second, first}, 2); /* both complete their second unit */
        pkv_seq *third = open_n(cache, 33);
        assert_int_equal(lookup(third), 32);
        assert_hit(cache, 0, "1 4"); /* first was keyed first by its prompt, second by its step */
        end_cache(cache);
    }
}

static void a_block_that_is_due_goes_to_the_back_of_the_list(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(6, 80);
    pkv_seq *seq = run_n(cache, 31);
    step_one(cache, seq);
    close_seq(seq); /* blocks 1 and 2 hold 32 keyed tokens: last block first, both to the back */
    assert_free_list(cache, "3..5 2 1");
    end_cache(cache);
}

static void an_eviction_drops_what_was_due(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(6, 80);
    pkv_seq *seq = run_n(cache, 31);
    step_one(cache, seq);
    const pkv_block second = 2;
    assert_ok(pkv_cache_evict(cache, &second, 1));
    assert_int_equal(resend(cache, 33), 16);
    assert_int_equal(info_of(seq).keyed, 32); /* it was, and is not keyed again */
    end_cache(cache);
}

static void who_listens_to_events_hears_of_a_unit_in_the_step_that_completes_it(void **state)
{
    (void)state;
    event_log log = {0};
    const pkv_spec layers[] = {full()};
    const pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    pkv_cache *cache = watched_cache(&params, 0, &log);
    pkv_seq *seq = run_n(cache, 31);
    const size_t before = log.n;
    step_one(cache, seq);
    assert_int_equal(log.n, before + 1);
    assert_stored(&log, before, 0, 1, 16, 16);
    end_cache(cache);
}

/* A cache whose memory can be taken away. */
static pkv_cache *counted_cache(countdown *memory, uint64_t n_blocks, uint64_t len, uint32_t index)
{
    const pkv_alloc hooks = {memory, counted_alloc, counted_free};
    pkv_cache_params params = cache_params_of(NULL, NULL);
    params.alloc = &hooks;
    params.index = index;
    return full_cache_with(n_blocks, len, params);
}

/* The second unit of `seq` branches off that of another request, which takes memory; that of
 * `easy`, which is due before it, only goes on. */
static void without_memory_a_unit_stays_due(void **state)
{
    (void)state;
    countdown memory = {.left = UINT64_MAX};
    pkv_cache *cache = counted_cache(&memory, 20, 160, PKV_INDEX_AUTO);
    close_seq(run_n(cache, 48));
    pkv_seq *easy = run_tokens(cache, diverging(5), 31);
    pkv_seq *seq = run_tokens(cache, diverging(20), 31);
    pkv_seq *other = open_tokens(cache, diverging(20), 33);
    const int32_t token = diverging(20)[31]; /* of both */
    const pkv_step steps[] = {{easy, &token, 1, PKV_STEP_KEEP}, {seq, &token, 1, PKV_STEP_KEEP}};
    pkv_allocate_result result;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, steps, 2, 0, &result, &done));
    memory.left = 0;
    assert_int_equal(lookup(other), 16);
    assert_int_equal(info_of(easy).keyed, 32);
    memory.left = UINT64_MAX;
    assert_int_equal(lookup(other), 32);
    memory.left = 0;
    assert_int_equal(lookup(other), 32);
    memory.left = UINT64_MAX;
    assert_sound(cache);
    pkv_cache_destroy(cache);
    assert_int_equal(memory.held, 0);
}

enum { LONG = 4800, MORE = 80 }; /* 300 units, and five more */

/* A token of a sequence whose tokens are all the same. */
static void step_with(pkv_cache *cache, pkv_seq *seq, int32_t token)
{
    const pkv_step step = {seq, &token, 1, PKV_STEP_KEEP};
    pkv_allocate_result result;
    uint64_t done;
    assert_ok(pkv_cache_advance(cache, &step, 1, 0, &result, &done));
    pkv_cache_step(cache);
}

/* The long sequence is due first, and lacks memory for its 305th block; behind it others go on. */
static void assert_due_once(uint32_t index)
{
    countdown memory = {.left = UINT64_MAX};
    pkv_cache *cache = counted_cache(&memory, 400, LONG + 2 * MORE, index);
    pkv_seq *seqs[5];
    static int32_t tokens[LONG];
    uint64_t n_keys;
    for (int32_t i = 0; i < 5; i++) {
        for (size_t k = 0; k < LONG; k++) {
            tokens[k] = i;
        }
        seqs[i] = run_tokens(cache, tokens, i == 0 ? LONG : 40);
    }
    for (int n = 0; n < MORE; n++) {
        step_with(cache, seqs[0], 0);
    }
    memory.largest = 1024; /* bytes: the blocks of 300 units need more */
    for (int n = 0; n < MORE; n++) {
        for (int32_t i = 1; i < 5; i++) {
            step_with(cache, seqs[i], i);
            assert_true(cache->due.n <= cache->n_open && cache->due.at[0].seq == seqs[0]);
            (void)keys_of_seq(seqs[i], &n_keys); /* it waits to be keyed, but has its keys */
            assert_int_equal(n_keys, (40 + n + 1) / 16);
        }
    }
    close_seq(seqs[1]);
    for (size_t i = 0; i < cache->due.n; i++) {
        assert_ptr_not_equal(cache->due.at[i].seq, seqs[1]);
    }
    memory.largest = 0;
    assert_int_equal(info_of(seqs[0]).keyed, LONG + MORE);
    assert_int_equal(cache->due.n, 0);
    assert_sound(cache);
    pkv_cache_destroy(cache);
    assert_int_equal(memory.held, 0);
}

static void who_lacks_memory_is_due_once_and_not_after_its_close(void **state)
{
    (void)state;
    assert_due_once(PKV_INDEX_TOKENS);
    assert_due_once(PKV_INDEX_CHAINS);
}

/* Goes on by single steps to n tokens. */
static void step_to(pkv_cache *cache, pkv_seq *seq, uint64_t n)
{
    while (info_of(seq).n_tokens < n) {
        step_one(cache, seq);
    }
}

/* Without memory a quiet step completes the last unit, of 16 * units tokens, and the sequence loses
 * its blocks; then there is memory again. */
static void assert_keys_are_there(uint32_t index, uint64_t units)
{
    countdown memory = {.left = UINT64_MAX};
    pkv_cache *cache = counted_cache(&memory, 60, 640, index);
    pkv_seq *seq = run_n(cache, 15), *child;
    uint64_t n;
    step_to(cache, seq, 16 * units - 1);
    memory.left = 0;
    step_one(cache, seq);
    assert_ok(pkv_seq_preempt(seq));
    memory.left = UINT64_MAX;
    (void)take(seq, 16 * units - lookup(seq));
    (void)keys_of_seq(seq, &n);
    assert_int_equal(n, units);
    assert_ok(pkv_seq_fork(seq, &child));
    assert_int_equal(resend(cache, 16 * units + 1), 16 * units);
    assert_sound(cache);
    pkv_cache_destroy(cache);
    assert_int_equal(memory.held, 0);
}

static void keys_of_a_unit_that_lacked_memory_are_there_afterwards(void **state)
{
    (void)state;
    for (uint32_t index = PKV_INDEX_TOKENS; index <= PKV_INDEX_CHAINS; index++) {
        for (uint64_t units = 1; units <= 20; units++) {
            assert_keys_are_there(index, units);
        }
    }
}

/* What was rolled back is not keyed when there is memory again: it will be written anew. */
static void a_unit_that_lacks_memory_is_not_keyed_after_a_rollback(void **state)
{
    (void)state;
    countdown memory = {.left = UINT64_MAX};
    pkv_cache *cache = counted_cache(&memory, 40, 160, PKV_INDEX_TOKENS);
    close_seq(run_tokens(cache, diverging(40), 64));
    pkv_seq *seq = run_n(cache, 47); /* its third unit branches off, which takes memory */
    step_with(cache, seq, 47);
    memory.left = 0;
    assert_ok(pkv_seq_set_computed(seq, 40));
    memory.left = UINT64_MAX;
    assert_int_equal(info_of(seq).keyed, 32);
    assert_int_equal(resend(cache, 60), 32);
    assert_int_equal(cache->due.n, 0);
    (void)take(seq, 8);
    assert_int_equal(resend(cache, 60), 48);
    assert_sound(cache);
    pkv_cache_destroy(cache);
    assert_int_equal(memory.held, 0);
}

/* Else a block whose content is bad would be found as soon as there is memory to key it. */
static void what_lacks_memory_to_be_keyed_is_not_evicted(void **state)
{
    (void)state;
    int refused = 0;
    for (uint64_t units = 2; units <= 20; units++) {
        countdown memory = {.left = UINT64_MAX};
        pkv_cache *cache = counted_cache(&memory, 60, 640, PKV_INDEX_TOKENS);
        pkv_seq *seq = run_n(cache, 15);
        uint64_t n;
        step_to(cache, seq, 16 * units - 1);
        memory.left = 0;
        step_one(cache, seq);
        const pkv_block *last = pkv_seq_table(seq, 0, &n) + units - 1;
        const pkv_status st = pkv_cache_evict(cache, last, 1);
        memory.left = UINT64_MAX;
        if (st != PKV_OK) {
            assert_status(st, PKV_E_NOMEM);
            assert_error_text("pkv_cache_evict", "out of memory");
            assert_ok(pkv_cache_evict(cache, last, 1));
            refused++;
        }
        assert_int_equal(resend(cache, 16 * units + 1), 16 * (units - 1));
        pkv_cache_destroy(cache);
        assert_int_equal(memory.held, 0);
    }
    assert_true(refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_quiet_step_completes_is_found),
        cmocka_unit_test(equal_content_is_found_in_the_order_in_which_it_became_whole),
        cmocka_unit_test(a_block_that_is_due_goes_to_the_back_of_the_list),
        cmocka_unit_test(an_eviction_drops_what_was_due),
        cmocka_unit_test(who_listens_to_events_hears_of_a_unit_in_the_step_that_completes_it),
        cmocka_unit_test(without_memory_a_unit_stays_due),
        cmocka_unit_test(who_lacks_memory_is_due_once_and_not_after_its_close),
        cmocka_unit_test(keys_of_a_unit_that_lacked_memory_are_there_afterwards),
        cmocka_unit_test(a_unit_that_lacks_memory_is_not_keyed_after_a_rollback),
        cmocka_unit_test(what_lacks_memory_to_be_keyed_is_not_evicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
