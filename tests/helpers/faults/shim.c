/* Faults of a disk, below SQLite: preloaded, it stands between a process and the C library.
 *
 * What it does is in a plan, a file that the constructor maps and that all processes forked from this one share
 * (DECO_FAULT_PLAN). Calls on files whose path begins with `path` are let through until `skip` have
 * passed; then the next `left` are struck. The layout of `struct plan` is known to shim.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NONE, FAIL, FULL, SHORT, TORN, SLOW };        /* what is done */
enum { WRITES = 1, SYNCS = 2, READS = 4, CUTS = 8 }; /* to which calls */

struct plan {
    atomic_int mode, calls, skip, left, hits, seen;
    char path[1000];
};

static struct plan *plan;
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
}

static int ours(int file)
{
    char link[64], path[1000];
    char *end = link + sizeof link - 1, *digits = end;
    *end = 0;
    do
        *--digits = (char)('0' + file % 10);
    while (file /= 10);
    digits -= 14;
    memcpy(digits, "/proc/self/fd/", 14);
    ssize_t length = readlink(digits, path, sizeof path);
    size_t wanted = strlen(plan->path);
    return wanted > 0 && length >= (ssize_t)wanted && memcmp(path, plan->path, wanted) == 0;
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
    if (!plan || atomic_load(&plan->mode) == NONE)
        return real(file, data, size);
    ssize_t part = allowed(file, size, lseek(file, 0, SEEK_CUR) + (off_t)size);
    return part < 0 ? -1 : real(file, data, (size_t)part);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    ssize_t part = allowed(file, size, at + (off_t)size);
    return part < 0 ? -1 : real(file, data, (size_t)part, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    ssize_t part = allowed(file, size, (off_t)at + (off_t)size);
    return part < 0 ? -1 : real(file, data, (size_t)part, at);
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

int fsync(int file)
{
    REAL(int, "fsync", int);
    return struck(file, SYNCS, 0) == FAIL ? (int)refused(EIO) : real(file);
}

int fdatasync(int file)
{
    REAL(int, "fdatasync", int);
    return struck(file, SYNCS, 0) == FAIL ? (int)refused(EIO) : real(file);
}

int ftruncate(int file, off_t size)
{
    REAL(int, "ftruncate", int, off_t);
    return struck(file, CUTS, 0) == FAIL ? (int)refused(EIO) : real(file, size);
}

int ftruncate64(int file, off64_t size)
{
    REAL(int, "ftruncate64", int, off64_t);
    return struck(file, CUTS, 0) == FAIL ? (int)refused(EIO) : real(file, size);
}
