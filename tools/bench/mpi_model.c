/* The models of the benchmark of whole steps, on the processes of MPI_COMM_WORLD. */
#include "mpi_model.h"
#include "model.h"

#include <shardtensor/mpi.h>

#include <stddef.h>
#include <string.h>

static const struct model_kind *const kinds[] = {&model_unet, &model_transformer, &model_sfno};

/* That of the last call. */
static struct {
    stn_context *context;
    struct model model;
    int ranks;
} kept;

void mpi_model_end(void)
{
    model_drop(&kept.model);
    stn_context_destroy(&kept.context);
    kept.model = (struct model){0};
}

static int make(const struct model_kind *kind, long long samples, int is_small)
{
    stn_comm *comm = NULL;
    mpi_model_end();
    if (stn_comm_from_mpi(MPI_COMM_WORLD, 60, NULL, &comm) != STN_OK)
        return 0;
    const stn_context_options options = {.size = sizeof options, .comm = comm};
    if (stn_context_create(&options, &kept.context) != STN_OK) {
        stn_comm_destroy(&comm);
        return 0;
    }
    kept.ranks = stn_context_size(kept.context);
    kept.model = (struct model){.context = kept.context,
                                .kind = kind,
                                .sizes = &kept.ranks,
                                .samples = samples,
                                .n_parts = 1,
                                .is_small = is_small};
    return model_make(&kept.model) == STN_OK && model_step(&kept.model, NULL) == STN_OK;
}

double mpi_model_run(const char *name, long long samples, int is_small, long long n)
{
    const struct model_kind *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        kind = strcmp(kinds[i]->name, name) == 0 ? kinds[i] : kind;
    const struct model *model = &kept.model;
    const int is_kept = model->kind == kind && model->samples == samples && model->is_small == is_small;
    if (!kind || (!is_kept && !make(kind, samples, is_small)))
        return -1;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (long long i = 0; i < n; i++)
        if (model_step(&kept.model, NULL) != STN_OK)
            return -1;
    return MPI_Wtime() - start;
}
