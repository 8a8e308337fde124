/* Whether a tool whose ranks are threads may run here. */
#ifndef TOOLS_THREAD_RANKS_H
#define TOOLS_THREAD_RANKS_H

/** Threads are what stn_launch starts where no launcher started the process; in a job it joins that, and what waits for
 * threads would wait for ever. `instead` is what one does in a job. @return 0; else what the program exits with, 2, the
 * reason being on stderr. */
int thread_ranks_check(const char *instead);

#endif
