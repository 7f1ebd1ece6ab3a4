// A cluster of whole daemons and their programs in one process, on virtual time, by seed.
//
// What must hold, checked all the time
//   W1 what a put acknowledged, later gets, copies and pointers bring, or something newer; nothing comes that was not put.
//      A pointer to what is over (its replica was given up, its part made again, its name removed) brings what was put
//      some time, or zeros.
//   W2 a replicated allocation answers while one of its replicas' nodes was never lost. A node that was told to stop and ends
//      by itself does not count as lost: it says that another replica is there.
//   W3 no replica is served after its loss was answered (Q1 of control/quorum.h).
//   W4 a name acknowledged is there until it is removed, and gone afterwards.
//      Where voters note names (control/notes.h) that holds whoever coordinates, as long as one council follows the other:
//      E4 of sharing.
//   W5 every call ends in time, whatever is cut off, as long as its own daemon runs: a request to a daemon within six
//      failure deadlines, also where its program has given it up before; a put or a get, which may give up a replica and
//      follow its part, within eight; an atomic within one.
//   W6 when the faults have been over for three failure deadlines, everything works, each call within a tenth of one.
//   W7 when all programs have ended and all names are removed, no byte is used, and voters remember no lost replica once the
//      nodes run again.
//   W8 the invariants of the daemons' own parts (invariants.h).
//   W9 a program that waits for events is told that an allocation is revoked only if it is, and, when the faults have been
//      over for three failure deadlines, of each that is.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/fault.h"
#include "daemon.h"
#include "invariants.h"

namespace ocm::simulation {

class Program;

constexpr uint64_t kCopiesAt = 248;  // in an extent, beyond all cells: where copies come to

/// A word of an allocation, written by one program with growing numbers, or added to by all.
struct Cell {
  uint64_t acked = 0;   // the newest put, or how many adds, that was acknowledged
  uint64_t issued = 0;  // the newest that was tried
};

/// An allocation as nobody in the cluster knows it: all of it.
struct Memory {
  struct Piece {
    ExtentId id;
    size_t part = 0;  // that it is a replica of, or all of
    size_t node = 0;
    uint64_t life = 0;  // of the node when it was made, or first known
    wire::ExtentDescriptor extent;
    bool drop_asked = false;     // somebody called it lost
    bool drop_answered = false;  // and that was acknowledged
    bool known_lost = false;     // so a daemon said
    uint64_t ended_ns = 0;       // its home ended by itself, and took no last copy as it said
    bool is_given_up() const { return drop_asked || known_lost; }
  };
  enum class State { kHeld, kPublishing, kPublished, kRemoving, kRemoved };
  wire::Allocation allocation;
  Layout layout = Layout::kSingle;
  std::vector<Piece> pieces;     // also the former ones of a part that was made again
  std::vector<size_t> newest;    // of them, as far as a program knows
  std::vector<uint32_t> remade;  // by part: how often, so far
  std::vector<Cell> cells;
  uint32_t owner = 0;       // uid
  bool is_private = false;  // as published: its owner's alone
  std::string name;
  State state = State::kHeld;
  uint64_t removed_ns = 0;
  std::optional<std::pair<size_t, uint64_t>>
      asked_for;        // a name, without an answer: by this node in this life
  bool probed = false;  // at the end, by its name
  /// Its name was given to another while its homes were silent (CAVEATS): it may have another name now.
  bool displaced = false;
  uint64_t published_ns = 0;  // acknowledged
  /// When its name was acknowledged, and its removal: the council whose voters noted it; none: they did not note names yet.
  std::optional<control::Council> noted_in, removal_noted_in;
  std::string copied_from;  // what copies bring: allocation id and cell
  uint64_t copied = 0;      // acknowledged: its number then, or a later one
  bool copied_to = false;   // by a copy that may still be under way

  bool replicated() const {
    return layout == Layout::kReplicated || (layout == Layout::kSequence && allocation.replicated_parts());
  }
  /// That have cells of their own: all of a program's numbers in each part of a sequence.
  size_t parts() const { return layout == Layout::kSequence ? allocation.part_bytes_size() : 1; }
  size_t cells_per_part() const { return cells.size() / parts(); }
};

class World;

/// The removal of a name, while its program or its daemon has it. Which allocation it takes is known from its
/// answer alone; without one it is any that could have had the name.
struct Removal {
  Removal(World& in, std::string of);
  ~Removal();
  World& world;
  const std::string name;
  bool concluded = false;
};

struct WorldOptions {
  uint64_t seed = 1;
  size_t nodes = 5;
  size_t programs_per_node = 1;
  size_t users = 1;  // of the programs, in turn
  bool programs_stand_still = false;
  bool random_faults = true;
  size_t seeds = 0;  // 0: node 0 is the coordinator for good; else the role passes on
  bool older_daemons = false;
  bool kill_coordinator = true;
  bool kill_among_faults = false;  // else only when no other is under way
  bool stops_wait = false;         // who is told to stop is told once, and waits until it takes no last copy
  uint64_t fault_seconds = 40;
  uint64_t dram_bytes = uint64_t{1} << 20;  // of each node
  bool coordinator_offers = true;           // some, too
  uint64_t invariants_ns = 10'000'000;      // asked that often
  /// These happen always: mutations.
  std::set<fault::Point> always;
};

class World final : public Network, public fault::Hook {
 public:
  explicit World(const WorldOptions& options);
  ~World() override;

  /// A whole life: faults, peace, the end. What did not hold is in violations().
  void live();

  // ---- for schedules that are given
  void boot();
  /// Runs until `task`, on the program's environment, has ended.
  void run(const std::shared_ptr<Program>& program, Task<void> task);
  void run_for(uint64_t ns) { (void)clock_.run_until(clock_.now_ns() + ns); }
  std::shared_ptr<Program> add_program(size_t node);
  void cut_node(size_t node) { cut(node, true); }
  void restore_node(size_t node) { cut(node, false); }
  void cut_link(size_t a, size_t b);
  void restore_link(size_t a, size_t b);
  /// What `from` sends there is lost.
  void cut_way(size_t from, size_t to);
  void stop(size_t node);
  void resume(size_t node);
  void kill(size_t node, bool power_too);
  /// The next run of the node's daemon finds nothing of what its voter knew.
  void empty_run_dir(size_t node) { nodes_[node].memory->clear(); }
  /// Told to stop, twice; killed once it is ready, or when it is not soon.
  void shut_down(size_t node);
  /// Told to stop once: ends when it takes no last copy (node/stopper.h).
  void stop_when_safe(size_t node);
  void restart(size_t node);
  /// It happens every time, for so long.
  void refuse(fault::Point point, uint64_t for_ms) {
    refused_until_ns_[point] = clock_.now_ns() + for_ms * 1'000'000;
  }
  /// W6: for three failure deadlines the council stays as it is, and what lives has all of its replicas. To be asked when
  /// the faults have been over for the time that copies take to be made again.
  void check_settled();
  /// All replicas that a program knows of an allocation are there.
  void check_made_again(const Memory& memory);
  /// W7: nothing is used on any node.
  void check_unused();
  void tell_of_what_is_left(size_t node) const;
  /// In the middle of what it does.
  void end_program(Program& program);

  // ---- Network
  Ways& ways() override { return ways_; }
  Clock& clock() override { return clock_; }
  std::shared_ptr<Daemon> daemon(size_t node) override { return nodes_[node].daemon; }
  bool has_power(size_t node) const override { return nodes_[node].power; }

  // ---- fault::Hook
  bool happens(fault::Point point) override;
  void reached(fault::State state) override;

  // ---- what programs ask
  uint64_t deadline_ns() const { return 1'500'000'000; }
  size_t nodes() const { return nodes_.size(); }
  size_t writers() const { return writers_; }
  size_t users() const { return options_.users; }
  size_t programs() const { return programs_.size(); }  // so far: their numbers are from 1
  uint64_t life(size_t node) const { return nodes_[node].life; }
  /// Everything that could disturb this node's daemon.
  uint64_t stops(size_t node) const { return nodes_[node].stops_ever + nodes_[node].life; }
  bool ending() const { return ending_; }
  /// What a session of `node` has at `home` may have been freed as an orphan's: the coordinator did not hear
  /// its node for long, and the home could not ask.
  bool may_be_orphaned(size_t node, size_t home) const;
  uint64_t coordinator_since_ns() const { return options_.seeds == 0 ? nodes_[0].since_ns : acts_since_ns_; }
  /// The council whose voters note what is answered now; nothing if they do not.
  std::optional<control::Council> noting() const;
  /// Who coordinates now knows what was noted there.
  bool is_handed_on(const std::optional<control::Council>& noted_in) const;
  /// The daemon that acts as coordinator; null if none does.
  std::shared_ptr<Daemon> coordinator() const;
  uint64_t next_number() { return ++numbers_; }
  /// Under way now: see Removal.
  std::map<std::string, int> removals;
  /// Its name was removed, or it may be just now or have been.
  bool may_be_removed(const Memory& memory) const;
  void violate(const std::string& what);
  void note(uint64_t what, uint64_t a, uint64_t b = 0);
  std::vector<std::shared_ptr<Memory>> published;
  std::set<ExtentId> given;         // with every allocation so far
  std::set<ExtentId> decided_lost;  // as voters knew, so far
  /// The voters decided it, or may just have.
  bool given_up(const Memory::Piece& piece) const {
    return piece.drop_answered || decided_lost.contains(piece.id);
  }
  /// This replica answers, or another one of its part: its home was never lost and it was not given up, or its home ended by
  /// itself and no node was lost since.
  bool is_spared(const Memory::Piece& piece) const {
    return (life(piece.node) == piece.life && !given_up(piece)) || piece.ended_ns > lost_ns_;
  }
  std::map<std::string, std::shared_ptr<Memory>> memories;  // all, by allocation id
  /// The schedule has a lone voter end (CAVEATS): a replica that was given up may be served for a moment.
  bool voters_forget = false;

  const std::vector<std::string>& violations() const { return violations_; }
  uint64_t digest() const { return digest_; }
  const std::set<fault::State>& reached() const { return reached_; }
  std::map<std::string, uint64_t> counts;
  std::map<std::string, uint64_t> longest_ns;  // a call of each kind, where no fault was at its node
  bool trace = false;
  std::function<void(fault::State)> on_state;  // called where it is reached

 private:
  struct Slot {
    std::shared_ptr<Daemon> daemon;
    std::shared_ptr<Daemon::Memory> memory = std::make_shared<Daemon::Memory>();
    bool power = true;
    uint64_t life = 0;
    int stops = 0;
    uint64_t stops_ever = 0;
    uint64_t since_ns = 0;
    int64_t drift_ppm = 0;
  };
  void cut(size_t node, bool is_cut);
  void end_daemon(size_t node);
  void start_daemon(size_t node);
  void disturb(const std::string& what);
  void calm();
  void random_fault();
  void change_clock(size_t node);
  void check_state();
  void measure_silence();
  void follow_coordinator();
  void finish();
  void check_replicas(const control::Allocation& allocation);
  uint64_t below(uint64_t bound) { return random_() % bound; }
  /// Parts in a million: two clocks differ in less than a twentieth.
  int64_t drift_of_a_clock() { return static_cast<int64_t>(below(48'000)) - 24'000; }

  const WorldOptions options_;
  Clock clock_;
  std::mt19937_64 random_;
  Ways ways_;
  std::vector<Slot> nodes_;
  size_t writers_ = 0;
  std::vector<std::shared_ptr<Program>> programs_;
  Invariants invariants_{*this};
  int faults_ = 0;  // under way
  uint64_t killed_ns_ = 0,
           lost_ns_ = 0;  // the last daemon that was told to end, or ended; that did so before it was safe
  std::vector<uint64_t> heard_ns_, silent_ns_;  // by pair of nodes: the last time; the longest silence
  uint64_t refuse_until_ns_ = 0;
  std::map<fault::Point, uint64_t> refused_until_ns_;
  uint64_t acting_run_ = 0, acts_since_ns_ = 0;
  bool ending_ = false, over_ = false;
  uint64_t numbers_ = 0, runs_ = 0, digest_ = 1469598103934665603ull;
  std::vector<std::string> violations_;
  std::set<fault::State> reached_;
};

}  // namespace ocm::simulation
