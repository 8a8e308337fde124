/* Complex numbers have no order: what stands for it, included once per type. */

STNI_INLINE ACC NAME(identity)(enum stni_access_mode mode)
{
    return mode == STNI_ACCESS_MUL ? (ACC)1 : (ACC)0;
}

STNI_INLINE ACC NAME(extreme)(enum stni_access_mode mode, ACC t, ACC v)
{
    (void)mode;
    (void)v;
    return t;
}
