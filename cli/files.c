/* files.c  Whole files and lines of a stream. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* More than any config or document holds; a bomb ends here. */
#define MAX_FILE_BYTES ((size_t)64 << 20)

static char *read_stream(FILE *in, const char *path, size_t *len_out)
{
    size_t room = 65536, len = 0;
    char *text = malloc(room);
    while (text) {
        len += fread(text + len, 1, room - len, in);
        if (ferror(in)) {
            fprintf(stderr, "pagedkv: %s: %s\n", path, strerror(errno));
            break;
        }
        if (len < room) {
            *len_out = len;
            return text;
        }
        if (room > MAX_FILE_BYTES) {
            fprintf(stderr, "pagedkv: %s: more than 64 MiB\n", path);
            break;
        }
        char *larger = realloc(text, room * 2);
        if (!larger) {
            fprintf(stderr, "pagedkv: %s: out of memory\n", path);
            break;
        }
        text = larger;
        room *= 2;
    }
    free(text);
    return NULL;
}

char *cli_read_file(const char *path, size_t *len_out)
{
    if (strcmp(path, "-") == 0) {
        return read_stream(stdin, "stdin", len_out);
    }
    FILE *in = fopen(path, "rb");
    if (!in) {
        fprintf(stderr, "pagedkv: %s: %s\n", path, strerror(errno));
        return NULL;
    }
    char *text = read_stream(in, path, len_out);
    (void)fclose(in);
    return text;
}

char *cli_read_line(FILE *in, char **line, size_t *room, size_t *len_out)
{
    ssize_t n;
    do {
        n = getline(line, room, in);
        if (n < 0) {
            return NULL;
        }
        while (n > 0 && ((*line)[n - 1] == '\n' || (*line)[n - 1] == '\r')) {
            (*line)[--n] = '\0';
        }
    } while (strspn(*line, " \t\r\n") >= (size_t)n);
    *len_out = (size_t)n;
    return *line;
}
