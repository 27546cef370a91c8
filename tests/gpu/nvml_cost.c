// What NVIDIA's management library costs a process: memory and CPU of loading it, of the questions the gpu probe
// asks, and of letting it go.
//   gcc -O1 -o nvml_cost tests/gpu/nvml_cost.c -ldl && ./nvml_cost
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int (*Function)();

static void* library;

static double CpuMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void Show(const char* after) {
  char line[256];
  long resident_kb = 0, own_kb = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status)) {
    sscanf(line, "VmRSS: %ld", &resident_kb);
    sscanf(line, "RssAnon: %ld", &own_kb);
  }
  fclose(status);
  printf("%-34s %6.1f MB resident, %5.1f its own, %7.1f ms of CPU so far\n", after, (double)resident_kb / 1024,
         (double)own_kb / 1024, CpuMs());
}

static Function Find(const char* symbol) { return (Function)dlsym(library, symbol); }

static int Load(void** device) {
  library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return 0;
  return Find("nvmlInit_v2")() == 0 && Find("nvmlDeviceGetHandleByIndex_v2")(0, device) == 0;
}

static void LetGo(void) {
  Find("nvmlShutdown")();
  dlclose(library);
}

#define ASK(name, ...)                                                    \
  do {                                                                    \
    const double before = CpuMs();                                        \
    const int result = Find(name)(__VA_ARGS__);                           \
    printf("  %-40s %d %8.3f ms\n", name, result, CpuMs() - before);      \
  } while (0)

static void AskAll(void* device) {
  char answer[4096];
  memset(answer, 0, sizeof answer);
  ASK("nvmlDeviceGetUtilizationRates", device, answer);
  ASK("nvmlDeviceGetMemoryInfo", device, answer);
  ASK("nvmlDeviceGetPowerUsage", device, answer);
  ASK("nvmlDeviceGetTotalEnergyConsumption", device, answer);
  ASK("nvmlDeviceGetClockInfo", device, 1, answer);
  ASK("nvmlDeviceGetTemperature", device, 0, answer);
  ASK("nvmlDeviceGetTemperatureThreshold", device, 1, answer);
  ASK("nvmlDeviceGetCurrentClocksEventReasons", device, answer);
  ASK("nvmlDeviceGetTotalEccErrors", device, 1, 0, answer);
  ASK("nvmlDeviceGetPcieReplayCounter", device, answer);
}

int main(void) {
  void* device = NULL;
  Show("nothing");
  if (!Load(&device)) {
    puts("no NVIDIA driver here");
    return 1;
  }
  Show("loaded");
  for (int round = 0; round < 3; ++round) {
    AskAll(device);
    Show("asked");
    sleep(1);
  }
  LetGo();
  Show("let go");
  for (int round = 0; round < 3; ++round) {
    if (!Load(&device)) return 1;
    Show("loaded again");
    LetGo();
    Show("let go again");
  }
  return 0;
}
