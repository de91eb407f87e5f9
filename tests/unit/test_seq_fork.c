/* test_seq_fork.c  Two sequences over the same blocks, until one writes. */
#include "seq_fixture.h"

static pkv_seq *fork_of(pkv_seq *seq)
{
    pkv_seq *child;
    assert_ok(pkv_seq_fork(seq, &child));
    return child;
}

static uint32_t refs(const pkv_cache *cache, pkv_block block)
{
    return pkv_pool_refs(pkv_cache_get_pool(cache), block);
}

static void assert_copy(const pkv_allocate_result *result, pkv_block src, pkv_block dst)
{
    assert_int_equal(result->n_copies, 1);
    assert_int_equal(result->copies[0].src, src);
    assert_int_equal(result->copies[0].dst, dst);
}

static void a_child_holds_the_computed_blocks(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 40);
    pkv_allocate_params params = new_tokens(2);
    params.lookahead = 20; /* 62 slots: a spare block, which is not shared */
    (void)allocate(parent, params);
    assert_ok(pkv_seq_set_computed(parent, 40));
    pkv_seq *child = fork_of(parent);
    assert_table(parent, 0, "1..4");
    assert_table(child, 0, "1..3");
    assert_int_equal(refs(cache, 1), 2);
    assert_int_equal(refs(cache, 4), 1);
    const pkv_seq_info info = info_of(child);
    assert_int_equal(info.n_tokens, 40);
    assert_int_equal(info.n_prompt_tokens, 40);
    assert_int_equal(info.computed, 40);
    assert_int_equal(info.keyed, 32);
    assert_int_equal(info.allocated, 1);
    assert_int_equal(info.waiting, 0);
    end_cache(cache);
}

static void whoever_writes_first_gets_the_copy(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    append(child, 1, 1);
    const pkv_allocate_result first = take(child, 1);
    assert_copy(&first, 3, 4);
    assert_table(child, 0, "1 2 4");
    assert_new(child, 0, "4");
    append(parent, 2, 1);
    assert_int_equal(take(parent, 1).n_copies, 0); /* it is alone there now */
    assert_table(parent, 0, "1..3");
    end_cache(cache);
}

static void the_parent_may_be_first(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    append(parent, 1, 9); /* 49 tokens: one more block behind the copy */
    const pkv_allocate_result result = take(parent, 9);
    assert_copy(&result, 3, 4);
    assert_table(parent, 0, "1 2 4 5");
    assert_new(parent, 0, "4 5");
    assert_table(child, 0, "1..3");
    end_cache(cache);
}

static void both_ends_of_a_copy_stay_pinned_until_the_step(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    append(child, 1, 1);
    (void)take(child, 1);
    assert_int_equal(refs(cache, 3), 2); /* the parent's table, the copy */
    assert_int_equal(refs(cache, 4), 2);
    close_seq(parent);
    close_seq(child);
    assert_int_equal(refs(cache, 3), 1);
    assert_int_equal(refs(cache, 4), 1);
    assert_sound(cache);
    assert_free_list(cache, "5..19 2 1");
    pkv_cache_step(cache);
    assert_free_list(cache, "3 4..19 2 1"); /* in the order in which they were told */
    end_cache(cache);
}

static void a_whole_tail_needs_no_copy(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 48), *child = fork_of(parent);
    append(child, 1, 1);
    append(parent, 2, 1);
    assert_int_equal(take(child, 1).n_copies, 0);
    assert_int_equal(take(parent, 1).n_copies, 0);
    assert_table(child, 0, "1..3 4");
    assert_table(parent, 0, "1..3 5");
    end_cache(cache);
}

static void every_group_copies_its_own_tail(void **state)
{
    (void)state;
    pkv_cache *cache = hybrid_cache(32, 60, 320);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    assert_table(parent, 0, "1..3");
    assert_table(parent, 1, "4..6");
    append(child, 1, 1);
    const pkv_allocate_result result = take(child, 1);
    assert_int_equal(result.n_copies, 2);
    assert_int_equal(result.copies[0].src, 3);
    assert_int_equal(result.copies[0].dst, 7);
    assert_int_equal(result.copies[1].src, 6);
    assert_int_equal(result.copies[1].dst, 8);
    end_cache(cache);
}

static void three_sequences_make_two_copies(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *a = run_n(cache, 20), *b = fork_of(a), *c = fork_of(a);
    append(a, 1, 1);
    append(b, 2, 1);
    append(c, 3, 1);
    const pkv_allocate_result first = take(a, 1);
    assert_copy(&first, 2, 3);
    const pkv_allocate_result second = take(b, 1);
    assert_copy(&second, 2, 4);
    assert_int_equal(take(c, 1).n_copies, 0);
    assert_table(c, 0, "1 2");
    end_cache(cache);
}

static void a_copy_is_counted_before_it_is_taken(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(4, 48);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    append(child, 1, 1);
    assert_refused(cache, child, new_tokens(1), 1, 0);
    assert_table(child, 0, "1..3");
    close_seq(parent);
    assert_int_equal(take(child, 1).n_copies, 0); /* alone again */
    end_cache(cache);
}

static void both_key_what_they_share_once(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = open_n(cache, 40);
    pkv_allocate_params params = new_tokens(40);
    params.delay_caching = 1;
    (void)allocate(parent, params);
    pkv_seq *child = fork_of(parent);
    assert_ok(pkv_seq_cache(parent, 40));
    assert_int_equal(keys_in(cache), 2);
    assert_ok(pkv_seq_cache(child, 40));
    assert_int_equal(keys_in(cache), 2);
    assert_int_equal(info_of(child).keyed, 32);
    end_cache(cache);
}

static void a_fork_outlives_its_parent(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent), *grandchild = fork_of(child);
    close_seq(parent);
    close_seq(child);
    assert_int_equal(free_of(cache), 16);
    append(grandchild, 1, 24);
    (void)take(grandchild, 24);
    assert_table(grandchild, 0, "1..4");
    assert_sound(cache);
    close_seq(grandchild);
    assert_int_equal(free_of(cache), 19);
    end_cache(cache);
}

static void a_fork_of_ready_keys_has_ready_keys(void **state)
{
    (void)state;
    pkv_cache *cache = keyed_cache(20, 160);
    const pkv_key keys[3] = {{{1}}, {{2}}, {{3}}};
    pkv_seq_params params = seq_params_of(NULL, 40);
    params.keys = keys;
    params.n_keys = 2;
    pkv_seq *parent;
    assert_ok(pkv_seq_open(cache, &params, &parent));
    (void)take(parent, 40);
    pkv_seq *child = fork_of(parent);
    assert_ok(pkv_seq_append(child, NULL, 8));
    assert_ok(pkv_seq_append_keys(child, keys + 2, 1));
    (void)take(child, 8);
    assert_int_equal(keys_in(cache), 3);
    end_cache(cache);
}

static void a_fork_hashes_on_with_its_own_tokens(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    assert_ok(pkv_seq_append(child, counting() + 40, 24)); /* as a prompt of 64 would be */
    (void)take(child, 24);
    assert_int_equal(resend(cache, 65), 64);
    append(parent, 1, 24);
    (void)take(parent, 24);
    assert_int_equal(keys_in(cache), 2 + 2 + 2); /* shared, the child's, the parent's */
    end_cache(cache);
}

static void a_row_tells_a_worker_all_of_a_new_sequence(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    int32_t row[16];
    uint64_t from, to;
    pkv_seq *parent = run_n(cache, 40);
    pkv_cache_step(cache);
    pkv_seq *child = fork_of(parent);
    append(child, 1, 1);
    (void)take(child, 1);
    assert_ok(pkv_seq_row(child, 0, row, 16, &from, &to));
    assert_int_equal(from, 0); /* no worker has seen any of it */
    assert_int_equal(to, 3);
    end_cache(cache);
}

static void a_copy_is_not_zeroed(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160); /* nothing needs zeros here */
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    append(child, 1, 1);
    const pkv_allocate_result result = take(child, 1);
    assert_copy(&result, 3, 4);
    assert_int_equal(result.n_zero, 0);
    end_cache(cache);
}

/* A parent of n tokens, computed and not keyed, so that it can be rolled back. */
static pkv_seq *unkeyed(pkv_cache *cache, uint64_t n)
{
    pkv_seq *seq = open_n(cache, n);
    pkv_allocate_params params = new_tokens(n);
    params.delay_caching = 1;
    (void)allocate(seq, params);
    return seq;
}

static void a_rollback_to_its_start_gives_a_shared_block_back(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = unkeyed(cache, 20), *child = fork_of(parent);
    assert_ok(pkv_seq_set_computed(parent, 16));
    assert_table(parent, 0, "1");
    assert_int_equal(refs(cache, 2), 1);
    const pkv_allocate_result result = take(parent, 4); /* positions 16 to 19 */
    assert_int_equal(result.n_copies, 0);
    assert_table(parent, 0, "1 3");
    assert_table(child, 0, "1 2");
    end_cache(cache);
}

static void a_rollback_over_several_shared_blocks_copies_the_first(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = unkeyed(cache, 40), *child = fork_of(parent);
    assert_ok(pkv_seq_set_computed(parent, 10));
    assert_ok(pkv_seq_set_computed(child, 10));
    assert_table(parent, 0, "1");
    assert_table(child, 0, "1..3"); /* 2 and 3 are its own now */
    const pkv_allocate_result result = take(parent, 30);
    assert_copy(&result, 1, 4);
    assert_int_equal(take(child, 30).n_copies, 0);
    uint64_t n;
    const pkv_block *a = pkv_seq_table(parent, 0, &n), *b = pkv_seq_table(child, 0, &n);
    for (uint64_t i = 0; i < 3; i++) { /* both wrote into each of them */
        assert_int_not_equal(a[i], b[i]);
    }
    end_cache(cache);
}

static void a_slot_that_a_hit_found_is_not_written_in_place(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = unkeyed(cache, 40), *child = fork_of(parent);
    assert_ok(pkv_seq_cache(parent, 40));
    close_seq(parent);
    assert_ok(pkv_seq_set_computed(child, 10)); /* block 2 is the child's alone, with a key */
    pkv_seq *other = run_n(cache, 40);          /* finds blocks 1 and 2 */
    (void)take(child, 30);                      /* positions 10 to 39 */
    uint64_t n;
    const pkv_block *a = pkv_seq_table(child, 0, &n), *b = pkv_seq_table(other, 0, &n);
    assert_int_not_equal(a[0], b[0]);
    assert_int_not_equal(a[1], b[1]);
    end_cache(cache);
}

static void a_tail_that_a_deferred_close_may_write_is_copied(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    assert_ok(pkv_seq_close(parent, true)); /* its step still runs */
    append(child, 1, 1);
    const pkv_allocate_result result = take(child, 1);
    assert_copy(&result, 3, 4);
    end_cache(cache);
}

static void drafts_that_nobody_has_verified_are_not_forked(void **state)
{
    (void)state;
    pkv_cache *cache = full_cache(20, 160);
    pkv_seq *parent = run_n(cache, 16), *child = (pkv_seq *)(uintptr_t)1;
    (void)take(parent, 4);
    assert_status(pkv_seq_fork(parent, &child), PKV_E_INVAL);
    assert_error_text("pkv_seq_fork", "20 tokens are computed of 16");
    assert_null(child);
    assert_table(parent, 0, "1 2");
    assert_ok(pkv_seq_set_computed(parent, 16));
    (void)fork_of(parent);
    end_cache(cache);
}

static void content_of_a_drafter_is_not_forked(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    const pkv_plan_params params = with_drop(blocks_for(layers, 1, 20, 160));
    pkv_cache *cache = cache_of(&params);
    pkv_seq *child = (pkv_seq *)(uintptr_t)1;
    assert_status(pkv_seq_fork(run_n(cache, 40), &child), PKV_E_UNSUPPORTED);
    assert_error_text("pkv_seq_fork", "drafter");
    assert_null(child);
    end_cache(cache);
}

static void a_fork_without_caching_copies_its_tail(void **state)
{
    (void)state;
    const pkv_spec layers[] = {full()};
    pkv_plan_params params = blocks_for(layers, 1, 20, 160);
    params.caching = 0; /* no block has keys that could be asked for */
    pkv_cache *cache = cache_of(&params);
    pkv_seq *parent = run_n(cache, 40), *child = fork_of(parent);
    append(child, 1, 1);
    const pkv_allocate_result result = take(child, 1);
    assert_copy(&result, 3, 4);
    end_cache(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_holds_the_computed_blocks),
        cmocka_unit_test(whoever_writes_first_gets_the_copy),
        cmocka_unit_test(the_parent_may_be_first),
        cmocka_unit_test(both_ends_of_a_copy_stay_pinned_until_the_step),
        cmocka_unit_test(a_whole_tail_needs_no_copy),
        cmocka_unit_test(every_group_copies_its_own_tail),
        cmocka_unit_test(three_sequences_make_two_copies),
        cmocka_unit_test(a_copy_is_counted_before_it_is_taken),
        cmocka_unit_test(both_key_what_they_share_once),
        cmocka_unit_test(a_fork_outlives_its_parent),
        cmocka_unit_test(a_fork_of_ready_keys_has_ready_keys),
        cmocka_unit_test(a_fork_hashes_on_with_its_own_tokens),
        cmocka_unit_test(a_row_tells_a_worker_all_of_a_new_sequence),
        cmocka_unit_test(a_copy_is_not_zeroed),
        cmocka_unit_test(a_rollback_to_its_start_gives_a_shared_block_back),
        cmocka_unit_test(a_rollback_over_several_shared_blocks_copies_the_first),
        cmocka_unit_test(a_slot_that_a_hit_found_is_not_written_in_place),
        cmocka_unit_test(a_tail_that_a_deferred_close_may_write_is_copied),
        cmocka_unit_test(a_fork_without_caching_copies_its_tail),
        cmocka_unit_test(drafts_that_nobody_has_verified_are_not_forked),
        cmocka_unit_test(content_of_a_drafter_is_not_forked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
