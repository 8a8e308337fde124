/* A file under way: it lies beside its target under a name of its own until it is complete, then takes the target's
 * place in one step. */
#ifndef STNI_TRAIN_PART_H
#define STNI_TRAIN_PART_H

#include "core/base/status.h"

#include <limits.h>
#include <sys/stat.h>

struct stni_part {
    char target[PATH_MAX]; /* what is replaced: where the caller's path leads to, through symbolic links */
    char path[PATH_MAX];   /* the file under way; "" while there is none */
    struct stat old;       /* the target's; st_mode 0 where there was none */
    int file;              /* open and locked by whoever created it, else -1 */
};

/* Resolves the caller's path. Refused: what exists and is no regular file, what may not be written. */
stn_status stni_part_find(struct stni_part *part, const char *path, struct stni_error *error);

/* Creates the file under a name that nobody else uses, of which `token` is what differs, and removes what killed
 * programs have left beside the same target. */
stn_status stni_part_create(struct stni_part *part, int64_t *token, struct stni_error *error);

/* What the creator's file is called, on another rank. */
void stni_part_name(struct stni_part *part, int64_t token);

/* The file, which is on the disk already, takes the target's place, with the target's mode and, where that is
 * allowed, its owner. */
stn_status stni_part_commit(struct stni_part *part, struct stni_error *error);

/* Removes the file if it has not been committed. May be called on a part that was never created. */
void stni_part_discard(struct stni_part *part);

#endif
