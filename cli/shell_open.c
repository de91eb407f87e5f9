/* shell_open.c  Requests come, wait, branch and go. */
#include <stdlib.h>
#include <string.h>

#include "shell.h"

/* A request as "open" reads it; texts are borrowed from the operation. */
typedef struct opening {
    const char *id;
    int32_t *tokens;
    pkv_media *media;
    pkv_extras extras;
    pkv_seq_params params;
} opening;

static bool optional_text(const json_t *op, const char *name, const char **out, json_t **error)
{
    const json_t *value = shell_given(op, name);
    *out = NULL;
    if (!value) {
        return true;
    }
    *out = json_string_value(value);
    if (!*out || !**out) {
        *error = shell_error(PKV_E_INVAL, "%s: a non-empty string was expected", name);
        return false;
    }
    return true;
}

static bool read_lora(const json_t *op, opening *o, json_t **error)
{
    const json_t *lora = shell_given(op, "lora");
    if (!lora) {
        return true;
    }
    const size_t n = json_array_size(lora);
    const json_t *id = json_array_get(lora, 2);
    o->extras.lora_name = json_string_value(json_array_get(lora, 0));
    o->extras.lora_path = json_string_value(json_array_get(lora, 1));
    if ((n != 2 && n != 3) || !o->extras.lora_name || !o->extras.lora_path ||
        (id && (!json_is_integer(id) || json_integer_value(id) < 0))) {
        *error = shell_error(PKV_E_INVAL, "lora: [name, path] or [name, path, id] was expected");
        return false;
    }
    o->params.has_lora_id = id != NULL;
    o->params.lora_id = (uint64_t)json_integer_value(id);
    return true;
}

static bool read_media(const json_t *op, opening *o, json_t **error)
{
    static const char *const names[] = {"hash", "offset", "length"};
    const json_t *list = shell_given(op, "mm"), *item;
    const size_t n = json_array_size(list);
    size_t i;
    if (list && !json_is_array(list)) {
        *error = shell_error(PKV_E_INVAL, "mm: a list was expected");
        return false;
    }
    o->media = n > 0 ? calloc(n, sizeof *o->media) : NULL;
    if (n > 0 && !o->media) {
        *error = shell_error(PKV_E_NOMEM, "mm: out of memory");
        return false;
    }
    json_array_foreach(list, i, item)
    {
        pkv_media *m = &o->media[i];
        m->id = json_string_value(json_object_get(item, names[0]));
        if (!m->id || json_object_size(item) != 3) {
            *error = shell_error(PKV_E_INVAL, "mm[%zu]: {hash, offset, length} was expected", i);
            return false;
        }
        if (!shell_int(item, names[1], -1, &m->offset, error) ||
            !shell_int(item, names[2], -1, &m->length, error)) {
            return false;
        }
    }
    o->extras.media = o->media;
    o->extras.n_media = (uint32_t)n;
    return true;
}

static bool read_switches(const json_t *op, opening *o, json_t **error)
{
    const char *report;
    bool skip;
    if (!shell_bool(op, "skip_cache", false, &skip, error) ||
        !optional_text(op, "report", &report, error)) {
        return false;
    }
    if (report && strcmp(report, "full") != 0 && strcmp(report, "incremental") != 0) {
        *error = shell_error(PKV_E_INVAL, "report: \"full\" or \"incremental\" was expected");
        return false;
    }
    o->params.skip_lookup = skip;
    o->params.report_reused = report && *report == 'f';
    return true;
}

static bool read_opening(const shell *s, const json_t *op, opening *o, json_t **error)
{
    size_t n;
    memset(o, 0, sizeof *o);
    pkv_seq_params_init(&o->params);
    o->id = json_string_value(json_object_get(op, "id"));
    if (!o->id || json_object_get(s->ids, o->id)) {
        *error = shell_error(PKV_E_INVAL, "id: a new string was expected");
        return false;
    }
    if (!shell_tokens(json_object_get(op, "tokens"), false, &o->tokens, &n, error) ||
        !read_lora(op, o, error) || !read_media(op, o, error) || !read_switches(op, o, error) ||
        !optional_text(op, "salt", &o->extras.salt, error) ||
        !optional_text(op, "session", &o->params.session, error)) {
        return false;
    }
    o->params.tokens = o->tokens;
    o->params.n_tokens = n;
    o->params.extras = &o->extras;
    return true;
}

static json_t *show_hit(shell *s, pkv_seq *seq, bool connector)
{
    pkv_hit hit;
    bool diverged;
    const pkv_status st =
        connector ? pkv_seq_lookup_for_connector(seq, &hit, &diverged) : pkv_seq_lookup(seq, &hit);
    if (st != PKV_OK) {
        return shell_failed(st);
    }
    json_t *answer = json_object(), *groups = json_array();
    cli_set(answer, "cached_tokens", cli_int(hit.tokens));
    for (uint32_t g = 0; g < pkv_cache_get_info(s->cache)->n_groups; g++) {
        uint64_t n;
        const pkv_block *blocks = pkv_cache_hit_blocks(s->cache, g, &n);
        cli_push(groups, shell_block_list(blocks, n));
    }
    cli_set(answer, "blocks", groups);
    cli_set(answer, "shared_prefix", cli_int(hit.shared_prefix));
    if (connector) {
        cli_set(answer, "diverged", json_boolean(diverged));
    }
    return answer;
}

static void add_request(shell *s, const char *id, pkv_seq *seq)
{
    cli_set(s->ids, id, json_integer((json_int_t)(intptr_t)seq));
}

json_t *shell_open(shell *s, const json_t *op)
{
    opening o;
    json_t *answer = NULL;
    pkv_seq *seq;
    if (read_opening(s, op, &o, &answer)) {
        const pkv_status st = pkv_seq_open(s->cache, &o.params, &seq);
        if (st == PKV_OK) {
            add_request(s, o.id, seq);
            answer = show_hit(s, seq, false);
        } else {
            answer = shell_failed(st);
        }
    }
    free(o.tokens);
    free(o.media);
    return answer;
}

json_t *shell_lookup(shell *s, const json_t *op)
{
    json_t *error;
    bool connector;
    pkv_seq *seq = shell_request(s, op, &error);
    if (!seq || !shell_bool(op, "connector", false, &connector, &error)) {
        return error;
    }
    return show_hit(s, seq, connector);
}

json_t *shell_preempt(shell *s, const json_t *op)
{
    json_t *error;
    pkv_seq *seq = shell_request(s, op, &error);
    if (!seq) {
        return error;
    }
    const pkv_status st = pkv_seq_preempt(seq);
    return st == PKV_OK ? json_object() : shell_failed(st);
}

json_t *shell_free(shell *s, const json_t *op)
{
    json_t *error;
    bool defer;
    pkv_seq *seq = shell_request(s, op, &error);
    if (!seq || !shell_bool(op, "defer", false, &defer, &error)) {
        return error;
    }
    const pkv_status st = pkv_seq_close(seq, defer);
    if (st != PKV_OK) {
        return shell_failed(st);
    }
    (void)json_object_del(s->ids, json_string_value(json_object_get(op, "id")));
    return json_object();
}

json_t *shell_fork(shell *s, const json_t *op)
{
    json_t *error;
    pkv_seq *seq = shell_request(s, op, &error), *twin;
    if (!seq) {
        return error;
    }
    const char *id = json_string_value(json_object_get(op, "new_id"));
    if (!id || json_object_get(s->ids, id)) {
        return shell_error(PKV_E_INVAL, "new_id: a new string was expected");
    }
    const pkv_status st = pkv_seq_fork(seq, &twin);
    if (st != PKV_OK) {
        return shell_failed(st);
    }
    add_request(s, id, twin);
    json_t *answer = json_object();
    cli_set(answer, "blocks", shell_lists(s, twin, pkv_seq_table));
    return answer;
}
