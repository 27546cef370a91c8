#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "probe/cgroup.h"
#include "probe/emit.h"
#include "probe/oom_victims.h"

namespace smeltr::probe {
namespace {

constexpr uint64_t kQuietNs = 10 * kNsPerSecond;

// Worth an event of its own before the next regular one: a limit was met or moved, somebody was killed, or
// the use changed by an eighth.
bool IsNews(const CgroupFigures& told, const CgroupFigures& now) {
  const uint64_t low = std::min(told.current_bytes, now.current_bytes);
  const uint64_t high = std::max(told.current_bytes, now.current_bytes);
  return high - low > told.current_bytes / 8 || told.limit_bytes != now.limit_bytes ||
         told.high_bytes != now.high_bytes || told.oom_count != now.oom_count ||
         told.oom_kill_count != now.oom_kill_count || told.max_count != now.max_count;
}

class CgroupProbe : public Probe {
 public:
  CgroupProbe(std::shared_ptr<RecordedTrees> trees, Roots roots)
      : trees_(std::move(trees)), roots_(std::move(roots)) {}

  std::string_view name() const override { return "cgroup"; }
  uint64_t period_ns() const override { return 2 * kNsPerSecond; }
  bool Wanted(const Context& context) const override { return !context.recordings.empty(); }

  Status Sample(const Context& context, Sink& sink) override {
    const auto snapshot = trees_->Get(context);
    std::map<std::string, Watched, std::less<>> watched;
    size_t without = 0;
    for (const TreeSnapshot::Tree& tree : snapshot->trees) {
      const auto known = watched_.find(tree.session_id);
      Watched one = known == watched_.end() ? Watched{} : std::move(known->second);
      if (!Watch(tree, context.now_ns, one, sink)) ++without;
      watched.emplace(tree.session_id, std::move(one));
    }
    watched_ = std::move(watched);
    if (without == 0) return {};
    return {Health::kDegraded, "a recording is in no control group that accounts memory"};
  }

  Status Check() override {
    const auto place = FindCgroup(roots_, static_cast<uint32_t>(::getpid()));
    if (place.has_value()) return {};
    return {Health::kDegraded, "the memory controller of cgroups is off, or this is the root group"};
  }

 private:
  struct Watched {
    std::optional<CgroupPlace> place;
    uint64_t place_ns = 0;  // When it was looked up.
    std::optional<CgroupFigures> told;
    uint64_t told_ns = 0;
    OomVictims victims;
  };

  // False when there is nothing to read.
  bool Watch(const TreeSnapshot::Tree& tree, uint64_t now_ns, Watched& one, Sink& sink) {
    const bool look = !one.place.has_value() || now_ns - one.place_ns >= kQuietNs;
    if (look && !tree.members.empty()) {
      auto place = FindCgroup(roots_, tree.members.front().process.pid);
      const bool moved =
          place.has_value() && (!one.place.has_value() || place->directory != one.place->directory);
      // The counters of another group say nothing about changes.
      if (moved)
        one = Watched{.place = std::move(place), .place_ns = 0, .told = {}, .told_ns = 0, .victims = {}};
      one.place_ns = now_ns;
    }
    if (!one.place.has_value()) return tree.members.empty();
    const auto figures = ReadCgroup(*one.place);
    if (!figures.has_value()) return tree.members.empty();
    const uint64_t limits_met = one.told.has_value() ? figures->max_count - one.told->max_count : 0;
    for (const ProcessEntry& victim : one.victims.Update(now_ns, tree.members, figures->oom_kill_count)) {
      sink.EmitTo(tree.session_id, MakeEvent(now_ns, victim.pid,
                                             event::OomKill{.killed_pid = victim.pid,
                                                            .killed_name = std::string_view(victim.name),
                                                            .cgroup = std::string_view(one.place->name),
                                                            .constraint = limits_met > 0 ? "memcg" : "",
                                                            .evidence = "cgroup"}));
    }
    if (!one.told.has_value() || now_ns - one.told_ns >= kQuietNs || IsNews(*one.told, *figures)) {
      Tell(tree.session_id, now_ns, *figures, one, sink);
    }
    return true;
  }

  static void Tell(std::string_view session_id, uint64_t now_ns, const CgroupFigures& figures, Watched& one,
                   Sink& sink) {
    one.told = figures;
    one.told_ns = now_ns;
    sink.EmitTo(session_id, MakeEvent(now_ns, 0,
                                      event::CgroupMemory{.current_bytes = figures.current_bytes,
                                                          .limit_bytes = figures.limit_bytes,
                                                          .oom_kill_count = figures.oom_kill_count,
                                                          .cgroup = std::string_view(one.place->name),
                                                          .peak_bytes = figures.peak_bytes,
                                                          .high_bytes = figures.high_bytes,
                                                          .swap_bytes = figures.swap_bytes,
                                                          .oom_count = figures.oom_count,
                                                          .max_count = figures.max_count}));
  }

  std::shared_ptr<RecordedTrees> trees_;
  Roots roots_;
  std::map<std::string, Watched, std::less<>> watched_;  // By session.
};

}  // namespace

std::unique_ptr<Probe> MakeCgroupProbe(std::shared_ptr<RecordedTrees> trees, const Roots& roots) {
  return std::make_unique<CgroupProbe>(std::move(trees), roots);
}

}  // namespace smeltr::probe
