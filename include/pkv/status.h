/** @file status.h  Outcome of a call, and the text that explains a failure. */
#ifndef PKV_STATUS_H
#define PKV_STATUS_H

#include <pkv/export.h>

PKV_BEGIN_DECLS

/** Outcome of every fallible call: 0 is success. Numbers are frozen.
 *
 *  VALUE, ASSERT and NOTIMPL are the three ways in which a planner of the vLLM family says no:
 *  a configuration that cannot work, specs that break a contract between each other, and a
 *  combination that nobody has built. */
typedef enum pkv_status {
    PKV_OK = 0,
    PKV_E_INVAL = -1,        /**< the caller's mistake: an argument outside its contract */
    PKV_E_NOMEM = -2,        /**< memory could not be had */
    PKV_E_OVERFLOW = -3,     /**< a size would exceed 2^63-1 */
    PKV_E_NO_BLOCKS = -4,    /**< not enough free blocks */
    PKV_E_NOT_FOUND = -5,    /**< no such thing; an ordinary answer without a text */
    PKV_E_IO = -6,           /**< reading or writing failed */
    PKV_E_VERSION = -7,      /**< a newer caller sets fields that this library does not know */
    PKV_E_CORRUPT = -8,      /**< stored bytes or an invariant are broken */
    PKV_E_AGAIN = -9,        /**< not now; try again */
    PKV_E_UNSUPPORTED = -10, /**< known, but not offered here */
    PKV_E_VALUE = -11,       /**< a configuration that cannot work */
    PKV_E_ASSERT = -12,      /**< specs break a shape contract */
    PKV_E_NOTIMPL = -13,     /**< no way to combine these specs */
    PKV_E_AMBIGUOUS = -14    /**< more than one answer is right; the caller must decide */
} pkv_status;

/** Name of a status, "PKV_E_INVAL"; "PKV_E_UNKNOWN" for any other number. Static. @threads any */
PKV_API const char *pkv_status_name(pkv_status status);

/** Text of this thread's last failure: one line of UTF-8, at most 511 bytes, never NULL, and
 *  beginning with the name of the function that failed. It stays until the next failing call on
 *  this thread; success does not clear it. @threads any (the text is per thread) */
PKV_API const char *pkv_last_error(void);

PKV_END_DECLS
#endif
