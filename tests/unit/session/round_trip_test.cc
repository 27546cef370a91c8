#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "event/names.h"
#include "session/reader.h"
#include "session/writer.h"
#include "unit/session/random_events.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::Fingerprint;
using testing::RandomEvents;
using testing::TemporaryDirectory;

constexpr size_t kKinds = std::variant_size_v<event::Payload>;

// By seq; each exactly once.
std::map<uint64_t, std::string> ReadAll(const Reader& reader) {
  std::map<uint64_t, std::string> prints;
  reader.ForEach({}, [&](const event::Event& event) {
    EXPECT_TRUE(prints.emplace(event.envelope.seq, Fingerprint::Of(event)).second);
  });
  return prints;
}

std::map<uint64_t, std::string> WriteRandom(Writer& writer, RandomEvents& random, size_t count) {
  std::map<uint64_t, std::string> prints;
  for (size_t i = 0; i < count; ++i) {
    event::Event event = i < kKinds ? random.Make(i) : random.Make();
    writer.Append(event);
    event.envelope.seq = i + 1;
    prints.emplace(event.envelope.seq, Fingerprint::Of(event));
  }
  return prints;
}

TEST(RoundTrip, EventsOfEveryKindComeBackAsTheyWere) {
  for (const size_t chunk_raw_bytes : {size_t{1}, size_t{2000}, size_t{100'000}, size_t{1} << 20}) {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "events.smlt";
    auto writer = Writer::Create(file, {.chunk_raw_bytes = chunk_raw_bytes});
    ASSERT_TRUE(writer.has_value());
    RandomEvents random(chunk_raw_bytes);
    const auto written = WriteRandom(*writer, random, 3000);
    ASSERT_TRUE(writer->Close().has_value());
    EXPECT_EQ(writer->stats().file_bytes, std::filesystem::file_size(file));

    auto reader = Reader::Open(file);
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    EXPECT_FALSE(reader->damage().no_footer);
    EXPECT_EQ(reader->summary().event_count, 3000U);
    EXPECT_TRUE(ReadAll(*reader) == written) << "chunk_raw_bytes " << chunk_raw_bytes;
    EXPECT_FALSE(reader->damage().any());
  }
}

TEST(RoundTrip, TypedReadingGivesTheSameEvents) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  auto writer = Writer::Create(file, {.chunk_raw_bytes = 20'000});
  ASSERT_TRUE(writer.has_value());
  RandomEvents random(5);
  auto expected = WriteRandom(*writer, random, 4000);
  ASSERT_TRUE(writer->Close().has_value());
  const auto reader = Reader::Open(file);
  ASSERT_TRUE(reader.has_value());
  std::map<uint64_t, std::string> typed;
  const auto keep = [&](const event::Envelope& envelope, const auto& fields) {
    EXPECT_TRUE(typed.emplace(envelope.seq, Fingerprint::Of({envelope, fields})).second);
  };
#define KIND(number, name, source, naming) reader->ForEachOf<event::name>(keep);
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
  uint64_t opaque_count = 0;
  reader->ForEach({event::Kind::kUnknown}, [&](const event::Event& event) {
    EXPECT_TRUE(std::holds_alternative<event::Opaque>(event.payload));
    EXPECT_TRUE(typed.emplace(event.envelope.seq, Fingerprint::Of(event)).second);
    ++opaque_count;
  });
  EXPECT_TRUE(typed == expected);
  EXPECT_GT(opaque_count, 0U);
  EXPECT_EQ(reader->damage().unknown_kind_events, opaque_count);
}

TEST(RoundTrip, SummaryCountsByKindAndInterface) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  auto writer = Writer::Create(file, {.chunk_raw_bytes = 300});
  ASSERT_TRUE(writer.has_value());
  for (uint64_t i = 0; i < 100; ++i) {
    const event::Api api = i % 4 == 0 ? event::Api::kCuda : event::Api::kVulkan;
    writer->Append({{.ts_ns = 5'000 - i, .pid = 1, .api = api}, event::CbScheduled{}});
    writer->Append({{.ts_ns = 9'000 + i, .pid = 1}, event::Mark{.label = "m"}});
  }
  EXPECT_EQ(
      writer->stats().counts_by_kind,
      (std::map<std::string, uint64_t>{{"CudaCbScheduled", 25}, {"Mark", 100}, {"VulkanCbScheduled", 75}}));
  ASSERT_TRUE(writer->Close().has_value());
  const auto reader = Reader::Open(file);
  ASSERT_TRUE(reader.has_value());
  const Summary& summary = reader->summary();
  EXPECT_EQ(summary.event_count, 200U);
  EXPECT_EQ(summary.min_ts_ns, 4'901U);
  EXPECT_EQ(summary.max_ts_ns, 9'099U);
  ASSERT_EQ(summary.counts.size(), 3U);
  EXPECT_EQ(summary.counts[0].kind, event::Kind::kMark);
  EXPECT_EQ(summary.counts[0].count, 100U);
  EXPECT_EQ(summary.counts[1].api, event::Api::kCuda);
  EXPECT_EQ(summary.counts[1].count, 25U);
  EXPECT_EQ(summary.counts[2].api, event::Api::kVulkan);
  EXPECT_EQ(summary.counts[2].count, 75U);
}

TEST(RoundTrip, AnEmptySessionIsReadable) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  auto writer = Writer::Create(file, {});
  ASSERT_TRUE(writer.has_value());
  EXPECT_EQ(Reader::Open(file)->summary().event_count, 0U);
  ASSERT_TRUE(writer->Close().has_value());
  const auto reader = Reader::Open(file);
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->summary().event_count, 0U);
  EXPECT_EQ(reader->summary().min_ts_ns, 0U);
  EXPECT_FALSE(reader->damage().any());
}

TEST(RoundTrip, ReadersFollowAWriter) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  auto writer = Writer::Create(file, {});
  ASSERT_TRUE(writer.has_value());
  RandomEvents random(3);
  for (uint64_t flushed = 1; flushed <= 5; ++flushed) {
    for (int i = 0; i < 50; ++i) writer->Append(random.Make());
    ASSERT_TRUE(writer->Flush().has_value());
    const auto reader = Reader::Open(file);
    ASSERT_TRUE(reader.has_value());
    EXPECT_EQ(ReadAll(*reader).size(), flushed * 50);
    EXPECT_TRUE(reader->damage().no_footer);
    EXPECT_FALSE(reader->damage().any());
  }
}

TEST(RoundTrip, FlushIfDueSealsByAge) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  auto writer = Writer::Create(file, {.flush_after_ns = 1000});
  ASSERT_TRUE(writer.has_value());
  const auto on_disk = [&] { return Reader::Open(file)->summary().event_count; };
  writer->FlushIfDue(10'000);
  writer->Append({{.ts_ns = 1}, event::Mark{}});
  writer->FlushIfDue(10'999);
  EXPECT_EQ(on_disk(), 0U);
  writer->FlushIfDue(11'000);
  EXPECT_EQ(on_disk(), 1U);
  writer->FlushIfDue(90'000);
  writer->Append({{.ts_ns = 2}, event::Mark{}});
  writer->FlushIfDue(90'500);
  EXPECT_EQ(on_disk(), 1U);
  writer->FlushIfDue(91'000);
  EXPECT_EQ(on_disk(), 2U);
}

TEST(RoundTrip, ATornFileIsNeverContinued) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  ASSERT_TRUE(Writer::Create(file, {}).has_value());
  const auto again = Writer::Create(file, {});
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), ErrorCode::kAlreadyExists);
}

TEST(RoundTrip, LongTextsAndListsAreCut) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  auto writer = Writer::Create(file, {});
  ASSERT_TRUE(writer.has_value());
  const std::string text(10'000, 'x');
  const std::vector<uint64_t> frames(kMaxListElements + 10, 7);
  writer->Append({{}, event::Mark{.label = std::string_view(text)}});
  for (int i = 0; i < 6; ++i)
    writer->Append({{}, event::SignalCaught{.signal = 11, .native_frames = frames}});
  ASSERT_TRUE(writer->Close().has_value());
  const auto reader = Reader::Open(file);
  reader->ForEachOf<event::Mark>([](const event::Envelope&, const event::Mark& mark) {
    EXPECT_EQ(mark.label.view, std::string(4096, 'x'));
  });
  int signals = 0;
  reader->ForEachOf<event::SignalCaught>([&](const event::Envelope&, const event::SignalCaught& caught) {
    EXPECT_EQ(caught.native_frames.size(), kMaxListElements);
    EXPECT_EQ(caught.native_frames.back(), 7U);
    ++signals;
  });
  EXPECT_EQ(signals, 6);
  EXPECT_FALSE(reader->damage().any());
}

}  // namespace
}  // namespace smeltr::session
