#include "session/block_decoder.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "session/block_builder.h"

namespace smeltr::session {
namespace {

constexpr size_t kPiece = BlockDecoder::kBatchRows;

const Schema& EnvelopeSchema() {
  static const Schema schema = [] {
    Schema made{.row_bytes = sizeof(event::Envelope), .fields = {}};
    made.fields.push_back({.form = FieldForm::kWord64, .offset = offsetof(event::Envelope, seq)});
    made.fields.push_back({.form = FieldForm::kWord64, .offset = offsetof(event::Envelope, ts_ns)});
    made.fields.push_back({.form = FieldForm::kWord32, .offset = offsetof(event::Envelope, pid)});
    made.fields.push_back({.form = FieldForm::kWord32, .offset = offsetof(event::Envelope, tid)});
    return made;
  }();
  return schema;
}

template <typename T, typename Convert>
void Scatter(std::span<const uint64_t> numbers, std::byte* at, size_t stride, Convert convert) {
  for (const uint64_t number : numbers) {
    const T value = convert(number);
    std::memcpy(at, &value, sizeof(T));
    at += stride;
  }
}

void ScatterField(FieldForm form, std::span<const uint64_t> numbers, std::byte* at, size_t stride,
                  const StoredTexts& texts) {
  switch (form) {
    case FieldForm::kByte:
      return Scatter<uint8_t>(numbers, at, stride, [](uint64_t n) { return static_cast<uint8_t>(n); });
    case FieldForm::kBool:
      return Scatter<bool>(numbers, at, stride, [](uint64_t n) { return n != 0; });
    case FieldForm::kWord32:
      return Scatter<uint32_t>(numbers, at, stride, [](uint64_t n) { return static_cast<uint32_t>(n); });
    case FieldForm::kWord64:
    case FieldForm::kDouble:
      return Scatter<uint64_t>(numbers, at, stride, [](uint64_t n) { return n; });
    case FieldForm::kText:
      return Scatter<event::Text>(numbers, at, stride,
                                  [&](uint64_t n) { return event::Text(texts.Find(n)); });
    case FieldForm::kList:
      return;  // DecodeList() does these.
  }
}

}  // namespace

bool TableDecoder::Open(ByteReader& in, const Schema& schema, uint64_t column_count, size_t row_count,
                        Decompressor& decompressor) {
  schema_ = &schema;
  columns_.resize(std::max(columns_.size(), schema.fields.size()));
  complete_ = column_count >= schema.fields.size();
  for (size_t i = 0; i < schema.fields.size(); ++i) {
    columns_[i].present = i < column_count;
    if (!columns_[i].present) continue;
    const auto type = in.Load<ColumnType>();
    const std::span<const std::byte> bytes = in.Take(in.Load<uint32_t>());
    if (!in.ok() || type != schema.fields[i].column_type()) return false;
    if (!OpenColumn(bytes, schema.fields[i], row_count, columns_[i], decompressor)) return false;
  }
  for (uint64_t i = schema.fields.size(); i < column_count && in.ok(); ++i) {
    in.Load<ColumnType>();
    in.Take(in.Load<uint32_t>());
  }
  return in.ok();
}

bool TableDecoder::OpenColumn(std::span<const std::byte> bytes, const Field& field, size_t row_count,
                              Column& column, Decompressor& decompressor) {
  ByteReader in(bytes);
  if (field.form != FieldForm::kList) return column.cursor.Open(in, row_count, decompressor);
  const uint64_t element_count = in.LoadVarint();
  if (!in.ok() || element_count > kMaxBlockElements) return false;
  column.elements_left = element_count;
  column.filled_elements = 0;
  if (!column.cursor.Open(in, row_count, decompressor)) return false;
  const uint64_t column_count = in.LoadVarint();
  if (column.elements == nullptr) column.elements = std::make_unique<TableDecoder>();
  return column.elements->Open(in, *field.element, column_count, element_count, decompressor);
}

bool TableDecoder::Decode(size_t count, std::byte* rows, bool fresh, const StoredTexts& texts) {
  if (count == 0) return true;
  if (fresh && !complete_) std::memset(rows, 0, count * schema_->row_bytes);
  for (size_t done = 0; done < count; done += kPiece) {
    const size_t piece = std::min(kPiece, count - done);
    if (!DecodePiece(piece, rows + done * schema_->row_bytes, fresh, texts)) return false;
  }
  return true;
}

bool TableDecoder::DecodePiece(size_t count, std::byte* rows, bool fresh, const StoredTexts& texts) {
  std::array<uint64_t, kPiece> numbers;
  const std::span<uint64_t> piece = std::span(numbers).first(count);
  for (size_t i = 0; i < schema_->fields.size(); ++i) {
    const Field& field = schema_->fields[i];
    Column& column = columns_[i];
    if (!column.present) continue;
    if (field.form == FieldForm::kList) {
      if (!DecodeList(field, column, rows + field.offset, count, texts)) return false;
      continue;
    }
    if (column.cursor.constant() && !fresh) continue;
    column.cursor.Next(piece);
    ScatterField(field.form, piece, rows + field.offset, schema_->row_bytes, texts);
  }
  return true;
}

bool TableDecoder::DecodeList(const Field& field, Column& column, std::byte* rows, size_t count,
                              const StoredTexts& texts) {
  // Lists hang in the rows of a block, which come in batches of one piece; elements have no lists.
  std::array<uint64_t, kPiece> counts;
  const std::span<uint64_t> lengths = std::span(counts).first(count);
  column.cursor.Next(lengths);
  size_t total = 0;
  for (const uint64_t length : lengths) {
    if (length > column.elements_left - total) return false;
    total += length;
  }
  column.elements_left -= total;
  const size_t element_bytes = field.element->row_bytes;
  if (total * element_bytes > column.element_rows_bytes) {
    column.element_rows_bytes = total * element_bytes;
    column.element_rows = std::make_unique_for_overwrite<std::byte[]>(column.element_rows_bytes);
    column.filled_elements = 0;
  }
  std::byte* element = column.element_rows.get();
  const bool fresh = total > column.filled_elements;
  if (!column.elements->Decode(total, element, fresh, texts)) return false;
  column.filled_elements = std::max(column.filled_elements, total);
  for (const uint64_t length : lengths) {
    field.set_list(rows, element, length);
    if (length != 0) element += length * element_bytes;
    rows += schema_->row_bytes;
  }
  return true;
}

BlockDecoder::BlockDecoder() : envelopes_(kBatchRows) {}

bool BlockDecoder::Open(const BlockEntry& entry, const Schema& schema, std::span<const std::byte> bytes,
                        const StoredTexts& texts, Decompressor& decompressor) {
  texts_ = &texts;
  api_ = entry.api;
  rows_left_ = entry.event_count;
  batch_rows_ = 0;
  first_batch_ = true;
  ok_ = false;
  ByteReader in(bytes);
  const uint64_t column_count = in.LoadVarint();
  constexpr size_t kEnvelope = BlockBuilder::kEnvelopeColumns;
  if (!in.ok() || column_count < kEnvelope) return false;
  if (!envelope_table_.Open(in, EnvelopeSchema(), kEnvelope, rows_left_, decompressor)) return false;
  if (!table_.Open(in, schema, column_count - kEnvelope, rows_left_, decompressor)) return false;
  const size_t rows_bytes = schema.row_bytes * std::min(rows_left_, kBatchRows);
  if (rows_bytes > rows_bytes_) {
    rows_ = std::make_unique_for_overwrite<std::byte[]>(rows_bytes);
    rows_bytes_ = rows_bytes;
  }
  ok_ = true;
  return true;
}

size_t BlockDecoder::NextBatch() {
  const size_t count = std::min(rows_left_, kBatchRows);
  batch_rows_ = 0;
  if (!ok_ || count == 0) return 0;
  auto* envelopes = reinterpret_cast<std::byte*>(envelopes_.data());
  ok_ = envelope_table_.Decode(count, envelopes, first_batch_, *texts_) &&
        table_.Decode(count, rows_.get(), first_batch_, *texts_);
  if (!ok_) return 0;
  for (size_t i = 0; i < count && first_batch_; ++i) envelopes_[i].api = api_;
  first_batch_ = false;
  rows_left_ -= count;
  batch_rows_ = count;
  return count;
}

}  // namespace smeltr::session
