// The scopes that a session's processes are in: when the files that tell of their beginning are deleted,
// later command buffers still belong to them. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "event/event.h"

namespace smeltr::session {

class OpenScopes {
 public:
  // Every event of the session, as it is appended.
  void Note(const event::Event& event);
  // Calls `visit` for the ModuleEntered of each, of a process the oldest first, up to so many bytes of them.
  // The event lives during the call.
  void ForEach(uint64_t limit_bytes, const std::function<void(const event::Event&)>& visit) const;

 private:
  // More are not looked after: a program that never leaves its scopes has others' numbers anyway.
  static constexpr size_t kMax = 4096;

  std::map<std::pair<uint32_t, uint64_t>, std::vector<std::byte>>
      entered_;  // By pid and id, as owned events.
};

}  // namespace smeltr::session
