/* transfer.h  A transfer job: what the JSON says, the files that it names, and what comes out. */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "cli.h"

enum { TRANSFER_MAX_WORKERS = 256 };

/* How a job ended. */
typedef enum transfer_end {
    TRANSFER_DONE,
    TRANSFER_REFUSED,   /* by a rule */
    TRANSFER_MALFORMED, /* the document */
    TRANSFER_NO_FILE    /* the environment */
} transfer_end;

/* A file that sides name; the same one is here once, whatever its names. */
typedef struct transfer_file {
    const char *path; /* as first named, for texts */
    uint64_t device, inode, bytes;
    void *data; /* NULL: empty, or not mapped */
    bool written;
} transfer_file;

typedef struct transfer_job {
    json_t *root;       /* owned; names are borrowed from it */
    const char *folder; /* of relative names, "" or with a slash at its end */
    pkv_transfer_params params;
    pkv_transfer_chunks chunks;
    int64_t *layers; /* [n_layers] as given; NULL: all */
    uint32_t n_layers;
    uint32_t workers;
    bool layerwise, dry_run;

    transfer_file *files;
    size_t n_files;
    void **pieces; /* memory of this job, freed with it */
    size_t n_pieces;

    transfer_end end;
    char text[512];   /* if it is not done */
    const char *code; /* of a refusal */
    char field[96];
} transfer_job;

/* Zeroed memory that lives as long as the job. */
void *transfer_get(transfer_job *job, size_t n, size_t bytes);
/* Ends the job; false. */
bool transfer_malformed(transfer_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool transfer_refused(transfer_job *job, const char *code, const char *field, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

/* Takes the reference of root. False: the job has ended. */
bool transfer_read(transfer_job *job, json_t *root);

/* ---- of the document ---- */

/* Every field of an object is one of these; NULL ends them. */
bool transfer_known(transfer_job *job, const json_t *object, const char *where,
                    const char *const *names);
/* Integers; `otherwise` < 0: it must be there. */
bool transfer_int(transfer_job *job, const json_t *object, const char *where, const char *name,
                  json_int_t least, json_int_t otherwise, uint64_t *out);
/* Memory of a file: [1] of buffers, filled once all files are known. */
bool transfer_name_file(transfer_job *job, const json_t *name, const char *where, bool written,
                        pkv_transfer_buffer *buffer);
/* Pages, as planes or as a layout. */
bool transfer_read_pages(transfer_job *job, const json_t *object, const char *where, bool written,
                         pkv_transfer_pages *out);
/* `layout` instead of `layers`: the layers of a layout problem. */
bool transfer_read_layout(transfer_job *job, const json_t *object, const char *where,
                          pkv_transfer_pages *out);

/* ---- files ---- */

/* Maps all files and tells every buffer where its memory is. */
bool transfer_open_files(transfer_job *job);

/* Plans it, and moves the bytes. The answer, or NULL if the job has ended otherwise. */
json_t *transfer_move(transfer_job *job);
void transfer_free(transfer_job *job);

#endif
