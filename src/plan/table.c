/* table.c  Interned specs: equal layers share one entry, and its page is computed once. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "plan/plan_internal.h"
#include "spec/spec.h"

void pkvi_table_init(pkvi_table *table, pkvi_arena *arena)
{
    memset(table, 0, sizeof *table);
    table->arena = arena;
}

/* Twice the room for entries and four slots for each, so that probes stay short. */
static pkv_status grow(pkvi_table *table)
{
    if (table->capacity > UINT32_MAX / 16) {
        return pkvi_plan_no_memory();
    }
    const uint32_t capacity = table->capacity ? table->capacity * 2 : 16;
    const uint32_t n_slots = capacity * 4;
    pkvi_entry **entries = pkvi_arena_get(table->arena, capacity, sizeof *entries);
    uint32_t *slots = pkvi_arena_get(table->arena, n_slots, sizeof *slots);
    if (!entries || !slots) {
        return pkvi_plan_no_memory();
    }
    if (table->n > 0) {
        memcpy(entries, table->entries, table->n * sizeof *entries);
    }
    for (uint32_t i = 0; i < table->n; i++) {
        uint32_t at = (uint32_t)(entries[i]->hash & (n_slots - 1));
        while (slots[at] != 0) {
            at = (at + 1) & (n_slots - 1);
        }
        slots[at] = i + 1;
    }
    table->entries = entries;
    table->slots = slots;
    table->capacity = capacity;
    table->n_slots = n_slots;
    return PKV_OK;
}

static pkv_status add_entry(pkvi_table *table, const pkv_spec *spec, uint64_t hash, uint32_t slot)
{
    pkvi_entry *entry = pkvi_arena_get(table->arena, 1, sizeof *entry);
    if (!entry) {
        return pkvi_plan_no_memory();
    }
    entry->spec = *spec;
    entry->spec.is_draft = 0;
    entry->hash = hash;
    PKVI_RETURN_IF(pkv_spec_page_bytes(spec, &entry->page));
    PKVI_RETURN_IF(pkv_spec_block_stride_alignment(spec, &entry->stride_align));
    const uint64_t align = pkvi_max(entry->stride_align, 1); /* 0 is refused once it is grouped */
    if (!pkvi_round_up(entry->page, align, &entry->stride_page)) {
        return pkvi_plan_overflow("a page with its stride alignment");
    }
    table->entries[table->n++] = entry;
    table->slots[slot] = table->n;
    return PKV_OK;
}

/* The slot of an equal spec, or the free one where it belongs. */
static uint32_t find_slot(const pkvi_table *table, const pkv_spec *spec, uint64_t hash)
{
    const uint32_t mask = table->n_slots - 1;
    uint32_t at = (uint32_t)(hash & mask);
    while (table->slots[at] != 0) {
        const pkvi_entry *entry = table->entries[table->slots[at] - 1];
        if (entry->hash == hash && pkv_spec_equal(&entry->spec, spec)) {
            break;
        }
        at = (at + 1) & mask;
    }
    return at;
}

pkv_status pkvi_table_intern(pkvi_table *table, const pkv_spec *spec, uint32_t *out)
{
    if (table->n == table->capacity) {
        PKVI_RETURN_IF(grow(table));
    }
    const uint64_t hash = pkvi_spec_hash(spec);
    const uint32_t slot = find_slot(table, spec, hash);
    if (table->slots[slot] == 0) {
        PKVI_RETURN_IF(add_entry(table, spec, hash, slot));
    }
    *out = table->slots[slot] - 1;
    return PKV_OK;
}

/* The plan outlives what its caller's specs point to. */
static pkv_status own_pointers(pkvi_table *table, pkv_spec *spec)
{
    const char **texts[] = {&spec->cache_dtype, &spec->model_version, &spec->mamba_type};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (*texts[i]) {
            *texts[i] = pkvi_arena_text(table->arena, *texts[i]);
            if (!*texts[i]) {
                return pkvi_plan_no_memory();
            }
        }
    }
    if (spec->states) {
        pkv_state *states = pkvi_arena_get(table->arena, spec->n_states, sizeof *states);
        if (!states) {
            return pkvi_plan_no_memory();
        }
        memcpy(states, spec->states, spec->n_states * sizeof *states);
        spec->states = states;
    }
    return PKV_OK;
}

pkv_status pkvi_table_intern_input(pkvi_table *table, const pkv_spec *spec, uint32_t *out)
{
    if (table->n == table->capacity) {
        PKVI_RETURN_IF(grow(table));
    }
    const uint64_t hash = pkvi_spec_hash(spec);
    const uint32_t slot = find_slot(table, spec, hash);
    if (table->slots[slot] == 0) {
        pkv_spec checked = *spec;
        PKVI_RETURN_IF(pkv_spec_finish(&checked));
        if (!pkv_spec_has_layer_views(spec)) {
            return pkvi_fail(PKV_E_INVAL, "pkv_plan_create: kind %s is the planner's own",
                             pkv_kind_name(spec->kind));
        }
        if (!pkv_spec_equal(&checked, spec)) {
            return pkvi_fail(PKV_E_INVAL, "pkv_plan_create: the spec is not finished");
        }
        PKVI_RETURN_IF(own_pointers(table, &checked));
        PKVI_RETURN_IF(add_entry(table, &checked, hash, slot));
    }
    *out = table->slots[slot] - 1;
    return PKV_OK;
}
