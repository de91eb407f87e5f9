/* apart.h  Rows that cannot meet. */
#ifndef PKVI_TRANSFER_APART_H
#define PKVI_TRANSFER_APART_H

#include "transfer/transfer.h"

/* Whether planes, chunks, slots and blocks alone show that no byte is written twice or read and
 * written. False says nothing. NOMEM. */
pkv_status pkvi_rows_apart(const pkvi_job *job, pkvi_arena *arena, bool *apart);

#endif
