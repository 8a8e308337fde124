/* The harness of harness.h. Counters are atomic because the ranks of a case are threads that check at the same time;
 * a failure is one write to stderr, so that lines of several ranks do not mix. */
#include "harness.h"

#include <shardtensor/context.h>

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_SKIPPED = 77 };

/* After so many failures of one case only their number is of interest. */
enum { MAX_PRINTED = 20 };

static atomic_int checks;
static atomic_int failures;
static _Atomic(const char *) skip_reason;
static _Atomic(const char *) left_out;
static _Thread_local int thread_rank = -1;

void test_set_rank(int rank)
{
    thread_rank = rank;
}

enum test_queue test_queue(void)
{
    const char *name = getenv("STN_TEST_QUEUE");
    return name != NULL && strcmp(name, "worker") == 0 ? TEST_QUEUE_WORKER : TEST_QUEUE_IMMEDIATE;
}

const char *test_isa(void)
{
    const char *name = getenv("STN_TEST_ISA");
    return name != NULL && name[0] != '\0' ? name : NULL;
}

int test_draws(int n)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    enum { OF = 3 };
#else
    enum { OF = 1 };
#endif
    return n > OF ? n / OF : 1;
}

int test_thread_step(int n)
{
#if defined(__SANITIZE_THREAD__)
    return n;
#else
    return n > 0 ? 1 : n;
#endif
}

void test_skip(const char *reason)
{
    atomic_store(&skip_reason, reason);
}

void test_leave_out(const char *what)
{
    atomic_store(&left_out, what);
}

__attribute__((format(printf, 4, 5)))
static bool verdict(bool held, const char *file, int line, const char *format, ...)
{
    atomic_fetch_add(&checks, 1);
    if (held)
        return true;
    if (atomic_fetch_add(&failures, 1) >= MAX_PRINTED)
        return false;

    char rank[32] = "";
    if (thread_rank >= 0)
        snprintf(rank, sizeof rank, " [rank %d]", thread_rank);
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "  %s:%d:%s %s\n", file, line, rank, text);
    return false;
}

bool test_check(bool held, const char *file, int line, const char *text)
{
    return verdict(held, file, line, "%s does not hold", text);
}

bool test_check_i64(int64_t got, int64_t want, const char *file, int line, const char *text)
{
    return verdict(got == want, file, line, "%s: got %lld, wanted %lld", text, (long long)got, (long long)want);
}

bool test_check_str(const char *got, const char *want, const char *file, int line, const char *text)
{
    bool held = got == want || (got != NULL && want != NULL && strcmp(got, want) == 0);
    return verdict(held, file, line, "%s: got \"%s\", wanted \"%s\"", text, got ? got : "(null)",
                   want ? want : "(null)");
}

bool test_check_near(double got, double want, double rel, const char *file, int line, const char *text)
{
    bool held = got == want || (isnan(got) && isnan(want));
    if (!held && isfinite(got) && isfinite(want))
        held = fabs(got - want) <= rel * fmax(fabs(got), fabs(want));
    return verdict(held, file, line, "%s: got %.17g, wanted %.17g within %.3g relative", text, got, want, rel);
}

bool test_check_status(int got, int want, const char *file, int line, const char *text)
{
    return verdict(got == want, file, line, "%s: got status %d, wanted %d", text, got, want);
}

bool test_check_bytes(const void *got, const void *want, size_t nbytes, const char *file, int line, const char *text)
{
    const unsigned char *g = got, *w = want;
    size_t at = 0;
    while (at < nbytes && g[at] == w[at])
        at++;
    if (at == nbytes)
        return verdict(nbytes > 0, file, line, "%s: no bytes were compared", text);
    return verdict(false, file, line, "%s: byte %zu of %zu: got 0x%02x, wanted 0x%02x", text, at, nbytes, g[at], w[at]);
}

enum outcome { PASSED, FAILED, SKIPPED };

static enum outcome run_case(const struct test_case *test)
{
    atomic_store(&checks, 0);
    atomic_store(&failures, 0);
    atomic_store(&skip_reason, NULL);
    atomic_store(&left_out, NULL);
    test->run();

    int failed = atomic_load(&failures), checked = atomic_load(&checks);
    const char *left = atomic_load(&left_out), *reason = atomic_load(&skip_reason);
    if (reason == NULL && checked == 0)
        reason = left;
    if (failed > 0) {
        printf("FAIL %s: %d of %d checks failed\n", test->name, failed, checked);
        return FAILED;
    }
    if (reason != NULL) {
        printf("skip %s: %s\n", test->name, reason);
        return SKIPPED;
    }
    if (checked == 0) {
        printf("FAIL %s: nothing was checked\n", test->name);
        return FAILED;
    }
    printf("ok   %s: %d checks%s%s\n", test->name, checked, left ? "; left out: " : "", left ? left : "");
    return PASSED;
}

static bool selected(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]) != NULL)
            return true;
    return argc <= 1;
}

/* Whether contexts can be made with the instruction set that is asked for. */
static bool isa_is_offered(void)
{
    char text[512] = "";
    const stn_context_options options = {
        .size = sizeof options, .isa = test_isa(), .error_text = text, .error_text_size = sizeof text};
    stn_context *context = NULL;
    const stn_status status = test_isa() ? stn_context_create(&options, &context) : STN_OK;
    stn_context_destroy(&context);
    if (status == STN_ERR_UNSUPPORTED)
        printf("skipped: %s\n", text);
    return status != STN_ERR_UNSUPPORTED;
}

int test_main(int argc, char **argv, const struct test_case *cases, size_t count)
{
    /* Line by line, so that the output of a program that is killed shows where it stood. */
    setvbuf(stdout, NULL, _IOLBF, 0);

    if (!isa_is_offered())
        return EXIT_SKIPPED;
    int outcomes[3] = {0};
    for (size_t i = 0; i < count; i++)
        if (selected(cases[i].name, argc, argv))
            outcomes[run_case(&cases[i])]++;

    printf("%d passed, %d failed, %d skipped\n", outcomes[PASSED], outcomes[FAILED], outcomes[SKIPPED]);
    if (outcomes[FAILED] > 0)
        return EXIT_FAILURE;
    if (outcomes[PASSED] > 0)
        return EXIT_SUCCESS;
    return outcomes[SKIPPED] > 0 ? EXIT_SKIPPED : EXIT_FAILURE;
}
