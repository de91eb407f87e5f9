/* panic.c  The one place that ends the process; only debug checks come here. */
#include "base/panic.h"

#include <stdlib.h>

#include "base/error.h"

_Noreturn void pkvi_panic(const char *what)
{
    pkvi_set_error("pagedkv: %s", what);
    abort();
}
