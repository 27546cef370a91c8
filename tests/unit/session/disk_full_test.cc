// A disk that refuses costs the refused chunks, counted, and nothing else.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "session/append_file.h"
#include "session/reader.h"
#include "session/writer.h"
#include "unit/session/random_events.h"
#include "unit/session/temporary_directory.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

using testing::RandomEvents;
using testing::TemporaryDirectory;

// Takes what fits in `room` bytes, as a full disk does: the front of a write, then an error.
struct Disk {
  std::vector<std::byte> bytes;
  size_t room = SIZE_MAX;
  bool refuses_truncate = false;
};

class FakeFile : public AppendFile {
 public:
  explicit FakeFile(Disk& disk) : disk_(disk) {}

  Result<void> WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    const size_t fits = std::min(bytes.size(), disk_.room - std::min<size_t>(disk_.room, offset));
    disk_.bytes.resize(std::max(disk_.bytes.size(), offset + fits));
    std::ranges::copy(bytes.first(fits), disk_.bytes.begin() + static_cast<ptrdiff_t>(offset));
    if (fits < bytes.size()) return std::unexpected(SystemError("write", "fake", ENOSPC));
    return {};
  }
  bool ReadAt(uint64_t offset, std::span<std::byte> bytes) override {
    if (offset > disk_.bytes.size() || bytes.size() > disk_.bytes.size() - offset) return false;
    std::copy_n(disk_.bytes.begin() + static_cast<ptrdiff_t>(offset), bytes.size(), bytes.begin());
    return true;
  }
  Result<void> Truncate(uint64_t size) override {
    if (disk_.refuses_truncate) return std::unexpected(SystemError("truncate", "fake", EIO));
    disk_.bytes.resize(size);
    return {};
  }
  Result<void> Sync() override { return {}; }

 private:
  Disk& disk_;
};

class DiskFullTest : public ::testing::Test {
 protected:
  Reader Read() {
    const std::filesystem::path file = directory_.path() / "events.smlt";
    const auto* text = reinterpret_cast<const char*>(disk_.bytes.data());
    EXPECT_TRUE(WriteFileAtomically(file, {text, disk_.bytes.size()}, 0600, FileSync::kNone).has_value());
    return *Reader::Open(file);
  }
  static std::set<uint64_t> Seqs(const Reader& reader) {
    std::set<uint64_t> seqs;
    reader.ForEach({}, [&](const event::Event& event) { seqs.insert(event.envelope.seq); });
    return seqs;
  }
  void AppendTen(Writer& writer) {
    for (int i = 0; i < 10; ++i) writer.Append(random_.Make());
  }

  TemporaryDirectory directory_;
  RandomEvents random_{2};
  Disk disk_;
};

TEST_F(DiskFullTest, WhereverTheDiskEndsTheFileStaysWholeAndTheLossIsCounted) {
  for (size_t room = 0; room < 3000; room += 7) {
    disk_ = {.bytes = {}, .room = room};
    Writer writer = Writer::CreateOn(std::make_unique<FakeFile>(disk_), {});
    for (int chunk = 0; chunk < 3; ++chunk) {
      AppendTen(writer);
      const uint64_t lost = writer.stats().lost_count;
      const bool stored = writer.Flush().has_value();
      EXPECT_EQ(writer.stats().lost_count, lost + (stored ? 0U : 10U));
      ASSERT_EQ(disk_.bytes.size(), writer.stats().file_bytes);
    }
    disk_.room = SIZE_MAX;  // Somebody made room.
    AppendTen(writer);
    EXPECT_TRUE(writer.Close().has_value());
    EXPECT_EQ(writer.stats().event_count, 40U);
    const Reader reader = Read();
    const std::set<uint64_t> seqs = Seqs(reader);
    EXPECT_EQ(seqs.size(), 40 - writer.stats().lost_count);
    for (uint64_t seq = 31; seq <= 40; ++seq) EXPECT_TRUE(seqs.contains(seq));
    EXPECT_FALSE(reader.damage().any());
    EXPECT_FALSE(reader.damage().no_footer);
  }
}

TEST_F(DiskFullTest, ARefusedTruncateLeavesRubbishThatReadersStepOver) {
  Writer writer = Writer::CreateOn(std::make_unique<FakeFile>(disk_), {});
  AppendTen(writer);
  ASSERT_TRUE(writer.Flush().has_value());
  disk_.room = disk_.bytes.size() + 300;
  disk_.refuses_truncate = true;
  AppendTen(writer);
  EXPECT_FALSE(writer.Flush().has_value());
  EXPECT_EQ(writer.stats().lost_count, 10U);
  EXPECT_EQ(Seqs(Read()).size(), 10U);
  EXPECT_TRUE(Read().damage().torn_tail);
  disk_.room = SIZE_MAX;
  disk_.refuses_truncate = false;
  writer.Append({{.ts_ns = 1}, event::FrameBoundary{}});
  ASSERT_TRUE(writer.Flush().has_value());
  EXPECT_EQ(disk_.bytes.size(), writer.stats().file_bytes);
  EXPECT_EQ(Seqs(Read()).size(), 11U);
  EXPECT_FALSE(Read().damage().any());
}

TEST_F(DiskFullTest, AFullDiskAtTheFooterLeavesAReadableFile) {
  Writer writer = Writer::CreateOn(std::make_unique<FakeFile>(disk_), {});
  AppendTen(writer);
  ASSERT_TRUE(writer.Flush().has_value());
  disk_.room = disk_.bytes.size() + 20;
  const auto closed = writer.Close();
  ASSERT_FALSE(closed.has_value());
  EXPECT_EQ(closed.error().code(), ErrorCode::kNoSpace);
  EXPECT_EQ(writer.stats().lost_count, 0U);
  EXPECT_EQ(Seqs(Read()).size(), 10U);
  EXPECT_TRUE(Read().damage().no_footer);
  EXPECT_FALSE(Read().damage().any());
}

TEST_F(DiskFullTest, TheErrorOfAnEarlierSealIsToldOnce) {
  Writer writer = Writer::CreateOn(std::make_unique<FakeFile>(disk_), {.chunk_raw_bytes = 1});
  disk_.room = 0;
  writer.Append({{.ts_ns = 1}, event::Mark{}});
  EXPECT_EQ(writer.stats().lost_count, 1U);
  const auto first = writer.Flush();
  ASSERT_FALSE(first.has_value());
  EXPECT_EQ(first.error().code(), ErrorCode::kNoSpace);
  EXPECT_TRUE(writer.Flush().has_value());
}

TEST_F(DiskFullTest, ARealFileSizeLimit) {
  const std::filesystem::path file = directory_.path() / "events.smlt";
  auto writer = Writer::Create(file, {});
  ASSERT_TRUE(writer.has_value());
  AppendTen(*writer);
  ASSERT_TRUE(writer->Flush().has_value());
  const uint64_t good_bytes = writer->stats().file_bytes;

  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{good_bytes + 100, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  AppendTen(*writer);
  const auto refused = writer->Flush();
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);

  EXPECT_FALSE(refused.has_value());
  EXPECT_EQ(writer->stats().lost_count, 10U);
  EXPECT_EQ(std::filesystem::file_size(file), good_bytes);
  AppendTen(*writer);
  ASSERT_TRUE(writer->Close().has_value());
  EXPECT_EQ(Seqs(*Reader::Open(file)).size(), 20U);
}

}  // namespace
}  // namespace smeltr::session
