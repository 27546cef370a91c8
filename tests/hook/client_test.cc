// smeltr.h with the built hook library: from C, from C++, recorded and not.
#include <gtest/gtest.h>
#include <smeltr/smeltr.h>

#include <atomic>
#include <bit>
#include <string>
#include <thread>
#include <vector>

#include "client_calls.h"
#include "fake/recorded_child.h"

namespace smeltr {
namespace {

using fake::InChild;
using fake::ScratchDirectory;

fake::EnvironmentVariables Recording(const ScratchDirectory& directory) {
  return {{"SMELTR_HOOK_LIBRARY", SMELTR_TEST_HOOK},
          {"SMELTR_RING_DIR", directory.path()},
          {"SMELTR_RING_BLOCKS", "16"}};
}

std::string FieldText(const event::Attribute& field) {
  std::string text(field.key.view);
  text += '=';
  switch (field.type) {
    case event::AttributeType::kBool:
      return text + (field.bits != 0 ? "true" : "false");
    case event::AttributeType::kInt:
      return text + std::to_string(static_cast<int64_t>(field.bits));
    case event::AttributeType::kFloat:
      return text + std::to_string(std::bit_cast<double>(field.bits));
    case event::AttributeType::kString:
      return text + std::string(field.text.view);
  }
  return text + "?";
}

// What the program said, as lines. Empties the ring.
std::vector<std::string> Said(const ScratchDirectory& directory) {
  std::vector<std::string> lines;
  fake::ReadRing(directory.Rings().at(0), [&](const event::Event& event) {
    std::string line;
    event::List<event::Attribute> fields;
    if (const auto* entered = std::get_if<event::ModuleEntered>(&event.payload)) {
      line = std::string("+").append(entered->qualname.view);
      fields = entered->fields;
    } else if (std::holds_alternative<event::ModuleReturned>(event.payload)) {
      line = "-";
    } else if (const auto* mark = std::get_if<event::Mark>(&event.payload)) {
      line = std::string("!").append(mark->label.view);
      fields = mark->fields;
    }
    for (const event::Attribute& field : fields) line += " " + FieldText(field);
    if (!line.empty()) lines.push_back(line);
  });
  return lines;
}

const std::vector<std::string> kDecodeStep{"+step step=7 warm=true temperature=0.500000 phase=decode",
                                           "+attention", "-", "!token step=7", "-"};

TEST(Client, CProgramsAreRecorded) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    c_decode_step(7);
    return c_recording() == 1;
  }));
  EXPECT_EQ(Said(directory), kDecodeStep);
}

TEST(Client, BothLanguagesShareOneClient) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    const Scope scope("C++");
    const smeltr_field field = smeltr_int("n", INT64_MIN);
    const Scope with_fields("fields", &field, 1);
    c_decode_step(7);
    return smeltr_recording() == 1;
  }));
  std::vector<std::string> expected{"+C++", "+fields n=-9223372036854775808"};
  expected.insert(expected.end(), kDecodeStep.begin(), kDecodeStep.end());
  expected.insert(expected.end(), {"-", "-"});
  EXPECT_EQ(Said(directory), expected);
}

TEST(Client, WithoutARecordingNothingHappens) {
  const auto unrecorded = [] {
    c_decode_step(1);
    const Scope scope("x");
    return smeltr_recording() == 0 && c_recording() == 0;
  };
  EXPECT_TRUE(InChild({}, unrecorded));
  EXPECT_TRUE(InChild({{"SMELTR_HOOK_LIBRARY", ""}}, unrecorded));
  EXPECT_TRUE(InChild({{"SMELTR_HOOK_LIBRARY", "/nonexistent/libsmeltr_hook.so"}}, unrecorded));
  EXPECT_TRUE(InChild({{"SMELTR_HOOK_LIBRARY", "libc.so.6"}}, unrecorded)) << "not a hook";
  EXPECT_TRUE(InChild({{"SMELTR_HOOK_LIBRARY", SMELTR_TEST_HOOK}}, unrecorded)) << "no ring directory";
}

TEST(Client, OddArgumentsAreHarmless) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    c_odd_arguments();
    return true;
  }));
  const auto lines = Said(directory);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "!");
  EXPECT_EQ(lines[1], "!null fields");
  EXPECT_TRUE(lines[2].starts_with("!many = n=false n=2 n=3")) << lines[2];
  EXPECT_TRUE(lines[2].ends_with("n=31")) << lines[2];
}

TEST(Client, ThreadsThatCallFirstTogetherAllSpeak) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        go.wait(false);
        smeltr_mark("first");
      });
    }
    go = true;
    go.notify_all();
    for (auto& thread : threads) thread.join();
    return true;
  }));
  ASSERT_EQ(directory.Rings().size(), 1U);
  EXPECT_EQ(Said(directory), std::vector<std::string>(8, "!first"));
}

TEST(Client, AForkedChildSpeaksInItsOwnRing) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    smeltr_mark("parent");
    return InChild({}, [] {
      smeltr_mark("child");
      return smeltr_recording() == 1;
    });
  }));
  std::vector<std::string> labels;
  for (const std::string& path : directory.Rings()) {
    const auto found =
        fake::EventsOf<event::Mark>(path, [](const auto& m) { return std::string(m.label.view); });
    labels.insert(labels.end(), found.begin(), found.end());
  }
  std::ranges::sort(labels);
  EXPECT_EQ(labels, (std::vector<std::string>{"child", "parent"}));
}

}  // namespace
}  // namespace smeltr
