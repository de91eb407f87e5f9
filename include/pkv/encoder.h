/** @file encoder.h  Which outputs of a multimodal encoder are kept: images, audio, video.
 *
 *  An item is one piece of content, named by an id (a hash of it, or a name that a client gave) and
 *  as large as the embeddings that the encoder makes of it. A request names its items once, when it
 *  is opened, and is then asked and told by the index of an input. Per step a scheduler does for
 *  each input that the step needs:
 *
 *      lookup -> (found: held)
 *             -> (not found: make_room -> ... -> allocate, once the step is decided) -> release
 *
 *  and at its end take_evicted, for whoever holds the tensors. An item stays when the last input
 *  that holds it is released, until its room is needed: then the one released longest ago goes
 *  first. The decisions are vLLM's; docs/internals/encoder.md says where ours differ.
 *
 *  Sizes are embeddings, not tokens and not bytes: placeholders between embeddings do not count.
 *  Only create and open allocate. Handles must not be NULL but in destroy and close. @threads one
 *  thread: all calls on a cache and its requests happen on the scheduler's thread */
#ifndef PKV_ENCODER_H
#define PKV_ENCODER_H

#include <stdbool.h>
#include <stdint.h>

#include <pkv/alloc.h>
#include <pkv/status.h>

PKV_BEGIN_DECLS

typedef struct pkv_encoder pkv_encoder;
/** One request. The cache owns it until it is closed. */
typedef struct pkv_encoder_request pkv_encoder_request;

typedef struct pkv_encoder_params {
    uint32_t struct_size;    /**< set by init */
    uint8_t encoder_decoder; /**< 1: nothing is shared or found again; what a step allocates is
                                  told as evicted at the end of the next */
    uint8_t reserved[3];
    uint64_t capacity;      /**< embeddings, at most 2^63-1; 0: nothing fits */
    const pkv_alloc *alloc; /**< NULL: libc */
} pkv_encoder_params;

PKV_API void pkv_encoder_params_init(pkv_encoder_params *params);
/** INVAL: a field; NOMEM. O(1) */
PKV_API PKV_NODISCARD pkv_status pkv_encoder_create(const pkv_encoder_params *params,
                                                    pkv_encoder **out);
/** Closes all requests too. NULL is allowed. O(items + inputs) */
PKV_API void pkv_encoder_destroy(pkv_encoder *encoder);

/* ---- counting: O(1) but for the last ---- */

PKV_API uint64_t pkv_encoder_capacity(const pkv_encoder *encoder);
/** Embeddings of room that nobody uses. */
PKV_API uint64_t pkv_encoder_free_slots(const pkv_encoder *encoder);
/** And those of items that no input holds: what make_room could get. */
PKV_API uint64_t pkv_encoder_freeable_slots(const pkv_encoder *encoder);
/** Items that can be found. */
PKV_API uint64_t pkv_encoder_n_items(const pkv_encoder *encoder);
/** Embeddings of the item with this id. NOT_FOUND (no text): it is not cached; INVAL: NULL. */
PKV_API PKV_NODISCARD pkv_status pkv_encoder_find(const pkv_encoder *encoder, const char *id,
                                                  uint64_t *embeds_out);
/** Up to n ids of the items that no input holds, in the order in which they would be evicted, valid
 *  until the next call; returns how many were written. ids: [n]. O(n) */
PKV_API uint64_t pkv_encoder_idle_items(const pkv_encoder *encoder, const char **ids, uint64_t n);

/* ---- requests ---- */

/** One input of a request, in prompt order. An item may stand there several times. */
typedef struct pkv_encoder_input {
    const char *id;  /**< of the item; copied */
    uint64_t embeds; /**< of the item */
} pkv_encoder_input;

/** Names the inputs of a request; takes nothing. inputs: [n], n may be 0. INVAL: an id that is
 *  NULL; NOMEM: nothing changed. O(n) */
PKV_API PKV_NODISCARD pkv_status pkv_encoder_open(pkv_encoder *encoder,
                                                  const pkv_encoder_input *inputs, uint64_t n,
                                                  pkv_encoder_request **out);
/** Releases all inputs and forgets the request. NULL is allowed. O(inputs) */
PKV_API void pkv_encoder_close(pkv_encoder_request *request);
/** Whether the input holds its item; false for an index beyond the inputs. O(1) */
PKV_API bool pkv_encoder_holds(const pkv_encoder_request *request, uint64_t input);

/** Holds the item of an input if it is cached, which keeps it from being evicted. An input that
 *  holds it already is found again. NOT_FOUND (no text): it is not cached. VALUE: it is cached with
 *  another number of embeddings, so an id names two contents: reject the request. INVAL: an index
 *  beyond the inputs. O(1) */
PKV_API PKV_NODISCARD pkv_status pkv_encoder_lookup(pkv_encoder_request *request, uint64_t input);
/** Whether an input could be allocated in this step; evicts for it. budget: embeddings that may
 *  still be computed in this step; planned: embeddings that were granted room already and are not
 *  allocated yet. AGAIN (no text): more than the budget. NO_BLOCKS (no text): more than is freeable
 *  with what is planned. INVAL: an index beyond the inputs. A refusal evicts nothing. O(1) per
 *  evicted item */
PKV_API PKV_NODISCARD pkv_status pkv_encoder_make_room(pkv_encoder_request *request, uint64_t input,
                                                       uint64_t budget, uint64_t planned);
/** The step computes the item, and the input holds it. Others find it from now on. INVAL: an index
 *  beyond the inputs, an item that is cached already (look it up), an input that holds one already,
 *  more embeddings than are free (make room first). O(1) */
PKV_API PKV_NODISCARD pkv_status pkv_encoder_allocate(pkv_encoder_request *request, uint64_t input);
/** The input needs its item no longer. The item can be evicted once no input of any request holds
 *  it. NOT_FOUND (no text): the input holds nothing; INVAL: an index beyond the inputs. O(1) */
PKV_API PKV_NODISCARD pkv_status pkv_encoder_release(pkv_encoder_request *request, uint64_t input);
/** Releases every input that holds its item, first input first: a request that was preempted.
 *  O(inputs) */
PKV_API void pkv_encoder_release_all(pkv_encoder_request *request);

/* ---- steps ---- */

/** Ids of the items that were evicted since the last call and are not cached again, first evicted
 *  first: their tensors can be dropped. Each is told once. encoder_decoder: what was allocated
 *  before the last call. [*n_out], valid until the next call on the cache. O(ids) */
PKV_API const char *const *pkv_encoder_take_evicted(pkv_encoder *encoder, uint64_t *n_out);
/** Forgets all items, and what was to be told as evicted: the weights have changed. Requests stay
 *  open and hold nothing. O(items + inputs) */
PKV_API void pkv_encoder_reset(pkv_encoder *encoder);

/** Walks all items, requests and lists and compares them. CORRUPT: the text names what is broken.
 *  O(items + inputs) */
PKV_API PKV_NODISCARD pkv_status pkv_encoder_check(const pkv_encoder *encoder);

PKV_END_DECLS
#endif
