/* What saving does to the file system: savers do not meet, what stood there keeps its mode and its links, failures
 * leave nothing behind. */
#include "ranks.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/stn-save-XXXXXX";

static const char *at(const char *name, char text[512])
{
    snprintf(text, 512, "%s/%s", folder, name);
    return text;
}

/* Names in a folder; all of them are removed where asked to. */
static int names_in(const char *path, int remove_them)
{
    int n = 0;
    DIR *list = opendir(path);
    if (!CHECK_PTR(list))
        return -1;
    for (const struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        n++;
        if (remove_them && unlinkat(dirfd(list), entry->d_name, 0) != 0)
            unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
    }
    closedir(list);
    return n;
}

/* A save or a load of one tensor on two ranks, and what came of it. */
struct job {
    const char *path;
    double value, least, most;
    int64_t n;
    int saves, times;
    stn_status status;
    char text[512];
};

static stn_status one(stn_context *context, struct job *job)
{
    const int64_t shape[] = {job->n};
    const int ranks = stn_context_size(context), first = stn_context_rank(context) == 0;
    const stn_mesh *mesh = test_mesh(context, ranks, 0);
    const stn_placement cut = stn_shard(0);
    const stn_spec *spec = NULL;
    double least = 0, most = 0;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, mesh, &cut, STN_DTYPE_F32, 1, shape, NULL, &spec), STN_OK);
    const stn_named_tensor named = {"w", stn_full(context, spec, job->value)};
    const stn_status status =
        job->saves ? stn_save(context, job->path, 1, &named, 0, NULL) : stn_load(context, job->path, 1, &named);
    if (first && status != STN_OK)
        snprintf(job->text, sizeof job->text, "%s", stn_context_error_text(context));
    stn_context_take_error(context, NULL, 0);
    stn_item(stn_min(named.tensor), &least);
    stn_item(stn_max(named.tensor), &most);
    if (first)
        job->least = least, job->most = most, job->status = job->status == STN_OK ? status : job->status;
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static stn_status job_body(stn_context *context, void *arg)
{
    struct job *job = arg;
    for (int i = 0; i < job->times; i++)
        one(context, job);
    return STN_OK;
}

static stn_status run(struct job *job)
{
    const stn_launch_options options = {.size = sizeof options, .ranks = 2};
    CHECK_STATUS(stn_launch(&options, job_body, job), STN_OK);
    return job->status;
}

static stn_status save_to(const char *path, char text[512])
{
    struct job job = {.path = path, .value = 1, .n = 5, .saves = 1, .times = 1};
    const stn_status status = run(&job);
    snprintf(text, 512, "%s", job.text);
    return status;
}

static int loads_from(const char *path)
{
    struct job job = {.path = path, .value = 7, .n = 5, .times = 1};
    return run(&job) == STN_OK && job.least == 1 && job.most == 1;
}

static atomic_int savers;

static void *saver(void *arg)
{
    run(arg);
    atomic_fetch_sub(&savers, 1);
    return NULL;
}

static void jobs_that_save_to_one_path_leave_one_of_their_files(void)
{
    enum { JOBS = 2, ELEMENTS = 400000, SAVES = 12 };
    char path[512];
    struct job jobs[JOBS];
    pthread_t threads[JOBS];
    int torn = 0, loads = 0;
    at("both.safetensors", path);
    atomic_store(&savers, JOBS);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.path = path, .value = i + 1, .n = ELEMENTS, .saves = 1, .times = SAVES};
        CHECK_I64(pthread_create(&threads[i], NULL, saver, &jobs[i]), 0);
    }
    while (atomic_load(&savers) > 0 || loads == 0) {
        struct job load = {.path = path, .n = ELEMENTS, .times = 1};
        if (access(path, F_OK) != 0)
            continue;
        CHECK_STATUS(run(&load), STN_OK);
        loads++;
        torn += load.least != load.most;
    }
    for (int i = 0; i < JOBS; i++) {
        pthread_join(threads[i], NULL);
        if (!CHECK_STATUS(jobs[i].status, STN_OK))
            fprintf(stderr, "  %s\n", jobs[i].text);
    }
    CHECK_I64(torn, 0);
    CHECK_I64(names_in(folder, 1), 1);
}

static void what_is_no_file_is_neither_replaced_nor_left_beside_a_part(void)
{
    char path[512], text[512];
    CHECK_I64(mkdir(at("folder", path), 0700), 0);
    CHECK_STATUS(save_to(path, text), STN_ERR_IO);
    CHECK(strstr(text, "is a directory") != NULL);
    CHECK_I64(mkfifo(at("pipe", path), 0600), 0);
    CHECK_STATUS(save_to(path, text), STN_ERR_IO);
    CHECK(strstr(text, "is no regular file") != NULL);
    CHECK_I64(symlink("/dev/null", at("null", path)), 0);
    CHECK_STATUS(save_to(path, text), STN_ERR_IO);
    CHECK_I64(symlink("loop", at("loop", path)), 0);
    CHECK_STATUS(save_to(path, text), STN_ERR_IO);
    CHECK(strstr(text, strerror(ELOOP)) != NULL);
    CHECK_STATUS(save_to(at("no/such", path), text), STN_ERR_IO);
    CHECK(strstr(text, "cannot be made") != NULL);
    CHECK_I64(names_in(folder, 1), 4);
}

static void a_file_keeps_its_mode_and_a_new_one_gets_what_the_mask_leaves(void)
{
    char path[512], text[512];
    struct stat about = {0};
    const mode_t before = umask(027);
    CHECK_STATUS(save_to(at("mode.safetensors", path), text), STN_OK);
    CHECK_I64(stat(path, &about), 0);
    CHECK_I64(about.st_mode & 0777, 0640);
    static const mode_t modes[] = {0600, 0666, 0640};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        CHECK_I64(chmod(path, modes[i]), 0);
        CHECK_STATUS(save_to(path, text), STN_OK);
        CHECK_I64(stat(path, &about), 0);
        CHECK_I64(about.st_mode & 0777, modes[i]);
    }
    umask(before);
    CHECK(loads_from(path));
    CHECK_I64(names_in(folder, 1), 1);
}

static void a_symbolic_link_stays_and_its_target_is_replaced(void)
{
    char path[512], text[512], target[512], inner[512];
    struct stat about = {0};
    CHECK_I64(mkdir(at("runs", inner), 0700), 0);
    CHECK_I64(symlink("runs/step9", at("latest", path)), 0);
    CHECK_I64(symlink("real", at("runs/step9", target)), 0);
    for (int round = 0; round < 2; round++) { /* the target is not there yet, then it is */
        CHECK_STATUS(save_to(path, text), STN_OK);
        CHECK_I64(lstat(path, &about), 0);
        CHECK(S_ISLNK(about.st_mode));
        CHECK_I64(lstat(at("runs/real", target), &about), 0);
        CHECK(S_ISREG(about.st_mode));
        CHECK(loads_from(target) && loads_from(path));
    }
    CHECK_I64(names_in(inner, 1), 2);
    CHECK_I64(names_in(folder, 1), 2);
}

static void a_save_that_fails_leaves_the_old_file_and_nothing_else(void)
{
    char path[512], text[512];
    struct rlimit limit, small;
    CHECK_STATUS(save_to(at("old.safetensors", path), text), STN_OK);
    CHECK_I64(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 100;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    CHECK_I64(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct job job = {.path = path, .value = 2, .n = 1000, .saves = 1, .times = 1};
    const stn_status status = run(&job);
    CHECK_I64(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, before);
    CHECK_STATUS(status, STN_ERR_IO);
    CHECK(strstr(job.text, "cannot be written") != NULL);
    CHECK(loads_from(path));
    CHECK_I64(names_in(folder, 1), 1);
}

/* A disk whose fullness shows when the file is closed. Success leaves any number in errno. */
static atomic_int closes_full;

/* The C library's, or a sanitizer's, which has to know what is closed. */
static int call_next(const char *name, int file)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    int (*function)(int);
    memcpy(&function, &symbol, sizeof function);
    return function(file);
}

__attribute__((visibility("default"))) int fsync(int file)
{
    const int code = call_next("fsync", file);
    if (code == 0)
        errno = ENOENT;
    return code;
}

__attribute__((visibility("default"))) int close(int file)
{
    struct stat about;
    const int fails = atomic_load(&closes_full) && fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    const int code = call_next("close", file);
    errno = fails ? ENOSPC : errno;
    return fails ? -1 : code;
}

static void what_is_found_at_the_close_is_told(void)
{
    char path[512], text[512];
    atomic_store(&closes_full, 1);
    CHECK_STATUS(save_to(at("new.safetensors", path), text), STN_ERR_IO);
    atomic_store(&closes_full, 0);
    CHECK(strstr(text, strerror(ENOSPC)) != NULL);
    CHECK_I64(names_in(folder, 1), 0);
}

/* Bytes that the disk was asked to take before the end. */
static atomic_llong taken;

__attribute__((visibility("default"))) int sync_file_range(int file, off64_t from, off64_t bytes, unsigned flags)
{
    (void)flags;
    atomic_fetch_add(&taken, file >= 0 && from == atomic_load(&taken) ? bytes : -1);
    return 0;
}

static void the_disk_takes_the_beginning_of_a_long_file_meanwhile(void)
{
    enum { BYTES = 1 << 25 };
    char path[512];
    struct job job = {.path = at("long", path), .value = 1, .n = BYTES / 4, .saves = 1, .times = 1};
    CHECK_STATUS(run(&job), STN_OK);
    CHECK(atomic_load(&taken) >= BYTES / 2);
    job.saves = 0, job.value = 7;
    CHECK_STATUS(run(&job), STN_OK);
    CHECK(job.least == 1 && job.most == 1);
    CHECK_I64(names_in(folder, 1), 1);
}

static void touch(const char *path)
{
    const int file = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(file >= 0);
    close(file);
}

static void parts_of_killed_savers_are_removed_and_those_of_living_ones_stay(void)
{
    char path[512], text[512], left[512], other[512], alive[512];
    touch(at("x.safetensors.0123456789abcdef.part", left));
    touch(at("x.safetensors.0123456789abcdeg.part", other));
    touch(at("x.safetensors.00000000000000aa.part", alive));
    const int lock = open(alive, O_RDWR);
    CHECK_I64(flock(lock, LOCK_EX), 0);
    CHECK_STATUS(save_to(at("x.safetensors", path), text), STN_OK);
    CHECK(access(left, F_OK) != 0);
    CHECK(access(other, F_OK) == 0);
    CHECK(access(alive, F_OK) == 0);
    close(lock);
    CHECK_I64(names_in(folder, 1), 3);
}

static void a_name_as_long_as_names_may_be_is_saved(void)
{
    char name[256], path[512], text[512];
    memset(name, 'n', 255);
    name[255] = '\0';
    CHECK_STATUS(save_to(at(name, path), text), STN_OK);
    CHECK(loads_from(path));
    CHECK_I64(names_in(folder, 1), 1);
}

static void a_path_without_a_folder_is_saved(void)
{
    char text[512], before[4096];
    if (!CHECK(getcwd(before, sizeof before) != NULL) || !CHECK(chdir(folder) == 0))
        return;
    CHECK_STATUS(save_to("plain", text), STN_OK);
    CHECK(loads_from("plain"));
    CHECK_I64(chdir(before), 0);
    CHECK_I64(names_in(folder, 1), 1);
}

/* Whoever reads the format takes headers of up to 100,000,000 bytes. */
static stn_status long_name_body(stn_context *context, void *arg)
{
    const size_t length = *(size_t *)arg;
    const int fits = length < 100000000;
    const int64_t shape[] = {5};
    const stn_placement cut = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    double want[5];
    char text[512], *name = malloc(length + 1);
    memset(name, 'n', length);
    name[length] = '\0';
    stn_scope_begin(context);
    const stn_named_tensor saved = {name, test_tensor(context, mesh, &cut, STN_DTYPE_F32, 1, shape, NULL, test_value)},
                           loaded = {name, stn_mul_number(saved.tensor, 2)};
    test_read(saved.tensor, want, 5);
    CHECK_STATUS(stn_save(context, at("long", text), 1, &saved, 0, NULL), fits ? STN_OK : STN_ERR_ARGUMENT);
    if (!fits)
        CHECK_ERROR_PART(context, STN_ERR_ARGUMENT, "bytes, at most 100000000");
    CHECK_I64(names_in(folder, 0), fits);
    if (fits) {
        CHECK_STATUS(stn_load(context, text, 1, &loaded), STN_OK);
        test_compare(loaded.tensor, want, 5, 0);
    }
    free(name);
    return stn_scope_end(context);
}

static void headers_are_as_long_as_every_reader_takes(void)
{
    for (size_t length = 20000000; length <= 100000000; length += 80000000) {
        test_ranks(2, long_name_body, &length);
        names_in(folder, 1);
    }
}

/* A rank that names a tensor otherwise, or has another shape of it, would write where the others do not look. */
static stn_status differing_body(stn_context *context, void *arg)
{
    char text[512];
    const char *path = at("differing", text);
    const int64_t same[] = {6, 2}, other[] = {6, 3};
    const int is_odd = stn_context_rank(context) == 1, by_name = arg != NULL;
    const stn_placement cut = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const int64_t *shape = is_odd && !by_name ? other : same;
    stn_tensor *x = test_tensor(context, mesh, &cut, STN_DTYPE_F32, 2, shape, NULL, test_value);
    const stn_named_tensor list = {is_odd && by_name ? "b" : "a", x}, right = {"a", x};
    CHECK_STATUS(stn_save(context, path, 1, &list, 0, NULL), STN_ERR_MISMATCH);
    CHECK_ERROR_PART(context, STN_ERR_MISMATCH, "ranks pass different names, shapes, dtypes or metadata");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK); /* rank 0 has removed what it had begun */
    CHECK_I64(names_in(folder, 0), 0);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    if (by_name) {
        CHECK_STATUS(stn_save(context, path, 1, &right, 0, NULL), STN_OK);
        CHECK_STATUS(stn_load(context, path, 1, &list), STN_ERR_MISMATCH);
        CHECK_ERROR_PART(context, STN_ERR_MISMATCH, "ranks pass different names, shapes or dtypes");
        CHECK_STATUS(stn_load(context, path, 1, &right), STN_OK);
    }
    stn_tensor_release(&x);
    return stn_context_status(context);
}

static void lists_that_differ_between_ranks_are_refused(void)
{
    int by_name = 1;
    test_ranks(3, differing_body, NULL);
    test_ranks(3, differing_body, &by_name);
    CHECK_I64(names_in(folder, 1), 1);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"lists_that_differ_between_ranks_are_refused", lists_that_differ_between_ranks_are_refused},
        {"jobs_that_save_to_one_path_leave_one_of_their_files", jobs_that_save_to_one_path_leave_one_of_their_files},
        {"what_is_no_file_is_neither_replaced_nor_left_beside_a_part",
         what_is_no_file_is_neither_replaced_nor_left_beside_a_part},
        {"a_file_keeps_its_mode_and_a_new_one_gets_what_the_mask_leaves",
         a_file_keeps_its_mode_and_a_new_one_gets_what_the_mask_leaves},
        {"a_symbolic_link_stays_and_its_target_is_replaced", a_symbolic_link_stays_and_its_target_is_replaced},
        {"a_save_that_fails_leaves_the_old_file_and_nothing_else",
         a_save_that_fails_leaves_the_old_file_and_nothing_else},
        {"what_is_found_at_the_close_is_told", what_is_found_at_the_close_is_told},
        {"the_disk_takes_the_beginning_of_a_long_file_meanwhile",
         the_disk_takes_the_beginning_of_a_long_file_meanwhile},
        {"parts_of_killed_savers_are_removed_and_those_of_living_ones_stay",
         parts_of_killed_savers_are_removed_and_those_of_living_ones_stay},
        {"a_name_as_long_as_names_may_be_is_saved", a_name_as_long_as_names_may_be_is_saved},
        {"a_path_without_a_folder_is_saved", a_path_without_a_folder_is_saved},
        {"headers_are_as_long_as_every_reader_takes", headers_are_as_long_as_every_reader_takes},
    };
    if (!mkdtemp(folder))
        return 1;
    const int code = TEST_MAIN(argc, argv, cases);
    rmdir(folder);
    return code;
}
