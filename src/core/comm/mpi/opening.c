/* Openings of a communicator of MPI. Each rank counts its own, in an attribute of the communicator, and only the
 * same opening of all ranks becomes a family: a rank that comes when others have given up waiting, and are at a
 * later one, is refused, and they go on waiting for it. So what ranks run in one family was begun by the same call
 * on each of them. */
#include "core/comm/mpi/family.h"

#include <stdlib.h>

struct stni_mpi_openings *stni_mpi_openings_of(MPI_Comm comm)
{
    struct stni_mpi_openings *openings = NULL;
    int there = 0, keyval = stni_mpi_openings_key();
    stni_mpi_lock();
    if (MPI_Comm_get_attr(comm, keyval, &openings, &there) != MPI_SUCCESS || !there) {
        openings = calloc(1, sizeof *openings);
        if (openings && MPI_Comm_set_attr(comm, keyval, openings) != MPI_SUCCESS) {
            free(openings);
            openings = NULL;
        }
    }
    stni_mpi_unlock();
    return openings;
}

/* MPI writes into an unfinished duplicate when it ends. */
int stni_mpi_openings_delete(MPI_Comm comm, int keyval, void *attribute, void *extra)
{
    struct stni_mpi_openings *openings = attribute;
    (void)comm;
    (void)keyval;
    (void)extra;
    if (!openings->unfinished)
        free(openings);
    return MPI_SUCCESS;
}

static int wait_for(MPI_Request *request, struct stni_mpi_backoff *backoff, double seconds)
{
    for (int there = 0; !there;) {
        stni_mpi_lock();
        int code = MPI_Test(request, &there, MPI_STATUS_IGNORE);
        stni_mpi_unlock();
        if (code != MPI_SUCCESS)
            return 0;
        if (!there && stni_mpi_wait_a_little(backoff) && seconds >= 0 &&
            (double)(backoff->now - backoff->begin) > seconds * 1e9)
            return 0;
    }
    return 1;
}

static stn_status begin(MPI_Comm from, struct stni_mpi_openings *openings, struct stni_error *error)
{
    int inter = 0;
    stni_mpi_lock();
    int code = MPI_Comm_test_inter(from, &inter);
    if (code == MPI_SUCCESS && !inter)
        code = MPI_Comm_idup(from, &openings->made, &openings->request);
    stni_mpi_unlock();
    if (inter)
        return stni_mpi_say(error, STN_ERR_ARGUMENT, "comm got an inter-communicator, wanted one of one group");
    if (code != MPI_SUCCESS)
        return stni_mpi_say(error, STN_ERR_COMM, "MPI_Comm_idup failed");
    openings->unfinished = 1;
    return STN_OK;
}

stn_status stni_mpi_duplicate(MPI_Comm from, struct stni_mpi_openings *openings, struct stni_mpi_backoff *backoff,
                              double seconds, MPI_Comm *out, struct stni_error *error)
{
    if (!openings->unfinished)
        STNI_TRY(begin(from, openings, error));
    backoff->polls = 0;
    if (!wait_for(&openings->request, backoff, seconds)) {
        stni_mpi_give_up();
        return stni_mpi_say(error, STN_ERR_TIMEOUT,
                            "deadline of %g s passed, not all ranks had come to open the communicator", seconds);
    }
    openings->unfinished = 0;
    *out = openings->made;
    return STN_OK;
}
