#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 30 };

double progress_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_show(int done, int all, int every, double seconds, const char *text)
{
    double left = done ? seconds / done * (all - done) : 0;
    if (!isatty(STDOUT_FILENO)) {
        if (done % every == 0)
            printf("%d of %d: %s, %.1f s, %.1f s left\n", done, all, text, seconds, left);
        fflush(stdout);
        return;
    }
    int full = all ? done * WIDTH / all : WIDTH;
    printf("\r[%.*s%*s] %3d %%  %s  %.0f s left \033[K", full, "##############################", WIDTH - full, "",
           all ? done * 100 / all : 100, text, left);
    if (done == all)
        printf("\n");
    fflush(stdout);
}
