// Runs the *.case files of this folder: one text file a case.
//
//   why ...                     free text up to the first section: what the case guards against
//   === metadata                key value lines: name, argv, exit_code, term_signal, end_reason, dropped,
//   hook_state
//   === events                  as in fake/session_builder.h
//   === run breakdown golden    a command line; $ID stands for the session's short id
//   status 2                    expected exit status, 0 when not given
//   err smeltr: ...             expected line on stderr
//   not <unscoped>              must stand nowhere in the output
//   > text                      expected line on stdout; runs of blanks count as one
//
// Expected lines must come in this order; others may stand between them. A case may have several runs.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "faces/cli/console.h"
#include "faces/cli/run.h"
#include "fake/session_builder.h"
#include "session/store.h"
#include "session/writer.h"

namespace smeltr {
namespace {

namespace fs = std::filesystem;

struct Command {
  std::vector<std::string> arguments;
  int status = 0;
  std::vector<std::string> out;
  std::vector<std::string> err;
  std::vector<std::string> absent;
};

struct Case {
  std::string events;
  std::vector<std::string> metadata;
  std::vector<Command> commands;
};

// Without blanks at the ends, and with one for each run of them.
std::string Squeezed(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' || (!result.empty() && result.back() != ' ')) result += c;
  }
  if (result.ends_with(' ')) result.pop_back();
  return result;
}

std::vector<std::string> Words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Squeezed(line));
  return lines;
}

void AddExpectation(Command& command, const std::string& line) {
  const auto rest = [&](size_t from) { return Squeezed(std::string_view(line).substr(from)); };
  if (line.starts_with(">")) return command.out.push_back(rest(1));
  if (line.starts_with("err ")) return command.err.push_back(rest(4));
  if (line.starts_with("not ")) return command.absent.push_back(rest(4));
  if (line.starts_with("status ")) {
    command.status = std::stoi(line.substr(7));
    return;
  }
  if (!Squeezed(line).empty()) ADD_FAILURE() << "not an expectation: " << line;
}

Case Parse(const fs::path& file) {
  Case parsed;
  std::ifstream in(file);
  std::string section;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("=== ")) {
      section = Words(line).at(1);
      if (section == "run") {
        parsed.commands.emplace_back().arguments = Words(line.substr(8));
      } else if (section != "events" && section != "metadata") {
        ADD_FAILURE() << "unknown section: " << line;
      }
      continue;
    }
    if (section == "events") parsed.events += line + "\n";
    if (section == "metadata") parsed.metadata.push_back(line);
    if (section == "run") AddExpectation(parsed.commands.back(), line);
  }
  EXPECT_FALSE(parsed.commands.empty()) << "the case runs nothing";
  return parsed;
}

void Apply(const std::vector<std::string>& lines, session::Metadata& metadata) {
  metadata.name = "golden";
  metadata.end_reason = "exit";
  for (const std::string& line : lines) {
    const std::vector<std::string> words = Words(line);
    if (words.empty()) continue;
    if (words[0] == "name") metadata.name = words.at(1);
    if (words[0] == "argv") metadata.argv.assign(words.begin() + 1, words.end());
    if (words[0] == "exit_code") metadata.exit_code = std::stoi(words.at(1));
    if (words[0] == "term_signal") metadata.term_signal = std::stoi(words.at(1));
    if (words[0] == "end_reason") metadata.end_reason = words.size() > 1 ? words[1] : "";
    if (words[0] == "dropped") metadata.dropped_counts[words.at(1)] = std::stoull(words.at(2));
    if (words[0] == "hook_state") metadata.hook_state = words.at(1);
    if (words[0] == "started") metadata.started_rfc3339 = words.at(1);
  }
}

// A SMELTR_HOME with one session in it, gone at the end of the scope.
class Home {
 public:
  Home() {
    std::string pattern = (fs::temp_directory_path() / "smeltr-golden-XXXXXX").string();
    const char* const made = mkdtemp(pattern.data());
    EXPECT_NE(made, nullptr);
    path_ = pattern;
    setenv("SMELTR_HOME", path_.c_str(), 1);
    setenv("TZ", "UTC0", 1);
  }
  ~Home() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  std::string AddSession(const Case& parsed) const {
    session::Metadata metadata;
    metadata.started_rfc3339 = "2026-03-01T14:05:09Z";
    Apply(parsed.metadata, metadata);
    fs::create_directories(path_ / "sessions");
    auto stored = session::CreateSession(path_ / "sessions", metadata);
    EXPECT_TRUE(stored.has_value()) << stored.error().text();
    auto writer = session::Writer::Create(stored->directory / session::kEventsFile, {});
    EXPECT_TRUE(writer.has_value()) << writer.error().text();
    const fake::SessionBuilder builder(parsed.events);
    for (const event::Event& event : builder.events()) writer->Append(event);
    EXPECT_TRUE(writer->Close().has_value());
    return stored->short_id();
  }

 private:
  fs::path path_;
};

// A stream whose content can be read back.
class Capture {
 public:
  Capture() : file_(std::tmpfile()) {}
  ~Capture() { std::fclose(file_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::FILE* file() const { return file_; }
  std::string Text() const {
    std::fflush(file_);
    std::rewind(file_);
    std::string text;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) text += static_cast<char>(c);
    return text;
  }

 private:
  std::FILE* file_;
};

void ExpectLines(const std::vector<std::string>& expected, const std::string& text, std::string_view stream) {
  const std::vector<std::string> lines = Lines(text);
  auto from = lines.begin();
  for (const std::string& line : expected) {
    const auto found = std::find(from, lines.end(), line);
    if (found == lines.end()) {
      ADD_FAILURE() << "on " << stream << ", missing or out of order: " << line << "\nall of it:\n" << text;
      return;
    }
    from = found + 1;
  }
}

void RunCommand(const Command& command, const std::string& id) {
  std::vector<std::string> arguments{"smeltr"};
  for (const std::string& argument : command.arguments)
    arguments.push_back(argument == "$ID" ? id : argument);
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const Capture out;
  const Capture err;
  faces::cli::Console console(out.file(), err.file(), {.colour = false, .width = 80});
  EXPECT_EQ(faces::cli::Run(static_cast<int>(argv.size()), argv.data(), console), command.status);
  const std::string text = out.Text();
  ExpectLines(command.out, text, "stdout");
  ExpectLines(command.err, err.Text(), "stderr");
  if (command.err.empty()) {
    EXPECT_EQ(err.Text(), "");
  }
  for (const std::string& absent : command.absent) {
    EXPECT_EQ(text.find(absent), std::string::npos) << "must not be there: " << absent << "\n" << text;
  }
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, Holds) {
  const Case parsed = Parse(GetParam());
  const Home home;
  const std::string id = home.AddSession(parsed);
  for (const Command& command : parsed.commands) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(command.arguments, " ")));
    RunCommand(command, id);
  }
}

std::vector<fs::path> AllCases() {
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(SMELTR_GOLDEN_DIR)) {
    if (entry.path().extension() == ".case") cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::string NameOf(const testing::TestParamInfo<fs::path>& tested) {
  std::string name = tested.param.stem().string();
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(AllCases()), NameOf);

}  // namespace
}  // namespace smeltr
