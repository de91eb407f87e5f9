/* chain_xxh3.h  Keys of a row of units by XXH3: a text that is compiled once for each way to write
 * tokens. The includer defines
 *
 *   CHAIN_NAME     the function that is made
 *   CHAIN_TARGET   its attribute, or nothing
 *   forms          a type: what writing tokens needs
 *   CHAIN_FORMS    declares `f` of it, once for a chain
 *   CHAIN_TOKENS   a pkvi_put_tokens that knows `f`, a pointer there
 *
 * A digest takes hardly longer than a call would, and writing a message not much less: so all is
 * one loop without calls. Messages are written one unit ahead, as in chain.c. */
#include <stdbool.h>
#include <string.h>

#include "base/xxh3.h"
#include "key/digest.h"
#include "key/hasher.h"
#include "key/words.h"

/* What the compiler must take as it is: it would join two of these to one vector, through which
 * each would come later, or make a store smaller than what is read back. */
#define AS_IT_IS(word) __asm__("" : "+r"(word))

#define CHAIN_INLINE __attribute__((always_inline)) CHAIN_TARGET static inline

/* pkvi_message_rest(), without a call where there are no extras and no lookahead: `plain`. */
CHAIN_INLINE uint8_t *write_rest(const forms *f, const pkvi_request *r, bool ours, bool plain,
                                 const int32_t *tokens, size_t n, uint64_t unit, uint8_t *message,
                                 size_t tokens_at)
{
    uint8_t *to = message + tokens_at;
    if (!plain) {
        return pkvi_message_rest(r, ours, unit, message, tokens_at);
    }
    if (ours) {
        return pkvi_put_le32s(to, tokens, n);
    }
    to = CHAIN_TOKENS(to, tokens, n);
    *to = PKVI_CBOR_NOTHING;
    return to + 1;
}

/* Without the bits that would be lost, as a sanitizer wants it. */
CHAIN_INLINE uint64_t shift_left(uint64_t word, unsigned bits)
{
    return (word & UINT64_MAX >> bits) << bits;
}

/* Writes a parent by whole aligned words, those that the digest reads: a word that is put together
 * of two stores would have to wait until both have reached the cache. Messages are aligned. */
CHAIN_INLINE void put_parent(uint8_t *message, size_t at, uint64_t first, uint64_t second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const unsigned shift = 8 * (at & 7);
    if (shift != 0) {
        const uint64_t before = (UINT64_C(1) << shift) - 1;
        uint64_t words[3];
        message += at & ~(size_t)7;
        memcpy(&words[0], message, 8);
        memcpy(&words[2], message + 16, 8);
        words[0] = (words[0] & before) | shift_left(first, shift);
        words[1] = first >> (64 - shift) | shift_left(second, shift);
        words[2] = (words[2] & ~before) | second >> (64 - shift);
        AS_IT_IS(words[0]);
        AS_IT_IS(words[1]);
        AS_IT_IS(words[2]);
        memcpy(message, &words[0], 8);
        memcpy(message + 8, &words[1], 8);
        memcpy(message + 16, &words[2], 8);
        return;
    }
#endif
    memcpy(message + at, &first, 8);
    memcpy(message + at + 8, &second, 8);
}

/* Digests a message into its key and into the front of the next one. The secret is the usual one,
 * but in memory: of constants, each word would be loaded by an instruction of its own. */
CHAIN_INLINE void digest(const uint8_t *message, const uint8_t *end, pkv_key *key, uint8_t *next,
                         size_t parent_at)
{
    const size_t bytes = (size_t)(end - message);
    const uint8_t *secret = XXH3_kSecret;
    AS_IT_IS(secret);
    const XXH128_hash_t hash =
        bytes > 16 && bytes <= 128
            ? XXH3_128bits_withSecret(message, bytes, secret, sizeof XXH3_kSecret)
            : pkvi_xxh3(message, bytes);
    uint64_t first = PKVI_BIG64(hash.high64), second = PKVI_BIG64(hash.low64);
    AS_IT_IS(first);
    AS_IT_IS(second);
    put_parent(next, parent_at, first, second);
    memcpy(key->bytes, &first, 8);
    memcpy(key->bytes + 8, &second, 8);
    memset(key->bytes + 16, 0, 16);
}

/* `ours`, and most often `plain` and `n`, the tokens of a unit, are constants where it ends up. */
CHAIN_INLINE void chain(const pkv_hasher *hasher, const pkvi_request *r, uint64_t unit,
                        uint64_t last, const pkv_key *parent, pkv_key *keys, bool ours, bool plain,
                        size_t n)
{
    CHAIN_FORMS;
    uint8_t *now = hasher->room, *next = hasher->room + hasher->half_bytes;
    const size_t parent_at = ours ? PKVI_PREIMAGE_PARENT_AT : PKVI_CBOR_PARENT_AT;
    const size_t tokens_at = ours ? pkvi_preimage_front(r, now) : pkvi_cbor_front(r, now);
    const int32_t *tokens = r->tokens + unit * n;
    memcpy(next, now, tokens_at);
    memcpy(now + parent_at, parent->bytes, 16);
    const uint8_t *end = write_rest(&f, r, ours, plain, tokens, n, unit, now, tokens_at);
    while (++unit < last) {
        tokens += n;
        const uint8_t *next_end = write_rest(&f, r, ours, plain, tokens, n, unit, next, tokens_at);
        digest(now, end, keys++, next, parent_at);
        uint8_t *done = now;
        now = next;
        end = next_end;
        next = done;
    }
    digest(now, end, keys, next, parent_at);
}

__attribute__((flatten)) CHAIN_TARGET void CHAIN_NAME(const pkv_hasher *hasher,
                                                      const pkvi_request *r, uint64_t first,
                                                      uint64_t last, const pkv_key *parent,
                                                      pkv_key *keys)
{
    enum { USUAL = 16 };
    const bool ours = pkvi_hash_is_ours(hasher->hash);
    const bool plain = !r->extras && r->lookahead == 0, usual = plain && r->unit == USUAL;
    if (ours && usual) {
        chain(hasher, r, first, last, parent, keys, true, true, USUAL);
    } else if (ours) {
        chain(hasher, r, first, last, parent, keys, true, plain, r->unit);
    } else if (usual) {
        chain(hasher, r, first, last, parent, keys, false, true, USUAL);
    } else {
        chain(hasher, r, first, last, parent, keys, false, plain, r->unit);
    }
}
