/* test_key.c  Names, hashers, known keys, the forms that events use. */
#include "key_fixture.h"

#include <pkv/pkv.h>

static void every_function_has_a_name_and_a_size(void **state)
{
    (void)state;
    static const char *const names[] = {"sha256_cbor", "xxhash_cbor", "pkv_sha256", "pkv_xxh3"};
    for (uint32_t hash = 0; hash < PKV_N_HASHES; hash++) {
        uint32_t found = 99;
        assert_string_equal(pkv_hash_name(hash), names[hash]);
        assert_int_equal(pkv_hash_from_name(names[hash], &found), PKV_OK);
        assert_int_equal(found, hash);
        assert_int_equal(pkv_hash_key_bytes(hash), hash % 2 == 0 ? 32 : 16);
        pkv_hasher *hasher = make_hasher(hash, NULL, NULL, NULL);
        assert_int_equal(pkv_hasher_hash(hasher), hash);
        assert_int_equal(pkv_hasher_key_bytes(hasher), pkv_hash_key_bytes(hash));
        pkv_hasher_destroy(hasher);
    }
    assert_null(pkv_hash_name(PKV_N_HASHES));
    assert_int_equal(pkv_hash_key_bytes(PKV_N_HASHES), 0);
}

static void functions_over_a_pickle_are_refused_by_name(void **state)
{
    (void)state;
    uint32_t hash = 99;
    assert_fails(pkv_hash_from_name("sha256", &hash), PKV_E_UNSUPPORTED, "pkv_hash_from_name",
                 "Python pickle");
    assert_fails(pkv_hash_from_name("xxhash", &hash), PKV_E_UNSUPPORTED, "pkv_hash_from_name",
                 "xxhash_cbor");
    assert_fails(pkv_hash_from_name("SHA256_CBOR", &hash), PKV_E_INVAL, "pkv_hash_from_name",
                 "\"SHA256_CBOR\"");
    assert_fails(pkv_hash_from_name("md5\n\x1b[31m", &hash), PKV_E_INVAL, "pkv_hash_from_name",
                 "\"md5??[31m\"");
    assert_fails(pkv_hash_from_name("0123456789012345678901234567890123456789X", &hash),
                 PKV_E_INVAL, "pkv_hash_from_name",
                 "\"0123456789012345678901234567890123456789...\"");
    assert_fails(pkv_hash_from_name(NULL, &hash), PKV_E_INVAL, "pkv_hash_from_name", "NULL");
    assert_fails(pkv_hash_from_name("sha256_cbor", NULL), PKV_E_INVAL, "pkv_hash_from_name",
                 "NULL");
    assert_int_equal(hash, 99);
}

static void a_hasher_refuses_what_it_cannot_use(void **state)
{
    (void)state;
    static const uint8_t cluster[32] = {1};
    pkv_hasher *hasher = (pkv_hasher *)(uintptr_t)1;
    pkv_hasher_params params;
    pkv_hasher_params_init(&params);
    assert_fails(pkv_hasher_create(NULL, &hasher), PKV_E_INVAL, "pkv_hasher_create", "params");
    assert_fails(pkv_hasher_create(&params, NULL), PKV_E_INVAL, "pkv_hasher_create", "out");
    params.hash = PKV_N_HASHES;
    assert_fails(pkv_hasher_create(&params, &hasher), PKV_E_INVAL, "pkv_hasher_create", "hash 4");
    assert_null(hasher);
    params.hash = PKV_HASH_XXHASH_CBOR;
    params.cluster_seed = cluster;
    assert_fails(pkv_hasher_create(&params, &hasher), PKV_E_INVAL, "pkv_hasher_create",
                 "cluster_seed with xxhash_cbor");
    params.cluster_seed = NULL;
    params.seed = "\xff";
    assert_fails(pkv_hasher_create(&params, &hasher), PKV_E_INVAL, "pkv_hasher_create",
                 "seed is not UTF-8");
    params.seed = NULL;
    params.struct_size = 4;
    assert_fails(pkv_hasher_create(&params, &hasher), PKV_E_INVAL, "pkv_hasher_create",
                 "struct_size 4");
    struct {
        pkv_hasher_params known;
        uint64_t newer;
    } later = {.newer = 0};
    pkv_hasher_params_init(&later.known);
    later.known.struct_size = sizeof later;
    assert_int_equal(pkv_hasher_create(&later.known, &hasher), PKV_OK);
    pkv_hasher_destroy(hasher);
    later.newer = 1;
    assert_fails(pkv_hasher_create(&later.known, &hasher), PKV_E_VERSION, "pkv_hasher_create",
                 "struct_size");
    pkv_hasher_destroy(NULL);
}

static void an_older_caller_gets_defaults(void **state)
{
    (void)state;
    pkv_hasher *hasher;
    pkv_hasher_params params;
    pkv_hasher_params_init(&params);
    params.struct_size = offsetof(pkv_hasher_params, seed);
    params.seed = "not read";
    assert_int_equal(pkv_hasher_create(&params, &hasher), PKV_OK);
    assert_key(pkv_hasher_none_key(hasher), "9bd96a485ad84efd");
    pkv_hasher_destroy(hasher);
}

static void a_failed_allocation_leaves_nothing(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        counting counter = {.fail_at = n};
        const pkv_alloc hooks = {&counter, counted_alloc, counted_free};
        pkv_hasher *hasher = (pkv_hasher *)(uintptr_t)1;
        pkv_hasher_params params;
        pkv_hasher_params_init(&params);
        params.alloc = &hooks;
        assert_fails(pkv_hasher_create(&params, &hasher), PKV_E_NOMEM, "pkv_hasher_create",
                     "no memory");
        assert_null(hasher);
        assert_int_equal(counter.calls, n);
        assert_int_equal(counter.live, 0);
    }
}

/* Executed with vLLM 0.33. */
static void known_requests_have_known_keys(void **state)
{
    (void)state;
    pkv_hasher *hasher = make_hasher(PKV_HASH_SHA256_CBOR, NULL, NULL, NULL);
    assert_key(pkv_hasher_none_key(hasher),
               "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0");
    pkv_hasher_destroy(hasher);

    const ask one = {.tokens = counting_tokens() + 1, .n_tokens = 16, .unit = 16};
    chain_of_keys c = keys_of(one);
    assert_int_equal(c.n, 1);
    assert_key(&c.keys[0], "cd7c51bc5a8fc8643f383a2b9e01522fba7473c669e9270c7b0bf7bf7fd01682");

    const ask two = {.n_tokens = 40, .unit = 16};
    c = keys_of(two);
    assert_int_equal(c.n, 2);
    assert_key(&c.keys[0], "dc918a88b139e5af");
    assert_key(&c.keys[1], "c300ec275d7bf08a");

    const pkv_extras salted = {.salt = "s"};
    const ask with_salt = {.n_tokens = 40, .unit = 16, .extras = &salted};
    assert_agree(two, with_salt, 0);
}

static void sixteen_byte_keys_end_with_zeros(void **state)
{
    (void)state;
    for (uint32_t hash = PKV_HASH_XXHASH_CBOR; hash < PKV_N_HASHES; hash += 2) {
        const ask a = {.hash = hash, .n_tokens = 32, .unit = 16};
        const chain_of_keys c = keys_of(a);
        pkv_hasher *hasher = make_hasher(hash, NULL, NULL, NULL);
        for (size_t i = 16; i < 32; i++) {
            assert_int_equal(c.keys[1].bytes[i], 0);
            assert_int_equal(pkv_hasher_none_key(hasher)->bytes[i], 0);
        }
        pkv_hasher_destroy(hasher);
    }
}

static void two_processes_have_the_same_root(void **state)
{
    (void)state;
    for (uint32_t hash = 0; hash < PKV_N_HASHES; hash++) {
        static const char *const seeds[] = {NULL, "123", "", "vllm-none-hash"};
        pkv_hasher *hashers[4];
        for (int i = 0; i < 4; i++) {
            hashers[i] = make_hasher(hash, seeds[i], NULL, NULL);
            pkv_hasher *again = make_hasher(hash, seeds[i], NULL, NULL);
            assert_true(same_key(pkv_hasher_none_key(hashers[i]), pkv_hasher_none_key(again)));
            pkv_hasher_destroy(again);
        }
        assert_true(same_key(pkv_hasher_none_key(hashers[0]), pkv_hasher_none_key(hashers[3])));
        assert_false(same_key(pkv_hasher_none_key(hashers[0]), pkv_hasher_none_key(hashers[1])));
        assert_false(same_key(pkv_hasher_none_key(hashers[1]), pkv_hasher_none_key(hashers[2])));
        for (int i = 0; i < 4; i++) {
            pkv_hasher_destroy(hashers[i]);
        }
    }
}

static void a_long_seed_has_room(void **state)
{
    (void)state;
    enum { LEN = 100000 };
    char *seed = malloc(LEN + 1);
    assert_non_null(seed);
    memset(seed, 'x', LEN);
    seed[LEN] = '\0';
    for (uint32_t hash = 0; hash < PKV_N_HASHES; hash++) {
        pkv_hasher_destroy(make_hasher(hash, seed, NULL, NULL));
    }
    free(seed);
}

static void events_name_a_key_by_its_low_bits_or_with_its_group(void **state)
{
    (void)state;
    pkv_key key;
    uint8_t name[36];
    for (uint8_t i = 0; i < 32; i++) {
        key.bytes[i] = i;
    }
    assert_true(pkv_key_event_int(&key, 32) == UINT64_C(0x18191a1b1c1d1e1f));
    assert_true(pkv_key_event_int(&key, 16) == UINT64_C(0x08090a0b0c0d0e0f));
    pkv_key_group_bytes(&key, 2, 258, name);
    assert_memory_equal(name, "\x00\x01\x00\x00\x01\x02", 6);
    pkv_key_group_bytes(&key, 32, UINT32_MAX, name);
    assert_memory_equal(name, key.bytes, 32);
    assert_memory_equal(name + 32, "\xff\xff\xff\xff", 4);
}

static void a_key_exists_when_its_lookahead_does(void **state)
{
    (void)state;
    assert_int_equal(pkv_key_count(32, 16, 0), 2);
    assert_int_equal(pkv_key_count(31, 16, 0), 1);
    assert_int_equal(pkv_key_count(32, 16, 1), 1);
    assert_int_equal(pkv_key_count(33, 16, 1), 2);
    assert_int_equal(pkv_key_count(0, 16, 0), 0);
    assert_int_equal(pkv_key_count(5, 16, 6), 0);
    assert_int_equal(pkv_key_count(100, 0, 0), 0);
    assert_int_equal(pkv_key_count(100, UINT64_MAX, 0), 0);
    assert_int_equal(pkv_key_count(UINT64_MAX, 1, UINT64_MAX), 0);
    assert_true(pkv_key_count(UINT64_MAX, 1, 0) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_has_a_name_and_a_size),
        cmocka_unit_test(functions_over_a_pickle_are_refused_by_name),
        cmocka_unit_test(a_hasher_refuses_what_it_cannot_use),
        cmocka_unit_test(an_older_caller_gets_defaults),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
        cmocka_unit_test(known_requests_have_known_keys),
        cmocka_unit_test(sixteen_byte_keys_end_with_zeros),
        cmocka_unit_test(two_processes_have_the_same_root),
        cmocka_unit_test(a_long_seed_has_room),
        cmocka_unit_test(events_name_a_key_by_its_low_bits_or_with_its_group),
        cmocka_unit_test(a_key_exists_when_its_lookahead_does),
    };
    return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
