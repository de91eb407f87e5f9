/* test_pool_runs_alike.c  Content that is nearly alike, much of it, and blocks of one content. */
#include "fixture.h"

#include "base/arena.h"
#include "pool/runs_internal.h"

enum { UNIT = 2, LONG = 150, N_BLOCKS = 200 };

typedef struct fixture {
    pkvi_runs *runs;
    pkvi_block blocks[N_BLOCKS];
    int32_t tokens[LONG * UNIT];
    pkvi_tag tag;
    pkvi_content content; /* of the tokens, and of the tag if n_tags says so */
    pkvi_cursor cursor;
} fixture;

static void lead(fixture *f, uint64_t units)
{
    assert_true(pkvi_runs_lead(f->runs, &f->cursor, &f->content, units));
}

/* Names block, block + 1 and so on for the units of the content. */
static void name(fixture *f, pkv_block block, uint64_t units)
{
    pkv_block table[LONG];
    for (uint64_t i = 0; i < units; i++) {
        table[i] = block + (pkv_block)i;
    }
    lead(f, units);
    assert_int_equal(
        pkvi_runs_name(f->runs, &f->cursor, &(const pkvi_table_part){table, 0, units, NULL, 0, 1}),
        units);
    (void)pkvi_runs_leave(f->runs, &f->cursor, NULL, 0);
}

static void prepare(fixture *f, uint64_t units)
{
    memset(f, 0, sizeof *f);
    f->runs = pkvi_runs_create(&pkvi_libc_alloc, f->blocks, N_BLOCKS, UNIT, 1);
    assert_non_null(f->runs);
    for (size_t i = 0; i < COUNT(f->tokens); i++) {
        f->tokens[i] = (int32_t)i;
    }
    memset(f->tag.key.bytes, 0x11, sizeof f->tag.key.bytes);
    f->content = (pkvi_content){.tokens = f->tokens, .tags = &f->tag};
    if (units > 0) {
        name(f, 1, units);
    }
}

/* How many units are found, at most so many; ids: their blocks. */
static uint64_t find(const fixture *f, uint64_t units, pkv_block *ids)
{
    pkvi_cursor path;
    pkvi_runs_find(f->runs, &f->content, units, 0, ids, &path);
    return pkvi_runs_row(f->runs, &path, 0, 1, units, ids);
}

/* The blocks of whatever is found are 1, 2 and so on. */
static uint64_t match(const fixture *f, uint64_t units)
{
    pkv_block ids[LONG] = {0};
    const uint64_t n = find(f, units, ids);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(ids[i], i + 1);
    }
    return n;
}

static void a_hit_ends_before_the_first_token_that_differs(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, LONG);
    assert_int_equal(match(&f, LONG), LONG);
    for (size_t i = 0; i < COUNT(f.tokens); i++) {
        f.tokens[i] ^= 1 << i % 31;
        assert_int_equal(match(&f, LONG), i / UNIT);
        f.tokens[i] ^= 1 << i % 31;
    }
    pkvi_runs_destroy(f.runs);
}

static void tags_are_compared_in_all_their_bytes(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 0);
    f.content.n_tags = 1;
    for (f.tag.unit = 0; f.tag.unit < 2; f.tag.unit++) {
        name(&f, 1, 4);
        assert_int_equal(match(&f, 4), 4);
        for (size_t i = 0; i < sizeof f.tag.key.bytes; i++) {
            f.tag.key.bytes[i] ^= 0x80;
            assert_int_equal(match(&f, 4), f.tag.unit);
            f.tag.key.bytes[i] ^= 0x80;
        }
    }
    pkvi_runs_destroy(f.runs);
}

/* The hash of a content is read off when it has a place, and given to another that is there. */
static void units_of_one_hash_are_told_apart(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 0);
    lead(&f, 1);
    const uint64_t hash = f.runs->at[f.cursor.run].hash;
    (void)pkvi_runs_leave(f.runs, &f.cursor, NULL, 0);
    f.tokens[0] = 1000;
    lead(&f, 1);
    const pkvi_cursor other = f.cursor;
    pkvi_run *run = &f.runs->at[other.run];
    *pkvi_run_bucket(f.runs, run->hash) = 0;
    run->hash = hash;
    *pkvi_run_bucket(f.runs, hash) = other.run;
    assert_int_equal(
        pkvi_runs_name(f.runs, &other,
                       &(const pkvi_table_part){(const pkv_block[]){1}, 0, 1, NULL, 0, 1}),
        1);
    f.tokens[0] = 0;
    assert_int_equal(match(&f, 1), 0);
    pkvi_runs_destroy(f.runs);
}

/* Those that are left are found in the order in which they came. */
static void the_oldest_of_equal_blocks_is_found(void **state)
{
    (void)state;
    fixture f;
    pkv_block found;
    prepare(&f, 0);
    for (pkv_block b = 1; b <= 4; b++) {
        name(&f, b, 1);
    }
    for (pkv_block b = 1; b <= 4; b++) {
        assert_int_equal(find(&f, 1, &found), 1);
        assert_int_equal(found, b);
        pkvi_runs_forget(f.runs, b);
    }
    assert_int_equal(find(&f, 1, &found), 0);
    pkvi_runs_destroy(f.runs);
}

/* More than the table of runs and its buckets have room for at first. */
static void many_branches_are_all_found_and_let_go(void **state)
{
    (void)state;
    fixture f;
    pkv_block found;
    prepare(&f, 0);
    for (pkv_block b = 1; b < N_BLOCKS; b++) {
        f.tokens[0] = (int32_t)b;
        name(&f, b, 1);
    }
    for (pkv_block b = 1; b < N_BLOCKS; b++) {
        f.tokens[0] = (int32_t)b;
        assert_int_equal(find(&f, 1, &found), 1);
        assert_int_equal(found, b);
    }
    for (pkv_block b = 1; b < N_BLOCKS; b++) {
        pkvi_runs_forget(f.runs, b);
    }
    assert_int_equal(f.runs->n_used, 0);
    pkvi_runs_destroy(f.runs);
}

/* A cursor goes through three runs, two of them of others that are gone when it goes. */
static void what_a_cursor_has_passed_is_held_by_nobody(void **state)
{
    (void)state;
    fixture f;
    pkv_block found[1];
    prepare(&f, 8);
    f.tokens[4 * UNIT] = 1000;
    name(&f, 11, 6);
    lead(&f, 5);
    f.tokens[5 * UNIT] = 2000;
    lead(&f, 7);
    assert_int_equal(f.runs->n_used, 3);
    (void)pkvi_runs_leave(f.runs, &f.cursor, NULL, 0);
    assert_int_equal(f.runs->n_used, 2);
    for (pkv_block b = 1; b <= 8; b++) {
        pkvi_runs_forget(f.runs, b);
    }
    for (pkv_block b = 11; b <= 16; b++) {
        pkvi_runs_forget(f.runs, b);
    }
    assert_int_equal(find(&f, 1, found), 0);
    assert_int_equal(f.runs->n_used, 0);
    pkvi_runs_destroy(f.runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_ends_before_the_first_token_that_differs),
        cmocka_unit_test(tags_are_compared_in_all_their_bytes),
        cmocka_unit_test(units_of_one_hash_are_told_apart),
        cmocka_unit_test(the_oldest_of_equal_blocks_is_found),
        cmocka_unit_test(many_branches_are_all_found_and_let_go),
        cmocka_unit_test(what_a_cursor_has_passed_is_held_by_nobody),
    };
    return cmocka_run_group_tests_name("runs alike", tests, NULL, NULL);
}
