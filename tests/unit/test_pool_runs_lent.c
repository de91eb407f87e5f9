/* test_pool_runs_lent.c  Runs that read the tokens of a sequence where they are. */
#include "runs_fixture.h"

/* A content whose tokens lie in a piece from the tree's hooks, with room for `room` units. */
typedef struct lender {
    text_content text;
    int32_t *tokens;
    size_t capacity;
    pkvi_cursor cursor;
} lender;

static void begin_lender(tree *t, const char *text, uint64_t room, lender *out)
{
    memset(out, 0, sizeof *out);
    read_content(text, &out->text);
    out->capacity = (size_t)room * UNIT;
    out->tokens = counted_alloc(&t->memory, out->capacity * sizeof *out->tokens, 16);
    memcpy(out->tokens, out->text.tokens, (size_t)out->text.units * UNIT * sizeof *out->tokens);
    out->text.content.tokens = out->tokens;
    out->text.content.lends = true;
}

static void lead_lender(tree *t, lender *l, uint64_t units)
{
    assert_true(pkvi_runs_lead(t->runs, &l->cursor, &l->text.content, units));
    assert_intact(t);
}

/* Names the units that it was led to by their numbers, from 1 on. */
static void name_units(tree *t, const lender *l)
{
    pkv_block table[MAX_UNITS];
    for (uint64_t i = 0; i < l->cursor.units; i++) {
        table[i] = (pkv_block)i + 1;
        t->named[i + 1] = true;
    }
    (void)name_table(t, &l->cursor, table, 0, l->cursor.units);
    assert_intact(t);
}

/* A tree whose first run is that of a lender, led to and named for so many units. */
static void begin_named(tree *t, lender *l, const char *text, uint64_t room, uint64_t units)
{
    begin_tree(t);
    begin_lender(t, text, room, l);
    lead_lender(t, l, units);
    name_units(t, l);
}

static void free_tokens(tree *t, lender *l)
{
    const size_t bytes = l->capacity * sizeof *l->tokens;
    memset(l->tokens, 0xdd, bytes); /* who still reads them finds rubbish */
    counted_free(&t->memory, l->tokens, bytes, 16);
}

/* It leaves, and its tokens are kept or not. */
static void end_lender(tree *t, lender *l, bool kept)
{
    assert_int_equal(pkvi_runs_leave(t->runs, &l->cursor, l->tokens, l->capacity), kept);
    if (!kept) {
        free_tokens(t, l);
    }
    assert_intact(t);
}

static pkvi_run *run_of(const tree *t, const lender *l)
{
    return &t->runs->at[l->cursor.run];
}

static void a_run_reads_tokens_where_they_are(void **state)
{
    (void)state;
    tree t;
    lender l;
    begin_named(&t, &l, "abcdef", 6, 4);
    assert_ptr_equal(run_of(&t, &l)->tokens, l.tokens);
    assert_int_equal(pkvi_runs_lent(t.runs, &l.cursor, l.tokens), l.cursor.run);
    assert_match(&t, "abcdef", "1..4");
    assert_match(&t, "abx", "1 2");
    end_lender(&t, &l, true);
    assert_match(&t, "abcdef", "1..4");
    forget_all(&t);
    end_tree(&t);
}

static void a_run_goes_on_in_tokens_that_are_lent(void **state)
{
    (void)state;
    tree t;
    lender l;
    char text[MAX_UNITS + 1] = "";
    begin_tree(&t);
    memset(text, 'a', MAX_UNITS);
    begin_lender(&t, text, MAX_UNITS, &l);
    for (uint64_t units = 1; units <= MAX_UNITS; units++) {
        lead_lender(&t, &l, units);
        assert_ptr_equal(run_of(&t, &l)->tokens, l.tokens);
        assert_int_equal(run_of(&t, &l)->n, units);
    }
    assert_int_equal(t.runs->n_used, 1);
    end_lender(&t, &l, false);
    end_tree(&t);
}

static void a_run_gets_its_own_tokens_when_somebody_else_adds_to_it(void **state)
{
    (void)state;
    tree t;
    lender l;
    begin_named(&t, &l, "abcx", 5, 3);
    (void)name(&t, "abcde", "4 5");
    assert_ptr_not_equal(run_of(&t, &l)->tokens, l.tokens);
    assert_int_equal(pkvi_runs_lent(t.runs, &l.cursor, l.tokens), 0);
    assert_int_equal(l.tokens[3 * UNIT + UNIT - 1], 'x');
    end_lender(&t, &l, false);
    assert_match(&t, "abcde", "1..5");
    end_tree(&t);
}

static void without_memory_nobody_else_adds_to_it(void **state)
{
    (void)state;
    tree t;
    lender l;
    text_content c;
    pkvi_cursor cursor = {0, 0, 0};
    begin_named(&t, &l, "abcx", 5, 3);
    read_content("abcde", &c);
    t.memory.left = 0;
    assert_false(pkvi_runs_lead(t.runs, &cursor, &c.content, 5));
    assert_int_equal(cursor.units, 3);
    assert_ptr_equal(run_of(&t, &l)->tokens, l.tokens);
    assert_match(&t, "abcde", "1..3");
    t.memory.left = UINT64_MAX;
    leave(&t, &cursor);
    end_lender(&t, &l, true);
    end_tree(&t);
}

static void tokens_that_move_are_followed(void **state)
{
    (void)state;
    tree t;
    lender l;
    begin_named(&t, &l, "abcdef", 6, 4);
    lender old = l;
    const uint32_t run = pkvi_runs_lent(t.runs, &l.cursor, l.tokens);
    begin_lender(&t, "abcdef", 9, &l);
    l.cursor = old.cursor;
    pkvi_runs_moved(t.runs, run, l.tokens);
    free_tokens(&t, &old);
    assert_match(&t, "abcdef", "1..4");
    lead_lender(&t, &l, 6);
    assert_ptr_equal(run_of(&t, &l)->tokens, l.tokens);
    name_units(&t, &l);
    end_lender(&t, &l, true);
    assert_match(&t, "abcdef", "1..6");
    end_tree(&t);
}

static void tokens_that_were_left_behind_are_added_to(void **state)
{
    (void)state;
    tree t;
    lender l;
    begin_tree(&t);
    begin_lender(&t, "abcd", 6, &l); /* two units of room */
    lead_lender(&t, &l, 4);
    name_units(&t, &l);
    end_lender(&t, &l, true);
    const uint64_t calls = t.memory.calls;
    (void)name(&t, "abcdef", "5 6");
    assert_int_equal(t.memory.calls, calls);
    (void)name(&t, "abcdefg", "7");
    assert_match(&t, "abcdefg", "1..7");
    end_tree(&t);
}

/* Of 16 units of room ten are used. With the spare units of a run, four, 16 are at most a fourth
 * more than 14; of 20 that does not hold. */
static void tokens_with_too_much_room_are_copied(void **state)
{
    (void)state;
    for (uint64_t room = 16; room <= 20; room += 4) {
        tree t;
        lender l;
        begin_named(&t, &l, "abcdefghij", room, 10);
        const uint32_t r = l.cursor.run;
        const uint64_t held = t.memory.held;
        const int32_t *tokens = l.tokens;
        end_lender(&t, &l, true);
        assert_int_equal(t.runs->at[r].tokens == tokens, room == 16);
        assert_int_equal(held - t.memory.held, room == 16 ? 0 : (20 - 14) * UNIT * sizeof(int32_t));
        assert_match(&t, "abcdefghij", "1..10");
        end_tree(&t);
    }
}

static void without_memory_too_much_room_is_kept(void **state)
{
    (void)state;
    tree t;
    lender l;
    begin_named(&t, &l, "ab", 50, 2);
    t.memory.left = 0;
    end_lender(&t, &l, true);
    assert_match(&t, "ab", "1 2");
    t.memory.left = UINT64_MAX;
    forget_all(&t);
    assert_int_equal(t.memory.held, empty_bytes(&t));
    end_tree(&t);
}

static void what_shares_something_is_not_lent(void **state)
{
    (void)state;
    tree t;
    lender l;
    begin_tree(&t);
    (void)name(&t, "ab", "1 2");
    begin_lender(&t, "axy", 3, &l);
    lead_lender(&t, &l, 3);
    assert_int_equal(pkvi_runs_lent(t.runs, &l.cursor, l.tokens), 0);
    end_lender(&t, &l, false);
    begin_lender(&t, "abcd", 4, &l);
    lead_lender(&t, &l, 4);
    assert_int_equal(pkvi_runs_lent(t.runs, &l.cursor, l.tokens), 0);
    end_lender(&t, &l, false);
    assert_match(&t, "abcd", "1 2");
    end_tree(&t);
}

/* The first run of a content with tags is lent, from further ones it is known. */
static void a_cursor_in_a_branch_knows_what_it_lends(void **state)
{
    (void)state;
    tree t;
    lender l;
    begin_named(&t, &l, "abc1d", 4, 4);
    const uint32_t lent = pkvi_runs_lent(t.runs, &l.cursor, l.tokens);
    assert_int_not_equal(lent, l.cursor.run);
    assert_ptr_equal(t.runs->at[lent].tokens, l.tokens);
    assert_int_equal(t.runs->at[lent].n, 2);
    end_lender(&t, &l, true);
    assert_match(&t, "abc1d", "1..4");
    end_tree(&t);
}

static void tokens_are_kept_while_a_second_cursor_holds_their_run(void **state)
{
    (void)state;
    tree t;
    lender l;
    pkvi_cursor second;
    begin_tree(&t);
    begin_lender(&t, "abcd", 4, &l);
    lead_lender(&t, &l, 4);
    pkvi_runs_join(t.runs, &l.cursor, &second);
    end_lender(&t, &l, true);
    assert_match(&t, "abcd", "");
    leave(&t, &second);
    assert_int_equal(t.memory.held, empty_bytes(&t));
    end_tree(&t);
}

static void tokens_that_are_not_there_are_found(void **state)
{
    (void)state;
    static const char *const text = "a run reads tokens that are not there";
    tree t;
    lender l;
    begin_named(&t, &l, "abcd", 4, 4);
    pkvi_run *run = run_of(&t, &l);
    run->apart = 4 * UNIT; /* lent, and its own */
    assert_string_equal(fault_of(&t), text);
    run->apart = 0;
    end_lender(&t, &l, true);
    run->apart = 3 * UNIT;
    assert_string_equal(fault_of(&t), text);
    run->apart = 4 * UNIT;
    end_tree(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_reads_tokens_where_they_are),
        cmocka_unit_test(a_run_goes_on_in_tokens_that_are_lent),
        cmocka_unit_test(a_run_gets_its_own_tokens_when_somebody_else_adds_to_it),
        cmocka_unit_test(without_memory_nobody_else_adds_to_it),
        cmocka_unit_test(tokens_that_move_are_followed),
        cmocka_unit_test(tokens_that_were_left_behind_are_added_to),
        cmocka_unit_test(tokens_with_too_much_room_are_copied),
        cmocka_unit_test(without_memory_too_much_room_is_kept),
        cmocka_unit_test(what_shares_something_is_not_lent),
        cmocka_unit_test(a_cursor_in_a_branch_knows_what_it_lends),
        cmocka_unit_test(tokens_are_kept_while_a_second_cursor_holds_their_run),
        cmocka_unit_test(tokens_that_are_not_there_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
