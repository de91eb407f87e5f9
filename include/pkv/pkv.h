/** @file pkv.h  The paged KV cache as one library. Includes every header of the core.
 *
 *  | header        | for                                             | level |
 *  |---------------|-------------------------------------------------|-------|
 *  | status.h      | outcomes and error texts                        | 0 |
 *  | alloc.h       | memory hooks                                    | 0 |
 *  | version.h     | version of the library                          | 0 |
 *  | pages.h       | where rows lie in memory that others own        | 0 |
 *  | spec.h        | what one layer keeps, and how large that is     | 1 |
 *  | key.h         | names of content: chained block keys            | 1 |
 *  | ring.h        | rows of rings inside of blocks                  | 1 |
 *  | encoder.h     | which encoder outputs are kept                  | 1 |
 *  | kv_layout.h   | order of the cache's axes, strides, views       | 2 |
 *  | plan.h        | layers into groups, memory into blocks          | 2 |
 *  | format.h      | engine tensors: formats and where rows lie      | 2 |
 *  | event.h       | what was stored and removed                     | 2 |
 *  | pool.h        | reference-counted blocks, found by key          | 2 |
 *  | transfer.h    | rows between pages and chunks, pages and pages    | 3 |
 *  | seq.h         | the cache at run time: sequences and steps      | 4 |
 *  | model.h       | config.json -> specs (library pagedkv_model)    | 2 |
 *  | document.h    | plan documents as JSON (library pagedkv_model)  | 2 |
 *  | keys_document.h | requests for keys as JSON (pagedkv_model)     | 2 |
 *
 *  Conventions: bytes and tokens are uint64_t, shapes are written [n, heads, dim], names end in
 *  their unit. Every fallible call returns a pkv_status and sets its out-parameters only on
 *  success; handles are NULL after a failure. Pointers are borrowed for the call unless a comment
 *  says otherwise. "@threads any" may be called from any thread; other tags stand at the types. */
#ifndef PKV_PKV_H
#define PKV_PKV_H

#include <pkv/alloc.h>
#include <pkv/document.h>
#include <pkv/encoder.h>
#include <pkv/event.h>
#include <pkv/format.h>
#include <pkv/key.h>
#include <pkv/keys_document.h>
#include <pkv/kv_layout.h>
#include <pkv/model.h>
#include <pkv/pages.h>
#include <pkv/plan.h>
#include <pkv/pool.h>
#include <pkv/ring.h>
#include <pkv/seq.h>
#include <pkv/spec.h>
#include <pkv/status.h>
#include <pkv/transfer.h>
#include <pkv/version.h>

#endif
