/* Opens the scope "sleeping", prints "ready PID" and sleeps: for tests that act on a living process.
 *
 *   sleeper [SECONDS] [EXIT_STATUS]
 *
 * SECONDS: 0 (default) is for ever. EXIT_STATUS: SIGINT, SIGTERM, SIGHUP and SIGUSR1 end it with this
 * status after the line "signal NUMBER", and the scope is closed; without it they kill, as usual. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <smeltr/smeltr.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t received;

static void remember(int number) { received = number; }

static void catch_signals(void) {
  const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  struct sigaction action = {0};
  action.sa_handler = remember;
  for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); ++i) sigaction(numbers[i], &action, NULL);
}

int main(int argc, char** argv) {
  const long seconds = argc > 1 ? atol(argv[1]) : 0;
  if (argc > 2) catch_signals();
  smeltr_scope_push("sleeping");
  printf("ready %ld\n", (long)getpid());
  fflush(stdout);

  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += seconds > 0 ? seconds : 1000000;
  while (received == 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {
  }

  smeltr_scope_pop();
  if (received == 0) return 0;
  printf("signal %d\n", (int)received);
  return atoi(argv[2]);
}
