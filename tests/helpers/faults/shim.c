/* Faults of disk and clock: preloaded, it stands between a process and the C library.
 *
 * What it does is in a plan, a file that the constructor maps and that all processes forked from this one share
 * (DECO_FAULT_PLAN). Calls on files whose path begins with `path` are let through until `skip` have
 * passed; then the next `left` are struck. The clock of the day is `shift` seconds off. Where `watch` names a
 * folder, all changes of its files are appended to a log beside the plan (its name, then ".log"),
 * and a sync is only recorded: what a disk would hold after a power cut follows from the log. The
 * layouts of `struct plan` and `struct change` are known to shim.py and power.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NONE, FAIL, FULL, SHORT, TORN, SLOW };        /* what is done */
enum { WRITES = 1, SYNCS = 2, READS = 4, CUTS = 8 }; /* to which calls */
enum { WRITTEN, SIZED, GROWN, SYNCED, CREATED, REMOVED, RENAMED, FOLDER }; /* what has changed */

struct plan {
    atomic_int mode, calls, skip, left, hits, seen;
    char path[1000], watch[1000];
    atomic_long shift;
};

struct change {
    int64_t time, at, begun; /* monotonic; offset or size; for a sync, length of the log before it */
    int32_t kind, path, second, data; /* lengths of what follows */
};

static struct plan *plan;
static int changes = -1;       /* the log */
static __thread int torn = -1; /* the file whose last write stopped half-way */

__attribute__((constructor)) static void map_plan(void)
{
    const char *name = getenv("DECO_FAULT_PLAN");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (found != MAP_FAILED)
        plan = found;
    close(file);
    char log[PATH_MAX];
    snprintf(log, sizeof log, "%s.log", name);
    if ((file = open(log, O_WRONLY | O_APPEND | O_CLOEXEC)) >= 0) {
        changes = fcntl(file, F_DUPFD_CLOEXEC, 300); /* out of the way */
        close(file);
    }
}

/* The path of an open file; its length. */
static size_t path_of(int file, char *path, size_t size)
{
    char link[64];
    char *end = link + sizeof link - 1, *digits = end;
    *end = 0;
    do
        *--digits = (char)('0' + file % 10);
    while (file /= 10);
    digits -= 14;
    memcpy(digits, "/proc/self/fd/", 14);
    ssize_t length = readlink(digits, path, size - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0 ? (size_t)length : 0;
}

static int begins(const char *path, const char *wanted)
{
    size_t length = strlen(wanted);
    return length > 0 && strncmp(path, wanted, length) == 0;
}

static int ours(int file)
{
    char path[PATH_MAX];
    return path_of(file, path, sizeof path) > 0 && begins(path, plan->path);
}

/* What is to be done to this call; only then is it counted. */
static int struck(int file, int call, off_t end)
{
    int mode, before = errno, hit = NONE;
    if (!plan || (mode = atomic_load(&plan->mode)) == NONE || !(atomic_load(&plan->calls) & call))
        return NONE;
    if (ours(file)) {
        struct stat now;
        int grows = mode != FULL || (fstat(file, &now) == 0 && end > now.st_size);
        atomic_fetch_add(&plan->seen, 1);
        if (grows && atomic_fetch_sub(&plan->skip, 1) <= 0 && atomic_fetch_sub(&plan->left, 1) > 0) {
            atomic_fetch_add(&plan->hits, 1);
            hit = mode;
        }
    }
    errno = before;
    if (hit == SLOW)
        usleep(50000);
    return hit == SLOW ? NONE : hit;
}

static ssize_t refused(int number)
{
    errno = number;
    return -1;
}

#define REAL(type, name, ...)                                                                      \
    static type (*real)(__VA_ARGS__);                                                              \
    if (!real)                                                                                     \
        real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* -- the record of changes ---------------------------------------------------------------------- */

static int recording(void)
{
    return plan && changes >= 0 && plan->watch[0];
}

static int64_t log_length(void)
{
    struct stat now;
    return fstat(changes, &now) == 0 ? now.st_size : 0;
}

/* One call of writev: changes of several processes do not mix. */
static void note(int kind, const char *path, const char *second, int64_t at, int64_t begun,
                 const void *data, size_t size)
{
    static int (*clock)(clockid_t, struct timespec *);
    if (!clock)
        clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int before = errno;
    struct timespec now;
    clock(CLOCK_MONOTONIC, &now);
    struct change change = {now.tv_sec * 1000000000LL + now.tv_nsec, at, begun, kind,
                            (int32_t)strlen(path), (int32_t)strlen(second), (int32_t)size};
    struct iovec parts[] = {{&change, sizeof change},
                            {(void *)path, strlen(path)},
                            {(void *)second, strlen(second)},
                            {(void *)data, size}};
    if (writev(changes, parts, 4) < 0)
        abort();
    errno = before;
}

/* A change of an open file, if it is watched. */
static int noted(int kind, int file, int64_t at, int64_t begun, const void *data, size_t size)
{
    char path[PATH_MAX];
    int before = errno;
    int watched = recording() && path_of(file, path, sizeof path) && begins(path, plan->watch);
    if (watched)
        note(kind, path, "", at, begun, data, size);
    errno = before;
    return watched;
}

/* A change of names, if it is watched; paths may be relative. */
static void renamed(int kind, const char *path, const char *second)
{
    char full[2][PATH_MAX], here[PATH_MAX];
    const char *paths[2] = {path, second};
    int before = errno;
    if (!recording() || !getcwd(here, sizeof here))
        return;
    for (int n = 0; n < 2; n++)
        snprintf(full[n], PATH_MAX, "%s%s%s", paths[n][0] == '/' || !paths[n][0] ? "" : here,
                 paths[n][0] == '/' || !paths[n][0] ? "" : "/", paths[n]);
    if (begins(full[0], plan->watch))
        note(kind, full[0], full[1], 0, 0, NULL, 0);
    errno = before;
}

static ssize_t written(ssize_t done, int file, const void *data, off_t at)
{
    if (done > 0)
        noted(WRITTEN, file, at, 0, data, (size_t)done);
    return done;
}

/* How many bytes of a write are let through; -1: it fails. */
static ssize_t allowed(int file, size_t size, off_t end)
{
    if (torn == file) {
        torn = -1;
        return refused(EIO);
    }
    switch (struck(file, WRITES, end)) {
    case FAIL:
        return refused(EIO);
    case FULL:
        return refused(ENOSPC);
    case TORN:
        torn = file;
        return size > 1 ? (ssize_t)(size / 2) : 1;
    case SHORT:
        return size > 1 ? (ssize_t)(size / 2) : 1;
    default:
        return (ssize_t)size;
    }
}

ssize_t write(int file, const void *data, size_t size)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    if (!plan || (atomic_load(&plan->mode) == NONE && !recording()))
        return real(file, data, size);
    ssize_t part = allowed(file, size, lseek(file, 0, SEEK_CUR) + (off_t)size);
    ssize_t done = part < 0 ? -1 : real(file, data, (size_t)part);
    return written(done, file, data, lseek(file, 0, SEEK_CUR) - (off_t)done);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    ssize_t part = allowed(file, size, at + (off_t)size);
    return written(part < 0 ? -1 : real(file, data, (size_t)part, at), file, data, (off_t)at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    ssize_t part = allowed(file, size, (off_t)at + (off_t)size);
    return written(part < 0 ? -1 : real(file, data, (size_t)part, at), file, data, (off_t)at);
}

ssize_t read(int file, void *data, size_t size)
{
    REAL(ssize_t, "read", int, void *, size_t);
    return struck(file, READS, 0) == FAIL ? refused(EIO) : real(file, data, size);
}

ssize_t pread(int file, void *data, size_t size, off_t at)
{
    REAL(ssize_t, "pread", int, void *, size_t, off_t);
    return struck(file, READS, 0) == FAIL ? refused(EIO) : real(file, data, size, at);
}

ssize_t pread64(int file, void *data, size_t size, off64_t at)
{
    REAL(ssize_t, "pread64", int, void *, size_t, off64_t);
    return struck(file, READS, 0) == FAIL ? refused(EIO) : real(file, data, size, at);
}

static ssize_t gathered(ssize_t done, int file, const struct iovec *parts, int count, off_t at)
{
    ssize_t left = done;
    for (int n = 0; n < count && left > 0; n++) {
        ssize_t size = (ssize_t)parts[n].iov_len < left ? (ssize_t)parts[n].iov_len : left;
        noted(WRITTEN, file, at, 0, parts[n].iov_base, (size_t)size);
        at += size;
        left -= size;
    }
    return done;
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at)
{
    REAL(ssize_t, "pwritev", int, const struct iovec *, int, off_t);
    return gathered(real(file, parts, count, at), file, parts, count, at);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at)
{
    REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off64_t);
    return gathered(real(file, parts, count, at), file, parts, count, (off_t)at);
}

static int synced(int (*real)(int), int file)
{
    if (struck(file, SYNCS, 0) == FAIL)
        return (int)refused(EIO);
    int64_t begun = recording() ? log_length() : 0;
    return noted(SYNCED, file, 0, begun, NULL, 0) ? 0 : real(file);
}

int fsync(int file)
{
    REAL(int, "fsync", int);
    return synced(real, file);
}

int fdatasync(int file)
{
    REAL(int, "fdatasync", int);
    return synced(real, file);
}

static int sized(int done, int kind, int file, off_t size)
{
    if (done == 0)
        noted(kind, file, size, 0, NULL, 0);
    return done;
}

int ftruncate(int file, off_t size)
{
    REAL(int, "ftruncate", int, off_t);
    int failed = struck(file, CUTS, 0) == FAIL;
    return failed ? (int)refused(EIO) : sized(real(file, size), SIZED, file, size);
}

int ftruncate64(int file, off64_t size)
{
    REAL(int, "ftruncate64", int, off64_t);
    int failed = struck(file, CUTS, 0) == FAIL;
    return failed ? (int)refused(EIO) : sized(real(file, size), SIZED, file, (off_t)size);
}

int posix_fallocate(int file, off_t at, off_t size)
{
    REAL(int, "posix_fallocate", int, off_t, off_t);
    return sized(real(file, at, size), GROWN, file, at + size);
}

int posix_fallocate64(int file, off64_t at, off64_t size)
{
    REAL(int, "posix_fallocate64", int, off64_t, off64_t);
    return sized(real(file, at, size), GROWN, file, (off_t)(at + size));
}

/* -- names -------------------------------------------------------------------------------------- */

static int opened(int file, int flags, int there)
{
    if (file >= 0 && (flags & O_CREAT) && !there)
        noted(CREATED, file, 0, 0, NULL, 0);
    if (file >= 0 && (flags & O_TRUNC) && there)
        noted(SIZED, file, 0, 0, NULL, 0);
    return file;
}

static int is_there(int folder, const char *path, int flags)
{
    return !recording() || !(flags & (O_CREAT | O_TRUNC)) || faccessat(folder, path, F_OK, 0) == 0;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        REAL(int, #name, const char *, int, ...);                                                  \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                  \
        va_end(more);                                                                              \
        int there = is_there(AT_FDCWD, path, flags);                                               \
        return opened(real(path, flags, mode), flags, there);                                      \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int name(int folder, const char *path, int flags, ...)                                         \
    {                                                                                              \
        REAL(int, #name, int, const char *, int, ...);                                             \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                  \
        va_end(more);                                                                              \
        int there = is_there(folder, path, flags);                                                 \
        return opened(real(folder, path, flags, mode), flags, there);                              \
    }
OPENAT(openat)
OPENAT(openat64)

int unlink(const char *path)
{
    REAL(int, "unlink", const char *);
    int done = real(path);
    if (done == 0)
        renamed(REMOVED, path, "");
    return done;
}

int rename(const char *before, const char *after)
{
    REAL(int, "rename", const char *, const char *);
    int done = real(before, after);
    if (done == 0)
        renamed(RENAMED, before, after);
    return done;
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, "mkdir", const char *, mode_t);
    int done = real(path, mode);
    if (done == 0)
        renamed(FOLDER, path, "");
    return done;
}

/* -- the clock of the day ----------------------------------------------------------------------- */

static time_t shift(void)
{
    return plan ? (time_t)atomic_load(&plan->shift) : 0;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int done = real(which, now);
    if (done == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        now->tv_sec += shift();
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    REAL(int, "gettimeofday", struct timeval *, void *);
    int done = real(now, zone);
    if (done == 0 && now)
        now->tv_sec += shift();
    return done;
}

time_t time(time_t *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}
