/* hisparse.c  Sparse latent attention whose history lives on the host.
 *
 * The device keeps, per request, the indexer's keys of all tokens, the pages that are not on the
 * host yet (resident), and the rows that the last top-k selected (hot). Groups, in this order:
 *
 *     source (host) | indexer | resident... | hot... | all other layers, grouped as ever
 *
 * Source layers follow a leader that selects for them; a leader and its followers are a unit, and
 * units are packed into hot groups no wider than the indexer's page. Each hot group has a resident
 * twin. Layers of both are named by their source layer. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/kind.h"
#include "spec/spec.h"

enum { MAX_DEVICE_ROWS = 32768 /* row numbers are signed 16-bit on the device */ };

typedef struct parts {
    pkvi_layers latent, source, indexer, other;
} parts;

static pkv_status refuse(const char *why)
{
    return pkvi_fail(PKV_E_VALUE, "pkv_plan_create: hisparse: %s", why);
}

static void push(pkvi_layers *to, const pkvi_layers *from, uint32_t i)
{
    to->layer[to->n] = from->layer[i];
    to->spec[to->n++] = from->spec[i];
}

static pkv_status split(pkvi_planner *p, const pkvi_layers *layers, parts *out)
{
    pkvi_layers *all[] = {&out->latent, &out->source, &out->indexer, &out->other};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        PKVI_RETURN_IF(pkvi_layers_reserve(p, layers->n, all[i]));
    }
    for (uint32_t i = 0; i < layers->n; i++) {
        const pkv_spec *spec = &p->table.entries[layers->spec[i]]->spec;
        if (!pkvi_is(spec, PKVI_IS_MLA)) {
            push(&out->other, layers, i);
            continue;
        }
        push(&out->latent, layers, i);
        push(spec->cache_role == PKV_ROLE_INDEXER ? &out->indexer : &out->source, layers, i);
    }
    return PKV_OK;
}

static pkv_status check_one_type(pkvi_planner *p, const parts *all)
{
    pkvi_distinct set;
    bool one_type;
    PKVI_RETURN_IF(pkvi_distinct_of(p, &all->latent, &set));
    PKVI_RETURN_IF(pkv_specs_uniform_type(set.pointer, set.n, &one_type));
    if (!one_type) {
        return pkvi_fail(PKV_E_ASSERT,
                         "pkv_plan_create: hisparse: latent layers are not of one type");
    }
    return PKV_OK;
}

static pkv_status check_parts(const pkvi_planner *p, const parts *all)
{
    for (uint32_t i = 0; i < all->latent.n; i++) {
        const char *version = p->table.entries[all->latent.spec[i]]->spec.model_version;
        if (version && strcmp(version, "deepseek_v4") == 0) {
            return refuse("model_version deepseek_v4 is not supported");
        }
    }
    if (all->source.n == 0 || all->indexer.n == 0) {
        return refuse("both sparse and indexer layers are needed");
    }
    return PKV_OK;
}

/* Rows of a request's hot region: every query of a decode step may select top-k of its own, and
 * one more top-k of slack is kept for those of the step before. */
static pkv_status hot_blocks(const pkvi_planner *p, const parts *all, uint64_t block_size,
                             uint64_t *out)
{
    const uint64_t queries = UINT64_C(1) + p->params->draft_tokens;
    uint64_t top_k = 0, least, rows = p->params->hisparse_device_rows;
    for (uint32_t i = 0; i < all->source.n; i++) {
        const uint64_t width = p->table.entries[all->source.spec[i]]->spec.topk_buffer_width;
        top_k = pkvi_max(top_k, width ? width : p->params->hisparse_index_topk);
    }
    if (!pkvi_mul(queries, top_k, &least)) {
        return pkvi_plan_overflow("hisparse: the rows of a decode step");
    }
    if (rows == 0 && !pkvi_add(least, top_k, &rows)) {
        return pkvi_plan_overflow("hisparse: the rows of a decode step");
    }
    if (rows < least || rows > MAX_DEVICE_ROWS) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_plan_create: hisparse: device_buffer_rows %" PRIu64
                         " is not within %" PRIu64 " (%" PRIu64 " queries of top-k %" PRIu64
                         ") and %d",
                         rows, least, queries, top_k, MAX_DEVICE_ROWS);
    }
    *out = pkvi_ceil_div(rows, block_size);
    return PKV_OK;
}

/* What the hot groups are made of, and what is being filled. */
typedef struct hot_builder {
    pkvi_groups resident, hot;
    pkvi_layers current;
    uint64_t current_bytes;
    uint64_t block_size, blocks_per_request, indexer_page;
} hot_builder;

static pkv_status derived_group(pkvi_planner *p, const pkvi_layers *source, const pkv_spec *spec,
                                pkvi_groups *out)
{
    pkvi_group group = {.layers = *source}; /* rebuilt from the source, so never transferred */
    PKVI_RETURN_IF(pkvi_table_intern(&p->table, spec, &group.merged));
    return pkvi_groups_add(p, out, &group);
}

static pkv_status close_hot_group(pkvi_planner *p, hot_builder *h)
{
    pkv_spec resident, hot;
    const uint64_t page = p->table.entries[h->current.spec[0]]->page;
    for (uint32_t i = 1; i < h->current.n; i++) {
        if (p->table.entries[h->current.spec[i]]->page != page) {
            return refuse("source layers of one hot group differ in page size");
        }
    }
    PKVI_RETURN_IF(pkv_spec_init(&resident, PKV_KIND_HISPARSE_RESIDENT));
    PKVI_RETURN_IF(pkv_spec_init(&hot, PKV_KIND_HISPARSE_HOT));
    resident.block_size = hot.block_size = h->block_size;
    resident.page_size = hot.page_size = page;
    hot.blocks_per_request = h->blocks_per_request;
    PKVI_RETURN_IF(derived_group(p, &h->current, &resident, &h->resident));
    return derived_group(p, &h->current, &hot, &h->hot);
}

/* Adds the unit [from, to) of source layers, in a new group if the current one has no room. */
static pkv_status add_unit(pkvi_planner *p, hot_builder *h, const pkvi_layers *source,
                           uint32_t from, uint32_t to)
{
    uint64_t bytes = 0, together;
    for (uint32_t i = from; i < to; i++) {
        if (!pkvi_add(bytes, p->table.entries[source->spec[i]]->page, &bytes)) {
            return pkvi_plan_overflow("hisparse: the pages of a hot unit");
        }
    }
    if (!pkvi_add(h->current_bytes, bytes, &together)) {
        return pkvi_plan_overflow("hisparse: the pages of a hot group");
    }
    if (h->current.n > 0 && together > h->indexer_page) {
        PKVI_RETURN_IF(close_hot_group(p, h));
        PKVI_RETURN_IF(pkvi_layers_reserve(p, source->n, &h->current));
        together = bytes;
    }
    for (uint32_t i = from; i < to; i++) {
        push(&h->current, source, i);
    }
    h->current_bytes = together;
    return PKV_OK;
}

static pkv_status build_hot(pkvi_planner *p, const pkvi_layers *source, hot_builder *h)
{
    PKVI_RETURN_IF(pkvi_layers_reserve(p, source->n, &h->current));
    uint32_t from = 0;
    for (uint32_t i = 1; i <= source->n; i++) {
        if (i == source->n || p->table.entries[source->spec[i]]->spec.is_index_group_leader) {
            PKVI_RETURN_IF(add_unit(p, h, source, from, i));
            from = i;
        }
    }
    return h->current.n > 0 ? close_hot_group(p, h) : PKV_OK;
}

static pkv_status indexer_page(const pkvi_planner *p, const pkvi_layers *indexer, uint64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < indexer->n; i++) {
        if (!pkvi_add(*out, p->table.entries[indexer->spec[i]]->page, out)) {
            return pkvi_plan_overflow("hisparse: the indexer's pages");
        }
    }
    return PKV_OK;
}

static pkv_status append(pkvi_planner *p, pkvi_groups *to, const pkvi_groups *from)
{
    for (uint32_t i = 0; i < from->n; i++) {
        PKVI_RETURN_IF(pkvi_groups_add(p, to, &from->at[i]));
    }
    return PKV_OK;
}

pkv_status pkvi_hisparse_groups(pkvi_planner *p, const pkvi_layers *layers, pkvi_groups *out,
                                bool *found)
{
    parts all;
    hot_builder h = {0};
    pkvi_groups other = {0};
    *found = false;
    PKVI_RETURN_IF(split(p, layers, &all));
    if (all.latent.n == 0) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(check_one_type(p, &all));
    if (all.other.n > 0) {
        PKVI_RETURN_IF(pkvi_make_groups(p, &all.other, &other));
    }
    PKVI_RETURN_IF(check_parts(p, &all));
    h.block_size = p->table.entries[all.latent.spec[0]]->spec.block_size;
    PKVI_RETURN_IF(hot_blocks(p, &all, h.block_size, &h.blocks_per_request));
    PKVI_RETURN_IF(indexer_page(p, &all.indexer, &h.indexer_page));
    PKVI_RETURN_IF(build_hot(p, &all.source, &h));

    const pkvi_group source = {.layers = all.source,
                               .uniform_type = true,
                               .host = true,
                               .transfer = true,
                               .role = PKV_GROUP_HISPARSE_SOURCE};
    const pkvi_group indexer = {.layers = all.indexer,
                                .uniform_type = true,
                                .transfer = true,
                                .role = PKV_GROUP_HISPARSE_INDEXER};
    PKVI_RETURN_IF(pkvi_groups_add(p, out, &source));
    PKVI_RETURN_IF(pkvi_groups_add(p, out, &indexer));
    PKVI_RETURN_IF(append(p, out, &h.resident));
    PKVI_RETURN_IF(append(p, out, &h.hot));
    PKVI_RETURN_IF(append(p, out, &other));
    *found = true;
    return PKV_OK;
}

pkv_status pkvi_hisparse_host(pkvi_planner *p, uint64_t source_page, uint64_t source_block_size,
                              uint64_t len)
{
    /* the null block, and the copy of a shared tail that is about to be written */
    const uint64_t least = pkvi_ceil_div(len, source_block_size) + 2;
    const uint64_t blocks = p->params->hisparse_host_bytes / source_page;
    if (blocks < least) {
        return pkvi_fail(PKV_E_VALUE,
                         "pkv_plan_create: hisparse: host_bytes %" PRIu64 " hold %" PRIu64
                         " blocks of %" PRIu64 " bytes; %" PRIu64 " tokens need %" PRIu64,
                         p->params->hisparse_host_bytes, blocks, source_page, len, least);
    }
    p->host_num_blocks = blocks;
    p->host_block_stride = source_page;
    return PKV_OK;
}
