/* test_pool_runs_random.c  Random work on a tree of runs and on a list of what each block is named
 * for; they must agree. PKV_SEED: where to begin; PKV_RANDOM_OPS: how many operations. */
#include "replay.h"
#include "runs_fixture.h"

enum { LEN = 12, SOME_BLOCKS = 40, CURSORS = 6, GROUPS = 3 };

/* A content, and how much of it a cursor has. The name of its first n units is the first 2n
 * characters: a letter and a tag, or a blank, each. */
typedef struct holder {
    char text[2 * LEN + 1];
    pkvi_cursor cursor;
    bool open;
    int32_t *lent; /* [capacity] its tokens, or NULL: it lends none */
    size_t capacity;
} holder;

typedef struct model {
    tree t;
    holder holders[CURSORS];
    uint32_t n_groups;
    char names[SOME_BLOCKS][2 * LEN + 1]; /* "": none */
    uint32_t groups[SOME_BLOCKS];         /* of the names */
    uint64_t order[SOME_BLOCKS], n_named; /* named earlier, found first */
    uint64_t matched, failures, kept;
} model;

static uint64_t random_state;

/* Two draws of a multiplicative generator (modulus 2^31 - 1): nothing wraps, so that sanitizers of
 * integers have nothing to say. */
static uint64_t random_below(uint64_t n)
{
    uint64_t value = 0;
    for (int i = 0; i < 2; i++) {
        random_state = random_state * 48271 % 2147483647;
        value = value * 2147483647 + random_state;
    }
    return value % n;
}

/* ---- contents ---- */

static void content_of(const char *text, text_content *out)
{
    char packed[2 * LEN + 1];
    size_t n = 0;
    for (const char *at = text; *at; at++) {
        if (*at != ' ') {
            packed[n++] = *at;
        }
    }
    packed[n] = '\0';
    read_content(packed, out);
    assert_int_equal(out->units, LEN);
}

/* Often the beginning of another one, or of a block's. */
static void random_text(const model *m, char *out)
{
    const char *like = random_below(2) ? m->names[random_below(SOME_BLOCKS)]
                                       : m->holders[random_below(CURSORS)].text;
    const uint64_t same = random_below(strlen(like) / 2 + 1);
    memcpy(out, like, (size_t)same * 2);
    for (uint64_t i = same; i < LEN; i++) {
        out[2 * i] = (char)('a' + random_below(2));
        out[2 * i + 1] = (char)(random_below(8) ? ' ' : '1' + random_below(2));
    }
    out[2 * LEN] = '\0';
}

/* ---- the model ---- */

static bool has_name(const model *m, pkv_block block, uint32_t group, const char *text,
                     uint64_t units)
{
    return m->groups[block] == group && strlen(m->names[block]) == 2 * units &&
           memcmp(m->names[block], text, (size_t)units * 2) == 0;
}

/* The block that was first named for so many units, or 0. */
static pkv_block first_named(const model *m, uint32_t group, const char *text, uint64_t units)
{
    pkv_block first = 0;
    for (pkv_block b = 1; b < SOME_BLOCKS; b++) {
        if (has_name(m, b, group, text, units) && (first == 0 || m->order[b] < m->order[first])) {
            first = b;
        }
    }
    return first;
}

static void expect_match(model *m, const char *text)
{
    text_content c;
    pkv_block ids[LEN];
    content_of(text, &c);
    const uint64_t most = random_below(4) ? LEN : random_below(LEN + 1);
    const uint32_t group = (uint32_t)random_below(m->n_groups);
    const uint64_t n = match_in(&m->t, group, &c.content, most, ids);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(ids[i], first_named(m, group, text, i + 1));
    }
    assert_true(n == most || first_named(m, group, text, n + 1) == 0);
    m->matched += n;
}

/* Units back and forth, for some groups together: found if all have a block. */
static void expect_units(model *m, const char *text)
{
    const uint32_t first = (uint32_t)random_below(m->n_groups),
                   groups[] = {first, (first + 1) % m->n_groups};
    const uint32_t n_groups = 1 + (uint32_t)random_below(2);
    pkv_block ids[2][LEN], *tables[] = {ids[0], ids[1]};
    pkvi_stretch stretch = {0, 0, 0};
    pkvi_cursor path;
    text_content c;
    content_of(text, &c);
    pkvi_runs_find(m->t.runs, &c.content, LEN, first, NULL, &path);
    for (int i = 0; i < LEN; i++) {
        const uint64_t unit = random_below(LEN);
        bool all = true;
        for (uint32_t g = 0; g < n_groups; g++) {
            all = all && first_named(m, groups[g], text, unit + 1) != 0;
        }
        assert_true(pkvi_runs_find_unit(m->t.runs, &path, unit, groups, n_groups, &stretch, tables,
                                        unit) == all);
        for (uint32_t g = 0; all && g < n_groups; g++) {
            assert_int_equal(tables[g][unit], first_named(m, groups[g], text, unit + 1));
        }
        m->matched += all;
    }
}

/* ---- operations ---- */

static void do_match(model *m)
{
    char text[2 * LEN + 1];
    random_text(m, text);
    expect_match(m, text);
    expect_units(m, text);
}

/* Tokens in a piece of their own: as long as they are, or with some room, or with too much. */
static void lend(model *m, holder *h)
{
    text_content c;
    content_of(h->text, &c);
    const size_t n = LEN * UNIT;
    h->capacity = n + (size_t)random_below(3) * n / 4;
    h->lent = counted_alloc(&m->t.memory, h->capacity * sizeof *h->lent, 16);
    memcpy(h->lent, c.tokens, n * sizeof *h->lent);
}

/* Moves them. */
static void do_move(model *m)
{
    holder *h = &m->holders[random_below(CURSORS)];
    if (h->open && h->lent) {
        int32_t *old = h->lent;
        const size_t bytes = h->capacity * sizeof *old;
        const uint32_t run = pkvi_runs_lent(m->t.runs, &h->cursor, old);
        lend(m, h);
        if (run != 0) {
            pkvi_runs_moved(m->t.runs, run, h->lent);
        }
        memset(old, 0xdd, bytes);
        counted_free(&m->t.memory, old, bytes, 16);
    }
}

static void leave_holder(model *m, holder *h)
{
    if (!h->open) {
        return;
    }
    m->t.memory.left = random_below(4) ? UINT64_MAX : 0;
    const bool kept = pkvi_runs_leave(m->t.runs, &h->cursor, h->lent, h->capacity);
    m->t.memory.left = UINT64_MAX;
    assert_true(!kept || h->lent);
    if (h->lent && !kept) {
        memset(h->lent, 0xdd, h->capacity * sizeof *h->lent);
        counted_free(&m->t.memory, h->lent, h->capacity * sizeof *h->lent, 16);
    }
    m->kept += kept;
    h->lent = NULL;
    h->open = false;
}

static void do_lead(model *m)
{
    holder *h = &m->holders[random_below(CURSORS)];
    text_content c;
    if (!h->open) {
        char text[2 * LEN + 1];
        random_text(m, text);
        memcpy(h->text, text, sizeof text);
        h->cursor = (pkvi_cursor){0, 0, 0};
        h->open = true;
        if (random_below(2)) {
            lend(m, h);
        }
    }
    content_of(h->text, &c);
    if (h->lent) {
        c.content.tokens = h->lent;
        c.content.lends = true;
    }
    const uint64_t before = h->cursor.units, to = random_below(LEN + 1);
    m->t.memory.left = random_below(8) ? UINT64_MAX : random_below(3);
    const bool ok = pkvi_runs_lead(m->t.runs, &h->cursor, &c.content, to);
    m->t.memory.left = UINT64_MAX;
    m->failures += !ok;
    assert_true(h->cursor.units >= before && ok == (h->cursor.units >= to));
    assert_true(!ok || h->cursor.units == (to > before ? to : before));
}

static void do_name(model *m)
{
    const holder *h = &m->holders[random_below(CURSORS)];
    const uint32_t group = (uint32_t)random_below(m->n_groups);
    pkv_block table[LEN] = {0};
    uint8_t mask[LEN];
    bool used[SOME_BLOCKS] = {false};
    uint64_t named = 0;
    if (!h->open || h->cursor.units == 0) {
        return;
    }
    const uint64_t to = 1 + random_below(h->cursor.units), from = random_below(to);
    const bool masked = random_below(2) != 0;
    for (uint64_t i = from; i < to; i++) {
        const pkv_block b = (pkv_block)random_below(SOME_BLOCKS);
        table[i] = used[b] ? 0 : b;
        used[b] = true;
        mask[i - from] = random_below(3) != 0;
    }
    for (uint64_t i = to; i > from; i--) {
        const pkv_block b = table[i - 1];
        const bool has = b != 0 && has_name(m, b, group, h->text, i);
        assert_true(b == 0 || pkvi_runs_is_named(m->t.runs, &h->cursor, i - 1, group, b) == has);
        if (b != 0 && !has && (!masked || mask[i - 1 - from])) {
            memcpy(m->names[b], h->text, (size_t)i * 2);
            m->names[b][2 * i] = '\0';
            m->groups[b] = group;
            m->order[b] = ++m->n_named; /* of one place only the order of calls counts */
            m->t.named[b] = true;
            named++;
        }
    }
    const pkvi_table_part part = {table, from, to, masked ? mask : NULL, group, 1};
    assert_int_equal(pkvi_runs_name(m->t.runs, &h->cursor, &part), named);
}

static void do_forget(model *m)
{
    const pkv_block b = (pkv_block)random_below(SOME_BLOCKS);
    if (m->t.named[b]) {
        m->t.memory.left = random_below(2) ? UINT64_MAX : 0;
        pkvi_runs_prefetch(m->t.runs, b);
        pkvi_runs_forget(m->t.runs, b);
        m->t.memory.left = UINT64_MAX;
        m->t.named[b] = false;
        m->names[b][0] = '\0';
    }
}

static void do_leave(model *m)
{
    leave_holder(m, &m->holders[random_below(CURSORS)]);
}

static void do_join(model *m)
{
    const holder *h = &m->holders[random_below(CURSORS)];
    holder *other = &m->holders[random_below(CURSORS)];
    if (h->open && !other->open) {
        memcpy(other->text, h->text, sizeof h->text);
        pkvi_runs_join(m->t.runs, &h->cursor, &other->cursor);
        other->open = true;
    }
}

static void compare(model *m)
{
    assert_intact(&m->t);
    uint64_t units = 0;
    for (pkv_block b = 1; b < SOME_BLOCKS; b++) {
        const uint64_t n = strlen(m->names[b]) / 2;
        units += n > 0 && first_named(m, m->groups[b], m->names[b], n) == b;
    }
    assert_int_equal(pkvi_runs_n_named(m->t.runs), units);
}

static void run_random(uint32_t n_groups)
{
    static model m;
    static void (*const all[])(model *) = {do_match,  do_lead,  do_lead, do_name, do_name,
                                           do_forget, do_leave, do_join, do_move};
    const uint64_t seed = number_from("PKV_SEED", 1), ops = number_from("PKV_RANDOM_OPS", 100000);
    memset(&m, 0, sizeof m);
    m.n_groups = n_groups;
    begin_tree_of(&m.t, n_groups);
    random_state = seed % 2147483645 + 1;
    print_message("PKV_SEED=%" PRIu64 " PKV_RANDOM_OPS=%" PRIu64 "\n", seed, ops);
    for (uint64_t i = 0; i < ops; i++) {
        all[random_below(COUNT(all))](&m);
        compare(&m);
        if (i % 1000 == 999) { /* nothing stays */
            for (int h = 0; h < CURSORS; h++) {
                leave_holder(&m, &m.holders[h]);
            }
            forget_all(&m.t);
            memset(m.names, 0, sizeof m.names);
            assert_int_equal(m.t.memory.held, empty_bytes(&m.t));
        }
    }
    print_message("%" PRIu64 " units matched, %" PRIu64 " times no memory, %" PRIu64
                  " lent tokens kept\n",
                  m.matched, m.failures, m.kept);
    assert_true(ops < 1000 || (m.matched > 0 && m.failures > 0 && m.kept > 0));
    for (int h = 0; h < CURSORS; h++) {
        leave_holder(&m, &m.holders[h]);
    }
    end_tree(&m.t);
}

static void a_tree_agrees_with_a_list_of_names(void **state)
{
    (void)state;
    run_random(1);
}

static void a_tree_of_several_groups_agrees_with_a_list_of_names(void **state)
{
    (void)state;
    run_random(GROUPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_agrees_with_a_list_of_names),
        cmocka_unit_test(a_tree_of_several_groups_agrees_with_a_list_of_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
