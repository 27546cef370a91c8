#include "event/names.h"

#include <algorithm>
#include <iterator>

namespace smeltr::event {
namespace {

constexpr KindInfo kKinds[] = {
#define KIND(number, name, source, naming) {Kind::k##name, #name, Source::source, Naming::naming},
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
};

static_assert(std::ranges::is_sorted(kKinds, {}, &KindInfo::kind));
static_assert(static_cast<uint16_t>(std::end(kKinds)[-1].kind) < kKindLimit);

}  // namespace

std::span<const KindInfo> AllKinds() { return kKinds; }

const KindInfo* FindKind(Kind kind) {
  const auto* found = std::ranges::lower_bound(kKinds, kind, {}, &KindInfo::kind);
  return found != std::end(kKinds) && found->kind == kind ? found : nullptr;
}

KindName::KindName(Api api, Kind kind) {
  if (const KindInfo* info = FindKind(kind)) {
    if (info->naming == Naming::kPerApi) Append(EnumName(api));
    Append(info->name);
    return;
  }
  Append("Kind#");
  char digits[8];
  size_t count = 0;
  for (auto rest = static_cast<unsigned>(kind); count == 0 || rest != 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  std::reverse(digits, digits + count);
  Append({digits, count});
}

void KindName::Append(std::string_view part) {
  const size_t count = std::min(part.size(), text_.size() - length_);
  std::copy_n(part.begin(), count, text_.begin() + static_cast<ptrdiff_t>(length_));
  length_ += count;
}

std::optional<ApiKind> ParseKindName(std::string_view name) {
  for (const KindInfo& info : kKinds) {
    if (!name.ends_with(info.name)) continue;
    const std::string_view prefix = name.substr(0, name.size() - info.name.size());
    if (prefix.empty()) return ApiKind{Api::kNone, info.kind};
    if (info.naming != Naming::kPerApi) continue;
    for (size_t api = 1; api < kEnumSize<Api>; ++api) {
      if (prefix == EnumNames<Api>::kNames[api]) return ApiKind{static_cast<Api>(api), info.kind};
    }
  }
  return std::nullopt;
}

}  // namespace smeltr::event
