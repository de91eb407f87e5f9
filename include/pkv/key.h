/** @file key.h  Chained block keys: what names the content of a block.
 *
 *  The tokens of a request are cut into *units* of a fixed number of tokens. The key of unit i is
 *  a digest over the key of unit i - 1, the tokens of unit i, and whatever else its content
 *  depends on: an adapter, media, a salt. Equal keys mean equal content of the whole prefix.
 *  Preimages, byte for byte, and vectors: docs/formats/keys.md. */
#ifndef PKV_KEY_H
#define PKV_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pkv/alloc.h>
#include <pkv/export.h>
#include <pkv/status.h>

PKV_BEGIN_DECLS

/** Key functions. The first two are byte-equal to vLLM's; the other two are ours, with a 32-byte
 *  cluster seed and a salt that is part of the root. vLLM's "sha256" and "xxhash" digest a Python
 *  pickle and cannot be offered. Numbers are frozen. */
typedef enum pkv_hash {
    PKV_HASH_SHA256_CBOR = 0, /**< SHA-256 of canonical CBOR; 32 bytes */
    PKV_HASH_XXHASH_CBOR = 1, /**< XXH3-128 of canonical CBOR, big-endian; 16 bytes */
    PKV_HASH_PKV_SHA256 = 2,  /**< SHA-256 of our preimage; 32 bytes */
    PKV_HASH_PKV_XXH3 = 3,    /**< XXH3-128 of our preimage; 16 bytes; not collision resistant */
    PKV_N_HASHES = 4
} pkv_hash;

/** A key; of a 16-byte function the last 16 bytes are 0. Byte order is fixed. */
typedef struct pkv_key {
    uint8_t bytes[32];
} pkv_key;

/** One image, audio clip, ... in the prompt: `length` placeholder tokens from `offset`. */
typedef struct pkv_media {
    const char *id; /**< digest or name of its content */
    uint64_t offset, length;
} pkv_media;

/** What a request's content depends on beside its tokens. Texts are UTF-8; all borrowed. */
typedef struct pkv_extras {
    const char *lora_name, *lora_path; /**< adapter; NULL: none, else both */
    const char *salt;                  /**< isolates tenants; NULL: none, never "" */
    const pkv_media *media;            /**< [n_media], ascending and disjoint */
    const uint8_t *embeds;             /**< [n_embed_rows, embed_row_bytes]; row i: token i */
    uint64_t embed_row_bytes, n_embed_rows;
    uint32_t n_media;
    uint8_t has_embeds; /**< prompt embeddings stand in for tokens (which are then 0) */
    uint8_t reserved[3];
} pkv_extras;

/** Computes keys; holds the seed and room for long preimages. @threads one thread at a time */
typedef struct pkv_hasher pkv_hasher;

typedef struct pkv_hasher_params {
    uint32_t struct_size; /**< set by init */
    uint32_t hash;        /**< pkv_hash */
    const pkv_alloc *alloc;
    const char *seed;            /**< text; NULL: "vllm-none-hash" */
    const uint8_t *cluster_seed; /**< [32], our own functions only; NULL: zeros */
} pkv_hasher_params;

/** Name of a key function ("sha256_cbor"); NULL for an unknown number. @threads any */
PKV_API const char *pkv_hash_name(uint32_t hash);
/** INVAL: unknown; UNSUPPORTED: "sha256" and "xxhash", with the reason. @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_hash_from_name(const char *name, uint32_t *hash_out);
/** 32 or 16; 0 for an unknown number. @threads any */
PKV_API uint32_t pkv_hash_key_bytes(uint32_t hash);

PKV_API void pkv_hasher_params_init(pkv_hasher_params *params);
/** INVAL: an unknown function, or a cluster seed with one of vLLM's; NOMEM. */
PKV_API PKV_NODISCARD pkv_status pkv_hasher_create(const pkv_hasher_params *params,
                                                   pkv_hasher **out);
PKV_API void pkv_hasher_destroy(pkv_hasher *hasher); /**< NULL is allowed */
PKV_API uint32_t pkv_hasher_hash(const pkv_hasher *hasher);
PKV_API uint32_t pkv_hasher_key_bytes(const pkv_hasher *hasher);
/** The key before the first unit of a request without extras. */
PKV_API const pkv_key *pkv_hasher_none_key(const pkv_hasher *hasher);

/** Checks the extras of a request: INVAL names the field. Media and rows end within n_tokens
 *  (UINT64_MAX: no limit). extras may be NULL. O(texts and media). @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_extras_check(const pkv_extras *extras, uint64_t n_tokens);

/** Units that have a key: whole ones whose `lookahead` following tokens exist too. @threads any */
PKV_API uint64_t pkv_key_count(uint64_t n_tokens, uint64_t unit, uint64_t lookahead);

/** Keys of the units [first, last). `parent` is the key of unit first - 1, and ignored for first 0,
 *  whose parent is the root. Appending tokens never changes earlier keys.
 *  tokens: [n_tokens], 0 .. 2^31-1, of which those of the units and their lookahead are read;
 *  extras: NULL for none, else as pkv_extras_check() accepts them (which is not repeated here but
 *  for what memory safety needs); keys: [last - first], written on success only, may begin at
 *  `parent`. INVAL: last beyond pkv_key_count(), unit 0, first > last, no parent, a negative token.
 *  NOMEM: a preimage is longer than any before and there is no memory for it; nothing else
 *  allocates. O(tokens of the units). */
PKV_API PKV_NODISCARD pkv_status pkv_key_chain(pkv_hasher *hasher, const pkv_extras *extras,
                                               const int32_t *tokens, uint64_t n_tokens,
                                               uint64_t unit, uint64_t lookahead, uint64_t first,
                                               uint64_t last, const pkv_key *parent, pkv_key *keys);

/** What a key of the tokens [start, end) depends on beside them; as events tell it. */
typedef struct pkv_unit_extras {
    const char *lora_name;         /**< or NULL */
    const char *salt;              /**< first unit only, or NULL */
    uint32_t first_media, n_media; /**< range of extras->media that overlaps; events carry
                                        (id, offset - start) of each */
    uint8_t has_embeds;
    uint8_t any; /**< 0: nothing of the above */
    uint8_t reserved[6];
    uint8_t embeds_digest[32]; /**< SHA-256 of the rows of the range that exist */
} pkv_unit_extras;

/** With `lookahead` the extras reach over the tokens after `end` too. extras may be NULL.
 *  @threads any */
PKV_API PKV_NODISCARD pkv_status pkv_key_unit_extras(const pkv_extras *extras, uint64_t start,
                                                     uint64_t end, uint64_t lookahead,
                                                     pkv_unit_extras *out);

/** The low 64 bits of the key read as a big-endian integer: how some events name it. */
PKV_API uint64_t pkv_key_event_int(const pkv_key *key, uint32_t key_bytes);
/** Key and group number, 4 bytes big-endian: a key's name within one cache.
 *  out: [key_bytes + 4], written. */
PKV_API void pkv_key_group_bytes(const pkv_key *key, uint32_t key_bytes, uint32_t group,
                                 uint8_t *out);

PKV_END_DECLS
#endif
