/* Dtypes and shapes by the names of ops and inputs. */
#include "call_draw.h"

#include <string.h>

static const struct call_hint hints[] = {
    {NULL, "index", STN_DTYPE_I64, 85, 1, NUMBERS_INDEX},
    {NULL, "indices", STN_DTYPE_I64, 85, 1, NUMBERS_INDEX},
    {NULL, "repeats", STN_DTYPE_I64, 85, 1, NUMBERS_INDEX},
    {"embedding", "input", STN_DTYPE_I64, 85, 1, NUMBERS_INDEX},
    {"signed_distance_field", "triangles", STN_DTYPE_I64, 85, 1, NUMBERS_INDEX},
    {"one_hot", "input", STN_DTYPE_I64, 85, 1, NUMBERS_INDEX},
    {NULL, "sorter", STN_DTYPE_I64, 85, 1, NUMBERS_RISING},
    {NULL, "mask", STN_DTYPE_BOOL, 80, 0, NUMBERS_REAL},
    {NULL, "condition", STN_DTYPE_BOOL, 80, 0, NUMBERS_REAL},
    {NULL, "attn_mask", STN_DTYPE_BOOL, 50, 0, NUMBERS_REAL},
    {"bitwise_and", "input", STN_DTYPE_I64, 60, 0, NUMBERS_REAL},
    {"bitwise_and", "other", STN_DTYPE_I64, 60, 0, NUMBERS_REAL},
    {"bitwise_not", "input", STN_DTYPE_I64, 60, 0, NUMBERS_REAL},
    {"bitwise_or", "input", STN_DTYPE_I64, 60, 0, NUMBERS_REAL},
    {"bitwise_or", "other", STN_DTYPE_I64, 60, 0, NUMBERS_REAL},
    {"bitwise_xor", "input", STN_DTYPE_I64, 60, 0, NUMBERS_REAL},
    {"bitwise_xor", "other", STN_DTYPE_I64, 60, 0, NUMBERS_REAL},
    {"cross_entropy", "target", STN_DTYPE_I64, 70, 1, NUMBERS_INDEX},
    {"nll_loss", "target", STN_DTYPE_I64, 85, 1, NUMBERS_INDEX},
    {"isht", "input", STN_DTYPE_C64, 80, 0, NUMBERS_REAL},
    {"ivsht", "input", STN_DTYPE_C64, 80, 0, NUMBERS_REAL},
    {"degree_power", "input", STN_DTYPE_C64, 80, 0, NUMBERS_REAL},
    /* Searched by halves: unsorted ones have no one answer. */
    {NULL, "boundaries", STN_DTYPE_F32, 0, 1, NUMBERS_RISING},
    {NULL, "sorted_sequence", STN_DTYPE_F32, 0, 1, NUMBERS_RISING},
};

const struct call_hint *call_hint_of(const char *op, const char *input)
{
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(hints[i].input, input) == 0 && (hints[i].op == NULL || strcmp(hints[i].op, op) == 0))
            return &hints[i];
    return NULL;
}

static const struct pattern {
    const char *op, *shapes;
} patterns[] = {
    {"adaptive_avg_pool1d", "ncw"},
    {"adaptive_avg_pool2d", "nchw"},
    {"adaptive_avg_pool3d", "ncdhw"},
    {"adaptive_max_pool1d", "ncw"},
    {"anomaly_correlation", "ab,ab,b,b"},
    {"crps_ensemble", "mab,ab"},
    {"energy_score", "mab,ab,b"},
    {"adaptive_max_pool2d", "nchw"},
    {"adaptive_max_pool3d", "ncdhw"},
    {"addmm", "ik,ij,jk"},
    {"affine_scan", "ab,ab"},
    {"avg_pool1d", "ncw"},
    {"avg_pool2d", "nchw"},
    {"avg_pool3d", "ncdhw"},
    {"baddbmm", "bik,bij,bjk"},
    {"batch_norm", "nchw,c,c,c,c"},
    {"bmm", "bij,bjk"},
    {"cat", "abc,abc,abc"},
    {"cdist", "bpm,brm"},
    {"conv1d", "ncw,ock,o"},
    {"conv2d", "nchw,ock2,o"},
    {"conv3d", "ncdhw,ock21,o"},
    {"conv_transpose1d", "ncw,cok,o"},
    {"conv_transpose2d", "nchw,cok2,o"},
    {"conv_transpose3d", "ncdhw,cok21,o"},
    {"cross", "ab3,ab3"},
    {"cross_entropy", "nc,n,c"},
    {"diagonal", "abc"},
    {"dot", "i,i"},
    {"dropout_channels", "nchw"},
    {"embedding", "ab,vd"},
    {"fold", "n8l"},
    {"gather", "ab,cb"},
    {"grid_sample", "nchw,nab2"},
    {"group_norm", "n4hw,4,4"},
    {"im2col", "nchw"},
    {"index", "abc,i,i,i"},
    {"index_add", "abc,a,abc"},
    {"index_copy", "abc,a,abc"},
    {"index_fill", "abc,i"},
    {"index_put", "abc,i,i,i"},
    {"index_select", "abc,i"},
    {"instance_norm", "nchw,c,c,c,c"},
    {"knn", "nd,md"},
    {"radius_search", "nd,md"},
    {"signed_distance_field", "v3,f3,m3"},
    {"interpolate", "nchw"},
    {"layer_norm", "abc,c,c"},
    {"linear", "abi,oi,o"},
    {"masked_scatter", "ab,ab,abc"},
    {"masked_select", "ab,ab"},
    {"matmul", "bij,bjk"},
    {"max_pool1d", "ncw"},
    {"max_pool2d", "nchw"},
    {"max_pool3d", "ncdhw"},
    {"mm", "ij,jk"},
    {"mv", "ij,j"},
    {"nll_loss", "nc,n,c"},
    {"neighborhood_attention", "bhwce,bhwce,bhwcv"},
    {"outer", "i,j"},
    {"pad_sphere", "nc44"},
    {"pixel_shuffle", "n4hw"},
    {"pixel_unshuffle", "nc44"},
    {"prelu", "nchw,c"},
    {"repeat_interleave", "abc,b"},
    {"rms_norm", "abc,c"},
    {"scaled_dot_product_attention", "bhse,bhte,bhtv,st"},
    {"scatter", "ab,cb,cb"},
    {"scatter_add", "ab,cb,cb"},
    {"scatter_reduce", "ab,cb,cb"},
    {"searchsorted", "ab,ac"},
    {"bucketize", "ab,c"},
    {"stack", "abc,abc,abc"},
    {"take_along_dim", "ab,cb"},
    {"tril", "nab"},
    {"triu", "nab"},
    {"triplet_margin_loss", "nd,nd,nd"},
    {"vsht", "b2hw"},
    {"ivsht", "b2hw"},
    {"view_as_complex", "ab2"},
};

const char *call_pattern_of(const char *op)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].op, op) == 0)
            return patterns[i].shapes;
    return NULL;
}

static const struct range {
    const char *attr;
    int least, most;
} ranges[] = {
    {"stride", 1, 2},         {"dilation", 1, 2},
    {"kernel_size", 1, 3},    {"padding", 0, 1},
    {"groups", 1, 1},         {"output_padding", 0, 1},
    {"num_groups", 1, 4},     {"output_size", 1, 4},
    {"upscale_factor", 1, 2}, {"downscale_factor", 1, 2},
    {"size", 1, 4},           {"k", 1, 2},
    {"chunks", 1, 3},         {"split_size", 1, 3},
    {"repeats", 0, 3},        {"start", 0, 2},
    {"length", 0, 2},         {"step", 1, 2},
    {"num_classes", 8, 9},    {"mesh", 0, 3},
    {"max_points", 1, 4},     {"is_causal", 0, 1},
    {"nlat", 2, 5},           {"nlon", 4, 9},
    {"lmax", 1, 4},           {"mmax", 1, 2},
    {"lat", 0, 3},            {"lon", 0, 3},
};

int call_range_of(const char *attr, int *least, int *most)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (strcmp(ranges[i].attr, attr) == 0) {
            *least = ranges[i].least;
            *most = ranges[i].most;
            return 1;
        }
    return 0;
}
