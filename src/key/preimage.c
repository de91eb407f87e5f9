/* preimage.c  Our own message of a unit, and the root. docs/formats/keys.md describes the bytes;
 * they are frozen as version 1. */
#include <string.h>

#include "key/digest.h"
#include "key/hasher.h"
#include "key/words.h"

/* The last byte of the 8 that begin every message. */
enum { ROOT = 0x00, UNIT = 0x80, HAS_LORA = 0x01, HAS_MEDIA = 0x02, HAS_EMBEDS = 0x04 };
enum { LABEL_BYTES = 8 };

static void put_label(uint8_t *to, int kind)
{
    memcpy(to, "pkvkey\x01", 7);
    to[7] = (uint8_t)kind;
}

static uint8_t *put_u64(uint8_t *to, uint64_t value)
{
    pkvi_put_le64(to, value);
    return to + 8;
}

static uint8_t *put_text(uint8_t *to, const char *text, size_t bytes)
{
    to = put_u64(to, bytes);
    memcpy(to, text, bytes);
    return to + bytes;
}

size_t pkvi_preimage_front(const pkvi_request *r, uint8_t *message)
{
    uint8_t *counts = message + PKVI_PREIMAGE_PARENT_AT + r->key_bytes;
    put_label(message, UNIT);
    pkvi_put_le32(counts, (uint32_t)r->unit);
    pkvi_put_le32(counts + 4, (uint32_t)r->lookahead);
    return LABEL_BYTES + r->key_bytes + 8;
}

uint8_t *pkvi_preimage_tail(const pkvi_request *r, uint64_t unit, uint8_t *message, uint8_t *to)
{
    pkv_unit_extras u;
    const uint64_t start = unit * r->unit;
    int kind = UNIT;
    pkvi_unit_extras(r->extras, start, start + r->unit + r->lookahead, &u);
    if (u.lora_name) {
        kind |= HAS_LORA;
        to = put_text(to, u.lora_name, r->lora_name_bytes);
        to = put_text(to, r->extras->lora_path, r->lora_path_bytes);
    }
    if (u.n_media > 0) {
        kind |= HAS_MEDIA;
        to = put_u64(to, u.n_media);
        for (uint32_t i = 0; i < u.n_media; i++) {
            const pkv_media *media = &r->extras->media[u.first_media + i];
            /* the difference as a signed number in two's complement */
            to = put_u64(to, media->offset >= start ? media->offset - start
                                                    : ~(start - media->offset - 1));
            to = put_text(to, media->id, strlen(media->id));
        }
    }
    if (u.has_embeds) {
        kind |= HAS_EMBEDS;
        memcpy(to, u.embeds_digest, sizeof u.embeds_digest);
        to += sizeof u.embeds_digest;
    }
    put_label(message, kind);
    return to;
}

void pkvi_preimage_root(const pkv_hasher *hasher, const char *salt, pkv_key *out)
{
    uint8_t message[72], salted[32] = {0};
    if (salt) {
        pkvi_sha256(salt, strlen(salt), salted);
    }
    put_label(message, ROOT);
    memcpy(message + 8, hasher->seed_digest, 32);
    for (size_t i = 0; i < 32; i++) {
        message[40 + i] = hasher->cluster_seed[i] ^ salted[i];
    }
    pkvi_sha256(message, sizeof message, out->bytes);
    memset(out->bytes + hasher->key_bytes, 0, 32 - hasher->key_bytes);
}
