/* runs_names.c  Blocks of the units that the tree of runs holds: named, and found. */
#include <string.h>

#include "base/math.h"
#include "pool/runs_internal.h"

static void add_name(pkvi_runs *runs, uint32_t r, uint32_t at, uint32_t group, pkv_block block)
{
    pkvi_run *run = &runs->at[r];
    pkvi_name *name = &runs->blocks[block].name;
    pkv_block *place = &pkvi_run_blocks(run, group)[at];
    const pkv_block first = *place;
    name->run = r;
    name->at = at;
    runs->blocks[block].run_group = group;
    run->holders++;
    if (first == 0) {
        *place = block;
        name->next = name->prev = block;
        runs->n_named++;
        return;
    }
    const pkv_block last = runs->blocks[first].name.prev;
    name->next = first;
    name->prev = last;
    runs->blocks[last].name.next = block;
    runs->blocks[first].name.prev = block;
}

static bool has_name(const pkvi_block *block, uint32_t r, uint64_t at, uint32_t group)
{
    return block->name.run == r && block->name.at == at && block->run_group == group;
}

static void name_unit(pkvi_runs *runs, uint32_t r, uint32_t at, uint32_t group, pkv_block block)
{
    if (runs->blocks[block].name.run != 0) {
        pkvi_runs_forget(runs, block);
    }
    add_name(runs, r, at, group, block);
}

void pkvi_runs_name_unit(pkvi_runs *runs, const pkvi_cursor *cursor, uint64_t unit, uint32_t group,
                         pkv_block block)
{
    const uint32_t r = pkvi_run_of_unit(runs, cursor->run, unit);
    name_unit(runs, r, (uint32_t)(unit - runs->at[r].depth), group, block);
}

uint64_t pkvi_runs_name(pkvi_runs *runs, const pkvi_cursor *cursor, const pkvi_table_part *part)
{
    uint64_t named = 0, end = part->to;
    uint32_t r = cursor->run;
    while (end > part->from) {
        r = pkvi_run_of_unit(runs, r, end * part->units - 1);
        const uint32_t depth = runs->at[r].depth;
        const uint64_t begin = pkvi_max(part->from, depth / part->units);
        for (uint64_t i = begin; i < end; i++) {
            const pkv_block b = part->ids[i];
            const uint32_t at = (uint32_t)(pkvi_units_to(part, i) - 1 - depth);
            if (pkvi_is_wanted(part, i) && !has_name(&runs->blocks[b], r, at, part->group)) {
                name_unit(runs, r, at, part->group, b);
                named++;
            }
        }
        end = begin;
    }
    return named;
}

bool pkvi_runs_is_named(const pkvi_runs *runs, const pkvi_cursor *cursor, uint64_t unit,
                        uint32_t group, pkv_block block)
{
    const uint32_t r = pkvi_run_of_unit(runs, cursor->run, unit);
    return has_name(&runs->blocks[block], r, unit - runs->at[r].depth, group);
}

const int32_t *pkvi_runs_tokens(const pkvi_runs *runs, pkv_block block)
{
    const pkvi_name *name = &runs->blocks[block].name;
    return runs->at[name->run].tokens + name->at * runs->unit;
}

void pkvi_runs_hold(pkvi_runs *runs, pkv_block block, pkvi_cursor *out)
{
    const pkvi_name *name = &runs->blocks[block].name;
    const pkvi_cursor behind = {name->run, name->at + 1,
                                (uint64_t)runs->at[name->run].depth + name->at + 1};
    pkvi_runs_join(runs, &behind, out);
}

bool pkvi_runs_is_behind(const pkvi_runs *runs, const pkvi_cursor *cursor, pkv_block block)
{
    const pkvi_name *name = &runs->blocks[block].name;
    return cursor->run == name->run && cursor->at == name->at + 1;
}

void pkvi_runs_forget(pkvi_runs *runs, pkv_block block)
{
    pkvi_name *name = &runs->blocks[block].name;
    const uint32_t r = name->run;
    pkvi_run *run = &runs->at[r];
    pkv_block *place = &pkvi_run_blocks(run, runs->blocks[block].run_group)[name->at];
    if (name->next == block) {
        *place = 0;
        runs->n_named--;
    } else {
        if (*place == block) {
            *place = name->next;
        }
        runs->blocks[name->prev].name.next = name->next;
        runs->blocks[name->next].name.prev = name->prev;
    }
    *name = (pkvi_name){0};
    run->holders--;
    if (run->holders == 0 || pkvi_run_is_bare(runs, run, run->n - 1)) {
        pkvi_run_prune(runs, r);
    }
}

void pkvi_runs_prefetch(const pkvi_runs *runs, pkv_block block)
{
    const pkvi_block *b = &runs->blocks[block];
    __builtin_prefetch(&pkvi_run_blocks(&runs->at[b->name.run], b->run_group)[b->name.at], 1);
}

/* ---- finding ---- */

/* Copies blocks to the first that is none; returns how many. Of so many at a time the compiler
 * makes a loop over vectors; of 16 it makes 16 times the code for one, a tenth of a hot lookup. */
static uint64_t copy_present(pkv_block *to, const pkv_block *from, uint64_t n)
{
    enum { STRIDE = 64 };
    uint64_t done = 0;
    for (; n - done >= STRIDE; done += STRIDE) {
        uint32_t missing = 0;
        for (uint32_t i = 0; i < STRIDE; i++) {
            missing |= from[done + i] == 0;
        }
        if (missing) {
            break;
        }
        memcpy(to + done, from + done, STRIDE * sizeof *to);
    }
    for (; done < n && from[done] != 0; done++) {
        to[done] = from[done];
    }
    return done;
}

/* The same of each `step`th place. */
static uint64_t copy_some(pkv_block *to, const pkv_block *from, uint64_t step, uint64_t n)
{
    uint64_t done = 0;
    while (done < n && from[done * step] != 0) {
        to[done] = from[done * step];
        done++;
    }
    return done;
}

/* From the last run to the first, since a run knows its parent. */
uint64_t pkvi_runs_row(const pkvi_runs *runs, const pkvi_cursor *path, uint32_t group,
                       uint64_t units, uint64_t most, pkv_block *ids)
{
    uint64_t found = pkvi_min(path->units / units, most), end = found;
    uint32_t r = path->run;
    while (end > 0) {
        r = pkvi_run_of_unit(runs, r, end * units - 1);
        const uint64_t depth = runs->at[r].depth, begin = depth / units;
        const pkv_block *from =
            pkvi_run_blocks(&runs->at[r], group) + (begin + 1) * units - 1 - depth;
        const uint64_t n = units == 1 ? copy_present(ids + begin, from, end - begin)
                                      : copy_some(ids + begin, from, units, end - begin);
        found = n < end - begin ? begin + n : found;
        end = begin;
    }
    return found;
}

/* Leads a stretch to a unit of the path. */
static void seek(const pkvi_runs *runs, const pkvi_cursor *path, uint64_t unit, pkvi_stretch *s)
{
    if (unit >= s->to) {
        *s = (pkvi_stretch){runs->at[path->run].depth, path->units, path->run};
    }
    while (unit < s->from) {
        s->to = s->from;
        s->run = runs->at[s->run].parent;
        s->from = runs->at[s->run].depth;
    }
}

bool pkvi_runs_find_unit(const pkvi_runs *runs, const pkvi_cursor *path, uint64_t unit,
                         const uint32_t *groups, uint32_t n_groups, pkvi_stretch *stretch,
                         pkv_block **tables, uint64_t entry)
{
    if (unit >= path->units) {
        return false;
    }
    seek(runs, path, unit, stretch);
    const pkvi_run *run = &runs->at[stretch->run];
    const uint64_t at = unit - stretch->from;
    for (uint32_t g = 0; g < n_groups; g++) {
        if (pkvi_run_blocks(run, groups[g])[at] == 0) {
            return false;
        }
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        tables[g][entry] = pkvi_run_blocks(run, groups[g])[at];
    }
    return true;
}

/* Where a group's blocks of so many units each are named in the run in which that of entry end - 1
 * is: its place, and how many of them end there with it. */
static const pkv_block *places_before(const pkvi_runs *runs, const pkvi_cursor *path,
                                      uint32_t group, uint64_t units, uint64_t end, pkvi_stretch *s,
                                      uint64_t *n_out)
{
    const uint64_t unit = end * units - 1;
    seek(runs, path, unit, s);
    const uint64_t at = unit - s->from;
    *n_out = at / units + 1;
    return pkvi_run_blocks(&runs->at[s->run], group) + at;
}

uint64_t pkvi_runs_row_back(const pkvi_runs *runs, const pkvi_cursor *path, uint32_t group,
                            uint64_t units, uint64_t end, uint64_t most, pkvi_stretch *stretch,
                            pkv_block *ids)
{
    uint64_t found = 0;
    while (found < most) {
        uint64_t n, i = 0;
        const pkv_block *last = places_before(runs, path, group, units, end - found, stretch, &n);
        for (n = pkvi_min(n, most - found); i < n && *(last - i * units) != 0; i++) {
            ids[end - found - 1 - i] = *(last - i * units);
        }
        found += i;
        if (i < n) {
            break;
        }
    }
    return found;
}

uint64_t pkvi_runs_last(const pkvi_runs *runs, const pkvi_cursor *path, uint32_t group,
                        uint64_t units, uint64_t end, pkvi_stretch *stretch)
{
    while (end > 0) {
        uint64_t n;
        const pkv_block *last = places_before(runs, path, group, units, end, stretch, &n);
        for (uint64_t i = 0; i < n; i++) {
            if (*(last - i * units) != 0) {
                return end - i;
            }
        }
        end -= n;
    }
    return 0;
}

uint64_t pkvi_runs_n_named(const pkvi_runs *runs)
{
    return runs->n_named;
}
