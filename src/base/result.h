// Expected failures are values: Result<T> is a T or an Error.
// No heap, no throw: usable inside the traced process. A message longer than the buffer is cut at a
// character boundary.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <string_view>

namespace smeltr {

enum class ErrorCode : uint8_t {
  kInvalidArgument,  // The caller or the user gave something that cannot work.
  kNotFound,
  kAmbiguous,
  kAlreadyExists,
  kPermission,
  kCorrupt,      // Input that breaks its own format.
  kUnsupported,  // A newer format, a missing feature.
  kNoSpace,      // Disk or ring full.
  kUnavailable,  // The other side is not there, or not now.
  kIo,           // Any other failing system call.
};

class Error {
 public:
  Error(ErrorCode code, std::string_view text) : code_(code) {
    size_t length = text.size() < text_.size() ? text.size() : text_.size();
    // 0b10xxxxxx is a continuation byte: never cut in front of one.
    while (length < text.size() && length > 0 && (text[length] & 0xC0) == 0x80) --length;
    std::memcpy(text_.data(), text.data(), length);
    length_ = static_cast<uint16_t>(length);
  }

  ErrorCode code() const { return code_; }
  // One line, no trailing newline, says what to do next where something can be done.
  std::string_view text() const { return {text_.data(), length_}; }

 private:
  ErrorCode code_;
  uint16_t length_ = 0;
  std::array<char, 480> text_{};
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> Fail(ErrorCode code, std::string_view text) {
  return std::unexpected(Error(code, text));
}

}  // namespace smeltr

// Returns the error of `expression` (a Result) from the calling function, if it has one.
#define SMELTR_TRY(expression)                                       \
  do {                                                               \
    if (auto try_result_ = (expression); !try_result_.has_value()) { \
      return std::unexpected(std::move(try_result_).error());        \
    }                                                                \
  } while (false)

#define SMELTR_CONCAT_(a, b) a##b
#define SMELTR_CONCAT(a, b) SMELTR_CONCAT_(a, b)

// SMELTR_ASSIGN_OR_RETURN(auto x, F()): x is F()'s value, or its error is returned.
#define SMELTR_ASSIGN_OR_RETURN(declaration, expression) \
  SMELTR_ASSIGN_OR_RETURN_(SMELTR_CONCAT(assign_result_, __LINE__), declaration, expression)
#define SMELTR_ASSIGN_OR_RETURN_(temporary, declaration, expression)                \
  auto temporary = (expression);                                                    \
  if (!temporary.has_value()) return std::unexpected(std::move(temporary).error()); \
  declaration = std::move(temporary).value()
