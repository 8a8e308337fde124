/* Factors of the rate. */
#include <shardtensor/train.h>

#include <math.h>

/* Any numbers may come, a `warm_up` of INT64_MAX among them: nothing is added to them before they are doubles. */
double stn_schedule_constant(int64_t step, int64_t warm_up)
{
    return warm_up > 0 && step < warm_up ? ((double)step + 1) / ((double)warm_up + 1) : 1;
}

/* from <= to. Without a sign the difference has room, and is exact where doubles near 2^63 would be equal. */
static double distance(int64_t from, int64_t to)
{
    return (double)((uint64_t)to - (uint64_t)from);
}

double stn_schedule_cosine(int64_t step, int64_t warm_up, int64_t total, double least)
{
    static const double pi = 3.14159265358979323846;
    if (warm_up > 0 && step < warm_up)
        return stn_schedule_constant(step, warm_up);
    if (step >= total)
        return least;
    const double done = step < warm_up ? 0 : distance(warm_up, step) / distance(warm_up, total);
    return least + (1 - least) * 0.5 * (1 + cos(pi * done));
}
