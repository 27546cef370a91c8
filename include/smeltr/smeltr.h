/* smeltr.h: tells the smeltr recorder what a program is doing. C99 and C++; nothing to link.
 *
 *   #include <smeltr/smeltr.h>
 *
 *   int main(void) {
 *     for (int step = 0; step < 100; ++step) {
 *       smeltr_field fields[] = {smeltr_int("step", step), smeltr_string("phase", "decode")};
 *       smeltr_scope_push_fields("decode", fields, 2);
 *       submit_work();       // Every GPU submission of this thread now belongs to "decode".
 *       smeltr_scope_pop();
 *     }
 *     smeltr_mark("done");
 *   }
 *
 * Conventions
 *   - Without a recording every call costs a load and a branch. `smeltr record` sets SMELTR_HOOK_LIBRARY
 *     for the program it starts; the first call looks there, once.
 *   - No call fails, prints, throws or blocks. What cannot be recorded is counted in the recording.
 *   - Every call may be made from any thread. Scopes nest per thread: pop ends what the same thread
 *     pushed last; a pop without a push does nothing.
 *   - Strings are UTF-8 and need to live for the call only. Longer ones than 4096 bytes are cut.
 *   - At most SMELTR_MAX_FIELDS fields a call are kept. A null name, label or string counts as "".
 *   - GCC and Clang. A program linked against glibc older than 2.34 needs -ldl.
 */
#ifndef SMELTR_SMELTR_H
#define SMELTR_SMELTR_H

#include <stddef.h>
#include <stdint.h>
#ifndef SMELTR_TYPES_ONLY
#include <dlfcn.h>
#include <stdlib.h>
#endif

/* C has no nullptr. NOLINTBEGIN(modernize-use-nullptr) */

#ifdef __cplusplus
extern "C" {
#endif

#define SMELTR_MAX_FIELDS 32

typedef enum smeltr_field_type {
  SMELTR_BOOL = 0,
  SMELTR_INT = 1,
  SMELTR_FLOAT = 2,
  SMELTR_STRING = 3
} smeltr_field_type;

/* One named value on a scope or mark; made by the four functions below. */
typedef struct smeltr_field {
  const char* key;
  smeltr_field_type type;
  union {
    int64_t as_int; /* SMELTR_BOOL: 0 or 1 */
    double as_float;
    const char* as_string;
  } value;
} smeltr_field;

static inline smeltr_field smeltr_bool(const char* key, int value) {
  smeltr_field field;
  field.key = key;
  field.type = SMELTR_BOOL;
  field.value.as_int = value != 0;
  return field;
}
static inline smeltr_field smeltr_int(const char* key, int64_t value) {
  smeltr_field field;
  field.key = key;
  field.type = SMELTR_INT;
  field.value.as_int = value;
  return field;
}
static inline smeltr_field smeltr_float(const char* key, double value) {
  smeltr_field field;
  field.key = key;
  field.type = SMELTR_FLOAT;
  field.value.as_float = value;
  return field;
}
static inline smeltr_field smeltr_string(const char* key, const char* value) {
  smeltr_field field;
  field.key = key;
  field.type = SMELTR_STRING;
  field.value.as_string = value;
  return field;
}

/* What the recorder's library offers: its one symbol, smeltr_client_v1, returns this table, NULL when the
 * program is not recorded. Later versions only append members. */
typedef struct smeltr_client {
  uint32_t version; /* 1 */
  uint32_t size_bytes;
  int (*recording)(void);
  void (*scope_push)(const char* name, const smeltr_field* fields, size_t count);
  void (*scope_pop)(void);
  void (*mark)(const char* label, const smeltr_field* fields, size_t count);
} smeltr_client;

typedef const smeltr_client* (*smeltr_client_function)(void);

#ifndef SMELTR_TYPES_ONLY /* The recorder itself needs no more than the above. */

/* --- How the table is found. Not for programs. ---
 * One weak variable for all files of a program: NULL once it is known that nobody records, the recorder's
 * table once it is found, and before that a table whose members look and then pass the call on. So the
 * calls themselves know two cases only. */
extern smeltr_client smeltr_finder_;
extern const smeltr_client* smeltr_client_;

__attribute__((weak, noinline)) const smeltr_client* smeltr_find_client_(void) {
  const char* path = getenv("SMELTR_HOOK_LIBRARY");
  const smeltr_client* found = NULL;
  const smeltr_client* expected = &smeltr_finder_;
  if (path != NULL && *path != '\0') {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
      smeltr_client_function client = NULL;
      *(void**)(&client) = dlsym(library, "smeltr_client_v1");
      if (client != NULL) found = client();
      if (found != NULL && (found->version < 1 || found->size_bytes < sizeof(smeltr_client))) found = NULL;
    }
  }
  /* Threads that look at the same time find the same. */
  if (__atomic_compare_exchange_n(&smeltr_client_, &expected, found, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    return found;
  }
  return expected;
}

__attribute__((weak, noinline)) int smeltr_find_recording_(void) {
  const smeltr_client* client = smeltr_find_client_();
  return client != NULL && client->recording();
}
__attribute__((weak, noinline)) void smeltr_find_scope_push_(const char* name, const smeltr_field* fields,
                                                             size_t count) {
  const smeltr_client* client = smeltr_find_client_();
  if (client != NULL) client->scope_push(name, fields, count);
}
__attribute__((weak, noinline)) void smeltr_find_scope_pop_(void) {
  const smeltr_client* client = smeltr_find_client_();
  if (client != NULL) client->scope_pop();
}
__attribute__((weak, noinline)) void smeltr_find_mark_(const char* label, const smeltr_field* fields,
                                                       size_t count) {
  const smeltr_client* client = smeltr_find_client_();
  if (client != NULL) client->mark(label, fields, count);
}

__attribute__((weak)) smeltr_client smeltr_finder_ = {1,
                                                      sizeof(smeltr_client),
                                                      smeltr_find_recording_,
                                                      smeltr_find_scope_push_,
                                                      smeltr_find_scope_pop_,
                                                      smeltr_find_mark_};
__attribute__((weak)) const smeltr_client* smeltr_client_ = &smeltr_finder_;

static inline const smeltr_client* smeltr_current_client_(void) {
  return __atomic_load_n(&smeltr_client_, __ATOMIC_ACQUIRE);
}

/* --- The calls. --- */

/* 1 when this process is being recorded. */
static inline int smeltr_recording(void) {
  const smeltr_client* client = smeltr_current_client_();
  return client != NULL && client->recording();
}

/* Opens a scope: what this thread submits to a GPU until the matching pop is attributed to it. */
static inline void smeltr_scope_push_fields(const char* name, const smeltr_field* fields, size_t count) {
  const smeltr_client* client = smeltr_current_client_();
  if (client != NULL) client->scope_push(name, fields, count);
}
static inline void smeltr_scope_push(const char* name) { smeltr_scope_push_fields(name, NULL, 0); }

/* Closes the scope that this thread opened last. */
static inline void smeltr_scope_pop(void) {
  const smeltr_client* client = smeltr_current_client_();
  if (client != NULL) client->scope_pop();
}

/* A moment worth finding again on the timeline. */
static inline void smeltr_mark_fields(const char* label, const smeltr_field* fields, size_t count) {
  const smeltr_client* client = smeltr_current_client_();
  if (client != NULL) client->mark(label, fields, count);
}
static inline void smeltr_mark(const char* label) { smeltr_mark_fields(label, NULL, 0); }

#endif /* SMELTR_TYPES_ONLY */

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus) && !defined(SMELTR_TYPES_ONLY)
namespace smeltr {

/* A scope for the length of a block: smeltr::Scope scope("decode"); */
class Scope {
 public:
  explicit Scope(const char* name) { smeltr_scope_push(name); }
  Scope(const char* name, const smeltr_field* fields, size_t count) {
    smeltr_scope_push_fields(name, fields, count);
  }
  ~Scope() { smeltr_scope_pop(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace smeltr
#endif

/* NOLINTEND(modernize-use-nullptr) */

#endif /* SMELTR_SMELTR_H */
