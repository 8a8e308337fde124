/* One conversion of tiles by way of i32, in two passes over a block: a loop of its own for every pair of these dtypes
 * would cost the compiler more than they are used. Included as convert_pair_tmpl.h. */
static void CONVERT_JOIN(FROM, CONVERT_JOIN(to, TO))(void *to, const void *from, const struct stni_tile *tile)
{
    const int64_t to_size = sizeof(CONVERT_JOIN(TO, T)), from_size = sizeof(CONVERT_JOIN(FROM, T));
    convert_widened(CONVERT_JOIN(FROM, to_i32), CONVERT_JOIN(i32_to, TO), to, to_size, from, from_size, tile);
}

#undef TO
