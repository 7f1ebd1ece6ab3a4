// A program in the simulation: it speaks control messages to its daemon and moves words as the client library
// does: a put goes to all replicas, and where one did not answer it is acknowledged after the daemon said
// that nobody can read that one any more; a get asks one after the other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "os/memory.h"
#include "world.h"

namespace ocm::simulation {

inline constexpr uint64_t kPieceBytes = 256;  // of an extent

struct Handle {
  std::shared_ptr<Memory> memory;
  std::vector<size_t> places;  // its pieces
  std::vector<bool> lost;      // by place: dropped, as this program knows
  bool owned = false;
  bool ends = false;  // it is being freed
  std::string hold_id;
  std::string receipt;
  /// What ocm_allocation_map() gives, by piece of `memory`: mappings of what was on this host.
  std::map<size_t, os::Mapping> pointers;
};

class Program : public std::enable_shared_from_this<Program> {
 public:
  Program(World& world, size_t node, size_t number, uint64_t seed, int64_t drift_ppm);
  ~Program();

  size_t node() const { return node_; }
  size_t number() const { return number_; }
  uint32_t uid() const { return is_root_ ? 0 : 1000 + static_cast<uint32_t>(number_ % world_.users()); }
  void be_root() { is_root_ = true; }
  bool ended() const { return ended_; }
  /// Its connection closes, whatever it was doing.
  void die();

  /// Operations until the world ends.
  Task<void> live();
  /// Everything works now, or it is a violation.
  Task<void> probe();
  /// Removes every name there is.
  Task<void> sweep(bool& clean);
  /// What the list of names says of this one.
  Task<bool> is_lost(std::string name);

  Task<Result<std::shared_ptr<Handle>>> allocate(Layout layout, std::vector<size_t> nodes,
                                                 size_t at_least = 2);
  Task<Status> publish(Handle& handle, std::string name);
  Task<Result<std::shared_ptr<Handle>>> attach(std::string name, bool hold);
  Task<Status> remove(std::string name);
  Task<Status> free(std::shared_ptr<Handle> handle);
  /// One allocation of several; their handles end.
  std::vector<std::shared_ptr<Handle>> joinable();
  Task<Result<std::shared_ptr<Handle>>> join(std::vector<std::shared_ptr<Handle>> parts);
  Task<Status> put(std::shared_ptr<Handle> handle, size_t cell);
  Task<Status> add(std::shared_ptr<Handle> handle);
  Task<Status> get(std::shared_ptr<Handle> handle, size_t cell);
  /// Into all replicas of one part. A target gets copies of one cell alone, so that its numbers grow. Errors: kExists.
  Task<Status> copy(std::shared_ptr<Handle> from, std::shared_ptr<Handle> to, size_t cell);
  /// Takes pointers to what has the cell on this host, and reads it through all that were taken.
  void check_pointers(Handle& handle, size_t cell);
  /// Takes what its daemon tells unasked, for as long as it lives (W9), and sometimes gives up waiting for it.
  Task<void> listen();
  bool was_told(const Handle& handle) const {
    return told_revoked_.contains(handle.memory->allocation.allocation_id());
  }
  uint64_t events_told = 0, resyncs = 0;
  /// Connects again if its daemon is another one, as the client library does on its own.
  Task<Status> open();
  bool is_connected() const;
  /// `kept`: until its daemon has done with the request, too.
  Task<Result<wire::Envelope>> call(wire::Envelope request, uint64_t bound_ns,
                                    std::shared_ptr<void> kept = nullptr);

  std::shared_ptr<SimEnv> env;
  std::vector<std::shared_ptr<Handle>> handles;
  /// So often it closes its connection once its receipts are shown, as where it can start no watcher.
  size_t resumptions_given_up = 0;

 private:
  struct Channel;
  struct Counted {
    explicit Counted(size_t* in) : count(in) {
      if (count != nullptr) ++*count;
    }
    ~Counted() {
      if (count != nullptr) --*count;
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    size_t* count;
  };
  /// The places of a cell's replicas, or its only one.
  struct Where {
    size_t first, last;
    uint64_t offset;
  };
  Where where(const Handle& handle, size_t cell) const;
  /// What was acknowledged of it was not lost with any node, and nobody let it go.
  bool must_be_there(const Handle& handle, size_t cell) const;
  /// Of those the ones that are not lost, as this program knows.
  static std::vector<size_t> living(const Handle& handle, const Where& where);
  static const Memory::Piece& piece_at(const Handle& handle, size_t place) {
    return handle.memory->pieces[handle.places[place]];
  }
  Task<WordResult> word(size_t node, WordOp op);
  Task<void> word_to(size_t node, WordOp op, WordResult& out);
  Task<void> lose(Handle& handle, size_t place, bool revoked, Status& out);
  /// Where an allocation lies, as a message says.
  void bind(Handle& handle, const wire::Allocation& allocation);
  /// Follows a part that was made again. Errors: those of Remaker::resolve().
  Task<Status> resolve(std::shared_ptr<Handle> handle, ExtentId replica);
  /// Tries until it is done, or there is nothing new to follow.
  Task<Status> follow(std::shared_ptr<Handle> handle, size_t cell, std::function<Task<Status>()> once);
  Task<Status> put_once(std::shared_ptr<Handle> handle, size_t cell, uint64_t value);
  Task<Status> get_once(std::shared_ptr<Handle> handle, size_t cell, uint64_t acked);
  Task<Status> greet();
  struct Began {
    uint64_t at_ns, stops;  // stops: how many faults this node had met
  };
  Began begin() const { return {env->now_ns(), world_.stops(node_)}; }
  /// W5, and W6 while it probes: what began then ends in time, if no fault was at this node.
  void check_in_time(const std::string& what, const Began& began, uint64_t bound_ns);
  /// As the client library does before any other request of a session that was taken up.
  Task<Status> show_receipts();
  void close_connection();
  Task<void> step();
  /// W4: no other has the name of what was published just now.
  void displace_others(const Memory& memory);
  Task<void> copy_to(size_t piece, std::shared_ptr<Handle> to, wire::CopyRequest ask, Status& out);
  /// W4: somebody who began at `began_ns` did not find the name. `other_removals`: under way, and not its
  /// own.
  void check_not_there(const std::string& name, const std::shared_ptr<Memory>& expected, uint64_t began_ns,
                       bool other_removals);
  std::shared_ptr<Memory> published_as(const std::string& name) const;
  /// Its home was never lost, nor had it to free it as an orphan's: of what has a name it never has.
  bool lived(const Memory::Piece& piece, bool named) const {
    return world_.life(piece.node) == piece.life && is_kept(piece, named);
  }
  /// Its home, or those of its part where it ended by itself, did not have to free it as an orphan's.
  bool is_kept(const Memory::Piece& piece, bool named) const;
  /// W2: every replica said that it is gone.
  void lost_all(const Handle& handle, size_t part);
  void check_value(const Memory& memory, size_t cell, uint64_t acked_before, uint64_t value,
                   const char* what);
  uint64_t below(uint64_t bound) { return env->random_number() % bound; }
  uint64_t call_bound_ns() const { return 6 * world_.deadline_ns(); }  // W5
  uint64_t move_bound_ns() const { return 8 * world_.deadline_ns(); }
  uint64_t works_within_ns() const { return world_.deadline_ns() / 10; }  // W6

  World& world_;
  const size_t node_, number_;
  bool is_root_ = false;
  bool ended_ = false;
  bool opening_ = false;
  uint64_t probes_since_ns_ = UINT64_MAX;
  size_t growing_ = 0;        // calls under way that may bring an allocation
  uint64_t session_run_ = 0;  // the daemon that knows the session
  std::shared_ptr<node::Program> session_;
  std::string session_id_, resume_key_;
  struct Freed {
    std::string id, receipt, hold_id;
  };
  bool listens_ = false;
  std::set<std::string> told_revoked_;  // allocation ids
  std::vector<Freed> freed_;            // while there was no daemon: shown to the next one
  std::unordered_map<size_t, std::shared_ptr<Channel>> channels_;
};

}  // namespace ocm::simulation
