/* config.h  What a config.json says about the cache, as plain numbers. */
#ifndef PKVI_CONFIG_H
#define PKVI_CONFIG_H

#include <pkv/model.h>

#include "base/arena.h"
#include "model/families.h"
#include "model/json.h"

#define PKVI_READ_CONFIG "pkv_model_read_config"

enum {
    PKVI_MAX_LAYERS = 100000,
    PKVI_MAX_NOTES = 8,
    PKVI_NOTE_FULL = 1, /* the note is about layers that see everything */
    PKVI_NOTE_LOCAL = 2,
    PKVI_NOTE_ALL = 3
};

/* Why a layer's spec is less sure than the row of the table. */
typedef struct pkvi_note {
    uint32_t certainty; /* pkv_certainty */
    uint32_t layers;    /* PKVI_NOTE_* */
    char text[120];
} pkvi_note;

typedef struct pkvi_config {
    pkvi_json_at top;            /* the document */
    pkvi_json_at text;           /* its text_config, or the document */
    const pkvi_family *family;   /* by architecture: the code */
    const pkvi_family *defaults; /* by model_type: the config class with its defaults */
    pkvi_arena *arena;

    uint64_t n_layers, n_heads, n_kv_heads;
    uint64_t head_size; /* of K; latent families: latent + rope */
    uint64_t rope_dim;  /* leading dims of K that carry the position */
    uint64_t window;    /* tokens that a local layer sees; 0: there are none */
    uint64_t max_model_len;
    uint32_t dtype;    /* as served */
    bool causal;       /* false: an encoder, which keeps nothing */
    bool types_decide; /* layer_types, and not the row, says which layers are local */

    /* what the rules of the table ask */
    bool use_window;      /* use_sliding_window */
    uint64_t first_local; /* max_window_layers */
    uint64_t interval;    /* the family's interval_field */

    const uint8_t *local; /* [n_layers] 1: window or chunk */
    const char *scheme;   /* cache type that the checkpoint asks for; NULL: none. Static */

    uint32_t n_notes;
    pkvi_note notes[PKVI_MAX_NOTES];
} pkvi_config;

/* Reads a whole document, in the order of the functions below. What the result points to lies in
 * the arena or is static, but for the documents, which are borrowed. */
pkv_status pkvi_config_read(const json_t *root, pkvi_arena *arena, pkvi_config *out);

/* window and local. */
pkv_status pkvi_config_read_layers(pkvi_config *config);
/* max_model_len. */
pkv_status pkvi_config_read_length(pkvi_config *config);
/* scheme. UNSUPPORTED: a form of cache that no layer here can have. */
pkv_status pkvi_config_read_scheme(pkvi_config *config);

/* The cache type to use, static text: the request, or what the checkpoint asks for, or "auto".
 * VALUE: unknown, another 16-bit type than the model's, or not what the checkpoint asks for. */
pkv_status pkvi_cache_type_resolve(const pkvi_config *config, const char *requested,
                                   const char **out);

/* Notes of one certainty are joined in the order in which they are made. */
void pkvi_config_note(pkvi_config *config, uint32_t certainty, uint32_t layers, const char *fmt,
                      ...) __attribute__((format(printf, 4, 5)));

#endif
