/* Calls are made in a child process, so that a crash, a call that does not return and what a sanitizer ends are
 * failures like others: the child notes the number of the call it makes, and another one goes on behind it. */
#include "by_name.h"

#include "call_run.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEADLINE_SECONDS = 30, HANG_SECONDS = 100, RANDOM_SEED = 5, ALONE_BLOCK = 16 << 20, RANKS_BLOCK = 256 << 20 /* bytes */ };

/** What parent and child both see. */
struct progress {
    _Atomic int64_t number; /* of the call that is being made */
    _Atomic int64_t calls, refused, compared, failed;
    _Atomic int ended;
};

struct fuzzing {
    const struct by_name_options *options;
    struct call_ops ops;
    struct progress *progress;
    double end;
};

/** A world: calls `number` up to `last`. */
struct world {
    const struct fuzzing *fuzzing;
    int64_t number, last;
    pthread_barrier_t barrier;
    stn_context *alone;
    struct call call;
    struct call_outcome one, ranks[GRID_MAX_RANKS];
    int stop, skip, aborted;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Memory: no block above a size, so that shapes drawn out of reason fail and do not fill the machine. One rank has
 * less than several: what it could hold, they can. */

static void *allocate(void *arg, size_t bytes, size_t alignment)
{
    void *pointer = NULL;
    if (bytes > *(const size_t *)arg ||
        posix_memalign(&pointer, alignment < sizeof pointer ? sizeof pointer : alignment, bytes ? bytes : 1) != 0)
        return NULL;
    return pointer;
}

static void deallocate(void *arg, void *pointer, size_t bytes)
{
    (void)arg;
    (void)bytes;
    free(pointer);
}

static size_t alone_block = ALONE_BLOCK, ranks_block = RANKS_BLOCK;
static const stn_allocator alone_memory = {sizeof alone_memory, &alone_block, allocate, deallocate},
                           ranks_memory = {sizeof ranks_memory, &ranks_block, allocate, deallocate};

/* Reports */

static void print_again(const struct fuzzing *f, int64_t number)
{
    printf("again: stn-fuzz --by-name --seed %lld --only %lld", f->options->seed, (long long)number);
    if (f->options->op)
        printf(" --op %s", f->options->op);
    platform_print(stdout, &f->options->platform);
    if (f->options->ranks)
        printf(" --ranks %d", f->options->ranks);
    printf("\n");
}

static void report(const struct fuzzing *f, int64_t number, const struct call *call, const char *text)
{
    printf("FAIL call %lld of %s on %d ranks: %s\n", (long long)number, call->op->name, call->world.ranks, text);
    print_again(f, number);
    printf("\n");
    call_print(stdout, call, &f->options->platform);
    printf("\n");
    fflush(stdout);
    f->progress->failed++;
}

/* Ranks */

static int is_over(const struct world *w)
{
    const struct by_name_options *o = w->fuzzing->options;
    if (w->number > w->last || w->fuzzing->progress->failed >= o->most)
        return 1;
    return o->only < 0 && (w->number >= o->calls || now() >= w->fuzzing->end);
}

/* On rank 0: the next call, and what it gives on one rank. */
static void begin(struct world *w)
{
    const struct by_name_options *o = w->fuzzing->options;
    w->stop = is_over(w);
    if (w->stop)
        return;
    call_draw(&w->call, &w->fuzzing->ops, (uint64_t)o->seed, (uint64_t)w->number, o->ranks);
    w->call.world.on_device = o->platform.device != NULL;
    w->fuzzing->progress->number = w->number;
    if (o->print) {
        call_print(stdout, &w->call, &o->platform);
        fflush(stdout);
    }
    stn_context_set_random_state(w->alone, RANDOM_SEED, 0);
    call_run(w->alone, &w->call, NULL, &w->one);
    w->skip = w->one.refused || (call_aborted(1, &w->one) && w->one.status == STN_ERR_MEMORY) ||
              w->one.gradient == STN_ERR_MEMORY;
}

/* The call on one rank, with inputs perturbed in CALL_PERTURBED ways. */
static void perturb(struct world *w, struct call_outcome perturbed[CALL_PERTURBED])
{
    for (int i = 0; i < CALL_PERTURBED; i++) {
        w->call.perturbed = i + 1;
        stn_context_set_random_state(w->alone, RANDOM_SEED, 0);
        call_run(w->alone, &w->call, NULL, &perturbed[i]);
    }
    w->call.perturbed = 0;
}

/* 1: wrong, and no rounding explains it. */
static int judge(struct world *w, char *text, size_t size, int64_t *compared)
{
    const int n = w->skip ? 0 : w->call.world.ranks;
    if (!call_judge(&w->call, &w->one, NULL, n, w->ranks, text, size, compared))
        return 0;
    struct call_outcome *perturbed = calloc(CALL_PERTURBED, sizeof *perturbed);
    if (perturbed == NULL)
        return 1;
    perturb(w, perturbed);
    *compared = 0;
    const int wrong = call_judge(&w->call, &w->one, perturbed, n, w->ranks, text, size, compared);
    for (int i = 0; i < CALL_PERTURBED; i++)
        call_outcome_free(&perturbed[i]);
    free(perturbed);
    return wrong;
}

/* On rank 0, when all ranks have made the call. */
static void finish(struct world *w)
{
    struct progress *p = w->fuzzing->progress;
    char text[3 * CALL_TEXT];
    int64_t compared = 0;
    if (judge(w, text, sizeof text, &compared))
        report(w->fuzzing, w->number, &w->call, text);
    p->calls++;
    p->refused += w->one.status != STN_OK;
    p->compared += compared;
    w->aborted = !w->skip && call_aborted(w->call.world.ranks, w->ranks);
    call_outcome_free(&w->one);
    for (int r = 0; r < w->call.world.ranks; r++)
        call_outcome_free(&w->ranks[r]);
    w->number++;
}

static stn_status make_meshes(stn_context *context, const stn_mesh *meshes[MESHES])
{
    stn_status status = STN_OK;
    int ranks[GRID_MAX_RANKS];
    meshes[MESH_LOCAL] = NULL;
    for (int m = MESH_LINE; m < MESHES && status == STN_OK; m++) {
        const struct grid grid = call_grid((enum call_mesh)m, stn_context_size(context), ranks);
        status = stn_mesh_create(context, grid.ndim, grid.sizes, NULL, ranks, &meshes[m]);
    }
    return status;
}

static stn_status rank_main(stn_context *context, void *arg)
{
    struct world *w = arg;
    const int rank = stn_context_rank(context);
    const stn_mesh *meshes[MESHES];
    const stn_status status = make_meshes(context, meshes);
    for (;;) {
        if (rank == 0)
            begin(w);
        pthread_barrier_wait(&w->barrier);
        if (w->stop || status != STN_OK)
            return status;
        if (!w->skip) {
            stn_context_set_random_state(context, RANDOM_SEED, 0);
            call_run(context, &w->call, meshes, &w->ranks[rank]);
        }
        pthread_barrier_wait(&w->barrier);
        if (rank == 0)
            finish(w);
        pthread_barrier_wait(&w->barrier);
        if (w->aborted)
            return STN_OK;
    }
}

/* Calls from `first` on as far as they share a world. @return the number of the next one; -1: enough. */
static int64_t run_world(const struct fuzzing *f, int64_t first)
{
    const struct by_name_options *o = f->options;
    const struct call_world drawn = call_world_of((uint64_t)o->seed, (uint64_t)first, o->ranks);
    const stn_context_options alone = {.size = sizeof alone, .allocator = &alone_memory, .seed = RANDOM_SEED};
    char why[256] = "";
    stn_launch_options options = {.size = sizeof options,
                                  .ranks = drawn.ranks,
                                  .context = {.size = sizeof options.context,
                                              .allocator = &ranks_memory,
                                              .seed = RANDOM_SEED,
                                              .deadline_seconds = DEADLINE_SECONDS,
                                              .queue = {.size = sizeof options.context.queue, .kind = drawn.queue},
                                              .checks = drawn.checks,
                                              .error_text = why,
                                              .error_text_size = sizeof why}};
    struct world *w = calloc(1, sizeof *w);
    if (w == NULL || pthread_barrier_init(&w->barrier, NULL, (unsigned)drawn.ranks) != 0 ||
        stn_context_create(&alone, &w->alone) != STN_OK)
        exit(EXIT_FAILURE);
    w->fuzzing = f;
    w->number = first;
    w->last = o->only >= 0 ? first : first / CALL_BATCH * CALL_BATCH + CALL_BATCH - 1;
    platform_set(&o->platform, &options.context);
    const stn_status status = stn_launch(&options, rank_main, w);
    if (status != STN_OK && w->number == first) {
        printf("FAIL the ranks could not be run: %s: %s\n", stn_status_text(status), why);
        f->progress->failed++;
        w->stop = 1;
    }
    const int64_t next = w->stop && w->number <= w->last ? -1 : w->number;
    stn_context_destroy(&w->alone);
    pthread_barrier_destroy(&w->barrier);
    free(w);
    return o->only >= 0 ? -1 : next;
}

static void run_child(const struct fuzzing *f, int64_t first)
{
    while (first >= 0)
        first = run_world(f, first);
    f->progress->ended = 1;
    exit(EXIT_SUCCESS); /* here a leak is reported */
}

/* The parent */

/* Waits for a child, and ends one that stays at a call. */
static int wait_for(const struct fuzzing *f, pid_t child)
{
    const struct timespec pause = {0, 20 * 1000 * 1000};
    int64_t number = f->progress->number;
    double since = now();
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        nanosleep(&pause, NULL);
        if (f->progress->number != number) {
            number = f->progress->number;
            since = now();
        }
        if (now() - since > HANG_SECONDS)
            kill(child, SIGKILL);
    }
    return status;
}

static void report_death(const struct fuzzing *f, int status)
{
    char text[96] = "leaks, or fails when it ends";
    struct call *call = malloc(sizeof *call);
    if (call == NULL)
        exit(EXIT_FAILURE);
    call_draw(call, &f->ops, (uint64_t)f->options->seed, (uint64_t)f->progress->number, f->options->ranks);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        snprintf(text, sizeof text, "did not return within %d s", HANG_SECONDS);
    else if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "died of signal %d", WTERMSIG(status));
    else if (!f->progress->ended)
        snprintf(text, sizeof text, "ended the process with %d", WEXITSTATUS(status));
    report(f, f->progress->number, call, text);
    free(call);
}

static void run_children(const struct fuzzing *f)
{
    int64_t first = f->options->only >= 0 ? f->options->only : 0;
    do {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0)
            run_child(f, first);
        if (child < 0) {
            perror("stn-fuzz: fork");
            f->progress->failed++;
            return;
        }
        const int status = wait_for(f, child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return;
        report_death(f, status);
        first = f->progress->number + 1;
    } while (!f->progress->ended && f->options->only < 0 && f->progress->failed < f->options->most);
}

/* The descriptors of built-in ops outlive the context that lists them. @return 0 where there is none of that name. */
static int list_ops(struct call_ops *ops, const char *only)
{
    stn_context *context;
    int n = 0;
    if (stn_context_create(NULL, &context) != STN_OK)
        return 0;
    while (stn_op_at(context, n))
        n++;
    ops->op = calloc((size_t)n + 1, sizeof *ops->op);
    for (int i = 0; ops->op && i < n; i++) {
        const stn_op_desc *op = stn_op_descriptor(stn_op_at(context, i));
        if (only == NULL || strcmp(op->name, only) == 0)
            ops->op[ops->n++] = op;
    }
    stn_context_destroy(&context);
    return ops->n > 0;
}

int by_name_run(const struct by_name_options *options)
{
    struct fuzzing f = {.options = options, .end = now() + options->seconds};
    if (!list_ops(&f.ops, options->op)) {
        fprintf(stderr, "stn-fuzz: no op '%s'\n", options->op ? options->op : "");
        free(f.ops.op);
        return 2;
    }
    f.progress = mmap(NULL, sizeof *f.progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (f.progress == MAP_FAILED)
        return 2;
    memset(f.progress, 0, sizeof *f.progress);
    run_children(&f);
    const struct progress *p = f.progress;
    printf("%lld calls of %d ops, %lld refused, %lld tensors compared, %lld failed; seed %lld\n", (long long)p->calls,
           f.ops.n, (long long)p->refused, (long long)p->compared, (long long)p->failed, options->seed);
    const int good = p->failed == 0 && (p->compared > 0 || options->op || options->only >= 0);
    munmap(f.progress, sizeof *f.progress);
    free(f.ops.op);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
