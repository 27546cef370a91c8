// Bytes as one frame: decoded or refused, never more. What was decoded is encoded again and must then
// come back equal.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <variant>
#include <vector>

#include "event/frame.h"

namespace {

using namespace smeltr;

class SomeStrings : public event::StringSource {
 public:
  std::string_view Lookup(uint32_t id) override { return id % 2 == 0 ? "even" : "odd and longer"; }
};

struct NoStrings {
  uint32_t Intern(std::string_view) { return 0; }
};

// The size of the frame in `space`; 0 for kinds that are not known.
size_t Encode(const event::Event& event, std::vector<std::byte>& space) {
  return std::visit(
      [&]<typename E>(const E& fields) -> size_t {
        if constexpr (std::same_as<E, event::Opaque>) {
          return 0;
        } else {
          NoStrings strings;
          return event::EncodeFrame(event.envelope.api, event.envelope.ts_ns, fields, strings, space);
        }
      },
      event.payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::vector<std::byte> storage(256 * 1024);
  static std::vector<std::byte> second_storage(256 * 1024);
  static std::vector<std::byte> once(1 << 20);
  static std::vector<std::byte> twice(1 << 20);
  // The input begins behind the size, which has to be right for anything to happen.
  std::vector<std::byte> frame(size + sizeof(uint32_t));
  const auto frame_size = static_cast<uint32_t>(frame.size());
  std::memcpy(frame.data(), &frame_size, sizeof(frame_size));
  if (size > 0) std::memcpy(frame.data() + sizeof(frame_size), data, size);

  SomeStrings strings;
  event::DecodeArena arena(storage);
  const auto decoded = event::DecodeFrame(frame, strings, arena);
  if (!decoded.has_value()) return 0;
  const size_t size_once = Encode(*decoded, once);
  if (size_once == 0) return 0;
  event::DecodeArena second_arena(second_storage);
  const auto again = event::DecodeFrame(std::span(once).first(size_once), strings, second_arena);
  if (!again.has_value()) std::abort();
  if (Encode(*again, twice) != size_once) std::abort();
  if (!std::equal(once.begin(), once.begin() + static_cast<std::ptrdiff_t>(size_once), twice.begin()))
    std::abort();
  return 0;
}
