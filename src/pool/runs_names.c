/* runs_names.c  Blocks of the units that the tree of runs holds. */
#include "pool/runs_internal.h"

#include "base/math.h"

static void add_name(pkvi_runs *runs, uint32_t r, uint32_t at, pkv_block block)
{
    pkvi_run *run = &runs->at[r];
    pkvi_name *name = &runs->blocks[block].name;
    const pkv_block first = run->first[at];
    name->run = r;
    name->at = at;
    run->holders++;
    if (first == 0) {
        run->first[at] = block;
        name->next = name->prev = block;
        run->n_named++;
        runs->n_named++;
        return;
    }
    const pkv_block last = runs->blocks[first].name.prev;
    name->next = first;
    name->prev = last;
    runs->blocks[last].name.next = block;
    runs->blocks[first].name.prev = block;
}

uint64_t pkvi_runs_name(pkvi_runs *runs, const pkvi_cursor *cursor, const pkv_block *table,
                        uint64_t from, uint64_t to)
{
    uint64_t named = 0, end = to;
    uint32_t r = cursor->run;
    while (end > from) {
        r = pkvi_run_of_unit(runs, r, end - 1);
        const uint32_t depth = runs->at[r].depth;
        const uint64_t begin = pkvi_max(from, depth);
        for (uint64_t i = begin; i < end; i++) {
            const pkvi_name *name = &runs->blocks[table[i]].name;
            const uint32_t at = (uint32_t)(i - depth);
            if (table[i] == PKV_BLOCK_NULL || (name->run == r && name->at == at)) {
                continue;
            }
            if (name->run != 0) {
                pkvi_runs_forget(runs, table[i]);
            }
            add_name(runs, r, at, table[i]);
            named++;
        }
        end = begin;
    }
    return named;
}

bool pkvi_runs_is_named(const pkvi_runs *runs, const pkvi_cursor *cursor, uint64_t unit,
                        pkv_block block)
{
    const uint32_t r = pkvi_run_of_unit(runs, cursor->run, unit);
    return runs->blocks[block].name.run == r &&
           runs->blocks[block].name.at == unit - runs->at[r].depth;
}

const int32_t *pkvi_runs_tokens(const pkvi_runs *runs, pkv_block block)
{
    const pkvi_name *name = &runs->blocks[block].name;
    return runs->at[name->run].tokens + name->at * runs->unit;
}

void pkvi_runs_forget(pkvi_runs *runs, pkv_block block)
{
    pkvi_name *name = &runs->blocks[block].name;
    const uint32_t r = name->run;
    pkvi_run *run = &runs->at[r];
    if (name->next == block) {
        run->first[name->at] = 0;
        run->n_named--;
        runs->n_named--;
    } else {
        if (run->first[name->at] == block) {
            run->first[name->at] = name->next;
        }
        runs->blocks[name->prev].name.next = name->next;
        runs->blocks[name->next].name.prev = name->prev;
    }
    *name = (pkvi_name){0};
    run->holders--;
    if (run->holders == 0 || run->first[run->n - 1] == 0) {
        pkvi_run_prune(runs, r);
    }
}

void pkvi_runs_prefetch(const pkvi_runs *runs, pkv_block block)
{
    const pkvi_name *name = &runs->blocks[block].name;
    __builtin_prefetch(&runs->at[name->run].first[name->at], 1);
}

uint64_t pkvi_runs_n_named(const pkvi_runs *runs)
{
    return runs->n_named;
}
