/* Scopes: who owns what is made, and where errors go. */
#include "core/counted.h"
#include "harness.h"
#include "core/core_ranks.h"

#include "core/tensor/tensor.h"

static const stn_spec *vector_spec(stn_context *context, int64_t n)
{
    const stn_spec *spec = NULL;
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 1, &n, &spec), STN_OK);
    return spec;
}

static int64_t live_tensors(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats.live_tensors;
}

static void make(stn_context *context, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_I64(stn_tensor_is_error(stn_empty(context, vector_spec(context, i))), 0);
}

static void end_with_open_handles(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    make(context, 1000);
    stn_tensor *kept = stn_tensor_retain(stn_empty(context, vector_spec(context, 3)));
    CHECK_I64(live_tensors(context), 1001);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_I64(live_tensors(context), 1);
    stn_tensor_release(&kept);
    CHECK(kept == NULL);
    CHECK_I64(live_tensors(context), 0);
}

static void scope_owns_what_is_made_in_it(void)
{
    on_one_rank(end_with_open_handles, NULL);
}

static void make_outside(stn_context *context, void *arg)
{
    (void)arg;
    stn_tensor *own = stn_empty(context, vector_spec(context, 5));
    stn_scope_begin(context);
    make(context, 3);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_I64(live_tensors(context), 1);
    stn_tensor_release(&own);
    CHECK_I64(live_tensors(context), 0);
}

/* In one scope, or in two: a handle that was handed out to the scope around is that one's. */
static void release_what_a_scope_owns(stn_context *context, void *arg)
{
    const int kept = arg != NULL;
    stn_scope_begin(context);
    if (kept)
        stn_scope_begin(context);
    stn_tensor *made = stn_empty(context, vector_spec(context, 5));
    if (kept)
        CHECK_STATUS(stn_scope_end_keep(context, made, &made), STN_OK);
    stn_tensor *same = made;
    stn_tensor_release(&made);
    CHECK(stn_tensor_is_error(stn_empty(context, vector_spec(context, 5))));
    CHECK_STR(stn_context_error_text(context),
              "tensor_release: the tensor was its scope's alone, which releases it when it ends; what is to be "
              "released before is retained first");
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    CHECK(stn_tensor_ndim(same) == 1 && same->storage != NULL);
    CHECK_I64(live_tensors(context), 1);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    CHECK_I64(live_tensors(context), 0);
}

static void a_scopes_reference_is_not_the_callers_to_release(void)
{
    int kept = 1;
    on_one_rank(release_what_a_scope_owns, NULL);
    on_one_rank(release_what_a_scope_owns, &kept);
}

static void outside_a_scope_the_caller_owns(void)
{
    on_one_rank(make_outside, NULL);
}

/* More scopes than there are marks: the deepest ones end together, nothing is lost and nothing freed twice. */
static void nest(stn_context *context, void *arg)
{
    (void)arg;
    enum { DEPTH = 200 };
    for (int i = 0; i < DEPTH; i++) {
        stn_scope_begin(context);
        make(context, 2);
    }
    CHECK_I64(live_tensors(context), 2 * DEPTH);
    for (int depth = DEPTH; depth > 0; depth--) {
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        if (depth > STNI_SCOPE_MARKS)
            CHECK_I64(live_tensors(context), 2 * DEPTH);
        else
            CHECK_I64(live_tensors(context), 2 * (depth - 1));
    }
}

static void scopes_nest_deeper_than_there_are_marks(void)
{
    on_one_rank(nest, NULL);
}

static void keep_through_two_scopes(stn_context *context, void *arg)
{
    (void)arg;
    float host[4] = {1, 2, 3, 4}, back[4] = {0};
    stn_tensor *inner = NULL, *outer = NULL;
    stn_scope_begin(context);
    stn_scope_begin(context);
    make(context, 3);
    stn_tensor *made = stn_from_host(context, vector_spec(context, 4), host);
    CHECK_STATUS(stn_scope_end_keep(context, made, &inner), STN_OK);
    CHECK(inner == made);
    CHECK_I64(live_tensors(context), 1); /* owned by the outer scope */
    CHECK_STATUS(stn_scope_end_keep(context, inner, &outer), STN_OK);
    CHECK_I64(live_tensors(context), 1); /* owned by us */
    CHECK_STATUS(stn_to_host(outer, back, sizeof back), STN_OK);
    CHECK_BYTES(back, host, sizeof host);
    stn_tensor_release(&outer);
    CHECK_I64(live_tensors(context), 0);
}

static void end_keep_hands_a_handle_outward(void)
{
    on_one_rank(keep_through_two_scopes, NULL);
}

static void keep_what_cannot_be_kept(stn_context *context, void *arg)
{
    stn_context *other = arg;
    stn_tensor *out = (stn_tensor *)&out;
    stn_scope_begin(context);
    CHECK_STATUS(stn_scope_end_keep(context, NULL, &out), STN_ERR_ARGUMENT);
    stn_scope_begin(context);
    CHECK_STATUS(stn_scope_end_keep(context, other->error_tensor, &out), STN_ERR_ARGUMENT);
    /* Left over from a failure that was taken. */
    stn_scope_begin(context);
    CHECK_STATUS(stn_scope_end_keep(context, context->error_tensor, &out), STN_ERR_STATE);
    /* A failure in the scope. */
    stn_scope_begin(context);
    stn_tensor *good = stn_empty(context, vector_spec(context, 2));
    stni_fail(context, STN_ERR_LAYOUT, "some op failed");
    CHECK_STATUS(stn_scope_end_keep(context, good, &out), STN_ERR_LAYOUT);
    CHECK_STR(stn_context_error_text(context), "some op failed");
    CHECK(out == (stn_tensor *)&out); /* written on success only */
    CHECK_I64(live_tensors(context), 0);
}

static void keep_on_two_contexts(stn_context *context, void *arg)
{
    (void)arg;
    on_one_rank(keep_what_cannot_be_kept, context);
}

static void end_keep_refuses_what_it_cannot_keep(void)
{
    on_one_rank(keep_on_two_contexts, NULL);
}

static void fail_inside(stn_context *context, void *arg)
{
    (void)arg;
    float value = 7, untouched = 7;
    stn_scope_begin(context);
    stn_tensor *early = stn_from_host(context, vector_spec(context, 1), &value);
    stn_scope_begin(context);
    CHECK(stn_from_host(context, vector_spec(context, 3), NULL) == context->error_tensor);
    CHECK(stn_empty(context, vector_spec(context, 3)) == context->error_tensor);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_ARGUMENT); /* passed outward */
    CHECK_STATUS(stn_to_host(early, &untouched, sizeof untouched), STN_ERR_ARGUMENT);
    CHECK_NEAR(untouched, 7, 0);
    CHECK_STATUS(stn_context_status(context), STN_ERR_ARGUMENT);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_ARGUMENT); /* taken */
    CHECK_STATUS(stn_context_status(context), STN_OK);
    CHECK_STR(stn_context_error_text(context), "from_host: data got NULL, wanted 3 elements");
    stn_scope_begin(context);
    CHECK_I64(stn_tensor_is_error(stn_empty(context, vector_spec(context, 3))), 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static void error_passes_outward_and_the_outermost_end_takes_it(void)
{
    on_one_rank(fail_inside, NULL);
}

static void end_too_often(stn_context *context, void *arg)
{
    (void)arg;
    CHECK_STATUS(stn_scope_end(context), STN_ERR_STATE);
    CHECK_STATUS(stn_context_take_error(context, NULL, 0), STN_ERR_STATE);
    stn_scope_agree(context); /* no scope: nothing to mark */
    stn_scope_begin(context);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_scope_begin(NULL);
    stn_scope_agree(NULL);
    CHECK_STATUS(stn_scope_end(NULL), STN_ERR_ARGUMENT);
}

static void end_without_a_begin_is_an_error(void)
{
    on_one_rank(end_too_often, NULL);
}

static void outgrow(stn_context *context, void *arg)
{
    (void)arg;
    const stn_spec *spec = vector_spec(context, 0);
    stn_scope_begin(context);
    while (context->scopes.n < context->scopes.cap || context->scopes.cap == 0)
        stn_empty(context, spec);
    int64_t before = context->scopes.n;
    /* Handles come from slabs, so that the list is what fails. */
    counted_fail_at(1, 0);
    CHECK(stn_empty(context, spec) == context->error_tensor);
    counted_fail_at(0, 0);
    CHECK_STATUS(stn_context_status(context), STN_ERR_MEMORY);
    CHECK_I64(context->scopes.n, before);
    CHECK_STATUS(stn_scope_end(context), STN_ERR_MEMORY);
    CHECK_I64(live_tensors(context), 0);
}

static void list_that_cannot_grow_is_a_kept_error(void)
{
    on_one_rank(outgrow, NULL);
}

static void keep_three(stn_context *context, void *arg)
{
    stn_tensor *kept[3], *outer[3] = {NULL};
    (void)arg;
    stn_scope_begin(context);
    stn_scope_begin(context);
    make(context, 5);
    for (int i = 0; i < 3; i++)
        kept[i] = stn_empty(context, vector_spec(context, i + 1));
    kept[2] = kept[0]; /* one handle twice */
    CHECK_STATUS(stn_scope_end_keep_all(context, 3, kept, kept), STN_OK);
    CHECK_I64(live_tensors(context), 2);
    CHECK_STATUS(stn_scope_end_keep_all(context, 3, kept, outer), STN_OK);
    CHECK_I64(live_tensors(context), 2);
    CHECK(outer[0] == kept[0] && outer[1] == kept[1] && outer[2] == kept[0]);
    for (int i = 0; i < 3; i++)
        stn_tensor_release(&outer[i]);
    CHECK_I64(live_tensors(context), 0);
    stn_scope_begin(context);
    make(context, 2);
    CHECK_STATUS(stn_scope_end_keep_all(context, 0, NULL, NULL), STN_OK);
    CHECK_I64(live_tensors(context), 0);
    stn_scope_begin(context);
    kept[0] = stn_empty(context, vector_spec(context, 2)), kept[1] = NULL;
    CHECK_STATUS(stn_scope_end_keep_all(context, 2, kept, outer), STN_ERR_ARGUMENT);
    CHECK_STR(stn_context_error_text(context), "scope_end_keep_all: keep[1] got NULL, wanted a tensor of this context");
    CHECK(outer[0] == NULL && outer[1] == NULL);
    CHECK_I64(live_tensors(context), 0);
    CHECK_STATUS(stn_scope_end_keep_all(context, 0, NULL, NULL), STN_ERR_STATE);
}

static void several_handles_outlive_their_scope(void)
{
    on_one_rank(keep_three, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"several_handles_outlive_their_scope", several_handles_outlive_their_scope},
        {"scope_owns_what_is_made_in_it", scope_owns_what_is_made_in_it},
        {"outside_a_scope_the_caller_owns", outside_a_scope_the_caller_owns},
        {"a_scopes_reference_is_not_the_callers_to_release", a_scopes_reference_is_not_the_callers_to_release},
        {"scopes_nest_deeper_than_there_are_marks", scopes_nest_deeper_than_there_are_marks},
        {"end_keep_hands_a_handle_outward", end_keep_hands_a_handle_outward},
        {"end_keep_refuses_what_it_cannot_keep", end_keep_refuses_what_it_cannot_keep},
        {"error_passes_outward_and_the_outermost_end_takes_it", error_passes_outward_and_the_outermost_end_takes_it},
        {"end_without_a_begin_is_an_error", end_without_a_begin_is_an_error},
        {"list_that_cannot_grow_is_a_kept_error", list_that_cannot_grow_is_a_kept_error},
    };
    return TEST_MAIN(argc, argv, cases);
}
