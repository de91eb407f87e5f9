/* test_pool_ring.c  The list of blocks that nobody holds keeps its order and finds room, however
 * blocks leave it. Beside it stands an array that is moved by hand. PKV_SEED: where to begin. */
#include "fixture.h"

#include "pool/list.h"

enum { MOST = 300 };

typedef struct fixture {
    pkvi_list list;
    pkvi_block *blocks;
    pkv_block *ids;
    uint32_t n_blocks;
    pkv_block model[MOST]; /* the list, first block first */
    uint32_t n;
    uint64_t most_span, sweeps;
} fixture;

static void open_list(fixture *f, uint32_t n_blocks)
{
    *f = (fixture){.n_blocks = n_blocks};
    f->blocks = calloc(n_blocks, sizeof *f->blocks);
    f->ids = calloc((size_t)pkvi_list_room(n_blocks) + PKVI_LIST_PADDING, sizeof *f->ids);
    assert_true(f->blocks && f->ids && n_blocks <= MOST);
    pkvi_list_init(&f->list, f->blocks, f->ids, n_blocks);
    for (uint32_t b = 0; b < n_blocks; b++) {
        f->blocks[b].place = PKVI_NO_PLACE;
    }
}

static void close_list(fixture *f)
{
    free(f->blocks);
    free(f->ids);
}

static void note(fixture *f, bool swept_before)
{
    f->most_span = f->list.span > f->most_span ? f->list.span : f->most_span;
    f->sweeps += !swept_before && f->list.sweeping;
    assert_true(f->list.span <= f->list.room);
    assert_int_equal(f->list.n, f->n);
    assert_true(f->n > 0 ? f->list.ids[f->list.first] == f->model[0] : f->list.span == 0);
    assert_true(!f->list.sweeping || f->list.span > f->list.swept + f->list.hole);
}

static void put_first(fixture *f, pkv_block b)
{
    const bool sweeping = f->list.sweeping;
    memmove(f->model + 1, f->model, f->n++ * sizeof *f->model);
    f->model[0] = b;
    pkvi_list_put_first(&f->list, b);
    note(f, sweeping);
}

static void put_last(fixture *f, pkv_block b)
{
    const bool sweeping = f->list.sweeping;
    f->model[f->n++] = b;
    pkvi_list_put_last(&f->list, b);
    note(f, sweeping);
}

static void remove_at(fixture *f, uint32_t i)
{
    const pkv_block b = f->model[i];
    memmove(f->model + i, f->model + i + 1, (--f->n - i) * sizeof *f->model);
    pkvi_list_remove(&f->list, b);
    assert_int_equal(f->blocks[b].place, PKVI_NO_PLACE);
    note(f, true);
}

static void take(fixture *f, uint32_t n)
{
    pkv_block ids[MOST];
    assert_int_equal(pkvi_list_take(&f->list, n, ids), 0);
    assert_memory_equal(ids, f->model, n * sizeof *ids);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(f->blocks[ids[i]].refs, 1);
        assert_int_equal(f->blocks[ids[i]].place, PKVI_NO_PLACE);
    }
    memmove(f->model, f->model + n, (f->n -= n) * sizeof *f->model);
    note(f, true);
}

/* Every block of the model is where it says, and they are in order. */
static void assert_order(const fixture *f)
{
    uint64_t before = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const uint64_t place = f->blocks[f->model[i]].place;
        assert_true(place < f->list.room);
        assert_int_equal(f->ids[place], f->model[i]);
        const uint64_t behind_first =
            (place + f->list.room - f->list.first) % f->list.room + 1; /* 1: the first place */
        assert_true(behind_first > before && behind_first <= f->list.span);
        before = behind_first;
    }
}

static pkv_block any_outside(const fixture *f, uint32_t from)
{
    for (uint32_t i = 0; i < f->n_blocks; i++) {
        const pkv_block b = (from + i) % f->n_blocks;
        if (b != 0 && f->blocks[b].place == PKVI_NO_PLACE) {
            return b;
        }
    }
    return 0;
}

static uint32_t next_random(uint64_t *state)
{
    (void)__builtin_mul_overflow(*state, UINT64_C(6364136223846793005), state);
    (void)__builtin_add_overflow(*state, UINT64_C(1442695040888963407), state);
    return (uint32_t)(*state >> 33);
}

/* One operation; `shares`: of 16, how many take a block out from within. */
static void any_operation(fixture *f, uint64_t *state, uint32_t shares)
{
    const uint32_t what = next_random(state) % 16, at = next_random(state);
    const pkv_block b = any_outside(f, at % f->n_blocks);
    if (what < shares && f->n > 0) {
        remove_at(f, at % f->n);
    } else if (what == 15 && f->n > 0) {
        take(f, at % 5 % f->n + 1);
    } else if (b != 0 && what % 4 == 0) {
        put_first(f, b);
    } else if (b != 0) {
        put_last(f, b);
    }
}

static void a_list_keeps_its_order_however_blocks_leave_it(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 7, 40, MOST};
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    uint64_t random = seed, sweeps = 0;
    print_message("PKV_SEED=%" PRIu64 "\n", seed);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (uint32_t shares = 0; shares <= 12; shares += 3) {
            fixture f;
            open_list(&f, sizes[i]);
            for (uint32_t op = 0; op < 20000; op++) {
                any_operation(&f, &random, shares);
                if (op % 64 == 0) {
                    assert_order(&f);
                }
            }
            sweeps += f.sweeps;
            close_list(&f);
        }
    }
    assert_true(sweeps > 100);
}

/* The worst: a full list, whose blocks are taken out and put back, at one end or at both, so that
 * each leaves a gap and needs a new place. */
static void a_full_list_never_needs_more_room_than_there_is(void **state)
{
    (void)state;
    for (uint32_t ends = 0; ends < 3; ends++) {
        fixture f;
        open_list(&f, MOST);
        for (pkv_block b = 1; b < MOST; b++) {
            put_last(&f, b);
        }
        for (uint32_t i = 0; i < 50000; i++) {
            const uint32_t at = i * 7 % f.n;
            const pkv_block b = f.model[at];
            remove_at(&f, at);
            if (ends == 0 || (ends == 2 && i % 2 == 0)) {
                put_last(&f, b);
            } else {
                put_first(&f, b);
            }
        }
        assert_order(&f);
        assert_true(f.sweeps > 50);
        assert_true(f.most_span <= MOST + MOST / 5 * 3 + 11); /* 8/5 n + 11: list.h */
        close_list(&f);
    }
}

static void taking_what_lies_before_a_hole_goes_on_behind_it(void **state)
{
    (void)state;
    fixture f;
    open_list(&f, MOST);
    for (pkv_block b = 1; b < MOST; b++) {
        put_last(&f, b);
    }
    while (f.list.hole < 4) { /* a sweep that has passed gaps */
        const pkv_block b = f.model[f.n - 20];
        remove_at(&f, f.n - 20);
        put_last(&f, b);
    }
    take(&f, f.n - (uint32_t)f.list.swept + 1);
    assert_int_equal(f.list.hole, 0);
    assert_order(&f);
    take(&f, f.n);
    assert_int_equal(f.list.span, 0);
    put_first(&f, 5);
    take(&f, 1);
    close_list(&f);
}

/* Gaps behind the first block, made from the last of them on: it steps over all. */
static void gaps_in_front_are_stepped_over_when_the_first_block_leaves(void **state)
{
    (void)state;
    fixture f;
    open_list(&f, 101);
    for (pkv_block b = 1; b <= 100; b++) {
        put_last(&f, b);
    }
    for (uint32_t i = 50; i > 0; i--) {
        remove_at(&f, i);
        assert_int_equal(f.list.span, 100);
    }
    remove_at(&f, 0);
    assert_int_equal(f.list.span, 49);
    assert_order(&f);
    while (f.n > 0) {
        remove_at(&f, f.n - 1);
    }
    assert_int_equal(f.list.span, 0);
    close_list(&f);
}

/* Gaps are near the front: a sweep has found none yet when all that it has not passed is taken. */
static void a_sweep_without_a_hole_ends_when_all_before_it_is_taken(void **state)
{
    (void)state;
    fixture f;
    open_list(&f, 101);
    for (pkv_block b = 1; b <= 100; b++) {
        put_last(&f, b);
    }
    while (!f.list.sweeping) {
        const pkv_block b = f.model[1];
        remove_at(&f, 1);
        put_last(&f, b);
    }
    assert_int_equal(f.list.hole, 0);
    take(&f, f.n - (uint32_t)f.list.swept);
    assert_false(f.list.sweeping);
    assert_order(&f);
    close_list(&f);
}

/* A sweep that begins with gaps at the end: the hole is there, and nothing is swept yet. */
static void a_list_that_ends_with_a_hole_ends_before_it(void **state)
{
    (void)state;
    fixture f;
    open_list(&f, 101);
    for (pkv_block b = 1; b <= 100; b++) {
        put_last(&f, b);
    }
    for (uint32_t i = 0; i < 60; i++) {
        remove_at(&f, f.n - 1);
    }
    for (pkv_block b = 100; f.list.hole == 0; b--) {
        put_first(&f, b);
    }
    assert_int_equal(f.list.swept, 0);
    assert_order(&f);
    close_list(&f);
}

/* When what lies before the hole has left, the sweep is at its end. */
static void a_hole_in_front_is_stepped_over(void **state)
{
    (void)state;
    fixture f;
    open_list(&f, 61);
    for (pkv_block b = 1; b <= 60; b++) {
        put_last(&f, b);
    }
    while (f.list.hole < 3 ||
           f.list.swept < 5) { /* gaps near the end until a sweep has found some */
        const pkv_block b = f.model[f.n - 20];
        remove_at(&f, f.n - 20);
        put_last(&f, b);
    }
    assert_true(f.list.sweeping);
    const uint64_t swept = f.list.swept;
    while (f.n > swept) {
        remove_at(&f, 0);
    }
    assert_false(f.list.sweeping);
    assert_int_equal(f.list.hole, 0);
    assert_order(&f);
    take(&f, 1);
    assert_order(&f);
    close_list(&f);
}

static void the_blocks_taken_that_have_a_key_are_counted(void **state)
{
    (void)state;
    fixture f;
    pkv_block ids[4];
    open_list(&f, 5);
    for (pkv_block b = 1; b < 5; b++) {
        put_last(&f, b);
        f.blocks[b].units = b % 3 == 0 ? 0 : b;
    }
    assert_int_equal(pkvi_list_take(&f.list, 4, ids), 3); /* all but block 3 */
    close_list(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_keeps_its_order_however_blocks_leave_it),
        cmocka_unit_test(a_full_list_never_needs_more_room_than_there_is),
        cmocka_unit_test(taking_what_lies_before_a_hole_goes_on_behind_it),
        cmocka_unit_test(gaps_in_front_are_stepped_over_when_the_first_block_leaves),
        cmocka_unit_test(a_hole_in_front_is_stepped_over),
        cmocka_unit_test(a_sweep_without_a_hole_ends_when_all_before_it_is_taken),
        cmocka_unit_test(a_list_that_ends_with_a_hole_ends_before_it),
        cmocka_unit_test(the_blocks_taken_that_have_a_key_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
