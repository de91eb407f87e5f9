/* twin_work.h  The random work of twin_cache.h. */
#ifndef TWIN_WORK_H
#define TWIN_WORK_H

#include "twin_steps.h"

/* ---- open ---- */

static inline void random_extras(pair *p)
{
    static const char *const names[] = {"a", "b"};
    static const uint8_t embeds[MAX_LEN * EMBED_ROW + 4] = {[200] = 1, [401] = 2};
    uint64_t at = random_below(p->n);
    p->has_extras = true;
    if (one_in(3)) {
        p->extras.lora_name = p->extras.lora_path = names[random_below(2)];
    }
    if (one_in(3)) {
        p->extras.salt = names[random_below(2)];
    }
    while (p->extras.n_media < MAX_MEDIA && at < p->n && !one_in(3)) {
        pkv_media *media = &p->media[p->extras.n_media++];
        *media = (pkv_media){names[random_below(2)], at, random_from(1, least(20, p->n - at))};
        at = media->offset + media->length + random_below(8);
    }
    p->extras.media = p->media;
    if (one_in(6)) {
        p->extras.has_embeds = 1;
        p->extras.embeds = embeds + random_below(3);
        p->extras.embed_row_bytes = EMBED_ROW;
        p->extras.n_embed_rows = random_from(1, p->n);
    }
}

/* The beginning of another request, with what belongs to it, and tokens of a small alphabet. */
static inline void random_prompt(twin *t, pair *p)
{
    const pair *other = pick(t, -1);
    p->n = random_from(1, t->len * (one_in(3) ? 3 : 1) / 4);
    const bool like = other && !one_in(4);
    const uint64_t same = like ? least(p->n, one_in(2) ? other->n : random_below(other->n + 1)) : 0;
    memcpy(p->tokens, other ? other->tokens : p->tokens, (size_t)same * sizeof *p->tokens);
    for (uint64_t i = same; i < p->n; i++) {
        p->tokens[i] = (int32_t)random_below(8) == 0;
    }
    if (!t->extras) {
        return;
    }
    if (like && other->has_extras && !one_in(3)) {
        p->extras = other->extras;
        memcpy(p->media, other->media, sizeof p->media);
        p->extras.media = p->media;
        p->has_extras = pkv_extras_check(&p->extras, p->n) == PKV_OK;
    } else if (one_in(2)) {
        random_extras(p);
    }
}

static inline void do_open(twin *t)
{
    static pkv_key keys[MAX_LEN];
    pair *p = vacant(t);
    if (!p) {
        return;
    }
    memset(p, 0, sizeof *p);
    random_prompt(t, p);
    pkv_seq_params params = seq_params_of(p->tokens, p->n);
    params.extras = extras_of(p);
    params.report_reused = one_in(2);
    params.skip_lookup = one_in(12);
    p->ready = t->ready && one_in(3);
    if (p->ready) {
        p->bare = one_in(2);
        p->n_keys = params.n_keys = chain_of(t, p, keys);
        params.keys = keys;
        params.tokens = p->bare ? NULL : p->tokens;
    }
    for (int k = 0; k < 2; k++) {
        assert_ok(pkv_seq_open(t->cache[k], &params, &p->seq[k]));
    }
}

/* ---- tokens and keys ---- */

static inline void append_to(const twin *t, pair *p, uint64_t most)
{
    if (p->n < t->len) {
        const uint64_t n = random_from(1, least(most, t->len - p->n));
        const int32_t *tokens = more_tokens(p, n);
        for (int k = 0; k < 2; k++) {
            assert_ok(pkv_seq_append(p->seq[k], tokens, n));
        }
    }
}

static inline void do_append(twin *t)
{
    pair *p = pick(t, -1);
    if (p) {
        append_to(t, p, one_in(4) ? 20 : 3);
    }
}

static inline void do_append_keys(twin *t)
{
    static pkv_key keys[MAX_LEN];
    pair *p = pick(t, -1);
    if (p && p->ready) {
        const uint64_t n = chain_of(t, p, keys) - p->n_keys, some = one_in(2) ? n : one_in(2);
        for (int k = 0; k < 2; k++) {
            assert_ok(pkv_seq_append_keys(p->seq[k], keys + p->n_keys, least(n, some)));
        }
        p->n_keys += least(n, some);
    }
}

/* ---- lookup, allocate ---- */

static inline uint64_t look(twin *t, const pair *p)
{
    pkv_hit hit[2];
    uint64_t n[2];
    const pkv_block *ids[2];
    for (int k = 0; k < 2; k++) {
        assert_ok(pkv_seq_lookup(p->seq[k], &hit[k]));
    }
    assert_int_equal(hit[0].tokens, hit[1].tokens);
    assert_int_equal(hit[0].shared_prefix, hit[1].shared_prefix);
    for (uint32_t g = 0; g < t->n_groups; g++) {
        for (int k = 0; k < 2; k++) {
            ids[k] = pkv_cache_hit_blocks(t->cache[k], g, &n[k]);
        }
        assert_same_blocks(ids[0], n[0], ids[1], n[1]);
    }
    t->hits += hit[0].tokens > 0;
    t->tagged += hit[0].tokens > 0 && p->has_extras;
    return hit[0].tokens;
}

static inline void do_lookup(twin *t)
{
    const pair *p = pick(t, 0);
    if (p) {
        (void)look(t, p);
    }
}

/* A chunk of what is left, perhaps with drafts; what the first one loads comes before it. */
static inline pkv_allocate_params random_request(const twin *t, const pair *p, uint64_t hit)
{
    const pkv_seq_info info = info_of(p->seq[1]);
    pkv_allocate_params a = new_tokens(0);
    const uint64_t known = info.computed + hit, left = p->n > known ? p->n - known : 0;
    a.external_tokens = !info.allocated && one_in(5) ? random_below(left + 1) : 0;
    const uint64_t begin = known + a.external_tokens, rest = p->n > begin ? p->n - begin : 0;
    a.new_tokens = one_in(3) ? random_below(rest + 1) : rest;
    const uint64_t beyond = (begin + a.new_tokens) % pkv_cache_get_info(t->cache[0])->unit;
    if (a.new_tokens > beyond && one_in(3)) {
        a.new_tokens -= beyond;
    }
    a.new_tokens = least(a.new_tokens + (one_in(4) ? random_below(4) : 0), t->len - begin);
    a.lookahead = one_in(2) ? random_below(6) : 0;
    a.in_flight_tokens = info.allocated && one_in(4) ? random_below(info.computed + 1) : 0;
    a.reserved_blocks = one_in(8) ? random_below(4) : 0;
    a.delay_caching = one_in(a.external_tokens > 0 ? 2 : 8);
    a.full_sequence_must_fit = one_in(6);
    a.encoder_tokens = info.allocated ? 0 : random_below(t->encoder + 1);
    return a;
}

static inline void key_by_hand(const pair *p)
{
    const uint64_t computed = info_of(p->seq[1]).computed;
    const uint64_t n = one_in(2) ? computed : random_below(computed + 1);
    for (int k = 0; k < 2; k++) {
        assert_ok(pkv_seq_cache(p->seq[k], n));
    }
}

static inline void do_allocate(twin *t)
{
    pair *p = pick(t, one_in(2));
    pkv_allocate_result out[2];
    pkv_status st[2];
    if (!p) {
        return;
    }
    if (info_of(p->seq[1]).computed >= p->n && !one_in(4)) {
        append_to(t, p, 3);
    }
    const uint64_t hit = info_of(p->seq[1]).allocated ? 0 : look(t, p);
    const pkv_allocate_params a = random_request(t, p, hit);
    for (int k = 0; k < 2; k++) {
        st[k] = pkv_seq_allocate(p->seq[k], &a, &out[k]);
    }
    const bool refused = !agreed(st);
    compare_results(out);
    t->refusals += refused;
    if (!refused && a.delay_caching && one_in(2)) { /* a load that has ended */
        compare(t);
        key_by_hand(p);
    }
}

/* ---- the rest ---- */

static inline void do_rollback(twin *t)
{
    const pair *p = pick(t, 1);
    if (!p) {
        return;
    }
    const pkv_seq_info info = info_of(p->seq[1]);
    const uint64_t to = info.computed - least(info.computed - info.keyed, random_below(5));
    for (int k = 0; k < 2; k++) {
        assert_ok(pkv_seq_set_computed(p->seq[k], to));
    }
}

static inline void do_cache(twin *t)
{
    const pair *p = pick(t, 1);
    if (p) {
        key_by_hand(p);
    }
}

static inline void do_fork(twin *t)
{
    const pair *p = pick(t, 1);
    pair *child = vacant(t);
    pkv_status st[2];
    if (!p || !child) {
        return;
    }
    *child = *p;
    child->extras.media = child->media;
    for (int k = 0; k < 2; k++) {
        st[k] = pkv_seq_fork(p->seq[k], &child->seq[k]);
    }
    (void)agreed(st);
}

static inline void do_close(twin *t)
{
    pair *p = pick(t, -1);
    if (p) {
        const bool defer = one_in(3);
        compare_keys(t, p);
        for (int k = 0; k < 2; k++) {
            assert_ok(pkv_seq_close(p->seq[k], defer));
        }
        memset(p, 0, sizeof *p);
    }
}

static inline void compare_offers(const twin *t, const pkv_state_offer *const at[2],
                                  const uint64_t n[2])
{
    assert_int_equal(n[0], n[1]);
    for (uint64_t i = 0; i < n[0]; i++) {
        bool same = false;
        for (int p = 0; p < MAX_PAIRS; p++) {
            same =
                same || (at[0][i].seq == t->pairs[p].seq[0] && at[1][i].seq == t->pairs[p].seq[1]);
        }
        assert_true(same && at[0][i].tokens == at[1][i].tokens &&
                    at[0][i].group == at[1][i].group && at[0][i].block == at[1][i].block);
    }
}

static inline void do_take_offers(twin *t)
{
    const pkv_state_offer *at[2];
    uint64_t n[2];
    for (int k = 0; k < 2; k++) {
        at[k] = pkv_cache_take_offers(t->cache[k], &n[k]);
    }
    compare_offers(t, at, n);
}

static inline void do_finish(twin *t)
{
    const pair *p = pick(t, 1);
    const pkv_state_offer *at[2];
    uint64_t n[2];
    if (p) {
        for (int k = 0; k < 2; k++) {
            assert_ok(pkv_seq_finish(p->seq[k], &at[k], &n[k]));
        }
        compare_offers(t, at, n);
    }
}

static inline void do_step(twin *t)
{
    for (int k = 0; k < 2; k++) {
        pkv_cache_step(t->cache[k]);
    }
}

/* Mostly blocks that somebody holds. */
static inline void do_evict(twin *t)
{
    const pair *p = pick(t, 1);
    uint64_t n = 0;
    pkv_block id = (pkv_block)random_below(t->n_blocks);
    if (p && !one_in(3)) {
        const pkv_block *ids = pkv_seq_table(p->seq[1], (uint32_t)random_below(t->n_groups), &n);
        id = n > 0 ? ids[random_below(n)] : id;
    }
    for (int k = 0; k < 2; k++) {
        assert_ok(pkv_cache_evict(t->cache[k], &id, 1));
    }
}

static inline void do_reset(twin *t)
{
    pkv_status st[2];
    for (int k = 0; k < 2; k++) {
        st[k] = pkv_cache_reset(t->cache[k]);
    }
    (void)agreed(st);
}

static inline void do_statistics(twin *t)
{
    pkv_cache_stats a, b;
    pkv_cache_take_stats(t->cache[0], &a);
    pkv_cache_take_stats(t->cache[1], &b);
    assert_memory_equal(&a, &b, sizeof a);
}

static inline void do_something(twin *t)
{
    static void (*const often[])(twin *) = {do_allocate, do_advance, do_open};
    static void (*const seldom[])(twin *) = {
        make_room,   do_fork,   do_cache, do_evict,       do_step,        do_close,
        do_reset,    do_append, do_close, do_statistics,  do_take_offers, do_finish,
        do_rollback, do_lookup, do_step,  do_append_keys, do_append_keys};
    if (!one_in(4)) {
        (one_in(3) ? often[random_below(COUNT(often))] : do_advance)(t);
    } else if (one_in(8)) {
        do_decode(t);
    } else if (one_in(2)) {
        do_step(t);
    } else {
        seldom[random_below(COUNT(seldom))](t);
    }
}

static inline void run_twin(twin *t, uint64_t ops)
{
    const uint64_t seed = number_from("PKV_SEED", 1);
    random_state = seed % 2147483645 + 1;
    ops = number_from("PKV_RANDOM_OPS", ops);
    print_message("PKV_SEED=%" PRIu64 " PKV_RANDOM_OPS=%" PRIu64 "\n", seed, ops);
    for (uint64_t i = 0; i < ops; i++) {
        do_something(t);
        if (t->seldom == 0 || one_in(t->seldom)) {
            compare(t);
        }
        if (t->seldom == 0 && i % 16 == 0) {
            assert_sound(t->cache[0]);
            assert_sound(t->cache[1]);
        }
    }
    print_message("%" PRIu64 " hits, %" PRIu64 " with extras, %" PRIu64 " refusals, %" PRIu64
                  " of %" PRIu64 " steps quiet, %" PRIu64 " in lanes\n",
                  t->hits, t->tagged, t->refusals, t->quiet, t->advanced, t->counted);
}

#endif
