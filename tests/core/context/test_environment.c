/* What a launch takes from made-up environments. */
#include "harness.h"

#include "core/context/environment.h"

#include <stdio.h>
#include <string.h>

struct variable {
    const char *name, *value;
};

static const char *look_up(void *arg, const char *name)
{
    for (const struct variable *v = arg; v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v->value;
    return NULL;
}

static void no_log(void *arg, stn_log_level level, int rank, const char *text)
{
    (void)arg;
    (void)level;
    (void)rank;
    (void)text;
}

static void nothing_set_changes_nothing(void)
{
    stn_context_options options = {.size = sizeof options}, same = options;
    struct stni_environment_trace trace = {.prefix = ""};
    CHECK_STATUS(stni_environment_fill(look_up, (struct variable[]){{"STN_LOG", ""}, {"STN_OTHER", "1"}, {0}}, &options,
                                       &trace, NULL),
                 STN_OK);
    CHECK_BYTES(&options, &same, sizeof options);
    CHECK(trace.prefix == NULL && trace.nvtx == 0);
}

static void what_the_caller_has_set_wins(void)
{
    stn_context_options options = {.size = sizeof options,
                                   .threads = 2,
                                   .deadline_seconds = 5,
                                   .checks = 1,
                                   .log = no_log,
                                   .log_level = STN_LOG_INFO,
                                   .allow_tf32 = 1},
                        same = options;
    struct stni_environment_trace trace;
    struct variable all[] = {
        {"STN_THREADS", "8"},  {"STN_DEADLINE", "-1"}, {"STN_CHECKS", "0"},     {"STN_LOG", "debug"},
        {"STN_TRACE", "here"}, {"STN_NVTX", "1"},      {"STN_ALLOW_TF32", "0"}, {0}};
    CHECK_STATUS(stni_environment_fill(look_up, all, &options, &trace, NULL), STN_OK);
    CHECK_BYTES(&options, &same, sizeof options);
    CHECK_STR(trace.prefix, "here");
    CHECK_I64(trace.nvtx, 1);
}

static void what_is_open_is_filled(void)
{
    stn_context_options options = {.size = sizeof options};
    struct stni_environment_trace trace;
    struct variable all[] = {
        {"STN_THREADS", "8"}, {"STN_DEADLINE", "-1"},  {"STN_CHECKS", "1"},     {"STN_LOG", "debug"},
        {"STN_ISA", "base"},  {"STN_WITHOUT", "fftw"}, {"STN_ALLOW_TF32", "1"}, {0}};
    CHECK_STATUS(stni_environment_fill(look_up, all, &options, &trace, NULL), STN_OK);
    CHECK_STR(options.isa, "base");
    CHECK_STR(options.without, "fftw");
    CHECK_I64(options.allow_tf32, 1);
    CHECK_I64(options.threads, 8);
    CHECK_NEAR(options.deadline_seconds, -1, 0);
    CHECK_I64(options.checks, 1);
    CHECK(options.log != NULL && options.log_level == STN_LOG_DEBUG && trace.prefix == NULL);
}

static void what_is_not_understood_is_refused_with_what_would_be(void)
{
    static const struct {
        const char *name, *value, *wanted;
    } bad[] = {
        {"STN_THREADS", "0", "a number from 1 to 1024"},
        {"STN_THREADS", "4x", "a number from 1 to 1024"},
        {"STN_THREADS", "99999999999", "a number from 1 to 1024"},
        {"STN_DEADLINE", "0", "seconds, not 0"},
        {"STN_DEADLINE", "soon", "seconds, not 0"},
        {"STN_DEADLINE", "inf", "seconds, not 0"},
        {"STN_CHECKS", "2", "0 or 1"},
        {"STN_CHECKS", "on", "0 or 1"},
        {"STN_ALLOW_TF32", "yes", "0 or 1"},
        {"STN_LOG", "DEBUG", "error, warning, info or debug"},
        {"STN_ISA", "sse9", "base, avx2 or avx512"},
        {"STN_WITHOUT", "fftw,mkl", "names of onednn, fftw, cublaslt, cudnn, cufft, nccl with commas between them"},
        {"STN_WITHOUT", ",", "names of onednn, fftw"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stn_context_options options = {
            .size = sizeof options, .threads = 1, .deadline_seconds = 1, .checks = 1, .log = no_log};
        struct stni_error error = {.status = STN_OK};
        struct stni_environment_trace trace;
        struct variable one[] = {{bad[i].name, bad[i].value}, {0}};
        CHECK_STATUS(stni_environment_fill(look_up, one, &options, &trace, &error), STN_ERR_ARGUMENT);
        CHECK(strstr(error.text, bad[i].name) != NULL && strstr(error.text, bad[i].value) != NULL);
        CHECK(strstr(error.text, bad[i].wanted) != NULL);
    }
}

static void names_that_are_none_of_the_librarys_are_refused(void)
{
    const char *const fine[] = {"PATH=/bin",     "STN_LOG=info", "STN_TEST_QUEUE=worker",
                                "XSTN_LOG=info", "STN_THREADS",  NULL};
    static const char *const bad[] = {"STN_DEADLNE=3", "STN_LOGS=info", "STN_LO=info", "STN_=", "STN_THREAD"};
    CHECK_STATUS(stni_environment_check_names(fine, NULL), STN_OK);
    CHECK_STATUS(stni_environment_check_names(NULL, NULL), STN_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const some[] = {fine[0], bad[i], fine[1], NULL};
        struct stni_error error = {.status = STN_OK};
        char name[64];
        snprintf(name, sizeof name, "%.*s is none of the library's", (int)strcspn(bad[i], "="), bad[i]);
        CHECK_STATUS(stni_environment_check_names(some, &error), STN_ERR_ARGUMENT);
        CHECK(strstr(error.text, name) && strstr(error.text, "STN_CHECKS, STN_DEADLINE, ") &&
              strstr(error.text, ", STN_TRACE"));
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"nothing_set_changes_nothing", nothing_set_changes_nothing},
        {"what_the_caller_has_set_wins", what_the_caller_has_set_wins},
        {"what_is_open_is_filled", what_is_open_is_filled},
        {"what_is_not_understood_is_refused_with_what_would_be", what_is_not_understood_is_refused_with_what_would_be},
        {"names_that_are_none_of_the_librarys_are_refused", names_that_are_none_of_the_librarys_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
