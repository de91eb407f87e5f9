/** @file event.h  What happened to cached content: stored, removed, cleared.
 *
 *  A sink is called while the change is made, in the order of the changes. Everything that an event
 *  points to is valid during the call only. */
#ifndef PKV_EVENT_H
#define PKV_EVENT_H

#include <pkv/key.h>

PKV_BEGIN_DECLS

typedef enum pkv_event_type {
    PKV_EVENT_STORED = 0,  /**< blocks can be found by these keys */
    PKV_EVENT_REMOVED = 1, /**< a block can no longer be found by this key */
    PKV_EVENT_CLEARED = 2  /**< no block can be found any more */
} pkv_event_type;

/** The prefix of a request: tokens, and the keys of its units. A value; all borrowed. */
typedef struct pkv_chain {
    const int32_t *tokens; /**< [n_tokens], or NULL: only the keys are known */
    const pkv_key *keys;   /**< [n_keys], one per unit */
    uint64_t n_tokens, n_keys;
    const pkv_extras *extras; /**< NULL: none */
    const char *session;      /**< name of the conversation, or NULL */
    uint64_t lora_id;         /**< number of the adapter */
    uint8_t has_lora_id;
    uint8_t reserved[7];
} pkv_chain;

/** One event. Fields of another type are 0. */
typedef struct pkv_event {
    uint32_t type;                  /**< pkv_event_type */
    uint32_t group;                 /**< cache group of the blocks */
    uint32_t n_keys;                /**< removed: 1 */
    uint32_t key_bytes;             /**< 32 or 16 */
    const pkv_key *const *keys;     /**< [n_keys] */
    const uint64_t *positions;      /**< [n_keys] stored: first token of each key's block */
    const pkv_key *parent;          /**< stored: key before the first block; NULL at the start */
    const pkv_chain *chain;         /**< stored: the request */
    uint64_t first_token, n_tokens; /**< stored: the whole range, masked blocks included */
    uint64_t block_size;            /**< stored: tokens per key */
    uint64_t lookahead;             /**< stored: tokens after a block that its key covers */
} pkv_event;

/** Receives events. It must not change the cache that emits them. */
typedef struct pkv_event_sink {
    void *ctx;
    void (*event)(void *ctx, const pkv_event *event);
} pkv_event_sink;

PKV_END_DECLS
#endif
