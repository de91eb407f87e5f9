/* cmd_keys.c  pagedkv keys: the key chain of token ids. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pkv/keys_document.h>

#include "cli.h"

/* A request with its keys. */
typedef struct chain {
    const pkv_keys_request *request;
    uint32_t key_bytes;
    pkv_key none_key;
    uint64_t n_keys;
    pkv_key *keys;
} chain;

static json_t *event_ints(const chain *c)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < c->n_keys; i++) {
        char text[24];
        (void)snprintf(text, sizeof text, "%" PRIu64, pkv_key_event_int(&c->keys[i], c->key_bytes));
        cli_push(list, json_string(text));
    }
    return list;
}

/* Every step-th key, as it is or as the name in a group. */
static json_t *key_list(const chain *c, uint64_t step, bool in_group)
{
    json_t *list = json_array();
    for (uint64_t i = 1; i <= c->n_keys / step; i++) {
        uint8_t name[sizeof(pkv_key) + 4];
        const pkv_key *key = &c->keys[i * step - 1];
        if (in_group) {
            pkv_key_group_bytes(key, c->key_bytes, (uint32_t)c->request->group, name);
            cli_push(list, cli_hex(name, c->key_bytes + 4));
        } else {
            cli_push(list, cli_hex(key->bytes, c->key_bytes));
        }
    }
    return list;
}

static json_t *extra_keys(const chain *c)
{
    const pkv_keys_request *r = c->request;
    json_t *list = json_array();
    for (uint64_t i = 0; i < c->n_keys; i++) {
        cli_push(list, cli_unit_extras(&r->extras, i * r->unit, (i + 1) * r->unit, r->lookahead));
    }
    return list;
}

static json_t *lookahead_tokens(const chain *c)
{
    const pkv_keys_request *r = c->request;
    json_t *list = json_array();
    for (uint64_t i = 0; i < c->n_keys; i++) {
        json_t *tokens = json_array();
        for (uint64_t t = 0; t < r->lookahead; t++) {
            cli_push(tokens, json_integer(r->tokens[(i + 1) * r->unit + t]));
        }
        cli_push(list, tokens);
    }
    return list;
}

static json_t *answer_of(const chain *c)
{
    const pkv_keys_request *r = c->request;
    const uint64_t step = r->view ? r->view / r->unit : 1;
    json_t *answer = json_object();
    cli_set(answer, "none_hash", cli_hex(c->none_key.bytes, c->key_bytes));
    cli_set(answer, "keys", key_list(c, 1, false));
    cli_set(answer, "event_ints", event_ints(c));
    cli_set(answer, "extra_keys", extra_keys(c));
    if (r->lookahead > 0) {
        cli_set(answer, "lookahead_tokens", lookahead_tokens(c));
    }
    if (r->view > 0) {
        cli_set(answer, "view_keys", key_list(c, step, false));
    }
    if (r->group != PKV_NO_GROUP) {
        cli_set(answer, "group_keys", key_list(c, step, true));
    }
    return answer;
}

/* The keys of a request; c->keys is the caller's to free. */
static pkv_status compute(const pkv_keys_request *r, chain *c)
{
    pkv_hasher *hasher;
    *c = (chain){.request = r};
    pkv_status st = pkv_hasher_create(&r->hasher, &hasher);
    if (st != PKV_OK) {
        return st;
    }
    c->key_bytes = pkv_hasher_key_bytes(hasher);
    c->none_key = *pkv_hasher_none_key(hasher);
    c->n_keys = pkv_key_count(r->n_tokens, r->unit, r->lookahead);
    c->keys = calloc(c->n_keys + 1, sizeof *c->keys);
    if (!c->keys) {
        fprintf(stderr, "pagedkv: out of memory\n");
        exit(EXIT_ENVIRONMENT);
    }
    st = pkv_key_chain(hasher, &r->extras, r->tokens, r->n_tokens, r->unit, r->lookahead, 0,
                       c->n_keys, NULL, c->keys);
    pkv_hasher_destroy(hasher);
    return st;
}

static void print_keys(const chain *c)
{
    for (uint64_t i = 0; i < c->n_keys; i++) {
        for (uint32_t b = 0; b < c->key_bytes; b++) {
            printf("%02x", c->keys[i].bytes[b]);
        }
        printf("\n");
    }
    if (fflush(stdout) != 0) {
        fprintf(stderr, "pagedkv: stdout: writing failed\n");
        exit(EXIT_ENVIRONMENT);
    }
}

/* {"error", "code"}: to those who read lines, all that would be exit code 2 is bad input. */
static json_t *error_answer(pkv_status st)
{
    return cli_error(cli_exit_code(st) == EXIT_INPUT ? PKV_E_INVAL : st);
}

/* Answers one document: as JSON, errors included, into *answer; or, answer NULL, as lines. */
static pkv_status answer_text(const char *text, size_t len, json_t **answer)
{
    pkv_keys_document *doc;
    chain c = {0};
    pkv_status st = pkv_keys_document_read(text, len, NULL, &doc);
    if (st == PKV_OK) {
        st = compute(pkv_keys_document_request(doc), &c);
    }
    if (st == PKV_OK && !answer) {
        print_keys(&c);
    }
    if (answer) {
        *answer = st == PKV_OK ? answer_of(&c) : error_answer(st);
    }
    free(c.keys);
    pkv_keys_document_destroy(doc);
    return st;
}

/* One document a line; an answer for each, errors included, until the end of input. */
static int keys_lines(void)
{
    char *line = NULL;
    size_t room = 0, len = 0;
    while (cli_read_line(stdin, &line, &room, &len)) {
        json_t *answer;
        (void)answer_text(line, len, &answer);
        cli_print_json(answer);
        json_decref(answer);
    }
    free(line);
    return EXIT_DONE;
}

static int keys_file(const char *path, bool json)
{
    size_t len;
    json_t *answer = NULL;
    char *text = cli_read_file(path, &len);
    if (!text) {
        return EXIT_ENVIRONMENT;
    }
    const pkv_status st = answer_text(text, len, json ? &answer : NULL);
    if (st != PKV_OK) {
        fprintf(stderr, "pagedkv: %s\n", pkv_last_error());
    } else if (json) {
        cli_print_json(answer);
    }
    json_decref(answer);
    free(text);
    return cli_exit_code(st);
}

int cmd_keys(int argc, char **argv)
{
    cli_option options[] = {
        {"--file", "FILE|-", "a JSON document; -: one a line on stdin, one answer a line", NULL},
        {"--json", NULL, "all that the document asks for, as JSON; without it one key a line",
         NULL},
        {NULL, NULL, NULL, NULL},
    };
    cli_command command = {
        .usage = "pagedkv keys --file FILE|- [--json]",
        .summary = "The chain of block keys of token ids: sha256_cbor and xxhash_cbor as vLLM\n"
                   "computes them, pkv_sha256 and pkv_xxh3 with a cluster seed. The document is\n"
                   "described in docs/formats/keys.md.",
        .options = options,
    };
    const int done = cli_parse(&command, argc, argv);
    if (done >= 0) {
        return done;
    }
    const char *path = cli_given(&command, "--file");
    if (!path) {
        fprintf(stderr, "pagedkv: keys needs --file FILE; --help shows what it holds\n");
        return EXIT_INPUT;
    }
    return strcmp(path, "-") == 0 ? keys_lines() : keys_file(path, cli_has(&command, "--json"));
}
