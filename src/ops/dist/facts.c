#include "ops/dist/facts.h"

#include "core/context/context.h"
#include "core/shard/tables.h"
#include "ops/dist/pairs.h"

#include <stdio.h>
#include <string.h>

/* Words of the agreement, which are added up over the ranks: how many failed; a hash of the call, or of the failure,
 * which comes to the number of ranks times each one's own where all have the same; what is sent less what is
 * expected. */
enum { FAILED, HASH, BALANCE, WORDS };

const char *const stni_size_labels[STN_MAX_NDIM] = {"shape[0]", "shape[1]", "shape[2]", "shape[3]",
                                                    "shape[4]", "shape[5]", "shape[6]", "shape[7]"};

static const int64_t nothing = INT64_MIN;

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = stni_hash_step(hash, (unsigned char)*text);
    return hash;
}

/* 62 bits, so that the negative is exact and none is `nothing`; the last one tells a call from a failure. */
static int64_t word_of(uint64_t hash, int failed)
{
    return (int64_t)(hash >> 2 & ~UINT64_C(1)) | failed;
}

static int64_t hash_of_failure(const stn_context *context)
{
    return word_of(hash_text(context->error.status, context->error.text), 1);
}

/* A rank that alone was refused a collective comes with one that its peers will have later, and that may look the same
 * as what they wait in. */
static int64_t hash_of(const stn_context *context, const struct stni_facts *facts)
{
    uint64_t hash = hash_text((uint64_t)context->refused_calls.n, facts->collective);
    for (int i = 0; i < facts->n; i++)
        hash = stni_hash_step(stni_hash_step(hash, (uint64_t)facts->facts[i].number), (uint64_t)i);
    for (int i = 0; i < facts->n_sizes; i++)
        hash = stni_hash_step(hash, (uint64_t)facts->sizes[i]);
    return word_of(hash, 0);
}

enum { CALL_TEXT = 208 }; /* bytes: two of them fit into a message */

struct described {
    int64_t hash;
    char text[CALL_TEXT];
};

static void append(char *text, const char *label, const char *word, int64_t number)
{
    size_t n = strlen(text);
    if (word != NULL)
        snprintf(text + n, CALL_TEXT - n, "%s%s", label, word);
    else
        snprintf(text + n, CALL_TEXT - n, "%s%lld", label, (long long)number);
}

static void describe(const stn_context *context, const struct stni_facts *facts, struct described *out)
{
    memset(out, 0, sizeof *out);
    out->hash = hash_of(context, facts);
    snprintf(out->text, CALL_TEXT, "%s", facts->collective);
    for (int i = 0; i < facts->n; i++) {
        append(out->text, i == 0 ? "(" : ", ", facts->facts[i].label, 0);
        append(out->text, " ", facts->facts[i].word, facts->facts[i].number);
    }
    for (int i = 0; i < facts->n_sizes; i++)
        append(out->text, i == 0 ? ", sizes " : " ", NULL, facts->sizes[i]);
    append(out->text, ")", "", 0);
    if (context->refused_calls.n > 0)
        append(out->text, ", refused calls before it ", NULL, context->refused_calls.n);
}

static stn_status comm_failed(stn_context *context, const stn_comm *comm, stn_status status)
{
    const char *text = stn_queue_error_text(context->queue);
    if (context->error.status != STN_OK)
        return context->error.status;
    return stni_fail_rank(context, status, "%s", text[0] != '\0' ? text : stn_comm_error_text(comm));
}

/* Ranks that have heard of a difference begin anew. */
static stn_status align_refusals(stn_context *context, stn_comm *comm)
{
    return stni_comm_agree(comm, context->queue, &context->refused_calls.n, 1, STN_MAX);
}

/* All ranks keep the same, whatever each had kept before. */
static stn_status keep(stn_context *context, stn_status status, const char *text)
{
    context->error.status = STN_OK;
    context->error_agreed = 1;
    return stni_fail(context, status, "%s", text);
}

/* Everybody gets the failure of the lowest rank that has one. */
static stn_status tell_failure(stn_context *context, stn_comm *comm, stn_status mine)
{
    int64_t word = mine == STN_OK ? nothing : -((int64_t)stn_comm_rank(comm) << 8 | (int64_t)mine);
    stn_status status = stni_comm_agree(comm, context->queue, &word, 1, STN_MAX);
    const stn_status failure = (stn_status)(-word & 0xff);
    if (status == STN_OK)
        status = stni_agree_on_failure(context, comm, (int)(-word >> 8), failure);
    if (status == STN_OK)
        status = align_refusals(context, comm);
    return status == STN_OK ? failure : comm_failed(context, comm, status);
}

/* Everybody gets the call of the first rank that differs from the first of all, and that one's. */
static stn_status tell_difference(const stn_mesh *mesh, stn_comm *comm, const struct stni_facts *facts)
{
    stn_context *context = mesh->context;
    struct described mine, first;
    char text[STNI_ERROR_TEXT];
    describe(context, facts, &mine);
    first = mine;
    stn_status status = stni_comm_agree_broadcast(comm, context->queue, &first, sizeof first, 0);
    int64_t differs = memcmp(&mine, &first, sizeof mine) != 0 ? -(int64_t)stn_comm_rank(comm) : nothing;
    if (status == STN_OK)
        status = stni_comm_agree(comm, context->queue, &differs, 1, STN_MAX);
    if (status == STN_OK)
        status = stni_comm_agree_broadcast(comm, context->queue, &mine, sizeof mine, (int)-differs);
    if (status == STN_OK)
        status = align_refusals(context, comm);
    if (status != STN_OK)
        return comm_failed(context, comm, status);
    snprintf(text, sizeof text, "rank %d calls %s, rank %d %s; nothing was moved", stni_mesh_rank(mesh, (int)-differs),
             mine.text, stni_mesh_rank(mesh, 0), first.text);
    return keep(context, STN_ERR_MISMATCH, text);
}

/* Wrapping. */
static int64_t times(int64_t word, int n)
{
    return (int64_t)((uint64_t)word * (uint64_t)n);
}

static stn_status meet(const stn_mesh *mesh, stn_comm *comm, stn_status status, const struct stni_facts *facts,
                       int64_t balance)
{
    stn_context *context = mesh->context;
    const int64_t mine = status == STN_OK ? hash_of(context, facts) : hash_of_failure(context);
    int64_t words[WORDS] = {status != STN_OK, mine, status == STN_OK ? balance : 0};
    const stn_status met = stni_comm_agree_first(comm, context->queue, STNI_AGREE_DIST, words, WORDS, STN_SUM);
    if (met != STN_OK)
        return comm_failed(context, comm, met);
    const int same = words[HASH] == times(mine, mesh->size); /* and be it a failure */
    if (same && words[BALANCE] == 0)
        return status;
    if (words[FAILED] > 0)
        return tell_failure(context, comm, status);
    return same ? stni_pairs_explain(mesh, comm, facts->collective, facts->send, facts->receive)
                : tell_difference(mesh, comm, facts);
}

stn_status stni_dist_agree(const stn_mesh *mesh, stn_status status, const struct stni_facts *facts)
{
    stn_comm *comm = NULL;
    int64_t balance = 0;
    if (!mesh->member)
        return status;
    if (mesh->context->closed)
        return mesh->context->error.status;
    if (status == STN_OK && facts->send != NULL)
        status = stni_pairs_balance(mesh, facts->send, facts->receive, &balance);
    if (mesh->size == 1)
        return balance == 0 ? status : stni_pairs_explain(mesh, NULL, facts->collective, facts->send, facts->receive);
    const stn_status met = stni_mesh_comm(mesh, (1u << mesh->ndim) - 1, &comm);
    return met == STN_OK ? meet(mesh, comm, status, facts, balance) : met;
}

stn_status stni_dist_count_refusal(stn_context *context, int is_counted)
{
    if (context->size > 1 && !context->error_agreed && context->error.status != STN_ERR_PEER) {
        context->refused_calls.n += is_counted;
        context->refused_calls.behind = context->comm_stats.collectives;
        context->refused_calls.last = context->error;
    }
    return context->error.status;
}

/* What is kept was kept when calls were refused before. */
static int is_counted_before(const stn_context *context)
{
    const struct stni_error *last = &context->refused_calls.last;
    return context->error.status != STN_OK && strcmp(last->text, context->error.text) == 0;
}

stn_status stni_dist_no_mesh(stn_context *context, const char *collective, const stn_mesh *mesh)
{
    const int is_counted = !is_counted_before(context);
    stni_fail(context, STN_ERR_ARGUMENT, "%s: mesh is %s, wanted one of the tensor's context", collective,
              mesh != NULL ? "another context's" : "NULL");
    return stni_dist_count_refusal(context, is_counted);
}
