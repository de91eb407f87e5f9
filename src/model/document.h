/* document.h  What the readers of the two sorts of documents share. */
#ifndef PKVI_DOCUMENT_H
#define PKVI_DOCUMENT_H

#include <pkv/document.h>

#include "base/arena.h"
#include "model/json.h"

struct pkv_document {
    pkvi_arena arena; /* holds this struct too */
    uint32_t kind;
    pkv_plan_params params;
    pkv_document_settings settings;
    pkv_document_question question;
    const char **names; /* [params.n_layers] */
};

#define PKVI_DOCUMENT_READ "pkv_document_read"

/* The object "options", or none, into doc->params. `names`: layer name -> index, for workers. */
pkv_status pkvi_read_options(pkv_document *doc, const json_t *options, const json_t *names);

/* Specs [n] from an array of objects, in place; each must be a finished spec of `revision`. */
pkv_status pkvi_read_specs(pkv_document *doc, const char *place, const json_t *array, size_t n);

/* A document that asks for less than a plan, named by its first member. *found false: none. */
pkv_status pkvi_read_question(pkv_document *doc, const pkvi_json_at *root, bool *found);

/* PKV_E_NOMEM with its text. */
pkv_status pkvi_document_no_memory(void);

#endif
