// Where an event goes besides its session's file: the live bus, the flight recorder, the watch for
// incidents. One for the daemon; not thread-safe. Every session log calls it, in seq order.
#pragma once

#include <string_view>

#include "daemon/bus.h"
#include "daemon/flight_recorder.h"
#include "daemon/post_mortem.h"
#include "event/event.h"
#include "session/writer.h"

namespace smeltr::daemon {

class Router {
 public:
  Router(Bus& bus, FlightRecorder& recorder) : bus_(bus), recorder_(recorder) {}
  // Until then nothing is looked at for incidents. nullptr ends it.
  void WatchWith(PostMortems* post_mortems) { post_mortems_ = post_mortems; }

  // `event` was appended to the session as its `seq`.
  void Appended(std::string_view session_id, const event::Event& event, uint64_t seq) {
    if (bus_.subscriber_count() != 0) bus_.Publish(session_id, event, seq);
    if (post_mortems_ != nullptr) post_mortems_->Note(session_id, event, now_ns_);
  }
  void Sealed(std::string_view session_id, const session::SealedChunk& chunk) {
    recorder_.Note(session_id, chunk, now_ns_);
  }

  // The loop's time, told once a pass.
  void SetNow(uint64_t now_ns) { now_ns_ = now_ns; }
  uint64_t now_ns() const { return now_ns_; }
  Bus& bus() { return bus_; }
  FlightRecorder& recorder() { return recorder_; }
  PostMortems* post_mortems() { return post_mortems_; }

 private:
  Bus& bus_;
  FlightRecorder& recorder_;
  PostMortems* post_mortems_ = nullptr;
  uint64_t now_ns_ = 0;
};

}  // namespace smeltr::daemon
