#include "session/block_builder.h"

#include "session/column.h"

namespace smeltr::session {

BlockBuilder::BlockBuilder(const Schema& schema)
    : schema_(schema),
      rows_(kEnvelopeColumns + schema.fields.size()),
      kept_(kEnvelopeColumns + schema.fields.size()) {
  for (const Field& field : schema.fields) {
    if (field.form == FieldForm::kList) lists_.emplace_back(*field.element);
  }
}

size_t BlockBuilder::value_count() const {
  size_t count = rows_.row_count() * rows_.column_count();
  for (const ListBuilder& list : lists_) count += list.value_count();
  return count;
}

size_t BlockBuilder::max_element_count() const {
  size_t count = 0;
  for (const ListBuilder& list : lists_) count = std::max(count, list.element_count());
  return count;
}

size_t BlockBuilder::capacity_bytes() const {
  size_t bytes = rows_.capacity_bytes();
  for (const ListBuilder& list : lists_) bytes += list.capacity_bytes();
  return bytes;
}

void BlockBuilder::PutNumbers(size_t column, Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out) {
  const std::span<uint64_t> values = rows_.column(column);
  const size_t near =
      column < kEnvelopeColumns ? kNoColumn : schema_.fields[column - kEnvelopeColumns].near_column;
  if (near == kNoColumn) return EncodeColumn(values, compressor, scratch, out);
  const NearColumn near_column{near, kept_[near]};
  EncodeColumn(values, &near_column, compressor, scratch, out);
}

void BlockBuilder::Encode(Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out) {
  out.PutVarint(rows_.column_count());
  for (const Field& field : schema_.fields) {
    if (field.near_column == kNoColumn) continue;
    const std::span<const uint64_t> values = rows_.column(field.near_column);
    kept_[field.near_column].assign(values.begin(), values.end());
  }
  for (size_t i = 0; i < kEnvelopeColumns; ++i) {
    PutColumn(ColumnType::kInteger, out, [&] { PutNumbers(i, compressor, scratch, out); });
  }
  size_t list = 0;
  for (size_t i = 0; i < schema_.fields.size(); ++i) {
    const Field& field = schema_.fields[i];
    const size_t column = kEnvelopeColumns + i;
    PutColumn(field.column_type(), out, [&] {
      if (field.form != FieldForm::kList) return PutNumbers(column, compressor, scratch, out);
      lists_[list++].Encode(rows_.column(column), compressor, scratch, out);
    });
  }
}

void BlockBuilder::Clear() {
  rows_.Clear();
  for (ListBuilder& list : lists_) list.Clear();
}

void BlockBuilder::Release() {
  rows_.Release();
  kept_.assign(kept_.size(), {});
  for (ListBuilder& list : lists_) list.Release();
}

}  // namespace smeltr::session
