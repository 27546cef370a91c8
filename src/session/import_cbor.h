// One CBOR item (RFC 8949) from bytes that nobody has checked yet, as a flat list of nodes.
//
// Strict and bounded: a depth and a number of nodes at most, definite strings only (what earlier smeltrs
// write), no exceptions; tags are looked through. nlohmann's from_cbor was left out for that: it throws, has
// no limit of depth, and cannot say where the bytes of a value lie, which opaque events need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smeltr::session {

enum class CborType : uint8_t { kUnsigned, kNegative, kFloat, kBool, kNull, kBytes, kText, kArray, kMap };

struct CborNode {
  CborType type = CborType::kNull;
  uint64_t number = 0;    // kUnsigned and kBool: the value; kNegative: -1 minus the value.
  double real = 0;        // kFloat
  std::string_view text;  // kText (as it came: perhaps no UTF-8) and kBytes
  uint32_t count = 0;     // kArray: items; kMap: pairs
  uint32_t end = 0;       // The node behind this one and all it holds.
  // Its own bytes, head included.
  std::span<const std::byte> raw;
};

class CborDocument {
 public:
  static constexpr size_t kMaxDepth = 32;
  static constexpr size_t kMaxNodes = size_t{1} << 19;

  // Replaces what was there; the nodes point into `bytes`. kCorrupt for anything but exactly one item. The
  // memory is kept for the next one.
  Result<void> Parse(std::span<const std::byte> bytes);

  // Only after a Parse that succeeded.
  const CborNode& root() const { return nodes_.front(); }
  // The value under a text key; nullptr when there is none, or `map` is no map.
  const CborNode* Find(const CborNode& map, std::string_view key) const;

  // visit(const CborNode& item)
  template <typename F>
  void ForEachItem(const CborNode& array, F&& visit) const {
    if (array.type != CborType::kArray) return;
    uint32_t at = IndexOf(array) + 1;
    for (uint32_t i = 0; i < array.count; ++i, at = nodes_[at].end) visit(nodes_[at]);
  }
  // visit(const CborNode& key, const CborNode& value)
  template <typename F>
  void ForEachPair(const CborNode& map, F&& visit) const {
    if (map.type != CborType::kMap) return;
    uint32_t at = IndexOf(map) + 1;
    for (uint32_t i = 0; i < map.count; ++i) {
      const uint32_t value = nodes_[at].end;
      visit(nodes_[at], nodes_[value]);
      at = nodes_[value].end;
    }
  }

 private:
  class Parser;
  uint32_t IndexOf(const CborNode& node) const { return static_cast<uint32_t>(&node - nodes_.data()); }
  std::vector<CborNode> nodes_;
};

// The value as an integer: kUnsigned, kBool, and floats without a fraction. Nothing for negative ones.
std::optional<uint64_t> CborUnsigned(const CborNode& node);
std::optional<int64_t> CborSigned(const CborNode& node);
std::optional<double> CborReal(const CborNode& node);

}  // namespace smeltr::session
