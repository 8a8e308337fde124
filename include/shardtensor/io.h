/* Files of named tensors in the safetensors layout: 8 bytes of header length, a JSON header, the tensors' elements
 * row-major.
 *
 * What one layout saved, any other loads: each rank writes and reads its own bytes of the one file. */
#ifndef SHARDTENSOR_IO_H
#define SHARDTENSOR_IO_H

#include <shardtensor/train.h>

STN_BEGIN_DECLS

/** A string of the header's metadata. */
typedef struct stn_metadata {
    const char *key, *value;
} stn_metadata;

/** Writes tensors to a new file, which takes the place of an old one only when it is complete and on the disk. A
 * pending reduction is done first.
 *
 * Until then the file is called PATH.DIGITS.part, by digits of its own: jobs that save to one path do not meet, the
 * last one to end stays. A failed save leaves nothing; what a killed one has left is removed by the next save to the
 * path. An old file's mode is kept, and its owner where that is allowed. A symbolic link stays: its target is replaced.
 * Refused: a directory or another path that is no regular file, and an old file that may not be written.
 * Collective: over the world; every rank passes the same names, in the same order. All ranks see the same file system.
 * @param metadata  n_metadata strings; NULL with 0.
 * @return agreed on all ranks: STN_ERR_IO (what could not be written, and why), STN_ERR_ARGUMENT (a name is empty,
 *  stands twice; names, shapes and metadata together need a header of more than 100,000,000 bytes, which readers of the
 *  format refuse: some 800,000 tensors), or the kept error. */
STN_API stn_status stn_save(stn_context *context, const char *path, int n, const stn_named_tensor *tensors,
                            int n_metadata, const stn_metadata *metadata);

/** Reads tensors into the given ones, in place, by name: same shape and dtype, any layout but Partial. Others in the
 * file are left alone. Views are refused, and so is what a view apart
 * shows (ops_in_place.h).
 *
 * All ranks read the same file, also while another job saves to the path.
 * Collective: over the world. Nothing is changed unless the file has all of them. Their bytes are read straight into
 * the tensors: where the disk fails meanwhile, or somebody shortens the file, the call gives STN_ERR_IO, and these hold
 * some of what they held and some of what was read.
 * @return agreed on all ranks: STN_ERR_IO (not readable, truncated, damaged), STN_ERR_NOT_FOUND (a name),
 *  STN_ERR_SHAPE, STN_ERR_DTYPE, STN_ERR_STATE (memory that repeats elements); on each by itself, before:
 *  STN_ERR_ARGUMENT (path, a list or an entry that is NULL), STN_ERR_PARTIAL, STN_ERR_STATE (a view, or seen by one
 *  apart; immutable), or the kept error. */
STN_API stn_status stn_load(stn_context *context, const char *path, int n, const stn_named_tensor *tensors);

/** The string of a key in a file's metadata, as snprintf writes it. Local.
 *  @return STN_ERR_NOT_FOUND (no such key), STN_ERR_IO. */
STN_API stn_status stn_load_metadata(const char *path, const char *key, char *value, size_t size);

/* A file as it lies there, without a context: for tools, and for whoever asks what a file holds before there is a mesh.
 * The file is not trusted: everything it says is checked when it is opened, with memory in proportion to its header. */

typedef struct stn_file stn_file; /* opened for reading; used by one thread at a time */

/** What a file says of one of its tensors. */
typedef struct stn_file_tensor {
    size_t size;            /* sizeof(stn_file_tensor), as the library has it */
    const char *name;       /* UTF-8; the file's */
    const char *dtype_name; /* as the file writes it: "F32" */
    stn_dtype dtype;        /* STN_DTYPE_COUNT: one of the format's that this library does not have */
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    int64_t numel;
    int64_t begin, bytes; /* among the bytes of all tensors, in no tensor's but this one's */
} stn_file_tensor;

/** Opens a file and checks its header. Local.
 *
 * Refused: what is no file; a header that is longer than the file or than 100,000,000 bytes, no JSON object in UTF-8,
 * nested deeper than 8, or of more values than its length can hold in this format; metadata that is no strings; names
 * and keys that stand twice; a dtype that the format does not have; more than STN_MAX_NDIM dims; sizes that are not
 * written in digits alone or whose product passes 2^53; offsets outside the file, of another number of bytes than dtype
 * and shape have, or of bytes that another tensor has too.
 * @param error  gets the reason of a failure, without the path: up to `error_size` bytes; may be NULL.
 * @return STN_ERR_IO, STN_ERR_MEMORY, STN_ERR_ARGUMENT; `*out` is written on success only. */
STN_API stn_status stn_file_open(const char *path, stn_file **out, char *error, size_t error_size);

STN_API void stn_file_close(stn_file **file); /**< Sets it to NULL. Accepts NULL. Local. */

/* Of a file or a name that is NULL there is nothing: 0 and NULL. */
STN_API int stn_file_count(const stn_file *file);                                         /**< Tensors in the file. Local. */
STN_API const stn_file_tensor *stn_file_at(const stn_file *file, int index);              /**< In the order of their bytes; NULL past the end. */
STN_API const stn_file_tensor *stn_file_find(const stn_file *file, const char *name);     /**< NULL if there is none of that name. */
STN_API const char *stn_file_metadata(const stn_file *file, const char *key);             /**< A string of the metadata; NULL if there is none. */

/** Copies `bytes` bytes of a tensor, from its byte `from` on, little-endian and row-major as the file has them. Local.
 *  @return STN_ERR_ARGUMENT (not within the tensor), STN_ERR_IO (the file cannot be read, or has become shorter). */
STN_API stn_status stn_file_read(const stn_file *file, const stn_file_tensor *tensor, int64_t from, int64_t bytes,
                                 void *data);

/* Checkpoints: a run in one file, from which it goes on as if it had never stopped, on any mesh and any number of
 * ranks. */

/** What a run consists of. What is NULL or 0 is left out. */
typedef struct stn_checkpoint {
    size_t size;              /* sizeof(stn_checkpoint) */
    stn_optimizer *optimizer; /* its parameters, their state, numbers of steps and the factor of the rate. A parameter without one: in `tensors` */
    stn_average *average;     /* its means, as "NAME.average"; not while they have changed places with the parameters */
    int64_t step;             /* the caller's: how far the schedule, the data have come */
    int n_tensors;
    const stn_named_tensor *tensors; /* the caller's own: running statistics, a solver's state */
    int n_texts;
    const stn_metadata *texts; /* the caller's own, for the file's metadata; no key begins with "stn.". Not read by loading */
} stn_checkpoint;

/** Saves a run, as stn_save does: one file, complete or not there. The state of the random numbers is saved too: the
 *  seed, the stream of all ranks, and that of each mesh of some ranks, by its ranks and names, whichever ranks know it.
 *  Gradients are not: save between steps. Collective over the world.
 *  @return as stn_save; STN_ERR_STATE (means and parameters have changed places). */
STN_API stn_status stn_checkpoint_save(stn_context *context, const char *path, const stn_checkpoint *checkpoint);

/** Loads a run into what `checkpoint` names, in place, whatever the layouts are now; sets its `step` and the state of
 *  the random numbers. Collective over the world. Nothing is changed unless the file has everything;
 *  as stn_load, where bytes cannot be read then.
 *
 *  A mesh of some ranks goes on from the stream of the one with the same ranks, grid and names, also where it is made
 *  after this call. One that the run did not have, because it goes on on other ranks, begins where
 *  stn_context_set_random_state let meshes begin, and draws again what another may have drawn: who minds sets its
 *  stream (stn_mesh_set_random_stream).
 *  @param file  gets the file, open, for its texts (stn_file_metadata) and other tensors; the caller closes it. NULL:
 *               not wanted.
 *  @return as stn_load; STN_ERR_ARGUMENT (saved by another kind of optimizer), STN_ERR_NOT_FOUND (a number that a
 *  checkpoint has), STN_ERR_STATE. */
STN_API stn_status stn_checkpoint_load(stn_context *context, const char *path, stn_checkpoint *checkpoint,
                                       stn_file **file);

STN_END_DECLS
#endif
