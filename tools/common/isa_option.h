/* The option --isa of the tools. */
#ifndef TOOLS_ISA_OPTION_H
#define TOOLS_ISA_OPTION_H

/** Whether contexts can be made with `isa` (stn_context_options; NULL: the widest). @return 0; else what the program
 * exits with, the reason being on stderr: 77 where the processor or the build lacks the set, as of a test that is
 * skipped; 2 where no set has that name. */
int isa_option_check(const char *isa);

#endif
