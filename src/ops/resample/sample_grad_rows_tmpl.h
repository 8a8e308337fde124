/* Included once per dtype by sample_grad_cpu.c. */

/* Read k of a point: adds to the gradient of the element; returns the sum over channels of the cotangents times the element. */
static double NAME(read)(const struct stni_sample_args *a, const int64_t *at, int64_t batch, const T *grad, double weight)
{
    const T *from = a->grad_grid.data ? (const T *)a->input.data + batch * a->input.batch + stni_sample_offset(&a->input, at) : NULL;
    double sum = 0;
    if (a->grad_input.data) {
        T *to = (T *)a->grad_input.data + batch * a->grad_input.batch + stni_sample_offset(&a->grad_input, at);
        for (int64_t c = 0; c < a->n_channels; c++)
            to[c * a->grad_input.channel] += (T)weight * grad[c * a->output.channel];
    }
    for (int64_t c = 0; c < a->n_channels && from; c++)
        sum += (double)grad[c * a->output.channel] * (double)from[c * a->input.channel];
    return sum;
}

static void NAME(point)(const struct stni_sample_args *a, int64_t batch, int64_t i)
{
    struct stni_sample_taps taps[STNI_SAMPLE_DIMS];
    double coordinate[STNI_SAMPLE_DIMS] = {0}, slope[STNI_SAMPLE_DIMS] = {0};
    int64_t at[STNI_SAMPLE_DIMS], place[STNI_SAMPLE_DIMS];
    stni_sample_point(a, i, at);
    const T *grid = (const T *)a->grid.data + batch * a->grid.batch + stni_sample_offset(&a->grid, at);
    const T *grad = (const T *)a->output.data + batch * a->output.batch + stni_sample_offset(&a->output, at);
    for (int d = 0; d < a->dims; d++)
        coordinate[d] = (double)grid[d * a->grid.channel];
    int n = stni_sample_taps_of(a, coordinate, taps);
    for (int k = 0; k < stni_sample_n_reads(a); k++) {
        int tap[STNI_SAMPLE_DIMS];
        stni_sample_split(a, k, n, tap);
        if (!stni_sample_locate(a, taps, tap, place))
            continue;
        const double w[] = {taps[0].weight[tap[0]], taps[1].weight[tap[1]], taps[2].weight[tap[2]]};
        double sum = NAME(read)(a, place, batch, grad, w[0] * w[1] * w[2]);
        slope[0] += sum * taps[0].slope[tap[0]] * w[1] * w[2];
        slope[1] += sum * w[0] * taps[1].slope[tap[1]] * w[2];
        slope[2] += sum * w[0] * w[1] * taps[2].slope[tap[2]];
    }
    T *to = (T *)a->grad_grid.data + batch * a->grad_grid.batch + stni_sample_offset(&a->grad_grid, at);
    for (int d = 0; d < a->dims && a->grad_grid.data; d++)
        to[d * a->grad_grid.channel] = (T)slope[STNI_SAMPLE_DIMS - 1 - d];
}
