// JSON as profilers write it: pulled value by value out of bytes in memory, damage and all.
//
// nlohmann's SAX parser was left out: it stops for good at the first control character inside a string,
// trailing comma, NaN or missing end, all of which real traces have, and cannot be started again behind a
// damaged event. This one takes in stride: raw control characters in strings, unknown escapes, commas too
// many or too few, NaN and Infinity with any sign and case, malformed UTF-8 (kept as it is). Everything else
// is an error with its place; the caller decides where to begin again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace smeltr::session {

enum class JsonType : uint8_t { kObject, kArray, kString, kNumber, kTrue, kFalse, kNull };

// A value as it stands in the text. Strings without their quotes, escapes still in them; lists and objects
// whole.
struct JsonValue {
  JsonType type = JsonType::kNull;
  std::string_view raw;
};

class JsonCursor {
 public:
  static constexpr size_t kMaxDepth = 64;

  explicit JsonCursor(std::string_view text) : text_(text) {}

  bool ok() const { return ok_; }
  // It failed because `text` ended, so that more of it might help.
  bool at_end() const { return !ok_ && at_ >= text_.size(); }
  size_t position() const { return at_; }

  // What the next value is; nothing, and not ok any more, when none begins here.
  std::optional<JsonType> Peek();
  // The next value.
  bool Read(JsonValue& value);
  bool Skip();

  // visit(std::string_view raw_key) must consume the value behind the key, with the calls above. The next
  // value must be an object (else: not ok).
  template <typename F>
  bool ReadObject(F&& visit) {
    if (!Open('{')) return false;
    while (NextIn('}')) {
      JsonValue key;
      if (!Read(key) || key.type != JsonType::kString || !Colon()) return Fail();
      visit(key.raw);
      if (!ok_) return false;
    }
    return ok_;
  }
  // visit() must consume one value.
  template <typename F>
  bool ReadArray(F&& visit) {
    if (!Open('[')) return false;
    while (NextIn(']')) {
      visit();
      if (!ok_) return false;
    }
    return ok_;
  }

 private:
  bool Fail() {
    ok_ = false;
    return false;
  }
  void SkipSpace();
  bool Open(char bracket);
  bool NextIn(char bracket);
  bool Colon();
  bool ReadString(JsonValue& value);
  bool ReadWord(JsonValue& value);

  std::string_view text_;
  size_t at_ = 0;
  size_t depth_ = 0;
  bool ok_ = true;
};

// The characters that a string's raw text stands for. Without escapes that is `raw` itself, else `scratch`
// holds them. What is no escape stays as it is; lone surrogates become U+FFFD.
std::string_view JsonText(std::string_view raw, std::string& scratch);

// Numbers, also inside strings: traces have both. Nothing for what does not begin like one, NaN and Infinity.
std::optional<int64_t> JsonInteger(std::string_view raw);
std::optional<double> JsonReal(std::string_view raw);
// Microseconds with a fraction as exact ns, which a double could not hold: "1790857026000.123" -> ...123 ns.
// Digits beyond the ns are rounded half up. Nothing for no number, and beyond 64 bits.
std::optional<int64_t> JsonMicrosecondsToNs(std::string_view raw);

}  // namespace smeltr::session
