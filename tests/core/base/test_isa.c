/* The set that a context runs is one that processor and build have, and the one that was asked for. */
#include "harness.h"

#include "core/base/isa_choice.h"
#include "core/context/context.h"

#include <shardtensor/shardtensor.h>

#include <stdlib.h>
#include <string.h>

struct table {
    const char *name;
};
#define TABLE(isa) static const struct table STNI_ISA_JOIN(kernels, isa) = {#isa}
#ifndef STNI_WITHOUT_BASE
TABLE(base);
#endif
#ifndef STNI_WITHOUT_AVX2
TABLE(avx2);
#endif
#ifndef STNI_WITHOUT_AVX512
TABLE(avx512);
#endif

static void pick_returns_the_table_of_each_set(void)
{
    for (int isa = 0; isa < STNI_ISA_COUNT; isa++)
        if (stni_isa_is_built((enum stni_isa)isa))
            CHECK_STR(STNI_ISA_PICK(kernels, (enum stni_isa)isa)->name, stni_isa_name((enum stni_isa)isa));
}

static void best_set_is_offered_by_the_processor(void)
{
    enum stni_isa best = stni_isa_best();
    CHECK_I64(stni_isa_best(), best);
    CHECK(stni_isa_is_built(best));
    CHECK(best <= stni_isa_of_processor());
#ifdef __x86_64__
    CHECK(best < STNI_ISA_AVX512 || __builtin_cpu_supports("avx512bw"));
    CHECK(best < STNI_ISA_AVX2 || __builtin_cpu_supports("avx2"));
#endif
}

static stn_status set_of_rank(stn_context *context, void *arg)
{
    *(enum stni_isa *)arg = context->isa;
    CHECK_I64(context->queue->isa, context->isa);
    return STN_OK;
}

/* What a launched rank runs, and what the launch returns. */
static stn_status launch(const char *isa, enum stni_isa *got, char *text, size_t size)
{
    stn_launch_options options = {.size = sizeof options, .context = {.size = sizeof options.context, .isa = isa}};
    options.context.error_text = text;
    options.context.error_text_size = size;
    text[0] = '\0';
    return stn_launch(&options, set_of_rank, got);
}

static void every_set_that_is_offered_can_be_forced(void)
{
    char text[512];
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        enum stni_isa got = STNI_ISA_COUNT;
        if (!stni_isa_is_built((enum stni_isa)isa))
            continue;
        CHECK_STATUS(launch(stni_isa_name((enum stni_isa)isa), &got, text, sizeof text), STN_OK);
        CHECK_I64(got, isa);
    }
    enum stni_isa got = STNI_ISA_COUNT;
    CHECK_STATUS(launch(NULL, &got, text, sizeof text), STN_OK);
    CHECK_I64(got, stni_isa_best());
}

static void a_name_that_no_set_has_is_refused_with_those_that_are_known(void)
{
    char text[512];
    enum stni_isa got;
    CHECK_STATUS(launch("sse9", &got, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text,
              "context: isa got \"sse9\", wanted one of \"base\", \"avx2\" and \"avx512\", or NULL for the widest");
}

/* On any processor, since the test says which. */
static void a_set_that_the_processor_lacks_is_refused_with_what_it_offers(void)
{
    static const char *const wanted[] = {NULL, "context: isa got \"avx2\", but this processor offers \"base\" at most",
                                         "context: isa got \"avx512\", but this processor offers \"avx2\" at most"};
    int compared = 0;
    for (int isa = STNI_ISA_AVX2; isa < STNI_ISA_COUNT; isa++) {
        struct stni_error error = {0};
        enum stni_isa got = STNI_ISA_COUNT;
        if (!stni_isa_is_built((enum stni_isa)isa))
            continue;
        CHECK_STATUS(stni_isa_choose_on((enum stni_isa)(isa - 1), stni_isa_name((enum stni_isa)isa), &got, &error),
                     STN_ERR_UNSUPPORTED);
        CHECK_STR(error.text, wanted[isa]);
        CHECK_I64(got, STNI_ISA_COUNT);
        CHECK_STATUS(stni_isa_choose_on((enum stni_isa)isa, stni_isa_name((enum stni_isa)isa), &got, &error), STN_OK);
        CHECK_I64(got, isa);
        compared++;
    }
    if (compared == 0)
        SKIP("this build has base kernels alone");
}

static void a_set_that_is_lacking_is_refused_with_what_there_is(void)
{
    char text[512];
    int lacking = 0;
    for (int isa = 0; isa < STNI_ISA_COUNT; isa++) {
        enum stni_isa got = STNI_ISA_COUNT;
        if (stni_isa_is_built((enum stni_isa)isa) && isa <= (int)stni_isa_of_processor())
            continue;
        lacking++;
        CHECK_STATUS(launch(stni_isa_name((enum stni_isa)isa), &got, text, sizeof text), STN_ERR_UNSUPPORTED);
        CHECK(strstr(text, stni_isa_is_built((enum stni_isa)isa) ? "this processor offers"
                                                                 : "this build has no kernels") != NULL);
        CHECK_I64(got, STNI_ISA_COUNT);
    }
    if (lacking == 0)
        SKIP("processor and build have every set");
}

static void a_launch_reads_the_environment_where_its_options_name_no_set(void)
{
    char text[512];
    const enum stni_isa narrowest = STNI_ISA_BASE;
    enum stni_isa got = STNI_ISA_COUNT;
    if (!stni_isa_is_built(narrowest))
        SKIP("no base kernels in this build");
    setenv("STN_ISA", "base", 1);
    CHECK_STATUS(launch(NULL, &got, text, sizeof text), STN_OK);
    CHECK_I64(got, narrowest);
    CHECK_STATUS(launch(stni_isa_name(stni_isa_best()), &got, text, sizeof text), STN_OK);
    CHECK_I64(got, stni_isa_best());
    setenv("STN_ISA", "sse9", 1);
    CHECK_STATUS(launch(NULL, &got, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK(strstr(text, "sse9") != NULL);
    setenv("STN_ISA", "", 1);
    CHECK_STATUS(launch(NULL, &got, text, sizeof text), STN_OK);
    CHECK_I64(got, stni_isa_best());
    unsetenv("STN_ISA");
}

static void an_older_callers_options_choose_the_widest_set(void)
{
    stn_context_options options = {.size = offsetof(stn_context_options, isa), .isa = "sse9"};
    stn_context *context = NULL;
    CHECK_STATUS(stn_context_create(&options, &context), STN_OK);
    if (!CHECK_PTR(context))
        return;
    CHECK_I64(context->isa, stni_isa_best());
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"pick_returns_the_table_of_each_set", pick_returns_the_table_of_each_set},
        {"best_set_is_offered_by_the_processor", best_set_is_offered_by_the_processor},
        {"every_set_that_is_offered_can_be_forced", every_set_that_is_offered_can_be_forced},
        {"a_name_that_no_set_has_is_refused_with_those_that_are_known",
         a_name_that_no_set_has_is_refused_with_those_that_are_known},
        {"a_set_that_the_processor_lacks_is_refused_with_what_it_offers",
         a_set_that_the_processor_lacks_is_refused_with_what_it_offers},
        {"a_set_that_is_lacking_is_refused_with_what_there_is", a_set_that_is_lacking_is_refused_with_what_there_is},
        {"a_launch_reads_the_environment_where_its_options_name_no_set",
         a_launch_reads_the_environment_where_its_options_name_no_set},
        {"an_older_callers_options_choose_the_widest_set", an_older_callers_options_choose_the_widest_set},
    };
    return TEST_MAIN(argc, argv, cases);
}
