/* json.h  A thin, strict layer over jansson: what the readers of this library accept as JSON, and
 * messages that say where in the document something is wrong.
 *
 * Every message is "function: place: field is VALUE, expected ...": one line, whatever the input
 * holds, because user text is quoted, escaped and cut. null means the same as absent everywhere.
 *
 * Limits: 64 MiB of text, 64 levels, 2^22 values, integers of -2^63 to 2^63-1. */
#ifndef PKVI_JSON_H
#define PKVI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <pkv/status.h>

/* An object inside a document, and how messages name it. All borrowed. */
typedef struct pkvi_json_at {
    const char *function; /* the public function that reads */
    const char *place;    /* "options", "layers[3]"; "" at the top */
    const json_t *json;   /* the object */
} pkvi_json_at;

/* Room for user text as messages show it. */
typedef struct pkvi_quoted {
    char text[80];
} pkvi_quoted;

/* Parses a document whose root is an object. INVAL with the line otherwise. On success the caller
 * owns one reference (json_decref). NOMEM: jansson had no memory. */
pkv_status pkvi_json_load(const char *function, const char *text, size_t len, json_t **root_out);

/* User text in quotes: at most 60 bytes of it, without control characters. Returns out->text. */
const char *pkvi_quote(const char *text, pkvi_quoted *out);
/* A value as messages show it: a number, "text", true, null, an array, an object. */
const char *pkvi_json_show(const json_t *value, pkvi_quoted *out);

/* The member, or NULL where it is absent or null. */
json_t *pkvi_json_get(const pkvi_json_at *at, const char *name);

/* The failure "function: place: name is VALUE, expected EXPECTED"; VALUE is "missing" for NULL. */
pkv_status pkvi_json_bad(const pkvi_json_at *at, const char *name, const json_t *value,
                         const char *expected);

/* Refuses what is not an object. */
pkv_status pkvi_json_check_object(const pkvi_json_at *at);
/* Refuses members that are not in names [n]. */
pkv_status pkvi_json_check_names(const pkvi_json_at *at, const char *const *names, size_t n);

/* The number itself, for elements of arrays; `name` is how messages call it. max <= 2^63-1. */
pkv_status pkvi_json_number(const pkvi_json_at *at, const char *name, const json_t *value,
                            uint64_t min, uint64_t max, uint64_t *out);

/* A member that must be there. */
pkv_status pkvi_json_u64(const pkvi_json_at *at, const char *name, uint64_t min, uint64_t max,
                         uint64_t *out);
pkv_status pkvi_json_text(const pkvi_json_at *at, const char *name, const char **out);

/* A member that may be left out; *out then keeps its value. Texts and children are borrowed from
 * the document. */
pkv_status pkvi_json_opt_u64(const pkvi_json_at *at, const char *name, uint64_t min, uint64_t max,
                             uint64_t *out);
pkv_status pkvi_json_opt_bool(const pkvi_json_at *at, const char *name, bool *out);
pkv_status pkvi_json_opt_text(const pkvi_json_at *at, const char *name, const char **out);
/* Any finite number in [min, max]. */
pkv_status pkvi_json_opt_real(const pkvi_json_at *at, const char *name, double min, double max,
                              double *out);
pkv_status pkvi_json_opt_object(const pkvi_json_at *at, const char *name, json_t **out);
pkv_status pkvi_json_opt_array(const pkvi_json_at *at, const char *name, json_t **out);

#endif
