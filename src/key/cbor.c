/* cbor.c  vLLM's message of a unit: the canonical CBOR (RFC 8949, shortest forms) of
 *
 *   [parent, [token, ...], extra]      extra: null, or [["lora", name, path], ["mm", id, offset]
 * ..., ["cache_salt", salt], ["prompt_embeds", digest]]
 *                                      with lookahead: [extra as above, token, ...] */
#include <string.h>

#include "key/hasher.h"
#include "key/words.h"

enum { UNSIGNED = 0x00, NEGATIVE = 0x20, BYTES = 0x40, TEXT = 0x60, ARRAY = 0x80 };

/* The head of an item; up to 9 bytes, of which 8 are always written. */
static uint8_t *put_head(uint8_t *to, int type, uint64_t n)
{
    if (n < 24) {
        *to = (uint8_t)(type | (int)n);
        return to + 1;
    }
    const int log2_bytes = (n > 0xff) + (n > 0xffff) + (n > 0xffffffff);
    const int bytes = 1 << log2_bytes;
    *to++ = (uint8_t)(type | (24 + log2_bytes));
    pkvi_put_be64(to, n << (64 - 8 * bytes));
    return to + bytes;
}

/* Tokens are what a message mostly consists of, and the sizes of their forms follow no pattern that
 * a branch predictor could learn: so all forms are one word, of which 1 to 5 bytes count. */
uint8_t *pkvi_cbor_put_tokens(uint8_t *to, const int32_t *tokens, size_t n)
{
    static const struct {
        uint64_t head;  /* at the top of the word */
        uint64_t power; /* moves the number behind the head */
        size_t bytes;
    } forms[4] = {{0, UINT64_C(1) << 56, 1},
                  {UINT64_C(24) << 56, UINT64_C(1) << 48, 2},
                  {UINT64_C(25) << 56, UINT64_C(1) << 40, 3},
                  {UINT64_C(26) << 56, UINT64_C(1) << 24, 5}};
    for (size_t i = 0; i < n; i++) {
        const int32_t token = tokens[i];
        const size_t form = ((uint32_t)(23 - token) >> 31) + ((uint32_t)(0xff - token) >> 31) +
                            ((uint32_t)(0xffff - token) >> 31); /* sign bits: limits passed */
        pkvi_put_be64(to, forms[form].head | (uint32_t)token * forms[form].power);
        to += forms[form].bytes;
    }
    return to;
}

static uint8_t *put_bytes(uint8_t *to, int type, const void *bytes, size_t n)
{
    to = put_head(to, type, n);
    memcpy(to, bytes, n);
    return to + n;
}

static uint8_t *put_text(uint8_t *to, const char *text)
{
    return put_bytes(to, TEXT, text, strlen(text));
}

static uint8_t *put_media(uint8_t *to, const pkv_media *media, uint64_t start)
{
    to = put_head(to, ARRAY, 3);
    to = put_text(to, "mm");
    to = put_text(to, media->id);
    return media->offset >= start ? put_head(to, UNSIGNED, media->offset - start)
                                  : put_head(to, NEGATIVE, start - media->offset - 1);
}

static uint8_t *put_extras(const pkvi_request *r, uint64_t start, uint64_t end, uint8_t *to)
{
    pkv_unit_extras u;
    pkvi_unit_extras(r->extras, start, end, &u);
    if (!u.any) {
        *to = PKVI_CBOR_NOTHING;
        return to + 1;
    }
    to = put_head(to, ARRAY,
                  (uint64_t)(u.lora_name != NULL) + u.n_media + (u.salt != NULL) + u.has_embeds);
    if (u.lora_name) {
        to = put_head(to, ARRAY, 3);
        to = put_text(to, "lora");
        to = put_bytes(to, TEXT, u.lora_name, r->lora_name_bytes);
        to = put_bytes(to, TEXT, r->extras->lora_path, r->lora_path_bytes);
    }
    for (uint32_t i = 0; i < u.n_media; i++) {
        to = put_media(to, &r->extras->media[u.first_media + i], start);
    }
    if (u.salt) {
        to = put_head(to, ARRAY, 2);
        to = put_text(to, "cache_salt");
        to = put_bytes(to, TEXT, u.salt, r->salt_bytes);
    }
    if (u.has_embeds) {
        to = put_head(to, ARRAY, 2);
        to = put_text(to, "prompt_embeds");
        to = put_bytes(to, BYTES, u.embeds_digest, sizeof u.embeds_digest);
    }
    return to;
}

size_t pkvi_cbor_front(const pkvi_request *r, uint8_t *message)
{
    uint8_t *to = put_head(message, ARRAY, 3);
    to = put_head(to, BYTES, r->key_bytes);
    to = put_head(to + r->key_bytes, ARRAY, r->unit);
    return (size_t)(to - message);
}

uint8_t *pkvi_cbor_tail(const pkvi_request *r, uint64_t unit, uint8_t *to)
{
    const uint64_t start = unit * r->unit;
    const uint64_t end = start + r->unit;
    if (r->lookahead > 0) {
        to = put_head(to, ARRAY, 1 + r->lookahead);
    }
    if (r->extras) {
        to = put_extras(r, start, end + r->lookahead, to);
    } else {
        *to++ = PKVI_CBOR_NOTHING;
    }
    return r->lookahead > 0 ? r->put_tokens(to, r->tokens + end, r->lookahead) : to;
}

size_t pkvi_cbor_text(const char *text, size_t bytes, uint8_t *message)
{
    return (size_t)(put_bytes(message, TEXT, text, bytes) - message);
}

pkvi_put_tokens *pkvi_cbor_choose_put_tokens(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
        return pkvi_cbor_put_tokens_avx512;
    }
#endif
    return pkvi_cbor_put_tokens;
}
