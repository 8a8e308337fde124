/* Instruction sets by name, and the choice of one. */
#include "core/base/isa_choice.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int built;
} sets[STNI_ISA_COUNT] = {
#ifndef STNI_WITHOUT_BASE
    [STNI_ISA_BASE].built = 1,
#endif
#ifndef STNI_WITHOUT_AVX2
    [STNI_ISA_AVX2].built = 1,
#endif
#ifndef STNI_WITHOUT_AVX512
    [STNI_ISA_AVX512].built = 1,
#endif
    [STNI_ISA_BASE].name = "base",
    [STNI_ISA_AVX2].name = "avx2",
    [STNI_ISA_AVX512].name = "avx512",
};

int stni_isa_is_built(enum stni_isa isa)
{
    return sets[isa].built;
}

const char *stni_isa_name(enum stni_isa isa)
{
    return sets[isa].name;
}

static enum stni_isa narrowest_built(void)
{
    int isa = 0;
    while (!sets[isa].built)
        isa++;
    return (enum stni_isa)isa;
}

/* Returns STNI_ISA_COUNT where no set has the name. */
static enum stni_isa find(const char *name)
{
    int isa = 0;
    while (isa < STNI_ISA_COUNT && strcmp(name, sets[isa].name) != 0)
        isa++;
    return (enum stni_isa)isa;
}

static stn_status fail_unknown(const char *name, struct stni_error *error)
{
    return stni_error_set(
        error, STN_ERR_ARGUMENT,
        "context: isa got \"%s\", wanted one of \"base\", \"avx2\" and \"avx512\", or NULL for the widest", name);
}

static stn_status fail_not_built(enum stni_isa isa, struct stni_error *error)
{
    char built[64] = "";
    for (int i = 0; i < STNI_ISA_COUNT; i++)
        if (sets[i].built)
            snprintf(built + strlen(built), sizeof built - strlen(built), "%s\"%s\"", built[0] ? ", " : "",
                     sets[i].name);
    return stni_error_set(error, STN_ERR_UNSUPPORTED,
                          "context: isa got \"%s\", for which this build has no kernels; it has %s", sets[isa].name,
                          built);
}

/* The widest that a processor of this set and the build have. */
static enum stni_isa best_of(enum stni_isa processor)
{
    int isa = (int)processor;
    while (isa > 0 && !sets[isa].built)
        isa--;
    return sets[isa].built ? (enum stni_isa)isa : narrowest_built();
}

enum stni_isa stni_isa_best(void)
{
    return best_of(stni_isa_of_processor());
}

stn_status stni_isa_choose_on(enum stni_isa widest, const char *name, enum stni_isa *out, struct stni_error *error)
{
    const enum stni_isa isa = name != NULL ? find(name) : best_of(widest);
    if (isa == STNI_ISA_COUNT)
        return fail_unknown(name, error);
    if (!sets[isa].built)
        return fail_not_built(isa, error);
    if (isa > widest)
        return stni_error_set(error, STN_ERR_UNSUPPORTED,
                              "context: isa got \"%s\"%s, but this processor offers \"%s\" at most", sets[isa].name,
                              name != NULL ? "" : ", the narrowest of this build", sets[widest].name);
    *out = isa;
    return STN_OK;
}

stn_status stni_isa_choose(const char *name, enum stni_isa *out, struct stni_error *error)
{
    return stni_isa_choose_on(stni_isa_of_processor(), name, out, error);
}
