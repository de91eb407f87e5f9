/* families.h  The table of model families: one row per architecture name.
 *
 * A row says which layers see less than everything, what the family's config class puts in for a
 * field that a published config leaves out, and which code the rule was read from. The facts are
 * those of vLLM 0.33's model code and of the config classes of transformers 5. */
#ifndef PKVI_FAMILIES_H
#define PKVI_FAMILIES_H

#include <stdbool.h>
#include <stdint.h>

#include <pkv/spec.h>

struct pkvi_config;

/* Which layers are local: they see a window or a chunk. */
typedef bool pkvi_local_rule(const struct pkvi_config *config, uint64_t layer);

typedef struct pkvi_family {
    const char *architecture; /* first entry of "architectures" */
    const char *model_type;   /* stands in where "architectures" is missing; names the class too */
    const char *other_type;   /* a second one, or NULL */
    const char *family;
    const char *code; /* the class whose rule this is */

    pkvi_local_rule *is_local; /* where `layer_types` does not say; NULL: no layer */
    const char *local_layers;  /* the same in words */
    uint32_t full_kind, local_kind;
    bool reads_types;      /* its code asks `layer_types`, layer by layer */
    bool all_or_none;      /* its code has windows on all layers or on none */
    bool ignores_head_dim; /* its code takes hidden_size / num_attention_heads */
    bool can_encode;       /* is_causal false makes it an encoder, which keeps nothing */
    bool no_float16;       /* float16 checkpoints are served in bfloat16 */
    bool unsaid_dtype;     /* published configs name no dtype: bfloat16 */
    bool scaled_length;    /* max_position_embeddings holds the rope scaling already */

    /* The config class: what it puts in; 0: the config must say it, or it follows from another. */
    const char *window_field;
    uint32_t window; /* of an absent window_field; null means none */
    const char *interval_field;
    uint32_t interval;
    uint32_t heads;
    uint32_t kv_heads; /* of configs that leave out num_attention_heads as well */
    uint32_t head_dim;
    uint32_t positions;      /* max_position_embeddings */
    uint32_t rope_positions; /* original_max_position_embeddings */
} pkvi_family;

/* The row with that index, NULL beyond the last. */
const pkvi_family *pkvi_family_at(uint32_t i);
/* The row, or NULL. */
const pkvi_family *pkvi_family_of_architecture(const char *name);
const pkvi_family *pkvi_family_of_model_type(const char *name);

#endif
