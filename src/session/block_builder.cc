#include "session/block_builder.h"

#include "session/column.h"

namespace smeltr::session {
namespace {

// Type and length, so that a reader can step over what it does not know.
class ColumnFrame {
 public:
  ColumnFrame(ColumnType type, ByteBuffer& out) : out_(out) {
    out_.Put(type);
    length_position_ = out_.size();
    out_.Put(uint32_t{0});
  }
  ~ColumnFrame() {
    out_.PutAt(length_position_, static_cast<uint32_t>(out_.size() - length_position_ - sizeof(uint32_t)));
  }
  ColumnFrame(const ColumnFrame&) = delete;
  ColumnFrame& operator=(const ColumnFrame&) = delete;

 private:
  ByteBuffer& out_;
  size_t length_position_;
};

void EncodeFramed(ColumnType type, std::span<uint64_t> values, Compressor& compressor, ByteBuffer& scratch,
                  ByteBuffer& out) {
  const ColumnFrame frame(type, out);
  EncodeColumn(values, compressor, scratch, out);
}

void EncodeList(const Schema& element, std::span<uint64_t> counts, RowTable& elements, Compressor& compressor,
                ByteBuffer& scratch, ByteBuffer& out) {
  const ColumnFrame frame(ColumnType::kList, out);
  out.PutVarint(elements.row_count());
  EncodeColumn(counts, compressor, scratch, out);
  out.PutVarint(element.fields.size());
  for (size_t i = 0; i < element.fields.size(); ++i) {
    EncodeFramed(element.fields[i].column_type(), elements.column(i), compressor, scratch, out);
  }
}

}  // namespace

BlockBuilder::BlockBuilder(const Schema& schema)
    : schema_(schema), rows_(kEnvelopeColumns + schema.fields.size()) {
  for (const Field& field : schema.fields) {
    if (field.form == FieldForm::kList) lists_.emplace_back(field.element->fields.size());
  }
}

size_t BlockBuilder::value_count() const {
  size_t count = rows_.row_count() * rows_.column_count();
  for (const RowTable& list : lists_) count += list.row_count() * list.column_count();
  return count;
}

size_t BlockBuilder::max_element_count() const {
  size_t count = 0;
  for (const RowTable& list : lists_) count = std::max(count, list.row_count());
  return count;
}

size_t BlockBuilder::capacity_bytes() const {
  size_t bytes = rows_.capacity_bytes();
  for (const RowTable& list : lists_) bytes += list.capacity_bytes();
  return bytes;
}

void BlockBuilder::Encode(Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out) {
  out.PutVarint(rows_.column_count());
  for (size_t i = 0; i < kEnvelopeColumns; ++i) {
    EncodeFramed(ColumnType::kInteger, rows_.column(i), compressor, scratch, out);
  }
  size_t list = 0;
  for (size_t i = 0; i < schema_.fields.size(); ++i) {
    const Field& field = schema_.fields[i];
    const std::span<uint64_t> values = rows_.column(kEnvelopeColumns + i);
    if (field.form == FieldForm::kList) {
      EncodeList(*field.element, values, lists_[list++], compressor, scratch, out);
    } else {
      EncodeFramed(field.column_type(), values, compressor, scratch, out);
    }
  }
}

void BlockBuilder::Clear() {
  rows_.Clear();
  for (RowTable& list : lists_) list.Clear();
}

void BlockBuilder::Release() {
  rows_.Release();
  for (RowTable& list : lists_) list.Release();
}

}  // namespace smeltr::session
