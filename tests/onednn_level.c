/* Runs a program where oneDNN takes this processor for the one that ONEDNN_MAX_CPU_ISA names, and is skipped where it
 * cannot: a level that the processor lacks is not refused, it is the next narrower one.
 *
 *     onednn_level PROGRAM [ARGUMENTS] */
#include <oneapi/dnnl/dnnl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LACKING = 77 };

static const struct {
    const char *name;
    dnnl_cpu_isa_t isa;
} levels[] = {{"SSE41", dnnl_cpu_isa_sse41},
              {"AVX", dnnl_cpu_isa_avx},
              {"AVX2", dnnl_cpu_isa_avx2},
              {"AVX512_CORE", dnnl_cpu_isa_avx512_core}};

int main(int argc, char **argv)
{
    const char *name = getenv("ONEDNN_MAX_CPU_ISA");
    for (size_t i = 0; i < sizeof levels / sizeof *levels && name && argc > 1; i++) {
        if (strcmp(name, levels[i].name) != 0)
            continue;
        if (dnnl_get_effective_cpu_isa() != levels[i].isa) {
            fprintf(stderr, "skipped: this processor is none that oneDNN could take for %s\n", name);
            return LACKING;
        }
        execv(argv[1], argv + 1);
        perror(argv[1]);
        return EXIT_FAILURE;
    }
    fprintf(stderr, "onednn_level: wanted a program, and a level that is known in ONEDNN_MAX_CPU_ISA, got %s\n",
            name ? name : "none");
    return EXIT_FAILURE;
}
