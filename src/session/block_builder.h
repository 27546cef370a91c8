// The events of one kind and interface on their way into a chunk, as columns.
#pragma once

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "event/event.h"
#include "session/list_builder.h"
#include "session/row_table.h"
#include "session/schema.h"
#include "session/text_table.h"

namespace smeltr::session {

class BlockBuilder {
 public:
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

  void PutNumbers(size_t column, Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out);

  const Schema& schema_;
  RowTable rows_;
  std::vector<ListBuilder> lists_;  // One a list field, in the order of the fields.
  // By column; the values of those that others are near to, while the block is encoded.
  std::vector<std::vector<uint64_t>> kept_;
};

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
    return NumberOf(value);
  }
  template <typename T>
  uint64_t Stage(const event::List<T>& elements) {
    return block.lists_[list++].Append(elements, texts);
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
