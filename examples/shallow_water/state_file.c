#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int output_folder(const char *path)
{
    char part[1024];
    const size_t n = strlen(path);
    if (n >= sizeof part) {
        fprintf(stderr, "shallow_water: --out is longer than %zu bytes\n", sizeof part - 1);
        return 0;
    }
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            fprintf(stderr, "shallow_water: %s: %s\n", part, strerror(errno));
            return 0;
        }
    }
    return 1;
}

stn_status output_state(const struct model *m, stn_tensor *state, double hours, const char *folder)
{
    char path[1100], text[32];
    const stn_named_tensor named = {"state", state};
    const stn_metadata metadata = {"hours", text};
    snprintf(path, sizeof path, "%s/state.safetensors", folder);
    snprintf(text, sizeof text, "%.17g", hours);
    return stn_save(m->context, path, 1, &named, 1, &metadata);
}

stn_status output_restart(const struct model *m, const char *path, stn_tensor *state, double *hours)
{
    char text[32];
    const stn_named_tensor named = {"state", state};
    stn_status status = stn_load(m->context, path, 1, &named);
    *hours = status == STN_OK && stn_load_metadata(path, "hours", text, sizeof text) == STN_OK ? strtod(text, NULL) : 0;
    return status;
}
