/* small_world.h  small_cache.h and a real cache side by side: every operation is done to both, and
 * the answers are compared at once.
 *
 * Three requests share prefixes; the fourth place is for a fork. */
#ifndef SMALL_WORLD_H
#define SMALL_WORLD_H

#include "small_cache.h"
#include "small_memory.h"

/* What request s is of, prompt first: the third is the first again, and longer. A fork goes its own
 * way. */
static const uint8_t small_text[SMALL_SEQS][SMALL_LEN + 1] = {"abcdefgh", "abcxyzuv", "abcdefgh",
                                                              "qrstqrst"};
static const uint8_t small_prompt[SMALL_SEQS] = {5, 6, 7, 0};

typedef enum small_what {
    MOVE_CHUNK, /* one block of what is not computed */
    MOVE_REST,
    MOVE_DRAFT, /* all of it, one draft, and lookahead, while a token is in flight */
    MOVE_ROLL_BACK,
    MOVE_ADVANCE, /* one more token, and what it needs */
    MOVE_PREEMPT,
    MOVE_TOGGLE, /* close or open */
    MOVE_DEFER,
    MOVE_FORK,
    MOVES_OF_SEQ
} small_what;

enum {
    MOVE_STEP = MOVES_OF_SEQ * SMALL_SEQS,
    MOVE_RESET,
    MOVE_EVICT_FIRST, /* of the keyed blocks */
    MOVE_EVICT_LAST,
    N_MOVES
};

static const char *const small_move_names[MOVES_OF_SEQ] = {
    "chunk", "rest", "draft", "roll back", "advance", "preempt", "toggle", "defer", "fork"};
static const char *const small_global_names[] = {"step", "reset", "evict first", "evict last"};

typedef struct small_world {
    small_plan plan;
    small_cache model;
    pkv_cache *cache;
    pkv_seq *seqs[SMALL_SEQS];
    small_memory *memory; /* of the cache */
} small_world;

/* Where a world was. */
typedef struct small_moment {
    small_world world;
    small_memory memory;
} small_moment;

/* What an operation came to. */
typedef struct small_tally {
    bool refused;
    uint32_t hit, copies;
} small_tally;

/* ---- what may be done ---- */

/* Tokens that an allocate would compute. */
static inline uint32_t small_rest(const small_world *w, const small_seq *s)
{
    const uint32_t hit = s->live ? 0 : small_lookup(&w->plan, &w->model, s).tokens;
    const uint32_t computed = s->computed + hit;
    return s->n > computed ? s->n - computed : 0;
}

/* By one token; what fell below a window would not come back. */
static inline bool small_may_roll_back(const small_world *w, const small_seq *s)
{
    for (uint32_t g = 0; s->computed > 0 && g < w->plan.n_groups; g++) {
        for (uint32_t i = small_skipped(&w->plan, g, s->computed - 1U); i < s->table[g].n; i++) {
            if (s->table[g].ids[i] == 0) {
                return false;
            }
        }
    }
    return s->live && s->computed > 0;
}

static inline bool small_may_refuse(uint32_t move)
{
    const uint32_t what = move % MOVES_OF_SEQ;
    return move < MOVE_STEP && (what <= MOVE_DRAFT || what == MOVE_ADVANCE);
}

/* rest: small_rest() of the request that is moved. */
static inline bool small_may(const small_world *w, uint32_t move, uint32_t rest)
{
    const small_seq *s = &w->model.seqs[move / MOVES_OF_SEQ % SMALL_SEQS];
    if (move >= MOVE_STEP) {
        return move < MOVE_EVICT_FIRST || small_key_count(&w->model) + MOVE_EVICT_FIRST > move;
    }
    if (!s->open) {
        return move % MOVES_OF_SEQ == MOVE_TOGGLE && s != &w->model.seqs[SMALL_SEQS - 1];
    }
    switch (move % MOVES_OF_SEQ) {
    case MOVE_CHUNK: return rest > w->plan.block;
    case MOVE_REST: return rest > 0;
    case MOVE_DRAFT: return rest > 0 && s->n < SMALL_LEN;
    case MOVE_ROLL_BACK: return small_may_roll_back(w, s);
    case MOVE_ADVANCE: return s->n < SMALL_LEN;
    case MOVE_PREEMPT: return s->live;
    case MOVE_DEFER: return s->live;
    case MOVE_FORK: return s->live && !w->model.seqs[SMALL_SEQS - 1].open;
    default: return true;
    }
}

/* ---- letting go ---- */

static inline void small_forget(small_seq *s)
{
    memset(s->table, 0, sizeof s->table);
    s->live = s->computed = 0;
}

/* Last block first. */
static inline void small_reversed(const small_table *t, small_list *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = t->n; i > 0; i--) {
        small_push(out, t->ids[i - 1]);
    }
}

static inline void small_give_back(small_world *w, small_seq *s)
{
    small_list ids[SMALL_GROUPS];
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        small_reversed(&s->table[g], &ids[g]);
    }
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        memset(&s->table[g], 0, sizeof s->table[g]);
        small_release(&w->model, &ids[g]);
    }
    small_forget(s);
}

static inline void small_close(small_world *w, uint32_t at, bool defer)
{
    small_seq *s = &w->model.seqs[at];
    if (defer) {
        small_list ids;
        for (uint32_t g = w->plan.n_groups; g > 0; g--) {
            small_reversed(&s->table[g - 1], &ids);
            for (uint32_t i = 0; i < ids.n; i++) {
                small_push(&w->model.deferred, ids.at[i]);
            }
        }
        small_push(&w->model.ends, w->model.deferred.n);
    } else {
        small_give_back(w, s);
    }
    memset(s, 0, sizeof *s);
    assert_ok(pkv_seq_close(w->seqs[at], defer));
    w->seqs[at] = NULL;
}

static inline void small_open(small_world *w, uint32_t at)
{
    int32_t tokens[SMALL_LEN];
    small_seq *s = &w->model.seqs[at];
    s->open = 1;
    s->n = s->n_prompt = small_prompt[at];
    memcpy(s->tokens, small_text[at], s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        tokens[i] = s->tokens[i];
    }
    w->seqs[at] = open_tokens(w->cache, tokens, s->n);
}

static inline void small_preempt(small_world *w, uint32_t at)
{
    small_give_back(w, &w->model.seqs[at]);
    w->model.seqs[at].preempted = 1;
    assert_ok(pkv_seq_preempt(w->seqs[at]));
}

static inline void small_step(small_world *w)
{
    small_cache *c = &w->model;
    const small_list pins = c->pins, deferred = c->deferred, ends = c->ends;
    uint32_t begin = 0;
    memset(&c->pins, 0, sizeof c->pins);
    small_release(c, &pins);
    for (uint32_t i = 0; i < ends.n; begin = ends.at[i++]) {
        small_list now = {0}, later = {0};
        for (uint32_t k = begin; k < deferred.n; k++) {
            small_push(k < ends.at[i] ? &now : &later, deferred.at[k]);
        }
        c->deferred = later;
        small_release(c, &now);
    }
    memset(&c->ends, 0, sizeof c->ends);
    pkv_cache_step(w->cache);
}

/* ---- running ---- */

static inline small_tally small_same_answer(const small_world *w, uint32_t at,
                                            const small_answer *a, bool first,
                                            const pkv_allocate_result *out)
{
    const bool again = w->model.seqs[at].preempted;
    pkv_cache_stats stats;
    if (!a->granted) {
        assert_int_equal(out->needed, a->needed);
        assert_int_equal(out->free, a->free);
    }
    assert_int_equal(out->cached_tokens, a->hit);
    assert_int_equal(out->n_copies, a->n_copies);
    for (uint32_t i = 0; i < a->n_copies; i++) {
        assert_int_equal(out->copies[i].src, a->copies[i].src);
        assert_int_equal(out->copies[i].dst, a->copies[i].dst);
    }
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        uint64_t n;
        const pkv_block *ids = pkv_seq_new_blocks(w->seqs[at], g, &n);
        assert_int_equal(n, a->fresh[g].n);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(ids[i], a->fresh[g].at[i]);
        }
    }
    pkv_cache_take_stats(w->cache, &stats);
    assert_int_equal(stats.evicted, a->evicted);
    assert_int_equal(again ? stats.preempted_hits : stats.hits, a->hit);
    assert_int_equal(again ? stats.preempted_requests : stats.requests, first && a->granted);
    assert_int_equal(again ? stats.requests : stats.preempted_requests, 0);
    return (small_tally){!a->granted, a->hit > 0, a->n_copies};
}

static inline small_tally small_compute(small_world *w, uint32_t at, small_what what)
{
    small_seq *s = &w->model.seqs[at];
    const uint32_t rest = small_rest(w, s);
    const bool first = !s->live;
    pkv_allocate_params p = new_tokens(what == MOVE_CHUNK ? w->plan.block : rest);
    pkv_allocate_result out;
    if (what == MOVE_DRAFT) {
        p.new_tokens++;
        p.lookahead = p.in_flight_tokens = 1;
    }
    const small_answer a = small_allocate(&w->plan, &w->model, s, (uint32_t)p.new_tokens,
                                          (uint32_t)p.lookahead, (uint32_t)p.in_flight_tokens);
    const pkv_status st = pkv_seq_allocate(w->seqs[at], &p, &out);
    assert_status(st, a.granted ? PKV_OK : PKV_E_NO_BLOCKS);
    return small_same_answer(w, at, &a, first, &out);
}

/* A token that waits, a draft that was right, or a step of a running request. */
static inline small_tally small_advance(small_world *w, uint32_t at)
{
    small_seq *s = &w->model.seqs[at];
    const int32_t token = small_text[at][s->n];
    const pkv_step step = {w->seqs[at], &token, 1, PKV_STEP_KEEP};
    pkv_allocate_result out;
    uint64_t done;
    s->tokens[s->n++] = (uint8_t)token;
    if (!s->live || s->computed >= s->n) {
        assert_ok(pkv_seq_append(w->seqs[at], &token, 1));
        if (s->live) {
            small_key(&w->plan, &w->model, s, s->n);
            assert_ok(pkv_seq_cache(w->seqs[at], s->n));
        }
        return (small_tally){0};
    }
    const small_answer a =
        small_allocate(&w->plan, &w->model, s, (uint32_t)s->n - s->computed, 0, 0);
    const pkv_status st = pkv_cache_advance(w->cache, &step, 1, 0, &out, &done);
    assert_status(st, a.granted ? PKV_OK : PKV_E_NO_BLOCKS);
    assert_int_equal(done, a.granted);
    return small_same_answer(w, at, &a, false, &out);
}

/* By one token. After it a table ends where a block would begin that the sequence must not write:
 * the blocks go back one by one, the last first. */
static inline void small_roll_back(small_world *w, uint32_t at)
{
    small_seq *s = &w->model.seqs[at];
    const uint32_t to = s->computed - 1U;
    const pkv_status st = pkv_seq_set_computed(w->seqs[at], to);
    if (to < small_keyed(&w->plan, s)) {
        assert_status(st, PKV_E_INVAL);
        return;
    }
    assert_ok(st);
    s->computed = (uint8_t)to;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        small_table *t = &s->table[g];
        uint32_t end = small_blocks(&w->plan, to);
        while (end < t->n && !small_closed(&w->model, s, t->ids[end])) {
            end++;
        }
        while (t->n > end) {
            const small_list one = {.n = 1, .at = {t->ids[t->n - 1]}};
            t->ids[--t->n] = 0;
            small_release(&w->model, &one);
        }
    }
}

static inline void small_fork(small_world *w, uint32_t at)
{
    const small_seq *s = &w->model.seqs[at];
    small_seq *child = &w->model.seqs[SMALL_SEQS - 1];
    const pkv_status st = pkv_seq_fork(w->seqs[at], &w->seqs[SMALL_SEQS - 1]);
    if (s->computed > s->n || w->plan.drop) {
        assert_status(st, s->computed > s->n ? PKV_E_INVAL : PKV_E_UNSUPPORTED);
        return;
    }
    assert_ok(st);
    *child = *s;
    child->preempted = 0;
    for (uint32_t g = 0; g < w->plan.n_groups; g++) {
        small_table *t = &child->table[g];
        while (t->n > small_blocks(&w->plan, s->computed)) {
            t->ids[--t->n] = 0;
        }
    }
}

/* ---- content ---- */

static inline void small_evict(small_world *w, bool last)
{
    uint32_t block = 0;
    for (uint32_t b = 1; b < w->plan.n_blocks && (last || block == 0); b++) {
        block = w->model.blocks[b].keyed > 0 ? b : block;
    }
    small_drop_key(&w->model, block);
    assert_ok(pkv_cache_evict(w->cache, &block, 1));
}

static inline void small_reset(small_world *w)
{
    const bool idle = w->model.free.n == w->plan.n_blocks - 1;
    assert_status(pkv_cache_reset(w->cache), idle ? PKV_OK : PKV_E_AGAIN);
    if (idle) {
        memset(w->model.blocks, 0, sizeof w->model.blocks);
    }
}

static inline void small_do_to_all(small_world *w, uint32_t move)
{
    switch (move) {
    case MOVE_STEP: small_step(w); return;
    case MOVE_RESET: small_reset(w); return;
    default: small_evict(w, move == MOVE_EVICT_LAST); return;
    }
}

static inline small_tally small_do(small_world *w, uint32_t move)
{
    const uint32_t at = move / MOVES_OF_SEQ;
    const small_what what = (small_what)(move % MOVES_OF_SEQ);
    const small_tally nothing = {0};
    if (move >= MOVE_STEP) {
        small_do_to_all(w, move);
        return nothing;
    }
    switch (what) {
    case MOVE_CHUNK:
    case MOVE_REST:
    case MOVE_DRAFT: return small_compute(w, at, what);
    case MOVE_ADVANCE: return small_advance(w, at);
    case MOVE_ROLL_BACK: small_roll_back(w, at); return nothing;
    case MOVE_PREEMPT: small_preempt(w, at); return nothing;
    case MOVE_DEFER: small_close(w, at, true); return nothing;
    case MOVE_FORK: small_fork(w, at); return nothing;
    default: break;
    }
    if (w->seqs[at]) {
        small_close(w, at, false);
    } else {
        small_open(w, at);
    }
    return nothing;
}

/* ---- a world ---- */

static inline void small_begin(small_world *w, const small_plan *plan, const pkv_plan *real,
                               small_memory *memory)
{
    const pkv_alloc hooks = {memory, small_alloc, small_free};
    pkv_cache_params params = cache_params_of(real, NULL);
    memset(w, 0, sizeof *w);
    memory->used = 0;
    params.alloc = &hooks;
    params.index = plan->index;
    w->plan = *plan;
    w->memory = memory;
    assert_ok(pkv_cache_create(&params, &w->cache));
    for (uint32_t b = 1; b < plan->n_blocks; b++) {
        small_push(&w->model.free, b);
    }
    for (uint32_t s = 0; s + 1 < SMALL_SEQS; s++) {
        small_open(w, s);
    }
}

static inline void small_remember(const small_world *w, small_moment *moment)
{
    moment->world = *w;
    small_copy(&moment->memory, w->memory);
}

static inline void small_return(small_world *w, const small_moment *moment)
{
    *w = moment->world;
    small_copy(w->memory, &moment->memory);
}

#endif
