/* shell_steps.c  Operations on the whole cache. */
#include <stdlib.h>

#include "shell.h"

static json_t *done(bool ok)
{
    json_t *answer = json_object();
    cli_set(answer, "ok", json_boolean(ok));
    return answer;
}

json_t *shell_evict(shell *s, const json_t *op)
{
    json_t *error;
    uint32_t *blocks;
    size_t n;
    if (!json_is_array(json_object_get(op, "blocks"))) {
        return shell_error(PKV_E_INVAL, "blocks: a list of block ids was expected");
    }
    if (!shell_numbers(op, "blocks", pkv_cache_get_info(s->cache)->n_blocks, &blocks, &n, &error)) {
        return error;
    }
    const pkv_status st = pkv_cache_evict(s->cache, blocks, n);
    free(blocks);
    return st == PKV_OK ? done(true) : shell_failed(st);
}

json_t *shell_reset(shell *s, const json_t *op)
{
    (void)op;
    return done(pkv_cache_reset(s->cache) == PKV_OK);
}

json_t *shell_step(shell *s, const json_t *op)
{
    (void)op;
    pkv_cache_step(s->cache);
    return done(true);
}

json_t *shell_state(shell *s, const json_t *op)
{
    (void)op;
    const pkv_pool *pool = pkv_cache_get_pool(s->cache);
    const uint64_t n = pkv_pool_free_count(pool);
    pkv_block *list = malloc((n + 1) * sizeof *list);
    if (!list) {
        return shell_error(PKV_E_NOMEM, "state: out of memory");
    }
    json_t *answer = json_object();
    cli_set(answer, "free", shell_block_list(list, pkv_pool_free_list(pool, list, n)));
    cli_set(answer, "usage", json_real(pkv_pool_usage(pool)));
    cli_set(answer, "requests", cli_int(json_object_size(s->ids)));
    free(list);
    return answer;
}

json_t *shell_stats(shell *s, const json_t *op)
{
    (void)op;
    pkv_cache_stats x;
    pkv_cache_take_stats(s->cache, &x);
    json_t *answer = json_object();
    cli_set(answer, "reset", json_boolean(x.reset));
    cli_set(answer, "requests", cli_int(x.requests));
    cli_set(answer, "queries", cli_int(x.queries));
    cli_set(answer, "hits", cli_int(x.hits));
    cli_set(answer, "preempted_requests", cli_int(x.preempted_requests));
    cli_set(answer, "preempted_queries", cli_int(x.preempted_queries));
    cli_set(answer, "preempted_hits", cli_int(x.preempted_hits));
    return answer;
}

json_t *shell_take_events(shell *s, const json_t *op)
{
    (void)op;
    json_t *answer = json_object();
    cli_set(answer, "events", json_copy(s->events));
    (void)json_array_clear(s->events);
    return answer;
}

json_t *shell_check(shell *s, const json_t *op)
{
    (void)op;
    const pkv_status st = pkv_cache_check(s->cache);
    json_t *answer = done(st == PKV_OK);
    if (st != PKV_OK) {
        cli_set(answer, "error", json_string(pkv_last_error()));
    }
    return answer;
}

/* ---- many requests in one call ---- */

static void free_steps(pkv_step *steps, size_t n)
{
    for (size_t i = 0; steps && i < n; i++) {
        free((void *)steps[i].tokens);
    }
    free(steps);
}

/* The library checks this, too; here the error is that of the first id that has one. */
static bool can_advance(const shell *s, const pkv_step *step)
{
    pkv_seq_info info;
    pkv_seq_get_info(step->seq, &info);
    return info.allocated && info.n_tokens + step->n_tokens > info.computed &&
           step->n_tokens <= pkv_cache_get_info(s->cache)->max_model_len - info.n_tokens;
}

/* Steps of distinct requests, each with its tokens, malloc'ed. */
static pkv_step *read_steps(const shell *s, const json_t *ids, const json_t *lists, json_t **error)
{
    const size_t n = json_array_size(ids);
    json_t *seen = json_object();
    pkv_step *steps = calloc(n + 1, sizeof *steps);
    bool ok = steps != NULL && seen != NULL;
    if (!ok) {
        *error = shell_error(PKV_E_NOMEM, "steps: out of memory");
    }
    for (size_t i = 0; ok && i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        int32_t *tokens = NULL;
        size_t n_tokens = 0;
        steps[i].seq = shell_find(s, id, error);
        ok =
            steps[i].seq && shell_tokens(json_array_get(lists, i), true, &tokens, &n_tokens, error);
        steps[i].tokens = tokens;
        steps[i].n_tokens = n_tokens;
        steps[i].computed = PKV_STEP_KEEP;
        if (ok && !can_advance(s, &steps[i])) {
            *error =
                shell_error(PKV_E_INVAL, "ids: %.60s cannot be advanced", json_string_value(id));
            ok = false;
        } else if (ok && json_object_get(seen, json_string_value(id))) {
            *error =
                shell_error(PKV_E_INVAL, "ids: %.60s stands there twice", json_string_value(id));
            ok = false;
        } else if (ok) {
            cli_set(seen, json_string_value(id), json_true());
        }
    }
    json_decref(seen);
    if (!ok) {
        free_steps(steps, n);
    }
    return ok ? steps : NULL;
}

json_t *shell_steps(shell *s, const json_t *op)
{
    const json_t *ids = json_object_get(op, "ids"), *lists = json_object_get(op, "tokens");
    const size_t n = json_array_size(ids);
    pkv_allocate_result result;
    uint64_t lookahead, n_done;
    json_t *answer;
    if (n == 0 || !json_is_array(lists) || json_array_size(lists) != n) {
        return shell_error(PKV_E_INVAL, "steps: ids and as many token lists were expected");
    }
    if (!shell_int(op, "lookahead", 0, &lookahead, &answer)) {
        return answer;
    }
    pkv_step *steps = read_steps(s, ids, lists, &answer);
    if (!steps) {
        return answer;
    }
    const pkv_status st = pkv_cache_advance(s->cache, steps, n, lookahead, &result, &n_done);
    shell_note_offers(s);
    if (st != PKV_OK && st != PKV_E_NO_BLOCKS) {
        free_steps(steps, n);
        return shell_failed(st);
    }
    json_t *added = json_array();
    for (uint64_t i = 0; i < n_done; i++) {
        cli_push(added, shell_lists(s, steps[i].seq, pkv_seq_new_blocks));
    }
    free_steps(steps, n);
    answer = json_object();
    cli_set(answer, "done", cli_int(n_done));
    cli_set(answer, "new_blocks", added);
    shell_put_result(answer, &result);
    return answer;
}
