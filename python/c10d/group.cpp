/* Collectives of the library over the CPU's backend of a c10d group. Called without the interpreter's lock, by
 * whichever thread runs the queue; torch's dispatcher and autograd stay out of it.
 *
 * What c10d throws is the failure of the collective, with its text. No entry returns while torch may still write to the
 * caller's memory: a work is waited for until its own deadline, and one that is given up takes its buffers back
 * first. */
#include "group.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <cstring>

using milliseconds = std::chrono::milliseconds;
using clock_type = std::chrono::steady_clock;

struct stnp_group {
    c10::intrusive_ptr<c10d::Backend> backend;
    std::vector<int> members; /* rank here: rank in the backend */
    int rank;
    milliseconds deadline;
    void *owner;
};

/* c10d adds its deadlines to clocks: the longest that none of them overflows. */
static constexpr milliseconds WITHOUT_END = std::chrono::hours(24 * 365);

/* Messages of a program's own on the same group have tag 0, unless it says otherwise. */
static constexpr int MESSAGE_TAG = 0x73746e;

static void tell(char *text, size_t size, const char *words)
{
    snprintf(text, size, "%s", words);
}

/** Calls `work`; what it throws becomes a text. @return whether it came back. */
template <typename Work> static bool caught(Work work, char *text, size_t size) noexcept
{
    try {
        work();
        return true;
    } catch (const c10::Error &error) {
        tell(text, size, error.what_without_backtrace());
    } catch (const std::exception &error) {
        tell(text, size, error.what());
    } catch (...) {
        tell(text, size, "an exception of no known type");
    }
    return false;
}

/** Runs a collective, which fails the queue by what it throws: STN_ERR_TIMEOUT once the deadline has passed. */
template <typename Work>
static stn_status run(const stnp_group *group, stn_queue *queue, const char *collective, Work work) noexcept
{
    char text[512];
    const auto begin = clock_type::now();
    if (caught(work, text, sizeof text))
        return STN_OK;
    const bool late = clock_type::now() - begin >= group->deadline;
    return stn_queue_fail(queue, late ? STN_ERR_TIMEOUT : STN_ERR_COMM, "%s: %s", collective, text);
}

static at::Tensor tensor(const void *data, int64_t count, at::ScalarType type)
{
    return at::from_blob(const_cast<void *>(data), {count}, at::TensorOptions(type));
}

static at::Tensor bytes(const void *data, int64_t count, stn_dtype dtype)
{
    return tensor(data, count * static_cast<int64_t>(stn_dtype_size(dtype)), at::kByte);
}

/** Options of any collective of c10d, with the group's deadline. */
template <typename Options> static Options within_deadline(const stnp_group *group)
{
    Options options;
    options.timeout = group->deadline;
    return options;
}

static void open(stnp_group *group, const char *name)
{
    group->backend = c10d::resolve_process_group(name)->getBackend(c10::DeviceType::CPU);
    const int n = static_cast<int>(group->members.size());
    TORCH_CHECK(group->backend->getSize() == n, "group ", name, ": has ", group->backend->getSize(),
                " ranks, wanted ", n);
    group->deadline = group->backend->getBackendOptions()->timeout;
}

stnp_group *stnp_group_open(const char *name, const int *members, int n, int rank, char *text, size_t text_size)
{
    stnp_group *group = nullptr;
    const bool there = caught(
        [&] {
            group = new stnp_group{};
            group->members.assign(members, members + n);
            group->rank = rank;
            open(group, name);
        },
        text, text_size);
    if (!there) {
        delete group;
        return nullptr;
    }
    return group;
}

void stnp_group_close(stnp_group *group)
{
    delete group;
}

void **stnp_group_owner(stnp_group *group)
{
    return &group->owner;
}

int stnp_group_rank(const stnp_group *group)
{
    return group->rank;
}

int stnp_group_size(const stnp_group *group)
{
    return static_cast<int>(group->members.size());
}

double stnp_group_deadline(const stnp_group *group)
{
    return group->deadline >= WITHOUT_END ? -1 : std::chrono::duration<double>(group->deadline).count();
}

void stnp_group_set_deadline(void *impl, double seconds)
{
    const double most = std::chrono::duration<double>(WITHOUT_END).count();
    const bool ends = seconds >= 0 && seconds < most;
    static_cast<stnp_group *>(impl)->deadline =
        ends ? milliseconds(1 + static_cast<int64_t>(seconds * 1000)) : WITHOUT_END;
}

/** How c10d does a reduction. */
struct reduction {
    at::ScalarType type;
    c10d::ReduceOp::RedOpType op;
    int per_element; /* numbers of `type` in an element */
};

static bool type_of(stn_dtype dtype, at::ScalarType *type)
{
    switch (dtype) {
    case STN_DTYPE_F32: *type = at::kFloat; return true;
    case STN_DTYPE_F64: *type = at::kDouble; return true;
    case STN_DTYPE_I64: *type = at::kLong; return true;
    case STN_DTYPE_I32: *type = at::kInt; return true;
    case STN_DTYPE_I8: *type = at::kChar; return true;
    case STN_DTYPE_U8:
    case STN_DTYPE_BOOL: *type = at::kByte; return true;
    case STN_DTYPE_C64: *type = at::kFloat; return true;
    case STN_DTYPE_C128: *type = at::kDouble; return true;
    case STN_DTYPE_BF16: /* added up in 16 bits there */
    case STN_DTYPE_F16:
    case STN_DTYPE_I16: /* not known there */
    case STN_DTYPE_COUNT: return false;
    }
    return false;
}

/** Whether c10d does the reduction as the library promises it. The largest and smallest of floating numbers lose a NaN
 * there, and means of integers do not exist. */
static bool take_reduction(stn_dtype dtype, stn_reduce_op op, reduction *out)
{
    const bool complex = dtype == STN_DTYPE_C64 || dtype == STN_DTYPE_C128, truth = dtype == STN_DTYPE_BOOL;
    const bool sums = op == STN_SUM || op == STN_AVG;
    out->per_element = complex ? 2 : 1;
    if (!type_of(dtype, &out->type) || (complex && !sums))
        return false;
    const bool floating = out->type == at::kFloat || out->type == at::kDouble;
    if (floating ? op == STN_MIN || op == STN_MAX : op == STN_AVG)
        return false;
    static const c10d::ReduceOp::RedOpType ops[] = {c10d::ReduceOp::SUM, c10d::ReduceOp::SUM, c10d::ReduceOp::PRODUCT,
                                                    c10d::ReduceOp::MIN, c10d::ReduceOp::MAX};
    out->op = ops[op];
    if (truth && sums)
        out->op = c10d::ReduceOp::MAX; /* "or" */
    if (truth && op == STN_PROD)
        out->op = c10d::ReduceOp::MIN; /* "and" */
    return true;
}

stn_status stnp_group_all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count,
                                 stn_dtype dtype, stn_reduce_op op)
{
    const auto *group = static_cast<stnp_group *>(impl);
    reduction how;
    if (!take_reduction(dtype, op, &how))
        return STN_ERR_UNSUPPORTED; /* the library builds it of messages */
    if (count == 0)
        return STN_OK;
    return run(group, queue, "all_reduce", [&] {
        if (send != recv)
            std::memcpy(recv, send, static_cast<size_t>(count) * stn_dtype_size(dtype));
        std::vector<at::Tensor> whole{tensor(recv, count * how.per_element, how.type)};
        auto options = within_deadline<c10d::AllreduceOptions>(group);
        options.reduceOp = how.op;
        group->backend->allreduce(whole, options)->wait();
        if (op == STN_AVG && dtype != STN_DTYPE_BOOL)
            whole[0].div_(stnp_group_size(group));
    });
}

stn_status stnp_group_broadcast(void *impl, stn_queue *queue, void *buffer, int64_t count, stn_dtype dtype, int root)
{
    const auto *group = static_cast<stnp_group *>(impl);
    if (count == 0)
        return STN_OK;
    return run(group, queue, "broadcast", [&] {
        std::vector<at::Tensor> whole{bytes(buffer, count, dtype)};
        auto options = within_deadline<c10d::BroadcastOptions>(group);
        options.rootRank = group->members[root];
        group->backend->broadcast(whole, options)->wait();
    });
}

/** Sends or receives what goes between two ranks. This rank's own parts are copied, in the order of their sending. */
struct messages {
    const stnp_group *group;
    stn_dtype dtype;
    clock_type::time_point end;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    std::vector<at::Tensor> own;
    size_t n_copied = 0;

    at::Tensor part(const stn_message &message) const
    {
        int64_t count = 1;
        for (int d = 0; d < message.box.ndim; d++)
            count *= message.box.shape[d];
        return bytes(message.box.data, count, dtype);
    }

    void send(const stn_message &message)
    {
        std::vector<at::Tensor> one{part(message)};
        if (message.peer == group->rank)
            own.push_back(one[0]);
        else if (one[0].numel() > 0)
            works.push_back(group->backend->send(one, group->members[message.peer], MESSAGE_TAG));
    }

    void receive(const stn_message &message)
    {
        std::vector<at::Tensor> one{part(message)};
        if (message.peer == group->rank)
            copy_own(one[0]);
        else if (one[0].numel() > 0)
            works.push_back(group->backend->recv(one, group->members[message.peer], MESSAGE_TAG));
    }

    void copy_own(const at::Tensor &to)
    {
        const at::Tensor &from = own.at(n_copied++);
        TORCH_CHECK(from.numel() == to.numel(), "rank ", group->rank, " sends itself ", from.numel(),
                    " bytes and wants ", to.numel());
        if (to.numel() > 0)
            std::memmove(to.data_ptr(), from.data_ptr(), static_cast<size_t>(to.numel()));
    }

    /** All have the one deadline. c10d takes 0 for its own. */
    void wait()
    {
        for (auto &work : works) {
            const auto left = std::chrono::ceil<milliseconds>(end - clock_type::now());
            work->wait(std::max(left, milliseconds(1)));
        }
    }
};

stn_status stnp_group_messages(void *impl, stn_queue *queue, const stn_exchange *exchange)
{
    const auto *group = static_cast<stnp_group *>(impl);
    return run(group, queue, "group", [&] {
        messages all{group, exchange->dtype, clock_type::now() + group->deadline, {}, {}};
        for (int i = 0; i < exchange->n_send; i++)
            all.send(exchange->send[i]);
        for (int i = 0; i < exchange->n_recv; i++)
            all.receive(exchange->recv[i]);
        all.wait();
    });
}

stn_status stnp_group_barrier(void *impl, stn_queue *queue)
{
    const auto *group = static_cast<stnp_group *>(impl);
    return run(group, queue, "barrier",
               [&] { group->backend->barrier(within_deadline<c10d::BarrierOptions>(group))->wait(); });
}
