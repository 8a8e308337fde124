/* What scalar and vector transforms share: sizes, bases, and the journeys between fields and what Legendre functions
 * are summed with. */
#ifndef STNI_OPS_SHT_SHT_H
#define STNI_OPS_SHT_SHT_H

#include "core/shard/spec.h"
#include "ops/sht/legendre.h"
#include "ops/table.h"

/* `first`, `second`: lmax and mmax, or nlat and nlon of the way back. */
struct stni_sht_attrs {
    int64_t first, second, grid, norm, csphase;
};

/* The way back has its own names of sizes. Vectors have a dim of two components before the last two. */
struct stni_sht_rule {
    int inverse, vector;
};

extern const struct stni_sht_attrs stni_sht_defaults, stni_isht_defaults;

stn_tensor *stni_sht_call(enum stni_op_index op, const char *name, stn_tensor *input, int64_t first, int64_t second,
                          const stn_sht_basis *basis);

/* As the typed functions have it, where 0 stands for the default. */
stn_tensor *stni_sht_call_forward(enum stni_op_index op, const char *name, stn_tensor *input, int64_t lmax,
                                  int64_t mmax, const stn_sht_basis *basis);

/* Sizes of both sides. */
struct stni_sht {
    int64_t nlat, nlon, lmax, mmax;
    struct stni_legendre_function function; /* of values */
};

stn_status stni_sht_read(const stn_op_call *call, struct stni_sht *out);

/* The input's first mmax Fourier coefficients along circles, times 2 pi, in a layout in which orders are whole. */
stn_status stni_sht_waves(const stn_op_call *call, const struct stni_sht *sht, stn_tensor **out);

/* Columns made whole once, for several sums of them. */
stn_status stni_sht_columns(const stn_op_call *call, const struct stni_sht *sht, stn_tensor *x, stn_tensor **out);

/* Fourier coefficients to fields in the layout of the result. */
stn_status stni_sht_fields(const stn_op_call *call, const struct stni_sht *sht, stn_tensor *waves, stn_tensor **out);

/* To the layout of the result: the input's, its last two dims cut in proportion. */
stn_status stni_sht_finish(const stn_op_call *call, int64_t rows, int64_t columns, stn_tensor *x, stn_tensor **out);

enum { STNI_SHT_N_ATTRS = 5 };
extern const stn_attr_schema stni_sht_schema[STNI_SHT_N_ATTRS], stni_isht_schema[STNI_SHT_N_ATTRS];

#endif
