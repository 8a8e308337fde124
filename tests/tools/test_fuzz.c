/* The fuzzer itself: every op of its table is drawn, programs follow from their seeds, what differs is found, small
 * and printed. */
#include "fuzz/draw.h"
#include "fuzz/generators.h"
#include "fuzz/print.h"
#include "fuzz/shrink.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct program *drawn(uint64_t seed, const char *only)
{
    struct draw_counts counts = {0, 0};
    struct program *p = calloc(1, sizeof *p);
    if (!CHECK_PTR(p) || !CHECK(draw_program(p, seed, only, &counts)))
        exit(EXIT_FAILURE);
    return p;
}

static void every_op_of_the_table_makes_programs_that_agree(void)
{
    enum { SEEDS = 6 };
    for (int g = 0; g < generator_count(); g++) {
        const char *op = generator_at(g)->op;
        int steps = 0, failures = 0;
        for (uint64_t seed = 0; seed < SEEDS && steps < 8; seed++) {
            struct program *p = drawn(seed, op);
            struct finding finding;
            if (p->n_steps > 0 && !check_program(p, &finding)) {
                fprintf(stderr, "  %s\n", finding.text);
                failures++;
            }
            steps += p->n_steps;
            free(p);
        }
        if (!CHECK(steps > 0 && failures == 0))
            fprintf(stderr, "  %s: %d steps\n", op, steps);
    }
}

static void a_seed_draws_the_same_program(void)
{
    struct program *p = drawn(7, NULL), *q = drawn(7, NULL), *r = drawn(8, NULL);
    CHECK(p->n_steps >= 2 && p->n_steps <= MAX_STEPS);
    CHECK_BYTES(p, q, sizeof *p);
    CHECK(memcmp(p, r, sizeof *p) != 0);
    free(p);
    free(q);
    free(r);
}

/* What is changed in place is read by that step alone, and programs change often. */
static void programs_change_tensors_in_place(void)
{
    int changes = 0;
    for (uint64_t seed = 40; seed < 80; seed++) {
        struct program *p = drawn(seed, NULL);
        for (int s = 0; s < p->n_steps; s++)
            if (p->steps[s].in_place) {
                CHECK(p->terms[p->steps[s].inputs[0]].is_changed);
                CHECK_I64(program_uses(p, p->steps[s].inputs[0]), 1);
                changes++;
            }
        free(p);
    }
    CHECK(changes >= 10);
}

/* The answers of one rank are changed by little: a value of each program, then a gradient. */
static int tampered(struct program *p, int gradient)
{
    struct finding finding = {{0}, 0, 0};
    struct answers answers;
    int tried = 0, found = 0;
    CHECK(execute_alone(p, &answers, &finding));
    CHECK_STR(finding.text, "");
    void *const *data = gradient ? answers.grad : answers.value;
    for (int t = p->n_terms - 1; t >= 0 && !tried; t--)
        if (p->terms[t].dtype == STN_DTYPE_F64 && data[t] && term_numel(&p->terms[t]) > 0) {
            ((double *)data[t])[term_numel(&p->terms[t]) - 1] += 1e-6 * (1 + answers.largest);
            tried = 1;
            found = !execute_compare(p, &answers, &finding) &&
                    strstr(finding.text, gradient ? "gradient" : "value") != NULL;
        }
    answers_free(&answers);
    return found || !tried;
}

static void changed_answers_are_found(void)
{
    for (uint64_t seed = 20; seed < 30; seed++) {
        struct program *p = drawn(seed, NULL);
        CHECK(tampered(p, 0));
        CHECK(tampered(p, 1));
        free(p);
    }
}

/* A program whose leaves' gradients are differentiated, too. */
static struct program *drawn_twice(const char *op, int leaves)
{
    for (uint64_t seed = 0;; seed += 3) {
        struct program *p = drawn(seed, op);
        int n = 0;
        for (int t = 0; t < p->n_terms; t++)
            n += p->terms[t].step == GIVEN && p->terms[t].requires_grad && term_numel(&p->terms[t]) > 0;
        if (p->n_steps > 0 && n >= leaves)
            return p;
        free(p);
    }
}

static void second_derivatives_come_to_the_gradients(void)
{
    struct program *p = drawn_twice("square", 2);
    struct answers once, both;
    struct finding finding;
    int differ = 0;
    CHECK(program_goes_twice(p) && check_program(p, &finding));
    CHECK(execute_alone(p, &both, &finding));
    p->seed++;
    CHECK(!program_goes_twice(p) && execute_alone(p, &once, &finding));
    for (int t = 0; t < p->n_terms; t++)
        differ += once.grad[t] && memcmp(once.grad[t], both.grad[t],
                                         (size_t)term_numel(&p->terms[t]) * stn_dtype_size(p->terms[t].dtype)) != 0;
    CHECK(differ > 0);
    answers_free(&once);
    answers_free(&both);
    free(p);
}

static void refused_second_derivatives_are_compared(void)
{
    struct program *p = drawn_twice("cdist", 2);
    struct answers answers;
    struct finding finding;
    CHECK(execute_alone(p, &answers, &finding));
    CHECK_STR(answers.refusal, "stn_grad: the backward of cdist cannot be differentiated again");
    CHECK(execute_compare(p, &answers, &finding));
    answers.refusal[0] = '\0';
    CHECK(!execute_compare(p, &answers, &finding) && strstr(finding.text, "a second derivative") != NULL);
    answers_free(&answers);
    free(p);
}

static void compacting_keeps_what_a_program_does(void)
{
    struct program *p = drawn(31, NULL);
    struct finding finding;
    p->terms[p->n_terms].step = LOST;
    memmove(&p->terms[1], &p->terms[0], sizeof *p->terms * (size_t)p->n_terms);
    p->terms[0].step = LOST;
    p->n_terms++;
    for (int s = 0; s < p->n_steps; s++) {
        for (int i = 0; i < p->steps[s].n_inputs; i++)
            p->steps[s].inputs[i]++;
        for (int k = 0; k < p->steps[s].n_outputs; k++)
            p->steps[s].outputs[k]++;
    }
    CHECK(check_program(p, &finding));
    const int n = p->n_terms;
    program_compact(p);
    CHECK_I64(p->n_terms, n - 1);
    CHECK(check_program(p, &finding));
    CHECK(finding.compared > 0);
    free(p);
}

static void a_program_is_printed_as_c(void)
{
    struct program *p = drawn(5, "roll");
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    print_program(out, p);
    fclose(out);
    CHECK(strstr(text, "stn_call(c, \"roll\", 1, ") != NULL);
    CHECK(strstr(text, "#include <shardtensor/shardtensor.h>") == text);
    free(text);
    free(p);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_op_of_the_table_makes_programs_that_agree", every_op_of_the_table_makes_programs_that_agree},
        {"a_seed_draws_the_same_program", a_seed_draws_the_same_program},
        {"programs_change_tensors_in_place", programs_change_tensors_in_place},
        {"changed_answers_are_found", changed_answers_are_found},
        {"second_derivatives_come_to_the_gradients", second_derivatives_come_to_the_gradients},
        {"refused_second_derivatives_are_compared", refused_second_derivatives_are_compared},
        {"compacting_keeps_what_a_program_does", compacting_keeps_what_a_program_does},
        {"a_program_is_printed_as_c", a_program_is_printed_as_c},
    };
    return TEST_MAIN(argc, argv, cases);
}
