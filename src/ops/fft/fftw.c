/* Transforms by FFTW 3. The only file that knows its API.
 *
 * Plans are made and destroyed under one lock, since FFTW's planner is not thread safe; they run on any thread.
 * FFTW_ESTIMATE measures nothing: the same plan, and so the same bits, on every rank and in every run. */
#include "ops/fft/transform.h"

#include <complex.h>
#include <fftw3.h>
#include <limits.h>
#include <pthread.h>

static pthread_mutex_t planner_lock = PTHREAD_MUTEX_INITIALIZER;

static void run_f64(const struct stni_transform *t, void *in, void *out, void *work)
{
    (void)work;
    if (t->kind == STNI_TRANSFORM_HALVE)
        fftw_execute_dft_r2c(t->plan, in, out);
    else if (t->kind == STNI_TRANSFORM_RESTORE)
        fftw_execute_dft_c2r(t->plan, in, out);
    else
        fftw_execute_dft(t->plan, in, out);
}

static void run_f32(const struct stni_transform *t, void *in, void *out, void *work)
{
    (void)work;
    if (t->kind == STNI_TRANSFORM_HALVE)
        fftwf_execute_dft_r2c(t->plan, in, out);
    else if (t->kind == STNI_TRANSFORM_RESTORE)
        fftwf_execute_dft_c2r(t->plan, in, out);
    else
        fftwf_execute_dft(t->plan, in, out);
}

static void destroy_f64(struct stni_transform *t)
{
    pthread_mutex_lock(&planner_lock);
    fftw_destroy_plan(t->plan);
    pthread_mutex_unlock(&planner_lock);
}

static void destroy_f32(struct stni_transform *t)
{
    pthread_mutex_lock(&planner_lock);
    fftwf_destroy_plan(t->plan);
    pthread_mutex_unlock(&planner_lock);
}

static fftw_plan plan_f64(const struct stni_transform *t, void *in, void *out)
{
    const int n = (int)t->n;
    if (t->kind == STNI_TRANSFORM_HALVE)
        return fftw_plan_dft_r2c_1d(n, in, out, FFTW_ESTIMATE);
    if (t->kind == STNI_TRANSFORM_RESTORE)
        return fftw_plan_dft_c2r_1d(n, in, out, FFTW_ESTIMATE);
    return fftw_plan_dft_1d(n, in, out, t->kind == STNI_TRANSFORM_FORWARD ? FFTW_FORWARD : FFTW_BACKWARD,
                            FFTW_ESTIMATE);
}

static fftwf_plan plan_f32(const struct stni_transform *t, void *in, void *out)
{
    const int n = (int)t->n;
    if (t->kind == STNI_TRANSFORM_HALVE)
        return fftwf_plan_dft_r2c_1d(n, in, out, FFTW_ESTIMATE);
    if (t->kind == STNI_TRANSFORM_RESTORE)
        return fftwf_plan_dft_c2r_1d(n, in, out, FFTW_ESTIMATE);
    return fftwf_plan_dft_1d(n, in, out, t->kind == STNI_TRANSFORM_FORWARD ? FFTW_FORWARD : FFTW_BACKWARD,
                             FFTW_ESTIMATE);
}

/* A plan is good for all lines that are aligned as those it was made with, which it does not touch. */
stn_status stni_transform_fftw(struct stni_transform *t)
{
    const int is_f64 = t->dtype == STN_DTYPE_F64;
    const size_t bytes = (size_t)(t->n + 1) * (is_f64 ? sizeof(fftw_complex) : sizeof(fftwf_complex));
    if (t->n > INT_MAX)
        return STN_ERR_UNSUPPORTED;
    pthread_mutex_lock(&planner_lock);
    void *in = fftw_malloc(bytes), *out = fftw_malloc(bytes);
    if (in && out)
        t->plan = is_f64 ? (void *)plan_f64(t, in, out) : (void *)plan_f32(t, in, out);
    fftw_free(in);
    fftw_free(out);
    pthread_mutex_unlock(&planner_lock);
    t->run = is_f64 ? run_f64 : run_f32;
    t->destroy = is_f64 ? destroy_f64 : destroy_f32;
    return t->plan ? STN_OK : STN_ERR_UNSUPPORTED;
}
