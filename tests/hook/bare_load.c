/* Opens the hook library in a process that has nothing but libc, outside a recording, and prints what the
 * process has before and after: threads, open files, files in the ring directory. Usage: bare_load LIBRARY
 * DIR */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

static int entries(const char* path) {
  int count = 0;
  DIR* directory = opendir(path);
  if (directory == NULL) return -1;
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count;
}

static void print_state(const char* when, const char* ring_directory) {
  printf("%s threads=%d files=%d rings=%d\n", when, entries("/proc/self/task"), entries("/proc/self/fd"),
         entries(ring_directory));
}

int main(int argc, char** argv) {
  void* library;
  void* symbol;
  if (argc != 3) return 2;
  print_state("before", argv[2]);
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  print_state("loaded", argv[2]);
  symbol = dlsym(library, "smeltr_client_v1");
  if (symbol == NULL) return 1;
  {
    const void* (*client)(void);
    *(void**)(&client) = symbol;
    printf("recorded=%d\n", client() != NULL);
  }
  print_state("asked", argv[2]);
  dlclose(library);
  print_state("closed", argv[2]);
  return 0;
}
