/* panic.h  A broken invariant: nothing sensible can follow. */
#ifndef PKVI_PANIC_H
#define PKVI_PANIC_H

/* Aborts; the text lies where a debugger and pkv_last_error() find it. */
_Noreturn void pkvi_panic(const char *what);

#endif
