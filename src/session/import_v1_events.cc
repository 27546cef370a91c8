#include "session/import_v1_events.h"

#include <fmt/format.h>

#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "event/frame.h"
#include "event/names.h"
#include "session/import_v1_fields.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

// Ids of one kind that are remembered at once; with more, the earliest lives are taken for ended.
constexpr size_t kMaxLives = size_t{1} << 20;

using Key = std::pair<uint32_t, uint64_t>;  // pid and the id there.

// MTLCommandBufferStatus.
constexpr uint64_t kMetalError = 5;

bool IsError(const CborDocument& document, const CborNode& payload, int64_t error_code) {
  if (error_code != 0) return true;
  const CborNode* status = document.Find(payload, "status");
  if (status == nullptr) return false;
  if (status->type == CborType::kText) return status->text == "Error" || status->text == "error";
  return CborUnsigned(*status) == kMetalError;
}

}  // namespace

// One life of a CB. Its completion waits for the ops, which come right behind it.
struct V1Events::Cb {
  event::CbId id{};
  event::QueueId queue_id{};
  bool completed = false;
  bool held = false;
  event::Envelope envelope;
  event::CbCompleted completion;
  std::string error_domain;
  Key queue_key;
};

// Which of our ids stands for which of theirs at the moment.
struct V1Events::Ids {
  struct Queue {
    event::QueueId id{};
    uint64_t busy_until_ns = 0;  // The end of what was laid on it last.
  };
  std::map<Key, Queue> queues;
  std::map<Key, Cb> cbs;
  std::map<Key, uint64_t> heaps;
  std::map<Key, uint64_t> buffers;
  std::map<Key, uint64_t> textures;
  uint64_t last_id = 0;

  uint64_t Begin(std::map<Key, uint64_t>& lives, const Key& key) {
    if (lives.size() >= kMaxLives) lives.clear();
    return lives[key] = ++last_id;
  }
  // Of one that began before what is recorded: an id all the same.
  uint64_t End(std::map<Key, uint64_t>& lives, const Key& key) {
    const auto found = lives.find(key);
    if (found == lives.end()) return ++last_id;
    const uint64_t id = found->second;
    lives.erase(found);
    return id;
  }
  static uint64_t Find(const std::map<Key, uint64_t>& lives, const Key& key) {
    const auto found = lives.find(key);
    return found == lives.end() ? 0 : found->second;
  }
};

struct V1Events::Read {
  const CborNode& root;
  const CborNode& payload;
  std::string_view kind_name;
  event::Kind kind;
  event::Envelope envelope;
};

V1Events::V1Events(Writer& writer, const V1Defaults& defaults)
    : writer_(writer), defaults_(defaults), ids_(std::make_unique<Ids>()) {}
V1Events::~V1Events() = default;

void V1Events::Append(const event::Envelope& envelope, const event::Payload& payload) {
  if (min_ts_ns_ == 0 || envelope.ts_ns < min_ts_ns_) min_ts_ns_ = envelope.ts_ns;
  max_ts_ns_ = std::max(max_ts_ns_, envelope.ts_ns);
  writer_.Append({envelope, payload});
}

event::Envelope V1Events::EnvelopeOf(const CborNode& root, event::Api api) {
  const auto number = [&](std::string_view key) {
    const CborNode* node = document_.Find(root, key);
    return node == nullptr ? uint64_t{0} : CborUnsigned(*node).value_or(0);
  };
  event::Envelope envelope{.api = api};
  envelope.ts_ns = number("ts_wall_ns");
  if (envelope.ts_ns == 0) envelope.ts_ns = defaults_.start_unix_ns + number("ts_mono_ns");
  const uint64_t pid = number("pid");
  envelope.pid = pid != 0 && std::in_range<uint32_t>(pid) ? static_cast<uint32_t>(pid) : defaults_.root_pid;
  const uint64_t tid = number("tid");
  if (std::in_range<uint32_t>(tid)) envelope.tid = static_cast<uint32_t>(tid);
  return envelope;
}

bool V1Events::Add(std::span<const std::byte> cbor) {
  if (!document_.Parse(cbor).has_value()) return false;
  const CborNode& root = document_.root();
  const CborNode* payload = document_.Find(root, "payload");
  if (payload == nullptr || payload->type != CborType::kMap) return false;
  const CborNode* name = document_.Find(*payload, "kind");
  if (name == nullptr || name->type != CborType::kText) return false;
  const auto known = event::ParseKindName(name->text);
  const event::ApiKind kind = known.value_or(event::ApiKind{});
  const Read read{root, *payload, name->text, kind.kind, EnvelopeOf(root, kind.api)};
  switch (kind.kind) {
#define KIND(number, name, source, naming) \
  case event::Kind::k##name:               \
    Translate<event::name>(read);          \
    break;
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
    default:
      CountForeign(std::string(event::CutText(name->text, 100)));
      KeepOpaque(read, std::string(name->text));
  }
  memory_.release();
  return true;
}

template <typename E>
void V1Events::Translate(const Read& read) {
  E fields{};
  V1Filler filler(document_, read.payload, read.kind, memory_);
  VisitFields(fields, filler);
  On(read.envelope, fields, read);
  bool unknown = false;
  filler.ForEachUnknown([&](std::string_view key) {
    unknown = true;
    CountForeign(fmt::format("{}.{}", read.kind_name, event::CutText(key, 100)));
  });
  if (unknown) KeepOpaque(read, std::string(read.kind_name));
}

void V1Events::CountForeign(const std::string& name) {
  const bool room = foreign_counts_.size() < kMaxForeignKinds || foreign_counts_.contains(Printable(name));
  ++foreign_counts_[room ? Printable(name) : "(others)"];
}

void V1Events::KeepOpaque(const Read& read, const std::string& name) {
  auto found = foreign_kinds_.find(name);
  if (found == foreign_kinds_.end()) {
    const size_t number = std::min<size_t>(foreign_kinds_.size(), kMaxForeignKinds);
    if (number == kMaxForeignKinds) {
      found = foreign_kinds_.begin();
    } else {
      found = foreign_kinds_.emplace(name, static_cast<uint16_t>(kFirstForeignKind + number)).first;
    }
  }
  ++opaque_count_;
  event::Envelope envelope = read.envelope;
  envelope.api = event::Api::kNone;
  Append(envelope, event::Opaque{.kind_number = found->second, .bytes = read.payload.raw});
}

template <typename E>
void V1Events::On(const event::Envelope& envelope, E& fields, const Read& read) {
  const auto key = [&](auto id) { return Key{envelope.pid, event::Raw(id)}; };
  if constexpr (std::same_as<E, event::CbCommitted>) {
    return OnCommitted(envelope, fields);
  } else if constexpr (std::same_as<E, event::CbCompleted>) {
    return OnCompleted(envelope, fields, read);
  } else if constexpr (std::same_as<E, event::CbOps>) {
    return OnOps(envelope, fields);
  } else if constexpr (std::same_as<E, event::CbScheduled> || std::same_as<E, event::CbWarning>) {
    const auto cb = ids_->cbs.find(key(fields.cb_id));
    if (cb == ids_->cbs.end()) {
      ++orphan_count_;
      return;
    }
    fields.cb_id = cb->second.id;
    fields.queue_id = cb->second.queue_id;
  } else if constexpr (std::same_as<E, event::HeapAlloc>) {
    fields.heap_id = event::HeapId{ids_->Begin(ids_->heaps, key(fields.heap_id))};
  } else if constexpr (std::same_as<E, event::HeapFree>) {
    fields.heap_id = event::HeapId{ids_->End(ids_->heaps, key(fields.heap_id))};
  } else if constexpr (std::same_as<E, event::BufferAlloc>) {
    fields.buffer_id = event::BufferId{ids_->Begin(ids_->buffers, key(fields.buffer_id))};
    fields.heap_id = event::HeapId{Ids::Find(ids_->heaps, key(fields.heap_id))};
  } else if constexpr (std::same_as<E, event::BufferFree>) {
    fields.buffer_id = event::BufferId{ids_->End(ids_->buffers, key(fields.buffer_id))};
  } else if constexpr (std::same_as<E, event::TextureAlloc>) {
    fields.texture_id = event::TextureId{ids_->Begin(ids_->textures, key(fields.texture_id))};
    fields.heap_id = event::HeapId{Ids::Find(ids_->heaps, key(fields.heap_id))};
  } else if constexpr (std::same_as<E, event::TextureFree>) {
    fields.texture_id = event::TextureId{ids_->End(ids_->textures, key(fields.texture_id))};
  } else if constexpr (std::same_as<E, event::ModelLoad>) {
    const uint64_t length_ns = fields.t_end_ns - std::min(fields.t_start_ns, fields.t_end_ns);
    fields.t_end_ns = envelope.ts_ns;
    fields.t_start_ns = envelope.ts_ns - std::min(length_ns, envelope.ts_ns);
  } else if constexpr (std::same_as<E, event::ModelUnload>) {
    fields.t_ns = envelope.ts_ns;
  } else if constexpr (std::same_as<E, event::HookSkipped>) {
    if (const CborNode* reason = document_.Find(read.payload, "reason"); reason != nullptr) {
      fields.detail = reason->text;
    }
    fields.count = std::max<uint64_t>(fields.count, 1);
  }
  Append(envelope, fields);
}

void V1Events::OnCommitted(const event::Envelope& envelope, event::CbCommitted& fields) {
  const Key queue_key{envelope.pid, event::Raw(fields.queue_id)};
  if (ids_->queues.size() >= kMaxLives) ids_->queues.clear();
  const auto [queue, is_new] = ids_->queues.try_emplace(queue_key);
  if (is_new) {
    queue->second.id = event::QueueId{++ids_->last_id};
    const std::string label = fmt::format("0x{:x}", queue_key.second);
    Append(envelope, event::QueueInfo{.queue_id = queue->second.id,
                                      .device_id = {},
                                      .label = std::string_view(label),
                                      .timestamp_valid_bits = 64});
  }
  if (ids_->cbs.size() >= kMaxLives) {
    for (auto& [key, cb] : ids_->cbs) ReleaseHeld(cb, 0);
    ids_->cbs.clear();
  }
  Cb& cb = ids_->cbs[{envelope.pid, event::Raw(fields.cb_id)}];
  ReleaseHeld(cb, 0);
  cb = {};
  cb.id = event::CbId{++ids_->last_id};
  cb.queue_id = queue->second.id;
  cb.queue_key = queue_key;
  fields.cb_id = cb.id;
  fields.queue_id = cb.queue_id;
  Append(envelope, fields);
}

void V1Events::OnCompleted(const event::Envelope& envelope, event::CbCompleted& fields, const Read& read) {
  const auto found = ids_->cbs.find({envelope.pid, event::Raw(fields.cb_id)});
  if (found == ids_->cbs.end() || found->second.completed) {
    ++orphan_count_;
    return;
  }
  Cb& cb = found->second;
  fields.cb_id = cb.id;
  fields.queue_id = cb.queue_id;
  const bool failed = IsError(document_, read.payload, fields.error_code);
  fields.status = failed ? event::CbStatus::kError : event::CbStatus::kCompleted;
  fields.time_source = event::TimeSource::kHost;
  cb.completed = true;
  cb.held = true;
  cb.envelope = envelope;
  cb.completion = fields;
  cb.error_domain = std::string(fields.error_domain.view);
}

// `gpu_ns` 0: not known.
void V1Events::ReleaseHeld(Cb& cb, uint64_t gpu_ns) {
  if (!std::exchange(cb.held, false)) return;
  event::CbCompleted& completion = cb.completion;
  completion.error_domain = std::string_view(cb.error_domain);
  const auto queue = ids_->queues.find(cb.queue_key);
  if (gpu_ns != 0 && gpu_ns < cb.envelope.ts_ns && queue != ids_->queues.end()) {
    completion.gpu_start_ns = std::max(queue->second.busy_until_ns, cb.envelope.ts_ns - gpu_ns);
    completion.gpu_end_ns = completion.gpu_start_ns + gpu_ns;
    completion.time_source = event::TimeSource::kGpu;
    queue->second.busy_until_ns = completion.gpu_end_ns;
  }
  Append(cb.envelope, completion);
}

void V1Events::OnOps(const event::Envelope& envelope, event::CbOps& fields) {
  const auto found = ids_->cbs.find({envelope.pid, event::Raw(fields.cb_id)});
  if (found == ids_->cbs.end() || !found->second.completed) {
    ++orphan_count_;
    return;
  }
  uint64_t gpu_ns = 0;
  std::pmr::vector<event::OpSample> ops(fields.ops.begin(), fields.ops.end(), &memory_);
  for (event::OpSample& op : ops) {
    op.type = event::OpType::kDispatch;
    // Measured around an encoder and shared out over its dispatches.
    op.precision = event::Precision::kGroup;
    op.count = std::max<uint32_t>(op.count, 1);
    gpu_ns += std::min(op.gpu_ns, ~uint64_t{0} - gpu_ns);
  }
  ReleaseHeld(found->second, gpu_ns);
  fields.cb_id = found->second.id;
  fields.ops = ops;
  Append(envelope, fields);
}

void V1Events::Finish(ImportNotes& notes) {
  for (auto& [key, cb] : ids_->cbs) ReleaseHeld(cb, 0);
  if (orphan_count_ > 0) {
    notes.Add(fmt::format("{} left out: of command buffers whose commit is not in the file",
                          FormatCounted(orphan_count_, "event")));
  }
  for (const auto& [name, count] : foreign_counts_) {
    const bool field = name.find('.') != std::string::npos;
    const std::string kind = name.substr(0, name.find('.'));
    const auto number = foreign_kinds_.find(kind);
    const std::string kept =
        number == foreign_kinds_.end() ? "" : fmt::format(", kept unread as Kind#{}", number->second);
    notes.Add(fmt::format("{} of the unknown {} {}{}", FormatCounted(count, "event"),
                          field ? "field" : "kind", name, kept));
  }
}

std::string V1SessionId(std::span<const std::byte> cbor) {
  CborDocument document;
  if (!document.Parse(cbor).has_value()) return {};
  const CborNode* id = document.Find(document.root(), "session_id");
  if (id == nullptr) return {};
  if (id->type == CborType::kText) return std::string(id->text);
  if (id->type != CborType::kBytes || id->text.size() != 16) return {};
  std::string hex;
  for (const char byte : id->text) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

}  // namespace smeltr::session
