/* test_pool_runs.c  The tree of runs: what is found in it, and what stays. */
#include "runs_fixture.h"

/* ---- matching ---- */

static void an_empty_tree_matches_nothing(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    assert_match(&t, "abc", "");
    assert_int_equal(pkvi_runs_n_named(t.runs), 0);
    end_tree(&t);
}

static void a_whole_run_is_matched(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    assert_int_equal(name(&t, "abc", "4 2 7"), 3);
    assert_match(&t, "abc", "4 2 7");
    assert_match(&t, "abcd", "4 2 7");
    assert_match(&t, "x", "");
    assert_int_equal(pkvi_runs_n_named(t.runs), 3);
    end_tree(&t);
}

static void a_prefix_that_ends_in_a_run_is_matched(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abcd", "1..4");
    assert_match(&t, "ab", "1 2");
    assert_match(&t, "abx", "1 2");
    assert_match(&t, "abxd", "1 2");
    end_tree(&t);
}

static void no_more_units_are_matched_than_asked_for(void **state)
{
    (void)state;
    tree t;
    text_content c;
    pkv_block ids[8] = {0};
    begin_tree(&t);
    (void)name(&t, "abcd", "1..4");
    read_content("abcd", &c);
    assert_int_equal(match_in(&t, 0, &c.content, 0, ids), 0);
    assert_int_equal(match_in(&t, 0, &c.content, 3, ids), 3);
    assert_blocks(ids, 4, "1..3 0");
    end_tree(&t);
}

static void branches_at_every_offset_are_matched(void **state)
{
    (void)state;
    tree t;
    char text[16], wanted[64];
    begin_tree(&t);
    (void)name(&t, "abcdefgh", "1..8");
    for (int named = 0; named < 2; named++) {
        for (int at = 0; at < 8; at++) { /* shares `at` units */
            (void)snprintf(text, sizeof text, "%.*sxy%s", at, "abcdefgh", named ? "z" : "");
            (void)snprintf(wanted, sizeof wanted, "1..%d %d %d", at, 10 + 2 * at, 11 + 2 * at);
            const char *own = strchr(wanted, ' ') + 1;
            if (named) {
                assert_match(&t, text, at > 0 ? wanted : own);
            } else {
                (void)name(&t, text, own);
            }
        }
    }
    assert_match(&t, "abcdefghi", "1..8");
    assert_int_equal(t.runs->n_used, 9);
    end_tree(&t);
}

static void a_branch_of_a_branch_is_matched(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abcd", "1..4");
    (void)name(&t, "abxyz", "5..7");
    (void)name(&t, "abxq", "8");
    assert_match(&t, "abxq", "1 2 5 8");
    assert_match(&t, "abxyz", "1 2 5..7");
    assert_match(&t, "abcd", "1..4");
    end_tree(&t);
}

static void equal_tokens_after_another_prefix_are_other_content(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abc", "1..3");
    (void)name(&t, "bbc", "4..6");
    assert_match(&t, "abc", "1..3");
    assert_match(&t, "bbc", "4..6");
    assert_match(&t, "cbc", "");
    assert_match(&t, "bc", "4");
    end_tree(&t);
}

static void a_run_grows_at_its_end_and_branches_inside(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "ab", "1 2");
    (void)name(&t, "abc", "3");
    assert_int_equal(t.runs->n_used, 1); /* the same run */
    (void)name(&t, "abd", "4");
    assert_int_equal(t.runs->n_used, 2);
    assert_match(&t, "abc", "1..3");
    assert_match(&t, "abd", "1 2 4");
    end_tree(&t);
}

static void what_a_branch_at_the_end_has_is_not_grown_again(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abc", "1..3");
    (void)name(&t, "abd", "4");
    forget(&t, 3); /* the branch is at the end now */
    (void)name(&t, "abd", "5");
    assert_match(&t, "abd", "1 2 4");
    (void)name(&t, "abc", "6");
    assert_match(&t, "abc", "1 2 6");
    assert_int_equal(t.runs->n_used, 2);
    end_tree(&t);
}

/* ---- tags ---- */

static void a_unit_with_a_tag_is_found_by_the_same_tag_only(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "ab1cd", "1..4");
    assert_match(&t, "ab1cd", "1..4");
    assert_match(&t, "ab2cd", "1");
    assert_match(&t, "abcd", "1");
    assert_match(&t, "ab1c1d", "1 2");
    end_tree(&t);
}

static void a_tag_of_the_first_unit_is_one_of_all(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "a1b", "1 2");
    (void)name(&t, "ab", "3 4");
    (void)name(&t, "a2b", "5 6");
    assert_match(&t, "a1b", "1 2");
    assert_match(&t, "ab", "3 4");
    assert_match(&t, "a2b", "5 6");
    assert_match(&t, "a3b", "");
    end_tree(&t);
}

static void a_content_without_a_tag_passes_a_branch_that_has_one(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "ab", "1 2");
    (void)name(&t, "abc1", "3"); /* a branch at the end */
    (void)name(&t, "abc", "4");  /* grows the run */
    (void)name(&t, "abc2", "5");
    assert_match(&t, "abc1", "1..3");
    assert_match(&t, "abc", "1 2 4");
    assert_match(&t, "abc2", "1 2 5");
    end_tree(&t);
}

static void every_unit_may_have_a_tag(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "a1b1c2d", "1..4");
    (void)name(&t, "a1b1c1d", "5 6");
    assert_match(&t, "a1b1c2d", "1..4");
    assert_match(&t, "a1b1c1d", "1 2 5 6");
    assert_match(&t, "a1bc1d", "1");
    end_tree(&t);
}

/* ---- names ---- */

static void the_first_of_equal_blocks_is_found(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "ab", "7 2");
    (void)name(&t, "ab", "3 4");
    (void)name(&t, "ab", "1 9");
    assert_match(&t, "ab", "7 2");
    assert_int_equal(pkvi_runs_n_named(t.runs), 2);
    forget(&t, 7);
    assert_match(&t, "ab", "3 2");
    forget(&t, 3);
    assert_match(&t, "ab", "1 2");
    forget(&t, 1);
    assert_match(&t, "ab", "");
    end_tree(&t);
}

static void the_middle_and_the_last_of_equal_blocks_can_be_forgotten(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    for (int i = 0; i < 5; i++) {
        const char *blocks[] = {"5", "4", "3", "2", "1"};
        (void)name(&t, "a", blocks[i]);
    }
    forget(&t, 4); /* 5 3 2 1 */
    forget(&t, 1); /* 5 3 2 */
    assert_match(&t, "a", "5");
    (void)name(&t, "a", "4"); /* 5 3 2 4 */
    forget(&t, 5);
    assert_match(&t, "a", "3");
    forget(&t, 3);
    assert_match(&t, "a", "2");
    forget(&t, 2);
    assert_match(&t, "a", "4");
    end_tree(&t);
}

static void a_block_that_is_named_for_other_content_loses_its_place(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abc", "1..3");
    assert_int_equal(name(&t, "ax", "2"), 1);
    assert_match(&t, "abc", "1");
    assert_match(&t, "ax", "1 2");
    end_tree(&t);
}

static void null_blocks_and_blocks_that_have_the_name_are_passed_over(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    assert_int_equal(name(&t, "abcd", "1 0 3 0"), 2);
    assert_match(&t, "abcd", "1");
    assert_int_equal(name(&t, "abcd", "1..4"), 2);
    assert_int_equal(name(&t, "abcd", "1..4"), 0);
    assert_match(&t, "abcd", "1..4");
    end_tree(&t);
}

static void names_go_to_all_runs_above_a_cursor(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abcd", "1..4");
    (void)name(&t, "abxy", "5 6");
    (void)name(&t, "abxz", "11..14");
    forget(&t, 1);
    forget(&t, 2);
    forget(&t, 5);
    assert_match(&t, "abxz", "11..14");
    assert_match(&t, "abxy", "11..13 6");
    end_tree(&t);
}

static void a_block_is_named_for_one_unit_of_one_content(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "aab", "1..3");
    pkvi_cursor same = cursor_at(&t, "aab"), other = cursor_at(&t, "axb");
    assert_true(pkvi_runs_is_named(t.runs, &same, 1, 0, 2));
    assert_false(pkvi_runs_is_named(t.runs, &same, 0, 0, 2));
    assert_false(pkvi_runs_is_named(t.runs, &same, 2, 0, 9));
    assert_true(pkvi_runs_is_named(t.runs, &other, 0, 0, 1)); /* what they share */
    assert_false(pkvi_runs_is_named(t.runs, &other, 2, 0, 3));
    leave(&t, &same);
    leave(&t, &other);
    end_tree(&t);
}

static void a_unit_that_is_forgotten_hides_later_ones_until_it_is_named_again(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abcd", "1..4");
    forget(&t, 2);
    assert_match(&t, "abcd", "1");
    pkvi_runs_prefetch(t.runs, 3);
    (void)name(&t, "ab", "7");
    assert_match(&t, "abcd", "1 7 3 4");
    end_tree(&t);
}

/* ---- what stays ---- */

static void a_cursor_keeps_what_is_before_it(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    pkvi_cursor cursor = cursor_at(&t, "abc");
    assert_int_equal(t.runs->n_used, 1);
    (void)name(&t, "abx", "1..3");
    forget_all(&t);
    assert_int_equal(t.runs->n_used, 1);
    assert_int_equal(t.runs->at[cursor.run].n, 3);
    const pkv_block table[] = {4, 5, 6};
    assert_int_equal(name_table(&t, &cursor, table, 0, 3), 3);
    t.named[4] = t.named[5] = t.named[6] = true;
    leave(&t, &cursor);
    assert_match(&t, "abc", "4..6");
    end_tree(&t);
}

static void a_second_cursor_stays_when_the_first_leaves(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    pkvi_cursor cursor = cursor_at(&t, "abc"), second;
    pkvi_runs_join(t.runs, &cursor, &second);
    leave(&t, &cursor);
    assert_int_equal(t.runs->n_used, 1);
    assert_int_equal(second.units, 3);
    leave(&t, &second);
    assert_int_equal(t.runs->n_used, 0);
    pkvi_runs_join(t.runs, &cursor, &second); /* at the root nothing is held */
    leave(&t, &second);
    end_tree(&t);
}

static void a_cursor_is_led_on_where_it_stands(void **state)
{
    (void)state;
    tree t;
    text_content c;
    pkvi_cursor cursor = {0, 0, 0};
    begin_tree(&t);
    (void)name(&t, "ab", "1 2");
    read_content("abc1d", &c);
    for (uint64_t n = 1; n <= 4; n++) {
        assert_true(pkvi_runs_lead(t.runs, &cursor, &c.content, n));
        assert_int_equal(cursor.units, n);
        assert_intact(&t);
    }
    assert_true(pkvi_runs_lead(t.runs, &cursor, &c.content, 2)); /* it is there already */
    assert_int_equal(cursor.units, 4);
    assert_int_equal(t.runs->n_used, 2);
    leave(&t, &cursor);
    assert_int_equal(t.runs->n_used, 1);
    end_tree(&t);
}

static void a_unit_without_a_block_stays_while_something_hangs_on_it(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abcd", "1..4");
    (void)name(&t, "abxy", "5 6");
    for (pkv_block b = 1; b <= 5; b++) {
        forget(&t, b);
    }
    assert_int_equal(t.runs->n_used, 2);
    assert_int_equal(t.runs->at[t.blocks[6].name.run].n, 2);
    assert_int_equal(t.runs->at[t.runs->at[t.blocks[6].name.run].parent].n, 2);
    (void)name(&t, "abx", "1..3");
    assert_match(&t, "abxy", "1..3 6");
    end_tree(&t);
}

static void memory_comes_back_when_all_is_forgotten(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    const uint64_t least = t.memory.held;
    assert_int_equal(least, empty_bytes(&t));
    for (int round = 0; round < 3; round++) {
        for (pkv_block b = 1; b < BLOCKS; b++) { /* more runs than the first buckets */
            const char text[] = {(char)('a' + b % 26), 'b', (char)('a' + b / 26), 'd', '\0'};
            char block[8];
            (void)snprintf(block, sizeof block, "%" PRIu32, b);
            (void)name(&t, text, block);
        }
        assert_true(t.memory.held > empty_bytes(&t));
        forget_all(&t);
        assert_int_equal(t.runs->n_used, 0);
        assert_int_equal(t.memory.held, empty_bytes(&t));
    }
    end_tree(&t);
}

static void a_run_whose_end_is_forgotten_gives_the_memory_of_it_back(void **state)
{
    (void)state;
    tree t;
    char text[MAX_UNITS] = "";
    begin_tree(&t);
    memset(text, 'a', 100);
    (void)name(&t, text, "101..110");
    (void)name(&t, "aa", "1 2");
    const uint64_t before = t.memory.held;
    for (pkv_block b = 110; b > 100; b--) {
        forget(&t, b);
    }
    assert_true(t.memory.held + 80 * (UNIT + 1) * sizeof(int32_t) < before);
    assert_match(&t, "aa", "1 2");
    end_tree(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_tree_matches_nothing),
        cmocka_unit_test(a_whole_run_is_matched),
        cmocka_unit_test(a_prefix_that_ends_in_a_run_is_matched),
        cmocka_unit_test(no_more_units_are_matched_than_asked_for),
        cmocka_unit_test(branches_at_every_offset_are_matched),
        cmocka_unit_test(a_branch_of_a_branch_is_matched),
        cmocka_unit_test(equal_tokens_after_another_prefix_are_other_content),
        cmocka_unit_test(a_run_grows_at_its_end_and_branches_inside),
        cmocka_unit_test(what_a_branch_at_the_end_has_is_not_grown_again),
        cmocka_unit_test(a_unit_with_a_tag_is_found_by_the_same_tag_only),
        cmocka_unit_test(a_tag_of_the_first_unit_is_one_of_all),
        cmocka_unit_test(a_content_without_a_tag_passes_a_branch_that_has_one),
        cmocka_unit_test(every_unit_may_have_a_tag),
        cmocka_unit_test(the_first_of_equal_blocks_is_found),
        cmocka_unit_test(the_middle_and_the_last_of_equal_blocks_can_be_forgotten),
        cmocka_unit_test(a_block_that_is_named_for_other_content_loses_its_place),
        cmocka_unit_test(null_blocks_and_blocks_that_have_the_name_are_passed_over),
        cmocka_unit_test(names_go_to_all_runs_above_a_cursor),
        cmocka_unit_test(a_block_is_named_for_one_unit_of_one_content),
        cmocka_unit_test(a_unit_that_is_forgotten_hides_later_ones_until_it_is_named_again),
        cmocka_unit_test(a_cursor_keeps_what_is_before_it),
        cmocka_unit_test(a_second_cursor_stays_when_the_first_leaves),
        cmocka_unit_test(a_cursor_is_led_on_where_it_stands),
        cmocka_unit_test(a_unit_without_a_block_stays_while_something_hangs_on_it),
        cmocka_unit_test(memory_comes_back_when_all_is_forgotten),
        cmocka_unit_test(a_run_whose_end_is_forgotten_gives_the_memory_of_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
