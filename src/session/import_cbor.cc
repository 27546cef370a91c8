#include "session/import_cbor.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace smeltr::session {
namespace {

// Majors of the head byte, RFC 8949 section 3.
enum Major : uint8_t {
  kMajorUnsigned,
  kMajorNegative,
  kMajorBytes,
  kMajorText,
  kMajorArray,
  kMajorMap,
  kMajorTag,
  kMajorSimple
};
constexpr uint8_t kIndefinite = 31;
constexpr std::byte kBreak{0xFF};

double FromHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  double value = 0;
  if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else if (exponent != 31) {
    value = std::ldexp(mantissa + 1024, exponent - 25);
  } else {
    value =
        mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

class CborDocument::Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::vector<CborNode>& nodes) : bytes_(bytes), nodes_(nodes) {}

  Result<void> Run() {
    if (Item(0) && at_ != bytes_.size()) Bad("more than one value");
    if (problem_ == nullptr) return {};
    return Fail(ErrorCode::kCorrupt, fmt::format("{} at its byte {}", problem_, at_));
  }

 private:
  bool Bad(const char* problem) {
    if (problem_ == nullptr) problem_ = problem;
    return false;
  }
  size_t left() const { return bytes_.size() - at_; }

  bool Load(size_t size, uint64_t& value) {
    if (left() < size) return Bad("the value ends early");
    value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint64_t>(bytes_[at_++]);
    return true;
  }

  // The number in or behind the head byte. `detail` 31 is for the caller.
  bool Argument(uint8_t detail, uint64_t& value) {
    value = detail;
    if (detail < 24 || detail == kIndefinite) return true;
    if (detail > 27) return Bad("a reserved head");
    return Load(size_t{1} << (detail - 24), value);
  }

  bool Item(size_t depth) {
    if (depth > kMaxDepth) return Bad("nested too deeply");
    if (nodes_.size() >= kMaxNodes) return Bad("too many values");
    const size_t start = at_;
    const auto index = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
    uint8_t major = 0;
    uint8_t detail = 0;
    uint64_t argument = 0;
    for (size_t tags = 0;; ++tags) {
      if (left() == 0) return Bad("the value ends early");
      if (tags > kMaxDepth) return Bad("too many tags");
      const auto head = static_cast<uint8_t>(bytes_[at_++]);
      major = head >> 5;
      detail = head & 0x1F;
      if (!Argument(detail, argument)) return false;
      if (major != kMajorTag) break;
    }
    if (!Content(index, major, detail, argument, depth)) return false;
    nodes_[index].end = static_cast<uint32_t>(nodes_.size());
    nodes_[index].raw = bytes_.subspan(start, at_ - start);
    return true;
  }

  bool Content(uint32_t index, uint8_t major, uint8_t detail, uint64_t argument, size_t depth) {
    CborNode& node = nodes_[index];
    const bool indefinite = detail == kIndefinite;
    switch (major) {
      case kMajorUnsigned:
      case kMajorNegative:
        if (indefinite) return Bad("an integer without a length");
        node.type = major == kMajorUnsigned ? CborType::kUnsigned : CborType::kNegative;
        node.number = argument;
        return true;
      case kMajorBytes:
      case kMajorText:
        if (indefinite) return Bad("a string in pieces");
        if (argument > left()) return Bad("a string longer than its event");
        node.type = major == kMajorBytes ? CborType::kBytes : CborType::kText;
        node.text = {reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<size_t>(argument)};
        at_ += static_cast<size_t>(argument);
        return true;
      case kMajorArray:
        return Children(index, CborType::kArray, 1, indefinite, argument, depth);
      case kMajorMap:
        return Children(index, CborType::kMap, 2, indefinite, argument, depth);
      default:
        return Simple(node, detail, argument);
    }
  }

  bool Children(uint32_t index, CborType type, uint64_t per_item, bool indefinite, uint64_t count,
                size_t depth) {
    // An item takes a byte at least: a larger count is no count.
    if (!indefinite && count > left() / per_item) return Bad("a list longer than its event");
    uint64_t found = 0;
    for (; indefinite || found < count; ++found) {
      if (indefinite && left() != 0 && bytes_[at_] == kBreak) {
        ++at_;
        break;
      }
      for (uint64_t i = 0; i < per_item; ++i) {
        if (!Item(depth + 1)) return false;
      }
    }
    nodes_[index].type = type;
    nodes_[index].count = static_cast<uint32_t>(found);
    return true;
  }

  bool Simple(CborNode& node, uint8_t detail, uint64_t argument) {
    node.type = CborType::kFloat;
    switch (detail) {
      case 20:
      case 21:
        node.type = CborType::kBool;
        node.number = detail - 20;
        return true;
      case 22:
      case 23:
        node.type = CborType::kNull;
        return true;
      case 25:
        node.real = FromHalf(static_cast<uint16_t>(argument));
        return true;
      case 26:
        node.real = std::bit_cast<float>(static_cast<uint32_t>(argument));
        return true;
      case 27:
        node.real = std::bit_cast<double>(argument);
        return true;
      default:
        return Bad("an unknown simple value");
    }
  }

  std::span<const std::byte> bytes_;
  std::vector<CborNode>& nodes_;
  size_t at_ = 0;
  const char* problem_ = nullptr;
};

Result<void> CborDocument::Parse(std::span<const std::byte> bytes) {
  nodes_.clear();
  return Parser(bytes, nodes_).Run();
}

const CborNode* CborDocument::Find(const CborNode& map, std::string_view key) const {
  const CborNode* found = nullptr;
  ForEachPair(map, [&](const CborNode& name, const CborNode& value) {
    if (found == nullptr && name.type == CborType::kText && name.text == key) found = &value;
  });
  return found;
}

std::optional<uint64_t> CborUnsigned(const CborNode& node) {
  if (node.type == CborType::kUnsigned || node.type == CborType::kBool) return node.number;
  constexpr double kLimit = 18446744073709551616.0;
  const bool whole = node.type == CborType::kFloat && node.real >= 0 && node.real < kLimit &&
                     std::floor(node.real) == node.real;
  if (!whole) return std::nullopt;
  return static_cast<uint64_t>(node.real);
}

std::optional<int64_t> CborSigned(const CborNode& node) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (node.type == CborType::kNegative) {
    if (node.number > kMax) return std::nullopt;
    return -1 - static_cast<int64_t>(node.number);
  }
  const bool whole = node.type == CborType::kFloat && node.real < 0 && node.real >= -9223372036854775808.0 &&
                     std::floor(node.real) == node.real;
  if (whole) return static_cast<int64_t>(node.real);
  const std::optional<uint64_t> value = CborUnsigned(node);
  if (!value) return std::nullopt;
  return static_cast<int64_t>(*value);  // Numbers over 2^63 keep their bits, as codes are printed.
}

std::optional<double> CborReal(const CborNode& node) {
  switch (node.type) {
    case CborType::kFloat:
      return node.real;
    case CborType::kUnsigned:
    case CborType::kBool:
      return static_cast<double>(node.number);
    case CborType::kNegative:
      return -1.0 - static_cast<double>(node.number);
    default:
      return std::nullopt;
  }
}

}  // namespace smeltr::session
