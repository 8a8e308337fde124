/* What the program promises, each on one rank and on a mesh. */
#ifndef EXAMPLES_SHALLOW_WATER_CHECK_H
#define EXAMPLES_SHALLOW_WATER_CHECK_H

/* Prints a line each; returns how many do not hold. `ranks`: rows x columns of the mesh. */
int check_all(const int ranks[2]);

#endif
