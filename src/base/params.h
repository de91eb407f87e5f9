/* params.h  Parameter structs of older and newer callers. */
#ifndef PKVI_BASE_PARAMS_H
#define PKVI_BASE_PARAMS_H

#include <stddef.h>

#include <pkv/status.h>

/* Copies what the caller knows of a struct over its defaults. The struct begins with a uint32_t
 * struct_size. A caller of an older header knows fewer fields and gets the defaults of the rest;
 *  one of a newer header may not set what this library does not know.
 * INVAL: struct_size was never set; VERSION: an unknown field is not 0. The text names `function`.
 * known: [known_size], filled by the params' init. */
pkv_status pkvi_import_params(const char *function, const void *given, void *known,
                              size_t known_size);

#endif
