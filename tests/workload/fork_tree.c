/* A family of processes that all make scopes: for tests of recordings that span processes.
 *
 *   fork_tree [DEPTH]
 *
 * The root makes two children, one by fork alone and one by fork and exec of this program; with DEPTH
 * above 1 (default 1) each child does the same with DEPTH - 1. Every process opens and closes one scope,
 * named for how it came to be ("root", "forked", "executed"), with its "depth"; a forked child does so while
 * it still holds the scope that its parent had open at the fork. Each prints "NAME PID" when it is done;
 * a parent waits for its children first, so the root's line is the last. Exits 0 when all went well. */
#define _POSIX_C_SOURCE 200809L
#include <smeltr/smeltr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char* name, long depth, const char* program);

static void fail(const char* what) {
  perror(what);
  _exit(1);
}

static pid_t start_forked(long depth, const char* program) {
  const pid_t child = fork();
  if (child < 0) fail("fork_tree: fork");
  if (child == 0) _exit(run("forked", depth, program));
  return child;
}

static pid_t start_executed(long depth, const char* program) {
  const pid_t child = fork();
  if (child < 0) fail("fork_tree: fork");
  if (child != 0) return child;
  char depth_text[24];
  snprintf(depth_text, sizeof depth_text, "%ld", depth);
  execlp(program, program, depth_text, "executed", (char*)NULL);
  fail("fork_tree: exec");
  return -1;
}

static int succeeded(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int run(const char* name, long depth, const char* program) {
  int ok = 1;
  const smeltr_field field = smeltr_int("depth", depth);
  smeltr_scope_push_fields(name, &field, 1);
  if (depth > 0) {
    const pid_t forked = start_forked(depth - 1, program);
    ok = succeeded(forked) && ok;
    const pid_t executed = start_executed(depth - 1, program);
    ok = succeeded(executed) && ok;
  }
  smeltr_scope_pop();
  /* One write a line, unbuffered: no line is printed twice or torn by the other processes. */
  char line[64];
  const int length = snprintf(line, sizeof line, "%s %ld\n", name, (long)getpid());
  if (write(STDOUT_FILENO, line, (size_t)length) != length) ok = 0;
  return ok ? 0 : 1;
}

int main(int argc, char** argv) {
  const long depth = argc > 1 ? atol(argv[1]) : 1;
  if (depth < 0 || depth > 6 || argc > 3) {
    fprintf(stderr, "usage: fork_tree [DEPTH up to 6]\n");
    return 2;
  }
  return run(argc > 2 ? argv[2] : "root", depth, argv[0]);
}
