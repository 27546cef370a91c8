// ring_dump <ring file>...: what is in the rings of recorded processes, one JSON object a line.
// For tests of the hook alone, without daemon and session.

#include <cstdio>
#include <string>

#include "event/names.h"
#include "ring/reader.h"

namespace smeltr {
namespace {

struct Printer {
  bool first = true;

  void Value(const event::Text& text) {
    std::fputc('"', stdout);
    for (const char c : text.view) {
      if (c == '"' || c == '\\') std::fputc('\\', stdout);
      if (static_cast<unsigned char>(c) < 0x20) {
        std::printf("\\u%04x", static_cast<unsigned>(c));
      } else {
        std::fputc(c, stdout);
      }
    }
    std::fputc('"', stdout);
  }
  void Value(bool value) { std::fputs(value ? "true" : "false", stdout); }
  void Value(double value) { std::printf("%.17g", value); }
  template <typename T>
    requires std::is_integral_v<T>
  void Value(T value) {
    std::fputs(std::to_string(value).c_str(), stdout);
  }
  template <event::IdType T>
  void Value(T id) {
    Value(event::Raw(id));
  }
  template <event::NamedEnum T>
  void Value(T value) {
    Value(event::Text(event::EnumName(value)));
  }
  template <typename T>
  void Value(const event::List<T>& list) {
    std::fputc('[', stdout);
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) std::fputc(',', stdout);
      Value(list[i]);
    }
    std::fputc(']', stdout);
  }
  void Value(std::byte) { std::fputc('0', stdout); }
  template <typename T>
    requires std::is_class_v<T>
  void Value(const T& fields) {
    std::fputc('{', stdout);
    Printer inner;
    event::VisitFields(fields, inner);
    std::fputc('}', stdout);
  }
  template <typename T>
  void operator()(std::string_view key, bool, const T& field) {
    std::printf("%s\"%.*s\":", first ? "" : ",", static_cast<int>(key.size()), key.data());
    first = false;
    Value(field);
  }
};

void Print(const event::Event& event) {
  const event::KindName name(event.envelope.api, event::KindOf(event.payload));
  std::printf("{\"kind\":\"%.*s\",\"ts_ns\":%llu,\"pid\":%u,\"tid\":%u", static_cast<int>(name.view().size()),
              name.view().data(), static_cast<unsigned long long>(event.envelope.ts_ns), event.envelope.pid,
              event.envelope.tid);
  std::visit(
      []<typename E>(const E& fields) {
        if constexpr (!std::is_same_v<E, event::Opaque>) {
          Printer printer{.first = false};
          event::VisitFields(fields, printer);
        }
      },
      event.payload);
  std::puts("}");
}

}  // namespace
}  // namespace smeltr

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    auto segment = smeltr::ring::Segment::Map(argv[i]);
    if (!segment.has_value()) {
      std::fprintf(stderr, "%s: %.*s\n", argv[i], static_cast<int>(segment.error().text().size()),
                   segment.error().text().data());
      return 1;
    }
    smeltr::ring::Reader reader(std::move(*segment));
    while (reader.Drain(100'000, smeltr::Print).more) {
    }
    for (const auto& dropped : reader.TakeDropped()) {
      std::printf("{\"kind\":\"dropped\",\"number\":%u,\"count\":%llu}\n",
                  static_cast<unsigned>(dropped.kind), static_cast<unsigned long long>(dropped.count));
    }
  }
  return 0;
}
