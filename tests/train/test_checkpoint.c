/* Checkpoints: a run that was stopped goes on as if it had not been, wherever it goes on; one that cannot be loaded
 * changes nothing. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 7, COLUMNS = 5, N = ROWS * COLUMNS, STEPS = 6, STOP = 3 };

static char folder[] = "/tmp/stn-checkpoint-XXXXXX";

static const char *at(const char *name, char text[128])
{
    snprintf(text, 128, "%s/%s", folder, name);
    return text;
}

static double zero(int64_t i)
{
    (void)i;
    return 0;
}

/* A run with everything that a checkpoint holds. Its results are elementwise, so that they are the same bits on any
 * mesh. */
struct run {
    stn_context *context;
    stn_tensor *w, *b, *seen; /* two parameters, and a statistic that is none */
    stn_optimizer *optimizer;
    stn_average *average;
    stn_named_tensor parameters[2], own[1];
    stn_checkpoint checkpoint;
};

static const stn_metadata texts[] = {{"data", "year 1980, day 12"}, {"rng.note", ""}};

static stn_tensor *field(stn_context *context, const stn_mesh *mesh, int kind, double (*value)(int64_t))
{
    static const stn_placement placements[][2] = {{{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_SHARD, 1, 0, 0}},
                                                  {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}},
                                                  {{STN_PLACE_REPLICATE, 0, 0, 0}, {STN_PLACE_REPLICATE, 0, 0, 0}}};
    return test_tensor(context, mesh, placements[kind], STN_DTYPE_F64, 2, (const int64_t[]){ROWS, COLUMNS}, NULL,
                       value);
}

static void begin(struct run *run, stn_context *context, int rows, int columns, double (*value)(int64_t), int sgd)
{
    const stn_mesh *mesh = test_mesh(context, rows, columns);
    const stn_adamw_options adamw = {.size = sizeof adamw, .rate = 0.05, .weight_decay = 0.01};
    const stn_sgd_options plain = {.size = sizeof plain, .rate = 0.05};
    *run = (struct run){.context = context,
                        .w = field(context, mesh, 0, value),
                        .b = field(context, mesh, 1, value),
                        .seen = field(context, mesh, 2, zero)};
    run->parameters[0] = (stn_named_tensor){"w", run->w};
    run->parameters[1] = (stn_named_tensor){"b", run->b};
    run->own[0] = (stn_named_tensor){"seen", run->seen};
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(stn_set_requires_grad(run->parameters[i].tensor, 1), STN_OK);
    const stn_parameter_group group = {.size = sizeof group, .n = 2, .parameters = run->parameters};
    CHECK_STATUS(sgd ? stn_sgd_create(context, &plain, &run->optimizer)
                     : stn_adamw_create(context, &adamw, &run->optimizer),
                 STN_OK);
    CHECK_STATUS(stn_optimizer_add_group(run->optimizer, &group), STN_OK);
    CHECK_STATUS(stn_average_create(context, 2, run->parameters, &run->average), STN_OK);
    run->checkpoint = (stn_checkpoint){.size = sizeof run->checkpoint,
                                       .optimizer = run->optimizer,
                                       .average = run->average,
                                       .n_tensors = 1,
                                       .tensors = run->own,
                                       .n_texts = 2,
                                       .texts = texts};
}

static void end(struct run *run)
{
    stn_optimizer_destroy(&run->optimizer);
    stn_average_destroy(&run->average);
}

static void step(struct run *run)
{
    stn_scope_begin(run->context);
    stn_optimizer_set_rate_factor(run->optimizer, stn_schedule_cosine(run->checkpoint.step++, 2, STEPS, 0.1));
    stn_tensor *h = stn_dropout(stn_mul(run->w, run->w), 0.4, 1);
    CHECK_STATUS(
        stn_backward(stn_sum(stn_add(stn_mul(h, run->w), stn_mul(run->b, stn_dropout(run->b, 0.3, 1))), 0, NULL, 0)),
        STN_OK);
    CHECK_STATUS(stn_optimizer_step(run->optimizer), STN_OK);
    CHECK_STATUS(stn_optimizer_zero_grad(run->optimizer), STN_OK);
    CHECK_STATUS(stn_average_update(run->average, 0.9), STN_OK);
    stn_no_grad_begin(run->context);
    stn_add_(run->seen, stn_detach(run->w), 1);
    stn_no_grad_end(run->context);
    CHECK_STATUS(stn_scope_end(run->context), STN_OK);
}

static void read_all(struct run *run, double out[5 * N])
{
    test_read(run->w, out, N);
    test_read(run->b, out + N, N);
    test_read(run->seen, out + 2 * N, N);
    for (int i = 0; i < 2; i++)
        test_read(stn_average_at(run->average, i).tensor, out + (3 + i) * N, N);
}

/* Steps `first` to `last` - 1 on a mesh; what came before is loaded, what comes after is saved for. */
struct course {
    int rows, columns, first, last;
    double end[5 * N];
};

static stn_status course_body(stn_context *context, void *arg)
{
    struct course *course = arg;
    struct run run;
    char path[128];
    double got[5 * N];
    stn_scope_begin(context);
    begin(&run, context, course->rows, course->columns, course->first ? zero : test_value, 0);
    at("run.safetensors", path);
    if (course->first) {
        stn_file *file = NULL;
        stn_context_set_random_state(context, 99, 1234);
        CHECK_STATUS(stn_checkpoint_load(context, path, &run.checkpoint, &file), STN_OK);
        if (CHECK_PTR(file)) {
            CHECK_STR(stn_file_metadata(file, "data"), texts[0].value);
            CHECK_STR(stn_file_metadata(file, "rng.note"), "");
        }
        stn_file_close(&file);
    }
    CHECK_I64(run.checkpoint.step, course->first);
    CHECK_I64(stn_optimizer_steps(run.optimizer), course->first);
    while (run.checkpoint.step < course->last)
        step(&run);
    if (course->last == STOP)
        CHECK_STATUS(stn_checkpoint_save(context, path, &run.checkpoint), STN_OK);
    read_all(&run, got);
    if (stn_context_rank(context) == 0)
        memcpy(course->end, got, sizeof got);
    end(&run);
    return stn_scope_end(context);
}

static void a_run_goes_on_on_other_meshes_as_if_it_had_not_stopped(void)
{
    static const int meshes[][2] = {{1, 1}, {2, 2}, {3, 1}, {1, 3}, {4, 1}};
    struct course whole = {1, 1, 0, STEPS, {0}};
    test_ranks(1, course_body, &whole);
    for (size_t from = 0; from < 2; from++) {
        struct course first = {meshes[from][0], meshes[from][1], 0, STOP, {0}};
        test_ranks(first.rows * first.columns, course_body, &first);
        for (size_t to = 0; to < sizeof meshes / sizeof *meshes; to++) {
            struct course rest = {meshes[to][0], meshes[to][1], STOP, STEPS, {0}};
            test_ranks(rest.rows * rest.columns, course_body, &rest);
            CHECK_BYTES(rest.end, whole.end, sizeof whole.end);
        }
    }
}

static void refused(struct run *run, const char *path, stn_checkpoint *checkpoint, int save, stn_status want,
                    const char *why)
{
    double before[5 * N], after[5 * N];
    uint64_t seed[2], stream[2];
    stn_file *file = NULL;
    const int64_t step_before = checkpoint ? checkpoint->step : 0, steps = stn_optimizer_steps(run->optimizer);
    read_all(run, before);
    stn_context_random_state(run->context, &seed[0], &stream[0]);
    CHECK_STATUS(save ? stn_checkpoint_save(run->context, path, checkpoint)
                      : stn_checkpoint_load(run->context, path, checkpoint, &file),
                 want);
    if (!CHECK(strstr(stn_context_error_text(run->context), why) != NULL))
        fprintf(stderr, "  %s\n", stn_context_error_text(run->context));
    stn_context_take_error(run->context, NULL, 0);
    stn_context_random_state(run->context, &seed[1], &stream[1]);
    read_all(run, after);
    CHECK_BYTES(after, before, sizeof before);
    CHECK(seed[0] == seed[1] && stream[0] == stream[1] && file == NULL);
    CHECK_I64(stn_optimizer_steps(run->optimizer), steps);
    CHECK_I64(checkpoint ? checkpoint->step : 0, step_before);
}

/* A run of plain descent whose numbers somebody wrote. */
static void write_run(struct run *run, const char *path, const char *step, const char *steps)
{
    const stn_named_tensor tensors[] = {
        {"w", run->w}, {"b", run->b}, {"w.average", run->w}, {"b.average", run->b}, {"seen", run->seen}};
    const stn_metadata numbers[] = {{"stn.step", step},       {"stn.seed", "1"}, {"stn.stream", "1"},
                                    {"stn.rate_factor", "0"}, {"steps", "1"},    {"w.steps", steps},
                                    {"b.steps", "1"}};
    CHECK_STATUS(stn_save(run->context, path, 5, tensors, 7, numbers), STN_OK);
}

static stn_status refused_body(stn_context *context, void *arg)
{
    struct run run, other;
    char path[128], optimizer_alone[128];
    (void)arg;
    stn_scope_begin(context);
    begin(&run, context, stn_context_size(context), 0, test_value, 0);
    begin(&other, context, stn_context_size(context), 0, test_value, 1);
    CHECK_STATUS(stn_checkpoint_save(context, at("run.safetensors", path), &run.checkpoint), STN_OK);
    CHECK_STATUS(stn_optimizer_save(run.optimizer, at("optimizer.safetensors", optimizer_alone)), STN_OK);
    step(&run);
    stn_checkpoint c = run.checkpoint;
    refused(&run, optimizer_alone, &c, 0, STN_ERR_NOT_FOUND, "no metadata 'stn.step'");
    refused(&other, path, &other.checkpoint, 0, STN_ERR_ARGUMENT, "its optimizer is adamw, wanted sgd");
    c.tensors = &(stn_named_tensor){"nobody", run.seen};
    refused(&run, path, &c, 0, STN_ERR_NOT_FOUND, "no tensor 'nobody'");
    c.step = -1;
    refused(&run, path, &c, 1, STN_ERR_ARGUMENT, "step got -1");
    c = run.checkpoint;
    c.size = 8;
    refused(&run, path, &c, 1, STN_ERR_ARGUMENT, "wanted one of size");
    refused(&run, path, NULL, 0, STN_ERR_ARGUMENT, "got NULL");
    c = run.checkpoint;
    c.texts = &(stn_metadata){"stn.seed", "1"}, c.n_texts = 1;
    refused(&run, path, &c, 1, STN_ERR_ARGUMENT, "'stn.seed'");
    c.texts = &(stn_metadata){"steps", "1"};
    refused(&run, path, &c, 1, STN_ERR_ARGUMENT, "has 'steps' twice");
    write_run(&other, at("written.safetensors", path), "9223372036854775808", "1");
    refused(&other, path, &other.checkpoint, 0, STN_ERR_IO,
            "metadata 'stn.step' is 9223372036854775808, wanted at most");
    write_run(&other, path, "1", "18446744073709551615");
    refused(&other, path, &other.checkpoint, 0, STN_ERR_IO, "metadata 'w.steps' is 18446744073709551615, wanted at");
    CHECK_STATUS(stn_optimizer_load(other.optimizer, path), STN_ERR_IO);
    CHECK_ERROR_PART(context, STN_ERR_IO, "metadata 'w.steps' is 18446744073709551615, wanted at most");
    at("run.safetensors", path);
    CHECK_STATUS(stn_average_swap(run.average), STN_OK);
    refused(&run, path, &run.checkpoint, 1, STN_ERR_STATE, "changed places");
    CHECK_STATUS(stn_average_swap(run.average), STN_OK);
    CHECK_STATUS(stn_checkpoint_load(context, path, &run.checkpoint, NULL), STN_OK);
    CHECK_I64(run.checkpoint.step, 0);
    end(&run);
    end(&other);
    return stn_scope_end(context);
}

static void a_checkpoint_that_does_not_fit_changes_nothing(void)
{
    test_ranks(1, refused_body, NULL);
    test_ranks(2, refused_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_run_goes_on_on_other_meshes_as_if_it_had_not_stopped",
         a_run_goes_on_on_other_meshes_as_if_it_had_not_stopped},
        {"a_checkpoint_that_does_not_fit_changes_nothing", a_checkpoint_that_does_not_fit_changes_nothing},
    };
    char path[128];
    if (!mkdtemp(folder))
        return 1;
    const int code = TEST_MAIN(argc, argv, cases);
    unlink(at("run.safetensors", path));
    unlink(at("optimizer.safetensors", path));
    rmdir(folder);
    return code;
}
