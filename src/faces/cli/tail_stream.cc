#include "faces/cli/tail_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "event/json.h"
#include "faces/doctor/check.h"
#include "util/format.h"

namespace smeltr::faces::cli {
namespace {

constexpr uint64_t kMaxSafeInteger = uint64_t{1} << 53;
constexpr size_t kShortIdDigits = 8;

std::string Quoted(std::string_view text) {
  std::string out;
  event::AppendJsonText(text, out);
  return out;
}

bool IsTooLarge(std::string_view digits) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error != std::errc() || value > kMaxSafeInteger;
}

std::string GapLine(std::string_view session_id, uint64_t expected, uint64_t got, uint64_t skipped) {
  return fmt::format(R"({{"_smeltr_tail":"gap","session_id":{},"expected":{},"got":{},"skipped":{}}})"
                     "\n",
                     Quoted(session_id), expected, got, skipped);
}

}  // namespace

std::string QuoteLargeIntegers(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      out += c;
      if (c == '\\' && i + 1 < json.size()) out += json[++i];
      in_text = c != '"';
      continue;
    }
    in_text = c == '"';
    if ((c < '0' || c > '9') && c != '-') {
      out += c;
      continue;
    }
    const std::string_view number = json.substr(i, json.substr(i).find_first_not_of("+-.0123456789eE"));
    const std::string_view digits = number.substr(c == '-' ? 1 : 0);
    const bool integer = digits.find_first_not_of("0123456789") == std::string_view::npos;
    const bool quote = integer && IsTooLarge(digits);
    if (quote) out += '"';
    out += number;
    if (quote) out += '"';
    i += number.size() - 1;
  }
  return out;
}

std::string TailStream::Connected(const ipc::Subscribed& subscribed, int attempt) {
  std::string out;
  goodbye_.clear();
  if (attempt > 0)
    out += fmt::format(R"({{"_smeltr_tail":"reconnect","attempt":{}}})"
                       "\n",
                       attempt);
  const size_t count = std::min(subscribed.session_ids.size(), subscribed.next_seqs.size());
  for (size_t i = 0; i < count; ++i) {
    const std::string& id = subscribed.session_ids[i];
    const uint64_t next = subscribed.next_seqs[i];
    const auto last = last_seqs_.find(id);
    if (last != last_seqs_.end() && next > last->second + 1) {
      out += GapLine(id, last->second + 1, next, next - last->second - 1);
    }
    if (next > 0) last_seqs_[id] = std::max(last_seqs_[id], next - 1);
  }
  for (const std::string& id : options_.session_ids) {
    if (std::ranges::find(subscribed.session_ids, id) == subscribed.session_ids.end()) NoteEnded(id, {});
  }
  return out;
}

std::string TailStream::Take(const ipc::StreamItem& item) {
  std::string out;
  if (!ended_.empty()) return out;
  if (const auto* batch = std::get_if<ipc::EventBatch>(&item)) {
    TakeBatch(*batch, out);
  } else if (const auto* notice = std::get_if<ipc::Notice>(&item)) {
    std::visit([&](const auto& one) { On(one, out); }, *notice);
  }
  return out;
}

void TailStream::TakeBatch(const ipc::EventBatch& batch, std::string& out) {
  if (hidden_.contains(batch.session_id())) return;
  const std::string prefix =
      "{\"session\":" + Quoted(std::string_view(batch.session_id()).substr(0, kShortIdDigits)) + ",";
  uint64_t& last_seq = last_seqs_[batch.session_id()];
  std::string json;
  const auto whole = batch.ForEach([&](const event::Event& event) {
    if (!ended_.empty()) return;
    json.clear();
    event::AppendJson(event, json);
    out += prefix;
    out += options_.safe_ints ? QuoteLargeIntegers(std::string_view(json).substr(1)) : json.substr(1);
    out += '\n';
    last_seq = std::max(last_seq, event.envelope.seq);
    if (++printed_ == options_.count) ended_ = FormatCounted(printed_, "event") + " printed";
  });
  if (!whole.has_value()) {
    out += R"({"_smeltr_tail":"damaged","session_id":)" + Quoted(batch.session_id()) + "}\n";
  }
}

void TailStream::On(const ipc::Gap& gap, std::string& out) {
  out += GapLine(gap.session_id, gap.first_missing_seq, gap.last_missing_seq + 1, gap.count);
  uint64_t& last_seq = last_seqs_[gap.session_id];
  last_seq = std::max(last_seq, gap.last_missing_seq);
}

void TailStream::On(const ipc::SessionOpened& opened, std::string& out) {
  if (opened.name.starts_with(doctor::kTestRecordingName)) {
    hidden_.insert(opened.session_id);
    return;
  }
  if (options_.events_only) return;
  out +=
      fmt::format(R"({{"_smeltr_tail":"session_opened","session_id":{},"short_id":{},"kind":{},"name":{}}})"
                  "\n",
                  Quoted(opened.session_id), Quoted(opened.short_id), Quoted(opened.kind),
                  opened.name.empty() ? "null" : Quoted(opened.name));
}

void TailStream::On(const ipc::SessionClosed& closed, std::string& out) {
  last_seqs_.erase(closed.session_id);
  if (hidden_.erase(closed.session_id) == 0 && !options_.events_only) {
    out += fmt::format(R"({{"_smeltr_tail":"session_closed","session_id":{},"end_reason":{},"last_seq":{}}})"
                       "\n",
                       Quoted(closed.session_id), Quoted(closed.end_reason), closed.last_seq);
  }
  // Of all sessions there is no end: those are not kept.
  if (std::ranges::find(options_.session_ids, closed.session_id) != options_.session_ids.end()) {
    NoteEnded(closed.session_id, closed.end_reason);
  }
}

void TailStream::NoteEnded(const std::string& session_id, std::string_view end_reason) {
  closed_.insert(session_id);
  const bool all = !options_.session_ids.empty() &&
                   std::ranges::all_of(options_.session_ids,
                                       [this](const std::string& id) { return closed_.contains(id); });
  if (all) ended_ = "the session has ended" + (end_reason.empty() ? "" : ": " + Printable(end_reason));
}

// Silence is not worth a line, but from here on nothing before is missing.
void TailStream::On(const ipc::Heartbeat& heartbeat, std::string& /*out*/) {
  const size_t count = std::min(heartbeat.session_ids.size(), heartbeat.last_seqs.size());
  for (size_t i = 0; i < count; ++i) {
    uint64_t& last_seq = last_seqs_[heartbeat.session_ids[i]];
    last_seq = std::max(last_seq, heartbeat.last_seqs[i]);
  }
}

void TailStream::On(const ipc::Goodbye& goodbye, std::string& /*out*/) {
  goodbye_ = goodbye.reason.empty() ? "it ended" : Printable(goodbye.reason);
}

}  // namespace smeltr::faces::cli
