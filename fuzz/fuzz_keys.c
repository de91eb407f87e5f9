/* fuzz_keys.c  Any bytes as a request for keys: read or refused with a text; what was read has
 * keys, and the same ones when they are made one by one. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pkv/keys_document.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) abort();
}

static void make_keys(const pkv_keys_request *r)
{
    pkv_hasher *hasher = NULL;
    const uint64_t n = pkv_key_count(r->n_tokens, r->unit, r->lookahead);
    pkv_key *keys = calloc(n + 1, sizeof *keys);
    require(keys != NULL && pkv_hasher_create(&r->hasher, &hasher) == PKV_OK);
    require(pkv_extras_check(&r->extras, UINT64_MAX) == PKV_OK);
    require(pkv_key_chain(hasher, &r->extras, r->tokens, r->n_tokens, r->unit, r->lookahead, 0, n,
                          NULL, keys) == PKV_OK);
    for (uint64_t i = 0; i < n; i++) {
        pkv_key one;
        pkv_unit_extras extras;
        const uint64_t start = i * r->unit;
        require(pkv_key_chain(hasher, &r->extras, r->tokens, start + r->unit + r->lookahead,
                              r->unit, r->lookahead, i, i + 1, i > 0 ? &keys[i - 1] : NULL,
                              &one) == PKV_OK);
        require(memcmp(&one, &keys[i], sizeof one) == 0);
        require(pkv_key_unit_extras(&r->extras, start, start + r->unit, r->lookahead, &extras) ==
                PKV_OK);
        require(extras.n_media == 0 || extras.first_media + extras.n_media <= r->extras.n_media);
    }
    pkv_hasher_destroy(hasher);
    free(keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pkv_keys_document *doc;
    const pkv_status st = pkv_keys_document_read((const char *)data, size, NULL, &doc);
    require((st == PKV_OK) == (doc != NULL));
    if (st == PKV_OK) {
        make_keys(pkv_keys_document_request(doc));
    } else {
        require(pkv_last_error()[0] != '\0');
    }
    pkv_keys_document_destroy(doc);
    return 0;
}
