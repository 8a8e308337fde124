#include "train/part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LINKS = 40, MAX_ATTEMPTS = 100, TOKEN_DIGITS = 16, MODE_BITS = 0777, NAME_BYTES = 200 /* of the target's name, so that suffixes fit */ };

#define TOKEN_MASK (INT64_MAX >> 1) /* positive, also after some attempts */

static const char suffix[] = ".part";

static stn_status fail(const struct stni_part *part, struct stni_error *error, const char *what)
{
    return stni_error_set(error, STN_ERR_IO, "save: %s: %s: %s", part->target, what, strerror(errno));
}

/* Where the last name of a path begins. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* One symbolic link, at the end of the target, is replaced by what it says. 0: too long. */
static int follow(char target[PATH_MAX], const char *link)
{
    char next[PATH_MAX];
    const size_t folder = link[0] == '/' ? 0 : folder_length(target);
    const int n = snprintf(next, sizeof next, "%.*s%s", (int)folder, target, link);
    if (n < 0 || n >= PATH_MAX)
        return 0;
    strcpy(target, next);
    return 1;
}

static stn_status resolve(struct stni_part *part, struct stni_error *error)
{
    struct stat about;
    for (int links = 0; lstat(part->target, &about) == 0 && S_ISLNK(about.st_mode); links++) {
        char link[PATH_MAX];
        const ssize_t n = readlink(part->target, link, sizeof link - 1);
        if (n < 0)
            return fail(part, error, "cannot be read");
        link[n] = '\0';
        errno = links < MAX_LINKS ? ENAMETOOLONG : ELOOP;
        if (links == MAX_LINKS || !follow(part->target, link))
            return fail(part, error, "cannot be made");
    }
    return STN_OK;
}

stn_status stni_part_find(struct stni_part *part, const char *path, struct stni_error *error)
{
    struct stat about;
    *part = (struct stni_part){.file = -1};
    snprintf(part->target, sizeof part->target, "%s", path);
    STNI_TRY(resolve(part, error));
    const int exists = stat(path, &about) == 0, there = stat(part->target, &part->old) == 0;
    if (exists && !S_ISREG(about.st_mode))
        return stni_error_set(error, STN_ERR_IO, "save: %s: %s, wanted a file", path,
                              S_ISDIR(about.st_mode) ? "is a directory" : "is no regular file");
    /* A link of /proc, say, leads to a file that has no name any more: there is nothing to replace. */
    if (exists && !there)
        return stni_error_set(error, STN_ERR_IO, "save: %s: leads to a file without a name", path);
    if (!there)
        part->old = (struct stat){0};
    else if (faccessat(AT_FDCWD, part->target, W_OK, AT_EACCESS) != 0)
        return fail(part, error, "cannot be written");
    return STN_OK;
}

void stni_part_name(struct stni_part *part, int64_t token)
{
    const size_t folder = folder_length(part->target);
    const int n = snprintf(part->path, sizeof part->path, "%.*s%.*s.%016" PRIx64 "%s", (int)folder, part->target,
                           NAME_BYTES, part->target + folder, (uint64_t)token, suffix);
    if (n < 0 || n >= PATH_MAX)
        part->path[0] = '\0'; /* the caller finds that it cannot be opened */
}

/* Whether a name in the target's folder is that of a file under way to the same target. */
static int is_sibling(const struct stni_part *part, const char *name)
{
    const char *own = part->path + folder_length(part->path);
    const size_t length = strlen(own), stem = length - strlen(suffix) - TOKEN_DIGITS;
    return strlen(name) == length && memcmp(name, own, stem) == 0 && strcmp(name + stem + TOKEN_DIGITS, suffix) == 0 &&
           strcmp(name, own) != 0 && strspn(name + stem, "0123456789abcdef") >= TOKEN_DIGITS;
}

/* A program that writes a file holds a lock on it: a file whose lock is free was left by a program that ended. Where
 * the file system has no locks nothing is removed. */
static void remove_if_left(int folder, const char *name)
{
    const int file = openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(file);
}

static void remove_left_files(const struct stni_part *part)
{
    char path[PATH_MAX];
    const size_t length = folder_length(part->path);
    snprintf(path, sizeof path, "%.*s", length ? (int)length : 1, length ? part->path : ".");
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        if (is_sibling(part, entry->d_name))
            remove_if_left(dirfd(folder), entry->d_name);
    closedir(folder);
}

/* Another saver may take the file for one that was left, between its creation and its lock: then it has no name any
 * more. */
static int still_has_its_name(const struct stni_part *part)
{
    struct stat about;
    return fstat(part->file, &about) == 0 && about.st_nlink > 0;
}

stn_status stni_part_create(struct stni_part *part, int64_t *token, struct stni_error *error)
{
    struct timespec now;
    const mode_t mode = part->old.st_mode ? (part->old.st_mode & MODE_BITS) | S_IRUSR | S_IWUSR : 0666;
    clock_gettime(CLOCK_REALTIME, &now);
    *token = (((int64_t)getpid() << 40) ^ ((int64_t)now.tv_sec << 30) ^ (int64_t)now.tv_nsec) & TOKEN_MASK;
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++, ++*token) {
        stni_part_name(part, *token);
        errno = ENAMETOOLONG;
        part->file = part->path[0] ? open(part->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode) : -1;
        if (part->file < 0 && errno == EEXIST)
            continue;
        if (part->file < 0)
            break;
        flock(part->file, LOCK_EX);
        if (still_has_its_name(part)) {
            remove_left_files(part);
            return STN_OK;
        }
        close(part->file);
        part->file = -1;
    }
    part->path[0] = '\0';
    return fail(part, error, "cannot be made");
}

/* The name itself has to get to the disk. Some file systems do not do that for a folder; then the file is there or
 * its predecessor is. */
static void sync_folder(const struct stni_part *part)
{
    char path[PATH_MAX];
    const size_t length = folder_length(part->target);
    snprintf(path, sizeof path, "%.*s", length ? (int)length : 1, length ? part->target : ".");
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && fsync(folder) == 0)
        errno = 0;
    if (folder >= 0)
        close(folder);
}

stn_status stni_part_commit(struct stni_part *part, struct stni_error *error)
{
    if (part->old.st_mode) {
        /* Root alone may give files away; the group is kept where this user is one of it. */
        if (fchown(part->file, part->old.st_uid, part->old.st_gid) != 0)
            errno = 0;
        if (fchmod(part->file, part->old.st_mode & MODE_BITS) != 0)
            return fail(part, error, "its mode cannot be kept");
    }
    if (rename(part->path, part->target) != 0)
        return fail(part, error, "cannot be renamed");
    part->path[0] = '\0';
    sync_folder(part);
    return STN_OK;
}

void stni_part_discard(struct stni_part *part)
{
    if (part->file < 0)
        return;
    if (part->path[0])
        unlink(part->path);
    close(part->file);
    part->file = -1;
}
