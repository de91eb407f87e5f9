/* fuzz_layout.c  Any bytes as tensors of an engine. Whatever is read lies inside its tensors, and
 * the planes of a layer are exactly its bytes; whatever is refused says why. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pkv/format.h>
#include <pkv/spec.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_LAYERS = 6, MAX_PLANES = 4 };

typedef struct input {
    const uint8_t *at, *end;
} input;

static void require(bool condition)
{
    if (!condition) abort();
}

static uint8_t byte(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* Mostly a small number, sometimes any. */
static uint64_t number(input *in)
{
    const uint8_t first = byte(in);
    uint64_t n = 0;
    if (first < 240) {
        return first;
    }
    for (int i = 0; i < 8; i++) {
        n = n << 8 | byte(in);
    }
    return n;
}

/* Shape and strides: row-major, with two axes exchanged, padded, or any. */
static pkv_view view_of(input *in)
{
    static const uint32_t dtypes[] = {PKV_DTYPE_BFLOAT16, PKV_DTYPE_UINT8, PKV_DTYPE_FLOAT32,
                                      PKV_DTYPE_BFLOAT16};
    const uint8_t how = byte(in);
    pkv_view v = {.dtype = dtypes[how & 3], .rank = 1 + (how >> 2) % 9};
    for (uint32_t i = 0; i < v.rank && i < PKV_MAX_AXES; i++) {
        v.shape[i] = number(in);
    }
    v.offset = how & 0x80 ? number(in) : 0;
    const uint8_t order = byte(in);
    if (v.rank > PKV_MAX_AXES || pkv_view_row_major(&v) != PKV_OK || order == 255) {
        for (uint32_t i = 0; i < PKV_MAX_AXES; i++) {
            v.strides[i] = number(in);
        }
    } else if (order & 1) {
        const uint32_t a = (order >> 1) % v.rank, b = (order >> 4) % v.rank;
        if (a < b) { /* [.., a, .., b, ..] lies as [.., b, .., a, ..] */
            pkv_view w = v;
            w.shape[a] = v.shape[b];
            w.shape[b] = v.shape[a];
            if (pkv_view_row_major(&w) == PKV_OK) {
                memcpy(v.strides, w.strides, sizeof v.strides);
                v.strides[a] = w.strides[b];
                v.strides[b] = w.strides[a];
            }
        }
    } else if (order & 2) {
        v.strides[0] += order >> 2;
    }
    return v;
}

static uint64_t elements_of(const pkv_view *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++) {
        n *= v->shape[i];
    }
    return n;
}

/* Bytes from the start of the storage to behind the last element. */
static uint64_t end_of(const pkv_view *v)
{
    uint64_t last = v->offset;
    for (uint32_t i = 0; i < v->rank; i++) {
        last += v->shape[i] > 1 ? (v->shape[i] - 1) * v->strides[i] : 0;
    }
    return (last + 1) * pkv_dtype_bytes(v->dtype);
}

static uint64_t reach(uint64_t n, uint64_t stride)
{
    return n > 1 ? (n - 1) * stride : 0;
}

/* Adds a * b; false: more than can be counted, as axes of stride 0 may have in little memory. */
static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    uint64_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

static void check_layer(const pkv_layout *l, const pkv_view *views, uint32_t n_layers)
{
    pkv_plane planes[PKV_LAYOUT_MAX_TENSORS];
    pkv_layer_pages pages;
    pkv_format_info info;
    uint64_t rows = 0, given = 0;
    bool counted = true;
    if (!l->known) {
        return;
    }
    const pkv_status st = pkv_layout_planes(l, planes, &pages);
    require(st == (l->odd_order ? PKV_E_UNSUPPORTED : PKV_OK));
    if (st != PKV_OK) {
        return;
    }
    require(pkv_format_get(PKV_FORMAT_REVISION_0_5_6, l->format, &info) == PKV_OK);
    for (uint32_t i = 0; i < pages.n_planes; i++) {
        const pkv_plane *p = &planes[i];
        const uint64_t last = p->offset + reach(pages.num_blocks, p->block_stride) +
                              reach(pages.block_size, p->token_stride) +
                              reach(p->heads, p->head_stride);
        require(last + p->row_bytes <= end_of(&views[p->buffer]));
        require(p->offset >= views[p->buffer].offset * pkv_dtype_bytes(views[p->buffer].dtype));
        uint64_t slots = 0, row_bytes = 0;
        counted = counted && add_product(&slots, pages.num_blocks, pages.block_size) &&
                  add_product(&row_bytes, p->heads, p->row_bytes) &&
                  add_product(&rows, slots, row_bytes);
    }
    for (uint32_t i = 0; i < l->n_tensors; i++) {
        const pkv_view *v = &views[l->tensor[i]];
        counted = counted && add_product(&given, elements_of(v), pkv_dtype_bytes(v->dtype));
    }
    require(!counted || rows == given / (info.structure == PKV_FORMAT_CROSS_LAYER ? n_layers : 1));
}

static void check_reading(const pkv_reading *reading, const pkv_view *views)
{
    uint32_t grouped = 0, in_groups = 0;
    const uint32_t n = pkv_reading_n_layers(reading);
    for (uint32_t i = 0; i < n; i++) {
        check_layer(pkv_reading_layer(reading, i), views, n);
        in_groups += pkv_reading_layer(reading, i)->group != PKV_LAYOUT_NO_GROUP;
    }
    for (uint32_t g = 0; g < pkv_reading_n_groups(reading); g++) {
        const pkv_layout_group *group = pkv_reading_group(reading, g);
        require(group->n_layers > 0 && group->n_pointers > 0);
        for (uint32_t i = 0; i < group->n_layers; i++) {
            require(pkv_reading_layer(reading, group->layers[i])->group == g);
        }
        grouped += group->n_layers;
    }
    require(grouped == in_groups);
}

static void check_refusal(pkv_status st, const pkv_refusal *refusal)
{
    require(st == PKV_E_INVAL || st == PKV_E_OVERFLOW || st == PKV_E_UNSUPPORTED ||
            st == PKV_E_VALUE || st == PKV_E_AMBIGUOUS);
    require((refusal->n_readings >= 2) == (st == PKV_E_AMBIGUOUS));
    require(strncmp(pkv_last_error(), "pkv_reading_create: ", 20) == 0);
}

static void fill_params(input *in, pkv_format_params *p)
{
    pkv_format_params_init(p);
    p->engine = byte(in) % PKV_N_ENGINES;
    p->structure = byte(in) % PKV_N_STRUCTURES;
    const uint8_t flags = byte(in);
    p->revision = flags & 1;
    p->on_cpu = flags >> 1 & 1;
    p->hints.list = (flags >> 2 & 3) % 3;
    p->hints.planes = (flags >> 4 & 3) % 3;
    p->hints.kv_axis = (flags >> 6) % 3;
    p->hints.layout = byte(in) % PKV_N_LAYOUTS;
    p->hints.num_kv_heads = number(in);
    p->hints.tokens_per_block = number(in);
    p->hints.head_dim = number(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    pkv_format_params params;
    pkv_view views[MAX_LAYERS * MAX_PLANES];
    pkv_engine_layer layers[MAX_LAYERS];
    pkv_refusal refusal;
    pkv_reading *reading;
    uint32_t n_views = 0;
    static const uint32_t evens[] = {0, 2, 4};
    const uint32_t half = MAX_LAYERS / 2;
    fill_params(&in, &params);
    params.layers = layers;
    do {
        const uint8_t how = byte(&in);
        layers[params.n_layers++] = (pkv_engine_layer){&views[n_views], 1 + how % MAX_PLANES, 0};
        for (int i = 0; i <= how % MAX_PLANES; i++) {
            views[n_views] = how & 0x40 && n_views > 0 ? views[n_views - 1] : view_of(&in);
            n_views++;
        }
    } while (in.at < in.end && params.n_layers < MAX_LAYERS);
    if (params.n_layers == MAX_LAYERS && size % 2) {
        params.n_groups = 1;
        params.group_sizes = &half;
        params.group_layers = evens;
    }
    const pkv_status st = pkv_reading_create(&params, &refusal, &reading);
    if (st == PKV_OK) {
        check_reading(reading, views);
        pkv_reading_destroy(reading);
    } else {
        check_refusal(st, &refusal);
    }
    return 0;
}
