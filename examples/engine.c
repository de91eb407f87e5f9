/* engine.c  See engine.h. */
#include "engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void give_up(const char *call)
{
    fprintf(stderr, "%s: %s\n", call, pkv_last_error());
    exit(1);
}

void before_step(pkv_cache *cache, const pkv_allocate_result *todo)
{
    for (uint64_t i = 0; i < todo->n_zero; i++) {
        printf("%s %" PRIu32, i == 0 ? "  zero" : "", todo->zero[i]);
    }
    for (uint64_t i = 0; i < todo->n_copies; i++) {
        printf("%s %" PRIu32 "->%" PRIu32, i == 0 ? "  copy" : "", todo->copies[i].src,
               todo->copies[i].dst);
    }
    printf("%s\n", todo->n_zero + todo->n_copies == 0 ? "  nothing to do before it" : "");
    pkv_cache_step(cache);
}

void show(const char *name, const pkv_cache *cache, const pkv_seq *seq, uint64_t at)
{
    enum { WIDEST = 64 };
    int32_t row[WIDEST];
    int64_t slot;
    for (uint32_t g = 0; g < pkv_cache_get_info(cache)->n_groups; g++) {
        const pkv_cache_group *group = pkv_cache_group_at(cache, g);
        const uint64_t width = group->table_width < WIDEST ? group->table_width : WIDEST;
        OK(pkv_seq_row(seq, g, row, width, NULL, NULL));
        OK(pkv_seq_slots(seq, g, at, 1, 0, 1, &slot));
        printf("  %s  %-14s  row", name, group->event_kind);
        for (uint64_t i = 0; i < width; i++) {
            printf(" %2" PRId32, row[i]);
        }
        printf("  token %" PRIu64 " in slot %" PRId64 "\n", at, slot);
    }
}
