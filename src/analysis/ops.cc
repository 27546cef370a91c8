#include "analysis/ops.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace smeltr::analysis {
namespace {

struct Pattern {
  std::string_view kind;
  std::string_view text;
};

constexpr Pattern kPatterns[] = {
#define OP_KIND(kind, pattern) {kind, pattern},
#include "analysis/op_kinds.def"
};

constexpr std::string_view kQuantizedTokens[] = {
#define OP_QUANTIZED(token) token,
#include "analysis/op_kinds.def"
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsWord(char c) { return IsDigit(c) || IsUpper(c) || (c >= 'a' && c <= 'z'); }

// "void ns::kernel<float, 4>(args)" -> "kernel"; other symbols come back as they are.
std::string_view BareName(std::string_view symbol) {
  if (const size_t at = symbol.find('('); at != std::string_view::npos && at > 0)
    symbol = symbol.substr(0, at);
  if (const size_t at = symbol.find('<'); at != std::string_view::npos && at > 0)
    symbol = symbol.substr(0, at);
  if (const size_t at = symbol.rfind(' '); at != std::string_view::npos) symbol.remove_prefix(at + 1);
  if (const size_t at = symbol.rfind("::"); at != std::string_view::npos) symbol.remove_prefix(at + 2);
  return symbol;
}

// Takes data type names off the end of a token: "copybfloat16float32" -> "copy".
std::string_view WithoutDataTypes(std::string_view token) {
  static constexpr std::string_view kTypes[] = {"bfloat16",  "float16", "float32", "float64",
                                                "complex64", "int16",   "int32",   "int64",
                                                "uint8",     "uint16",  "uint32",  "uint64"};
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view type : kTypes) {
      if (token.size() <= type.size() || !token.ends_with(type)) continue;
      token.remove_suffix(type.size());
      cut = true;
      break;
    }
  }
  return token;
}

std::vector<std::string> Tokens(std::string_view name) {
  std::vector<std::string> tokens;
  std::string token;
  const auto finish = [&] {
    if (!token.empty()) tokens.emplace_back(WithoutDataTypes(token));
    token.clear();
  };
  for (const char c : name) {
    if (!IsWord(c)) {
      finish();
    } else {
      token += IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  finish();
  return tokens;
}

size_t TokenCount(std::string_view pattern) {
  return static_cast<size_t>(std::count(pattern.begin(), pattern.end(), '_')) + 1;
}

bool MatchesAt(std::span<const std::string> tokens, std::string_view pattern) {
  for (const std::string& token : tokens) {
    if (!pattern.starts_with(token)) return false;
    pattern.remove_prefix(token.size());
    if (pattern.empty()) return true;
    if (pattern.front() != '_') return false;
    pattern.remove_prefix(1);
  }
  return false;
}

bool Matches(std::span<const std::string> tokens, std::string_view pattern) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (MatchesAt(tokens.subspan(i), pattern)) return true;
  }
  return false;
}

// '#' at the end of a pattern stands for one or more digits.
bool MatchesQuantized(std::string_view token) {
  for (std::string_view pattern : kQuantizedTokens) {
    if (!pattern.ends_with('#')) {
      if (token == pattern) return true;
      continue;
    }
    pattern.remove_suffix(1);
    if (token.size() <= pattern.size() || !token.starts_with(pattern)) continue;
    const std::string_view rest = token.substr(pattern.size());
    if (std::all_of(rest.begin(), rest.end(), IsDigit)) return true;
  }
  return false;
}

// MLX prefixes elementwise and copy kernels with the layout of their operands: "gg1_copy", "vv_Add".
bool HasLayoutPrefix(std::string_view name) {
  const std::string_view code = name.substr(0, name.find('_'));
  if (code.empty() || code.size() == name.size()) return false;
  return std::all_of(code.begin(), code.end(),
                     [](char c) { return IsDigit(c) || c == 'g' || c == 's' || c == 'v' || c == 'n'; });
}

// MLX names fused kernels by what they walk: "..._contiguous", "..._strided_4_large".
bool HasFusedSuffix(std::string_view name) {
  if (name.ends_with("_large")) name.remove_suffix(6);
  if (name.ends_with("_dynamic")) name.remove_suffix(8);
  while (!name.empty() && IsDigit(name.back())) name.remove_suffix(1);
  if (name.ends_with('_')) name.remove_suffix(1);
  return name.ends_with("_contiguous") || name.ends_with("_strided");
}

// A name made up where the kernel has none: K_<hash>_<w>x<h>x<d>.
bool IsFingerprint(std::string_view name) { return name.starts_with("K_"); }

}  // namespace

std::string_view KindOfSymbol(std::string_view symbol) {
  const std::string_view name = BareName(symbol);
  if (name.empty() || IsFingerprint(name)) return {};
  const std::vector<std::string> tokens = Tokens(name);
  const Pattern* best = nullptr;
  for (const Pattern& pattern : kPatterns) {
    if (best != nullptr && TokenCount(pattern.text) <= TokenCount(best->text)) continue;
    if (Matches(tokens, pattern.text)) best = &pattern;
  }
  if (best != nullptr) {
    const bool quantized =
        best->kind == "Matmul" && std::any_of(tokens.begin(), tokens.end(), MatchesQuantized);
    return quantized ? std::string_view("QuantizedMatmul") : best->kind;
  }
  if (HasLayoutPrefix(name) && IsUpper(name[name.find('_') + 1])) return "Elementwise";
  if (HasFusedSuffix(name)) return "FusedElementwise";
  return {};
}

std::string_view KindOfOp(std::string_view symbol, event::OpType type) {
  using event::OpType;
  switch (type) {
    case OpType::kCopy:
    case OpType::kBlit:
      return "Copy";
    case OpType::kFill:
    case OpType::kClear:
      return "Fill";
    case OpType::kResolve:
      return "Resolve";
    case OpType::kDraw:
    case OpType::kRenderPass:
      return "Draw";
    case OpType::kRayTrace:
    case OpType::kAccelerationStructure:
      return "RayTracing";
    case OpType::kVideo:
      return "Video";
    default:
      return KindOfSymbol(symbol);
  }
}

std::string_view PrecisionName(size_t precision) {
  if (precision == kPrecisionNoDetail) return "no_detail";
  return event::EnumName(static_cast<event::Precision>(precision));
}

void SortOps(std::vector<OpRow>& rows) {
  std::sort(rows.begin(), rows.end(), [](const OpRow& a, const OpRow& b) {
    if (a.gpu_ns != b.gpu_ns) return a.gpu_ns > b.gpu_ns;
    return std::tie(a.name, a.symbol) < std::tie(b.name, b.symbol);
  });
}

std::vector<OpRow> GroupOps(std::vector<OpRow> rows, GroupBy group_by) {
  std::map<std::pair<std::string, std::string>, OpRow> groups;
  for (OpRow& row : rows) {
    std::pair<std::string, std::string> key(row.name, row.symbol);
    if (group_by == GroupBy::kKind) key = {row.kind.empty() ? row.label() : row.kind, ""};
    OpRow& group = groups[key];
    group.name = key.first;
    group.symbol = key.second;
    group.kind = row.kind;
    group.gpu_ns += row.gpu_ns;
    group.count += row.count;
    for (size_t i = 0; i < kPrecisions; ++i) group.precision_ns[i] += row.precision_ns[i];
  }
  std::vector<OpRow> result;
  result.reserve(groups.size());
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  SortOps(result);
  return result;
}

void ScaleTo(std::span<uint64_t> values, uint64_t target) {
  using Wide = unsigned __int128;
  const Wide sum = std::accumulate(values.begin(), values.end(), Wide{0});
  if (sum == 0 || sum == target) return;
  std::vector<std::pair<uint64_t, size_t>> remainders;  // Scaled to 64 bit: only their order matters.
  remainders.reserve(values.size());
  uint64_t given = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const Wide product = static_cast<Wide>(values[i]) * target;
    values[i] = static_cast<uint64_t>(product / sum);
    given += values[i];
    remainders.emplace_back(static_cast<uint64_t>(((product % sum) << 32) / sum), i);
  }
  std::sort(remainders.begin(), remainders.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (size_t i = 0; given < target; ++i, ++given) ++values[remainders[i].second];
}

}  // namespace smeltr::analysis
