/* Loaded before the C library (LD_PRELOAD): the clock of the day jumps by an hour, back and forth, every two seconds. */
#include "clock.h"

static void change(struct timespec *at) {
    struct timespec now;
    real(CLOCK_MONOTONIC, &now);
    at->tv_sec += now.tv_sec / 2 % 2 ? 3600 : 0;
}
