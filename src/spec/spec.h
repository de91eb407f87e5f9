/* spec.h  What the planner uses of the spec module beyond the public header. */
#ifndef PKVI_SPEC_H
#define PKVI_SPEC_H

#include <pkv/spec.h>

/* The construction rules alone, for specs whose fields were checked before: pads that `alignment`
 * asks for. The block size may be any number up to 2^63-1. */
pkv_status pkvi_spec_construct(pkv_spec *spec);

/* pkv_spec_resize() without the limit that holds for input. */
pkv_status pkvi_spec_resize(const pkv_spec *spec, uint64_t block_size, pkv_spec *out);

/* Blocks that one request holds at once at most. Refuses like pkv_spec_max_memory_bytes(). */
pkv_status pkvi_spec_held_blocks(const pkv_spec *spec, const pkv_limits *limits, uint64_t *out);

/* Hash over what pkv_spec_equal() compares. */
uint64_t pkvi_spec_hash(const pkv_spec *spec);

/* Whether `other` belongs into a uniform-type group that begins with `first`. */
pkv_status pkvi_uniform_accepts(const pkv_spec *first, const pkv_spec *other, bool *out);

#endif
