#include "hook/vulkan/spirv.h"

#include <algorithm>
#include <unordered_map>

namespace smeltr::hook::vulkan {
namespace {

// From the SPIR-V specification.
constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5;
enum Op : uint16_t {
  kOpSource = 3,
  kOpName = 5,
  kOpString = 7,
  kOpEntryPoint = 15,
  kOpExecutionMode = 16,
  kOpConstant = 43,
  kOpConstantComposite = 44,
  kOpSpecConstant = 50,
  kOpSpecConstantComposite = 51,
  kOpFunction = 54,
  kOpDecorate = 71,
  kOpExecutionModeId = 331,
};
constexpr uint32_t kModeLocalSize = 17;
constexpr uint32_t kModeLocalSizeId = 38;
constexpr uint32_t kDecorationSpecId = 1;
constexpr uint32_t kDecorationBuiltIn = 11;
constexpr uint32_t kBuiltInWorkgroupSize = 25;

// A literal string: characters packed into words, ended by a zero byte.
std::string_view LiteralString(std::span<const uint32_t> words) {
  const std::string_view bytes(reinterpret_cast<const char*>(words.data()), words.size_bytes());
  return bytes.substr(0, bytes.find('\0'));
}

class Reader {
 public:
  explicit Reader(ShaderFacts& facts) : facts_(facts) {}

  void Read(std::span<const uint32_t> words) {
    if (words.size() <= kHeaderWords || words[0] != kMagic) return;
    size_t at = kHeaderWords;
    while (at < words.size()) {
      const auto op = static_cast<uint16_t>(words[at] & 0xFFFF);
      const size_t length = words[at] >> 16;
      if (length == 0 || length > words.size() - at) break;
      if (op == kOpFunction) {
        facts_.code_hash = HashWords(0, words.subspan(at));
        break;
      }
      Instruction(op, words.subspan(at + 1, length - 1));
      at += length;
    }
    Finish();
  }

 private:
  struct Execution {
    uint32_t function = 0;
    std::array<uint32_t, 3> sizes{};  // Values, or ids.
    bool by_id = false;
  };
  struct Constant {
    uint32_t value = 0;
  };

  void Instruction(uint16_t op, std::span<const uint32_t> operands) {
    const auto has = [&](size_t count) { return operands.size() >= count; };
    switch (op) {
      case kOpSource:
        if (has(3)) source_id_ = operands[2];
        break;
      case kOpString:
        if (has(2)) strings_[operands[0]] = LiteralString(operands.subspan(1));
        break;
      case kOpName:
        if (has(2)) names_[operands[0]] = LiteralString(operands.subspan(1));
        break;
      case kOpEntryPoint:
        if (has(3)) {
          functions_.push_back(operands[1]);
          facts_.entry_points.push_back({.name = std::string(LiteralString(operands.subspan(2)))});
        }
        break;
      case kOpExecutionMode:
      case kOpExecutionModeId:
        if (has(5) && (operands[1] == kModeLocalSize || operands[1] == kModeLocalSizeId)) {
          executions_.push_back({.function = operands[0],
                                 .sizes = {operands[2], operands[3], operands[4]},
                                 .by_id = operands[1] == kModeLocalSizeId});
        }
        break;
      case kOpDecorate:
        if (has(3) && operands[1] == kDecorationSpecId) specialized_[operands[0]] = operands[2];
        if (has(3) && operands[1] == kDecorationBuiltIn && operands[2] == kBuiltInWorkgroupSize) {
          workgroup_size_id_ = operands[0];
        }
        break;
      case kOpConstant:
      case kOpSpecConstant:
        if (operands.size() == 3) constants_[operands[1]] = operands[2];
        break;
      case kOpConstantComposite:
      case kOpSpecConstantComposite:
        if (operands.size() == 5) composites_[operands[1]] = {operands[2], operands[3], operands[4]};
        break;
      default:
        break;
    }
  }

  LocalDimension Resolve(uint32_t id) const {
    LocalDimension dimension;
    if (const auto constant = constants_.find(id); constant != constants_.end())
      dimension.value = constant->second;
    if (const auto spec = specialized_.find(id); spec != specialized_.end())
      dimension.constant_id = spec->second;
    return dimension;
  }

  void Finish() {
    const auto composite = composites_.find(workgroup_size_id_);
    for (size_t i = 0; i < functions_.size(); ++i) {
      EntryPoint& entry = facts_.entry_points[i];
      if (const auto name = names_.find(functions_[i]); name != names_.end())
        entry.function_name = name->second;
      for (const Execution& execution : executions_) {
        if (execution.function != functions_[i]) continue;
        for (size_t axis = 0; axis < 3; ++axis) {
          entry.local[axis] = execution.by_id ? Resolve(execution.sizes[axis])
                                              : LocalDimension{.value = execution.sizes[axis]};
        }
      }
      // The decorated constant overrules the execution mode.
      if (composite == composites_.end()) continue;
      for (size_t axis = 0; axis < 3; ++axis) entry.local[axis] = Resolve(composite->second[axis]);
    }
    if (const auto source = strings_.find(source_id_); source != strings_.end()) {
      facts_.source_file = source->second.substr(source->second.find_last_of('/') + 1);
    }
  }

  ShaderFacts& facts_;
  std::vector<uint32_t> functions_;
  std::vector<Execution> executions_;
  uint32_t source_id_ = 0;
  uint32_t workgroup_size_id_ = 0;
  std::unordered_map<uint32_t, std::string_view> names_;
  std::unordered_map<uint32_t, std::string_view> strings_;
  std::unordered_map<uint32_t, uint32_t> constants_;
  std::unordered_map<uint32_t, uint32_t> specialized_;
  std::unordered_map<uint32_t, std::array<uint32_t, 3>> composites_;
};

// What tells nothing: the name every shader has.
bool IsMeaningless(std::string_view name) { return name.empty() || name == "main" || name == "main("; }

}  // namespace

uint64_t HashMix(uint64_t seed, uint64_t value) {
  uint64_t hash = (seed ^ value) * 0x9FB21C651E98DF25U;
  hash ^= hash >> 32;
  hash *= 0xD6E8FEB86659FD93U;
  return hash ^ (hash >> 29);
}

uint64_t HashWords(uint64_t seed, std::span<const uint32_t> words) {
  uint64_t hash = HashMix(seed, words.size());
  for (const uint32_t word : words) hash = HashMix(hash, word);
  return hash;
}

uint64_t HashText(uint64_t seed, std::string_view text) {
  uint64_t hash = HashMix(seed, text.size());
  for (const char character : text) hash = HashMix(hash, static_cast<unsigned char>(character));
  return hash;
}

ShaderFacts ReadSpirv(std::span<const uint32_t> words) {
  ShaderFacts facts;
  Reader(facts).Read(words);
  return facts;
}

StageIdentity IdentifyStage(const ShaderFacts& facts, std::string_view entry, std::string_view module_name,
                            std::span<const SpecializationValue> specialization) {
  StageIdentity identity;
  identity.hash = facts.code_hash;
  for (const SpecializationValue& value : specialization) {
    identity.hash = HashMix(HashMix(identity.hash, value.constant_id), value.bits);
  }
  // Entry points of one module share its code.
  if (!IsMeaningless(entry)) identity.hash = HashText(identity.hash, entry);
  const auto found = std::find_if(facts.entry_points.begin(), facts.entry_points.end(),
                                  [&](const EntryPoint& candidate) { return candidate.name == entry; });
  const EntryPoint* point = found != facts.entry_points.end() ? &*found : nullptr;
  if (!IsMeaningless(entry)) {
    identity.symbol = entry;
  } else if (!module_name.empty()) {
    identity.symbol = module_name;
  } else if (point != nullptr && !IsMeaningless(point->function_name)) {
    identity.symbol = point->function_name;
  } else {
    identity.symbol = facts.source_file;
  }
  for (size_t axis = 0; axis < 3 && point != nullptr; ++axis) {
    const LocalDimension& dimension = point->local[axis];
    identity.local[axis] = dimension.value;
    for (const SpecializationValue& value : specialization) {
      if (value.constant_id == dimension.constant_id)
        identity.local[axis] = static_cast<uint32_t>(value.bits);
    }
  }
  return identity;
}

}  // namespace smeltr::hook::vulkan
