// No session of the Rust smeltr is at hand: these are made here from the description of its files, CBOR by
// nlohmann-json, compression by zstd. What they show is that we read what is described.
#include "session/import_v1.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <map>
#include <nlohmann/json.hpp>

#include "event/names.h"
#include "session/import_v1_events.h"
#include "session/import_v1_stream.h"
#include "unit/session/import_helpers.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using nlohmann::json;
using testing::CountOf;
using testing::ForEachOf;
using testing::Noted;
using testing::TemporaryDirectory;

constexpr std::string_view kId = "1a2b3c4d-0000-4000-8000-00000000abcd";
constexpr uint64_t kStartNs = 1'700'000'000'000'000'000;
constexpr std::string_view kMetadata = R"(session_id = "1a2b3c4d-0000-4000-8000-00000000abcd"
started_rfc3339 = "2023-11-14T22:13:20.000000000+00:00"
ended_rfc3339 = "2023-11-14T22:13:30Z"
host = "mac.local"
mlx_version = ""
exit_code = 0
argv = ["smeltrd", "--foreground"]
name = "baseline"
scope_token = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
[kind]
type = "Scoped"
pid = 4711
argv = ["python", "infer.py"]
)";

template <typename T>
std::string Little(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
std::string Frame(const json& event) {
  const std::vector<uint8_t> cbor = json::to_cbor(event);
  return Little(static_cast<uint32_t>(cbor.size())) + std::string(cbor.begin(), cbor.end());
}
std::string Zstd(std::string_view raw) {
  std::string out(ZSTD_compressBound(raw.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 3));
  return out;
}
json Event(uint64_t ms, std::string_view kind, json fields = json::object(),
           std::string_view source = "MetalHook") {
  fields["kind"] = kind;
  static uint64_t seq = 0;
  std::vector<uint8_t> id = {0x1A, 0x2B, 0x3C, 0x4D, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0xAB, 0xCD};
  return {{"ts_mono_ns", ms * 1'000'000},
          {"ts_wall_ns", kStartNs + ms * 1'000'000},
          {"session_id", json::binary(id)},
          {"source", source},
          {"pid", 4711},
          {"seq", ++seq},
          {"payload", fields}};
}
std::string Chunked(const std::vector<std::string>& chunks, bool footer) {
  std::string file = "SMz\x01";
  std::string entries;
  for (const std::string& raw : chunks) {
    const std::string packed = Zstd(raw);
    entries +=
        Little(uint64_t{file.size()}) + Little(static_cast<uint32_t>(packed.size())) + std::string(28, '\0');
    file += Little(static_cast<uint32_t>(packed.size())) + packed;
  }
  if (!footer) return file;
  const uint64_t offset = file.size();
  return file + Little(static_cast<uint32_t>(chunks.size())) + entries + Little(offset) +
         Little(uint32_t{0}) + "SMzINDEX";
}

class ImportV1Test : public ::testing::Test {
 protected:
  std::filesystem::path sessions() const { return directory_.path() / "sessions"; }
  std::filesystem::path MakeSession(std::string_view events, std::string_view metadata = kMetadata,
                                    std::string_view name = "2023-11-14-221320-1a2b3c4d",
                                    std::string_view file = "events.cbor.zst") {
    const auto directory = directory_.path() / "old" / name;
    std::filesystem::create_directories(directory);
    testing::WriteText(directory / file, events);
    if (!metadata.empty()) testing::WriteText(directory / "metadata.toml", metadata);
    return directory;
  }
  ImportedSession Import(const std::filesystem::path& directory, bool force = false) {
    const auto imported =
        ImportV1Session(directory, {.sessions_directory = sessions(), .force = force, .smeltr_version = "t"});
    EXPECT_TRUE(imported.has_value()) << imported.error().text();
    return imported.value_or(ImportedSession{});
  }
  ImportedSession ImportEvents(const std::vector<json>& events) {
    std::string raw;
    for (const json& event : events) raw += Frame(event);
    return Import(MakeSession(Zstd(raw)));
  }

  TemporaryDirectory directory_;
};

std::string Marks(int begin, int end) {
  std::string raw;
  for (int i = begin; i < end; ++i) {
    raw += Frame(Event(static_cast<uint64_t>(i), "Mark", {{"label", "mark " + std::to_string(i)}}, "Mark"));
  }
  return raw;
}

// --- layouts ---

TEST_F(ImportV1Test, AllLayouts) {
  const std::string raw = Marks(0, 100);
  const auto count = [&](std::string_view file, std::string_view name, std::string_view format) {
    const ImportedSession imported =
        Import(MakeSession(file, "", name.starts_with("p") ? "plain" : name,
                           name.starts_with("p") ? "events.cbor" : "events.cbor.zst"),
               true);
    EXPECT_EQ(imported.stored.metadata.imported_format, format);
    EXPECT_EQ(imported.stored.metadata.session_id, kId) << "from the events";
    return CountOf<event::Mark>(imported);
  };
  EXPECT_EQ(count(raw, "plain", "Rust smeltr, plain"), 100U);
  EXPECT_EQ(count(Zstd(raw), "stream", "Rust smeltr, stream"), 100U);
  EXPECT_EQ(count(Chunked({Marks(0, 40), Marks(40, 100)}, true), "chunked", "Rust smeltr, chunked"), 100U);
}

TEST_F(ImportV1Test, MetadataIsTakenOver) {
  const ImportedSession imported = Import(MakeSession(Zstd(Marks(0, 3))));
  EXPECT_FALSE(imported.lossy);
  EXPECT_TRUE(imported.notes.empty());
  const auto metadata = ReadMetadata(imported.stored.directory);
  ASSERT_TRUE(metadata.has_value());
  EXPECT_EQ(metadata->session_id, kId);
  EXPECT_EQ(metadata->name, "baseline");
  EXPECT_EQ(metadata->kind, SessionKind::kScoped);
  EXPECT_EQ(metadata->argv, (std::vector<std::string>{"python", "infer.py"}));
  EXPECT_EQ(metadata->root_pid, 4711U);
  EXPECT_EQ(metadata->host, "mac.local");
  EXPECT_EQ(metadata->exit_code, 0);
  EXPECT_EQ(metadata->end_reason, "exit");
  EXPECT_EQ(metadata->started_rfc3339, "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(metadata->ended_rfc3339, "2023-11-14T22:13:30.000Z");
  EXPECT_FALSE(metadata->imported_rfc3339.empty());
  EXPECT_EQ(imported.stored.directory.filename(), "2023-11-14-221320-1a2b3c4d");
}

// --- events ---

// Every kind of the earlier smeltr is one that we know.
TEST_F(ImportV1Test, KnowsEveryKind) {
  for (const std::string_view kind : {"Mark",
                                      "SessionStarted",
                                      "SessionEnded",
                                      "VmSample",
                                      "ProcTop",
                                      "ProcFootprint",
                                      "ThermalState",
                                      "IoReportSample",
                                      "OsLogLine",
                                      "MachException",
                                      "CrashReportEmitted",
                                      "JetsamKill",
                                      "MetalCbCommitted",
                                      "MetalCbScheduled",
                                      "MetalCbCompleted",
                                      "MetalCbWarning",
                                      "MetalCbOps",
                                      "MetalDeviceMemSample",
                                      "MetalHeapAlloc",
                                      "MetalHeapFree",
                                      "MetalBufferAlloc",
                                      "MetalBufferFree",
                                      "MetalTextureAlloc",
                                      "MetalTextureFree",
                                      "MetalHookDropped",
                                      "MetalHookSkipped",
                                      "MlxEvalEntered",
                                      "MlxEvalReturned",
                                      "MlxMemoryPoll",
                                      "MlxArrayAlive",
                                      "MlxArrayFreed",
                                      "MlxSnapshot",
                                      "MlxPanicTriggered",
                                      "PythonSidecarHello",
                                      "ModuleEntered",
                                      "ModuleReturned",
                                      "ModelLoad",
                                      "ModelUnload",
                                      "PostMortemFlushed",
                                      "ProbeHealth"}) {
    EXPECT_TRUE(event::ParseKindName(kind).has_value()) << kind;
  }
}

TEST_F(ImportV1Test, FieldsUnderTheirOldNames) {
  const ImportedSession imported = ImportEvents({
      Event(1, "ProcFootprint",
            {{"pid", 99},
             {"name", "worker"},
             {"phys_footprint_bytes", 1000},
             {"lifetime_max_phys_footprint_bytes", 2000},
             {"is_traced_root", true}},
            "Proc"),
      Event(2, "VmSample",
            {{"wired_bytes", 1},
             {"active", 2},
             {"compressed", 3},
             {"swap_used", 4},
             {"page_outs_per_sec", 0.5}},
            "Vm"),
      Event(3, "ModuleEntered",
            {{"module_call_id", 5},
             {"module_def_id", 6},
             {"qualname", "decode"},
             {"class_name", "Scope"},
             {"parent_call_id", nullptr},
             {"depth", 0},
             {"fields", {{"step", 3}, {"warm", false}, {"rate", 0.25}, {"who", "me"}}}},
            "PythonSidecar"),
      Event(4, "MachException", {{"target_pid", 4711}, {"exception_type", 1}, {"codes", {-1, 258}}},
            "MachExc"),
      Event(5, "MetalDeviceMemSample",
            {{"allocated_bytes", 7}, {"recommended_max_bytes", 8}, {"at_event", "scope_enter"}}),
      Event(6, "MetalHookSkipped", {{"reason", "sampling backoff"}}),
      Event(7, "ProcTop",
            {{"top", {{{"pid", 1}, {"name", "init"}, {"cpu_pct", 12.5}}}}, {"flagged", {"spindump"}}},
            "Proc"),
      Event(8, "ModelLoad",
            {{"path", "/m"},
             {"size_bytes", 10},
             {"t_start_ns", 900},
             {"t_end_ns", 1'900},
             {"sha8", "0123abcd"}},
            "PythonSidecar"),
  });
  EXPECT_TRUE(imported.notes.empty()) << imported.notes[0];
  ForEachOf<event::ProcFootprint>(imported,
                                  [](const event::Envelope& envelope, const event::ProcFootprint& e) {
                                    EXPECT_EQ(envelope.pid, 4711U);
                                    EXPECT_EQ(envelope.ts_ns, kStartNs + 1'000'000);
                                    EXPECT_EQ(e.target_pid, 99U);
                                    EXPECT_EQ(e.process_name.view, "worker");
                                    EXPECT_TRUE(e.is_traced_root);
                                  });
  ForEachOf<event::VmSample>(imported, [](const event::Envelope&, const event::VmSample& e) {
    EXPECT_EQ(e.wired_bytes + e.active_bytes * 10 + e.compressed_bytes * 100 + e.swap_used_bytes * 1000,
              4321U);
    EXPECT_EQ(e.page_outs_per_sec, 0.5);
  });
  ForEachOf<event::ModuleEntered>(imported, [](const event::Envelope&, const event::ModuleEntered& e) {
    EXPECT_EQ(event::Raw(e.module_call_id), 5U);
    ASSERT_EQ(e.fields.size(), 4U);
    std::map<std::string, event::AttributeType> types;
    for (const event::Attribute& field : e.fields) types[std::string(field.key.view)] = field.type;
    using event::AttributeType;
    EXPECT_EQ(types, (std::map<std::string, AttributeType>{{"rate", AttributeType::kFloat},
                                                           {"step", AttributeType::kInt},
                                                           {"warm", AttributeType::kBool},
                                                           {"who", AttributeType::kString}}));
  });
  ForEachOf<event::MachException>(imported, [](const event::Envelope&, const event::MachException& e) {
    ASSERT_EQ(e.codes.size(), 2U);
    EXPECT_EQ(e.codes[0], -1);
  });
  ForEachOf<event::DeviceMemSample>(imported,
                                    [](const event::Envelope& envelope, const event::DeviceMemSample& e) {
                                      EXPECT_EQ(envelope.api, event::Api::kMetal);
                                      EXPECT_EQ(e.at_event, event::MemSampleAt::kScopeEnter);
                                    });
  ForEachOf<event::HookSkipped>(imported, [](const event::Envelope&, const event::HookSkipped& e) {
    EXPECT_EQ(e.detail.view, "sampling backoff");
    EXPECT_EQ(e.count, 1U);
  });
  ForEachOf<event::ProcTop>(imported, [](const event::Envelope&, const event::ProcTop& e) {
    ASSERT_EQ(e.top.size(), 1U);
    EXPECT_EQ(e.top[0].cpu_pct, 12.5);
  });
  // Only its length is of use; its end is when it was told.
  ForEachOf<event::ModelLoad>(imported, [](const event::Envelope& envelope, const event::ModelLoad& e) {
    EXPECT_EQ(e.t_end_ns, envelope.ts_ns);
    EXPECT_EQ(e.t_end_ns - e.t_start_ns, 1'000U);
  });
}

json Committed(uint64_t ms, uint64_t cb) {
  return Event(ms, "MetalCbCommitted",
               {{"cb_id", cb}, {"queue_id", 0xBEEF}, {"queue_depth", 1}, {"label", nullptr}});
}
json Completed(uint64_t ms, uint64_t cb, json more = json::object()) {
  more.update({{"cb_id", cb}, {"queue_id", 0xBEEF}, {"in_flight_ns", 3'000'000}});
  if (!more.contains("status")) more["status"] = "Completed";
  return Event(ms, "MetalCbCompleted", more);
}
json Ops(uint64_t ms, uint64_t cb, uint64_t gpu_ns) {
  return Event(ms, "MetalCbOps",
               {{"cb_id", cb},
                {"ops", {{{"name", "K_1_1x1x1"}, {"symbol", "gemm"}, {"gpu_ns", gpu_ns}, {"count", 2}}}}});
}

// Command buffers live at addresses that are used again; their GPU time is that of their ops.
TEST_F(ImportV1Test, CommandBuffersOfReusedAddresses) {
  const ImportedSession imported =
      ImportEvents({Committed(1, 0xA0), Completed(10, 0xA0), Ops(10, 0xA0, 2'000'000), Committed(11, 0xA0),
                    Committed(12, 0xB0), Completed(20, 0xA0), Ops(20, 0xA0, 1'000'000), Completed(20, 0xB0),
                    Ops(20, 0xB0, 4'000'000), Committed(30, 0xA0),
                    Completed(31, 0xA0, {{"status", "Error"}, {"error_code", 2}, {"error_domain", "MTL"}})});
  std::map<uint64_t, event::CbCompleted> completed;
  ForEachOf<event::CbCompleted>(imported, [&](const event::Envelope&, const event::CbCompleted& e) {
    completed[event::Raw(e.cb_id)] = e;
  });
  ASSERT_EQ(completed.size(), 4U) << "an id for each life";
  std::vector<event::CbCompleted> in_order;
  for (const auto& [id, one] : completed) in_order.push_back(one);
  EXPECT_EQ(in_order[0].gpu_end_ns - in_order[0].gpu_start_ns, 2'000'000U);
  EXPECT_EQ(in_order[0].gpu_end_ns, kStartNs + 10'000'000);
  // Seen done at the same moment, they still had their time one after the other.
  EXPECT_EQ(in_order[1].gpu_end_ns - in_order[1].gpu_start_ns, 1'000'000U);
  EXPECT_EQ(in_order[2].gpu_end_ns - in_order[2].gpu_start_ns, 4'000'000U);
  EXPECT_GE(in_order[2].gpu_start_ns, in_order[1].gpu_end_ns);
  EXPECT_EQ(in_order[3].status, event::CbStatus::kError);
  EXPECT_EQ(in_order[3].error_code, 2);
  EXPECT_EQ(in_order[3].time_source, event::TimeSource::kHost);
  size_t queues = 0;
  ForEachOf<event::QueueInfo>(imported, [&](const event::Envelope&, const event::QueueInfo& e) {
    ++queues;
    EXPECT_EQ(e.label.view, "0xbeef");
  });
  EXPECT_EQ(queues, 1U);
  ForEachOf<event::CbOps>(imported, [&](const event::Envelope&, const event::CbOps& e) {
    EXPECT_TRUE(completed.contains(event::Raw(e.cb_id)));
    EXPECT_EQ(e.ops[0].precision, event::Precision::kGroup);
  });
}

TEST_F(ImportV1Test, UnknownKindsAndFieldsAreKept) {
  const ImportedSession imported =
      ImportEvents({Event(1, "FutureThing", {{"x", 1}}), Event(2, "FutureThing", {{"x", 2}}),
                    Event(3, "Mark", {{"label", "m"}, {"mood", "good"}}, "Mark")});
  EXPECT_EQ(imported.opaque_count, 3U);
  EXPECT_TRUE(Noted(imported, "2 events of the unknown kind FutureThing, kept unread as Kind#60000"))
      << imported.notes[0];
  EXPECT_TRUE(Noted(imported, "unknown field Mark.mood"));
  EXPECT_EQ(CountOf<event::Mark>(imported), 1U);
  const auto reader = Reader::Open(imported.stored.directory / kEventsFile);
  ASSERT_TRUE(reader.has_value());
  size_t readable = 0;
  reader->ForEach({event::Kind::kUnknown}, [&](const event::Event& event) {
    const auto& opaque = std::get<event::Opaque>(event.payload);
    const std::string bytes(reinterpret_cast<const char*>(opaque.bytes.data()), opaque.bytes.size());
    const json payload = json::from_cbor(bytes, true, false);
    readable += payload.contains("kind") ? 1 : 0;
  });
  EXPECT_EQ(readable, 3U);
}

// --- damage ---

TEST_F(ImportV1Test, TornStream) {
  const std::string whole = Zstd(Marks(0, 20000));
  const ImportedSession imported = Import(MakeSession(std::string_view(whole).substr(0, whole.size() / 2)));
  EXPECT_TRUE(imported.lossy);
  EXPECT_TRUE(Noted(imported, "cut off"));
  const size_t marks = CountOf<event::Mark>(imported);
  EXPECT_GT(marks, 0U);
  EXPECT_LT(marks, 20000U);
}

TEST_F(ImportV1Test, ADamagedChunkCostsItself) {
  const std::vector<std::string> chunks = {Marks(0, 50), Marks(50, 100), Marks(100, 150)};
  std::string file = Chunked(chunks, true);
  const size_t second = 4 + 4 + Zstd(chunks[0]).size();
  file.replace(second + 4 + 5, 40, 40, '\xFF');
  const ImportedSession imported = Import(MakeSession(file));
  EXPECT_TRUE(imported.lossy);
  EXPECT_TRUE(Noted(imported, "from byte " + std::to_string(second + 4))) << imported.notes[0];
  EXPECT_GE(CountOf<event::Mark>(imported), 100U);
  EXPECT_LT(CountOf<event::Mark>(imported), 150U);
}

TEST_F(ImportV1Test, WithoutAFooterNothingIsLost) {
  const ImportedSession imported = Import(MakeSession(Chunked({Marks(0, 50), Marks(50, 60)}, false)));
  EXPECT_FALSE(imported.lossy);
  EXPECT_TRUE(Noted(imported, "never closed"));
  EXPECT_EQ(CountOf<event::Mark>(imported), 60U);
}

TEST_F(ImportV1Test, EveryCutOfAChunkedFileIsRead) {
  const std::string file = Chunked({Marks(0, 4), Marks(4, 8)}, true);
  size_t last = 0;
  for (size_t size = 4; size <= file.size(); size += 3) {
    TemporaryDirectory scratch;
    testing::WriteText(scratch.path() / "events.cbor.zst", std::string_view(file).substr(0, size));
    ImportNotes notes;
    size_t events = 0;
    const auto read = ReadV1Stream(scratch.path() / "events.cbor.zst", {.notes = &notes}, [&](auto) {
      ++events;
      return V1Visit::kGo;
    });
    ASSERT_TRUE(read.has_value());
    EXPECT_GE(events, last);
    last = events;
  }
  EXPECT_EQ(last, 8U);
}

TEST_F(ImportV1Test, EventsThatMakeNoSense) {
  const std::string raw =
      Marks(0, 2) + Frame({{"no", "payload"}}) + Little(uint32_t{3}) + "\xFF\xFF\xFF" + Marks(2, 4);
  const ImportedSession imported = Import(MakeSession(Zstd(raw)));
  EXPECT_EQ(CountOf<event::Mark>(imported), 4U);
  EXPECT_TRUE(Noted(imported, "2 events made no sense, the first at about byte 0"));
}

TEST_F(ImportV1Test, GarbageMetadata) {
  const ImportedSession imported = Import(MakeSession(Zstd(Marks(0, 2)), "\x01 = [[[not toml"));
  EXPECT_TRUE(Noted(imported, "metadata.toml is damaged (line 1)"));
  EXPECT_EQ(imported.stored.metadata.session_id, kId);
  EXPECT_EQ(imported.stored.metadata.started_rfc3339, "2023-11-14T22:13:20Z");
  EXPECT_EQ(imported.stored.metadata.end_reason, "recovered");
}

TEST_F(ImportV1Test, ANewerVersionIsRefused) {
  const auto imported = ImportV1Session(MakeSession("SMz\x02xxxx"), {.sessions_directory = sessions()});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error().code(), ErrorCode::kUnsupported);
}

// --- places ---

TEST_F(ImportV1Test, TheSameSessionIsKnownAgain) {
  const auto directory = MakeSession(Zstd(Marks(0, 2)));
  EXPECT_EQ(Import(directory).outcome, ImportOutcome::kImported);
  EXPECT_EQ(Import(directory).outcome, ImportOutcome::kAlreadyThere);
  EXPECT_EQ(Import(directory, true).outcome, ImportOutcome::kReplaced);
  EXPECT_EQ(ListSessions(sessions()).value_or(std::vector<StoredSession>{}).size(), 1U);
}

TEST_F(ImportV1Test, ADirectoryOfMany) {
  MakeSession(Zstd(Marks(0, 2)));
  MakeSession(Zstd(Marks(0, 2)), "", "post-mortem-crash-report-2023-11-15-000000-ffffffff");
  std::filesystem::create_directories(directory_.path() / "old" / "2026-01-01-000000-00000000");
  testing::WriteText(directory_.path() / "old" / "2026-01-01-000000-00000000" / "events.smlt", "");
  const auto found = FindV1Sessions(directory_.path() / "old");
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->directories.size(), 2U);
  EXPECT_EQ(found->own_count, 1U);
  const ImportedSession dump = Import(found->directories[1]);
  EXPECT_EQ(dump.stored.metadata.kind, SessionKind::kPostMortem);
  EXPECT_NE(dump.stored.metadata.session_id, kId) << "its events are those of another session";
  EXPECT_EQ(Import(found->directories[0]).outcome, ImportOutcome::kImported);
}

// After an upgrade the earlier sessions lie where ours do.
TEST_F(ImportV1Test, InPlace) {
  std::filesystem::create_directories(sessions());
  std::filesystem::permissions(sessions(), std::filesystem::perms::owner_all);
  const auto old = MakeSession(Zstd(Marks(0, 2)));
  const auto place = sessions() / old.filename();
  std::filesystem::rename(old, place);
  const ImportedSession imported = Import(place);
  EXPECT_EQ(imported.outcome, ImportOutcome::kImported);
  EXPECT_EQ(imported.stored.directory, place);
  EXPECT_EQ(CountOf<event::Mark>(imported), 2U);
  EXPECT_TRUE(std::filesystem::exists(place / "events.cbor.zst"));
  EXPECT_TRUE(std::filesystem::exists(place / "metadata.v1.toml"));
  EXPECT_EQ(Import(place).outcome, ImportOutcome::kAlreadyThere);
  EXPECT_EQ(Import(place, true).outcome, ImportOutcome::kReplaced);
  EXPECT_EQ(ListSessions(sessions()).value_or(std::vector<StoredSession>{}).size(), 1U);
}

}  // namespace
}  // namespace smeltr::session
