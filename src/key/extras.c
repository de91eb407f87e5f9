/* extras.c  What a key depends on beside tokens: checks, and the part that falls into one unit. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/utf8.h"
#include "key/digest.h"
#include "key/hasher.h"

/* ---- checks ---- */

pkv_status pkvi_extras_check_shape(const char *function, const pkv_extras *e)
{
    if (!e) {
        return PKV_OK;
    }
    if (!e->lora_name != !e->lora_path) {
        return pkvi_fail(PKV_E_INVAL, "%s: %s is NULL: an adapter has a name and a path", function,
                         e->lora_name ? "lora_path" : "lora_name");
    }
    if (e->salt && e->salt[0] == '\0') {
        return pkvi_fail(PKV_E_INVAL, "%s: salt is \"\": NULL means none", function);
    }
    if (e->n_media > 0 && !e->media) {
        return pkvi_fail(PKV_E_INVAL, "%s: media is NULL with n_media %" PRIu32, function,
                         e->n_media);
    }
    if (e->has_embeds > 1) {
        return pkvi_fail(PKV_E_INVAL, "%s: has_embeds %d is not 0 or 1", function, e->has_embeds);
    }
    if ((e->reserved[0] | e->reserved[1] | e->reserved[2]) != 0) {
        return pkvi_fail(PKV_E_INVAL, "%s: reserved is not 0", function);
    }
    if (!e->has_embeds) {
        return PKV_OK;
    }
    uint64_t bytes;
    if (e->embed_row_bytes == 0 || !pkvi_mul(e->embed_row_bytes, e->n_embed_rows, &bytes) ||
        bytes > SIZE_MAX) {
        return pkvi_fail(PKV_E_INVAL,
                         "%s: embed_row_bytes %" PRIu64 " with n_embed_rows %" PRIu64
                         " is no size of an array",
                         function, e->embed_row_bytes, e->n_embed_rows);
    }
    if (bytes > 0 && !e->embeds) {
        return pkvi_fail(PKV_E_INVAL, "%s: embeds is NULL with n_embed_rows %" PRIu64, function,
                         e->n_embed_rows);
    }
    return PKV_OK;
}

static pkv_status check_text(const char *field, const char *text)
{
    if (text && !pkvi_utf8_valid(text)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_extras_check: %s is not UTF-8", field);
    }
    return PKV_OK;
}

static pkv_status check_media(const pkv_extras *e, uint64_t n_tokens)
{
    uint64_t before = 0; /* end of the item before */
    for (uint32_t i = 0; i < e->n_media; i++) {
        const pkv_media *media = &e->media[i];
        uint64_t end;
        if (!media->id || !pkvi_utf8_valid(media->id)) {
            return pkvi_fail(PKV_E_INVAL, "pkv_extras_check: media %" PRIu32 ": id is %s", i,
                             media->id ? "not UTF-8" : "NULL");
        }
        if (media->length == 0 || !pkvi_add(media->offset, media->length, &end) || end > n_tokens) {
            return pkvi_fail(PKV_E_INVAL,
                             "pkv_extras_check: media %" PRIu32 ": offset %" PRIu64
                             " and length %" PRIu64 " are no range within %" PRIu64 " tokens",
                             i, media->offset, media->length, pkvi_min(n_tokens, PKVI_SIZE_MAX));
        }
        if (media->offset < before) {
            return pkvi_fail(PKV_E_INVAL,
                             "pkv_extras_check: media %" PRIu32 ": offset %" PRIu64
                             " is before %" PRIu64 ", the end of the item before",
                             i, media->offset, before);
        }
        before = end;
    }
    return PKV_OK;
}

pkv_status pkv_extras_check(const pkv_extras *extras, uint64_t n_tokens)
{
    if (!extras) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(pkvi_extras_check_shape("pkv_extras_check", extras));
    PKVI_RETURN_IF(check_text("lora_name", extras->lora_name));
    PKVI_RETURN_IF(check_text("lora_path", extras->lora_path));
    PKVI_RETURN_IF(check_text("salt", extras->salt));
    if (extras->has_embeds && extras->n_embed_rows > n_tokens) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_extras_check: n_embed_rows %" PRIu64 " for %" PRIu64 " tokens",
                         extras->n_embed_rows, n_tokens);
    }
    return check_media(extras, n_tokens);
}

/* ---- the part of one unit ---- */

static bool ends_after(const pkv_media *media, uint64_t token)
{
    return media->offset >= token || media->length > token - media->offset;
}

/* First item that ends after a token; both ends of an item are exclusive neighbours: one that ends
 * where a unit begins is no part of it. */
static uint32_t first_media_after(const pkv_extras *e, uint64_t token)
{
    uint32_t low = 0, high = e->n_media;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (ends_after(&e->media[middle], token)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void pkvi_unit_extras(const pkv_extras *e, uint64_t start, uint64_t end, pkv_unit_extras *out)
{
    memset(out, 0, sizeof *out);
    out->lora_name = e->lora_name;
    out->salt = start == 0 ? e->salt : NULL;
    out->first_media = first_media_after(e, start);
    uint32_t past = out->first_media;
    while (past < e->n_media && e->media[past].offset < end) {
        past++;
    }
    out->n_media = past - out->first_media;
    out->has_embeds = e->has_embeds;
    if (e->has_embeds) {
        const uint64_t from = pkvi_min(start, e->n_embed_rows);
        const uint64_t to = pkvi_min(end, e->n_embed_rows);
        const uint8_t *rows = e->embeds ? e->embeds + from * e->embed_row_bytes : e->embeds;
        pkvi_sha256(rows, (size_t)((to - from) * e->embed_row_bytes), out->embeds_digest);
    }
    out->any = out->lora_name || out->salt || out->n_media > 0 || out->has_embeds;
}

pkv_status pkv_key_unit_extras(const pkv_extras *extras, uint64_t start, uint64_t end,
                               uint64_t lookahead, pkv_unit_extras *out)
{
    uint64_t past;
    if (!out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_key_unit_extras: out is NULL");
    }
    if (start > end || !pkvi_add(end, lookahead, &past)) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_key_unit_extras: start %" PRIu64 ", end %" PRIu64
                         ", lookahead %" PRIu64 " are no range of tokens",
                         start, end, lookahead);
    }
    PKVI_RETURN_IF(pkvi_extras_check_shape("pkv_key_unit_extras", extras));
    if (extras) {
        pkvi_unit_extras(extras, start, past, out);
    } else {
        memset(out, 0, sizeof *out);
    }
    return PKV_OK;
}

/* A sum that stops at a size that nobody has. */
static uint64_t add_up(uint64_t sum, uint64_t more)
{
    return pkvi_add(sum, more, &sum) ? sum : PKVI_SIZE_MAX;
}

/* Every form needs less than 64 bytes around its texts. */
pkv_status pkvi_extras_bytes(const pkvi_request *request, uint64_t start, uint64_t end,
                             uint64_t *out)
{
    enum { AROUND = 64 };
    const pkv_extras *e = request->extras;
    uint64_t sum = 4 * AROUND;
    sum = add_up(sum, request->lora_name_bytes);
    sum = add_up(sum, request->lora_path_bytes);
    sum = add_up(sum, request->salt_bytes);
    for (uint32_t i = e ? first_media_after(e, start) : 0; e && i < e->n_media; i++) {
        if (e->media[i].offset >= end) {
            break;
        }
        if (!e->media[i].id) {
            return pkvi_fail(PKV_E_INVAL, "pkv_key_chain: media %" PRIu32 ": id is NULL", i);
        }
        sum = add_up(sum, AROUND + (uint64_t)strlen(e->media[i].id));
    }
    *out = sum;
    return PKV_OK;
}
