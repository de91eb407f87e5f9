/* shell.h  The parts of `pagedkv shell`. */
#ifndef CLI_SHELL_H
#define CLI_SHELL_H

#include "cli.h"

/* One cache and the requests in it. */
typedef struct shell {
    pkv_cache *cache;
    json_t *ids;    /* id -> pkv_seq *, as an integer */
    json_t *events; /* since last asked */
    json_t *offers; /* recurrent states that were keyed; since last asked */
} shell;

/* Largest number in a request. */
#define SHELL_MAX_INT ((json_int_t)0x7fffffff)

/* ---- shell_cache.c: from a document or a plan to a shell ---- */

/* A plan document. NULL: *st and *why, valid until the next call, say why. */
shell *shell_of_text(const char *text, size_t len, pkv_status *st, const char **why);
void shell_destroy(shell *s);

/* ---- shell_events.c ---- */

/* An event function whose context is a shell: adds to its events. */
void shell_note(void *ctx, const pkv_event *event);

/* ---- shell_fields.c: what a request says; each puts an error answer where it fails ---- */

json_t *shell_error(pkv_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The error of a library call. */
json_t *shell_failed(pkv_status st);
/* A field; NULL: it is missing or null. */
const json_t *shell_given(const json_t *op, const char *name);
/* A missing field and null are the default; without a default (-1) the field must be there. */
bool shell_int(const json_t *op, const char *name, json_int_t otherwise, uint64_t *out,
               json_t **error);
bool shell_bool(const json_t *op, const char *name, bool otherwise, bool *out, json_t **error);
/* A list of numbers below a bound, malloc'ed; NULL and 0 for a missing or empty list. */
bool shell_numbers(const json_t *op, const char *name, uint64_t bound, uint32_t **out, size_t *n,
                   json_t **error);
/* Token ids, malloc'ed. */
bool shell_tokens(const json_t *list, bool may_be_empty, int32_t **out, size_t *n, json_t **error);
/* The request that "id" names. */
pkv_seq *shell_request(const shell *s, const json_t *op, json_t **error);
pkv_seq *shell_find(const shell *s, const json_t *id, json_t **error);

/* ---- shell_open.c, shell_ops.c, shell_steps.c: operations ---- */

json_t *shell_open(shell *s, const json_t *op);
json_t *shell_lookup(shell *s, const json_t *op);
json_t *shell_allocate(shell *s, const json_t *op);
json_t *shell_append(shell *s, const json_t *op);
json_t *shell_computed(shell *s, const json_t *op);
json_t *shell_keep(shell *s, const json_t *op); /* "cache" */
json_t *shell_blocks(shell *s, const json_t *op);
json_t *shell_keys(shell *s, const json_t *op);
json_t *shell_cached(shell *s, const json_t *op);
json_t *shell_zero(shell *s, const json_t *op);
json_t *shell_preempt(shell *s, const json_t *op);
json_t *shell_free(shell *s, const json_t *op);
json_t *shell_fork(shell *s, const json_t *op);

json_t *shell_evict(shell *s, const json_t *op);
json_t *shell_reset(shell *s, const json_t *op);
json_t *shell_step(shell *s, const json_t *op);
json_t *shell_steps(shell *s, const json_t *op);
json_t *shell_state(shell *s, const json_t *op);
json_t *shell_stats(shell *s, const json_t *op);
json_t *shell_take_events(shell *s, const json_t *op);
json_t *shell_check(shell *s, const json_t *op);

/* ---- shell_states.c ---- */

/* Keeps what the cache offers now, under the ids of this moment. */
void shell_note_offers(shell *s);
json_t *shell_offloads(shell *s, const json_t *op);
json_t *shell_finish(shell *s, const json_t *op);

/* What several answers are made of. */
json_t *shell_block_list(const pkv_block *blocks, uint64_t n);
/* "copies" and "zero". */
void shell_put_result(json_t *answer, const pkv_allocate_result *result);
/* The entries of the tables that hold so many tokens. */
json_t *shell_tables(const shell *s, const pkv_seq *seq, uint64_t tokens);
/* One list per group, of pkv_seq_table() or pkv_seq_new_blocks(). */
json_t *shell_lists(const shell *s, const pkv_seq *seq,
                    const pkv_block *(*of)(const pkv_seq *seq, uint32_t group, uint64_t *n_out));

#endif
