/* The table that is picked is one whose instructions this processor has. */
#include "harness.h"

#include "core/isa.h"

struct table {
    const char *name;
};
static const struct table STNI_ISA_JOIN(kernels, base) = {"base"};
#ifdef __x86_64__
static const struct table STNI_ISA_JOIN(kernels, avx2) = {"avx2"};
#endif
#if defined(__x86_64__) && !defined(STNI_WITHOUT_AVX512)
static const struct table STNI_ISA_JOIN(kernels, avx512) = {"avx512"};
#endif

static void pick_returns_the_table_of_each_set(void)
{
    CHECK_STR(STNI_ISA_PICK(kernels, STNI_ISA_BASE)->name, "base");
#ifdef __x86_64__
    CHECK_STR(STNI_ISA_PICK(kernels, STNI_ISA_AVX2)->name, "avx2");
#endif
#if defined(__x86_64__) && !defined(STNI_WITHOUT_AVX512)
    CHECK_STR(STNI_ISA_PICK(kernels, STNI_ISA_AVX512)->name, "avx512");
#endif
}

static void best_set_is_offered_by_the_processor(void)
{
    enum stni_isa best = stni_isa_best();
    CHECK_I64(stni_isa_best(), best);
#ifdef __x86_64__
    CHECK(best < STNI_ISA_AVX512 || __builtin_cpu_supports("avx512bw"));
    CHECK(best < STNI_ISA_AVX2 || __builtin_cpu_supports("avx2"));
#endif
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"pick_returns_the_table_of_each_set", pick_returns_the_table_of_each_set},
        {"best_set_is_offered_by_the_processor", best_set_is_offered_by_the_processor},
    };
    return TEST_MAIN(argc, argv, cases);
}
