/* Loops that stay scalar. */
#ifndef STNI_OPS_CPU_SCALAR_LOOP_H
#define STNI_OPS_CPU_SCALAR_LOOP_H

/* Stands first in the body of a loop whose elements are not contiguous. A vectorised loop would gather them element
 * by element, which is no faster and many times the code; gcc 12 has no pragma that forbids it. */
#define STNI_SCALAR_LOOP __asm__ volatile("");

#endif
