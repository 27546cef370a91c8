// Chunks read on several threads: the same events, folded in the order of the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <thread>

#include "session/format.h"
#include "session/reader.h"
#include "session/writer.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::TemporaryDirectory;

class ParallelTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kChunks = 37;
  static constexpr uint64_t kEvents = 300;  // A chunk.

  void SetUp() override {
    auto writer = Writer::Create(file(), {});
    ASSERT_TRUE(writer.has_value());
    for (uint64_t i = 0; i < kChunks * kEvents; ++i) {
      writer->Append({{.ts_ns = i}, event::Mark{.label = i % 2 == 0 ? "even" : "odd"}});
      if (i % kEvents != kEvents - 1) continue;
      ASSERT_TRUE(writer->Flush().has_value());
    }
    ASSERT_TRUE(writer->Close().has_value());
  }

  std::filesystem::path file() const { return directory_.path() / "events.smlt"; }

  struct Part {
    std::vector<uint64_t> times_ns;
    uint64_t label_bytes = 0;
  };
  // The parts of all chunks, put together as they were folded.
  static Part ReadAll(const Reader& reader, unsigned thread_count, const Selection& selection = {}) {
    const std::thread::id caller = std::this_thread::get_id();
    Part all;
    reader.ReadParallel<Part>(
        selection, thread_count,
        [](Part& part, const Batch& batch) {
          batch.ForEach<event::Mark>([&](const event::Envelope& envelope, const event::Mark& mark) {
            part.times_ns.push_back(envelope.ts_ns);
            part.label_bytes += mark.label.view.size();
          });
        },
        [&](const Part& part) {
          EXPECT_EQ(std::this_thread::get_id(), caller);
          all.times_ns.insert(all.times_ns.end(), part.times_ns.begin(), part.times_ns.end());
          all.label_bytes += part.label_bytes;
        });
    return all;
  }

  TemporaryDirectory directory_;
};

TEST_F(ParallelTest, TheResultIsThatOfOneThread) {
  const auto reader = Reader::Open(file());
  ASSERT_TRUE(reader.has_value());
  for (const unsigned threads : {0U, 1U, 2U, 5U, 100U}) {
    const Part all = ReadAll(*reader, threads);
    ASSERT_EQ(all.times_ns.size(), kChunks * kEvents) << threads;
    EXPECT_TRUE(std::ranges::is_sorted(all.times_ns)) << threads;
    EXPECT_EQ(all.label_bytes, kChunks * kEvents / 2 * 7) << threads;
  }
  EXPECT_EQ(reader->stats().chunk_count, 5 * kChunks);
}

TEST_F(ParallelTest, ASelectionSkipsChunks) {
  const auto reader = Reader::Open(file());
  ASSERT_TRUE(reader.has_value());
  const Part some = ReadAll(*reader, 3, {.begin_ns = 450, .end_ns = 1349});
  ASSERT_EQ(some.times_ns.size(), 900U);
  EXPECT_EQ(some.times_ns.front(), 450U);
  EXPECT_EQ(some.times_ns.back(), 1349U);
  EXPECT_EQ(reader->stats().chunk_count, 4U);
  EXPECT_TRUE(ReadAll(*reader, 3, {.begin_ns = kChunks * kEvents}).times_ns.empty());
}

TEST_F(ParallelTest, DamageIsCountedOnce) {
  {
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    // The last byte of the first chunk: its header says how long it is.
    std::array<uint32_t, 2> header_and_body_bytes{};
    bytes.seekg(kFileHeaderBytes + kChunkChecksummedFrom);
    bytes.read(reinterpret_cast<char*>(header_and_body_bytes.data()), sizeof(header_and_body_bytes));
    const auto last = static_cast<std::streamoff>(kFileHeaderBytes + header_and_body_bytes[0] +
                                                  header_and_body_bytes[1] - 1);
    bytes.seekg(last);
    const auto byte = static_cast<char>(bytes.get() ^ 1);
    bytes.seekp(last);
    bytes.put(byte);
  }
  const auto reader = Reader::Open(file());
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(ReadAll(*reader, 4).times_ns.size(), (kChunks - 1) * kEvents);
  EXPECT_EQ(ReadAll(*reader, 2).times_ns.size(), (kChunks - 1) * kEvents);
  EXPECT_EQ(reader->damage().skipped_chunks, 1U);
}

}  // namespace
}  // namespace smeltr::session
