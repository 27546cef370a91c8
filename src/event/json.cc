#include "event/json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "base/bytes.h"
#include "base/utf8.h"
#include "event/names.h"

namespace smeltr::event {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

constexpr bool IsPlain(char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

template <typename T>
void AppendNumber(T value, std::string& out) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), static_cast<size_t>(end - digits.data()));
}

void AppendEscape(char c, std::string& out) {
  const auto byte = static_cast<unsigned char>(c);
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      out += "\\u00";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 0xF];
  }
}

// Writes one value after another; the overloads are the JSON form of each field type.
class JsonFields {
 public:
  explicit JsonFields(std::string& out) : out_(out) {}

  // For VisitFields.
  template <typename T>
  void operator()(std::string_view key, bool optional, const T& field) {
    if (optional && IsEmpty(field)) return;
    Key(key);
    Value(field);
  }

  void Key(std::string_view key) {
    if (!first_) out_ += ',';
    first_ = false;
    // Keys are C++ names: nothing in them needs escaping.
    out_ += '"';
    out_ += key;
    out_ += "\":";
  }

  void Value(std::string_view text) { AppendJsonText(text, out_); }
  void Value(const Text& text) { AppendJsonText(text.view, out_); }
  void Value(bool value) { out_ += value ? "true" : "false"; }
  void Value(double value) {
    if (std::isfinite(value)) {
      AppendNumber(value, out_);
    } else {
      out_ += "null";
    }
  }
  void Value(uint32_t value) { AppendNumber(value, out_); }
  void Value(uint64_t value) { AppendNumber(value, out_); }
  void Value(int64_t value) { AppendNumber(value, out_); }
  void Value(IdType auto id) { AppendNumber(Raw(id), out_); }
  void Value(NamedEnum auto value) { AppendJsonText(EnumName(value), out_); }

  void Value(const List<Attribute>& attributes) {
    out_ += '{';
    bool first = true;
    for (size_t i = 0; i < attributes.size(); ++i) {
      const Attribute& attribute = attributes[i];
      const auto later = attributes.subspan(i + 1);
      // A key set twice has its last value: objects with a key twice are read differently everywhere.
      if (std::ranges::find(later, attribute.key, &Attribute::key) != later.end()) continue;
      if (!first) out_ += ',';
      first = false;
      AppendJsonText(attribute.key.view, out_);
      out_ += ':';
      AttributeValue(attribute);
    }
    out_ += '}';
  }

  template <typename T>
  void Value(const List<T>& list) {
    out_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i != 0) out_ += ',';
      Value(list[i]);
    }
    out_ += ']';
  }

  template <typename T>
    requires std::is_class_v<T>
  void Value(const T& fields) {
    out_ += '{';
    JsonFields inner(out_);
    VisitFields(fields, inner);
    out_ += '}';
  }

 private:
  static bool IsEmpty(const Text& text) { return text.view.empty(); }
  template <typename T>
  static bool IsEmpty(const List<T>& list) {
    return list.empty();
  }
  template <Scalar T>
  static bool IsEmpty(T value) {
    return value == T{};
  }

  void AttributeValue(const Attribute& attribute) {
    switch (attribute.type) {
      case AttributeType::kBool:
        return Value(attribute.bits != 0);
      case AttributeType::kInt:
        return Value(static_cast<int64_t>(attribute.bits));
      case AttributeType::kFloat:
        return Value(std::bit_cast<double>(attribute.bits));
      case AttributeType::kString:
        return Value(attribute.text);
    }
    out_ += "null";  // A type of a newer writer.
  }

  std::string& out_;
  bool first_ = true;
};

Source SourceOf(Kind kind) {
  const KindInfo* info = FindKind(kind);
  return info != nullptr ? info->source : Source::kSystem;
}

void AppendHex(List<std::byte> bytes, std::string& out) {
  out += '"';
  for (const std::byte byte : bytes) {
    out += kHexDigits[std::to_integer<size_t>(byte >> 4)];
    out += kHexDigits[std::to_integer<size_t>(byte & std::byte{0xF})];
  }
  out += '"';
}

}  // namespace

void AppendJsonText(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const auto special = std::ranges::find_if_not(text, IsPlain);
    const auto plain = static_cast<size_t>(special - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const size_t bytes = Utf8CharacterBytes(text);
    if (bytes == 0) {
      out += kReplacementCharacter;
    } else if (bytes == 1 && text[0] != 0x7F) {
      AppendEscape(text[0], out);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  out += '"';
}

void AppendJson(const Event& event, std::string& out) {
  const auto* opaque = std::get_if<Opaque>(&event.payload);
  const Kind kind = opaque != nullptr ? static_cast<Kind>(opaque->kind_number) : KindOf(event.payload);
  out += '{';
  JsonFields fields(out);
  fields("ts_mono_ns", false, event.envelope.ts_ns);
  fields("seq", false, event.envelope.seq);
  fields("pid", false, event.envelope.pid);
  fields("tid", false, event.envelope.tid);
  fields("source", false, SourceOf(kind));
  fields("kind", false, Text(KindName(event.envelope.api, kind).view()));
  std::visit(
      [&]<typename E>(const E& payload) {
        if constexpr (std::same_as<E, Opaque>) {
          fields.Key("payload_hex");
          AppendHex(payload.bytes, out);
        } else {
          VisitFields(payload, fields);
        }
      },
      event.payload);
  out += '}';
}

}  // namespace smeltr::event
