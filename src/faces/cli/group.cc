#include "faces/cli/group.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace smeltr::faces::cli {
namespace {

class Group final : public Command {
 public:
  Group(GroupText text, std::vector<std::unique_ptr<Command>> parts)
      : text_(std::move(text)), parts_(std::move(parts)) {}

  CLI::App* AddTo(CLI::App& root) override {
    CLI::App* const app = root.add_subcommand(text_.name, text_.help);
    app->require_subcommand(1);
    app->footer(text_.examples);
    for (const auto& part : parts_) added_.push_back(part->AddTo(*app));
    return app;
  }

  Result<int> Run(Console& console) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (added_[i]->parsed()) return parts_[i]->Run(console);
    }
    return Fail(ErrorCode::kInvalidArgument, text_.name + " needs a command; see --help");
  }

 private:
  GroupText text_;
  std::vector<std::unique_ptr<Command>> parts_;
  std::vector<CLI::App*> added_;
};

}  // namespace

std::unique_ptr<Command> MakeGroup(GroupText text, std::vector<std::unique_ptr<Command>> parts) {
  return std::make_unique<Group>(std::move(text), std::move(parts));
}

}  // namespace smeltr::faces::cli
