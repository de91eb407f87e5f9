/* runs.c  Walking and growing the tree of runs. */
#include "pool/runs.h"

#include <string.h>

#include "base/fetch.h"
#include "base/math.h"
#include "base/xxh3.h"
#include "pool/runs_internal.h"

/* ---- branches ---- */

static const pkv_key no_tag;

/* The first tag of a unit from `unit` on. */
static size_t first_tag(const pkvi_content *content, uint64_t unit)
{
    size_t low = 0, high = content->n_tags;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (content->tags[middle].unit < unit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The tag of a unit; *next is where the search in ascending units goes on. */
static const pkv_key *tag_of(const pkvi_content *content, uint64_t unit, size_t *next)
{
    while (*next < content->n_tags && content->tags[*next].unit < unit) {
        ++*next;
    }
    return *next < content->n_tags && content->tags[*next].unit == unit ? &content->tags[*next].key
                                                                        : &no_tag;
}

static uint64_t branch_hash(const pkvi_runs *runs, uint32_t parent, uint32_t at,
                            const int32_t *tokens, const pkv_key *tag)
{
    uint64_t seed, tag_word;
    memcpy(&tag_word, tag->bytes, sizeof tag_word);
    seed = runs->seed ^ tag_word ^ ((uint64_t)parent << 32 | at);
    return XXH3_64bits_withSeed(tokens, (size_t)runs->unit * sizeof *tokens, seed);
}

static bool is_branch(const pkvi_runs *runs, const pkvi_run *run, uint32_t parent, uint32_t at,
                      const int32_t *tokens, const pkv_key *tag)
{
    return run->parent == parent && run->parent_at == at && run->tagged == (tag != &no_tag) &&
           (!run->tagged || memcmp(&run->tag, tag, sizeof *tag) == 0) &&
           memcmp(run->tokens, tokens, (size_t)runs->unit * sizeof *tokens) == 0;
}

/* A walk over a content. */
typedef struct walk {
    const pkvi_runs *runs;
    const pkvi_content *content;
    size_t next_tag;      /* where the search in ascending units goes on */
    uint32_t group;       /* whose blocks are looked at next */
    const pkv_block *ids; /* where they go, or NULL: nowhere */
} walk;

/* The processor reads on by itself only within a page, and after it has seen a few lines of it. */
static void fetch_run(const walk *w, uint32_t r)
{
    enum { BYTES = 512 };
    const pkvi_runs *runs = w->runs;
    const pkvi_run *run = &runs->at[r];
    pkvi_fetch(run->tokens, pkvi_min(BYTES, run->n * runs->unit * sizeof *run->tokens));
    __builtin_prefetch(pkvi_run_blocks(run, w->group));
    __builtin_prefetch(&runs->at[run->last_child]); /* most likely where the walk goes on */
}

/* The run that continues a place with this unit, or 0. */
static uint32_t find_branch(const walk *w, uint32_t parent, uint32_t at, const int32_t *tokens,
                            const pkv_key *tag)
{
    const pkvi_runs *runs = w->runs;
    if (parent != 0) { /* most branches are the newest of their parent; not of the root */
        const uint32_t newest = runs->at[parent].last_child;
        if (runs->at[parent].n_children == 0) {
            return 0;
        }
        if (newest != 0 && is_branch(runs, &runs->at[newest], parent, at, tokens, tag)) {
            fetch_run(w, newest);
            return newest;
        }
    }
    const uint64_t hash = branch_hash(runs, parent, at, tokens, tag);
    for (uint32_t r = *pkvi_run_bucket(runs, hash); r != 0; r = runs->at[r].next_in_bucket) {
        if (runs->at[r].hash != hash) {
            continue;
        }
        fetch_run(w, r);
        if (is_branch(runs, &runs->at[r], parent, at, tokens, tag)) {
            return r;
        }
    }
    return 0;
}

/* ---- walking ---- */

/* The line in which a unit's block is named, and the one where its id goes. */
static void fetch_place(const walk *w, const pkv_block *block, uint64_t unit)
{
    __builtin_prefetch(block);
    if (w->ids) {
        __builtin_prefetch(w->ids + unit, 1);
    }
}

/* Units of a run, from those of the cursor on, that are those of a content. What comes next arrives
 * meanwhile: the blocks that are named for them, where their ids go, and, from the middle of the
 * way on, the beginning of the newest branch, which is known by then. Ids seldom begin with a line,
 * so it is the last one of some that is asked for: that of the first was by those before. */
static uint64_t count_along(const walk *w, const pkvi_cursor *at, const int32_t *tokens, uint64_t n)
{
    enum { STRIDE = 16 }; /* so many ids are one line */
    const pkvi_runs *runs = w->runs;
    const pkvi_run *run = &runs->at[at->run];
    const pkv_block *blocks = pkvi_run_blocks(run, w->group) + at->at;
    const uint64_t unit = runs->unit, middle = n / 2 / STRIDE * STRIDE;
    const size_t bytes = (size_t)unit * sizeof *tokens;
    const int32_t *own = run->tokens + at->at * unit;
    uint64_t done = 0;
    for (; n - done >= STRIDE; done += STRIDE) {
        fetch_place(w, blocks + done + STRIDE - 1, at->units + done + STRIDE - 1);
        if (done == middle && run->last_child != 0) {
            fetch_run(w, run->last_child);
        }
        if (memcmp(own + done * unit, tokens + done * unit, STRIDE * bytes) != 0) {
            break;
        }
    }
    if (n - done < STRIDE) {
        fetch_place(w, blocks + n - 1, at->units + n - 1);
        if (memcmp(own + done * unit, tokens + done * unit, (size_t)(n - done) * bytes) == 0) {
            return n;
        }
    }
    while (done < n && memcmp(own + done * unit, tokens + done * unit, bytes) == 0) {
        done++;
    }
    return done;
}

static void enter_branch(pkvi_cursor *at, uint32_t branch)
{
    at->run = branch;
    at->at = 1;
    at->units++;
}

/* One step of a walk over a content: as many units as this run and the tags allow, or one unit into
 * a branch. Returns the units passed; 0: the tree knows no more.
 *
 * Where the newest branch begins, it is tried before the run itself: to see that a run differs
 * takes as long as memory needs to answer, while the processor reads on through what it believes to
 * be equal. */
static uint64_t step(walk *w, pkvi_cursor *at, uint64_t most)
{
    const pkvi_runs *runs = w->runs;
    const pkvi_content *content = w->content;
    const pkvi_run *run = &runs->at[at->run];
    const int32_t *tokens = content->tokens + at->units * runs->unit;
    const pkv_key *tag = tag_of(content, at->units, &w->next_tag);
    if (tag == &no_tag && at->run != 0 && at->at < run->n) {
        const uint32_t newest = run->last_child;
        uint64_t n = pkvi_min(run->n - at->at, most - at->units);
        if (newest != 0 && at->at < runs->at[newest].parent_at) {
            n = pkvi_min(n, runs->at[newest].parent_at - at->at);
        } else if (newest != 0 &&
                   is_branch(runs, &runs->at[newest], at->run, at->at, tokens, tag)) {
            enter_branch(at, newest);
            return 1;
        }
        if (w->next_tag < content->n_tags) {
            n = pkvi_min(n, content->tags[w->next_tag].unit - at->units);
        }
        n = count_along(w, at, tokens, n);
        at->at += (uint32_t)n;
        at->units += n;
        if (n > 0) {
            return n;
        }
    }
    const uint32_t branch = find_branch(w, at->run, at->at, tokens, tag);
    if (branch == 0) {
        return 0;
    }
    enter_branch(at, branch);
    return 1;
}

void pkvi_runs_fetch(const pkvi_runs *runs)
{
    pkvi_fetch(runs, sizeof *runs);
}

void pkvi_runs_find(const pkvi_runs *runs, const pkvi_content *content, uint64_t most,
                    uint32_t group, const pkv_block *ids, pkvi_cursor *path)
{
    walk w = {runs, content, 0, group, ids};
    *path = (pkvi_cursor){0, 0, 0};
    while (path->units < most && step(&w, path, most) > 0) {
    }
}

/* ---- growing ---- */

static void append_units(const pkvi_runs *runs, pkvi_run *run, const int32_t *tokens, uint64_t n)
{
    int32_t *to = run->tokens + run->n * runs->unit;
    if (to != tokens) { /* else they are lent */
        memcpy(to, tokens, (size_t)(n * runs->unit) * sizeof *tokens);
    }
    for (uint32_t g = 0; g < runs->n_groups; g++) {
        memset(pkvi_run_blocks(run, g) + run->n, 0, (size_t)n * sizeof *run->first);
    }
    run->n += (uint32_t)n;
}

/* The root needs no cursor to stay. */
static void enter(pkvi_runs *runs, uint32_t r)
{
    if (r != 0) {
        runs->at[r].cursors++;
        runs->at[r].holders++;
    }
}

static void leave(pkvi_runs *runs, uint32_t r)
{
    if (r != 0) {
        runs->at[r].cursors--;
        runs->at[r].holders--;
    }
}

static void move_cursor(pkvi_runs *runs, pkvi_cursor *cursor, const pkvi_cursor *to)
{
    if (to->run != cursor->run) {
        enter(runs, to->run);
        leave(runs, cursor->run); /* still held, by the run that hangs on it */
    }
    *cursor = *to;
}

static bool reserve_units(pkvi_runs *runs, pkvi_run *run, const int32_t *tokens, uint64_t n)
{
    const bool own = run->lent && run->tokens + run->n * runs->unit == tokens;
    return own ? pkvi_run_reserve_lent(runs, run, n) : pkvi_run_reserve(runs, run, n);
}

/* Makes places for the units from the cursor on, up to the next tag: at the end of its run, or as a
 * branch. Returns how many; 0: no memory. */
static uint64_t add_units(pkvi_runs *runs, pkvi_cursor *cursor, const pkvi_content *content,
                          uint64_t units, size_t *next_tag)
{
    int32_t *tokens = content->tokens + cursor->units * runs->unit;
    const pkv_key *tag = tag_of(content, cursor->units, next_tag);
    const size_t later = *next_tag + (tag != &no_tag);
    uint64_t n = units - cursor->units;
    if (later < content->n_tags) {
        n = pkvi_min(n, content->tags[later].unit - cursor->units);
    }
    pkvi_cursor end = {cursor->run, cursor->at, cursor->units + n};
    if (tag != &no_tag || cursor->run == 0 || cursor->at < runs->at[cursor->run].n) {
        const bool lends = content->lends && cursor->run == 0;
        const uint32_t r = pkvi_run_new(runs, n, lends ? tokens : NULL);
        if (r == 0) {
            return 0;
        }
        pkvi_run *run = &runs->at[r], *parent = &runs->at[cursor->run];
        run->parent = cursor->run;
        run->parent_at = cursor->at;
        run->depth = (uint32_t)cursor->units;
        run->tag = *tag;
        run->tagged = tag != &no_tag;
        run->hash = branch_hash(runs, run->parent, run->parent_at, tokens, tag);
        uint32_t *bucket = pkvi_run_bucket(runs, run->hash);
        run->next_in_bucket = *bucket;
        *bucket = r;
        parent->holders++;
        parent->last_child_at = parent->n_children == 0 || parent->last_child_at < cursor->at
                                    ? cursor->at
                                    : parent->last_child_at;
        parent->n_children++;
        parent->last_child = r;
        end.run = r;
        end.at = 0;
    } else if (!reserve_units(runs, &runs->at[cursor->run], tokens, n)) {
        return 0;
    }
    append_units(runs, &runs->at[end.run], tokens, n);
    end.at += (uint32_t)n;
    move_cursor(runs, cursor, &end);
    return n;
}

bool pkvi_runs_lead(pkvi_runs *runs, pkvi_cursor *cursor, const pkvi_content *content,
                    uint64_t units)
{
    walk w = {runs, content, first_tag(content, cursor->units), 0, NULL};
    while (cursor->units < units) {
        pkvi_cursor to = *cursor;
        if (step(&w, &to, units) > 0) {
            move_cursor(runs, cursor, &to);
        } else if (add_units(runs, cursor, content, units, &w.next_tag) == 0) {
            return false;
        }
    }
    return true;
}

void pkvi_runs_join(pkvi_runs *runs, const pkvi_cursor *cursor, pkvi_cursor *out)
{
    *out = *cursor;
    enter(runs, out->run);
}

bool pkvi_runs_leave(pkvi_runs *runs, pkvi_cursor *cursor, const int32_t *tokens, size_t capacity)
{
    const uint32_t r = cursor->run, lent = pkvi_runs_lent(runs, cursor, tokens);
    *cursor = (pkvi_cursor){0, 0, 0};
    leave(runs, r);
    pkvi_run_prune(runs, r);
    if (lent == 0 || !runs->at[lent].lent) { /* pruned: it is no run any more */
        return false;
    }
    pkvi_run_keep_lent(runs, &runs->at[lent], capacity);
    return true;
}

void pkvi_runs_fetch_cursor(const pkvi_runs *runs, const pkvi_cursor *cursor)
{
    pkvi_fetch(&runs->at[cursor->run], sizeof *runs->at);
}

void pkvi_runs_fetch_behind(const pkvi_runs *runs, const pkvi_cursor *cursor, uint32_t group)
{
    if (cursor->run != 0) {
        pkvi_fetch_far(pkvi_run_blocks(&runs->at[cursor->run], group) + cursor->at);
    }
}

uint32_t pkvi_runs_lent(const pkvi_runs *runs, const pkvi_cursor *cursor, const int32_t *tokens)
{
    const uint32_t r = cursor->units > 0 ? pkvi_run_of_unit(runs, cursor->run, 0) : 0;
    return runs->at[r].lent && runs->at[r].tokens == tokens ? r : 0;
}

void pkvi_runs_moved(pkvi_runs *runs, uint32_t run, int32_t *tokens)
{
    runs->at[run].tokens = tokens;
}
