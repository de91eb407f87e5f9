/* document_fixture.h  What the tests of plan documents share. */
#ifndef DOCUMENT_FIXTURE_H
#define DOCUMENT_FIXTURE_H

#include "plan_fixture.h"

#include <pkv/document.h>

/* A full layer as documents write it, with more fields behind; and a document of one of them. */
#define FULL_LAYER(name, more)                                                    \
    "{\"name\": \"" name "\", \"kind\": \"full_attention\", \"block_size\": 16, " \
    "\"num_kv_heads\": 8, \"head_size\": 128, \"dtype\": \"bfloat16\"" more "}"
#define WITH_LAYERS(top, layers)                                         \
    "{\"available_bytes\": 1073741824, \"max_model_len\": 1024" top ", " \
    "\"layers\": [" layers "]}"
#define WITH(top) WITH_LAYERS(top, FULL_LAYER("a", ""))
#define OPTIONS(options) WITH(", \"options\": {" options "}")

static inline pkv_document *read_document_of(const char *json, size_t len)
{
    pkv_document *doc;
    if (pkv_document_read(json, len, NULL, &doc) != PKV_OK) {
        fail_msg("%s\n  in %.*s", pkv_last_error(), (int)len, json);
    }
    return doc;
}

/* A document that must be readable. */
static inline pkv_document *read_document(const char *json)
{
    return read_document_of(json, strlen(json));
}

/* Refused with that status, one line that holds `part`, and no document. */
static inline void assert_bad_document(const char *json, pkv_status status, const char *part)
{
    pkv_document *doc = (pkv_document *)(uintptr_t)1;
    const pkv_status st = pkv_document_read(json, strlen(json), NULL, &doc);
    if (st != status) {
        fail_msg("%s instead of %s: %.200s", pkv_status_name(st), pkv_status_name(status), json);
    }
    assert_null(doc);
    assert_error_text("pkv_document_read", part);
}

static inline void assert_bad_input(const char *json, const char *part)
{
    assert_bad_document(json, PKV_E_INVAL, part);
}

/* The integer of so many bytes at an offset. */
static inline uint64_t number_at(const void *object, size_t offset, size_t bytes)
{
    uint64_t wide = 0;
    uint32_t middle = 0;
    switch (bytes) {
    case 1: return *((const uint8_t *)object + offset);
    case 4: memcpy(&middle, (const char *)object + offset, 4); return middle;
    default: memcpy(&wide, (const char *)object + offset, 8); return wide;
    }
}

#endif
