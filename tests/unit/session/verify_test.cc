#include "session/verify.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "session/chunk_header.h"
#include "session/format.h"
#include "session/metadata.h"
#include "session/open_lock.h"
#include "session/reader.h"
#include "session/repair.h"
#include "session/segmented_writer.h"
#include "session/store.h"
#include "unit/session/random_events.h"
#include "unit/session/temporary_directory.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

using testing::RandomEvents;
using testing::TemporaryDirectory;

constexpr uint64_t kEventsEach = 20;
constexpr uint64_t kEvents = 3 * kEventsEach;

class VerifyTest : public ::testing::Test {
 protected:
  // A session of three chunks that ended well.
  void MakeSession() {
    Metadata begun;
    begun.name = "run";
    begun.argv = {"./run"};
    auto stored = CreateSession(directory_.path() / "sessions", begun);
    ASSERT_TRUE(stored.has_value());
    session_ = stored->directory;
    auto writer = Writer::Create(session_ / kEventsFile, {});
    ASSERT_TRUE(writer.has_value());
    RandomEvents random(8);
    chunk_ends_ = {kFileHeaderBytes};
    for (int chunk = 0; chunk < 3; ++chunk) {
      for (uint64_t i = 0; i < kEventsEach; ++i) writer->Append(random.Make());
      ASSERT_TRUE(writer->Flush().has_value());
      chunk_ends_.push_back(writer->stats().file_bytes);
    }
    ASSERT_TRUE(writer->Close().has_value());
    Metadata metadata = stored->metadata;
    metadata.event_counts = writer->stats().counts_by_kind;
    metadata.ended_rfc3339 = "2026-03-01T14:06:00.000Z";
    metadata.end_reason = "exit";
    ASSERT_TRUE(WriteMetadata(session_, metadata).has_value());
  }

  VerifiedSession Verify(const std::filesystem::path& directory) {
    auto verified = VerifySession(directory);
    EXPECT_TRUE(verified.has_value()) << verified.error().text();
    return verified.value_or(VerifiedSession{});
  }
  VerifiedSession Verify() { return Verify(session_); }

  void Edit(std::string_view name, const std::function<void(std::string&)>& edit) {
    std::string bytes = ReadFile(session_ / name).value();
    edit(bytes);
    std::ofstream(session_ / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void FlipInEvents(uint64_t at) {
    Edit(kEventsFile, [&](std::string& bytes) { bytes[at] = static_cast<char>(bytes[at] ^ 0x10); });
  }
  void CutEvents(uint64_t size) {
    Edit(kEventsFile, [&](std::string& bytes) { bytes.resize(size); });
  }
  static std::vector<FaultyPart> Parts(const VerifiedSession& verified) {
    std::vector<FaultyPart> parts;
    for (const Fault& fault : verified.faults) parts.push_back(fault.part);
    return parts;
  }

  TemporaryDirectory directory_;
  std::filesystem::path session_;
  std::vector<uint64_t> chunk_ends_;
};

TEST_F(VerifyTest, ASoundSessionIsSound) {
  MakeSession();
  const VerifiedSession verified = Verify();
  EXPECT_TRUE(verified.sound());
  EXPECT_FALSE(verified.unfinished());
  EXPECT_EQ(verified.event_count(), kEvents);
  ASSERT_EQ(verified.files.size(), 1U);
  EXPECT_EQ(verified.files[0].chunk_count, 3U);
  EXPECT_TRUE(verified.files[0].has_index);
  EXPECT_EQ(verified.files[0].file_bytes, std::filesystem::file_size(session_ / kEventsFile));
}

TEST_F(VerifyTest, ADamagedBlockIsNamedWithItsCost) {
  MakeSession();
  FlipInEvents(chunk_ends_[2] - 1);
  const VerifiedSession verified = Verify();
  ASSERT_EQ(Parts(verified), std::vector<FaultyPart>{FaultyPart::kBlock});
  const Fault& fault = verified.faults[0];
  EXPECT_EQ(fault.file, kEventsFile);
  EXPECT_GE(fault.lost_events.value_or(0), 1U);
  EXPECT_EQ(fault.lost_by_kind.size(), 1U);
  EXPECT_LT(fault.begin_ns, fault.end_ns);
  EXPECT_EQ(fault.offset + fault.bytes, chunk_ends_[2]);
  EXPECT_EQ(verified.event_count() + verified.lost_events(), kEvents);
  EXPECT_TRUE(verified.loss_known());
}

TEST_F(VerifyTest, AChunkHeaderThatTheIndexHasTooCostsNothing) {
  MakeSession();
  FlipInEvents(chunk_ends_[1] + 30);
  const VerifiedSession verified = Verify();
  EXPECT_EQ(Parts(verified), std::vector<FaultyPart>{FaultyPart::kChunkHeader});
  EXPECT_EQ(verified.event_count(), kEvents);
  EXPECT_EQ(verified.lost_events(), 0U);
}

TEST_F(VerifyTest, WithoutTheIndexALostChunkIsCountedByTheSeqsAroundIt) {
  MakeSession();
  CutEvents(chunk_ends_[3]);
  FlipInEvents(chunk_ends_[1] + 30);
  const VerifiedSession verified = Verify();
  ASSERT_EQ(Parts(verified), std::vector<FaultyPart>{FaultyPart::kGap});
  EXPECT_EQ(verified.faults[0].offset, chunk_ends_[1]);
  EXPECT_EQ(verified.faults[0].bytes, chunk_ends_[2] - chunk_ends_[1]);
  EXPECT_EQ(verified.faults[0].lost_events, kEventsEach);
}

TEST_F(VerifyTest, ADamagedIndexCostsNothing) {
  MakeSession();
  for (const uint64_t at : {chunk_ends_[3], chunk_ends_[3] + 60}) {
    FlipInEvents(at);
    const VerifiedSession verified = Verify();
    EXPECT_EQ(Parts(verified), std::vector<FaultyPart>{FaultyPart::kIndex}) << at;
    EXPECT_EQ(verified.event_count(), kEvents);
    FlipInEvents(at);
  }
  CutEvents(chunk_ends_[3] + 40);
  EXPECT_EQ(Parts(Verify()), std::vector<FaultyPart>{FaultyPart::kIndex});
}

TEST_F(VerifyTest, ATornChunkCostsWhatItsHeaderSays) {
  MakeSession();
  CutEvents(chunk_ends_[3] - 10);
  const VerifiedSession verified = Verify();
  ASSERT_EQ(Parts(verified), std::vector<FaultyPart>{FaultyPart::kTornTail});
  EXPECT_EQ(verified.faults[0].lost_events, kEventsEach);
  EXPECT_EQ(verified.event_count(), kEvents - kEventsEach);
}

TEST_F(VerifyTest, AWholeChunkThatWasCutOffIsMissedByTheMetadata) {
  MakeSession();
  CutEvents(chunk_ends_[2]);
  const VerifiedSession verified = Verify();
  ASSERT_EQ(Parts(verified), std::vector<FaultyPart>{FaultyPart::kCounts});
  EXPECT_EQ(verified.faults[0].lost_events, kEventsEach);
  uint64_t by_kind = 0;
  for (const auto& [kind, count] : verified.faults[0].lost_by_kind) by_kind += count;
  EXPECT_EQ(by_kind, kEventsEach);
}

TEST_F(VerifyTest, ADamagedFileHeaderCostsNothingAndIsTold) {
  MakeSession();
  for (uint64_t at = 0; at < kFileHeaderBytes; ++at) {
    FlipInEvents(at);
    const VerifiedSession verified = Verify();
    EXPECT_EQ(Parts(verified), std::vector<FaultyPart>{FaultyPart::kFileHeader}) << at;
    EXPECT_EQ(verified.event_count(), kEvents) << at;
    FlipInEvents(at);
  }
}

TEST_F(VerifyTest, AnyFlippedBitOfTheMetadataIsFound) {
  MakeSession();
  const std::string good = ReadFile(session_ / kMetadataFile).value();
  const size_t mark = good.rfind("# checksum ");
  ASSERT_NE(mark, std::string::npos);
  for (size_t at = 0; at < mark; ++at) {
    Edit(kMetadataFile, [&](std::string& bytes) {
      bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 7)));
    });
    EXPECT_FALSE(Verify().sound()) << at;
  }
}

TEST_F(VerifyTest, MetadataThatCannotBeReadOrIsGoneIsDamage) {
  MakeSession();
  Edit(kMetadataFile, [](std::string& bytes) { bytes = "a = ["; });
  EXPECT_EQ(Parts(Verify()), std::vector<FaultyPart>{FaultyPart::kMetadata});
  std::filesystem::remove(session_ / kMetadataFile);
  EXPECT_EQ(Parts(Verify()), std::vector<FaultyPart>{FaultyPart::kMetadata});
}

TEST_F(VerifyTest, EventsThatAreGoneAreDamage) {
  MakeSession();
  std::filesystem::remove(session_ / kEventsFile);
  EXPECT_EQ(Verify().faults[0].part, FaultyPart::kFile);
  Edit(kMetadataFile,
       [&](std::string&) { std::ofstream(session_ / kEventsFile) << "no session file at all"; });
  const VerifiedSession verified = Verify();
  EXPECT_EQ(verified.faults[0].part, FaultyPart::kFile);
  EXPECT_FALSE(verified.loss_known());
}

TEST_F(VerifyTest, AnOpenSessionIsNoDamagedOne) {
  auto stored = CreateSession(directory_.path() / "sessions", {});
  ASSERT_TRUE(stored.has_value());
  const auto lock = LockOpen(stored->directory);
  ASSERT_TRUE(lock.has_value());
  auto writer = Writer::Create(stored->directory / kEventsFile, {});
  RandomEvents random(3);
  for (int i = 0; i < 50; ++i) writer->Append(random.Make());
  ASSERT_TRUE(writer->Flush().has_value());
  // In the middle of the next chunk.
  std::ofstream(stored->directory / kEventsFile, std::ios::binary | std::ios::app) << "smltCHNK and so on";
  const VerifiedSession verified = Verify(stored->directory);
  EXPECT_TRUE(verified.still_written);
  EXPECT_TRUE(verified.sound());
  EXPECT_EQ(verified.event_count(), 50U);
  EXPECT_EQ(RepairCopy(verified, {}).error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(RepairInPlace(verified).error().code(), ErrorCode::kUnavailable);
}

TEST_F(VerifyTest, WhatIsNoSessionIsAnError) {
  EXPECT_EQ(VerifySession(directory_.path() / "none").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(VerifySession(directory_.path()).error().code(), ErrorCode::kNotFound);
  std::ofstream(directory_.path() / "file") << "x";
  EXPECT_EQ(VerifySession(directory_.path() / "file").error().code(), ErrorCode::kInvalidArgument);
}

// --- repair ---
class RepairTest : public VerifyTest {
 protected:
  RepairedSession Copy(const std::filesystem::path& output = {}) {
    auto repaired = RepairCopy(Verify(), output);
    EXPECT_TRUE(repaired.has_value()) << repaired.error().text();
    return repaired.value_or(RepairedSession{});
  }
  std::map<std::string, std::string> Contents() {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::directory_iterator(session_)) {
      contents[entry.path().filename()] = ReadFile(entry.path()).value();
    }
    return contents;
  }
};

TEST_F(RepairTest, ACopyIsSoundAndSaysWhatWasLostAndTheOriginalStays) {
  MakeSession();
  FlipInEvents(chunk_ends_[2] - 1);
  Edit(kMetadataFile, [](std::string& bytes) { bytes = "of_a_newer_smeltr = 7\n" + bytes; });
  std::ofstream(session_ / "panic.txt") << "evidence";
  const auto before = Contents();
  const RepairedSession repaired = Copy();
  EXPECT_EQ(Contents(), before);
  EXPECT_TRUE(Verify(repaired.directory).sound());
  EXPECT_EQ(repaired.directory.parent_path(), session_.parent_path());
  EXPECT_EQ(repaired.event_count + repaired.lost_events, kEvents);
  EXPECT_GT(repaired.lost_events, 0U);
  const Metadata metadata = ReadMetadata(repaired.directory).value();
  EXPECT_EQ(metadata.session_id, repaired.session_id);
  EXPECT_EQ(metadata.repaired_from_id, ReadMetadata(session_)->session_id);
  EXPECT_EQ(metadata.repair_lost_count, repaired.lost_events);
  EXPECT_EQ(metadata.name, "run (repaired)");
  ASSERT_FALSE(metadata.repair_notes.empty());
  EXPECT_NE(ReadFile(repaired.directory / kMetadataFile)->find("of_a_newer_smeltr"), std::string::npos);
  EXPECT_EQ(ReadFile(repaired.directory / "panic.txt").value(), "evidence");
  // It is found by its own id.
  const auto found = Resolve(session_.parent_path(), repaired.session_id.substr(0, 8));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->directory, repaired.directory);
}

TEST_F(RepairTest, ACopyGoesWhereItIsWantedAndOverwritesNothing) {
  MakeSession();
  const std::filesystem::path output = directory_.path() / "copy";
  EXPECT_EQ(Copy(output).directory, output);
  EXPECT_TRUE(Verify(output).sound());
  EXPECT_EQ(RepairCopy(Verify(), output).error().code(), ErrorCode::kAlreadyExists);
}

TEST_F(RepairTest, InPlaceTheSessionKeepsItsIdAndIsSound) {
  MakeSession();
  const std::string id = ReadMetadata(session_)->session_id;
  FlipInEvents(chunk_ends_[2] - 1);
  const auto repaired = RepairInPlace(Verify());
  ASSERT_TRUE(repaired.has_value()) << repaired.error().text();
  EXPECT_EQ(repaired->directory, session_);
  EXPECT_EQ(ReadMetadata(session_)->session_id, id);
  EXPECT_TRUE(Verify().sound());
  EXPECT_EQ(Contents().size(), 2U) << "nothing is left over";
  // Once more, with more damage: both losses are told.
  const uint64_t lost_before = ReadMetadata(session_)->repair_lost_count;
  FlipInEvents(chunk_ends_[1] - 1);
  ASSERT_TRUE(RepairInPlace(Verify()).has_value());
  EXPECT_TRUE(Verify().sound());
  EXPECT_GT(ReadMetadata(session_)->repair_lost_count, lost_before);
}

TEST_F(RepairTest, ATornFileGetsAnIndex) {
  MakeSession();
  CutEvents(chunk_ends_[3] - 10);
  const RepairedSession repaired = Copy();
  EXPECT_EQ(repaired.lost_events, kEventsEach);
  EXPECT_FALSE(Reader::Open(repaired.directory / kEventsFile)->damage().no_footer);
}

TEST_F(RepairTest, LostMetadataIsMadeAnew) {
  MakeSession();
  Edit(kMetadataFile, [](std::string& bytes) { bytes = "kind = [\n"; });
  EXPECT_TRUE(Verify(Copy().directory).sound());
  ASSERT_TRUE(RepairInPlace(Verify()).has_value());
  EXPECT_TRUE(Verify().sound());
  EXPECT_EQ(ReadFile(session_ / "metadata.toml.bad").value(), "kind = [\n");
}

TEST_F(RepairTest, AFileOfWhichNothingIsLeftBecomesAnEmptyOne) {
  MakeSession();
  std::ofstream(session_ / kEventsFile) << "no session file at all";
  EXPECT_TRUE(Verify(Copy().directory).sound());
  ASSERT_TRUE(RepairInPlace(Verify()).has_value());
  EXPECT_TRUE(Verify().sound());
  EXPECT_EQ(ReadFile(session_ / "events.smlt.bad").value(), "no session file at all");
  EXPECT_EQ(ReadMetadata(session_)->repair_lost_count, kEvents);
}

TEST_F(RepairTest, AnInterruptedRepairCanBeDoneAgain) {
  MakeSession();
  FlipInEvents(chunk_ends_[2] - 1);
  std::ofstream(session_ / "events.smlt.repaired") << "half a file";
  ASSERT_TRUE(RepairInPlace(Verify()).has_value());
  EXPECT_TRUE(Verify().sound());
  EXPECT_FALSE(std::filesystem::exists(session_ / "events.smlt.repaired"));
}

// A block of a kind that does not exist yet, beside a damaged one.
TEST_F(RepairTest, BlocksOfUnknownKindsGoOverByteForByte) {
  MakeSession();
  std::string bytes = ReadFile(session_ / kEventsFile).value();
  bytes.resize(chunk_ends_[1]);
  auto header_bytes = *ClaimedHeaderBytes(std::as_bytes(std::span(bytes)).subspan(kFileHeaderBytes));
  auto header = *DecodeChunkHeader(std::as_bytes(std::span(bytes)).subspan(kFileHeaderBytes, header_bytes));
  ASSERT_GE(header.blocks.size(), 3U);
  header.blocks[0].kind_number = 900;
  header.blocks[0].opaque = false;
  header.blocks[1].checksum ^= 1;
  ByteBuffer out;
  PutFileHeader(out);
  EncodeChunkHeader(header, out);
  const auto body = std::as_bytes(std::span(bytes)).subspan(kFileHeaderBytes + header_bytes);
  out.PutBytes(body);
  std::ofstream(session_ / kEventsFile, std::ios::binary)
      .write(reinterpret_cast<const char*>(out.view().data()), static_cast<std::streamsize>(out.size()));
  const std::filesystem::path repaired = directory_.path() / "repaired.smlt";
  ASSERT_TRUE(RepairFile(session_ / kEventsFile, repaired).has_value());
  const std::string copy = ReadFile(repaired).value();
  const std::string block(reinterpret_cast<const char*>(body.data()) + header.text_stored_bytes,
                          header.blocks[0].stored_bytes);
  EXPECT_NE(copy.find(block), std::string::npos);
  const auto verified = VerifyFile(repaired, false);
  ASSERT_TRUE(verified.has_value());
  EXPECT_EQ(verified->fault_count, 0U);
  EXPECT_EQ(verified->counts_by_kind.count("Kind#900"), 1U);
  EXPECT_EQ(verified->event_count, kEventsEach - header.blocks[1].event_count);
}

}  // namespace
}  // namespace smeltr::session
