// What `smeltr tail` prints for what the daemon sends: one JSON object a line. Pure; the connection is the
// command's.
//
//   {"session":"3f2a9c1d","ts_mono_ns":12,"seq":3, ...}                    an event (event/json.h)
//   {"_smeltr_tail":"gap","session_id":..,"expected":4,"got":9,"skipped":5}  some were lost on the way
//   {"_smeltr_tail":"session_opened","session_id":..,"short_id":..,"kind":..,"name":..}
//   {"_smeltr_tail":"session_closed","session_id":..,"end_reason":..,"last_seq":..}
//   {"_smeltr_tail":"reconnect","attempt":2}
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/message.h"
#include "ipc/stream.h"

namespace smeltr::faces::cli {

struct TailOptions {
  std::vector<std::string> session_ids{};  // What is followed; empty: all.
  bool events_only = false;                // No session_opened and session_closed.
  bool safe_ints = false;                  // Integers beyond 2^53 as strings.
  uint64_t count = 0;                      // So many events, then done; 0: no end.
};

class TailStream {
 public:
  explicit TailStream(TailOptions options) : options_(std::move(options)) {}

  // A connection stands: the first, or a later one, before which events may have been missed. Sessions that
  // are followed and that the daemon does not record have ended.
  std::string Connected(const ipc::Subscribed& subscribed, int attempt);
  // The lines of one item, each with its end.
  std::string Take(const ipc::StreamItem& item);

  // Why nothing more is to come; empty while more may.
  const std::string& ended() const { return ended_; }
  // The daemon said that it goes; `ended` is not set by that.
  const std::string& goodbye() const { return goodbye_; }

 private:
  void TakeBatch(const ipc::EventBatch& batch, std::string& out);
  void On(const ipc::Gap& gap, std::string& out);
  void On(const ipc::SessionOpened& opened, std::string& out);
  void On(const ipc::SessionClosed& closed, std::string& out);
  void On(const ipc::Heartbeat& heartbeat, std::string& out);
  void On(const ipc::Goodbye& goodbye, std::string& out);
  void NoteEnded(const std::string& session_id, std::string_view end_reason);

  TailOptions options_;
  std::map<std::string, uint64_t> last_seqs_;  // By session, of what was seen or told to be lost.
  std::set<std::string> closed_;
  std::set<std::string> hidden_;  // Test recordings of `smeltr doctor`: nobody's events.
  uint64_t printed_ = 0;
  std::string ended_;
  std::string goodbye_;
};

// `json` with integers that a double cannot hold put in quotes.
std::string QuoteLargeIntegers(std::string_view json);

}  // namespace smeltr::faces::cli
