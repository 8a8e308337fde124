/* A progress bar on a terminal, plain lines elsewhere. */
#ifndef EXAMPLES_COMMON_PROGRESS_H
#define EXAMPLES_COMMON_PROGRESS_H

/* Shows that `done` of `all` steps are done, `seconds` after the start; `text` says how it goes. Where stdout is no
 * terminal a line is printed at each multiple of `every` steps alone. */
void progress_show(int done, int all, int every, double seconds, const char *text);

/* Seconds from some fixed moment. */
double progress_now(void);

#endif
