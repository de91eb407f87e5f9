/* test_pool_runs_long.c  Runs of many units, which are compared in stretches. */
#include "runs_fixture.h"

/* Longer than what is compared, and copied, at once. */
static void a_long_run_is_matched_up_to_every_unit(void **state)
{
    (void)state;
    tree t;
    text_content c;
    pkv_block ids[BLOCKS], found[BLOCKS];
    pkvi_cursor cursor = {0, 0, 0};
    char text[101] = "";
    begin_tree(&t);
    memset(text, 'a', 100);
    read_content(text, &c);
    for (pkv_block b = 0; b < 100; b++) {
        ids[b] = b + 1;
        t.named[b + 1] = true;
    }
    assert_true(pkvi_runs_lead(t.runs, &cursor, &c.content, 100));
    assert_int_equal(name_table(&t, &cursor, ids, 0, 100), 100);
    for (uint64_t i = 0; i < 100; i++) {
        c.tokens[i * UNIT] = 1;
        assert_int_equal(match_in(&t, 0, &c.content, 100, found), i);
        assert_memory_equal(found, ids, (size_t)i * sizeof *ids);
        c.tokens[i * UNIT] = 0;
    }
    for (pkv_block b = 100; b > 0; b--) { /* and up to every unit without a block */
        forget(&t, b);
        assert_int_equal(match_in(&t, 0, &c.content, 100, found), b - 1);
    }
    leave(&t, &cursor);
    end_tree(&t);
}

static void a_long_run_with_a_branch_is_matched_up_to_every_unit(void **state)
{
    (void)state;
    static const char *const names[] = {"1..100", "101..120"}; /* a branch of 20 after 60 */
    tree t;
    text_content c;
    pkv_block found[BLOCKS];
    char text[2][101] = {"", ""};
    begin_tree(&t);
    memset(text[0], 'a', 100);
    memset(text[1], 'a', 60);
    memset(text[1] + 60, 'b', 20);
    for (int k = 0; k < 2; k++) {
        (void)name(&t, text[k], names[k]);
    }
    for (int k = 0; k < 2; k++) {
        read_content(text[k], &c);
        for (uint64_t i = 0; i <= c.units; i++) {
            c.tokens[i % c.units * UNIT] = i < c.units; /* the last time all are equal */
            assert_int_equal(match_in(&t, 0, &c.content, c.units, found), i);
            for (uint64_t b = 0; b < i; b++) {
                assert_int_equal(found[b], k == 1 && b >= 60 ? 41 + b : 1 + b);
            }
            c.tokens[i % c.units * UNIT] = 0;
        }
    }
    end_tree(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_run_is_matched_up_to_every_unit),
        cmocka_unit_test(a_long_run_with_a_branch_is_matched_up_to_every_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
