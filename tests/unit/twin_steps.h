/* twin_steps.h  Steps of the two caches of twin_cache.h: batches of any kind, and the same batch
 * again and again, as in decoding. */
#ifndef TWIN_STEPS_H
#define TWIN_STEPS_H

#include "twin_cache.h"

#include "seq/cache_internal.h"

/* n tokens more, to be appended. */
static inline const int32_t *more_tokens(pair *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        p->tokens[p->n + i] = (int32_t)random_below(2);
    }
    p->n += n;
    return p->bare && one_in(2) ? NULL : p->tokens + p->n - n;
}

/* Who is refused makes others go. */
static inline void make_room(twin *t)
{
    pair *p = pick(t, 1);
    for (int k = 0; p && k < 2; k++) {
        assert_ok(pkv_seq_preempt(p->seq[k]));
    }
}

/* The same by separate calls. */
static inline pkv_status advance_apart(const pkv_step *steps, uint64_t n, uint64_t lookahead,
                                       pkv_allocate_result *out, uint64_t *done)
{
    static pkv_block zero[MANY_BLOCKS];
    static pkv_block_copy copies[MANY_BLOCKS];
    *out = (pkv_allocate_result){.zero = zero, .copies = copies};
    for (*done = 0; *done < n; ++*done) {
        const pkv_step *s = &steps[*done];
        pkv_allocate_result one;
        if (s->computed != PKV_STEP_KEEP) {
            assert_ok(pkv_seq_set_computed(s->seq, s->computed));
        }
        if (s->n_tokens > 0) {
            assert_ok(pkv_seq_append(s->seq, s->tokens, s->n_tokens));
        }
        const pkv_seq_info info = info_of(s->seq);
        pkv_allocate_params a = new_tokens(info.n_tokens - info.computed);
        a.lookahead = lookahead;
        const pkv_status st = pkv_seq_allocate(s->seq, &a, &one);
        out->needed = one.needed;
        out->free = one.free;
        if (st != PKV_OK) {
            return st;
        }
        for (uint64_t i = 0; i < one.n_zero; i++) {
            zero[out->n_zero++] = one.zero[i];
        }
        for (uint64_t i = 0; i < one.n_copies; i++) {
            copies[out->n_copies++] = one.copies[i];
        }
    }
    return PKV_OK;
}

/* A step that there can be; false: the request is as long as it may be. */
static inline bool random_step(const twin *t, pair *p, pkv_step *step)
{
    const pkv_seq_info info = info_of(p->seq[1]);
    const uint64_t most = least(one_in(3) ? 3 : 1, t->len - p->n);
    uint64_t computed = info.computed;
    *step = (pkv_step){.computed = PKV_STEP_KEEP};
    const bool verified = p->n + most > computed && one_in(2); /* drafts that were right */
    if (computed > p->n ? !verified : one_in(12)) {            /* or wrong */
        const uint64_t low = info.keyed > least(p->n, computed - least(computed, 5))
                                 ? info.keyed
                                 : least(p->n, computed - least(computed, 5));
        step->computed = computed = random_from(low, least(computed, p->n));
    }
    step->n_tokens = p->n > computed && (most == 0 || one_in(3)) ? 0 : most;
    if (p->n + step->n_tokens <= computed) {
        return false;
    }
    step->tokens = step->n_tokens > 0 ? more_tokens(p, step->n_tokens) : NULL;
    return true;
}

static inline void do_advance(twin *t)
{
    pkv_step steps[2][3];
    pair *pairs[3];
    uint64_t n = 0, done[2];
    pkv_allocate_result out[2];
    pkv_status st[2];
    const uint64_t lookahead = one_in(2) ? random_below(6) : 0;
    for (int i = 0; i < 3; i++) {
        pair *p = pick(t, 1);
        bool twice = false;
        for (uint64_t k = 0; k < n; k++) {
            twice = twice || pairs[k] == p;
        }
        if (!p || twice || !random_step(t, p, &steps[0][n])) {
            continue;
        }
        for (int k = 0; k < 2; k++) {
            steps[k][n] = steps[0][n];
            steps[k][n].seq = p->seq[k];
        }
        t->quiet += p->n <= p->seq[0]->quiet_until && steps[0][n].computed == PKV_STEP_KEEP;
        t->advanced++;
        pairs[n++] = p;
    }
    for (int k = 0; k < 2; k++) {
        st[k] = k == 1 && t->separate
                    ? advance_apart(steps[k], n, lookahead, &out[k], &done[k])
                    : pkv_cache_advance(t->cache[k], steps[k], n, lookahead, &out[k], &done[k]);
    }
    const bool refused = !agreed(st);
    assert_int_equal(done[0], done[1]);
    compare_results(out);
    for (uint64_t i = done[0] + 1; i < n; i++) { /* not reached: their tokens did not come */
        pairs[i]->n -= steps[0][i].n_tokens;
    }
    t->refusals += refused;
    if (refused && one_in(2)) {
        make_room(t);
    }
}

/* ---- decoding ---- */

/* The requests of a batch that is repeated, in its order. */
typedef struct crowd {
    pair *at[MAX_PAIRS];
    uint64_t n;
} crowd;

/* Those that can take a token. */
static inline void gather(twin *t, crowd *c)
{
    c->n = 0;
    for (int i = 0; i < MAX_PAIRS; i++) {
        pair *p = &t->pairs[i];
        if (!p->seq[0] || p->n >= t->len) {
            continue;
        }
        const pkv_seq_info info = info_of(p->seq[1]);
        if (info.allocated && p->n + 1 > info.computed && !one_in(6)) {
            c->at[c->n++] = p;
        }
    }
}

/* Somebody goes, or two change places. */
static inline void disturb(crowd *c)
{
    const uint64_t i = random_below(c->n), k = random_below(c->n);
    pair *p = c->at[i];
    if (one_in(2)) {
        c->at[i] = c->at[k];
        c->at[k] = p;
    } else if (c->n > 1) {
        memmove(&c->at[i], &c->at[i + 1], (size_t)(c->n - i - 1) * sizeof *c->at);
        c->n--;
    }
}

/* A token each. False: somebody was refused, or can take no more. */
static inline bool decode_once(twin *t, const crowd *c, uint64_t lookahead)
{
    pkv_step steps[2][MAX_PAIRS];
    uint64_t done[2];
    pkv_allocate_result out[2];
    pkv_status st[2];
    for (uint64_t i = 0; i < c->n; i++) {
        if (c->at[i]->n >= t->len) {
            return false;
        }
    }
    for (uint64_t i = 0; i < c->n; i++) {
        const int32_t *tokens = more_tokens(c->at[i], 1);
        for (int k = 0; k < 2; k++) {
            steps[k][i] = (pkv_step){c->at[i]->seq[k], tokens, 1, PKV_STEP_KEEP};
        }
    }
    for (int k = 0; k < 2; k++) {
        st[k] = k == 1 && t->separate
                    ? advance_apart(steps[k], c->n, lookahead, &out[k], &done[k])
                    : pkv_cache_advance(t->cache[k], steps[k], c->n, lookahead, &out[k], &done[k]);
    }
    const bool refused = !agreed(st);
    assert_int_equal(done[0], done[1]);
    compare_results(out);
    for (uint64_t i = 0; i < c->n; i++) {
        c->at[i]->n -= i > done[0]; /* not reached: its token did not come */
        t->counted += pkvi_lane_waits(c->at[i]->seq[0]);
    }
    t->refusals += refused;
    return !refused;
}

static inline void do_decode(twin *t)
{
    crowd c;
    const uint64_t lookahead = one_in(3) ? random_below(4) : 0, looks = random_from(2, 40);
    gather(t, &c);
    for (uint64_t left = random_from(1, 60); left > 0 && c.n > 0; left--) {
        if (!decode_once(t, &c, lookahead)) {
            make_room(t);
            return;
        }
        if (!one_in(4)) {
            for (int k = 0; k < 2; k++) {
                pkv_cache_step(t->cache[k]);
            }
        }
        if (one_in(looks)) {
            compare(t);
        }
        if (one_in(16)) {
            disturb(&c);
        }
    }
}

#endif
