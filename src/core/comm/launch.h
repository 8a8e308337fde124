/* From a collective to a kernel on a queue. */
#ifndef STNI_CORE_COMM_LAUNCH_H
#define STNI_CORE_COMM_LAUNCH_H

#include "core/box/box_list.h"
#include "core/comm/collective.h"

#include <stddef.h>

struct stn_request {
    stn_comm *comm;  /* NULL once that is destroyed; then `end` is too */
    stn_request *prev, *next; /* of the communicator's list */
    stn_event *end;
    atomic_int status; /* of the collective; NOT_RUN until it has */
};

/* Arrays of a queued collective; the kernel frees them, and the communicator's end those of a collective that never
 * ran. */
struct stni_comm_block {
    struct stni_comm_block *prev, *next;
    max_align_t data[];
};

enum { STNI_REQUEST_NOT_RUN = -1 };

/* Launches a collective on `queue`: records, counts, waits for collectives with a request that were called before.
 * Arrays are copied where the queue runs it later. `request`: NULL, or filled by the kernel. */
stn_status stni_comm_launch(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll, stn_request *request);

/* The same as a part of the step that the queue records, without a request. Arrays are copied. */
stn_status stni_comm_launch_recorded(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

/* The communicator is destroyed: steps that it was called in cannot be repeated, and what its queue records now
 * knows it no more. */
void stni_comm_leave_recorded(stn_comm *comm);
void stni_comm_leave_captured(stn_comm *comm);

/* 1 where collectives that are called now are recorded with what is on the queue (captured.c): it records, and the
 * communicator can. */
int stni_comm_captures(const stn_comm *comm, const stn_queue *queue);

/* Each launch of the graph costs that much more. */
stn_status stni_comm_note_captured(stn_comm *comm, stn_queue *queue, const struct stni_comm_stats *cost);

/* Staging memory that lives as long as the graph; NULL fails `queue`. */
void *stni_comm_staging_captured(stn_comm *comm, stn_queue *queue, size_t bytes);

/* Adds a cost to others. */
void stni_comm_count(struct stni_comm_stats *stats, const struct stni_comm_stats *cost);

/* Runs a collective of host memory on the calling thread, once nothing of the communicator is under way. */
stn_status stni_comm_run_here(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

/* One of host memory, for a communicator of functions from outside: by its entries for agreement, else, on the CPU,
 * by its other ones. */
stn_status stni_comm_agree_run(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

/* 1 where ranks can agree host to host, whatever the device of their data. */
int stni_comm_has_agreement(const stn_comm *comm);

/* A queue that has failed runs no collective, and the peers would wait for this rank: so it aborts the family.
 * Returns the queue's failure. */
stn_status stni_comm_fail_for_queue(stn_comm *comm, const stn_queue *queue);

/* Launches a collective on the communicator's side queue, behind `after`, a request of any communicator of the
 * context, where that is not NULL. */
stn_status stni_comm_launch_request(stn_comm *comm, const struct stni_coll *coll, const stn_request *after,
                                    stn_request **out);

/* The communicator is destroyed and nothing runs any more: requests that nobody has waited for keep the status of
 * their collectives. `unrun` is the status of those that never ran. */
void stni_comm_leave_requests(stn_comm *comm, stn_status unrun);

/* The queue of collectives without a request; made on first use. Ready to run where it is the communicator's own. */
stn_status stni_comm_main_queue(stn_comm *comm, stn_queue **out);

/* Keeps a text as the communicator's last failure; returns `status`. */
stn_status stni_comm_fail(stn_comm *comm, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/* Compares the collective over the ranks (checks mode); fails `queue` on all of them where they differ. */
stn_status stni_comm_check(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll, int64_t sequence);

/* Whether a communicator of exact sums has to build this collective, since no table adds that way. Its counts are
 * its own: the fake one, which moves nothing, does not. */
int stni_comm_adds_exactly(const stn_comm *comm, const struct stni_coll *coll);

/* A collective that the table lacks, built from those that it has. */
stn_status stni_comm_build(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

/* An exchange made of groups, for tables without the entry. */
stn_status stni_comm_exchange_staged(stn_comm *comm, stn_queue *queue, const stn_exchange *messages);

/* Its two ways (staged_copy.c, staged_reduce.c). */
stn_status stni_staged_copy(stn_comm *comm, stn_queue *queue, const stn_exchange *messages);
stn_status stni_staged_reduce(stn_comm *comm, stn_queue *queue, const stn_exchange *messages);

/* `bytes` of the communicator's staging memory, which is the queue's device's; NULL fails `queue`. */
void *stni_staging(stn_comm *comm, stn_queue *queue, size_t bytes);
/* Gives it back, and what is pinned, before the communicator goes to a queue of another device or is destroyed. */
void stni_staging_free(stn_comm *comm);
void stni_pinned_free(stn_comm *comm);

/* 1 where a collective on this queue goes through memory of the host: that is all the communicator moves, and the
 * queue's device has its own. */
int stni_comm_needs_host(const stn_comm *comm, const stn_queue *queue);

/* Runs such a collective. */
stn_status stni_comm_run_through_host(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

/* Runs one whose buffers are memory of the host, on the communicator's own queue of the CPU. Its failure becomes the
 * queue's. */
stn_status stni_comm_run_on_host(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll);

/* Copies or reduces boxes for a collective: at once on the CPU, whose queue is the calling thread, else on the
 * queue. A list's copies are launched by stni_box_list_launch. */
void stni_staged_begin(struct stni_box_list *list, stn_queue *queue);
stn_status stni_staged_move(stn_queue *queue, const stn_box *dst, const stn_box *src, size_t element_size);
stn_status stni_staged_combine(const stn_comm *comm, stn_queue *queue, const stn_box *dst, int n_src,
                               const stn_box *src, stn_dtype dtype, stn_reduce_op op);

/* Elements [from, to) of a box, packed at or unpacked from `dense`. */
stn_status stni_staged_pack(struct stni_box_list *list, void *dense, const stn_box *box, int64_t from, int64_t to,
                            size_t element_size);
stn_status stni_staged_unpack(struct stni_box_list *list, const stn_box *box, const void *dense, int64_t from,
                              int64_t to, size_t element_size);

/* Copies the messages from this rank to itself. */
stn_status stni_staged_self(const stn_comm *comm, stn_queue *queue, const stn_exchange *messages);

extern const stn_comm_ops stni_fake_ops;

#endif
