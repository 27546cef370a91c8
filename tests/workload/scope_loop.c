/* Emits a known number of scopes and marks from each of some threads, then ends as told.
 *
 *   scope_loop [--count N] [--threads T] [--fields] [--linger] [--exit STATUS | --signal NUMBER]
 *
 * N (default 1000) times a thread: open "iteration", mark "tick", close; all inside the thread's scope
 * "loop". --fields gives each iteration its "index", and each mark too. --linger: print "ready" and wait
 * for the end of stdin before ending. Prints how many of each it made:
 *   scopes: T * (N + 1)
 *   marks: T * N */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <smeltr/smeltr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxThreads = 64 };

struct options {
  long count;
  long threads;
  int with_fields;
  int linger;
  long exit_status;
  long signal_number;
};

static void usage(void) {
  fprintf(stderr,
          "usage: scope_loop [--count N] [--threads T] [--fields] [--linger] [--exit STATUS | --signal "
          "NUMBER]\n");
  exit(2);
}

static long number(const char* text, long lowest, long highest) {
  char* end = NULL;
  errno = 0;
  const long value = text != NULL ? strtol(text, &end, 10) : 0;
  if (text == NULL || end == text || *end != '\0' || errno != 0 || value < lowest || value > highest) usage();
  return value;
}

static struct options parse(char** arguments) {
  struct options options = {1000, 1, 0, 0, 0, 0};
  for (; *arguments != NULL; ++arguments) {
    const char* name = *arguments;
    if (strcmp(name, "--fields") == 0) {
      options.with_fields = 1;
    } else if (strcmp(name, "--linger") == 0) {
      options.linger = 1;
    } else if (strcmp(name, "--count") == 0) {
      options.count = number(*++arguments, 0, 1000000000);
    } else if (strcmp(name, "--threads") == 0) {
      options.threads = number(*++arguments, 1, kMaxThreads);
    } else if (strcmp(name, "--exit") == 0) {
      options.exit_status = number(*++arguments, 0, 255);
    } else if (strcmp(name, "--signal") == 0) {
      options.signal_number = number(*++arguments, 1, 64);
    } else {
      usage();
    }
  }
  return options;
}

static void* loop(void* argument) {
  const struct options* options = argument;
  smeltr_scope_push("loop");
  for (long i = 0; i < options->count; ++i) {
    const smeltr_field index = smeltr_int("index", i);
    const size_t fields = options->with_fields ? 1 : 0;
    smeltr_scope_push_fields("iteration", &index, fields);
    smeltr_mark_fields("tick", &index, fields);
    smeltr_scope_pop();
  }
  smeltr_scope_pop();
  return NULL;
}

int main(int argc, char** argv) {
  (void)argc;
  struct options options = parse(argv + 1);
  pthread_t threads[kMaxThreads];
  for (long i = 1; i < options.threads; ++i) {
    if (pthread_create(&threads[i], NULL, loop, &options) != 0) {
      fprintf(stderr, "scope_loop: cannot start a thread\n");
      return 1;
    }
  }
  loop(&options);
  for (long i = 1; i < options.threads; ++i) pthread_join(threads[i], NULL);

  printf("scopes: %ld\nmarks: %ld\n", options.threads * (options.count + 1), options.threads * options.count);
  if (options.linger) printf("ready\n");
  fflush(stdout);
  while (options.linger && getchar() != EOF) {
  }
  if (options.signal_number != 0) raise((int)options.signal_number);
  return (int)options.exit_status;
}
