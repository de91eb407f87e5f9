/* transfer_files.c  Files as memory: the same file is the same memory, whatever it is called. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfer.h"

static bool no_file(transfer_job *job, const char *path, const char *why)
{
    (void)snprintf(job->text, sizeof job->text, "%.300s: %s", path, why);
    job->end = TRANSFER_NO_FILE;
    return false;
}

/* Until the files are open, a buffer's `bytes` is the number of its file in the list of names. */
bool transfer_name_file(transfer_job *job, const json_t *name, const char *where, bool written,
                        pkv_transfer_buffer *buffer)
{
    const char *text = json_string_value(name);
    if (!text || !*text) {
        return transfer_malformed(job, "%s: the name of a file was expected", where);
    }
    transfer_file *files = realloc(job->files, (job->n_files + 1) * sizeof *files);
    if (!files) {
        fprintf(stderr, "pagedkv: out of memory\n");
        exit(EXIT_ENVIRONMENT);
    }
    const size_t room = strlen(job->folder) + strlen(text) + 1;
    char *path = transfer_get(job, room, 1);
    (void)snprintf(path, room, "%s%s", text[0] == '/' ? "" : job->folder, text);
    buffer->bytes = job->n_files;
    files[job->n_files++] = (transfer_file){.path = path, .written = written};
    job->files = files;
    return true;
}

static bool identify(transfer_job *job, transfer_file *file)
{
    struct stat st;
    if (stat(file->path, &st) != 0) {
        return no_file(job, file->path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return no_file(job, file->path, "not a regular file");
    }
    file->device = (uint64_t)st.st_dev;
    file->inode = (uint64_t)st.st_ino;
    return true;
}

static bool map(transfer_job *job, transfer_file *file)
{
    struct stat st;
    const int fd = open(file->path, (file->written ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0) {
        return no_file(job, file->path, strerror(errno));
    }
    if (fstat(fd, &st) != 0) {
        (void)no_file(job, file->path, strerror(errno));
        (void)close(fd);
        return false;
    }
    file->bytes = (uint64_t)st.st_size;
    if (file->bytes > 0) {
        const int rights = PROT_READ | (file->written && !job->dry_run ? PROT_WRITE : 0);
        void *data = mmap(NULL, file->bytes, rights, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            (void)no_file(job, file->path, strerror(errno));
            (void)close(fd);
            return false;
        }
        file->data = data;
    }
    (void)close(fd);
    return true;
}

/* The first name of a file. */
static transfer_file *first_name(transfer_job *job, size_t i)
{
    transfer_file *files = job->files;
    size_t j = 0;
    while (files[j].device != files[i].device || files[j].inode != files[i].inode) {
        j++;
    }
    return &files[j];
}

static void settle(transfer_job *job, const pkv_transfer_buffer *buffers, uint32_t n)
{
    static char empty;
    for (uint32_t i = 0; i < n; i++) {
        pkv_transfer_buffer *buffer = (pkv_transfer_buffer *)(uintptr_t)&buffers[i];
        const transfer_file *file = first_name(job, buffer->bytes);
        buffer->data = file->data ? file->data : &empty;
        buffer->bytes = file->bytes;
    }
}

bool transfer_open_files(transfer_job *job)
{
    const pkv_transfer_params *p = &job->params;
    for (size_t i = 0; i < job->n_files; i++) {
        if (!identify(job, &job->files[i])) {
            return false;
        }
        first_name(job, i)->written |= job->files[i].written;
    }
    for (size_t i = 0; i < job->n_files; i++) {
        if (first_name(job, i) == &job->files[i] && !map(job, &job->files[i])) {
            return false;
        }
    }
    for (uint32_t r = 0; p->src && r < p->n_src; r++) {
        settle(job, p->src[r].buffers, p->src[r].n_buffers);
    }
    for (uint32_t r = 0; p->dst && r < p->n_dst; r++) {
        settle(job, p->dst[r].buffers, p->dst[r].n_buffers);
    }
    if (p->chunks) {
        settle(job, p->chunks->chunks, p->chunks->n_chunks);
    }
    return true;
}

void transfer_free(transfer_job *job)
{
    for (size_t i = 0; i < job->n_files; i++) {
        if (job->files[i].data) {
            (void)munmap(job->files[i].data, job->files[i].bytes);
        }
    }
    for (size_t i = 0; i < job->n_pieces; i++) {
        free(job->pieces[i]);
    }
    free(job->files);
    free(job->pieces);
    json_decref(job->root);
}
