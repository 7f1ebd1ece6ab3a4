// Packets of page caches, from daemon to daemon: each has a mailbox, an extent that is no memory, and a put into it is a
// batch of packets. So they have what every put has: the fabric's flow control, its proof of who connects, its TLS.
//
// Invariants
//   B1 a daemon's mailbox takes what the capability opens that the cluster's token gives, and nothing else.
//   B2 what cannot be sent is dropped: couriers repeat it (cache/courier), and bound what waits here.
//   B3 a run of a daemon has one sender, a thread, as long as the view shows that run.
// Threads: node_appeared() and stop() the loop's, or before it runs and after; send() and flush() any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/batch.h"
#include "cache/caches.h"
#include "control/view.h"
#include "node/core.h"
#include "node/directory.h"

namespace ocm::node {

class PageMail {
 public:
  /// All of them outlive this; the mailbox is served from now on.
  PageMail(Core& core, Directory& directory, cache::Caches& caches);
  ~PageMail();
  PageMail(const PageMail&) = delete;
  PageMail& operator=(const PageMail&) = delete;

  /// The mailbox of that run of a daemon, which the table gives nobody: its offset is 0.
  static ExtentId mailbox_of(uint32_t partition) { return {GlobalAddress(partition, 0), 1}; }
  static Capability capability_of(std::span<const std::byte> token, uint32_t partition);

  /// A node, or another run of its daemon, is in the view: it can be sent to, and its former run is over.
  void node_appeared(const control::NodeInfo& node);
  void send(cache::NodeNumber to, uint64_t page_bytes, const cache::PacketHeader& header,
            const cache::PageBytes& bytes);
  /// What send() was given leaves now.
  void flush();
  /// Ends the threads; what is sent from now on is dropped.
  void stop();

 private:
  class Box;
  class Sender;

  Core& core_;
  Directory& directory_;
  cache::Caches& caches_;
  std::mutex mutex_;                                              // guards senders_, is_stopped_
  std::map<cache::NodeNumber, std::shared_ptr<Sender>> senders_;  // B3
  bool is_stopped_ = false;
  std::map<std::string, uint32_t> runs_;        // as the view showed last, by node; the loop's
  std::vector<std::shared_ptr<Sender>> ended_;  // the loop's
};

}  // namespace ocm::node
