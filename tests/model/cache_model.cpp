// Every schedule of one page at a small cluster: its home's directory and the nodes that cache it, over a network that
// delivers in any order, with terms that end, deaths, storage that fails and bytes that are lost between two holders,
// walked exhaustively over the very code of src/cache/protocol.
//
// How to run it: model.h. What must hold: directory_page.h (I1 to I10), node_page.h (P1 to P5). Besides, every cell of
// their tables that is no "-" is reached, and every rule beside them. OCM_MODEL_TRACE=1: the shortest way to a failure.
#define OCM_MODEL
#include "../../src/cache/protocol/directory_page.cpp"    // NOLINT: compiled again, with mutations
#include "../../src/cache/protocol/directory_repair.cpp"  // NOLINT
#include "../../src/cache/protocol/message.cpp"           // NOLINT
#include "../../src/cache/protocol/node_page.cpp"         // NOLINT
#include "cache_steps.h"

namespace ocm::cache {
namespace {

class Checker : public Steps {
 public:
  Checker(const World& world, size_t states_max) : Steps(world), states_max_(states_max) { change_cell(); }
  ~Checker() {
    node_table = table::kNodes;
    directory_table = table::kDirectory;
  }
  size_t states() const { return seen_.size(); }
  bool complete() const { return todo_.empty() || !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  std::string counts() const { return std::to_string(steps_) + " steps"; }

  /// True if everything held.
  bool run() {
    reach(first_state(world_), false, "begin");
    while (!todo_.empty() && failure_.empty() && seen_.size() < states_max_) {
      current_ = is_traced() ? todo_.front().id : todo_.back().id;
      const State state = std::move(is_traced() ? todo_.front().state : todo_.back().state);
      is_traced() ? todo_.pop_front() : todo_.pop_back();
      progressed_ = false;
      expand(state);
      if (is_quiet(state)) {
        quiet_.push_back(current_);
        check_quiet(state);
      } else if (!progressed_) {
        fail("I7: nothing happens any more, and somebody waits");
        explain(state);
      }
      if (!failure_.empty()) explain(state);
    }
    if (failure_.empty() && todo_.empty() && world_.liveness) check_liveness();
    return failure_.empty();
  }

 private:
  struct Todo {
    uint32_t id;
    State state;
  };
  void change_cell();

  void reach(State&& state, bool progress, const std::string& label) override {
    ++steps_;
    progressed_ = progressed_ || progress;
    if (!failure_.empty()) {
      if (is_traced() && explained_.empty()) explained_ = label;
      return;
    }
    const auto [at, is_new] =
        seen_.try_emplace(naming_.digest(state, world_.nodes), static_cast<uint32_t>(seen_.size()));
    if (progress && world_.liveness) edges_.emplace_back(current_, at->second);
    if (!is_new) return;
    if (is_traced()) ways_.emplace_back(current_, label);
    todo_.push_back({at->second, std::move(state)});
  }
  void fail(const std::string& what) override {
    if (failure_.empty()) failure_ = what;
  }
  void explain(const State& state) {
    if (!is_traced()) return;
    std::vector<std::string> way{explained_};
    for (uint32_t at = current_; at != 0; at = ways_[at].first) way.push_back(ways_[at].second);
    for (size_t i = way.size(); i > 0; --i) std::printf("  %s\n", way[i - 1].c_str());
    std::printf("  before the last: home %s %s v%llu s%llu e%u;", state_name(state.home.state).data(),
                busy_name(state.home.busy).data(), static_cast<unsigned long long>(state.home.version),
                static_cast<unsigned long long>(state.home.storage_version), state.home.epoch);
    for (size_t n = 0; n < world_.nodes; ++n)
      std::printf(" %zu: %s v%llu e%u%s", n, state_name(state.nodes[n].page.state).data(),
                  static_cast<unsigned long long>(state.nodes[n].page.version), state.nodes[n].page.epoch,
                  state.nodes[n].page.is_kept() ? " kept" : "");
    std::printf("\n");
  }

  /// I7: from every state a quiet one can be reached by what happens by itself.
  void check_liveness() {
    std::vector<uint32_t> begin(seen_.size() + 1, 0), from(edges_.size());
    for (const auto& [source, target] : edges_) ++begin[target + 1];
    for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
    for (const auto& [source, target] : edges_) from[next[target]++] = source;
    std::vector<bool> good(seen_.size(), false);
    std::vector<uint32_t> todo;
    const auto mark = [&](uint32_t id) {
      if (!good[id]) good[id] = true, todo.push_back(id);
    };
    for (const uint32_t id : quiet_) mark(id);
    size_t count = 0;
    while (!todo.empty()) {
      const uint32_t id = todo.back();
      todo.pop_back();
      ++count;
      for (uint32_t i = begin[id]; i < begin[id + 1]; ++i) mark(from[i]);
    }
    if (count != seen_.size()) fail("I7: a request may never be answered");
  }

  const size_t states_max_;
  Naming naming_;
  std::unordered_map<model::Digest, uint32_t, model::DigestHash> seen_;
  std::deque<Todo> todo_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
  std::vector<std::pair<uint32_t, std::string>> ways_;
  std::vector<uint32_t> quiet_;
  std::string failure_, explained_;
  uint32_t current_ = 0;
  uint64_t steps_ = 0;
  bool progressed_ = false;
};

struct NodeChange {
  model::Mutation mutation;
  NodeState state;
  NodeInput input;
  NodeCell cell;
};
struct DirectoryChange {
  model::Mutation mutation;
  PageState state;
  Column column;
  Plan plan;
};
#include "cache_worlds.h"

void Checker::change_cell() {
  for (const NodeChange& change : kNodeChanges) {
    if (change.mutation.name != model::mutation) continue;
    node_table[static_cast<size_t>(change.state)][static_cast<size_t>(change.input)] = change.cell;
  }
  for (const DirectoryChange& change : kDirectoryChanges) {
    if (change.mutation.name != model::mutation) continue;
    directory_table[static_cast<size_t>(change.state)][static_cast<size_t>(change.column)] = change.plan;
  }
}

std::vector<model::Mutation> all_mutations() {
  std::vector<model::Mutation> all;
  for (const NodeChange& change : kNodeChanges) all.push_back(change.mutation);
  for (const DirectoryChange& change : kDirectoryChanges) all.push_back(change.mutation);
  all.insert(all.end(), std::begin(kBroken), std::end(kBroken));
  return all;
}

/// How many cells and rules the worlds that held did not reach.
int print_unreached() {
  int missing = 0;
  const auto miss = [&](const std::string& what) {
    std::printf("not reached: %s\n", what.c_str());
    ++missing;
  };
  for (size_t s = 0; s < kNodeStates; ++s) {
    for (size_t i = 0; i < kNodeTableInputs; ++i) {
      if (table::kNodes[s][i].what == NodeDo::kFault || coverage.node_cells.test(s * kNodeTableInputs + i))
        continue;
      miss(std::string(input_name(static_cast<NodeInput>(i))) + " in " +
           std::string(state_name(static_cast<NodeState>(s))));
    }
  }
  static constexpr const char* kColumns[] = {"GetS", "GetM held", "GetM", "PutS", "PutD", "Clean"};
  for (size_t s = 0; s < kPageStates; ++s) {
    for (size_t c = 0; c < kDirectoryColumns; ++c) {
      if (table::kDirectory[s][c] == Plan::kFault ||
          (coverage.directory_cells >> (s * kDirectoryColumns + c) & 1) != 0)
        continue;
      miss(std::string(kColumns[c]) + " in " + std::string(state_name(static_cast<PageState>(s))));
    }
  }
  for (size_t r = 0; r < kRules; ++r) {
    if ((coverage.rules >> r & 1) == 0) miss(std::string(rule_name(static_cast<Rule>(r))));
  }
  return missing;
}

}  // namespace
}  // namespace ocm::cache

int main(int argc, char** argv) {
  using namespace ocm;
  using namespace ocm::cache;
  if (argc > 2 && std::string_view(argv[1]) == "--world") {  // one of them alone
    const auto walk = [&](const std::vector<World>& worlds) {
      for (const World& world : worlds) {
        if (std::string_view(world.name) == argv[2]) return model::check<Checker>(world, 200'000'000) ? 0 : 1;
      }
      return 2;
    };
    const int walked = walk(kGate);
    return walked != 2 ? walked : walk(kDeep);
  }
  const int failed = model::run<Checker, World>(argc, argv, kGate, kDeep, all_mutations(), 20'000'000);
  const bool walked = argc < 2 || std::string_view(argv[1]) != "--mutations";
  return failed != 0 || (walked && print_unreached() != 0) ? 1 : 0;
}
