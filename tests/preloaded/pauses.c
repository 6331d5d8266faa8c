/* Loaded before the C library (LD_PRELOAD): one of 50 calls that pass data, or wait for it, begins 20 ms late, as where
 * the thread has lost its processor. What was sent at once comes in pieces, and the other side is ahead, or behind. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { ONE_OF = 50, LATE_NS = 20000000 };

static void pause_sometimes(void) {
    static __thread uint64_t state;
    if (!state) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        state = ((uint64_t)now.tv_nsec << 20) ^ (uint64_t)(uintptr_t)&state ^ (uint64_t)getpid() << 40 ^ 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if ((state >> 20) % ONE_OF) return;
    int error = errno;
    struct timespec late = {0, LATE_NS};
    nanosleep(&late, 0);
    errno = error;
}

#define LATE(type, name, parameters, arguments)                    \
    type name parameters {                                         \
        static type(*real) parameters;                             \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
        pause_sometimes();                                         \
        return real arguments;                                     \
    }

LATE(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
LATE(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
LATE(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
LATE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
LATE(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
LATE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
LATE(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
LATE(int, connect, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
LATE(int, accept4, (int fd, struct sockaddr *restrict address, socklen_t *restrict size, int flags),
     (fd, address, size, flags))
LATE(int, poll, (struct pollfd * polled, nfds_t count, int timeout), (polled, count, timeout))
LATE(int, epoll_wait, (int fd, struct epoll_event *events, int most, int timeout), (fd, events, most, timeout))
LATE(int, shutdown, (int fd, int how), (fd, how))
