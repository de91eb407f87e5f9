/** @file export.h  Visibility and compiler hints shared by all public headers. */
#ifndef PKV_EXPORT_H
#define PKV_EXPORT_H

#if defined(__GNUC__)
#define PKV_API __attribute__((visibility("default")))
#define PKV_NODISCARD __attribute__((warn_unused_result))
#else
#define PKV_API
#define PKV_NODISCARD
#endif

#ifdef __cplusplus
#define PKV_BEGIN_DECLS extern "C" {
#define PKV_END_DECLS }
#else
#define PKV_BEGIN_DECLS
#define PKV_END_DECLS
#endif

#endif
