// Requests, replies, notices and streams from whoever is at the other end of the socket.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "event/json.h"
#include "ipc/message.h"
#include "ipc/stream.h"

namespace {

using smeltr::ipc::Encode;

// What was understood is said again in the same words.
template <typename Message, typename Decode>
void RoundTrip(std::string_view text, Decode decode) {
  const auto message = decode(text);
  if (!message.has_value()) return;
  const std::string once = Encode(Message(*message));
  const auto again = decode(once);
  if (!again.has_value() || Encode(Message(*again)) != once) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  RoundTrip<smeltr::ipc::Request>(text, smeltr::ipc::DecodeRequest);
  RoundTrip<smeltr::ipc::Reply>(text, smeltr::ipc::DecodeReply);
  RoundTrip<smeltr::ipc::Notice>(text, smeltr::ipc::DecodeNotice);
  const auto item = smeltr::ipc::DecodeStreamItem(text);
  if (!item.has_value()) return 0;
  if (const auto* batch = std::get_if<smeltr::ipc::EventBatch>(&*item)) {
    std::string json;
    // Damage ends a batch with an error; what came before it was visited.
    static_cast<void>(batch->ForEach([&](const smeltr::event::Event& event) {
      json.clear();
      smeltr::event::AppendJson(event, json);
    }));
  }
  return 0;
}
