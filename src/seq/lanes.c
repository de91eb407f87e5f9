/* lanes.c  Steps that are counted, and tokens that wait for their sequences. */
#include "seq/lanes.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/fetch.h"
#include "base/math.h"
#include "seq/allocate.h"

enum { LINE = 64 };

/* ---- memory ---- */

void pkvi_lanes_init(pkvi_lanes *l)
{
    *l = (pkvi_lanes){.next_due = PKVI_NO_BATCH, .find_slow = pkvi_lanes_find_of_cpu(0)};
}

/* The arrays, one behind the other, in so much memory as this says that they need. Columns are not
 * a power of two apart: those of a lane would share few sets of the processor's cache. */
static size_t bytes_of(size_t capacity, size_t *pitch)
{
    enum { APART = 16 }; /* tokens */
    const pkvi_lanes *l = NULL;
    *pitch = capacity + APART;
    return PKVI_COLUMNS * *pitch * sizeof *l->tokens +
           capacity / PKVI_LANE_GROUP * sizeof *l->slow +
           capacity * (sizeof *l->seqs + sizeof *l->until + sizeof *l->since + sizeof *l->due);
}

static void lay_out(pkvi_lanes *l, void *memory, size_t capacity)
{
    l->memory = memory;
    l->bytes = bytes_of(capacity, &l->pitch);
    l->capacity = capacity;
    l->seqs = memory;
    l->slow = (uint64_t *)(void *)(l->seqs + capacity);
    l->until = (uint32_t *)(void *)(l->slow + capacity / PKVI_LANE_GROUP);
    l->since = l->until + capacity;
    l->due = l->since + capacity;
    l->tokens = (int32_t *)(void *)(l->due + capacity);
}

static void free_memory(const pkv_cache *c, void *memory, size_t bytes)
{
    if (memory) {
        c->alloc.free(c->alloc.ctx, memory, bytes, LINE);
    }
}

bool pkvi_lanes_reserve(pkv_cache *c, size_t n)
{
    pkvi_lanes *l = &c->lanes;
    const size_t old = l->capacity, old_bytes = l->bytes;
    size_t pitch;
    if (n < old) {
        return true;
    }
    const size_t least = (size_t)pkvi_max(n, 2 * old);
    const size_t room = (least / PKVI_LANE_GROUP + 1) * PKVI_LANE_GROUP;
    void *memory =
        n < PKVI_NO_LANE ? c->alloc.alloc(c->alloc.ctx, bytes_of(room, &pitch), LINE) : NULL;
    if (!memory) {
        return false;
    }
    pkvi_lanes_stop_all(c); /* from here on who stands where is all that there is */
    void *old_memory = l->memory;
    pkv_seq **seqs = l->seqs;
    lay_out(l, memory, room);
    for (size_t i = 0; i < room; i++) {
        l->seqs[i] = i < old ? seqs[i] : NULL;
        l->until[i] = l->since[i] = 0;
        l->due[i] = PKVI_NO_BATCH;
    }
    free_memory(c, old_memory, old_bytes);
    return true;
}

void pkvi_lanes_free(pkv_cache *c)
{
    free_memory(c, c->lanes.memory, c->lanes.bytes);
    pkvi_lanes_init(&c->lanes);
}

/* ---- settling ---- */

static int32_t *column_of(const pkvi_lanes *l, uint32_t batch)
{
    return l->tokens + batch % PKVI_COLUMNS * l->pitch;
}

/* The last batch in which the lane had its step. */
static uint32_t last_batch(const pkvi_lanes *l, size_t i)
{
    return l->batches + (i < l->reached);
}

/* The sequence has had its steps up to this batch, as pkvi_advance_quietly() does them. */
static void take_tokens(pkvi_lanes *l, size_t i, uint32_t batch)
{
    pkv_seq *seq = l->seqs[i];
    int32_t *to = seq->tokens + seq->n_tokens;
    const uint32_t n = batch - l->since[i];
    if (n == 0) {
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        to[k] = column_of(l, batch - n + 1 + k)[i];
    }
    l->since[i] = batch;
    seq->n_tokens += n;
    seq->computed = seq->n_tokens;
    seq->first = (uint32_t)(seq->n_tokens - 1); /* where the last of these steps began */
}

static void note_due(pkv_cache *c, size_t i)
{
    pkvi_lanes *l = &c->lanes;
    pkv_seq *seq = l->seqs[i];
    const uint32_t batch = l->due[i];
    const uint32_t before = seq->first; /* nothing was passed since */
    take_tokens(l, i, batch);
    pkvi_add_due(seq, l->steps[batch % PKVI_COLUMNS], before, !c->lets_go_late);
    seq->quiet_until = seq->quiet_after;
    l->due[i] = PKVI_NO_BATCH;
}

/* Asks for the tokens that wait in a lane. A line of a column holds those of some lanes in a row:
 * *line is that of the lane asked for before. */
static void fetch_columns(const pkvi_lanes *l, size_t i, size_t *line)
{
    enum { IN_LINE = 16 };
    if (*line == i / IN_LINE || l->until[i] == 0) {
        return;
    }
    *line = i / IN_LINE;
    for (uint32_t batch = l->since[i]; batch < l->batches;) {
        pkvi_fetch_far(column_of(l, ++batch) + i);
    }
}

/* The next lanes that are due in the next batch that any is due in, at most `most` of those from
 * *from to `end`; *from moves behind them. What is going to be looked at arrives meanwhile. */
static size_t collect_due(const pkvi_lanes *l, size_t *from, size_t end, size_t most,
                          uint32_t *found)
{
    size_t n = 0, line = SIZE_MAX;
    for (; *from < end && n < most; ++*from) {
        if (l->due[*from] == l->next_due) {
            pkvi_fetch_far(l->seqs[*from]);
            fetch_columns(l, *from, &line);
            found[n++] = (uint32_t)*from;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const pkv_seq *seq = l->seqs[found[i]];
        pkvi_fetch_far(seq->tokens + seq->n_tokens);
    }
    return n;
}

static void note_due_before(pkv_cache *c, size_t end)
{
    enum { MOST = 64 };
    uint32_t found[MOST];
    pkvi_lanes *l = &c->lanes;
    while (l->due_from < end) {
        const size_t n = collect_due(l, &l->due_from, end, MOST, found);
        for (size_t i = 0; i < n; i++) {
            note_due(c, found[i]);
        }
    }
}

static void find_next_due(pkvi_lanes *l)
{
    l->next_due = PKVI_NO_BATCH;
    l->due_from = 0;
    for (size_t i = 0; i < l->n; i++) {
        l->next_due = l->due[i] < l->next_due ? l->due[i] : l->next_due;
    }
}

void pkvi_lanes_note_due(pkv_cache *c)
{
    pkvi_lanes *l = &c->lanes;
    while (l->next_due <= last_batch(l, 0)) {
        const size_t end = l->next_due <= l->batches ? l->n : l->reached;
        note_due_before(c, end);
        if (end < l->n) {
            return; /* the others are due in this batch, too, but have not had their step */
        }
        find_next_due(l);
    }
}

/* A sequence that another one has taken the lane of does not know it. */
static bool stands(const pkv_seq *seq)
{
    return seq->lane != PKVI_NO_LANE && seq->cache->lanes.seqs[seq->lane] == seq;
}

bool pkvi_lane_waits(const pkv_seq *seq)
{
    const pkvi_lanes *l = &seq->cache->lanes;
    return stands(seq) && l->until[seq->lane] > 0 && l->since[seq->lane] < last_batch(l, seq->lane);
}

static void settle(pkv_cache *c, size_t i)
{
    pkvi_lanes *l = &c->lanes;
    const uint32_t last = last_batch(l, i);
    if (l->until[i] == 0) {
        return;
    }
    if (l->due[i] <= last) {
        pkvi_lanes_note_due(c);
    }
    take_tokens(l, i, last);
}

static void stop(pkv_cache *c, size_t i)
{
    if (c->lanes.until[i] > 0) {
        settle(c, i);
        c->lanes.until[i] = 0;
        c->lanes.due[i] = PKVI_NO_BATCH;
        c->lanes.n_running--;
    }
}

void pkvi_lane_settle(const pkv_seq *seq)
{
    if (stands(seq)) {
        settle(seq->cache, seq->lane);
    }
}

void pkvi_lane_stop(pkv_seq *seq)
{
    if (stands(seq)) {
        stop(seq->cache, seq->lane);
    }
}

/* All bits but the first so many, 0 .. 63. */
static uint64_t bits_from(size_t first)
{
    return ~((1ULL << first) - 1);
}

/* Within a batch, those that have still to be done are looked at. */
static void look_at_rest(pkvi_lanes *l)
{
    for (size_t group = l->reached / PKVI_LANE_GROUP; group * PKVI_LANE_GROUP < l->n; group++) {
        const bool first = group == l->reached / PKVI_LANE_GROUP;
        l->slow[group] |= bits_from(first ? l->reached % PKVI_LANE_GROUP : 0);
    }
}

void pkvi_lanes_stop_all(pkv_cache *c)
{
    for (size_t i = 0; c->lanes.n_running > 0 && i < c->lanes.n; i++) {
        stop(c, i);
    }
    look_at_rest(&c->lanes);
}

static void vacate(pkv_cache *c, size_t i)
{
    stop(c, i);
    c->lanes.seqs[i] = NULL;
}

void pkvi_lane_leave(pkv_seq *seq)
{
    if (stands(seq)) {
        vacate(seq->cache, seq->lane);
    }
}

/* ---- a batch ---- */

/* Before batches get numbers that stand for something else, they are counted anew. */
static void make_comparable(pkv_cache *c, uint64_t lookahead)
{
    pkvi_lanes *l = &c->lanes;
    const bool full = l->batches >= PKVI_NO_BATCH - 2 * PKVI_COLUMNS;
    if (full || lookahead != l->lookahead) {
        pkvi_lanes_stop_all(c);
        l->lookahead = lookahead;
        l->batches = full ? 0 : l->batches;
        l->next_due = PKVI_NO_BATCH;
        for (size_t i = 0; i < l->n; i++) {
            l->since[i] = l->batches + 1;
        }
    }
}

bool pkvi_lanes_find(pkv_cache *c, const pkv_step *steps, size_t n, uint64_t lookahead)
{
    pkvi_lanes *l = &c->lanes;
    uint64_t any = 0;
    make_comparable(c, lookahead);
    int32_t *column = l->tokens + (l->batches + 1) % PKVI_COLUMNS * l->pitch;
    for (size_t from = 0; from < n; from += PKVI_LANE_GROUP) {
        const size_t length = (size_t)pkvi_min(n - from, PKVI_LANE_GROUP);
        const uint64_t slow = l->n_running > 0
                                  ? l->find_slow(l, from, steps + from, length, column + from)
                                  : UINT64_MAX >> (PKVI_LANE_GROUP - length);
        l->slow[from / PKVI_LANE_GROUP] = slow;
        any |= slow;
    }
    return any == 0;
}

size_t pkvi_lanes_later_slow(const pkvi_lanes *l, size_t from, size_t n)
{
    uint64_t of_group = bits_from(from % PKVI_LANE_GROUP);
    for (size_t group = from / PKVI_LANE_GROUP; group * PKVI_LANE_GROUP < n; group++) {
        const uint64_t left = l->slow[group] & of_group;
        if (left != 0) { /* there are no bits behind the batch, but after pkvi_lanes_stop_all() */
            return (size_t)pkvi_min(group * PKVI_LANE_GROUP + (size_t)__builtin_ctzll(left), n);
        }
        of_group = UINT64_MAX;
    }
    return n;
}

void pkvi_lanes_fetch_claims(const pkvi_lanes *l, size_t n)
{
    size_t line = SIZE_MAX;
    for (size_t i = 0; (i = pkvi_lanes_next_slow(l, i, n)) < n; i++) {
        fetch_columns(l, i, &line);
    }
}

size_t pkvi_lanes_fetch_due(pkv_cache *c, size_t n, pkv_seq **found)
{
    pkvi_lanes *l = &c->lanes;
    uint32_t lanes[PKVI_LANE_GROUP];
    size_t from = 0;
    pkvi_lanes_note_due(c);
    if (l->next_due != l->batches + 1) {
        return 0;
    }
    const size_t n_found = collect_due(l, &from, n, PKVI_LANE_GROUP, lanes);
    for (size_t k = 0; k < n_found; k++) {
        found[k] = l->seqs[lanes[k]];
        pkvi_fetch_body(found[k]);
        take_tokens(l, lanes[k], l->batches);
    }
    return n_found;
}

/* What stood there is looked at, and so is a step further on that its old lane would take. */
bool pkvi_lane_claim(pkv_cache *c, const pkv_step *steps, size_t n, size_t i)
{
    pkvi_lanes *l = &c->lanes;
    pkv_seq *seq = steps[i].seq;
    const size_t old = stands(seq) ? seq->lane : SIZE_MAX;
    if (old == i) {
        stop(c, i);
        return true;
    }
    if (old < n && steps[old].seq == seq) {
        if (old < i) {
            settle(c, old); /* another mistake is told first, with its numbers */
            return false;
        }
        l->slow[old / PKVI_LANE_GROUP] |= 1ULL << old % PKVI_LANE_GROUP;
    }
    if (old != SIZE_MAX) {
        vacate(c, old);
    }
    stop(c, i);
    pkvi_lane_seat(l, seq, i);
    return true;
}

void pkvi_lanes_begin(pkv_cache *c, size_t n)
{
    pkvi_lanes *l = &c->lanes;
    for (size_t i = n; i < l->n; i++) {
        vacate(c, i);
    }
    l->n = n;
    l->steps[(l->batches + 1) % PKVI_COLUMNS] = c->steps;
}

/* How many tokens the sequence takes from here on, one by one, without more than taking them: quiet
 * steps, behind the one that is due, too. */
static uint64_t tokens_ahead(const pkv_seq *seq, uint64_t lookahead)
{
    const uint64_t n = seq->n_tokens;
    if (!seq->tokens || seq->quiet_until <= n || seq->quiet_slots < lookahead) {
        return 0;
    }
    const uint64_t most = pkvi_min(seq->quiet_after, seq->quiet_slots - lookahead);
    return most > n ? most - n : 0;
}

void pkvi_lane_run(pkv_cache *c, const pkv_seq *seq, size_t i)
{
    pkvi_lanes *l = &c->lanes;
    if (l->since[i] > l->batches) {
        return; /* the next batch may be another one, too */
    }
    const uint64_t n = pkvi_min(tokens_ahead(seq, l->lookahead), PKVI_COLUMNS - 1);
    if (n == 0) {
        return;
    }
    l->n_running++;
    l->since[i] = l->batches + 1;
    l->until[i] = l->since[i] + (uint32_t)n;
    if (seq->due_at > seq->n_tokens && seq->due_at <= seq->n_tokens + n) {
        l->due[i] = l->since[i] + (uint32_t)(seq->due_at - seq->n_tokens);
    }
    if (l->due[i] < l->next_due) {
        l->next_due = l->due[i];
        l->due_from = 0;
    }
}

void pkvi_lanes_end(pkv_cache *c, bool refused)
{
    pkvi_lanes *l = &c->lanes;
    if (refused) {
        pkvi_lanes_stop_all(c);
    }
    l->reached = 0;
    l->batches++;
}

/* ---- check ---- */

pkv_status pkvi_lanes_check(const pkv_cache *c)
{
    const pkvi_lanes *l = &c->lanes;
    size_t taken = 0, standing = 0, running = 0;
    for (size_t i = 0; i < l->capacity; i++) {
        const pkv_seq *seq = l->seqs[i];
        const uint32_t until = l->until[i];
        const bool runs = until > 0;
        taken += seq != NULL;
        running += runs;
        if ((seq && (i >= l->n || seq->cache != c || seq->lane != i)) || (runs && !seq) ||
            (runs && (l->since[i] > l->batches || until < l->batches ||
                      until - l->since[i] >= PKVI_COLUMNS)) ||
            (l->due[i] != PKVI_NO_BATCH && (l->due[i] < l->next_due || l->due[i] > until))) {
            return pkvi_fail(PKV_E_CORRUPT,
                             "pkv_cache_check: lane %zu, since batch %" PRIu32 " until %" PRIu32
                             " of %" PRIu32,
                             i, l->since[i], until, l->batches);
        }
    }
    for (const pkv_seq *seq = c->first; seq; seq = seq->body->next) {
        standing += stands(seq);
    }
    return taken == standing && running == l->n_running
               ? PKV_OK
               : pkvi_fail(PKV_E_CORRUPT, "pkv_cache_check: lanes of nobody, %zu run of %zu",
                           running, l->n_running);
}
