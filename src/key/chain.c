/* chain.c  Keys of a row of units.
 *
 * Messages are written one unit ahead of the digests, in turn into two halves of a buffer:
 *
 *     write 0 | write 1, digest 0 | write 2, digest 1 | ...
 *
 * The next message is then made while the processor waits for the digest before it, and its bytes
 * have reached the cache when they are digested. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/tokens.h"
#include "key/digest.h"
#include "key/hasher.h"
#include "key/words.h"

static pkv_status check_span(uint64_t n_tokens, uint64_t unit, uint64_t lookahead, uint64_t first,
                             uint64_t last)
{
    const uint64_t most = pkv_key_count(n_tokens, unit, lookahead);
    if (unit == 0) {
        return pkvi_fail(PKV_E_INVAL, "pkv_key_chain: unit is 0");
    }
    if (first > last || last > most) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_key_chain: units [%" PRIu64 ", %" PRIu64 ") of %" PRIu64
                         " that have a key",
                         first, last, most);
    }
    if (first < last && (unit > INT32_MAX || lookahead > INT32_MAX)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_key_chain: unit %" PRIu64 " or lookahead %" PRIu64
                         " is above 2^31-1 tokens",
                         unit, lookahead);
    }
    return PKV_OK;
}

static pkv_status check_tokens(const int32_t *tokens, uint64_t from, uint64_t to)
{
    const uint64_t bad = pkvi_first_negative(tokens + from, to - from);
    return bad == to - from ? PKV_OK
                            : pkvi_fail(PKV_E_INVAL, "pkv_key_chain: token %" PRIu64 " is %" PRId32,
                                        from + bad, tokens[from + bad]);
}

/* Makes room for the messages of all units, so that nothing can fail once keys are written. */
static pkv_status prepare(pkv_hasher *hasher, const pkvi_request *r, uint64_t first, uint64_t last,
                          bool checked)
{
    const uint64_t from = first * r->unit;
    const uint64_t to = last * r->unit + r->lookahead;
    uint64_t bytes;
    if (!checked) {
        PKVI_RETURN_IF(check_tokens(r->tokens, from, to));
    }
    PKVI_RETURN_IF(pkvi_extras_bytes(r, from, to, &bytes));
    /* the longest form of a token takes 5 bytes, the front less than 64 */
    bytes += 5 * ((uint64_t)r->unit + r->lookahead) + 64 + PKVI_MESSAGE_SLACK;
    return pkvi_hasher_reserve("pkv_key_chain", hasher, bytes);
}

uint8_t *pkvi_message_rest(const pkvi_request *r, bool ours, uint64_t unit, uint8_t *message,
                           size_t tokens_at)
{
    const int32_t *tokens = r->tokens + unit * r->unit;
    uint8_t *to = message + tokens_at;
    if (ours) {
        to = pkvi_put_le32s(to, tokens, r->unit + r->lookahead);
        return r->extras ? pkvi_preimage_tail(r, unit, message, to) : to;
    }
    return pkvi_cbor_tail(r, unit, r->put_tokens(to, tokens, r->unit));
}

void pkvi_chain_sha256(const pkv_hasher *hasher, const pkvi_request *r, uint64_t first,
                       uint64_t last, const pkv_key *parent, pkv_key *keys)
{
    const bool ours = pkvi_hash_is_ours(hasher->hash);
    uint8_t *now = hasher->room, *next = hasher->room + hasher->half_bytes;
    const size_t parent_at = ours ? PKVI_PREIMAGE_PARENT_AT : PKVI_CBOR_PARENT_AT + 1;
    const size_t tokens_at = ours ? pkvi_preimage_front(r, now) : pkvi_cbor_front(r, now);
    memcpy(next, now, tokens_at);
    memcpy(now + parent_at, parent->bytes, hasher->key_bytes);
    const uint8_t *end = pkvi_message_rest(r, ours, first, now, tokens_at);
    for (uint64_t unit = first; unit < last; unit++) {
        const size_t bytes = (size_t)(end - now);
        if (unit + 1 < last) {
            end = pkvi_message_rest(r, ours, unit + 1, next, tokens_at);
        }
        pkvi_sha256_padded(now, bytes, (keys++)->bytes, next + parent_at);
        uint8_t *done = now;
        now = next;
        next = done;
    }
}

pkv_status pkv_key_chain(pkv_hasher *hasher, const pkv_extras *extras, const int32_t *tokens,
                         uint64_t n_tokens, uint64_t unit, uint64_t lookahead, uint64_t first,
                         uint64_t last, const pkv_key *parent, pkv_key *keys)
{
    return pkvi_key_chain(hasher, extras, tokens, n_tokens, unit, lookahead, first, last, parent,
                          keys, false);
}

pkv_status pkvi_key_chain(pkv_hasher *hasher, const pkv_extras *extras, const int32_t *tokens,
                          uint64_t n_tokens, uint64_t unit, uint64_t lookahead, uint64_t first,
                          uint64_t last, const pkv_key *parent, pkv_key *keys, bool checked)
{
    pkv_key root;
    if (!hasher) {
        return pkvi_fail(PKV_E_INVAL, "pkv_key_chain: hasher is NULL");
    }
    PKVI_RETURN_IF(check_span(n_tokens, unit, lookahead, first, last));
    PKVI_RETURN_IF(pkvi_extras_check_shape("pkv_key_chain", extras));
    if (first == last) {
        return PKV_OK;
    }
    if (!tokens || !keys || (first > 0 && !parent)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_key_chain: %s is NULL",
                         !tokens ? "tokens"
                         : keys  ? "parent"
                                 : "keys");
    }
    const pkvi_request request = {
        .key_bytes = hasher->key_bytes,
        .put_tokens = hasher->put_tokens,
        .extras = extras,
        .lora_name_bytes = extras && extras->lora_name ? strlen(extras->lora_name) : 0,
        .lora_path_bytes = extras && extras->lora_path ? strlen(extras->lora_path) : 0,
        .salt_bytes = extras && extras->salt ? strlen(extras->salt) : 0,
        .tokens = tokens,
        .unit = (size_t)unit,
        .lookahead = (size_t)lookahead,
    };
    PKVI_RETURN_IF(prepare(hasher, &request, first, last, checked));
    if (first == 0) {
        parent = &hasher->none_key;
        if (extras && extras->salt && pkvi_hash_is_ours(hasher->hash)) {
            pkvi_preimage_root(hasher, extras->salt, &root);
            parent = &root;
        }
    }
    hasher->chain(hasher, &request, first, last, parent, keys);
    return PKV_OK;
}
