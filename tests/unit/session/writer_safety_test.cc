// What a writer and its readers do when the disk, the file or the moment is against them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "session/append_file.h"
#include "session/metadata.h"
#include "session/reader.h"
#include "session/segmented_writer.h"
#include "session/store.h"
#include "session/verify.h"
#include "session/writer.h"
#include "unit/session/random_events.h"
#include "unit/session/temporary_directory.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

using testing::Fingerprint;
using testing::RandomEvents;
using testing::TemporaryDirectory;

// A real file whose calls fail with an errno of the test's choice.
struct Faults {
  int write = 0;
  int sync = 0;
  bool read = false;
};

class FaultyFile : public AppendFile {
 public:
  FaultyFile(std::unique_ptr<AppendFile> file, const Faults& faults)
      : file_(std::move(file)), faults_(faults) {}

  Result<void> WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    if (faults_.write == 0) return file_->WriteAt(offset, bytes);
    // As disks do: a part of it arrives.
    static_cast<void>(file_->WriteAt(offset, bytes.first(bytes.size() / 2)));
    return std::unexpected(SystemError("write", "faulty", faults_.write));
  }
  bool ReadAt(uint64_t offset, std::span<std::byte> bytes) override {
    return !faults_.read && file_->ReadAt(offset, bytes);
  }
  Result<void> Truncate(uint64_t size) override {
    if (faults_.write == EROFS) return std::unexpected(SystemError("truncate", "faulty", EROFS));
    return file_->Truncate(size);
  }
  Result<void> Sync() override {
    if (faults_.sync != 0) return std::unexpected(SystemError("sync", "faulty", faults_.sync));
    return file_->Sync();
  }

 private:
  std::unique_ptr<AppendFile> file_;
  const Faults& faults_;
};

class WriterSafetyTest : public ::testing::Test {
 protected:
  Writer Create() {
    auto file = CreateAppendFile(file_);
    EXPECT_TRUE(file.has_value());
    return Writer::CreateOn(std::make_unique<FaultyFile>(std::move(*file), faults_), {});
  }
  void AppendTen(Writer& writer) {
    for (int i = 0; i < 10; ++i) writer.Append(random_.Make());
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "events.smlt";
  RandomEvents random_{6};
  Faults faults_;
};

TEST_F(WriterSafetyTest, WhateverTheDiskSaysOnlyTheRefusedChunkIsLost) {
  for (const int error : {ENOSPC, EDQUOT, EIO, EROFS, EFBIG, EPERM}) {
    std::filesystem::remove(file_);
    Writer writer = Create();
    AppendTen(writer);
    ASSERT_TRUE(writer.Flush().has_value());
    faults_.write = error;
    AppendTen(writer);
    const auto refused = writer.Flush();
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code() == ErrorCode::kNoSpace, error == ENOSPC || error == EDQUOT);
    EXPECT_EQ(Reader::Open(file_)->summary().event_count, 10U) << "readers are not bothered";
    faults_.write = 0;
    AppendTen(writer);
    ASSERT_TRUE(writer.Close().has_value());
    EXPECT_EQ(writer.stats().lost_count, 10U);
    const auto verified = VerifyFile(file_, false);
    ASSERT_TRUE(verified.has_value());
    EXPECT_EQ(verified->fault_count, 0U) << error;
    EXPECT_EQ(verified->event_count, 20U);
    EXPECT_TRUE(verified->has_index);
  }
}

TEST_F(WriterSafetyTest, AFileSystemThatTurnedReadOnlyLosesWhatCameAfter) {
  Writer writer = Create();
  AppendTen(writer);
  ASSERT_TRUE(writer.Flush().has_value());
  faults_.write = EROFS;
  AppendTen(writer);
  EXPECT_EQ(writer.Close().error().code(), ErrorCode::kPermission);
  EXPECT_EQ(writer.stats().lost_count, 10U);
  EXPECT_EQ(Reader::Open(file_)->summary().event_count, 10U);
}

TEST_F(WriterSafetyTest, AFailedSyncIsToldAndCostsNothingThatCanBeRead) {
  Writer writer = Create();
  AppendTen(writer);
  ASSERT_TRUE(writer.Flush().has_value());
  faults_.sync = EIO;
  EXPECT_EQ(writer.Sync().error().code(), ErrorCode::kIo);
  AppendTen(writer);
  EXPECT_EQ(writer.Close().error().code(), ErrorCode::kIo);
  EXPECT_EQ(writer.stats().lost_count, 0U);
  EXPECT_EQ(VerifyFile(file_, false)->event_count, 20U);
}

TEST_F(WriterSafetyTest, AChunkThatCannotBeReadBackCostsTheIndexOnly) {
  Writer writer = Create();
  AppendTen(writer);
  faults_.read = true;
  EXPECT_FALSE(writer.Close().has_value());
  const auto verified = VerifyFile(file_, false);
  EXPECT_EQ(verified->fault_count, 0U);
  EXPECT_EQ(verified->event_count, 10U);
  EXPECT_FALSE(verified->has_index);
}

TEST_F(WriterSafetyTest, AFileDeletedUnderneathHarmsNobody) {
  auto writer = SegmentedWriter::Create(directory_.path(), {.max_bytes = kMinSessionBytes});
  ASSERT_TRUE(writer.has_value());
  for (int i = 0; i < 100; ++i) writer->Append(random_.Make());
  ASSERT_TRUE(writer->Flush().has_value());
  const auto reader = Reader::Open(file_);
  ASSERT_TRUE(reader.has_value());
  std::filesystem::remove_all(directory_.path());
  for (int i = 0; i < 5000; ++i) writer->Append(random_.Make());
  static_cast<void>(writer->Flush());
  static_cast<void>(writer->Sync());
  static_cast<void>(writer->Close());
  EXPECT_EQ(writer->stats().event_count, 5100U);
  uint64_t count = 0;
  reader->ForEach({}, [&](const event::Event&) { ++count; });
  EXPECT_EQ(count, 100U) << "who had it open reads on";
}

// --- readers beside the writer ---

// Opens the file again and again: always a true beginning of it, never a shorter one than before.
class Follower {
 public:
  Follower(std::filesystem::path file, const std::vector<std::string>& prints)
      : file_(std::move(file)), prints_(prints), thread_([this] { Run(); }) {}
  ~Follower() {
    if (thread_.joinable()) thread_.join();
  }

  // Once more from the start after this, then it is done.
  void Finish() {
    finishing_ = true;
    thread_.join();
  }
  const std::string& problem() const { return problem_; }
  uint64_t last_count() const { return last_count_; }
  uint64_t rounds() const { return rounds_; }

 private:
  void Run() {
    for (bool last = false; !last && problem_.empty(); ++rounds_) {
      last = finishing_;
      Look();
    }
  }

  void Look() {
    const auto reader = Reader::Open(file_);
    if (!reader.has_value()) {
      problem_ = reader.error().text();
      return;
    }
    std::vector<uint64_t> seqs;
    reader->ForEach({}, [&](const event::Event& event) {
      seqs.push_back(event.envelope.seq);
      if (prints_.at(event.envelope.seq - 1) != Fingerprint::Of(event)) problem_ = "an event that never was";
    });
    std::ranges::sort(seqs);
    for (size_t i = 0; i < seqs.size(); ++i) {
      if (seqs[i] != i + 1) problem_ = "a hole in front of " + std::to_string(seqs[i]);
    }
    if (seqs.size() < last_count_) problem_ = "fewer events than before";
    if (seqs.size() != reader->summary().event_count) problem_ = "not what the summary says";
    if (reader->damage().skipped_chunks != 0) problem_ = "damage";
    last_count_ = seqs.size();
  }

  std::filesystem::path file_;
  const std::vector<std::string>& prints_;
  std::atomic<bool> finishing_ = false;
  std::string problem_;
  uint64_t last_count_ = 0;
  uint64_t rounds_ = 0;
  std::thread thread_;  // Last: it uses the others.
};

TEST_F(WriterSafetyTest, ReadersSeeAGrowingTruePrefixAtEveryMoment) {
  constexpr size_t kEvents = 6000;
  std::vector<event::Event> events;
  std::vector<std::string> prints;
  for (uint64_t i = 0; i < kEvents; ++i) {
    event::Event event = random_.Make();
    events.push_back(event);
    event.envelope.seq = i + 1;
    prints.push_back(Fingerprint::Of(event));
  }
  auto writer = Writer::Create(file_, {});
  ASSERT_TRUE(writer.has_value());
  Follower first(file_, prints);
  Follower second(file_, prints);
  for (size_t i = 0; i < kEvents; ++i) {
    writer->Append(events[i]);
    if (i % 20 == 0) {
      ASSERT_TRUE(writer->Flush().has_value());
    }
  }
  ASSERT_TRUE(writer->Close().has_value());
  first.Finish();
  second.Finish();
  EXPECT_EQ(first.problem(), "");
  EXPECT_EQ(second.problem(), "");
  EXPECT_EQ(first.last_count(), kEvents);
  EXPECT_GT(first.rounds(), 1U);
}

// --- a real small disk ---

// In a mount namespace of its own; the status of `run`, which says 0 for all is well, or nothing where
// mounting is not allowed.
template <typename F>
std::optional<int> OnSmallDisk(const std::filesystem::path& mount_point, F&& run) {
  constexpr int kNotAllowed = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=256k,mode=700") == 0;
    ::_exit(mounted ? run() : kNotAllowed);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 99;
  if (WEXITSTATUS(status) == kNotAllowed) return std::nullopt;
  return WEXITSTATUS(status);
}

TEST_F(WriterSafetyTest, ARealSmallDiskFillsUpAndIsReadOnlyAfterwards) {
  const std::filesystem::path disk = directory_.path() / "disk";
  std::filesystem::create_directory(disk);
  const auto status = OnSmallDisk(disk, [&] {
    const auto stored = CreateSession(disk / "sessions", {});
    if (!stored) return 1;
    const std::filesystem::path file = stored->directory / kEventsFile;
    auto writer = Writer::Create(file, {.chunk_raw_bytes = 20'000});
    if (!writer) return 2;
    for (int i = 0; i < 20'000; ++i) writer->Append(random_.Make());
    if (writer->stats().lost_count == 0) return 3;
    static_cast<void>(writer->Close());
    const uint64_t kept = writer->stats().event_count - writer->stats().lost_count;
    const auto full = VerifyFile(file, false);
    if (!full || full->fault_count != 0 || full->event_count != kept) return 4;
    // Nobody has a file of it open for writing now, so it can be made read-only.
    *writer = *Writer::Create(directory_.path() / "elsewhere.smlt", {});
    if (::mount("none", disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "size=256k") != 0) return 5;
    if (Writer::Create(stored->directory / "events-1.smlt", {}).error().code() != ErrorCode::kPermission)
      return 6;
    if (WriteMetadata(stored->directory, stored->metadata).error().code() != ErrorCode::kPermission) return 7;
    const auto read_only = VerifySession(stored->directory);
    return read_only.has_value() && read_only->sound() && read_only->event_count() == kept ? 0 : 8;
  });
  if (!status) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(*status, 0);
}

}  // namespace
}  // namespace smeltr::session
