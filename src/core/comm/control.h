/* What modules are given of communicators of hosts (stn_host.comm). */
#ifndef STNI_CORE_COMM_CONTROL_H
#define STNI_CORE_COMM_CONTROL_H

#include <shardtensor/module.h>

extern const stn_host_comm stni_host_comm;

#endif
