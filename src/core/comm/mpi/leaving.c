/* The end of a family. Ranks leave it at different times, and a message may still be on its way to one that has
 * left; MPI would give it to the next communicator that gets the same number. So each rank tells the others that it
 * has left, and the communicator is freed when all have: between two ranks messages are matched in the order in
 * which they were sent, hence nothing comes after that notice. */
#include "core/comm/mpi/family.h"

#include <stdlib.h>

/* Families that this process is in; and those that it has left and others have not, as far as it knows, which are
 * looked at when a family is opened or left. */
static struct {
    pthread_mutex_t lock;
    struct stni_mpi_family *present, *first;
} left = {.lock = PTHREAD_MUTEX_INITIALIZER};

void stni_mpi_enter(struct stni_mpi_family *family)
{
    pthread_mutex_lock(&left.lock);
    family->next = left.present;
    left.present = family;
    pthread_mutex_unlock(&left.lock);
}

void stni_mpi_is_going(const struct stni_mpi_family *family)
{
    pthread_mutex_lock(&left.lock);
    struct stni_mpi_family **at = &left.present;
    while (*at && *at != family)
        at = &(*at)->next;
    if (*at)
        *at = family->next;
    pthread_mutex_unlock(&left.lock);
}

/* On a thread that may call MPI. */
static void tell(struct stni_mpi_family *family)
{
    family->told_leaving = 1;
    stni_mpi_lock();
    for (int r = 0; r < family->size; r++)
        if (r != family->rank && MPI_Isend(&family->leaving, (int)sizeof family->leaving, MPI_BYTE, r,
                                           STNI_MPI_NOTICE_TAG, family->comm, &family->telling[r]) != MPI_SUCCESS)
            family->telling[r] = MPI_REQUEST_NULL;
    stni_mpi_unlock();
}

/* Whether no message is left. One that nobody has received would be received by another family; then the
 * communicator of MPI is kept for ever, so that its number stays in use. */
static int is_empty(struct stni_mpi_family *family)
{
    int there = 0;
    stni_mpi_lock();
    int code = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, family->comm, &there, MPI_STATUS_IGNORE);
    stni_mpi_unlock();
    return code == MPI_SUCCESS && !there;
}

static int all_taken(struct stni_mpi_family *family)
{
    int all = 1;
    stni_mpi_lock();
    for (int r = 0; r < family->size; r++) {
        int done = 1;
        if (family->telling[r] != MPI_REQUEST_NULL &&
            MPI_Test(&family->telling[r], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            done = 1;
        all &= done;
    }
    stni_mpi_unlock();
    return all;
}

/* The standard calls MPI_Comm_free collective, but both implementations only drop a reference. */
static int try_to_end(struct stni_mpi_family *family)
{
    if (stni_mpi_is_finalised())
        return 1;
    if (!family->told_leaving)
        tell(family);
    stni_mpi_poll_abort(family);
    if (atomic_load(&family->aborted)) {
        family->told = 1; /* MPI may still read what is told */
        return 1;
    }
    if (!all_taken(family) || atomic_load(&family->n_left) < family->size - 1)
        return 0;
    if (is_empty(family)) {
        stni_mpi_lock();
        MPI_Comm_free(&family->comm);
        stni_mpi_unlock();
    }
    return 1;
}

void stni_mpi_end_families(void)
{
    if (!stni_mpi_thread_allowed())
        return;
    pthread_mutex_lock(&left.lock);
    for (struct stni_mpi_family **at = &left.first, *family; (family = *at) != NULL;) {
        if (!try_to_end(family)) {
            at = &family->next;
            continue;
        }
        *at = family->next;
        stni_mpi_family_free(family);
    }
    pthread_mutex_unlock(&left.lock);
}

void stni_mpi_leave(struct stni_mpi_family *family)
{
    pthread_mutex_lock(&left.lock);
    family->next = left.first;
    left.first = family;
    pthread_mutex_unlock(&left.lock);
    stni_mpi_end_families();
}

void stni_mpi_tell_exit(void)
{
    if (!stni_mpi_thread_allowed())
        return;
    pthread_mutex_lock(&left.lock);
    for (struct stni_mpi_family *family = left.present; family; family = family->next)
        if (!family->told_leaving && !atomic_load(&family->aborted))
            tell(family);
    pthread_mutex_unlock(&left.lock);
}
