// What a SPIR-V module says about itself: pure reading, of words nobody has checked.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smeltr::hook::vulkan {

// One dimension of the workgroup: a value, which a specialization constant may replace.
struct LocalDimension {
  static constexpr uint32_t kNoConstant = ~uint32_t{0};
  uint32_t value = 0;  // 0 = not known.
  uint32_t constant_id = kNoConstant;
};

struct EntryPoint {
  std::string name;
  std::string function_name{};  // OpName of its function, if there.
  std::array<LocalDimension, 3> local{};
};

struct ShaderFacts {
  // Of the words from the first function on: the same for a module whose header was patched or stripped.
  uint64_t code_hash = 0;
  std::vector<EntryPoint> entry_points;
  std::string source_file;  // Without its directories.
};

// Anything malformed ends the reading; what was found until then stays.
ShaderFacts ReadSpirv(std::span<const uint32_t> words);

struct SpecializationValue {
  uint32_t constant_id;
  uint64_t bits;
};

// What one stage of a pipeline runs.
struct StageIdentity {
  uint64_t hash = 0;
  std::string_view symbol;  // Points into the facts or the arguments; may be empty.
  uint32_t local[3] = {0, 0, 0};
};
StageIdentity IdentifyStage(const ShaderFacts& facts, std::string_view entry, std::string_view module_name,
                            std::span<const SpecializationValue> specialization);

// Order-dependent.
uint64_t HashWords(uint64_t seed, std::span<const uint32_t> words);
uint64_t HashText(uint64_t seed, std::string_view text);
uint64_t HashMix(uint64_t seed, uint64_t value);

}  // namespace smeltr::hook::vulkan
