/* view.h  One tensor in memory: order of its axes, holes, reshaping without moving a byte. */
#ifndef PKVI_FORMAT_VIEW_H
#define PKVI_FORMAT_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include <pkv/format.h>

/* Checks the fields of a view; messages begin with `function`. INVAL, OVERFLOW. A rank beyond
 * PKV_MAX_AXES passes if `any_rank`; nothing else of the view is looked at then. */
pkv_status pkvi_view_fields(const char *function, const pkv_view *view, bool any_rank);

/* Elements; the fields have been checked. */
uint64_t pkvi_view_elements(const pkv_view *view);
/* Stride 0 .. of a row-major tensor of this shape: elements inside of axis `axis`. */
uint64_t pkvi_view_inside(const pkv_view *view, uint32_t axis);

/* The same tensor where axes of size 1 have the stride that a row-major tensor would have there. */
pkv_view pkvi_view_natural(const pkv_view *view);
/* Whether the axes of more than one element lie in this order, outermost first. */
bool pkvi_view_in_order(const pkv_view *view, const uint8_t *order);
pkv_view pkvi_view_permuted(const pkv_view *view, const uint8_t *order);
/* Axes from the largest stride to the smallest; of equal ones those of size 1 last. */
pkv_view pkvi_view_sorted(const pkv_view *view);

/* Whether axes 1.. are tight and blocks of axis 0 do not overlap. Axes of size 1 do not count. */
bool pkvi_view_tight_inside(const pkv_view *view);
/* Whether there are holes between the entries of axis 0. */
bool pkvi_view_padded(const pkv_view *view);
bool pkvi_view_dense(const pkv_view *view);
/* Whether each axis of size 1 has the stride that its place in this order gives it. */
bool pkvi_view_ones_fit(const pkv_view *view);

/* One axis seen as [size / inner, inner]; inner divides size, and rank < PKV_MAX_AXES. */
pkv_view pkvi_view_cut(const pkv_view *view, uint32_t axis, uint64_t inner);
/* Without an axis, which has size 1 or is fixed at 0. */
pkv_view pkvi_view_without(const pkv_view *view, uint32_t axis);

#endif
