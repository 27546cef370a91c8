#include "session/import_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/utf8.h"

namespace smeltr::session {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}
char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, Lower, Lower);
}

std::optional<uint32_t> HexDigits(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 4, value, 16);
  if (error != std::errc() || end != text.data() + 4) return std::nullopt;
  return value;
}

void AppendCodePoint(uint32_t code, std::string& out) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

// The escape "\uXXXX" at the front of `rest`, or a pair of them; how many characters it takes.
size_t UnescapeUnicode(std::string_view rest, std::string& out) {
  const std::optional<uint32_t> first = HexDigits(rest.substr(2));
  if (!first) return 0;
  if (*first < 0xD800 || *first > 0xDFFF) {
    AppendCodePoint(*first, out);
    return 6;
  }
  if (*first < 0xDC00 && rest.substr(6).starts_with("\\u")) {
    const std::optional<uint32_t> second = HexDigits(rest.substr(8));
    if (second && *second >= 0xDC00 && *second <= 0xDFFF) {
      AppendCodePoint(0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00), out);
      return 12;
    }
  }
  out += kReplacementCharacter;
  return 6;
}

// What "\<c>" stands for; 0 when it is no escape.
char Unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case '"':
    case '\\':
    case '/':
      return c;
    default:
      return 0;
  }
}

// A decimal number taken apart: digits * 10^exponent.
struct Decimal {
  uint64_t digits = 0;
  int exponent = 0;
  bool negative = false;
};

std::optional<Decimal> ParseDecimal(std::string_view raw) {
  Decimal number;
  size_t at = 0;
  if (at < raw.size() && (raw[at] == '-' || raw[at] == '+')) number.negative = raw[at++] == '-';
  bool any = false;
  bool fraction = false;
  for (; at < raw.size(); ++at) {
    if (raw[at] == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (!IsDigit(raw[at])) break;
    any = true;
    constexpr uint64_t kRoom = std::numeric_limits<uint64_t>::max() / 10 - 1;
    if (number.digits <= kRoom) {
      number.digits = number.digits * 10 + static_cast<uint64_t>(raw[at] - '0');
      number.exponent -= fraction ? 1 : 0;
    } else if (!fraction) {
      ++number.exponent;
    }
    if (number.exponent > 40) return std::nullopt;
  }
  if (!any) return std::nullopt;
  if (at < raw.size() && (raw[at] == 'e' || raw[at] == 'E')) {
    if (++at < raw.size() && raw[at] == '+') ++at;
    int exponent = 0;
    const auto [end, error] = std::from_chars(raw.data() + at, raw.data() + raw.size(), exponent);
    if (error != std::errc() || std::abs(exponent) > 1000) return std::nullopt;
    number.exponent += exponent;
    at = static_cast<size_t>(end - raw.data());
  }
  if (at != raw.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> Scaled(const Decimal& number, int exponent) {
  uint64_t value = number.digits;
  exponent += number.exponent;
  for (; exponent > 0 && value != 0; --exponent) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 10) return std::nullopt;
    value *= 10;
  }
  bool half = false;
  for (; exponent < 0 && (value != 0 || half); ++exponent) {
    half = value % 10 >= 5;
    value /= 10;
  }
  value += half ? 1 : 0;
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return number.negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

}  // namespace

void JsonCursor::SkipSpace() {
  while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
}

bool JsonCursor::Open(char bracket) {
  SkipSpace();
  if (!ok_ || at_ >= text_.size() || text_[at_] != bracket || depth_ >= kMaxDepth) return Fail();
  ++at_;
  ++depth_;
  return true;
}

// True: a value follows. False: the end of the list, consumed, or damage.
bool JsonCursor::NextIn(char bracket) {
  if (!ok_) return false;
  SkipSpace();
  while (at_ < text_.size() && text_[at_] == ',') {
    ++at_;
    SkipSpace();
  }
  if (at_ >= text_.size()) return Fail();
  if (text_[at_] != bracket) return true;
  ++at_;
  --depth_;
  return false;
}

bool JsonCursor::Colon() {
  SkipSpace();
  if (at_ >= text_.size() || text_[at_] != ':') return Fail();
  ++at_;
  return true;
}

std::optional<JsonType> JsonCursor::Peek() {
  SkipSpace();
  if (ok_ && at_ < text_.size()) {
    switch (text_[at_]) {
      case '{':
        return JsonType::kObject;
      case '[':
        return JsonType::kArray;
      case '"':
        return JsonType::kString;
      default:
        if (IsWordCharacter(text_[at_])) return JsonType::kNumber;
    }
  }
  ok_ = false;
  return std::nullopt;
}

bool JsonCursor::ReadString(JsonValue& value) {
  const size_t begin = at_ + 1;
  size_t end = begin;
  while (true) {
    end = text_.find_first_of("\"\\", end);
    if (end == std::string_view::npos) {
      at_ = text_.size();
      return Fail();
    }
    if (text_[end] == '"') break;
    end += 2;
  }
  value = {JsonType::kString, text_.substr(begin, end - begin)};
  at_ = end + 1;
  return true;
}

// A number, or a word that stands for a value.
bool JsonCursor::ReadWord(JsonValue& value) {
  const size_t begin = at_;
  while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
  // Cut off, perhaps in the middle.
  if (at_ >= text_.size()) return Fail();
  const std::string_view word = text_.substr(begin, at_ - begin);
  value = {JsonType::kNull, word};
  std::string_view unsigned_word = word;
  if (word.front() == '-' || word.front() == '+') unsigned_word.remove_prefix(1);
  if (word == "true") {
    value.type = JsonType::kTrue;
  } else if (word == "false") {
    value.type = JsonType::kFalse;
  } else if (ParseDecimal(word) || EqualsIgnoringCase(unsigned_word, "nan") ||
             EqualsIgnoringCase(unsigned_word, "infinity") || EqualsIgnoringCase(unsigned_word, "inf")) {
    value.type = JsonType::kNumber;
  } else if (word != "null" && word != "None" && word != "undefined") {
    at_ = begin;
    return Fail();
  }
  return true;
}

bool JsonCursor::Read(JsonValue& value) {
  const std::optional<JsonType> next = Peek();
  if (!next) return false;
  if (*next == JsonType::kString) return ReadString(value);
  if (*next == JsonType::kNumber) return ReadWord(value);
  const size_t begin = at_;
  if (!Skip()) return false;
  value = {*next, text_.substr(begin, at_ - begin)};
  return true;
}

bool JsonCursor::Skip() {
  const std::optional<JsonType> next = Peek();
  if (!next) return false;
  JsonValue unused;
  if (*next == JsonType::kObject) {
    return ReadObject([&](std::string_view) { Skip(); });
  }
  if (*next == JsonType::kArray) return ReadArray([&] { Skip(); });
  return Read(unused);
}

std::string_view JsonText(std::string_view raw, std::string& scratch) {
  size_t escape = raw.find('\\');
  if (escape == std::string_view::npos) return raw;
  scratch.clear();
  while (escape != std::string_view::npos) {
    scratch += raw.substr(0, escape);
    raw.remove_prefix(escape);
    const char kind = raw.size() > 1 ? raw[1] : '\0';
    size_t taken = 0;
    if (kind == 'u') {
      taken = UnescapeUnicode(raw, scratch);
    } else if (const char character = Unescaped(kind); character != 0) {
      scratch += character;
      taken = 2;
    }
    if (taken == 0) {
      scratch += raw.front();
      taken = 1;
    }
    raw.remove_prefix(taken);
    escape = raw.find('\\');
  }
  scratch += raw;
  return scratch;
}

std::optional<int64_t> JsonInteger(std::string_view raw) {
  const std::optional<Decimal> number = ParseDecimal(raw);
  return number ? Scaled(*number, 0) : std::nullopt;
}

std::optional<double> JsonReal(std::string_view raw) {
  if (!ParseDecimal(raw)) return std::nullopt;
  if (raw.starts_with('+')) raw.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), value);
  if (error != std::errc() || end != raw.data() + raw.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> JsonMicrosecondsToNs(std::string_view raw) {
  const std::optional<Decimal> number = ParseDecimal(raw);
  return number ? Scaled(*number, 3) : std::nullopt;
}

}  // namespace smeltr::session
