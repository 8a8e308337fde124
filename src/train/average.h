/* An average: what it is the mean of, and the means. */
#ifndef STNI_TRAIN_AVERAGE_H
#define STNI_TRAIN_AVERAGE_H

#include <shardtensor/train.h>

struct stni_average_entry {
    char *name;
    stn_tensor *mean, *parameter;
};

struct stn_average {
    stn_context *context;
    int n;
    int swapped; /* 1: parameters hold the means */
    struct stni_average_entry entry[];
};

#endif
