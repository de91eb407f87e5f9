/* test_encoder_recorded.c  Work of an encoder cache beside recorded answers of vLLM's own class.
 * tests/data/encoder/README.md describes the lines. Usage: test_encoder_recorded [FILE] */
#include "encoder_fixture.h"

enum { MOST_REQUESTS = 4096, LINE = 512 };

static const char *file = "tests/data/encoder/recorded.txt";

typedef struct replay {
    uint64_t line;
    pkv_encoder *e;
    bool single;
    pkv_encoder_request *requests[MOST_REQUESTS];
    uint64_t n_inputs[MOST_REQUESTS];
    char answer[LINE];
} replay;

static const char *yes_or_no(pkv_status st)
{
    return st == PKV_OK ? "yes" : "no";
}

static void begin(replay *r, const char *op)
{
    char kind[16];
    uint64_t capacity;
    assert_int_equal(sscanf(op, "cache %" SCNu64 " %15s", &capacity, kind), 2);
    pkv_encoder_destroy(r->e); /* and its requests */
    memset(r->requests, 0, sizeof r->requests);
    r->single = strcmp(kind, "single") == 0;
    r->e = open_encoder(capacity, r->single, NULL);
}

static void open_request(replay *r, uint64_t number, const char *inputs)
{
    assert_null(r->requests[number]);
    assert_ok(try_open(r->e, inputs, &r->requests[number]));
    r->n_inputs[number] = 0;
    for (const char *at = inputs; *at; at++) {
        r->n_inputs[number] += *at >= 'A';
    }
}

static void ask(replay *r, const char *name, pkv_encoder_request *request, const uint64_t *args)
{
    if (strcmp(name, "lookup") == 0) {
        const pkv_status st = pkv_encoder_lookup(request, args[1]);
        strcpy(r->answer, st == PKV_E_VALUE ? "mismatch" : yes_or_no(st));
    } else if (strcmp(name, "room") == 0) {
        strcpy(r->answer, yes_or_no(pkv_encoder_make_room(request, args[1], args[2], args[3])));
    } else if (strcmp(name, "allocate") == 0) {
        assert_ok(pkv_encoder_allocate(request, args[1]));
    } else if (strcmp(name, "release") == 0) {
        strcpy(r->answer, yes_or_no(pkv_encoder_release(request, args[1])));
    } else if (strcmp(name, "drop") == 0) {
        pkv_encoder_release_all(request);
    } else if (strcmp(name, "close") == 0) {
        pkv_encoder_close(request);
        r->requests[args[0]] = NULL;
    } else {
        fail_msg("%s:%" PRIu64 ": %s", file, r->line, name);
    }
}

static void ask_cache(replay *r, const char *name, const char *op)
{
    uint64_t n;
    if (strcmp(name, "evicted") == 0) {
        const char *const *ids = pkv_encoder_take_evicted(r->e, &n);
        join(r->answer, sizeof r->answer, ids, n);
    } else if (strcmp(name, "find") == 0) {
        strcpy(r->answer, "no");
        if (pkv_encoder_find(r->e, op + strlen("find "), &n) == PKV_OK) {
            (void)snprintf(r->answer, sizeof r->answer, "%" PRIu64, n);
        }
    } else if (strcmp(name, "reset") == 0) {
        pkv_encoder_reset(r->e);
    } else {
        fail_msg("%s:%" PRIu64 ": %s", file, r->line, name);
    }
}

static void append_state(const replay *r, char *text, const uint64_t *number)
{
    const char *ids[MOST_IDS];
    char idle[LINE];
    size_t used = strlen(text);
    join(idle, sizeof idle, ids, pkv_encoder_idle_items(r->e, ids, MOST_IDS));
    used += (size_t)snprintf(text + used, LINE - used, "%" PRIu64 "/%" PRIu64 " %" PRIu64 "%s%s",
                             pkv_encoder_free_slots(r->e), pkv_encoder_freeable_slots(r->e),
                             pkv_encoder_n_items(r->e), *idle ? " " : "", idle);
    if (!number || !r->requests[*number]) {
        return;
    }
    used += (size_t)snprintf(text + used, LINE - used, " :");
    for (uint64_t i = 0; i < r->n_inputs[*number]; i++) {
        if (pkv_encoder_holds(r->requests[*number], i)) {
            used += (size_t)snprintf(text + used, LINE - used, " %" PRIu64, i);
        }
    }
}

/* "name number number... " with as many numbers as there are. */
static int arguments_of(const char *op, char *name, uint64_t *args)
{
    return sscanf(op, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, name, &args[0], &args[1],
                  &args[2], &args[3]) -
           1;
}

/* One line without its end: what stands after " > " must be ours. */
static void replay_line(replay *r, char *line)
{
    char name[16], text[LINE];
    uint64_t args[4] = {0};
    char *wanted = strstr(line, " > ");
    assert_non_null(wanted);
    *wanted = '\0';
    wanted += strlen(" > ");
    const int n = arguments_of(line, name, args);
    r->answer[0] = '\0';
    if (n < 1) {
        ask_cache(r, name, line);
    } else if (strcmp(name, "open") == 0) {
        const char *inputs = strchr(line + strlen("open "), ' ');
        open_request(r, args[0], inputs ? inputs + 1 : "");
    } else {
        assert_non_null(r->requests[args[0]]);
        ask(r, name, r->requests[args[0]], args);
    }
    checked(r->e);
    (void)snprintf(text, sizeof text, "%s | ", r->answer);
    append_state(r, text, n < 1 ? NULL : &args[0]);
    if (strcmp(text, wanted) != 0) {
        fail_msg("%s:%" PRIu64 ": %s\n  is     %s\n  wanted %s", file, r->line, line, text, wanted);
    }
}

static void a_cache_decides_what_upstream_decided(void **state)
{
    (void)state;
    static replay r;
    char line[LINE];
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        r.line++;
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "cache ", strlen("cache ")) == 0) {
            begin(&r, line);
        } else {
            replay_line(&r, line);
        }
    }
    assert_int_equal(fclose(in), 0);
    assert_true(r.line > 1000);
    pkv_encoder_destroy(r.e);
    print_message("%" PRIu64 " lines\n", r.line);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_decides_what_upstream_decided),
    };
    file = argc > 1 ? argv[1] : file;
    return cmocka_run_group_tests_name("encoder recorded", tests, NULL, NULL);
}
