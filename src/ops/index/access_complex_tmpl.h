/* Complex numbers have no order: what stands for it, included once per type. */

STNI_INLINE A NAME(identity)(enum stni_access_mode mode)
{
    return mode == STNI_ACCESS_MUL ? (A)1 : (A)0;
}

STNI_INLINE A NAME(extreme)(enum stni_access_mode mode, A t, A v)
{
    (void)mode;
    (void)v;
    return t;
}
