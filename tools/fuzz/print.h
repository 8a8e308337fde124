/* A program as C against the public headers. */
#ifndef FUZZ_PRINT_H
#define FUZZ_PRINT_H

#include "program.h"

#include <stdio.h>

/** Writes a C program that runs `p` on one rank and on its mesh, and prints by how much each tensor and gradient
 * differs. */
void print_program(FILE *out, const struct program *p);

#endif
