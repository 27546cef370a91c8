#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace smeltr {
namespace {

// Seven bits a byte, lowest first: the format that LoadVarint reads.
std::vector<std::byte> Varint(uint64_t value) {
  std::vector<std::byte> bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::byte>(value | 0x80));
  bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Bytes, ReaderReturnsWhatWriterStored) {
  std::array<std::byte, 64> buffer{};
  ByteWriter out(buffer);
  out.Store(uint8_t{7});
  out.Store(uint64_t{0x0123'4567'89AB'CDEF});
  out.Store(-2.5);
  out.StoreText("abc");
  ASSERT_TRUE(out.ok());

  ByteReader in({buffer.data(), out.position()});
  EXPECT_EQ(in.Load<uint8_t>(), 7);
  EXPECT_EQ(in.Load<uint64_t>(), 0x0123'4567'89AB'CDEFU);
  EXPECT_EQ(in.Load<double>(), -2.5);
  EXPECT_EQ(in.TakeText(3), "abc");
  EXPECT_EQ(in.remaining(), 0U);
  EXPECT_TRUE(in.ok());
}

TEST(Bytes, ReaderStaysBadAfterAnOverrun) {
  const std::array<std::byte, 3> buffer{std::byte{1}, std::byte{2}, std::byte{3}};
  ByteReader in(buffer);
  EXPECT_EQ(in.Load<uint32_t>(), 0U);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.Load<uint8_t>(), 0) << "a byte is left, but what it means is not known any more";
  EXPECT_TRUE(in.Take(1).empty());
}

TEST(Bytes, HugeCountsDoNotWrapAround) {
  const std::array<std::byte, 8> buffer{};
  ByteReader in(buffer);
  in.Load<uint8_t>();
  EXPECT_TRUE(in.Take(std::numeric_limits<size_t>::max()).empty());
  EXPECT_FALSE(in.ok());
}

TEST(Bytes, WriterRefusesWhatDoesNotFit) {
  std::array<std::byte, 4> buffer{};
  ByteWriter out(buffer);
  out.StoreText("12345");
  EXPECT_FALSE(out.ok());
  EXPECT_EQ(out.position(), 0U);
  EXPECT_EQ(buffer[0], std::byte{0});
}

TEST(Bytes, VarintsOfEveryLength) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const uint64_t value : {uint64_t{1} << bit, (uint64_t{1} << bit) - 1, ~uint64_t{0} >> bit}) {
      const auto bytes = Varint(value);
      ByteReader in(bytes);
      EXPECT_EQ(in.LoadVarint(), value);
      EXPECT_TRUE(in.ok());
      EXPECT_EQ(in.remaining(), 0U);
      ByteReader cut({bytes.data(), bytes.size() - 1});
      cut.LoadVarint();
      EXPECT_FALSE(cut.ok()) << value;
    }
  }
}

TEST(Bytes, AnEndlessVarintIsAnError) {
  std::array<std::byte, 16> bytes;
  bytes.fill(std::byte{0xFF});
  ByteReader in(bytes);
  in.LoadVarint();
  EXPECT_FALSE(in.ok());
}

TEST(Bytes, ZigZagKeepsSmallNumbersSmallAndAllOfThem) {
  EXPECT_EQ(ZigZag(0), 0U);
  EXPECT_EQ(ZigZag(-1), 1U);
  EXPECT_EQ(ZigZag(1), 2U);
  for (const int64_t value : {std::numeric_limits<int64_t>::min(), int64_t{-12345}, int64_t{12345},
                              std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(UnZigZag(ZigZag(value)), value);
  }
}

TEST(Error, LongTextIsCutBetweenCharacters) {
  const std::string character = "\xE2\x82\xAC";  // Three bytes.
  std::string text;
  while (text.size() < 600) text += character;
  const Error error(ErrorCode::kIo, text);
  EXPECT_GT(error.text().size(), 470U);
  EXPECT_EQ(error.text().size() % character.size(), 0U);
  EXPECT_TRUE(text.starts_with(error.text()));
}

TEST(Error, ShortTextIsKeptWhole) {
  EXPECT_EQ(Error(ErrorCode::kNotFound, "no such session").text(), "no such session");
  EXPECT_EQ(Error(ErrorCode::kNotFound, "").text(), "");
}

Result<int> Half(int value) {
  if (value % 2 != 0) return Fail(ErrorCode::kInvalidArgument, "odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  SMELTR_ASSIGN_OR_RETURN(const int half, Half(value));
  SMELTR_TRY(Half(half));
  return half / 2;
}

TEST(Result, MacrosPassErrorsOn) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(3).error().text(), "odd");
  EXPECT_EQ(Quarter(6).error().code(), ErrorCode::kInvalidArgument);
}

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(Fd, ClosesOnceAndMoves) {
  const int raw = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(raw, 0);
  {
    Fd first(raw);
    Fd second(std::move(first));
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): what a moved-from one promises.
    EXPECT_EQ(second.get(), raw);
    EXPECT_TRUE(IsOpen(raw));
  }
  EXPECT_FALSE(IsOpen(raw));
}

TEST(Fd, ReleaseKeepsItOpen) {
  int raw = -1;
  {
    Fd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    raw = fd.Release();
  }
  ASSERT_TRUE(IsOpen(raw));
  ::close(raw);
}

TEST(Clock, IsMonotonicAndTheSystemsOwn) {
  timespec before{};
  ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &before), 0);
  const uint64_t now = MonotonicNowNs();
  EXPECT_GE(now, static_cast<uint64_t>(before.tv_sec) * kNsPerSecond + static_cast<uint64_t>(before.tv_nsec));
  EXPECT_GE(MonotonicNowNs(), now);
}

}  // namespace
}  // namespace smeltr
