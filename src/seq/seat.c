/* seat.c  Where sequences lie: in the cache's own memory, many in a row.
 *
 * A step visits all that run, and mostly one line of each. These lines lie side by side, on a few
 * pages, whose addresses the processor finds sooner than those of as many pieces of memory; what a
 * quiet step does not need lies behind them. A seat that is given back is the next to be taken;
 * all are freed with the cache. */
#include <string.h>

#include "base/fetch.h"
#include "base/math.h"
#include "base/poison.h"
#include "seq/cache_internal.h"

enum { LINE = 64 };

static size_t tables_at(void)
{
    return (sizeof(pkvi_seq_body) + LINE - 1) / LINE * LINE;
}

/* An odd number of lines, so that equal lines of many bodies are spread over all banks of the
 * memory. (Measured: 256 lines that are 8 lines apart take twice as long as with 7 or 9.) */
static size_t body_bytes(uint32_t n_groups)
{
    const size_t lines = (tables_at() + n_groups * sizeof(pkvi_table) + LINE - 1) / LINE;
    return (lines | 1) * LINE;
}

void pkvi_fetch_body(const pkv_seq *seq)
{
    pkvi_fetch(seq->body, body_bytes(seq->cache->info.n_groups));
}

static void put_seat(pkv_cache *c, pkv_seq *seq)
{
    pkvi_seq_body *body = seq->body;
    body->next = c->seats;
    c->seats = seq;
    pkvi_poison(body, body_bytes(c->info.n_groups));
    pkvi_poison(seq, sizeof *seq);
}

/* More seats: as many as there are, up to some hundred. False: no memory. */
static bool add_seats(pkv_cache *c)
{
    enum { LEAST = 4, MOST = 256 };
    const size_t n = (size_t)pkvi_min(pkvi_max(c->n_seats, LEAST), MOST);
    const size_t bytes = body_bytes(c->info.n_groups);
    pkv_seq *seqs = pkvi_arena_lines(&c->arena, n, sizeof *seqs + bytes);
    if (!seqs) {
        return false;
    }
    char *bodies = (char *)(seqs + n);
    for (size_t i = n; i > 0; i--) {
        pkvi_seq_body *body = (pkvi_seq_body *)(void *)(bodies + (i - 1) * bytes);
        body->tables = (pkvi_table *)(void *)((char *)body + tables_at());
        seqs[i - 1].body = body;
        put_seat(c, &seqs[i - 1]);
    }
    c->n_seats += n;
    return true;
}

pkv_seq *pkvi_seat_take(pkv_cache *c)
{
    if (!c->seats && !add_seats(c)) {
        return NULL;
    }
    pkv_seq *seq = c->seats;
    pkvi_unpoison(seq, sizeof *seq);
    pkvi_seq_body *body = seq->body;
    pkvi_unpoison(body, body_bytes(c->info.n_groups));
    c->seats = body->next;
    *seq = (pkv_seq){.cache = c, .lane = PKVI_NO_LANE, .body = body};
    *body = (pkvi_seq_body){.tables = body->tables};
    memset(body->tables, 0, c->info.n_groups * sizeof *body->tables);
    return seq;
}

void pkvi_seat_leave(pkv_seq *seq)
{
    pkv_cache *c = seq->cache;
    seq->cache = NULL; /* pkv_cache_advance() refuses it until the seat is taken again */
    put_seat(c, seq);
}
