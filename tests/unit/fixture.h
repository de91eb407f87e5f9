/* fixture.h  What all unit tests share: cmocka, statuses and error texts. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pkv/status.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- statuses ---- */

#define assert_ok(call)                                                     \
    do {                                                                    \
        const pkv_status status_ = (call);                                  \
        if (status_ != PKV_OK) {                                            \
            fail_msg("%s: %s", pkv_status_name(status_), pkv_last_error()); \
        }                                                                   \
    } while (0)

/* The status, by name in a failure. */
#define assert_status(call, wanted) \
    assert_string_equal(pkv_status_name(call), pkv_status_name(wanted))

/* The text of the last failure begins with "function: ", holds `part` and is one line. */
static inline void assert_error_text(const char *function, const char *part)
{
    const char *text = pkv_last_error();
    const size_t len = strlen(function);
    if (strncmp(text, function, len) != 0 || strncmp(text + len, ": ", 2) != 0 ||
        !strstr(text, part) || strchr(text, '\n') || strlen(text) > 511) {
        fail_msg("\"%s\" is not \"%s: ... %s ...\"", text, function, part);
    }
}

#endif
