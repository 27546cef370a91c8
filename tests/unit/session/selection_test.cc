// Reading a part of a session: the right events come, and nothing else is touched.
#include <gtest/gtest.h>

#include <map>

#include "session/reader.h"
#include "session/writer.h"
#include "unit/session/random_events.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::Fingerprint;
using testing::RandomEvents;
using testing::TemporaryDirectory;

// Ten chunks: chunk i holds 40 commits and 40 completions of 40 CBs from i * 1000 ns on, one a 10 ns, by the
// pids 100 + i and 200 in turns, on queue 1 in even chunks and on queues 2 and 3 in turns in odd ones; and
// one mark.
class SelectionTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kChunks = 10;
  static constexpr uint64_t kCbs = 40;

  void SetUp() override {
    auto writer = Writer::Create(file(), {});
    ASSERT_TRUE(writer.has_value());
    for (uint64_t chunk = 0; chunk < kChunks; ++chunk) {
      for (uint64_t i = 0; i < kCbs; ++i) Add(*writer, chunk, i);
      writer->Append({{.ts_ns = chunk * 1000 + 900, .pid = 200}, event::Mark{.label = "end of chunk"}});
      ASSERT_TRUE(writer->Flush().has_value());
    }
    ASSERT_TRUE(writer->Close().has_value());
    auto reader = Reader::Open(file());
    ASSERT_TRUE(reader.has_value());
    reader_ = std::make_unique<Reader>(std::move(*reader));
    ASSERT_EQ(reader_->stats().read_bytes, 0U) << "opening reads no chunk";
  }

  static void Add(Writer& writer, uint64_t chunk, uint64_t i) {
    const event::CbId cb_id{chunk * kCbs + i + 1};
    const event::QueueId queue_id{chunk % 2 == 0 ? 1 : 2 + i % 2};
    event::Envelope envelope{.ts_ns = chunk * 1000 + i * 10,
                             .pid = static_cast<uint32_t>(i % 2 == 0 ? 100 + chunk : 200),
                             .tid = 7,
                             .api = event::Api::kCuda};
    writer.Append({envelope, event::CbCommitted{.cb_id = cb_id, .queue_id = queue_id, .label = "a label"}});
    envelope.ts_ns += 3;
    const uint64_t start_ns = envelope.ts_ns - 2;
    writer.Append({envelope, event::CbCompleted{.cb_id = cb_id,
                                                .queue_id = queue_id,
                                                .in_flight_ns = i * i,
                                                .gpu_start_ns = start_ns,
                                                .gpu_end_ns = start_ns + i % 7}});
  }

  std::filesystem::path file() const { return directory_.path() / "events.smlt"; }

  struct Found {
    uint64_t events = 0;
    uint64_t batches = 0;
    ReadStats cost;
  };
  template <typename Check>
  Found Read(const Selection& selection, Check check) {
    Found found;
    const ReadStats before = reader_->stats();
    reader_->Read(selection, [&](const Batch& batch) {
      found.events += batch.envelopes.size();
      ++found.batches;
      check(batch);
    });
    const ReadStats after = reader_->stats();
    found.cost = {.chunk_count = after.chunk_count - before.chunk_count,
                  .block_count = after.block_count - before.block_count,
                  .column_count = after.column_count - before.column_count,
                  .read_bytes = after.read_bytes - before.read_bytes};
    return found;
  }
  Found Read(const Selection& selection) {
    return Read(selection, [](const Batch&) {});
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Reader> reader_;
};

TEST_F(SelectionTest, EverythingByDefault) {
  const Found all = Read({});
  EXPECT_EQ(all.events, kChunks * (2 * kCbs + 1));
  EXPECT_EQ(all.cost.chunk_count, kChunks);
  EXPECT_EQ(all.cost.block_count, kChunks * 3);
}

TEST_F(SelectionTest, BlocksOfOtherKindsAreNotRead) {
  const Found all = Read({});
  const Found marks = Read({.kinds = {event::Kind::kMark}},
                           [](const Batch& batch) { EXPECT_EQ(batch.kind, event::Kind::kMark); });
  EXPECT_EQ(marks.events, kChunks);
  EXPECT_EQ(marks.cost.block_count, kChunks);
  EXPECT_LT(marks.cost.read_bytes, all.cost.read_bytes / 2);
  EXPECT_EQ(Read({.kinds = {event::Kind::kJetsamKill}}).cost.chunk_count, 0U);
}

TEST_F(SelectionTest, ChunksOfOtherTimesAreNotRead) {
  const auto within = [](const Batch& batch) {
    for (const event::Envelope& envelope : batch.envelopes) {
      EXPECT_GE(envelope.ts_ns, 3050U);
      EXPECT_LE(envelope.ts_ns, 5103U);
    }
  };
  // Chunk 3 without its first 5 CBs, chunk 4, 11 CBs of chunk 5.
  const Found some = Read({.begin_ns = 3050, .end_ns = 5103}, within);
  EXPECT_EQ(some.events, 2 * (35 + 40 + 11) + 2U);
  EXPECT_EQ(some.cost.chunk_count, 3U);
  // Both ends belong to the range.
  EXPECT_EQ(Read({.begin_ns = 3050, .end_ns = 3050}).events, 1U);
  // Within the times of a chunk, but none of its events: only the columns of the times are looked at.
  const Found none = Read({.begin_ns = 3951, .end_ns = 3999});
  EXPECT_EQ(none.events, 0U);
  EXPECT_EQ(none.cost.chunk_count, 0U);
  const Found gap = Read({.begin_ns = 3500, .end_ns = 3800});
  EXPECT_EQ(gap.events, 0U);
  EXPECT_EQ(gap.cost.column_count, 3U);
}

TEST_F(SelectionTest, ChunksOfOtherProcessesAreNotRead) {
  const Found one = Read({.pid = 104}, [](const Batch& batch) {
    for (const event::Envelope& envelope : batch.envelopes) EXPECT_EQ(envelope.pid, 104U);
  });
  EXPECT_EQ(one.events, kCbs);
  EXPECT_EQ(one.cost.chunk_count, 1U);
  EXPECT_EQ(Read({.pid = 200}).events, kChunks * (kCbs + 1));
  EXPECT_EQ(Read({.pid = 7}).cost.chunk_count, 0U);
}

TEST_F(SelectionTest, OfOtherQueuesOnlyTheColumnOfQueuesIsRead) {
  const Found one = Read({.queue_id = event::QueueId{1}});
  // Marks have no queue.
  EXPECT_EQ(one.events, kChunks / 2 * kCbs * 2);
  const Found third =
      Read({.kinds = {event::Kind::kCbCommitted}, .queue_id = event::QueueId{3}}, [](const Batch& batch) {
        batch.ForEach<event::CbCommitted>([](const event::Envelope&, const event::CbCommitted& fields) {
          EXPECT_EQ(fields.queue_id, event::QueueId{3});
          EXPECT_EQ(fields.label.view, "a label");
        });
      });
  EXPECT_EQ(third.events, kChunks / 2 * kCbs / 2);
  const Found none = Read({.queue_id = event::QueueId{9}});
  EXPECT_EQ(none.events, 0U);
  EXPECT_EQ(none.cost.column_count, kChunks * 2);
}

TEST_F(SelectionTest, AllPartsNarrowTogether) {
  const Found found = Read({.kinds = {event::Kind::kCbCompleted},
                            .begin_ns = 5100,
                            .end_ns = 5203,
                            .pid = 105,
                            .queue_id = event::QueueId{2}});
  EXPECT_EQ(found.events, 6U);  // CBs 10, 12 ... 20.
  EXPECT_EQ(found.cost.chunk_count, 1U);
  EXPECT_EQ(found.cost.block_count, 1U);
}

TEST_F(SelectionTest, OnlyTheFieldsAskedForAreFilledIn) {
  uint64_t sum_ns = 0;
  const auto check = [&](const Batch& batch) {
    batch.ForEach<event::CbCompleted>([&](const event::Envelope& envelope, const event::CbCompleted& fields) {
      sum_ns += fields.gpu_end_ns;
      EXPECT_EQ(envelope.seq + envelope.ts_ns + envelope.tid, 0U);
      EXPECT_EQ(envelope.api, event::Api::kCuda);
      EXPECT_NE(envelope.pid, 0U);
      EXPECT_EQ(event::Raw(fields.cb_id) + fields.gpu_start_ns + fields.in_flight_ns, 0U);
    });
  };
  const Found some = Read({.kinds = {event::Kind::kCbCompleted}, .fields = {"gpu_end_ns", "pid"}}, check);
  EXPECT_EQ(some.events, kChunks * kCbs);
  // The end may be stored beside the begin, and that beside the event's time.
  EXPECT_LE(some.cost.column_count, kChunks * 4);
  uint64_t expected_ns = 0;
  reader_->ForEachOf<event::CbCompleted>(
      [&](const event::Envelope&, const event::CbCompleted& fields) { expected_ns += fields.gpu_end_ns; });
  EXPECT_EQ(sum_ns, expected_ns);
}

TEST_F(SelectionTest, TextsThatNobodyAskedForAreNotRead) {
  const Found with = Read({.kinds = {event::Kind::kCbCommitted}, .fields = {"cb_id", "label"}});
  const Found without = Read({.kinds = {event::Kind::kCbCommitted}, .fields = {"cb_id"}});
  EXPECT_EQ(without.cost.column_count, kChunks);
  EXPECT_LT(without.cost.read_bytes, with.cost.read_bytes);
}

TEST_F(SelectionTest, UnknownNamesSelectNothing) {
  const Found found = Read({.fields = {"no_such_field"}});
  EXPECT_EQ(found.events, kChunks * (2 * kCbs + 1));
  EXPECT_EQ(found.cost.column_count, 0U);
}

TEST(SelectionOfLists, SomeFieldsOfTheirElements) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  auto writer = Writer::Create(file, {});
  ASSERT_TRUE(writer.has_value());
  std::vector<event::OpSample> ops;
  for (uint64_t i = 0; i < 600; ++i) {
    ops.push_back({.name = i % 3 == 0 ? "matmul" : "add",
                   .gpu_ns = 1000 * (i % 3) + i % 11,
                   .scope_id = event::ScopeId{i},
                   .local_x = 64});
  }
  for (uint64_t i = 0; i < 500; ++i) {
    writer->Append({{.ts_ns = i}, event::CbOps{.cb_id = event::CbId{i}, .ops = std::span(ops).first(i)}});
  }
  ASSERT_TRUE(writer->Close().has_value());
  const auto reader = Reader::Open(file);
  ASSERT_TRUE(reader.has_value());
  uint64_t row = 0;
  const auto check = [&](bool names, bool times) {
    return [&row, names, times, &ops](const Batch& batch) {
      batch.ForEach<event::CbOps>([&](const event::Envelope&, const event::CbOps& fields) {
        const uint64_t length = row++ % 500;
        ASSERT_EQ(fields.ops.size(), length);
        for (size_t i = 0; i < length; ++i) {
          EXPECT_EQ(fields.ops[i].name.view, names ? ops[i].name.view : "");
          EXPECT_EQ(fields.ops[i].gpu_ns, times ? ops[i].gpu_ns : 0);
          EXPECT_EQ(event::Raw(fields.ops[i].scope_id) + fields.ops[i].local_x, 0U);
        }
      });
    };
  };
  reader->Read({.fields = {"ops.gpu_ns"}}, check(false, true));
  reader->Read({.fields = {"ops.name"}}, check(true, false));
  reader->Read({.fields = {"ops.name", "ops.gpu_ns"}}, check(true, true));
  EXPECT_EQ(row, 1500U);
}

TEST(SelectionOfRandomEvents, IsWhatAFilterWouldKeep) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "events.smlt";
  auto writer = Writer::Create(file, {.chunk_raw_bytes = 20'000});
  ASSERT_TRUE(writer.has_value());
  RandomEvents random(11);
  for (int i = 0; i < 4000; ++i) writer->Append(random.Make());
  ASSERT_TRUE(writer->Close().has_value());
  const auto reader = Reader::Open(file);
  ASSERT_TRUE(reader.has_value());
  const Summary& summary = reader->summary();
  const uint64_t span_ns = summary.max_ts_ns - summary.min_ts_ns;
  for (const uint32_t pid : {1000U, 1002U}) {
    const uint64_t begin_ns = summary.min_ts_ns + span_ns / 3;
    const uint64_t end_ns = summary.min_ts_ns + span_ns / 2;
    std::map<uint64_t, std::string> expected;
    reader->ForEach({}, [&](const event::Event& event) {
      const event::Envelope& envelope = event.envelope;
      if (envelope.pid == pid && envelope.ts_ns >= begin_ns && envelope.ts_ns <= end_ns) {
        expected.emplace(envelope.seq, Fingerprint::Of(event));
      }
    });
    std::map<uint64_t, std::string> found;
    reader->ForEachSelected(
        {.begin_ns = begin_ns, .end_ns = end_ns, .pid = pid},
        [&](const event::Event& event) { found.emplace(event.envelope.seq, Fingerprint::Of(event)); });
    EXPECT_GT(found.size(), 50U);
    EXPECT_TRUE(found == expected);
  }
}

}  // namespace
}  // namespace smeltr::session
