/* json.c  Strict reading of JSON.
 *
 * jansson checks the grammar, UTF-8, duplicate keys and the range of numbers. What it has no limit
 * for, or a generous one, is measured in one pass over the text before it runs. */
#include "model/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

enum {
    MAX_BYTES = 64 << 20,
    MAX_DEPTH = 64,
    MAX_VALUES = 1 << 22, /* a value takes up to about 250 bytes of memory */
    MAX_QUOTED = 60
};

/* ---- messages ---- */

/* Characters that must not reach a terminal as they are: controls of ASCII and Latin-1, line
 * separators, and marks that turn the direction of text. */
static bool is_control(const unsigned char *text, size_t bytes)
{
    switch (bytes) {
    case 1: return text[0] < 0x20 || text[0] == 0x7f;
    case 2: return text[0] == 0xc2 && text[1] < 0xa0;
    case 3:
        return text[0] == 0xe2 && ((text[1] == 0x80 && text[2] >= 0xa8 && text[2] <= 0xae) ||
                                   (text[1] == 0x81 && text[2] >= 0xa6 && text[2] <= 0xa9));
    default: return bytes == 0;
    }
}

/* Copies as many whole characters as fit into `limit` bytes; bytes of those that are not to be
 * shown become \xNN. Returns the bytes written; *cut_out: something was left out. */
static size_t escape(const char *from, char *to, size_t limit, bool *cut_out)
{
    const unsigned char *text = (const unsigned char *)from;
    size_t len = 0;
    while (*text) {
        char piece[8];
        size_t taken = pkvi_utf8_char_bytes(text);
        size_t n = taken;
        if (is_control(text, taken)) {
            taken = 1;
            n = (size_t)snprintf(piece, sizeof piece, "\\x%02x", *text);
        } else {
            memcpy(piece, text, n);
        }
        if (len + n > limit) {
            break;
        }
        memcpy(to + len, piece, n);
        len += n;
        text += taken;
    }
    *cut_out = *text != 0;
    return len;
}

const char *pkvi_quote(const char *text, pkvi_quoted *out)
{
    bool cut;
    out->text[0] = '"';
    const size_t len = 1 + escape(text, out->text + 1, MAX_QUOTED, &cut);
    memcpy(out->text + len, cut ? "...\"" : "\"", cut ? 5 : 2);
    return out->text;
}

const char *pkvi_json_show(const json_t *value, pkvi_quoted *out)
{
    const size_t size = sizeof out->text;
    if (!value) {
        return "missing";
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY:
        (void)snprintf(out->text, size, "an array of %zu", json_array_size(value));
        return out->text;
    case JSON_STRING: return pkvi_quote(json_string_value(value), out);
    case JSON_INTEGER:
        (void)snprintf(out->text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return out->text;
    case JSON_REAL:
        (void)snprintf(out->text, size, "the real number %.17g", json_real_value(value));
        return out->text;
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "unknown";
}

pkv_status pkvi_json_bad(const pkvi_json_at *at, const char *name, const json_t *value,
                         const char *expected)
{
    pkvi_quoted shown;
    return pkvi_fail(PKV_E_INVAL, "%s: %s%s%s is %s, expected %s", at->function, at->place,
                     *at->place ? ": " : "", name, pkvi_json_show(value, &shown), expected);
}

/* ---- the text as a whole ---- */

static pkv_status bad_line(const char *function, size_t line, const char *expected)
{
    return pkvi_fail(PKV_E_INVAL, "%s: line %zu: not acceptable as JSON, expected %s", function,
                     line, expected);
}

/* Counts levels and values. A backslash hides the next byte of a string; whether a text is JSON at
 * all is jansson's to say. */
static pkv_status measure(const char *function, const char *text, size_t len)
{
    size_t line = 1, depth = 0, values = 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        line += c == '\n';
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        depth += c == '[' || c == '{';
        depth -= (c == ']' || c == '}') && depth > 0;
        values += c == '[' || c == '{' || c == ',';
        if (depth > MAX_DEPTH) {
            return bad_line(function, line, "at most 64 levels");
        }
        if (values > MAX_VALUES) {
            return bad_line(function, line, "at most 4194304 values");
        }
    }
    return PKV_OK;
}

static const char *expectation(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_duplicate_key: return "every key of an object once";
    case json_error_numeric_overflow: return "integers up to 2^63-1 and finite numbers";
    case json_error_invalid_utf8: return "UTF-8";
    case json_error_null_byte_in_key:
    case json_error_null_character: return "text without NUL";
    case json_error_premature_end_of_input: return "the rest of the document";
    case json_error_end_of_input_expected: return "the end of the text";
    default: return "one JSON object";
    }
}

static pkv_status parse_failure(const char *function, const json_error_t *error)
{
    bool cut;
    char text[200];
    text[escape(error->text, text, sizeof text - 1, &cut)] = '\0';
    if (json_error_code(error) == json_error_out_of_memory) {
        return pkvi_fail(PKV_E_NOMEM, "%s: no memory for the document", function);
    }
    return pkvi_fail(PKV_E_INVAL, "%s: line %d, column %d: %s; expected %s", function,
                     error->line > 0 ? error->line : 1, error->column > 0 ? error->column : 0, text,
                     expectation(error));
}

pkv_status pkvi_json_load(const char *function, const char *text, size_t len, json_t **root_out)
{
    json_error_t error;
    *root_out = NULL;
    if (!text) {
        return pkvi_fail(PKV_E_INVAL, "%s: json is NULL", function);
    }
    if (len > MAX_BYTES) {
        return pkvi_fail(PKV_E_INVAL, "%s: the text has %zu bytes, expected at most %d", function,
                         len, (int)MAX_BYTES);
    }
    PKVI_RETURN_IF(measure(function, text, len));
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        return parse_failure(function, &error);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return bad_line(function, 1, "a JSON object");
    }
    *root_out = root;
    return PKV_OK;
}

/* ---- members ---- */

json_t *pkvi_json_get(const pkvi_json_at *at, const char *name)
{
    json_t *value = json_object_get(at->json, name);
    return json_is_null(value) ? NULL : value;
}

pkv_status pkvi_json_check_object(const pkvi_json_at *at)
{
    pkvi_quoted shown;
    if (json_is_object(at->json)) {
        return PKV_OK;
    }
    return pkvi_fail(PKV_E_INVAL, "%s: %s is %s, expected an object", at->function, at->place,
                     pkvi_json_show(at->json, &shown));
}

pkv_status pkvi_json_check_names(const pkvi_json_at *at, const char *const *names, size_t n)
{
    const char *key;
    json_t *value;
    pkvi_quoted shown;
    PKVI_RETURN_IF(pkvi_json_check_object(at));
    /* the macro takes the object without const, though it only reads */
    json_object_foreach((json_t *)(uintptr_t)at->json, key, value)
    {
        size_t i = 0;
        while (i < n && strcmp(names[i], key) != 0) {
            i++;
        }
        if (i == n) {
            return pkvi_fail(PKV_E_INVAL, "%s: %s%s%s is not a known field", at->function,
                             at->place, *at->place ? ": " : "", pkvi_quote(key, &shown));
        }
    }
    return PKV_OK;
}

pkv_status pkvi_json_number(const pkvi_json_at *at, const char *name, const json_t *value,
                            uint64_t min, uint64_t max, uint64_t *out)
{
    char expected[80];
    if (json_is_integer(value)) {
        const json_int_t n = json_integer_value(value);
        if (n >= 0 && (uint64_t)n >= min && (uint64_t)n <= max) {
            *out = (uint64_t)n;
            return PKV_OK;
        }
    }
    (void)snprintf(expected, sizeof expected, "an integer from %" PRIu64 " to %" PRIu64, min, max);
    return pkvi_json_bad(at, name, value, expected);
}

pkv_status pkvi_json_u64(const pkvi_json_at *at, const char *name, uint64_t min, uint64_t max,
                         uint64_t *out)
{
    return pkvi_json_number(at, name, pkvi_json_get(at, name), min, max, out);
}

pkv_status pkvi_json_text(const pkvi_json_at *at, const char *name, const char **out)
{
    const json_t *value = pkvi_json_get(at, name);
    if (!json_is_string(value)) {
        return pkvi_json_bad(at, name, value, "a text");
    }
    *out = json_string_value(value);
    return PKV_OK;
}

pkv_status pkvi_json_opt_u64(const pkvi_json_at *at, const char *name, uint64_t min, uint64_t max,
                             uint64_t *out)
{
    return pkvi_json_get(at, name) ? pkvi_json_u64(at, name, min, max, out) : PKV_OK;
}

pkv_status pkvi_json_opt_bool(const pkvi_json_at *at, const char *name, bool *out)
{
    const json_t *value = pkvi_json_get(at, name);
    if (value && !json_is_boolean(value)) {
        return pkvi_json_bad(at, name, value, "true or false");
    }
    *out = value ? json_is_true(value) : *out;
    return PKV_OK;
}

pkv_status pkvi_json_opt_text(const pkvi_json_at *at, const char *name, const char **out)
{
    return pkvi_json_get(at, name) ? pkvi_json_text(at, name, out) : PKV_OK;
}

pkv_status pkvi_json_opt_real(const pkvi_json_at *at, const char *name, double min, double max,
                              double *out)
{
    char expected[80];
    const json_t *value = pkvi_json_get(at, name);
    if (!value) {
        return PKV_OK;
    }
    const double number = json_number_value(value); /* 0 for anything else */
    if (!json_is_number(value) || !(number >= min && number <= max)) {
        (void)snprintf(expected, sizeof expected, "a number from %g to %g", min, max);
        return pkvi_json_bad(at, name, value, expected);
    }
    *out = number;
    return PKV_OK;
}

pkv_status pkvi_json_opt_object(const pkvi_json_at *at, const char *name, json_t **out)
{
    json_t *value = pkvi_json_get(at, name);
    if (value && !json_is_object(value)) {
        return pkvi_json_bad(at, name, value, "an object");
    }
    *out = value ? value : *out;
    return PKV_OK;
}

pkv_status pkvi_json_opt_array(const pkvi_json_at *at, const char *name, json_t **out)
{
    json_t *value = pkvi_json_get(at, name);
    if (value && !json_is_array(value)) {
        return pkvi_json_bad(at, name, value, "an array");
    }
    *out = value ? value : *out;
    return PKV_OK;
}
