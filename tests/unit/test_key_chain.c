/* test_key_chain.c  Chains: appending, parents, lookahead, views, encoders, memory, refusals. */
#include "key_fixture.h"

#include "base/error.h"
#include "base/tokens.h"
#include "key/hasher.h"

static uint64_t random_state;

static uint32_t step(void)
{
    random_state = (random_state * 1664525 + 1013904223) & UINT32_MAX;
    return (uint32_t)(random_state >> 16); /* the low bits have short periods */
}

static uint32_t draw(uint32_t below)
{
    const uint32_t high = step();
    return (high << 16 | step()) % below;
}

/* Of every size that CBOR knows. */
static int32_t draw_token(void)
{
    static const int32_t edges[] = {0, 23, 24, 255, 256, 65535, 65536, INT32_MAX};
    static const uint32_t limits[] = {24, 256, 65536, 128256, INT32_MAX};
    return draw(4) == 0 ? edges[draw(8)] : (int32_t)draw(limits[draw(5)]);
}

static void appending_never_changes_earlier_keys(void **state)
{
    (void)state;
    const pkv_media media[] = {{"a", 3, 40}, {"b", 43, 1}, {"c", 60, 200}};
    const uint8_t rows[3 * 70] = {0};
    const pkv_extras all = {.lora_name = "n",
                            .lora_path = "p",
                            .salt = "s",
                            .media = media,
                            .n_media = 3,
                            .embeds = rows,
                            .embed_row_bytes = 3,
                            .n_embed_rows = 70,
                            .has_embeds = 1};
    random_state = 1;
    for (int round = 0; round < 400; round++) {
        const uint64_t unit = 1 + draw(40), lookahead = draw(3) * draw(20);
        const uint64_t n_tokens = 400;
        const uint32_t hash = draw(PKV_N_HASHES);
        const pkv_extras *extras = draw(2) ? &all : NULL;
        const uint64_t n = pkv_key_count(n_tokens, unit, lookahead);
        int32_t tokens[400];
        pkv_key whole[400], parts[400];
        for (size_t i = 0; i < n_tokens; i++) {
            tokens[i] = draw_token();
        }
        pkv_hasher *hasher = make_hasher(hash, NULL, NULL, NULL);
        assert_int_equal(
            pkv_key_chain(hasher, extras, tokens, n_tokens, unit, lookahead, 0, n, NULL, whole),
            PKV_OK);
        for (uint64_t first = 0; first < n;) {
            uint64_t last = first + 1 + draw(5);
            last = last < n ? last : n;
            /* no more tokens than the units need */
            const uint64_t have = last * unit + lookahead;
            assert_int_equal(pkv_key_chain(hasher, extras, tokens, have, unit, lookahead, first,
                                           last, first > 0 ? &parts[first - 1] : NULL,
                                           &parts[first]),
                             PKV_OK);
            first = last;
        }
        assert_memory_equal(whole, parts, n * sizeof *whole);
        pkv_hasher_destroy(hasher);
    }
}

static void a_key_may_replace_its_parent(void **state)
{
    (void)state;
    for (uint32_t hash = 0; hash < PKV_N_HASHES; hash++) {
        const ask a = {.hash = hash, .n_tokens = 64, .unit = 16};
        const chain_of_keys c = keys_of(a);
        pkv_hasher *hasher = make_hasher(hash, NULL, NULL, NULL);
        pkv_key rolling = {{0}};
        for (uint64_t i = 0; i < c.n; i++) {
            assert_int_equal(pkv_key_chain(hasher, NULL, counting_tokens(), 64, 16, 0, i, i + 1,
                                           &rolling, &rolling),
                             PKV_OK);
            assert_true(same_key(&rolling, &c.keys[i]));
        }
        pkv_hasher_destroy(hasher);
    }
}

static void a_changed_token_changes_all_keys_from_there(void **state)
{
    (void)state;
    int32_t other[64];
    memcpy(other, counting_tokens(), sizeof other);
    other[33] = 7;
    const ask a = {.n_tokens = 64, .unit = 16};
    const ask b = {.n_tokens = 64, .unit = 16, .tokens = other};
    assert_agree(a, b, 2);
}

/* The writer has 64 tokens, the reader agrees with it in 48 of them: the third key already depends
 * on token 48. */
static void a_key_depends_on_its_lookahead(void **state)
{
    (void)state;
    int32_t reader[64];
    memcpy(reader, counting_tokens(), sizeof reader);
    for (size_t i = 48; i < 64; i++) {
        reader[i] = 7;
    }
    const ask a = {.n_tokens = 64, .unit = 16, .lookahead = 1};
    const ask b = {.n_tokens = 64, .unit = 16, .lookahead = 1, .tokens = reader};
    assert_int_equal(keys_of(a).n, 3);
    assert_agree(a, b, 2);

    const ask none = {.n_tokens = 64, .unit = 16},
              two = {.n_tokens = 64, .unit = 16, .lookahead = 2};
    assert_agree(a, none, 0);
    assert_agree(a, two, 0);
}

/* 48 tokens are one block of three units: its key is every third one. */
static void another_unit_is_another_chain(void **state)
{
    (void)state;
    const ask a = {.n_tokens = 96, .unit = 16}, b = {.n_tokens = 96, .unit = 48};
    assert_agree(a, b, 0);
    assert_int_equal(keys_of(a).n, 6);
}

/* Our own message names counts, so that moving a border between its parts makes another message. */
static void a_border_cannot_be_moved(void **state)
{
    (void)state;
    const ask unit_of_5 = {.n_tokens = 5, .unit = 5};
    const ask with_lookahead = {.n_tokens = 5, .unit = 4, .lookahead = 1};
    assert_agree(unit_of_5, with_lookahead, 0);
    const pkv_extras ab_c = {.lora_name = "ab", .lora_path = "c"};
    const pkv_extras a_bc = {.lora_name = "a", .lora_path = "bc"};
    const ask x = {.n_tokens = 4, .unit = 4, .extras = &ab_c};
    const ask y = {.n_tokens = 4, .unit = 4, .extras = &a_bc};
    assert_agree(x, y, 0);
    const pkv_media one = {"a", 0, 4}, two[] = {{"", 0, 1}, {"a", 1, 3}};
    const pkv_extras single = {.media = &one, .n_media = 1}, both = {.media = two, .n_media = 2};
    const ask m = {.n_tokens = 4, .unit = 4, .extras = &single};
    const ask n = {.n_tokens = 4, .unit = 4, .extras = &both};
    assert_agree(m, n, 0);
}

static void all_encoders_write_the_same(void **state)
{
    (void)state;
    enum { MOST = 70, GUARD = 0x5a };
    pkvi_put_tokens *const fast = pkvi_cbor_choose_put_tokens();
    random_state = 2;
    for (int round = 0; round < 20000; round++) {
        int32_t tokens[MOST];
        uint8_t plain[5 * MOST + PKVI_MESSAGE_SLACK + 1], other[sizeof plain];
        const size_t n = draw(MOST + 1);
        for (size_t i = 0; i < n; i++) {
            tokens[i] = draw_token();
        }
        memset(plain, GUARD, sizeof plain);
        memset(other, GUARD, sizeof other);
        const size_t len = (size_t)(pkvi_cbor_put_tokens(plain, tokens, n) - plain);
        assert_int_equal(fast(other, tokens, n) - other, len);
        assert_memory_equal(plain, other, len);
        for (size_t i = len + PKVI_MESSAGE_SLACK; i < sizeof plain; i++) {
            assert_int_equal(plain[i], GUARD);
            assert_int_equal(other[i], GUARD);
        }
    }
}

static void the_first_negative_token_is_found_wherever_it_is(void **state)
{
    (void)state;
    enum { MOST = 300 };
    int32_t tokens[MOST];
    for (uint64_t n = 0; n <= MOST; n += 1 + n / 20) {
        for (uint64_t bad = 0; bad <= n; bad++) { /* n: none */
            for (uint64_t i = 0; i < MOST; i++) {
                tokens[i] = i < bad ? INT32_MAX - (int32_t)i : i == bad ? INT32_MIN : -1;
            }
            assert_int_equal(pkvi_first_negative(tokens, n), bad);
            for (unsigned form = 0; pkvi_find_negative_of_cpu(form); form++) {
                assert_int_equal(pkvi_find_negative_of_cpu(form)(tokens, n), bad);
            }
        }
    }
}

static void all_loops_of_xxh3_give_the_same_keys(void **state)
{
    (void)state;
    enum { TOKENS = 700 };
    const pkv_media media[] = {{"a", 3, 40}, {"b", 43, 1}, {"c", 60, 200}};
    const pkv_extras extras = {.salt = "s", .media = media, .n_media = 3};
    random_state = 3;
    for (int round = 0; round < 4000; round++) {
        const uint32_t hash = draw(2) ? PKV_HASH_XXHASH_CBOR : PKV_HASH_PKV_XXH3;
        const uint64_t unit = draw(2) ? 16 : 1 + draw(100), lookahead = draw(2) * draw(3);
        const pkv_extras *with = draw(4) == 0 ? &extras : NULL;
        int32_t tokens[TOKENS];
        pkv_key plain[TOKENS], other[TOKENS];
        for (size_t i = 0; i < TOKENS; i++) {
            tokens[i] = draw_token();
        }
        const uint64_t n = 1 + draw((uint32_t)pkv_key_count(TOKENS, unit, lookahead));
        pkv_hasher *hasher = make_hasher(hash, NULL, NULL, NULL);
        assert_int_equal(
            pkv_key_chain(hasher, with, tokens, TOKENS, unit, lookahead, 0, n, NULL, other),
            PKV_OK);
        hasher->chain = pkvi_chain_xxh3;
        hasher->put_tokens = pkvi_cbor_put_tokens;
        assert_int_equal(
            pkv_key_chain(hasher, with, tokens, TOKENS, unit, lookahead, 0, n, NULL, plain),
            PKV_OK);
        assert_memory_equal(plain, other, n * sizeof *plain);
        pkv_hasher_destroy(hasher);
    }
}

static void a_longer_message_allocates_once(void **state)
{
    (void)state;
    counting counter = {0};
    const pkv_alloc hooks = {&counter, counted_alloc, counted_free};
    static int32_t tokens[100000];
    static pkv_key keys[6250];
    for (uint32_t hash = 0; hash < PKV_N_HASHES; hash++) {
        counter = (counting){0};
        pkv_hasher *hasher = make_hasher(hash, NULL, NULL, &hooks);
        const size_t after_create = counter.calls;
        assert_int_equal(pkv_key_chain(hasher, NULL, tokens, 100000, 16, 0, 0, 6250, NULL, keys),
                         PKV_OK);
        assert_int_equal(counter.calls, after_create); /* the usual path */
        for (int again = 0; again < 2; again++) {
            assert_int_equal(
                pkv_key_chain(hasher, NULL, tokens, 100000, 50000, 0, 0, 2, NULL, keys), PKV_OK);
            assert_int_equal(counter.calls, after_create + 1);
        }
        pkv_hasher_destroy(hasher);
        assert_int_equal(counter.live, 0);
    }
}

static void without_memory_nothing_is_written(void **state)
{
    (void)state;
    counting counter = {.fail_at = 3};
    const pkv_alloc hooks = {&counter, counted_alloc, counted_free};
    pkv_key keys[2], before[2], right[2];
    memset(keys, 0x5a, sizeof keys);
    memcpy(before, keys, sizeof keys);
    pkv_hasher *hasher = make_hasher(PKV_HASH_SHA256_CBOR, NULL, NULL, &hooks);
    assert_fails(pkv_key_chain(hasher, NULL, counting_tokens(), 1000, 500, 0, 0, 2, NULL, keys),
                 PKV_E_NOMEM, "pkv_key_chain", "no memory");
    assert_memory_equal(keys, before, sizeof keys);
    assert_int_equal(pkv_key_chain(hasher, NULL, counting_tokens(), 1000, 500, 0, 0, 2, NULL, keys),
                     PKV_OK);
    pkv_hasher_destroy(hasher);
    assert_int_equal(counter.live, 0);

    hasher = make_hasher(PKV_HASH_SHA256_CBOR, NULL, NULL, NULL);
    assert_int_equal(
        pkv_key_chain(hasher, NULL, counting_tokens(), 1000, 500, 0, 0, 2, NULL, right), PKV_OK);
    assert_memory_equal(keys, right, sizeof keys);
    assert_fails(pkvi_hasher_reserve("pkv_key_chain", hasher, UINT64_MAX), PKV_E_NOMEM,
                 "pkv_key_chain", "18446744073709551615");
    assert_fails(pkvi_hasher_reserve("pkv_key_chain", hasher, UINT64_MAX / 2), PKV_E_NOMEM,
                 "pkv_key_chain", "9223372036854775807");
    assert_int_equal(
        pkv_key_chain(hasher, NULL, counting_tokens(), 1000, 500, 0, 1, 2, &right[0], keys),
        PKV_OK);
    assert_true(same_key(&keys[0], &right[1]));
    pkv_hasher_destroy(hasher);
}

static void a_span_outside_the_request_is_refused(void **state)
{
    (void)state;
    static const char f[] = "pkv_key_chain";
    const int32_t *tokens = counting_tokens();
    pkv_hasher *h = make_hasher(PKV_HASH_SHA256_CBOR, NULL, NULL, NULL);
    pkv_key k[4];
    assert_fails(pkv_key_chain(NULL, NULL, tokens, 32, 16, 0, 0, 2, NULL, k), PKV_E_INVAL, f,
                 "hasher");
    assert_fails(pkv_key_chain(h, NULL, tokens, 32, 0, 0, 0, 0, NULL, k), PKV_E_INVAL, f, "unit");
    assert_fails(pkv_key_chain(h, NULL, tokens, 32, 16, 0, 0, 3, NULL, k), PKV_E_INVAL, f,
                 "[0, 3) of 2");
    assert_fails(pkv_key_chain(h, NULL, tokens, 32, 16, 1, 0, 2, NULL, k), PKV_E_INVAL, f,
                 "[0, 2) of 1");
    assert_fails(pkv_key_chain(h, NULL, tokens, 32, 16, 0, 2, 1, &k[0], k), PKV_E_INVAL, f,
                 "[2, 1)");
    assert_fails(pkv_key_chain(h, NULL, tokens, 32, 16, 0, 1, 2, NULL, k), PKV_E_INVAL, f,
                 "parent");
    assert_fails(pkv_key_chain(h, NULL, NULL, 32, 16, 0, 0, 2, NULL, k), PKV_E_INVAL, f, "tokens");
    assert_fails(pkv_key_chain(h, NULL, tokens, 32, 16, 0, 0, 2, NULL, NULL), PKV_E_INVAL, f,
                 "keys");
    assert_fails(pkv_key_chain(h, NULL, tokens, UINT64_MAX, UINT64_C(1) << 31, 0, 0, 1, NULL, k),
                 PKV_E_INVAL, f, "2^31-1");
    assert_fails(pkv_key_chain(h, NULL, tokens, UINT64_MAX, 1, UINT64_C(1) << 31, 0, 1, NULL, k),
                 PKV_E_INVAL, f, "2^31-1");
    const pkv_extras half = {.lora_name = "n"};
    assert_fails(pkv_key_chain(h, &half, tokens, 32, 16, 0, 0, 2, NULL, k), PKV_E_INVAL, f,
                 "lora_path");
    const pkv_media nameless = {NULL, 20, 4};
    const pkv_extras media = {.media = &nameless, .n_media = 1};
    assert_fails(pkv_key_chain(h, &media, tokens, 32, 16, 0, 0, 2, NULL, k), PKV_E_INVAL, f,
                 "media 0: id is NULL");
    assert_int_equal(pkv_key_chain(h, &media, tokens, 32, 16, 0, 0, 1, NULL, k), PKV_OK);
    assert_int_equal(pkv_key_chain(h, NULL, NULL, 5, 16, 0, 0, 0, NULL, NULL), PKV_OK);
    pkv_hasher_destroy(h);
}

static void a_negative_token_is_found(void **state)
{
    (void)state;
    int32_t tokens[200];
    pkv_key keys[200], before[200];
    pkv_hasher *hasher = make_hasher(PKV_HASH_PKV_XXH3, NULL, NULL, NULL);
    memset(keys, 0x5a, sizeof keys);
    memcpy(before, keys, sizeof keys);
    for (int32_t at = 0; at < 200; at++) {
        char part[40];
        memcpy(tokens, counting_tokens(), sizeof tokens);
        tokens[at] = INT32_MIN + at;
        (void)snprintf(part, sizeof part, "token %d is %d", (int)at, (int)tokens[at]);
        assert_fails(pkv_key_chain(hasher, NULL, tokens, 200, 1, 0, 0, 200, NULL, keys),
                     PKV_E_INVAL, "pkv_key_chain", part);
        assert_memory_equal(keys, before, sizeof keys);
    }
    /* one beyond the units is no part of any key */
    assert_int_equal(pkv_key_chain(hasher, NULL, tokens, 200, 1, 0, 0, 199, NULL, keys), PKV_OK);
    pkv_hasher_destroy(hasher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_never_changes_earlier_keys),
        cmocka_unit_test(a_key_may_replace_its_parent),
        cmocka_unit_test(a_changed_token_changes_all_keys_from_there),
        cmocka_unit_test(a_key_depends_on_its_lookahead),
        cmocka_unit_test(another_unit_is_another_chain),
        cmocka_unit_test(a_border_cannot_be_moved),
        cmocka_unit_test(all_encoders_write_the_same),
        cmocka_unit_test(the_first_negative_token_is_found_wherever_it_is),
        cmocka_unit_test(all_loops_of_xxh3_give_the_same_keys),
        cmocka_unit_test(a_longer_message_allocates_once),
        cmocka_unit_test(without_memory_nothing_is_written),
        cmocka_unit_test(a_span_outside_the_request_is_refused),
        cmocka_unit_test(a_negative_token_is_found),
    };
    return cmocka_run_group_tests_name("key_chain", tests, NULL, NULL);
}
