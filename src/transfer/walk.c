/* walk.c  From pairs and runs to pieces of memory, merged as far as both sides allow. */
#include "base/math.h"
#include "transfer/transfer.h"

/* Whether the heads of a token are the inner axis of a grid: those that lie close to each other at
 * the destination; of short rows also those that do at the source, as lines in a row are read
 * faster than lines here and there are written slower. */
static bool heads_inside(const pkvi_place *src, const pkvi_place *dst, uint64_t row)
{
    enum { SHORT = 256 };
    return dst->head_stride <= dst->token_stride ||
           (row < SHORT && src->head_stride <= src->token_stride);
}

/* What tokens [first, first + n) of a run move. Rows merge where heads, or tokens, lie side by
 * side on both sides; the rest is a grid. */
static pkvi_pieces pieces_of(const pkvi_pair *pair, const pkvi_run *run, uint64_t first, uint64_t n)
{
    const pkvi_place *s = &pair->src, *d = &pair->dst;
    const uint64_t row = pair->row_bytes, heads = pair->heads, all = heads * row;
    pkvi_pieces out = {.src = pkvi_row(s, &run->src, first, 0),
                       .dst = pkvi_row(d, &run->dst, first, 0),
                       .bytes = row,
                       .n_inner = 1,
                       .n_outer = 1};
    if (heads == 1 || (s->head_stride == row && d->head_stride == row)) {
        out.bytes = all;
        if (n == 1 || (s->token_stride == all && d->token_stride == all)) {
            out.bytes = n * all;
            return out;
        }
        out.n_inner = n;
        out.src_inner = s->token_stride;
        out.dst_inner = d->token_stride;
        return out;
    }
    if (n == 1 || (s->token_stride == row && d->token_stride == row)) {
        out.bytes = n * row;
        if (s->head_stride == out.bytes && d->head_stride == out.bytes) {
            out.bytes *= heads;
            return out;
        }
        out.n_inner = heads;
        out.src_inner = s->head_stride;
        out.dst_inner = d->head_stride;
        return out;
    }
    if (heads_inside(s, d, row)) {
        out.n_inner = heads;
        out.src_inner = s->head_stride;
        out.dst_inner = d->head_stride;
        out.n_outer = n;
        out.src_outer = s->token_stride;
        out.dst_outer = d->token_stride;
    } else {
        out.n_inner = n;
        out.src_inner = s->token_stride;
        out.dst_inner = d->token_stride;
        out.n_outer = heads;
        out.src_outer = s->head_stride;
        out.dst_outer = d->head_stride;
    }
    return out;
}

/* Tokens of a pair below a byte of the whole transfer. */
static uint64_t tokens_below(const pkvi_pair *pair, uint64_t n_tokens, uint64_t byte)
{
    if (byte <= pair->first_byte) {
        return 0;
    }
    return pkvi_min(n_tokens,
                    pkvi_ceil_div(byte - pair->first_byte, pair->heads * pair->row_bytes));
}

static void walk_pair(const pkvi_run_group *group, const pkvi_pair *pair, uint64_t from,
                      uint64_t to, pkvi_visit *visit, void *ctx)
{
    if (from >= to) {
        return;
    }
    for (uint64_t r = pkvi_find_run(group->runs, group->n_runs, from); from < to; r++) {
        const pkvi_run *run = &group->runs[r];
        const uint64_t end = r + 1 < group->n_runs ? run[1].first_token : group->n_tokens;
        const uint64_t n = pkvi_min(end, to) - from;
        const pkvi_pieces pieces = pieces_of(pair, run, from - run->first_token, n);
        visit(ctx, &pieces);
        from += n;
    }
}

void pkvi_walk(const pkv_transfer_plan *plan, uint64_t first, uint64_t last, uint64_t from,
               uint64_t to, pkvi_visit *visit, void *ctx)
{
    for (uint64_t i = first; i < last; i++) {
        const pkvi_pair *pair = &plan->pairs[i];
        const pkvi_run_group *group = &plan->groups[pair->group];
        walk_pair(group, pair, tokens_below(pair, group->n_tokens, from),
                  tokens_below(pair, group->n_tokens, to), visit, ctx);
    }
}
