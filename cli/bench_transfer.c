/* bench_transfer.c  pagedkv bench transfer: how fast pages move, beside loops over the same pieces.
 *
 * Sixteen layers of pages [plane][block][token][head], or [plane][block][head][token], in one
 * buffer, chunks of 256 tokens in the form 2LTD (MLA where there is one plane), all blocks in
 * random order, everything in each run. A piece is one plane of one block of one layer; where heads
 * come first, pages and chunks order its rows differently, and the loops copy each row. The ceiling
 * is the best of the loops, measured in turn with ours; "memcpy" is the loop that calls memcpy for
 * each. */
#define _DEFAULT_SOURCE

#include "bench_transfer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct shape {
    const char *name;
    uint64_t heads, row_bytes;
    uint32_t planes;
    bool heads_first;
} shape;

static const shape shapes[] = {
    {"8x128 bf16", 8, 256, 2, false},
    {"8x128 1-byte", 8, 128, 2, false},
    {"1x576 bf16", 1, 1152, 1, false},
    {"1x576 1-byte", 1, 576, 1, false},
    {"8x128 bf16, heads first", 8, 256, 2, true},
    {"8x128 1-byte, heads first", 8, 128, 2, true},
};
static const uint64_t block_sizes[] = {16, 32, 64, 128};

enum { N_SHAPES = 6, N_BLOCK_SIZES = 4, LEAST_BLOCKS = 4, LAYERWISE_TOKENS = 8192, MAX_PLANES = 2 };
enum { GATHER, SCATTER, COPY, LAYERWISE, N_OPS };
static const char *const op_names[] = {"gather", "scatter", "copy", "layerwise"};

/* What is moved, and both ways to do it. */
typedef struct rig {
    const shape *shape;
    uint64_t block_size, n_blocks, piece_bytes;
    char *pages, *chunk_memory;
    uint64_t chunk_bytes;
    uint32_t n_chunks;
    uint32_t *order; /* [n_blocks] random */
    bench_move *moves;
    size_t n_moves;
    pkv_transfer_plan *plan;
    pkv_plane planes[BENCH_LAYERS][MAX_PLANES];
    pkv_layer_pages layers[BENCH_LAYERS];
    bench_rows rows;
    uint32_t variant, slice;
} rig;

static uint64_t token_bytes(const shape *s)
{
    return s->heads * s->row_bytes;
}

static uint64_t blocks_of(const shape *s, uint64_t block_size, uint64_t bytes)
{
    const uint64_t own = BENCH_LAYERS * s->planes * block_size * token_bytes(s);
    return bytes / own < LEAST_BLOCKS ? LEAST_BLOCKS : bytes / own;
}

/* Bytes of pages; those of chunks are at most one chunk more. */
static uint64_t pages_bytes(const shape *s, uint64_t block_size, uint64_t bytes)
{
    return blocks_of(s, block_size, bytes) * BENCH_LAYERS * s->planes * block_size * token_bytes(s);
}

static char *memory(uint64_t bytes)
{
    char *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bench_need(data != MAP_FAILED, "memory");
    (void)madvise(data, bytes, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < bytes; i += sizeof i) {
        memcpy(data + i, &i, bytes - i < sizeof i ? bytes - i : sizeof i);
    }
    return data;
}

/* ---- pieces ---- */

static char *page_piece(const rig *r, uint32_t layer, uint32_t plane, uint64_t block)
{
    return r->pages +
           (((uint64_t)layer * r->shape->planes + plane) * r->n_blocks + block) * r->piece_bytes;
}

static char *chunk_piece(const rig *r, uint32_t layer, uint32_t plane, uint64_t i)
{
    const uint64_t token = i * r->block_size, own = token_bytes(r->shape);
    const uint64_t at = (((uint64_t)plane * BENCH_LAYERS + layer) * BENCH_CHUNK_TOKENS +
                         token % BENCH_CHUNK_TOKENS) *
                        own;
    return r->chunk_memory + token / BENCH_CHUNK_TOKENS * r->chunk_bytes + at;
}

/* Pieces by layers, planes and tokens. */
static void list_moves(rig *r, int op, uint64_t n_blocks)
{
    r->n_moves = 0;
    for (uint32_t l = 0; l < BENCH_LAYERS; l++) {
        for (uint32_t p = 0; p < r->shape->planes; p++) {
            for (uint64_t i = 0; i < n_blocks; i++) {
                char *page = page_piece(r, l, p, r->order[i]);
                bench_move *m = &r->moves[r->n_moves++];
                if (op == COPY) {
                    m->src = page;
                    m->dst = page_piece(r, l, p, r->order[n_blocks + i]);
                } else {
                    char *chunk = chunk_piece(r, l, p, i);
                    m->src = op == SCATTER ? chunk : page;
                    m->dst = op == SCATTER ? page : chunk;
                }
            }
        }
    }
}

static void describe_rows(rig *r, int op)
{
    const size_t row = r->shape->row_bytes, token = token_bytes(r->shape);
    const size_t page_head = r->block_size * row;
    const bool scatter = op == SCATTER;
    r->rows = (bench_rows){.tokens = 1, .heads = 1, .bytes = r->piece_bytes};
    if (r->shape->heads_first) {
        r->rows = (bench_rows){.tokens = r->block_size,
                               .heads = r->shape->heads,
                               .bytes = row,
                               .src_token = scatter ? token : row,
                               .src_head = scatter ? row : page_head,
                               .dst_token = scatter ? row : token,
                               .dst_head = scatter ? page_head : row};
    }
}

/* ---- plans ---- */

static void fill_layers(rig *r)
{
    for (uint32_t l = 0; l < BENCH_LAYERS; l++) {
        for (uint32_t p = 0; p < r->shape->planes; p++) {
            r->planes[l][p] = (pkv_plane){
                .offset = (uint64_t)(page_piece(r, l, p, 0) - r->pages),
                .block_stride = r->piece_bytes,
                .token_stride = r->shape->heads_first ? r->shape->row_bytes : token_bytes(r->shape),
                .head_stride = (r->shape->heads_first ? r->block_size : 1) * r->shape->row_bytes,
                .heads = r->shape->heads,
                .row_bytes = r->shape->row_bytes,
            };
        }
        r->layers[l] = (pkv_layer_pages){.planes = r->planes[l],
                                         .n_planes = r->shape->planes,
                                         .num_blocks = r->n_blocks,
                                         .block_size = r->block_size};
    }
}

static void make_plan(rig *r, int op, uint64_t n_blocks)
{
    const pkv_transfer_buffer buffer = {r->pages, UINT64_C(1) << 46};
    const pkv_transfer_pages pages = {&buffer, r->layers, NULL, 1, BENCH_LAYERS};
    pkv_transfer_buffer *chunks = bench_memory(r->n_chunks, sizeof *chunks);
    int64_t *blocks = bench_memory(r->n_blocks, sizeof *blocks);
    for (uint32_t i = 0; i < r->n_chunks; i++) {
        chunks[i] = (pkv_transfer_buffer){r->chunk_memory + i * r->chunk_bytes, r->chunk_bytes};
    }
    for (uint64_t i = 0; i < r->n_blocks; i++) {
        blocks[i] = r->order[i];
    }
    const pkv_transfer_chunks side = {chunks, BENCH_CHUNK_TOKENS, 0, r->n_chunks,
                                      r->shape->planes == 2 ? PKV_CHUNK_2LTD : PKV_CHUNK_MLA};
    pkv_transfer_params params;
    pkv_transfer_params_init(&params);
    params.n_ids = n_blocks;
    params.op = op == SCATTER ? PKV_TRANSFER_SCATTER : PKV_TRANSFER_GATHER;
    params.chunks = &side;
    if (op == COPY) {
        params.op = PKV_TRANSFER_COPY;
        params.chunks = NULL;
    }
    if (op != SCATTER) {
        params.src = &pages;
        params.src_blocks = blocks;
    }
    if (op == SCATTER || op == COPY) {
        params.dst = &pages;
        params.dst_blocks = op == COPY ? blocks + n_blocks : blocks;
    }
    bench_need(pkv_transfer_plan_create(&params, &r->plan, NULL) == PKV_OK, "plan");
    free(chunks);
    free(blocks);
}

/* ---- work ---- */

/* The whole is done in slices, so that what disturbs the machine disturbs all variants alike. */
enum { SLICES = BENCH_LAYERS };

static void work_plan(void *ctx, uint32_t worker, uint32_t n_workers)
{
    const rig *r = ctx;
    bench_need(pkv_transfer_run(r->plan, r->slice * n_workers + worker, SLICES * n_workers) ==
                   PKV_OK,
               "run");
}

static void work_layer(void *ctx, uint32_t worker, uint32_t n_workers)
{
    const rig *r = ctx;
    bench_need(pkv_transfer_run_layer(r->plan, r->slice, worker, n_workers) == PKV_OK, "run");
}

static void work_loop(void *ctx, uint32_t worker, uint32_t n_workers)
{
    const rig *r = ctx;
    const size_t parts = (size_t)SLICES * n_workers, part = (size_t)r->slice * n_workers + worker;
    const size_t from = r->n_moves * part / parts, to = r->n_moves * (part + 1) / parts;
    bench_loop_of((int)r->variant, r->shape->heads_first)(r->moves + from, to - from, &r->rows);
}

/* ---- figures ---- */

/* The loops, and ours as the last. */
enum { OURS = BENCH_LOOPS, VARIANTS };

/* Seconds of each slice; of all of them, each the median of its runs. */
typedef struct figure {
    double slices[VARIANTS][SLICES][BENCH_MAX_RUNS], seconds[VARIANTS];
    double plan_ms;
    uint64_t bytes;
} figure;

static figure f; /* large */

static void check_piece(const bench_move *m, const bench_rows *rows)
{
    for (size_t t = 0; t < rows->tokens; t++) {
        for (size_t h = 0; h < rows->heads; h++) {
            bench_need(memcmp(m->dst + t * rows->dst_token + h * rows->dst_head,
                              m->src + t * rows->src_token + h * rows->src_head, rows->bytes) == 0,
                       "moved bytes");
        }
    }
}

static void check_moved(const rig *r)
{
    for (size_t i = 0; i < r->n_moves; i += 1 + r->n_moves / 1000) {
        check_piece(&r->moves[i], &r->rows);
    }
}

static double slice_seconds(rig *r, uint32_t variant, uint32_t slice, int op, uint32_t threads)
{
    r->slice = slice;
    if (variant == OURS) {
        return bench_threads(op == LAYERWISE ? work_layer : work_plan, r, threads);
    }
    r->variant = variant;
    return bench_loop_of((int)variant, r->shape->heads_first) ? bench_threads(work_loop, r, threads)
                                                              : 1e9;
}

/* Variants take turns, each with a slice that the others have not touched for a while. */
static void measure(rig *r, int op, uint32_t threads, uint64_t runs)
{
    f.bytes = r->n_moves * r->piece_bytes;
    for (uint64_t run = 0; run < runs; run++) {
        for (uint32_t i = 0; i < SLICES; i++) {
            for (uint32_t v = 0; v < VARIANTS; v++) {
                const uint32_t slice = (i + v * (SLICES / VARIANTS)) % SLICES;
                f.slices[v][slice][run] = slice_seconds(r, v, slice, op, threads);
            }
        }
    }
    for (uint32_t v = 0; v < VARIANTS; v++) {
        f.seconds[v] = 0;
        for (uint32_t i = 0; i < SLICES; i++) {
            f.seconds[v] += bench_quantile(f.slices[v][i], runs, 0.5);
        }
    }
    check_moved(r);
}

static double rate(uint32_t variant)
{
    return (double)f.bytes / f.seconds[variant] / 1e9;
}

static void tell(const rig *r, int op, uint32_t threads, json_t *list)
{
    uint32_t best = 0;
    for (uint32_t v = 0; v < BENCH_LOOPS; v++) {
        best = f.seconds[v] < f.seconds[best] ? v : best;
    }
    const double ours = rate(OURS), ceiling = rate(best), plain_rate = rate(BENCH_MEMCPY);
    const double share = ours / ceiling, plain = ours / plain_rate;
    const double bound = op == LAYERWISE ? 0.85 : 0.9;
    const char *best_name = bench_loop_name((int)best, r->shape->heads_first);
    if (!list) {
        printf("  %-9s %4llu %7.1f %9.1f %-12s %7.1f %7.3f %8.3f %8.2f  %s\n", op_names[op],
               (unsigned long long)r->block_size, ours, ceiling, best_name, plain_rate, share,
               plain, f.plan_ms, share >= bound && plain >= 1 ? "met" : "NOT MET");
        (void)fflush(stdout);
        return;
    }
    json_t *row = json_object();
    cli_set(row, "name", json_string(op_names[op]));
    cli_set(row, "shape", json_string(r->shape->name));
    cli_set(row, "block_size", cli_int(r->block_size));
    cli_set(row, "threads", cli_int(threads));
    cli_set(row, "bytes", cli_int(f.bytes));
    cli_set(row, "piece_bytes", cli_int(r->piece_bytes));
    cli_set(row, "gb_per_s", json_real(ours));
    cli_set(row, "ceiling_gb_per_s", json_real(ceiling));
    cli_set(row, "ceiling", json_string(best_name));
    cli_set(row, "memcpy_gb_per_s", json_real(plain_rate));
    cli_set(row, "ratio", json_real(share));
    cli_set(row, "memcpy_ratio", json_real(plain));
    cli_set(row, "plan_ms", json_real(f.plan_ms));
    cli_set(row, "bound", json_real(bound));
    cli_set(row, "met", json_boolean(share >= bound && plain >= 1));
    cli_push(list, row);
}

static void bench_op(rig *r, int op, uint32_t threads, const bench_params *params, json_t *list)
{
    uint64_t n = op == COPY ? r->n_blocks / 2 : r->n_blocks;
    if (op == LAYERWISE && n * r->block_size > LAYERWISE_TOKENS) {
        n = LAYERWISE_TOKENS / r->block_size;
    }
    list_moves(r, op, n);
    describe_rows(r, op);
    const double start = bench_now();
    make_plan(r, op, n);
    f.plan_ms = (bench_now() - start) / 1e6;
    measure(r, op, threads, params->runs);
    tell(r, op, threads, list);
    pkv_transfer_plan_destroy(r->plan);
}

static void bench_shape(rig *r, uint32_t threads, const bench_params *params, json_t *list)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    if (!list) {
        printf("%s, %u thread%s\n  %-9s %4s %7s %9s %-12s %7s %7s %8s %8s\n", r->shape->name,
               threads, threads > 1 ? "s" : "", "", "page", "GB/s", "ceiling", "by", "memcpy",
               "ratio", "/memcpy", "plan, ms");
    }
    for (int i = 0; i < N_BLOCK_SIZES; i++) {
        r->block_size = block_sizes[i];
        r->n_blocks = blocks_of(r->shape, r->block_size, (uint64_t)params->bytes / 2);
        r->piece_bytes = r->block_size * token_bytes(r->shape);
        r->chunk_bytes =
            BENCH_LAYERS * r->shape->planes * BENCH_CHUNK_TOKENS * token_bytes(r->shape);
        r->n_chunks =
            (uint32_t)((r->n_blocks * r->block_size + BENCH_CHUNK_TOKENS - 1) / BENCH_CHUNK_TOKENS);
        r->order = bench_memory(r->n_blocks, sizeof *r->order);
        r->moves = bench_memory(r->n_blocks * BENCH_LAYERS * r->shape->planes, sizeof *r->moves);
        bench_shuffle(r->order, r->n_blocks, 0, &state);
        fill_layers(r);
        for (int op = 0; op < N_OPS; op++) {
            if (op == COPY && r->shape->heads_first) {
                continue; /* both sides are pages: whole pieces, as above */
            }
            bench_op(r, op, threads, params, list);
        }
        free(r->order);
        free(r->moves);
    }
    if (!list) {
        printf("\n");
    }
}

void bench_transfer(const bench_params *params, json_t *answer)
{
    rig r = {0};
    json_t *list = answer ? json_array() : NULL;
    uint64_t most = 0, chunk = 0;
    for (int s = 0; s < N_SHAPES; s++) {
        const uint64_t one =
            BENCH_LAYERS * shapes[s].planes * BENCH_CHUNK_TOKENS * token_bytes(&shapes[s]);
        chunk = one > chunk ? one : chunk;
        for (int i = 0; i < N_BLOCK_SIZES; i++) {
            const uint64_t own =
                pages_bytes(&shapes[s], block_sizes[i], (uint64_t)params->bytes / 2);
            most = own > most ? own : most;
        }
    }
    r.pages = memory(most);
    r.chunk_memory = memory(most + chunk);
    for (int s = 0; s < N_SHAPES; s++) {
        for (uint32_t threads = 1; threads <= BENCH_MAX_THREADS; threads++) {
            r.shape = &shapes[s];
            bench_shape(&r, threads, params, list);
        }
    }
    (void)munmap(r.pages, most);
    (void)munmap(r.chunk_memory, most + chunk);
    if (answer) {
        cli_set(answer, "working_set_bytes", cli_int(2 * most + chunk));
        cli_set(answer, "transfers", list);
    }
}
