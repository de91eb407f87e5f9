/* shell_fields.c  What a request says, checked field by field. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "shell.h"

json_t *shell_error(pkv_status code, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_t *answer = json_object(), *shown = json_string(text);
    cli_set(answer, "error", shown ? shown : json_string("a text that is not UTF-8"));
    cli_set(answer, "code", json_string(pkv_status_name(code)));
    return answer;
}

json_t *shell_failed(pkv_status st)
{
    return shell_error(st, "%s", pkv_last_error());
}

const json_t *shell_given(const json_t *op, const char *name)
{
    const json_t *value = json_object_get(op, name);
    return json_is_null(value) ? NULL : value;
}

bool shell_int(const json_t *op, const char *name, json_int_t otherwise, uint64_t *out,
               json_t **error)
{
    const json_t *value = shell_given(op, name);
    const json_int_t n = value ? json_integer_value(value) : otherwise;
    if ((value && !json_is_integer(value)) || n < 0 || n > SHELL_MAX_INT) {
        *error = shell_error(PKV_E_INVAL, "%s: an integer from 0 to 2^31 - 1 was expected", name);
        return false;
    }
    *out = (uint64_t)n;
    return true;
}

bool shell_bool(const json_t *op, const char *name, bool otherwise, bool *out, json_t **error)
{
    const json_t *value = shell_given(op, name);
    if (value && !json_is_boolean(value)) {
        *error = shell_error(PKV_E_INVAL, "%s: true or false was expected", name);
        return false;
    }
    *out = value ? json_is_true(value) : otherwise;
    return true;
}

bool shell_numbers(const json_t *op, const char *name, uint64_t bound, uint32_t **out, size_t *n,
                   json_t **error)
{
    const json_t *list = shell_given(op, name), *value;
    size_t i;
    *out = NULL;
    *n = 0;
    if (list && !json_is_array(list)) {
        *error = shell_error(PKV_E_INVAL, "%s: a list was expected", name);
        return false;
    }
    json_array_foreach(list, i, value)
    {
        const json_int_t x = json_integer_value(value);
        if (!json_is_integer(value) || x < 0 || (uint64_t)x >= bound) {
            *error = shell_error(PKV_E_INVAL, "%s: numbers below %" PRIu64 " were expected", name,
                                 bound);
            return false;
        }
    }
    if (json_array_size(list) == 0) {
        return true;
    }
    *out = malloc(json_array_size(list) * sizeof **out);
    if (!*out) {
        *error = shell_error(PKV_E_NOMEM, "%s: out of memory", name);
        return false;
    }
    json_array_foreach(list, i, value)
    {
        (*out)[(*n)++] = (uint32_t)json_integer_value(value);
    }
    return true;
}

bool shell_tokens(const json_t *list, bool may_be_empty, int32_t **out, size_t *n, json_t **error)
{
    size_t i;
    const json_t *value;
    *out = NULL;
    *n = 0;
    if (!json_is_array(list) || (json_array_size(list) == 0 && !may_be_empty)) {
        *error = shell_error(PKV_E_INVAL, "tokens: a list of at least one token was expected");
        return false;
    }
    json_array_foreach(list, i, value)
    {
        const json_int_t x = json_integer_value(value);
        if (!json_is_integer(value) || x < 0 || x > SHELL_MAX_INT) {
            *error =
                shell_error(PKV_E_INVAL, "tokens[%zu]: a token, 0 to 2^31 - 1, was expected", i);
            return false;
        }
    }
    *out = malloc((json_array_size(list) + 1) * sizeof **out);
    if (!*out) {
        *error = shell_error(PKV_E_NOMEM, "tokens: out of memory");
        return false;
    }
    json_array_foreach(list, i, value)
    {
        (*out)[(*n)++] = (int32_t)json_integer_value(value);
    }
    return true;
}

pkv_seq *shell_find(const shell *s, const json_t *id, json_t **error)
{
    if (!json_is_string(id)) {
        *error = shell_error(PKV_E_INVAL, "id: a string was expected");
        return NULL;
    }
    const json_t *handle = json_object_get(s->ids, json_string_value(id));
    if (!handle) {
        *error = shell_error(PKV_E_NOT_FOUND, "id: no request \"%.60s\"", json_string_value(id));
        return NULL;
    }
    return (pkv_seq *)(intptr_t)json_integer_value(handle);
}

pkv_seq *shell_request(const shell *s, const json_t *op, json_t **error)
{
    return shell_find(s, json_object_get(op, "id"), error);
}
