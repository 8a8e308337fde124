/* What a file is to hold or to give: a growing list of tensors, numbers and texts with their names. */
#ifndef STNI_TRAIN_CONTENTS_H
#define STNI_TRAIN_CONTENTS_H

#include "train/load.h"

struct stni_contents {
    stn_context *context;
    int n, cap, n_metadata, cap_metadata, n_texts, cap_texts;
    stn_named_tensor *tensors;
    stn_metadata *metadata;
    uint64_t *numbers; /* as many as metadata: what loading found */
    char **texts;      /* owned */
};

/* Adds to the list. The name is NAME, or NAME.PART where `part` is not NULL; names and texts without a part are
 * borrowed. */
stn_status stni_contents_add_tensor(struct stni_contents *contents, const char *name, const char *part,
                                    stn_tensor *tensor);
stn_status stni_contents_add_number(struct stni_contents *contents, const char *name, const char *part, uint64_t value);
stn_status stni_contents_add_text(struct stni_contents *contents, const char *key, const char *value);

/* Reads the numbers of all metadata from the file. Local; what is wrong is left in the load's error, which begins
 * with `what`. */
stn_status stni_contents_read_numbers(struct stni_contents *contents, struct stni_load *load, const char *what);

/* That `n` of these, from `first` on, count something. */
stn_status stni_contents_check_counts(const struct stni_contents *contents, int first, int n, struct stni_load *load,
                                      const char *what);

/* A number as text, in digits alone, so that no locale has a say. 1 on success. */
int stni_parse_number(const char *text, uint64_t *out);

void stni_contents_fini(struct stni_contents *contents);

#endif
