/* Settings of a launch by its environment: a row for each variable. */
#include "core/context/environment.h"

#include "core/base/isa.h"
#include "core/context/foreign.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

struct filled {
    stn_context_options *options;
    struct stni_environment_trace *trace;
};

static const char *const levels[] = {"error", "warning", "info", "debug"};

static void log_to_stderr(void *arg, stn_log_level level, int rank, const char *text)
{
    (void)arg;
    dprintf(STDERR_FILENO, "shardtensor %s, rank %d: %s\n", levels[level], rank, text);
}

static int read_int(const char *text, int least, int most, int *out)
{
    char *end;
    long n = strtol(text, &end, 10);
    *out = (int)n;
    return *end == '\0' && n >= least && n <= most;
}

static int read_switch(const char *text, int *option)
{
    int on;
    if (!read_int(text, 0, 1, &on))
        return 0;
    if (!*option)
        *option = on;
    return 1;
}

static int read_checks(const char *text, struct filled *filled)
{
    return read_switch(text, &filled->options->checks);
}

static int read_deadline(const char *text, struct filled *filled)
{
    char *end;
    double seconds = strtod(text, &end);
    if (*end != '\0' || !isfinite(seconds) || seconds == 0)
        return 0;
    if (filled->options->deadline_seconds == 0)
        filled->options->deadline_seconds = seconds;
    return 1;
}

static int read_threads(const char *text, struct filled *filled)
{
    int threads;
    if (!read_int(text, 1, STNI_MAX_THREADS, &threads))
        return 0;
    if (filled->options->threads == 0)
        filled->options->threads = threads;
    return 1;
}

static int read_log(const char *text, struct filled *filled)
{
    int level = 0, n = sizeof levels / sizeof *levels;
    while (level < n && strcmp(text, levels[level]) != 0)
        level++;
    if (level == n)
        return 0;
    if (!filled->options->log) {
        filled->options->log = log_to_stderr;
        filled->options->log_level = (stn_log_level)level;
    }
    return 1;
}

/* Whether build and processor have it is found where contexts are made. */
static int read_isa(const char *text, struct filled *filled)
{
    int isa = 0;
    while (isa < STNI_ISA_COUNT && strcmp(text, stni_isa_name((enum stni_isa)isa)) != 0)
        isa++;
    if (isa == STNI_ISA_COUNT)
        return 0;
    if (!filled->options->isa)
        filled->options->isa = text;
    return 1;
}

static int read_without(const char *text, struct filled *filled)
{
    unsigned without;
    if (stni_foreign_read(text, &without, NULL) != STN_OK)
        return 0;
    if (!filled->options->without)
        filled->options->without = text;
    return 1;
}

static int read_allow_tf32(const char *text, struct filled *filled)
{
    return read_switch(text, &filled->options->allow_tf32);
}

static int read_trace(const char *text, struct filled *filled)
{
    filled->trace->prefix = text;
    return 1;
}

static int read_nvtx(const char *text, struct filled *filled)
{
    return read_int(text, 0, 1, &filled->trace->nvtx);
}

static const struct row {
    const char *name;
    int (*read)(const char *text, struct filled *filled); /* 0: not understood */
    const char *takes;
} rows[] = {
    {"STN_CHECKS", read_checks, "0 or 1"},
    {"STN_DEADLINE", read_deadline, "seconds, not 0 (negative: no deadline)"},
    {"STN_THREADS", read_threads, "a number from 1 to 1024"},
    {"STN_LOG", read_log, "error, warning, info or debug"},
    {"STN_ISA", read_isa, "base, avx2 or avx512"},
    {"STN_WITHOUT", read_without, "names of onednn, fftw, cublaslt, cudnn, cufft, nccl with commas between them"},
    {"STN_ALLOW_TF32", read_allow_tf32, "0 or 1"},
    {"STN_TRACE", read_trace, "the beginning of a file's name"},
    {"STN_NVTX", read_nvtx, "0 or 1"},
};

stn_status stni_environment_fill(stni_environment get, void *arg, stn_context_options *options,
                                 struct stni_environment_trace *trace, struct stni_error *error)
{
    struct filled filled = {options, trace};
    *trace = (struct stni_environment_trace){0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = get(arg, rows[i].name);
        if (text && text[0] && !rows[i].read(text, &filled))
            return stni_error_set(error, STN_ERR_ARGUMENT, "stn_launch: the environment's %s got \"%.64s\", wanted %s",
                                  rows[i].name, text, rows[i].takes);
    }
    return STN_OK;
}

/* The names of all rows, for a text. */
static void list_names(char *text, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i == 0 ? "" : ", ", rows[i].name);
}

static int is_known(const char *variable, size_t length)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, variable, length) == 0)
            return 1;
    return 0;
}

stn_status stni_environment_check_names(const char *const *variables, struct stni_error *error)
{
    for (; variables && *variables; variables++) {
        const char *variable = *variables;
        const size_t length = strcspn(variable, "=");
        char known[256];
        if (strncmp(variable, "STN_", 4) != 0 || strncmp(variable, "STN_TEST_", 9) == 0 || is_known(variable, length))
            continue;
        list_names(known, sizeof known);
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "stn_launch: the environment's %.*s is none of the library's, which are %s",
                              length < 64 ? (int)length : 64, variable, known);
    }
    return STN_OK;
}

static const char *from_process(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

stn_status stni_environment_fill_here(stn_context_options *options, struct stni_environment_trace *trace,
                                      struct stni_error *error)
{
    *trace = (struct stni_environment_trace){0};
    STNI_TRY(stni_environment_check_names((const char *const *)environ, error));
    return stni_environment_fill(from_process, NULL, options, trace, error);
}
