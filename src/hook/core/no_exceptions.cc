// What the C++ library would throw ends the program here instead. Part of the hook library only.
//
// The hook is compiled without exceptions, so nothing could catch one; but the mere references would link
// the whole exception machinery into other people's processes: static constructors that allocate when the
// library is loaded, and a dependency on the newest libc. These definitions are hidden like all others:
// the program's own operator new is not touched.
#include <bits/functexcept.h>
#include <stdlib.h>

#include <new>

namespace {

void* Allocate(size_t size) { return ::malloc(size != 0 ? size : 1); }

void* AllocateOrAbort(size_t size) {
  void* memory = Allocate(size);
  if (memory == nullptr) ::abort();
  return memory;
}

void* AllocateAligned(size_t size, std::align_val_t alignment) {
  void* memory = nullptr;
  const int error = ::posix_memalign(&memory, static_cast<size_t>(alignment), size != 0 ? size : 1);
  return error == 0 ? memory : nullptr;
}

}  // namespace

void* operator new(size_t size) { return AllocateOrAbort(size); }
void* operator new[](size_t size) { return AllocateOrAbort(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  void* memory = AllocateAligned(size, alignment);
  if (memory == nullptr) ::abort();
  return memory;
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return AllocateAligned(size, alignment);
}
void operator delete(void* memory) noexcept { ::free(memory); }
void operator delete[](void* memory) noexcept { ::free(memory); }
void operator delete(void* memory, size_t) noexcept { ::free(memory); }
void operator delete[](void* memory, size_t) noexcept { ::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { ::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { ::free(memory); }

namespace std {

const nothrow_t nothrow{};

void __throw_bad_alloc() { ::abort(); }
void __throw_bad_array_new_length() { ::abort(); }
void __throw_bad_function_call() { ::abort(); }
void __throw_length_error(const char*) { ::abort(); }
void __throw_logic_error(const char*) { ::abort(); }
void __throw_out_of_range_fmt(const char*, ...) { ::abort(); }
void __throw_system_error(int) { ::abort(); }

}  // namespace std

// The names are the runtime's.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

void __cxa_pure_virtual() { ::abort(); }

// Parts of the C++ library that are compiled with exceptions name it. Whoever unwinds through us (a
// cancelled thread) finds nothing to clean up and goes on: _URC_CONTINUE_UNWIND.
int __gxx_personality_v0(...) { return 8; }

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
