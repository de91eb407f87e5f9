/* key.c  Names of the functions, the life of a hasher, counts, and the forms that events use. */
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/math.h"
#include "base/params.h"
#include "base/utf8.h"
#include "key/digest.h"
#include "key/hasher.h"
#include "key/words.h"

static const struct {
    const char *name;
    uint32_t key_bytes;
} functions[PKV_N_HASHES] = {
    [PKV_HASH_SHA256_CBOR] = {"sha256_cbor", 32},
    [PKV_HASH_XXHASH_CBOR] = {"xxhash_cbor", 16},
    [PKV_HASH_PKV_SHA256] = {"pkv_sha256", 32},
    [PKV_HASH_PKV_XXH3] = {"pkv_xxh3", 16},
};

const char *pkv_hash_name(uint32_t hash)
{
    return hash < PKV_N_HASHES ? functions[hash].name : NULL;
}

uint32_t pkv_hash_key_bytes(uint32_t hash)
{
    return hash < PKV_N_HASHES ? functions[hash].key_bytes : 0;
}

/* The beginning of a text as one line. */
static const char *show(const char *text, char shown[44])
{
    size_t n = 0;
    for (; text[n] && n < 40; n++) {
        shown[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    }
    memcpy(shown + n, text[n] ? "..." : "", text[n] ? 4 : 1);
    return shown;
}

pkv_status pkv_hash_from_name(const char *name, uint32_t *hash_out)
{
    char shown[44];
    if (!name || !hash_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_hash_from_name: name or hash_out is NULL");
    }
    for (uint32_t i = 0; i < PKV_N_HASHES; i++) {
        if (strcmp(functions[i].name, name) == 0) {
            *hash_out = i;
            return PKV_OK;
        }
    }
    if (strcmp(name, "sha256") == 0 || strcmp(name, "xxhash") == 0) {
        return pkvi_fail(PKV_E_UNSUPPORTED,
                         "pkv_hash_from_name: name \"%s\": it digests a Python pickle, which only "
                         "Python can make; use \"%s_cbor\"",
                         name, name);
    }
    return pkvi_fail(PKV_E_INVAL,
                     "pkv_hash_from_name: name \"%s\" is none of sha256_cbor, xxhash_cbor, "
                     "pkv_sha256, pkv_xxh3",
                     show(name, shown));
}

void pkv_hasher_params_init(pkv_hasher_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

static pkv_status import_params(const pkv_hasher_params *given, pkv_hasher_params *out)
{
    pkv_hasher_params_init(out);
    PKVI_RETURN_IF(pkvi_import_params("pkv_hasher_create", given, out, sizeof *out));
    if (out->hash >= PKV_N_HASHES) {
        return pkvi_fail(PKV_E_INVAL, "pkv_hasher_create: hash %" PRIu32 " is unknown", out->hash);
    }
    if (out->cluster_seed && !pkvi_hash_is_ours(out->hash)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_hasher_create: cluster_seed with %s, which has no place for it",
                         functions[out->hash].name);
    }
    if (out->seed && !pkvi_utf8_valid(out->seed)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_hasher_create: seed is not UTF-8");
    }
    return PKV_OK;
}

pkv_status pkvi_hasher_reserve(const char *function, pkv_hasher *hasher, uint64_t bytes)
{
    uint64_t half, whole;
    if (bytes <= hasher->half_bytes) {
        return PKV_OK;
    }
    if (!pkvi_round_up(bytes, 64, &half) || !pkvi_mul(2, half, &whole) || whole > SIZE_MAX) {
        return pkvi_fail(PKV_E_NOMEM, "%s: no memory for messages of %" PRIu64 " bytes", function,
                         bytes);
    }
    uint8_t *room = hasher->hooks.alloc(hasher->hooks.ctx, (size_t)whole, 64);
    if (!room) {
        return pkvi_fail(PKV_E_NOMEM, "%s: no memory for messages: %" PRIu64 " bytes", function,
                         whole);
    }
    if (hasher->room) {
        hasher->hooks.free(hasher->hooks.ctx, hasher->room, 2 * hasher->half_bytes, 64);
    }
    hasher->room = room;
    hasher->half_bytes = (size_t)half;
    return PKV_OK;
}

static void set_none_key(pkv_hasher *hasher, const char *seed, size_t bytes)
{
    if (pkvi_hash_is_ours(hasher->hash)) {
        pkvi_sha256(seed, bytes, hasher->seed_digest);
        pkvi_preimage_root(hasher, NULL, &hasher->none_key);
        return;
    }
    const size_t len = pkvi_cbor_text(seed, bytes, hasher->room);
    if (hasher->key_bytes == 32) {
        pkvi_sha256(hasher->room, len, hasher->none_key.bytes);
        return;
    }
    const XXH128_hash_t hash = pkvi_xxh3(hasher->room, len);
    pkvi_put_be64(hasher->none_key.bytes, hash.high64);
    pkvi_put_be64(hasher->none_key.bytes + 8, hash.low64);
}

pkv_status pkv_hasher_create(const pkv_hasher_params *params, pkv_hasher **out)
{
    enum { USUAL_BYTES = 1024 }; /* a unit of 128 tokens with a few extras */
    pkv_status st;
    pkv_hasher_params p;
    pkv_hasher *hasher = NULL;
    if (out) {
        *out = NULL;
    }
    if (!params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_hasher_create: params or out is NULL");
    }
    PKVI_RETURN_IF(import_params(params, &p));
    const pkv_alloc *hooks = p.alloc ? p.alloc : &pkvi_libc_alloc;
    hasher = hooks->alloc(hooks->ctx, sizeof *hasher, _Alignof(pkv_hasher));
    if (!hasher) {
        return pkvi_fail(PKV_E_NOMEM, "pkv_hasher_create: no memory: %zu bytes", sizeof *hasher);
    }
    memset(hasher, 0, sizeof *hasher);
    hasher->hooks = *hooks;
    hasher->hash = p.hash;
    hasher->key_bytes = functions[p.hash].key_bytes;
    hasher->put_tokens = pkvi_cbor_choose_put_tokens();
    hasher->chain = hasher->key_bytes == 32 ? pkvi_chain_sha256 : pkvi_chain_choose_xxh3();
    if (p.cluster_seed) {
        memcpy(hasher->cluster_seed, p.cluster_seed, sizeof hasher->cluster_seed);
    }
    const char *seed = p.seed ? p.seed : "vllm-none-hash";
    const size_t bytes = strlen(seed);
    PKVI_TRY(pkvi_hasher_reserve("pkv_hasher_create", hasher,
                                 pkvi_max(USUAL_BYTES, (uint64_t)bytes + PKVI_MESSAGE_SLACK + 16)));
    set_none_key(hasher, seed, bytes);
    *out = hasher;
    hasher = NULL;
done:
    pkv_hasher_destroy(hasher);
    return st;
}

void pkv_hasher_destroy(pkv_hasher *hasher)
{
    if (!hasher) {
        return;
    }
    const pkv_alloc hooks = hasher->hooks;
    if (hasher->room) {
        hooks.free(hooks.ctx, hasher->room, 2 * hasher->half_bytes, 64);
    }
    hooks.free(hooks.ctx, hasher, sizeof *hasher, _Alignof(pkv_hasher));
}

uint32_t pkv_hasher_hash(const pkv_hasher *hasher)
{
    return hasher->hash;
}

uint32_t pkv_hasher_key_bytes(const pkv_hasher *hasher)
{
    return hasher->key_bytes;
}

const pkv_key *pkv_hasher_none_key(const pkv_hasher *hasher)
{
    return &hasher->none_key;
}

uint64_t pkv_key_count(uint64_t n_tokens, uint64_t unit, uint64_t lookahead)
{
    return unit == 0 || n_tokens < lookahead ? 0 : (n_tokens - lookahead) / unit;
}

uint64_t pkv_key_event_int(const pkv_key *key, uint32_t key_bytes)
{
    return pkvi_get_be64(key->bytes + (key_bytes == 16 ? 8 : 24));
}

void pkv_key_group_bytes(const pkv_key *key, uint32_t key_bytes, uint32_t group, uint8_t *out)
{
    memcpy(out, key->bytes, key_bytes);
    pkvi_put_be32(out + key_bytes, group);
}
