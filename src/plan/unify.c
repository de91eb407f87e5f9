/* unify.c  Pages of one size, so that groups with different layers can share blocks.
 *
 * A smaller page grows by more tokens where the largest is a multiple of it, else by padding. A
 * recurrent state has no tokens, so it is always padded; a latent page must stay a whole number of
 * its own rows, so it is never padded to a foreign size. */
#include <inttypes.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/kind.h"
#include "spec/spec.h"

/* A page padded to exactly `page` bytes; a page with an alignment only if that is met. Upstream
 * pads such a page by its alignment alone and then asserts. */
static pkv_status pad_to(pkvi_planner *p, const pkv_spec *spec, uint64_t page, pkv_spec *out)
{
    pkv_spec padded = *spec;
    padded.page_size_padded = page;
    if (spec->alignment != 0 && page % spec->alignment != 0) {
        return pkvi_fail(PKV_E_ASSERT,
                         "pkv_plan_create: a page of alignment %" PRIu64
                         " cannot be padded to %" PRIu64,
                         spec->alignment, page);
    }
    p->repaired |= spec->alignment != 0;
    *out = padded;
    return PKV_OK;
}

static pkv_status grow_page(pkvi_planner *p, const pkvi_entry *entry, uint64_t largest,
                            pkv_spec *out)
{
    const pkv_spec *spec = &entry->spec;
    if (spec->kind == PKV_KIND_MAMBA) {
        return pad_to(p, spec, largest, out);
    }
    if (entry->page == 0) {
        return pkvi_plan_empty_page(p, spec);
    }
    if (largest % entry->page == 0) {
        uint64_t block_size, page;
        if (!pkvi_mul(spec->block_size, largest / entry->page, &block_size)) {
            return pkvi_plan_overflow("a unified block size");
        }
        PKVI_RETURN_IF(pkvi_spec_resize(spec, block_size, out));
        PKVI_RETURN_IF(pkv_spec_page_bytes(out, &page));
        if (page != largest) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_plan_create: block_size %" PRIu64 " gives a page of %" PRIu64
                             " bytes where %" PRIu64 " are needed",
                             block_size, page, largest);
        }
        return PKV_OK;
    }
    if (pkvi_is(spec, PKVI_IS_ATTENTION) && !pkvi_is(spec, PKVI_IS_MLA)) {
        return pad_to(p, spec, largest, out);
    }
    return pkvi_fail(PKV_E_NOTIMPL,
                     "pkv_plan_create: a %s page of %" PRIu64
                     " bytes neither divides the largest, %" PRIu64 ", nor may be padded to it",
                     pkv_kind_name(spec->kind), entry->page, largest);
}

pkv_status pkvi_unify_pages(pkvi_planner *p, const pkvi_layers *layers, pkvi_layers *out)
{
    pkvi_distinct set;
    uint64_t largest = 0;
    bool differ = false;
    PKVI_RETURN_IF(pkvi_distinct_of(p, layers, &set));
    for (uint32_t i = 0; i < set.n; i++) {
        const uint64_t page = p->table.entries[set.spec[i]]->page;
        differ |= i > 0 && page != largest;
        largest = pkvi_max(largest, page);
    }
    if (!differ) {
        *out = *layers;
        return PKV_OK;
    }
    uint32_t *map = pkvi_arena_get(p->scratch, p->table.n, sizeof *map);
    if (!map) {
        return pkvi_plan_no_memory();
    }
    for (uint32_t i = 0; i < set.n; i++) {
        const pkvi_entry *entry = p->table.entries[set.spec[i]];
        map[set.spec[i]] = set.spec[i];
        if (entry->page != largest) {
            pkv_spec grown;
            PKVI_RETURN_IF(grow_page(p, entry, largest, &grown));
            PKVI_RETURN_IF(pkvi_table_intern(&p->table, &grown, &map[set.spec[i]]));
        }
    }
    return pkvi_remap(p, layers, map, out);
}

/* ---- hidden-state layers beside groups of one page size ---- */

static pkv_status hidden_token_bytes(const pkv_spec *spec, uint64_t *out)
{
    uint64_t elements;
    if (!pkvi_mul(spec->num_kv_heads, spec->head_size, &elements) ||
        !pkvi_mul(elements, pkv_dtype_bytes(spec->dtype), out)) {
        return pkvi_plan_overflow("one token of a hidden-state layer");
    }
    return PKV_OK;
}

/* Tensor parallelism may have shrunk the common page below one hidden state. */
static pkv_status scale_groups(pkvi_planner *p, pkvi_groups *groups, uint64_t scale, uint64_t *page)
{
    for (uint32_t i = 0; i < groups->n; i++) {
        pkv_spec spec = p->table.entries[groups->at[i].merged]->spec;
        if (!pkvi_mul(spec.block_size, scale, &spec.block_size) ||
            !pkvi_mul(spec.page_size_padded, scale, &spec.page_size_padded)) {
            return pkvi_plan_overflow("a block scaled for hidden states");
        }
        PKVI_RETURN_IF(pkvi_spec_construct(&spec));
        PKVI_RETURN_IF(pkvi_table_intern(&p->table, &spec, &groups->at[i].merged));
    }
    return pkvi_mul(*page, scale, page) ? PKV_OK : pkvi_plan_overflow("a page for hidden states");
}

static uint64_t largest_divisor(uint64_t value, uint64_t most)
{
    uint64_t best = 1;
    for (uint64_t d = 1; d <= value / d; d++) {
        if (value % d == 0) {
            best = d <= most ? pkvi_max(best, d) : best;
            best = value / d <= most ? pkvi_max(best, value / d) : best;
        }
    }
    return best;
}

/* One page for all groups, at least one token of the widest hidden layer. */
static pkv_status common_page(pkvi_planner *p, const pkvi_layers *hidden, pkvi_groups *groups,
                              uint64_t *page_out)
{
    uint64_t page = p->table.entries[groups->at[0].merged]->page, widest = 0;
    for (uint32_t i = 1; i < groups->n; i++) {
        if (p->table.entries[groups->at[i].merged]->page != page) {
            return pkvi_fail(PKV_E_ASSERT,
                             "pkv_plan_create: groups beside hidden states differ in pages");
        }
    }
    for (uint32_t i = 0; i < hidden->n; i++) {
        uint64_t token;
        PKVI_RETURN_IF(hidden_token_bytes(&p->table.entries[hidden->spec[i]]->spec, &token));
        widest = pkvi_max(widest, token);
    }
    if (widest > page) {
        PKVI_RETURN_IF(scale_groups(p, groups, pkvi_ceil_div(widest, page), &page));
    }
    *page_out = page;
    return PKV_OK;
}

pkv_status pkvi_add_hidden(pkvi_planner *p, const pkvi_layers *hidden, pkvi_groups *groups)
{
    uint64_t page, block_size = 0;
    if (hidden->n == 0) {
        return PKV_OK;
    }
    PKVI_RETURN_IF(common_page(p, hidden, groups, &page));
    for (uint32_t i = 0; i < groups->n; i++) {
        block_size = pkvi_gcd(block_size, p->table.entries[groups->at[i].merged]->spec.block_size);
    }
    for (uint32_t i = 0; i < hidden->n; i++) {
        pkv_spec spec = p->table.entries[hidden->spec[i]]->spec;
        pkvi_group group = {.layers = {hidden->layer + i, hidden->spec + i, 1}, .transfer = true};
        uint64_t token;
        PKVI_RETURN_IF(hidden_token_bytes(&spec, &token));
        spec.block_size = largest_divisor(block_size, pkvi_max(page / token, 1));
        spec.page_size_padded = page;
        PKVI_RETURN_IF(pkvi_spec_construct(&spec));
        PKVI_RETURN_IF(pkvi_table_intern(&p->table, &spec, &group.merged));
        PKVI_RETURN_IF(pkvi_groups_add(p, groups, &group));
    }
    return PKV_OK;
}
