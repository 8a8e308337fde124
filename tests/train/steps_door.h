/* On which worlds test_steps runs its bodies. */
#ifndef SHARDTENSOR_TESTS_TRAIN_STEPS_DOOR_H
#define SHARDTENSOR_TESTS_TRAIN_STEPS_DOOR_H

#include <shardtensor/shardtensor.h>

void steps_on_worlds(stn_rank_main body, void *arg);

#endif
