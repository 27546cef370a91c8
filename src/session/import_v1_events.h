// Events of an earlier Rust smeltr in our words. Each of its kinds has one of ours with the same name and,
// apart from a short list of other names, the same fields, so that kinds.def is the table here as well.
//
// What changes on the way:
//   time       ts_wall_ns, which all its sessions have in common (ts_mono_ns starts at 0 in each, and a
//              post-mortem mixes several); where it is missing, the session's start plus ts_mono_ns
//   ids        of CBs, queues, heaps, buffers and textures are addresses there, used again and again: each
//   life
//              gets an id of its own, a queue keeps its address as its label
//   CB times   a completion says how long the CB was in flight, queue wait included. The GPU time is the sum
//   of
//              its ops, measured on the GPU; it is laid as late as the completion was seen, behind what the
//              queue did before. Where on the time line is known to about 10 ms, how long exactly. CBs
//              without ops stay timed by the host
//   models     load times on the client's own clock: only the length is kept, its end is the event's time
//   unknown    kinds are kept as event::Opaque with the CBOR of their payload, under numbers from
//              kFirstForeignKind on. An event of a known kind with fields of unknown names is translated and
//              kept so besides
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "event/event.h"
#include "session/import_cbor.h"
#include "session/import_notes.h"
#include "session/writer.h"

namespace smeltr::session {

inline constexpr uint16_t kFirstForeignKind = 60000;
inline constexpr uint16_t kMaxForeignKinds = 200;  // All beyond share the last number.

struct V1Defaults {
  uint64_t start_unix_ns = 0;  // Of the session, for events without ts_wall_ns.
  uint32_t root_pid = 0;       // For events without a pid.
};

class V1Events {
 public:
  // Both must outlive it.
  V1Events(Writer& writer, const V1Defaults& defaults);
  ~V1Events();
  V1Events(const V1Events&) = delete;
  V1Events& operator=(const V1Events&) = delete;

  // Translates one event and appends it, perhaps later. False: it is no event.
  bool Add(std::span<const std::byte> cbor);
  // Appends what was held back; tells what was not understood. Call once, at the end.
  void Finish(ImportNotes& notes);

  uint64_t min_ts_ns() const { return min_ts_ns_; }  // 0 without events.
  uint64_t max_ts_ns() const { return max_ts_ns_; }
  uint64_t opaque_count() const { return opaque_count_; }

 private:
  struct Cb;
  struct Ids;
  struct Read;

  template <typename E>
  void Translate(const Read& read);
  template <typename E>
  void On(const event::Envelope& envelope, E& fields, const Read& read);
  void OnCommitted(const event::Envelope& envelope, event::CbCommitted& fields);
  void OnCompleted(const event::Envelope& envelope, event::CbCompleted& fields, const Read& read);
  void OnOps(const event::Envelope& envelope, event::CbOps& fields);
  void Append(const event::Envelope& envelope, const event::Payload& payload);
  void ReleaseHeld(Cb& cb, uint64_t gpu_ns);
  void CountForeign(const std::string& name);
  void KeepOpaque(const Read& read, const std::string& name);
  event::Envelope EnvelopeOf(const CborNode& root, event::Api api);

  Writer& writer_;
  V1Defaults defaults_;
  CborDocument document_;
  // Texts and lists of the event under way.
  std::pmr::monotonic_buffer_resource memory_;
  std::unique_ptr<Ids> ids_;
  uint64_t min_ts_ns_ = 0;
  uint64_t max_ts_ns_ = 0;
  uint64_t opaque_count_ = 0;
  uint64_t orphan_count_ = 0;
  std::map<std::string, uint64_t> foreign_counts_;  // By name of the kind, or "Kind.field".
  std::map<std::string, uint16_t> foreign_kinds_;
};

// The id of the session that an event says it belongs to, 32 hex digits; empty when it says none.
std::string V1SessionId(std::span<const std::byte> cbor);

}  // namespace smeltr::session
