/* test_pool_runs_memory.c  The tree of runs without memory, and the check that finds damage. */
#include "runs_fixture.h"

/* ---- no memory ---- */

static void a_tree_that_cannot_be_made_is_none(void **state)
{
    (void)state;
    tree t = {.memory = {.left = 0}};
    const pkv_alloc hooks = hooks_of(&t);
    for (uint64_t n = 0; !t.runs; n++) {
        assert_int_equal(t.memory.held, 0);
        t.memory.left = n;
        t.runs = pkvi_runs_create(&hooks, t.blocks, BLOCKS, UNIT, 1);
    }
    /* the tree itself, without it and with it; then buckets, and then the table of runs */
    assert_int_equal(t.memory.calls, 1 + 2 + 3 + 3);
    end_tree(&t);
}

/* Leads a cursor to a content while there is less and less too little memory, and then names it. */
static void lead_in_spite_of_failures(tree *t, const char *text, const char *known,
                                      const char *matched)
{
    text_content c;
    pkvi_cursor cursor = {0, 0, 0};
    read_content(text, &c);
    uint64_t failures = 0;
    for (bool ok = false; !ok; failures += !ok) {
        const uint64_t before = cursor.units;
        t->memory.left = failures;
        ok = pkvi_runs_lead(t->runs, &cursor, &c.content, c.units);
        assert_true(ok == (cursor.units == c.units) && cursor.units >= before);
        assert_intact(t);
        t->memory.left = UINT64_MAX;
        assert_match(t, text, matched);
        assert_match(t, known, "1..4");
        if (!ok) {
            (void)pkvi_runs_leave(t->runs, &cursor, NULL, 0); /* what it had made goes with it */
            assert_intact(t);
        }
    }
    assert_true(failures > 0);
    leave(t, &cursor);
}

static void a_cursor_that_finds_no_memory_changes_nothing_else(void **state)
{
    (void)state;
    tree t;
    begin_tree(&t);
    (void)name(&t, "abcd", "1..4");
    lead_in_spite_of_failures(&t, "xyz", "abcd", "");               /* a run */
    lead_in_spite_of_failures(&t, "abxyz", "abcd", "1 2");          /* a branch */
    lead_in_spite_of_failures(&t, "abcdefghijkl", "abcd", "1..4");  /* growth */
    lead_in_spite_of_failures(&t, "abc1d2e", "abcd", "1 2");        /* several runs */
    lead_in_spite_of_failures(&t, "abcdefghijkl1", "abcd", "1..4"); /* growth and a run */
    assert_int_equal(t.runs->n_used, 1);
    forget_all(&t);
    assert_int_equal(t.memory.held, empty_bytes(&t));
    end_tree(&t);
}

static void a_cursor_comes_as_far_as_memory_allows_and_then_on(void **state)
{
    (void)state;
    tree t;
    text_content c;
    pkvi_cursor cursor = {0, 0, 0};
    begin_tree(&t);
    read_content("ab1c1d", &c);
    t.memory.left = 1;
    assert_false(pkvi_runs_lead(t.runs, &cursor, &c.content, 4));
    assert_int_equal(cursor.units, 1);
    assert_intact(&t);
    t.memory.left = 1;
    assert_false(pkvi_runs_lead(t.runs, &cursor, &c.content, 4));
    assert_int_equal(cursor.units, 2);
    t.memory.left = UINT64_MAX;
    assert_true(pkvi_runs_lead(t.runs, &cursor, &c.content, 4));
    const pkv_block table[] = {1, 2, 3, 4};
    assert_int_equal(name_table(&t, &cursor, table, 0, 4), 4);
    memset(t.named + 1, true, 4);
    assert_match(&t, "ab1c1d", "1..4");
    leave(&t, &cursor);
    end_tree(&t);
}

static void buckets_that_cannot_grow_are_no_memory(void **state)
{
    (void)state;
    tree t;
    text_content c;
    pkvi_cursor cursor = {0, 0, 0};
    begin_tree(&t);
    for (pkv_block b = 1; b <= 64; b++) { /* as many runs as there are buckets at first */
        const char text[] = {(char)(':' + b - 1), '\0'};
        char block[8];
        (void)snprintf(block, sizeof block, "%" PRIu32, b);
        (void)name(&t, text, block);
    }
    read_content("~", &c);
    t.memory.left = 0;
    assert_false(pkvi_runs_lead(t.runs, &cursor, &c.content, 1));
    assert_intact(&t);
    t.memory.left = UINT64_MAX;
    (void)name(&t, "~", "65");
    assert_true(t.runs->n_buckets > 64);
    for (pkv_block b = 1; b <= 64; b++) {
        const char text[] = {(char)(':' + b - 1), '\0'};
        char block[8];
        (void)snprintf(block, sizeof block, "%" PRIu32, b);
        assert_match(&t, text, block);
    }
    end_tree(&t);
}

static void forgetting_needs_no_memory(void **state)
{
    (void)state;
    tree t;
    char text[MAX_UNITS] = "";
    begin_tree(&t);
    memset(text, 'a', 100);
    (void)name(&t, text, "11..60 61..110");
    (void)name(&t, "ab", "1");
    t.memory.left = 0;
    for (pkv_block b = 110; b > 60; b--) { /* would shrink, and cannot */
        forget(&t, b);
    }
    forget(&t, 1);
    forget_all(&t);
    assert_int_equal(t.memory.held, empty_bytes(&t));
    end_tree(&t);
}

/* ---- damage ---- */

/* "abcd" are blocks 1 to 4, "abx" is 5, "ab" 6 and 7 too. */
static void begin_known(tree *t)
{
    begin_tree(t);
    (void)name(t, "abcd", "1..4");
    (void)name(t, "abx", "5");
    (void)name(t, "ab", "6 7");
    assert_intact(t);
}

/* A number that is wrong is found, with that text; the right one is fine again. */
static void assert_found(tree *t, uint32_t *at, uint32_t wrong, const char *text)
{
    const uint32_t right = *at;
    *at = wrong;
    const char *fault = fault_of(t);
    if (!fault || strcmp(fault, text) != 0) {
        fail_msg("%s instead of %s", fault ? fault : "nothing", text);
    }
    *at = right;
    assert_intact(t);
}

static void a_run_that_hangs_nowhere_is_found(void **state)
{
    (void)state;
    static const char *const text = "a run continues no place";
    tree t;
    begin_known(&t);
    pkvi_run *branch = &t.runs->at[t.blocks[5].name.run];
    assert_found(&t, &branch->n, 0, text);
    assert_found(&t, &branch->n, branch->capacity + 1, text);
    assert_found(&t, &branch->parent_at, 5, text);
    assert_found(&t, &branch->parent_at, 0, text);
    assert_found(&t, &branch->depth, 3, text);
    pkvi_run *first = &t.runs->at[branch->parent];
    assert_found(&t, &first->parent, t.runs->n_at, text);
    end_tree(&t);
}

static void a_run_that_no_search_reaches_is_found(void **state)
{
    (void)state;
    static const char *const text = "a run cannot be found";
    tree t;
    begin_known(&t);
    const uint32_t r = t.blocks[5].name.run;
    uint32_t *bucket = pkvi_run_bucket(t.runs, t.runs->at[r].hash);
    assert_found(&t, bucket, t.runs->n_at, text);
    assert_found(&t, bucket, t.runs->at[r].next_in_bucket, text);
    const uint64_t hash = t.runs->at[r].hash;
    t.runs->at[r].hash = hash ^ 1;
    assert_string_equal(fault_of(&t), text);
    t.runs->at[r].hash = hash;
    end_tree(&t);
}

static void a_ring_that_is_none_is_found(void **state)
{
    (void)state;
    static const char *const text = "blocks of one place are not linked";
    tree t;
    begin_known(&t);
    assert_found(&t, &t.runs->at[t.blocks[1].name.run].first[0], BLOCKS, text);
    assert_found(&t, &t.runs->at[t.blocks[1].name.run].first[0], 3, text);
    assert_found(&t, &t.blocks[1].name.next, 1, text);
    assert_found(&t, &t.blocks[1].name.next, BLOCKS, text);
    assert_found(&t, &t.blocks[6].name.prev, 6, text);
    assert_found(&t, &t.blocks[6].name.at, 1, text);
    assert_found(&t, &t.blocks[6].name.run, 0, text);
    end_tree(&t);
}

static void a_run_that_counts_its_holders_wrong_is_found(void **state)
{
    (void)state;
    static const char *const text = "a run is held by others than it knows";
    tree t;
    begin_known(&t);
    pkvi_run *run = &t.runs->at[t.blocks[1].name.run];
    assert_found(&t, &run->holders, run->holders + 1, text);
    assert_found(&t, &run->cursors, 1, text);
    assert_found(&t, &run->n_children, 0, text);
    assert_found(&t, &run->n_children, 2, text);
    uint32_t *parent = &t.runs->at[t.blocks[5].name.run].parent; /* another's child */
    assert_found(&t, parent, 0, text);
    assert_found(&t, parent, t.runs->n_at, text);
    end_tree(&t);
}

static void a_run_that_nobody_holds_is_found(void **state)
{
    (void)state;
    tree t;
    begin_known(&t);
    pkvi_cursor cursor = cursor_at(&t, "xy");
    pkvi_run *run = &t.runs->at[cursor.run];
    run->holders = run->cursors = 0;
    assert_string_equal(fault_of(&t), "a run is held by nobody");
    run->holders = run->cursors = 1;
    leave(&t, &cursor);
    end_tree(&t);
}

static void a_block_of_which_the_pool_knows_otherwise_is_found(void **state)
{
    (void)state;
    static const char *const text = "a block has a key in one place only";
    tree t;
    begin_known(&t);
    t.named[3] = false;
    assert_string_equal(fault_of(&t), text);
    t.named[3] = t.named[20] = true;
    assert_string_equal(fault_of(&t), text);
    t.named[20] = false;
    end_tree(&t);
}

static void blocks_and_units_that_are_lost_are_found(void **state)
{
    (void)state;
    static const char *const text = "keys are missing from the tree";
    tree t;
    begin_known(&t);
    t.runs->n_named++;
    assert_string_equal(fault_of(&t), text);
    t.runs->n_named--;
    t.blocks[30].name = t.blocks[3].name; /* says that it is in, but is not in the ring */
    t.named[30] = true;
    assert_string_equal(fault_of(&t), text);
    t.blocks[30].name = (pkvi_name){0};
    t.named[30] = false;
    end_tree(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_that_cannot_be_made_is_none),
        cmocka_unit_test(a_cursor_that_finds_no_memory_changes_nothing_else),
        cmocka_unit_test(a_cursor_comes_as_far_as_memory_allows_and_then_on),
        cmocka_unit_test(buckets_that_cannot_grow_are_no_memory),
        cmocka_unit_test(forgetting_needs_no_memory),
        cmocka_unit_test(a_run_that_hangs_nowhere_is_found),
        cmocka_unit_test(a_run_that_no_search_reaches_is_found),
        cmocka_unit_test(a_ring_that_is_none_is_found),
        cmocka_unit_test(a_run_that_counts_its_holders_wrong_is_found),
        cmocka_unit_test(a_run_that_nobody_holds_is_found),
        cmocka_unit_test(a_block_of_which_the_pool_knows_otherwise_is_found),
        cmocka_unit_test(blocks_and_units_that_are_lost_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
