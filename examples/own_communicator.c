/* A communicator of one's own: processes that fork has made, and letter boxes in memory that they share. Of the table's
 * entries four are needed; sums are declined here, and so made by the library of sends and receives, in the order of
 * ranks. Each process compares what three ranks give with what it gives alone; then rank 1 leaves, and the others are
 * told. docs/add-a-communicator.md has what each function promises. */
#include <shardtensor/shardtensor.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, PIECE = 4096 /* bytes */ };

struct box { /* of one rank to another: a piece of a message of `bytes` bytes */
    atomic_int full;
    int64_t bytes, n;
    char data[PIECE];
};

static struct world {
    atomic_int has_left[RANKS];
    struct box box[RANKS][RANKS]; /* from, to */
} * world;

static struct { /* this process's first failure, which stays */
    stn_status status;
    char text[64];
} failed;

struct member { /* of the world, or of a subset */
    int rank, size, ranks[RANKS], is_world;
    double deadline;
};

struct going { /* how far a message is */
    int64_t bytes, done;
    int over;
};

static int64_t bytes_of(const stn_box *box, stn_dtype dtype)
{
    int64_t n = (int64_t)stn_dtype_size(dtype);
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d]; /* boxes of a group are dense */
    return n;
}

/* The next piece. @return 1 when one was moved, 0 when the other end is to come, -1 where it will not. */
static int move(const struct member *c, const stn_message *m, struct going *g, int sends)
{
    const int me = c->ranks[c->rank], peer = c->ranks[m->peer];
    const int has_left = atomic_load(&world->has_left[peer]); /* before the box is looked at: its letters stay */
    struct box *box = sends ? &world->box[me][peer] : &world->box[peer][me];
    if (atomic_load(&box->full) == sends)
        return has_left ? -1 : 0;
    if (sends) {
        box->bytes = g->bytes;
        box->n = g->bytes - g->done < PIECE ? g->bytes - g->done : PIECE;
    } else if (box->bytes != g->bytes) {
        return -1; /* it calls something else */
    }
    char *data = g->bytes > 0 ? (char *)m->box.data + g->done : NULL;
    if (box->n > 0)
        memcpy(sends ? box->data : data, sends ? data : box->data, (size_t)box->n);
    g->done += box->n;
    g->over = g->done == g->bytes;
    atomic_store(&box->full, sends);
    return 1;
}

/* A piece for each peer, of its first message that is not over. @return how many messages are not; -1 - the peer. */
static int move_all(const struct member *c, int n, const stn_message *m, struct going *g, int sends)
{
    int open = 0, is_busy[RANKS] = {0};
    for (int i = 0; i < n; i++) {
        if (g[i].over || is_busy[m[i].peer]++)
            open += !g[i].over;
        else if (move(c, &m[i], &g[i], sends) < 0)
            return -1 - m[i].peer;
        else
            open += !g[i].over;
    }
    return open;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(stn_status status, const char *format, int rank)
{
    failed.status = status;
    snprintf(failed.text, sizeof failed.text, format, rank);
}

static stn_status group(void *impl, stn_queue *queue, const stn_exchange *x)
{
    const struct member *c = impl;
    const double until = seconds() + c->deadline;
    struct going *g = calloc((size_t)(x->n_send + x->n_recv) + 1, sizeof *g);
    if (!g)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: messages");
    for (int i = 0; i < x->n_send + x->n_recv; i++)
        g[i].bytes = bytes_of(i < x->n_send ? &x->send[i].box : &x->recv[i - x->n_send].box, x->dtype);
    while (failed.status == STN_OK) {
        const int out = move_all(c, x->n_send, x->send, g, 1);
        const int in = move_all(c, x->n_recv, x->recv, g + x->n_send, 0), gone = out < 0 ? out : in;
        if (out == 0 && in == 0)
            break;
        if (gone < 0)
            fail(STN_ERR_PEER, "rank %d has left, or calls something else", c->ranks[-1 - gone]);
        else if (c->deadline >= 0 && seconds() > until)
            fail(STN_ERR_TIMEOUT, "deadline passed on rank %d", c->ranks[c->rank]);
        sched_yield();
    }
    free(g);
    return failed.status == STN_OK ? STN_OK : stn_queue_fail(queue, failed.status, "%s", failed.text);
}

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    (void)impl, (void)queue, (void)send, (void)recv, (void)count, (void)dtype, (void)op;
    return STN_ERR_UNSUPPORTED;
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n, void **out)
{
    const struct member *of = impl;
    struct member *c = malloc(sizeof *c);
    if (!c)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: a subset");
    *c = (struct member){.size = n, .deadline = of->deadline};
    for (int r = 0; r < n; r++) {
        c->ranks[r] = of->ranks[ranks[r]];
        if (ranks[r] == of->rank)
            c->rank = r;
    }
    *out = c;
    return STN_OK;
}

static void set_deadline(void *impl, double most)
{
    ((struct member *)impl)->deadline = most;
}

static void destroy(void *impl)
{
    struct member *c = impl;
    if (c->is_world)
        atomic_store(&world->has_left[c->rank], 1);
    free(c);
}

static const stn_comm_ops letters = {.size = sizeof letters,
                                     .name = "letters",
                                     .all_reduce = all_reduce,
                                     .group = group,
                                     .subset = subset,
                                     .set_deadline = set_deadline,
                                     .destroy = destroy};

/* Rows of whole numbers: a product, rows that go to other ranks, and the gradient of the weight. Exact on any ranks. */
static stn_status work(stn_context *ctx, float gradient[12])
{
    const stn_mesh *mesh;
    stn_tensor *grad = NULL;
    stn_mesh_create(ctx, 1, (int[]){stn_context_size(ctx)}, NULL, NULL, &mesh);
    stn_scope_begin(ctx);
    stn_tensor *x = stn_randint(ctx, stn_spec_of(mesh, STN_DTYPE_F32, "S0", 2, (int64_t[]){10, 3}), -4, 5);
    stn_tensor *w = stn_randint(ctx, stn_spec_of(mesh, STN_DTYPE_F32, "R", 2, (int64_t[]){3, 4}), -4, 5);
    stn_set_requires_grad(w, 1);
    stn_tensor *y = stn_roll(stn_matmul(x, w), 1, (int64_t[]){4}, (int[]){0});
    stn_backward(stn_sum(stn_mul(y, stn_add_number(y, 1)), 0, NULL, 0));
    if (stn_grad_of(w, &grad) == STN_OK)
        stn_to_host(grad, gradient, 12 * sizeof *gradient);
    return stn_scope_end(ctx);
}

static stn_status create(stn_comm *comm, stn_context **ctx)
{
    const stn_context_options options = {.size = sizeof options, .comm = comm, .deadline_seconds = 20};
    return stn_context_create(&options, ctx);
}

static int run_rank(int rank)
{
    float mine[12] = {0}, alone[12] = {1};
    struct member *c = malloc(sizeof *c);
    stn_comm *comm;
    stn_context *ctx, *one;
    if (!c)
        return 1;
    *c = (struct member){.rank = rank, .size = RANKS, .ranks = {0, 1, 2}, .is_world = 1, .deadline = 300};
    if (stn_comm_create(&letters, c, rank, RANKS, &comm) != STN_OK || create(comm, &ctx) != STN_OK ||
        create(NULL, &one) != STN_OK)
        return 1;
    stn_status status = work(ctx, mine) == STN_OK ? work(one, alone) : stn_context_status(ctx);
    const int is_same = status == STN_OK && memcmp(mine, alone, sizeof mine) == 0;
    if (rank != 1) { /* rank 1 leaves in place of this, by destroying its context */
        status = stn_agree(ctx, STN_OK, NULL);
        printf("rank %d: %s gradient; then: %s\n", rank, is_same ? "the same" : "another", stn_context_error_text(ctx));
    }
    stn_context_destroy(&ctx);
    stn_context_destroy(&one);
    return !(is_same && status == (rank == 1 ? STN_OK : STN_ERR_PEER));
}

int main(void)
{
    int is_bad = 0;
    world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* zeros */
    if (world == MAP_FAILED)
        return 1;
    for (int r = 0; r < RANKS; r++) /* contexts are made behind the fork */
        if (fork() == 0)
            exit(run_rank(r));
    for (int r = 0, status; r < RANKS; r++)
        is_bad |= wait(&status) < 0 || status != 0;
    return is_bad;
}
