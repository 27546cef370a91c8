// The events of one kind and interface on their way into a chunk, as columns.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "base/bytes.h"
#include "event/event.h"
#include "session/row_table.h"
#include "session/schema.h"
#include "session/text_table.h"

namespace smeltr::session {

class BlockBuilder {
 public:
  // seq, ts_ns, pid, tid stand before the fields of the kind.
  static constexpr size_t kEnvelopeColumns = 4;

  explicit BlockBuilder(const Schema& schema);

  // E: the struct that the schema is of.
  template <typename E>
  void Append(const event::Envelope& envelope, const E& fields, TextTable& texts);

  size_t event_count() const { return rows_.row_count(); }
  // Numbers gathered, those of list elements included.
  size_t value_count() const;
  size_t max_element_count() const;
  size_t capacity_bytes() const;

  // Appends the block's bytes. What was gathered is scratch afterwards: Clear().
  void Encode(Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out);
  void Clear();
  void Release();

 private:
  struct FieldStager;

  const Schema& schema_;
  RowTable rows_;
  std::vector<RowTable> lists_;  // One a list field, in the order of the fields.
};

namespace internal {

template <typename T>
constexpr uint64_t Number(T value) {
  if constexpr (std::same_as<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

// Puts the fields of a list element, or the element itself, into one row.
struct ElementStager {
  RowTable& rows;
  TextTable& texts;
  size_t column = 0;

  template <typename T>
  void operator()(std::string_view, bool, const T& field) {
    Stage(field);
  }
  void Stage(const event::Text& text) { rows.Set(column++, texts.Intern(text.view)); }
  template <Scalar T>
  void Stage(T value) {
    rows.Set(column++, Number(value));
  }
  template <typename T>
    requires(!Scalar<T>)
  void Stage(const T& fields) {
    VisitFields(fields, *this);
  }
};

}  // namespace internal

struct BlockBuilder::FieldStager {
  BlockBuilder& block;
  TextTable& texts;
  size_t column = kEnvelopeColumns;
  size_t list = 0;

  template <typename T>
  void operator()(std::string_view, bool, const T& field) {
    block.rows_.Set(column++, Stage(field));
  }
  uint64_t Stage(const event::Text& text) { return texts.Intern(text.view); }
  template <Scalar T>
  uint64_t Stage(T value) {
    return internal::Number(value);
  }
  template <typename T>
  uint64_t Stage(const event::List<T>& elements) {
    RowTable& rows = block.lists_[list++];
    const size_t count = std::min<size_t>(elements.size(), kMaxListElements);
    for (const T& element : elements.first(count)) {
      rows.PrepareRow();
      internal::ElementStager{rows, texts}.Stage(element);
      rows.CommitRow();
    }
    return count;
  }
};

template <typename E>
void BlockBuilder::Append(const event::Envelope& envelope, const E& fields, TextTable& texts) {
  rows_.PrepareRow();
  rows_.Set(0, envelope.seq);
  rows_.Set(1, envelope.ts_ns);
  rows_.Set(2, envelope.pid);
  rows_.Set(3, envelope.tid);
  FieldStager stager{*this, texts};
  if constexpr (std::same_as<E, event::Opaque>) {
    stager({}, false, fields.bytes);
  } else {
    VisitFields(fields, stager);
  }
  rows_.CommitRow();
}

}  // namespace smeltr::session
