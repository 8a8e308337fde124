/* Options of stn-conform, a row each. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_usage[] =
    "usage: stn-conform [--ranks LIST] [--mesh AxB[,CxD]] [--comm threads|mpi|nccl] [--device NAME] [--module-path "
    "DIR] [--placements all|K]\n"
    "                   [--seed S] [--queue immediate|worker] [--only N] [--dtype D] [--without LIST] [--isa SET]\n"
    "                   [--gradients tape|pullback] [--ring-attention pays|never|always] [--scratch MIB] FILE|DIR...\n"
    "\n"
    "Runs each case, an op's inputs with the outputs and gradients of one process, on meshes of ranks and in many "
    "layouts, and\n"
    "compares. Exit status 0 only if every configuration passed.\n"
    "  --ranks LIST    one-axis meshes of so many ranks (1,2,3,4)\n"
    "  --mesh AxB      meshes of several axes (2x2,2x3); giving either option leaves out the other's default\n"
    "  --comm          threads of this process; mpi: the processes that mpirun started, and meshes of as many ranks; "
    "nccl: threads, with\n"
    "                  --device cuda and a device of its own for each, between which NCCL moves the data\n"
    "  --device NAME   a module's device, such as cuda or cuda:1 (cpu). What it lacks a kernel for is counted as "
    "unsupported, by the kernel's name\n"
    "  --module-path DIR  where the device's module is looked for first\n"
    "  --placements    combinations of layouts per case and mesh, each with balanced and with uneven cuts (8)\n"
    "  --seed S        what is drawn (1)\n"
    "  --queue         immediate: kernels run at once; worker: on a thread, with random delays\n"
    "  --dtype D       f64, bf16 or f16: floating inputs are cast, and compared with one rank in f64 within the "
    "dtype's bounds (f32)\n"
    "  --without LIST  libraries to do without, of onednn,fftw: our own kernels serve\n"
    "  --isa SET       instruction set of the kernels: base, avx2 or avx512 (the widest; status 77 where this "
    "processor lacks it)\n"
    "  --gradients     tape: of leaves that require grad, by backward; pullback: of each call, as an engine of "
    "gradients outside takes them\n"
    "  --ring-attention  when keys and values of attention go round: where it pays, never or always (pays)\n"
    "  --scratch MIB   what foreign libraries may hold at once beside what an op may (0)\n"
    "  --only N        one configuration, as a failure's line names it\n";

/* A whole number and nothing else. */
static int parse_number(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || n < least || n > most)
        return 0;
    *out = n;
    return 1;
}

/* "2x3": sizes of one mesh, up to the end or a comma. */
static int parse_grid(const char **text, struct grid *grid)
{
    *grid = (struct grid){.ranks = 1};
    for (;;) {
        char *end;
        long n = strtol(*text, &end, 10);
        if (end == *text || n < 1 || n > GRID_MAX_RANKS || grid->ndim == STN_MAX_MESH_NDIM)
            return 0;
        grid->sizes[grid->ndim++] = (int)n;
        grid->ranks *= (int)n;
        *text = end;
        if (grid->ranks > GRID_MAX_RANKS)
            return 0;
        if (*end != 'x')
            return *end == '\0' || *end == ',';
        (*text)++;
    }
}

static int parse_grids(struct options *o, const char *text)
{
    for (;;) {
        if (o->n_grids == OPTIONS_MAX_GRIDS || !parse_grid(&text, &o->grids[o->n_grids]))
            return 0;
        o->n_grids++;
        if (*text == '\0')
            return 1;
        text++;
    }
}

static int parse_ranks(struct options *o, const char *text)
{
    return strchr(text, 'x') == NULL && parse_grids(o, text);
}

static int parse_placements(struct options *o, const char *text)
{
    o->run.placements = INT64_MAX;
    return strcmp(text, "all") == 0 || parse_number(text, 1, 1000000, &o->run.placements);
}

static int parse_seed(struct options *o, const char *text)
{
    int64_t seed;
    if (!parse_number(text, 0, INT64_MAX, &seed))
        return 0;
    o->run.seed = (uint64_t)seed;
    return 1;
}

static int parse_queue(struct options *o, const char *text)
{
    int worker = strcmp(text, "worker") == 0;
    o->run.queue = worker ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE;
    return worker || strcmp(text, "immediate") == 0;
}

static int parse_only(struct options *o, const char *text)
{
    return parse_number(text, 0, INT64_MAX, &o->run.only);
}

static int parse_comm(struct options *o, const char *text)
{
    o->run.processes = strcmp(text, "mpi") == 0;
    o->run.nccl = strcmp(text, "nccl") == 0;
    return o->run.processes || o->run.nccl || strcmp(text, "threads") == 0;
}

static int parse_device(struct options *o, const char *text)
{
    o->run.device = strcmp(text, "cpu") == 0 ? NULL : text;
    return text[0] != '\0';
}

static int parse_module_path(struct options *o, const char *text)
{
    o->run.module_path = text;
    return text[0] != '\0';
}

static int parse_dtype(struct options *o, const char *text)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(text, stn_dtype_name(dtypes[i])) == 0) {
            o->run.dtype = dtypes[i];
            return 1;
        }
    return 0;
}

static int parse_without(struct options *o, const char *text)
{
    o->run.without = text;
    return run_takes_without(text);
}

static int parse_scratch(struct options *o, const char *text)
{
    enum { MOST = 1 << 20, MIB = 1 << 20 };
    int64_t mib;
    if (!parse_number(text, 0, MOST, &mib))
        return 0;
    o->run.scratch = mib * MIB;
    return 1;
}

static int parse_isa(struct options *o, const char *text)
{
    o->run.isa = text;
    return 1;
}

static int parse_gradients(struct options *o, const char *text)
{
    o->run.pullbacks = strcmp(text, "pullback") == 0;
    return o->run.pullbacks || strcmp(text, "tape") == 0;
}

static int parse_ring_attention(struct options *o, const char *text)
{
    static const char *const words[] = {
        [STN_RING_ATTENTION_WHERE_IT_PAYS] = "pays",
        [STN_RING_ATTENTION_NEVER] = "never",
        [STN_RING_ATTENTION_ALWAYS] = "always",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0) {
            o->run.ring_attention = (stn_ring_attention)i;
            return 1;
        }
    return 0;
}

static const struct option_row {
    const char *name;
    int (*parse)(struct options *o, const char *text);
    const char *wanted;
} rows[] = {
    {"--ranks", parse_ranks, "numbers of ranks, such as 1,2,3"},
    {"--mesh", parse_grids, "meshes of at most 64 ranks, such as 2x3"},
    {"--comm", parse_comm, "threads, mpi or nccl"},
    {"--device", parse_device, "the name of a device"},
    {"--module-path", parse_module_path, "a folder"},
    {"--placements", parse_placements, "all, or a number from 1 to 1000000"},
    {"--seed", parse_seed, "a number"},
    {"--queue", parse_queue, "immediate or worker"},
    {"--dtype", parse_dtype, "f32, f64, bf16 or f16"},
    {"--without", parse_without, "names of onednn, fftw, cublaslt, cudnn, cufft, nccl with commas between them"},
    {"--isa", parse_isa, "an instruction set"},
    {"--gradients", parse_gradients, "tape or pullback"},
    {"--ring-attention", parse_ring_attention, "pays, never or always"},
    {"--scratch", parse_scratch, "a number of MiB"},
    {"--only", parse_only, "the number of a configuration"},
};

static const struct option_row *find_row(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* What one option says of another. */
static int check_pairs(const struct options *o, char *error, size_t error_size)
{
    const char *device = o->run.device ? o->run.device : "cpu";
    if (o->run.nccl && strcmp(device, "cuda") != 0) {
        snprintf(error, error_size, "--device: got %s with --comm nccl, wanted cuda", device);
        return 0;
    }
    return 1;
}

int options_parse(int argc, char **argv, struct options *o, char *error, size_t error_size)
{
    *o = (struct options){.run = {.queue = STN_QUEUE_IMMEDIATE, .dtype = STN_DTYPE_F32, .seed = 1, .placements = 8, .only = -1}, .paths = argv + 1};
    error[0] = '\0';
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            o->paths[o->n_paths++] = argv[i];
            continue;
        }
        const struct option_row *row = find_row(argv[i]);
        if (row == NULL)
            return 0;
        if (i + 1 == argc || !row->parse(o, argv[i + 1])) {
            snprintf(error, error_size, "%s: got %s, wanted %s", row->name, i + 1 < argc ? argv[i + 1] : "nothing",
                     row->wanted);
            return 0;
        }
        i++;
    }
    o->given_grids = o->n_grids > 0;
    if (!o->given_grids && !parse_grids(o, "1,2,3,4,2x2,2x3"))
        return 0;
    return o->n_paths > 0 && check_pairs(o, error, error_size);
}

int options_fit(struct options *o, int size, char *error, size_t error_size)
{
    int n = 0;
    if (size < 2 || size > GRID_MAX_RANKS) {
        snprintf(error, error_size, "--comm mpi: got a job of %d ranks, wanted one of 2 to %d, as mpirun starts it",
                 size, GRID_MAX_RANKS);
        return 0;
    }
    for (int i = 0; i < o->n_grids; i++)
        if (o->grids[i].ranks == size)
            o->grids[n++] = o->grids[i];
    if (n < o->n_grids && o->given_grids) {
        snprintf(error, error_size, "--mesh, --ranks: got another number of ranks than the job's, %d", size);
        return 0;
    }
    if (n == 0)
        o->grids[n++] = (struct grid){.ndim = 1, .sizes = {size}, .ranks = size};
    o->n_grids = n;
    return 1;
}
