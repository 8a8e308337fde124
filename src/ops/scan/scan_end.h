/* Ends the arithmetic that scan_real.h, scan_integer.h or scan_complex.h began. */
#undef ACC
#undef STATE
#undef RE
#undef IM
#undef IMAGINARY
#undef ISNAN
#undef EXP
#undef LOG
#undef LOWEST
#undef PHASE
