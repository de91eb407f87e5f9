/* seq.c  The life of a sequence: opened, looked up, grown, rolled back, preempted. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/params.h"
#include "base/tokens.h"
#include "pool/pool_internal.h"
#include "seq/cache_internal.h"

void pkv_seq_params_init(pkv_seq_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

static pkv_status no_memory(const char *function)
{
    return pkvi_fail(PKV_E_NOMEM, "%s: out of memory", function);
}

/* ---- tokens and keys ---- */

static pkv_status check_tokens(const char *function, const int32_t *tokens, uint64_t n)
{
    const uint64_t bad = tokens ? pkvi_first_negative(tokens, n) : n;
    return bad == n ? PKV_OK
                    : pkvi_fail(PKV_E_INVAL, "%s: token %" PRIu64 " is %" PRId32, function, bad,
                                tokens[bad]);
}

/* Tokens that are checked while they are copied: `to` is not theirs before all are right. */
static pkv_status copy_tokens(const char *function, int32_t *to, const int32_t *from, uint64_t n)
{
    enum { PIECE = 1024 }; /* is still in the first cache when it is copied */
    for (uint64_t at = 0; at < n; at += PIECE) {
        const uint64_t length = pkvi_min(PIECE, n - at);
        const uint64_t bad = pkvi_first_negative(from + at, length);
        if (bad < length) {
            return check_tokens(function, from, n);
        }
        memcpy(to + at, from + at, (size_t)length * sizeof *from);
    }
    return PKV_OK;
}

/* In whole units, so that it grows in steps that take a block anyway. */
static bool reserve_tokens(pkv_seq *seq, size_t n)
{
    void *tokens = pkvi_lent_grown(seq, seq->tokens, &seq->body->token_capacity, n,
                                   (size_t)seq->cache->info.unit, sizeof *seq->tokens);
    seq->tokens = tokens ? tokens : seq->tokens;
    return tokens != NULL;
}

bool pkvi_reserve_tokens(pkv_seq *seq, uint64_t n)
{
    pkv_cache *c = seq->cache;
    if (n < seq->body->reserved) {
        return true;
    }
    if (seq->body->has_tokens && !reserve_tokens(seq, (size_t)n)) {
        return false;
    }
    if (!pkvi_reserve_content(seq, n)) {
        return false;
    }
    for (uint32_t g = 0; c->info.caching && g < c->info.n_groups; g++) {
        const uint64_t blocks = n / c->managers[g].span + 3; /* a quiet step may go one further */
        if (!pkvi_block_list_reserve(&c->alloc, &c->hit[g], (size_t)blocks) ||
            !pkvi_byte_list_reserve(&c->alloc, &c->mask, (size_t)blocks)) {
            return false;
        }
    }
    const uint64_t end = (n / c->info.unit + 1) * c->info.unit; /* of the unit that it ends in */
    seq->body->reserved =
        seq->body->has_tokens ? pkvi_min(end, seq->body->token_capacity + 1) : end;
    return true;
}

/* ---- copies of what the caller lends ---- */

static pkv_status copy_text(pkvi_arena *arena, const char *from, const char **to)
{
    *to = from ? pkvi_arena_text(arena, from) : NULL;
    return from && !*to ? no_memory("pkv_seq_open") : PKV_OK;
}

static pkv_status copy_media(pkvi_arena *arena, const pkv_extras *from, pkv_extras *to)
{
    pkv_media *media = pkvi_arena_get(arena, from->n_media, sizeof *media);
    if (!media) {
        return no_memory("pkv_seq_open");
    }
    for (uint32_t i = 0; i < from->n_media; i++) {
        media[i] = from->media[i];
        PKVI_RETURN_IF(copy_text(arena, from->media[i].id, &media[i].id));
    }
    to->media = media;
    return PKV_OK;
}

static pkv_status copy_extras(pkv_seq *seq, const pkv_extras *from)
{
    if (!from) {
        return PKV_OK;
    }
    const pkv_status st = pkv_extras_check(from, seq->n_tokens);
    if (st != PKV_OK) {
        pkvi_error_rename("pkv_seq_open");
        return st;
    }
    pkv_extras *to = pkvi_arena_get(&seq->body->arena, 1, sizeof *to);
    if (!to) {
        return no_memory("pkv_seq_open");
    }
    *to = *from;
    PKVI_RETURN_IF(copy_text(&seq->body->arena, from->lora_name, &to->lora_name));
    PKVI_RETURN_IF(copy_text(&seq->body->arena, from->lora_path, &to->lora_path));
    PKVI_RETURN_IF(copy_text(&seq->body->arena, from->salt, &to->salt));
    PKVI_RETURN_IF(copy_media(&seq->body->arena, from, to));
    if (from->has_embeds && from->n_embed_rows > 0) {
        const size_t rows = (size_t)from->n_embed_rows, bytes = (size_t)from->embed_row_bytes;
        uint8_t *embeds = pkvi_arena_get(&seq->body->arena, rows, bytes);
        if (!embeds) {
            return no_memory("pkv_seq_open");
        }
        memcpy(embeds, from->embeds, rows * bytes);
        to->embeds = embeds;
    }
    seq->body->extras = to;
    return PKV_OK;
}

/* ---- open ---- */

static pkv_status check_open(const pkv_cache *c, const pkv_seq_params *p)
{
    if (p->n_tokens == 0 || p->n_tokens > c->info.max_model_len) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_open: n_tokens %" PRIu64
                         " is not within 1 and max_model_len %" PRIu64,
                         p->n_tokens, c->info.max_model_len);
    }
    if (!p->tokens && !p->keys && c->info.caching) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_open: neither tokens nor keys");
    }
    if (p->keys && c->by_tokens) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_open: keys: this cache finds content by its tokens; make it with "
                         "index PKV_INDEX_CHAINS or PKV_INDEX_KEYS");
    }
    const uint64_t n_keys = pkv_key_count(p->n_tokens, c->info.unit, c->hash_lookahead);
    if (p->keys && p->n_keys != n_keys) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_open: n_keys %" PRIu64 " where %" PRIu64 " tokens have %" PRIu64,
                         p->n_keys, p->n_tokens, n_keys);
    }
    return PKV_OK;
}

static pkv_status new_seq(pkv_cache *c, pkv_seq **out)
{
    pkv_seq *seq = pkvi_seat_take(c);
    if (!seq) {
        return no_memory("pkv_seq_open");
    }
    pkvi_arena_init(&seq->body->arena, &c->alloc, 1024);
    seq->body->waiting = true;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        seq->body->tables[g].tail = PKVI_NO_TAIL;
    }
    *out = seq;
    return PKV_OK;
}

static void link_seq(pkv_seq *seq)
{
    seq->body->next = seq->cache->first;
    if (seq->body->next) {
        seq->body->next->body->prev = seq;
    }
    seq->cache->first = seq;
    seq->cache->n_open++;
}

static pkv_status fill_seq(pkv_seq *seq, const pkv_seq_params *p)
{
    const char *session;
    seq->body->has_tokens = p->tokens != NULL;
    seq->body->ready_keys = p->keys != NULL;
    seq->body->skip_lookup = p->skip_lookup;
    seq->body->report_reused = p->report_reused;
    seq->body->has_lora_id = p->has_lora_id;
    seq->body->lora_id = p->lora_id;
    seq->n_tokens = p->n_tokens;
    seq->body->n_prompt = p->n_tokens;
    PKVI_RETURN_IF(copy_extras(seq, p->extras));
    PKVI_RETURN_IF(copy_text(&seq->body->arena, p->session, &session));
    if (!pkvi_reserve_tokens(seq, p->n_tokens)) {
        return no_memory("pkv_seq_open");
    }
    if (p->tokens) {
        PKVI_RETURN_IF(copy_tokens("pkv_seq_open", seq->tokens, p->tokens, p->n_tokens));
    }
    seq->body->session = session;
    if (p->keys && seq->cache->info.caching && p->n_keys > 0) {
        memcpy(seq->body->keys.at, p->keys, (size_t)p->n_keys * sizeof *p->keys);
        seq->body->keys.n = (size_t)p->n_keys;
    }
    return pkvi_extend_content("pkv_seq_open", seq);
}

pkv_status pkv_seq_open(pkv_cache *cache, const pkv_seq_params *params, pkv_seq **out)
{
    pkv_seq_params p;
    pkv_seq *seq;
    if (out) {
        *out = NULL;
    }
    if (!cache || !params || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_open: cache, params or out is NULL");
    }
    pkvi_cache_check_thread(cache);
    pkv_seq_params_init(&p);
    PKVI_RETURN_IF(pkvi_import_params("pkv_seq_open", params, &p, sizeof p));
    PKVI_RETURN_IF(check_open(cache, &p));
    if (!pkvi_late_list_reserve(&cache->alloc, &cache->due, (size_t)cache->n_open + 1) ||
        !pkvi_lanes_reserve(cache, (size_t)cache->n_open + 1)) {
        return no_memory("pkv_seq_open");
    }
    PKVI_RETURN_IF(new_seq(cache, &seq));
    link_seq(seq);
    const pkv_status st = fill_seq(seq, &p);
    if (st != PKV_OK) {
        pkvi_seq_free(seq);
        return st;
    }
    *out = seq;
    return PKV_OK;
}

/* ---- while it runs ---- */

pkv_status pkv_seq_lookup(pkv_seq *seq, pkv_hit *out)
{
    if (!seq || !out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_lookup: seq or out is NULL");
    }
    pkvi_fetch_for_lookup(seq);
    pkvi_cache_check_thread(seq->cache);
    pkvi_catch_up(seq->cache);
    if (seq->body->live) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_lookup: the sequence is allocated");
    }
    pkvi_find_hit(seq, out);
    seq->body->shared_prefix = out->shared_prefix;
    return PKV_OK;
}

static pkv_status check_growth(const char *function, const pkv_seq *seq, uint64_t n)
{
    const uint64_t most = seq->cache->info.max_model_len;
    if (n == 0 || n > most || seq->n_tokens > most - n) {
        return pkvi_fail(PKV_E_INVAL,
                         "%s: %" PRIu64 " tokens more than %" PRIu64 ", max_model_len is %" PRIu64,
                         function, n, seq->n_tokens, most);
    }
    return PKV_OK;
}

pkv_status pkvi_append_tokens(const char *function, pkv_seq *seq, const int32_t *tokens, uint64_t n)
{
    if (!pkvi_reserve_tokens(seq, seq->n_tokens + n)) {
        return no_memory(function);
    }
    if (seq->body->has_tokens) {
        memcpy(seq->tokens + seq->n_tokens, tokens, (size_t)n * sizeof *tokens);
    }
    seq->n_tokens += n;
    return PKV_OK;
}

pkv_status pkvi_append(const char *function, pkv_seq *seq, const int32_t *tokens, uint64_t n)
{
    PKVI_RETURN_IF(pkvi_append_tokens(function, seq, tokens, n));
    const pkv_status st = pkvi_extend_content(function, seq);
    if (st != PKV_OK) {
        seq->n_tokens -= n;
    }
    return st;
}

pkv_status pkv_seq_append(pkv_seq *seq, const int32_t *tokens, uint64_t n)
{
    if (!seq || (seq->body->has_tokens && !tokens)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_append: seq or tokens is NULL");
    }
    pkvi_cache_check_thread(seq->cache);
    pkvi_lane_stop(seq);
    PKVI_RETURN_IF(check_growth("pkv_seq_append", seq, n));
    PKVI_RETURN_IF(check_tokens("pkv_seq_append", tokens, n));
    return pkvi_append("pkv_seq_append", seq, tokens, n);
}

pkv_status pkv_seq_append_keys(pkv_seq *seq, const pkv_key *keys, uint64_t n)
{
    if (!seq || !keys || !seq->body->ready_keys) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_append_keys: the sequence was not opened with keys");
    }
    pkvi_cache_check_thread(seq->cache);
    pkvi_lane_stop(seq);
    const pkv_cache *c = seq->cache;
    const uint64_t most = pkv_key_count(seq->n_tokens, c->info.unit, c->hash_lookahead);
    if (n > most || seq->body->keys.n > most - n) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_append_keys: %" PRIu64
                         " keys more than %zu, the tokens have %" PRIu64,
                         n, seq->body->keys.n, most);
    }
    if (c->info.caching && n > 0) { /* room was made with the tokens */
        memcpy(seq->body->keys.at + seq->body->keys.n, keys, (size_t)n * sizeof *keys);
        seq->body->keys.n += (size_t)n;
        pkvi_end_quiet(seq); /* the next step has something to key */
    }
    return PKV_OK;
}

uint64_t pkvi_keyed_tokens(const pkv_seq *seq)
{
    uint64_t keyed = 0;
    for (uint32_t g = 0; g < seq->cache->info.n_groups; g++) {
        const pkvi_manager *m = &seq->cache->managers[g];
        if (m->cacheable && seq->body->tables[g].tracked) {
            keyed = pkvi_max(keyed, seq->body->tables[g].n_keyed * m->span);
        }
    }
    return keyed;
}

pkv_status pkvi_check_rollback(const char *function, const pkv_seq *seq, uint64_t tokens)
{
    const uint64_t keyed = pkvi_keyed_tokens(seq);
    if (tokens > seq->computed || tokens < keyed) {
        return pkvi_fail(PKV_E_INVAL,
                         "%s: tokens %" PRIu64 " is not within %" PRIu64 " (keyed) and %" PRIu64
                         " (computed)",
                         function, tokens, keyed, seq->computed);
    }
    return PKV_OK;
}

/* After a rollback the table of a fork ends before the first block that it may not write into. */
static void drop_shared_slots(pkv_seq *seq, uint32_t g)
{
    pkv_cache *c = seq->cache;
    pkvi_table *t = &seq->body->tables[g];
    size_t end = (size_t)pkvi_ceil_div(seq->computed, c->managers[g].span);
    while (end < t->n && pkvi_may_write(seq, t->ids[end])) {
        end++;
    }
    if (end >= t->n) {
        return;
    }
    for (size_t i = t->n; i > end; i--) {
        pkvi_pool_release(c->pool, &t->ids[i - 1], 1);
    }
    t->n = end;
    t->new_from = pkvi_min(t->new_from, end);
    t->dirty_from = pkvi_min(t->dirty_from, end);
}

void pkvi_roll_back(pkv_seq *seq, uint64_t tokens)
{
    seq->computed = tokens;
    pkvi_roll_back_due(seq, tokens);
    pkvi_begin_changes(seq);
    pkvi_move_first(seq, pkvi_min(seq->first, tokens));
    for (uint32_t g = 0; g < seq->cache->info.n_groups; g++) {
        drop_shared_slots(seq, g);
    }
}

pkv_status pkv_seq_set_computed(pkv_seq *seq, uint64_t tokens)
{
    if (!seq) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_set_computed: seq is NULL");
    }
    pkvi_touch(seq);
    PKVI_RETURN_IF(pkvi_check_rollback("pkv_seq_set_computed", seq, tokens));
    pkvi_roll_back(seq, tokens);
    return PKV_OK;
}

pkv_status pkv_seq_cache(pkv_seq *seq, uint64_t tokens)
{
    if (seq) {
        pkvi_touch(seq);
    }
    if (!seq || !seq->body->live || tokens > seq->computed) {
        return pkvi_fail(PKV_E_INVAL,
                         "pkv_seq_cache: tokens %" PRIu64 " of %" PRIu64 " computed, allocated %d",
                         tokens, seq ? seq->computed : 0, seq ? seq->body->live : 0);
    }
    pkv_cache *c = seq->cache;
    for (uint32_t g = 0; g < c->info.n_groups; g++) {
        if (c->managers[g].rules->state && !pkvi_reserve_states(seq, g, seq->body->tables[g].n)) {
            return no_memory("pkv_seq_cache");
        }
    }
    if (c->info.caching &&
        (!pkvi_place_content(seq, tokens) || !pkvi_reserve_secondary(c->pool, c->n_inside))) {
        return no_memory("pkv_seq_cache");
    }
    const size_t offers = c->offers.n;
    pkvi_end_quiet(seq); /* a state that is keyed now is copied before the next step writes */
    PKVI_RETURN_IF(pkvi_key_blocks(seq, tokens, seq->computed));
    pkvi_sort_offers(c, offers);
    return PKV_OK;
}

pkv_status pkv_seq_preempt(pkv_seq *seq)
{
    if (!seq || !seq->body->live) {
        return pkvi_fail(PKV_E_INVAL, "pkv_seq_preempt: the sequence is not allocated");
    }
    pkvi_touch(seq);
    pkvi_release_tables(seq);
    seq->body->waiting = true;
    seq->computed = 0;
    seq->first = 0;
    seq->body->n_preemptions++;
    return PKV_OK;
}
