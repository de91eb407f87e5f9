/* keys_document.c  Requests for keys as JSON.
 *
 * The format is in docs/formats/keys.md. */
#include <stdio.h>
#include <string.h>

#include <pkv/keys_document.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/math.h"
#include "model/json.h"

#define READ "pkv_keys_document_read"
#define MAX_GROUP UINT64_C(0xffffffff)
enum { SEED_BYTES = 32 };

struct pkv_keys_document {
    pkvi_arena arena; /* holds this struct too */
    pkv_keys_request request;
};

static pkv_status no_memory(void)
{
    return pkvi_fail(PKV_E_NOMEM, READ ": out of memory");
}

static pkv_status keep_text(pkv_keys_document *doc, const char *text, const char **out)
{
    *out = pkvi_arena_text(&doc->arena, text);
    return *out ? PKV_OK : no_memory();
}

/* A text that may be left out; *out is then NULL. */
static pkv_status read_text(pkv_keys_document *doc, const pkvi_json_at *at, const char *name,
                            const char **out)
{
    const char *text = NULL;
    *out = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_text(at, name, &text));
    return text ? keep_text(doc, text, out) : PKV_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The bytes that a text of hex digits stands for. */
static pkv_status read_hex(pkv_keys_document *doc, const pkvi_json_at *at, const char *name,
                           const char *expected, const uint8_t **out, uint64_t *bytes_out)
{
    const char *text;
    PKVI_RETURN_IF(pkvi_json_text(at, name, &text));
    const size_t digits = strlen(text);
    uint8_t *bytes = pkvi_arena_get(&doc->arena, 1, digits / 2);
    if (!bytes) {
        return no_memory();
    }
    for (size_t i = 0; i < digits; i++) {
        const int digit = hex_digit(text[i]);
        if (digit < 0 || digits % 2 != 0) {
            return pkvi_json_bad(at, name, pkvi_json_get(at, name), expected);
        }
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | digit);
    }
    *out = bytes;
    *bytes_out = digits / 2;
    return PKV_OK;
}

static pkv_status read_tokens(pkv_keys_document *doc, const pkvi_json_at *at)
{
    json_t *array = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_array(at, "tokens", &array));
    if (!array) {
        return pkvi_json_bad(at, "tokens", NULL, "an array of token ids");
    }
    const size_t n = json_array_size(array);
    int32_t *tokens = pkvi_arena_get(&doc->arena, n, sizeof *tokens);
    if (!tokens) {
        return no_memory();
    }
    for (size_t i = 0; i < n; i++) {
        char name[40];
        uint64_t token;
        const json_t *value = json_array_get(array, i);
        if (json_is_integer(value) && json_integer_value(value) >= 0 &&
            json_integer_value(value) <= INT32_MAX) { /* all of them, but for a mistake */
            tokens[i] = (int32_t)json_integer_value(value);
            continue;
        }
        (void)snprintf(name, sizeof name, "tokens[%zu]", i);
        PKVI_RETURN_IF(pkvi_json_number(at, name, value, 0, INT32_MAX, &token));
    }
    doc->request.tokens = tokens;
    doc->request.n_tokens = n;
    return PKV_OK;
}

static pkv_status read_hasher(pkv_keys_document *doc, const pkvi_json_at *at)
{
    pkv_hasher_params *hasher = &doc->request.hasher;
    const char *name = NULL;
    uint64_t bytes;
    pkv_hasher_params_init(hasher);
    PKVI_RETURN_IF(pkvi_json_opt_text(at, "hash", &name));
    if (name) {
        const pkv_status st = pkv_hash_from_name(name, &hasher->hash);
        if (st == PKV_E_INVAL) {
            return pkvi_json_bad(at, "hash", pkvi_json_get(at, "hash"),
                                 "sha256_cbor, xxhash_cbor, pkv_sha256 or pkv_xxh3");
        }
        if (st != PKV_OK) {
            pkvi_error_context(READ, "hash");
            return st;
        }
    }
    PKVI_RETURN_IF(read_text(doc, at, "seed", &hasher->seed));
    const json_t *seed = pkvi_json_get(at, "cluster_seed");
    if (!seed) {
        return PKV_OK;
    }
    if (hasher->hash != PKV_HASH_PKV_SHA256 && hasher->hash != PKV_HASH_PKV_XXH3) {
        return pkvi_json_bad(at, "cluster_seed", seed, "none but with pkv_sha256 and pkv_xxh3");
    }
    PKVI_RETURN_IF(
        read_hex(doc, at, "cluster_seed", "64 hex digits", &hasher->cluster_seed, &bytes));
    return bytes == SEED_BYTES ? PKV_OK : pkvi_json_bad(at, "cluster_seed", seed, "64 hex digits");
}

static pkv_status read_lora(pkv_keys_document *doc, const pkvi_json_at *at)
{
    json_t *pair = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_array(at, "lora", &pair));
    if (!pair) {
        return PKV_OK;
    }
    const json_t *name = json_array_get(pair, 0), *path = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_string(name) || !json_is_string(path)) {
        return pkvi_json_bad(at, "lora", pair, "two texts, name and path");
    }
    PKVI_RETURN_IF(keep_text(doc, json_string_value(name), &doc->request.extras.lora_name));
    return keep_text(doc, json_string_value(path), &doc->request.extras.lora_path);
}

static pkv_status read_item(pkv_keys_document *doc, const pkvi_json_at *at, uint64_t *end,
                            pkv_media *media)
{
    static const char *const names[] = {"hash", "offset", "length"};
    const char *id;
    PKVI_RETURN_IF(pkvi_json_check_names(at, names, sizeof names / sizeof *names));
    PKVI_RETURN_IF(pkvi_json_text(at, "hash", &id));
    PKVI_RETURN_IF(keep_text(doc, id, &media->id));
    /* at least the end of the item before: ascending and disjoint */
    PKVI_RETURN_IF(pkvi_json_u64(at, "offset", *end, PKVI_SIZE_MAX - 1, &media->offset));
    PKVI_RETURN_IF(pkvi_json_u64(at, "length", 1, PKVI_SIZE_MAX - media->offset, &media->length));
    *end = media->offset + media->length;
    return PKV_OK;
}

static pkv_status read_media(pkv_keys_document *doc, const pkvi_json_at *at)
{
    json_t *array = NULL;
    uint64_t end = 0;
    PKVI_RETURN_IF(pkvi_json_opt_array(at, "mm", &array));
    const size_t n = array ? json_array_size(array) : 0;
    pkv_media *media = pkvi_arena_get(&doc->arena, n, sizeof *media);
    if (!media) {
        return no_memory();
    }
    for (size_t i = 0; i < n; i++) {
        char place[40];
        (void)snprintf(place, sizeof place, "mm[%zu]", i);
        const pkvi_json_at item = {READ, place, json_array_get(array, i)};
        PKVI_RETURN_IF(read_item(doc, &item, &end, &media[i]));
    }
    doc->request.extras.media = media;
    doc->request.extras.n_media = (uint32_t)n; /* a document has fewer values than 2^32 */
    return PKV_OK;
}

static pkv_status read_embeds(pkv_keys_document *doc, const pkvi_json_at *root)
{
    static const char *const names[] = {"row_bytes", "data"};
    pkv_extras *extras = &doc->request.extras;
    json_t *object = NULL;
    uint64_t bytes;
    PKVI_RETURN_IF(pkvi_json_opt_object(root, "embeds", &object));
    if (!object) {
        return PKV_OK;
    }
    const pkvi_json_at at = {READ, "embeds", object};
    PKVI_RETURN_IF(pkvi_json_check_names(&at, names, sizeof names / sizeof *names));
    PKVI_RETURN_IF(pkvi_json_u64(&at, "row_bytes", 1, PKVI_SIZE_MAX, &extras->embed_row_bytes));
    PKVI_RETURN_IF(read_hex(doc, &at, "data", "two hex digits a byte", &extras->embeds, &bytes));
    if (bytes % extras->embed_row_bytes != 0) {
        return pkvi_json_bad(&at, "data", pkvi_json_get(&at, "data"), "whole rows of row_bytes");
    }
    extras->n_embed_rows = bytes / extras->embed_row_bytes;
    extras->has_embeds = 1;
    return PKV_OK;
}

static pkv_status read_request(pkv_keys_document *doc, const pkvi_json_at *at)
{
    static const char *const names[] = {"tokens", "block_size", "hash",      "seed",
                                        "salt",   "lora",       "mm",        "embeds",
                                        "view",   "group",      "lookahead", "cluster_seed"};
    pkv_keys_request *r = &doc->request;
    PKVI_RETURN_IF(pkvi_json_check_names(at, names, sizeof names / sizeof *names));
    r->group = PKV_NO_GROUP;
    PKVI_RETURN_IF(pkvi_json_u64(at, "block_size", 1, PKVI_SIZE_MAX, &r->unit));
    PKVI_RETURN_IF(pkvi_json_opt_u64(at, "lookahead", 0, PKVI_SIZE_MAX, &r->lookahead));
    PKVI_RETURN_IF(pkvi_json_opt_u64(at, "view", 1, PKVI_SIZE_MAX, &r->view));
    PKVI_RETURN_IF(pkvi_json_opt_u64(at, "group", 0, MAX_GROUP, &r->group));
    if (r->view % r->unit != 0) {
        return pkvi_json_bad(at, "view", pkvi_json_get(at, "view"), "a multiple of block_size");
    }
    PKVI_RETURN_IF(read_tokens(doc, at));
    PKVI_RETURN_IF(read_hasher(doc, at));
    PKVI_RETURN_IF(read_text(doc, at, "salt", &r->extras.salt));
    if (r->extras.salt && r->extras.salt[0] == '\0') {
        return pkvi_json_bad(at, "salt", pkvi_json_get(at, "salt"),
                             "null or a text of some length");
    }
    PKVI_RETURN_IF(read_lora(doc, at));
    PKVI_RETURN_IF(read_media(doc, at));
    return read_embeds(doc, at);
}

pkv_status pkv_keys_document_read(const char *json, size_t len, const pkv_alloc *alloc,
                                  pkv_keys_document **out)
{
    pkvi_arena arena;
    json_t *root = NULL;
    pkv_keys_document *doc = NULL;
    pkv_status st;
    if (out) {
        *out = NULL;
    }
    if (!json || !out) {
        return pkvi_fail(PKV_E_INVAL, READ ": json or out is NULL");
    }
    pkvi_arena_init(&arena, alloc, 8192);
    PKVI_TRY(pkvi_json_load(READ, json, len, &root));
    doc = pkvi_arena_get(&arena, 1, sizeof *doc);
    if (!doc) {
        PKVI_TRY(no_memory());
    }
    doc->arena = arena;
    const pkvi_json_at at = {READ, "", root};
    st = read_request(doc, &at);
    arena = doc->arena; /* it has grown */
    if (st == PKV_OK) {
        *out = doc;
    }
done:
    json_decref(root);
    if (st != PKV_OK) {
        pkvi_arena_free(&arena);
    }
    return st;
}

void pkv_keys_document_destroy(pkv_keys_document *doc)
{
    if (doc) {
        pkvi_arena arena = doc->arena; /* the document lies in it */
        pkvi_arena_free(&arena);
    }
}

const pkv_keys_request *pkv_keys_document_request(const pkv_keys_document *doc)
{
    return &doc->request;
}
