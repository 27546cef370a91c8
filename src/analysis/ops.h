// Kernels: what they are called, what they do, and how their times are shared out.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "event/event.h"

namespace smeltr::analysis {

// Raised whenever op_kinds.def changes what a symbol maps to.
inline constexpr uint32_t kOpKindsVersion = 1;

// Time of a CB whose ops are not known carries this name.
inline constexpr std::string_view kNoOpDetail = "(no op detail)";

// "Matmul", "Softmax", ... by op_kinds.def; empty when nothing is known about such a symbol.
std::string_view KindOfSymbol(std::string_view symbol);
// The same for an op: transfer and drawing commands have a kind without a symbol.
std::string_view KindOfOp(std::string_view symbol, event::OpType type);

// How well an op's time is known: event::Precision, and one more for time without op detail.
inline constexpr size_t kPrecisions = 5;
inline constexpr size_t kPrecisionNoDetail = 4;
// JSON keys: "op", "group", "profile", "uniform", "no_detail".
std::string_view PrecisionName(size_t precision);

struct OpRow {
  std::string name;    // Fingerprint, or the key when grouped.
  std::string symbol;  // Empty when not known.
  std::string kind;    // Empty when not known.
  uint64_t gpu_ns = 0;
  uint64_t count = 0;
  std::array<uint64_t, kPrecisions> precision_ns{};

  // What people see: the symbol, else the name.
  const std::string& label() const { return symbol.empty() ? name : symbol; }
};

enum class GroupBy : uint8_t { kName, kKind };

// Time descending, then name and symbol ascending.
void SortOps(std::vector<OpRow>& rows);
// kKind: rows with equal (kind, else symbol, else name) become one, whose name is that key.
std::vector<OpRow> GroupOps(std::vector<OpRow> rows, GroupBy group_by);

// Scales `values` so that they sum to exactly `target`, in proportion, by largest remainder (ties: the
// earlier one). All zero: they stay zero.
void ScaleTo(std::span<uint64_t> values, uint64_t target);

}  // namespace smeltr::analysis
