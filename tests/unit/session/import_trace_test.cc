// The samples in data/ were written by torch.profiler and jax.profiler on an H200, and then cut down.
#include "session/import_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/clock.h"
#include "session/identity.h"
#include "unit/session/import_helpers.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::CountOf;
using testing::ForEachOf;
using testing::Noted;
using testing::TemporaryDirectory;

class ImportTraceTest : public ::testing::Test {
 protected:
  Result<ImportedSession> ImportFile(const std::filesystem::path& file, bool force = false) {
    return ImportTrace(
        file, "",
        {.sessions_directory = directory_.path() / "sessions", .force = force, .smeltr_version = "test"});
  }
  ImportedSession Sample(const std::string& name) {
    const auto imported = ImportFile(std::filesystem::path(SMELTR_IMPORT_SAMPLES) / name);
    EXPECT_TRUE(imported.has_value()) << imported.error().text();
    return imported.value_or(ImportedSession{});
  }
  ImportedSession Text(std::string_view text) {
    testing::WriteText(directory_.path() / "trace.json", text);
    const auto imported = ImportFile(directory_.path() / "trace.json");
    EXPECT_TRUE(imported.has_value()) << imported.error().text();
    return imported.value_or(ImportedSession{});
  }
  std::string Refused(std::string_view text) {
    testing::WriteText(directory_.path() / "trace.json", text);
    const auto imported = ImportFile(directory_.path() / "trace.json");
    return imported.has_value() ? "imported" : std::string(imported.error().text());
  }
  // "qualname: symbol" of each CB with a scope, times how often.
  static std::map<std::string, int> KernelsByScope(const ImportedSession& imported) {
    std::map<uint64_t, std::string> scopes;
    ForEachOf<event::ModuleEntered>(imported, [&](const event::Envelope&, const event::ModuleEntered& e) {
      scopes[event::Raw(e.module_call_id)] = std::string(e.qualname.view);
    });
    std::map<uint64_t, std::string> scope_of_cb;
    ForEachOf<event::CbCommitted>(imported, [&](const event::Envelope&, const event::CbCommitted& e) {
      scope_of_cb[event::Raw(e.cb_id)] = scopes[event::Raw(e.scope_id)];
    });
    std::map<std::string, int> kernels;
    ForEachOf<event::CbOps>(imported, [&](const event::Envelope&, const event::CbOps& e) {
      ++kernels[scope_of_cb[event::Raw(e.cb_id)] + ": " + std::string(e.ops[0].symbol.view)];
    });
    return kernels;
  }
  static uint64_t GpuNs(const ImportedSession& imported) {
    uint64_t sum = 0;
    ForEachOf<event::CbOps>(imported, [&](const event::Envelope&, const event::CbOps& e) {
      for (const event::OpSample& op : e.ops) sum += op.gpu_ns;
    });
    return sum;
  }

  TemporaryDirectory directory_;
};

// The sums were worked out by hand from the files, in decimal.
TEST_F(ImportTraceTest, TorchTrainingStep) {
  const ImportedSession imported = Sample("torch_training_step.json");
  EXPECT_FALSE(imported.lossy);
  const Metadata& metadata = imported.stored.metadata;
  EXPECT_EQ(metadata.imported_format, "torch.profiler");
  EXPECT_EQ(metadata.name, "torch_training_step");
  EXPECT_EQ(metadata.kind, SessionKind::kScoped);
  EXPECT_EQ(metadata.argv, std::vector<std::string>{"python3"});
  // baseTimeNanoseconds plus the first event's time.
  EXPECT_TRUE(metadata.started_rfc3339.starts_with("2026-12-01T")) << metadata.started_rfc3339;
  EXPECT_EQ(GpuNs(imported), 68'095U);
  EXPECT_EQ(CountOf<event::CbCommitted>(imported), 23U);
  EXPECT_EQ(CountOf<event::CbCompleted>(imported), 23U);
  const auto kernels = KernelsByScope(imported);
  EXPECT_EQ(kernels.at("aten::copy_: Memcpy HtoD (Pageable -> Device)"), 2);
  EXPECT_EQ(kernels.at("aten::addmm: Memset (Device)"), 1);
  // Launched by the autograd thread, which has scopes of its own.
  size_t gemms = 0;
  size_t unscoped = 0;
  for (const auto& [kernel, count] : kernels) {
    unscoped += kernel.starts_with(": ") ? 1 : 0;
    gemms += kernel.starts_with("aten::mm: sm80_xmma_gemm") ? static_cast<size_t>(count) : 0;
  }
  EXPECT_EQ(gemms, 2U);
  EXPECT_EQ(unscoped, 0U);
}

TEST_F(ImportTraceTest, TorchDetails) {
  const ImportedSession imported = Sample("torch_training_step.json");
  size_t modules = 0;
  ForEachOf<event::ModuleEntered>(imported,
                                  [&](const event::Envelope& envelope, const event::ModuleEntered& e) {
                                    EXPECT_EQ(envelope.pid, 431U);
                                    if (e.class_name.view != "nn.Module") return;
                                    ++modules;
                                    EXPECT_EQ(e.origin, event::ScopeOrigin::kPython);
                                    EXPECT_FALSE(e.qualname.view.starts_with("nn.Module"));
                                    EXPECT_NE(e.parent_call_id, event::ScopeId{});
                                  });
  EXPECT_EQ(modules, 4U);
  EXPECT_EQ(CountOf<event::ModuleEntered>(imported), CountOf<event::ModuleReturned>(imported));
  ForEachOf<event::CbCompleted>(imported, [&](const event::Envelope& envelope, const event::CbCompleted& e) {
    EXPECT_EQ(envelope.ts_ns, e.gpu_end_ns);
    EXPECT_EQ(e.time_source, event::TimeSource::kGpu);
    EXPECT_GE(e.in_flight_ns, e.gpu_end_ns - e.gpu_start_ns);
  });
  size_t with_block = 0;
  size_t cutlass = 0;
  ForEachOf<event::CbOps>(imported, [&](const event::Envelope&, const event::CbOps& e) {
    with_block += e.ops[0].local_x != 0 ? 1 : 0;
    EXPECT_EQ(e.ops[0].precision, event::Precision::kOp);
    const bool named = e.ops[0].symbol.view.starts_with("void cutlass");
    cutlass += named && e.ops[0].name.view.starts_with("K_") ? 1 : 0;
  });
  EXPECT_EQ(with_block, 20U);
  EXPECT_EQ(cutlass, 2U);
  size_t devices = 0;
  ForEachOf<event::DeviceInfo>(imported, [&](const event::Envelope&, const event::DeviceInfo& e) {
    ++devices;
    EXPECT_EQ(e.device_name.view, "NVIDIA H200");
    EXPECT_EQ(e.driver.view, "CUDA driver 13.0");
  });
  EXPECT_EQ(devices, 1U);
  uint64_t last_ns = 0;
  uint64_t last_bytes = 0;
  ForEachOf<event::DeviceMemSample>(imported,
                                    [&](const event::Envelope& envelope, const event::DeviceMemSample& e) {
                                      EXPECT_EQ(e.recommended_max_bytes, 150109880320U);
                                      EXPECT_FALSE(e.own_accounting);
                                      if (envelope.ts_ns < last_ns) return;
                                      last_ns = envelope.ts_ns;
                                      last_bytes = e.allocated_bytes;
                                    });
  EXPECT_GT(last_bytes, 67'000'000U);
  EXPECT_GT(CountOf<event::BufferAlloc>(imported), 0U);
  EXPECT_TRUE(Noted(imported, "flow arrows"));
}

// All kernels of one graph launch have its correlation.
TEST_F(ImportTraceTest, TorchGraphReplay) {
  const ImportedSession imported = Sample("torch_graph_replay.json");
  EXPECT_EQ(GpuNs(imported), 4'832U);
  std::set<uint64_t> submissions;
  uint32_t deepest = 0;
  ForEachOf<event::CbCommitted>(imported, [&](const event::Envelope& envelope, const event::CbCommitted& e) {
    submissions.insert(e.submission);
    deepest = std::max(deepest, e.queue_depth);
    EXPECT_EQ(e.type, event::CbType::kGraph);
    EXPECT_EQ(envelope.tid, 431U);
  });
  EXPECT_EQ(submissions, std::set<uint64_t>{2446});
  EXPECT_EQ(deepest, 5U);
  const auto kernels = KernelsByScope(imported);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_TRUE(kernels.begin()->first.starts_with("replay: "));
}

// No categories, correlations as text, one duration with the noise of doubles.
TEST_F(ImportTraceTest, JaxSteps) {
  const ImportedSession imported = Sample("jax_steps.json");
  EXPECT_FALSE(imported.lossy);
  EXPECT_EQ(imported.stored.metadata.imported_format, "JAX profiler");
  EXPECT_EQ(GpuNs(imported), 28'128U);
  const auto kernels = KernelsByScope(imported);
  EXPECT_EQ(kernels.at("gemm_fusion_dot: gemm_fusion_dot"), 3);
  EXPECT_EQ(kernels.at("loop_reduce_fusion: loop_reduce_fusion"), 3);
  std::set<uint64_t> steps;
  ForEachOf<event::ModuleEntered>(imported, [&](const event::Envelope&, const event::ModuleEntered& e) {
    if (e.qualname.view == "train") steps.insert(e.fields[0].bits);
    EXPECT_FALSE(e.qualname.view.starts_with('$'));
  });
  EXPECT_EQ(steps, (std::set<uint64_t>{0, 1, 2}));
  ForEachOf<event::QueueInfo>(imported, [&](const event::Envelope&, const event::QueueInfo& e) {
    EXPECT_EQ(e.label.view, "stream 14");
  });
  ForEachOf<event::CbOps>(imported, [&](const event::Envelope&, const event::CbOps& e) {
    const bool gemm = e.ops[0].symbol.view == "gemm_fusion_dot";
    EXPECT_EQ(e.ops[0].name.view.ends_with("_128x1x1"), gemm);
  });
}

constexpr std::string_view kLaunch =
    R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":8,"ts":12.5,"dur":1,"args":{"correlation":5}})";
constexpr std::string_view kKernel =
    R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20.001,"dur":1.5,"args":{"correlation":5,"device":0,"stream":7}})";
constexpr std::string_view kScope =
    R"({"ph":"X","cat":"user_annotation","name":"s","pid":7,"tid":8,"ts":10,"dur":5})";

std::string Joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

TEST_F(ImportTraceTest, TheBareForm) {
  const ImportedSession imported = Text(Joined({"[", kKernel, ",", kLaunch, ",", kScope, "]"}));
  EXPECT_EQ(KernelsByScope(imported).at("s: k"), 1);
  EXPECT_EQ(GpuNs(imported), 1'500U);
  EXPECT_FALSE(imported.lossy);
}

// Damage costs the event that it is in, and its place is told.
TEST_F(ImportTraceTest, DamagedEvents) {
  const std::string damaged = R"({"ph":"X","cat":"kernel","name":"lost","args":{"a":[1,},"ts":5)";
  const std::string head = Joined({R"({"x":NaN,"traceEvents":[)", kScope, "\n"});
  const std::string text = Joined({head, damaged, ",\n", kLaunch, " ", kKernel, ",]}"});
  const ImportedSession imported = Text(text);
  EXPECT_EQ(KernelsByScope(imported).at("s: k"), 1);
  EXPECT_TRUE(imported.lossy);
  EXPECT_TRUE(Noted(imported, "from byte " + std::to_string(head.size()) + " on")) << imported.notes[0];
}

TEST_F(ImportTraceTest, CutOffAnywhere) {
  const std::string whole = Joined({R"({"traceEvents":[)", kScope, ",", kLaunch, ",", kKernel, "]}"});
  for (size_t size = whole.find(",{\"ph\":\"X\",\"cat\":\"cuda"); size + 1 < whole.size(); ++size) {
    TemporaryDirectory directory;
    testing::WriteText(directory.path() / "trace.json", whole.substr(0, size));
    const auto imported =
        ImportTrace(directory.path() / "trace.json", "", {.sessions_directory = directory.path() / "s"});
    ASSERT_TRUE(imported.has_value()) << size << imported.error().text();
    EXPECT_FALSE(imported->notes.empty()) << size;
    const auto inside = [&](std::string_view event) {
      const size_t begin = whole.find(event);
      return size > begin && size < begin + event.size();
    };
    const bool inside_event = inside(kLaunch) || inside(kKernel);
    EXPECT_EQ(imported->lossy, inside_event) << size << ": " << whole.substr(0, size);
  }
}

TEST_F(ImportTraceTest, StringsWithControlCharactersAndEscapes) {
  const ImportedSession imported = Text(
      "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\nb\\u0041\",\"pid\":7,\"tid\":8,\"ts\":1,\"dur\":1}]");
  size_t found = 0;
  ForEachOf<event::ModuleEntered>(imported, [&](const event::Envelope&, const event::ModuleEntered& e) {
    found += e.qualname.view == "a\nbA" ? 1 : 0;
  });
  EXPECT_EQ(found, 1U);
}

TEST_F(ImportTraceTest, BeginAndEndEvents) {
  const ImportedSession imported = Text(
      R"([{"ph":"B","cat":"x","name":"outer","pid":7,"tid":8,"ts":1},{"ph":"B","name":"inner","pid":7,"tid":8,"ts":2},)"
      R"({"ph":"E","pid":7,"tid":8,"ts":3},{"ph":"E","name":"outer","pid":7,"tid":8,"ts":9},)"
      R"({"ph":"B","name":"open","pid":7,"tid":8,"ts":10},{"ph":"i","name":"last","pid":7,"tid":8,"ts":20}])");
  std::map<uint64_t, std::string> names;
  std::map<std::string, uint64_t> lengths;
  std::map<uint64_t, uint64_t> begins;
  ForEachOf<event::ModuleEntered>(imported,
                                  [&](const event::Envelope& envelope, const event::ModuleEntered& e) {
                                    names[event::Raw(e.module_call_id)] = std::string(e.qualname.view);
                                    begins[event::Raw(e.module_call_id)] = envelope.ts_ns;
                                  });
  ForEachOf<event::ModuleReturned>(imported,
                                   [&](const event::Envelope& envelope, const event::ModuleReturned& e) {
                                     const uint64_t id = event::Raw(e.module_call_id);
                                     lengths[names[id]] = envelope.ts_ns - begins[id];
                                   });
  EXPECT_EQ(lengths, (std::map<std::string, uint64_t>{{"inner", 1000}, {"open", 10000}, {"outer", 8000}}));
}

TEST_F(ImportTraceTest, CountersAndInstantsBecomeMarks) {
  const ImportedSession imported =
      Text(R"([{"ph":"C","name":"queue","pid":7,"tid":8,"ts":1,"args":{"length":3,"share":0.5}},)"
           R"({"ph":"i","name":"hello","pid":7,"tid":8,"ts":2,"args":{"who":"me"}}])");
  std::map<std::string, size_t> fields;
  ForEachOf<event::Mark>(imported, [&](const event::Envelope&, const event::Mark& e) {
    fields[std::string(e.label.view)] = e.fields.size();
    EXPECT_EQ(e.fields[0].bits, e.label.view == "queue" ? 3U : 0U);
  });
  EXPECT_EQ(fields, (std::map<std::string, size_t>{{"hello", 1}, {"queue", 2}}));
}

TEST_F(ImportTraceTest, WorkWithoutItsLaunch) {
  const ImportedSession imported = Text(Joined({"[", kKernel, "]"}));
  EXPECT_EQ(CountOf<event::CbCommitted>(imported), 0U);
  EXPECT_EQ(CountOf<event::CbCompleted>(imported), 1U);
  EXPECT_TRUE(Noted(imported, "without a launch"));
}

// Clocks of host and GPU may be apart: work that seems to end before its launch still finds it.
TEST_F(ImportTraceTest, WorkBeforeItsLaunch) {
  std::string early(kKernel);
  early.replace(early.find("20.001"), 6, "2.0");
  const ImportedSession imported = Text(Joined({"[", early, ",", kScope, ",", kLaunch, "]"}));
  EXPECT_EQ(KernelsByScope(imported).at("s: k"), 1);
}

TEST_F(ImportTraceTest, TheSameContentIsKnownAgain) {
  const std::string text = Joined({"[", kScope, "]"});
  const ImportedSession first = Text(text);
  EXPECT_EQ(first.outcome, ImportOutcome::kImported);
  testing::WriteText(directory_.path() / "other.json", text);
  const auto again = ImportFile(directory_.path() / "other.json");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->outcome, ImportOutcome::kAlreadyThere);
  EXPECT_EQ(again->stored.directory, first.stored.directory);
  const auto forced = ImportFile(directory_.path() / "other.json", true);
  ASSERT_TRUE(forced.has_value());
  EXPECT_EQ(forced->outcome, ImportOutcome::kReplaced);
  EXPECT_EQ(forced->stored.metadata.session_id, first.stored.metadata.session_id);
  const auto sessions = ListSessions(directory_.path() / "sessions");
  ASSERT_TRUE(sessions.has_value());
  EXPECT_EQ(sessions->size(), 1U);
}

TEST_F(ImportTraceTest, RefusesWhatIsNoTrace) {
  EXPECT_NE(Refused("hello").find("no JSON"), std::string::npos);
  EXPECT_NE(Refused("").find("no JSON"), std::string::npos);
  EXPECT_NE(Refused("\x1F\x8B\x08").find("gunzip"), std::string::npos);
  EXPECT_NE(Refused("{\"a\":1}").find("no trace events"), std::string::npos);
  // Nothing half-made stays.
  const auto sessions = directory_.path() / "sessions";
  EXPECT_TRUE(!std::filesystem::exists(sessions) || std::filesystem::is_empty(sessions));
}

}  // namespace
}  // namespace smeltr::session
