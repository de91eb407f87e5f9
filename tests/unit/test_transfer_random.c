/* test_transfer_random.c  Random structures, strides and forms, beside a copy index by index:
 * what moves is right, what does not is untouched, and memory around it is not even read.
 * PKV_SEED and PKV_RANDOM_TRANSFERS in the environment: where it begins, and how long it is. */
#define _DEFAULT_SOURCE

#include "transfer/copy.h"

#include "transfer_naive.h"

static uint64_t state;

/* One structure, its memory, and what it should become. */
typedef struct held {
    pages pages;
    guarded memory;
    uint8_t *wanted;
    uint64_t blocks, size;
} held;

static content random_content(uint32_t form_a, uint32_t form_b)
{
    content c = {.n_layers = (uint32_t)pick(&state, 1, 3), .n_planes = 2};
    if ((form_a == PKV_CHUNK_MLA || form_a == PKV_CHUNK_BLOCKS) &&
        (form_b == PKV_CHUNK_MLA || form_b == PKV_CHUNK_BLOCKS)) {
        c.n_planes = (uint32_t)pick(&state, 1, MAX_PLANES);
    }
    for (uint32_t p = 0; p < c.n_planes; p++) {
        c.heads[p] = pick(&state, 1, 4);
        c.row_bytes[p] = chance(&state, 40) ? 64 * pick(&state, 1, 24) : pick(&state, 1, 200);
    }
    return c;
}

static held random_held(const content *c, uint64_t blocks, uint64_t size, uint32_t seed)
{
    held h = {.blocks = blocks, .size = size};
    const uint64_t bytes = chance(&state, 30) ? random_pool(&state, c, blocks, size, &h.pages)
                                              : random_pages(&state, c, blocks, size, &h.pages);
    h.memory = guarded_new(bytes, chance(&state, 50));
    h.wanted = malloc(bytes);
    assert_non_null(h.wanted);
    fill(h.memory.data, bytes, seed);
    memcpy(h.wanted, h.memory.data, bytes);
    return h;
}

static void tie(held *h, uint32_t n_layers)
{
    pages_tie(&h->pages, h->memory.data, h->memory.bytes, n_layers);
}

static void assert_as_wanted(held *h)
{
    assert_memory_equal(h->memory.data, h->wanted, h->memory.bytes);
}

static void held_free(held *h)
{
    guarded_free(&h->memory);
    free(h->wanted);
}

/* Random different numbers below n. */
static uint64_t random_ids(int64_t *out, uint64_t n, uint64_t most)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t j = pick(&state, 0, i);
        out[i] = out[j];
        out[j] = (int64_t)i;
    }
    return pick(&state, 1, n < most ? n : most);
}

enum { MAX_CHUNKS = 4, MAX_TOKENS = 160 };

/* Chunks with their memory. */
typedef struct chunk_set {
    guarded memory[MAX_CHUNKS];
    pkv_transfer_buffer buffers[MAX_CHUNKS];
    pkv_transfer_chunks chunks;
} chunk_set;

static void make_chunks(chunk_set *s, const content *c, uint32_t form, uint64_t n_tokens,
                        uint64_t size)
{
    const uint64_t unit = form == PKV_CHUNK_BLOCKS ? size : 1;
    const uint64_t least = (n_tokens + MAX_CHUNKS - 1) / MAX_CHUNKS;
    const uint64_t t = (pick(&state, least, n_tokens + 2) + unit - 1) / unit * unit;
    const uint64_t n = (n_tokens + t - 1) / t;
    s->chunks = (pkv_transfer_chunks){s->buffers, t, pad(&state), (uint32_t)n, form};
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t bytes = s->chunks.offset + naive_chunk_bytes(c, form, t);
        s->memory[i] = guarded_new(bytes, chance(&state, 50));
        s->buffers[i] = (pkv_transfer_buffer){s->memory[i].data, bytes};
        fill(s->memory[i].data, bytes, 77);
    }
}

static void free_chunks(chunk_set *s)
{
    for (uint32_t i = 0; i < s->chunks.n_chunks; i++) {
        guarded_free(&s->memory[i]);
    }
}

/* What a job moves. */
typedef struct job {
    content c;
    uint32_t layers[MAX_LAYERS], n_layers;
    int64_t ids[MAX_TOKENS], slots[MAX_TOKENS];
    uint64_t n_ids, n_tokens, skip;
    bool by_blocks;
} job;

static void run(const pkv_transfer_params *params)
{
    pkv_transfer_plan *plan;
    pkv_transfer_info info;
    const uint32_t n = (uint32_t)pick(&state, 1, 5);
    const bool layerwise = chance(&state, 30);
    assert_ok(pkv_transfer_plan_create(params, &plan, NULL));
    pkv_transfer_plan_info(plan, &info);
    for (uint32_t step = 0; step < (layerwise ? info.n_layers : 1); step++) {
        for (uint32_t w = 0; w < n; w++) {
            assert_ok(layerwise ? pkv_transfer_run_layer(plan, step, w, n)
                                : pkv_transfer_run(plan, w, n));
        }
    }
    pkv_transfer_plan_destroy(plan);
}

static pkv_transfer_params params_for(const job *j, uint32_t op)
{
    pkv_transfer_params params = params_of(op);
    params.stores = (uint32_t)pick(&state, 0, 2);
    params.layers = j->layers;
    params.n_layers = j->n_layers;
    params.n_ids = j->by_blocks ? j->n_ids : j->n_tokens;
    params.skip_tokens = j->skip;
    params.tokens = j->by_blocks ? j->n_tokens : PKV_ALL_TOKENS;
    return params;
}

/* Chunk bytes as a naive gather leaves them, compared at once. */
static void gather(const job *j, const held *h, chunk_set *s)
{
    uint8_t *wanted[MAX_CHUNKS];
    const pkv_transfer_chunks *k = &s->chunks;
    for (uint32_t i = 0; i < k->n_chunks; i++) {
        wanted[i] = malloc(s->memory[i].bytes);
        assert_non_null(wanted[i]);
        memcpy(wanted[i], s->memory[i].data, s->memory[i].bytes);
    }
    const bool one = k->form == PKV_CHUNK_2TD || k->form == PKV_CHUNK_T2D;
    for (uint32_t n = 0; n < j->n_layers; n++) {
        const uint32_t l = j->layers[n];
        for (uint32_t p = 0; p < j->c.n_planes; p++) {
            for (uint64_t t = j->skip; t < j->n_tokens; t++) {
                for (uint64_t head = 0; head < j->c.heads[p] && j->slots[t] >= 0; head++) {
                    const uint64_t at =
                        k->offset + naive_chunk_row(&j->c, k->form, k->tokens, h->size, one ? 0 : l,
                                                    p, t % k->tokens, head);
                    memcpy(wanted[t / k->tokens] + at,
                           h->memory.data +
                               row_offset(&h->pages, l, p, (uint64_t)j->slots[t], head),
                           j->c.row_bytes[p]);
                }
            }
        }
    }
    pkv_transfer_params params = params_for(j, PKV_TRANSFER_GATHER);
    params.src = &h->pages.side;
    params.chunks = k;
    params.src_slots = j->by_blocks ? NULL : j->slots;
    params.src_blocks = j->by_blocks ? j->ids : NULL;
    run(&params);
    for (uint32_t i = 0; i < k->n_chunks; i++) {
        assert_memory_equal(s->memory[i].data, wanted[i], s->memory[i].bytes);
        free(wanted[i]);
    }
}

static void scatter(const job *j, held *h, const chunk_set *s)
{
    pkv_transfer_params params = params_for(j, PKV_TRANSFER_SCATTER);
    params.dst = &h->pages.side;
    params.chunks = &s->chunks;
    params.dst_slots = j->by_blocks ? NULL : j->slots;
    params.dst_blocks = j->by_blocks ? j->ids : NULL;
    run(&params);
}

/* The rows that move, of one structure into what another should become. */
static void want_rows(const job *from, const held *src, const job *to, held *dst)
{
    for (uint32_t n = 0; n < from->n_layers; n++) {
        const uint32_t l = from->layers[n];
        for (uint32_t p = 0; p < from->c.n_planes; p++) {
            for (uint64_t t = from->skip; t < from->n_tokens; t++) {
                for (uint64_t h = 0; h < from->c.heads[p]; h++) {
                    if (from->slots[t] >= 0 && to->slots[t] >= 0) {
                        memcpy(dst->wanted +
                                   row_offset(&dst->pages, l, p, (uint64_t)to->slots[t], h),
                               src->memory.data +
                                   row_offset(&src->pages, l, p, (uint64_t)from->slots[t], h),
                               from->c.row_bytes[p]);
                    }
                }
            }
        }
    }
}

/* Tokens of a structure: slots or blocks, as many as `n`. */
static void name_tokens(job *j, const held *h, uint64_t n)
{
    if (j->by_blocks) {
        (void)random_ids(j->ids, h->blocks, h->blocks);
        for (uint64_t t = 0; t < n; t++) {
            j->slots[t] = j->ids[t / h->size] * (int64_t)h->size + (int64_t)(t % h->size);
        }
        j->n_ids = (n + h->size - 1) / h->size;
    } else if (chance(&state, 50)) {
        (void)random_ids(j->slots, h->blocks * h->size, n);
    } else {
        const uint64_t first = pick(&state, 0, h->blocks * h->size - n);
        for (uint64_t t = 0; t < n; t++) {
            j->slots[t] = (int64_t)(first + t);
        }
    }
    j->n_tokens = n;
}

static void choose_layers(job *j, bool one)
{
    int64_t order[MAX_LAYERS];
    j->n_layers = (uint32_t)random_ids(order, j->c.n_layers, one ? 1 : MAX_LAYERS);
    for (uint32_t i = 0; i < j->n_layers; i++) {
        j->layers[i] = (uint32_t)order[i];
    }
}

static bool holds_one_layer(uint32_t form)
{
    return form == PKV_CHUNK_2TD || form == PKV_CHUNK_T2D;
}

/* a -> chunks -> b -> chunks of another form -> c: the rows that move are those of a. */
static void one_round(uint32_t first_form, uint32_t second_form)
{
    job j = {.c = random_content(first_form, second_form)}, k;
    chunk_set chunks;
    j.by_blocks = chance(&state, 50);
    const uint64_t size = pick(&state, 1, 8), blocks = pick(&state, 1, 8);
    const uint64_t other = j.by_blocks ? size : pick(&state, 1, 8);
    held a = random_held(&j.c, blocks, size, 1);
    held b = random_held(&j.c, (blocks * size + other - 1) / other + 1, other, 2);
    held c = random_held(&j.c, blocks, size, 3);
    tie(&a, j.c.n_layers);
    tie(&b, j.c.n_layers);
    tie(&c, j.c.n_layers);
    choose_layers(&j, holds_one_layer(first_form) || holds_one_layer(second_form));
    name_tokens(&j, &a, pick(&state, 1, blocks * size));
    j.skip = chance(&state, 30) ? pick(&state, 0, j.n_tokens) : 0;
    k = j;
    name_tokens(&k, &b, j.n_tokens);
    for (uint64_t t = 0; t < j.n_tokens && !j.by_blocks; t++) {
        if (chance(&state, 10)) {
            j.slots[t] = k.slots[t] = -(int64_t)pick(&state, 1, 9);
        }
    }
    make_chunks(&chunks, &j.c, first_form, j.n_tokens, size);
    gather(&j, &a, &chunks);
    want_rows(&j, &a, &k, &b);
    if (first_form == PKV_CHUNK_BLOCKS && size != other) {
        pkv_transfer_params params = params_for(&j, PKV_TRANSFER_COPY); /* its T fits only a */
        params.src = &a.pages.side;
        params.dst = &b.pages.side;
        params.src_slots = j.slots;
        params.dst_slots = k.slots;
        run(&params);
    } else {
        scatter(&k, &b, &chunks);
    }
    free_chunks(&chunks);
    assert_as_wanted(&a);
    assert_as_wanted(&b);
    make_chunks(&chunks, &j.c, second_form, j.n_tokens,
                second_form == PKV_CHUNK_BLOCKS ? other : 1);
    gather(&k, &b, &chunks);
    if (second_form != PKV_CHUNK_BLOCKS || size == other) {
        want_rows(&j, &a, &j, &c);
        scatter(&j, &c, &chunks);
        assert_as_wanted(&c);
    }
    free_chunks(&chunks);
    held_free(&a);
    held_free(&b);
    held_free(&c);
}

static void scattering_what_was_gathered_gives_the_same_bytes_for_every_pair_of_forms(void **s)
{
    (void)s;
    const uint64_t seed = number_from("PKV_SEED", 20240601);
    const uint64_t rounds = number_from("PKV_RANDOM_TRANSFERS", 30);
    print_message("PKV_SEED=%" PRIu64 "\n", seed);
    for (uint32_t a = PKV_CHUNK_2LTD; a <= PKV_CHUNK_BLOCKS; a++) {
        for (uint32_t b = PKV_CHUNK_2LTD; b <= PKV_CHUNK_BLOCKS; b++) {
            for (uint64_t i = 0; i < rounds; i++) {
                state = seed + i;
                one_round(a, b);
            }
        }
    }
}

/* A copy of n bytes from one misalignment to another, by every way to store them. */
static void copy_bytes(guarded *from, guarded *to, uint64_t src_at, uint64_t dst_at, uint64_t n)
{
    static pages src, dst;
    const int64_t zero[] = {0};
    uint8_t before[64];
    (void)pages_dense(&src, 1, 1, 1, 1, 1, n);
    (void)pages_dense(&dst, 1, 1, 1, 1, 1, n);
    pages_tie(&src, from->data + from->bytes - n - src_at, n, 1); /* its end is near the guard */
    pages_tie(&dst, to->data + dst_at, n, 1);
    for (uint32_t stores = PKV_STORES_CACHED; stores <= PKV_STORES_STREAMING; stores++) {
        fill(to->data, to->bytes, stores);
        memcpy(before, to->data + dst_at + n, sizeof before);
        pkv_transfer_params params = params_of(PKV_TRANSFER_COPY);
        params.src = &src.side;
        params.dst = &dst.side;
        params.src_slots = params.dst_slots = zero;
        params.n_ids = 1;
        params.stores = stores;
        transfer(&params, 1);
        assert_memory_equal(to->data + dst_at, src.data, n);
        assert_memory_equal(to->data + dst_at + n, before, sizeof before);
        for (uint64_t i = 0; i < dst_at; i++) {
            assert_int_equal(to->data[i], (uint8_t)((i * 131 + stores * 89 + 5) & 0xff));
        }
    }
}

static void every_tail_length_and_misalignment_is_copied_exactly(void **s)
{
    (void)s;
    guarded from = guarded_new(4000, true), to = guarded_new(4000, false);
    fill(from.data, from.bytes, 9);
    for (uint64_t n = 1; n <= 200; n++) {
        copy_bytes(&from, &to, n % 3, n % 67, n);
    }
    for (uint64_t tail = 0; tail < 70; tail++) {
        for (uint64_t at = 0; at < 64; at += 7) {
            copy_bytes(&from, &to, (tail + at) % 5, at, 1024 + tail);
            copy_bytes(&from, &to, 0, at, 1024 + tail);
        }
    }
    guarded_free(&from);
    guarded_free(&to);
}

/* Also those that a better one hides. Rows are whole lines with gaps; nothing else is written. */
static void every_way_to_stream_writes_its_bytes_and_no_others(void **s)
{
    (void)s;
    enum { ROOM = 8192, STRIDE = 320 };
    guarded from = guarded_new(ROOM, true), to = guarded_new(ROOM, true);
    static uint8_t wanted[ROOM];
    const pkvi_stream *stream;
    fill(from.data, ROOM, 4);
    for (unsigned i = 0; (stream = pkvi_stream_of_cpu(i)) != NULL; i++) {
        for (size_t n = 0; n < 2200; n += 1 + n / 150) {
            const size_t src_at = ROOM - n, dst_at = ROOM - n - n % 5;
            fill(to.data, ROOM, 5);
            memcpy(wanted, to.data, ROOM);
            memcpy(wanted + dst_at, from.data + src_at, n);
            stream->copy(to.data + dst_at, from.data + src_at, n, n % 2 ? from.data : NULL);
            pkvi_stream_fence();
            assert_memory_equal(to.data, wanted, ROOM);
        }
        for (size_t bytes = 64; bytes <= STRIDE; bytes += 64) {
            const size_t n = 20;
            uint8_t *const dst = to.data + ROOM - n * STRIDE, *const src = from.data + 3;
            const pkvi_pieces rows = {.dst = (uintptr_t)dst,
                                      .src = (uintptr_t)src,
                                      .dst_inner = STRIDE,
                                      .src_inner = 333,
                                      .n_inner = n / 4,
                                      .dst_outer = STRIDE * (n / 4),
                                      .src_outer = 333 * (n / 4),
                                      .n_outer = 4,
                                      .bytes = bytes};
            fill(to.data, ROOM, 6);
            memcpy(wanted, to.data, ROOM);
            for (size_t r = 0; r < n; r++) {
                memcpy(wanted + ROOM - n * STRIDE + r * STRIDE, src + r * 333, bytes);
            }
            stream->rows(&rows, bytes % 128 ? src : NULL);
            pkvi_stream_fence();
            assert_memory_equal(to.data, wanted, ROOM);
        }
    }
    guarded_free(&from);
    guarded_free(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scattering_what_was_gathered_gives_the_same_bytes_for_every_pair_of_forms),
        cmocka_unit_test(every_tail_length_and_misalignment_is_copied_exactly),
        cmocka_unit_test(every_way_to_stream_writes_its_bytes_and_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
