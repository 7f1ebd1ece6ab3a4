// The control connection to the daemon: requests out, replies in, matched by id, over a Unix socket.
//
// Nobody owns the reading: whoever waits for a reply reads for all (the reader), the others wait until
// their reply was handed over or the reader has left. A reader spins for a short while before it sleeps,
// because a wake-up costs more than most replies take.
//
// A reply that comes after its caller has given up may carry memory: an allocation, or an attachment with its
// hold. It goes back to the daemon at once; descriptors are closed.
//
// Threads: any. A connection that failed stays failed; every call then answers kNoDaemon.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "os/clock.h"
#include "os/fd.h"
#include "wire/control.h"

namespace ocm::client {

/// A reply and the descriptors that came with it.
struct Reply {
  std::shared_ptr<wire::Envelope> message;
  std::vector<os::Fd> fds;
};

/// A request under way. `reply`, `status` are written before the release store of `done`.
struct Call {
  uint64_t id = 0;
  bool gives_memory = false;              // its reply does: a handle more
  std::shared_ptr<wire::Envelope> again;  // must not be lost: told again where the daemon had no room for it
  std::atomic<bool> done{false};
  Status status;  // the reply's code, or why there is none
  Reply reply;
};

class ControlConnection {
 public:
  explicit ControlConnection(os::Fd socket);
  ~ControlConnection();

  /// Sends `request` (its id is set here). Errors: kTooLarge, kNoDaemon, kDeadline (the daemon takes
  /// nothing; `sent`, which may be null, tells whether it has a part of it and will have the rest).
  Result<std::shared_ptr<Call>> start(wire::Envelope& request, os::Deadline deadline, bool* sent = nullptr);
  /// The same, without waiting for anything: what of it comes late is taken care of. False: nothing was sent.
  bool tell(wire::Envelope& request);
  /// Moves what has arrived; never blocks. True when the call is done.
  bool test(Call& call);
  /// Waits for the reply. At the deadline, or interrupted, the call is given up and kDeadline returned.
  Status wait(Call& call, os::Deadline deadline);

  /// Ends a call that nobody waits for any more; its status becomes `why` unless the reply was faster.
  void cancel(Call& call, const Status& why);

  /// Some calls were given up, and their replies are still to come: somebody should read them with
  /// take_late().
  bool awaits_late() const { return late_.load(std::memory_order_acquire) > 0; }
  void take_late();
  /// `run` is called, by any thread, when a call was given up. Set before the first call.
  void on_given_up(std::function<void()> run) { given_up_ = std::move(run); }
  /// `run` is called, by any thread, with a request to free something, or that says that all was shown, that nobody waits
  /// for any more and the daemon had no room for. Set before the first call.
  void on_refused(std::function<void(std::shared_ptr<wire::Envelope>)> run) { refused_ = std::move(run); }

  /// The peer hung up or broke the protocol: fails what is under way and whatever comes.
  void fail(const Status& why);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  int fd() const { return socket_.get(); }
  /// Each call is awaited or given up, never both, and a connection that failed has none. Cost: all of them.
  bool is_valid() const;

 private:
  /// Reads and hands out what is there. Holds reading_. False when nothing was there.
  bool read_some();
  bool parse_one();
  void finish(const std::shared_ptr<Call>& call, Status status);
  void forget(Call& call);
  /// Takes the call out; its reply may come yet. False if it was done.
  bool give_up(Call& call);
  /// What came for nobody. Holds mutex_. A request that must be told again, or null.
  std::shared_ptr<wire::Envelope> return_late(const wire::Envelope& reply);
  /// Sends returns_ as far as the socket takes it; waits for nobody. Whoever sends meanwhile calls it
  /// afterwards, so that nothing stays behind.
  void send_returns();
  /// All of `bytes`. Errors: kDeadline (`begun`: the rest goes with the next request, for half a message cannot be taken
  /// back), kNoDaemon (the connection failed then).
  Status send_all(const std::string& bytes, os::Deadline deadline, bool& begun);

  os::Fd socket_;
  std::atomic<bool> failed_{false};
  std::atomic<size_t> late_{0};  // ids in given_up_ids_
  std::function<void()> given_up_;
  std::function<void(std::shared_ptr<wire::Envelope>)> refused_;
  std::mutex sending_;  // guards the outgoing stream and unsent_
  std::string unsent_;  // what the socket did not take: of returns, and the rest of a request that was late
  std::mutex reading_;  // the reader's; guards in_, in_used_, fds_
  std::string in_;
  size_t in_used_ = 0;  // bytes of in_ that are filled
  std::deque<os::Fd> fds_;
  bool fds_cut_ = false;      // the kernel dropped descriptors: this process has too many open
  mutable std::mutex mutex_;  // guards the rest; never held across a system call
  std::condition_variable changed_;
  uint32_t sleepers_ = 0;
  uint64_t next_id_ = 1;
  Status why_;
  std::unordered_map<uint64_t, std::shared_ptr<Call>> calls_;
  struct GivenUp {
    bool gives_memory;
    std::shared_ptr<wire::Envelope> again;
  };
  std::unordered_map<uint64_t, GivenUp> given_up_ids_;
  std::string returns_;  // messages for send_returns()
};

}  // namespace ocm::client
