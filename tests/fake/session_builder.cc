#include "fake/session_builder.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace smeltr::fake {

using event::Api;
using event::CbId;
using event::QueueId;
using event::ScopeId;
using event::Text;

// One line, cut into words: `values` are key=value, `words` the rest.
class LineParser {
 public:
  LineParser(SessionBuilder& builder, std::string_view line) : builder_(builder), line_(line) {
    for (size_t at = 0; at < line.size();) {
      const size_t end = std::min(line.find(' ', at), line.size());
      if (end > at) AddWord(line.substr(at, end - at));
      at = end + 1;
    }
    if (words_.size() < 2) Bad("too short");
    envelope_.ts_ns = Time(words_[0]);
    envelope_.pid = static_cast<uint32_t>(Value("pid").transform(&LineParser::Unsigned).value_or(100));
    envelope_.tid = static_cast<uint32_t>(Value("tid").transform(&LineParser::Unsigned).value_or(1));
  }

  void Run() {
    const std::map<std::string_view, void (LineParser::*)()> verbs{
        {"queue", &LineParser::OnQueue},      {"scope+", &LineParser::OnScopeEnter},
        {"scope-", &LineParser::OnScopeExit}, {"eval+", &LineParser::OnEvalEnter},
        {"eval-", &LineParser::OnEvalExit},   {"commit", &LineParser::OnCommit},
        {"done", &LineParser::OnDone},        {"ops", &LineParser::OnOps},
        {"dropped", &LineParser::OnDropped},  {"skipped", &LineParser::OnSkipped},
        {"storage", &LineParser::OnStorage},  {"resumed", &LineParser::OnResumed},
        {"hello", &LineParser::OnHello},      {"apierror", &LineParser::OnApiError},
        {"device", &LineParser::OnDevice},    {"process", &LineParser::OnProcess},
        {"exit", &LineParser::OnExit},        {"start", &LineParser::OnStart},
        {"end", &LineParser::OnEnd}};
    const auto verb = verbs.find(words_[1]);
    if (verb == verbs.end()) Bad("unknown verb");
    (this->*verb->second)();
  }

 private:
  [[noreturn]] void Bad(std::string_view why) const {
    throw std::invalid_argument(std::string(why) + " in line: " + std::string(line_));
  }

  void AddWord(std::string_view word) {
    if (word.starts_with('.')) {
      AddAttribute(word.substr(1));
      return;
    }
    const size_t equals = word.find('=');
    const bool op = word.find(':') != std::string_view::npos;
    if (equals == std::string_view::npos || op) {
      words_.push_back(word);
    } else {
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  void AddAttribute(std::string_view word) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) Bad("field without =");
    event::Attribute attribute{.key = Keep(word.substr(0, equals))};
    const std::string_view value = word.substr(equals + 1);
    int64_t integer = 0;
    double real = 0;
    const char* const end = value.data() + value.size();
    if (std::from_chars(value.data(), end, integer).ptr == end) {
      attribute.type = event::AttributeType::kInt;
      attribute.bits = static_cast<uint64_t>(integer);
    } else if (std::from_chars(value.data(), end, real).ptr == end) {
      attribute.type = event::AttributeType::kFloat;
      attribute.bits = std::bit_cast<uint64_t>(real);
    } else if (value == "true" || value == "false") {
      attribute.type = event::AttributeType::kBool;
      attribute.bits = value == "true" ? 1 : 0;
    } else {
      attribute.type = event::AttributeType::kString;
      attribute.text = Keep(value);
    }
    attributes_.push_back(attribute);
  }

  Text Keep(std::string_view text) { return Text(builder_.texts_.emplace_back(text)); }

  static uint64_t Unsigned(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      throw std::invalid_argument("not a number: " + std::string(text));
    }
    return value;
  }
  static int64_t Signed(std::string_view text) {
    const bool negative = text.starts_with('-');
    const auto value = static_cast<int64_t>(Unsigned(negative ? text.substr(1) : text));
    return negative ? -value : value;
  }
  static uint64_t Time(std::string_view text) {
    double scale = 1;
    for (const auto& [suffix, factor] :
         {std::pair<std::string_view, double>{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}) {
      if (!text.ends_with(suffix)) continue;
      text.remove_suffix(suffix.size());
      scale = factor;
      break;
    }
    if (scale == 1) return Unsigned(text);
    return static_cast<uint64_t>(std::stod(std::string(text)) * scale + 0.5);
  }

  std::optional<std::string_view> Value(std::string_view key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  uint64_t Number(std::string_view key, uint64_t otherwise) const {
    const auto value = Value(key);
    return value ? Unsigned(*value) : otherwise;
  }
  std::string_view Word(size_t i) const {
    if (i >= words_.size()) Bad("argument missing");
    return words_[i];
  }
  bool Has(std::string_view word) const {
    return std::find(words_.begin(), words_.end(), word) != words_.end();
  }
  std::string Rest(size_t from) const {
    std::string text;
    for (size_t i = from; i < words_.size(); ++i) text += (text.empty() ? "" : " ") + std::string(words_[i]);
    return text;
  }

  template <typename E>
  void Emit(const E& fields, Api api = Api::kNone) {
    envelope_.api = api;
    envelope_.seq = builder_.events_.size() + 1;
    builder_.events_.push_back({envelope_, fields});
  }

  void OnQueue() {
    Emit(event::QueueInfo{.queue_id = QueueId{Unsigned(Word(2))},
                          .device_id = event::DeviceId{1},
                          .label = Keep(Rest(3)),
                          .timestamp_valid_bits = 64},
         Api::kVulkan);
  }
  void OnScopeEnter() {
    event::ModuleEntered fields{.module_call_id = ScopeId{Unsigned(Word(2))}, .qualname = Keep(Word(3))};
    fields.parent_call_id = ScopeId{Number("parent", 0)};
    if (const auto name = Value("class")) fields.class_name = Keep(*name);
    if (Has("label")) fields.origin = event::ScopeOrigin::kDebugLabel;
    fields.fields = builder_.attributes_.emplace_back(attributes_);
    Emit(fields);
  }
  void OnScopeExit() { Emit(event::ModuleReturned{.module_call_id = ScopeId{Unsigned(Word(2))}}); }

  void OnEvalEnter() {
    std::vector<uint64_t>& stack = builder_.numbers_.emplace_back();
    std::string_view list = Value("stack").value_or("");
    while (!list.empty()) {
      const size_t comma = std::min(list.find(','), list.size());
      stack.push_back(Unsigned(list.substr(0, comma)));
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
    Emit(event::MlxEvalEntered{.call_id = Unsigned(Word(2)), .array_count = 1, .module_stack = stack});
  }
  void OnEvalExit() {
    Emit(event::MlxEvalReturned{.call_id = Unsigned(Word(2)), .duration_ns = 0, .was_async = Has("async")});
  }

  void OnCommit() {
    Emit(event::CbCommitted{.cb_id = CbId{Unsigned(Word(2))},
                            .queue_id = QueueId{Number("q", 1)},
                            .queue_depth = static_cast<uint32_t>(Number("depth", 0)),
                            .scope_id = ScopeId{Number("scope", 0)}},
         Api::kVulkan);
  }
  void OnDone() {
    event::CbCompleted fields{.cb_id = CbId{Unsigned(Word(2))}, .queue_id = QueueId{Number("q", 1)}};
    fields.in_flight_ns = Number("inflight", 0);
    for (const auto& [key, source] :
         {std::pair<std::string_view, event::TimeSource>{"gpu", event::TimeSource::kGpu},
          {"host", event::TimeSource::kHost}}) {
      const auto span = Value(key);
      if (!span) continue;
      const size_t dots = span->find("..");
      if (dots == std::string_view::npos) Bad("span without ..");
      fields.gpu_start_ns = Time(span->substr(0, dots));
      fields.gpu_end_ns = Time(span->substr(dots + 2));
      fields.time_source = source;
    }
    if (const auto code = Value("error")) {
      fields.status = event::CbStatus::kError;
      fields.error_code = Signed(*code);
      fields.error_domain = Keep("VkResult");
    }
    if (Has("abandoned")) fields.status = event::CbStatus::kAbandoned;
    Emit(fields, Api::kVulkan);
  }

  // symbol:gpu_ns[xcount][@scope][!precision]
  event::OpSample ParseOp(std::string_view text) {
    event::OpSample op{.type = event::OpType::kDispatch, .count = 1};
    if (const size_t at = text.find('!'); at != std::string_view::npos) {
      const std::string_view wanted = text.substr(at + 1);
      for (uint8_t i = 0; i < event::kEnumSize<event::Precision>; ++i) {
        if (event::EnumName(static_cast<event::Precision>(i)) == wanted)
          op.precision = static_cast<event::Precision>(i);
      }
      text = text.substr(0, at);
    }
    if (const size_t at = text.find('@'); at != std::string_view::npos) {
      op.scope_id = ScopeId{Unsigned(text.substr(at + 1))};
      text = text.substr(0, at);
    }
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) Bad("op without :");
    std::string_view time = text.substr(colon + 1);
    if (const size_t at = time.find('x'); at != std::string_view::npos) {
      op.count = static_cast<uint32_t>(Unsigned(time.substr(at + 1)));
      time = time.substr(0, at);
    }
    op.gpu_ns = Time(time);
    const std::string_view symbol = text.substr(0, colon);
    op.symbol = Keep(symbol);
    op.name = Keep(symbol.empty() ? "K_f900_64x64x1" : "K_" + std::string(symbol) + "_1x1x1");
    return op;
  }
  void OnOps() {
    std::vector<event::OpSample>& ops = builder_.ops_.emplace_back();
    for (size_t i = 3; i < words_.size(); ++i) ops.push_back(ParseOp(words_[i]));
    Emit(event::CbOps{.cb_id = CbId{Unsigned(Word(2))}, .ops = ops}, Api::kVulkan);
  }

  void OnDropped() {
    Emit(event::HookDropped{.dropped_kind = Keep(Word(2)), .count = Unsigned(Word(3))}, Api::kVulkan);
  }
  void OnSkipped() {
    event::HookSkipped fields{.detail = Keep(Rest(4)), .count = Unsigned(Word(3))};
    for (uint8_t i = 0; i < event::kEnumSize<event::SkipReason>; ++i) {
      if (event::EnumName(static_cast<event::SkipReason>(i)) == Word(2)) {
        fields.reason = static_cast<event::SkipReason>(i);
        return Emit(fields, Api::kVulkan);
      }
    }
    Bad("unknown reason");
  }
  void OnStorage() { Emit(event::StorageDegraded{.reason = Keep(Rest(3)), .lost_count = Unsigned(Word(2))}); }
  void OnResumed() { Emit(event::SessionResumed{.gap_ns = 0, .dropped_count = Unsigned(Word(2))}); }
  void OnHello() { Emit(event::PythonSidecarHello{.python_version = Keep("3.11")}); }
  void OnApiError() {
    Emit(event::ApiError{.call = Keep(Word(2)), .error_code = Signed(Word(3)), .error_name = Keep(Word(4))},
         Api::kVulkan);
  }
  void OnDevice() {
    Emit(event::DeviceInfo{.device_id = event::DeviceId{Unsigned(Word(2))},
                           .device_name = Keep(Rest(3)),
                           .driver = Keep("driver 1.0"),
                           .api_version = Keep("1.3")},
         Api::kVulkan);
  }
  void OnProcess() {
    Emit(event::ProcessSeen{.parent_pid = static_cast<uint32_t>(Number("parent", 0)),
                            .start_time_ticks = 1,
                            .executable = Keep(Word(2))});
  }
  void OnExit() {
    Emit(event::ProcessExit{.exit_code = Signed(Word(2)),
                            .term_signal = static_cast<uint32_t>(Number("signal", 0))});
  }
  void OnStart() { Emit(event::SessionStarted{.wall_unix_ns = 1'700'000'000'000'000'000}); }
  void OnEnd() {
    Emit(event::SessionEnded{.wall_unix_ns = 1'700'000'001'000'000'000, .reason = Keep(Rest(2))});
  }

  SessionBuilder& builder_;
  std::string_view line_;
  std::vector<std::string_view> words_;
  std::map<std::string_view, std::string_view> values_;
  std::vector<event::Attribute> attributes_;
  event::Envelope envelope_;
};

SessionBuilder::SessionBuilder(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(' ') == std::string_view::npos) continue;
    LineParser(*this, line).Run();
  }
}

void SessionBuilder::ForEachBatch(event::Kind kind, const VisitBatch& visit) const {
  for (const event::Event& event : events_) {
    if (event::KindOf(event.payload) != kind) continue;
    std::visit([&](const auto& fields) { visit({&event.envelope, 1}, &fields); }, event.payload);
  }
}

analysis::TimeRange SessionBuilder::range() const {
  if (events_.empty()) return {};
  const auto [first, last] =
      std::minmax_element(events_.begin(), events_.end(),
                          [](const auto& a, const auto& b) { return a.envelope.ts_ns < b.envelope.ts_ns; });
  return {first->envelope.ts_ns, last->envelope.ts_ns};
}

}  // namespace smeltr::fake
