/* fuzz_transfer.c  Any bytes as a transfer. What is planned moves exactly what a copy row by row
 * does, and touches nothing else; what is refused says why. Sizes are near right or anything. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pkv/transfer.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    MAX_RANKS = 2,
    MAX_LAYERS = 3,
    MAX_PLANES = 2,
    MAX_BUFFERS = 4,
    MAX_CHUNKS = 3,
    MAX_IDS = 24,
    MAX_BYTES = 1 << 16
};

typedef struct input {
    const uint8_t *at, *end;
} input;

/* A structure of pages. */
typedef struct side {
    pkv_plane planes[MAX_LAYERS][MAX_PLANES];
    pkv_layer_pages layers[MAX_LAYERS];
    pkv_transfer_pages pages;
} side;

typedef struct job {
    pkv_transfer_params params;
    pkv_transfer_buffer buffers[MAX_BUFFERS], chunk_buffers[MAX_CHUNKS];
    uint8_t *before[MAX_BUFFERS], *chunks_before[MAX_CHUNKS]; /* what they should become */
    side src[MAX_RANKS], dst[MAX_RANKS];
    pkv_transfer_pages src_pages[MAX_RANKS], dst_pages[MAX_RANKS];
    pkv_transfer_chunks chunks;
    int64_t src_ids[MAX_IDS], dst_ids[MAX_IDS];
    uint32_t layers[MAX_LAYERS];
    bool by_blocks;
} job;

static void require(bool condition)
{
    if (!condition) abort();
}

/* ---- reading the input ---- */

static uint8_t byte(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static uint64_t below(input *in, uint64_t n)
{
    return byte(in) % n;
}

/* What is right, for most bytes; else a little more or less, or anything. */
static uint64_t near(input *in, uint64_t right)
{
    const uint8_t how = byte(in);
    uint64_t any = 0;
    if (how < 232) {
        return right;
    }
    if (how < 240) {
        return right - (right < 240u - how ? right : 240u - how);
    }
    if (how < 248) {
        return right + how - 239;
    }
    for (int i = 0; i < 8; i++) {
        any = any << 8 | byte(in);
    }
    return any;
}

/* ---- the job ---- */

/* Content that both sides have, and where it lies: planes one after the other, axes in any of two
 * orders, with gaps. Returns the bytes up to the end. */
static uint64_t make_side(input *in, side *s, const uint8_t content[4], uint64_t size, uint64_t at,
                          uint32_t buffer)
{
    const uint32_t n_layers = 1 + content[0] % MAX_LAYERS, n_planes = 1 + content[1] % MAX_PLANES;
    const uint64_t heads = 1 + content[2] % 4, row = 1 + content[3] % 80, blocks = 1 + below(in, 9);
    const uint8_t how = byte(in);
    for (uint32_t l = 0; l < n_layers; l++) {
        for (uint32_t p = 0; p < n_planes; p++) {
            const uint64_t wide = row + (how >> 2) % 4, block = size * heads * wide + (how >> 4);
            s->planes[l][p] =
                (pkv_plane){.offset = near(in, at),
                            .block_stride = near(in, block),
                            .token_stride = near(in, how & 1 ? wide : heads * wide),
                            .head_stride = near(in, how & 1 ? size * wide : wide),
                            .heads = near(in, heads),
                            .row_bytes = near(in, p == 1 && content[3] & 0x80 ? row + 1 : row),
                            .buffer = (uint32_t)near(in, buffer)};
            at += blocks * (size * heads * (wide + 1) + (how >> 4));
        }
        s->layers[l] = (pkv_layer_pages){.planes = s->planes[l],
                                         .n_planes = (uint32_t)near(in, n_planes) % 3,
                                         .num_blocks = near(in, blocks),
                                         .block_size = near(in, size)};
    }
    s->pages.layers = s->layers;
    s->pages.n_layers = n_layers;
    return at;
}

/* Memory of exactly so many bytes, and what it should become. */
static void make_buffer(pkv_transfer_buffer *buffer, uint8_t **wanted, uint64_t bytes, uint8_t seed)
{
    bytes = bytes < MAX_BYTES ? bytes : MAX_BYTES;
    uint8_t *data = malloc(bytes + 1), *copy = malloc(bytes + 1);
    require(data && copy);
    data = realloc(data, bytes > 0 ? bytes : 1);
    for (uint64_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)(i * 151 + i / 241 + seed);
    }
    memcpy(copy, data, bytes);
    *buffer = (pkv_transfer_buffer){data, bytes};
    *wanted = copy;
}

/* Of what no chunk could hold: 0. */
static uint64_t bytes_of_token(const side *s, uint32_t layer)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p < s->layers[layer].n_planes; p++) {
        const uint64_t heads = s->planes[layer][p].heads, row = s->planes[layer][p].row_bytes;
        n += heads <= MAX_BYTES && row <= MAX_BYTES ? heads * row : 0;
    }
    return n;
}

static void make_chunks(input *in, job *j, const side *s, uint64_t tokens)
{
    const uint32_t form = 1 + byte(in) % 7;
    const uint64_t size = s->layers[0].block_size;
    uint64_t each = 1 + below(in, tokens + 2), bytes = 0;
    if (form == PKV_CHUNK_BLOCKS && size > 0 && size < 64) {
        each = (each + size - 1) / size * size;
    }
    const uint32_t n = (uint32_t)((tokens + each - 1) / each);
    for (uint32_t l = 0; l < s->pages.n_layers; l++) {
        bytes += bytes_of_token(s, l);
    }
    j->chunks = (pkv_transfer_chunks){.chunks = j->chunk_buffers,
                                      .tokens = near(in, each),
                                      .offset = near(in, below(in, 9)),
                                      .n_chunks = n < MAX_CHUNKS ? n : MAX_CHUNKS,
                                      .form = form};
    for (uint32_t i = 0; i < j->chunks.n_chunks; i++) {
        make_buffer(&j->chunk_buffers[i], &j->chunks_before[i],
                    near(in, 8 + bytes % (2 * MAX_BYTES) * each), (uint8_t)(i + 40));
    }
    j->params.chunks = &j->chunks;
}

/* Slots or blocks in a row, or in another order, now and then none of these. */
static void make_ids(input *in, int64_t *ids, uint64_t n, uint64_t most)
{
    const uint8_t how = byte(in);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = how & 1 ? n - 1 - i : i;
        ids[i] = (int64_t)near(in, (how & 2 ? at * 5 : at + (how >> 4)) % (most + !most));
    }
}

static uint64_t ids_of(const side *s, bool by_blocks)
{
    const uint64_t blocks = s->layers[0].num_blocks, size = s->layers[0].block_size;
    return blocks > 1000 || size > 1000 ? 7 : by_blocks ? blocks : blocks * size;
}

static void make_job(input *in, job *j)
{
    uint8_t content[4];
    const uint8_t how = byte(in);
    const uint64_t size = 1 + below(in, 8);
    uint64_t ends[MAX_BUFFERS] = {0};
    pkv_transfer_params_init(&j->params);
    j->params.op = 1 + how % 6;
    j->params.stores = (how >> 3) % 4;
    j->by_blocks = how & 0x40 || j->params.op >= PKV_TRANSFER_SWAP;
    for (size_t i = 0; i < sizeof content; i++) {
        content[i] = byte(in);
    }
    const bool one = how & 0x80; /* both sides in one buffer */
    j->params.n_src = 1 + (uint32_t)(j->params.op == PKV_TRANSFER_RESHARD && byte(in) & 1);
    j->params.n_dst = 1 + (uint32_t)(j->params.op == PKV_TRANSFER_RESHARD && byte(in) & 1);
    for (uint32_t r = 0; r < j->params.n_src; r++) {
        ends[r] = make_side(in, &j->src[r], content, size, below(in, 5), r);
    }
    for (uint32_t r = 0; r < j->params.n_dst; r++) {
        const uint32_t buffer = one ? 0 : MAX_RANKS + r;
        ends[buffer] = make_side(in, &j->dst[r], content, how & 0x20 ? 1 + below(in, 8) : size,
                                 one ? ends[0] : below(in, 5), buffer);
    }
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) {
        make_buffer(&j->buffers[i], &j->before[i], near(in, ends[i]), (uint8_t)(50 * i));
    }
    for (uint32_t r = 0; r < MAX_RANKS; r++) {
        j->src[r].pages.buffers = j->dst[r].pages.buffers = j->buffers;
        j->src[r].pages.n_buffers = j->dst[r].pages.n_buffers = MAX_BUFFERS;
        j->src_pages[r] = j->src[r].pages;
        j->dst_pages[r] = j->dst[r].pages;
    }
    j->params.src = j->params.op == PKV_TRANSFER_SCATTER ? NULL : j->src_pages;
    j->params.dst = j->params.op == PKV_TRANSFER_GATHER || j->params.op == PKV_TRANSFER_SWAP
                        ? NULL
                        : j->dst_pages;
    j->params.heads_total = near(in, (1 + content[2] % 4) * j->params.n_src);
}

static void name_tokens(input *in, job *j)
{
    pkv_transfer_params *p = &j->params;
    const uint64_t a = ids_of(&j->src[0], j->by_blocks), b = ids_of(&j->dst[0], j->by_blocks);
    const uint64_t most = p->op == PKV_TRANSFER_SCATTER ? b
                          : p->op == PKV_TRANSFER_COPY  ? (a < b ? a : b)
                          : p->op == PKV_TRANSFER_SWAP  ? a / 2
                                                        : a;
    p->n_ids = 1 + below(in, most < MAX_IDS ? most + !most : MAX_IDS);
    make_ids(in, j->src_ids, p->n_ids, a);
    make_ids(in, j->dst_ids, p->n_ids, p->op == PKV_TRANSFER_SWAP ? a : b);
    for (uint64_t i = 0; i < p->n_ids && p->op == PKV_TRANSFER_SWAP; i++) {
        j->dst_ids[i] += j->dst_ids[i] < INT32_MAX ? (int64_t)p->n_ids : 0;
    }
    const bool src = p->op != PKV_TRANSFER_SCATTER, dst = p->op != PKV_TRANSFER_GATHER;
    p->src_slots = src && !j->by_blocks ? j->src_ids : NULL;
    p->src_blocks = src && j->by_blocks ? j->src_ids : NULL;
    p->dst_slots = dst && !j->by_blocks ? j->dst_ids : NULL;
    p->dst_blocks = dst && j->by_blocks ? j->dst_ids : NULL;
    const side *with = p->op == PKV_TRANSFER_SCATTER ? &j->dst[0] : &j->src[0];
    const uint64_t size = with->layers[0].block_size;
    const uint64_t tokens = j->by_blocks && size < 1000 ? p->n_ids * size : p->n_ids;
    p->tokens = PKV_ALL_TOKENS;
    if (p->op < PKV_TRANSFER_SWAP) {
        p->tokens = j->by_blocks && byte(in) & 1 ? near(in, tokens - tokens / 3) : PKV_ALL_TOKENS;
        p->skip_tokens = byte(in) & 1 ? near(in, tokens / 4) : 0;
    }
    p->n_layers = (uint32_t)below(in, 1 + j->src[0].pages.n_layers);
    for (uint32_t i = 0; i < p->n_layers; i++) {
        j->layers[i] = (uint32_t)near(in, p->n_layers - 1 - i);
    }
    p->layers = j->layers;
    if (p->op == PKV_TRANSFER_GATHER || p->op == PKV_TRANSFER_SCATTER) {
        make_chunks(in, j, with, tokens);
    }
}

/* ---- row by row ---- */

static uint64_t row_at(const side *s, uint32_t l, uint32_t p, uint64_t slot, uint64_t head)
{
    const pkv_plane *plane = &s->planes[l][p];
    const uint64_t size = s->layers[l].block_size;
    return plane->offset + slot / size * plane->block_stride + slot % size * plane->token_stride +
           head * plane->head_stride;
}

/* Where a row lies in its chunk, by the drawing of transfer.h. */
static uint64_t chunk_row_at(const job *j, const side *s, uint32_t l, uint32_t p, uint64_t token,
                             uint64_t head)
{
    const uint64_t t = j->chunks.tokens, row = s->planes[l][p].row_bytes;
    const uint64_t own = s->planes[l][p].heads * row, all = bytes_of_token(s, l);
    const uint64_t planes_before = p > 0 ? s->planes[l][0].heads * s->planes[l][0].row_bytes : 0;
    const uint64_t size = s->layers[l].block_size, in_row = head * row;
    uint64_t layers_before = 0, per_block = 0;
    for (uint32_t i = 0; i < s->pages.n_layers; i++) {
        layers_before += i < l ? bytes_of_token(s, i) : 0;
        per_block += bytes_of_token(s, i) * size;
    }
    switch (j->chunks.form) {
    case PKV_CHUNK_2LTD:
        return planes_before * s->pages.n_layers * t + (l * t + token) * own + in_row;
    case PKV_CHUNK_L2TD: return l * t * all + planes_before * t + token * own + in_row;
    case PKV_CHUNK_2TD: return planes_before * t + token * own + in_row;
    case PKV_CHUNK_T2D: return token * all + planes_before + in_row;
    case PKV_CHUNK_MLA: return (l * t + token) * all + planes_before + in_row;
    default:
        return token / size * per_block + layers_before * size + planes_before * size +
               token % size * own + in_row;
    }
}

static int64_t slot_of(const job *j, const int64_t *ids, const side *s, uint64_t token)
{
    const uint64_t size = s->layers[0].block_size;
    return j->by_blocks ? ids[token / size] * (int64_t)size + (int64_t)(token % size) : ids[token];
}

static void want_row(job *j, uint32_t l, uint32_t p, uint64_t t, uint64_t head)
{
    const bool gather = j->params.op == PKV_TRANSFER_GATHER;
    const bool scatter = j->params.op == PKV_TRANSFER_SCATTER;
    const side *src = &j->src[0], *dst = &j->dst[0], *with = scatter ? dst : src;
    const uint64_t row = with->planes[l][p].row_bytes;
    const int64_t a = scatter ? 0 : slot_of(j, j->src_ids, src, t);
    const int64_t b = gather ? 0 : slot_of(j, j->dst_ids, dst, t);
    if (a < 0 || b < 0) {
        return;
    }
    const pkv_transfer_buffer *from = &j->buffers[with->planes[l][p].buffer];
    uint8_t *to = gather ? NULL : j->before[dst->planes[l][p].buffer];
    const uint64_t to_at = gather ? 0 : row_at(dst, l, p, (uint64_t)b, head);
    uint64_t from_at = scatter ? 0 : row_at(src, l, p, (uint64_t)a, head);
    if (gather || scatter) {
        const uint64_t chunk = t / j->chunks.tokens;
        const uint64_t at =
            j->chunks.offset + chunk_row_at(j, with, l, p, t % j->chunks.tokens, head);
        if (gather) {
            memcpy(j->chunks_before[chunk] + at, (const uint8_t *)from->data + from_at, row);
            return;
        }
        from = &j->chunk_buffers[chunk];
        from_at = at;
    }
    memcpy(to + to_at, (const uint8_t *)from->data + from_at, row);
}

/* Exchanges the blocks of a pair in what the buffers should become. */
static void want_swap(job *j, uint32_t l, uint32_t p, uint64_t i)
{
    const side *s = &j->src[0];
    const pkv_plane *plane = &s->planes[l][p];
    const uint64_t size = s->layers[l].block_size;
    uint8_t *to = j->before[plane->buffer];
    const uint8_t *from = j->buffers[plane->buffer].data;
    for (uint64_t t = 0; t < size; t++) {
        for (uint64_t h = 0; h < plane->heads; h++) {
            const uint64_t a = row_at(s, l, p, (uint64_t)j->src_ids[i] * size + t, h);
            const uint64_t b = row_at(s, l, p, (uint64_t)j->dst_ids[i] * size + t, h);
            memcpy(to + a, from + b, plane->row_bytes);
            memcpy(to + b, from + a, plane->row_bytes);
        }
    }
}

static void want(job *j)
{
    const pkv_transfer_params *p = &j->params;
    const side *s = p->op == PKV_TRANSFER_SCATTER ? &j->dst[0] : &j->src[0];
    uint64_t all = p->n_ids;
    if (j->by_blocks && __builtin_mul_overflow(all, s->layers[0].block_size, &all)) {
        all = UINT64_MAX; /* of which `tokens` are few */
    }
    const uint64_t tokens = p->tokens < all ? p->tokens : all;
    for (uint32_t i = 0; i < (p->n_layers > 0 ? p->n_layers : s->pages.n_layers); i++) {
        const uint32_t l = p->n_layers > 0 ? j->layers[i] : i;
        for (uint32_t plane = 0; plane < s->layers[l].n_planes; plane++) {
            for (uint64_t n = 0; n < p->n_ids && p->op == PKV_TRANSFER_SWAP; n++) {
                want_swap(j, l, plane, n);
            }
            for (uint64_t t = p->skip_tokens; t < tokens && p->op != PKV_TRANSFER_SWAP; t++) {
                for (uint64_t h = 0; h < s->planes[l][plane].heads; h++) {
                    want_row(j, l, plane, t, h);
                }
            }
        }
    }
}

/* ---- running ---- */

static void run(const pkv_transfer_plan *plan, uint8_t how)
{
    pkv_transfer_info info;
    const uint32_t workers = 1 + how % 4;
    pkv_transfer_plan_info(plan, &info);
    for (uint32_t step = 0; step < (how & 4 ? info.n_layers : 1); step++) {
        for (uint32_t w = 0; w < workers; w++) {
            require((how & 4 ? pkv_transfer_run_layer(plan, step, w, workers)
                             : pkv_transfer_run(plan, w, workers)) == PKV_OK);
        }
    }
}

static void compare_and_free(pkv_transfer_buffer *buffer, uint8_t *wanted, bool compare)
{
    require(!compare || buffer->bytes == 0 || memcmp(buffer->data, wanted, buffer->bytes) == 0);
    free(buffer->data);
    free(wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    job j = {.by_blocks = false};
    pkv_transfer_plan *plan;
    pkv_transfer_refusal refusal;
    make_job(&in, &j);
    name_tokens(&in, &j);
    const pkv_status st = pkv_transfer_plan_create(&j.params, &plan, &refusal);
    const bool known = j.params.op != PKV_TRANSFER_RESHARD; /* its heads are a test's */
    if (st == PKV_OK) {
        if (known) {
            want(&j);
        }
        run(plan, byte(&in));
        pkv_transfer_plan_destroy(plan);
    } else {
        require(st == PKV_E_INVAL && refusal.rule <= PKV_TRANSFER_CONTENT && !plan);
        require(strncmp(pkv_last_error(), "pkv_transfer_plan_create: ", 26) == 0);
    }
    for (uint32_t i = 0; i < MAX_BUFFERS; i++) {
        compare_and_free(&j.buffers[i], j.before[i], known || st != PKV_OK);
    }
    for (uint32_t i = 0; i < MAX_CHUNKS; i++) {
        if (j.chunk_buffers[i].data) {
            compare_and_free(&j.chunk_buffers[i], j.chunks_before[i], true);
        }
    }
    return 0;
}
