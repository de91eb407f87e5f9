/* test_key_extras.c  What keys depend on beside tokens, and failures that users of other systems
 * reported about it. */
#include "key_fixture.h"

#include "key/digest.h"

static ask plain(const pkv_extras *extras)
{
    return (ask){.n_tokens = 64, .unit = 16, .extras = extras};
}

static void assert_unit(const pkv_extras *extras, uint64_t unit, const char *lora, const char *salt,
                        uint32_t first_media, uint32_t n_media)
{
    pkv_unit_extras u;
    assert_int_equal(pkv_key_unit_extras(extras, 16 * unit, 16 * unit + 16, 0, &u), PKV_OK);
    assert_ptr_equal(u.lora_name, lora);
    assert_ptr_equal(u.salt, salt);
    assert_int_equal(u.n_media, n_media);
    if (n_media > 0) {
        assert_int_equal(u.first_media, first_media);
    }
    assert_int_equal(u.has_embeds, 0);
    assert_int_equal(u.any, lora || salt || n_media > 0);
}

static void media_belong_to_the_units_that_they_overlap(void **state)
{
    (void)state;
    const pkv_media media[] = {{"img0", 10, 20}, {"img1", 40, 4}};
    const pkv_extras extras = {.media = media, .n_media = 2};
    assert_unit(&extras, 0, NULL, NULL, 0, 1);
    assert_unit(&extras, 1, NULL, NULL, 0, 1);
    assert_unit(&extras, 2, NULL, NULL, 1, 1);
    assert_unit(&extras, 3, NULL, NULL, 0, 0);
    assert_agree(plain(&extras), plain(NULL), 0);
}

static void an_adapter_is_in_every_unit_and_a_salt_in_the_first(void **state)
{
    (void)state;
    const pkv_extras extras = {.lora_name = "n", .lora_path = "/p", .salt = "z"};
    assert_unit(&extras, 0, extras.lora_name, extras.salt, 0, 0);
    assert_unit(&extras, 1, extras.lora_name, NULL, 0, 0);
    assert_unit(NULL, 0, NULL, NULL, 0, 0);
}

static void a_lookahead_widens_the_range(void **state)
{
    (void)state;
    const pkv_media media[] = {{"a", 0, 16}, {"b", 16, 4}, {"c", 20, 1}};
    const pkv_extras extras = {.media = media, .n_media = 3};
    pkv_unit_extras u;
    assert_int_equal(pkv_key_unit_extras(&extras, 0, 16, 1, &u), PKV_OK);
    assert_int_equal(u.n_media, 2);
    assert_int_equal(pkv_key_unit_extras(&extras, 0, 16, 5, &u), PKV_OK);
    assert_int_equal(u.n_media, 3);
    assert_int_equal(pkv_key_unit_extras(&extras, 16, 32, 1, &u), PKV_OK);
    assert_int_equal(u.first_media, 1);
    assert_int_equal(u.n_media, 2);
}

static void rows_that_exist_are_digested(void **state)
{
    (void)state;
    static const uint8_t rows[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const pkv_extras extras = {
        .embeds = rows, .embed_row_bytes = 2, .n_embed_rows = 5, .has_embeds = 1};
    static const struct {
        uint64_t start, end, lookahead;
        size_t from, bytes;
    } cases[] = {{0, 4, 0, 0, 8},  {4, 8, 0, 8, 2},  {8, 12, 0, 0, 0},
                 {0, 4, 1, 0, 10}, {0, 4, 9, 0, 10}, {5, 9, 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pkv_unit_extras u;
        uint8_t digest[32];
        assert_int_equal(
            pkv_key_unit_extras(&extras, cases[i].start, cases[i].end, cases[i].lookahead, &u),
            PKV_OK);
        pkvi_sha256(rows + cases[i].from, cases[i].bytes, digest);
        assert_int_equal(u.has_embeds, 1);
        assert_int_equal(u.any, 1);
        assert_memory_equal(u.embeds_digest, digest, 32);
    }
    const pkv_extras no_rows = {.embed_row_bytes = 4, .has_embeds = 1};
    pkv_unit_extras u;
    assert_int_equal(pkv_key_unit_extras(&no_rows, 0, 4, 0, &u), PKV_OK);
    assert_int_equal(u.any, 1);
    assert_agree(plain(&no_rows), plain(NULL), 0);
}

/* ---- reported failures ---- */

/* Images were told apart by the last four digits of their digest. */
static void a_media_id_counts_whole(void **state)
{
    (void)state;
    const pkv_media a = {"00000000000000000000000000aa1234", 4, 8};
    const pkv_media b = {"00000000000000000000000000ab1234", 4, 8};
    const pkv_extras x = {.media = &a, .n_media = 1}, y = {.media = &b, .n_media = 1};
    assert_agree(plain(&x), plain(&y), 0);
}

/* An item that only touches a unit tainted its key. */
static void a_touching_item_is_no_part_of_a_unit(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset, length;
        bool overlaps; /* [16, 32) */
    } cases[] = {{0, 15, false}, {0, 16, false}, {0, 17, true},
                 {31, 1, true},  {32, 8, false}, {15, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pkv_media media = {"img", cases[i].offset, cases[i].length};
        const pkv_extras extras = {.media = &media, .n_media = 1};
        pkv_unit_extras u;
        assert_int_equal(pkv_key_unit_extras(&extras, 16, 32, 0, &u), PKV_OK);
        assert_int_equal(u.n_media, cases[i].overlaps);
    }
    const pkv_media later = {"img", 32, 8};
    const pkv_extras extras = {.media = &later, .n_media = 1};
    assert_agree(plain(&extras), plain(NULL), 2);
}

/* The same image at another place of equal placeholders had the same key. */
static void a_media_offset_counts(void **state)
{
    (void)state;
    const int32_t placeholders[64] = {0};
    const pkv_media at_4 = {"img", 4, 8}, at_6 = {"img", 6, 8};
    const pkv_extras x = {.media = &at_4, .n_media = 1}, y = {.media = &at_6, .n_media = 1};
    ask a = plain(&x), b = plain(&y);
    a.tokens = b.tokens = placeholders;
    assert_agree(a, b, 0);
}

/* Salts kept tenants apart in memory but not in the tiers below, whose keys held tokens only. */
static void a_salt_is_in_every_key(void **state)
{
    (void)state;
    const pkv_extras a = {.salt = "a"}, b = {.salt = "b"};
    assert_agree(plain(&a), plain(&b), 0);
    assert_agree(plain(&a), plain(NULL), 0);
    assert_agree(plain(&a), plain(&a), 4);
}

/* A prefix was reused although the adapter, or its scale, had changed. */
static void an_adapter_is_its_name_and_its_path(void **state)
{
    (void)state;
    const pkv_extras a = {.lora_name = "a", .lora_path = "/a?scale=1.0"};
    const pkv_extras b = {.lora_name = "a", .lora_path = "/a?scale=0.5"};
    const pkv_extras c = {.lora_name = "b", .lora_path = "/a?scale=1.0"};
    assert_agree(plain(&a), plain(&b), 0);
    assert_agree(plain(&a), plain(&c), 0);
    assert_agree(plain(&a), plain(NULL), 0);
}

/* "a/b_c" and "a_b/c" became one name. */
static void names_are_not_flattened(void **state)
{
    (void)state;
    const pkv_extras a = {.lora_name = "a/b_c", .lora_path = ""};
    const pkv_extras b = {.lora_name = "a_b/c", .lora_path = ""};
    assert_agree(plain(&a), plain(&b), 0);
}

/* ---- our own functions: the cluster seed and the salt ---- */

static void a_cluster_seed_and_a_salt_are_one_seed(void **state)
{
    (void)state;
    uint8_t seed[32], mixed[32];
    pkvi_sha256("tenant", 6, mixed);
    for (uint8_t i = 0; i < 32; i++) {
        seed[i] = i;
        mixed[i] ^= i;
    }
    const pkv_extras salted = {.salt = "tenant"};
    for (uint32_t hash = PKV_HASH_PKV_SHA256; hash < PKV_N_HASHES; hash++) {
        ask both = plain(&salted), one = plain(NULL), unsalted = plain(NULL);
        both.hash = one.hash = unsalted.hash = hash;
        both.cluster_seed = unsalted.cluster_seed = seed;
        one.cluster_seed = mixed;
        const chain_of_keys x = keys_of(both), y = keys_of(one), z = keys_of(unsalted);
        assert_memory_equal(x.keys, y.keys, sizeof x.keys);
        assert_false(same_key(&x.keys[0], &z.keys[0]));
    }
}

/* ---- refusals ---- */

static void assert_bad(pkv_extras extras, uint64_t n_tokens, const char *part)
{
    assert_fails(pkv_extras_check(&extras, n_tokens), PKV_E_INVAL, "pkv_extras_check", part);
}

static void extras_outside_their_contract_are_refused(void **state)
{
    (void)state;
    static const uint8_t row[4] = {0};
    assert_int_equal(pkv_extras_check(NULL, 0), PKV_OK);
    assert_bad((pkv_extras){.lora_name = "n"}, 64, "lora_path");
    assert_bad((pkv_extras){.lora_path = "p"}, 64, "lora_name");
    assert_bad((pkv_extras){.lora_name = "\xc3", .lora_path = ""}, 64, "lora_name is not UTF-8");
    assert_bad((pkv_extras){.lora_name = "", .lora_path = "\xed\xa0\x80"}, 64, "lora_path");
    assert_bad((pkv_extras){.salt = ""}, 64, "salt");
    assert_bad((pkv_extras){.salt = "\x80"}, 64, "salt");
    assert_bad((pkv_extras){.n_media = 1}, 64, "media is NULL");
    assert_bad((pkv_extras){.has_embeds = 2}, 64, "has_embeds 2");
    assert_bad((pkv_extras){.reserved = {0, 1, 0}}, 64, "reserved");
    assert_bad((pkv_extras){.has_embeds = 1}, 64, "embed_row_bytes 0");
    assert_bad((pkv_extras){.has_embeds = 1, .embed_row_bytes = 4, .n_embed_rows = 1}, 64,
               "embeds is NULL");
    assert_bad(
        (pkv_extras){
            .has_embeds = 1, .embed_row_bytes = UINT64_MAX, .n_embed_rows = 2, .embeds = row},
        64, "embed_row_bytes 18446744073709551615");
    const pkv_extras rows = {
        .has_embeds = 1, .embed_row_bytes = 1, .n_embed_rows = 4, .embeds = row};
    assert_int_equal(pkv_extras_check(&rows, 4), PKV_OK);
    assert_bad(rows, 3, "n_embed_rows 4");
}

static void media_outside_their_contract_are_refused(void **state)
{
    (void)state;
    static const struct {
        pkv_media media[2];
        const char *part;
    } cases[] = {
        {{{"a", 0, 4}, {"b", 3, 1}}, "media 1: offset 3 is before 4"},
        {{{"a", 8, 4}, {"b", 0, 4}}, "media 1"},
        {{{"a", 0, 4}, {"b", 60, 5}}, "within 64 tokens"},
        {{{"a", 0, 0}, {"b", 4, 4}}, "media 0: offset 0 and length 0"},
        {{{"a", UINT64_MAX, 2}, {"b", 4, 4}}, "media 0"},
        {{{NULL, 0, 4}, {"b", 4, 4}}, "id is NULL"},
        {{{"a", 0, 4}, {"\xff", 4, 4}}, "media 1: id is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_bad((pkv_extras){.media = cases[i].media, .n_media = 2}, 64, cases[i].part);
    }
    const pkv_media right[] = {{"", 0, 4}, {"b", 4, 60}};
    const pkv_extras extras = {.media = right, .n_media = 2};
    assert_int_equal(pkv_extras_check(&extras, 64), PKV_OK);
    assert_int_equal(pkv_extras_check(&extras, UINT64_MAX), PKV_OK); /* no limit */
}

static void a_range_outside_its_contract_is_refused(void **state)
{
    (void)state;
    static const char f[] = "pkv_key_unit_extras";
    pkv_unit_extras u;
    const pkv_extras half = {.lora_name = "n"};
    assert_fails(pkv_key_unit_extras(NULL, 0, 16, 0, NULL), PKV_E_INVAL, f, "out");
    assert_fails(pkv_key_unit_extras(NULL, 2, 1, 0, &u), PKV_E_INVAL, f, "start 2, end 1");
    assert_fails(pkv_key_unit_extras(NULL, 0, 1, UINT64_MAX, &u), PKV_E_INVAL, f, "lookahead");
    assert_fails(pkv_key_unit_extras(&half, 0, 1, 0, &u), PKV_E_INVAL, f, "lora_path");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(media_belong_to_the_units_that_they_overlap),
        cmocka_unit_test(an_adapter_is_in_every_unit_and_a_salt_in_the_first),
        cmocka_unit_test(a_lookahead_widens_the_range),
        cmocka_unit_test(rows_that_exist_are_digested),
        cmocka_unit_test(a_media_id_counts_whole),
        cmocka_unit_test(a_touching_item_is_no_part_of_a_unit),
        cmocka_unit_test(a_media_offset_counts),
        cmocka_unit_test(a_salt_is_in_every_key),
        cmocka_unit_test(an_adapter_is_its_name_and_its_path),
        cmocka_unit_test(names_are_not_flattened),
        cmocka_unit_test(a_cluster_seed_and_a_salt_are_one_seed),
        cmocka_unit_test(extras_outside_their_contract_are_refused),
        cmocka_unit_test(media_outside_their_contract_are_refused),
        cmocka_unit_test(a_range_outside_its_contract_is_refused),
    };
    return cmocka_run_group_tests_name("key_extras", tests, NULL, NULL);
}
