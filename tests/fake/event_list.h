// Keeps what a probe emits, for tests to look at.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "event/owned.h"
#include "probe/probe.h"

namespace smeltr::fake {

class EventList : public probe::Sink {
 public:
  void Emit(const event::Event& event) override { EmitTo({}, event); }
  void EmitTo(std::string_view session_id, const event::Event& event) override {
    Kept& kept = kept_.emplace_back();
    kept.session_id = session_id;
    event::AppendOwned(event, kept.bytes);
    kept.arena.resize(size_t{64} << 10);
    event::DecodeArena arena(kept.arena);
    std::span<const std::byte> bytes(kept.bytes);
    kept.event = event::TakeOwned(bytes, arena).value();
  }

  // Those of one kind, oldest first; valid until Clear().
  template <typename E>
  std::vector<E> All() const {
    std::vector<E> found;
    for (const Kept& kept : kept_) {
      if (const E* fields = std::get_if<E>(&kept.event.payload)) found.push_back(*fields);
    }
    return found;
  }
  // The last one of a kind; an empty one when there is none.
  template <typename E>
  E Last() const {
    const auto all = All<E>();
    return all.empty() ? E{} : all.back();
  }
  std::vector<std::string> Sessions() const {
    std::vector<std::string> sessions;
    for (const Kept& kept : kept_) sessions.push_back(kept.session_id);
    return sessions;
  }
  size_t size() const { return kept_.size(); }
  void Clear() { kept_.clear(); }

 private:
  struct Kept {
    std::string session_id;
    std::vector<std::byte> bytes;
    std::vector<std::byte> arena;
    event::Event event;
  };
  std::deque<Kept> kept_;
};

}  // namespace smeltr::fake
