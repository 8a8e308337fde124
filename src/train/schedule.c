/* Factors of the rate. */
#include <shardtensor/train.h>

#include <math.h>

double stn_schedule_constant(int64_t step, int64_t warm_up)
{
    return step < warm_up ? (double)(step + 1) / (double)(warm_up + 1) : 1;
}

double stn_schedule_cosine(int64_t step, int64_t warm_up, int64_t total, double least)
{
    static const double pi = 3.14159265358979323846;
    if (step < warm_up)
        return stn_schedule_constant(step, warm_up);
    if (step >= total)
        return least;
    double done = (double)(step - warm_up) / (double)(total - warm_up);
    return least + (1 - least) * 0.5 * (1 + cos(pi * done));
}
