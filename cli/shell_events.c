/* shell_events.c  Events as their wire format has them, hashes as hex. */
#include "shell.h"

static json_t *optional_text(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *token_list(const pkv_chain *chain, uint64_t first, uint64_t end)
{
    json_t *list = json_array();
    for (uint64_t i = first; i < end && i < chain->n_tokens; i++) {
        cli_push(list, json_integer(chain->tokens[i]));
    }
    return list;
}

static json_t *hashes(const pkv_event *e)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < e->n_keys; i++) {
        cli_push(list, cli_hex(e->keys[i]->bytes, e->key_bytes));
    }
    return list;
}

/* What lies behind each key. */
static void put_units(json_t *out, const pkv_event *e)
{
    json_t *extras = json_array(), *ahead = json_array();
    for (uint32_t i = 0; i < e->n_keys; i++) {
        const uint64_t start = e->positions[i], end = start + e->block_size;
        cli_push(extras, cli_unit_extras(e->chain->extras, start, end, e->lookahead));
        cli_push(ahead, token_list(e->chain, end, end + e->lookahead));
    }
    cli_set(out, "extra_keys", extras);
    if (e->lookahead > 0) {
        cli_set(out, "lookahead_token_ids", ahead);
    } else {
        json_decref(ahead);
    }
}

static json_t *stored(const shell *s, const pkv_event *e)
{
    const pkv_cache_group *group = pkv_cache_group_at(s->cache, e->group);
    const pkv_chain *chain = e->chain;
    const pkv_extras *extras = chain->extras;
    json_t *out = json_object();
    cli_set(out, "type", json_string("BlockStored"));
    cli_set(out, "block_hashes", hashes(e));
    cli_set(out, "parent_block_hash",
            e->parent ? cli_hex(e->parent->bytes, e->key_bytes) : json_null());
    cli_set(out, "token_ids", token_list(chain, e->first_token, e->first_token + e->n_tokens));
    cli_set(out, "block_size", cli_int(e->block_size));
    cli_set(out, "lora_id", chain->has_lora_id ? cli_int(chain->lora_id) : json_null());
    cli_set(out, "medium", json_string("GPU"));
    cli_set(out, "lora_name", optional_text(extras ? extras->lora_name : NULL));
    put_units(out, e);
    cli_set(out, "group_idx", cli_int(e->group));
    cli_set(out, "kv_cache_spec_kind", json_string(group->event_kind));
    if (group->window > 0) {
        cli_set(out, "kv_cache_spec_sliding_window", cli_int(group->window));
    }
    if (chain->session) {
        cli_set(out, "session_id", json_string(chain->session));
    }
    return out;
}

static json_t *removed(const pkv_event *e)
{
    json_t *out = json_object();
    cli_set(out, "type", json_string("BlockRemoved"));
    cli_set(out, "block_hashes", hashes(e));
    cli_set(out, "medium", json_string("GPU"));
    cli_set(out, "group_idx", cli_int(e->group));
    return out;
}

static json_t *cleared(void)
{
    json_t *out = json_object();
    cli_set(out, "type", json_string("AllBlocksCleared"));
    return out;
}

void shell_note(void *ctx, const pkv_event *e)
{
    const shell *s = ctx;
    cli_push(s->events, e->type == PKV_EVENT_STORED    ? stored(s, e)
                        : e->type == PKV_EVENT_REMOVED ? removed(e)
                                                       : cleared());
}
