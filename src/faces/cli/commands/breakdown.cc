// `smeltr breakdown`: where a session's GPU time went, scope by scope, kernel by kernel.
#include "analysis/breakdown.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>

#include "faces/answer_json.h"
#include "faces/cli/command.h"
#include "faces/cli/console.h"
#include "faces/cli/table.h"
#include "faces/opened_session.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

constexpr size_t kLabelWidth = 12;
constexpr uint64_t kDefaultTop = 20;
constexpr uint32_t kDefaultDepth = 6;
constexpr uint64_t kDefaultTopOps = 5;

std::string FieldText(const analysis::Field& field) {
  switch (field.type) {
    case event::AttributeType::kBool:
      return field.key + (field.bits != 0 ? "=true" : "=false");
    case event::AttributeType::kInt:
      return fmt::format("{}={}", field.key, static_cast<int64_t>(field.bits));
    case event::AttributeType::kFloat:
      return fmt::format("{}={}", field.key, std::bit_cast<double>(field.bits));
    case event::AttributeType::kString:
      break;
  }
  return field.key + "=" + field.text;
}

// "layer {index=3, step=*}"
std::string NodeText(const analysis::Node& node) {
  std::string fields;
  for (const analysis::Field& field : node.fields) fields += (fields.empty() ? "" : ", ") + FieldText(field);
  for (const std::string& key : node.varied_fields) fields += (fields.empty() ? "" : ", ") + key + "=*";
  return Printable(fields.empty() ? node.qualname : node.qualname + " {" + fields + "}");
}

// Mostly shared out by what other command buffers showed, not measured in this one.
bool MostlyEstimated(const analysis::OpRow& op) {
  const uint64_t estimated_ns = op.precision_ns[static_cast<size_t>(event::Precision::kProfile)] +
                                op.precision_ns[static_cast<size_t>(event::Precision::kUniform)];
  return estimated_ns * 2 > op.gpu_ns;
}

std::string OpTime(const analysis::OpRow& op) {
  return (MostlyEstimated(op) ? "~" : "") + FormatDuration(op.gpu_ns);
}

// One kernel launched with several dimensions has several rows: their fingerprints' ends tell them apart.
std::string LabelAmong(const analysis::OpRow& op, const std::vector<analysis::OpRow>& all) {
  const auto twins =
      std::count_if(all.begin(), all.end(), [&](const auto& row) { return row.label() == op.label(); });
  const size_t dimensions = op.name.rfind('_');
  if (twins < 2 || op.symbol.empty() || dimensions == std::string::npos) return Printable(op.label());
  return Printable(op.symbol + " " + op.name.substr(dimensions + 1));
}

// Text form of a breakdown.
class Report {
 public:
  Report(const OpenedSession& session, const analysis::Breakdown& breakdown, const BreakdownView& view,
         Console& console)
      : session_(session), breakdown_(breakdown), view_(view), console_(console) {}

  void Print() {
    Header();
    if (breakdown_.gpu_ns > 0) {
      console_.Print("\n");
      if (view_.flat_ops) {
        FlatOps();
      } else {
        Tree();
      }
    }
    Footer();
  }

 private:
  void Line(std::string_view label, std::string_view text) {
    console_.Print(Labelled(label, kLabelWidth, text, console_.style()));
  }
  std::string Share(uint64_t part_ns) const { return FormatPercent(part_ns, breakdown_.gpu_ns) + " %"; }

  void Header() {
    const session::Metadata& metadata = session_.stored.metadata;
    std::string what = session_.stored.short_id();
    if (!metadata.name.empty()) what += "  " + metadata.name;
    if (const std::string command = CommandText(metadata); !command.empty()) what += "  " + command;
    Line("Session", Printable(what));
    if (session_.state == SessionState::kLive) Line("", "still being recorded: figures so far");
    if (breakdown_.gpu_ns == 0) {
      Line("GPU time", "none");
      return;
    }
    uint64_t queues = 0;
    for (const analysis::QueueTime& queue : breakdown_.queues) queues += queue.gpu_ns > 0 ? 1 : 0;
    Line("GPU time",
         fmt::format("{} in {} of wall time ({} %); {} on {}", FormatDuration(breakdown_.gpu_ns),
                     FormatDuration(breakdown_.wall_ns), FormatPercent(breakdown_.gpu_ns, breakdown_.wall_ns),
                     FormatCounted(breakdown_.cbs.completed, "command buffer"),
                     FormatCounted(queues, "queue")));
    Line("Attribution", fmt::format("{} exact, {} by time window, {} unscoped", Share(breakdown_.exact_ns),
                                    Share(breakdown_.window_ns), Share(breakdown_.unscoped_ns)));
    Line("Kernel time", PrecisionText());
    if (breakdown_.filtered) {
      Line("Filtered", fmt::format("{} of {}", FormatDuration(breakdown_.nodes[0].gpu_ns_subtree),
                                   FormatDuration(breakdown_.gpu_ns)));
    }
  }

  std::string PrecisionText() const {
    static constexpr std::array<std::string_view, analysis::kPrecisions> kWords{
        "measured kernel by kernel", "measured in groups", "estimated from sampled command buffers",
        "shared out evenly", "without kernel detail"};
    std::string text;
    for (size_t i = 0; i < analysis::kPrecisions; ++i) {
      if (breakdown_.precision_ns[i] == 0) continue;
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Share(breakdown_.precision_ns[i]), kWords[i]);
    }
    return text;
  }

  // --- tree ---
  void Tree() {
    const analysis::ShownTree tree = analysis::SelectNodes(breakdown_, view_.limits);
    Table table({{view_.ops ? "SCOPE, · KERNEL" : "SCOPE", Align::kLeft, Flex::kCut},
                 {"CALLS", Align::kRight},
                 {"SELF", Align::kRight},
                 {"SUBTREE", Align::kRight},
                 {"%", Align::kRight}});
    AddNode(0, tree, table);
    console_.Print(table.Render(console_.style()));
    if (tree.nodes_cut > 0) {
      console_.Print(fmt::format("{} not shown; --top and --depth show more\n",
                                 FormatCounted(tree.nodes_cut, "smaller or deeper scope")));
    }
    if (breakdown_.nodes[0].gpu_ns_subtree == 0) console_.Print("No scope matches the --field filter.\n");
  }

  // Recursion is as deep as the tree, which the analysis bounds (kMaxTreeDepth).
  void AddNode(uint32_t number, const analysis::ShownTree& tree, Table& table) {
    const analysis::Node& node = breakdown_.nodes[number];
    const uint64_t total_ns = breakdown_.nodes[0].gpu_ns_subtree;
    if (number != 0) {
      if (!node.varied_fields.empty()) merged_shown_.push_back(number);
      const std::string indent(size_t{2} * (node.depth - 1), ' ');
      table.Add({indent + NodeText(node), node.calls == 0 ? "" : FormatCount(node.calls),
                 node.gpu_ns_self == 0 ? "-" : FormatDuration(node.gpu_ns_self),
                 FormatDuration(node.gpu_ns_subtree), FormatPercent(node.gpu_ns_subtree, total_ns)});
    }
    if (view_.ops) AddOps(node, total_ns, table);
    for (const uint32_t child : node.children) {
      if (tree.shown[child]) AddNode(child, tree, table);
    }
  }

  void AddOps(const analysis::Node& node, uint64_t total_ns, Table& table) const {
    const std::string indent(size_t{2} * node.depth, ' ');
    const size_t shown = std::min<size_t>(node.ops.size(), view_.limits.top_ops.value_or(node.ops.size()));
    for (size_t i = 0; i < shown; ++i) {
      const analysis::OpRow& op = node.ops[i];
      table.Add({indent + "· " + OpText(op, node.ops), FormatCount(op.count), OpTime(op), "",
                 FormatPercent(op.gpu_ns, total_ns)},
                Tone::kDim);
    }
    if (shown == node.ops.size()) return;
    uint64_t rest_ns = 0;
    for (size_t i = shown; i < node.ops.size(); ++i) rest_ns += node.ops[i].gpu_ns;
    table.Add({fmt::format("{}· {}", indent, FormatCounted(node.ops.size() - shown, "other kernel")), "",
               FormatDuration(rest_ns), "", FormatPercent(rest_ns, total_ns)},
              Tone::kDim);
  }

  static std::string OpText(const analysis::OpRow& op, const std::vector<analysis::OpRow>& all) {
    if (op.kind.empty() || op.kind == op.label()) return LabelAmong(op, all);
    return op.kind + " " + LabelAmong(op, all);
  }

  // --- flat list ---
  void FlatOps() {
    const std::vector<analysis::OpRow> rows = analysis::FlatOps(breakdown_, *view_.flat_ops);
    uint64_t total_ns = 0;
    for (const analysis::OpRow& row : rows) total_ns += row.gpu_ns;
    // Grouped by kind, the kernel is its kind.
    const bool by_kind = view_.flat_ops == analysis::GroupBy::kKind;
    std::vector<Column> columns{{by_kind ? "KIND" : "KERNEL", Align::kLeft, Flex::kCut}};
    if (!by_kind) columns.push_back({"KIND"});
    for (const char* const title : {"COUNT", "TIME", "%"}) columns.push_back({title, Align::kRight});
    Table table(std::move(columns));
    const size_t shown = std::min<size_t>(rows.size(), view_.limits.top.value_or(rows.size()));
    for (size_t i = 0; i < shown; ++i) {
      std::vector<std::string> row{LabelAmong(rows[i], rows)};
      if (!by_kind) row.push_back(rows[i].kind);
      row.insert(row.end(),
                 {FormatCount(rows[i].count), OpTime(rows[i]), FormatPercent(rows[i].gpu_ns, total_ns)});
      table.Add(std::move(row));
    }
    console_.Print(table.Render(console_.style()));
    if (shown < rows.size()) {
      console_.Print(fmt::format("{} not shown; --top shows more\n",
                                 FormatCounted(rows.size() - shown, "smaller kernel")));
    }
  }

  std::string NoWorkText() const {
    const session::Metadata& metadata = session_.stored.metadata;
    const std::string reason = Printable(metadata.hook_reason);
    if (metadata.hook_state == "skipped") {
      return fmt::format("No GPU work was recorded: the hook was not used ({}).", reason);
    }
    if (metadata.hook_state == "requested-but-silent") {
      return fmt::format("No GPU work was recorded: {}.", reason);
    }
    return "No GPU work was recorded: did the program use a GPU interface smeltr hooks (Vulkan)? "
           "`smeltr sessions show` tells what was seen.";
  }

  std::string MergedText() const {
    const analysis::Node& merged = breakdown_.nodes[merged_shown_.front()];
    return fmt::format(
        "`=*` marks scopes merged over more than {} sets of fields, such as {}: --by-fields "
        "keeps them apart, --field {}=VALUE picks one.",
        analysis::kMaxFieldSets, Printable(merged.qualname), Printable(merged.varied_fields.front()));
  }

  void Footer() {
    std::vector<std::string> notes;
    const uint64_t estimated_ns = breakdown_.precision_ns[static_cast<size_t>(event::Precision::kProfile)] +
                                  breakdown_.precision_ns[static_cast<size_t>(event::Precision::kUniform)];
    if (estimated_ns > 0 && view_.ops) {
      notes.emplace_back(
          "~ marks estimated kernel times; the times of scopes and command buffers they add up to "
          "are measured.");
    }
    if (breakdown_.cbs.completed == 0) {
      notes.push_back(NoWorkText());
    }
    for (const analysis::Notice& notice : breakdown_.notices) {
      // Of the whole tree, for programs; people are told about the part that they see.
      if (notice.code != "fields_merged") notes.push_back(notice.text);
    }
    if (!merged_shown_.empty()) notes.push_back(MergedText());
    if (std::string trimmed = TrimmedText(session_); !trimmed.empty()) {
      notes.push_back(std::move(trimmed) + ": times and shares are of the rest.");
    }
    const session::Damage damage = session_.damage();
    if (damage.any()) {
      notes.emplace_back("Part of the session could not be read; `smeltr sessions show` tells how much.");
    }
    for (const std::string& problem : session_.problems) notes.push_back(Printable(problem));
    if (!notes.empty()) console_.Print("\n");
    for (const std::string& note : notes) Line("Note", note);
  }

  const OpenedSession& session_;
  const analysis::Breakdown& breakdown_;
  const BreakdownView& view_;
  Console& console_;
  std::vector<uint32_t> merged_shown_;  // Nodes with fields that vary, among those printed.
};

// CLI11 itself would take "-1" for a very large number. Empty when the text is one.
std::string NotARowCount(const std::string& text) {
  uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped_at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped_at == end ? "" : "not a number of rows: " + text;
}

class BreakdownCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App& root) override {
    CLI::App* const app = root.add_subcommand("breakdown", "Show where the GPU time of a session went");
    app->add_option("REF", choice_.reference,
                    "Session: short id, full id, name or directory (default: the newest)")
        ->check(CLI::Validator(
            [](const std::string& text) { return text.empty() ? std::string("the session is empty") : ""; },
            ""));
    app->add_flag("--last", choice_.last, "The newest recording");
    app->add_flag("--include-ambient", choice_.include_ambient, "Let the newest be an ambient session too");
    const CLI::Validator row_count(NotARowCount, "");
    app->add_option("--top", top_, "Scopes to show, largest first (default 20); with --ops-flat, kernels")
        ->check(row_count)
        ->option_text("N");
    app->add_option("--depth", depth_, "Levels of scopes to show, 0 = outermost only (default 6)")
        ->check(row_count)
        ->option_text("N");
    app->add_option("--top-ops", top_ops_, "Kernels to show for each scope (default 5)")
        ->check(row_count)
        ->option_text("N");
    app->add_flag("--no-ops", no_ops_, "Leave kernels out");
    app->add_flag("--ops-flat", ops_flat_, "One list of kernels instead of the tree");
    app->add_flag("--per-call", per_call_, "One row for each call instead of one for all calls of a scope");
    app->add_flag("--by-fields", by_fields_, "Keep scopes apart however many sets of fields they have");
    app->add_option("--group-by", group_by_, "Rows of kernels: by 'name' (default) or 'kind'")
        ->check(CLI::IsMember({"name", "kind"}));
    app->add_option("--field", fields_, "Only scopes with this field, as key=value; may be repeated")
        ->allow_extra_args(false);
    app->add_flag("--json", json_, "Print JSON: complete unless --top, --depth or --top-ops limit it");
    app->footer(
        "Examples:\n  smeltr breakdown\n  smeltr breakdown 3f2a9c1d --top 10 --no-ops\n"
        "  smeltr breakdown --last --ops-flat --group-by kind\n  smeltr breakdown --field step=3 --json");
    return app;
  }

  Result<int> Run(Console& console) override {
    analysis::BreakdownOptions options;
    options.per_call = per_call_;
    options.by_fields = by_fields_;
    options.group_by = group_by_ == "kind" ? analysis::GroupBy::kKind : analysis::GroupBy::kName;
    for (const std::string& field : fields_) {
      SMELTR_ASSIGN_OR_RETURN(analysis::FieldFilter filter, analysis::ParseFieldFilter(field));
      options.filters.push_back(std::move(filter));
    }
    if (ops_flat_ && no_ops_)
      return Fail(ErrorCode::kInvalidArgument, "--ops-flat and --no-ops exclude each other");

    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    choice_.default_to_last = true;
    SMELTR_ASSIGN_OR_RETURN(const OpenedSession session, ChooseSession(paths.sessions, choice_));
    const analysis::Breakdown breakdown = analysis::ComputeBreakdown(session.source(), options);
    const BreakdownView view = View(options.group_by);
    if (json_) {
      console.Print(BreakdownJson(session, breakdown, view));
    } else {
      Report(session, breakdown, view, console).Print();
    }
    return kExitOk;
  }

 private:
  // JSON is complete unless the user limits it: its readers add numbers up.
  BreakdownView View(analysis::GroupBy group_by) const {
    BreakdownView view;
    view.limits = {top_, depth_, top_ops_};
    view.ops = !no_ops_;
    if (ops_flat_) view.flat_ops = group_by;
    if (json_) return view;
    if (!top_) view.limits.top = kDefaultTop;
    if (!depth_) view.limits.depth = kDefaultDepth;
    if (!top_ops_) view.limits.top_ops = kDefaultTopOps;
    return view;
  }

  SessionChoice choice_;
  std::optional<uint64_t> top_;
  std::optional<uint32_t> depth_;
  std::optional<uint64_t> top_ops_;
  bool no_ops_ = false;
  bool ops_flat_ = false;
  bool per_call_ = false;
  bool by_fields_ = false;
  bool json_ = false;
  std::string group_by_ = "name";
  std::vector<std::string> fields_;
};

}  // namespace

std::unique_ptr<Command> MakeBreakdown() { return std::make_unique<BreakdownCommand>(); }

}  // namespace smeltr::faces::cli
