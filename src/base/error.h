/* error.h  How a failure gets its text, and the one error path of a function.
 *
 * A text reads "function: what is wrong, with the field and its value". The function is the public
 * one in which the rule stands. A caller that knows more says where: pkvi_error_context() turns
 * "pkv_spec_page_bytes: x" into "pkv_plan_create: layer 3: x". */
#ifndef PKVI_ERROR_H
#define PKVI_ERROR_H

#include <pkv/status.h>

/* Stores the text of this thread's failure. */
void pkvi_set_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same, and the value is the status. A macro, so that the compiler sees that a failure is never
 * PKV_OK and out-parameters of a success are always set. */
#define pkvi_fail(status, ...) (pkvi_set_error(__VA_ARGS__), (status))

/* Replaces the function name of the current text by "function: place". */
void pkvi_error_context(const char *function, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same without a place: the text names the function that the user called. */
void pkvi_error_rename(const char *function);

/* Leaves the function with the status of a failed call. */
#define PKVI_RETURN_IF(call)              \
    do {                                  \
        pkv_status pkvi_status_ = (call); \
        if (pkvi_status_ != PKV_OK) {     \
            return pkvi_status_;          \
        }                                 \
    } while (0)

/* Sets `st` and jumps to `done:` when a call fails. */
#define PKVI_TRY(call)      \
    do {                    \
        st = (call);        \
        if (st != PKV_OK) { \
            goto done;      \
        }                   \
    } while (0)

#endif
