/* utf8.h  Characters of UTF-8. */
#ifndef PKVI_UTF8_H
#define PKVI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins here; 0: none does. The text ends with a NUL, which is no
 * continuation byte, so nothing is read beyond it. */
static inline size_t pkvi_utf8_char_bytes(const unsigned char *text)
{
    static const struct {
        unsigned char first, last; /* lead bytes */
        unsigned char least, most; /* second byte: no overlong form, surrogate or plane 17 */
        unsigned char bytes;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (text[0] < forms[i].first || text[0] > forms[i].last) {
            continue;
        }
        const size_t bytes = forms[i].bytes;
        if (bytes > 1 && (text[1] < forms[i].least || text[1] > forms[i].most)) {
            return 0;
        }
        for (size_t n = 2; n < bytes; n++) {
            if ((text[n] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return bytes;
    }
    return 0;
}

/* Whether a text is UTF-8 up to its NUL. */
static inline bool pkvi_utf8_valid(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        const size_t bytes = pkvi_utf8_char_bytes(at);
        if (bytes == 0) {
            return false;
        }
        at += bytes;
    }
    return true;
}

#endif
