#include "ops/matmul/equation.h"

#include "core/shard/spec.h"
#include "ops/common/dims.h"

#include <inttypes.h>
#include <string.h>

enum { SMALL = 26 };

/* A term as it is written: letters, and how many of them stand before the ellipsis, -1 without one. */
struct written {
    int n, ellipsis;
    int8_t label[STNI_EINSUM_LABELS];
};

struct reader {
    const stn_op_call *call;
    const char *text, *at;
};

static stn_status refuse(const struct reader *r, const char *what)
{
    return stn_op_fail(r->call, STN_ERR_ARGUMENT, "'equation' got \"%s\": %s", r->text, what);
}

static void skip_spaces(struct reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

static int label_of(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + SMALL : -1;
}

/* Reads a term up to a comma, an arrow or the end. */
static stn_status read_term(struct reader *r, struct written *out)
{
    *out = (struct written){.ellipsis = -1};
    for (skip_spaces(r); *r->at != '\0' && *r->at != ',' && *r->at != '-'; skip_spaces(r)) {
        int label = label_of(*r->at);
        if (strncmp(r->at, "...", 3) == 0 && out->ellipsis < 0) {
            out->ellipsis = out->n;
            r->at += 3;
        } else if (*r->at == '.') {
            return refuse(r, "wanted at most one ellipsis of three dots in a term");
        } else if (label < 0) {
            return refuse(r, "wanted letters, ellipses, commas and an arrow");
        } else if (out->n == STNI_EINSUM_ELLIPSIS) {
            return refuse(r, "wanted fewer letters");
        } else {
            out->label[out->n++] = (int8_t)label;
            r->at++;
        }
    }
    return STN_OK;
}

/* Gives the dims of operand `i` their labels. */
static stn_status label_operand(const struct reader *r, int i, const struct written *w, struct stni_einsum_term *out)
{
    const struct stni_layout *in = &r->call->in_spec[i]->layout;
    int covered = in->ndim - w->n;
    if (w->ellipsis < 0 ? covered != 0 : covered < 0)
        return stn_op_fail(r->call, STN_ERR_SHAPE, "'operand%d' got %d dims, and its term in \"%s\" has %d letters", i,
                           in->ndim, r->text, w->n);
    out->n = in->ndim;
    for (int d = 0; d < in->ndim; d++) {
        int inside = w->ellipsis >= 0 && d >= w->ellipsis && d < w->ellipsis + covered;
        out->label[d] = inside ? (int8_t)(STNI_EINSUM_LABELS - covered + d - w->ellipsis)
                               : w->label[w->ellipsis >= 0 && d >= w->ellipsis ? d - covered : d];
    }
    return STN_OK;
}

/* Sizes of labels; a size of 1 broadcasts to another operand's, and not to another dim of its own. */
static stn_status take_sizes(const struct reader *r, int i, struct stni_equation *e)
{
    const struct stni_layout *in = &r->call->in_spec[i]->layout;
    const struct stni_einsum_term *term = &e->in[i];
    for (int d = 0; d < in->ndim; d++) {
        int64_t *size = &e->size[term->label[d]], n = in->shape[d];
        for (int other = 0; other < d; other++)
            if (term->label[other] == term->label[d] && in->shape[other] != n)
                return stn_op_fail(r->call, STN_ERR_SHAPE,
                                   "'operand%d' got sizes %" PRId64 " and %" PRId64 " for dims of one letter", i,
                                   in->shape[other], n);
        if (*size != 1 && n != 1 && *size != n)
            return stn_op_fail(r->call, STN_ERR_SHAPE,
                               "'operand%d' got size %" PRId64 " for its dim %d, wanted %" PRId64 " or 1", i, n, d,
                               *size);
        if (n != 1)
            *size = n;
    }
    return STN_OK;
}

static int most_covered(const struct stni_equation *e)
{
    int most = 0;
    for (int i = 0; i < e->n; i++)
        for (int d = 0; d < e->in[i].n; d++)
            if (STNI_EINSUM_LABELS - e->in[i].label[d] > most && e->in[i].label[d] >= STNI_EINSUM_ELLIPSIS)
                most = STNI_EINSUM_LABELS - e->in[i].label[d];
    return most;
}

static int count(const struct stni_equation *e, int label)
{
    int n = 0;
    for (int i = 0; i < e->n; i++)
        for (int d = 0; d < e->in[i].n; d++)
            n += e->in[i].label[d] == label;
    return n;
}

static stn_status append(const struct reader *r, struct stni_einsum_term *out, int label)
{
    if (out->n == STN_MAX_NDIM)
        return refuse(r, "the result has more dims than a tensor can have");
    out->label[out->n++] = (int8_t)label;
    return STN_OK;
}

static stn_status append_ellipsis(const struct reader *r, struct stni_equation *e)
{
    for (int l = STNI_EINSUM_LABELS - most_covered(e); l < STNI_EINSUM_LABELS; l++)
        STNI_TRY(append(r, &e->out, l));
    return STN_OK;
}

/* Without an arrow: the ellipsis, then the letters that stand once, in the order of the alphabet. */
static stn_status imply_result(const struct reader *r, struct stni_equation *e)
{
    STNI_TRY(append_ellipsis(r, e));
    for (int l = 0; l < STNI_EINSUM_ELLIPSIS; l++)
        if (count(e, l) == 1)
            STNI_TRY(append(r, &e->out, l));
    return STN_OK;
}

static stn_status read_result(struct reader *r, struct stni_equation *e)
{
    struct written w;
    STNI_TRY(read_term(r, &w));
    if (*r->at != '\0')
        return refuse(r, "wanted one term after the arrow");
    for (int i = 0; i <= w.n; i++) {
        if (i == w.ellipsis)
            STNI_TRY(append_ellipsis(r, e));
        if (i == w.n)
            break;
        for (int other = 0; other < i; other++)
            if (w.label[other] == w.label[i])
                return refuse(r, "a letter stands twice in the result");
        if (count(e, w.label[i]) == 0)
            return refuse(r, "a letter of the result stands in no operand");
        STNI_TRY(append(r, &e->out, w.label[i]));
    }
    return STN_OK;
}

stn_status stni_equation_read(const stn_op_call *call, const char *text, struct stni_equation *out)
{
    struct reader r = {call, text, text};
    memset(out, 0, sizeof *out);
    for (int l = 0; l < STNI_EINSUM_LABELS; l++)
        out->size[l] = 1;
    for (;; r.at++) {
        struct written w;
        STNI_TRY(read_term(&r, &w));
        if (out->n == call->n_in)
            return refuse(&r, "it has more terms than there are operands");
        STNI_TRY(label_operand(&r, out->n, &w, &out->in[out->n]));
        STNI_TRY(take_sizes(&r, out->n, out));
        out->n++;
        if (*r.at != ',')
            break;
    }
    if (out->n < call->n_in)
        return refuse(&r, "it has fewer terms than there are operands");
    if (*r.at == '\0')
        return imply_result(&r, out);
    if (strncmp(r.at, "->", 2) != 0)
        return refuse(&r, "wanted letters, ellipses, commas and an arrow");
    r.at += 2;
    return read_result(&r, out);
}
