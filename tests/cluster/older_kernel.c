/* Preloaded into a daemon: a kernel before 6.16, which has no SO_PASSRIGHTS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

int setsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  if (level == SOL_SOCKET && name == SO_PASSRIGHTS) {
    errno = ENOPROTOOPT;
    return -1;
  }
  int (*real)(int, int, int, const void*, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");
  return real(fd, level, name, value, length);
}
int getsockopt(int fd, int level, int name, void* value, socklen_t* length) {
  if (level == SOL_SOCKET && name == SO_PASSRIGHTS) {
    errno = ENOPROTOOPT;
    return -1;
  }
  int (*real)(int, int, int, void*, socklen_t*) = dlsym(RTLD_NEXT, "getsockopt");
  return real(fd, level, name, value, length);
}
