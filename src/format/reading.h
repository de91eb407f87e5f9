/* reading.h  The object behind pkv_reading, and how its groups are made. */
#ifndef PKVI_FORMAT_READING_H
#define PKVI_FORMAT_READING_H

#include <pkv/format.h>

#include "base/arena.h"

struct pkv_reading {
    pkvi_arena memory;
    uint32_t revision;
    uint32_t n_layers, n_groups;
    pkv_layout *layers;       /* [n_layers] */
    pkv_layout_group *groups; /* [n_groups] */
};

/* Makes the groups of layers whose engine_group is set. NOMEM, OVERFLOW. O(layers * groups) */
pkv_status pkvi_reading_group(pkv_reading *reading);

#endif
