/* Making a failing program small. */
#ifndef FUZZ_SHRINK_H
#define FUZZ_SHRINK_H

#include "execute.h"

/** Runs a program on one rank and on its mesh. @return 1 where both agree, or where one rank refuses it forward,
 * which makes it no program; 0 with a finding. Shapes in `p` become those that came. */
int check_program(struct program *p, struct finding *finding);

/** Tries smaller programs for as long as one still fails. `*finding` becomes that of the smallest. @return tries. */
int shrink_program(struct program *p, struct finding *finding);

#endif
