/* block.h  What a pool keeps of a block: all that most operations touch, in half a line of the
 * processor's cache. */
#ifndef PKVI_BLOCK_H
#define PKVI_BLOCK_H

#include <stdint.h>

/* What content is found by. Equal names form a ring, in the order in which they were given. */
typedef struct pkvi_name {
    union {
        uint32_t group; /* of its key */
        uint32_t run;   /* by runs: where the content lies; 0: no name */
    };
    union {
        uint32_t block; /* that the key names */
        uint32_t at;    /* by runs: the unit of the run */
    };
    uint32_t next, prev;
} pkvi_name;

typedef struct pkvi_block {
    uint32_t place; /* in the list of those that nobody holds, or PKVI_NO_PLACE */
    uint32_t refs;
    uint32_t units; /* of the prefix that its primary key names; 0: it has none */
    union {
        uint32_t secondary; /* its first secondary key, or PKVI_NO_ENTRY */
        uint32_t run_group; /* by runs: of its name, if it has one */
    };
    pkvi_name name; /* the primary one */
} pkvi_block;

#endif
