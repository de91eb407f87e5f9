/* table.h  The formats: one row each. */
#ifndef PKVI_FORMAT_TABLE_H
#define PKVI_FORMAT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include <pkv/format.h>

/* What an axis, or a level of lists around a tensor, counts. */
typedef enum pkvi_axis {
    PKVI_AXIS_NONE,
    PKVI_AXIS_NL,
    PKVI_AXIS_NB,
    PKVI_AXIS_TWO, /* K and V */
    PKVI_AXIS_BS,
    PKVI_AXIS_NH,
    PKVI_AXIS_HS,
    PKVI_AXIS_CS,   /* K and V of a head */
    PKVI_AXIS_NBBS, /* blocks and tokens in one */
    PKVI_AXIS_ONE,
    PKVI_AXIS_NP,  /* planes */
    PKVI_AXIS_BSV, /* tokens of a block, with their values */
    PKVI_AXIS_BSS  /* bytes of a token: values, then scales */
} pkvi_axis;

typedef struct pkvi_format_row {
    const char *name, *backend;
    uint8_t lists[2];           /* levels of lists, outermost first; NONE ends */
    uint8_t axes[PKV_MAX_AXES]; /* axes of a tensor, outermost first; NONE ends */
    uint8_t structure, kv_size, kv_size_seed;
    uint8_t is_mla, is_hnd, block_axis, flash, mla_or_flash;
} pkvi_format_row;

/* id < PKV_N_FORMATS */
const pkvi_format_row *pkvi_format_row_of(uint32_t id);
uint32_t pkvi_format_known(uint32_t revision); /* ids below are known */
uint32_t pkvi_format_rank(uint32_t id);
/* Place of an axis in the tensor, or -1. BSV answers for BS, and CS and BSS for HS. */
int pkvi_format_axis(uint32_t id, pkvi_axis axis);
/* K/V axes of the format in this revision; padding between blocks. */
uint32_t pkvi_format_kv_size(uint32_t revision, uint32_t id);
bool pkvi_format_may_pad(uint32_t revision, uint32_t id);

#endif
