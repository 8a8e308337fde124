/* A communicator from the caller's MPI_Comm, through the MPI module. Compiled by the caller, against the MPI that the
 * module was built with: another one is found and refused. */
#ifndef SHARDTENSOR_MPI_H
#define SHARDTENSOR_MPI_H

#include <shardtensor/module.h>

#include <mpi.h>

STN_BEGIN_DECLS

#if defined(OPEN_MPI)
#define STN_MPI_NAME "openmpi"
#elif defined(MPICH_VERSION) || defined(MPICH)
#define STN_MPI_NAME "mpich"
#else
#define STN_MPI_NAME "other"
#endif

/** Opens a communicator over the ranks of `comm`, in their order, for stn_context_options.comm. Works on a duplicate,
 *  which goes with the communicator: destroy that before MPI_Finalize. `options` may be NULL: module_path and
 *  error_text are taken from it. `deadline_seconds`: how long to wait for the other ranks; 0: 300; negative: without
 *  end. MPI must have been initialised, for as many threads as use the library: below MPI_THREAD_SERIALIZED, contexts
 *  and communicators are used on the main thread alone. MPICH hands errors of messages (ranks that call collectives
 *  with different sizes, among others) to the error handler of MPI_COMM_SELF or MPI_COMM_WORLD, which by default ends
 *  the process: set MPI_ERRORS_RETURN there. Collective over `comm`. @return as stn_comm_open; STN_ERR_ARGUMENT (an
 *  inter-communicator), STN_ERR_VERSION (the module is of another MPI), STN_ERR_TIMEOUT. */
static inline stn_status stn_comm_from_mpi(MPI_Comm comm, double deadline_seconds, const stn_comm_options *options,
                                           stn_comm **out)
{
    /* The integer that Fortran would use is the one form of a handle that every MPI has. */
    return stn_comm_open_mpi(STN_MPI_NAME, (int64_t)MPI_Comm_c2f(comm), deadline_seconds, options, out);
}

STN_END_DECLS

#endif
