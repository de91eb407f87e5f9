/* fuzz_cache.c  Any bytes as calls on a small cache, the n-th allocation failing where they say so.
 * After each call every invariant holds; a refusal has changed nothing; nothing leaks. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pkv/document.h>
#include <pkv/seq.h>

#include "cache_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEQS = 6, MAX_BLOCKS = 128, MAX_TOKENS = 48, MAX_MEDIA = 3 };

typedef struct world {
    const uint8_t *at, *end;
    pkv_cache *cache;
    pkv_seq *seqs[SEQS];
    size_t allocated_bytes;
    unsigned fail_after; /* the so-many-th allocation fails; 0: none */
    bool failed;
    unsigned touched; /* so that what events point to is read */
} world;

/* What a refused call must not change. */
typedef struct snapshot {
    pkv_block free[MAX_BLOCKS];
    uint64_t n_free, n_keys;
    pkv_seq_info infos[SEQS];
} snapshot;

static void require(bool condition)
{
    if (!condition) abort();
}

/* ---- memory ---- */

static void *take(void *ctx, size_t bytes, size_t align)
{
    world *w = ctx;
    void *memory = NULL;
    if (w->fail_after > 0 && --w->fail_after == 0) {
        w->failed = true;
        return NULL;
    }
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, bytes) != 0) {
        return NULL;
    }
    w->allocated_bytes += bytes;
    return memory;
}

static void give(void *ctx, void *memory, size_t bytes, size_t align)
{
    world *w = ctx;
    (void)align;
    require(w->allocated_bytes >= bytes);
    w->allocated_bytes -= bytes;
    free(memory);
}

/* ---- numbers from the input ---- */

static uint8_t byte(world *w)
{
    return w->at < w->end ? *w->at++ : 0;
}

static uint64_t number(world *w)
{
    const uint8_t b = byte(w);
    return b == 255 ? UINT64_MAX : b == 254 ? INT64_MAX : b == 253 ? UINT32_MAX : b % 64;
}

/* Prompts that often share a beginning. */
static uint64_t make_tokens(world *w, int32_t *tokens)
{
    const uint64_t n = byte(w) % (MAX_TOKENS + 2);
    const unsigned pattern = byte(w);
    for (uint64_t i = 0; i < n && i < MAX_TOKENS; i++) {
        tokens[i] = (int32_t)((pattern >> (i / 4 % 8)) & 1);
    }
    return n;
}

/* ---- what must hold ---- */

static void note(void *ctx, const pkv_event *event)
{
    world *w = ctx;
    require(event->type <= PKV_EVENT_CLEARED);
    for (uint32_t i = 0; i < event->n_keys; i++) {
        w->touched ^= event->keys[i]->bytes[0];
    }
    if (event->type == PKV_EVENT_STORED) {
        require(event->n_keys > 0 && event->chain && event->block_size > 0);
        w->touched ^= event->parent ? event->parent->bytes[0] : 0U;
        for (uint64_t i = 0; event->chain->tokens && i < event->n_tokens; i++) {
            w->touched ^= (unsigned)event->chain->tokens[event->first_token + i];
        }
    }
}

static void observe(const world *w, snapshot *s)
{
    const pkv_pool *pool = pkv_cache_get_pool(w->cache);
    memset(s, 0, sizeof *s);
    s->n_free = pkv_pool_free_list(pool, s->free, MAX_BLOCKS);
    s->n_keys = pkv_pool_key_count(pool);
    for (unsigned i = 0; i < SEQS; i++) {
        if (w->seqs[i]) {
            pkv_seq_get_info(w->seqs[i], &s->infos[i]);
        }
    }
}

/* A call failed for a reason that it may have. */
static void refused(world *w, pkv_status st, const snapshot *before)
{
    snapshot now;
    require(st == PKV_E_INVAL || st == PKV_E_UNSUPPORTED || (st == PKV_E_NOMEM && w->failed));
    require(pkv_last_error()[0] != '\0');
    observe(w, &now);
    require(memcmp(&now, before, sizeof now) == 0);
}

static void check(world *w)
{
    const pkv_cache_info *info = pkv_cache_get_info(w->cache);
    const unsigned fail_after = w->fail_after;
    w->fail_after = 0; /* the walk itself needs memory */
    require(pkv_cache_check(w->cache) == PKV_OK);
    w->fail_after = fail_after;
    for (unsigned i = 0; i < SEQS; i++) {
        for (uint32_t g = 0; w->seqs[i] && g < info->n_groups; g++) {
            uint64_t n, n_new;
            const pkv_block *table = pkv_seq_table(w->seqs[i], g, &n);
            (void)pkv_seq_new_blocks(w->seqs[i], g, &n_new);
            require(n_new <= n && n <= info->n_blocks + info->max_model_len);
            for (uint64_t b = 0; b < n; b++) {
                require(table[b] < info->n_blocks);
                require(table[b] == PKV_BLOCK_NULL ||
                        pkv_pool_refs(pkv_cache_get_pool(w->cache), table[b]) > 0);
            }
        }
    }
}

/* What a sequence has just computed lies in blocks that no other sequence computes, or has. */
static void check_written(const world *w, const pkv_seq *seq, uint64_t from)
{
    pkv_seq_info info;
    pkv_seq_get_info(seq, &info);
    for (uint32_t g = 0; g < pkv_cache_get_info(w->cache)->n_groups; g++) {
        const uint64_t span = pkv_cache_group_at(w->cache, g)->span;
        uint64_t n, n_other;
        const pkv_block *table = pkv_seq_table(seq, g, &n);
        for (uint64_t i = from / span; i < n && i * span < info.computed; i++) {
            for (unsigned s = 0; s < SEQS; s++) {
                if (!w->seqs[s] || w->seqs[s] == seq) {
                    continue;
                }
                const pkv_block *others = pkv_seq_table(w->seqs[s], g, &n_other);
                require(i >= n_other || table[i] == PKV_BLOCK_NULL || others[i] != table[i]);
            }
        }
    }
}

/* ---- calls ---- */

static void call_open(world *w, pkv_seq **seq, const snapshot *before)
{
    int32_t tokens[MAX_TOKENS + 1] = {0};
    pkv_media media[MAX_MEDIA];
    pkv_key keys[MAX_TOKENS];
    pkv_extras extras;
    pkv_seq_params p;
    pkv_seq *opened = NULL;
    const unsigned how = byte(w);
    if (*seq) {
        return;
    }
    memset(&extras, 0, sizeof extras);
    memset(keys, (int)how, sizeof keys);
    pkv_seq_params_init(&p);
    p.tokens = tokens;
    p.n_tokens = make_tokens(w, tokens);
    p.skip_lookup = how & 1;
    p.report_reused = how >> 1 & 1;
    p.session = how & 4 ? "session" : NULL;
    extras.salt = how & 8 ? "salt" : NULL;
    extras.lora_name = extras.lora_path = how & 16 ? "adapter" : NULL;
    p.has_lora_id = how >> 4 & 1;
    if (how & 32) {
        extras.media = media;
        extras.n_media = byte(w) % (MAX_MEDIA + 1);
        for (uint32_t i = 0; i < extras.n_media; i++) {
            media[i] = (pkv_media){i % 2 ? "image" : "sound", number(w), number(w)};
        }
    }
    if (how & 64) {
        p.keys = keys;
        p.n_keys = pkv_key_count(p.n_tokens, pkv_cache_get_info(w->cache)->unit, how >> 7);
    }
    p.extras = how & 128 ? &extras : NULL;
    const pkv_status st = pkv_seq_open(w->cache, &p, &opened);
    require((st == PKV_OK) == (opened != NULL));
    if (st != PKV_OK) {
        refused(w, st, before);
    }
    *seq = opened;
}

static void call_allocate(world *w, pkv_seq *seq, const snapshot *before)
{
    pkv_seq_info was, info;
    pkv_allocate_params p;
    pkv_allocate_result result;
    uint32_t skip[2];
    const unsigned how = byte(w);
    if (!seq) {
        return;
    }
    pkv_seq_get_info(seq, &was);
    pkv_allocate_params_init(&p);
    p.new_tokens = how & 1 && was.n_tokens > was.computed ? was.n_tokens - was.computed : number(w);
    p.lookahead = how & 2 ? number(w) : 0;
    p.external_tokens = how & 4 ? number(w) : 0;
    p.delay_caching = how >> 3 & 1;
    p.in_flight_tokens = how & 16 ? number(w) : 0;
    p.full_sequence_must_fit = how >> 5 & 1;
    p.reserved_blocks = how & 64 ? number(w) : 0;
    p.use_cached = how & 128 ? byte(w) % 4 : p.use_cached;
    p.others_scheduled = byte(w) & 1;
    p.n_skip_zero_groups = byte(w) % 3;
    skip[0] = byte(w) % 4;
    skip[1] = byte(w) % 4;
    p.skip_zero_groups = skip;
    const pkv_status st = pkv_seq_allocate(seq, &p, &result);
    pkv_seq_get_info(seq, &info);
    if (st == PKV_OK) {
        require(info.allocated && info.computed == was.computed + result.cached_tokens +
                                                       p.external_tokens + p.new_tokens);
        require((result.n_copies == 0 || result.copies) && (result.n_zero == 0 || result.zero));
        check_written(w, seq, info.computed - p.new_tokens);
    } else if (st == PKV_E_NO_BLOCKS) {
        require(info.computed == was.computed && info.n_tokens == was.n_tokens);
        require(info.allocated == was.allocated && info.waiting == was.waiting);
        require(result.needed > result.free);
    } else {
        refused(w, st, before);
    }
}

static void call_advance(world *w, const snapshot *before)
{
    int32_t tokens[SEQS][MAX_TOKENS];
    pkv_step steps[SEQS];
    pkv_allocate_result result;
    uint64_t n = 0, done = 0;
    memset(tokens, 0, sizeof tokens);
    for (unsigned i = 0, some = byte(w); i < SEQS; i++) {
        if (w->seqs[i] && (some >> i & 1)) {
            const uint8_t how = byte(w);
            steps[n] = (pkv_step){w->seqs[i], tokens[n], how % 8, PKV_STEP_KEEP};
            if (how & 128) {
                steps[n].computed = number(w);
            }
            n++;
        }
    }
    const pkv_status st = pkv_cache_advance(w->cache, steps, n, byte(w) % 8, &result, &done);
    if (st == PKV_OK || st == PKV_E_NO_BLOCKS) {
        require(st == PKV_OK ? done == n : done < n);
        for (uint64_t i = 0; i < done; i++) {
            pkv_seq_info info;
            pkv_seq_get_info(steps[i].seq, &info);
            require(info.computed == info.n_tokens);
        }
        require(st == PKV_OK || result.needed > result.free);
    } else if (st == PKV_E_NOMEM) {
        require(w->failed); /* some may have been advanced */
    } else {
        refused(w, st, before);
    }
}

static void call_append(world *w, pkv_seq *seq, const snapshot *before)
{
    int32_t tokens[MAX_TOKENS + 1] = {0};
    pkv_seq_info was, info;
    if (!seq) {
        return;
    }
    pkv_seq_get_info(seq, &was);
    const uint64_t n = make_tokens(w, tokens);
    const pkv_status st = pkv_seq_append(seq, tokens, n);
    pkv_seq_get_info(seq, &info);
    require(st != PKV_OK || info.n_tokens == was.n_tokens + n);
    if (st != PKV_OK) {
        refused(w, st, before);
    }
}

/* What an engine reads of a table: within it, and only what can be there. */
static void call_views(world *w, pkv_seq *seq)
{
    int32_t row[MAX_TOKENS + 1];
    int64_t slots[8];
    uint64_t from, to, n;
    if (!seq) {
        return;
    }
    const uint32_t g = byte(w) % pkv_cache_get_info(w->cache)->n_groups;
    const uint64_t width = byte(w) % (MAX_TOKENS + 2), first = number(w), count = byte(w) % 9;
    const pkv_cache_group *group = pkv_cache_group_at(w->cache, g);
    (void)pkv_seq_table(seq, g, &n);
    require(pkv_seq_blocks_of(seq, g, number(w)) <= n);
    require(pkv_seq_cached_tokens(seq) <= MAX_TOKENS);
    if (pkv_seq_row(seq, g, row, width, &from, &to) == PKV_OK) {
        require(n <= width && from <= to && to <= width);
        for (uint64_t i = 0; i < width; i++) {
            require(row[i] >= 0 && (uint64_t)row[i] < pkv_cache_get_info(w->cache)->n_blocks);
            require(i < n || row[i] == 0);
        }
    }
    if (pkv_seq_slots(seq, g, first, count, byte(w) % 2, 1, slots) == PKV_OK && count > 0) {
        require(first < n * group->span && count <= n * group->span - first);
    }
}

static void call_on_seq(world *w, unsigned what, pkv_seq **seq, const snapshot *before)
{
    pkv_seq *twin = NULL, **empty = &w->seqs[byte(w) % SEQS];
    const pkv_block *blocks;
    uint64_t n;
    pkv_hit hit;
    pkv_status st = PKV_OK;
    if (!*seq) {
        return;
    }
    switch (what) {
    case 0: st = pkv_seq_lookup(*seq, &hit); break;
    case 1: st = pkv_seq_set_computed(*seq, number(w)); break;
    case 2: st = pkv_seq_cache(*seq, number(w)); break;
    case 3: st = pkv_seq_preempt(*seq); break;
    case 4: st = pkv_seq_zero(*seq, number(w), &blocks, &n); break;
    case 5:
        if (!*empty) {
            st = pkv_seq_fork(*seq, &twin);
            require((st == PKV_OK) == (twin != NULL));
            *empty = twin;
        }
        break;
    default: st = pkv_seq_close(*seq, byte(w) & 1); *seq = st == PKV_OK ? NULL : *seq;
    }
    if (st != PKV_OK) {
        refused(w, st, before);
    }
}

/* What a connector asks. */
static void call_connector(world *w, pkv_seq *seq, const snapshot *before)
{
    const pkv_state_offer *offers;
    const pkv_key *keys;
    pkv_hit hit;
    bool diverged;
    uint64_t n = 0;
    pkv_status st = PKV_OK;
    switch (seq ? byte(w) % 4 : 2) {
    case 0: st = pkv_seq_lookup_for_connector(seq, &hit, &diverged); break;
    case 1: st = pkv_seq_finish(seq, &offers, &n); break;
    case 2: offers = pkv_cache_take_offers(w->cache, &n); break;
    default: st = pkv_seq_keys(seq, &keys, &n); n = 0;
    }
    if (st != PKV_OK) {
        refused(w, st, before);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        require(offers[i].block != PKV_BLOCK_NULL && offers[i].tokens > 0);
        w->touched ^= offers[i].group;
    }
}

static void call_on_cache(world *w, const snapshot *before)
{
    pkv_block blocks[3];
    pkv_cache_stats stats;
    pkv_status st;
    const unsigned what = byte(w);
    if (what >= 192) {
        call_connector(w, w->seqs[what % SEQS], before);
        return;
    }
    switch (what % 5) {
    case 0:
    case 1: pkv_cache_step(w->cache); break;
    case 2:
        for (unsigned i = 0; i < 3; i++) {
            blocks[i] = byte(w);
        }
        st = pkv_cache_evict(w->cache, blocks, byte(w) % 4);
        if (st != PKV_OK) {
            refused(w, st, before);
        }
        break;
    case 3: pkv_cache_take_stats(w->cache, &stats); break;
    default:
        st = pkv_cache_reset(w->cache);
        require(st == PKV_OK || st == PKV_E_AGAIN);
        require(st == PKV_E_AGAIN || pkv_pool_key_count(pkv_cache_get_pool(w->cache)) == 0);
    }
}

static void call(world *w)
{
    snapshot before;
    const unsigned what = byte(w);
    pkv_seq **seq = &w->seqs[what / 16 % SEQS];
    observe(w, &before);
    switch (what % 16) {
    case 0: call_open(w, seq, &before); break;
    case 1:
    case 2:
    case 3: call_allocate(w, *seq, &before); break;
    case 4: call_append(w, *seq, &before); break;
    case 5: call_advance(w, &before); break;
    case 6: w->fail_after = byte(w) % 16; break;
    case 7: call_views(w, *seq); break;
    case 8: call_on_cache(w, &before); break;
    default: call_on_seq(w, what % 16 - 9, seq, &before);
    }
    check(w);
}

/* ---- one cache ---- */

static const pkv_plan *plan_of(unsigned model)
{
    static pkv_plan *plans[MODELS + LATER_MODELS];
    if (!plans[model]) {
        pkv_document *doc = NULL;
        const char *text = model < MODELS ? documents[model] : later_documents[model - MODELS];
        require(pkv_document_read(text, strlen(text), NULL, &doc) == PKV_OK);
        require(pkv_plan_create(pkv_document_params(doc), &plans[model]) == PKV_OK);
        pkv_document_destroy(doc);
    }
    return plans[model];
}

/* All is given back when every sequence is closed. */
static void wind_up(world *w)
{
    const pkv_pool *pool = pkv_cache_get_pool(w->cache);
    w->fail_after = 0;
    for (unsigned i = 0; i < SEQS; i++) {
        require(pkv_seq_close(w->seqs[i], i % 2 == 1) == PKV_OK);
    }
    pkv_cache_step(w->cache);
    require(pkv_cache_check(w->cache) == PKV_OK);
    require(pkv_pool_free_count(pool) == pkv_pool_n_blocks(pool) - 1);
    require(pkv_cache_reset(w->cache) == PKV_OK && pkv_pool_key_count(pool) == 0);
    require(pkv_cache_check(w->cache) == PKV_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = {.at = data, .end = data + size};
    const pkv_alloc memory = {&w, take, give};
    pkv_cache_params p;
    const unsigned model = byte(&w), how = byte(&w);
    pkv_cache_params_init(&p);
    p.plan = plan_of(model < 128 ? model % MODELS : MODELS + model % LATER_MODELS);
    p.index = how & 32 ? PKV_INDEX_KEYS : PKV_INDEX_AUTO;
    p.shared_prefix_checkpoint = how >> 6 & 1;
    p.hash = how % 2 ? PKV_HASH_PKV_XXH3 : PKV_HASH_XXHASH_CBOR;
    p.watermark = how & 2 ? 0.1 : 0;
    p.alloc = &memory;
    p.sink = how & 4 ? (pkv_event_sink){NULL, NULL} : (pkv_event_sink){&w, note};
    w.fail_after = how & 8 ? byte(&w) % 64 : 0;
    const pkv_status st = pkv_cache_create(&p, &w.cache);
    require(st == PKV_OK || (st == PKV_E_NOMEM && w.failed));
    while (st == PKV_OK && w.at < w.end) {
        call(&w);
    }
    if (st == PKV_OK && !(how & 16)) {
        wind_up(&w);
    }
    pkv_cache_destroy(w.cache);
    require(w.allocated_bytes == 0);
    return 0;
}
