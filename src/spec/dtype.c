/* dtype.c  Element types: their torch names and sizes. */
#include <string.h>

#include <pkv/spec.h>

#include "base/error.h"

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[PKV_N_DTYPES] = {
    [PKV_DTYPE_FLOAT64] = {"float64", 8},
    [PKV_DTYPE_FLOAT32] = {"float32", 4},
    [PKV_DTYPE_FLOAT16] = {"float16", 2},
    [PKV_DTYPE_BFLOAT16] = {"bfloat16", 2},
    [PKV_DTYPE_INT64] = {"int64", 8},
    [PKV_DTYPE_INT32] = {"int32", 4},
    [PKV_DTYPE_INT16] = {"int16", 2},
    [PKV_DTYPE_INT8] = {"int8", 1},
    [PKV_DTYPE_UINT8] = {"uint8", 1},
    [PKV_DTYPE_BOOL] = {"bool", 1},
    [PKV_DTYPE_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1},
    [PKV_DTYPE_FLOAT8_E5M2] = {"float8_e5m2", 1},
    [PKV_DTYPE_FLOAT8_E4M3FNUZ] = {"float8_e4m3fnuz", 1},
    [PKV_DTYPE_UINT64] = {"uint64", 8},
    [PKV_DTYPE_UINT16] = {"uint16", 2},
    [PKV_DTYPE_FLOAT8_E5M2FNUZ] = {"float8_e5m2fnuz", 1},
};

const char *pkv_dtype_name(uint32_t dtype)
{
    return dtype < PKV_N_DTYPES ? dtypes[dtype].name : NULL;
}

uint32_t pkv_dtype_bytes(uint32_t dtype)
{
    return dtype < PKV_N_DTYPES ? dtypes[dtype].bytes : 0;
}

pkv_status pkv_dtype_from_name(const char *name, uint32_t *dtype_out)
{
    if (!name || !dtype_out) {
        return pkvi_fail(PKV_E_INVAL, "pkv_dtype_from_name: name or dtype_out is NULL");
    }
    for (uint32_t i = 1; i < PKV_N_DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype_out = i;
            return PKV_OK;
        }
    }
    return PKV_E_NOT_FOUND;
}
