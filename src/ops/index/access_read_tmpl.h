/* Reading of elements of one size, included once per size with T a type of that size. */

static void NAME(read_line)(void *arg, int64_t value, int64_t value_step, int64_t table, int64_t table_step, int64_t n)
{
    const struct reader *r = arg;
    T *out = (T *)r->values + value;
    if (table < 0) {
        for (int64_t i = 0; i < n; i++)
            out[i * value_step] = 0;
        return;
    }
    const T *from = (const T *)r->table + table;
    if (value_step == 1 && table_step == 1) {
        memcpy(out, from, (size_t)n * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i * value_step] = from[i * table_step];
}

static void NAME(read_elements)(void *arg, int64_t value, int64_t value_step, const int64_t *table, int64_t n)
{
    const struct reader *r = arg;
    T *out = (T *)r->values + value;
    const T *from = r->table;
    for (int64_t i = 0; i < n; i++)
        out[i * value_step] = table[i] < 0 ? 0 : from[table[i]];
}

#undef T
#undef NAME
