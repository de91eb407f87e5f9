/* shell_cache.c  From a document or a plan to a shell. */
#include <stdlib.h>

#include "shell.h"

void shell_destroy(shell *s)
{
    if (!s) {
        return;
    }
    pkv_cache_destroy(s->cache);
    json_decref(s->ids);
    json_decref(s->events);
    json_decref(s->offers);
    free(s);
}

static pkv_status create(shell *s, const pkv_plan *plan, const pkv_document_settings *settings)
{
    pkv_cache_params p;
    pkv_cache_params_init(&p);
    const pkv_status st = pkv_hash_from_name(settings->hash, &p.hash);
    if (st != PKV_OK) {
        return st;
    }
    p.plan = plan;
    p.hash_seed = settings->hash_seed;
    p.watermark = settings->watermark;
    p.shared_prefix_checkpoint = settings->shared_prefix_checkpoint;
    if (settings->events) {
        p.sink = (pkv_event_sink){s, shell_note};
    }
    return pkv_cache_create(&p, &s->cache);
}

static shell *shell_of_plan(const pkv_plan *plan, const pkv_document_settings *settings,
                            pkv_status *st)
{
    shell *s = calloc(1, sizeof *s);
    *st = PKV_E_NOMEM;
    if (s) {
        s->ids = json_object();
        s->events = json_array();
        s->offers = json_array();
        *st = s->ids && s->events && s->offers ? create(s, plan, settings) : PKV_E_NOMEM;
    }
    if (*st != PKV_OK) {
        shell_destroy(s);
        return NULL;
    }
    return s;
}

shell *shell_of_text(const char *text, size_t len, pkv_status *st, const char **why)
{
    pkv_document *doc;
    pkv_plan *plan = NULL;
    shell *s = NULL;
    *st = pkv_document_read(text, len, NULL, &doc);
    *why = pkv_last_error();
    if (*st != PKV_OK) {
        return NULL;
    }
    if (pkv_document_get_kind(doc) != PKV_DOCUMENT_PLAN) {
        *st = PKV_E_INVAL;
        *why = "the document asks a question; one that describes a cache was expected";
    } else {
        *st = pkv_plan_create(pkv_document_params(doc), &plan);
    }
    if (*st == PKV_OK) {
        s = shell_of_plan(plan, pkv_document_get_settings(doc), st);
        *st = *st == PKV_E_INVAL ? PKV_E_VALUE : *st; /* the document is well-formed */
    }
    pkv_plan_destroy(plan);
    pkv_document_destroy(doc);
    return s;
}
