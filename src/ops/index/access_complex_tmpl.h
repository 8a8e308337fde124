/* Complex numbers have no order: what stands for it, included once per type. */

static A NAME(identity)(enum stni_access_mode mode)
{
    return mode == STNI_ACCESS_MUL ? (A)1 : (A)0;
}

static A NAME(extreme)(enum stni_access_mode mode, A t, A v)
{
    (void)mode;
    (void)v;
    return t;
}
