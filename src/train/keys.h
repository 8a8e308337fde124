/* Where the entries of a list stand, by name or by address: a list of many thousands is not read through for each. */
#ifndef STNI_TRAIN_KEYS_H
#define STNI_TRAIN_KEYS_H

#include "core/context/context.h"

/* Zero at first. */
struct stni_keys {
    struct stni_key *table;
};

/* Where the entry of a key stands; -1. */
int stni_keys_find_name(const struct stni_keys *keys, const char *name);
int stni_keys_find_address(const struct stni_keys *keys, const void *address);

/* Adds a key that is not there, of entry `at`. A name is borrowed until it is taken out. @return STN_ERR_MEMORY, kept. */
stn_status stni_keys_add_name(struct stni_keys *keys, stn_context *context, const char *name, int at);
stn_status stni_keys_add_address(struct stni_keys *keys, stn_context *context, const void *address, int at);

/* Takes out the keys of entry `n` and those behind it. */
void stni_keys_cut(struct stni_keys *keys, int n);

#endif
