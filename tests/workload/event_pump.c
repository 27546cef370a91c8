/* Writes marks at a steady rate, for soak tests:
 *   event_pump --rate EVENTS_PER_SECOND --seconds N
 * Prints how many it wrote. Falling behind is made up for, so that the total is rate x seconds.
 */
#define _POSIX_C_SOURCE 200809L
#include <smeltr/smeltr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static uint64_t option(int argc, char** argv, const char* name, uint64_t fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (strcmp(argv[i], name) == 0) return strtoull(argv[i + 1], NULL, 10);
  }
  return fallback;
}

int main(int argc, char** argv) {
  const uint64_t rate = option(argc, argv, "--rate", 200000);
  const uint64_t seconds = option(argc, argv, "--seconds", 10);
  const uint64_t total = rate * seconds;
  const uint64_t start_ns = now_ns();
  uint64_t written = 0;
  while (written < total) {
    const uint64_t due = (now_ns() - start_ns) / 1000 * rate / 1000000;
    for (; written < due && written < total; ++written) smeltr_mark("tick");
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
  }
  printf("%llu\n", (unsigned long long)written);
  return 0;
}
