/* shell_states.c  Recurrent states that a connector may store. */
#include <string.h>

#include "shell.h"

static const char *id_of(const shell *s, const pkv_seq *seq)
{
    const char *id;
    json_t *value;
    json_object_foreach(s->ids, id, value)
    {
        if (json_integer_value(value) == (json_int_t)(intptr_t)seq) {
            return id;
        }
    }
    return "";
}

/* [group, block, tokens], with the id in front if it is asked for. */
static json_t *show_offer(const shell *s, const pkv_state_offer *offer, bool with_id)
{
    json_t *list = json_array();
    if (with_id) {
        cli_push(list, json_string(id_of(s, offer->seq)));
    }
    cli_push(list, cli_int(offer->group));
    cli_push(list, cli_int(offer->block));
    cli_push(list, cli_int(offer->tokens));
    return list;
}

void shell_note_offers(shell *s)
{
    uint64_t n;
    const pkv_state_offer *offers = pkv_cache_take_offers(s->cache, &n);
    for (uint64_t i = 0; i < n; i++) {
        cli_push(s->offers, show_offer(s, &offers[i], true));
    }
}

json_t *shell_offloads(shell *s, const json_t *op)
{
    (void)op;
    json_t *answer = json_object();
    cli_set(answer, "offloads", json_copy(s->offers));
    (void)json_array_clear(s->offers);
    return answer;
}

json_t *shell_finish(shell *s, const json_t *op)
{
    json_t *answer;
    const pkv_state_offer *offers;
    uint64_t n;
    pkv_seq_info info;
    pkv_seq *seq = shell_request(s, op, &answer);
    if (!seq) {
        return answer;
    }
    const pkv_status st = pkv_seq_finish(seq, &offers, &n);
    if (st != PKV_OK) {
        return shell_failed(st);
    }
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++) {
        cli_push(list, show_offer(s, &offers[i], false));
    }
    pkv_seq_get_info(seq, &info);
    answer = json_object();
    cli_set(answer, "offloads", list);
    cli_set(answer, "blocks", shell_tables(s, seq, info.computed));
    return answer;
}
