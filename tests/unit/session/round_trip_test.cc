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

}  // namespace
}  // namespace smeltr::session
