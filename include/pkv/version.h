/** @file version.h  Version numbers and the ABI promise.
 *
 *  Structs only grow at their end, enumerators keep their numbers and functions keep their
 *  signatures within one major version; before 1.0 a minor version may break this, and says so in
 *  CHANGELOG.md. */
#ifndef PKV_VERSION_H
#define PKV_VERSION_H

#include <pkv/export.h>

#define PKV_VERSION_MAJOR 0
#define PKV_VERSION_MINOR 1
#define PKV_VERSION_PATCH 0

PKV_BEGIN_DECLS

/** Version of the library that is loaded, "MAJOR.MINOR.PATCH". Static text. @threads any */
PKV_API const char *pkv_version(void);

PKV_END_DECLS
#endif
