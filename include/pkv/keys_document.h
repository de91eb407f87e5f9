/** @file keys_document.h  Requests for keys as JSON: tokens, and what their keys depend on.
 *
 *  The format is in docs/formats/keys.md. Part of the optional library pagedkv_model. */
#ifndef PKV_KEYS_DOCUMENT_H
#define PKV_KEYS_DOCUMENT_H

#include <pkv/alloc.h>
#include <pkv/key.h>

PKV_BEGIN_DECLS

/** A document as read. @threads immutable after read */
typedef struct pkv_keys_document pkv_keys_document;

#define PKV_NO_GROUP UINT64_MAX

/** What a document says; all of it is borrowed from the document. */
typedef struct pkv_keys_request {
    pkv_hasher_params hasher; /**< ready for pkv_hasher_create() */
    pkv_extras extras;        /**< checked, without a limit of tokens */
    const int32_t *tokens;    /**< [n_tokens] */
    uint64_t n_tokens;
    uint64_t unit; /**< tokens of one key, at least 1 */
    uint64_t lookahead;
    uint64_t view;  /**< tokens of one block, a multiple of the unit; 0: not asked for */
    uint64_t group; /**< group number of the keys' names, or PKV_NO_GROUP */
} pkv_keys_request;

/** Reads one document. INVAL: anything outside the format; UNSUPPORTED: a key function that cannot
 *  be offered; the text says what, where and what was expected. */
PKV_API PKV_NODISCARD pkv_status pkv_keys_document_read(const char *json, size_t len,
                                                        const pkv_alloc *alloc,
                                                        pkv_keys_document **out);
PKV_API void pkv_keys_document_destroy(pkv_keys_document *doc); /**< NULL is allowed */
PKV_API const pkv_keys_request *pkv_keys_document_request(const pkv_keys_document *doc);

PKV_END_DECLS
#endif
