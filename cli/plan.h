/* plan.h  The parts of `pagedkv plan`. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "cli.h"

/* What an answer names layers and budgets by: a document or a model. */
typedef struct plan_source {
    const pkv_plan_params *params;
    const char *(*layer_name)(const void *ctx, uint32_t layer);
    const void *ctx;
    uint64_t max_num_seqs;
} plan_source;

/* plan_answer.c: figures, groups, tensors, workers */
json_t *plan_answer(const plan_source *source, const pkv_plan *plan);
/* Name of a group's i-th layer; hot and resident layers carry their source's with a suffix. */
json_t *plan_layer_name(const plan_source *source, uint32_t kind, uint32_t layer);
json_t *plan_layer_names(const plan_source *source, uint32_t kind, const uint32_t *layers,
                         uint32_t n);
const char *plan_kind_name(uint32_t kind);
const char *plan_role_name(uint32_t role);

/* plan_derived.c: the answer of --derived. plan NULL: the plan was refused. NULL if a layer cannot
 * be built. */
json_t *plan_derived(const plan_source *source, const pkv_plan *plan);

/* quantities.c: all derived quantities of a spec, into an object; those of a uniform-type group */
void put_quantities(json_t *object, const pkv_spec *spec, const pkv_limits *limits);
void put_uniform_quantities(json_t *object, const pkv_spec *const *specs, size_t n,
                            const pkv_limits *limits);
/* The spec as a document writes it. */
json_t *spec_json(const pkv_spec *spec);

/* plan_question.c: the answer to a document that asks for less than a plan, and its exit code */
json_t *answer_question(const pkv_document *doc, int *exit_code);

/* plan_screen.c: one screen for people; plan for a budget, or only what things cost */
void print_plan_screen(const plan_source *source, const pkv_model *model, const pkv_plan *plan,
                       bool has_budget, uint32_t dp);

/* plan_model.c: a model instead of a document */
int plan_model(const cli_command *command, const char *path);
/* The document that stands for a model and the options of a command; NULL: the exit code is set and
 * a line on stderr says why. */
json_t *plan_model_document(const cli_command *command, const char *path, int *exit_code);

#endif
