#include "session/open_scopes.h"

#include <array>
#include <span>
#include <variant>

#include "event/owned.h"

namespace smeltr::session {

void OpenScopes::Note(const event::Event& event) {
  if (const auto* returned = std::get_if<event::ModuleReturned>(&event.payload)) {
    entered_.erase({event.envelope.pid, event::Raw(returned->module_call_id)});
    return;
  }
  if (std::holds_alternative<event::ProcessExit>(event.payload)) {
    entered_.erase(entered_.lower_bound({event.envelope.pid, 0}),
                   entered_.upper_bound({event.envelope.pid, UINT64_MAX}));
    return;
  }
  const auto* entered = std::get_if<event::ModuleEntered>(&event.payload);
  if (entered == nullptr || entered_.size() >= kMax) return;
  std::vector<std::byte> bytes;
  if (!event::AppendOwned(event, bytes)) return;
  entered_.insert_or_assign({event.envelope.pid, event::Raw(entered->module_call_id)}, std::move(bytes));
}

void OpenScopes::ForEach(uint64_t limit_bytes, const std::function<void(const event::Event&)>& visit) const {
  uint64_t visited_bytes = 0;
  for (const auto& [key, bytes] : entered_) {
    visited_bytes += bytes.size();
    if (visited_bytes > limit_bytes) return;
    std::vector<std::byte> space(bytes.size() * 4 + 1024);
    event::DecodeArena arena(space);
    std::span<const std::byte> rest(bytes);
    if (const auto event = event::TakeOwned(rest, arena); event.has_value()) visit(*event);
  }
}

}  // namespace smeltr::session
