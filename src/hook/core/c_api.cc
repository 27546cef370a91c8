// The functions behind include/smeltr/smeltr.h.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "hook/core/runtime.h"
#include "hook/core/scopes.h"

#define SMELTR_TYPES_ONLY
#include "smeltr/smeltr.h"

namespace smeltr::hook {
namespace {

// The numbers of the C API are those of the events.
static_assert(static_cast<int>(event::AttributeType::kBool) == SMELTR_BOOL);
static_assert(static_cast<int>(event::AttributeType::kInt) == SMELTR_INT);
static_assert(static_cast<int>(event::AttributeType::kFloat) == SMELTR_FLOAT);
static_assert(static_cast<int>(event::AttributeType::kString) == SMELTR_STRING);

event::Text TextOf(const char* characters) {
  return characters != nullptr ? event::Text(characters) : event::Text();
}

class Attributes {
 public:
  Attributes(const smeltr_field* fields, size_t count)
      : count_(fields != nullptr ? std::min(count, attributes_.size()) : 0) {
    for (size_t i = 0; i < count_; ++i) attributes_[i] = Convert(fields[i]);
  }
  event::List<event::Attribute> list() const { return std::span(attributes_).first(count_); }

 private:
  static event::Attribute Convert(const smeltr_field& field) {
    event::Attribute attribute{.key = TextOf(field.key), .type = {}, .bits = 0, .text = {}};
    // A C program may have put anything there; reading that as the enum would be undefined.
    int type;
    static_assert(sizeof(type) == sizeof(field.type));
    std::memcpy(&type, &field.type, sizeof(type));
    attribute.type = static_cast<event::AttributeType>(type);
    switch (type) {
      case SMELTR_BOOL:
      case SMELTR_INT:
        attribute.bits = static_cast<uint64_t>(field.value.as_int);
        break;
      case SMELTR_FLOAT:
        attribute.bits = std::bit_cast<uint64_t>(field.value.as_float);
        break;
      case SMELTR_STRING:
        attribute.text = TextOf(field.value.as_string);
        break;
      default:  // Of a newer header: the key alone is kept.
        attribute.type = event::AttributeType::kBool;
    }
    return attribute;
  }

  std::array<event::Attribute, SMELTR_MAX_FIELDS> attributes_;
  size_t count_;
};

int Recording() { return EnsureStarted() ? 1 : 0; }

void ScopePush(const char* name, const smeltr_field* fields, size_t count) {
  if (!EnsureStarted()) return;
  if (count == 0) {
    PushScope({.name = TextOf(name)});
  } else {
    PushScope({.name = TextOf(name), .fields = Attributes(fields, count).list()});
  }
}

void ScopePop() { PopScope(); }

void Mark(const char* label, const smeltr_field* fields, size_t count) {
  if (EnsureStarted()) EmitMark(TextOf(label), Attributes(fields, count).list());
}

constexpr smeltr_client kClient = {.version = 1,
                                   .size_bytes = sizeof(smeltr_client),
                                   .recording = Recording,
                                   .scope_push = ScopePush,
                                   .scope_pop = ScopePop,
                                   .mark = Mark};

}  // namespace
}  // namespace smeltr::hook

extern "C" __attribute__((visibility("default"))) const smeltr_client* smeltr_client_v1(void) {
  return smeltr::hook::EnsureStarted() ? &smeltr::hook::kClient : nullptr;
}
