/* The tests of communicators on NCCL. Their buffers are the host's: what a collective reads and writes is copied to
 * this rank's device and back. */
#include "core/comm/team.h"
#include "nccl_ranks.h"

#include "core/box/box.h"
#include "core/comm/launch.h"
#include "core/context/module.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static _Thread_local stn_device *device;
static _Thread_local stn_queue *queue;

static void open_queue(int rank)
{
    struct stni_error error = {.status = STN_OK};
    char name[16];
    const stn_queue_options options = {.size = sizeof options};
    snprintf(name, sizeof name, "cuda:%d", rank);
    CHECK_STATUS(stni_module_open_device(name, rank, nccl_folder(), &device, &error), STN_OK);
    if (CHECK_STR(error.text, ""))
        CHECK_STATUS(stni_queue_create(device, &options, &queue), STN_OK);
}

/* Memory of the host that a collective uses, and its copy. */
struct span {
    char *from, *to, *copy;
    int is_written;
};

struct mirror {
    struct span *spans;
    int n;
    size_t element;
};

static void add(struct mirror *m, const void *data, int64_t elements, int is_written)
{
    char *from = (char *)(uintptr_t)data;
    if (elements > 0)
        m->spans[m->n++] = (struct span){from, from + elements * (int64_t)m->element, NULL, is_written};
}

/* From its first element to its last. */
static void add_box(struct mirror *m, const stn_box *box, int is_written)
{
    int64_t last = 0;
    for (int d = 0; d < box->ndim; d++)
        last += (box->shape[d] - 1) * box->strides[d];
    add(m, box->data, stni_box_numel(box) > 0 ? last + 1 : 0, is_written);
}

static void add_buffers(struct mirror *m, const stn_comm *comm, const struct stni_coll *v)
{
    const int64_t part = v->counts ? v->counts[comm->rank] : v->count,
                  all = v->counts ? stni_counts_sum(v->counts, comm->size) : v->count;
    const int is_root = comm->rank == v->root;
    switch (v->kind) {
    case STNI_COLL_ALL_REDUCE: add(m, v->send, all, 0), add(m, v->recv, all, 1); break;
    case STNI_COLL_REDUCE: add(m, v->send, all, 0), add(m, v->recv, is_root ? all : 0, 1); break;
    case STNI_COLL_ALL_GATHER: add(m, v->send, part, 0), add(m, v->recv, all, 1); break;
    case STNI_COLL_GATHER: add(m, v->send, part, 0), add(m, v->recv, is_root ? all : 0, 1); break;
    case STNI_COLL_REDUCE_SCATTER: add(m, v->send, all, 0), add(m, v->recv, part, 1); break;
    case STNI_COLL_SCATTER: add(m, v->send, is_root ? all : 0, 0), add(m, v->recv, part, 1); break;
    case STNI_COLL_BROADCAST: add(m, v->recv, all, !is_root); break;
    case STNI_COLL_ALL_TO_ALL:
        add(m, v->send, all, 0), add(m, v->recv, stni_counts_sum(v->recv_counts, comm->size), 1);
        break;
    case STNI_COLL_GROUP:
    case STNI_COLL_EXCHANGE:
        for (int i = 0; i < v->messages->n_send; i++)
            add_box(m, &v->messages->send[i].box, 0);
        for (int i = 0; i < v->messages->n_recv; i++)
            add_box(m, &v->messages->recv[i].box, 1);
        break;
    case STNI_COLL_BARRIER:
    case STNI_COLL_COUNT: break;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Spans that overlap become one. */
static void merge(struct mirror *m)
{
    int n = 0;
    qsort(m->spans, (size_t)m->n, sizeof *m->spans, by_place);
    for (int i = 0; i < m->n; i++) {
        struct span *last = n > 0 ? &m->spans[n - 1] : NULL;
        if (!last || m->spans[i].from >= last->to) {
            m->spans[n++] = m->spans[i];
            continue;
        }
        last->to = m->spans[i].to > last->to ? m->spans[i].to : last->to;
        last->is_written |= m->spans[i].is_written;
    }
    m->n = n;
}

static void upload(struct mirror *m)
{
    for (int i = 0; i < m->n; i++) {
        struct span *s = &m->spans[i];
        void *copy = NULL;
        CHECK_STATUS(stni_device_allocate(device, (size_t)(s->to - s->from), &copy), STN_OK);
        CHECK_STATUS(stni_queue_copy(queue, copy, s->from, (size_t)(s->to - s->from), STNI_COPY_TO_DEVICE), STN_OK);
        s->copy = copy;
    }
}

static void *mirrored(const struct mirror *m, const void *data)
{
    for (int i = 0; i < m->n; i++)
        if ((const char *)data >= m->spans[i].from && (const char *)data < m->spans[i].to)
            return m->spans[i].copy + ((const char *)data - m->spans[i].from);
    return NULL; /* of no elements */
}

static const stn_message *mirror_list(const struct mirror *m, const stn_message *list, int n, stn_message *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = list[i];
        out[i].box.data = mirrored(m, list[i].box.data);
    }
    return out;
}

static stn_status download(struct mirror *m, stn_status status)
{
    for (int i = 0; i < m->n; i++) {
        struct span *s = &m->spans[i];
        if (s->is_written && status == STN_OK)
            CHECK_STATUS(stni_queue_copy(queue, s->from, s->copy, (size_t)(s->to - s->from), STNI_COPY_TO_HOST),
                         STN_OK);
    }
    const stn_status ended = stn_queue_sync(queue);
    for (int i = 0; i < m->n; i++)
        stni_device_deallocate(device, m->spans[i].copy, (size_t)(m->spans[i].to - m->spans[i].from));
    return status == STN_OK ? ended : status;
}

/* On the device's queue, as a communicator that a context on this device has adopted. */
static stn_status run_on_device(stn_comm *comm, const struct stni_coll *coll)
{
    stn_queue *own = comm->queue;
    const stni_comm_run_fn run = comm->run;
    comm->queue = queue;
    comm->run = stni_coll_run;
    stn_status status = stni_coll_run(comm, queue, coll);
    stni_staging_free(comm);
    comm->queue = own;
    comm->run = run;
    return status;
}

static stn_status run_mirrored(stn_comm *comm, stn_queue *caller, const struct stni_coll *coll)
{
    struct stni_coll there = *coll;
    struct mirror m = {.element = stn_dtype_size(coll->dtype)};
    stn_exchange messages = {0};
    if (coll->host)
        return stni_coll_run(comm, caller, coll);
    if (coll->messages)
        messages = *coll->messages;
    const size_t n = (size_t)(messages.n_send + messages.n_recv);
    stn_message *lists = malloc((n + 1) * sizeof *lists);
    m.spans = malloc((n + 2) * sizeof *m.spans);
    add_buffers(&m, comm, coll);
    merge(&m);
    upload(&m);
    there.send = mirrored(&m, coll->send);
    there.recv = mirrored(&m, coll->recv);
    messages.send = mirror_list(&m, messages.send, messages.n_send, lists);
    messages.recv = mirror_list(&m, messages.recv, messages.n_recv, lists + messages.n_send);
    there.messages = coll->messages ? &messages : NULL;
    stn_status status = download(&m, run_on_device(comm, &there));
    free(m.spans);
    free(lists);
    if (status == STN_OK)
        return STN_OK;
    stn_queue_fail(caller, status, "%s", stn_queue_error_text(queue));
    stni_queue_recover(queue);
    return status;
}

/* Teams of each size are made once: making one takes longer than most bodies do. */
struct team {
    int n;
    double deadline;
    stn_comm **controls;
    pthread_t *threads;
    atomic_int next_rank;
    pthread_barrier_t begins, ended; /* of the ranks and whoever runs the team */
    team_body body;                  /* NULL: the team is dissolved */
    void *arg;
};

enum { MOST_RANKS = 16 };
static struct team *teams[MOST_RANKS + 1];

static void run_bodies(struct team *team, stn_comm *comm)
{
    for (;;) {
        pthread_barrier_wait(&team->begins);
        if (!team->body)
            break;
        if (comm) {
            memset(comm->stats, 0, sizeof *comm->stats);
            team->body(comm, team->arg);
        }
        pthread_barrier_wait(&team->ended);
    }
}

static void *rank_main(void *arg)
{
    struct team *team = arg;
    const int at = atomic_fetch_add(&team->next_rank, 1);
    test_set_rank(at);
    open_queue(at);
    if (nccl_meets_over_tcp())
        team->controls[at] = nccl_meet(at, team->n, 0);
    stn_comm *comm = nccl_open(team->controls[at], team->deadline, getenv("STN_TEST_RANK_ORDER") != NULL);
    if (comm)
        comm->run = run_mirrored;
    run_bodies(team, comm);
    stn_comm_destroy(&comm);
    stni_queue_destroy(&queue);
    stni_device_destroy(&device);
    return NULL;
}

static struct team *gather_team(int n, double deadline)
{
    struct team *team = calloc(1, sizeof *team);
    *team = (struct team){.n = n, .deadline = deadline};
    team->controls = calloc((size_t)n, sizeof *team->controls);
    team->threads = calloc((size_t)n, sizeof *team->threads);
    pthread_barrier_init(&team->begins, NULL, (unsigned)n + 1);
    pthread_barrier_init(&team->ended, NULL, (unsigned)n + 1);
    if (!nccl_meets_over_tcp())
        CHECK_STATUS(stn_comm_create_threads(n, team->controls), STN_OK);
    for (int r = 0; r < n; r++)
        pthread_create(&team->threads[r], NULL, rank_main, team);
    return team;
}

static void dissolve(struct team *team)
{
    team->body = NULL;
    pthread_barrier_wait(&team->begins);
    for (int r = 0; r < team->n; r++)
        pthread_join(team->threads[r], NULL);
    pthread_barrier_destroy(&team->begins);
    pthread_barrier_destroy(&team->ended);
    free(team->threads);
    free(team->controls);
    free(team);
}

/* Before what the stand-in keeps goes: it was made when the first team was. */
static void dissolve_all(void)
{
    for (int n = 0; n <= MOST_RANKS; n++)
        if (teams[n])
            dissolve(teams[n]);
}

static pthread_once_t dissolving = PTHREAD_ONCE_INIT;

static void dissolve_at_exit(void)
{
    atexit(dissolve_all);
}

void team_run_hooked(int n, double deadline_seconds, const struct stni_thread_hook *hook, team_body body, void *arg)
{
    if (!nccl_fits(n) || !CHECK(hook == NULL) || !CHECK(n <= MOST_RANKS))
        return;
    if (!teams[n])
        teams[n] = gather_team(n, deadline_seconds);
    teams[n]->body = body;
    teams[n]->arg = arg;
    pthread_barrier_wait(&teams[n]->begins);
    pthread_barrier_wait(&teams[n]->ended);
    pthread_once(&dissolving, dissolve_at_exit);
}

void team_run(int n, team_body body, void *arg)
{
    team_run_hooked(n, 60, NULL, body, arg);
}
