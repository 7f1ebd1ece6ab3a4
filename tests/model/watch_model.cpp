// Every schedule of what one daemon watches at one home, over the very code of control/watch.h: messages are never taken off
// the network, so that each arrives at any time, any number of times or not at all, after which who asked gives up waiting;
// extents end at any moment, and are wanted, dropped and wanted again.
//
// How to run it: model.h.
//
// What must hold in every state
//   V1 if messages get through from now on, the end of everything that is wanted is reported
//   V2 what is reported is over, is wanted, and was not reported before in the same wanting
//   V3 if messages get through from now on, the home watches what is wanted and nothing else
//   V4 both ends are valid
#define OCM_MODEL
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "control/watch.h"
#include "model.h"

namespace ocm {
namespace control {

/// What a state is told apart by.
struct WatchName {
  static void add(std::string& out, const std::vector<ExtentId>& ids) {
    for (const ExtentId& id : ids) out += static_cast<char>('a' + id.generation);
    out += '.';
  }
  static void add(std::string& out, const WatchAsked& asked, uint64_t newest) {
    // Numbers only count against each other.
    out += static_cast<char>(newest - asked.number);
    add(out, asked.begin);
    add(out, asked.end);
  }
  static void add(std::string& out, const Watching& watching, const std::vector<ExtentId>& all,
                  uint64_t newest) {
    for (const ExtentId& id : all) {
      const auto one = watching.all_.find(id);
      out += static_cast<char>(watching.due_.contains(id));
      if (one == watching.all_.end()) {
        out += '-';
        continue;
      }
      out += static_cast<char>(one->second.wanted);
      out += static_cast<char>(one->second.known);
      out += static_cast<char>(watching.is_asked(one->second));
    }
    out += '|';
    if (watching.asked_) add(out, *watching.asked_, newest);
    out += '|';
  }
  static void add(std::string& out, const Watchers& watchers, const std::vector<ExtentId>& all,
                  uint64_t newest) {
    for (const auto& kept : watchers.kept_) {
      out += static_cast<char>(newest - kept.newest);
      for (const ExtentId& id : all) {
        out += static_cast<char>(kept.watched.contains(id));
        out += static_cast<char>(kept.untold.contains(id));
      }
    }
    out += '|';
  }
  static bool has(const Watchers& watchers, ExtentId id) {
    for (const auto& kept : watchers.kept_) {
      if (kept.watched.contains(id) || kept.untold.contains(id)) return true;
    }
    return false;
  }
};

}  // namespace control

namespace {

using control::WatchAnswer;
using control::WatchAsked;
using control::Watchers;
using control::Watching;
using control::WatchName;

struct World {
  const char* name;
  uint32_t extents = 1;
  uint32_t changes = 3;   // how often something is wanted or dropped
  uint32_t requests = 3;  // that the daemon sends
  size_t at_once = 2;     // extents in one
};

const Watchers::Watcher kBy{"n1", {}, 1000};

struct Answered {
  uint64_t number;
  WatchAnswer what;
  auto key() const { return std::tuple(number, what.over); }
  bool operator<(const Answered& other) const { return key() < other.key(); }
};
struct Asked {
  WatchAsked what;
  bool operator<(const Asked& other) const { return what.number < other.what.number; }
};

struct State {
  Watching watching;
  Watchers watchers;
  std::set<Asked> asked;
  std::set<Answered> answered;
  std::set<std::vector<ExtentId>> over, heard;  // on the network
  std::set<ExtentId> ended, wanted;             // wanted: and not reported since
  uint32_t changes = 0;
  uint64_t number = 0;
};

class Checker : public model::Walk<State> {
 public:
  Checker(const World& world, size_t states_max) : Walk(states_max), world_(world) {
    for (uint32_t i = 0; i < world.extents; ++i) all_.push_back({GlobalAddress(1, 4096 * i), i});
  }
  bool run() {
    add(State{});
    return walk([this](const State& state) { expand(state); });
  }
  std::string counts() const { return std::to_string(reported_) + " reports"; }

 private:
  void expand(const State& from) {
    const auto step = [&](auto change) {
      State state = from;
      change(state);
      add(std::move(state));
    };
    for (const ExtentId& id : all_) {
      if (from.changes < world_.changes) {
        if (!from.watching.wants(id)) step([&](State& s) { want(s, id); });
        if (from.watching.wants(id)) step([&](State& s) { drop(s, id); });
      }
      if (!from.ended.contains(id)) step([&](State& s) { end(s, id); });
    }
    if (from.watching.is_due() && from.number < world_.requests) step([&](State& s) { ask(s); });
    for (const Asked& one : from.asked) step([&](State& s) { arrive(s, one.what); });
    for (const Answered& one : from.answered) {
      if (is_awaited(from, one)) step([&](State& s) { answer(s, one); });
    }
    if (is_asking(from)) step([&](State& s) { s.watching.unheard(); });
    if (!from.watchers.untold(kBy, world_.at_once).empty()) step([&](State& s) { tell(s); });
    for (const auto& ids : from.over) step([&](State& s) { hear(s, ids); });
    for (const auto& ids : from.heard) step([&](State& s) { s.watchers.heard(kBy, ids); });
  }
  void want(State& s, ExtentId id) const {
    ++s.changes;
    s.watching.want(id);
    s.wanted.insert(id);
  }
  void drop(State& s, ExtentId id) const {
    ++s.changes;
    s.watching.drop(id);
    s.wanted.erase(id);
  }
  void end(State& s, ExtentId id) const {
    s.ended.insert(id);
    (void)s.watchers.over(id);
  }
  bool is_asking(const State& s) const { return !s.watching.is_due() && s.number != 0 && has_request(s); }
  /// The one under way is the newest.
  bool has_request(const State& s) const {
    std::string name;
    WatchName::add(name, s.watching, {}, s.number);
    return name.size() > 2;
  }
  bool is_awaited(const State& s, const Answered& one) const {
    return one.number == s.number && has_request(s);
  }
  void ask(State& s) const { s.asked.insert({s.watching.ask(++s.number, world_.at_once)}); }
  void arrive(State& s, const WatchAsked& asked) const {
    const WatchAnswer answer =
        s.watchers.take(kBy, asked, ~size_t{0}, [&](ExtentId id) { return s.ended.contains(id); });
    s.answered.insert({asked.number, answer});
  }
  void answer(State& s, const Answered& one) { report(s, s.watching.answered(one.what).over); }
  void tell(State& s) const {
    const auto ids = s.watchers.untold(kBy, world_.at_once);
    s.over.insert(ids);
    if (is_mutated("tell-once")) s.watchers.heard(kBy, ids);
  }
  void hear(State& s, const std::vector<ExtentId>& ids) {
    report(s, s.watching.told(ids));
    s.heard.insert(ids);
  }
  void report(State& s, const std::vector<ExtentId>& ids) {
    for (const ExtentId& id : ids) {
      ++reported_;
      if (!s.ended.contains(id)) fail("V2: reported, and not over");
      if (s.wanted.erase(id) == 0) fail("V2: reported, and not wanted, or twice");
    }
  }

  /// V1 and V3, on a copy: rounds in which every message arrives, and nothing of before does.
  void end_well(State s) {
    if (has_request(s)) s.watching.unheard();
    for (int round = 0; round < 12 && !has_failed(); ++round) {
      if (s.watching.is_due()) {
        ask(s);
        const WatchAsked asked = std::prev(s.asked.end())->what;
        s.answered.clear();
        arrive(s, asked);
        answer(s, Answered(*s.answered.begin()));
      }
      const auto ids = s.watchers.untold(kBy, world_.at_once);
      if (ids.empty()) continue;
      hear(s, ids);
      s.watchers.heard(kBy, ids);
    }
    for (const ExtentId& id : all_) {
      if (s.wanted.contains(id) && s.ended.contains(id)) fail("V1: it ended, and is not told");
      const bool should = s.wanted.contains(id);
      if (WatchName::has(s.watchers, id) != should)
        fail(should ? "V3: wanted, and not watched" : "V3: watched, and not wanted");
    }
  }

  void add(State&& s) {
    if (has_failed()) return;
    if (!s.watching.is_valid() || !s.watchers.is_valid()) fail("V4: an end is not valid");
    std::string name;
    WatchName::add(name, s.watching, all_, s.number);
    WatchName::add(name, s.watchers, all_, s.number);
    for (const Asked& one : s.asked) WatchName::add(name, one.what, s.number);
    name += '|';
    for (const Answered& one : s.answered) {
      if (!is_awaited(s, one)) continue;
      WatchName::add(name, one.what.over);
      name += ';';
    }
    name += '|';
    for (const auto* messages : {&s.over, &s.heard}) {
      for (const auto& ids : *messages) WatchName::add(name, ids);
      name += '|';
    }
    for (const ExtentId& id : all_)
      name += static_cast<char>(s.ended.contains(id) + 2 * s.wanted.contains(id));
    name += static_cast<char>(s.changes);
    name += static_cast<char>(s.number);
    if (!is_new(model::digest_of(name))) return;
    end_well(s);
    keep(std::move(s));
  }

  const World world_;
  std::vector<ExtentId> all_;
  size_t reported_ = 0;
};

const World kGate[] = {
    {.name = "one extent", .changes = 5, .requests = 4},
    {.name = "two extents", .extents = 2, .changes = 3, .requests = 3},
    {.name = "two extents, one by one", .extents = 2, .changes = 3, .requests = 3, .at_once = 1},
};
const World kDeep[] = {
    {.name = "one extent, more", .changes = 7, .requests = 6},
    {.name = "two extents, more", .extents = 2, .changes = 4, .requests = 4},
};

constexpr model::Mutation kMutations[] = {
    {"take-late", "one extent"},           {"watch-in-vain", "one extent"},
    {"answer-another-time", "one extent"}, {"unheard-is-heard", "one extent"},
    {"tell-once", "one extent"},
};

}  // namespace
}  // namespace ocm

int main(int argc, char** argv) {
  using namespace ocm;
  return model::run<Checker, World>(argc, argv, kGate, kDeep, kMutations, 20'000'000);
}
