/* hasher.h  A hasher, and one call's view of a request.
 *
 * Every unit has one message: the bytes that are digested. All of it but the parent is known before
 * the parent is, so messages are written one unit ahead, into two halves of one buffer in turn. */
#ifndef PKVI_HASHER_H
#define PKVI_HASHER_H

#include <stdbool.h>

#include <pkv/key.h>

/* Tokens in canonical CBOR, from `to` on; returns the end. May write PKVI_MESSAGE_SLACK bytes
 *  more. */
typedef uint8_t *pkvi_put_tokens(uint8_t *to, const int32_t *tokens, size_t n);

pkvi_put_tokens pkvi_cbor_put_tokens;
#ifdef __x86_64__
pkvi_put_tokens pkvi_cbor_put_tokens_avx512; /* needs AVX-512 with VBMI2, and BMI2 */
#endif
/* The fastest one that this processor can run. */
pkvi_put_tokens *pkvi_cbor_choose_put_tokens(void);

typedef struct pkvi_request pkvi_request;

/* Keys of the units [first, last) of a request, when nothing can fail any more. */
typedef void pkvi_chain(const pkv_hasher *hasher, const pkvi_request *r, uint64_t first,
                        uint64_t last, const pkv_key *parent, pkv_key *keys);

pkvi_chain pkvi_chain_sha256, pkvi_chain_xxh3;
#ifdef __x86_64__
pkvi_chain pkvi_chain_xxh3_avx512; /* needs what pkvi_cbor_put_tokens_avx512() does */
#endif
/* The fastest one that this processor can run. */
pkvi_chain *pkvi_chain_choose_xxh3(void);

struct pkv_hasher {
    pkv_alloc hooks;
    uint32_t hash;
    uint32_t key_bytes;
    pkv_key none_key;
    uint8_t seed_digest[32];  /* our own functions: SHA-256 of the seed text */
    uint8_t cluster_seed[32]; /* our own functions */
    pkvi_put_tokens *put_tokens;
    pkvi_chain *chain;
    uint8_t *room;     /* two messages */
    size_t half_bytes; /* room of one, PKVI_MESSAGE_SLACK included */
};

static inline bool pkvi_hash_is_ours(uint32_t hash)
{
    return hash >= PKV_HASH_PKV_SHA256;
}

/* Room for messages of that size, slack included. The old ones are lost. */
pkv_status pkvi_hasher_reserve(const char *function, pkv_hasher *hasher, uint64_t bytes);

/* What writing a message may touch beyond its end: a vector, or the padding of SHA-256. */
#define PKVI_MESSAGE_SLACK 80

/* pkv_key_chain(); `checked`: no token is negative. */
pkv_status pkvi_key_chain(pkv_hasher *hasher, const pkv_extras *extras, const int32_t *tokens,
                          uint64_t n_tokens, uint64_t unit, uint64_t lookahead, uint64_t first,
                          uint64_t last, const pkv_key *parent, pkv_key *keys, bool checked);

/* The arguments of pkv_key_chain(), with the lengths of the texts that every unit repeats. */
struct pkvi_request {
    uint32_t key_bytes;
    pkvi_put_tokens *put_tokens;
    const pkv_extras *extras; /* NULL: none */
    size_t lora_name_bytes, lora_path_bytes, salt_bytes;
    const int32_t *tokens;
    size_t unit, lookahead; /* tokens */
};

/* A message has a front, the same for all units but for the parent, then the tokens of its unit,
 * and a tail. Who writes a front returns its bytes. */

/* vLLM's message: canonical CBOR of [parent, [tokens], extra]. */
enum {
    PKVI_CBOR_PARENT_AT = 2, /* of 16 bytes; of 32: 3 */
    PKVI_CBOR_NOTHING = 0xf6 /* the tail of a unit without extras */
};
size_t pkvi_cbor_front(const pkvi_request *request, uint8_t *message);
/* The extra: what follows the tokens. Returns the end of the message. */
uint8_t *pkvi_cbor_tail(const pkvi_request *request, uint64_t unit, uint8_t *to);
/* Of a text alone, for the seed. Returns the bytes written, at most 9 more than the text has. */
size_t pkvi_cbor_text(const char *text, size_t bytes, uint8_t *message);

/* Our own; docs/formats/keys.md. Its tokens are those of the unit and of the lookahead. */
enum { PKVI_PREIMAGE_PARENT_AT = 8 };
size_t pkvi_preimage_front(const pkvi_request *request, uint8_t *message);
/* Also sets the kind in the front. Returns the end of the message. */
uint8_t *pkvi_preimage_tail(const pkvi_request *request, uint64_t unit, uint8_t *message,
                            uint8_t *to);

/* All of a message but its front, of either kind. Returns its end. */
uint8_t *pkvi_message_rest(const pkvi_request *r, bool ours, uint64_t unit, uint8_t *message,
                           size_t tokens_at);

/* The root of our own functions: what a first unit has as its parent. salt NULL: none. */
void pkvi_preimage_root(const pkv_hasher *hasher, const char *salt, pkv_key *out);

/* What a unit adds to its message beside the tokens, at most, over the units of [start, end). */
pkv_status pkvi_extras_bytes(const pkvi_request *request, uint64_t start, uint64_t end,
                             uint64_t *out);

/* As pkv_key_unit_extras(), for extras that were checked; [start, end) holds the lookahead. */
void pkvi_unit_extras(const pkv_extras *extras, uint64_t start, uint64_t end, pkv_unit_extras *out);

/* Refuses, in time that does not grow with the media, what would make reading the extras unsafe. */
pkv_status pkvi_extras_check_shape(const char *function, const pkv_extras *extras);

#endif
