/* document.c  Plan documents: top-level fields, layers, and the document as an object.
 *
 * The format is in docs/formats/plan-document.md. */
#include "model/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "model/spec_json.h"

#define MAX_LAYERS ((size_t)1 << 20)
#define MAX_TOKENS (UINT64_C(1) << 48)

pkv_status pkvi_document_no_memory(void)
{
    return pkvi_fail(PKV_E_NOMEM, PKVI_DOCUMENT_READ ": out of memory");
}

/* The earlier revision always shards attention, so it has no word for it. */
static pkv_status check_revision(const pkv_document *doc, const pkvi_json_at *at,
                                 const pkv_spec *spec)
{
    const json_t *sharded = pkvi_json_get(at, "dcp_sharded");
    if (doc->params.revision == PKV_REVISION_SEED && sharded && spec->kind != PKV_KIND_MAMBA) {
        return pkvi_json_bad(at, "dcp_sharded", sharded, "no such field in revision \"seed\"");
    }
    return PKV_OK;
}

pkv_status pkvi_read_specs(pkv_document *doc, const char *place, const json_t *array, size_t n)
{
    pkv_spec *specs = pkvi_arena_get(&doc->arena, n, sizeof *specs);
    if (!specs) {
        return pkvi_document_no_memory();
    }
    for (size_t i = 0; i < n; i++) {
        char where[64];
        const json_t *object = json_is_array(array) ? json_array_get(array, i) : array;
        (void)snprintf(where, sizeof where, json_is_array(array) ? "%s[%zu]" : "%s", place, i);
        const pkvi_json_at at = {PKVI_DOCUMENT_READ, where, object};
        PKVI_RETURN_IF(
            pkvi_spec_from_json(PKVI_DOCUMENT_READ, where, object, &doc->arena, &specs[i]));
        PKVI_RETURN_IF(check_revision(doc, &at, &specs[i]));
    }
    doc->params.layers = specs;
    doc->params.n_layers = (uint32_t)n;
    return PKV_OK;
}

/* Names of the layers, and where they stand. */
static pkv_status read_names(pkv_document *doc, const json_t *layers, json_t *index)
{
    const size_t n = json_array_size(layers);
    doc->names = pkvi_arena_get(&doc->arena, n, sizeof *doc->names);
    if (!doc->names) {
        return pkvi_document_no_memory();
    }
    for (size_t i = 0; i < n; i++) {
        char where[64];
        const char *name;
        (void)snprintf(where, sizeof where, "layers[%zu]", i);
        const pkvi_json_at at = {PKVI_DOCUMENT_READ, where, json_array_get(layers, i)};
        PKVI_RETURN_IF(pkvi_json_check_object(&at));
        PKVI_RETURN_IF(pkvi_json_text(&at, "name", &name));
        if (json_object_get(index, name)) {
            return pkvi_json_bad(&at, "name", pkvi_json_get(&at, "name"),
                                 "a name that is not used yet");
        }
        if (json_object_set_new(index, name, json_integer((json_int_t)i)) != 0) {
            return pkvi_document_no_memory();
        }
        doc->names[i] = pkvi_arena_text(&doc->arena, name);
        if (!doc->names[i]) {
            return pkvi_document_no_memory();
        }
    }
    return PKV_OK;
}

static pkv_status read_layers(pkv_document *doc, const pkvi_json_at *root, json_t *index)
{
    json_t *layers = NULL;
    PKVI_RETURN_IF(pkvi_json_opt_array(root, "layers", &layers));
    const size_t n = layers ? json_array_size(layers) : 0;
    if (n > MAX_LAYERS) {
        return pkvi_json_bad(root, "layers", layers, "at most 1048576 layers");
    }
    if (n == 0) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(read_names(doc, layers, index));
    return pkvi_read_specs(doc, "layers", layers, n);
}

/* Profilers report negative rests, so budgets are signed. */
static pkv_status read_budget(const pkvi_json_at *at, int64_t *out)
{
    const json_t *value = pkvi_json_get(at, "available_bytes");
    if (value && !json_is_integer(value)) {
        return pkvi_json_bad(at, "available_bytes", value, "an integer");
    }
    *out = value ? json_integer_value(value) : 0;
    return PKV_OK;
}

static pkv_status keep_text(pkv_document *doc, const char **text)
{
    *text = pkvi_arena_text(&doc->arena, *text);
    return *text ? PKV_OK : pkvi_document_no_memory();
}

static pkv_status read_settings(pkv_document *doc, const pkvi_json_at *root)
{
    pkv_document_settings *s = &doc->settings;
    bool caching = true, events = true, checkpoint = false;
    PKVI_RETURN_IF(pkvi_json_opt_bool(root, "caching", &caching));
    PKVI_RETURN_IF(pkvi_json_opt_bool(root, "events", &events));
    PKVI_RETURN_IF(pkvi_json_opt_bool(root, "shared_prefix_checkpoint", &checkpoint));
    PKVI_RETURN_IF(pkvi_json_opt_real(root, "watermark", 0, 1, &s->watermark));
    PKVI_RETURN_IF(pkvi_json_opt_text(root, "hash", &s->hash));
    PKVI_RETURN_IF(pkvi_json_opt_text(root, "hash_seed", &s->hash_seed));
    if (s->watermark >= 1) {
        return pkvi_json_bad(root, "watermark", pkvi_json_get(root, "watermark"), "less than 1");
    }
    PKVI_RETURN_IF(keep_text(doc, &s->hash));
    if (s->hash_seed) {
        PKVI_RETURN_IF(keep_text(doc, &s->hash_seed));
    }
    doc->params.caching = caching;
    s->events = events;
    s->shared_prefix_checkpoint = checkpoint;
    return PKV_OK;
}

static pkv_status read_top(pkv_document *doc, const pkvi_json_at *root)
{
    pkv_plan_params *p = &doc->params;
    PKVI_RETURN_IF(read_budget(root, &p->available_bytes));
    PKVI_RETURN_IF(pkvi_json_u64(root, "max_model_len", 1, MAX_TOKENS, &p->max_model_len));
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(root, "prefix_match_unit", 1, PKV_SPEC_LIMIT, &p->prefix_match_unit));
    /* the one field where null is not "left out": it asks for every block */
    if (json_is_null(json_object_get(root->json, "retention_interval"))) {
        p->retention_interval = PKV_RETAIN_DENSE;
    }
    PKVI_RETURN_IF(
        pkvi_json_opt_u64(root, "retention_interval", 0, PKV_SPEC_LIMIT, &p->retention_interval));
    return read_settings(doc, root);
}

static pkv_status read_plan(pkv_document *doc, const pkvi_json_at *root)
{
    static const char *const names[] = {
        "available_bytes", "max_model_len", "options", "layers", "hash", "hash_seed", "caching",
        "events", "watermark", "retention_interval", "prefix_match_unit",
        "shared_prefix_checkpoint",
        /* what --emit-specs adds to explain itself; a plan needs none of it */
        "sources", "no_cache", "kv_sharing"};
    json_t *options = NULL, *index = NULL;
    pkv_status st;
    PKVI_TRY(pkvi_json_check_names(root, names, sizeof names / sizeof *names));
    PKVI_TRY(read_top(doc, root));
    PKVI_TRY(pkvi_json_opt_object(root, "options", &options));
    index = json_object();
    if (!index) {
        PKVI_TRY(pkvi_document_no_memory());
    }
    /* the revision decides how layers are read, and workers name layers: options twice */
    PKVI_TRY(pkvi_read_options(doc, options, NULL));
    PKVI_TRY(read_layers(doc, root, index));
    PKVI_TRY(pkvi_read_options(doc, options, index));
done:
    json_decref(index);
    return st;
}

static void set_defaults(pkv_document *doc)
{
    pkv_plan_params_init(&doc->params);
    doc->settings.hash = "sha256_cbor";
    doc->settings.events = 1;
    doc->settings.max_num_seqs = 256;
}

pkv_status pkv_document_read(const char *json, size_t len, const pkv_alloc *alloc,
                             pkv_document **out)
{
    pkvi_arena arena;
    json_t *root = NULL;
    pkv_document *doc = NULL;
    bool question = false;
    pkv_status st;
    if (out) {
        *out = NULL;
    }
    if (!json || !out) {
        return pkvi_fail(PKV_E_INVAL, PKVI_DOCUMENT_READ ": json or out is NULL");
    }
    pkvi_arena_init(&arena, alloc, 8192);
    PKVI_TRY(pkvi_json_load(PKVI_DOCUMENT_READ, json, len, &root));
    doc = pkvi_arena_get(&arena, 1, sizeof *doc);
    if (!doc) {
        PKVI_TRY(pkvi_document_no_memory());
    }
    doc->arena = arena;
    set_defaults(doc);
    const pkvi_json_at at = {PKVI_DOCUMENT_READ, "", root};
    st = pkvi_read_question(doc, &at, &question);
    if (st == PKV_OK && !question) {
        st = read_plan(doc, &at);
    }
    arena = doc->arena; /* it has grown */
    if (st == PKV_OK) {
        doc->params.alloc = NULL;
        *out = doc;
    }
done:
    json_decref(root);
    if (st != PKV_OK) {
        pkvi_arena_free(&arena);
    }
    return st;
}

void pkv_document_destroy(pkv_document *doc)
{
    if (doc) {
        pkvi_arena arena = doc->arena; /* the document lies in it */
        pkvi_arena_free(&arena);
    }
}

uint32_t pkv_document_get_kind(const pkv_document *doc)
{
    return doc->kind;
}

const pkv_document_question *pkv_document_get_question(const pkv_document *doc)
{
    return &doc->question;
}

const pkv_plan_params *pkv_document_params(const pkv_document *doc)
{
    return &doc->params;
}

const pkv_document_settings *pkv_document_get_settings(const pkv_document *doc)
{
    return &doc->settings;
}

const char *pkv_document_layer_name(const pkv_document *doc, uint32_t i)
{
    return doc->names && i < doc->params.n_layers ? doc->names[i] : NULL;
}
