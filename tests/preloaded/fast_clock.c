/* Loaded before the C library (LD_PRELOAD): the clock of the day runs twenty times as fast, so that two readings are
 * often not in the same second. All processes begin at FAST_CLOCK_BASE (seconds). */
#include "clock.h"

#include <stdlib.h>

enum { FASTER = 20 };
static const long long SECOND = 1000000000;

static void change(struct timespec *at) {
    static long base;
    if (!base) {
        const char *said = getenv("FAST_CLOCK_BASE");
        base = said ? atol(said) : at->tv_sec;
    }
    long long ns = FASTER * ((at->tv_sec - base) * SECOND + at->tv_nsec);
    at->tv_sec = base + ns / SECOND;
    at->tv_nsec = ns % SECOND;
}
