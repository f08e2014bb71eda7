/* Calls of the system on files below a folder, of which the n-th of a kind fails: preloaded
 * (LD_PRELOAD) into a process, so that those of SQLite and Arrow fail as those of Python do.
 *
 * The file that FAILING_CALLS names is shared with the process that chooses the fault and reads the
 * counts (failing_calls.py has the same fields).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, SYNC, NAME, KINDS };

struct shared {
    int64_t kind;           /* that fails; -1: none */
    int64_t nth;            /* from 1 */
    int64_t error;          /* errno of the failure */
    int64_t is_lasting;     /* whether all later ones fail, too */
    int64_t failed;         /* how many have failed */
    int64_t counts[KINDS];  /* calls so far */
    char root[1024];
};

static struct shared *shared;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILING_CALLS");
    if (path == NULL)
        return;
    int (*open_)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int descriptor = open_(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return;
    void *place = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (place != MAP_FAILED)
        shared = place;
}

static int is_below(const char *path) {
    size_t size = strlen(shared->root);
    return size > 0 && strncmp(path, shared->root, size) == 0 && (path[size] == '/' || path[size] == 0);
}

static int fails(enum kind kind, const char *path) {
    if (!is_below(path))
        return 0;
    int64_t number = __atomic_add_fetch(&shared->counts[kind], 1, __ATOMIC_SEQ_CST);
    if (kind != shared->kind || number < shared->nth || (number > shared->nth && !shared->is_lasting))
        return 0;
    __atomic_add_fetch(&shared->failed, 1, __ATOMIC_SEQ_CST);
    errno = (int)shared->error;
    return 1;
}

static int fails_at(enum kind kind, int descriptor) {
    char link[64], path[PATH_MAX];
    if (shared == NULL)
        return 0;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    errno = before;
    if (size < 0)
        return 0;
    path[size] = 0;
    return fails(kind, path);
}

static int fails_named(enum kind kind, int folder, const char *name) {
    char link[64], path[2 * PATH_MAX];
    if (shared == NULL || name == NULL)
        return 0;
    if (name[0] == '/')
        return fails(kind, name);
    int before = errno;
    if (folder == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    errno = before;
    if (size < 0)
        return 0;
    snprintf(path + size, sizeof path - size, "/%s", name);
    return fails(kind, path);
}

#define REAL(name, result, ...)                          \
    static result (*real)(__VA_ARGS__);                  \
    if (real == NULL)                                    \
        real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(rest, int) : 0;
}

#define OPENS(name)                                      \
    int name(const char *path, int flags, ...) {         \
        REAL(#name, int, const char *, int, ...);        \
        va_list rest;                                    \
        va_start(rest, flags);                           \
        mode_t mode = mode_of(flags, rest);              \
        va_end(rest);                                    \
        if (fails_named(OPEN, AT_FDCWD, path))           \
            return -1;                                   \
        return real(path, flags, mode);                  \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                       \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(#name, int, int, const char *, int, ...);       \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = mode_of(flags, rest);                  \
        va_end(rest);                                        \
        if (fails_named(OPEN, folder, path))                 \
            return -1;                                       \
        return real(folder, path, flags, mode);              \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

DIR *opendir(const char *path) {
    REAL("opendir", DIR *, const char *);
    return fails_named(OPEN, AT_FDCWD, path) ? NULL : real(path);
}

#define ON_DESCRIPTOR(kind, name, result, parameters, arguments) \
    result name parameters {                                     \
        static result(*real) parameters;                         \
        if (real == NULL)                                        \
            real = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
        return fails_at(kind, file) ? -1 : real arguments;       \
    }
ON_DESCRIPTOR(READ, read, ssize_t, (int file, void *to, size_t size), (file, to, size))
ON_DESCRIPTOR(READ, pread, ssize_t, (int file, void *to, size_t size, off_t at), (file, to, size, at))
ON_DESCRIPTOR(READ, pread64, ssize_t, (int file, void *to, size_t size, off64_t at), (file, to, size, at))
ON_DESCRIPTOR(WRITE, write, ssize_t, (int file, const void *from, size_t size), (file, from, size))
ON_DESCRIPTOR(WRITE, pwrite, ssize_t, (int file, const void *from, size_t size, off_t at), (file, from, size, at))
ON_DESCRIPTOR(WRITE, pwrite64, ssize_t, (int file, const void *from, size_t size, off64_t at), (file, from, size, at))
ON_DESCRIPTOR(WRITE, writev, ssize_t, (int file, const struct iovec *from, int count), (file, from, count))
ON_DESCRIPTOR(WRITE, ftruncate, int, (int file, off_t size), (file, size))
ON_DESCRIPTOR(WRITE, ftruncate64, int, (int file, off64_t size), (file, size))
ON_DESCRIPTOR(SYNC, fsync, int, (int file), (file))
ON_DESCRIPTOR(SYNC, fdatasync, int, (int file), (file))

int mkdir(const char *path, mode_t mode) {
    REAL("mkdir", int, const char *, mode_t);
    return fails_named(WRITE, AT_FDCWD, path) ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL("rename", int, const char *, const char *);
    return fails_named(NAME, AT_FDCWD, to) ? -1 : real(from, to);
}

int renameat(int folder, const char *from, int other, const char *to) {
    REAL("renameat", int, int, const char *, int, const char *);
    return fails_named(NAME, other, to) ? -1 : real(folder, from, other, to);
}

int renameat2(int folder, const char *from, int other, const char *to, unsigned flags) {
    REAL("renameat2", int, int, const char *, int, const char *, unsigned);
    return fails_named(NAME, other, to) ? -1 : real(folder, from, other, to, flags);
}

int link(const char *from, const char *to) {
    REAL("link", int, const char *, const char *);
    return fails_named(NAME, AT_FDCWD, to) ? -1 : real(from, to);
}

int linkat(int folder, const char *from, int other, const char *to, int flags) {
    REAL("linkat", int, int, const char *, int, const char *, int);
    return fails_named(NAME, other, to) ? -1 : real(folder, from, other, to, flags);
}
