/* test_pool_runs_groups.c  The blocks of several groups in one tree of runs. */
#include "runs_fixture.h"

static void each_group_has_its_own_blocks(void **state)
{
    (void)state;
    tree t;
    begin_tree_of(&t, 3);
    assert_int_equal(name_in(&t, 0, "abcd", "1..4"), 4);
    assert_int_equal(name_in(&t, 2, "abxy", "5..8"), 4);
    assert_match_in(&t, 0, "abcd", "1..4");
    assert_match_in(&t, 0, "abxy", "1 2");
    assert_match_in(&t, 1, "abcd", "");
    assert_match_in(&t, 2, "abcd", "5 6");
    assert_match_in(&t, 2, "abxy", "5..8");
    assert_int_equal(pkvi_runs_n_named(t.runs), 8);
    end_tree(&t);
}

static void a_block_is_named_in_its_group_alone(void **state)
{
    (void)state;
    tree t;
    begin_tree_of(&t, 2);
    (void)name_in(&t, 1, "ab", "1 2");
    pkvi_cursor cursor = cursor_at(&t, "ab");
    assert_true(pkvi_runs_is_named(t.runs, &cursor, 1, 1, 2));
    assert_false(pkvi_runs_is_named(t.runs, &cursor, 1, 0, 2));
    leave(&t, &cursor);
    end_tree(&t);
}

/* A block goes from one group to another: its first name is gone. */
static void a_block_that_is_named_again_leaves_its_group(void **state)
{
    (void)state;
    tree t;
    begin_tree_of(&t, 2);
    (void)name_in(&t, 0, "ab", "1 2");
    assert_int_equal(name_in(&t, 1, "ab", "1 2"), 2);
    assert_match_in(&t, 0, "ab", "");
    assert_match_in(&t, 1, "ab", "1 2");
    end_tree(&t);
}

static void a_unit_stays_while_any_group_has_a_block(void **state)
{
    (void)state;
    tree t;
    begin_tree_of(&t, 3);
    (void)name_in(&t, 0, "abc", "1..3");
    (void)name_in(&t, 2, "abc", "4..6");
    forget(&t, 3);
    forget(&t, 2);
    forget(&t, 1);
    assert_int_equal(t.runs->n_used, 1);
    assert_match_in(&t, 2, "abc", "4..6");
    forget(&t, 6);
    forget(&t, 5);
    forget(&t, 4);
    assert_int_equal(t.runs->n_used, 0);
    end_tree(&t);
}

static void blocks_that_are_masked_are_passed_over(void **state)
{
    (void)state;
    tree t;
    begin_tree_of(&t, 2);
    pkvi_cursor cursor = cursor_at(&t, "abcd");
    const pkv_block table[] = {9, 1, 2, 3};
    const uint8_t mask[] = {1, 0, 1};
    assert_int_equal(
        pkvi_runs_name(t.runs, &cursor, &(const pkvi_table_part){table, 1, 4, mask, 1, 1}), 2);
    t.named[1] = t.named[3] = true;
    assert_true(pkvi_runs_is_named(t.runs, &cursor, 1, 1, 1));
    assert_false(pkvi_runs_is_named(t.runs, &cursor, 2, 1, 2));
    assert_true(pkvi_runs_is_named(t.runs, &cursor, 3, 1, 3));
    leave(&t, &cursor);
    end_tree(&t);
}

/* Storage moves when a run grows, each group's blocks by themselves. */
static void all_groups_keep_their_blocks_when_a_run_grows(void **state)
{
    (void)state;
    tree t;
    begin_tree_of(&t, 2);
    (void)name_in(&t, 0, "aaaa", "1..4");
    (void)name_in(&t, 1, "aaaa", "11..14");
    (void)name_in(&t, 0, "aaaabbbbbbbbbbbbbbbbbbbb", "21..40");
    assert_match_in(&t, 0, "aaaabbbbbbbbbbbbbbbbbbbb", "1..4 21..40");
    assert_match_in(&t, 1, "aaaabbbb", "11..14");
    end_tree(&t);
}

/* Where the places of a text end, after so many units. */
static pkvi_cursor path_of(const tree *t, const char *text, uint64_t units)
{
    text_content c;
    pkvi_cursor path;
    read_content(text, &c);
    pkvi_runs_find(t->runs, &c.content, c.units, 0, NULL, &path);
    assert_int_equal(path.units, units);
    return path;
}

static bool find_unit(const tree *t, const pkvi_cursor *path, uint64_t unit, pkvi_stretch *stretch,
                      pkv_block found[2])
{
    static const uint32_t groups[] = {0, 1};
    pkv_block ids[2][MAX_UNITS], *tables[] = {ids[0], ids[1]};
    const bool all = pkvi_runs_find_unit(t->runs, path, unit, groups, 2, stretch, tables, unit);
    found[0] = all ? ids[0][unit] : 0;
    found[1] = all ? ids[1][unit] : 0;
    return all;
}

static void a_unit_is_found_if_all_groups_have_a_block(void **state)
{
    (void)state;
    tree t;
    pkvi_stretch stretch = {0, 0, 0};
    pkv_block found[2];
    begin_tree_of(&t, 2);
    (void)name_in(&t, 0, "abcd", "1..4");
    (void)name_in(&t, 1, "abcd", "5 0 6 7");
    forget(&t, 4);
    const pkvi_cursor path = path_of(&t, "abcde", 4);
    assert_true(find_unit(&t, &path, 2, &stretch, found));
    assert_int_equal(found[0], 3);
    assert_int_equal(found[1], 6);
    assert_false(find_unit(&t, &path, 1, &stretch, found)); /* the second group has none */
    assert_false(find_unit(&t, &path, 3, &stretch, found)); /* the first has none any more */
    assert_false(find_unit(&t, &path, 4, &stretch, found)); /* it has no place */
    end_tree(&t);
}

static void a_walk_over_units_goes_back_and_forth_over_branches(void **state)
{
    (void)state;
    tree t;
    pkvi_stretch stretch = {0, 0, 0};
    pkv_block found[2];
    begin_tree_of(&t, 2);
    for (uint32_t g = 0; g < 2; g++) {
        (void)name_in(&t, g, "aa", g == 0 ? "1 2" : "11 12");
        (void)name_in(&t, g, "ab", g == 0 ? "3" : "13");
        (void)name_in(&t, g, "abbc", g == 0 ? "4 5" : "14 15");
        (void)name_in(&t, g, "abbdd", g == 0 ? "6 7" : "16 17");
    }
    const pkvi_cursor path = path_of(&t, "abbdd", 5);
    static const pkv_block wanted[] = {1, 3, 4, 6, 7};
    static const uint64_t walk[] = {4, 3, 2, 1, 0, 2, 0, 4, 1, 3, 0, 1, 2, 3, 4};
    for (size_t i = 0; i < COUNT(walk); i++) {
        assert_true(find_unit(&t, &path, walk[i], &stretch, found));
        assert_int_equal(found[0], wanted[walk[i]]);
        assert_int_equal(found[1], wanted[walk[i]] + 10);
    }
    end_tree(&t);
}

/* Blocks are looked at 64 at a time. The other group has three, which keep all units. */
static void a_row_ends_before_the_first_block_that_is_missing(void **state)
{
    (void)state;
    enum { N = 100 };
    char text[N + 1] = {0};
    memset(text, 'a', N);
    for (pkv_block gone = 1; gone <= N; gone++) {
        tree t;
        text_content c;
        pkv_block ids[MAX_UNITS];
        begin_tree_of(&t, 2);
        (void)name_in(&t, 1, text, "1..100");
        (void)name_in(&t, 0, text, "101..103");
        read_content(text, &c);
        assert_int_equal(match_in(&t, 1, &c.content, N, ids), N);
        forget(&t, gone);
        assert_int_equal(match_in(&t, 1, &c.content, N, ids), gone - 1);
        for (pkv_block i = 0; i + 1 < gone; i++) {
            assert_int_equal(ids[i], i + 1);
        }
        end_tree(&t);
    }
}

/* abcde over three runs, of which c has no block: a, bc, de. */
static pkvi_cursor begin_branched(tree *t)
{
    begin_tree_of(t, 1);
    (void)name(t, "axx", "1 8 9");
    (void)name(t, "abcx", "2 0 7");
    (void)name(t, "abcde", "4 5");
    return path_of(t, "abcde", 5);
}

static void a_row_is_followed_back_to_a_block_that_is_missing(void **state)
{
    (void)state;
    static const struct {
        uint64_t end, most, found;
    } cases[] = {{5, 5, 2}, {5, 2, 2}, {5, 1, 1}, {4, 4, 1},
                 {3, 3, 0}, {2, 2, 2}, {2, 1, 1}, {1, 1, 1}};
    static const pkv_block all[] = {1, 2, 0, 4, 5};
    tree t;
    pkvi_stretch stretch = {0, 0, 0};
    const pkvi_cursor path = begin_branched(&t);
    for (size_t i = 0; i < COUNT(cases); i++) {
        pkv_block ids[MAX_UNITS] = {0};
        const uint64_t end = cases[i].end;
        assert_int_equal(pkvi_runs_row_back(t.runs, &path, 0, 1, end, cases[i].most, &stretch, ids),
                         cases[i].found);
        for (uint64_t at = 0; at < MAX_UNITS; at++) {
            const bool found = at < end && at + cases[i].found >= end;
            assert_int_equal(ids[at], found ? all[at] : 0);
        }
    }
    end_tree(&t);
}

static void the_last_block_before_an_end_is_found_over_branches(void **state)
{
    (void)state;
    static const uint64_t last[] = {0, 1, 2, 2, 4, 5};
    tree t;
    pkvi_stretch stretch = {0, 0, 0};
    const pkvi_cursor path = begin_branched(&t);
    for (uint64_t end = 0; end <= 5; end++) {
        assert_int_equal(pkvi_runs_last(t.runs, &path, 0, 1, end, &stretch), last[end]);
    }
    forget(&t, 1);
    forget(&t, 2);
    for (uint64_t end = 0; end <= 3; end++) {
        assert_int_equal(pkvi_runs_last(t.runs, &path, 0, 1, end, &stretch), 0);
    }
    end_tree(&t);
}

/* A block of two units lies at its second one. */
static void blocks_of_several_units_are_followed_back(void **state)
{
    (void)state;
    tree t;
    pkvi_stretch stretch = {0, 0, 0};
    pkv_block ids[3] = {0};
    begin_tree_of(&t, 1);
    (void)name(&t, "aaxx", "0 0 0 9");
    (void)name(&t, "aabbcc", "0 1 0 2 0 3");
    const pkvi_cursor path = path_of(&t, "aabbccx", 6);
    assert_int_equal(pkvi_runs_row_back(t.runs, &path, 0, 2, 3, 3, &stretch, ids), 3);
    for (pkv_block i = 0; i < 3; i++) {
        assert_int_equal(ids[i], i + 1);
    }
    forget(&t, 3);
    assert_int_equal(pkvi_runs_row_back(t.runs, &path, 0, 2, 3, 3, &stretch, ids), 0);
    assert_int_equal(pkvi_runs_last(t.runs, &path, 0, 2, 3, &stretch), 2);
    end_tree(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_has_its_own_blocks),
        cmocka_unit_test(a_block_is_named_in_its_group_alone),
        cmocka_unit_test(a_block_that_is_named_again_leaves_its_group),
        cmocka_unit_test(a_unit_stays_while_any_group_has_a_block),
        cmocka_unit_test(blocks_that_are_masked_are_passed_over),
        cmocka_unit_test(all_groups_keep_their_blocks_when_a_run_grows),
        cmocka_unit_test(a_unit_is_found_if_all_groups_have_a_block),
        cmocka_unit_test(a_walk_over_units_goes_back_and_forth_over_branches),
        cmocka_unit_test(a_row_ends_before_the_first_block_that_is_missing),
        cmocka_unit_test(a_row_is_followed_back_to_a_block_that_is_missing),
        cmocka_unit_test(the_last_block_before_an_end_is_found_over_branches),
        cmocka_unit_test(blocks_of_several_units_are_followed_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
