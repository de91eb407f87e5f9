/* params.c  Parameter structs of older and newer callers. */
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"

/* No struct comes near; a larger number was never set. */
enum { PARAMS_MAX_BYTES = 4096 };

pkv_status pkvi_import_params(const char *function, const void *given, void *known,
                              size_t known_size)
{
    uint32_t said;
    memcpy(&said, given, sizeof said);
    const size_t size = said, common = size < known_size ? size : known_size;
    if (size < 2 * sizeof said || size > PARAMS_MAX_BYTES) {
        return pkvi_fail(PKV_E_INVAL, "%s: struct_size %zu: call the init of the params", function,
                         size);
    }
    for (size_t i = known_size; i < size; i++) {
        if (((const unsigned char *)given)[i] != 0) {
            return pkvi_fail(PKV_E_VERSION, "%s: struct_size %zu: this library knows %zu bytes",
                             function, size, known_size);
        }
    }
    memcpy((char *)known + sizeof said, (const char *)given + sizeof said, common - sizeof said);
    return PKV_OK;
}
