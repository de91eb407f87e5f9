/* content.c  Keys and what they depend on, as JSON. */
#include "cli.h"

json_t *cli_hex(const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * (sizeof(pkv_key) + 4)];
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    return json_stringn_nocheck(text, 2 * n);
}

json_t *cli_unit_extras(const pkv_extras *extras, uint64_t start, uint64_t end, uint64_t lookahead)
{
    pkv_unit_extras u;
    if (pkv_key_unit_extras(extras, start, end, lookahead, &u) != PKV_OK || !u.any) {
        return json_null();
    }
    json_t *list = json_array();
    if (u.lora_name) {
        cli_push(list, json_string(u.lora_name));
    }
    for (uint32_t i = 0; i < u.n_media; i++) {
        const pkv_media *media = &extras->media[u.first_media + i];
        json_t *pair = json_array();
        cli_push(pair, json_string(media->id));
        cli_push(pair, json_integer((json_int_t)media->offset - (json_int_t)start));
        cli_push(list, pair);
    }
    if (u.salt) {
        cli_push(list, json_string(u.salt));
    }
    if (u.has_embeds) {
        cli_push(list, cli_hex(u.embeds_digest, sizeof u.embeds_digest));
    }
    return list;
}
