/* pack.c  Pages of different sizes side by side in one block.
 *
 * Only layouts with the block outermost can do this: a block is as wide as the widest group, and
 * no page has to be padded to another one's size.
 *
 *     block b:  group 0  | A0 | A1 |  B0  |  B1  |     (one page of every layer of the group)
 *               group 1  |    C0    |    C1   | pad|
 *
 * Layers go into buckets of one type. A bucket whose page sizes occur equally often is a repeating
 * pattern of one layer per size (*balanced*) and may be split into groups of whole repeats; the
 * number of repeats per group is chosen for the least padding over all balanced buckets. Buckets
 * of states, whose pages live once per request, may be split further, so that they never widen the
 * block that attention needs. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/kind.h"
#include "spec/spec.h"

/* Layers of a bucket that have one page size. */
typedef struct size_class {
    uint64_t page;
    uint32_t *index; /* [n] into the bucket's layers */
    uint32_t n;
} size_class;

typedef struct bucket {
    pkvi_layers layers;
    const pkv_spec *first;
    size_class *sizes; /* [n_sizes], in order of first appearance */
    uint32_t n_sizes;
    uint32_t repeats; /* layers of the commonest page size */
    bool balanced;
} bucket;

typedef struct packing {
    bucket *at;
    uint32_t n;
    uint64_t repeats_per_group; /* 0: no balanced bucket mixes page sizes */
    uint64_t anchor_bytes;      /* bytes that a block holds however states are split */
} packing;

/* The first bucket that accepts a spec; the same one for all layers of that spec. */
static pkv_status assign_buckets(pkvi_planner *p, const pkvi_distinct *set, packing *all,
                                 uint32_t *bucket_of)
{
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t b = 0;
        bool accepted = false;
        for (; b < all->n && !accepted; b += !accepted) {
            PKVI_RETURN_IF(pkvi_uniform_accepts(all->at[b].first, set->pointer[i], &accepted));
        }
        if (!accepted) {
            all->at[all->n++].first = set->pointer[i];
        }
        all->at[b].layers.n += set->count[i];
        bucket_of[set->spec[i]] = b;
    }
    for (uint32_t b = 0; b < all->n; b++) {
        PKVI_RETURN_IF(pkvi_layers_reserve(p, all->at[b].layers.n, &all->at[b].layers));
    }
    return PKV_OK;
}

static pkv_status fill_buckets(pkvi_planner *p, const pkvi_layers *layers, packing *all)
{
    pkvi_distinct set;
    PKVI_RETURN_IF(pkvi_distinct_of(p, layers, &set));
    all->at = pkvi_arena_get(p->scratch, set.n, sizeof *all->at);
    uint32_t *bucket_of = pkvi_arena_get(p->scratch, p->table.n, sizeof *bucket_of);
    if (!all->at || !bucket_of) {
        return pkvi_plan_no_memory();
    }
    PKVI_RETURN_IF(assign_buckets(p, &set, all, bucket_of));
    for (uint32_t i = 0; i < layers->n; i++) {
        pkvi_layers *to = &all->at[bucket_of[layers->spec[i]]].layers;
        to->layer[to->n] = layers->layer[i];
        to->spec[to->n++] = layers->spec[i];
    }
    return PKV_OK;
}

static size_class *class_of_page(bucket *b, uint64_t page)
{
    uint32_t c = 0;
    while (c < b->n_sizes && b->sizes[c].page != page) {
        c++;
    }
    b->n_sizes += c == b->n_sizes;
    b->sizes[c].page = page;
    return &b->sizes[c];
}

static pkv_status classify(pkvi_planner *p, bucket *b)
{
    pkvi_distinct set;
    PKVI_RETURN_IF(pkvi_distinct_of(p, &b->layers, &set));
    b->sizes = pkvi_arena_get(p->scratch, set.n, sizeof *b->sizes);
    if (!b->sizes) {
        return pkvi_plan_no_memory();
    }
    for (uint32_t i = 0; i < set.n; i++) {
        class_of_page(b, p->table.entries[set.spec[i]]->page)->n += set.count[i];
    }
    b->balanced = true;
    for (uint32_t c = 0; c < b->n_sizes; c++) {
        b->repeats = (uint32_t)pkvi_max(b->repeats, b->sizes[c].n);
        b->balanced &= b->sizes[c].n == b->sizes[0].n;
    }
    for (uint32_t c = 0; c < b->n_sizes; c++) {
        b->sizes[c].index = pkvi_arena_get(p->scratch, b->sizes[c].n, sizeof *b->sizes[c].index);
        if (!b->sizes[c].index) {
            return pkvi_plan_no_memory();
        }
        b->sizes[c].n = 0;
    }
    for (uint32_t i = 0; i < b->layers.n; i++) {
        size_class *c = class_of_page(b, p->table.entries[b->layers.spec[i]]->page);
        c->index[c->n++] = i;
    }
    return PKV_OK;
}

static pkv_status choose_repeats(pkvi_planner *p, packing *all)
{
    uint64_t floor = 0;
    uint64_t *counts = pkvi_arena_get(p->scratch, all->n, sizeof *counts);
    uint32_t n = 0;
    if (!counts) {
        return pkvi_plan_no_memory();
    }
    for (uint32_t b = 0; b < all->n; b++) {
        if (all->at[b].balanced) {
            counts[n++] = all->at[b].repeats;
            if (all->at[b].n_sizes > 1) { /* such a bucket cannot be split below its repeats */
                floor = pkvi_max(floor, all->at[b].repeats);
            }
        }
    }
    return floor == 0 ? PKV_OK : pkv_approximate_gcd(counts, n, floor, &all->repeats_per_group);
}

static bool holds_states(const packing *all, const bucket *b)
{
    return b->first->kind == PKV_KIND_MAMBA || b->first->kind == PKV_KIND_CIRCULAR_BUFFER ||
           (all->repeats_per_group == 0 && pkvi_is(b->first, PKVI_IS_SLIDING));
}

static uint64_t pattern_groups(const packing *all, const bucket *b)
{
    return b->balanced && all->repeats_per_group != 0
               ? pkvi_ceil_div(b->repeats, all->repeats_per_group)
               : 1;
}

/* Bytes of the widest of n groups that a bucket splits into. */
static pkv_status widest_group(const bucket *b, uint64_t n, uint64_t *out)
{
    uint64_t sum = 0, bytes;
    for (uint32_t c = 0; c < b->n_sizes; c++) {
        if (!pkvi_mul(pkvi_ceil_div(b->sizes[c].n, n), b->sizes[c].page, &bytes) ||
            !pkvi_add(sum, bytes, &sum)) {
            return pkvi_plan_overflow("the pages of a packed block");
        }
    }
    *out = sum;
    return PKV_OK;
}

static pkv_status find_anchor(packing *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        const bucket *b = &all->at[i];
        uint64_t bytes;
        PKVI_RETURN_IF(
            widest_group(b, holds_states(all, b) ? b->layers.n : pattern_groups(all, b), &bytes));
        all->anchor_bytes = pkvi_max(all->anchor_bytes, bytes);
    }
    return PKV_OK;
}

static uint64_t group_count(const pkvi_planner *p, const packing *all, const bucket *b)
{
    const uint64_t n = pattern_groups(all, b);
    if (!holds_states(all, b)) {
        return n;
    }
    const uint64_t page = p->table.entries[b->layers.spec[0]]->page;
    const uint64_t states_per_block = pkvi_max(all->anchor_bytes / pkvi_max(page, 1), 1);
    return pkvi_max(n, pkvi_ceil_div(b->layers.n, states_per_block));
}

/* Whole repeats (one layer of each page size) in turn. Where sizes occur unequally often the
 * rarer ones are absent from the last repeats; with more groups than repeats, layer by layer.
 * Upstream loses layers in both cases. */
static pkv_status deal_group(pkvi_planner *p, const bucket *b, uint64_t g, uint64_t n_groups,
                             pkvi_layers *out)
{
    PKVI_RETURN_IF(pkvi_layers_reserve(p, b->layers.n, out));
    if (n_groups > b->repeats) {
        for (uint64_t i = g; i < b->layers.n; i += n_groups) {
            out->layer[out->n] = b->layers.layer[i];
            out->spec[out->n++] = b->layers.spec[i];
        }
        return PKV_OK;
    }
    for (uint64_t r = g; r < b->repeats; r += n_groups) {
        for (uint32_t c = 0; c < b->n_sizes; c++) {
            if (r < b->sizes[c].n) {
                const uint32_t i = b->sizes[c].index[r];
                out->layer[out->n] = b->layers.layer[i];
                out->spec[out->n++] = b->layers.spec[i];
            }
        }
    }
    return PKV_OK;
}

pkv_status pkvi_pack(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *groups)
{
    packing all = {0};
    PKVI_RETURN_IF(fill_buckets(p, layers, &all));
    for (uint32_t b = 0; b < all.n; b++) {
        PKVI_RETURN_IF(classify(p, &all.at[b]));
    }
    PKVI_RETURN_IF(choose_repeats(p, &all));
    PKVI_RETURN_IF(find_anchor(&all));
    for (uint32_t i = 0; i < all.n; i++) {
        const uint64_t n_groups = group_count(p, &all, &all.at[i]);
        if (n_groups == 1) {
            PKVI_RETURN_IF(pkvi_groups_add_uniform(p, groups, &all.at[i].layers));
            continue;
        }
        p->repaired |= !all.at[i].balanced;
        for (uint64_t g = 0; g < n_groups; g++) {
            pkvi_layers part;
            PKVI_RETURN_IF(deal_group(p, &all.at[i], g, n_groups, &part));
            PKVI_RETURN_IF(pkvi_groups_add_uniform(p, groups, &part));
        }
    }
    return PKV_OK;
}

pkv_status pkv_approximate_gcd(const uint64_t *values, size_t n, uint64_t floor, uint64_t *out)
{
    uint64_t most = 0;
    if (!out || (n > 0 && !values)) {
        return pkvi_fail(PKV_E_INVAL, "pkv_approximate_gcd: values or out is NULL");
    }
    for (size_t i = 0; i < n; i++) {
        if (values[i] == 0 || values[i] > PKV_SPEC_LIMIT) {
            return pkvi_fail(PKV_E_VALUE, "pkv_approximate_gcd: value %" PRIu64 " is out of range",
                             values[i]);
        }
        most = pkvi_max(most, values[i]);
    }
    if (n == 0) {
        return pkvi_fail(PKV_E_VALUE, "pkv_approximate_gcd: no values");
    }
    uint64_t best = pkvi_max(floor, 1), best_pad = UINT64_MAX;
    for (uint64_t d = best; d <= most; d++) {
        uint64_t pad = 0;
        for (size_t i = 0; i < n; i++) {
            pad += (d - values[i] % d) % d;
        }
        if (pad <= best_pad) {
            best = d;
            best_pad = pad;
        }
    }
    *out = best;
    return PKV_OK;
}
