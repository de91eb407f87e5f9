/* layout.h  The parts of `pagedkv layout`; others read layout problems with them too. */
#ifndef CLI_LAYOUT_H
#define CLI_LAYOUT_H

#include "cli.h"

/* A problem as the library takes it. Texts are borrowed from the document. */
typedef struct layout_problem {
    pkv_format_params params; /* n_layers 0: only questions */
    const char *device;
    const char **names; /* [n_layers]; NULL: the number is the name */
    const json_t *ask;  /* NULL or a list of checked questions */
    uint32_t n_tensors; /* of all layers */
    pkv_view *views;    /* [n_tensors] */
    pkv_engine_layer *layers;
    uint32_t *group_sizes, *group_layers;
    char error[256]; /* why it is malformed */
} layout_problem;

/* layout_problem.c: from JSON. False: error is filled. Free in both cases. */
bool layout_problem_read(const json_t *json, layout_problem *out);
void layout_problem_free(layout_problem *problem);
/* Leaves a text; always false. */
bool layout_bad(layout_problem *problem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A tensor, row-major without strides; bfloat16 if it may have no dtype. */
bool layout_view_read(layout_problem *problem, const char *place, const json_t *json, bool typed,
                      pkv_view *out);
/* Only members of these names. */
bool layout_check_names(layout_problem *problem, const char *place, const json_t *json,
                        const char *const *names);
/* A hint by its name. */
bool layout_hint_read(layout_problem *problem, const char *name, const json_t *value);
bool layout_engine_read(layout_problem *problem, const char *name);

/* layout_ask.c: questions are checked before anything is answered */
bool layout_questions_check(layout_problem *problem, bool *needs_layers_out);
/* Answers in order; reading NULL if there are only questions. */
json_t *layout_answers(const layout_problem *problem, const pkv_reading *reading);

/* layout_answer.c */
json_t *layout_answer(const layout_problem *problem, const pkv_reading *reading);
json_t *layout_pointers(const pkv_tensor_pointer *pointers, uint32_t n);
json_t *layout_refused(pkv_status st, const pkv_refusal *refusal);
/* A line for each layer whose reading is not to be trusted. */
json_t *layout_warnings(const layout_problem *problem, const pkv_reading *reading);
/* Name of a layer of the model. */
json_t *layout_layer_name(const layout_problem *problem, uint32_t layer);
/* Exit code of a reading: 1 for a refusal. */
int layout_exit_code(pkv_status st);

/* layout_screen.c: for people */
void layout_screen(const layout_problem *problem, const pkv_reading *reading);

#endif
