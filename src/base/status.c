/* status.c  Status names, and the text of the last failure of each thread. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <pkv/version.h>

enum { TEXT_BYTES = 512 };

static _Thread_local char last_text[TEXT_BYTES];

const char *pkv_version(void)
{
#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
    return VERSION_TEXT(PKV_VERSION_MAJOR, PKV_VERSION_MINOR, PKV_VERSION_PATCH);
#undef VERSION_TEXT
#undef TEXT_OF
}

const char *pkv_status_name(pkv_status status)
{
    switch (status) {
    case PKV_OK: return "PKV_OK";
    case PKV_E_INVAL: return "PKV_E_INVAL";
    case PKV_E_NOMEM: return "PKV_E_NOMEM";
    case PKV_E_OVERFLOW: return "PKV_E_OVERFLOW";
    case PKV_E_NO_BLOCKS: return "PKV_E_NO_BLOCKS";
    case PKV_E_NOT_FOUND: return "PKV_E_NOT_FOUND";
    case PKV_E_IO: return "PKV_E_IO";
    case PKV_E_VERSION: return "PKV_E_VERSION";
    case PKV_E_CORRUPT: return "PKV_E_CORRUPT";
    case PKV_E_AGAIN: return "PKV_E_AGAIN";
    case PKV_E_UNSUPPORTED: return "PKV_E_UNSUPPORTED";
    case PKV_E_VALUE: return "PKV_E_VALUE";
    case PKV_E_ASSERT: return "PKV_E_ASSERT";
    case PKV_E_NOTIMPL: return "PKV_E_NOTIMPL";
    case PKV_E_AMBIGUOUS: return "PKV_E_AMBIGUOUS";
    }
    return "PKV_E_UNKNOWN";
}

const char *pkv_last_error(void)
{
    return last_text;
}

/* Drops the end of a cut text if it is the beginning of a longer character. */
static void trim_utf8(char *text, size_t len)
{
    size_t begin = len;
    while (begin > 0 && ((unsigned char)text[begin - 1] & 0xc0) == 0x80) {
        begin--;
    }
    if (begin == 0 || (unsigned char)text[begin - 1] < 0xc0) {
        return; /* ASCII, or no character at all */
    }
    const unsigned char lead = (unsigned char)text[begin - 1];
    const size_t whole = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (len - (begin - 1) < whole) {
        text[begin - 1] = '\0';
    }
}

void pkvi_set_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(last_text, TEXT_BYTES, fmt, args);
    va_end(args);
    if (n >= TEXT_BYTES) {
        trim_utf8(last_text, TEXT_BYTES - 1);
    }
}

void pkvi_error_context(const char *function, const char *fmt, ...)
{
    char place[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(place, sizeof place, fmt, args);
    va_end(args);

    char where[TEXT_BYTES];
    (void)snprintf(where, sizeof where, "%s: %.120s", function, place);
    pkvi_error_rename(where);
}

void pkvi_error_rename(const char *function)
{
    char rest[TEXT_BYTES];
    const char *colon = strstr(last_text, ": ");
    (void)snprintf(rest, sizeof rest, "%s", colon ? colon + 2 : last_text);
    int n = snprintf(last_text, TEXT_BYTES, "%s: %s", function, rest);
    if (n >= TEXT_BYTES) {
        trim_utf8(last_text, TEXT_BYTES - 1);
    }
}
