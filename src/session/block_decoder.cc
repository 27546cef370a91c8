#include "session/block_decoder.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "session/scatter.h"

namespace smeltr::session {
namespace {

// Batches of long lists are cut so that their elements stay in the first-level cache.
constexpr size_t kBatchElements = 256;
constexpr size_t kPidColumn = 2;

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

}  // namespace

BlockDecoder::BlockDecoder() : envelopes_(kBatchRows) {}

bool BlockDecoder::Enter(const BlockEntry& entry, const Schema& schema, std::span<const std::byte> bytes,
                         Decompressor& decompressor) {
  schema_ = &schema;
  decompressor_ = &decompressor;
  api_ = entry.api;
  row_count_ = entry.event_count;
  rows_done_ = batch_start_ = batch_rows_ = opened_count_ = 0;
  first_batch_ = true;
  ok_ = false;
  wanted_.clear();
  ByteReader in(bytes);
  const uint64_t column_count = in.LoadVarint();
  if (!in.ok() || column_count < kEnvelopeColumns) return false;
  const size_t known = kEnvelopeColumns + schema.fields.size();
  column_count_ = std::min<uint64_t>(column_count, known);
  if (columns_.size() < known) columns_.resize(known);
  for (size_t i = 0; i < column_count_; ++i) {
    if (!EnterColumn(i, in)) return false;
  }
  for (uint64_t i = known; i < column_count && in.ok(); ++i) {
    in.Load<ColumnType>();
    in.Take(in.Load<uint32_t>());
  }
  ok_ = in.ok();
  return ok_;
}

bool BlockDecoder::EnterColumn(size_t index, ByteReader& in) {
  Column& column = columns_[index];
  column.field =
      index < kEnvelopeColumns ? &EnvelopeSchema().fields[index] : &schema_->fields[index - kEnvelopeColumns];
  const auto type = in.Load<ColumnType>();
  column.bytes = in.Take(in.Load<uint32_t>());
  column.opened = column.picked = column.is_near_of_other = false;
  column.near = kNoColumn;
  if (!in.ok() || type != column.field->column_type()) return false;
  if (type == ColumnType::kList) return true;
  const std::optional<uint64_t> near = ColumnCursor::NearColumnOf(column.bytes);
  if (!near) return true;
  // Only to a column before it, so there are no circles.
  if (*near >= index || columns_[*near].field->form == FieldForm::kList) return false;
  column.near = *near;
  return true;
}

bool BlockDecoder::OpenNumbers(size_t index) {
  Column& column = columns_[index];
  if (column.opened) return true;
  if (column.near != kNoColumn && !OpenNumbers(column.near)) return false;
  ByteReader in(column.bytes);
  if (!column.cursor.Open(in, row_count_, *decompressor_)) return false;
  column.opened = true;
  ++opened_count_;
  return true;
}

bool BlockDecoder::ReadAll(size_t index, std::vector<uint64_t>& values) {
  if (!OpenNumbers(index)) return false;
  Column& column = columns_[index];
  values.resize(row_count_);
  column.cursor.Rewind();
  column.cursor.Next(values);
  column.cursor.Rewind();
  if (column.near == kNoColumn) return true;
  std::vector<uint64_t> near;
  if (!ReadAll(column.near, near)) return false;
  for (size_t i = 0; i < values.size(); ++i) values[i] += near[i];
  return true;
}

template <typename Keep>
bool BlockDecoder::KeepRows(size_t index, Keep keep) {
  std::vector<uint64_t> values;
  if (!ReadAll(index, values)) {
    ok_ = false;
    return false;
  }
  if (wanted_.empty()) wanted_.assign(row_count_, 1);
  bool any = false;
  for (size_t i = 0; i < values.size(); ++i) {
    wanted_[i] = static_cast<uint8_t>(wanted_[i] & static_cast<uint8_t>(keep(values[i])));
    any |= wanted_[i] != 0;
  }
  return any;
}

bool BlockDecoder::Filter(const RowFilter& filter) {
  if (filter.queue_id) {
    const auto place = std::ranges::find(schema_->fields, "queue_id", &Field::name);
    const auto index = kEnvelopeColumns + static_cast<size_t>(place - schema_->fields.begin());
    if (index >= column_count_) return false;
    if (!KeepRows(index, [&](uint64_t queue_id) { return queue_id == *filter.queue_id; })) return false;
  }
  if (filter.pid && !KeepRows(kPidColumn, [&](uint64_t pid) { return pid == *filter.pid; })) return false;
  if (filter.begin_ns != 0 || filter.end_ns != UINT64_MAX) {
    return KeepRows(kTimeColumn,
                    [&](uint64_t ts_ns) { return ts_ns >= filter.begin_ns && ts_ns <= filter.end_ns; });
  }
  return true;
}

bool BlockDecoder::Start(const ColumnPick& pick, const StoredTexts& texts) {
  texts_ = &texts;
  ok_ = OpenPicked(pick, texts);
  return ok_;
}

bool BlockDecoder::OpenPicked(const ColumnPick& pick, const StoredTexts& texts) {
  size_t element_count = 0;
  for (size_t i = 0; i < column_count_; ++i) {
    Column& column = columns_[i];
    column.picked = pick.Has(i);
    if (!column.picked) continue;
    if (column.field->form != FieldForm::kList) {
      if (!OpenNumbers(i)) return false;
      continue;
    }
    if (column.list == nullptr) column.list = std::make_unique<ListDecoder>();
    if (!column.list->Open(column.bytes, *column.field, row_count_, pick.ElementsOf(i), texts,
                           *decompressor_)) {
      return false;
    }
    opened_count_ += column.list->opened_count();
    element_count += column.list->element_count();
  }
  for (size_t i = column_count_; i-- > 0;) {
    Column& column = columns_[i];
    const bool needed = column.picked || column.is_near_of_other;
    if (!needed || column.near == kNoColumn) continue;
    Column& near = columns_[column.near];
    near.is_near_of_other = true;
    if (near.numbers == nullptr) near.numbers = std::make_unique<Numbers>();
  }
  PrepareRows(element_count);
  return true;
}

void BlockDecoder::PrepareRows(size_t element_count) {
  batch_limit_ = kBatchRows;
  if (row_count_ != 0 && element_count > row_count_) {
    batch_limit_ = std::clamp<size_t>(kBatchElements / (element_count / row_count_), 16, kBatchRows);
  }
  const size_t rows_bytes = schema_->row_bytes * std::min(row_count_, kBatchRows);
  if (rows_bytes > rows_bytes_) {
    rows_ = std::make_unique_for_overwrite<std::byte[]>(rows_bytes);
    rows_bytes_ = rows_bytes;
  }
  // Columns that are not read, or that an older writer did not have, stay zero.
  std::fill_n(rows_.get(), rows_bytes, std::byte{0});
  std::ranges::fill(envelopes_, event::Envelope{.api = api_});
}

std::byte* BlockDecoder::Destination(size_t index, size_t& stride) {
  const bool in_envelope = index < kEnvelopeColumns;
  stride = in_envelope ? sizeof(event::Envelope) : schema_->row_bytes;
  std::byte* const rows = in_envelope ? reinterpret_cast<std::byte*>(envelopes_.data()) : rows_.get();
  return rows + columns_[index].field->offset;
}

void BlockDecoder::DecodeNumbers(size_t index, std::span<uint64_t> numbers) {
  Column& column = columns_[index];
  column.cursor.Next(numbers);
  if (column.near == kNoColumn) return;
  const Numbers& near = *columns_[column.near].numbers;
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += near[i];
}

bool BlockDecoder::DecodeColumn(size_t index, size_t count) {
  Column& column = columns_[index];
  size_t stride = 0;
  std::byte* const at = Destination(index, stride);
  if (column.field->form == FieldForm::kList) return !column.picked || column.list->Decode(count, at, stride);
  if (!column.picked && !column.is_near_of_other) return true;
  // Its rows keep the constant from the first batch, which is the largest.
  if (column.cursor.constant() && !first_batch_) return true;
  Numbers scratch;
  const std::span<uint64_t> numbers =
      std::span(column.is_near_of_other ? *column.numbers : scratch).first(count);
  DecodeNumbers(index, numbers);
  if (column.picked) ScatterField(column.field->form, numbers, at, stride, *texts_);
  return true;
}

size_t BlockDecoder::NextBatch() {
  const size_t count = std::min(row_count_ - rows_done_, batch_limit_);
  batch_rows_ = 0;
  if (!ok_ || count == 0) return 0;
  for (size_t i = 0; i < column_count_ && ok_; ++i) ok_ = DecodeColumn(i, count);
  if (!ok_) return 0;
  first_batch_ = false;
  batch_start_ = rows_done_;
  rows_done_ += count;
  batch_rows_ = count;
  return count;
}

}  // namespace smeltr::session
