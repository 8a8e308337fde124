/* Names of foreign libraries. */
#include "core/context/foreign.h"

#include <string.h>

static const char *const names_of[STNI_LIBRARY_COUNT] = {[STNI_LIBRARY_ONEDNN] = "onednn", [STNI_LIBRARY_FFTW] = "fftw"};

/* The library of a name of `length` characters, STNI_LIBRARY_COUNT where there is none. */
static int find(const char *name, size_t length)
{
    int library = 0;
    while (library < STNI_LIBRARY_COUNT && (strlen(names_of[library]) != length || memcmp(names_of[library], name, length) != 0))
        library++;
    return library;
}

stn_status stni_foreign_read(const char *names, unsigned *without, struct stni_error *error)
{
    *without = 0;
    while (names != NULL && *names != '\0') {
        size_t length = strcspn(names, ",");
        int library = find(names, length);
        if (library == STNI_LIBRARY_COUNT)
            return stni_error_set(error, STN_ERR_ARGUMENT, "context: without got '%.*s', wanted names of onednn, fftw with commas between them",
                                  (int)(length < 64 ? length : 64), names);
        *without |= 1u << library;
        names += length;
        names += *names == ',' && names[1] != '\0';
    }
    return STN_OK;
}
