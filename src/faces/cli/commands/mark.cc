// `smeltr mark`: a moment worth finding again, from outside the recorded program.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <utility>

#include "faces/cli/command.h"
#include "faces/cli/console.h"
#include "faces/cli/daemon_client.h"
#include "faces/daemon_json.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

template <typename T>
bool IsWhole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string_view TypeOf(std::string_view value) {
  if (value == "true" || value == "false") return "bool";
  int64_t integer = 0;
  if (IsWhole(value, integer)) return "int";
  double number = 0;
  // "nan" and "inf" are words to people.
  if (IsWhole(value, number) && std::isfinite(number)) return "float";
  return "string";
}

class Mark final : public Command {
 public:
  CLI::App* AddTo(CLI::App& root) override {
    CLI::App* const app = root.add_subcommand("mark", "Mark this moment in a recording");
    app->add_option("LABEL", label_, "What happens now")->required();
    app->add_option("--field", fields_, "More about it; true, 3, 2.5 and text keep their types")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    app->add_option("--session", reference_, "Which; the newest recording under way if not given")
        ->type_name("REF");
    app->add_flag("--json", json_, "Print JSON");
    app->footer(
        "Examples:\n  smeltr mark \"load starts\"\n  smeltr mark epoch --field n=3 --field lr=0.01\n"
        "Without a recording under way it goes to the ambient session. A session that has ended takes "
        "no marks: exit status 1.");
    return app;
  }

  Result<int> Run(Console& console) override {
    ipc::Mark mark;
    mark.label = label_;
    for (const std::string& field : fields_) {
      const size_t equals = field.find('=');
      if (equals == std::string::npos || equals == 0) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("--field needs KEY=VALUE, not '{}'", Printable(Truncate(field, 60))));
      }
      mark.field_keys.push_back(field.substr(0, equals));
      mark.field_values.push_back(field.substr(equals + 1));
      mark.field_types.emplace_back(TypeOf(mark.field_values.back()));
    }
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(mark.session_id, SessionIdOf(paths, reference_));
    SMELTR_ASSIGN_OR_RETURN(ipc::Client client, ConnectToDaemon(paths, "mark"));
    const auto marked = client.Call(mark);
    // To the daemon some refusals are wrong arguments; of this command line they are not.
    if (!marked.has_value()) return Fail(ErrorCode::kUnavailable, marked.error().text());
    if (json_) {
      console.Print(MarkedJson(*marked, label_));
    } else {
      console.Print(fmt::format("marked '{}' in {} ({})\n", Printable(label_), marked->short_id,
                                Printable(marked->kind)));
    }
    return kExitOk;
  }

 private:
  std::string label_;
  std::vector<std::string> fields_;
  std::string reference_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeMark() { return std::make_unique<Mark>(); }

}  // namespace smeltr::faces::cli
