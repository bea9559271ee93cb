// Fails the k-th open, write, fsync, rename, unlink or making of a folder below one folder; for LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char below[PATH_MAX];
static atomic_long count, fail_at;
static atomic_int failure;

// Arms the k-th call, counted from 1 and from now on; 0 only counts.
void faults_arm(const char *folder, long k, int error) {
  snprintf(below, sizeof below, "%s", folder);
  atomic_store(&count, 0);
  atomic_store(&fail_at, k);
  atomic_store(&failure, error);
}

// Disarms; returns how many calls there were.
long faults_disarm(void) {
  below[0] = 0;
  return atomic_load(&count);
}

static int fails_path(const char *path) {
  if (!below[0] || !path || strncmp(path, below, strlen(below))) return 0;
  if (atomic_fetch_add(&count, 1) + 1 != atomic_load(&fail_at)) return 0;
  errno = atomic_load(&failure);
  return 1;
}

static int fails_at(int folder, const char *path) {
  if (!below[0]) return 0;
  if (path && path[0] == '/') return fails_path(path);
  char link[64], name[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  ssize_t size = readlink(link, name, sizeof name - 1);
  if (size < 0) return 0;
  name[size] = 0;
  return fails_path(name);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                      \
  int name(const char *path, int flags, ...) {                          \
    va_list more;                                                       \
    va_start(more, flags);                                              \
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                       \
    return fails_path(path) ? -1 : REAL(name)(path, flags, mode);       \
  }
OPEN(open)
OPEN(open64)

#define ON_FILE(kind, name, parameters, arguments) \
  kind name parameters { return fails_at(fd, NULL) ? -1 : REAL(name) arguments; }
ON_FILE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
ON_FILE(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FILE(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
ON_FILE(ssize_t, writev, (int fd, const struct iovec *data, int parts), (fd, data, parts))
ON_FILE(int, fsync, (int fd), (fd))
ON_FILE(int, fdatasync, (int fd), (fd))
ON_FILE(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))

int rename(const char *from, const char *to) { return fails_path(from) ? -1 : REAL(rename)(from, to); }
int unlink(const char *path) { return fails_path(path) ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return fails_path(path) ? -1 : REAL(rmdir)(path); }
int mkdir(const char *path, mode_t mode) { return fails_path(path) ? -1 : REAL(mkdir)(path, mode); }
