/* test_document_keys.c  Requests for keys as JSON; tests/cli/test_keys.py has the refusals. */
#include "key_fixture.h"

#include <pkv/keys_document.h>

static const char full[] =
    "{\"tokens\": [1, 2, 2147483647], \"block_size\": 2, \"hash\": \"pkv_xxh3\", \"seed\": \"s\","
    " \"cluster_seed\": \"000102030405060708090A0b0c0d0e0f101112131415161718191a1b1c1d1e1f\","
    " \"salt\": \"t\", \"lora\": [\"n\", \"p\"], \"mm\": [{\"hash\": \"a\", \"offset\": 1,"
    " \"length\": 2}, {\"hash\": \"b\", \"offset\": 3, \"length\": 1}],"
    " \"embeds\": {\"row_bytes\": 2, \"data\": \"0aFf00\\u00310\"}, \"lookahead\": 1,"
    " \"view\": 4, \"group\": 4294967295}";

static void every_field_is_read(void **state)
{
    (void)state;
    pkv_keys_document *doc;
    assert_int_equal(pkv_keys_document_read(full, sizeof full - 1, NULL, &doc), PKV_OK);
    const pkv_keys_request *r = pkv_keys_document_request(doc);
    assert_int_equal(r->n_tokens, 3);
    assert_int_equal(r->tokens[2], INT32_MAX);
    assert_int_equal(r->unit, 2);
    assert_int_equal(r->lookahead, 1);
    assert_int_equal(r->view, 4);
    assert_true(r->group == UINT32_MAX);
    assert_int_equal(r->hasher.hash, PKV_HASH_PKV_XXH3);
    assert_string_equal(r->hasher.seed, "s");
    for (uint8_t i = 0; i < 32; i++) {
        assert_int_equal(r->hasher.cluster_seed[i], i);
    }
    const pkv_extras *e = &r->extras;
    assert_string_equal(e->salt, "t");
    assert_string_equal(e->lora_name, "n");
    assert_string_equal(e->lora_path, "p");
    assert_int_equal(e->n_media, 2);
    assert_string_equal(e->media[1].id, "b");
    assert_int_equal(e->media[0].offset, 1);
    assert_int_equal(e->media[0].length, 2);
    assert_int_equal(e->has_embeds, 1);
    assert_int_equal(e->embed_row_bytes, 2);
    assert_int_equal(e->n_embed_rows, 2);
    assert_memory_equal(e->embeds, "\x0a\xff\x00\x10", 4);
    assert_int_equal(pkv_extras_check(e, UINT64_MAX), PKV_OK);
    pkv_keys_document_destroy(doc);
    pkv_keys_document_destroy(NULL);
}

static void what_is_left_out_has_its_default(void **state)
{
    (void)state;
    static const char json[] = "{\"tokens\": [], \"block_size\": 16, \"salt\": null, \"mm\": null}";
    pkv_keys_document *doc;
    assert_int_equal(pkv_keys_document_read(json, sizeof json - 1, NULL, &doc), PKV_OK);
    const pkv_keys_request *r = pkv_keys_document_request(doc);
    assert_int_equal(r->n_tokens, 0);
    assert_int_equal(r->hasher.hash, PKV_HASH_SHA256_CBOR);
    assert_null(r->hasher.seed);
    assert_null(r->hasher.cluster_seed);
    assert_null(r->extras.salt);
    assert_null(r->extras.lora_name);
    assert_int_equal(r->extras.n_media, 0);
    assert_int_equal(r->extras.has_embeds, 0);
    assert_int_equal(r->view, 0);
    assert_true(r->group == PKV_NO_GROUP);
    pkv_keys_document_destroy(doc);
}

static void a_refusal_says_what_and_where(void **state)
{
    (void)state;
    static const char function[] = "pkv_keys_document_read";
    pkv_keys_document *doc = (pkv_keys_document *)(uintptr_t)1;
    assert_fails(pkv_keys_document_read(NULL, 0, NULL, &doc), PKV_E_INVAL, function, "NULL");
    assert_fails(pkv_keys_document_read("{}", 2, NULL, NULL), PKV_E_INVAL, function, "NULL");
    static const char bad[] = "{\"tokens\": [], \"block_size\": 4, \"mm\": [{\"hash\": \"a\", "
                              "\"offset\": 2, \"length\": 3}, {\"hash\": \"b\", \"offset\": 4, "
                              "\"length\": 1}]}";
    assert_fails(pkv_keys_document_read(bad, sizeof bad - 1, NULL, &doc), PKV_E_INVAL, function,
                 "mm[1]: offset is 4, expected an integer from 5");
    assert_null(doc);
    static const char pickle[] = "{\"tokens\": [], \"block_size\": 4, \"hash\": \"sha256\"}";
    assert_fails(pkv_keys_document_read(pickle, sizeof pickle - 1, NULL, &doc), PKV_E_UNSUPPORTED,
                 function, "hash: name \"sha256\": it digests a Python pickle");
}

/* A document one part of which is too long for the first pieces of memory. */
static size_t long_document(const char *part, char *json, size_t size)
{
    enum { TIMES = 4000 };
    static const char item[] = ", {\"hash\": \"x\", \"offset\": %d, \"length\": 1}";
    const bool tokens = strcmp(part, "tokens") == 0, rows = strcmp(part, "rows") == 0;
    size_t len = (size_t)snprintf(json, size, "{\"block_size\": 2, \"tokens\": [1");
    for (int i = 0; tokens && i < TIMES; i++) {
        len += (size_t)snprintf(json + len, size - len, ", 7");
    }
    len +=
        (size_t)snprintf(json + len, size - len,
                         "], \"salt\": \"s\", \"seed\": \"t\", \"lora\": [\"n\", \"p\"], \"mm\": "
                         "[{\"hash\": \"x\", \"offset\": 0, \"length\": 1}");
    for (int i = 1; strcmp(part, "media") == 0 && i < TIMES / 10; i++) {
        len += (size_t)snprintf(json + len, size - len, item, i);
    }
    len += (size_t)snprintf(json + len, size - len,
                            "], \"embeds\": {\"row_bytes\": 1, \"data\": \"00");
    for (int i = 0; rows && i < 5 * TIMES; i++) {
        len += (size_t)snprintf(json + len, size - len, "00");
    }
    len += (size_t)snprintf(json + len, size - len, "\"}}");
    assert_true(len < size);
    return len;
}

static void a_failed_allocation_leaves_nothing(void **state)
{
    (void)state;
    static const char *const parts[] = {"tokens", "media", "rows"};
    static char json[100000];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t len = long_document(parts[i], json, sizeof json);
        for (size_t n = 1;; n++) {
            counting counter = {.fail_at = n};
            const pkv_alloc hooks = {&counter, counted_alloc, counted_free};
            pkv_keys_document *doc;
            const pkv_status st = pkv_keys_document_read(json, len, &hooks, &doc);
            if (st == PKV_OK) {
                assert_true(n > 2);
                pkv_keys_document_destroy(doc);
                assert_int_equal(counter.live, 0);
                break;
            }
            assert_fails(st, PKV_E_NOMEM, "pkv_keys_document_read", "memory");
            assert_null(doc);
            assert_int_equal(counter.live, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(what_is_left_out_has_its_default),
        cmocka_unit_test(a_refusal_says_what_and_where),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
    };
    return cmocka_run_group_tests_name("document_keys", tests, NULL, NULL);
}
