/* shell_ops.c  What happens to one request between open and free. */
#include <stdlib.h>

#include "shell.h"

json_t *shell_block_list(const pkv_block *blocks, uint64_t n)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++) {
        cli_push(list, cli_int(blocks[i]));
    }
    return list;
}

void shell_put_result(json_t *answer, const pkv_allocate_result *result)
{
    json_t *copies = json_array();
    for (uint64_t i = 0; i < result->n_copies; i++) {
        json_t *pair = json_array();
        cli_push(pair, cli_int(result->copies[i].src));
        cli_push(pair, cli_int(result->copies[i].dst));
        cli_push(copies, pair);
    }
    cli_set(answer, "copies", copies);
    cli_set(answer, "zero", shell_block_list(result->zero, result->n_zero));
}

json_t *shell_lists(const shell *s, const pkv_seq *seq,
                    const pkv_block *(*of)(const pkv_seq *seq, uint32_t group, uint64_t *n_out))
{
    json_t *groups = json_array();
    for (uint32_t g = 0; g < pkv_cache_get_info(s->cache)->n_groups; g++) {
        uint64_t n;
        const pkv_block *blocks = of(seq, g, &n);
        cli_push(groups, shell_block_list(blocks, n));
    }
    return groups;
}

static bool read_allocate(const json_t *op, bool first, pkv_allocate_params *p, json_t **error)
{
    bool use, delay, fit, others;
    pkv_allocate_params_init(p);
    if (!shell_int(op, "new_tokens", -1, &p->new_tokens, error) ||
        !shell_int(op, "external_tokens", 0, &p->external_tokens, error) ||
        !shell_int(op, "lookahead", 0, &p->lookahead, error) ||
        !shell_int(op, "in_flight_tokens", 0, &p->in_flight_tokens, error) ||
        !shell_int(op, "reserved_blocks", 0, &p->reserved_blocks, error) ||
        !shell_int(op, "encoder_tokens", 0, &p->encoder_tokens, error) ||
        !shell_bool(op, "use_cached", first, &use, error) ||
        !shell_bool(op, "delay_caching", false, &delay, error) ||
        !shell_bool(op, "full_sequence_must_fit", false, &fit, error) ||
        !shell_bool(op, "others_scheduled", true, &others, error)) {
        return false;
    }
    p->use_cached = use;
    p->delay_caching = delay;
    p->full_sequence_must_fit = fit;
    p->others_scheduled = others;
    return true;
}

static json_t *allocated(const shell *s, const pkv_seq *seq, const pkv_allocate_result *result)
{
    json_t *answer = json_object();
    cli_set(answer, "ok", json_true());
    cli_set(answer, "cached_tokens", cli_int(result->cached_tokens));
    cli_set(answer, "new_blocks", shell_lists(s, seq, pkv_seq_new_blocks));
    shell_put_result(answer, result);
    return answer;
}

json_t *shell_allocate(shell *s, const json_t *op)
{
    json_t *answer;
    pkv_allocate_params p;
    pkv_allocate_result result;
    pkv_seq_info info;
    uint32_t *skip;
    size_t n_skip;
    pkv_seq *seq = shell_request(s, op, &answer);
    if (!seq) {
        return answer;
    }
    pkv_seq_get_info(seq, &info);
    if (!read_allocate(op, !info.allocated, &p, &answer) ||
        !shell_numbers(op, "skip_zero_groups", pkv_cache_get_info(s->cache)->n_groups, &skip,
                       &n_skip, &answer)) {
        return answer;
    }
    p.skip_zero_groups = skip;
    p.n_skip_zero_groups = n_skip;
    const pkv_status st = pkv_seq_allocate(seq, &p, &result);
    free(skip);
    shell_note_offers(s);
    if (st == PKV_E_NO_BLOCKS) {
        answer = json_object();
        cli_set(answer, "ok", json_false());
        return answer;
    }
    return st == PKV_OK ? allocated(s, seq, &result) : shell_failed(st);
}

json_t *shell_append(shell *s, const json_t *op)
{
    json_t *answer;
    int32_t *tokens;
    size_t n;
    pkv_seq_info info;
    pkv_seq *seq = shell_request(s, op, &answer);
    if (!seq || !shell_tokens(json_object_get(op, "tokens"), false, &tokens, &n, &answer)) {
        return answer;
    }
    const pkv_status st = pkv_seq_append(seq, tokens, n);
    free(tokens);
    if (st != PKV_OK) {
        return shell_failed(st);
    }
    pkv_seq_get_info(seq, &info);
    answer = json_object();
    cli_set(answer, "tokens", cli_int(info.n_tokens));
    return answer;
}

/* Operations of one request and a number of tokens that answer nothing. */
static json_t *with_tokens(const shell *s, const json_t *op,
                           pkv_status (*run)(pkv_seq *seq, uint64_t tokens))
{
    json_t *error;
    uint64_t tokens;
    pkv_seq *seq = shell_request(s, op, &error);
    if (!seq || !shell_int(op, "tokens", -1, &tokens, &error)) {
        return error;
    }
    const pkv_status st = run(seq, tokens);
    return st == PKV_OK ? json_object() : shell_failed(st);
}

json_t *shell_computed(shell *s, const json_t *op)
{
    return with_tokens(s, op, pkv_seq_set_computed);
}

json_t *shell_keep(shell *s, const json_t *op)
{
    json_t *answer = with_tokens(s, op, pkv_seq_cache);
    shell_note_offers(s);
    return answer;
}

json_t *shell_tables(const shell *s, const pkv_seq *seq, uint64_t tokens)
{
    json_t *groups = json_array();
    for (uint32_t g = 0; g < pkv_cache_get_info(s->cache)->n_groups; g++) {
        uint64_t n;
        const pkv_block *table = pkv_seq_table(seq, g, &n);
        cli_push(groups, shell_block_list(table, pkv_seq_blocks_of(seq, g, tokens)));
    }
    return groups;
}

json_t *shell_blocks(shell *s, const json_t *op)
{
    json_t *answer;
    uint64_t tokens;
    const bool all = !json_is_integer(json_object_get(op, "tokens"));
    pkv_seq *seq = shell_request(s, op, &answer);
    if (!seq || !shell_int(op, "tokens", 0, &tokens, &answer)) {
        return answer;
    }
    answer = json_object();
    cli_set(answer, "blocks",
            all ? shell_lists(s, seq, pkv_seq_table) : shell_tables(s, seq, tokens));
    return answer;
}

json_t *shell_keys(shell *s, const json_t *op)
{
    json_t *answer;
    uint64_t n;
    const pkv_key *keys;
    pkv_seq *seq = shell_request(s, op, &answer);
    if (!seq) {
        return answer;
    }
    const pkv_status st = pkv_seq_keys(seq, &keys, &n);
    if (st != PKV_OK) {
        return shell_failed(st);
    }
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++) {
        cli_push(list, cli_hex(keys[i].bytes, pkv_cache_get_info(s->cache)->key_bytes));
    }
    answer = json_object();
    cli_set(answer, "keys", list);
    return answer;
}

json_t *shell_cached(shell *s, const json_t *op)
{
    json_t *answer;
    const pkv_seq *seq = shell_request(s, op, &answer);
    if (!seq) {
        return answer;
    }
    answer = json_object();
    cli_set(answer, "tokens", cli_int(pkv_seq_cached_tokens(seq)));
    return answer;
}

json_t *shell_zero(shell *s, const json_t *op)
{
    json_t *answer;
    const pkv_block *blocks;
    uint64_t tokens, n;
    pkv_seq *seq = shell_request(s, op, &answer);
    if (!seq || !shell_int(op, "tokens", -1, &tokens, &answer)) {
        return answer;
    }
    const pkv_status st = pkv_seq_zero(seq, tokens, &blocks, &n);
    if (st != PKV_OK) {
        return shell_failed(st);
    }
    answer = json_object();
    cli_set(answer, "zero", shell_block_list(blocks, n));
    return answer;
}
