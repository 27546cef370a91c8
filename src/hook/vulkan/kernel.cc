#include "hook/vulkan/kernel.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "hook/core/runtime.h"

namespace smeltr::hook::vulkan {
namespace {

constexpr uint32_t kBuckets = 1024;
constexpr uint32_t kMaxKernels = 64 * 1024;

struct Node {
  Kernel kernel;
  Node* next;
};

constinit std::mutex g_mutex;
constinit std::array<Node*, kBuckets> g_buckets{};
constinit uint32_t g_count = 0;
constinit const Kernel g_unknown{.hash = 0, .symbol = "unknown_pipeline", .local = {0, 0, 0}};

Node* NewNode(uint64_t hash, std::string_view symbol, const uint32_t (&local)[3]) {
  void* memory = std::malloc(sizeof(Node) + symbol.size());
  if (memory == nullptr) return nullptr;
  auto* characters = static_cast<char*>(memory) + sizeof(Node);
  if (!symbol.empty()) std::memcpy(characters, symbol.data(), symbol.size());
  return new (memory) Node{.kernel = {.hash = hash,
                                      .symbol = {characters, symbol.size()},
                                      .local = {local[0], local[1], local[2]}},
                           .next = nullptr};
}

}  // namespace

const Kernel* InternKernel(uint64_t hash, std::string_view symbol, const uint32_t (&local)[3]) {
  const std::lock_guard lock(g_mutex);
  Node*& bucket = g_buckets[(hash ^ (hash >> 32)) % kBuckets];
  for (Node* node = bucket; node != nullptr; node = node->next) {
    if (node->kernel.hash == hash && node->kernel.symbol == symbol &&
        std::memcmp(node->kernel.local, local, sizeof(local)) == 0) {
      return &node->kernel;
    }
  }
  Node* node = g_count < kMaxKernels ? NewNode(hash, symbol, local) : nullptr;
  if (node == nullptr) {
    Skip(event::Api::kVulkan, event::SkipReason::kTableFull, "pipelines");
    return &g_unknown;
  }
  ++g_count;
  node->next = bucket;
  bucket = node;
  return &node->kernel;
}

const Kernel* UnknownKernel() { return &g_unknown; }

std::string_view OpName(const Kernel& kernel, uint32_t x, uint32_t y, uint32_t z,
                        char (&space)[kOpNameBytes]) {
  if (kernel.hash == 0) return kernel.symbol;
  const auto folded = static_cast<uint32_t>(kernel.hash ^ (kernel.hash >> 32));
  const int length = std::snprintf(space, sizeof(space), "K_%08x_%ux%ux%u", folded, x, y, z);
  return {space, static_cast<size_t>(length)};
}

void ResetKernelLockAfterFork() { new (&g_mutex) std::mutex; }

}  // namespace smeltr::hook::vulkan
