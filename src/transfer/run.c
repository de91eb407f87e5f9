/* run.c  One worker's share of a plan: pieces one after the other, neighbours merged. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "transfer/transfer.h"

/* Pieces below this size are not worth the setup of a copy past the caches, unless they are whole
 * lines. */
enum { LEAST_STREAM = 1024, LINE = 64 };

/* The last piece, or grid of rows, waits until the next one is known: it may continue the piece, or
 * is fetched while it is moved. */
typedef struct mover {
    char *dst;
    const char *src;
    uint64_t bytes;
    pkvi_pieces grid;          /* n_outer 0: none */
    const pkvi_stream *stream; /* NULL: through the caches */
} mover;

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* ---- small rows ---- */

/* The size is a constant to the compiler where it is one to the caller. */
static inline __attribute__((always_inline)) void copy_rows(const pkvi_pieces *p, uint64_t outer,
                                                            size_t bytes)
{
    char *dst = at(p->dst + outer * p->dst_outer);
    const char *src = at(p->src + outer * p->src_outer);
    for (uint64_t i = 0; i < p->n_inner; i++) {
        memcpy(dst + i * p->dst_inner, src + i * p->src_inner, bytes);
    }
}

static void small_grid(const pkvi_pieces *p)
{
    for (uint64_t o = 0; o < p->n_outer; o++) {
        switch (p->bytes) {
        case 4: copy_rows(p, o, 4); break;
        case 8: copy_rows(p, o, 8); break;
        case 16: copy_rows(p, o, 16); break;
        case 32: copy_rows(p, o, 32); break;
        case 64: copy_rows(p, o, 64); break;
        case 128: copy_rows(p, o, 128); break;
        case 256: copy_rows(p, o, 256); break;
        default: copy_rows(p, o, p->bytes);
        }
    }
}

/* Rows that are whole lines of the destination can be streamed, however small. */
static bool whole_lines(const pkvi_pieces *p)
{
    return ((p->dst | p->bytes | (p->n_inner > 1 ? p->dst_inner : 0) |
             (p->n_outer > 1 ? p->dst_outer : 0)) &
            (LINE - 1)) == 0;
}

/* ---- what waits ---- */

static void flush(mover *m, const char *next)
{
    if (m->stream && m->bytes >= LEAST_STREAM) {
        m->stream->copy(m->dst, m->src, m->bytes, next);
    } else if (m->bytes > 0) {
        memcpy(m->dst, m->src, m->bytes);
    }
    m->bytes = 0;
    if (m->grid.n_outer > 0 && m->stream && whole_lines(&m->grid)) {
        m->stream->rows(&m->grid, next);
    } else {
        small_grid(&m->grid);
    }
    m->grid.n_outer = 0;
}

static void put(mover *m, char *dst, const char *src, uint64_t bytes)
{
    if (m->bytes > 0 && m->src + m->bytes == src && m->dst + m->bytes == dst) {
        m->bytes += bytes;
        return;
    }
    flush(m, src);
    m->dst = dst;
    m->src = src;
    m->bytes = bytes;
}

static void move(void *ctx, const pkvi_pieces *p)
{
    mover *m = ctx;
    if (p->bytes < LEAST_STREAM && p->n_inner * p->n_outer > 1) {
        flush(m, at(p->src));
        m->grid = *p;
        return;
    }
    for (uint64_t o = 0; o < p->n_outer; o++) {
        for (uint64_t i = 0; i < p->n_inner; i++) {
            put(m, at(p->dst + o * p->dst_outer + i * p->dst_inner),
                at(p->src + o * p->src_outer + i * p->src_inner), p->bytes);
        }
    }
}

/* ---- swap ---- */

static void exchange(char *a, char *b, uint64_t bytes)
{
    char room[1024];
    for (uint64_t i = 0; i < bytes; i += sizeof room) {
        const size_t n = bytes - i < sizeof room ? bytes - i : sizeof room;
        memcpy(room, a + i, n);
        memcpy(a + i, b + i, n);
        memcpy(b + i, room, n);
    }
}

static void swap(void *ctx, const pkvi_pieces *p)
{
    (void)ctx;
    for (uint64_t o = 0; o < p->n_outer; o++) {
        for (uint64_t i = 0; i < p->n_inner; i++) {
            exchange(at(p->dst + o * p->dst_outer + i * p->dst_inner),
                     at(p->src + o * p->src_outer + i * p->src_inner), p->bytes);
        }
    }
}

/* ---- shares ---- */

/* First byte of a worker's share of `bytes`, without a product that could wrap. */
static uint64_t share(uint64_t bytes, uint32_t worker, uint32_t n_workers)
{
    return bytes / n_workers * worker + bytes % n_workers * worker / n_workers;
}

static uint64_t byte_of(const pkv_transfer_plan *plan, uint64_t pair)
{
    return pair < plan->n_pairs ? plan->pairs[pair].first_byte : plan->bytes;
}

static void run_pairs(const pkv_transfer_plan *plan, uint64_t first, uint64_t last, uint32_t worker,
                      uint32_t n_workers)
{
    mover m = {.stream = plan->info.streaming ? pkvi_stream_of_cpu(0) : NULL};
    const uint64_t start = byte_of(plan, first), bytes = byte_of(plan, last) - start;
    const uint64_t from = start + share(bytes, worker, n_workers);
    const uint64_t to = start + share(bytes, worker + 1, n_workers);
    pkvi_walk(plan, first, last, from, to, plan->swap ? swap : move, &m);
    flush(&m, NULL);
    if (m.stream) {
        pkvi_stream_fence();
    }
}

static pkv_status check_worker(const char *function, uint32_t worker, uint32_t n_workers)
{
    if (worker >= n_workers) {
        return pkvi_fail(PKV_E_INVAL, "%s: worker %u of %u", function, worker, n_workers);
    }
    return PKV_OK;
}

pkv_status pkv_transfer_run(const pkv_transfer_plan *plan, uint32_t worker, uint32_t n_workers)
{
    PKVI_RETURN_IF(check_worker("pkv_transfer_run", worker, n_workers));
    run_pairs(plan, 0, plan->n_pairs, worker, n_workers);
    return PKV_OK;
}

pkv_status pkv_transfer_run_layer(const pkv_transfer_plan *plan, uint32_t step, uint32_t worker,
                                  uint32_t n_workers)
{
    PKVI_RETURN_IF(check_worker("pkv_transfer_run_layer", worker, n_workers));
    if (step >= plan->info.n_layers) {
        return pkvi_fail(PKV_E_INVAL, "pkv_transfer_run_layer: step %u of %u layers", step,
                         plan->info.n_layers);
    }
    run_pairs(plan, plan->step_pairs[step], plan->step_pairs[step + 1], worker, n_workers);
    return PKV_OK;
}
