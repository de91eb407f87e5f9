/* content.c  What names the content of a sequence: its keys, or its tokens; where the tree of runs
 * finds it, either, each unit behind the one before it.
 *
 * Where nobody wants keys, they are not computed: equal content is found by comparing tokens, and
 * the decisions are the same. What else a unit depends on, an adapter, media, a salt, is its tag: a
 * digest of the unit with its extras, for units that have some. The adapter and the salt are in
 * that of the first unit, and all others come after it. */
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/panic.h"
#include "key/hasher.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

uint64_t pkvi_known_units(const pkv_seq *seq)
{
    return seq->cache->by_tokens ? seq->n_tokens / seq->cache->info.unit : seq->body->keys.n;
}

void *pkvi_lent_grown(pkv_seq *seq, void *items, size_t *capacity, size_t n, size_t per_unit,
                      size_t bytes)
{
    const pkv_cache *c = seq->cache;
    if (n <= *capacity) {
        return items;
    }
    const size_t grown = ((*capacity == 0 ? n : n + n / 4) / per_unit + 2) * per_unit;
    const uint64_t most = c->info.max_model_len * per_unit / c->info.unit;
    const size_t room = (size_t)pkvi_max(n, pkvi_min(grown, most));
    pkvi_runs *runs = c->by_runs ? c->pool->runs : NULL;
    const uint32_t lent = runs ? pkvi_runs_lent(runs, &seq->body->cursor, items) : 0;
    void *moved = pkvi_array_resized(&c->alloc, items, capacity, room, bytes);
    if (moved && lent != 0) {
        pkvi_runs_moved(runs, lent, moved);
    }
    return moved;
}

/* Keys that a run may read. */
static bool reserve_chain(pkv_seq *seq, size_t n)
{
    pkvi_key_list *keys = &seq->body->keys;
    void *at = pkvi_lent_grown(seq, keys->at, &keys->capacity, n, 1, sizeof *keys->at);
    keys->at = at ? at : keys->at;
    return at != NULL;
}

bool pkvi_reserve_content(pkv_seq *seq, uint64_t n_tokens)
{
    const pkv_cache *c = seq->cache;
    const size_t units = (size_t)(n_tokens / c->info.unit + 1); /* quiet steps complete one more */
    if (!c->info.caching) {
        return true;
    }
    if (c->by_runs && !c->by_tokens) {
        return reserve_chain(seq, units);
    }
    if (!c->by_tokens) {
        return pkvi_key_list_reserve(&c->alloc, &seq->body->keys, units);
    }
    return !seq->body->extras || pkvi_tag_list_reserve(&c->alloc, &seq->body->tags, units);
}

/* ---- keys ---- */

/* Keys of the units from the last key on; there is room for them. */
static pkv_status add_keys(const char *function, pkv_seq *seq, uint64_t n)
{
    const pkv_cache *c = seq->cache;
    if (n <= seq->body->keys.n) {
        return PKV_OK;
    }
#ifndef NDEBUG
    if (n > seq->body->keys.capacity) {
        pkvi_panic("more keys than room was made for");
    }
#endif
    const pkv_key *parent =
        seq->body->keys.n > 0 ? &seq->body->keys.at[seq->body->keys.n - 1] : NULL;
    const pkv_status st = pkvi_key_chain(c->hasher, seq->body->extras, seq->tokens, seq->n_tokens,
                                         c->info.unit, c->hash_lookahead, seq->body->keys.n, n,
                                         parent, seq->body->keys.at + seq->body->keys.n, true);
    if (st != PKV_OK) {
        pkvi_error_rename(function);
        return st;
    }
    seq->body->keys.n = (size_t)n;
    return PKV_OK;
}

pkv_status pkv_seq_keys(pkv_seq *seq, const pkv_key **keys_out, uint64_t *n_out)
{
    if (!seq || !keys_out || !n_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_keys: seq, keys_out or n_out is NULL");
    }
    const pkv_cache *c = seq->cache;
    pkvi_cache_check_thread(c);
    pkvi_look_at(seq);
    if (c->by_tokens) {
        const uint64_t n = pkvi_known_units(seq);
        if (!pkvi_key_list_reserve(&c->alloc, &seq->body->keys, (size_t)n + 1)) {
            return pkvi_fail(PKV_E_NOMEM, "pkv_seq_keys: out of memory");
        }
        PKVI_RETURN_IF(add_keys("pkv_seq_keys", seq, n));
    }
    *keys_out = seq->body->keys.at;
    *n_out = seq->body->keys.n;
    return PKV_OK;
}

/* ---- tags ---- */

static bool has_media_in(const pkv_extras *extras, uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < extras->n_media; i++) {
        const pkv_media *media = &extras->media[i];
        if (media->offset < end && media->offset + media->length > start) {
            return true;
        }
    }
    return false;
}

static bool needs_tag(const pkv_seq *seq, uint64_t unit)
{
    const pkv_extras *extras = seq->body->extras;
    const uint64_t size = seq->cache->info.unit;
    return (unit == 0 && (extras->lora_name || extras->salt)) || extras->has_embeds ||
           has_media_in(extras, unit * size, (unit + 1) * size);
}

static pkv_status add_tags(const char *function, pkv_seq *seq, uint64_t n)
{
    static const pkv_key no_parent;
    const pkv_cache *c = seq->cache;
    for (; seq->body->n_tagged < n; seq->body->n_tagged++) {
        const uint64_t unit = seq->body->n_tagged;
        pkvi_tag *tag = &seq->body->tags.at[seq->body->tags.n];
        if (!needs_tag(seq, unit)) {
            continue;
        }
        tag->unit = unit;
        const pkv_status st =
            pkvi_key_chain(c->hasher, seq->body->extras, seq->tokens, seq->n_tokens, c->info.unit,
                           0, unit, unit + 1, &no_parent, &tag->key, true);
        if (st != PKV_OK) {
            pkvi_error_rename(function);
            return st;
        }
        seq->body->tags.n++;
    }
    return PKV_OK;
}

pkv_status pkvi_extend_content(const char *function, pkv_seq *seq)
{
    const pkv_cache *c = seq->cache;
    if (!c->info.caching || seq->body->ready_keys) {
        return PKV_OK;
    }
    if (!c->by_tokens) {
        return add_keys(function, seq,
                        pkv_key_count(seq->n_tokens, c->info.unit, c->hash_lookahead));
    }
    return seq->body->extras ? add_tags(function, seq, pkvi_known_units(seq)) : PKV_OK;
}

/* ---- places ---- */

pkvi_content pkvi_content_of(const pkv_seq *seq)
{
    if (!seq->cache->by_tokens) {
        return (pkvi_content){.tokens = (int32_t *)(void *)seq->body->keys.at, .lends = true};
    }
    return (pkvi_content){.tokens = seq->tokens,
                          .lends = true,
                          .tags = seq->body->tags.at,
                          .n_tags = seq->body->tags.n};
}

bool pkvi_place_content(pkv_seq *seq, uint64_t tokens)
{
    const pkv_cache *c = seq->cache;
    if (!c->by_runs) {
        return true;
    }
    const pkvi_content content = pkvi_content_of(seq);
    const uint64_t units = pkvi_min(tokens, seq->n_tokens) / c->info.unit;
    return pkvi_runs_lead(c->pool->runs, &seq->body->cursor, &content,
                          pkvi_min(units, pkvi_known_units(seq)));
}
