/* test_pool_index.c  Many keys, keys that meet, keys that hardly differ, and any group number. */
#include "pool_fixture.h"

#include "pool/pool_internal.h"

static void keys_are_compared_in_all_their_bytes(void **state)
{
    (void)state;
    fixture f;
    pkv_key keys[2], other;
    pkv_block id;
    const uint32_t group = 0;
    prepare(&f, 6, 4);
    f.params.sink.event = NULL;
    open_pool(&f);
    take(&f, IDS(1, 2));
    memset(keys, 0x5a, sizeof keys);
    keys[1].bytes[31] = 0x5b;
    const pkv_chain chain = {.keys = keys, .n_keys = 2};
    done(&f, try_full(&f, &chain, (pkv_block[]){1, 2}, 0, 2, 4, 0, NULL));
    for (pkv_block b = 1; b <= 2; b++) {
        assert_ok(pkv_pool_lookup(f.pool, &keys[b - 1], &group, 1, &id));
        assert_int_equal(id, b);
    }
    for (size_t i = 0; i < sizeof other.bytes; i++) {
        other = keys[0];
        other.bytes[i] ^= 0x80;
        assert_status(pkv_pool_lookup(f.pool, &other, &group, 1, &id), PKV_E_NOT_FOUND);
    }
    close_pool(&f);
}

/* Ten keys at most are an index of sixteen slots: nine keys stand in a few long rows, of which one
 * may reach over the end. Each is dropped from among all others. */
static void keys_that_meet_in_the_index_are_told_apart(void **state)
{
    (void)state;
    fixture f;
    const pkv_block table[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    prepare(&f, 10, 4);
    f.params.units_per_block = 1;
    open_pool(&f);
    take(&f, table, 9);
    for (const char *letter = letters; *letter; letter++) {
        for (unsigned gone = 0; gone < 9; gone++) {
            char name[8];
            const pkv_chain chain = chain_of(*letter, 9);
            done(&f, try_full(&f, &chain, table, 0, 9, 4, gone % 3, NULL));
            evict(&f, table[gone]);
            for (unsigned i = 0; i < 9; i++) {
                (void)snprintf(name, sizeof name, "%c%u", *letter, i);
                assert_int_equal(found(&f, name, gone % 3), i == gone ? 0 : table[i]);
            }
            for (unsigned i = 0; i < 9; i++) {
                evict(&f, table[i]);
            }
            f.events[0] = '\0';
        }
    }
    close_pool(&f);
}

/* ---- many ---- */

/* So many that the hashes of some share the half that a slot keeps. */
enum { MANY = 400000 };

/* Whether block b's key is there is whether it finds b. */
static void assert_every_third_is_gone(const fixture *f, const pkv_key *keys, pkv_block gone)
{
    for (pkv_block b = 1; b <= MANY; b++) {
        pkv_block id = 0;
        const uint32_t group = 0;
        const bool hit = pkv_pool_lookup(f->pool, &keys[b - 1], &group, 1, &id) == PKV_OK;
        if (hit != (b % 3 >= gone) || (hit && id != b)) {
            fail_msg("the key of block %" PRIu32 " finds %" PRIu32, b, id);
        }
    }
}

static void many_keys_are_all_found(void **state)
{
    (void)state;
    fixture f;
    static pkv_key keys[MANY];
    static pkv_block ids[MANY];
    prepare(&f, MANY + 1, 1);
    f.params.units_per_block = 1;
    f.params.sink.event = NULL;
    open_pool(&f);
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t mixed;
        (void)__builtin_mul_overflow(i + UINT64_C(1), UINT64_C(0x9e3779b97f4a7c15), &mixed);
        (void)__builtin_mul_overflow(mixed ^ mixed >> 31, UINT64_C(0xbf58476d1ce4e5b9), &mixed);
        memcpy(keys[i].bytes, &mixed, sizeof mixed);
    }
    const pkv_chain chain = {.keys = keys, .n_keys = MANY};
    done(&f, pkv_pool_take(f.pool, MANY, ids));
    done(&f, try_full(&f, &chain, ids, 0, MANY, 1, 0, NULL));
    assert_int_equal(pkv_pool_key_count(f.pool), MANY);
    for (pkv_block gone = 0; gone < 3; gone++) { /* b % 3 < gone are without a key */
        assert_every_third_is_gone(&f, keys, gone);
        for (pkv_block b = gone == 0 ? 3 : gone; b <= MANY; b += 3) {
            assert_ok(pkv_pool_evict(f.pool, b));
        }
        assert_ok(pkv_pool_check(f.pool));
    }
    assert_int_equal(pkv_pool_key_count(f.pool), 0);
    close_pool(&f);
}

/* Rows around the distances at which what comes next is asked for: all of it, and up to a gap. */
static void a_row_of_any_length_is_found_to_its_end(void **state)
{
    (void)state;
    enum { LONGEST = 200 };
    fixture f;
    pkv_key keys[LONGEST + 1];
    pkv_block ids[LONGEST], found_ids[LONGEST];
    prepare(&f, LONGEST + 1, 4);
    f.params.units_per_block = 1;
    f.params.sink.event = NULL;
    open_pool(&f);
    memset(keys, 0, sizeof keys);
    for (uint32_t i = 0; i <= LONGEST; i++) {
        memcpy(keys[i].bytes, &i, sizeof i);
    }
    const pkv_chain chain = {.keys = keys, .n_keys = LONGEST};
    done(&f, pkv_pool_take(f.pool, LONGEST, ids));
    done(&f, try_full(&f, &chain, ids, 0, LONGEST, 4, 0, NULL));
    for (uint64_t n = 0; n <= LONGEST; n++) {
        assert_int_equal(pkvi_index_find_run(f.pool, keys, 1, n, 0, found_ids), n);
        assert_memory_equal(found_ids, ids, n * sizeof *ids);
        assert_int_equal(pkvi_index_find_run(f.pool, keys + LONGEST - n, 1, n + 1, 0, found_ids),
                         n);
        assert_int_equal(pkvi_index_find_run(f.pool, keys, 1, n, 1, found_ids), 0);
    }
    assert_int_equal(pkvi_index_find_run(f.pool, keys, 3, LONGEST / 3, 0, found_ids), LONGEST / 3);
    for (uint64_t i = 0; i < LONGEST / 3; i++) {
        assert_int_equal(found_ids[i], ids[3 * i]);
    }
    close_pool(&f);
}

/* ---- groups ---- */

static void groups_of_any_number_are_kept_apart(void **state)
{
    (void)state;
    fixture f;
    const uint32_t groups[] = {0, 1, 1 << 8, 1 << 24, 1 << 25, 1 << 29, 1u << 31, UINT32_MAX};
    const pkv_key key = key_of('A', 0);
    const pkv_chain chain = chain_of('A', 1);
    prepare(&f, 9, 4);
    f.params.sink.event = NULL;
    open_pool(&f);
    take(&f, IDS(1, 2, 3, 4, 5, 6, 7, 8));
    for (pkv_block b = 1; b <= COUNT(groups); b++) {
        pkv_block id;
        assert_status(pkv_pool_lookup(f.pool, &key, &groups[b - 1], 1, &id), PKV_E_NOT_FOUND);
        done(&f, try_full(&f, &chain, &b, 0, 1, 4, groups[b - 1], NULL));
    }
    for (pkv_block b = 1; b <= COUNT(groups); b++) {
        pkv_block id;
        assert_ok(pkv_pool_lookup(f.pool, &key, &groups[b - 1], 1, &id));
        assert_int_equal(id, b);
    }
    close_pool(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_compared_in_all_their_bytes),
        cmocka_unit_test(keys_that_meet_in_the_index_are_told_apart),
        cmocka_unit_test(many_keys_are_all_found),
        cmocka_unit_test(a_row_of_any_length_is_found_to_its_end),
        cmocka_unit_test(groups_of_any_number_are_kept_apart),
    };
    return cmocka_run_group_tests_name("pool index", tests, NULL, NULL);
}
