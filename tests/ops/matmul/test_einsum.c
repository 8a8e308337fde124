/* einsum: equations against a plain sum over all labels, layouts against one process with second derivatives, what
 * moves, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

struct equation {
    const char *text;
    int n;
    struct random_shape in[3];
    const char *plain; /* with letters for ellipses, and the result spelled out; NULL: as it is */
};

static const struct equation equations[] = {
    {"ij,jk->ik", 2, {{2, {3, 4}}, {2, {4, 5}}}, NULL},
    {" i j , j k -> k i ", 2, {{2, {3, 4}}, {2, {4, 5}}}, "ij,jk->ki"},
    {"ij,jk", 2, {{2, {3, 4}}, {2, {4, 5}}}, "ij,jk->ik"},
    {"ba", 1, {{2, {3, 4}}}, "ba->ab"},
    {"aB,Bc", 2, {{2, {3, 4}}, {2, {4, 2}}}, "aB,Bc->ac"},
    {"Ba", 1, {{2, {3, 4}}}, "Ba->Ba"}, /* capitals come first */
    {"ii", 1, {{2, {4, 4}}}, "ii->"},
    {"ii->i", 1, {{2, {4, 4}}}, NULL},
    {"iji->ji", 1, {{3, {3, 2, 3}}}, NULL},
    {"iij,jkk->ik", 2, {{3, {3, 3, 4}}, {3, {4, 2, 2}}}, NULL},
    {",ij->ji", 2, {{0, {0}}, {2, {3, 4}}}, NULL},
    {"->", 1, {{0, {0}}}, NULL},
    {"i,i", 2, {{1, {5}}, {1, {5}}}, "i,i->"},
    {"i...,i...", 2, {{1, {5}}, {1, {5}}}, "i,i->"},
    {"ab,cd,ef->abcdef", 3, {{2, {2, 1}}, {2, {3, 2}}, {2, {1, 2}}}, NULL},
    {"ijk->", 1, {{3, {3, 2, 4}}}, NULL},
    {"i,j->ij", 2, {{1, {3}}, {1, {4}}}, NULL},
    {"ij,ij->ij", 2, {{2, {3, 4}}, {2, {3, 4}}}, NULL},
    {"ij,ij", 2, {{2, {3, 4}}, {2, {3, 4}}}, "ij,ij->"},
    {"bijk,bikj->bk", 2, {{4, {2, 3, 4, 2}}, {4, {2, 3, 2, 4}}}, NULL},
    {"abcd,dcbe->ae", 2, {{4, {2, 3, 2, 4}}, {4, {4, 2, 3, 3}}}, NULL},
    {"...ij,...jk->...ik", 2, {{4, {2, 3, 4, 5}}, {3, {3, 5, 2}}}, "xyij,yjk->xyik"},
    {"...ij,...jk", 2, {{3, {3, 4, 5}}, {4, {2, 1, 5, 2}}}, "yij,xzjk->xyik"}, /* z has size 1 */
    {"i...->...", 1, {{3, {3, 4, 2}}}, "ixy->xy"},
    {"i...->i", 1, {{3, {3, 4, 2}}}, "ixy->i"},
    {"ij,kj->ik", 2, {{2, {3, 4}}, {2, {5, 1}}}, "ij,kz->ik"}, /* a dim of size 1 broadcasts */
    {"ij,jk,kl->il", 3, {{2, {3, 4}}, {2, {4, 5}}, {2, {5, 2}}}, NULL},
    {"bi,bj,bk->bijk", 3, {{2, {2, 3}}, {2, {2, 4}}, {2, {2, 2}}}, NULL},
    {"i,ij,j->", 3, {{1, {3}}, {2, {3, 4}}, {1, {4}}}, NULL},
    {"ij,jk->ik", 2, {{2, {3, 0}}, {2, {0, 2}}}, NULL},
    {"ij,jk->ik", 2, {{2, {0, 3}}, {2, {3, 2}}}, NULL},
};
enum { N_EQUATIONS = sizeof equations / sizeof *equations, LETTERS = 128 };

static stn_tensor *call_einsum(stn_tensor *const *in, const void *arg)
{
    const struct equation *e = arg;
    return stn_einsum(e->text, e->n, in);
}

/* The sum over every letter of a plain equation. */
static void plain_sum(const struct equation *e, double *const *values, double *out)
{
    const char *text = e->plain ? e->plain : e->text, *arrow = strstr(text, "->"), *at = text;
    int64_t size[LETTERS] = {0}, index[LETTERS] = {0}, total = 1;
    char letters[LETTERS] = {0};
    for (int i = 0; i < e->n; i++, at++)
        for (int d = 0; d < e->in[i].ndim; d++, at++) {
            if (size[(int)*at] == 0 && !strchr(letters, *at))
                letters[strlen(letters)] = *at;
            size[(int)*at] = e->in[i].shape[d];
        }
    for (const char *l = letters; *l; l++)
        total *= size[(int)*l];
    for (int64_t n = 0; n < total; n++) {
        int64_t rest = n, to = 0;
        double product = 1;
        for (const char *l = letters; *l; rest /= size[(int)*l], l++)
            index[(int)*l] = rest % size[(int)*l];
        at = text;
        for (int i = 0; i < e->n; i++, at++) {
            int64_t from = 0;
            for (int d = 0; d < e->in[i].ndim; d++, at++)
                from = from * e->in[i].shape[d] + index[(int)*at];
            product *= values[i][from];
        }
        for (const char *l = arrow + 2; *l; l++)
            to = to * size[(int)*l] + index[(int)*l];
        out[to] += product;
    }
}

static void draw_values(const struct equation *e, uint64_t *state, double *values[3])
{
    for (int i = 0; i < e->n; i++)
        values[i] = against_one_draw(state, against_one_numel(&e->in[i]));
}

static stn_status sums_body(stn_context *context, void *arg)
{
    uint64_t state = 3;
    (void)arg;
    for (int i = 0; i < N_EQUATIONS; i++) {
        const struct equation *e = &equations[i];
        double *values[3] = {NULL}, want[512] = {0};
        stn_tensor *in[3];
        draw_values(e, &state, values);
        stn_scope_begin(context);
        for (int k = 0; k < e->n; k++)
            in[k] = against_one_local(context, STN_DTYPE_F64, &e->in[k], values[k]);
        plain_sum(e, values, want);
        stn_attr equation = {"equation", STN_ATTR_STRING, {.s = e->text}};
        stn_tensor *out;
        CHECK_STATUS(stn_call(context, "einsum", e->n, in, 1, &equation, 1, &out), STN_OK);
        against_one_compare(out, want, 1e-13);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        for (int k = 0; k < 3; k++)
            free(values[k]);
    }
    return STN_OK;
}

static void equations_mean_sums_over_all_letters(void)
{
    test_ranks(1, sums_body, NULL);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 7;
    (void)arg;
    for (int i = 0; i < N_EQUATIONS; i++) {
        const struct equation *e = &equations[i];
        struct against_one_op op = {.call = call_einsum, .arg = e, .n_in = e->n, .tolerance = 1e-12};
        double *values[3] = {NULL};
        draw_values(e, &state, values);
        for (int k = 0; k < e->n; k++)
            op.in[k] = (struct against_one_input){STN_DTYPE_F64, e->in[k], values[k], 1u << STN_SUM};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        if (stn_context_size(context) == 1)
            against_one_differences(context, &state, &op);
        for (int k = 0; k < 3; k++)
            free(values[k]);
    }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

/* Labels that are sharded stay where they are, in whatever dims they stand. */
static stn_status moves_body(stn_context *context, void *arg)
{
    const int64_t a[] = {4, 6, 2, 8}, b[] = {8, 2, 6, 10};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const struct {
        stn_placement a, b, want;
    } cases[] = {
        {stn_shard(0), stn_replicate(), stn_shard(1)},
        {stn_replicate(), stn_shard(3), stn_shard(0)},
        {stn_shard(1), stn_shard(2), stn_partial(STN_SUM)},
        {stn_shard(2), stn_shard(1), stn_partial(STN_SUM)},
        {stn_shard(3), stn_shard(0), stn_partial(STN_SUM)},
        {stn_partial(STN_SUM), stn_replicate(), stn_partial(STN_SUM)},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        stn_tensor *in[] = {test_tensor(context, mesh, &cases[i].a, STN_DTYPE_F64, 4, a, NULL, test_value),
                            test_tensor(context, mesh, &cases[i].b, STN_DTYPE_F64, 4, b, NULL, test_value)};
        stn_context_stats_reset(context);
        stn_tensor *y = stn_einsum("abcd,dcbe->ea", 2, in);
        stn_context_stats(context, &stats);
        stn_placement have = stn_spec_placement(stn_tensor_spec(y), 0);
        CHECK(have.kind == cases[i].want.kind && have.dim == cases[i].want.dim);
        CHECK_I64(stats.bytes_sent, 0);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void labels_stay_cut_and_nothing_moves(void)
{
    test_ranks(2, moves_body, NULL);
}

/* Bytes that a rank sends for the gradients of channels mixed degree by degree, whose cotangent is cut along `dim`. */
static int64_t bytes_of_gradients(stn_context *context, int dim)
{
    const int64_t x_shape[] = {2, 8, 6, 4}, w_shape[] = {8, 8, 6};
    const stn_placement cut = stn_shard(2), cotangent_cut = stn_shard(dim);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_stats stats = {.size = sizeof stats};
    stn_scope_begin(context);
    stn_tensor *in[] = {test_tensor(context, mesh, &cut, STN_DTYPE_F64, 4, x_shape, NULL, test_value),
                        test_tensor(context, mesh, &cut, STN_DTYPE_F64, 3, w_shape, NULL, test_value)};
    stn_tensor *g = test_tensor(context, mesh, &cotangent_cut, STN_DTYPE_F64, 4, x_shape, NULL, test_value);
    stn_tensor *gradients[2];
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_set_requires_grad(in[i], 1), STN_OK);
    stn_tensor *y = stn_einsum("bilm,oil->bolm", 2, in);
    stn_context_stats_reset(context);
    CHECK_STATUS(stn_grad(context, 1, &y, &g, 2, in, 0, 0, gradients), STN_OK);
    stn_context_stats(context, &stats);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return stats.bytes_sent;
}

/* Half of each rank's chunk. */
static stn_status cotangent_body(stn_context *context, void *arg)
{
    (void)arg;
    const int64_t as_result = bytes_of_gradients(context, 2);
    CHECK_I64(bytes_of_gradients(context, 1) - as_result, 2 * 8 * 6 * 4 / 4 * (int64_t)sizeof(double));
    CHECK_I64(bytes_of_gradients(context, 0) - as_result, 2 * 8 * 6 * 4 / 4 * (int64_t)sizeof(double));
    return STN_OK;
}

static void a_cotangent_that_is_cut_otherwise_moves_and_nothing_else(void)
{
    test_ranks(2, cotangent_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const struct {
        const char *text;
        int n;
        stn_status status;
        const char *message;
    } cases[] = {
        {"ij,jk->il", 2, STN_ERR_ARGUMENT,
         "einsum: 'equation' got \"ij,jk->il\": a letter of the result stands in no operand"},
        {"ij,jk->ii", 2, STN_ERR_ARGUMENT, "einsum: 'equation' got \"ij,jk->ii\": a letter stands twice in the result"},
        {"ij->i", 2, STN_ERR_ARGUMENT, "einsum: 'equation' got \"ij->i\": it has fewer terms than there are operands"},
        {"ij,jk,kl->i", 2, STN_ERR_ARGUMENT,
         "einsum: 'equation' got \"ij,jk,kl->i\": it has more terms than there are operands"},
        {"i1,jk->i", 2, STN_ERR_ARGUMENT,
         "einsum: 'equation' got \"i1,jk->i\": wanted letters, ellipses, commas and an arrow"},
        {"ij,jk-i", 2, STN_ERR_ARGUMENT,
         "einsum: 'equation' got \"ij,jk-i\": wanted letters, ellipses, commas and an arrow"},
        {"i.,jk->i", 2, STN_ERR_ARGUMENT,
         "einsum: 'equation' got \"i.,jk->i\": wanted at most one ellipsis of three dots in a term"},
        {"ijk,jk->i", 2, STN_ERR_SHAPE, "einsum: 'operand0' got 2 dims, and its term in \"ijk,jk->i\" has 3 letters"},
        {"ij,ik->jk", 2, STN_ERR_SHAPE, "einsum: 'operand1' got size 4 for its dim 0, wanted 3 or 1"},
        {"ii,jk->jk", 2, STN_ERR_SHAPE, "einsum: 'operand0' got sizes 3 and 4 for dims of one letter"},
    };
    const struct random_shape shapes[] = {{2, {3, 4}}, {2, {4, 5}}};
    const double zeros[32] = {0};
    char text[512];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *in[] = {against_one_local(context, STN_DTYPE_F32, &shapes[0], zeros),
                        against_one_local(context, STN_DTYPE_F32, &shapes[1], zeros)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(stn_tensor_is_error(stn_einsum(cases[i].text, cases[i].n, in)));
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), cases[i].status);
        CHECK_STR(text, cases[i].message);
    }
    stn_tensor *three[] = {stn_cast(in[0], STN_DTYPE_C128), stn_cast(in[1], STN_DTYPE_F64),
                           stn_cast(in[1], STN_DTYPE_C128)};
    CHECK_REFUSED(context, stn_einsum("ij,jk->ik", 2, three), STN_ERR_DTYPE,
                  "einsum: 'operand1' got f64, wanted the c128 of 'operand0': cast one of them");
    CHECK_REFUSED(context, stn_einsum("ij,jk,jk->i", 3, three), STN_ERR_DTYPE,
                  "einsum: 'operand2' got c128, wanted the f64 of 'operand1': cast one of them");
    for (int i = 0; i < 2; i++)
        three[i] = stn_cast(in[i], STN_DTYPE_U8);
    CHECK_REFUSED(context, stn_einsum("ij,jk->ik", 2, three), STN_ERR_DTYPE,
                  "einsum: 'operand0' got u8, wanted f32 f64 bf16 f16 i64 i32 c64 or c128: cast it");
    three[0] = in[0], three[1] = stn_cast(in[1], STN_DTYPE_F64);
    CHECK(!stn_tensor_is_error(stn_einsum("ij,jk->ijk", 2, three))); /* no sum: promoted as mul */
    return stn_scope_end(context);
}

static void bad_equations_are_named(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"equations_mean_sums_over_all_letters", equations_mean_sums_over_all_letters},
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"labels_stay_cut_and_nothing_moves", labels_stay_cut_and_nothing_moves},
        {"a_cotangent_that_is_cut_otherwise_moves_and_nothing_else",
         a_cotangent_that_is_cut_otherwise_moves_and_nothing_else},
        {"bad_equations_are_named", bad_equations_are_named},
    };
    return TEST_MAIN(argc, argv, cases);
}
