/* test_pool_check.c  pkv_pool_check() finds what is broken, and names it. */
#include "pool_fixture.h"

#include "pool/pool_internal.h"

/* Blocks 1 and 2 are held and keyed, 1 with a secondary key; 3 is held; 4 is idle and keyed as a
 * copy of 2; 5 and 6 are free. */
static void open_used(fixture *f)
{
    const pkv_chain chain = chain_of('A', 4);
    open_plain(f, 7, 4);
    take(f, IDS(1, 2, 3, 4));
    done(f, try_full(f, &chain, (pkv_block[]){1, 2}, 0, 2, 8, 0, NULL));
    done(f, try_full(f, &chain, (pkv_block[]){0, 4}, 0, 2, 8, 0, NULL));
    key_partial(f, 'A', 1, 4);
    release(f, IDS(4));
    assert_free(f, "5 6 4");
}

/* While the field has that value the pool is corrupt, and the text says so. */
#define assert_broken(f, field, value, part)                     \
    do {                                                         \
        const uint64_t kept_ = (uint64_t)(field);                \
        (field) = (value);                                       \
        assert_status(pkv_pool_check((f)->pool), PKV_E_CORRUPT); \
        assert_error_text("pkv_pool_check", part);               \
        (field) = (__typeof__(field))kept_;                      \
        assert_ok(pkv_pool_check((f)->pool));                    \
    } while (0)

static void a_held_block_in_the_list_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->blocks[5].refs, 1, "held");
    assert_broken(&f, f.pool->blocks[4].refs, 2, "held");
    close_pool(&f);
}

static void a_block_that_nobody_holds_outside_the_list_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->blocks[1].refs, 0, "missing");
    assert_broken(&f, f.pool->list.n, 4, "missing");
    close_pool(&f);
}

static void a_held_null_block_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->blocks[0].refs, 1, "null block");
    close_pool(&f);
}

static void a_block_that_is_not_where_it_says_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    const uint64_t first = f.pool->list.first;
    assert_broken(&f, f.pool->blocks[5].place, f.pool->blocks[6].place, "know its place");
    assert_broken(&f, f.pool->blocks[5].place, PKVI_NO_PLACE, "know its place");
    assert_broken(&f, f.pool->list.ids[first], 0, "missing");
    assert_broken(&f, f.pool->list.ids[first], f.pool->list.ids[first + 1], "know its place");
    assert_broken(&f, f.pool->list.ids[first], 1, "know its place"); /* which is held */
    close_pool(&f);
}

static void a_list_of_another_length_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->list.span, f.pool->list.span - 1, "missing");
    assert_broken(&f, f.pool->list.span, f.pool->list.room + 1, "longer than its room");
    assert_broken(&f, f.pool->list.hole, f.pool->list.span + 1, "longer than its room");
    assert_broken(&f, f.pool->list.n, f.pool->list.n + 1, "missing");
    close_pool(&f);
}

static void a_list_that_begins_with_a_gap_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    pkvi_list *list = &f.pool->list; /* four places were handed out before the first */
    list->ids[list->first - 1] = 0;
    list->span++;
    assert_broken(&f, list->first, list->first - 1, "begins with a gap");
    close_pool(&f);
}

static void a_sweep_that_goes_on_where_there_is_none_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->list.swept, 1, "longer than its room");
    assert_broken(&f, f.pool->list.first, f.pool->list.room, "longer than its room");
    f.pool->list.sweeping = true;
    assert_broken(&f, f.pool->list.hole, 1, "in the hole");
    close_pool(&f);
}

static void keys_of_a_block_without_a_first_key_are_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->blocks[1].units, 0, "");
    assert_broken(&f, f.pool->blocks[2].units, 0, "");
    close_pool(&f);
}

static void a_keyed_null_block_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->blocks[0].units, 8, "null block");
    close_pool(&f);
}

static void a_key_that_the_index_lacks_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    for (uint64_t s = 0; s < f.pool->n_slots; s++) {
        if (f.pool->slots[s] != 0) {
            assert_broken(&f, f.pool->slots[s], 0, "");
        }
    }
    assert_broken(&f, f.pool->blocks[3].units, 4, "");
    assert_broken(&f, f.pool->blocks[1].name.group, 1, "");
    assert_broken(&f, f.pool->blocks[2].name.block, 3, "");
    assert_broken(&f, pkvi_name_of(f.pool, f.pool->blocks[1].secondary)->block, 2, "");
    close_pool(&f);
}

static void a_key_in_the_index_that_no_block_has_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->blocks[1].secondary, PKVI_NO_ENTRY, "");
    close_pool(&f);
}

static void a_wrong_number_of_keys_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_int_equal(f.pool->n_keys, 3);
    assert_broken(&f, f.pool->n_keys, 4, "");
    assert_broken(&f, f.pool->n_keys, 2, "");
    close_pool(&f);
}

static void a_pool_without_caching_has_a_list_all_the_same(void **state)
{
    (void)state;
    fixture f;
    prepare(&f, 5, 4);
    f.params.caching = 0;
    open_pool(&f);
    take(&f, IDS(1));
    assert_broken(&f, f.pool->blocks[1].refs, 0, "missing");
    assert_broken(&f, f.pool->blocks[2].refs, 1, "held");
    close_pool(&f);
}

static void a_broken_ring_of_copies_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->blocks[2].name.next, 2, ""); /* 4 is left out */
    assert_broken(&f, f.pool->blocks[2].name.prev, 2, "");
    assert_broken(&f, f.pool->blocks[4].name.next, 1, ""); /* of another key */
    close_pool(&f);
}

/* Numbers that name nothing are found before they are followed. */
static void a_number_out_of_the_pool_is_found(void **state)
{
    (void)state;
    fixture f;
    open_used(&f);
    assert_broken(&f, f.pool->list.ids[f.pool->list.first], UINT32_MAX, "");
    assert_broken(&f, f.pool->blocks[2].name.next, PKVI_NO_ENTRY - 1, "");
    assert_broken(&f, f.pool->blocks[2].name.block, UINT32_MAX, "");
    assert_broken(&f, f.pool->blocks[1].secondary, PKVI_NO_ENTRY - 1, "");
    close_pool(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_block_in_the_list_is_found),
        cmocka_unit_test(a_block_that_nobody_holds_outside_the_list_is_found),
        cmocka_unit_test(a_held_null_block_is_found),
        cmocka_unit_test(a_block_that_is_not_where_it_says_is_found),
        cmocka_unit_test(a_list_of_another_length_is_found),
        cmocka_unit_test(a_list_that_begins_with_a_gap_is_found),
        cmocka_unit_test(a_sweep_that_goes_on_where_there_is_none_is_found),
        cmocka_unit_test(keys_of_a_block_without_a_first_key_are_found),
        cmocka_unit_test(a_keyed_null_block_is_found),
        cmocka_unit_test(a_key_that_the_index_lacks_is_found),
        cmocka_unit_test(a_key_in_the_index_that_no_block_has_is_found),
        cmocka_unit_test(a_wrong_number_of_keys_is_found),
        cmocka_unit_test(a_pool_without_caching_has_a_list_all_the_same),
        cmocka_unit_test(a_broken_ring_of_copies_is_found),
        cmocka_unit_test(a_number_out_of_the_pool_is_found),
    };
    return cmocka_run_group_tests_name("pool check", tests, NULL, NULL);
}
